#!/bin/sh
# Installs what netc needs through the system's package manager. Asks nothing; does nothing when all
# is there. The NVIDIA driver and libraries are not installed: netc opens them when they are present.
missing=
need() { # command-or-header package
    case $1 in
    /*) [ -e "$1" ] ;;
    lib*) PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | grep -q "$1" ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac || missing="$missing $2"
}
need cc gcc
need g++ g++ # tests run generated CUDA through it
need make make
need flex flex
need bison bison
need /usr/include/zlib.h zlib1g-dev
need libopenblas.so.0 libopenblas0-pthread
# The Python package's tests want the headers of the Python that is called so, and NumPy; they say what they skip.
if command -v python3 >/dev/null 2>&1; then
    headers=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null)
    case $(python3 -c 'import sys; print(sys.executable)' 2>/dev/null) in
    /usr/bin/*)
        [ -e "$headers/Python.h" ] || missing="$missing python3-dev"
        python3 -c 'import numpy' 2>/dev/null || missing="$missing python3-numpy"
        ;;
    esac
else
    missing="$missing python3-dev python3-numpy"
fi
# Folders and archives of images are read through these where they are there; tests say what they skip.
images=
want() { PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | grep -q "$1" || images="$images $2"; }
want libspng.so.0 libspng0
want libturbojpeg.so.0 libturbojpeg0
want libarchive.so.13 libarchive13
[ -z "$missing$images" ] && exit 0
[ -n "$missing" ] || command -v apt-get >/dev/null 2>&1 || exit 0
echo "installing:$missing$images"
if ! command -v apt-get >/dev/null 2>&1; then
    echo "this system has no apt-get; install these (Debian's names) and run make again:$missing" >&2
    exit 2
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
if { $sudo apt-get update -qq && { [ -z "$missing" ] || $sudo apt-get install -y -qq --no-install-recommends $missing; }; } >"$log" 2>&1; then
    for p in $images; do # called otherwise elsewhere; netc runs without them
        $sudo apt-get install -y -qq --no-install-recommends "$p" >>"$log" 2>&1 || echo "not installed: $p"
    done
    rm -f "$log"
elif [ -z "$missing" ]; then
    echo "not installed:$images (folders of images cannot be read)"
    rm -f "$log"
else
    cat "$log" >&2
    rm -f "$log"
    echo "could not install:$missing" >&2
    exit 2
fi

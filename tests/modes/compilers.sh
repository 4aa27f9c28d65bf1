#!/bin/bash
# Every C file compiles without a warning under gcc and under clang. The one that built netc has compiled them all, with
# -Werror; the other one reads them here.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
built=gcc
readelf -p .comment "$NETC" 2>/dev/null | grep -q clang && built=clang
for cc in gcc clang; do
    if ! command -v $cc >/dev/null; then skip "$cc is not installed"; continue; fi
    if [ $cc = $built ]; then pass; continue; fi
    expect 0 "" make --no-print-directory BUILD="$BUILD" CC=$cc syntax
done
finish

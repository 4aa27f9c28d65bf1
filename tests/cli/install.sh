#!/bin/bash
# What `make install` leaves is enough to build and run a program on the library, shared and static.
. "$(dirname "$0")/../lib.sh"
expect 0 "" make -C "$ROOT" --no-print-directory BUILD="$BUILD" DESTDIR="$W/root" PREFIX=/usr install
R=$W/root/usr
for f in bin/netc lib/libnetc.a lib/libnetc.so include/netc.h lib/pkgconfig/netc.pc share/man/man1/netc.1 \
    share/bash-completion/completions/netc; do
    [ -e "$R/$f" ] && pass || fail "no $f"
done
expect 0 "netc " "$R/bin/netc" --version
sed 's/\\//g' "$R/share/man/man1/netc.1" > man # every option stands in the manual
for verb in $(verbs); do
    grep -qx ".SS $verb" man || fail "the manual lacks $verb"
    for option in $("$R/bin/netc" $verb --help | sed -n 's/^  .*\(--[a-z-]*\).*/\1/p'); do
        grep -q -e " $option " man && pass || fail "the manual lacks $option"
    done
done
grep -q '^prefix=/usr$' "$R/lib/pkgconfig/netc.pc" && pass || fail "netc.pc: $(cat "$R/lib/pkgconfig/netc.pc")"
expect 0 "train" env PATH="$R/bin:$PATH" bash -c '. "$1"; COMP_WORDS=(netc tra) COMP_CWORD=1; _netc; echo "${COMPREPLY[@]}"' - \
    "$R/share/bash-completion/completions/netc" 2>/dev/null
flags=("-I$R/include" "-L$R/lib" -lnetc)
if command -v pkg-config >/dev/null; then
    read -ra flags < <(PKG_CONFIG_PATH=$R/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$W/root pkg-config --cflags --libs netc)
fi
sanitize=
nm -D "$R/lib/libnetc.so" | grep -q __asan_init && sanitize=-fsanitize=address,undefined
expect 0 "" ${CC:-cc} $sanitize "$ROOT/samples/host/host.c" -o shared "${flags[@]}" -lm
expect 0 "learnt: 5" env LD_LIBRARY_PATH="$R/lib" ./shared
expect 0 "" ${CC:-cc} $sanitize "$ROOT/samples/host/host.c" -o static -I"$R/include" "$R/lib/libnetc.a" -ldl -lm -lpthread -lz
expect 0 "learnt: 5" ./static
# The header stands alone, in C and in C++; nothing but netc_ names is exported.
expect 0 "" ${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c "$R/include/netc.h"
if command -v g++ >/dev/null; then
    expect 0 "" g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ "$R/include/netc.h"
else
    skip "no g++: the header is not tried in C++"
fi
foreign=$(nm -D --defined-only "$R/lib/libnetc.so" | awk '$2 ~ /[TDBR]/ && $3 !~ /^netc_/ { print $3 }' | grep -vE '^(_|__asan)' | head)
[ -z "$foreign" ] && pass || fail "exported: $foreign"
# What is linked against the build's library runs with it: it lies there under its soname, too.
expect 0 "" test "$BUILD/libnetc.so.0" -ef "$BUILD/libnetc.so"
finish

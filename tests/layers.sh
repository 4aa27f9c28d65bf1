#!/bin/sh
# Enforces who may include whom (the map in docs/design.md): reads the #include lines of every folder.
cd "$(dirname "$0")/.." || exit 1
bad=0 n=0
check() { # folder allowed-prefixes...
    folder=$1; shift
    for f in "$folder"/*.[chly]; do
        [ -e "$f" ] || continue
        n=$((n + 1))
        for inc in $(sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p' "$f"); do
            ok=
            for prefix in "$@"; do case $inc in $prefix*) ok=1 ;; esac; done
            [ -n "$ok" ] || { echo "$f includes $inc; $folder/ may include only: $*"; bad=$((bad + 1)); }
        done
    done
}
check base base/
check ir base/ ir/
check frontend base/ ir/ frontend/
check passes base/ ir/ passes/
check codegen base/ ir/ codegen/
# Tile programs know bodies; only what prints them knows printers.
check codegen/tile base/ codegen/ir/index.h codegen/kernel_ir.h codegen/tile/ codegen/cuda/print_cuda.h codegen/tile/wgmma.h
for f in codegen/tile/*.[ch]; do
    case $f in */print*.[ch] | */attention_print.[ch] | */attention_weights.c | */operands.c | */plain.c | */results.c) continue ;; esac
    n=$((n + 1))
    found=$(grep -nE '#include "codegen/(tile/)?print' "$f")
    [ -z "$found" ] || { echo "$f includes a printer"; bad=$((bad + 1)); }
done
check runtime base/ codegen/program.h runtime/
check cli include/netc.h base/ cli/
check lib base/ ir/ frontend/ passes/ codegen/ runtime/ lib/ include/netc.h
for f in lib/*.c; do # the map of lib/ is whole
    n=$((n + 1))
    grep -q "\`${f#lib/}\`" docs/design.md || { echo "docs/design.md does not say what $f is"; bad=$((bad + 1)); }
done
# The library's texts are the same in every locale: base/plain.h has what depends on it elsewhere.
for f in base/*.[chly] ir/*.[chly] frontend/*.[chly] passes/*.[chly] codegen/*.[chly] codegen/tile/*.[ch] runtime/*.[chly] lib/*.[chly]; do
    case $f in base/plain.c|'*'*|*/'*'*) continue ;; esac
    n=$((n + 1))
    found=$(tr '\n' ' ' < "$f" | sed 's/;/;\n/g' | grep -v 'plain_format(' |
        grep -oE '\b(strto[dfl]d?|atof|sscanf|v?snprintf|v?asprintf|fnmatch|strn?casecmp|isalpha|isalnum|isdigit|isspace|toupper|tolower)\(.*' |
        grep -E '^(strto(d|f|ld)|atof|vsnprintf|vasprintf|fnmatch|strn?casecmp|is[a-z]*|to[a-z]*)\(|%[-+ #0-9.*]*[aefgAEFG]' | head -1)
    [ -z "$found" ] || { echo "$f depends on the locale: $(echo "$found" | cut -c1-60)"; bad=$((bad + 1)); }
done
for f in $(git ls-files '*.c' '*.h' '*.y' '*.l' 2>/dev/null); do
    [ -e "$f" ] || continue
    lines=$(wc -l < "$f")
    [ "$lines" -le 800 ] || { echo "$f has $lines lines; 800 is the limit"; bad=$((bad + 1)); }
done
echo "$((n - bad)) passed, $bad failed, 0 skipped"
[ $bad -eq 0 ]

#!/bin/bash
# A compiler whose kernels have one mistake: line MUTANT_AT of those that MUTANT_FIND matches is put as MUTANT_PUT
# says, in the first text that has it ($MUTANT_DIR/hit then says so). Stands for cc (CC) and, on the host
# shim, for g++ (SHIM_CXX). Without MUTANT_FIND it keeps the texts it sees ($MUTANT_DIR/text.*; the first is
# $MUTANT_DIR/text, too). MUTANT_IN: the kernel whose lines count alone. MUTANT_FLAGS: more options for the C compiler.
# MUTANT_SEEN(x) in a text ends the process where x is true; with MUTANT_SEEN=reached wherever it is evaluated.
set -u
source=
for a in "$@"; do
    case $a in */raw.cc | */[0-9]*.c) source=$a ;; esac
done
case $source in
    *.cc) real=g++ begin='^namespace m[0-9]+ \{' ;;
    *.c) real=cc begin='k_[0-9a-f]{16}' ;;
    *)
        for a in "$@"; do case $a in *.cc | -std=c++*) exec g++ "$@" ;; esac; done
        case " $* " in *" -shared "*k.so*) exec g++ "$@" ;; esac
        exec cc "$@" ;;
esac
first=$(grep -nE -m1 -- "$begin" "$source" | cut -d: -f1)

kernels() { # the text of the kernels; lines of kernels that do not count are empty
    tail -n +"$first" "$source" | awk -v only="${MUTANT_IN:-}" '
        /^[^ ]/ && match($0, /k_[0-9a-f]+/) && RLENGTH == 18 { kernel = substr($0, RSTART, 18) }
        { print only == "" || kernel == only ? $0 : "" }'
}

if [ -n "$first" ]; then
    if [ -z "${MUTANT_FIND:-}" ]; then
        kernels >"$MUTANT_DIR/text.$$"
        mkdir "$MUTANT_DIR/seen" 2>/dev/null && cp "$MUTANT_DIR/text.$$" "$MUTANT_DIR/text"
    else
        line=$(kernels | grep -nE -- "$MUTANT_FIND" | sed -n "${MUTANT_AT}p" | cut -d: -f1)
        if [ -n "$line" ] && mkdir "$MUTANT_DIR/hit" 2>/dev/null; then
            line=$((first + line - 1))
            sed -n "${line}p" "$source" >"$MUTANT_DIR/hit/before"
            sed -i -E "${line}s"$'\x01'"$MUTANT_FIND"$'\x01'"$MUTANT_PUT"$'\x01' "$source"
            sed -n "${line}p" "$source" >"$MUTANT_DIR/hit/after"
        fi
    fi
fi
seen='((x) ? __builtin_trap() : (void)0)'
[ "${MUTANT_SEEN:-}" != reached ] || seen='__builtin_trap()'
set -- "$@" "-DMUTANT_SEEN(x)=$seen"
[ $real = g++ ] || set -- "$@" ${MUTANT_FLAGS:-}
exec $real "$@"

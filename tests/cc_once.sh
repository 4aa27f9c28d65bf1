#!/bin/bash
# Stands for cc where generated C is compiled (CC): a kernel whose text it has compiled before, behind the same prelude and
# with the same options, is linked from that object. `netc check` builds a model three times, and most kernels of the
# third build are those of the first. KERNELS: the folder that keeps them ($TMP/kernels); REAL_CC: the compiler (cc);
# CC_FLAGS: more options.
set -u
cc() { command ${REAL_CC:-cc} "$@" ${CC_FLAGS:-}; }
source= out= kind= options=()
all=("$@")
while [ $# -gt 0 ]; do
    case $1 in
    -o) out=$2; shift ;;
    -c | -shared) kind=$1 ;;
    -lm) ;;
    */[0-9]*.c) source=$1 ;;
    *) options+=("$1") ;;
    esac
    shift
done
# (parts of a program may take different kernels from one object)
[ -n "$source" ] || { cc "${all[@]}" -Wl,-z,muldefs; exit; }
first=$(grep -nE -m1 'k_[0-9a-f]{16}' "$source" | cut -d: -f1)
if [ -z "$first" ] || tail -n +"$first" "$source" | grep -qE '^ *#(define|undef|include|line|if)'; then
    cc "${all[@]}" # (a model's own text, with macros)
    exit
fi
key=$({ echo "${REAL_CC:-cc} ${options[*]} ${CC_FLAGS:-}"; head -n $((first - 1)) "$source"; } | md5sum)
home=${KERNELS:-$TMP/kernels}/${key%% *} work=$source.once
mkdir -p "$home" "$work"
trap 'rm -rf "$work"' EXIT

# Writes what is new to $work: all.c with the prelude, and each kernel's text alone; prints the objects that have the others.
known=$(awk -v first="$first" -v home="$home" -v work="$work" '
    function before(file,    line, s) { while ((getline line <file) > 0) s = s line "\n"; close(file); return s }
    NR < first { prelude = prelude $0 "\n"; next }
    { text = text $0 "\n" }
    /^void k_[0-9a-f]+\(/ { name = substr($2, 1, index($2, "(") - 1) }
    /^}/ && name != "" {
        old = before(home "/" name ".c")
        if (old == text) objects[before(home "/" name ".o")]
        else if (old != "") exit different = 1 # (by a test that changes it: of one name an object has the other)
        else { fresh = fresh text; printf "%s", text >(work "/" name ".c"); close(work "/" name ".c") }
        text = name = ""
    }
    END {
        if (different || text ~ /[^ \n]/) exit 3
        if (fresh != "") printf "%s%s", prelude, fresh >(work "/all.c")
        for (o in objects) printf "%s", o
    }' "$source") || { cc "${all[@]}"; exit; }
objects=($known)
if [ -e "$work/all.c" ]; then
    object=$home/$$.$RANDOM.o
    cc "${options[@]}" -c -o "$object" "$work/all.c" || exit
    rm "$work/all.c"
    for c in "$work"/*.c; do echo "$object" >"${c%.c}.o"; done
    mv "$work"/*.o "$home"; mv "$work"/*.c "$home" # (the text last: it says that the object is there)
    objects+=("$object")
fi
case $kind in
-c) ld -r -z muldefs -o "$out" "${objects[@]}" ;;
*) cc "${options[@]}" -shared -Wl,-z,muldefs -o "$out" "${objects[@]}" -lm ;;
esac

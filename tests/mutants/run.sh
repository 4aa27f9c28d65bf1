#!/bin/bash
# Single mistakes in generated kernels, which `netc check` and the host shim's reports must catch. Every kind of
# kernel (tests/shim/net) gets every kind of mistake (tests/mutants/mistakes) in its first line that can have
# it and in one in the middle, as C and as CUDA on the host shim.
#
#   tests/mutants/run.sh BUILD [WORD...]   only mutants whose name (NET LANGUAGE MISTAKE AT) holds all words
#
# SHARE=N: every N-th mutant. JOBS: at a time. OUT (BUILD/mutants): a line each in results; what is there is
# not run again, so a stopped run goes on. tests/mutants/equal lists mutants that compute the same and why.
# Ends with the survivors and "N passed, N failed, N skipped": caught, survived, equal.
set -u
cd "$(dirname "$0")/../.."
here=tests/mutants BUILD=$1; shift
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
OUT=${OUT:-$BUILD/mutants} JOBS=${JOBS:-$(nproc)}
NETC=$BUILD/netc
mkdir -p "$OUT"; : >>"$OUT/results"
export NETC BUILD OUT here

check() { # NET LANGUAGE: with CC or SHIM_CXX that makes mistakes
    if [ "$2" = c ]; then
        CC=$PWD/$here/cc.sh timeout 200 "$NETC" check "tests/shim/net/$1.net" --device cpu --cache-dir ''
    else
        SHIM_CXX=$PWD/$here/cc.sh LD_LIBRARY_PATH=$BUILD/shim timeout 300 "$NETC" check "tests/shim/net/$1.net" \
            --device cuda:0 --cache-dir ''
    fi
}

text() { # NET LANGUAGE: the kernels as they are, in $OUT/NET.LANGUAGE; they must be right
    local file=$OUT/$1.$2
    [ -s "$file" ] && return
    export MUTANT_DIR; MUTANT_DIR=$(mktemp -d)
    if check "$1" "$2" >"$MUTANT_DIR/log" 2>&1 && [ -s "$MUTANT_DIR/text" ]; then mv "$MUTANT_DIR/text" "$file"
    else echo "broken $1 $2: $(grep -E 'WRONG|error' "$MUTANT_DIR/log" | head -1)"; fi
    rm -rf "$MUTANT_DIR"
}

mutant() { # NET LANGUAGE MISTAKE AT FIND PUT
    local dir state at
    dir=$(mktemp -d)
    MUTANT_DIR=$dir MUTANT_FIND=$5 MUTANT_PUT=$6 MUTANT_AT=$4 check "$1" "$2" >"$dir/log" 2>&1
    case $? in 0) state=survived ;; *) state=caught ;; esac
    if [ ! -d "$dir/hit" ]; then state=absent
    elif cmp -s "$dir/hit/before" "$dir/hit/after"; then state=absent; fi
    at=$(sed 's/^ *//' "$dir/hit/before" 2>/dev/null | cut -c1-100)
    echo "$state $1 $2 $3 $4: $at" >>"$OUT/results"
    rm -rf "$dir"
}
export -f check text mutant

for f in tests/shim/net/*.net; do
    for language in c cuda; do echo "$(basename "$f" .net) $language"; done
done | xargs -P "$JOBS" -L1 bash -c 'text "$@"' _

mutants() { # NET LANGUAGE MISTAKE AT, then FIND and PUT, parted by tabs
    local f net language name wanted find put n at
    for f in "$OUT"/*.c "$OUT"/*.cuda; do
        [ -s "$f" ] || continue
        net=$(basename "${f%.*}") language=${f##*.}
        while IFS=$'\t' read -r name wanted find put; do
            case $name in '#'* | '') continue ;; esac
            [ "$wanted" = both ] || [ "$wanted" = "$language" ] || continue
            n=$(grep -cE -- "$find" "$f")
            for at in 1 $((n / 2 + 1)); do
                [ "$n" -gt 0 ] && [ "$at" -le "$n" ] && printf '%s %s %s %s\t%s\t%s\n' "$net" "$language" "$name" "$at" "$find" "$put"
            done
        done <"$here/mistakes"
    done | sort -u
}

mutants >"$OUT/all"
for word in "$@"; do grep -E "^[^	]*$word" "$OUT/all" >"$OUT/some"; mv "$OUT/some" "$OUT/all"; done
awk -v share="${SHARE:-1}" 'NR % share == 0' "$OUT/all" | while IFS=$'\t' read -r name find put; do
    grep -q "^[a-z]* $name: " "$OUT/results" && continue
    printf '%s\0%s\0%s\0' "$name" "$find" "$put"
done | xargs -0 -r -n3 -P "$JOBS" bash -c 'mutant $1 "$2" "$3"' _

equal=0
while read -r state name; do
    [ "$state" = survived ] || continue
    if grep -qF "${name%%:*}:" $here/equal; then equal=$((equal + 1)); else echo "survived $name"; fi
done <"$OUT/results"
caught=$(grep -c '^caught' "$OUT/results") survived=$(($(grep -c '^survived' "$OUT/results") - equal))
echo "$caught passed, $survived failed, $equal skipped"
[ $((survived * 20)) -le $((caught + survived)) ]

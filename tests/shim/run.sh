#!/bin/bash
# Runs generated CUDA without a GPU: every .net here and in tests/net is checked (`netc check`) on a
# device made of the host, which executes the CUDA text thread by thread and reports races, accesses
# out of bounds and divergent barriers (shim.h). A new kind of kernel needs a .net file in net/;
# variants says how it asks for more sizes.
#
# The first line of a file of net/ is checked in all builds; of the others (more sizes, options, the files of tests/net) a fifth is,
# others each day (today, lib.sh), and of the rest the fused build. The file `checked` has digests of the kernels' text, with the prelude
# and the shim, of lines that passed: of lines whose digest is there one of eight is checked, others each day.
#
#   bash tests/shim/run.sh --update     checks what has another digest, and writes `checked` anew: after changes of kernels
#
# SHIM_ONLY=WORD: only files whose name holds it. SHIM_ALL=1: all their sizes, in all builds. SHIM_TIMES=1: how long each took.
. "$(dirname "$0")/../lib.sh"
SHIM=$BUILD/shim
needs_shim
export SHIM_STATS=$W/stats
on_shim() { LD_LIBRARY_PATH=$SHIM${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"; }

# one FUSED FILE OPTIONS...: checks a file on the shim (FUSED not empty: the fused build); leaves a line in $W/results.
one() {
    local out fused=$1 file=$2 begin=${EPOCHREALTIME/./}; shift 2
    [ -z "$fused" ] || local -x NETC_CHECK_FUSED=1
    out=$(on_shim timeout 3000 "$NETC" check "$file" --device cuda:0 --cache-dir '' "$@" 2>&1)
    # (sizes of 1 decide little, sums of one element are what they were; cli/check.sh looks at the usual ones)
    if [ $? -eq 0 ] && ! grep -qE 'WRONG|BAD|gradients? could|AddressSanitizer|runtime error:' <<<"$out" &&
        grep -q 'kernels on cuda:0' <<<"$out"; then
        echo "ok $(((${EPOCHREALTIME/./} - begin) / 1000)) ms ${file##*/} $*${fused:+ (fused)}" >>"$W/results"
    else
        echo "failed: ${file#"$ROOT"/} $*: $(grep -E 'WRONG|BAD|gradients? could|error|kernel |race|Sanitizer' <<<"$out" | head -4)" >>"$W/results"
        return 1
    fi
}

# What a line of the record depends on besides its kernels.
record=$ROOT/tests/shim/checked
base=$(cd "$ROOT" && cat $(ls codegen/prelude/c*.h | grep -v cuda_radix) tests/shim/{kernel,ptx}.h tests/shim/{grid,late,matrix,memory,rewrite}.c | sha256sum | cut -c 1-8)
# turn NUMBER FUSED FILE OPTIONS...: checks a line unless it is known. One with its digest in $W/digests is one that passed.
turn() {
    local number=$1 fused=$2 file=$3 text; shift 3
    text=$(program_digest "$file" "$@" 2>/dev/null)
    text="${text:+$base}${text:-none} ${file#"$ROOT"/}${*:+ $*}"
    if [ -n "${SHIM_ALL:-}" ] || [[ $text = none* ]] || ! grep -qxF -- "$text" "$record" ||
        { [ -z "$update" ] && [ $(((number + SEED) % 8)) = 0 ]; }; then
        one "$fused" "$file" "$@" || return
    else
        echo "ok 0 ms (known) ${file##*/} $*" >>"$W/results"
    fi
    echo "$text" >>"$W/digests"
}

: >"$W/results"
last= number=0 update=
[ "${1:-}" != --update ] || update=1
while read -r file options; do
    fused=
    [ -n "$update" ] || today || [[ $file = */shim/net/* && $file != "$last" ]] || fused=1
    last=$file number=$((number + 1))
    case $file in *"${SHIM_ONLY:-}"*) ;; *) continue ;; esac
    while [ "$(jobs -rp | wc -l)" -ge "${SHIM_JOBS:-2}" ]; do wait -n; done
    # shellcheck disable=SC2086
    turn $number "$fused" "$file" $options &
done < <(SEED=$([ -n "$update" ] || echo "$SEED") "$ROOT/tests/shim/variants")
wait
if [ -n "$update" ] && [ -z "${SHIM_ONLY:-}" ]; then grep -v '^none' "$W/digests" | sort -k2 >"$record"; fi
passed=$(grep -c '^ok ' "$W/results"); failed=$(grep -c '^failed' "$W/results"); grep '^failed' "$W/results"
[ -z "${SHIM_TIMES:-}" ] || grep '^ok ' "$W/results" | sort -k2nr
finish

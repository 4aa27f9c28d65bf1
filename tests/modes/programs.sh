#!/bin/bash
# Random programs (tests/fuzz/programs) from a fixed seed against the evaluator, on the CPU and on the host
# shim: each day a third of them, the next one a day later (SEED); SHIM_ALL=1: all three. `make fuzz` tries others, for long;
# tests/fuzz/programs_gpu.sh tries them on a GPU. FUZZ_SEED: other programs.
. "$(dirname "$0")/../lib.sh"
cpu=340 shim=50 noise=400 devices=40 # (all ops are in each third of those on the CPU)
case $BUILD in *asan*) cpu=70 shim=10 noise=100 devices=8 ;; esac # the sanitizers take ten times as long

# (as in cli/check.sh: 40 % of the compiler's time less)
printf '#!/bin/sh\nexec %s "$@" -O1 -fno-ivopts -fstrict-aliasing\n' "${CC:-cc}" >cc
chmod +x cc
export CC=$PWD/cc

# fuzz WHAT COUNT OPTION...: the day's third, of so many; fails with the summary and the failures, cut down.
fuzz() {
    local what=$1 count=$2 first=$((SEED % 3 * $2)); shift 2
    [ -z "${SHIM_ALL:-}" ] || count=$((3 * count)) first=0
    "$BUILD/fuzz-programs" --seed "${FUZZ_SEED:-11}" --jobs 2 --first $first --count "$count" --out "$W/$what" "$@" >"$W/log" 2>&1 &&
        pass || fail "random programs on $what: $(grep -v '^\.\.\.' "$W/log" | tail -20; cat "$W/$what"/*.net 2>/dev/null | head -80)"
    local done; done=$(sed -n 's/^\([0-9]*\) programs, .*/\1/p' "$W/log")
    [ "${done:-0}" -ge "$count" ] && pass || fail "${done:-no} programs of $count ran on $what: $(tail -5 "$W/log")"
}

# A device that runs nothing is told at once, and no program is counted as a failure.
LIMIT=100 expect 2 "fuzz-programs: cuda:99 cannot run 'x + 1': " "$BUILD/fuzz-programs" --device cuda:99 --count 100000000 --out "$W/none"
[ "$(wc -l <"$W/.out")" = 1 ] && [ ! -e "$W/none" ] && pass || fail "of a device that is not there: $(head -5 "$W/.out")"

fuzz cpu $cpu
# Every op of the table stands in some program, but for the mark of a failed construction, those that passes make, and code of
# the user's own (cli/extern.sh).
ops=$(sed -n 's/^ops that no program had://p' "$W/log")
[ "$cpu" -lt 340 ] || [ "$ops" = " native repair device exchange extern own poison" ] && pass || fail "the generator makes no:$ops"
# The bound admits every rounding: the evaluator's own, falling otherwise.
fuzz noise $noise --device noise
# Steps that two devices share.
fuzz devices $devices --device cpu,cpu --size small
if command -v g++ >/dev/null || command -v "${SHIM_CXX:-}" >/dev/null; then
    export LD_LIBRARY_PATH=$BUILD/shim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    fuzz shim $shim --device cuda:0 --size tiny
else
    skip "no g++: the CUDA text cannot be run on the host"
fi
finish

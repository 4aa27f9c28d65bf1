#!/bin/bash
# Runs every test and ends with one line: N passed, N failed, N skipped.
# usage: tests/run.sh BUILD_DIR [WORD...]   (only tests whose path holds one of the words)
# REQUIRE_GPU=1 turns "no GPU" skips into failures. SEED (the day of the year): of sizes that are drawn, and which part of what tests
# take turns with is looked at today (today, tests/lib.sh); SHIM_ALL=1 MODES=all: all of it.
#
# A test is a program or a script that prints "N passed, N failed, N skipped" as its last line, and
# why it skipped in lines that begin with "skip". One that ends without that line counts as a failure.
set -u
cd "$(dirname "$0")/.."
case ${1:-} in -*) sed -n '2,5s/^# //p' "$0"; [ "$1" = --help ]; exit ;; esac
export BUILD=${1:-build}; shift
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
export NETC=$BUILD/netc
TMP=$(mktemp -d); export TMP
trap 'rm -rf "$TMP"' EXIT
export XDG_CACHE_HOME=$TMP/cache SHIM_CACHE=$TMP/shim-cache
mkdir "$SHIM_CACHE"
export SEED=${SEED:-$((10#$(date +%j)))}
echo "SEED=$SEED"
export NETC_VERIFY=1 # graphs are verified after every pass
# Under the sanitizers: NVRTC keeps memory of its own until the process ends, and its thread-local
# variables are where the leak checker's bookkeeping does not expect them: it would crash.
export ASAN_OPTIONS=intercept_tls_get_addr=0
export LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0 UBSAN_OPTIONS=print_stacktrace=1
words=("$@") count=0
JOBS=${JOBS:-$(nproc 2>/dev/null || echo 2)} # tests at a time

# one NUMBER NAME COMMAND...: runs it and reports in one piece.
one() {
    local out=$TMP/out.$1 name=$2 line code cpu start=$SECONDS p=0 f=1 s=0; shift 2
    mkdir "$out.tmp" # a folder of its own: tests run side by side, and some run others
    TMP=$out.tmp timeout 7200 "$@" >"$out" 2>&1; code=$?
    times >"$out.times" # of this subshell, then of its children: user and system, 0m0.000s
    cpu=$(awk -F'[ms ]+' 'NR == 2 { printf "%.0f", $1 * 60 + $2 + $3 * 60 + $4 }' "$out.times")
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$out" | tail -1)
    if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
        p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[3]}
        if [ $code -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
        if [ "${REQUIRE_GPU:-0}" = 1 ] && grep -q '^skip.*GPU' "$out"; then f=$((f + s)) s=0; fi
    fi
    {
        if [ "$f" -gt 0 ]; then
            printf 'FAIL %-36s (exit %d)\n' "$name" $code; sed 's/^/     | /' "$out" | tail -40
        else
            printf 'ok   %-36s %5d passed, %d skipped, %d s (%d s of processors)\n' "$name" "$p" "$s" $((SECONDS - start)) "$cpu"
            grep '^skip' "$out" | sed 's/^/     | /'
        fi
    } >"$out.report"
    cat "$out.report"
    echo "$p $f $s" >"$out.counts"
}

run() { # name command...
    if [ "${#words[@]}" -gt 0 ]; then
        local hit=; for w in "${words[@]}"; do case $1 in *"$w"*) hit=1 ;; esac; done
        [ -n "$hit" ] || return
    fi
    while [ "$(jobs -rp | wc -l)" -ge "$JOBS" ]; do wait -n; done
    count=$((count + 1))
    one $count "$@" &
}

# The longest go first, so that none of them is left alone at the end; then the other scripts.
names() {
    local t
    printf '%s\n' shim/run.sh cli/check.sh cards/run.sh shim/windows.sh shim/schedules.sh modes/passes.sh shim/unit.sh unit/lib_golden \
        net/run.sh shim/statistics.sh shim/updates.sh shim/patches.sh shim/grouped.sh unit/codegen_lower shim/hot_sums.sh \
        shim/windows3.sh shim/convolutions.sh modes/programs.sh modes/short_rows.sh workflows/run.sh shim/grid.sh shim/joined.sh shim/depthwise.sh
    for t in tests/*/*.sh; do
        case $t in tests/fuzz/* | tests/mutants/*) ;; *) echo "${t#tests/}" ;; esac
    done
    echo layers
    for t in "$BUILD"/tests/unit/*; do
        case $t in *.o | *.d) ;; *) [ -x "$t" ] && echo "unit/${t##*/}" ;; esac
    done
}
golden='-O1 -fno-ivopts'
[ $((SEED % 3)) = 0 ] || golden='-Og -fno-tree-vectorize -fno-openmp-simd'
mapfile -t tests < <(names | awk '!seen[$0]++')
for t in "${tests[@]}"; do
    case $t in
    # (what kernels compute, not what the compiler makes of them at -O2; on two of three days not as vectors: half of the time)
    unit/lib_golden) run "$t" env CC="$PWD/tests/cc_once.sh" REAL_CC="${CC:-cc}" CC_FLAGS="$golden" "$BUILD/tests/$t" ;;
    unit/*) run "$t" "$BUILD/tests/$t" ;;
    layers) run layers sh tests/layers.sh ;;
    *) run "$t" bash "tests/$t" ;;
    esac
done
wait
passed=0 failed=0 skipped=0
for ((i = 1; i <= count; i++)); do
    p=0 f=1 s=0
    [ -e "$TMP/out.$i.counts" ] && read -r p f s <"$TMP/out.$i.counts"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]

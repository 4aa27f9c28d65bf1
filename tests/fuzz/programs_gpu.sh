#!/bin/bash
# Random programs on a GPU: 3,000 of all sizes, production's included, then a hundred under initcheck and
# racecheck. Needs a built fuzz-programs (FUZZ, default build/fuzz-programs), gcc and nothing else.
#
#   OUT=FOLDER tests/fuzz/programs_gpu.sh [COUNT [SEED]]
#
# OUT (default build/programs_gpu): log, failures cut down, sanitizer's reports. FUZZ_MINUTES (7): no
# program begins after so long. Ends with "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.."
FUZZ=${FUZZ:-build/fuzz-programs} OUT=${OUT:-build/programs_gpu} count=${1:-3000} seed=${2:-1}
export FUZZ OUT seed
passed=0 failed=0 skipped=0
mkdir -p "$OUT"

"$FUZZ" --device cuda:0 --size production --count "$count" --seed "$seed" --minutes "${FUZZ_MINUTES:-7}" \
    --out "$OUT/found" >"$OUT/log" 2>&1; code=$?
[ $code = 0 ] && passed=$((passed + 1)) || failed=$((failed + 1))
[ $code != 2 ] || { cat "$OUT/log"; echo "0 passed, 1 failed, 2 skipped"; exit 1; } # an unusable device
grep ': program ' "$OUT/log" | head -40; tail -3 "$OUT/log"

# sanitize TOOL FIRST: four programs. The matmul library is left out: initcheck does not see what it stores.
sanitize() {
    local file=$OUT/$2.net log=$OUT/$1.$2.log
    "$FUZZ" --print "$2" --count 4 --batch 4 --seed "$seed" --size small >"$file"
    timeout 300 compute-sanitizer --tool "$1" --error-exitcode 9 --launch-timeout 0 --show-backtrace device \
        --print-limit 20 --port $((20000 + 2 * $2)) --max-connections 8 "$FUZZ" --file "$file" --device cuda:0 --variant no-library --seed "$seed" >"$log" 2>&1 &&
        grep -q 'SUMMARY: 0 ' "$log" && { rm "$log"; echo ok; } || echo "FAIL $1 $file"
}
export -f sanitize
if command -v compute-sanitizer >/dev/null; then
    for tool in initcheck racecheck; do
        seq 0 4 96 | xargs -P "$(nproc)" -I{} bash -c "sanitize $tool {}" >"$OUT/$tool.results"
        grep FAIL "$OUT/$tool.results"
        echo "$tool: $(grep -c '^ok' "$OUT/$tool.results") of $(wc -l <"$OUT/$tool.results") files of 4 programs clean"
        grep -q FAIL "$OUT/$tool.results" && failed=$((failed + 1)) || passed=$((passed + 1))
    done
else
    echo "skip: compute-sanitizer is not here"; skipped=$((skipped + 2))
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]

#!/bin/bash
# Random workflows (tests/workflows/random) from a fixed seed, a few of the checks of each. FLOWS_SEED: others; for long:
# python3 tests/workflows/random/flows.py --seed N --count 1000000 --seconds 3600 --jobs 2
. "$(dirname "$0")/../lib.sh"
PYTHON=${PYTHON:-python3}
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || { skip "no Python of 3.8 or later"; finish; }
export PYTHONDONTWRITEBYTECODE=1 PYTHON XDG_CACHE_HOME=$W/cache
# (as in cli/check.sh: 40 % of the compiler's time less)
printf '#!/bin/sh\nexec %s "$@" -O1 -fno-ivopts -fstrict-aliasing\n' "${CC:-cc}" >cc
chmod +x cc
export CC=$PWD/cc
others=again,resumed,killed,logged,initial,tuned,passes,accumulated,evaluated,deployed,trained_bin
expect 0 " 0 failed" "$PYTHON" "$ROOT/tests/workflows/random/flows.py" --seed "${FLOWS_SEED:-1}" --count 6 --jobs 2 --checks 3 --only $others --out "$W/flows"
[ $failed = 0 ] || cat "$W"/flows/*.txt | head -150
grep -qE '^6 workflows, 1[0-8] checks' "$W/.out" && pass || fail "$(tail -1 "$W/.out")"
finish

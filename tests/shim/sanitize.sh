#!/bin/bash
# bench/sanitize.sh: what it runs and what it makes of the tool's words. A script plays compute-sanitizer,
# the shim the device.
. "$(dirname "$0")/../lib.sh"
command -v g++ >/dev/null || { skip "no g++: nothing runs on the shim"; finish; }
mkdir bin
cat >bin/compute-sanitizer <<'SH'
#!/bin/bash
tool=$2
[ "$1" = --version ] && { echo "tool of the test"; exit; }
while [[ $1 == --* ]]; do shift 2; done
"$@" || exit
case $tool in
    racecheck) echo "========= Error: Race reported between Write access at sums+0x10"; exit 9 ;;
    synccheck) echo "========= Internal Sanitizer Error" ;;
    *) echo "========= ERROR SUMMARY: 0 errors" ;;
esac
SH
chmod +x bin/compute-sanitizer
LD_LIBRARY_PATH=$BUILD/shim
export PATH=$W/bin:$PATH LD_LIBRARY_PATH OUT=$W/out SANITIZE_JOBS=2 SANITIZE_DEVICE='host shim' SANITIZE_SECONDS=1200 SANITIZE_LIMIT=1200
sanitize() { # CODE TEXT WORD TOOL...
    local code=$1 text=$2 word=$3; shift 3
    SANITIZE_ONLY=$word SANITIZE_TOOLS=$* expect "$code" "$text" bash "$ROOT/bench/sanitize.sh" "$NETC"
}
sanitize 0 '6 clean, 0 not clean, 0 not run, 0 other' shim/net/scan memcheck
holds 'memcheck   6 of 6 clean'
sanitize 1 '1 clean, 2 not clean' 'n=257' memcheck racecheck synccheck
holds 'FAIL racecheck scan:-D,n=257,-D,rows=70 (found'
holds 'Race reported between Write access at sums+0x10'
holds 'FAIL synccheck scan:-D,n=257,-D,rows=70 (tool-failed' # it ended well, but never said so
grep -q 'Race reported' out/racecheck.scan* && pass || fail 'no log of what was found'
SANITIZE_SECONDS=0 sanitize 1 '0 clean, 0 not clean, 1 not run, 5 other sizes not run' shim/net/scan memcheck
SANITIZE_SECONDS=0 sanitize 1 '1 not run' 'wgmma:own,tile_n=64,.* -D m=136' memcheck # (tests/shim/schedules.sh runs such products)
finish

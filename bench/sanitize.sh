#!/bin/bash
# compute-sanitizer over every kind of kernel: every .net that runs generated CUDA in the tests, products
# by groups of warps, and training in every precision; all of it under memcheck, racecheck, initcheck and
# synccheck. Many small processes share the GPU, as many at once as there are cores.
#
#   bench/sanitize.sh [NETC]        a line each that is not clean, and the sum; exit 1 when there is one
#
# racecheck takes no note of what `__syncwarp` orders before a lane's arrival at an mbarrier (bench/results,
# 23 November 2026), which blocks that share columns count on (wgmma=split): it is left out for them.
#
# First comes every kind once, then the other sizes: 147 processes took 143 s on 16 cores and an H200.
# SANITIZE_SECONDS (150): what has not begun by then is counted as not run; of a kind that is a failure.
# SANITIZE_ONLY=PATTERN: only what matches. SANITIZE_TOOLS, SANITIZE_JOBS. OUT: logs of what failed.
set -u
cd "$(dirname "$0")/.."
export NETC=${1:-build/netc} OUT=${OUT:-build/sanitize}
tools=${SANITIZE_TOOLS:-memcheck racecheck initcheck synccheck}
export BEGIN=$EPOCHSECONDS DEADLINE=$((EPOCHSECONDS + ${SANITIZE_SECONDS:-150}))
command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not here"; exit 1; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export WORK=$work XDG_CACHE_HOME=$work/cache
mkdir -p "$OUT" "$XDG_CACHE_HOME"
compute-sanitizer --version | tail -1

# Products by groups of four warps, which small sizes do not take by themselves: a tuning file for here.
groups() { # MODEL FILE SCHEDULE OPTION...
    local net=tests/shim/net/$1.net file=$work/$2 schedule=$3 device name; shift 3
    device=$(nvidia-smi --query-gpu=name --format=csv,noheader -i 0 2>/dev/null)
    { echo '# netc tune 1'
      $NETC inspect "$net" --target sm_90 --knobs --no-library "$@" |
          sed "s/: tile .*wgmma=no.*/: tile $schedule/; s/: / @ ${SANITIZE_DEVICE:-$device}: /"; } >"$file"
    name=${schedule#*=}; echo "0 wgmma:${name// /,} $NETC check $net --device cuda:0 --no-library --tune-file $file --locked $*"
}

# What is run, a line each: PART NAME COMMAND. Part 0: every kind once; 1: other sizes.
commands() {
    local p file options
    checks() { # PART, lines of tests/shim/variants
        while read -r file options; do
            echo "$1 $(basename "$file" .net)${options:+:${options// /,}} $NETC check $file --device cuda:0 --no-library $options"
        done
    }
    SHIM_ALL=1 tests/shim/variants | sed "s|$PWD/||" >"$work/variants"
    grep -E '^tests/shim/[^ ]*( --|$)' "$work/variants" | checks 0
    groups mma own 'wgmma=own tile_n=64 cluster=2' -D m=136 -D n=72 -D k=200
    groups mma split 'wgmma=split tile_n=128 cluster=3' -D m=264 -D n=200 -D k=1032
    groups mma both 'wgmma=together tile_n=128 cluster=1' -D m=200 -D n=136 -D k=72
    groups windows windows 'wgmma=own tile_n=64 cluster=1' --precision bf16 -D h=9
    groups windows strided 'wgmma=together tile_n=128 cluster=1' --precision f16 -D stride=2 -D c=128
    groups windows skips 'wgmma=own tile_n=64 cluster=1' -D stride=2 -D b=9 -D h=12
    groups windows apart 'wgmma=own tile_n=64 cluster=1' -D stride=2 -D u=1 -D v=1 -D low=0 -D high=0
    # initcheck does not see what the matmul library stores: of training in bf16 it reported that logits
    # read what nobody wrote, at the address of the library's result. It has the generated products only.
    for p in f32 tf32 bf16 f16; do
        p="$p $NETC bench bench/mlp.net --entry train --device cuda:0 --steps 6 --repeats 2 --compiles 0 --precision $p"
        echo "0 train:$p"
        echo "0 own:train:$p --no-library"
    done
    grep -vE '^tests/shim/[^ ]*( --|$)' "$work/variants" | checks 1
}

one() { # TOOL NUMBER PART NAME COMMAND...: a line into $WORK/results
    local tool=$1 number=$2 part=$3 name=$4 begin=${EPOCHREALTIME/./} state=ok log=$WORK/$2.$1; shift 4
    if [ "$EPOCHSECONDS" -ge "$DEADLINE" ]; then echo "late$part $tool $name" >>"$WORK/results"; return; fi
    timeout -k 5 "${SANITIZE_LIMIT:-60}" compute-sanitizer --tool "$tool" --error-exitcode 9 --launch-timeout 0 \
        --show-backtrace device --print-limit 20 --port $((20000 + 8 * number)) --max-connections 8 "$@" >"$log" 2>&1
    local code=$?
    case $code in
        0) grep -q 'SUMMARY: 0 ' "$log" || state=tool-failed ;;
        9) state=found ;;
        124 | 137) state=timeout ;;
        *) state=exit-$code ;;
    esac
    echo "$state $tool $name $(((${EPOCHREALTIME/./} - begin) / 1000)) $log" >>"$WORK/results"
}
export -f one

commands | grep -E -- "${SANITIZE_ONLY:-}" >"$work/commands"
# Training once without a tool, so that the library's algorithms are chosen and not timed under each.
grep '^0 train:' "$work/commands" | cut -d' ' -f3- | xargs -P4 -I{} sh -c '{} >/dev/null 2>&1'
: >"$work/results"
awk -v tools="$tools" '
    BEGIN { n = split(tools, tool, " ") }
    { line[NR] = $0 }
    END { for (part = 0; part < 2; part++)
              for (t = 1; t <= n; t++)
                  for (i = 1; i <= NR; i++)
                      if (line[i] ~ "^" part && !(tool[t] == "initcheck" && line[i] ~ /^0 train:/) &&
                          !(tool[t] == "racecheck" && line[i] ~ /wgmma:split/))
                          print tool[t], ++number, line[i] }' "$work/commands" |
    xargs -P "${SANITIZE_JOBS:-$(nproc)}" -I{} bash -c 'one {}'

ok=0 bad=0 late0=0 late1=0
while read -r state tool name ms log; do
    case $state in
        ok) ok=$((ok + 1)); continue ;;
        late?) ((++$state)); continue ;;
    esac
    bad=$((bad + 1))
    head -c 30000 "$log" >"$OUT/$tool.${name//[^a-zA-Z0-9=.,-]/_}.txt"
    echo "FAIL $tool $name ($state, $ms ms)"
    grep -vE '^========= *$|COMPUTE-SANITIZER|^ *[a-z]+ +(fused|unfused|no library)' "$log" | cut -c1-180 | head -"${SANITIZE_LINES:-8}" | sed 's/^/     | /'
done < <(sort -k2,2 -k3,3 "$work/results")
for tool in $tools; do
    awk -v t="$tool" '$2 == t && $1 !~ /^late/ { n++; ms += $4; if ($4 > m) { m = $4; w = $3 } if ($1 == "ok") ok++ }
        END { printf "%-10s %d of %d clean, %.1f s each, the longest %.1f s (%s)\n", t, ok, n, ms / (n ? n : 1) / 1000, m / 1000, w }' "$work/results"
done
echo "$ok clean, $bad not clean, $late0 not run, $late1 other sizes not run; $((EPOCHSECONDS - BEGIN)) s"
[ $bad -eq 0 ] && [ $late0 -eq 0 ]

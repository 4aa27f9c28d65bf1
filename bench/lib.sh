# Shared by the benchmark scripts: results are JSON lines in $results, a table is printed at the end.
# Set before use: results (a file), out (a folder),
# hardware, driver.

# beside_jax NAME: for a script that measures $build on the CPU beside JAX, in the root of the repository. Sets netc, results
# (RESULTS or bench/results/NAME.jsonl), out, hardware, py (PEER_PYTHON or python3; empty: no JAX there) and jax_version.
beside_jax() {
    netc=$build/netc
    [ -x "$netc" ] || { echo "$netc is not there: run make first" >&2; exit 1; }
    results=${RESULTS:-bench/results/$1.jsonl}
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
    export XDG_CACHE_HOME=$out/cache
    hardware="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) threads, load $(cut -d' ' -f1 /proc/loadavg)"
    driver=none
    py=${PEER_PYTHON:-python3}
    jax_version=$("$py" -c 'import jax; print(jax.__version__)' 2>/dev/null) || py=
}

median() { # of the numbers on standard input, one a line
    sort -g | awk '{ v[NR] = $1 } END { if (NR) printf "%.6g\n", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

json() { printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g'; }

field() { # NAME FILE: the last number of that name in a file of JSON lines
    grep -o "\"$1\":[ ]*[-0-9.e+]*" "$2" | tail -1 | sed 's/.*://; s/ //g'
}

# record WHAT VALUE UNIT COMMAND [PEER PEER_VERSION PEER_VALUE]
# ratio: how many times better than the peer (less is better for every unit but those a second).
record() {
    local what=$1 value=$2 unit=$3 command=${4//$out\//} peer=${5:-} version=${6:-} pv=${7:-} ratio=""
    [ -n "$value" ] || return 0
    if [ -n "$pv" ]; then
        ratio=$(awk -v a="$value" -v b="$pv" -v u="$unit" \
            'BEGIN { if (a > 0 && b > 0) printf "%.3f", u ~ /\/s$/ ? a / b : b / a }')
    fi
    {
        printf '{"date":"%s","hardware":"%s","driver":"%s","command":"%s","what":"%s","value":%s,"unit":"%s"' \
            "$(date -u +%FT%TZ)" "$(json "$hardware")" "$(json "$driver")" "$(json "$command")" \
            "$(json "$what")" "$value" "$unit"
        [ -n "$pv" ] && printf ',"peer":"%s","peer_version":"%s","peer_value":%s,"ratio":%s' \
            "$(json "$peer")" "$(json "$version")" "$pv" "${ratio:-null}"
        printf '}\n'
    } >>"$results"
    printf '%-52s %12s %-6s' "$what" "$value" "$unit"
    [ -n "$pv" ] && printf ' %-28s %12s   %sx' "$peer" "$pv" "$ratio"
    printf '\n'
}

elapsed() { # seconds that a command takes, whole process; its output goes to $out/last.txt
    local begin=$EPOCHREALTIME
    "$@" >"$out/last.txt" 2>&1 || { echo "failed: $*" >&2; tail -5 "$out/last.txt" >&2; return 1; }
    awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.6f\n", b - a }'
}

# Seconds of each epoch but the first, from a training log with one report an epoch and no evaluation.
epoch_seconds() {
    grep -v eval_ "$1" | grep -o '"seconds":[0-9.e+-]*' | cut -d: -f2 | awk 'NR > 1 { print $1 - last } { last = $1 }'
}

# Seconds of each epoch but the first, as the peers print them.
peer_epoch_seconds() { grep '"epoch"' "$1" | tail -n +2 | grep -o '"seconds": [0-9.e+-]*' | sed 's/.* //'; }

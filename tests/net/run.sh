#!/bin/bash
# Runs every tests/net/**/*.net: expectations are comments beside the line they are about.
#
#   x = foo(y)      # error: text        compiling fails with an error on this line that holds text
#   # value NAME = 1 2 3                 running the (only) model gives these first elements (1e-5)
#   # kernels ENTRY TARGET: 3            kernels and library calls an execution takes
#   # ops ENTRY OP STAGE: 2              how many OP nodes the entry has at that stage (ir, grad, fused)
#   # lines STAGE: 1 TEXT               how many lines of --emit STAGE hold TEXT
#   # option: -D n=3                     given to every command
#   # checked: -D n=3                    given to 'netc check' (cli/check.sh, shim/run.sh), which would take minutes
# A file without expectations must compile, and its models that have no inputs must run: their asserts hold.
# Runs from the root of the repository, two files at a time. OPTIONS: more options for every command.
# SHARE=1/3: every third file, from the second on. NUMBERS_ONLY=1: values and asserts only, for options that change kernels but no number.
cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0
fail() { echo "$1: $2"; failed=$((failed + 1)); }
pass() { passed=$((passed + 1)); }

one() {
    local f=$1 options n=0
    options="${OPTIONS:-} $(sed -n 's/^# option: //p' "$f")"
    if grep -q '# error: ' "$f"; then
        [ -z "${NUMBERS_ONLY:-}" ] || return
        "$NETC" $options "$f" >"$TMP/net.out" 2>&1; local code=$?
        [ $code -eq 1 ] && pass || fail "$f" "exit code $code, wanted 1: $(head -3 "$TMP/net.out")"
        while IFS=: read -r line text; do
            text=${text#*# error: }
            if grep -F ".net:$line:" "$TMP/net.out" | grep -qF -- "$text"; then pass
            else fail "$f:$line" "no error '$text' here; got: $(grep -E 'error:' "$TMP/net.out" | head -5)"; fi
        done < <(grep -n '# error: ' "$f")
        local want got
        want=$(grep -c '# error: ' "$f") got=$(grep -cE '^[^ ].*: error: ' "$TMP/net.out")
        [ "$want" = "$got" ] && pass || fail "$f" "$got errors, wanted $want: $(grep -E 'error:' "$TMP/net.out" | head -8)"
        return
    fi
    if grep -q '^# value ' "$f"; then
        n=1
        if "$NETC" run -q --device cpu $options "$f" >"$TMP/net.out" 2>&1; then
            while read -r _ _ name _ values; do
                if awk -v name="$name" -v want="$values" '
                    $1 == name { sub(/^[^]]*\] ?/, ""); sub(/ \.\.\.$/, ""); have = $0; found = 1 }
                    END {
                        n = split(want, w); m = split(have, h)
                        if (!found || m < n) exit 1
                        for (i = 1; i <= n; i++) {
                            if (w[i] == h[i]) continue
                            d = w[i] - h[i]; a = w[i] < 0 ? -w[i] : w[i]
                            if (w[i] !~ /^[-+0-9.]/ || h[i] ~ /nan|inf/ || (d < 0 ? -d : d) > 1e-5 * a + 1e-6) exit 1
                        }
                    }' "$TMP/net.out"; then pass
                else fail "$f" "wanted $name = $values, got: $(grep "^$name " "$TMP/net.out")"; fi
            done < <(grep '^# value ' "$f")
        else fail "$f" "netc run failed: $(head -5 "$TMP/net.out")"; fi
    fi
    while read -r _ _ entry target want; do
        n=1
        [ -z "${NUMBERS_ONLY:-}" ] || continue
        local got
        got=$("$NETC" inspect --json --target "${target%:}" $options "$f" 2>"$TMP/err" | awk -v e="\"name\":\"$entry\",\"arena" '
            { at = index($0, e); if (!at) { print "no entry"; exit } s = substr($0, at); end = index(s, "]}"); s = substr(s, 1, end)
              print gsub(/"kind":"(kernel|gemm)"/, "", s) }')
        [ "$got" = "$want" ] && pass || fail "$f" "$entry on ${target%:} takes $got kernels, wanted $want $(head -2 "$TMP/err")"
    done < <(grep '^# kernels ' "$f")
    while read -r _ _ entry op stage want; do
        n=1
        [ -z "${NUMBERS_ONLY:-}" ] || continue
        local got
        got=$("$NETC" --emit "${stage%:}" $options "$f" 2>"$TMP/err" |
              awk -v e="^entry $entry " -v o=" = $op\\\\(" '$0 ~ /^entry /{on = $0 ~ e} on && $0 ~ o{n++} END{print n + 0}')
        [ "$got" = "$want" ] && pass || fail "$f" "$entry has $got $op nodes at ${stage%:}, wanted $want $(head -2 "$TMP/err")"
    done < <(grep '^# ops ' "$f")
    while read -r _ _ stage want text; do
        n=1
        [ -z "${NUMBERS_ONLY:-}" ] || continue
        local got
        got=$("$NETC" --emit "${stage%:}" $options "$f" 2>"$TMP/err" | grep -cF -- "$text")
        [ "$got" = "$want" ] && pass || fail "$f" "$got lines of ${stage%:} hold '$text', wanted $want $(head -2 "$TMP/err")"
    done < <(grep '^# lines ' "$f")
    if [ $n -eq 0 ]; then
        if "$NETC" $options "$f" -q >"$TMP/net.out" 2>&1; then pass; else fail "$f" "$(head -5 "$TMP/net.out")"; fi
        local m
        for m in $(sed -n 's/^model \([A-Za-z_0-9]*\)().*/\1/p' "$f"); do
            if "$NETC" run -q --entry "$m" --device cpu $options "$f" >"$TMP/net.out" 2>&1; then pass
            else fail "$f" "$m: $(head -5 "$TMP/net.out")"; fi
        done
    fi
}

# share N OF: every OF-th file from the N-th on; ends with its counts.
share() {
    local at=0 f
    TMP=$TMP/net.$1; mkdir -p "$TMP"
    while read -r f; do
        [ $((at++ % $2)) -eq "$1" ] && one "$f"
    done < <(find tests/net -name '*.net' | sort | awk -v share="${SHARE:-0/1}" '{ split(share, s, "/") } NR % s[2] == s[1]')
    echo "counts $passed $failed"
}

: "${NETC:=$PWD/build/netc}" "${TMP:=$(mktemp -d)}"
# (what kernels compute, not what the compiler makes of them at -O2; on two of three days not as vectors: half of the time)
flags='-O1 -fno-ivopts'
[ $((${SEED:-0} % 3)) = 0 ] || flags='-Og -fno-tree-vectorize -fno-openmp-simd'
[ -n "${NUMBERS_ONLY:-}" ] || export REAL_CC=${CC:-cc} CC=$PWD/tests/cc_once.sh KERNELS=$TMP/kernels CC_FLAGS=$flags
export OMP_NUM_THREADS=2 # a CPU of so many threads is what kernels are counted for
share 0 2 >"$TMP/net.0.log" 2>&1 &
share 1 2 >"$TMP/net.1.log" 2>&1 &
wait
for log in "$TMP"/net.[01].log; do
    grep -v '^counts ' "$log"
    read -r _ p f < <(tail -1 "$log")
    passed=$((passed + p)) failed=$((failed + ${f:-1}))
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]

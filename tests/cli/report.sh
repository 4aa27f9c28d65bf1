#!/bin/bash
# bench/report.sh: the best peer, shares of the copy, bars met and not; files that are no results. And
# bench/kernels.c compiles against the public header alone.
. "$(dirname "$0")/../lib.sh"
R=("$ROOT/bench/report.sh")
row() { # WHAT VALUE UNIT [PEER PEER_VALUE RATIO]
    printf '{"date":"2026-01-02T03:04:05Z","hardware":"H","driver":"D","what":"%s","value":%s,"unit":"%s"%s}\n' "$1" "$2" "$3" \
        "${4:+,\"peer\":\"$4\",\"peer_version\":\"1\",\"peer_value\":$5,\"ratio\":$6}"
}
{
    row "AdamW 16x7750000" 4100 GB/s "torch fused" 3400 1.206
    row "AdamW 16x7750000" 4100 GB/s "jax" 3500 1.171
    row "AdamW 16x7750000" 4100 GB/s "copy of the same bytes" 4200 0.976
    row "softmax 131072x768" 3900 GB/s "torch compile" 4000 0.975
    row "softmax 131072x768" 3900 GB/s "copy of the same bytes" 4200 0.929
    row "layer norm 131072x768" 4050 GB/s "torch compile" 4000 1.012
    row "layer norm 131072x768" 4050 GB/s "copy of the same bytes" 4400 0.92
    row "step of 784-128-64-10, batch 64, tf32" 20 us "jax scan" 36 1.8
    row "rms norm 131072x768" 4000 GB/s
    row "unlisted: rms norm 98304x1000" 3700 GB/s "netc, listed sizes" 4000 0.925
    row "something else" 1 s
} > r.jsonl
expect 0 "H, driver D, 2026-01-02" "${R[@]}" r.jsonl
has() { grep -qE "$1" "$W/.out" && pass || fail "no row like $1 in: $(cat "$W/.out")"; }
has '^\| AdamW 16x7750000 \| 4100 \| GB/s \| jax \(1\) \| 3500 \| 1.171 \| 97.6 % \| ratio ≥ 1.1 \| rate ≥ 4000 \| aim \|$'
has '^\| softmax 131072x768 .* \*\*no\*\* \|$'
has '^\| layer norm 131072x768 .* 92.0 % .* yes \|$'
has '^\| step of 784-128-64-10, batch 64, tf32 .* yes \|$'
has '^\| rms norm 131072x768 .* not measured \|$'
has '^\| unlisted: rms norm 98304x1000 .* yes \|$'
has '^\| something else \| 1 \| s \|  \|  \|  \|  \|  \|  \|  \|$'
has '^6 rows have bars: 1 reach the aim, 3 more the must, 1 do not, 1 were not measured\.$'
row "softmax 131072x768" 4200 GB/s "torch compile" 4000 1.05 >> r.jsonl # a second run of the same
expect 0 "1 reach the aim, 4 more the must, 0 do not" "${R[@]}" r.jsonl
expect 0 "rows have bars" "${R[@]}" "$ROOT"/bench/results/h200_20261121.jsonl
expect 1 "usage" "${R[@]}"
expect 1 "cannot read" "${R[@]}" nofile.jsonl
: > none.jsonl
expect 1 "no results" "${R[@]}" none.jsonl
printf 'what is this\n' > bad.jsonl
expect 1 "line 1 is no result" "${R[@]}" bad.jsonl
expect 0 "" "${CC:-cc}" -std=gnu17 -Wall -Wextra -Werror -fsyntax-only -I"$ROOT/include" "$ROOT/bench/kernels.c"
finish

#!/bin/bash
# bench/workloads: each network is read, differentiated and listed with its parameters, and is one that the script and its peer know;
# those that bench/serving.sh measures have an entry that predicts, for any batch.
. "$(dirname "$0")/../lib.sh"
for file in "$ROOT"/bench/workloads/*.net; do
    name=$(basename "$file" .net)
    expect 0 "." "$NETC" inspect "$file" --params
    "$NETC" fmt --check "$file" >out 2>&1 && pass || fail "fmt: $(head -3 out)"
    grep -qw "$name" "$ROOT/bench/workloads.sh" && grep -q "^def $name()" "$ROOT"/bench/peers/workloads*_torch.py && pass || fail "$name is not measured"
    grep -q "^all=.*\\b$name\\b" "$ROOT/bench/serving.sh" || continue
    batch=$([ "$name" = gcn ] || echo "-D batch=1")
    # shellcheck disable=SC2086
    expect 0 "entry predict" "$NETC" inspect "$file" $batch --precision bf16 --target sm_90
done
# bench/gpu_ops.net: each operation is one that its peer has.
expect 0 "entry sum_rows" "$NETC" inspect "$ROOT/bench/gpu_ops.net" --target sm_90
while read -r name; do
    grep -qE "(^    | )$name=" "$ROOT/bench/peers/gpu_ops_torch.py" && pass || fail "bench/peers/gpu_ops_torch.py lacks $name"
done < <(sed -n 's/^model \([a-z_0-9]*\)(.*/\1/p' "$ROOT/bench/gpu_ops.net")
finish

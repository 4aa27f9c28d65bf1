#!/bin/bash
# Everything that needs a GPU, in one command, for a machine that may have only gcc and make.
#
#   bench/device_check.sh pack [BUILD]      before, where netc was built: puts generated sources, programs
#                                           and MNIST into .carry/
#   bench/device_check.sh [STEP...]         on the GPU machine; steps: build unit doctor train curve bin
#                                           profile (the default), suite, sanitize, peers, bench
#
# Results go to $OUT (default build/device_check): log.txt and JSON lines. Ends with one line,
# "N passed, N failed, N skipped", and exits 1 when something failed.
set -u
cd "$(dirname "$0")/.."
carry=.carry

if [ "${1:-}" = pack ]; then
    build=${2:-build}
    rm -rf $carry/gen $carry/mnist $carry/bin
    mkdir -p $carry/gen/frontend $carry/gen/codegen $carry/mnist $carry/bin
    cp "$build"/frontend/{parse,scan}.[ch] "$build"/frontend/std_text.c $carry/gen/frontend/ || exit 1
    cp "$build"/codegen/prelude_text.c $carry/gen/codegen/ || exit 1
    mnist=${MNIST_DIR:-../shared/data/mnist}
    [ -d "$mnist" ] && cp "$mnist"/*ubyte* $carry/mnist/ && chmod u+w $carry/mnist/*
    strip -o $carry/bin/netc "$build/netc" 2>/dev/null
    XDG_CACHE_HOME=$(mktemp -d) "$build/netc" samples/mnist/mlp.net -o $carry/bin/mlp.bin --target cuda \
        --arch sm_80,sm_90,sm_100 || echo "mlp.bin was not made: the step 'bin' will be skipped"
    du -sh $carry
    exit 0
fi

OUT=${OUT:-build/device_check}
mkdir -p "$OUT" build
OUT=$(cd "$OUT" && pwd)
log=$OUT/log.txt
: >"$log"
passed=0 failed=0 skipped=0
export REQUIRE_GPU=1
export XDG_CACHE_HOME=$OUT/cache
mnist=${MNIST_DIR:-$carry/mnist}
[ -e "$mnist/train-images-idx3-ubyte.gz" ] || mnist=../shared/data/mnist
netc=build/netc
data=(--data "image=$mnist/train-images-idx3-ubyte.gz" --data "label=$mnist/train-labels-idx1-ubyte.gz")
test_data=(--eval-data "image=$mnist/t10k-images-idx3-ubyte.gz"
           --eval-data "label=$mnist/t10k-labels-idx1-ubyte.gz")

say() { echo "$*" | tee -a "$log"; }
ok() { passed=$((passed + 1)); say "ok   $*"; }
bad() { failed=$((failed + 1)); say "FAIL $*"; }
skip() { skipped=$((skipped + 1)); say "skip $*"; }
run() { # name, command...: its output to the log, its tail when it fails
    local name=$1; shift
    echo "== $name: $*" >>"$log"
    if "$@" >"$OUT/last.txt" 2>&1; then cat "$OUT/last.txt" >>"$log"; ok "$name"; return 0; fi
    cat "$OUT/last.txt" >>"$log"
    bad "$name"
    tail -25 "$OUT/last.txt" | sed 's/^/     | /'
    return 1
}

step_build() {
    # The generated sources are newer than what they are made from, in the order make thinks of.
    if [ -d $carry/gen ] && ! command -v bison >/dev/null; then
        mkdir -p build/frontend build/codegen
        cp $carry/gen/frontend/* build/frontend/
        cp $carry/gen/codegen/* build/codegen/
        touch build/frontend/parse.[ch]; sleep 0.05
        touch build/frontend/scan.[ch] build/frontend/std_text.c build/codegen/prelude_text.c
    fi
    if ! run build make -j"$(nproc)" build/netc unit; then
        [ -x $carry/bin/netc ] && cp $carry/bin/netc build/netc && say "     using the netc built elsewhere"
        make -k -j"$(nproc)" build/tests/unit/runtime_cuda build/tests/unit/runtime_cuda_gemm \
            build/tests/unit/runtime_cuda_compile >>"$log" 2>&1
    fi
}

step_unit() {
    local t
    for t in runtime_cuda runtime_cuda_gemm runtime_cuda_compile codegen_lower runtime_exec; do
        [ -x build/tests/unit/$t ] || { skip "$t was not built"; continue; }
        run "unit/$t" build/tests/unit/$t
        grep -hE '^(skipped|gemm )|passed,' "$OUT/last.txt" | sed 's/^/     | /'
    done
}

step_doctor() { run doctor $netc doctor && sed 's/^/     | /' "$OUT/last.txt"; }

last_accuracy() { # of a log: the last evaluated accuracy
    grep -o '"eval_accuracy":[0-9.e+-]*' "$1" | tail -1 | cut -d: -f2
}

step_train() {
    local device acc
    for device in cuda:0 cpu; do
        local f=$OUT/train_${device%:0}.jsonl
        run "train 5 epochs on $device" $netc train samples/mnist/mlp.net "${data[@]}" "${test_data[@]}" \
            --epochs 5 --device $device --log "$f" || continue
        tail -8 "$OUT/last.txt" | sed 's/^/     | /'
        acc=$(last_accuracy "$f")
        if awk "BEGIN { exit !(${acc:-0} >= 0.975) }"; then ok "$device accuracy $acc"
        else bad "$device accuracy ${acc:-missing}, expected 0.975"; fi
    done
}

# Loss of the first 100 steps on the GPU and on the CPU, f32 without TF32, within 1e-4 relative.
step_curve() {
    local device
    for device in cuda:0 cpu; do
        run "100 steps on $device" $netc train samples/mnist/mlp.net "${data[@]}" --steps 100 \
            --report-every 1 --device $device --log "$OUT/curve_${device%:0}.jsonl" || return
    done
    local worst
    worst=$(paste -d' ' <(grep -o '"loss":[0-9.e+-]*' "$OUT/curve_cuda.jsonl" | cut -d: -f2) \
                        <(grep -o '"loss":[0-9.e+-]*' "$OUT/curve_cpu.jsonl" | cut -d: -f2) |
            awk 'NF == 2 { d = ($1 - $2) / $2; if (d < 0) d = -d; if (d > w) w = d; n++ }
                 END { if (n < 100) print "only " n " steps"; else printf "%.3g\n", w }')
    if awk "BEGIN { exit !(\"$worst\" ~ /^[0-9.e+-]+\$/ && $worst + 0 <= 1e-4) }" 2>/dev/null; then
        ok "loss of 100 steps: GPU and CPU differ by at most $worst"
    else
        bad "loss of 100 steps: GPU and CPU differ by $worst, expected at most 1e-4"
    fi
}

# The file made without a GPU runs here from its cubins: NVRTC is never opened.
step_bin() {
    [ -f $carry/bin/mlp.bin ] || { skip "bin: no $carry/bin/mlp.bin"; return; }
    local device
    for device in cuda:0 cpu; do
        run "mlp.bin trains on $device" env LD_DEBUG=files LD_DEBUG_OUTPUT="$OUT/ld" $netc train \
            $carry/bin/mlp.bin "${data[@]}" --steps 200 --device $device || continue
        if cat "$OUT"/ld.* 2>/dev/null | grep -q nvrtc; then bad "mlp.bin on $device opened NVRTC"
        else ok "mlp.bin on $device did not open NVRTC"; fi
        rm -f "$OUT"/ld.*
    done
}

step_profile() {
    run "netc profile" $netc profile samples/mnist/mlp.net --device cuda:0 &&
        sed 's/^/     | /' "$OUT/last.txt" | head -40
}

step_suite() { # the whole test suite, GPU required
    run "the suite" tests/run.sh build
    grep -E '^FAIL|passed,' "$OUT/last.txt" | sed 's/^/     | /'
}

# Every sample: gradients, and kernels on the GPU against the reference evaluator.
step_check() {
    local f
    for f in samples/*/*.net; do
        run "check $f" $netc check "$f" --device cuda:0
        grep -E 'WRONG|BAD' "$OUT/last.txt" | head -8 | sed 's/^/     | /'
    done
}

# Training from the command line on the GPU: learning, kill -9 and resuming to the bit, Ctrl-C.
step_cli() {
    make -s build/digits-gen >>"$log" 2>&1
    run "tests/cli/train.sh on the GPU" env TRAIN_DEVICE=cuda:0 NETC="$PWD/build/netc" BUILD="$PWD/build" \
        TMP="$(mktemp -d)" bash tests/cli/train.sh
}

step_sanitize() { # every kind of kernel under every tool; the runtime itself under memcheck
    command -v compute-sanitizer >/dev/null || { skip "compute-sanitizer is not here"; return; }
    run "the sanitizers' tools over every kernel kind" env OUT="$OUT" bash bench/sanitize.sh $netc
    tail -7 "$OUT/last.txt" | sed 's/^/     | /'
    # That test runs out of memory on purpose: a refused allocation is no finding.
    run "memcheck of the runtime's test" timeout 120 compute-sanitizer --report-api-errors no \
        --error-exitcode 9 build/tests/unit/runtime_cuda
}

step_peers() {
    local py=${PYTHON:-python3} mode
    cd bench/peers || return
    local d=$mnist
    case $d in /*) ;; *) d=../../$d ;; esac
    for mode in eager compile graph; do
        if $py mnist_torch.py --data "$d" --device cuda --mode $mode >"$OUT/peer_torch_$mode.jsonl" \
            2>>"$log"; then ok "torch $mode: $(tail -1 "$OUT/peer_torch_$mode.jsonl")"
        else skip "torch $mode did not run: $(tail -1 "$log")"; fi
    done
    for mode in scan step; do
        if $py mnist_jax.py --data "$d" --device cuda --mode $mode >"$OUT/peer_jax_$mode.jsonl" \
            2>>"$log"; then ok "jax $mode: $(tail -1 "$OUT/peer_jax_$mode.jsonl")"
        else skip "jax $mode did not run: $(tail -1 "$log")"; fi
    done
    cd ../..
}

step_bench() { # BENCH_PARTS: which parts of bench/gpu.sh
    # shellcheck disable=SC2086
    if OUT=$OUT MNIST_DIR=$mnist bash bench/gpu.sh build ${BENCH_PARTS:-} >"$OUT/bench.txt" 2>&1; then ok bench
    else bad bench; fi
    sed 's/^/     | /' "$OUT/bench.txt"
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>&1 | tee -a "$log"
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(build unit doctor train curve bin profile check cli)
for s in "${steps[@]}"; do
    if declare -F "step_$s" >/dev/null; then "step_$s"; else bad "there is no step '$s'"; fi
done
rm -rf "$OUT/cache" "$OUT/last.txt"
echo "$passed passed, $failed failed, $skipped skipped" | tee -a "$log"
[ $failed -eq 0 ]

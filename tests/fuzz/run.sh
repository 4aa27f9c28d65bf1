#!/bin/bash
# Every reader of foreign bytes under libFuzzer with the address and undefined-behaviour sanitizers.
# usage: run.sh [SECONDS] [NAME...]     seconds each (default 60); names as in fuzz_NAME.c (default all)
cd "$(dirname "$0")/../.." || exit 2
seconds=${1:-${SECONDS_EACH:-60}}
shift
names=${*:-$(cd tests/fuzz && ls fuzz_*.c | sed 's/fuzz_//; s/\.c//')}
out=${FUZZ_BUILD:-build-fuzz}
clang=${CLANG:-clang}
flags='-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer'

mkdir -p "$out/tests/fuzz"
probe=$out/probe.c
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d && n > 9; }' > "$probe"
if ! $clang -fsanitize=fuzzer "$probe" -o "$out/probe" 2> "$out/probe.log"; then
    echo "skipped: $clang has no libFuzzer (on Debian: apt-get install libclang-rt-14-dev)"
    exit 0
fi
make -s -j"$(nproc)" CC="$clang" BUILD="$out" OPT=-O1 SANITIZE="-fsanitize=fuzzer-no-link $flags" \
    "$out"/lib_{base,ir,frontend,passes,codegen,runtime,lib}.a > "$out/make.log" || exit 2
libs=$(ls "$out"/lib_*.a)

failed=0
for name in $names; do
    $clang -std=gnu17 -g -O1 -fwrapv -fsanitize=fuzzer $flags -D_GNU_SOURCE -I. -Iinclude -I"$out" \
        "tests/fuzz/fuzz_$name.c" -Wl,--start-group $libs -Wl,--end-group -ldl -lm -lpthread -lz \
        -o "$out/fuzz_$name" || exit 2
    corpus=$out/corpus/$name
    mkdir -p "$corpus"
    dict=
    if [ "$name" = parser ]; then
        cp samples/*/*.net frontend/std/*.net "$corpus/"
        dict=-dict=tests/fuzz/net.dict
    fi
    log=$out/fuzz_$name.log
    if "$out/fuzz_$name" -max_total_time="$seconds" -max_len=5000 -timeout=10 -rss_limit_mb=4000 \
        -artifact_prefix="$out/$name-" $dict "$corpus" > "$log" 2>&1; then
        echo "ok      $name: $(grep -c . "$log") lines of log, $(ls "$corpus" | wc -l) inputs kept"
    else
        echo "FAILED  $name: see $log"
        tail -n 5 "$log"
        failed=1
    fi
done
exit $failed

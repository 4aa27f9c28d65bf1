#!/bin/bash
# The Python package: built as `make python` builds it, used from NumPy's arrays, on the CPU.
. "$(dirname "$0")/../lib.sh"
PYTHON=${PYTHON:-python3}
if ! command -v "$PYTHON" >/dev/null || ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    skip "no Python of 3.10 or later: the package is not tried"; finish
fi
include=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ -e "$include/Python.h" ] || { skip "no Python.h in $include (python3-dev): the package is not tried"; finish; }
sanitize=
if nm -D "$BUILD/libnetc.so" | grep -q __asan_init; then
    # Python's own allocations of static objects are no leaks of ours.
    sanitize=-fsanitize=address,undefined
    preload="$(${CC:-cc} -print-file-name=libasan.so):$(${CC:-cc} -print-file-name=libubsan.so)"
    export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
fi
expect 0 "" make -C "$ROOT" --no-print-directory BUILD="$BUILD" PYTHON="$PYTHON" SANITIZE="$sanitize" ${sanitize:+OPT=-O1} python
export PYTHONPATH=$BUILD/python:$ROOT/tests/python PYTHONDONTWRITEBYTECODE=1
py() { LD_PRELOAD=${preload:-} timeout "${LIMIT:-1200}" "$PYTHON" "$@"; }
# script FILE: a file of tests, which counts for itself.
script() {
    py "$ROOT/tests/python/$1" >"$W/.out" 2>&1; local code=$? line
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$W/.out" | tail -1)
    if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
        passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2])) skipped=$((skipped + BASH_REMATCH[3]))
        grep -E '^skip' "$W/.out"
    else
        failed=$((failed + 1))
    fi
    [ $code -eq 0 ] || sed "s|^|$1: |" "$W/.out" | tail -30
}
if [ -n "$sanitize" ]; then
    skip "a build with sanitizers: no wheel is made of it"
elif "$PYTHON" -m pip --version >/dev/null 2>&1; then
    expect 0 "cp310-abi3-" env BUILD="$BUILD" "$PYTHON" "$ROOT/python/backend.py" "$W"
    expect 1 "so its wheel is none for cp310-abi3-manylinux_2_5_x86_64" env BUILD="$BUILD" PLATFORM=manylinux_2_5_x86_64 "$PYTHON" "$ROOT/python/backend.py" "$W"
    expect 0 "" "$PYTHON" -m pip install -q --no-index --no-deps --target "$W/site" "$W"/netc-*.whl
    expect 0 "$W/site/netc/__init__.py" env PYTHONPATH="$W/site" "$PYTHON" -c 'import netc; print(netc.__file__)'
    cmp -s "$BUILD/python/netc/_model.py" "$W/site/netc/_model.py" && pass || fail "the wheel has another _model.py"
    [ "$(stat -c %s "$W"/netc-*.whl)" -lt 5000000 ] && pass || fail "a wheel of $(stat -c %s "$W"/netc-*.whl) bytes"
else
    skip "no pip: the wheel is not tried"
fi
# From a tree that cannot be written: built elsewhere, and nothing of it left.
mkdir -p ro/python ro/docs ro/include tmp && cp "$ROOT/python/backend.py" ro/python && cp "$ROOT/docs/python.md" ro/docs && cp "$ROOT/include/netc.h" ro/include && cp "$ROOT/LICENSE" ro
printf '.PHONY: python\npython:\n\t@mkdir -p $(BUILD)/python/netc && echo built >$(BUILD)/python/netc/__init__.py\n' >ro/Makefile
for access in False True; do
    expect 0 "cp310-abi3-" env -u BUILD TMPDIR="$W/tmp" "$PYTHON" -c "import os, sys; sys.path.insert(0, 'ro/python'); import backend
os.access = lambda *a: $access
print(backend.build_wheel('.'))"
    [ "$("$PYTHON" -m zipfile -l netc-*.whl | grep -c netc/__init__.py)" = 1 ] && pass || fail "what was built is not in the wheel"
    [ -z "$(ls tmp)" ] && pass || fail "left behind: $(ls tmp)"
    [ "$([ -e ro/build ] && echo True || echo False)" = $access ] && pass || fail "built in the tree: not $access"
    rm -f netc-*.whl
done
bare=$(py -c 'import sys; before = set(sys.modules); import netc; print(sorted(m for m in set(sys.modules) - before if m.split(".")[0] in ("numpy", "torch", "jax", "cupy", "IPython")))')
[ "$bare" = "[]" ] && pass || fail "import netc imports $bare"
script plain.py
if py -c 'import numpy' 2>/dev/null; then
    script calls.py
    script training.py
    # What README.md and docs/python.md show.
    digits 1000 && gzip "$D"/* && mkdir -p readme/samples/mnist && mv "$D"/*.gz readme && cp "$ROOT/samples/mnist/mlp.net" readme/samples/mnist
    sed -n '/MNIST from NumPy arrays:/,/^Arrays of torch/s/^    //p' "$ROOT/README.md" > readme/readme.py
    [ "$(wc -l < readme/readme.py)" -ge 10 ] && (cd readme && py readme.py > out 2>&1; tail -1 out | grep -qE '^\[[0-9 ]+\] \[[0-9 ]+\]$' && grep -q "'accuracy': [01]" out) &&
        pass || fail "README.md's lines: $(tail -5 readme/out)"
    # doc KIND WORDS: the lines of docs/python.md that are marked so, and what they print.
    doc() {
        sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" "$ROOT/docs/python.md" | grep -v '^```' > doc.py
        expect 0 "$2" env LD_PRELOAD="${preload:-}" "$PYTHON" doc.py
    }
    doc python "{'loss': "
    doc "python text" "['"
    for framework in torch jax; do
        if py -c "import $framework" 2>/dev/null; then
            script ${framework}_calls.py
            doc "python $framework" "{'loss': "
        else
            skip "no $framework: entries as functions of it are not tried"
        fi
    done
    script graphs.py
    if command -v g++ >/dev/null && [ -e "$BUILD/shim/libcuda.so.1" ]; then
        export LD_LIBRARY_PATH=$BUILD/shim
        script device.py
    else
        skip "no g++ or no shim: tensors on a GPU are not tried"
    fi
else
    skip "no NumPy: calls and training are not tried"
fi
finish

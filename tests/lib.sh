# Sourced by the shell tests: counts, and checks on a command's exit code and output.
# $NETC, $BUILD and $TMP come from tests/run.sh.
passed=0 failed=0 skipped=0
: "${NETC:=$PWD/build/netc}" "${BUILD:=$PWD/build}" "${TMP:=$(mktemp -d)}"
export NETC_VERIFY=1 # graphs are verified after every pass
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
W=$TMP/work.$$; rm -rf "$W"; mkdir -p "$W"; cd "$W" || exit 1

pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "failed: $*"; }
skip() { skipped=$((skipped + 1)); echo "skip: $*"; }
# For tests on the host shim (tests/shim), which compiles CUDA text: the end of the test if there is no compiler for it.
needs_shim() {
    command -v g++ >/dev/null || command -v "${SHIM_CXX:-}" >/dev/null && return
    skip "no g++: the CUDA text cannot be run on the host"
    finish
}
finish() { echo "$passed passed, $failed failed, $skipped skipped"; [ $failed -eq 0 ]; exit; }

# today: whether a check is one of the fifth of a test's calls that are made whole today, others each day (SEED), all of
# them in five days; SHIM_ALL=1: every one. Of `netc check` the others look at the fused build alone:
#     today || local -x NETC_CHECK_FUSED=1
: "${SEED:=$((10#$(date +%j)))}"
nth=0
today() { nth=$((nth + 1)); [ -n "${SHIM_ALL:-}" ] || [ $(((nth + SEED) % 5)) = 0 ]; }

# $LIMIT: the seconds after which a command hangs, ten times what any takes on a quiet machine.
# expect CODE TEXT command...: exits with CODE and its output holds TEXT (a fixed string; '' for any).
expect() {
    local code=$1 text=$2; shift 2
    timeout "${LIMIT:-1200}" "$@" >"$W/.out" 2>&1; local got=$?
    if [ $got -ne "$code" ]; then fail "exit $got, wanted $code: $* : $(head -4 "$W/.out")"; return 1; fi
    if [ -n "$text" ] && ! grep -qF -- "$text" "$W/.out"; then fail "no '$text' from: $* : $(head -6 "$W/.out")"; return 1; fi
    if grep -qE 'AddressSanitizer|runtime error:|Segmentation' "$W/.out"; then fail "sanitizer: $* : $(head -20 "$W/.out")"; return 1; fi
    pass
}
# wait_for PID command...: until it succeeds, unless the process ends or hangs.
wait_for() {
    local pid=$1 end=$((SECONDS + ${LIMIT:-1200})); shift
    until "$@" 2>/dev/null; do kill -0 "$pid" 2>/dev/null && [ $SECONDS -lt $end ] || return; sleep 0.05; done
}
verbs() { "$NETC" --help | sed -n 's/^  \([a-z][a-z]*\)  *[A-Z].*/\1/p'; } # as --help lists them
holds() { grep -qF -- "$1" "$W/.out" && pass || fail "no '$1' in: $(head -8 "$W/.out")"; } # of the last expect

# program_digest FILE OPTION...: of the text of its kernels for sm_90, and of their launches; with the part of the prelude for sorts by
# digits if they use it. Nothing if there is none.
program_digest() {
    local file=${1#"$ROOT"/} out=$W/program.$BASHPID; shift
    local netc=("$NETC" "$file" "${@/#-e/--entries}" --target cuda --arch sm_90 --tune-file '' -q)
    # (a text has the file's path, and lines as long as that is)
    (cd "$ROOT" && "${netc[@]}" --emit cuda >"$out.text" && "${netc[@]}" --emit plan >"$out.plan") &&
        { cat "$out.text"; ! grep -q nc_radix "$out.text" || cat "$ROOT/codegen/prelude/cuda_radix.h"; grep -oE '^ *[0-9]+ +kernel [^ ]+|block .*shared .*' "$out.plan"; } | sha256sum | cut -c 1-16
    rm -f "$out.text" "$out.plan"
}

# MNIST where it is found: sets MNIST (a folder), or returns 1.
find_mnist() {
    for d in "${MNIST_DIR:-}" "$ROOT/../shared/data/mnist" "$ROOT/data/mnist"; do
        [ -n "$d" ] && ls "$d"/train-images-idx3-ubyte* >/dev/null 2>&1 && MNIST=$(cd "$d" && pwd) && return 0
    done
    return 1
}
# digits COUNT: sets D, a folder with COUNT drawn digits to train on and 1000 to test on.
digits() { D=$W/digits; "$BUILD/digits-gen" "$D" "$1" 1000; }

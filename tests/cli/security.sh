#!/bin/bash
# What others gave us does nothing to us: names with quotes in them, files that are written keep to
# the umask, a compiled model is no text, the cache holds only what is ours.
. "$(dirname "$0")/../lib.sh"
digits 600
DATA=(--data image="$D/train-images-idx3-ubyte" --data label="$D/train-labels-idx1-ubyte")
cp "$ROOT/samples/mnist/mlp.net" mlp.net

# -- names are never read by a shell
for name in "a'; touch taken; '" 'b$(touch taken)' 'c`touch taken`;&|' 'd "e" f'; do
    mkdir -p "tmp/$name"
    TMPDIR="$PWD/tmp/$name" expect 0 "compile, cold" "$NETC" bench mlp.net --device cpu --entry mlp --compiles 1 --repeats 1 --steps 1
    [ -z "$(ls -A "tmp/$name")" ] && pass || fail "left in '$name': $(ls "tmp/$name")"
done
mkdir -p "tmp/x'y" y; : > y/kept
TMPDIR="$PWD/tmp/x'y" expect 0 "" env -C "tmp/x'y" "$NETC" bench ../../mlp.net --device cpu --entry mlp --compiles 1 --repeats 1 --steps 1
[ -e y/kept ] && [ -z "$(find . -name taken)" ] && pass || fail "a name was run: $(find . -name taken)"

# -- nor do they end the comments of what is generated
odd=$(printf 'odd "\n#error \\/m\n#error x.net'); mkdir -p "${odd%/*}"; cp mlp.net "$odd"
for stage in c cuda plan fused; do
    expect 0 "" "$NETC" --emit $stage "$odd"
    grep -q '^#error' "$W/.out" && fail "$stage: a name ended a comment" || pass
done
expect 0 "" "$NETC" train "$odd" "${DATA[@]}" --device cpu --steps 2 -q
expect 0 "" "$NETC" --dump odd.dump "$odd"
for f in odd.dump/0*.net odd.dump/fused.net; do expect 0 "" "$NETC" "$f" -q; done
kernel=$("$NETC" inspect "$odd" --target cuda --json | grep -o '"kind":"kernel","name":"[^"]*"' | head -1 | cut -d'"' -f8)
expect 0 "wrote" "$NETC" inspect "$odd" --eject "$kernel"
expect 0 "" "$NETC" --emit cuda "$odd"
expect 0 "" "$NETC" tune "$odd" --device cpu --budget 1
expect 0 "" "$NETC" "$odd" -q
if command -v python3 >/dev/null; then
    expect 0 "" bash -c '"$1" inspect "$2" --json | python3 -m json.tool' - "$NETC" "$odd"
fi

# -- the umask
mkdir private; (
    umask 077
    cd private && cp ../mlp.net . && cp "$ROOT/samples/logistic/logistic.net" .
    "$NETC" train mlp.net "${DATA[@]}" --device cpu --steps 3 --save a.safetensors --log log -q
    "$NETC" mlp.net -o m.bin --target cpu -q
    "$NETC" --emit cuda mlp.net -o m.cu; "$NETC" --dump d mlp.net -q
    "$NETC" inspect mlp.net --eject "$("$NETC" inspect mlp.net --target cuda --json | grep -o '"kind":"kernel","name":"[^"]*"' | head -1 | cut -d'"' -f8)" >/dev/null
    "$NETC" profile mlp.net --device cpu --repeats 1 --steps 1 --trace t.json >/dev/null
    "$NETC" bench mlp.net --device cpu --compiles 0 --repeats 1 --steps 1 -o b.jsonl >/dev/null
    "$NETC" tune mlp.net --device cpu --budget 1 >/dev/null
)
for f in a.safetensors log m.bin m.cu d/plan.txt t.json b.jsonl mlp.net.tune; do
    [ -s "private/$f" ] && pass || fail "private/$f was not written"
done
[ -z "$(find private -type f -perm /077)" ] && pass || fail "open to others: $(find private -type f -perm /077 | tr '\n' ' ')"
(umask 022; "$NETC" mlp.net -o open.bin --target cpu -q); [ "$(stat -c %a open.bin)" = 644 ] && pass || fail "0666 less 022 is not $(stat -c %a open.bin)"
chmod 600 open.bin; "$NETC" mlp.net -o open.bin --target cpu -q
[ "$(stat -c %a open.bin)" = 600 ] && pass || fail "a file written anew has another mode"
printf 'model m( x:f32[4] ){return y=x*2}\n' > ugly.net; chmod 640 ugly.net
expect 0 "" "$NETC" fmt ugly.net
[ "$(stat -c %a ugly.net)" = 640 ] && pass || fail "fmt changes the mode to $(stat -c %a ugly.net)"

# -- a compiled model holds code: it does not pass for a text
cp open.bin text.net
for verb in train eval run profile bench; do
    expect 1 "text.net is named like a model's text but is a compiled model" "$NETC" $verb text.net --device cpu
done
expect 1 "other.net: a compiled model is written as .bin" "$NETC" mlp.net -o other.net --target cpu
expect 0 "with your rights" "$NETC" --help
for verb in init train eval run profile bench; do expect 0 "with your rights" "$NETC" $verb --help; done
for text in README.md docs/netc.1 include/netc.h; do tr '\n' ' ' < "$ROOT/$text" | grep -q 'machine code' && pass || fail "$text does not say that a model.bin is code"; done

# -- the cache: ours alone
cat > small.net <<'END'
model small() {
    return y = iota([4], 0) * 3
}
END
C=("$NETC" run small.net --device cpu --cache-dir cache)
expect 0 "0 3 6 9" "${C[@]}"
[ "$(stat -c %a cache)" = 700 ] && pass || fail "the cache's folder is made with mode $(stat -c %a cache)"
chmod 666 cache/*
expect 0 "that others can write to is ignored" "${C[@]}"
[ -z "$(find cache -type f -perm /022)" ] && pass || fail "an entry that was not ours was not replaced"
chmod 777 cache
expect 0 "note: the compile cache is not used: cache: others can write to it" "${C[@]}"
[ "$(grep -c note: "$W/.out")" = 1 ] && pass || fail "said more than once"
"$NETC" doctor 2>&1 | grep -q 'compile cache' && pass || fail "doctor says nothing of the cache"
finish

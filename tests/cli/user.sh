#!/bin/bash
# What a person meets on the command line: help, mistakes, output that is lost, settings, renamed
# weights, arrays, dumps that compile again, formatting.
. "$(dirname "$0")/../lib.sh"
digits 2000
MLP=$ROOT/samples/mnist/mlp.net
DATA=(--data image="$D/train-images-idx3-ubyte" --data label="$D/train-labels-idx1-ubyte")
T=(train "$MLP" "${DATA[@]}" --device cpu)
same() { cmp -s "$1" "$2" && pass || fail "$1 and $2 differ"; }

# -- help and mistakes
verbs | grep -qx train && pass || fail "netc --help lists no verbs"
for verb in $(verbs); do
    expect 0 "example" "$NETC" $verb --help
    holds "usage: netc"
    expect 1 "--bogus" "$NETC" $verb --bogus
done
expect 0 "netc " "$NETC" --version
expect 1 "usage" "$NETC"
expect 1 "--output" "$NETC" "$MLP" --out x
expect 1 "examines this machine" "$NETC" doctor x
expect 1 "netc inspect MODEL --target cpu lists them" "$NETC" inspect "$MLP" nothing --target cpu
expect 1 "--input image=FILE" "$NETC" run "$MLP" --device cpu
expect 1 "encode, decode" "$NETC" run "$ROOT/samples/autoencoder/autoencoder.net" --device cpu
for n in -5 0.5 6XB nan 1e30 ''; do expect 1 "--memory-limit needs a number of bytes, like 5e9" "$NETC" "$MLP" --memory-limit "$n"; done
for n in 1000 1e3 1kB 1K 1.0e-3M 0.9765625KiB; do
    expect 0 "more than the limit of 1000" "$NETC" "$MLP" --memory-limit $n
done
expect 0 "note: the temporaries of 'train' need" "$NETC" "$MLP" --memory-limit 1000
expect 1 "no device 'gpu'" "$NETC" "${T[@]}" --device gpu
for n in -1 0 nan inf; do expect 1 "--epochs needs a number above 0" "$NETC" "${T[@]}" --epochs $n; done
expect 1 "more than can be counted" "$NETC" "${T[@]}" --epochs 1e300
for n in -1 0 1.5; do expect 1 "--steps needs a whole number above 0" "$NETC" "${T[@]}" --steps $n; done
for n in 99999999999999999999 -99999999999999999999; do
    expect 1 "--steps needs a whole number from 1 to 9223372036854775807, not '$n'" "$NETC" "${T[@]}" --steps $n
done
expect 1 "--seed needs a whole number from -9223372036854775808 to 9223372036854775807, not '18446744073709551615'" "$NETC" "${T[@]}" --seed 18446744073709551615
expect 1 "repeats must be from 0 (25 of them) to 1000000" "$NETC" profile "$MLP" --device cpu --repeats 1000000000
expect 1 "the name of a file is empty" "$NETC" train '' "${DATA[@]}"
for words in --help -h help --version "train --help" "help train"; do
    expect 2 "standard output could not be written completely" bash -c "'$NETC' $words >/dev/full"
done
expect 1 "--save FILE" "$NETC" "${T[@]}" --save-every 3
expect 1 "split" "$NETC" "${T[@]}" --split 1.5
expect 1 "leaves none of 2000 examples" "$NETC" "${T[@]}" --split 0.99999
expect 1 "did you mean 'fc1.weight'" "$NETC" "${T[@]}" --watch fc1.wieght
expect 1 "has no setting 'lr' that is read here; write 'setting lr = VALUE'" "$NETC" "${T[@]}" --set lr=1
expect 1 "NAME=NUMBER" "$NETC" "${T[@]}" --set lr
expect 1 "nope.safetensors" "$NETC" "${T[@]}" --resume nope.safetensors
printf 'model m(x: f32[4]) {\n    return y = x +\n}\n' > bad.net
expect 1 '"line":2' "$NETC" bad.net --json

# -- results of a model that nobody trained are no surprise
expect 0 "note: parameters have their initial values" "$NETC" eval "$MLP" "${DATA[@]}" --device cpu
expect 0 "accuracy" "$NETC" eval "$MLP" "${DATA[@]}" --device cpu -q
grep -q note: "$W/.out" && fail "a note in spite of -q" || pass
expect 0 "" "$NETC" train "$MLP" "${DATA[@]}" --device cpu --steps 3 --save trained.safetensors -q
expect 0 "accuracy" "$NETC" eval "$MLP" "${DATA[@]}" --device cpu --weights trained.safetensors
grep -q note: "$W/.out" && fail "a note about weights that were given" || pass

# -- output that cannot be written is said before the work; the model itself is never written over
cp "$MLP" model.net
for words in "train model.net ${DATA[*]} --device cpu --save" "train model.net ${DATA[*]} --device cpu --log" \
    "profile model.net --device cpu --trace" "bench model.net --device cpu -o" "model.net -o" "--emit cuda model.net -o" \
    "run model.net --device cpu --output logits="; do
    sep=' '; [ "${words%=}" = "$words" ] || sep=
    for path in model.net ./model.net; do
        expect 1 "$path is the model" bash -c "'$NETC' $words$sep$path"
    done
    expect 1 "cannot write none/file: No such file or directory" bash -c "'$NETC' $words${sep}none/file"
    expect 1 "cannot write $D: Is a directory" bash -c "'$NETC' $words$sep$D"
    expect 1 "cannot write trained.safetensors/file: Not a directory" bash -c "'$NETC' $words${sep}trained.safetensors/file"
done
grep -q '^step' "$W/.out" && fail "trained before it said so" || pass
same model.net "$MLP"
expect 0 "" "$NETC" --emit cuda model.net -o model.cu
"$NETC" --emit cuda model.net > shown.cu; same model.cu shown.cu
"$NETC" --emit ast model.net > ast; : > linked; ln -s linked link
expect 0 "" "$NETC" --emit ast model.net -o link # what a link leads to is written, the link stays
[ -L link ] && pass || fail "a link was replaced"
same linked ast
ln -s new ahead; ln -s ahead behind
expect 0 "" "$NETC" --emit ast model.net -o behind # also if there is nothing yet
[ -L behind ] && [ -L ahead ] && pass || fail "a link to a new file was replaced"
same new ast
ln -s none/file astray
expect 1 "cannot write astray: No such file or directory" "$NETC" "${T[@]}" --steps 3 --save astray
rm new
expect 1 "ahead is a checkpoint" "$NETC" "${T[@]}" --steps 3 --save new --log ahead

# -- output: none lost unnoticed, colour only on a terminal
for words in "--emit cuda $MLP" "inspect $MLP" "eval $MLP ${DATA[*]} --device cpu" "${T[*]} --steps 3" "train --help"; do
    expect 2 "standard output" sh -c "'$NETC' $words >/dev/full"
done
expect 2 "log" "$NETC" "${T[@]}" --steps 3 --log /dev/full
# A closed stream's number is not given to a file, which would receive what is printed.
expect 2 "standard output" sh -c "'$NETC' ${T[*]} --steps 3 --log shut --save shut.safetensors >&-"
for streams in '>&-' '2>&-' '<&- >&- 2>&-'; do
    rm -f shut shut.safetensors
    eval '"$NETC" "${T[@]}" --steps 3 --log shut --save shut.safetensors' "$streams" >"$W/.out"
    [ "$(cut -c 1-7 shut | sort -u)" = '{"step"' ] && pass || fail "with $streams the log has: $(head -3 shut)"
    expect 0 "fc1.weight" "$NETC" show shut.safetensors
done
expect 0 "" bash -c "set -o pipefail; '$NETC' --emit ast '$MLP' | head -1; [ \${PIPESTATUS[0]} -ne 2 ]"
if script -qec true /dev/null >/dev/null 2>&1; then
    script -qec "'$NETC' bad.net" /dev/null > colour 2>&1
    grep -q $'\033\[' colour && pass || fail "no colour on a terminal"
    NO_COLOR=1 script -qec "'$NETC' bad.net" /dev/null > plain 2>&1
    grep -q $'\033\[' plain && fail "colour in spite of NO_COLOR" || pass
    script -qec "'$NETC' ${T[*]} --steps 9 --report-every 3" /dev/null > progress 2>&1
    grep -q $'\r\033\[K' progress && pass || fail "no progress line on a terminal"
else
    skip "no script(1): terminals are not tested"
fi
"$NETC" "${T[@]}" --steps 9 --report-every 3 > piped 2>&1
# The table's lines end below each other also if a name has letters of several bytes.
cp "$MLP" réseau.net
expect 0 "réseau.net" "$NETC" train réseau.net "${DATA[@]}" --device cpu --steps 1
[ "$(grep '^[|+]' "$W/.out" | LC_ALL=C sed 's/[\x80-\xbf]//g' | LC_ALL=C awk '{ print length }' | sort -u)" = 69 ] && pass || fail "the table: $(head -3 "$W/.out")"
[ "$(grep -c '^step' piped)" = 3 ] && ! grep -q $'[\r\033]' piped && pass || fail "a pipe gets plain lines: $(tail -3 piped)"
expect 0 "" "$NETC" "${T[@]}" --steps 3 -q
[ "$(wc -l <"$W/.out")" = 1 ] && grep -q '^step 3/3 | loss' "$W/.out" && pass || fail "-q prints more or less than the result: $(head -2 "$W/.out")"

# -- training: the log's epochs, the kept last batch, resuming past the end
expect 0 "" "$NETC" "${T[@]}" --steps 30 --report-every 15 --json
holds '"step":15,"epoch":1,'
expect 0 "16 steps" "$NETC" "${T[@]}" --steps 16 --keep-last
expect 0 "" "$NETC" "${T[@]}" --steps 10 --save a.safetensors -q
expect 0 "5 steps in" "$NETC" "${T[@]}" --steps 15 --resume a.safetensors
! grep -q "was trained with" "$W/.out" && pass || fail "a note of nothing that changed: $(head -3 "$W/.out")"
expect 0 "a.safetensors was trained with a batch of 128, this is one of 64: step 10 is at another place in the data" "$NETC" "${T[@]}" --steps 15 --resume a.safetensors -D batch=64
expect 0 "a.safetensors was trained with --precision f32, this is bf16" "$NETC" "${T[@]}" --steps 15 --resume a.safetensors --precision bf16
expect 0 "is at step 10" "$NETC" "${T[@]}" --steps 10 --resume a.safetensors --save again.safetensors
[ -s again.safetensors ] && pass || fail "nothing left to train, and nothing saved"
for p in tf32 bf16 f16; do expect 0 "" "$NETC" "${T[@]}" --steps 15 --precision $p -q; done

# -- weights under other names
sed 's/fc1/first/' "$MLP" > renamed.net
R=(train renamed.net "${DATA[@]}" --device cpu --steps 1)
expect 1 "first.weight" "$NETC" "${R[@]}" --weights a.safetensors
expect 0 "" "$NETC" "${R[@]}" --weights a.safetensors --map 'fc1.*=first.*'
expect 0 "note: a.safetensors lacks 2 tensors of the model, which keep their present values: 'first.weight', 'first.bias'" "$NETC" "${R[@]}" --weights a.safetensors --allow-missing
expect 0 "lacks 4 tensors of the model, which keep their present values: 'fc1.weight', 'fc1.bias', 'fc2.weight', …" "$NETC" init "$MLP" --weights a.safetensors --map 'fc*=none*' --allow-missing -o begun.safetensors --device cpu
expect 1 "matches no tensor" "$NETC" "${R[@]}" --weights a.safetensors --map 'q.*=first.*'
sed 's/fc1/first/; s/adam[a-z]*(lr = [0-9.e-]*)/sgd(lr = 0.1)/; s/update .*/update sgd(lr = 0.1)/' "$MLP" > plain.net # without moments
expect 1 "fc1.weight: only in the file" "$NETC" train plain.net "${DATA[@]}" --device cpu --steps 1 --weights a.safetensors --map 'fc1.bias=first.bias'
! grep -q 'fc1.weight\.' "$W/.out" && pass || fail "moments are listed: $(head -20 "$W/.out")"
expect 1 "'zzz*' is to be ignored but matches no tensor of" "$NETC" "${R[@]}" --weights a.safetensors --ignore 'zzz*'
expect 1 "FILE_NAME=MODEL_NAME" "$NETC" "${R[@]}" --weights a.safetensors --map fc1
expect 1 "'fc1.bias' and 'fc2.bias' would both be the model's 'first.bias'; rename or ignore one of them" "$NETC" "${R[@]}" --weights a.safetensors --map 'fc*.bias=first.bias' --map 'fc1.*=first.*'
expect 1 "after it was transposed" "$NETC" "${R[@]}" --weights a.safetensors --map 'fc1.*=first.*' --transpose first.weight
expect 0 "" "$NETC" eval "$MLP" "${DATA[@]}" --device cpu --weights a.safetensors
cp "$W/.out" straight
expect 0 "" "$NETC" eval renamed.net "${DATA[@]}" --device cpu --weights a.safetensors --map 'fc1.*=first.*'
same straight "$W/.out"
expect 0 "" "$NETC" eval renamed.net "${DATA[@]}" --device cpu --weights a.safetensors --map '*c1.*=*irst.*'
same straight "$W/.out"
expect 1 "has 1 '*' before its '=' and 2 after it" "$NETC" "${R[@]}" --weights a.safetensors --map 'fc1.*=*.first.*'

# -- settings and arrays
printf 'setting k = 2\nmodel m(x: f32[2, 3]) {\n    return y = x * k, z = sum(x)\n}\n' > set.net
{ printf '\x93NUMPY\x01\x00\x76\x00'; printf "%-117s\n" "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
  printf '\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40\x00\x00\x80\x40\x00\x00\xa0\x40\x00\x00\xc0\x40'; } > x.npy
expect 0 "y f32[2, 3] 2 4 6 8 10 12" "$NETC" run set.net --input x=x.npy --device cpu
holds "z f32[] 21"
expect 0 "10 20" "$NETC" run set.net --input x=x.npy --device cpu --set k=10
# A file that says its shape sets dimensions over their defaults, for every verb; -D and const stay.
printf 'use nn\nuse optim\ndim batch = 1\ndim C = 2\nmodel m(x: f32[batch, C]) { return loss = mean(linear(x, 1) as f), y = sum(x, 1) }\ntrain m { minimize loss\n update sgd(lr = 0.1) }\n' >wide.net
for verb in train eval; do expect 0 "" "$NETC" $verb wide.net --data x=x.npy --device cpu; done
expect 0 "" "$NETC" predict wide.net -o y=sums.npy --data x=x.npy --device cpu
expect 1 "is f32[1, 2]" "$NETC" eval wide.net --data x=x.npy --device cpu -D C=2
sed 's/dim C/const C/' wide.net >fixed.net
expect 1 "the model expects f32[*, 2]" "$NETC" eval fixed.net --data x=x.npy --device cpu
expect 1 "setting 'k' is an f32, which 1e+39 is too large for" "$NETC" run set.net --input x=x.npy --device cpu --set k=1e39
expect 1 "--set k=1e400: the number is too large; write inf for infinity" "$NETC" run set.net --input x=x.npy --device cpu --set k=1e400
expect 0 "inf" "$NETC" run set.net --input x=x.npy --device cpu --set k=inf
expect 1 "setting 'k' must be a number, not nan" "$NETC" run set.net --input x=x.npy --device cpu --set k=nan
expect 1 "x.npy is not text" "$NETC" fmt x.npy
expect 0 "" "$NETC" run set.net --input x=x.npy --output y=y.npy --device cpu --set k=1
expect 0 "2 4 6" "$NETC" run set.net --input x=y.npy --device cpu
expect 1 "no output" "$NETC" run set.net --input x=x.npy --output q=q.npy --device cpu
expect 1 "no input" "$NETC" run set.net --input q=x.npy --device cpu

sed 's/\[batch/[128/g; /^dim/d' "$MLP" >fixed.net
expect 1 "is u8[128, 28, 28]: to take examples from data, its axis 0 must be a dimension" "$NETC" train fixed.net "${DATA[@]}" --device cpu
for verb in train eval; do expect 1 "it has no block 'train MODEL" "$NETC" $verb set.net --data x=x.npy --device cpu; done

# The arrays fix the dimensions; inputs that the named outputs do not need are not asked for.
printf 'dim rows = 9\ndim n\nmodel m(x: f32[rows, n], t: f32[rows]) {\n    y = sum(x, -1)\n    return loss = sum(y - t), y\n}\n' > free.net
sed 's/(2, 3), }   /(2, 3, 1), }/' x.npy >cube.npy
expect 1 "input 'x' of 'm' is f32[rows, n], the data given for it are f32[2, 3, 1]" "$NETC" run free.net --input x=cube.npy --device cpu
holds "note: input 'x' is read from cube.npy"
{ printf '\x93NUMPY\x01\x00\x76\x00'; printf "%-117s\n" "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }"; } >none.npy
expect 1 "none.npy has no elements" "$NETC" run free.net --input x=none.npy --device cpu
expect 1 "input 't' of 'm' has no value" "$NETC" run free.net --input x=x.npy --device cpu
expect 0 "" "$NETC" run free.net --input x=x.npy --output y=sums.npy --device cpu
expect 1 "input 't'" "$NETC" run free.net --input x=x.npy --output loss=l.npy --device cpu
expect 1 "did you mean 'loss'" "$NETC" run free.net --input x=x.npy --output los=l.npy --device cpu
expect 0 "" "$NETC" run set.net --input x=x.npy --output z=z.npy --device cpu --json
holds '{"z":{"type":"f32","shape":[],"values":[21]}}'
printf 'dim k\nmodel m(v: f32[k]) {\n    return w = v * 2\n}\n' > show.net
expect 0 "w f32[2] 12 30" "$NETC" run show.net --input v=sums.npy --device cpu
expect 0 "" "$NETC" free.net -D n=4 -o free.bin --target cpu -q
cp sums.npy first.npy
expect 0 "" "$NETC" run free.bin --input x=x.npy --output y=sums.npy --device cpu
same first.npy sums.npy

# -- every stage; dumps compile again
for stage in ast ir grad fused plan tile cuda c dot; do expect 0 "" "$NETC" --emit $stage "$MLP"; done
if "$NETC" doctor | grep -q '^yes NVRTC'; then expect 0 ".visible .entry" "$NETC" --emit ptx "$MLP"; else skip "no NVRTC: no PTX"; fi
expect 0 "" "$NETC" --dump d "$MLP"
for f in d/0*.net d/fused.net; do expect 0 "" "$NETC" "$f"; done
for f in plan.txt kernels.c kernels.cu graph.dot ast.txt; do [ -s d/$f ] && pass || fail "no d/$f"; done
kernel=$(sed -n 's/.*"name":"\(loss[^"]*\)".*/\1/p;T;q' <("$NETC" inspect "$MLP" --json | tr ',' '\n'))
[ -n "$kernel" ] && expect 0 "schedule:" "$NETC" inspect "$MLP" "$kernel" || fail "no kernel of the loss in inspect --json"
expect 0 "entry train" "$NETC" inspect "$MLP" --why
"$NETC" doctor --json | head -c 1 | grep -q '\[' && pass || fail "doctor --json"
expect 0 '"ok":true' "$NETC" check "$ROOT/samples/logistic/logistic.net" --device cpu --json

# -- fmt
printf 'model m( x:f32[4] ){return y=x*2}\n' > ugly.net
expect 1 "would change" "$NETC" fmt --check ugly.net
expect 0 "" "$NETC" fmt ugly.net
expect 0 "" "$NETC" fmt --check ugly.net
expect 0 "" "$NETC" fmt --check "$ROOT"/samples/*/*.net "$ROOT"/frontend/std/*.net
printf 'model m(x: f32[4],\n    y: f32[4]) {\n    z = concat([x,\n        y])\n    return z\n}\n' >hang.net # a block after a list in several lines
expect 0 "" "$NETC" fmt --check hang.net
printf 'model m(x: f32[4]) {\r\n    return y = x * 2\r\n}\r\n' >lines.net; cp lines.net before # Windows' line ends stay
expect 0 "" "$NETC" fmt lines.net; same lines.net before
cp bad.net before; expect 1 "bad.net:" "$NETC" fmt bad.net; same bad.net before
expect 1 "nofile.net" "$NETC" fmt nofile.net
finish

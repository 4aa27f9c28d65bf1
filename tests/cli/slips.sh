#!/bin/bash
# Slips of a command line that would cost data or results: a file that is written is none that is read, nor another
# that is written; what was there stays until there is something to replace it; options that do nothing are said.
. "$(dirname "$0")/../lib.sh"
export XDG_CACHE_HOME=$W/cache
cat >fit.net <<'NET'
use nn
use optim
dim batch = 4
model fit(x: f32[batch, 3]) {
    p = linear(x, 2) as fc
    return loss = mean(square(p)), p, q = 2 * p
}
train fit {
    minimize loss
    update sgd(lr = 0.01)
}
NET
printf 'model rows() { return x = normal([40, 3], 1) }\n' >rows.net
expect 0 "" "$NETC" run rows.net -o x=x.npy --device cpu
T=("$NETC" train fit.net --data x=x.npy --device cpu -q)
expect 0 "" "${T[@]}" --steps 5 --save m.safetensors --seed 3
expect 0 "" "${T[@]}" --steps 5 --save m.safetensors.index.json --part-size 20
ln -s x.npy link.npy; ln -s m.safetensors link.st; mkdir tb
cp x.npy keep.npy; cp m.safetensors keep.safetensors; cp fit.net keep.net
same() { cmp -s "$1" "$2" && pass || fail "$3: $1 and $2 differ"; } # FILE FILE WHAT
intact() { same x.npy keep.npy "$1"; same m.safetensors keep.safetensors "$1"; same fit.net keep.net "$1"; }

# Data, checkpoints, the model.
expect 1 "x.npy is also read as data; name another file to write" "${T[@]}" --steps 2 --log x.npy
expect 1 "./link.npy is also read as data" "${T[@]}" --steps 2 --log ./link.npy
expect 1 "x.npy is also read as data" "$NETC" train fit.net --data x=x.npy,x.npy --device cpu --steps 2 --log x.npy
expect 1 "x.npy is also read as data" "$NETC" train fit.net --data x=none.npy --eval-data x=x.npy:0 --log x.npy
expect 1 "x.npy is also read as data" "$NETC" profile fit.net --data x=x.npy --device cpu --trace x.npy
cp x.npy a,b:c.npy
expect 1 "a,b:c.npy is also read as data" "$NETC" train fit.net --data x=a,b:c.npy --device cpu --steps 2 --log a,b:c.npy
expect 1 "link.st is a checkpoint" "${T[@]}" --steps 9 --resume m.safetensors --log link.st
expect 1 "link.st is read by --weights" "${T[@]}" --steps 9 --weights m.safetensors --log link.st
expect 1 "new.safetensors is a checkpoint" "${T[@]}" --steps 9 --save new.safetensors --log ./new.safetensors
expect 1 "fit.net is the model" "${T[@]}" --steps 9 --log fit.net
intact "a log over what is read"

# The weights, whichever verb reads them: the file, a link to it, a part that their index names, a file of their folder.
P=("$NETC" predict fit.net --data x=x.npy --device cpu -q)
cp m.safetensors W.npy
expect 1 "W.npy is read by --weights; name another file to write" "${P[@]}" --weights W.npy -o p=W.npy
expect 1 "W.npy is read by --weights" "${P[@]}" --weights W.npy -o ./W.npy -o q=q.npy
expect 1 "W.npy is read by --weights" "$NETC" eval fit.net --data x=x.npy --device cpu --weights W.npy -o p=./W.npy
expect 1 "W.npy is read by --weights" "$NETC" run fit.net --input x=x.npy --device cpu --weights W.npy -o q.npy -o p=W.npy
expect 1 "x.npy is also read as data" "$NETC" run fit.net --input x=x.npy --device cpu --weights W.npy -o p=x.npy
cmp -s W.npy m.safetensors && pass || fail "weights replaced by an output"
expect 1 "link.st is read by --weights" "${T[@]}" --steps 9 --weights m.safetensors --save link.st
expect 1 "m.safetensors is read by --weights" "$NETC" init fit.net --weights m.safetensors -o m.safetensors
cp m.safetensors n.best.safetensors
expect 1 "n.best.safetensors is read by --weights" "${T[@]}" --steps 9 --weights n.best.safetensors --save n.safetensors --save-best loss
cp m.safetensors w.bin
expect 1 "w.bin is read by --weights" "$NETC" fit.net --target cpu --weights w.bin -o w.bin
part=$(ls m-00001-of-*.safetensors); cp "$part" part.keep
expect 1 "./$part is in m.safetensors.index.json, which is read by --weights" "${T[@]}" --steps 9 --weights m.safetensors.index.json --save "./$part"
mkdir of; cp m.safetensors of/model.safetensors
expect 1 "of/model.safetensors is in of, which is read by --weights" "${T[@]}" --steps 9 --weights of --save of/model.safetensors
cmp -s "$part" part.keep && cmp -s of/model.safetensors m.safetensors && pass || fail "a part of the weights replaced"
expect 0 "" "${T[@]}" --steps 2 --weights m.safetensors.index.json --save of/other.safetensors
expect 0 "" "${P[@]}" --weights of/other.safetensors -o p=of/p.npy
# Tuning files, that of the model without an option, a profile, a tokenizer; what a name says is something else.
printf '# netc tune 1\n' >fit.net.tune; cp fit.net.tune other.tune; cp fit.net.tune keep.tune
expect 1 "fit.net.tune is the model's tuning file" "$NETC" --emit plan fit.net -o fit.net.tune
expect 1 "other.tune is read by --tune-file" "$NETC" --emit plan fit.net --tune-file other.tune -o other.tune
same fit.net.tune keep.tune "a stage over a tuning file"; rm fit.net.tune
printf '{}' >p.html
expect 1 "p.html is read by --profile" "$NETC" report fit.net --profile p.html -o p.html
: >t.txt; expect 1 "t.txt is read by --tokenizer" "$NETC" tokenize part.keep --tokenizer t.txt -o t.txt
for f in x.npy m.safetensors w.bin; do
    expect 1 "$f: --emit writes text; name the file accordingly" "$NETC" --emit c fit.net -o "$f"
done
expect 1 "m.safetensors: a trace is written as .json" "$NETC" profile fit.net --device cpu --trace m.safetensors
intact "an output over what is read"
expect 0 "" "${T[@]}" --steps 5 --seed 3 --resume m.safetensors --save m.safetensors # is what resuming is for
same m.safetensors keep.safetensors "no step more"

printf 'first' >1.txt; printf 'second' >2.txt
expect 1 "2.txt is a file that is read" "$NETC" tokenize 1.txt 2.txt --tokenizer bytes -o 2.txt
[ "$(cat 2.txt)" = second ] && pass || fail "a text is lost"

# What is there and of another kind is neither replaced nor added to.
expect 1 "2.txt exists and is not a training log; name another file" "${T[@]}" --steps 2 --log 2.txt
expect 1 "2.txt exists and is not a training log" "${T[@]}" --steps 9 --resume m.safetensors --log 2.txt
expect 1 "keep.npy exists and is not a file of results" "$NETC" bench fit.net --device cpu --repeats 1 --steps 1 --compiles 0 -o keep.npy
[ "$(cat 2.txt)" = second ] && pass || fail "a text is lost"
expect 0 "" "${T[@]}" --steps 9 --log log.jsonl
expect 1 "log.jsonl is also read as data" "$NETC" report fit.net --log log.jsonl -o log.jsonl
for i in 1 2; do expect 0 "" "$NETC" bench fit.net --device cpu --repeats 1 --steps 1 --compiles 0 -o b.jsonl; done
expect 0 "0 worse" "$NETC" bench --compare b.jsonl b.jsonl
intact "files of another kind"

# Two outputs in one file: the first would be lost.
printf 'before' >o.npy
P=("$NETC" predict fit.net --data x=x.npy --device cpu -q)
expect 1 "./o.npy is another output's file" "${P[@]}" -o p=o.npy -o q=./o.npy
expect 1 "new.csv is another output's file" "${P[@]}" -o p=new.csv -o q=new.csv
expect 1 "o.npy is another output's file" "$NETC" run fit.net --input x=x.npy --device cpu -o p=o.npy -o q=o.npy
[ "$(cat o.npy)" = before ] && [ ! -e new.csv ] && pass || fail "an output was written"
expect 0 "" "$NETC" run fit.net --input x=x.npy --device cpu -o p=both.npz -o q=both.npz
expect 0 "q " "$NETC" show both.npz
expect 0 "" "${P[@]}" -o p=/dev/null -o q=/dev/null

# A training that does not begin leaves the curves of the one before.
expect 0 "" "${T[@]}" --steps 9 --log run.log --tensorboard tb
cp run.log keep.log; cp tb/scalars.csv keep.csv
expect 1 "nowhere.npy" "$NETC" train fit.net --data x=nowhere.npy --device cpu --log run.log --tensorboard tb
expect 1 "did you mean 'batch'" "${T[@]}" -D bach=3 --log run.log --tensorboard tb
same run.log keep.log "no training"; same tb/scalars.csv keep.csv "no training"
expect 0 "" "${T[@]}" --steps 2 --log run.log --tensorboard tb
[ "$(wc -l <run.log)" = 2 ] && [ "$(grep -c loss tb/scalars.csv)" = 2 ] && pass || fail "the curves were not replaced: $(cat run.log tb/scalars.csv)"
[ "$(head -1 tb/scalars.csv)" = step,epoch,seconds,name,value ] && pass || fail "a table without its head"
expect 0 "" "${T[@]}" --steps 2 --save two.safetensors
expect 0 "" "${T[@]}" --steps 4 --resume two.safetensors --log run.log --tensorboard tb
[ "$(wc -l <run.log)" = 4 ] && [ "$(grep -c loss tb/scalars.csv)" = 4 ] && pass || fail "the curves do not go on: $(cat run.log tb/scalars.csv)"

# Options of which one would say nothing.
expect 1 "give --resume or --weights, not both" "${T[@]}" --resume m.safetensors --weights m.safetensors
expect 1 "give one of them" "${T[@]}" --split 0.5 --eval-data x=x.npy
expect 1 "--eval-every needs evaluations, but nothing is evaluated" "${T[@]}" --eval-every 3
expect 1 "evaluations have no scalar 'accuracy'; there is 'loss'" "${T[@]}" --split 0.5 --save n.safetensors --save-best accuracy
[ "$(wc -l <"$W/.out")" = 1 ] && pass || fail "more than a line: $(cat "$W/.out")"
for option in "--map a.*=b.*" "--ignore a" "--transpose a" --allow-missing; do
    for verb in "train" "eval" "predict -o p=p.npy"; do
        expect 1 "${option%% *} applies to the file of --weights; give --weights FILE" "$NETC" $verb fit.net --data x=x.npy --device cpu $option
    done
done
# The seed that goes on is the checkpoint's.
expect 0 "note: m.safetensors was trained with seed 3 and continues with it, not with 7" "$NETC" train fit.net --data x=x.npy --device cpu --seed 7 --resume m.safetensors --steps 7
for seed in "" "--seed 3"; do
    expect 0 "" "$NETC" train fit.net --data x=x.npy --device cpu $seed --resume m.safetensors --steps 7
    grep -q "note: m.safetensors" "$W/.out" && fail "a note about the same seed" || pass
done
# Other examples, fewer or more: epochs are others.
printf 'model rows() { return x = normal([24, 3], 1) }\n' >rows.net
expect 0 "" "$NETC" run rows.net -o x=fewer.npy --device cpu
expect 0 "note: m.safetensors was trained on 40 examples, these are 24: an epoch has other steps and another order, and step 5 is now in epoch 1" \
    "$NETC" train fit.net --data x=fewer.npy --device cpu --resume m.safetensors --steps 7
# Another order, the last batch of an epoch, another optimizer: what changes is said, and nothing is said of what does not.
RESUME=("$NETC" train fit.net --data x=x.npy --device cpu --steps 7)
expect 0 "note: m.safetensors was trained with its examples shuffled, here they are in order: step 5 is at another place in the data" \
    "${RESUME[@]}" --resume m.safetensors --no-shuffle
sed 's/^dim batch = 4/dim batch = 12/' fit.net >wide.net
WIDE=("$NETC" train wide.net --data x=x.npy --device cpu)
expect 0 "" "${WIDE[@]}" --steps 5 --save wide.safetensors --no-shuffle
expect 0 "note: wide.safetensors was trained with the last, smaller batch of an epoch left out, here it is kept: an epoch has other steps, and step 5 is now in epoch 2" \
    "${WIDE[@]}" --steps 7 --resume wide.safetensors --keep-last --no-shuffle
grep -q "examples" <(grep note: "$W/.out") && fail "a note about the same order" || pass
sed 's/sgd(lr = 0.01)/adam(lr = 0.01)/' fit.net >adam.net
expect 0 "" "$NETC" train adam.net --data x=x.npy --device cpu --steps 5 --save adam.safetensors
expect 0 "note: adam.safetensors holds 4 tensors that this training does not have ('fc." "${RESUME[@]}" --resume adam.safetensors
expect 0 "" "$NETC" train adam.net --data x=x.npy --device cpu --steps 7 --resume adam.safetensors
grep -q note: "$W/.out" && fail "a note of nothing that changed: $(grep note: "$W/.out")" || pass
expect 0 "" "${RESUME[@]}" --weights adam.safetensors
grep -q note: "$W/.out" && fail "a note of what --weights never reads" || pass
# A checkpoint of another model: what helps is said of the option that takes it.
sed 's/as fc/as other/' fit.net >other.net
expect 1 "to start from the tensors that fit, give it as --weights, with --map" "$NETC" train other.net --data x=x.npy --device cpu --resume m.safetensors
expect 1 "(give --map" "$NETC" train other.net --data x=x.npy --device cpu --weights m.safetensors
expect 0 "" "$NETC" train other.net --data x=x.npy --device cpu --weights m.safetensors --map 'fc.*=other.*'
# Of the same model with other sizes: what is to be given is -D, and of many tensors the first are enough.
cat >sized.net <<'N'
use nn
const width = 6
dim batch = 4
model m(x: f32[batch, 3]) {
    h = linear(x, width) as begin
    for i in 0..5 { h = tanh(linear(h, width) as layer[i]) }
    return h
}
N
expect 0 "" "$NETC" init sized.net -D width=5 -o sized.safetensors --device cpu
expect 1 "sized.safetensors is a checkpoint of a model of other sizes; 12 tensors differ:" "$NETC" run sized.net --input x=x.npy --weights sized.safetensors --device cpu
grep -qxF "  and 4 more" "$W/.out" && grep -qxF "  (give the -D NAME=VALUE that it was trained with; the model has width, batch)" "$W/.out" && [ "$(wc -l <"$W/.out")" = 11 ] && pass || fail "other sizes: $(cat "$W/.out")"

# No examples.
{ printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }"; } >none.npy
for verb in train eval; do expect 1 "the data hold no examples: 'x' has none" "$NETC" $verb fit.net --data x=none.npy --device cpu; done
expect 1 "the data hold no examples" "${T[@]}" --eval-data x=none.npy --steps 2
intact "slips"
finish

#!/bin/sh
# What a run changes without compiling again: a plan with other settings by its
# options computes what a plan that was compiled with them does, bit for bit.
. "${top_srcdir:?}/tests/lib.sh"
rank=$build/tests/unit/runtime/toy-rank

# says STATUS TEXT COMMAND..
says()
{
	wanted=$1 text=$2
	shift 2
	"$@" >out 2>err
	got=$?
	test $got = "$wanted" || bad "$*: exit status $got, not $wanted"
	grep -qF -- "$text" out err || bad "$*: no '$text'"
}

# ---- illegal values, and what is legal ----

train="$rank train --local --data draw --steps 2"
says 2 "--lr takes a number from 0 to 1000, not '-1'" $train --lr -1
says 2 "--lr takes a number from 0 to 1000, not 'fast'" $train --lr fast
says 2 "--clip takes a number from 1e-09 to 1000000000, not '0'" $train \
	--clip 0
says 2 "--warmup takes a whole number from 0 to 1000000000000, not '1.5'" \
	$train --warmup 1.5
says 2 "--schedule takes constant|linear|cosine|wsd, not 'step'" $train \
	--schedule step
says 2 '--min-lr is of a schedule that falls, and this one is constant' $train \
	--min-lr 0
says 2 '--decay-steps is of a schedule that falls' $train --decay-steps 3
says 2 'is 0.001, and the schedule ends at 0.5: give --min-lr 0 to 0.001' \
	$train --schedule linear --lr 0.001 --min-lr 0.5
for decay in -1 11 nan x= biases=0 vectors= vectors=x vector=1; do
	says 2 "found '$decay', expected a number from 0 to 10, or that of" \
		$train --weight-decay 1 $decay
done
says 2 '--clip: this plan computes no norm of gradients' $train --clip 1
says 2 '--lr is not an option of this command' "$rank" bench --local --lr 1

# ---- in the checkpoint, and in the log of a run that goes on ----

says 0 'ended at step 2' $train --checkpoint ck --lr 0.5 --weight-decay 0.1 \
	vectors=0.01 --log log
grep -qF '"settings": "lr=0.5 schedule=constant warmup=0 weight_decay.matrices=0.10000000000000001 ' \
	ck/step-00000002/checkpoint.json || bad 'not in the checkpoint'
says 0 'resumed at step 2' $train --checkpoint ck --lr 0.5 --resume \
	--weight-decay 0.1 vectors=0.01
grep -q ' was ' out && bad 'nothing changed'
says 0 'lr was 0.5, and is 0.25 from step 3 on' $train --checkpoint ck \
	--resume --lr 0.25 --schedule cosine --weight-decay 0.1 vectors=0 \
	--log log
for line in 'schedule was constant, and is cosine from step 3 on' \
	'min_lr was none, and is 0 from step 3 on' \
	'weight_decay.vectors was 0.01, and is 0 from step 3 on'; do
	grep -qx "$line" out || bad "no line '$line'"
done
test "$(grep -c ' was ' out)" = 5 || bad 'other lines'
grep -q '"event": "setting", .*"step": 2, "name": "lr", "was": "0.5", "is": "0.25"}' \
	log || bad 'not in the log'

# ---- as if compiled with them ----

need binaries llvm linker
# model FILE SETTINGS: with an embedding, matrices, and a norm
model()
{
	cat >"$1" <<END
model m {
  dim seq = 8, vocab = 16, hidden = 16, ffn = 32;
  layer block(x[batch, seq, hidden]) {
    n = layernorm(x) @ "norm";
    return x + linear(gelu(linear(n -> ffn, bias) @ "up") -> hidden) @ "down";
  }
  x = embed(tokens, vocab -> hidden) @ "t";
  repeat 2 as i { x = block(x) @ "{i}"; }
  logits = linear(x -> vocab) @ "out";
  loss = cross_entropy(logits, labels);
}
train { batch = 8; steps = 6; $2 }
END
}
model a.llm 'optimizer = adamw(lr = 0.001); clip = 1e9;'
model b.llm 'optimizer = adamw(lr = 0.05, weight_decay = 0.3,
	decay_embeddings = 0.01, decay_vectors = 0.2); clip = 0.4;
	schedule = cosine(warmup = 2, decay = 3, min_lr = 0.01);'
options='--lr 0.05 --weight-decay 0.3 embeddings=0.01 vectors=0.2 --clip 0.4
	--schedule cosine --warmup 2 --decay-steps 3 --min-lr 0.01'
# compares TARGET PINS ARGUMENTS..: both plans, with the options
compares()
{
	target=$1 pins=$2
	shift 2
	rm -rf a b ck.a ck.b
	run --draft --no-whole --target "$target" --pin "$pins" -o a a.llm
	run --draft --no-whole --target "$target" --pin "$pins" -o b b.llm
	# shellcheck disable=SC2086 # words
	says 0 'ended at step 6' a/rank train --local --data draw --seed 5 \
		--checkpoint ck.a --log a.log $options "$@"
	says 0 'ended at step 6' b/rank train --local --data draw --seed 5 \
		--checkpoint ck.b --log b.log "$@"
	for file in model state; do
		cmp ck.a/step-00000006/$file.safetensors \
			ck.b/step-00000006/$file.safetensors ||
			bad "$target $pins: $file"
	done
	rm -rf ck.a
	says 0 'ended at step 6' a/rank train --local --data draw --seed 5 \
		--checkpoint ck.a "$@"
	cmp -s ck.a/step-00000006/model.safetensors \
		ck.b/step-00000006/model.safetensors &&
		bad "$target $pins: settings make no difference"
}
compares cpux1 dp=1
compares cpux4 tp=2,dp=2,zero=1,microbatch=2
if have compiler; then
	# the emulator asks for no images
	export LLMC_NVRTC=/nonexistent
	compares h100x2 dp=2 --device emulate
	unset LLMC_NVRTC
fi

# The interpreter, in float64, has a schedule of its own.
run eval --steps 6 --seed 5 b.llm
sed -n 's/^step [0-9]* loss \([0-9.]*\).*/\1/p' out >wanted
compares cpux1 dp=1
losses_in b.log | paste - wanted >both
awk '{ d = ($1 - $2) / $2; n += d * d < 1e-10 } END { exit n != 6 }' both ||
	bad "other losses than the interpreter's: $(cat both)"
exit $failed

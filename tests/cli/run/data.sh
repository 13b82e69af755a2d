#!/bin/sh
# Blends, sets to evaluate on, and documents: what a run reads depends on the
# seed and the number of a sequence, whatever the split and wherever it begins.
. "${top_srcdir:?}/tests/lib.sh"
rank=$build/tests/unit/runtime/toy-rank

# says STATUS TEXT ARGUMENTS..: of the toy
says()
{
	wanted=$1 text=$2
	shift 2
	"$rank" "$@" >out 2>err
	got=$?
	test $got = "$wanted" || bad "rank $*: exit status $got, not $wanted"
	grep -qF -- "$text" out err || bad "rank $*: no '$text'"
}

# tokens FILE N EXPRESSION: raw u16, of i = 0 .. N - 1, each below 16
tokens()
{
	i=0
	while test $i -lt "$2"; do
		printf "\\$(printf %03o $((($3) % 16)))\\000"
		i=$((i + 1))
	done >"$1"
}
tokens a.bin 101 i
tokens b.bin 61 'i * 3'
tokens c.bin 401 'i * 5 + i / 7'

# ---- a blend: stops and goes on in its middle ----

blend='--data 0.7:a.bin 0.3: b.bin c.bin'
says 0 'data 0.7 of a.bin: 25 sequences, 2.04 epochs by step 9' train --local \
	--steps 9 --seed 3 --checkpoint whole --log whole.log $blend
grep -qx 'data 0.3 of b.bin ..: 115 sequences, 0.18 epochs by step 9' out ||
	bad 'nothing of the second source'
says 0 'ended at step 4' train --local --steps 4 --seed 3 --checkpoint parts \
	--log parts.log $blend
says 0 'resumed at step 4' train --local --steps 9 --resume --checkpoint parts \
	--log parts.log $blend
for file in model state; do
	cmp whole/step-00000009/$file.safetensors \
		parts/step-00000009/$file.safetensors ||
		bad "$file: a blend that goes on is another one"
done
losses_in whole.log >whole.losses
losses_in parts.log | cmp - whole.losses || bad 'other losses'
test "$(grep -c '"event": "data", .*"epochs": ' whole.log)" = 2 ||
	bad 'sources are not in the log'
for other in '7:a.bin 3.0: b.bin c.bin' '70:./a.bin 30:b.bin c.bin'; do
	# shellcheck disable=SC2086 # words
	says 0 'resumed at step 4' train --local --steps 9 \
		--resume parts/step-00000004 --data $other
done
for other in '0.6:a.bin 0.4: b.bin c.bin' 'a.bin b.bin c.bin' \
	'0.3: b.bin c.bin 0.7:a.bin'; do
	# shellcheck disable=SC2086
	says 1 'of a run of other data' train --local --steps 9 \
		--resume parts/step-00000004 --data $other
done
# as many as the data has: the first source to end is a.bin, of 25 sequences
says 0 'ended at step 4' train --local --data 0.7:a.bin 0.3:c.bin

# ---- saves behind the steps: the same checkpoints ----

says 0 'ended at step 9' train --local --steps 9 --seed 3 --checkpoint behind \
	--every 4 --keep 9 --async-checkpoint --log behind.log $blend
says 0 'ended at step 9' train --local --steps 9 --seed 3 --checkpoint before \
	--every 4 --keep 9 $blend
same_folders before behind
test "$(grep -c '"event": "checkpoint", .*"behind_ms": [0-9]' behind.log)" = 2 ||
	bad 'no times of saves behind steps'
says 2 'no folder for checkpoints is given' train --local --steps 9 \
	--async-checkpoint $blend

# ---- words that mean nothing ----

for weight in 0 0.0 .5 1. 1e3 -1 +1 1000000 0.1234567890 1.2.3; do
	says 2 "the weight '$weight', expected a number such as 0.7" train \
		--local --data 1:a.bin $weight:b.bin
done
says 2 "'a.bin' has no weight, and files after it have" train --local --data \
	a.bin 0.5:b.bin
says 2 "'0.5:' names no file" train --local --data 0.5: 0.5:b.bin
says 1 '1:x.bin: cannot open' train --local --data ./1:x.bin
says 1 'few:x.bin: cannot open' train --local --data few:x.bin
many=
while test ${#many} -lt 520; do
	many="$many 1:a.bin"
done
# shellcheck disable=SC2086
says 2 'found more than 64 sources' train --local --data $many
says 2 'sets to evaluate on have names' train --local --data a.bin \
	--eval-data 1:a.bin
says 2 "two sets of data are called 'x'" train --local --data a.bin \
	--eval-data x:a.bin x:b.bin
says 2 "'x:' names no file" eval --local --checkpoint whole --data x:
says 2 'of a set of data is too long: at most 47 bytes' eval --local \
	--checkpoint whole --data \
	x2345678901234567890123456789012345678901234567890:a.bin

# ---- sets ----

says 0 'evaluation of b at step 9: loss ' train --local --steps 9 --seed 3 \
	--data a.bin --eval-data all-1: a.bin c.bin b:b.bin --eval-every 5 \
	--log sets.log --tensorboard events --checkpoint sets
test "$(grep -c '^evaluation of .* at step [59]: ' out)" = 4 || bad 'sets'
grep -q '"event": "evaluation", .*"set": "all-1", "step": 5, "batches": 15, ' \
	sets.log || bad 'no set in the log'
grep -q 'evaluation_loss/all-1' events/* || bad 'no set in the event file'
grep '^evaluation of' out | tail -2 >said
says 0 '' eval --local --checkpoint sets --data all-1:a.bin c.bin b:b.bin
cmp out said || bad 'eval and training evaluate differently'
says 0 '{"set": "b", "step": 9, ' eval --local --checkpoint sets --json \
	--data all-1: a.bin c.bin b: b.bin
while read -r line; do
	echo "$line" >object
	is_json object
done <out
tokens few.bin 14 i
says 1 'evaluate on (few) has 3 sequences, and a batch takes 8' eval --local \
	--checkpoint sets --data few:few.bin

# ---- plans of one model: what they read does not depend on the split ----

need binaries llvm linker
cat >m.llm <<'END'
model m {
  dim seq = 8, vocab = 16, hidden = 16, document = 8, position = 8;
  dim heads = 2, hd = 4;
  input documents: idx<document>[batch, seq];
  input positions: idx<position>[batch, seq];
  x = embed(tokens, vocab -> hidden) @ "t";
  x = x + embed(documents, document -> hidden) @ "d";
  x = x + embed(positions, position -> hidden) @ "p";
  input document_first[batch, seq];
  input prefix_last[batch, seq];
  input loss_mask[batch, seq];
  input loss_tokens: f32[];
  q = linear(x -> heads, hd) @ "q";
  a = attention_between(q, q, q, document_first, prefix_last);
  x = x + linear(a -> hidden) @ "o";
  logits = linear(x -> vocab) @ "out";
  loss = cross_entropy(logits, labels, loss_mask, loss_tokens);
}
train { batch = 8; optimizer = sgd(lr = 0); }
END
run --draft --no-whole --target cpux1 --pin microbatch=8 -o one m.llm
run --draft --no-whole --target cpux2 --pin dp=2,microbatch=1 -o two m.llm
run --draft --no-whole --target cpux4 --pin tp=2,dp=2,microbatch=2 -o four \
	m.llm
# trained PLAN ARGUMENTS..: with the blend; nothing is learned
trained()
{
	plan=$1
	shift
	# shellcheck disable=SC2086
	$plan/rank train --local --seed 3 $blend --document-end 3 \
		--prefix-end 5 --ignore-label 7 --log \
		$plan.log "$@" >out 2>err || bad "$plan/rank train $*"
}
trained one --steps 8 --checkpoint ck.one
for plan in two four; do
	cp -r ck.one ck.$plan
	rm -rf ck.$plan/step-*
	trained $plan --steps 3 --checkpoint ck.$plan
done
# each goes on with what the other has saved
trained two --steps 8 --resume ck.four/step-00000003 --checkpoint ck.end
trained four --steps 8 --resume ck.two/step-00000003
for plan in two four; do
	losses_in $plan.log >$plan.losses
	losses_in one.log | paste - $plan.losses >both
	awk '{ d = $1 - $2; n += d * d < 1e-12 } END { exit n != 8 }' both ||
		bad "$plan: other losses: $(cat both)"
done
test "$(losses_in one.log | sort -u | wc -l)" = 8 || bad 'all batches are one'
one/rank train --local $blend --steps 1 >out 2>err &&
	bad 'documents without an end'
grep -qF 'the model reads `documents`: give the token that ends a document' \
	err || bad 'not said'
one/rank train --local $blend --document-end 4 --prefix-end 5 --ignore-label 7 \
	--resume ck.end --steps 9 >out 2>err &&
	bad 'other documents are the same data'
grep -q 'of a run of other data' err || bad 'other documents'
exit $failed

#!/bin/sh
# Weights from files: whoever reads them reads all that a model has, states
# as well as what is trained, and says so of what the model does not have.
. "${top_srcdir:?}/tests/lib.sh"

# numbers N: as f32: 1, 2, 0.5, -1, 1, ..
numbers()
{
	awk -v n="$1" 'BEGIN {
		split("000\\000\\200\\077 000\\000\\000\\100 " \
		      "000\\000\\000\\077 000\\000\\200\\277", f)
		for (i = 0; i < n; i++) printf "\\%s", f[i % 4 + 1]
	}'
}

# weights FILE NAME SHAPE ELEMENTS..: safetensors of such numbers
weights()
{
	file=$1 header= at=0
	shift
	while [ $# -gt 0 ]; do
		header="$header${header:+,}\"$1\":{\"dtype\":\"F32\",\"shape\":$2"
		header="$header,\"data_offsets\":[$at,$((at + 4 * $3))]}"
		at=$((at + 4 * $3))
		shift 3
	done
	header="{$header}"
	{
		# shellcheck disable=SC2059 # an octal escape is the point
		printf "\\$(printf %03o $((${#header} % 256)))"
		# shellcheck disable=SC2059
		printf "\\$(printf %03o $((${#header} / 256)))"
		printf '\000\000\000\000\000\000%s' "$header"
		# shellcheck disable=SC2059
		printf "$(numbers $((at / 4)))"
	} >"$file"
}

cat >m.llm <<'END'
model m {
  dim hidden = 5, vocab = 6, seq = 4;
  dtype f32;
  layer block(x[batch, seq, hidden]) {
    return x + state(hidden) @ "bias";
  }
  x = embed(tokens, vocab -> hidden) @ "embed";
  repeat 2 as i { x = block(x)       @ "layers.{i}"; }
  logits = linear(x -> vocab)        @ "head";
  loss = cross_entropy(logits, labels);
}
train { batch = 4; optimizer = sgd(lr = 0.25); }
END
whole='embed.weight [6,5] 30 head.weight [6,5] 30'
whole="$whole layers.0.bias [5] 5 layers.1.bias [5] 5"
# shellcheck disable=SC2086 # three words each
weights all.st $whole

# ---- what is not trained is read too ----

# losses FILE: of llmc eval, one after the other
losses()
{
	sed -n 's/.*loss \([-0-9.e]*\).*/\1/p' "$1"
}

run eval --weights all.st m.llm
plain=$(losses out)
run eval m.llm
[ "$plain" != "$(losses out)" ] || bad 'weights make no difference'
run eval --steps 2 --weights all.st m.llm
cp out steps
[ "$(losses steps | head -n 1)" = "$plain" ] ||
	bad "eval --steps: another loss than $plain"
run eval --pin dp=2,pp=2 --compare --weights all.st m.llm
[ "$(losses out | head -n 1 | cut -c 1-12)" = "$(echo "$plain" |
	cut -c 1-12)" ] || bad "eval --compare: another loss than $plain"
# one that is missing is missed, however weights are read
weights some.st embed.weight '[6,5]' 30 head.weight '[6,5]' 30
for how in '' '--steps 1' '--pin dp=2' '--pin dp=2 --compare'; do
	# shellcheck disable=SC2086 # words
	refused 'has no tensor `layers.0.bias`' eval $how --weights some.st \
		m.llm
done

# ---- what the model does not read ----

# shellcheck disable=SC2086 # three words each
weights more.st $whole layers.2.bias '[5]' 5 layers.3.bias '[5]' 5 \
	a.weight '[1]' 1 b.weight '[1]' 1 c.weight '[1]' 1
unread="more.st: found 5 tensors that the model does not read: 'a.weight',"
unread="$unread 'b.weight', 'c.weight', 'layers.2.bias' and 1 more"
for how in '' '--steps 1' '--pin dp=2' '--pin dp=2 --compare'; do
	# shellcheck disable=SC2086 # words
	refused "$unread, expected none: --allow-unused leaves them out" \
		eval $how --weights more.st m.llm
	# shellcheck disable=SC2086
	run eval $how --weights more.st --allow-unused m.llm
	grep -q "loss $(echo "$plain" | cut -c 1-12)" out ||
		bad "$how: tensors left out change the loss"
done

# Files have some that are no weights, or are others once more.
mask='h.0.attn.bias [1,1,2,2] 4 h.0.attn.masked_bias [] 1'
frequencies='model.layers.0.self_attn.rotary_emb.inv_freq [2] 2'
# shellcheck disable=SC2086
weights known.st $whole $frequencies lm_head.weight '[6,5]' 30 $mask
run eval --weights known.st m.llm
[ "$(losses out)" = "$plain" ] || bad 'what files have besides changes the loss'
# shellcheck disable=SC2086
weights other.st $whole x.masked_bias '[]' 1 lm_head.weight '[6,5]' 30
refused "found 1 tensor that the model does not read: 'lm_head.weight'," \
	eval --weights other.st m.llm
for like in 'h.0.attn.bias [4] 4' 'h.0.attn.bias [1,1,2,3] 6' \
	'x.inv_freq [1] 1' 'h.0.attn.masked_bias [2] 2' 'position_ids [1,2] 2'
do
	# shellcheck disable=SC2086
	weights other.st $whole $like
	refused "does not read: '${like%% *}', expected none" \
		eval --weights other.st m.llm
done

have binaries llvm linker || exit $failed
run -w --draft --target cpux4 --pin dp=2,pp=2 -o plan m.llm
plan/rank train --local --data draw --steps 2 --weights all.st --log log \
	--checkpoint ck >out 2>err || bad 'rank train'
losses_in log | paste - steps | awk '{ d = $1 - $5
	if (NF != 5 || d > 1e-5 || d < -1e-5) exit 1 }
	END { if (NR != 2) exit 1 }' || bad "rank train: $(losses_in log)"
plan/rank verify --local --weights all.st >out 2>err || bad 'rank verify'
awk -v want="$plain" '$1 == "loss" { d = $2 - want; n++
	if (d > 1e-5 || d < -1e-5) exit 1 } END { if (!n) exit 1 }' out ||
	bad "rank verify: another loss than $plain"
plan/rank verify --local --weights some.st >out 2>err
[ $? = 1 ] && grep -q "'layers.0.bias': not found" err || bad 'a missing state'

echo 3 >prompt
for how in 'train --data draw --steps 1' 'verify' \
	'sample --prompt-file prompt --tokens 1'; do
	# shellcheck disable=SC2086 # words
	plan/rank $how --local --weights more.st >out 2>err
	[ $? = 1 ] && grep -qF "$unread" err || bad "rank $how: unread tensors"
	for file in 'more.st --allow-unused' known.st; do
		# shellcheck disable=SC2086 # words
		plan/rank $how --local --weights $file >out 2>err ||
			bad "rank $how: $file"
	done
done

# What is saved has them by their names, where weights are.
model=ck/step-00000002/model.safetensors
grep -q layers.1.bias $model || bad 'a checkpoint has no states of the model'
run eval --weights $model m.llm
plan/rank train --local --data draw --steps 1 --weights $model --log more \
	>out 2>err || bad 'weights that were saved'
run eval --weights $model m.llm
awk -v a="$(losses out)" -v b="$(losses_in more)" 'BEGIN { d = a - b
	exit !(b != "" && d < 1e-5 && d > -1e-5) }' || bad 'saved and read again'
plan/rank train --local --data draw --steps 3 --checkpoint ck --resume \
	>out 2>err || bad 'going on'
exit $failed

#!/bin/sh
# Each family of llmc import as a compiled plan on four ranks: loss and
# gradients of a step in f32 beside what the transformers library computed in
# float64, and an export that gives the same logits, bit for bit.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker binaries
interop=$tests/interop/tiny
lr=256	# what a step adds is far larger than what f32 rounds off a weight

# family NAME PIN: the plan in $1.$2
family()
{
	from=$interop/$1 here=$1.$2
	mkdir "$here"
	"$LLMC" import "$from" -o "$here/m.llm" >out 2>err || bad "import $1"
	sed "s/adamw(.*)/sgd(lr = $lr)/; /^  clip/d" "$here/m.llm" >"$here/s.llm"
	"$LLMC" --draft --no-whole --dim batch=2 --target cpux4 --pin "$2" \
		"$here/s.llm" -o "$here/plan" >out 2>err || bad "compile $here"
}

# near A B: are two numbers equal to 1e-5?
near()
{
	awk -v a="$1" -v b="$2" 'BEGIN {
		d = a - b; exit !(a > 0 && d * d <= 1e-10 * b * b) }'
}

# step FAMILY PIN LOSS: loss and gradients of its first step
step()
{
	family "$1" "$2" || return
	"$here/plan/rank" train --local --steps 1 --weights "$from" \
		--data "$from/tokens-0.bin" "$from/tokens-1.bin" \
		--data-order file --log "$here/log" --checkpoint "$here/run" \
		>out 2>err || bad "train $here" || return
	loss=$(sed -n 's/.*"loss": \([0-9.e+-]*\).*/\1/p' "$here/log" |
		head -n 1)
	near "$loss" "$3" || bad "$here: loss $loss, expected $3"
	"$build/tests/interop/gradients" "$from" \
		"$here/run/step-00000001" "$from/expected.safetensors" \
		$lr >out 2>err || bad "gradients of $here"
}

# back FAMILY PIN: what it exports is imported as the same model
back()
{
	here=$1.$2
	"$here/plan/rank" export "$here/out" --local \
		--checkpoint "$here/run" --shard-bytes 2000 >out 2>err ||
		bad "export $here" || return
	"$LLMC" import "$here/out" -o "$here/m2.llm" >out 2>err ||
		bad "import what $here exported" || return
	"$LLMC" --emit=ir "$here/m.llm" | grep -v '^module' >a
	"$LLMC" --emit=ir "$here/m2.llm" | grep -v '^module' >b
	cmp -s a b || bad "$here: not the same model"
	for w in "$here/run/step-00000001/model.safetensors" "$here/out"; do
		"$LLMC" eval --dim batch=2 --weights "$w" --checksum logits \
			"$here/m.llm" || bad "eval $w"
	done >both 2>err
	[ "$(sort both | uniq -c | awk '$1 == 2' | wc -l)" -eq 2 ] ||
		bad "$here: other logits"
}

# FAMILY LOSS SPLIT..: the loss in float64, and splits that are tried; a fifth of
# the families on each day
while read -r name loss pins; do
	today 5 || continue
	for pin in $pins; do
		step "$name" "$pin" "$loss"
	done
	back "$name" "$pin"
done <<'END'
bloom 4.864326106 tp=2,pp=2
deepseek_v2 3.608815006 pp=2,tp=2 ep=2,tp=2
deepseek_v3 3.345181258 pp=2,tp=2 dp=2,tp=2,microbatch=1 ep=2,tp=2 pp=2,dp=2,zero=1
deepseek_v3_yarn 3.631643936 tp=2,dp=2,microbatch=1
gemma 3.750673167 tp=4
gemma2 3.702441036 tp=2,dp=2,microbatch=1 tp=4
gemma3 3.244952486 tp=2,cp=2
gpt2 4.574068692 pp=2,tp=2 dp=2,tp=2,microbatch=1 tp=2,cp=2 pp=2,dp=2,zero=1
gpt_neox 4.089869863 tp=2,cp=2
gpt_oss 3.607083731 tp=2,dp=2,microbatch=1 ep=2,tp=2
granite 3.146965671 pp=2,dp=2,microbatch=1
llama 3.769550019 tp=2,pp=2
llama3 3.766004429 tp=4 pp=2,tp=2 dp=2,cp=2,microbatch=1 pp=2,dp=2,zero=1
mistral 4.224655477 tp=2,cp=2
mixtral 3.331104350 ep=2,tp=2 pp=2,ep=2 dp=2,tp=2,microbatch=1 tp=4
mixtral_aux 4.734065872 pp=2,ep=2
mpt 4.842252258 tp=2,cp=2
olmo2 3.422995653 tp=2,dp=2,microbatch=1
phi3 3.871623395 tp=2,pp=2
phi3_long 4.155007818 tp=2,pp=2
qwen2 2.913876987 tp=2,dp=2,zero=2
qwen2_moe 3.359157844 ep=2,tp=2
qwen2_moe_aux 4.192123519 dp=2,tp=2,microbatch=1
qwen3 4.026613745 tp=2,pp=2
qwen3_window 3.296223254 pp=2,dp=2,microbatch=1
qwen3_yarn 3.357053013 tp=2,pp=2
qwen3_moe 3.721096887 ep=2,pp=2
starcoder2 3.399291831 tp=2,cp=2
END
exit $failed

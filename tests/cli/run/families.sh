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
	sed "s/adamw(.*)/sgd(lr = $lr)/; /clip/d" "$here/m.llm" >"$here/s.llm"
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

# FAMILY LOSS SPLIT..: the loss in float64, and splits that are tried
while read -r name loss pins; do
	for pin in $pins; do
		step "$name" "$pin" "$loss"
	done
	back "$name" "$pin"
done <<'END'
deepseek_v3 4.006928388 pp=2,tp=2 dp=2,tp=2,microbatch=1 ep=2,tp=2 pp=2,dp=2,zero=1
gemma 3.296755581 tp=4
gpt2 4.020492951 pp=2,tp=2 dp=2,tp=2,microbatch=1 tp=2,cp=2 pp=2,dp=2,zero=1
gpt_neox 4.714447717 tp=2,cp=2
granite 3.004466584 pp=2,dp=2,microbatch=1
llama 3.357735846 tp=2,pp=2
llama3 3.444941447 tp=4 pp=2,tp=2 dp=2,cp=2,microbatch=1 pp=2,dp=2,zero=1
mistral 3.171167729 tp=2,cp=2
mixtral 3.355947458 ep=2,tp=2 pp=2,ep=2 dp=2,tp=2,microbatch=1 tp=4
olmo2 3.684390985 tp=2,dp=2,microbatch=1
phi3 3.716193762 tp=2,pp=2
qwen2 3.599560683 tp=2,dp=2,zero=2
qwen2_moe 3.496967184 ep=2,tp=2
qwen3 3.550069511 tp=2,pp=2
qwen3_moe 3.263026514 ep=2,pp=2
starcoder2 3.719401054 tp=2,cp=2
END
exit $failed

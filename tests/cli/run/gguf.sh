#!/bin/sh
# Weights of llama.cpp: llmc eval and ranks that share matrices read a file of
# it as they do the numbers that it stands for, and say what they cannot read.
# The numbers are held to those of the package gguf by tests/unit/data/t-gguf.c.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker binaries
files=$tests/interop/gguf

# logits WEIGHTS: the checksum of an evaluation
logits()
{
	run eval --weights "$1" --checksum logits --dim batch=2 m.llm
	grep -v '^ranks' out
}

# layers MODEL: without its name and what its config.json was, and all of dtype
# f32
layers()
{
	sed 's/bf16/f32/; /^# The config.json/,$d; s/ *#.*//; /^model /d
		/^$/d' "$1"
}

# keys FAMILY: its .gguf file, or the first of its parts
keys()
{
	set -- "$files/$1"/*.gguf
	echo "$1"
}

# same FAMILY: as m.llm, is the model that the keys of the file say the same, of
# the same logits?
same()
{
	run import "$files/$1" --dim seq=8 -o m.llm || exit
	# nothing of its dtype
	"$LLMC" import "$(keys "$1")" --dim seq=8 -o keys.llm ||
		bad "no import of model.gguf of $1"
	layers m.llm >want
	layers keys.llm >got
	cmp -s want got || bad "$1: keys say another model: $(diff want got)"
	logits "$files/$1/model.safetensors" >want
	logits "$(keys "$1")" >got
	[ -s want ] && cmp -s want got || bad "$1 has other logits"
}

for family in llama qwen2 mixtral qwen3_moe; do
	same "$family"
	run -w --draft --no-whole --dim batch=2 --target cpux2 --pin tp=2 \
		m.llm -o "plan-$family" || exit
	for file in gguf safetensors; do
		"./plan-$family/rank" export "of-$file" --local --weights \
			"$files/$family/model.$file" >out 2>err ||
			bad "ranks do not read $file of $family: $(cat err)"
	done
	cmp -s of-gguf/model.safetensors of-safetensors/model.safetensors ||
		bad "two ranks read other numbers of $family"
	rm -rf of-gguf of-safetensors
done

for family in gemma gemma2 gemma3 granite olmo2 phi3 phi3_long qwen2_moe \
	starcoder2 deepseek_v2 deepseek_v3 deepseek_v3_yarn gpt_oss gpt2 \
	gpt_neox; do
	same "$family"
done

# ---- text, by the tokenizer of the file ----

run import "$files/llama/model.gguf" --dim seq=16 -o m.llm || exit
run -w --serve --target cpux1 m.llm -o served || exit
# generated OPTION..: five tokens after a text
generated()
{
	./served/rank generate --local --prompt 'the hat' --tokens 5 \
		--temperature 0 "$@" 2>err
}
generated --weights "$files/llama/model.gguf" >got ||
	bad "no text by the tokenizer of the weights: $(cat err)"
generated --weights "$files/llama/model.safetensors" --tokenizer \
	"$files/llama/model.gguf" >want ||
	bad "no text by the tokenizer of a .gguf: $(cat err)"
[ -s want ] && cmp -s want got || bad "texts differ: $(diff want got)"
run tokenize --tokenizer "$files/llama/model.gguf" "$top_srcdir/README.md" \
	-o tokens.bin
generated --weights "$files/llama/model.safetensors" &&
	bad "text without a tokenizer"
grep -q 'give --tokenizer FILE' err || bad "says: $(cat err)"

# A folder may have such a name.
mkdir folder.gguf && cp "$files/qwen2/config.json" folder.gguf
run import folder.gguf -o m.llm

# ---- what is refused ----

# key OLD NEW WORDS: in place of a key or text, of the same length
key()
{
	sed "s/$1/$2/" "$files/llama/model.gguf" >other.gguf
	refused "$3" import other.gguf
}
key llama.block_count llama.block_bount "found the key 'llama.block_bount', which is not known"
key llama.rope.freq_base llama.rope.freq_cast "found the key 'llama.rope.freq_cast', which is not known"
key blk.0.attn_q.bias blk.0.attn_z.bias 'blk.0.attn_z.bias'

refused 'expected the first, *-00001-of-00003.gguf, which has the keys' \
	import "$files/gpt_neox/model-00002-of-00003.gguf"

head -c 9000 "$files/qwen2/model.gguf" >part.gguf
refused 'bytes of data in the file, expected all of it' eval --weights \
	part.gguf --dim batch=2 m.llm
# the model of another family has tensors that the file lacks
run import "$files/llama" --dim seq=8 -o m.llm || exit
refused 'has no tensor `model.layers.0.self_attn.o_proj.bias`' eval --weights "$files/qwen2/model.gguf" \
	--dim batch=2 m.llm
exit $failed

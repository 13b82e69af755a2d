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

for family in llama qwen2 mixtral qwen3_moe; do
	run import "$files/$family" --dim seq=8 -o m.llm || exit
	logits "$files/$family/model.safetensors" >want
	logits "$files/$family/model.gguf" >got
	[ -s want ] && cmp -s want got || bad "$family has other logits"
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

# ---- what is refused ----

head -c 9000 "$files/qwen2/model.gguf" >part.gguf
refused 'bytes of data in the file, expected all of it' eval --weights \
	part.gguf --dim batch=2 m.llm
# the model of another family has tensors that the file lacks
run import "$files/llama" --dim seq=8 -o m.llm || exit
refused 'has no tensor `model.layers.0.self_attn.o_proj.bias`' eval --weights "$files/qwen2/model.gguf" \
	--dim batch=2 m.llm
exit $failed

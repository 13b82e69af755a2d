#!/bin/sh
# Imported models of several families, served: the tokens of a step over a
# cache are those that the transformers library continues prompts with, with
# windows by layer, sinks, latents, experts, learned positions and rows that
# only a loss would need.  FAMILIES="$(ls tests/interop/tiny)" is all of them.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker binaries

letters_tokenizer

some='llama qwen3 gemma2 mixtral deepseek_v3 gpt2 gpt_oss qwen3_window'
for family in ${FAMILIES:-$some}; do
	weights=$tests/interop/tiny/$family
	run import "$weights" -o "$family.llm" || exit
	run --serve --target cpux1 --draft -o "$family" --workload \
		prompt=3,output=5,tokens=4,rows=2,keys=256,slots=384 \
		"$family.llm" || exit
	n=0
	while read -r prompt want; do
		"./$family/rank" generate --weights "$weights" \
			--prompt "$prompt" --tokenizer tokenizer.json \
			--tokens 5 --temperature 0 >out 2>err ||
			fail "generate of $family"
		[ "$(cat out)" = "$want" ] ||
			bad "$family: $prompt $(cat out), not $want"
		n=$((n + 1))
	done <"$weights/generated.txt"
	[ $n -eq 4 ] || bad "$family has $n prompts"
done
exit $failed

#!/bin/sh
# Imported models of several families, served: the tokens of a step over a
# cache are those of the whole forward, with windows by layer, sinks, latents,
# experts, learned positions and rows that only a loss would need.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker binaries

# A tokenizer of the twenty tokens that these models have: a to t.
letters=
for i in $(seq 0 19); do
	letters="$letters${letters:+, }\"$(printf "\\$(printf %o $((97 + i)))")\": $i"
done
level='{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
	"use_regex": true}'
cat >tokenizer.json <<EOF
{"version": "1.0", "added_tokens": [], "normalizer": null,
"pre_tokenizer": $level, "post_processor": null, "decoder": $level,
"model": {"type": "BPE", "vocab": {$letters}, "merges": []}}
EOF

for family in deepseek_v3 gemma2 gpt2 gpt_oss mixtral_aux qwen3_window; do
	weights=$tests/interop/tiny/$family
	run import "$weights" -o $family.llm || exit
	run --target cpux1 --draft --pin microbatch=1 -o whole.$family \
		$family.llm || exit
	run --serve --target cpux1 --draft -o $family --workload \
		prompt=3,output=5,tokens=4,rows=2,keys=256,slots=384 \
		$family.llm || exit
	./whole.$family/rank sample --weights "$weights" --prompt bcd \
		--tokenizer tokenizer.json --tokens 5 --temperature 0 \
		>want 2>err || fail "sample of $family"
	./$family/rank generate --weights "$weights" --prompt bcd \
		--tokenizer tokenizer.json --tokens 5 --temperature 0 \
		>out 2>err || fail "generate of $family"
	cmp -s out want || bad "$family has other tokens in steps"
done
exit $failed

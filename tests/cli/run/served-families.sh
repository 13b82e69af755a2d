#!/bin/sh
# Imported models of several families, served: the tokens of a step over a
# cache are those that the transformers library continues prompts with, with
# windows by layer, sinks, latents, experts, learned positions, ALiBi and rows
# that only a loss would need.  FAMILIES="$(ls tests/interop/tiny)" is all of them.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker binaries

letters_tokenizer

some='llama qwen3 gemma2 mixtral deepseek_v3 gpt2 gpt_oss qwen3_window bloom mpt'
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
# Positions, and tokens once more, after the layers: what is served is what the
# whole forward of a training program says.
cat >late.llm <<'END'
model m {
  dim seq = 64, hidden = 16, heads = 2, hd = 8, vocab = 16;
  x = embed(tokens, vocab -> hidden) @ "e";
  p = weight(seq, hidden, std = 0.5) @ "p";
  repeat 2 as i {
    q = linear(x -> heads, hd) @ "q{i}";
    k = linear(x -> heads, hd) @ "k{i}";
    v = linear(x -> heads, hd) @ "v{i}";
    x = x + linear(attention(q, k, v, causal) -> hidden) @ "o{i}";
  }
  x = rope(x) + p + embed(tokens, vocab -> hidden) @ "f";
  logits = linear(x -> vocab) @ "h";
  loss = cross_entropy(logits, labels);
}
train { batch = 2; optimizer = adamw(lr = 1e-2); }
END
run --target cpux1 --draft -o trained late.llm || exit
trained/rank train --local --data draw --steps 3 --checkpoint ck >out 2>err ||
	fail 'no checkpoint'
run --serve --target cpux4 --pin tp=2,pp=2 --draft -o late --workload \
	prompt=3,output=5,tokens=4,rows=2,keys=256,slots=384 late.llm || exit
for prompt in abc fedcba; do
	set -- --local --checkpoint ck --prompt $prompt --tokenizer \
		tokenizer.json --tokens 20 --temperature 0
	trained/rank sample "$@" >want 2>err || fail 'no sample'
	late/rank generate "$@" >out 2>err || fail 'generate after the layers'
	[ -s want ] && [ "$(cat out)" = "$(cat want)" ] ||
		bad "after the layers: $prompt $(cat out), not $(cat want)"
done
exit $failed

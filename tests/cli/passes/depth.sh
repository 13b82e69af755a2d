#!/bin/sh
# A repeat stays a loop: the IR of 2 layers and of 1,000,000 layers is the
# same text but for the count, through every pass.
. "${top_srcdir:?}/tests/lib.sh"

for layers in 2 1000000; do
	sed "s/layers = 126/layers = $layers/" \
		"$examples/llama-3.1-405b.llm" >$layers.llm
	run --emit=ir $layers.llm -o $layers.ir
	run --emit=ir --passes=default $layers.llm -o $layers.flat.ir
done
for kind in ir flat.ir; do
	sed 's/\b1000000\b/2/' 1000000.$kind | cmp - 2.$kind ||
		bad "the number of layers is in $kind"
done

# A search looks at the same plans, whatever the number of layers: 1,000 of
# eight kinds each, and 1,000,000.
{
	cat <<'end'
model deep {
  dim layers = 1000000, hidden = 4, ffn = 4, vocab = 16, seq = 4;
  dtype f32;
  layer block(x[batch, seq, hidden]) {
    return x + linear(silu(linear(x -> ffn) @ "up") -> hidden) @ "down";
  }
  x = embed(tokens, vocab -> hidden) @ "embed";
end
	for part in 1 2 3 4 5 6 7 8; do
		echo "  repeat layers as i { x = block(x) @ \"part$part.{i}\"; }"
	done
	cat <<'end'
  logits = linear(x -> vocab) @ "head";
  loss = cross_entropy(logits, labels);
}
train { batch = 4; optimizer = adamw(lr = 1e-3); }
end
} >deep.llm
sed 's/layers = 1000000/layers = 1000/' deep.llm >less-deep.llm
# of a CPU: a GPU's graphs of a step, which are kept, grow with the layers
echo 'target big { accelerator = cpu; devices = 8; memory = 1000; }' >big.target
for model in less-deep deep; do
	# The search takes half a second. The limit is there only to end one
	# whose time grows with the layers.
	(
		ulimit -t 300
		run --target ./big.target --pin interleave=1 --explain=search \
			$model.llm
		exit $failed
	) || failed=1
	grep -E '^  (plans in the space|degrees|placements made|plans priced)' \
		out >$model.counts
	[ "$(grep -c . $model.counts)" -eq 4 ] || bad "counts of $model.llm"
done
cmp less-deep.counts deep.counts ||
	bad 'a search of more layers looks at another number of plans'

# Code is a loop over layers, in stages and their update, and in what fills
# tensors: as many lines for 200 as for 24, but for tables.
# code TARGET PINS LAYERS
code()
{
	run --target "$1" --pin "$2" --draft --emit=llvm "$3.llm"
	grep -vc '^@' out
}

# longest: lines of the longest function of the last code
longest()
{
	awk '/^define/ { n = 0 } { n++ } /^}/ { print n }' out |
		sort -n | tail -n 1
}

for layers in 24 200; do
	sed "s/layers = 2/layers = $layers/" "$examples/tiny-dense.llm" \
		>$layers.llm
done

# A GPU's kernels are the same text.
for layers in 24 200; do
	run --target h100x2 --pin pp=2,tp=1,schedule=1f1b,interleave=1 \
		--draft --emit=cuda $layers.llm
	mv out $layers.cu
done
cmp 24.cu 200.cu || bad "the number of layers is in a GPU's kernels"

if have llvm; then
	while read -r target pins; do
		few=$(code "$target" "$pins,schedule=1f1b,interleave=1" 24)
		many=$(code "$target" "$pins,schedule=1f1b,interleave=1" 200)
		[ "$few" -eq "$many" ] || bad "$target, $pins: $few lines of" \
			"code of 24 layers, $many of 200"
	done <<'end'
cpux4 pp=2,tp=2,dp=1
cpux4 pp=4
h100x2 pp=2,tp=1
end
	# with several stages on a rank no function is longer
	code cpux4 pp=2,schedule=interleaved,interleave=4 24 >/dev/null
	few=$(longest)
	code cpux4 pp=2,schedule=interleaved,interleave=40 200 >/dev/null
	many=$(longest)
	[ "$few" -eq "$many" ] ||
		bad "a function of $few lines of 24 layers, of $many of 200"
	(
		ulimit -t 300
		refused "48000006 weights and states is not compiled" \
			-w --target ./big.target --pin pp=1 -o deep deep.llm
		exit $failed
	) || failed=1
	[ ! -e deep ] || bad "a plan was written that has no program"
fi
exit $failed

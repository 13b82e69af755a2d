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

# A search takes what it takes for few layers: 8,000,000 of eight kinds, all
# degrees of 64 devices, in far less than the cpu time that is allowed.
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
(
	ulimit -t 20
	run --target h100x8x8 deep.llm
	exit $failed
) || failed=1
exit $failed

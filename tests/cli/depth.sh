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
exit $failed

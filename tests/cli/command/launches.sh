#!/bin/sh
# --emit=kernels: which contractions share a launch on a target, as code
# generation decides by the same prices.
. "${top_srcdir:?}/tests/lib.sh"

# of SEQ positions, with CHUNKS: lines of members, and launches that are counted
# of backward
kernels()
{
	sed "s/seq = 8192/seq = $1/; s/layers = 32/layers = 2/" \
		"$examples/llama-3-8b.llm" >model.llm
	"$LLMC" -w --emit=kernels --target h100x8 \
		--pin "tp=8,microbatch=1,chunks=$2" model.llm >"$1" ||
		bad "no kernels of $1 positions"
	members=$(grep -c 'one launch)' "$1")
	added=$(grep -c 'added up in one launch)' "$1")
	launches=$(sed -n 's/^stage0_backward: \([0-9]*\) kernels.*/\1/p' "$1")
}

# query, key and value; what they and `gate' and `up' read; gradients of weights
kernels 8192 auto
[ "$members" -eq 13 ] || bad "$members members, not 3 + 3 + 2 + 3 + 2"
[ "$added" -eq 5 ] || bad "$added of them add up, not 3 + 2"
large=$launches

# What runs in parts with its reduction is in no launch: q and `gate'.
kernels 8192 4
[ "$added" -eq 2 ] || bad "$added of them add up, not those of k and v"

# Tiles are for 16 rows and more.
kernels 8 auto
[ "$members" -eq 0 ] || bad "$members members that have no such kernels"
[ "$launches" -gt "$large" ] || bad 'they are counted as fewer launches'
exit $failed

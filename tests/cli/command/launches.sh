#!/bin/sh
# --emit=kernels: which contractions share a launch on a target, as code
# generation decides by the same prices; and graphs have as many kernels.
. "${top_srcdir:?}/tests/lib.sh"

# Launches of a function in the listing of SEQ positions
of()
{
	sed -n "s/^$2: \([0-9]*\) kernels.*/\1/p" "$1"
}

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
	paired=$(grep -c 'paired in one launch)' "$1")
	launches=$(of "$1" stage0_backward)
}

# Graphs of SEQ positions: of forward, of a backward that stores gradients and
# of one that adds to them, and of the update.
graphs()
{
	run --explain=memory --target h100x8 --pin tp=8,microbatch=1 model.llm
	all=$(sed -n 's/^its graphs have about \([0-9]*\) kernels.*/\1/p' out)
	[ "${all:-0}" -eq $(($(of "$1" stage0_forward) + 2 * launches +
			$(of "$1" pipe0_update))) ] ||
		bad "graphs of $1 positions have $all kernels"
}

# query, key and value, `gate' and `up'; what they read; gradients of weights
kernels 8192 auto
[ "$members" -eq 15 ] || bad "$members members, not 3 + 2 + 3 + 2 + 3 + 2"
[ "$added" -eq 5 ] || bad "$added of them add up, not 3 + 2"
[ "$paired" -eq 2 ] || bad "$paired of them are a pair, not 2"
large=$launches
graphs 8192

# What runs in parts with its reduction is in no launch: q and `gate'.
kernels 8192 4
[ "$added" -eq 2 ] || bad "$added of them add up, not those of k and v"

# Tiles are for 16 rows and more.
kernels 8 auto
[ "$members" -eq 0 ] || bad "$members members that have no such kernels"
[ "$launches" -gt "$large" ] || bad 'they are counted as fewer launches'
graphs 8
exit $failed

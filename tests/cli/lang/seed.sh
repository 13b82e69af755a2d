#!/bin/sh
# `train { seed = N; }` is what weights are drawn from, in float64 and by
# binaries, whatever the plan; --seed says another.  So it is with the `steps`
# that a binary trains.
. "${top_srcdir:?}/tests/lib.sh"

plain=$examples/tiny-dense.llm
sed 's/^  batch = 4;/& seed = 5; steps = 2;/' "$plain" >five.llm

# losses OPTIONS..: in float64
losses()
{
	run eval --steps 2 "$@"
	cat out
}

losses "$plain" >zero
losses five.llm >five
cmp -s zero five && bad 'the seed changes nothing'
losses --seed 5 "$plain" | cmp - five || bad '--seed 5 is another seed'
losses --seed 0 five.llm | cmp - zero || bad '--seed 0 says nothing'
run eval --compare --steps 2 --pin tp=2,pp=2,microbatch=2 five.llm
sed -n 's/^step [0-9]* loss .* unsplit //p' out >split
sed -n 's/^step [0-9]* loss //p' five | cmp - split ||
	bad 'a split program begins with other weights'

need llvm linker

# trained NAME FOLDER OPTIONS..: and what it says of losses to NAME
trained()
{
	name=$1 folder=$2
	shift 2
	"$folder/rank" train --local --data draw --steps 2 --threads 1 \
		--log "$name.log" "$@" >out 2>err || bad "$name"
	losses_in "$name.log" >"$name"
}

run -w --draft --no-whole --target cpux1 -o one five.llm
run -w --draft --no-whole --target cpux4 --pin tp=2,pp=2 -o four five.llm
trained by-one one
grep -q ', seed 5$' out || bad 'nobody says which seed'
trained by-four four --checkpoint saved
paste by-one by-four five | awk '
	function far(a, b) { a -= b; return a * a > 1e-10 * b * b }
	far($1, $NF) || far($2, $NF) { bad = 1 }
	END { exit bad || NR != 2 }' || {
	paste by-one by-four five
	bad 'other losses than in float64'
}
one/rank train --local --data draw --threads 1 --log steps.log >out 2>err ||
	bad 'a model that says its steps'
losses_in steps.log | cmp - by-one || bad 'it trains another number of steps'
trained same one --seed 5
cmp same by-one || bad '--seed 5 is another seed, of a binary'
trained other one --seed 0
cmp -s other by-one && bad '--seed 0 says nothing, to a binary'
trained on four --resume --checkpoint saved --steps 3
"four/rank" train --local --data draw --steps 4 --resume --checkpoint saved \
	--seed 4 >out 2>err && bad 'a run goes on with another seed'
grep -q 'of a run of seed 5, and --seed says 4' err || bad 'nobody says why'
exit $failed

#!/bin/sh
# Placements are the cheapest in seconds of the target: one plan has other
# collectives on a PCIe box (RTX 4090, T4) and over a network of 25 Gb/s (two
# nodes of H100) than on NVLink.
. "${top_srcdir:?}/tests/lib.sh"

# The collectives of a plan's kernels on a target: how many, of each kind.
collectives()
{
	"$LLMC" -w --target "$1" --plan "$2" --emit=kernels "$examples/$3" |
		grep -Eo 'all_reduce|reduce_scatter|all_gather|all_to_all' |
		sort | uniq -c
}

# plan MODEL PINS: a whole plan of two devices, whatever the target
plan()
{
	"$LLMC" -w --target h100x2 --pin "$2,pp=1,dp=1,microbatch=1,zero=0" \
		--emit=plan "$examples/$1" >plan
}

# differ MODEL TARGET..: on each target other collectives than on h100x2
differ()
{
	model=$1
	shift
	collectives h100x2 plan "$model" >nvlink
	test -s nvlink || bad "$model: no collective on h100x2"
	for t; do
		collectives "$t" plan "$model" >other
		! cmp -s nvlink other ||
			bad "$model: $t has the collectives of h100x2"
	done
}

plan tiny-moe.llm tp=1,cp=1,ep=2
differ tiny-moe.llm rtx4090x2 t4x2 h100x1x2@eth25
plan gpt2-124m.llm tp=1,cp=2,ep=1
differ gpt2-124m.llm rtx4090x2 t4x2 h100x1x2@eth25

# Tensor ranks of one node exchange the same on both: what changes is no noise.
plan gpt2-124m.llm tp=2,cp=1,ep=1
collectives h100x2 plan gpt2-124m.llm >nvlink
collectives h100x4 plan gpt2-124m.llm >other
cmp nvlink other || bad "two ranks on h100x4 are placed in another way"
exit $failed

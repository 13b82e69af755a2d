#!/bin/sh
# The first launch in a step that adds to a gradient stores it, on a GPU: no
# gradient is set to zero, and what is in its memory before the step reaches no
# result. Emulated ranks fill that memory with NaN before each step, and train
# with the CPU's losses, whichever microbatch, stage, phase or layer is first.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker

export LLMC_NVRTC=/nonexistent
# each launch is checked: that which stores, and one that adds
export LLMC_EMULATE_CHECK=1

# trains MODEL [EDIT] [DIMS]: what the plans that follow are of
trains()
{
	of=$1 edit=${2-} sizes=${3-} begun=
}

# sums_on TARGET PINS [ARCH] [CLOSE]: if it is one of today's: as on a CPU, and
# only norms are zeroed
sums_on()
{
	today 16 || return
	[ "$begun" ] || begin "$of" "$edit" "$sizes"
	begun=1
	on "$@"
	gpu/rank inspect >inspect 2>err || bad "$model, $2: $(cat err)"
	sed -n 's/^ *zeroed each step  *\([0-9]*\) bytes.*/\1/p' inspect >zeroed
	[ -s zeroed ] || bad "$model, $2: nobody says what is zeroed"
	awk '$1 > 256 { bad = 1 } END { exit bad }' zeroed ||
		bad "$model, $2: $(cat zeroed) bytes are zeroed"
}

# Orders of a pipeline: backward in one or in two phases, stages that a rank has
# several of, as many slots as microbatches; and one microbatch alone.
trains tiny-dense 's/layers = 2/layers = 4/'
sums_on h100x2 pp=2,schedule=1f1b,microbatch=1 sm_90a
sums_on h100x1 dp=1,microbatch=4
sums_on h100x2 pp=2,schedule=gpipe,microbatch=2
sums_on h100x2 pp=2,schedule=interleaved,interleave=2,microbatch=1
sums_on h100x2 pp=2,schedule=zb_h1,microbatch=1
# sums that data ranks reduce in each microbatch, or once
for zero in 0 1 2 3; do
	sums_on h100x2 dp=2,zero=$zero,microbatch=1
done

# Sums of 16 bits: by the copying unit, and by threads.
trains tiny-dense 's/dtype f32/dtype bf16/;s/seq = 16/seq = 80/'
sums_on h100x1 dp=1,microbatch=2 sm_90a 2e-2
sums_on h100x1 dp=1,microbatch=2 sm_80 2e-2
sums_on b200x1 dp=1,microbatch=2 sm_100a 2e-2

# Of 32 experts most get no token of a microbatch, and some none in a step.
trains tiny-moe 's/expert = 4/expert = 32/;s/batch = 4/batch = 2/;s/seq = 16/seq = 8/'
sums_on h100x1 dp=1,microbatch=1
sums_on h100x2 ep=2,microbatch=1 sm_90a
trains tiny-moe
sums_on h100x2 pp=2,schedule=1f1b,microbatch=1

# A tied embedding: two functions of one rank, or of two, add to one tensor,
# by a contraction and by index.
trains gpt2-124m '' '--dim hidden=32 --dim heads=2 --dim layers=2 --dim vocab=200 --dim seq=16 --dim batch=4'
sums_on h100x1 dp=1,microbatch=1
sums_on h100x2 pp=2,microbatch=1

# Latent attention, shared experts, and layers of two kinds.
trains deepseek-v3 's/dtype bf16/dtype f32/;s/dtype = bf16/dtype = f32/;s/repeat 58/repeat 1/;s/repeat 3/repeat 1/
	s/from 3/from 1/' '--dim hidden=32 --dim heads=2 --dim nope=8 --dim rot=8 --dim vd=8 --dim qrank=16 --dim rank=16 --dim ffn=32 --dim mid=16 --dim expert=16 --dim choice=8 --dim vocab=128 --dim seq=16 --dim batch=4'
sums_on h100x1 dp=1,microbatch=1
sums_on h100x2 tp=2,microbatch=2
exit $failed

#!/bin/sh
# Plans for GPUs train on emulated ones with the CPU's losses: the tiny models
# on 2 and 4 ranks, split in each way there is.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker

# the emulator asks for no images
export LLMC_NVRTC=/nonexistent

# Kernels of the same sources are looked at for races in the first and the last
# group alone.  One of five groups is tried on each day.
if today 5; then
	begin tiny-dense
	on h100x4 pp=2,dp=2,zero=2 sm_90a
	export LLMC_EMULATE_CHECK=0
	on h100x4 cp=2,dp=2,zero=3
fi
export LLMC_EMULATE_CHECK=0
# long enough for attention by wgmma, and by tcgen05 in both directions
if today 5; then
	begin tiny-dense 's/dtype f32/dtype bf16/;s/seq = 16/seq = 80/'
	on h100x2 tp=2 sm_90a 2e-2
	grep -q '_m3_' gpu/kernels/*.cu || bad 'no launch of three contractions'
	grep -q '	k -= ' gpu/kernels/*.cu || bad 'no launch that adds up'
	grep -q 'dot+silu+dot+mul' gpu/kernels/*.cu || bad 'no pair'
	on b200x2 tp=2 sm_100a 2e-2
	grep -q '_m3_' gpu/kernels/*.cu || bad 'none by tcgen05'
	grep -q '	k -= ' gpu/kernels/*.cu || bad 'none that adds up by tcgen05'
	grep -q 'dot+silu+dot+mul' gpu/kernels/*.cu || bad 'none by tcgen05'
	grep -q 'tc_mma_f16_left(dv, ' gpu/kernels/*.cu ||
		bad 'no gradients of attention by tcgen05'
fi
# An odd vocabulary, whole and in uneven pieces: rows of scores lie apart, so
# that both gradients of the head are loaded by the copying unit, or 16 bytes at a
# time.
odd()
{
	begin tiny-dense 's/dtype f32/dtype bf16/;s/vocab = 256/vocab = 283/'
	on h100x1 dp=1 sm_90a 2e-2
	grep -q '\* 288 ' gpu/kernels/*.cu || bad 'rows of 283 that lie apart'
	grep -q 'one by one' gpu/kernels/*.cu && bad 'copies one by one'
	on h100x2 tp=2 sm_90a 2e-2
	grep -q '\* 144 ' gpu/kernels/*.cu || bad 'rows of 142 that lie apart'
	on a100x2 dp=2 sm_80 2e-2
	grep -q 'one by one' gpu/kernels/*.cu && bad 'copies one by one'
	on b200x1 dp=1 sm_100a 2e-2
}
! today 5 || odd
# All gradients of attention by one kernel, which the plan names; where it does
# not, nothing so small is predicted to gain by it.  Blocks add in turns, so the
# bits do not depend on the order of threads and copies.
joint()
{
	begin tiny-dense 's/dtype f32/dtype bf16/;s/seq = 16/seq = 160/
		s/hd = .*;/hd = 128;/;s/layers = 2/layers = 1/'
	on h100x1 dp=1 sm_90a 2e-2
	grep -q 'attention_joint' gpu/kernels/*.cu && bad 'one kernel is not named'
	cat >joint.llp <<'END'
plan {
  tiles = ("attention queries+keys+values bf16 4x4/2x160x160x128 causal: m=128 n=64 k=128 stages=2 teams=1");
}
END
	rm -rf gpu
	built gpu --target h100x1 --plan joint.llp --arch sm_90a
	grep -q 'attention_joint' gpu/kernels/*.cu || bad 'one kernel is named'
	for seed in 0 1 28; do
		LLMC_EMULATE_SEED=$seed
		export LLMC_EMULATE_SEED
		drawn_losses joint$seed gpu --device emulate
		cmp -s joint0 joint$seed || bad "other bits with seed $seed"
	done
	near_losses want joint0 2e-2
	LLMC_EMULATE_SEED=-1
	gpu/rank train --local --device emulate --data draw --steps 1 >out \
		2>err && bad 'a seed below 0'
	grep -q "LLMC_EMULATE_SEED is '-1', expected a number" err ||
		bad "$(cat err)"
	unset LLMC_EMULATE_SEED
}
! today 5 || joint
# of one multiprocessor, which has tiles large enough for experts by tcgen05
if today 5; then
	sed 's/units = 148/units = 1/;s/^target b200/target few/' \
		"$top_srcdir/targets/b200.target" >few.target
	begin tiny-moe 's/dtype f32/dtype bf16/;s/seq = 16/seq = 32/;s/ffn = 48/ffn = 256/
		s/hidden = 32/hidden = 128/;s/expert = 4/expert = 2/'
	on ./few.target dp=1 sm_103a 2e-2
	for op in dot_at dot_to; do
		grep -l "KERNEL(${op}" gpu/kernels/*.cu |
			xargs grep -q 'tc_mma_f16(' || bad "no $op by tcgen05"
	done
fi
unset LLMC_EMULATE_CHECK
if today 5; then
	begin tiny-moe
	on h100x4 ep=2,tp=2
fi
exit $failed

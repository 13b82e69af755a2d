#!/bin/sh
# Models of families whose parts are not in the examples: what a split program
# computes is what the unsplit one does, and a plan's kernels, for CPUs and
# for GPUs, have the losses of the interpreter.
. "${top_srcdir:?}/tests/lib.sh"
models=$tests/lang/families

# same MODEL PINS..: one of three on each day: under each of the pins, and after its text was read back
same()
{
	today 3 || return
	model=$models/$1.llm
	shift
	for pins; do
		run eval --compare --steps 2 --pin "$pins" "$model" || continue
		grep -q '^compared [1-9]' out || bad "$model $pins: not compared"
	done
	run --emit=ir "$model" && mv out text.ir
	run --emit=ir text.ir && cmp out text.ir ||
		bad "$model: its text reads back otherwise"
}

same gemma2 tp=2,dp=2,zero=1 cp=2,balanced=on,tp=2 \
	pp=2,microbatch=1,schedule=1f1b cp=2,context=gather,zero=3,dp=2
same gpt-oss tp=2,dp=2,zero=1 cp=2,tp=2 ep=2,pp=2,microbatch=1 \
	cp=2,context=gather,ep=2
same routing tp=2,dp=2,zero=1 ep=2,pp=2,microbatch=1 ep=4 cp=2

have binaries llvm linker || exit $failed
# losses MODEL TARGET PINS OPTIONS..: one of five on each day: three steps of a
# plan, as eval has them
losses()
{
	today 5 || return
	model=$models/$1.llm target=$2 pins=$3
	shift 3
	run eval --steps 3 "$model" || return
	sed -n 's/^\(step [0-9]* loss\) \(.*\)/\1 \2/p' out |
		awk '{ printf "%s %s %s %.4f\n", $1, $2, $3, $4 }' >want
	run -w --draft --no-whole --target "$target" --pin "$pins" -o plan "$model" ||
		return
	plan/rank train --local --steps 3 --data draw "$@" >out 2>err || {
		! grep -q 'this CPU' err || skip "$(cat err)"
		bad "$model $target: train"
		return
	}
	awk '/^step / { print $1, $2, $3, $4 }' out >got
	cmp -s want got || {
		diff want got
		bad "$model $target: other losses"
	}
	rm -rf plan
}

# Kernels that run once take longer to compile well.  The emulator asks for no
# images, and that kernels have no races is shown by tests/cli/gpu.
export LLMC_NVRTC=/nonexistent LLMC_EMULATE_CHECK=0
for name in gemma2 gpt-oss routing; do
	losses $name cpux4 tp=2,pp=2
done
losses gemma2 h100x2 tp=2 --device emulate
losses gpt-oss a100x2 pp=2 --device emulate
exit $failed

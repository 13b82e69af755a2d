#!/bin/sh
# Random models under random plans on emulated GPUs, CUDA_PAIRS of them: their
# losses are the CPU's, and either goes on from a checkpoint of the other.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker
pairs=$build/tests/unit/codegen/t-differential
test -x "$pairs" || skip 'no t-differential'
# the emulator asks for no images
LLMC_NVRTC=/nonexistent DIFF_DEVICE=emulate DIFF_PAIRS=${CUDA_PAIRS:-4} \
	DIFF_SEED=${CUDA_SEED:-1} "$pairs"

#!/bin/sh
# Random models under random plans on emulated GPUs, CUDA_PAIRS of them: their
# losses are the CPU's, and either goes on from a checkpoint of the other.
set -u
pairs=${LLMC%/*}/tests/unit/t-differential
test -x "$pairs" || exit 77
"$LLMC" --version | grep -q '^cpu: LLVM' || exit 77
# kernels that run once take longer to compile well
export LLMC_LINKER="${LLMC_LINKER:-${CC:-cc}} -O0"
$LLMC_LINKER --version >/dev/null 2>&1 || exit 77
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
# the emulator asks for no images
LLMC_NVRTC=/nonexistent DIFF_DEVICE=emulate DIFF_PAIRS=${CUDA_PAIRS:-5} \
	DIFF_SEED=${CUDA_SEED:-1} exec "$pairs"

#!/bin/sh
# Random models under random plans on emulated GPUs: their losses are the CPU's,
# and either goes on from a checkpoint of the other. DIFF_PAIRS=N has more than
# today's one, from DIFF_SEED on.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker
pairs=$build/tests/unit/codegen/t-differential
test -x "$pairs" || skip 'no t-differential'
# the emulator asks for no images
LLMC_NVRTC=/nonexistent DIFF_DEVICE=emulate "$pairs"

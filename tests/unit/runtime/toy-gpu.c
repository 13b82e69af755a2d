/*
 * The program of a rank, for the plan by hand with kernels of a GPU: what
 * tests/cli/gpu/gpu.sh runs.
 */
#include "tests/unit/runtime/t-toy-gpu.h"

const struct rt_plan llmc_plan = TOY_GPU_PLAN(2);

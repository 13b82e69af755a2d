/*
 * The program of a rank, for the plan by hand: what tests/cli/run/rank.sh
 * runs.
 */
#include "t-toy.h"

const struct rt_plan llmc_plan = TOY_PLAN(2);

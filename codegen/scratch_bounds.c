/*
 * How much scratch the emitters of codegen/ give to a kernel at most, as
 * data.  A search reads these bounds before any code is emitted, so that it
 * does not choose a plan whose code has no space; what the code really needs
 * is known when it is emitted (cg_code_reserve).
 *
 * Each number follows from a limit of an emitter, named beside it.  Whoever
 * raises such a limit raises the number: tests/unit/t-scratch.c compares the
 * bounds with emitted code.
 */
#include "codegen/cg.h"

#define KIB ((int64_t)1 << 10)
#define MIB ((int64_t)1 << 20)

/*
 * Rows of nests: sums over rows have parts of f32, at most 512 of 32,768
 * elements each (a CPU: 32 of 65,536; nest_row_statistics.c), for up to two
 * sums in one kernel.
 * Moves: lists of i32 for places and rows of a scatter (nest_scatter.c).
 * Attention: f32 sums of each row of queries (attention.c); and of the
 * gradients of queries, if one kernel makes all gradients
 * (passes/price/cost_gradients.c).
 */
static const struct memory_scratch gpu = {
	.shared = {
		[KERNEL_ROWWISE] = { 64 * KIB, 2, 128 * MIB },
		/* partial products (cuda_dot_plan.c, cuda_dot90_parts.c) */
		[KERNEL_CONTRACTION] = { 64 * KIB, 4, 66 * MIB },
		[KERNEL_ATTENTION] = { 64 * KIB, 0.25, INT64_MAX },
		[KERNEL_MOVE] = { 64 * KIB, 0.5, INT64_MAX },
		[KERNEL_OPTIMIZER] = { 8 * KIB, 0, INT64_MAX }
	},
	.fixed = 256,
	.per_gathered = 4.5,
	.sums = { COST_JOINT_ABOVE, COST_JOINT_HEAD,
		  (4 * COST_JOINT_HEAD + 1) * 5 / 3.0, COST_JOINT_SCRATCH },
	.packs = true
};

/*
 * A CPU packs panels of one operand, or with AMX of both, and keeps tiles
 * whose sums are not complete: 8 MiB of each (cpu_dot_plan.c).  A worker has
 * 960 KiB of its own for a contraction.  For attention it has a block of at
 * most 256 keys and their gradients, one of scores, and rows of queries
 * (cpu_attention_*.c).
 */
#define CPU(most_panels) { \
	.shared = { \
		[KERNEL_ROWWISE] = { 64 * KIB, 2, 16 * MIB }, \
		[KERNEL_CONTRACTION] = { 256 * KIB, 4, most_panels }, \
		[KERNEL_ATTENTION] = { 64 * KIB, 0.25, INT64_MAX }, \
		[KERNEL_MOVE] = { 64 * KIB, 0.5, INT64_MAX }, \
		[KERNEL_OPTIMIZER] = { 8 * KIB, 0, INT64_MAX } \
	}, \
	.own = { \
		[KERNEL_CONTRACTION] = { 256 * KIB, 8, 960 * KIB }, \
		[KERNEL_ATTENTION] = { 192 * KIB, 0, INT64_MAX } \
	}, \
	.workers = 8, \
	.fixed = 256, \
	.per_gathered = 4.5, \
	.own_per_head_elem = 4096, \
	.most_joint = 1 * MIB, \
	.in_reserve = true \
}

static const struct memory_scratch vectors = CPU(33 * MIB / 2);
static const struct memory_scratch tiles = CPU(49 * MIB / 2);

const struct memory_scratch *
cg_scratch(const char *cpu, const char *arch)
{
	return arch ? &gpu : cg_cpu_may_have(cpu, "amx-tile") ? &tiles
							: &vectors;
}

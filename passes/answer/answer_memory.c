/*
 * Memory of the answer: the bytes of the memory plan, by rank.
 */
#include "passes/answer/answer.h"
#include "passes/memory/memory.h"

static const char *
func_name(const struct ir_module *m, func_id f)
{
	return ir_text(m->ctx, m->funcs.at[f].name);
}

bool
answer_fits(const struct answer_memory *m)
{
	return m->left_bytes >= 0 &&
	       (!m->node_bytes || m->host_bytes <= m->node_bytes) &&
	       (!m->node_drives_bytes ||
		m->drives_bytes <= m->node_drives_bytes);
}

bool
answer_arena(const struct ranks *r, const struct target *t,
	     const struct target_devs *devs, struct arena *a,
	     struct answer_memory *out, const char **why)
{
	struct target_host host;
	struct memory mem;
	uint32_t i;

	*out = (struct answer_memory){ 0 };
	if (!memory_plan(r, NULL, 0, a, &mem, why)) {
		return false;
	}
	memory_set_devices(&mem, r, devs, a);
	host = memory_host(&mem, r, t, false, a);
	out->host_bytes = (int64_t)host.bytes;
	out->node_bytes = (int64_t)host.has;
	host = memory_host(&mem, r, t, true, a);
	out->drives_bytes = (int64_t)host.bytes;
	out->node_drives_bytes = (int64_t)host.has;
	out->nranks = mem.nranks;
	out->fullest = mem.fullest;
	out->rank = arena_alloc(a, mem.nranks * sizeof *out->rank);
	for (i = 0; i < mem.nstages; i++) {
		out->rank[mem.stage[i].rank].stages++;
	}
	for (i = 0; i < mem.nranks; i++) {
		const struct memory_rank *x = &mem.rank[i];
		struct answer_rank *to = &out->rank[i];

		to->weights = x->by[MEMORY_WEIGHTS];
		to->gradients = x->by[MEMORY_GRADIENTS];
		to->optimizer = x->by[MEMORY_OPTIMIZER];
		to->host = x->host + x->drives;
		to->saved = x->by[MEMORY_SAVES];
		to->temps = x->by[MEMORY_TEMPS] + x->by[MEMORY_PIPELINE] +
			    x->by[MEMORY_OTHER];
		to->reserve = x->reserve;
		to->total = x->total;
		to->device = x->device;
	}
	if (mem.rank[mem.fullest].peak.func) {
		out->peak_op = arena_printf(a, "%s, %s",
			func_name(r->m, mem.rank[mem.fullest].peak.func),
			ir_ops[ir_node(r->m, mem.rank[mem.fullest].peak
				       .at_node)->op].name);
	}
	out->device_bytes = out->rank[out->fullest].device;
	out->left_bytes = out->device_bytes - out->rank[out->fullest].total;
	return true;
}

/*
 * Whether a plan has the scratch that a collective needs on a GPU. The emulator
 * needs none but checks it as well, so that a wrong plan fails without a GPU,
 * too.
 */
#include "runtime/device/device.h"
#include "runtime/comm/transport.h"

#include <stdlib.h>

enum rt_status
rt_coll_scratch(const struct rt_plan *p, const struct rt_coll *t,
	     const struct rt_group *g, int64_t microbatch, int64_t *out,
	     struct rt_error *err)
{
	int64_t n = g->n * t->ndims, i;
	const struct rt_pieces **at = malloc(sizeof(*at) * (size_t)(2 * n + 1));

	if (!at) {
		return rt_no_memory(err, NULL);
	}
	for (i = 0; i < g->n; i++) {
		rt_coll_pieces(p, t, t->in, g->ranks[i], microbatch,
			       at + i * t->ndims);
		rt_coll_pieces(p, t, t->out, g->ranks[i], microbatch,
			       at + n + i * t->ndims);
	}
	*out = rt_pack_total(at, at + n, g->n, t->ndims, g->me,
		       rt_elem_bytes((enum rt_elem)t->elem),
		       t->op != RT_COLL_COPY);
	free(at);
	return RT_OK;
}

enum rt_status
rt_coll_fits(const struct rt_device *d, const struct rt_coll *t,
	     int64_t microbatch, struct rt_error *err)
{
	const struct rt_coll *x;
	struct rt_group *g;
	enum rt_status status;
	int64_t bytes = 0, one;

	if (t->op == RT_COLL_SEND || t->op == RT_COLL_RECV ||
	    t->op == RT_COLL_FREE) {
		return RT_OK;
	}
	status = rt_group_find(d->comm, t->axes, t->holders, &g, err);
	if (status != RT_OK) {
		return status;
	}
	for (x = t; x && status == RT_OK; x = x->next) {
		status = rt_coll_scratch(d->plan, x, g, microbatch, &one, err);
		bytes += status == RT_OK ? one : 0;
	}
	if (status != RT_OK) {
		return status;
	}
	return bytes <= d->program->comm_bytes ? RT_OK :
		rt_fail(err, RT_FORMAT, RT_NOWHERE, "%s packs %lld bytes on a "
			"GPU, and the plan's scratch is %lld: that is a fault "
			"of the compiler", rt_show_name(t->what).text,
			(long long)bytes, (long long)d->program->comm_bytes);
}

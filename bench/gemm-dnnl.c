/*
 * For bench/cpu-gemm: oneDNN's matmul behind two functions.  Built by itself,
 * and only where its header is; version 2, whose descriptors are structs.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <dnnl.h>

struct peer {
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	dnnl_primitive_t run;
	dnnl_exec_arg_t args[3];
};

void *peer_open(int m, int n, int k, const char *layout, int bf16,
		int blocked, void *a, void *b, void *c);
void peer_run(void *at);

/* rows x cols as they lie, or with the last two dims exchanged. */
static bool
describe(dnnl_memory_desc_t *d, int rows, int cols, bool turned,
	 dnnl_data_type_t type)
{
	dnnl_dims_t dims = { rows, cols };
	dnnl_dims_t apart = { turned ? 1 : cols, turned ? rows : 1 };

	return dnnl_memory_desc_init_by_strides(d, 2, dims, type, apart) ==
	       dnnl_success;
}

/* B as the library likes it best, copied there before anybody counts. */
static bool
block_b(struct peer *p, dnnl_primitive_desc_t pd, dnnl_memory_t *b)
{
	const dnnl_memory_desc_t *want =
		dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
	const dnnl_memory_desc_t *have;
	dnnl_primitive_desc_t copy;
	dnnl_primitive_t reorder;
	dnnl_exec_arg_t args[2];
	dnnl_memory_t to;

	if (dnnl_memory_get_memory_desc(*b, &have) ||
	    dnnl_memory_create(&to, want, p->engine, DNNL_MEMORY_ALLOCATE) ||
	    dnnl_reorder_primitive_desc_create(&copy, have, p->engine, want,
					       p->engine, NULL) ||
	    dnnl_primitive_create(&reorder, copy)) {
		return false;
	}
	args[0] = (dnnl_exec_arg_t){ DNNL_ARG_FROM, *b };
	args[1] = (dnnl_exec_arg_t){ DNNL_ARG_TO, to };
	*b = to;
	return !dnnl_primitive_execute(reorder, p->stream, 2, args) &&
	       !dnnl_stream_wait(p->stream);
}

void *
peer_open(int m, int n, int k, const char *layout, int bf16, int blocked,
	  void *a, void *b, void *c)
{
	dnnl_data_type_t type = bf16 ? dnnl_bf16 : dnnl_f32;
	dnnl_memory_desc_t da, db, dc, any;
	dnnl_memory_t ma, mb, mc;
	dnnl_matmul_desc_t d;
	dnnl_primitive_desc_t pd;
	dnnl_dims_t dims = { k, n };
	struct peer *p = calloc(1, sizeof *p);

	if (!p || dnnl_engine_create(&p->engine, dnnl_cpu, 0) ||
	    dnnl_stream_create(&p->stream, p->engine,
			       dnnl_stream_default_flags) ||
	    !describe(&da, m, k, layout[0] == 'm', type) ||
	    !describe(&db, k, n, layout[1] != 'n', type) ||
	    !describe(&dc, m, n, false, type) ||
	    dnnl_memory_desc_init_by_tag(&any, 2, dims, type,
					 dnnl_format_tag_any) ||
	    dnnl_memory_create(&ma, &da, p->engine, a) ||
	    dnnl_memory_create(&mb, &db, p->engine, b) ||
	    dnnl_memory_create(&mc, &dc, p->engine, c) ||
	    dnnl_matmul_desc_init(&d, &da, blocked ? &any : &db, NULL, &dc) ||
	    dnnl_primitive_desc_create(&pd, &d, NULL, p->engine, NULL) ||
	    (blocked && !block_b(p, pd, &mb)) ||
	    dnnl_primitive_create(&p->run, pd)) {
		return NULL;
	}
	p->args[0] = (dnnl_exec_arg_t){ DNNL_ARG_SRC, ma };
	p->args[1] = (dnnl_exec_arg_t){ DNNL_ARG_WEIGHTS, mb };
	p->args[2] = (dnnl_exec_arg_t){ DNNL_ARG_DST, mc };
	return p;
}

void
peer_run(void *at)
{
	struct peer *p = at;

	dnnl_primitive_execute(p->run, p->stream, 3, p->args);
	dnnl_stream_wait(p->stream);
}

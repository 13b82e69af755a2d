/*
 * A plan, from its rank programs to an object file: cg_code_new emits the
 * kernels of all ranks, then cg_code_finish, which knows their scratch, plans
 * memory and emits the rest.
 */
#include "codegen/link/compile_cache.h"
#include "codegen/host/host.h"

static const struct span nowhere;

/* ---- what is refused ---- */

/* Whether the node only moves elements, as is legal for those of 8 bits. */
static bool
only_moves(struct cg_code *c, const struct ir_node *n)
{
	return !ir_is(n->op, IRF_STORED) && n->op != IR_COMBINE &&
	       n->op != IR_SHARE &&
	       (n->nargs == 0 || !ir_type(c->m, ir_args(c->m, n)[0])->sum);
}

/* Checks types that ranks keep or exchange; emitters check all others. */
static bool
can_hold(struct cg_code *c, const struct ir_node *n)
{
	enum ir_dtype t = n->nresults
		? (enum ir_dtype)ir_type(c->m, n->result)->dtype : IR_F32;

	if (!ir_is(n->op, IRF_STORED | IRF_COMM | IRF_PEER) ||
	    host_elem(t) >= 0 || ir_attr(c->m, n, IR_ATTR_ROUNDED) ||
	    (host_coll_elem(t) >= 0 && only_moves(c, n))) {
		return true;
	}
	diag_error(&c->m->ctx->diags, n->span, "numbers of type %s are not "
		   "kept or exchanged by %s", ir_dtypes[t].name,
		   c->arch ? "ranks" : "CPUs");
	return false;
}

static bool
can_do(struct cg_code *c, region_id id)
{
	const struct ir_region *r = &c->m->regions.at[id];
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		const struct ir_node *n = ir_node(c->m, r->nodes.at[i]);

		if (!can_hold(c, n)) {
			return false;
		}
		if (n->region && !can_do(c, n->region)) {
			return false;
		}
	}
	return true;
}

/* ---- kernels ---- */

static bool
kernels_of(struct cg_code *c, struct host_class *k,
	   const struct kernel_list *l)
{
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct kernel *x = &l->at.at[i];
		bool ok = true;

		parts_open(c->m, x);
		if (x->body) {
			ok = kernels_of(c, k, x->body);
		} else if (x->kind == KERNEL_COLLECTIVE) {
			host_coll_packs(k, x);
		} else {
			ok = host_emit_launch(c, k, l, i);
		}
		parts_close(c->m, x);
		if (!ok) {
			return false;
		}
	}
	return true;
}

static bool
func_kernels(struct cg_code *c, struct host_class *k, func_id f)
{
	return !f || (can_do(c, c->m->funcs.at[f].body) &&
		      kernels_of(c, k, c->all[f]->top));
}

static bool
class_kernels(struct cg_code *c, struct host_class *k)
{
	uint32_t i, kind;

	for (i = 0; i < c->r->nstages; i++) {
		for (kind = 0; kind < SCHED_NKINDS; kind++) {
			if (c->r->sched->rank_of[i] == k->pipe &&
			    !func_kernels(c, k, c->r->of_stage[i][kind])) {
				return false;
			}
		}
	}
	return func_kernels(c, k, c->r->update[k->pipe]);
}

static int64_t
aligned(int64_t bytes)
{
	return (bytes + HOST_ALIGN - 1) / HOST_ALIGN * HOST_ALIGN;
}

static void
round_scratch(struct cg_code *c)
{
	uint32_t i;

	for (i = 0; i < c->classes.n; i++) {
		struct host_class *k = &c->classes.at[i];

		k->shared_bytes = aligned(k->shared_bytes);
		k->own_bytes = aligned(k->own_bytes);
		k->comm_bytes = aligned(k->comm_bytes);
	}
}

static bool
find_kernels(struct cg_code *c)
{
	static const struct cg_source services = { "services", cu_services };
	uint32_t i;

	if (!host_find_classes(c) || !host_tensors_fit(c)) {
		return false;
	}
	for (i = 0; i < c->classes.n; i++) {
		if (!class_kernels(c, &c->classes.at[i])) {
			return false;
		}
	}
	round_scratch(c);
	if (c->arch) {
		VEC_PUSH(c->a, &c->sources, services);
	}
	return true;
}

struct cg_code *
cg_code_new(struct arena *a, const struct cg_input *in)
{
	struct cg_code *c = arena_alloc(a, sizeof *c);
	static const struct price_traits plain;
	uint32_t errors = in->ranks->m->ctx->diags.errors;
	const char *why = "?";

	c->in = *in;
	c->r = in->ranks;
	c->m = in->ranks->m;
	c->a = a;
	c->pricing = (struct pricing){ .r = c->r, .m = c->m,
				       .t = in->target, .traits = &plain };
	c->arch = in->arch ? cu_arch_find(in->arch) : NULL;
	if (in->arch && !c->arch) {
		die("no kernels for %s", in->arch);
	}
	c->tiling = c->arch ? cu_tiling_open(a, in->tiling) : NULL;
	c->ll = in->sources_only ? NULL
				 : ll_new(a, in->cpu, in->quick, &why);
	if (!c->ll && !in->sources_only) {
		diag_error(&c->m->ctx->diags, nowhere, "%s", why);
		return NULL;
	}
	if (!c->arch && ir_setting(c->m, "program.serves")) {
		c->panels = cg_find_panels(c->m, a);
	}
	intern_init(&c->keys, a);
	c->all = kernels_all(c->m, in->ranks->memo, a);
	c->apart = memory_apart(c->m, c->all, a);
	if (!find_kernels(c) || !cu_tiling_close(c->tiling, c->m) ||
	    c->m->ctx->diags.errors != errors) {
		cg_code_free(c);
		return NULL;
	}
	return c;
}

uint32_t
cg_code_sources(const struct cg_code *c, const struct cg_source **out)
{
	*out = c->sources.at;
	return c->sources.n;
}

bool
cg_code_weights_agree(const struct cg_code *x, const struct cg_code *y)
{
	const struct cg_panel_weights *a = &x->panels, *b = &y->panels;
	uint32_t i, n = a->names > b->names ? a->names : b->names;

	for (i = 0; i < n; i++) {
		if ((i < a->names ? a->over[i] : 0) !=
		    (i < b->names ? b->over[i] : 0)) {
			return false;
		}
	}
	return true;
}

/* Of kernels, of each worker, what is logged, what collectives pack. */
static int64_t
scratch_of(const struct host_class *k)
{
	return k->shared_bytes + k->own_bytes * HOST_WORKERS + HOST_ALIGN +
	       k->comm_bytes;
}

int64_t
cg_code_reserve(const struct cg_code *c)
{
	int64_t most = 0, bytes;
	uint32_t i;

	for (i = 0; i < c->classes.n; i++) {
		bytes = scratch_of(&c->classes.at[i]);
		most = bytes > most ? bytes : most;
	}
	return most;
}

int64_t
cg_code_arena(const struct cg_code *c, uint32_t pipe)
{
	int64_t most = 0;
	uint32_t i;

	for (i = 0; i < c->classes.n; i++) {
		const struct host_class *k = &c->classes.at[i];

		most = k->pipe == pipe && k->arena_bytes > most
			? k->arena_bytes : most;
	}
	return most;
}

/* ---- the rest ---- */

static void
place_scratch(struct cg_code *c)
{
	int64_t scratch = cg_code_reserve(c);
	uint32_t i;

	for (i = 0; i < c->classes.n; i++) {
		struct host_class *k = &c->classes.at[i];
		const struct memory_rank *x = &c->mem.rank[k->pipe];

		k->work_offset = x->total - x->reserve;
		k->arena_bytes = k->work_offset +
				 (c->arch ? scratch : x->reserve);
		if (x->host + x->drives > 0) {	/* of a CPU it is the same */
			k->host_at = c->arch ? x->host_at : 0;
			k->arena_bytes = x->host_at + x->host + x->drives;
		}
		k->watch_offset = k->work_offset + k->shared_bytes +
				  k->own_bytes * HOST_WORKERS;
		k->comm_offset = k->watch_offset + HOST_ALIGN;
	}
}

/* A kind of the rank that no code brings from where it is; or none. */
static uint32_t
unreachable(const struct memory_rank *x)
{
	uint32_t k;

	for (k = 0; k < MEMORY_NKINDS; k++) {
		if (x->away[k] && (k != MEMORY_OPTIMIZER || x->drives)) {
			break;
		}
	}
	return k;
}

/*
 * A GPU's kernels read and write optimizer state in its host's memory, once a
 * step.  What layers have needs copies ahead of them, and drives a queue, which
 * are not compiled.
 */
static bool
is_reachable(const struct cg_code *c)
{
	uint32_t i, k;

	for (i = 0; c->arch && i < c->r->npipes; i++) {
		const struct memory_rank *x = &c->mem.rank[i];

		k = unreachable(x);
		if (k < MEMORY_NKINDS) {
			diag_error(&c->m->ctx->diags, nowhere, "this plan "
				   "keeps %lld bytes of a rank's %s on %s, and "
				   "code for a GPU brings optimizer state "
				   "alone, and from the host's memory: offload "
				   "= optimizer or none is legal",
				   (long long)x->away[k], memory_kind_names[k],
				   k == MEMORY_OPTIMIZER ? "drives"
							 : "the host");
			return false;
		}
	}
	return true;
}

bool
cg_code_finish(struct cg_code *c, int64_t reserve,
	       const struct cg_facts *facts)
{
	struct diags *d = &c->m->ctx->diags;
	const char *why = "?";

	if (reserve < cg_code_reserve(c)) {
		die("scratch of %lld bytes in %lld",
		    (long long)cg_code_reserve(c), (long long)reserve);
	}
	/* what else the device reserves is no part of the arena */
	reserve = c->arch ? cg_code_reserve(c) : reserve;
	if (!memory_plan(c->r, c->all, reserve, c->a, &c->mem, &why)) {
		diag_error(d, nowhere, "these programs have no place: %s",
			   why);
		return false;
	}
	if (!is_reachable(c)) {
		return false;
	}
	memory_assign_slots(c->r, c->a, &c->mem);
	place_scratch(c);
	host_find_shares(c);
	host_spread_data(c);
	host_find_tensors(c);
	host_find_openers(c);
	if (!host_put_plan(c, facts)) {
		return false;
	}
	if (!ll_verify(c->ll, &why)) {
		die("LLVM refuses what was made for it: %s", why);
	}
	return true;
}

static enum ll_effort
effort_of(const struct cg_code *c)
{
	return c->arch ? LL_TIDILY : c->in.quick ? LL_QUICKLY : LL_WELL;
}

static bool
failed(struct cg_code *c, const char *why)
{
	diag_error(&c->m->ctx->diags, nowhere, "LLVM: %s", why);
	return false;
}

bool
cg_code_text(struct cg_code *c, struct buf *out)
{
	const char *why = "?";

	if (!ll_optimize(c->ll, effort_of(c), &why)) {
		return failed(c, why);
	}
	ll_print(c->ll, out);
	return true;
}

bool
cg_code_object(struct cg_code *c, struct buf *out)
{
	struct cg_cache cache;
	const char *why = "?";

	if (!c->in.no_cache) {
		cg_cache_open(&cache, c->a);
	}
	return ll_compile(c->ll, effort_of(c), c->in.no_cache ? NULL : &cache,
			  out, &why) || failed(c, why);
}

void
cg_code_free(struct cg_code *c)
{
	if (c->ll) {
		ll_free(c->ll);
	}
}

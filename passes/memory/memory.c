/*
 * The arena of each rank of the pipeline, from its kinds: tensors, then sent
 * values and slots of saves of each of its stages, then temps.  Temps take as
 * many bytes as the function with the most of them, since functions of a rank
 * never run at once.  When the update runs no saves are left, so its temps lie
 * where the slots were.  What lies on the host comes after all else.
 *
 * What layers have on the host, saves or weights and gradients, passes through
 * a window of the device, beside the temps: one layer's is on its way while
 * the next one computes.
 */
#include "ir/memo.h"
#include "passes/memory/memory_parts.h"

#include <string.h>

const char *const memory_kind_names[MEMORY_NKINDS] = {
	"weights", "gradients", "optimizer", "other", "pipeline", "saves",
	"temps"
};

/* ---- offsets ---- */

/* Whether it lies on the host, or on its drives. */
static bool
is_away(const struct memory *m, const struct memory_buffer *b)
{
	switch (b->kind) {
	case MEMORY_WEIGHTS:
	case MEMORY_GRADIENTS:
		return b->in_layers && memory_streams(m);
	case MEMORY_OPTIMIZER:
		return m->offload & PLAN_OFFLOAD_OPTIMIZER;
	case MEMORY_SAVES:
		return memory_is_hosted(m, b->span);
	default:
		return false;
	}
}

/* Offsets within each kind of each rank, and the bytes of each kind. */
static void
sum_up(struct memory_work *w)
{
	struct memory *out = w->out;
	int64_t (*in_slot)[MEMORY_NSPANS] = arena_alloc(&w->tmp,
		out->nstages * sizeof *in_slot);
	uint32_t i;

	for (i = 0; i < out->buffers.n; i++) {
		struct memory_buffer *b = memory_at(w, i);
		struct memory_rank *r = &out->rank[b->pipe];
		int64_t *by = is_away(out, b) ? &r->away[b->kind]
					      : &r->by[b->kind];

		if (b->kind == MEMORY_TEMPS) {
			continue;
		}
		if (b->kind == MEMORY_SAVES) {
			b->offset = in_slot[b->stage][b->span];
			in_slot[b->stage][b->span] += b->bytes * b->items;
			continue;
		}
		if (b->kind == MEMORY_PIPELINE) {
			uint32_t back = b->func !=
				w->r->of_stage[b->stage][SCHED_F];

			b->copies = out->stage[b->stage].waiting[back];
			b->apart = b->bytes;
			out->stage[b->stage].pipeline += b->bytes * b->copies;
		}
		b->offset = *by;
		*by += b->bytes * b->items * b->copies;
	}
}

static void
place_pools(struct memory_work *w)
{
	uint32_t i;

	for (i = 0; i < w->out->pools.n; i++) {
		struct memory_pool *p = &w->out->pools.at[i];
		struct memory_rank *r = &w->out->rank[p->rank];
		int64_t *by = memory_is_hosted(w->out, p->span)
			? &r->away[MEMORY_SAVES] : &r->by[MEMORY_SAVES];

		p->offset = *by;
		*by += p->bytes * p->slots;
	}
}

/*
 * Bytes for the temps of stages; more, if the update has more temps than fit
 * where the slots were.
 */
static void
add_temps(struct memory_rank *r)
{
	int64_t more = r->update.bytes - r->by[MEMORY_SAVES];

	r->by[MEMORY_TEMPS] = r->peak.bytes;
	if (more > r->peak.bytes) {
		r->by[MEMORY_TEMPS] = more;
		r->peak = r->update;
	}
}

/* Where the kinds of a rank begin: what is on the device, then what is not. */
struct memory_base {
	int64_t here[MEMORY_NKINDS], away[MEMORY_NKINDS];
};

/* What is on the device ends with `reserve` bytes. */
static void
set_base(struct memory_rank *r, int64_t reserve, struct memory_base *b)
{
	int64_t at = 0;
	uint32_t k;

	for (k = 0; k < MEMORY_NKINDS; k++) {
		b->here[k] = at;
		at += r->by[k];
	}
	at = (at + reserve + MEMORY_HOST_ALIGN - 1) / MEMORY_HOST_ALIGN *
	     MEMORY_HOST_ALIGN;
	r->host_at = at;
	for (k = 0; k < MEMORY_NKINDS; k++) {
		b->away[k] = at;
		at += r->away[k];
	}
}

static void
place_all(struct memory_work *w, int64_t reserve)
{
	struct memory *out = w->out;
	struct memory_base *base = arena_alloc(&w->tmp, out->nranks *
					       sizeof *base);
	uint32_t i;

	place_pools(w);
	for (i = 0; i < out->nranks; i++) {
		add_temps(&out->rank[i]);
		set_base(&out->rank[i], reserve, &base[i]);
	}
	for (i = 0; i < out->buffers.n; i++) {
		struct memory_buffer *b = memory_at(w, i);
		const struct memory_base *at = &base[b->pipe];
		bool update = b->kind == MEMORY_TEMPS &&
			      b->stage == UINT32_MAX;

		b->offset += is_away(out, b) ? at->away[b->kind]
			: at->here[update ? MEMORY_SAVES : b->kind];
		if (b->kind == MEMORY_SAVES) {
			const struct memory_pool *p = &out->pools.at[
				out->stage[b->stage].saves[b->span].pool];

			b->offset += p->offset;
			b->copies = p->slots;
			b->apart = p->bytes;
		}
	}
}

/* ---- ranks ---- */

/* The most bytes alive at once while the rank runs its actions. */
static int64_t
most_alive(struct memory_work *w, uint32_t rank)
{
	const struct sched_list *l = &w->holding->ranks[rank];
	const struct memory_moment *at = memory_history(w->out, l, &w->tmp);
	int64_t most = 0;
	uint32_t i;

	for (i = 0; i < l->actions.n; i++) {
		int64_t bytes = at[i].saves + at[i].func->bound;

		most = bytes > most ? bytes : most;
	}
	return most;
}

static void
update_peak(struct memory_rank *to, const struct memory_func *f,
	    int64_t window)
{
	if (f->bytes + window > to->peak.bytes) {
		to->peak = *f;
		to->peak.bytes += window;
	}
}

/* Adds saves to the windows: two layers of a stage, if it has so many. */
static void
add_windows(struct memory *m)
{
	uint32_t i;

	for (i = 0; i < m->buffers.n; i++) {
		const struct memory_buffer *b = &m->buffers.at[i];

		if (b->kind == MEMORY_SAVES && memory_is_hosted(m, b->span)) {
			m->stage[b->stage].window += b->bytes *
				(b->levels > 1 ? b->items :
				 b->items > 1 ? 2 : 1);
		}
	}
}

static void
finish_ranks(struct memory_work *w, int64_t reserve)
{
	struct memory *out = w->out;
	uint32_t i, k;

	add_windows(out);
	for (i = 0; i < out->nstages; i++) {
		for (k = 0; k < SCHED_NKINDS; k++) {
			update_peak(&out->rank[out->stage[i].rank],
				    &out->stage[i].func[k],
				    out->stage[i].window);
		}
	}
	place_all(w, reserve);
	for (i = 0; i < out->nranks; i++) {
		struct memory_rank *x = &out->rank[i];

		x->bound = most_alive(w, i);
		x->bound = x->update.bound > x->bound ? x->update.bound
						      : x->bound;
		x->bound += reserve;
		x->reserve = x->total = reserve;
		for (k = 0; k < MEMORY_NKINDS; k++) {
			*(memory_on_drives(out->offload, k)
				? &x->drives : &x->host) += x->away[k];
			x->total += x->by[k];
			x->bound += k <= MEMORY_PIPELINE ? x->by[k] : 0;
		}
		if (x->total > out->rank[out->fullest].total) {
			out->fullest = i;
		}
	}
}

/* ---- functions ---- */

/* Turns to a function.  False: there is none, or it has no kernels. */
static bool
enter(struct memory_work *w, func_id f)
{
	w->func = f;
	return f && w->out->kernels[f];
}

/* The functions of a stage, in the order in which a microbatch runs them. */
static void
run_stage(struct memory_work *w, uint32_t stage)
{
	static const uint8_t order[SCHED_NKINDS] = { SCHED_F, SCHED_B,
						     SCHED_I, SCHED_W };
	uint32_t k;

	w->stage = stage;
	w->pipe = w->out->stage[stage].rank = w->r->sched->rank_of[stage];
	for (k = 0; k < SCHED_NKINDS && !w->why; k++) {
		w->kind = order[k];
		if (enter(w, w->r->of_stage[stage][w->kind])) {
			memory_function(w, &w->out->stage[stage]
					.func[w->kind]);
		}
	}
	memory_forget_names(w);
}

static void
run_all(struct memory_work *w)
{
	uint32_t i;

	for (i = 0; i < w->r->nstages && !w->why; i++) {
		run_stage(w, i);
	}
	w->stage = UINT32_MAX;
	w->kind = SCHED_NKINDS;
	for (i = 0; i < w->r->npipes && !w->why; i++) {
		w->pipe = i;
		if (enter(w, w->r->update[i])) {
			memory_function(w, &w->out->rank[i].update);
			memory_forget_names(w);
		}
	}
}

static void
work_init(struct memory_work *w)
{
	uint32_t nv = w->m->values.n + 1, nn = w->m->nodes.n + 1;

	w->nsyms = w->m->ctx->syms.text.n;
	arena_init(&w->tmp, &w->m->ctx->mem);
	w->bytes = arena_alloc(&w->tmp, w->m->ctx->types->at.n *
			       sizeof *w->bytes);
	w->is_weight = arena_alloc(&w->tmp, w->nsyms);
	w->owner = arena_alloc(&w->tmp, w->nsyms * sizeof *w->owner);
	w->names_of = arena_alloc(&w->tmp, w->nsyms * sizeof *w->names_of);
	w->of_node = arena_alloc(w->a, nn * sizeof *w->of_node);
	w->out->tensor = w->of_node;
	w->frame = arena_alloc(&w->tmp, nv * sizeof *w->frame);
	w->def = arena_alloc(&w->tmp, nv * sizeof *w->def);
	w->last = arena_alloc(&w->tmp, nv * sizeof *w->last);
	w->fresh = arena_alloc(&w->tmp, nv);
	w->viewed = arena_alloc(&w->tmp, nv);
	w->out->value = arena_alloc(w->a, nv * sizeof *w->out->value);
	w->stage = UINT32_MAX;
}

void
memory_set_devices(struct memory *m, const struct ranks *r,
		   const struct target_devs *s, struct arena *a)
{
	const double *kernels = memory_graph_kernels(r, m, s, a);
	int64_t least = INT64_MAX, reserve;
	uint32_t i;

	for (i = 0; i < m->nranks; i++) {
		const struct target_device *d = &target_devs_of(s, i)->device;
		struct memory_rank *x = &m->rank[i];

		x->device = (int64_t)d->memory_bytes;
		reserve = (int64_t)memory_reserve(d, kernels[i]);
		x->reserve += reserve;
		x->total += reserve;
		x->bound += reserve;
		if (x->device - x->total < least) {
			least = x->device - x->total;
			m->fullest = i;
		}
	}
}

struct target_host
memory_host(const struct memory *m, const struct ranks *r,
	    const struct target *t, bool drives, struct arena *a)
{
	double *bytes = arena_alloc(a, m->nranks * sizeof *bytes), most = 0;
	struct target_hosted h = { r->nranks, r->npipes, ranks_apart(r),
				   bytes, drives };
	uint32_t i;

	for (i = 0; i < m->nranks; i++) {
		bytes[i] = (double)(drives ? m->rank[i].drives
					   : m->rank[i].host);
		most = bytes[i] > most ? bytes[i] : most;
	}
	return most > 0 ? target_fullest_host(t, &h)
			: (struct target_host){ 0, 0, 0, 0 };
}

bool
memory_on_drives(uint32_t offload, enum memory_kind kind)
{
	return plan_on_drives(offload) &
	       (kind == MEMORY_OPTIMIZER ? PLAN_OFFLOAD_OPTIMIZER
		: kind < MEMORY_OPTIMIZER ? PLAN_OFFLOAD_PARAMS : 0);
}

bool
memory_fits_hosts(const struct memory *m, const struct ranks *r,
		  const struct target *t, struct arena *a)
{
	struct target_host host = memory_host(m, r, t, false, a);
	struct target_host drives = memory_host(m, r, t, true, a);

	return target_has_room(&host) && target_has_room(&drives);
}

/* Sets what is alive when in all functions, and with w->packs their temps. */
static void
find_buffers(struct memory_work *w, struct kernels *const *all)
{
	const struct ranks *r = w->r;
	struct memory *out = w->out;

	memset(out, 0, sizeof *out);
	out->kernels = all ? all : ranks_kernels(r);
	out->nstages = r->nstages;
	out->nranks = r->npipes;
	out->offload = plan_offload(r->m);
	out->stage = arena_alloc(w->a, r->nstages * sizeof *out->stage);
	out->rank = arena_alloc(w->a, r->npipes * sizeof *out->rank);
	work_init(w);
	out->apart = memory_apart(w->m, out->kernels, w->a);
	memory_tensors(w);
	run_all(w);
}

static bool
plan_memory(const struct ranks *r, struct kernels *const *all, int64_t reserve,
	    struct arena *a, struct memory *out, const char **why)
{
	struct memory_work w = { .r = r, .m = r->m, .a = a, .out = out,
				 .packs = true };

	find_buffers(&w, all);
	if (!w.why) {
		w.holding = sched_holding(&w.tmp, r->sched);
		memory_slots(&w);
		memory_wait(&w);
		sum_up(&w);
		finish_ranks(&w, reserve);
	}
	arena_release(&w.tmp);
	*why = w.why ? w.why : *why;
	return !w.why;
}

bool
memory_measure(const struct ranks *r, struct kernels *const *all,
	       struct arena *a, struct memory *out, const char **why)
{
	struct memory_work w = { .r = r, .m = r->m, .a = a, .out = out };

	find_buffers(&w, all);
	arena_release(&w.tmp);
	*why = w.why ? w.why : *why;
	return !w.why;
}

/* With ranks of its own, since memory_set_devices changes those. */
static struct memory
copy_of(const struct memory *m, struct arena *a)
{
	struct memory copy = *m;

	copy.rank = arena_dup(a, m->rank, m->nranks * sizeof *m->rank);
	return copy;
}

bool
memory_plan(const struct ranks *r, struct kernels *const *all, int64_t reserve,
	    struct arena *a, struct memory *out, const char **why)
{
	struct ranks_found *x = all || reserve ? NULL : r->found;
	struct arena *kept = x ? memo_arena(r->memo, MEMO_RANKS) : NULL;
	struct memory copy;

	if (!kept) {
		return plan_memory(r, all, reserve, a, out, why);
	}
	if (!x->memory) {
		if (!plan_memory(r, all, reserve, kept, out, why)) {
			return false;
		}
		copy = copy_of(out, kept);
		x->memory = arena_dup(kept, &copy, sizeof copy);
	}
	*out = copy_of(x->memory, a);
	return true;
}

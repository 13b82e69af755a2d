/*
 * rank_verify_whole.c - does the split program compute what the unsplit one
 * does?
 *
 * Rank 0 runs the same step as one rank's program, in an arena of its own;
 * then each tensor goes to all ranks, and each looks at its own pieces.
 *
 * Both round differently, so what is compared must not blow that up.  First
 * moments are gradients times a constant: they are compared as they are,
 * second ones as squares.  AdamW's first step is the learning rate times the
 * sign of the gradient, so of a gradient that is rounding alone the weight is
 * anything: weights are compared where the sign is sure.
 */
#include "runtime/train/rank.h"
#include "runtime/data/tensor_store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * A gradient that is 0 but for rounding, as that of a bias of keys, has the
 * error of what it is made of: it is measured by this part of the largest of
 * all gradients, if that is more than its own.
 */
#define FLOOR 1e-2

/* So often rank 0 tells the others that it is at work. */
#define PULSE_MS 1000

/* What is rounding. */
struct bounds {
	double number;		/* of the loss and the norm */
	/* of an element, as a part of the largest; bf16's adds up by layer */
	double off;
	/*
	 * A gradient has a sign if it is so many times what may be its error.
	 * A weight then moves by lr at most more or less, by lr / (4 * sure)
	 * where that is many: worst for a gradient as small as AdamW's eps.
	 */
	double sure;
};

static const struct bounds wide = { 1e-5, 1e-5, 300 },
	narrow = { 2e-2, 5e-2, 1 };

enum kind { GRADIENTS, SQUARES, WEIGHTS, NKINDS };

static const struct {
	const char *name;
	double times;		/* the bound; of squares see compare_tensor */
} kinds[NKINDS] = {
	{ "gradients", 1 }, { "their squares", 3 }, { "weights", 1 }
};

/* The worst of a kind on a rank; words, to be added up. */
struct found {
	double off;		/* over the scale */
	double here, whole;
	int64_t tensor, at;	/* element of the whole tensor */
};

struct whole {
	struct rt_run *r;
	const struct rt_plan *plan;	/* the unsplit one */
	const struct bounds *bounds;
	/* on rank 0 */
	struct rt_comm *comm;
	struct rt_device device;
	struct rt_run *run;
	double reported_ms;		/* when the others heard of it */
	/* by tensor of the plan: the largest element */
	double *most;
	double most_of[NKINDS];
	/* a tensor each, where no arena that the host reaches has it: two of
	 * the unsplit plan's, and this rank's part */
	char *room[3];
	struct found *found;	/* [rank][kind] */
	int64_t counts[2];	/* weights' elements: compared, all */
};

/* ---- tensors ---- */

static bool
ends(const char *s, const char *with)
{
	size_t n = strlen(s), m = strlen(with);

	return n >= m && strcmp(s + n - m, with) == 0;
}

/* SGD's momentum is, after one step, the gradient. */
static enum kind
kind_of(const struct rt_tensor *t)
{
	if (!t->loaded && (ends(t->name, ".exp_avg") ||
			    ends(t->name, ".momentum"))) {
		return GRADIENTS;
	}
	return !t->loaded && ends(t->name, ".exp_avg_sq") ? SQUARES : WEIGHTS;
}

static int64_t
elems_of(const struct rt_tensor *t)
{
	return rt_tensor_parts(t) * rt_part_elems(t);
}

static int64_t
bytes_of(const struct rt_tensor *t)
{
	return elems_of(t) * rt_elem_bytes((enum rt_elem)t->elem);
}

/* The first moments of a weight; -1: it has none. */
static int64_t
moments_of(const struct rt_plan *p, const struct rt_tensor *t)
{
	size_t n = strlen(t->name);
	int64_t i;

	if (ends(t->name, ".master")) {
		n -= strlen(".master");
	}
	for (i = 0; i < p->ntensors; i++) {
		const char *s = p->tensors[i].name;

		if (strncmp(s, t->name, n) == 0 &&
		    strcmp(s + n, ".exp_avg") == 0) {
			return i;
		}
	}
	return -1;
}

static const struct rt_hold *
hold_of(const struct rt_plan *p, const struct rt_program *g, int64_t tensor)
{
	int64_t i;

	for (i = 0; i < g->nholds; i++) {
		if (g->holds[i].tensor == &p->tensors[tensor]) {
			return &g->holds[i];
		}
	}
	return NULL;
}

/* Both plans are of one model; what does not match is our own fault. */
static enum rt_status
check_tables(const struct rt_plan *p, const struct rt_plan *w,
	     struct rt_error *err)
{
	int64_t i;

	for (i = 0; i < p->ntensors && i < w->ntensors; i++) {
		const struct rt_tensor *a = &p->tensors[i];
		const struct rt_tensor *b = &w->tensors[i];

		if (strcmp(a->name, b->name) != 0 || a->elem != b->elem ||
		    a->ndims != b->ndims || a->stacked != b->stacked ||
		    memcmp(a->sizes, b->sizes, (size_t)a->ndims *
						       sizeof *a->sizes) ||
		    !hold_of(w, w->programs, i)) {
			break;
		}
	}
	if (i < p->ntensors || i < w->ntensors || w->nranks != 1) {
		return rt_fail(err, RT_FORMAT, (struct rt_where){ NULL,
			i < p->ntensors ? p->tensors[i].name : NULL, -1 },
			"the unsplit plan has other tensors: the plan is "
			"broken");
	}
	return RT_OK;
}

/* ---- rank 0 runs it ---- */

/* Who waits does so for this long at most, not for a whole step. */
static enum rt_status
pulse(void *user, struct rt_error *err)
{
	struct whole *w = user;
	double now_ms = rt_now_ms();
	int64_t more = 1;

	if (now_ms - w->reported_ms < PULSE_MS) {
		return RT_OK;
	}
	w->reported_ms = now_ms;
	return rt_comm_spread(w->r->comm, 0, &more, sizeof more, err);
}

static enum rt_status
open_whole(struct whole *w, struct rt_error *err)
{
	struct rt_comm_options o = { .plan = w->plan,
		.world = { .size = 1, .local_size = 1, .how = "alone" },
		.timeout_s = 300,
		.report_fd = STDERR_FILENO };
	enum rt_status status;

	snprintf(o.world.job, sizeof o.world.job, "whole-%ld", (long)getpid());
	status = rt_comm_open(&w->comm, &o, w->plan->programs[0].arena_bytes,
			      err);
	if (status == RT_OK) {
		status = rt_device_open(&w->device, w->r->device->on, w->plan,
					0, w->comm, w->r->workers,
					w->r->device->options, err);
	}
	if (status == RT_OK) {
		status = rt_run_open(&w->run, w->plan, 0, &w->device,
				     w->r->env.seed, err);
	}
	if (status == RT_OK) {
		w->run->pulse = pulse;
		w->run->pulse_user = w;
	}
	return status;
}

static enum rt_status
run_on_rank_0(struct whole *w, const struct rt_options *o, int64_t step,
	      struct rt_outcome *c, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	struct rt_progress p;

	if (step == 1) {
		status = open_whole(w, err);
	}
	if (status == RT_OK && step == 1) {
		status = rt_begin(w->run, o, &p, err);
	}
	return status == RT_OK ? rt_run_step(w->run, step, NULL, true, false,
					     c, err) : status;
}

/* A step of it; all ranks have its numbers then. */
static enum rt_status
run_whole(struct whole *w, const struct rt_options *o, int64_t step,
	  struct rt_outcome *c, struct rt_error *err)
{
	struct rt_store store = rt_run_store(w->r);
	enum rt_status status = RT_OK, told;
	struct rt_error other;
	int64_t more = 0;

	w->reported_ms = rt_now_ms();
	if (w->r->rank == 0) {
		rt_comm_note(w->r->comm, "a step of the unsplit plan", -1, -1);
		status = run_on_rank_0(w, o, step, c, err);
	}
	do {
		told = rt_comm_spread(w->r->comm, 0, &more, sizeof more,
				      status == RT_OK ? err : &other);
	} while (told == RT_OK && more);
	if (told != RT_OK) {
		return status == RT_OK ? told : status;
	}
	status = rt_store_agree(&store, status, err);
	return status == RT_OK ? rt_comm_spread(w->r->comm, 0, c, sizeof *c,
						err) : status;
}

/* ---- numbers of a step ---- */

static double
apart(double a, double b)
{
	double d = fabs(a - b);

	return d == 0 ? 0 : isfinite(d) ? d / fmax(fabs(b), 1e-30) : INFINITY;
}

static enum rt_status
compare_numbers(const struct whole *w, int64_t step,
		const struct rt_outcome *a, const struct rt_outcome *b,
		double *off, struct rt_error *err)
{
	double loss = a->n > 0 && b->n > 0 ? apart(a->at[0], b->at[0]) : 0;
	double norm = a->nwatch > 0 && b->nwatch > 0
		? apart(a->watch[0], b->watch[0]) : 0;
	double most = w->bounds->number;
	bool is_loss = loss > most;

	*off = fmax(*off, fmax(loss, norm));
	if (loss <= most && norm <= most) {
		return RT_OK;
	}
	return rt_fail(err, RT_FORMAT, RT_NOWHERE, "the %s of step %lld is "
		"%.9g, and %.9g if nothing is split: %.1e apart, and up to "
		"%.0e is rounding", is_loss ? "loss" : "gradient norm",
		(long long)step,
		is_loss ? a->at[0] : a->watch[0],
		is_loss ? b->at[0] : b->watch[0], is_loss ? loss : norm,
		most);
}

/* ---- tensors of rank 0, on all ranks ---- */

/* As rank 0 has it. */
static enum rt_status
view_whole(struct whole *w, int64_t i, char *room, const char **at,
	   struct rt_error *err)
{
	return rt_device_view(&w->device,
			      hold_of(w->plan, w->plan->programs, i)->offset,
			      bytes_of(&w->plan->tensors[i]), room, at, err);
}

static enum rt_status
find_most(struct whole *w, struct rt_error *err)
{
	const struct rt_plan *p = w->plan;
	enum rt_status status = RT_OK;
	int64_t i, k;

	for (i = 0; i < p->ntensors && w->run && status == RT_OK; i++) {
		const struct rt_tensor *t = &p->tensors[i];
		const char *at;

		status = view_whole(w, i, w->room[0], &at, err);
		for (k = elems_of(t); k-- > 0 && status == RT_OK; ) {
			w->most[i] = fmax(w->most[i],
					  fabs(rt_number(at, t->elem, k)));
		}
	}
	if (status == RT_OK) {
		status = rt_comm_spread(w->r->comm, 0, w->most, p->ntensors *
					(int64_t)sizeof *w->most, err);
	}
	for (i = 0; i < p->ntensors && status == RT_OK; i++) {
		enum kind kind = kind_of(&p->tensors[i]);

		w->most_of[kind] = fmax(w->most_of[kind], w->most[i]);
	}
	return status;
}

/* What counts as its largest element. */
static double
scale_of(const struct whole *w, int64_t tensor)
{
	enum kind kind = kind_of(&w->plan->tensors[tensor]);
	double floor = kind == SQUARES ? FLOOR * FLOOR : FLOOR;

	return fmax(fmax(w->most[tensor], floor * w->most_of[kind]), 1e-30);
}

static enum rt_status
get_tensor(struct whole *w, int64_t i, char *room, const char **at,
	   struct rt_error *err)
{
	enum rt_status status = RT_OK;

	*at = room;
	if (w->run) {
		status = view_whole(w, i, room, at, err);
	}
	/* rank 0 only shows it */
	return status != RT_OK ? status :
		rt_comm_spread(w->r->comm, 0, (void *)(uintptr_t)*at,
			       bytes_of(&w->plan->tensors[i]), err);
}

static enum rt_status
get_rooms(struct whole *w, struct rt_error *err)
{
	bool here = w->run && w->device.host, own = w->r->device->host;
	const struct rt_plan *p = w->plan;
	int64_t most = 1, ranks = w->r->plan->nranks, i;

	w->most = calloc((size_t)p->ntensors + 1, sizeof *w->most);
	w->found = calloc((size_t)ranks * NKINDS, sizeof *w->found);
	for (i = 0; i < p->ntensors; i++) {
		most = bytes_of(&p->tensors[i]) > most
			? bytes_of(&p->tensors[i]) : most;
	}
	for (i = 0; i < 3; i++) {
		w->room[i] = malloc((i < 2 ? here : own) ? 1 : (size_t)most);
		if (!w->room[i]) {
			return rt_no_memory(err, NULL);
		}
	}
	return w->most && w->found ? RT_OK : rt_no_memory(err, NULL);
}

/* ---- this rank's pieces ---- */

/* What is compared of one tensor. */
struct pair {
	const struct rt_tensor *tensor;
	const char *here, *whole;
	/* of the first moments; NULL: every element is sure */
	const char *moments;
	int64_t moments_elem;
	double sure;		/* a moment is, from here on */
	double scale;
	struct found *worst;
	int64_t *counts;	/* or NULL */
	int64_t number;		/* of the tensor */
};

static void
compare_span(struct pair *x, const struct rt_span *s)
{
	int64_t from = s->part * rt_part_elems(x->tensor) + s->at, i;
	int64_t elem = x->tensor->elem;

	for (i = 0; i < s->n; i++) {
		double a = rt_number(x->here, elem, s->local + i);
		double b = rt_number(x->whole, elem, from + i), off;
		bool sure = !x->moments ||
			    fabs(rt_number(x->moments, x->moments_elem,
					   from + i)) >= x->sure;

		if (x->counts) {
			x->counts[0] += sure;
			x->counts[1]++;
		}
		off = fabs(a - b) / x->scale;
		/* a weight that is no number is wrong wherever it is */
		if (!isfinite(off)) {
			off = INFINITY;
		} else if (!sure) {
			continue;
		}
		if (off > x->worst->off) {
			*x->worst = (struct found){ off, a, b, x->number,
						    from + i };
		}
	}
}

static enum rt_status
view_own(struct whole *w, const struct rt_hold *h, const char **at,
	 struct rt_error *err)
{
	int64_t n = rt_elem_bytes((enum rt_elem)h->tensor->elem), d;

	for (d = 0; d < h->tensor->ndims; d++) {
		n *= rt_pieces_of(w->r->plan, h->dims[d], w->r->rank,
				  0)->total;
	}
	return rt_device_view(w->r->device, h->offset, n, w->room[2], at,
			      err);
}

/*
 * Squares: where a gradient g may be off by d, its square is by 2gd + dd,
 * which is under three times the same part of the largest square.
 */
static enum rt_status
compare_tensor(struct whole *w, int64_t i, struct rt_error *err)
{
	const struct rt_tensor *t = &w->plan->tensors[i];
	enum kind kind = kind_of(t);
	int64_t m = kind == WEIGHTS ? moments_of(w->plan, t) : -1;
	const struct rt_plan *p = w->r->plan;
	const struct rt_hold *h = hold_of(p, w->r->program, i);
	struct pair x = { .tensor = t, .scale = scale_of(w, i), .number = i };
	enum rt_status status = get_tensor(w, i, w->room[0], &x.whole, err);
	struct rt_spans spans;
	struct rt_span s;

	if (status == RT_OK && m >= 0) {
		status = get_tensor(w, m, w->room[1], &x.moments, err);
		x.moments_elem = w->plan->tensors[m].elem;
		x.sure = w->bounds->sure * w->bounds->off * scale_of(w, m);
	}
	if (status == RT_OK && h) {
		status = view_own(w, h, &x.here, err);
	}
	if (status != RT_OK || !h) {
		return status;
	}
	x.worst = &w->found[w->r->rank * NKINDS + kind];
	x.counts = kind == WEIGHTS ? w->counts : NULL;
	rt_spans_begin(&spans, p, h, w->r->rank);
	while (rt_spans_next(&spans, &s)) {
		compare_span(&x, &s);
	}
	return RT_OK;
}

/* ---- what came of it ---- */

/* "[3, 14]", an element by number. */
static void
position(const struct rt_tensor *t, int64_t at, char *out, size_t room)
{
	int64_t index[RT_MAX_DIMS], d;
	size_t n = 0;

	for (d = t->ndims - 1; d >= 0; d--) {
		index[d] = at % t->sizes[d];
		at /= t->sizes[d];
	}
	snprintf(out, room, "[]");
	for (d = 0; d < t->ndims && n < room; d++) {
		n += (size_t)snprintf(out + n, room - n, "%s%lld%s",
				      d ? ", " : "[", (long long)index[d],
				      d + 1 < t->ndims ? "" : "]");
	}
}

/* The rank whose worst is the worst of all. */
static int64_t
worst_rank(const struct whole *w, enum kind kind)
{
	int64_t worst = 0, i;

	for (i = 1; i < w->r->plan->nranks; i++) {
		if (w->found[i * NKINDS + kind].off >
		    w->found[worst * NKINDS + kind].off) {
			worst = i;
		}
	}
	return worst;
}

static enum rt_status
judge(const struct whole *w, struct rt_error *err)
{
	const struct rt_plan *p = w->r->plan;
	char who[96], where[192];
	int kind;

	for (kind = 0; kind < NKINDS; kind++) {
		int64_t rank = worst_rank(w, (enum kind)kind);
		const struct found *f = &w->found[rank * NKINDS + kind];
		const struct rt_tensor *t = &p->tensors[f->tensor];
		double most = w->bounds->off * kinds[kind].times;

		if (f->off <= most) {
			continue;
		}
		rt_mesh_text(p, rank, who, sizeof who);
		position(t, f->at, where, sizeof where);
		return rt_fail(err, RT_FORMAT, (struct rt_where){ NULL,
			t->name, -1 }, "after the first step %s has %.9g at "
			"%s, and it is %.9g if nothing is split: %.1e of the "
			"largest element apart, and up to %.0e is rounding",
			who, f->here, where, f->whole, f->off, most);
	}
	return RT_OK;
}

static void
show(const struct whole *w, int64_t steps, double off, FILE *out)
{
	const struct rt_plan *p = w->r->plan;
	const char *head = "unsplit";
	char who[96];
	int kind;

	fprintf(out, "%-10s loss and norm of %lld step%s are at most %.1e "
		"apart\n", head, (long long)steps, steps == 1 ? "" : "s", off);
	for (kind = 0; kind < NKINDS; kind++) {
		int64_t rank = worst_rank(w, (enum kind)kind);
		const struct found *f = &w->found[rank * NKINDS + kind];

		if (f->off > 0) {
			rt_mesh_text(p, rank, who, sizeof who);
			fprintf(out, "%-10s %s at most %.1e of the largest: "
				"%s, %s\n", head, kinds[kind].name, f->off,
				p->tensors[f->tensor].name, who);
		} else if (w->most_of[kind] > 0) {
			fprintf(out, "%-10s %s have the same bits\n", head,
				kinds[kind].name);
		}
	}
	fprintf(out, "%-10s %.1f%% of the weights' elements could be "
		"compared\n", head, 100 * (double)w->counts[0] /
			fmax((double)w->counts[1], 1));
}

/* ---- all of it ---- */

static enum rt_status
compare_tensors(struct whole *w, struct rt_error *err)
{
	struct rt_store store = rt_run_store(w->r);
	enum rt_status status = get_rooms(w, err);
	int64_t i;

	_Static_assert(sizeof(struct found) % 8 == 0, "found is whole words");
	status = rt_store_agree(&store, status, err);
	if (status == RT_OK) {
		status = find_most(w, err);
	}
	for (i = 0; i < w->plan->ntensors && status == RT_OK; i++) {
		status = compare_tensor(w, i, err);
	}
	if (status == RT_OK) {
		status = rt_comm_sum_u64(w->r->comm, (void *)w->found,
			w->r->plan->nranks * NKINDS *
				(int64_t)(sizeof *w->found / 8), err);
	}
	if (status == RT_OK) {
		status = rt_comm_sum_u64(w->r->comm, (void *)w->counts, 2,
					 err);
	}
	return status == RT_OK ? judge(w, err) : status;
}

static enum rt_status
compare(struct whole *w, const struct rt_options *o,
	const struct rt_outcome *first, FILE *out, struct rt_error *err)
{
	int64_t steps = o->steps ? o->steps : 1, step;
	struct rt_outcome a = *first, b = { 0 };
	double off = 0;
	enum rt_status status = run_whole(w, o, 1, &b, err);

	if (status == RT_OK) {
		status = compare_tensors(w, err);
	}
	if (status == RT_OK) {
		status = compare_numbers(w, 1, &a, &b, &off, err);
	}
	for (step = 2; step <= steps && status == RT_OK; step++) {
		status = rt_run_step(w->r, step, NULL, true, false, &a, err);
		if (status == RT_OK) {
			status = run_whole(w, o, step, &b, err);
		}
		if (status == RT_OK) {
			status = compare_numbers(w, step, &a, &b, &off, err);
		}
	}
	if (status == RT_OK && w->r->rank == 0) {
		show(w, steps, off, out);
	}
	return status;
}

/* Why there is nothing to compare with, on all ranks; "": there is. */
static enum rt_status
look_for_room(struct whole *w, char why[160], struct rt_error *err)
{
	const struct rt_plan *p = w->r->plan;
	struct rt_machine m;
	int64_t bytes;

	memset(why, 0, 160);
	if (!p->whole) {
		snprintf(why, 160, "%s", p->whole_why ? p->whole_why
			 : "the plan has no other beside it");
		return RT_OK;
	}
	rt_machine_look(&m);
	bytes = p->whole->programs[0].arena_bytes;
	if (w->r->device->free_bytes >= 0) {
		m.free_bytes = w->r->device->free_bytes;
	}
	if (m.free_bytes >= 0 && bytes > m.free_bytes) {
		snprintf(why, 160, "one rank's arena needs %.2f GiB more, and "
			 "%.2f GiB are free", (double)bytes / (1 << 30),
			 (double)m.free_bytes / (1 << 30));
	}
	return rt_comm_spread(w->r->comm, 0, why, 160, err);
}

enum rt_status
rt_verify_whole(struct rt_run *r, const struct rt_options *o,
		const struct rt_outcome *first, FILE *out,
		struct rt_error *err)
{
	struct whole w = { .r = r, .plan = r->plan->whole, .bounds = &wide };
	char why[160];
	enum rt_status status = look_for_room(&w, why, err);
	int64_t i;

	if (status != RT_OK || why[0]) {
		if (status == RT_OK && r->rank == 0) {
			fprintf(out, "unsplit    not compared: %s\n", why);
		}
		return status;
	}
	for (i = 0; i < r->plan->ntensors; i++) {
		if (rt_elem_bytes((enum rt_elem)r->plan->tensors[i].elem) <
		    4) {
			w.bounds = &narrow;
		}
	}
	status = check_tables(r->plan, w.plan, err);
	if (status == RT_OK) {
		status = compare(&w, o, first, out, err);
	}
	rt_run_free(w.run);
	rt_device_close(&w.device);
	rt_comm_free(w.comm);
	free(w.most);
	free(w.found);
	for (i = 0; i < 3; i++) {
		free(w.room[i]);
	}
	return status;
}

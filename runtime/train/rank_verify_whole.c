/*
 * Does the split program compute what the unsplit one does?
 *
 * Rank 0 runs the same step with the program of one rank, in an arena of its
 * own; then each tensor is broadcast, and each rank compares its pieces.
 *
 * The two round differently, so what is compared must not amplify rounding.
 * First moments are gradients times a constant and are compared as they are,
 * second moments as squares.  The first step of AdamW is the learning rate
 * times the sign of the gradient: where the gradient is rounding error alone,
 * the weight is arbitrary.  So weights are compared only where the sign is
 * certain.
 */
#include "runtime/train/rank.h"
#include "runtime/data/tensor_store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * A gradient that is 0 up to rounding, such as that of the bias of keys, has
 * the error of its terms.  So errors are relative to the largest element of the
 * tensor or, if that is more, to this part of the largest element of all
 * gradients.
 */
#define SMALLEST_SCALE 1e-2

/* Interval at which rank 0 shows the others that it is alive. */
#define PULSE_MS 1000

/* Differences up to these bounds are rounding. */
struct bounds {
	/* relative, of the loss and the gradient norm */
	double number;
	/*
	 * of an element, relative to the largest one; in bf16, errors add up
	 * over layers
	 */
	double off;
	/*
	 * The sign of a gradient is certain if the gradient is so many times
	 * its possible error.  The weight then moves by lr more or less at
	 * most, or by lr / (4 * sure) where that factor is large: the worst
	 * case is a gradient as small as eps of AdamW.
	 */
	double sure;
};

static const struct bounds wide = { 1e-5, 1e-5, 300 },
	narrow = { 2e-2, 5e-2, 1 };

enum kind { GRADIENTS, SQUARES, WEIGHTS, NKINDS };

static const struct {
	const char *name;
	/* factor of the bound; of squares see compare_tensor() */
	double times;
} kinds[NKINDS] = {
	{ "gradients", 1 }, { "their squares", 3 }, { "weights", 1 }
};

/* The largest difference of a kind on a rank, as words that ranks add up. */
struct found {
	double off;		/* difference, relative to the scale */
	double here, whole;
	int64_t tensor, at;	/* index of the element in the whole tensor */
};

struct unsplit {
	struct rt_run *r;
	const struct rt_plan *plan;	/* the unsplit plan */
	const struct bounds *bounds;
	/* on rank 0 */
	struct rt_comm *comm;
	struct rt_device device;
	struct rt_run *run;
	/* when rank 0 last showed that it is alive */
	double reported_ms;
	/* by tensor of the plan: its largest element */
	double *most;
	double most_of[NKINDS];
	/*
	 * buffers of a tensor each, if the host cannot read the arenas: two for
	 * the unsplit plan, one for what this rank holds
	 */
	char *buffer[3];
	struct found *found;	/* [rank][kind] */
	int64_t counts[2];	/* elements of weights: compared, all */
};

/* ---- tensors ---- */

/* The momentum of SGD is the gradient after one step. */
static enum kind
kind_of(const struct rt_tensor *t)
{
	if (!t->loaded && (rt_ends_in(t->name, ".exp_avg") ||
			    rt_ends_in(t->name, ".momentum"))) {
		return GRADIENTS;
	}
	return !t->loaded && (rt_ends_in(t->name, ".exp_avg_sq") ||
			      rt_ends_in(t->name, ".exp_avg_sq_row") ||
			      rt_ends_in(t->name, ".exp_avg_sq_col")) ? SQUARES
		: WEIGHTS;
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

/* The tensor of the first moments of a weight; -1: none. */
static int64_t
moments_of(const struct rt_plan *p, const struct rt_tensor *t)
{
	size_t n = strlen(t->name);
	int64_t i;

	if (rt_ends_in(t->name, ".master")) {
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

/* Both plans come from one model: a difference is a bug of the compiler. */
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

/* Others wait for this long at most, not for a whole step. */
static enum rt_status
pulse(void *user, struct rt_error *err)
{
	struct unsplit *w = user;
	double now_ms = rt_now_ms();
	int64_t more = 1;

	if (now_ms - w->reported_ms < PULSE_MS) {
		return RT_OK;
	}
	w->reported_ms = now_ms;
	return rt_comm_spread(w->r->comm, 0, &more, sizeof more, err);
}

static enum rt_status
open_whole(struct unsplit *w, struct rt_error *err)
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
run_on_rank_0(struct unsplit *w, const struct rt_options *o, int64_t step,
	      struct rt_outcome *c, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	struct rt_progress p;

	if (step == 1) {
		status = open_whole(w, err);
	}
	if (status == RT_OK && step == 1) {
		status = rt_load_initial(w->run, o, &p, err);
	}
	return status == RT_OK ? rt_run_step(w->run, step, NULL, true, false,
					     c, err) : status;
}

/* Runs a step of the unsplit program on rank 0, and broadcasts its numbers. */
static enum rt_status
run_whole(struct unsplit *w, const struct rt_options *o, int64_t step,
	  struct rt_outcome *c, struct rt_error *err)
{
	struct rt_store store = rt_run_store(w->r);
	enum rt_status status = RT_OK, status_of_others;
	struct rt_error other;
	int64_t more = 0;

	w->reported_ms = rt_now_ms();
	if (w->r->rank == 0) {
		rt_comm_note(w->r->comm, "a step of the unsplit plan", -1, -1);
		status = run_on_rank_0(w, o, step, c, err);
	}
	do {
		status_of_others = rt_comm_spread(w->r->comm, 0, &more, sizeof
						  more, status == RT_OK ? err :
						  &other);
	} while (status_of_others == RT_OK && more);
	if (status_of_others != RT_OK) {
		return status == RT_OK ? status_of_others : status;
	}
	status = rt_store_agree_status(&store, status, err);
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
compare_numbers(const struct unsplit *w, int64_t step,
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

/* On rank 0: a tensor of the unsplit program. */
static enum rt_status
view_whole(struct unsplit *w, int64_t i, char *buffer, const char **at,
	   struct rt_error *err)
{
	return rt_device_view(&w->device,
			      hold_of(w->plan, w->plan->programs, i)->offset,
			      bytes_of(&w->plan->tensors[i]), buffer, at, err);
}

static enum rt_status
find_most(struct unsplit *w, struct rt_error *err)
{
	const struct rt_plan *p = w->plan;
	enum rt_status status = RT_OK;
	int64_t i, k;

	for (i = 0; i < p->ntensors && w->run && status == RT_OK; i++) {
		const struct rt_tensor *t = &p->tensors[i];
		const char *at;

		status = view_whole(w, i, w->buffer[0], &at, err);
		for (k = elems_of(t); k-- > 0 && status == RT_OK; ) {
			w->most[i] = fmax(w->most[i],
					  fabs(rt_elem_number(at, t->elem, k)));
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

/* What errors of a tensor are relative to. */
static double
scale_of(const struct unsplit *w, int64_t tensor)
{
	enum kind kind = kind_of(&w->plan->tensors[tensor]);
	double smallest = kind == SQUARES ? SMALLEST_SCALE * SMALLEST_SCALE :
		SMALLEST_SCALE;

	return fmax(fmax(w->most[tensor], smallest * w->most_of[kind]), 1e-30);
}

static enum rt_status
get_tensor(struct unsplit *w, int64_t i, char *buffer, const char **at,
	   struct rt_error *err)
{
	enum rt_status status = RT_OK;

	*at = buffer;
	if (w->run) {
		status = view_whole(w, i, buffer, at, err);
	}
	/* rank 0 sends from its view */
	return status != RT_OK ? status :
		rt_comm_spread(w->r->comm, 0, (void *)(uintptr_t)*at,
			       bytes_of(&w->plan->tensors[i]), err);
}

static enum rt_status
get_buffers(struct unsplit *w, struct rt_error *err)
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
		w->buffer[i] = malloc((i < 2 ? here : own) ? 1 : (size_t)most);
		if (!w->buffer[i]) {
			return rt_no_memory(err, NULL);
		}
	}
	return w->most && w->found ? RT_OK : rt_no_memory(err, NULL);
}

/* ---- this rank's pieces ---- */

/* The comparison of one tensor. */
struct tensor_pair {
	const struct rt_tensor *tensor;
	const char *here, *whole;
	/* first moments; NULL: every element is compared */
	const char *moments;
	int64_t moments_elem;
	double sure;		/* moments from here on have a certain sign */
	double scale;
	struct found *worst;
	int64_t *counts;	/* or NULL */
	int64_t number;		/* of the tensor */
};

static void
compare_span(struct tensor_pair *x, const struct rt_span *s)
{
	int64_t from = s->part * rt_part_elems(x->tensor) + s->at, i;
	int64_t elem = x->tensor->elem;

	for (i = 0; i < s->n; i++) {
		double a = rt_elem_number(x->here, elem, s->local + i);
		double b = rt_elem_number(x->whole, elem, from + i), off;
		bool sure = !x->moments ||
			    fabs(rt_elem_number(x->moments, x->moments_elem,
						from + i)) >= x->sure;

		if (x->counts) {
			x->counts[0] += sure;
			x->counts[1]++;
		}
		off = fabs(a - b) / x->scale;
		/* NaN of a weight is an error, whatever its gradient */
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
view_own(struct unsplit *w, const struct rt_hold *h, const char **at,
	 struct rt_error *err)
{
	int64_t n = rt_elem_bytes((enum rt_elem)h->tensor->elem), d;

	for (d = 0; d < h->tensor->ndims; d++) {
		n *= rt_pieces_of(w->r->plan, h->dims[d], w->r->rank,
				  0)->total;
	}
	return rt_device_view(w->r->device, h->offset, n, w->buffer[2], at,
			      err);
}

/*
 * Squares: if a gradient g is off by d, its square is off by 2gd + dd, which is
 * less than three times the same part of the largest square.
 */
static enum rt_status
compare_tensor(struct unsplit *w, int64_t i, struct rt_error *err)
{
	const struct rt_tensor *t = &w->plan->tensors[i];
	enum kind kind = kind_of(t);
	int64_t m = kind == WEIGHTS ? moments_of(w->plan, t) : -1;
	const struct rt_plan *p = w->r->plan;
	const struct rt_hold *h = hold_of(p, w->r->program, i);
	struct tensor_pair x = { .tensor = t, .scale = scale_of(w, i), .number =
				i };
	enum rt_status status = get_tensor(w, i, w->buffer[0], &x.whole, err);
	struct rt_spans spans;
	struct rt_span s;

	if (status == RT_OK && m >= 0) {
		status = get_tensor(w, m, w->buffer[1], &x.moments, err);
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

/* "[3, 14]": the position of an element. */
static void
position(const struct rt_tensor *t, int64_t at, char *out, size_t buffer)
{
	int64_t index[RT_MAX_DIMS], d;
	size_t n = 0;

	for (d = t->ndims - 1; d >= 0; d--) {
		index[d] = at % t->sizes[d];
		at /= t->sizes[d];
	}
	snprintf(out, buffer, "[]");
	for (d = 0; d < t->ndims && n < buffer; d++) {
		n += (size_t)snprintf(out + n, buffer - n, "%s%lld%s",
				      d ? ", " : "[", (long long)index[d],
				      d + 1 < t->ndims ? "" : "]");
	}
}

/* The rank with the largest difference. */
static int64_t
worst_rank(const struct unsplit *w, enum kind kind)
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
judge(const struct unsplit *w, struct rt_error *err)
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
show(const struct unsplit *w, int64_t steps, double off, FILE *out)
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
compare_tensors(struct unsplit *w, struct rt_error *err)
{
	struct rt_store store = rt_run_store(w->r);
	enum rt_status status = get_buffers(w, err);
	int64_t i;

	_Static_assert(sizeof(struct found) % 8 == 0, "found is whole words");
	status = rt_store_agree_status(&store, status, err);
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
compare(struct unsplit *w, const struct rt_options *o,
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

/*
 * Whether the unsplit program can run; why: on all ranks the reason why not, or
 * "".
 */
static enum rt_status
check_capacity(struct unsplit *w, char why[160], struct rt_error *err)
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
	struct unsplit w = { .r = r, .plan = r->plan->whole, .bounds = &wide };
	char why[160];
	enum rt_status status = check_capacity(&w, why, err);
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
		free(w.buffer[i]);
	}
	return status;
}

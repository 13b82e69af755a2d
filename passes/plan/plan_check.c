/*
 * Sets the keys that a plan leaves out, and checks the plan against the model.
 * A message says what was found and which values are legal, so that the user
 * sees the nearest one.  How far tp can really split is checked later, by pass
 * `place`.
 */
#include "passes/plan/plan_keys.h"
#include "passes/pass.h"
#include "passes/sched/sched.h"

#include <string.h>

static bool
fail(struct plan_reading *r, struct span at, const char *fmt, ...)
{
	struct buf b;
	va_list ap;

	buf_init(&b, &r->m->ctx->tmp);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	diag_error(&r->m->ctx->diags, at, "%s", buf_text(&b));
	return false;
}

/* Where the key was set, or an empty span. */
static struct span
at(const struct plan_reading *r, enum plan_key key)
{
	return r->said[key].span;
}

/* As "1", "1 to 8". */
static const char *
up_to(struct plan_reading *r, int64_t most)
{
	return most == 1 ? "1" : arena_printf(&r->m->ctx->tmp, "1 to %lld",
					      (long long)most);
}

/* Where the first of two keys was set, or else the second. */
static struct span
at_either(const struct plan_reading *r, enum plan_key a, enum plan_key b)
{
	return at(r, r->said[a].items.n ? a : b);
}

/* ---- degrees ---- */

static bool
check_ranks(struct plan_reading *r)
{
	struct plan *p = r->p;
	bool fits = true;
	struct buf b;
	enum plan_key last = PLAN_KEY_PP;
	int axis;

	p->nranks = 1;
	buf_init(&b, &r->m->ctx->tmp);
	for (axis = 0; axis < PLAN_NAXES; axis++) {
		int64_t n = plan_degree(p, (enum plan_axis)axis);

		fits &= num_mul(p->nranks, n, &p->nranks);
		if (n > 1) {
			buf_printf(&b, "%s%s %lld", b.n ? " * " : "",
				   plan_axis_name((enum plan_axis)axis),
				   (long long)n);
			last = (enum plan_key)(PLAN_KEY_PP + axis);
		}
	}
	if (!fits) {
		return fail(r, at(r, last), "%s is more ranks than can be "
			    "counted, and 1 to %lld is legal", buf_text(&b),
			    (long long)PLAN_MAX_RANKS);
	}
	return p->nranks <= PLAN_MAX_RANKS ||
	       fail(r, at(r, last), "%s makes %lld ranks, and 1 to %lld is "
		    "legal", buf_text(&b), (long long)p->nranks,
		    (long long)PLAN_MAX_RANKS);
}

/* Checks an axis that splits dim d (0: the model has none), `most` at most. */
static bool
check_axis(struct plan_reading *r, enum plan_axis axis, dim_id d,
	   int64_t most, const char *lacks, const char *has)
{
	int64_t n = plan_degree(r->p, axis);
	enum plan_key key = (enum plan_key)(PLAN_KEY_PP + axis);
	const char *name = plan_axis_name(axis);

	if (n == 1 || (d && n <= most)) {
		return true;
	}
	if (!d) {
		return fail(r, at(r, key), "`%s` is %lld, and %s: 1 is legal",
			    name, (long long)n, lacks);
	}
	return fail(r, at(r, key), "`%s` is %lld, and %s `%s` = %lld: %s is "
		    "legal", name, (long long)n, has, ir_dim_name(r->m, d),
		    (long long)ir_dim_size(r->m, d), up_to(r, most));
}

static bool
check_axes(struct plan_reading *r)
{
	const struct plan_facts *f = &r->facts;
	int64_t seq = f->seq ? ir_dim_size(r->m, f->seq) : 1;
	bool ok;

	ok = check_axis(r, PLAN_EP, f->experts,
			f->experts ? ir_dim_size(r->m, f->experts) : 1,
			"this model has no experts: no contraction chooses "
			"its weights by index", "the experts are");
	ok &= check_axis(r, PLAN_CP, f->seq,
			 r->p->balanced ? seq / 2 : seq,
			 "this model has no attention, along which it would "
			 "split", r->p->balanced
			 ? "a rank takes two chunks (`balanced`) of"
			 : "attention runs along");
	ok &= check_axis(r, PLAN_TP, f->longest,
			 f->longest ? ir_dim_size(r->m, f->longest) : 1,
			 "this model has no weight that has a dim",
			 "the longest dim of a weight is");
	return ok;
}

/* ---- the batch ---- */

static bool
too_many_ranks(struct plan_reading *r)
{
	const struct plan *p = r->p;
	long long batch = (long long)p->batch, ep = (long long)p->ep;

	if (ep > batch) {
		return fail(r, at(r, PLAN_KEY_EP), "`ep` is %lld, and each "
			    "rank takes at least one sequence of %lld: %s "
			    "is legal", ep, batch, up_to(r, p->batch));
	}
	return fail(r, at(r, PLAN_KEY_DP), "`dp` is %lld, and each of dp * ep "
		    "= %lld ranks takes at least one sequence of %lld: with "
		    "ep = %lld, %s is legal", (long long)p->dp,
		    (long long)(p->dp * p->ep), batch, ep,
		    up_to(r, p->batch / p->ep));
}

int64_t
plan_largest_microbatch(int64_t batch, int64_t ranks)
{
	int64_t most = num_ceil_div(batch, ranks);

	return most * (ranks - 1) < batch ? most : batch / ranks;
}

static bool
settle_batch(struct plan_reading *r)
{
	struct plan *p = r->p;
	int64_t ranks = p->dp * p->ep, most;

	if (ir_setting(r->m, "program.serves")) {
		/* all ranks along both axes have the rows of a step */
		p->microbatch = p->nmicrobatches = 1;
		return true;
	}
	if (!r->facts.batch && (ranks > 1 || p->microbatch > 1)) {
		enum plan_key key = p->dp > 1 ? PLAN_KEY_DP : p->ep > 1
			? PLAN_KEY_EP : PLAN_KEY_MICROBATCH;

		return fail(r, at(r, key), "`%s` is %lld, and no value of this "
			    "model has a dim `batch`, which it would split: 1 "
			    "is legal", plan_rows[key].key,
			    (long long)(p->dp > 1 ? p->dp : p->ep > 1 ? p->ep
						  : p->microbatch));
	}
	if (ranks > p->batch) {
		return too_many_ranks(r);
	}
	most = plan_largest_microbatch(p->batch, ranks);
	if (p->microbatch > most) {
		return fail(r, at(r, PLAN_KEY_MICROBATCH), "`microbatch` is "
			    "%lld, and dp * ep = %lld ranks share %lld "
			    "sequences, at least one each: %s is legal",
			    (long long)p->microbatch, (long long)ranks,
			    (long long)p->batch, up_to(r, most));
	}
	if (!p->microbatch) {
		p->microbatch = p->pp == 1 ? most : 1;
	}
	p->nmicrobatches = (p->batch + p->microbatch * ranks - 1) /
			   (p->microbatch * ranks);
	return true;
}

/* ---- the schedule ---- */

static void
name_schedule(struct plan_reading *r)
{
	const struct plan_value *v = &r->said[PLAN_KEY_SCHEDULE];
	struct plan *p = r->p;
	const struct sched_def *def;

	if (v->items.n && strpbrk(v->items.at[0].word, "./")) {
		p->schedule = "csv";
		p->schedule_file = v->items.at[0].word;
	} else if (v->items.n) {
		p->schedule = plan_alias(v->items.at[0].word);
	} else {
		p->schedule = p->interleave > 1 ? "interleaved" : "1f1b";
	}
	def = sched_find(p->schedule);
	if (!p->interleave) {
		p->interleave = def && def->min_chunks ? def->min_chunks : 1;
	}
}

static bool
takes(const struct sched_def *def, int64_t chunks)
{
	return chunks >= def->min_chunks &&
	       (!def->max_chunks || chunks <= def->max_chunks);
}

/* The schedules that can run `chunks` stages per rank. */
static const char *
that_take(struct plan_reading *r, int64_t chunks)
{
	struct buf b;
	uint32_t i;

	buf_init(&b, &r->m->ctx->tmp);
	for (i = 0; i < sched_ndefs; i++) {
		if (takes(&sched_defs[i], chunks)) {
			buf_printf(&b, "%s%s", b.n ? " " : "",
				   sched_defs[i].name);
		}
	}
	return plan_words(&r->m->ctx->tmp, buf_text(&b), "or");
}

/* A schedule from a file may have any number of stages per rank. */
static bool
check_interleave(struct plan_reading *r)
{
	const struct plan *p = r->p;
	const struct sched_def *def = sched_find(p->schedule);
	struct span where = at_either(r, PLAN_KEY_INTERLEAVE,
				      PLAN_KEY_SCHEDULE);

	if (p->pp == 1 && p->interleave > 1) {
		return fail(r, where, "`interleave` is %lld%s%s, and `pp` is "
			    "1: without a pipeline 1 is legal, and with pp = "
			    "2 or more any", (long long)p->interleave,
			    def && def->min_chunks > 1 ? ", as for " : "",
			    def && def->min_chunks > 1 ? p->schedule : "");
	}
	if (def && !takes(def, p->interleave)) {
		return fail(r, where, "`interleave` is %lld, and %s runs %u "
			    "stage%s per rank: %u is legal, or another "
			    "schedule (%s)", (long long)p->interleave,
			    p->schedule, def->min_chunks,
			    def->min_chunks == 1 ? "" : "s", def->min_chunks,
			    that_take(r, p->interleave));
	}
	return true;
}

static bool
settle_schedule(struct plan_reading *r)
{
	struct plan *p = r->p;
	const char *why;

	name_schedule(r);
	if (!check_interleave(r)) {
		return false;
	}
	if (p->pp > SCHED_MAX_RANKS) {
		return fail(r, at_either(r, PLAN_KEY_PP, PLAN_KEY_STAGES),
			    "`pp` is %lld, and 1 to %d is legal",
			    (long long)p->pp, SCHED_MAX_RANKS);
	}
	if (p->nmicrobatches > SCHED_MAX_MICROBATCHES) {
		return fail(r, at(r, PLAN_KEY_MICROBATCH), "a step of %lld "
			    "microbatches, and 1 to %d is legal: `microbatch` "
			    "is %lld", (long long)p->nmicrobatches,
			    SCHED_MAX_MICROBATCHES,
			    (long long)p->microbatch);
	}
	why = sched_why_not(&r->m->ctx->tmp, p->schedule_file
			    ? "interleaved" : p->schedule, (uint32_t)p->pp,
			    (uint32_t)p->interleave,
			    (uint32_t)p->nmicrobatches);
	return !why || fail(r, r->said[PLAN_KEY_PP].items.n ||
			       r->said[PLAN_KEY_MICROBATCH].items.n
			    ? at_either(r, PLAN_KEY_MICROBATCH, PLAN_KEY_PP)
			    : at(r, PLAN_KEY_INTERLEAVE),
			    "schedule %s: %s", p->schedule, why);
}

/* ---- stages ---- */

static bool
list_stages(struct plan_reading *r, const struct plan_value *v)
{
	struct plan *p = r->p;
	int64_t n = 0, k;
	uint32_t i;

	for (i = 0; i < v->items.n; i++) {
		for (k = 0; k < v->items.at[i].times; k++) {
			if (n < p->nstages) {
				p->layers[n] = (int64_t)v->items.at[i].num;
			}
			n++;
		}
	}
	return n == p->nstages ||
	       fail(r, v->span, "`stages` lists %lld, and pp * interleave "
		    "= %lld * %lld makes %u: so many are legal, or `even`",
		    (long long)n, (long long)p->pp, (long long)p->interleave,
		    p->nstages);
}

static bool
check_layers(struct plan_reading *r, struct span where)
{
	const struct plan *p = r->p;
	int64_t sum = 0;
	uint32_t i;

	for (i = 0; i < p->nstages; i++) {
		if (!num_add(sum, p->layers[i], &sum)) {
			sum = INT64_MAX;
		}
		if (p->layers[i] == 0 && i > 0 && i + 1 < p->nstages) {
			return fail(r, where, "stage %u of 0 to %u holds no "
				    "layer, and only the first and the last "
				    "may: from 1 on is legal", i,
				    p->nstages - 1);
		}
	}
	/* rank programs are checked against the plan elsewhere */
	return sum == p->nlayers || r->facts.staged ||
	       fail(r, where, "the stages hold %lld layers, and the model has "
		    "%lld: %lld too %s", (long long)sum,
		    (long long)p->nlayers, (long long)(sum > p->nlayers
		    ? sum - p->nlayers : p->nlayers - sum),
		    sum > p->nlayers ? "many" : "few");
}

static bool
settle_stages(struct plan_reading *r)
{
	struct plan *p = r->p;
	const struct plan_value *v = &r->said[PLAN_KEY_STAGES];

	if (p->nlayers > PLAN_MAX_LAYERS) {
		return fail(r, at(r, PLAN_KEY_STAGES), "the model has more "
			    "than %lld layers, and a plan counts no further",
			    (long long)PLAN_MAX_LAYERS);
	}
	p->nstages = (uint32_t)(p->pp * p->interleave);
	p->layers = arena_alloc(&r->m->ctx->tmp,
				p->nstages * sizeof *p->layers);
	if (v->items.n && !v->items.at[0].word) {
		return list_stages(r, v) && check_layers(r, v->span);
	}
	if (p->nstages > 1 && p->nlayers < p->nstages) {
		return fail(r, at_either(r, PLAN_KEY_PP, PLAN_KEY_INTERLEAVE),
			    "pp * interleave = %lld * %lld makes %u stages of "
			    "at least one layer each, and the model has %lld: "
			    "with interleave = %lld, `pp` from 1 to %lld is "
			    "legal", (long long)p->pp,
			    (long long)p->interleave, p->nstages,
			    (long long)p->nlayers, (long long)
			    (p->nlayers < 2 * p->interleave ? 1
			     : p->interleave),
			    (long long)(p->nlayers < 1 ? 1 : p->nlayers <
			    2 * p->interleave ? p->nlayers
			    : p->nlayers / p->interleave));
	}
	plan_spread(p->nlayers, p->nstages, p->layers);
	return true;
}

/* ---- names ---- */

static bool
find_dims(struct plan_reading *r, enum plan_axis axis, enum plan_key key)
{
	const struct plan_value *v = &r->said[key];
	dim_id *dims = arena_alloc(&r->m->ctx->tmp,
				   v->items.n * sizeof *dims);
	bool ok = true;
	uint32_t i;
	dim_id d;

	for (i = 0; i < v->items.n; i++) {
		const struct plan_item *it = &v->items.at[i];
		struct diag_near near;

		dims[i] = ir_dim_find(r->m, intern_str(&r->m->ctx->syms,
						       it->word));
		if (dims[i]) {
			continue;
		}
		diag_near_init(&near, it->word);
		for (d = 1; d < r->m->dims.n; d++) {
			diag_near_try(&near, ir_dim_name(r->m, d));
		}
		ok = fail(r, it->span, "`%s`: no dim is named `%s`%s",
			  plan_rows[key].key, it->word,
			  diag_near_text(&near, &r->m->ctx->tmp));
	}
	r->p->split[axis].n = v->items.n;
	r->p->split[axis].dims = dims;
	return ok;
}

/* Whether item i is a set of its own: none, attention or full. */
static bool
is_mode(const struct plan_reading *r, const struct plan_value *v, uint32_t i)
{
	const char *modes = plan_rows[PLAN_KEY_RECOMPUTE].words, *word;
	bool alone = plan_by_stage(v) ? !v->items.at[i].more &&
		(i == 0 || !v->items.at[i - 1].more) : v->items.n == 1;

	while (alone && plan_next_word(&r->m->ctx->tmp, &modes, &word)) {
		if (strcmp(v->items.at[i].word, word) == 0) {
			return true;
		}
	}
	return false;
}

bool
plan_check_recompute(struct plan_reading *r)
{
	const struct plan_value *v = &r->said[PLAN_KEY_RECOMPUTE];
	const char *modes, *word;
	struct arena *a = &r->m->ctx->tmp;
	struct diag_near near;
	bool ok = true;
	uint32_t i;

	for (i = 0; i < v->items.n; i++) {
		const struct plan_item *it = &v->items.at[i];

		if (is_mode(r, v, i) ||
		    plan_can_rebuild(r->m, it->word, &near)) {
			continue;
		}
		modes = plan_rows[PLAN_KEY_RECOMPUTE].words;
		while (plan_next_word(a, &modes, &word)) {
			diag_near_try(&near, word);
		}
		ok = fail(r, it->span, "`recompute` is none, attention, full, "
			  "or names of values and ops, and the model has no "
			  "`%s`%s", it->word, diag_near_text(&near, a));
	}
	return ok;
}

/* Writes the set of each stage to of[]; returns the number of stages. */
static int64_t
list_recompute(struct plan_reading *r, const struct plan_value *v,
	       const char **of)
{
	struct arena *a = &r->m->ctx->tmp;
	int64_t n = 0, k;
	struct buf b;
	uint32_t i;

	buf_init(&b, a);
	for (i = 0; i < v->items.n; i++) {
		const struct plan_item *it = &v->items.at[i];

		buf_printf(&b, "%s%s", b.n ? " " : "", it->word);
		if (it->more) {
			continue;
		}
		for (k = 0; k < it->times; k++, n++) {
			if (n < r->p->nstages) {
				of[n] = buf_text(&b);
			}
		}
		buf_init(&b, a);
	}
	return n;
}

static bool
settle_recompute(struct plan_reading *r)
{
	const struct plan_value *v = &r->said[PLAN_KEY_RECOMPUTE];
	struct plan *p = r->p;
	const char **of;
	int64_t n;
	uint32_t s;

	if (!plan_by_stage(v)) {
		return true;
	}
	of = arena_alloc(&r->m->ctx->tmp, p->nstages * sizeof *of);
	n = list_recompute(r, v, of);
	if (n != 1 && n != p->nstages) {
		return fail(r, v->span, "`recompute` lists %lld, and pp * "
			    "interleave = %lld * %lld makes %u: so many are "
			    "legal, or one for all", (long long)n,
			    (long long)p->pp, (long long)p->interleave,
			    p->nstages);
	}
	for (s = 1; s < n && strcmp(of[s], of[0]) == 0; s++) {
		;
	}
	if (s < n) {
		p->recompute_of = of;
	} else {
		p->recompute = of[0];
	}
	return true;
}

static bool
check_names(struct plan_reading *r)
{
	bool ok = find_dims(r, PLAN_DP, PLAN_KEY_SPLIT_DP);

	ok &= find_dims(r, PLAN_EP, PLAN_KEY_SPLIT_EP);
	ok &= find_dims(r, PLAN_CP, PLAN_KEY_SPLIT_CP);
	ok &= find_dims(r, PLAN_TP, PLAN_KEY_SPLIT_TP);
	/* later passes may remove the named values */
	if (!(pass_props(r->m) & (PROP_BACKWARD | PROP_STAGED))) {
		ok &= plan_check_recompute(r);
	}
	return ok;
}

static bool
check_drives(struct plan_reading *r, enum plan_key key, uint32_t nvme,
	     uint32_t offload, const char *what)
{
	uint32_t bits = r->p->offload;

	return !(bits & nvme) || bits & offload ||
	       fail(r, r->said[key].span, "`%s` is nvme, which is about "
		    "`offload` of the %s, and `offload` is %s: offload = %s is "
		    "legal, or %s = host", plan_rows[key].key, what,
		    plan_offload_text(bits), what, plan_rows[key].key);
}

/* What is in no repeated layer stays on the device. */
static bool
check_layers_offload(struct plan_reading *r)
{
	const struct plan *p = r->p;
	uint32_t bits = p->offload & (PLAN_OFFLOAD_PARAMS | PLAN_OFFLOAD_SAVES);

	return !bits || p->nlayers > 0 || r->facts.staged ||
	       fail(r, at(r, PLAN_KEY_OFFLOAD), "`offload` is %s, and this "
		    "model has no `repeat`: of layers alone do parameters and "
		    "activations go to the host, so %s is legal",
		    plan_offload_text(p->offload),
		    p->offload & PLAN_OFFLOAD_OPTIMIZER ? "optimizer"
						     : "none or optimizer");
}

bool
plan_settle(struct plan_reading *r)
{
	bool ok = check_ranks(r);

	ok &= check_drives(r, PLAN_KEY_OFFLOAD_TO, PLAN_NVME_OPTIMIZER,
			   PLAN_OFFLOAD_OPTIMIZER, "optimizer");
	ok &= check_drives(r, PLAN_KEY_PARAMETERS_TO, PLAN_NVME_PARAMS,
			   PLAN_OFFLOAD_PARAMS, "parameters");
	ok &= check_layers_offload(r);
	ok &= check_axes(r);
	ok &= check_names(r);
	return ok && settle_batch(r) && settle_schedule(r) &&
	       settle_stages(r) && settle_recompute(r);
}

/*
 * Decodes a module's plan settings to struct plan, and does the arithmetic of
 * its mesh.
 */
#include "passes/plan/plan_keys.h"
#include "passes/sched/sched.h"

#include <string.h>

/* ---- mesh and stages ---- */

void
plan_coords(const struct plan *p, int64_t rank, int64_t at[PLAN_NAXES])
{
	int i;

	for (i = PLAN_NAXES - 1; i >= 0; i--) {
		int64_t n = plan_degree(p, p->mesh[i]);

		at[p->mesh[i]] = rank % n;
		rank /= n;
	}
}

int64_t
plan_rank(const struct plan *p, const int64_t at[PLAN_NAXES])
{
	int64_t rank = 0;
	int i;

	for (i = 0; i < PLAN_NAXES; i++) {
		rank = rank * plan_degree(p, p->mesh[i]) + at[p->mesh[i]];
	}
	return rank;
}

/* ---- settings to struct ---- */

/* Reads the settings into r->said; reports all errors, not only the first. */
static bool
gather(struct plan_reading *r)
{
	struct ir_module *m = r->m;
	uint32_t errors = m->ctx->diags.errors, i;

	for (i = 0; i < m->settings.n; i++) {
		struct ir_setting s = m->settings.at[i];
		const char *key = ir_text(m->ctx, s.key);
		const struct plan_row *row;
		struct plan_value *v;
		bool more;

		if (strncmp(key, "plan.", 5) != 0) {
			continue;
		}
		row = plan_find(key + 5, &more);
		if (!row && !more) {
			plan_unknown(m, key + 5, s.span);
		}
		if (!row) {
			continue;
		}
		v = &r->said[row - plan_rows];
		if (plan_fetch(m, row, &s, v)) {
			plan_check(m, row, v);
		}
	}
	return m->ctx->diags.errors == errors;
}

static int64_t
number(const struct plan_reading *r, enum plan_key key, int64_t absent)
{
	const struct plan_value *v = &r->said[key];

	return v->items.n ? (int64_t)(v->items.at[0].num *
				      (double)v->items.at[0].times) : absent;
}

static bool
is_word(const struct plan_reading *r, enum plan_key key, const char *word)
{
	const struct plan_value *v = &r->said[key];

	return v->items.n && v->items.at[0].word &&
	       strcmp(v->items.at[0].word, word) == 0;
}

static void
fill_mesh(const struct plan_reading *r)
{
	const struct plan_value *v = &r->said[PLAN_KEY_MESH];
	uint32_t i;
	int axis;

	for (i = 0; i < PLAN_NAXES; i++) {
		r->p->mesh[i] = (enum plan_axis)i;
		for (axis = 0; v->items.n && axis < PLAN_NAXES; axis++) {
			if (strcmp(v->items.at[i].word, plan_axis_name(
				   (enum plan_axis)axis)) == 0) {
				r->p->mesh[i] = (enum plan_axis)axis;
			}
		}
	}
}

/* Sets `recompute` to the words; for a list by stage, to text for messages. */
static void
fill_recompute(const struct plan_reading *r)
{
	const struct plan_value *v = &r->said[PLAN_KEY_RECOMPUTE];
	struct arena *a = &r->m->ctx->tmp;
	struct buf b;
	uint32_t i;

	buf_init(&b, a);
	for (i = 0; i < v->items.n; i++) {
		buf_puts(&b, i ? plan_by_stage(v) ? ", " : " " : "");
		buf_puts(&b, plan_item_text(a, v, &i, NULL));
	}
	r->p->recompute = v->items.n ? buf_text(&b) : r->facts.recompute;
}

const struct plan_offload_word plan_offload_words[PLAN_NOFFLOADS] = {
	{ "optimizer", PLAN_OFFLOAD_OPTIMIZER },
	{ "parameters", PLAN_OFFLOAD_PARAMS },
	{ "activations", PLAN_OFFLOAD_SAVES }
};

static void
fill_offload(const struct plan_reading *r)
{
	const struct plan_value *v = &r->said[PLAN_KEY_OFFLOAD];
	uint32_t i, k;

	for (i = 0; i < v->items.n; i++) {
		for (k = 0; k < PLAN_NOFFLOADS; k++) {
			r->p->offload |= strcmp(v->items.at[i].word,
						plan_offload_words[k].word) == 0
				? plan_offload_words[k].bit : 0;
		}
	}
	if (is_word(r, PLAN_KEY_OFFLOAD_TO, "nvme")) {
		r->p->offload |= PLAN_NVME_OPTIMIZER;
	}
	if (is_word(r, PLAN_KEY_PARAMETERS_TO, "nvme")) {
		r->p->offload |= PLAN_NVME_PARAMS;
	}
}

/* Tiles are in ctx->perm, since copies of the plan share them. */
static void
fill_tiles(const struct plan_reading *r)
{
	const struct plan_value *v = &r->said[PLAN_KEY_TILES];
	struct arena *a = &r->m->ctx->perm;
	const char **at;
	uint32_t i;

	if (v->items.n == 0) {
		return;
	}
	at = arena_alloc(a, v->items.n * sizeof *at);
	for (i = 0; i < v->items.n; i++) {
		at[i] = arena_printf(a, "%s", v->items.at[i].word);
	}
	r->p->tiles = at;
	r->p->ntiles = v->items.n;
	r->p->tiles_at = v->span;
}

static void
fill(const struct plan_reading *r)
{
	struct plan *p = r->p;

	p->pp = number(r, PLAN_KEY_PP, 1);
	p->dp = number(r, PLAN_KEY_DP, 1);
	p->ep = number(r, PLAN_KEY_EP, 1);
	p->cp = number(r, PLAN_KEY_CP, 1);
	p->tp = number(r, PLAN_KEY_TP, 1);
	p->microbatch = number(r, PLAN_KEY_MICROBATCH, 0);
	p->interleave = number(r, PLAN_KEY_INTERLEAVE, 0);
	p->zero = (int)number(r, PLAN_KEY_ZERO, 0);
	p->sequence = is_word(r, PLAN_KEY_SEQUENCE, "on");
	p->ring = !is_word(r, PLAN_KEY_CONTEXT, "gather");
	p->balanced = is_word(r, PLAN_KEY_BALANCED, "on");
	p->chunks = is_word(r, PLAN_KEY_CHUNKS, "auto") ? 0
		: number(r, PLAN_KEY_CHUNKS, 0);
	fill_offload(r);
	p->join = !is_word(r, PLAN_KEY_JOIN, "off");
	p->nlayers = r->facts.nlayers;
	p->batch = r->facts.batch ? ir_dim_size(r->m, r->facts.batch) : 1;
	fill_mesh(r);
	fill_recompute(r);
	fill_tiles(r);
}

bool
plan_legal(struct ir_module *m)
{
	struct plan p;
	struct plan_reading r = { .m = m, .p = &p };

	return gather(&r);
}

bool
plan_names(struct ir_module *m)
{
	struct plan p;
	struct plan_reading r = { .m = m, .p = &p };

	return gather(&r) && plan_check_recompute(&r);
}

bool
plan_recompute(struct ir_module *m, const char **what)
{
	struct plan p;
	struct plan_reading r = { .m = m, .p = &p };

	if (!gather(&r)) {
		return false;
	}
	r.facts.recompute = plan_recompute_hint(m);
	fill_recompute(&r);
	*what = plan_by_stage(&r.said[PLAN_KEY_RECOMPUTE]) ? NULL
							 : p.recompute;
	return true;
}

/* Whether the setting of a key is `nvme`. */
static bool
is_nvme(const struct ir_module *m, const char *key)
{
	const struct ir_setting *s = ir_setting(m, key);

	return s && s->kind != SET_NUM &&
	       strcmp(ir_text(m->ctx, s->text), "nvme") == 0;
}

/* No word is a part of another one, and the setting has been checked. */
uint32_t
plan_offload(const struct ir_module *m)
{
	const struct ir_setting *s = ir_setting(m, "plan.offload");
	uint32_t bits = 0, k;

	for (k = 0; s && s->kind != SET_NUM && k < PLAN_NOFFLOADS; k++) {
		bits |= strstr(ir_text(m->ctx, s->text),
			       plan_offload_words[k].word)
			? plan_offload_words[k].bit : 0;
	}
	bits |= is_nvme(m, "plan.offload_to") ? PLAN_NVME_OPTIMIZER : 0;
	return bits | (is_nvme(m, "plan.parameters_to") ? PLAN_NVME_PARAMS : 0);
}

int64_t
plan_chunks(const struct ir_module *m)
{
	return (int64_t)ir_setting_num(m, "plan.chunks", 0);
}

bool
plan_joins(const struct ir_module *m)
{
	const struct ir_setting *s = ir_setting(m, "plan.join");

	return !s || s->kind == SET_NUM ||
	       strcmp(ir_text(m->ctx, s->text), "off") != 0;
}

const char *
plan_recompute_of(const struct plan *p, uint32_t stage)
{
	return p->recompute_of ? p->recompute_of[stage] : p->recompute;
}

/* How many stages a list has; 0: there is no list. */
static int64_t
listed(const struct plan_value *v)
{
	int64_t n = 0;
	uint32_t i;

	for (i = 0; i < v->items.n && !v->items.at[0].word; i++) {
		n += v->items.at[i].times;
	}
	return n;
}

/*
 * Sets `pp` and `interleave`, where they are open, to what goes with the list
 * of stages, or with stages on a rank that the schedule or a pin asks for.
 */
static void
fill_open(const struct plan_reading *r)
{
	const struct plan_value *v = &r->said[PLAN_KEY_SCHEDULE];
	const struct sched_def *def = v->items.n
		? sched_find(plan_alias(v->items.at[0].word)) : NULL;
	int64_t n = listed(&r->said[PLAN_KEY_STAGES]);
	struct plan *p = r->p;
	int64_t chunks = p->interleave ? p->interleave
		: def && def->min_chunks ? def->min_chunks : 1;

	if (r->said[PLAN_KEY_PP].items.n) {
		if (n > 0 && n % p->pp == 0 && !p->interleave) {
			p->interleave = n / p->pp;
		}
	} else if (n > 0 && n % chunks == 0) {
		p->pp = n / chunks;
	} else if (chunks > 1) {
		p->pp = 2;
	}
}

static bool
read_settings(struct ir_module *m, bool open, struct plan *out)
{
	struct plan_reading r = { .m = m, .p = out };

	memset(out, 0, sizeof *out);
	if (!gather(&r)) {
		return false;
	}
	plan_facts(m, &r.facts);
	fill(&r);
	if (open) {
		fill_open(&r);
	}
	if (!plan_settle(&r)) {
		return false;
	}
	out->was_read.nstages = out->nstages;
	out->was_read.layers = out->layers;
	return true;
}

bool
plan_read(struct ir_module *m, struct plan *out)
{
	return read_settings(m, false, out);
}

bool
plan_read_pins(struct ir_module *m, struct plan *out)
{
	return read_settings(m, true, out);
}

/* ---- copies ---- */

static const char *
copy(struct arena *a, const char *text)
{
	return text ? arena_strndup(a, text, strlen(text)) : NULL;
}

void
plan_keep(struct arena *a, struct plan *p)
{
	uint32_t i;

	p->recompute = copy(a, p->recompute);
	p->schedule = copy(a, p->schedule);
	p->schedule_file = copy(a, p->schedule_file);
	for (i = 0; i < PLAN_NAXES; i++) {
		struct plan_split *x = &p->split[i];

		if (x->n) {
			x->dims = arena_dup(a, x->dims,
					    x->n * sizeof *x->dims);
		}
	}
	if (p->recompute_of) {
		p->recompute_of = arena_dup(a, p->recompute_of, p->nstages *
					    sizeof *p->recompute_of);
		for (i = 0; i < p->nstages; i++) {
			p->recompute_of[i] = copy(a, p->recompute_of[i]);
		}
	}
}

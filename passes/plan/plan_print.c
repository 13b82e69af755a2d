/*
 * Writes a plan as settings of the module, and as the text of docs/plan.md.
 * Both come from the same values of all keys, so both read back alike.
 */
#include "passes/plan/plan_keys.h"

#include <string.h>

static void
add_number(struct ir_module *m, struct plan_value *v, int64_t n)
{
	struct plan_item it = { .num = (double)n, .times = 1 };

	VEC_PUSH(&m->ctx->tmp, &v->items, it);
}

static void
add_word(struct ir_module *m, struct plan_value *v, const char *word)
{
	struct plan_item it = { .word = word, .times = 1 };

	VEC_PUSH(&m->ctx->tmp, &v->items, it);
}

/* Adds each run of equal stages as one item. */
static void
add_stages(struct ir_module *m, struct plan_value *v, const struct plan *p)
{
	uint32_t i;

	for (i = 0; p->layers && i < p->nstages; i++) {
		if (i > 0 && p->layers[i] == p->layers[i - 1]) {
			v->items.at[v->items.n - 1].times++;
		} else {
			add_number(m, v, p->layers[i]);
		}
	}
}

static void
add_words(struct ir_module *m, struct plan_value *v, const char *list)
{
	const char *word;

	while (plan_next_word(&m->ctx->tmp, &list, &word)) {
		add_word(m, v, word);
	}
}

/* Adds one set for all stages, or one for each run of equal stages. */
static void
add_recompute(struct ir_module *m, struct plan_value *v, const struct plan *p)
{
	uint32_t s = 1, i, from = 0;

	if (!p->recompute_of && !p->recompute) {
		return;
	}
	while (p->recompute_of && s < p->nstages && strcmp(p->recompute_of[s],
						p->recompute_of[0]) == 0) {
		s++;
	}
	if (!p->recompute_of || s == p->nstages) {
		add_words(m, v, plan_recompute_of(p, 0));
		return;
	}
	for (s = 0; s < p->nstages; s++) {
		if (s > 0 && strcmp(p->recompute_of[s],
				    p->recompute_of[s - 1]) == 0) {
			v->items.at[v->items.n - 1].times++;
			continue;
		}
		add_words(m, v, p->recompute_of[s]);
		for (i = from; i < v->items.n; i++) {
			v->items.at[i].more = i + 1 < v->items.n;
		}
		from = v->items.n;
		v->items.at[from - 1].run = true;
	}
}

static void
add_mesh(struct ir_module *m, struct plan_value *v, const struct plan *p)
{
	int i;

	for (i = 0; i < PLAN_NAXES; i++) {
		add_word(m, v, plan_axis_name(p->mesh[i]));
	}
}

static void
add_split(struct ir_module *m, struct plan_value *v,
	  const struct plan_split *s)
{
	uint32_t i;

	for (i = 0; i < s->n; i++) {
		add_word(m, v, ir_dim_name(m, s->dims[i]));
	}
}

/* 0 adds nothing: the target's prices decide. */
static void
add_chunks(struct ir_module *m, struct plan_value *v, const struct plan *p)
{
	if (p->chunks) {
		add_number(m, v, p->chunks);
	}
}

static void
add_tiles(struct ir_module *m, struct plan_value *v, const struct plan *p)
{
	uint32_t i;

	for (i = 0; i < p->ntiles; i++) {
		add_word(m, v, p->tiles[i]);
	}
}

static void
add_offload(struct ir_module *m, struct plan_value *v, const struct plan *p)
{
	uint32_t i;

	for (i = 0; i < PLAN_NOFFLOADS; i++) {
		if (p->offload & plan_offload_words[i].bit) {
			add_word(m, v, plan_offload_words[i].word);
		}
	}
	if (!p->offload) {
		add_word(m, v, "none");
	}
}

/* The host's memory adds nothing: it is what is meant without the key. */
static void
add_nvme(struct ir_module *m, struct plan_value *v, const struct plan *p,
	 uint32_t bit)
{
	if (p->offload & bit) {
		add_word(m, v, "nvme");
	}
}

/* The value of a key that is a word. */
static const char *
word_of(const struct plan *p, enum plan_key key)
{
	switch (key) {
	case PLAN_KEY_SCHEDULE:
		return p->schedule_file ? p->schedule_file : p->schedule;
	case PLAN_KEY_CONTEXT:
		return p->ring ? "ring" : "gather";
	case PLAN_KEY_BALANCED:
		return p->balanced ? "on" : "off";
	case PLAN_KEY_JOIN:
		return p->join ? "on" : "off";
	default:
		return p->sequence ? "on" : "off";
	}
}

/* Sets *v to the value of a key; no items if it is left out. */
static void
value_of(struct ir_module *m, const struct plan *p, enum plan_key key,
	 struct plan_value *v)
{
	memset(v, 0, sizeof *v);
	switch (key) {
	case PLAN_KEY_MESH:
		add_mesh(m, v, p);
		break;
	case PLAN_KEY_PP:
	case PLAN_KEY_DP:
	case PLAN_KEY_EP:
	case PLAN_KEY_CP:
	case PLAN_KEY_TP:
		add_number(m, v, plan_degree(p, (enum plan_axis)
					     (key - PLAN_KEY_PP)));
		break;
	case PLAN_KEY_STAGES:
		add_stages(m, v, p);
		break;
	case PLAN_KEY_INTERLEAVE:
		add_number(m, v, p->interleave);
		break;
	case PLAN_KEY_MICROBATCH:
		add_number(m, v, p->microbatch);
		break;
	case PLAN_KEY_ZERO:
		add_number(m, v, p->zero);
		break;
	case PLAN_KEY_SCHEDULE:
		if (p->schedule || p->schedule_file) {
			add_word(m, v, word_of(p, key));
		}
		break;
	case PLAN_KEY_SEQUENCE:
	case PLAN_KEY_CONTEXT:
	case PLAN_KEY_BALANCED:
	case PLAN_KEY_JOIN:
		add_word(m, v, word_of(p, key));
		break;
	case PLAN_KEY_OFFLOAD:
		add_offload(m, v, p);
		break;
	case PLAN_KEY_OFFLOAD_TO:
		add_nvme(m, v, p, PLAN_NVME_OPTIMIZER);
		break;
	case PLAN_KEY_PARAMETERS_TO:
		add_nvme(m, v, p, PLAN_NVME_PARAMS);
		break;
	case PLAN_KEY_RECOMPUTE:
		add_recompute(m, v, p);
		break;
	case PLAN_KEY_CHUNKS:
		add_chunks(m, v, p);
		break;
	case PLAN_KEY_TILES:
		add_tiles(m, v, p);
		break;
	default:
		add_split(m, v, &p->split[PLAN_DP +
					  (key - PLAN_KEY_SPLIT_DP)]);
		break;
	}
}

/* ---- struct values that no setting can have ---- */

static bool
wrong(const struct ir_module *m, enum plan_key key, const char *fmt, ...)
{
	const struct span nowhere = { 0, 0 };
	struct buf b;
	va_list ap;

	buf_init(&b, &m->ctx->tmp);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	diag_error(&m->ctx->diags, nowhere, "`%s`%s", plan_rows[key].key,
		   buf_text(&b));
	return false;
}

static bool
has_axes(const struct ir_module *m, const struct plan *p)
{
	int i;

	for (i = 0; i < PLAN_NAXES; i++) {
		if ((uint32_t)p->mesh[i] >= PLAN_NAXES) {
			return wrong(m, PLAN_KEY_MESH, " has axis %u, and 0 "
				     "to %d is legal", (unsigned)p->mesh[i],
				     PLAN_NAXES - 1);
		}
	}
	return true;
}

/* Checks that `layers` has pp * interleave = nstages entries. */
static bool
has_layers(const struct ir_module *m, const struct plan *p)
{
	int64_t stages;

	if (!p->layers) {
		return true;
	}
	if (!num_mul(p->pp, p->interleave, &stages) || stages != p->nstages) {
		return wrong(m, PLAN_KEY_STAGES, " are %u, and pp * interleave "
			     "= %lld * %lld is legal", p->nstages,
			     (long long)p->pp, (long long)p->interleave);
	}
	if (p->layers == p->was_read.layers &&
	    p->nstages != p->was_read.nstages) {
		return wrong(m, PLAN_KEY_STAGES, " are %u, and `layers` are "
			     "still those of %u: so many are legal, or NULL, "
			     "which is `even`", p->nstages,
			     p->was_read.nstages);
	}
	return true;
}

static bool
has_words(const struct ir_module *m, enum plan_key key,
	  const char *const *words, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (!words || !words[i]) {
			return wrong(m, key, " has %u texts, and number %u is "
				     "NULL: a text is legal", n, i);
		}
	}
	return true;
}

static bool
has_dims(const struct ir_module *m, const struct plan_split *s,
	 enum plan_key key)
{
	uint32_t i;

	for (i = 0; i < s->n; i++) {
		if (!s->dims || s->dims[i] == 0 ||
		    s->dims[i] >= m->dims.n) {
			return wrong(m, key, " has %u dims, and number %u is "
				     "none of this model: 1 to %u is legal",
				     s->n, i, m->dims.n - 1);
		}
	}
	return true;
}

/* Whether value_of may read this key. */
static bool
is_there(const struct ir_module *m, const struct plan *p, enum plan_key key)
{
	switch (key) {
	case PLAN_KEY_MESH:
		return has_axes(m, p);
	case PLAN_KEY_STAGES:
		return has_layers(m, p);
	case PLAN_KEY_RECOMPUTE:
		return !p->recompute_of ||
		       has_words(m, key, p->recompute_of, p->nstages);
	case PLAN_KEY_TILES:
		return has_words(m, key, p->tiles, p->ntiles);
	case PLAN_KEY_SPLIT_DP:
	case PLAN_KEY_SPLIT_EP:
	case PLAN_KEY_SPLIT_CP:
	case PLAN_KEY_SPLIT_TP:
		return has_dims(m, &p->split[PLAN_DP +
					     (key - PLAN_KEY_SPLIT_DP)], key);
	default:
		return true;
	}
}

bool
plan_write(struct ir_module *m, const struct plan *p)
{
	struct plan_value v[PLAN_NKEYS];
	bool ok = true;
	int key;

	for (key = 0; key < PLAN_NKEYS; key++) {
		v[key].items.n = 0;
		if (!is_there(m, p, (enum plan_key)key)) {
			ok = false;
			continue;
		}
		value_of(m, p, (enum plan_key)key, &v[key]);
		ok &= !v[key].items.n ||
		      plan_check(m, &plan_rows[key], &v[key]);
	}
	if (!ok) {
		return false;
	}
	plan_clear(m);
	for (key = 0; key < PLAN_NKEYS; key++) {
		if (v[key].items.n) {
			plan_store(m, &plan_rows[key], &v[key]);
		}
	}
	return true;
}

void
plan_write_stages(struct ir_module *m, const struct plan *p)
{
	struct plan_value v;

	value_of(m, p, PLAN_KEY_STAGES, &v);
	plan_store(m, &plan_rows[PLAN_KEY_STAGES], &v);
}

/* Reserved words of the language are quoted; `on` only in lists. */
static bool
is_reserved(struct arena *a, const char *text)
{
	const char *list = "as dim dtype from input layer model plan "
		"recompute repeat return serve shard target train", *word;

	while (plan_next_word(a, &list, &word)) {
		if (strcmp(word, text) == 0) {
			return true;
		}
	}
	return false;
}

/* `on` is no reserved word if it is the whole value. */
static bool
is_plain_alone(struct arena *a, const char *word)
{
	return plan_is_name(word) && !is_reserved(a, word);
}

static bool
is_plain(struct arena *a, const char *word)
{
	return is_plain_alone(a, word) && strcmp(word, "on") != 0;
}

static void
print_value(struct arena *a, const struct plan_value *v, const char *between,
	    struct buf *out)
{
	bool list = v->items.n > 1;
	uint32_t i;

	buf_puts(out, list ? "(" : "");
	for (i = 0; i < v->items.n; i++) {
		buf_puts(out, i ? between : "");
		buf_puts(out, plan_item_text(a, v, &i, list ? is_plain
							: is_plain_alone));
	}
	buf_puts(out, list ? ")" : "");
}

void
plan_print(const struct ir_module *m, const struct plan *p, struct buf *out)
{
	struct plan_value v;
	int key;

	buf_printf(out, "# ranks: %lld, stages: %u, microbatches: %lld, "
		   "sequences in one: %lld\nplan {\n", (long long)p->nranks,
		   p->nstages, (long long)p->nmicrobatches,
		   (long long)(p->microbatch * p->dp * p->ep));
	for (key = 0; key < PLAN_NKEYS; key++) {
		/* value_of changes no module; it allocates in its arena */
		value_of((struct ir_module *)m, p, (enum plan_key)key, &v);
		if (v.items.n) {
			buf_printf(out, "  %s = ", plan_rows[key].key);
			print_value(&m->ctx->tmp, &v,
				    key == PLAN_KEY_TILES ? ",\n    " : ", ",
				    out);
			buf_puts(out, ";\n");
		}
	}
	buf_puts(out, "}\n");
}

const char *
plan_key_text(struct ir_module *m, const struct plan *p, int n,
	      const char **key)
{
	const struct ir_setting *s;
	struct plan_value v = { 0 };
	struct buf b;

	if (n >= PLAN_NKEYS) {
		return NULL;
	}
	*key = plan_rows[n].key;
	s = ir_setting(m, arena_printf(&m->ctx->tmp, "plan.%s", *key));
	if (p) {
		value_of(m, p, (enum plan_key)n, &v);
	} else if (s && !plan_fetch(m, &plan_rows[n], s, &v)) {
		return "";
	}
	buf_init(&b, &m->ctx->tmp);
	if (v.items.n) {
		print_value(&m->ctx->tmp, &v, ", ", &b);
	}
	return buf_text(&b);
}

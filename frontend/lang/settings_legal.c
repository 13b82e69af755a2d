/*
 * What settings may be: settings.def has one row per key.  The blocks of
 * a model are checked against it as they are read, IR text by
 * lower_check_settings(), and both for how settings must agree.
 */
#include "frontend/lang/lower.h"

#include <math.h>
#include <string.h>

static const struct setting_row rows[] = {
#define SETTING(block, key, kind, lo, hi, words, help) \
	{ #block, key, SETTING_##kind, lo, hi, words },
#include "frontend/lang/settings.def"
#undef SETTING
};
#define NROWS (sizeof rows / sizeof *rows)

const struct setting_row *
setting_row(const char *block, const char *key)
{
	size_t i;

	for (i = 0; i < NROWS; i++) {
		if (strcmp(rows[i].block, block) == 0 &&
		    strcmp(rows[i].key, key) == 0) {
			return &rows[i];
		}
	}
	return NULL;
}

/* The row of a key, as `lr`, that is in some setting's parentheses; or NULL. */
static const struct setting_row *
inside_group(const char *block, const char *key)
{
	const char *point;
	size_t i;

	for (i = 0; i < NROWS; i++) {
		point = strchr(rows[i].key, '.');
		if (point && strcmp(rows[i].block, block) == 0 &&
		    strcmp(point + 1, key) == 0) {
			return &rows[i];
		}
	}
	return NULL;
}

static void
note_group(struct lower *l, const struct setting_row *r)
{
	int n = (int)strcspn(r->key, ".");
	const struct setting_row *group = setting_row(r->block,
		arena_printf(&l->ctx->tmp, "%.*s", n, r->key));
	const char *words = *r->words ? r->words : group->words;

	diag_note(l->diags, (struct span){ 0, 0 }, "`%s` is in the parentheses "
		  "of `%.*s`, as in %.*s = %.*s(%s = ..)", r->key + n + 1, n,
		  r->key, n, r->key, (int)strcspn(words, " "), words,
		  r->key + n + 1);
}

void
setting_unknown(struct lower *l, const char *block, const char *group,
		const char *key, struct span at)
{
	size_t i, n = strlen(group);
	const struct setting_row *inside = n ? NULL
		: inside_group(block, key);
	struct diag_near near;
	struct buf legal;

	buf_init(&legal, &l->ctx->tmp);
	diag_near_init(&near, key);
	for (i = 0; i < NROWS; i++) {
		const char *k = rows[i].key;

		if (strcmp(rows[i].block, block) == 0 &&
		    strncmp(k, group, n) == 0 && !strchr(k + n, '.')) {
			diag_near_try(&near, k + n);
			lower_add_word(&legal, k + n);
		}
	}
	if (!legal.n) {
		diag_error(l->diags, at, "`%.*s` of a %s block takes nothing "
			   "in parentheses", (int)n - 1, group, block);
		return;
	}
	diag_error(l->diags, at, "%s%s%.*s%s has no `%s`%s: there are %s",
		   n ? "`" : "a ", n ? "" : block, n ? (int)n - 1 : 0, group,
		   n ? "`" : " block", key,
		   inside ? "" : diag_near_text(&near, &l->ctx->tmp),
		   lower_words(l, buf_text(&legal), "and"));
	if (inside) {
		note_group(l, inside);
	}
}

/* ---- one value ---- */

const char *
setting_range(struct lower *l, const struct setting_row *r)
{
	return arena_printf(&l->ctx->tmp, "%s to %s%s",
			    lower_number_text(l, r->lo),
			    r->kind == SETTING_PAIR ? "less than " : "",
			    lower_number_text(l, r->hi));
}

bool
setting_number(struct lower *l, const struct setting_row *r, double v,
	       struct span at)
{
	if (r->kind == SETTING_INT && v != floor(v)) {
		diag_error(l->diags, at, "`%s` is a whole number, and %s is "
			   "not", r->key, lower_number_text(l, v));
		return false;
	}
	if (v < r->lo || v > r->hi || (r->kind == SETTING_PAIR && v >= r->hi)) {
		diag_error(l->diags, at, "`%s` is %s, and %s is legal",
			   r->key, lower_number_text(l, v),
			   setting_range(l, r));
		return false;
	}
	return true;
}

bool
setting_no_pair(struct lower *l, const struct setting_row *r, struct span at)
{
	diag_error(l->diags, at, "`%s` is two numbers, such as (0.9, 0.95)",
		   r->key);
	return false;
}

bool
setting_word(struct lower *l, const struct setting_row *r, const char *word,
	     struct span at)
{
	struct diag_near near;

	if (word && (r->kind == SETTING_TEXT ||
		     lower_word(r->words, word) >= 0)) {
		return true;
	}
	if (r->kind == SETTING_TEXT) {
		diag_error(l->diags, at, "`%s` is a name, or a text in quotes",
			   r->key);
		return false;
	}
	diag_near_init(&near, word ? word : "");
	lower_near(l, &near, r->words);
	diag_error(l->diags, at, "`%s` is %s%s", r->key,
		   lower_words(l, r->words, "or"),
		   diag_near_text(&near, &l->ctx->tmp));
	return false;
}

/* ---- what they must agree on ---- */

static const struct ir_setting *
of_train(const struct lower *l, const char *key)
{
	return ir_setting(l->m, arena_printf(&l->ctx->tmp, "train.%s", key));
}

/* `optimizer.betas` for an optimizer that has none. */
static bool
group_takes(struct lower *l, const struct setting_row *r,
	    const struct ir_setting *s)
{
	const char *point = strchr(r->key, '.');
	const struct ir_setting *g;
	const char *word;

	if (!point || r->kind >= SETTING_WORD || !*r->words) {
		return true;
	}
	g = ir_setting(l->m, arena_printf(&l->ctx->tmp, "%s.%.*s", r->block,
					  (int)(point - r->key), r->key));
	word = g && g->text ? lower_text(l, g->text) : "";
	if (lower_word(r->words, word) >= 0) {
		return true;
	}
	diag_error(l->diags, s->span, "`%s` has no `%s`, which belongs to %s",
		   word, point + 1, lower_words(l, r->words, "and"));
	return false;
}

/* `batch` is a setting and a dim. */
static bool
batch_agrees(struct lower *l)
{
	const struct ir_setting *s = of_train(l, "batch");
	dim_id d = ir_dim_find(l->m, lower_sym(l, "batch"));

	if (!s || !d || (double)ir_dim_size(l->m, d) == s->num[0]) {
		return true;
	}
	diag_error(l->diags, s->span, "`batch` is %s here, and the model "
		   "declares it as %lld", lower_number_text(l, s->num[0]),
		   (long long)ir_dim_size(l->m, d));
	diag_note(l->diags, l->m->dims.at[d].span, "it is declared here");
	return false;
}

/* A decay of the learning rate needs its number of steps, and must not end
 * above the rate that it starts from. */
static bool
schedule_agrees(struct lower *l)
{
	const struct ir_setting *s = of_train(l, "schedule");
	const struct ir_setting *steps = of_train(l, "steps");
	const struct ir_setting *warm = of_train(l, "schedule.warmup");
	const struct ir_setting *decay = of_train(l, "schedule.decay");
	const struct ir_setting *low = of_train(l, "schedule.min_lr");
	const struct ir_setting *high = of_train(l, "optimizer.lr");
	const char *word = s && s->text ? lower_text(l, s->text) : "constant";
	double lr = high ? high->num[0] : 1e-3;

	if (!decay && !steps && strcmp(word, "constant") != 0) {
		diag_error(l->diags, s->value, "`%s` falls to the last of "
			   "`steps`, or over `decay` steps, and neither is "
			   "set: for example %s(decay = 10000)", word, word);
		return false;
	}
	if (low && low->num[0] > lr) {
		diag_error(l->diags, low->span, "`min_lr` is %s, above the "
			   "rate that it ends, %s",
			   lower_number_text(l, low->num[0]),
			   lower_number_text(l, lr));
		return false;
	}
	if (warm && steps && warm->num[0] > steps->num[0]) {
		diag_warn(l->diags, WARN_SHORT_RUN, warm->span,
			  "`warmup` takes %s steps, and the run has %s",
			  lower_number_text(l, warm->num[0]),
			  lower_number_text(l, steps->num[0]));
	}
	return true;
}

void
lower_settings_agree(struct lower *l)
{
	bool ok = batch_agrees(l);
	uint32_t i;

	for (i = 0; i < l->m->settings.n; i++) {
		const struct ir_setting *s = &l->m->settings.at[i];
		const char *key = lower_text(l, s->key);
		const char *point = strchr(key, '.');
		const struct setting_row *r = NULL;

		if (point) {
			r = setting_row(arena_strndup(&l->ctx->tmp, key,
						      (size_t)(point - key)),
					point + 1);
		}
		ok &= !r || group_takes(l, r, s);
	}
	if (ok) {
		schedule_agrees(l);
	}
}

/* ---- of IR text ---- */

static bool
value_legal(struct lower *l, const struct setting_row *r,
	    const struct ir_setting *s)
{
	int i;

	if (r->kind >= SETTING_WORD) {
		return setting_word(l, r, s->kind == SET_NUM ? NULL
				    : lower_text(l, s->text), s->value);
	}
	if (r->kind == SETTING_PAIR && (s->kind != SET_NUM || s->n != 2)) {
		return setting_no_pair(l, r, s->value);
	}
	if (s->kind != SET_NUM || (s->n != 1 && r->kind != SETTING_PAIR)) {
		diag_error(l->diags, s->value, "`%s` is a number from %s",
			   r->key, setting_range(l, r));
		return false;
	}
	for (i = 0; i < s->n; i++) {
		if (!setting_number(l, r, s->num[i], s->value)) {
			return false;
		}
	}
	return true;
}

/* `train.optimizer.lr` needs `train.optimizer`. */
static void
check_group(struct lower *l, const char *key, const struct ir_setting *s)
{
	const char *point = strrchr(key, '.');
	const char *group = arena_strndup(&l->ctx->tmp, key,
					  (size_t)(point - key));

	if (strchr(group, '.') && !ir_setting(l->m, group)) {
		diag_error(l->diags, s->span, "`%s` goes with `%s`, which is "
			   "not set", key, group);
	}
}

static const char blocks[] = "train serve memory plan place export";

/* Settings of other blocks are left to plug-ins, unless the block looks like
 * a misspelt one of llmc. */
static void
check_other(struct lower *l, const char *block, const struct ir_setting *s)
{
	struct diag_near near;
	const char *text;

	diag_near_init(&near, block);
	lower_near(l, &near, blocks);
	text = diag_near_text(&near, &l->ctx->tmp);
	if (*text) {
		diag_error(l->diags, s->span, "nothing reads settings of "
			   "`%s`%s", block, text);
	}
}

/* A setting that is named without its block. */
static void
check_bare(struct lower *l, const char *key, const struct ir_setting *s)
{
	if (lower_word(blocks, key) >= 0 || setting_row("train", key)) {
		diag_error(l->diags, s->span, "`%s` is not a setting: its name "
			   "has a block before it, such as train.batch", key);
	}
}

/* `train.optimiser.lr`, `train.optimizer.beta` */
static void
check_unknown(struct lower *l, const char *block, const char *key,
	      struct span at)
{
	const char *last = strrchr(key, '.');
	const char *group = arena_strndup(&l->ctx->tmp, key,
					  last ? (size_t)(last - key) : 0);

	if (last && setting_row(block, group)) {
		setting_unknown(l, block, arena_printf(&l->ctx->tmp, "%s.",
						       group), last + 1, at);
	} else {
		setting_unknown(l, block, "", last ? group : key, at);
	}
}

static void
check_one(struct lower *l, const struct ir_setting *s)
{
	const char *key = lower_text(l, s->key), *point = strchr(key, '.');
	const struct setting_row *r;
	const char *block;

	if (!point) {
		check_bare(l, key, s);
		return;
	}
	block = arena_strndup(&l->ctx->tmp, key, (size_t)(point - key));
	r = setting_row(block, point + 1);
	if (r) {
		if (value_legal(l, r, s)) {
			check_group(l, key, s);
		}
	} else if (strcmp(block, "train") == 0 ||
		   strcmp(block, "serve") == 0) {
		check_unknown(l, block, point + 1, s->span);
	} else if (lower_word(blocks, block) < 0) {
		check_other(l, block, s);
	}
}

void
lower_check_settings(struct lower *l)
{
	uint32_t errors = l->diags->errors, i;

	for (i = 0; i < l->m->settings.n; i++) {
		check_one(l, &l->m->settings.at[i]);
	}
	if (l->diags->errors == errors) {
		lower_settings_agree(l);
	}
}

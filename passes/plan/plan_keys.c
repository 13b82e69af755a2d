/*
 * The keys of a plan: their table, the checks of values that need no model, and
 * how values are stored as settings of the module.
 *
 * A setting holds one word, one text of at most 4,096 bytes or eight numbers,
 * and `stages` may be longer.  So a list is stored as a text, "5*16, 4", and
 * a long list continues in `plan.stages.more1` and so on.
 */
#include "passes/plan/plan_keys.h"
#include "passes/sched/sched.h"

#include <math.h>
#include <string.h>

#define MAX_PIECE 4000		/* bytes of a list in one setting */

const struct plan_row plan_rows[PLAN_NKEYS] = {
#define PLAN(id, key, kind, lo, hi, words, help) \
	{ key, PLAN_##kind, (double)(lo), (double)(hi), words },
#include "passes/plan/plan.def"
#undef PLAN
};

/* ---- words ---- */

bool
plan_next_word(struct arena *a, const char **list, const char **word)
{
	size_t n;

	*list += strspn(*list, " ");
	n = strcspn(*list, " ");
	*word = arena_strndup(a, *list, n);
	*list += n;
	return n > 0;
}

const char *
plan_words(struct arena *a, const char *list, const char *last)
{
	const char *word;
	struct buf b;

	buf_init(&b, a);
	while (plan_next_word(a, &list, &word)) {
		if (b.n) {
			buf_printf(&b, *list ? ", " : " %s ", last);
		}
		buf_puts(&b, word);
	}
	return buf_text(&b);
}

static bool
is_among(struct arena *a, const char *list, const char *text)
{
	const char *word;

	while (plan_next_word(a, &list, &word)) {
		if (strcmp(word, text) == 0) {
			return true;
		}
	}
	return false;
}

static const char *
near_word(struct arena *a, const char *list, const char *text)
{
	struct diag_near near;
	const char *word;

	diag_near_init(&near, text);
	while (plan_next_word(a, &list, &word)) {
		diag_near_try(&near, word);
	}
	return diag_near_text(&near, a);
}

static const char *
number_text(struct arena *a, double v)
{
	struct buf b;

	buf_init(&b, a);
	buf_double(&b, v);
	return buf_text(&b);
}

bool
plan_is_name(const char *s)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

	return *s && !(*s >= '0' && *s <= '9') &&
	       s[strspn(s, letters)] == '\0' && strlen(s) <= 255;
}

/* ---- keys ---- */

static const struct plan_row *
row_of(const char *key, size_t n)
{
	int i;

	for (i = 0; i < PLAN_NKEYS; i++) {
		if (strncmp(plan_rows[i].key, key, n) == 0 &&
		    !plan_rows[i].key[n]) {
			return &plan_rows[i];
		}
	}
	return NULL;
}

const struct plan_row *
plan_find(const char *key, bool *more)
{
	const char *p = strstr(key, ".more");
	size_t digits = p ? strspn(p + 5, "0123456789") : 0;

	*more = digits > 0 && !p[5 + digits] &&
		row_of(key, (size_t)(p - key)) != NULL;
	return *more ? NULL : row_of(key, strlen(key));
}

void
plan_unknown(struct ir_module *m, const char *key, struct span at)
{
	struct arena *a = &m->ctx->tmp;
	struct buf keys;
	int i;

	buf_init(&keys, a);
	for (i = 0; i < PLAN_NKEYS; i++) {
		buf_printf(&keys, "%s%s", i ? " " : "", plan_rows[i].key);
	}
	diag_error(&m->ctx->diags, at, "a plan has no `%s`%s: there are %s",
		   key, near_word(a, buf_text(&keys), key),
		   plan_words(a, buf_text(&keys), "and"));
}

/* ---- values ---- */

/* A value to check, with what messages about it need. */
struct check {
	struct diags *d;
	struct arena *a;
	const struct plan_row *row;
	const struct plan_value *v;
};

static struct span
span_of(const struct check *c, uint32_t i)
{
	struct span at = c->v->items.at[i].span;

	return at.hi ? at : c->v->span;
}

static bool
fail(const struct check *c, struct span at, const char *fmt, ...)
{
	struct buf b;
	va_list ap;

	buf_init(&b, c->a);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	diag_error(c->d, at, "%s", buf_text(&b));
	return false;
}

static bool
in_range(const struct check *c, double v, struct span at)
{
	const char *key = c->row->key;

	if (v != floor(v)) {
		return fail(c, at, "`%s` is a whole number, and %s is not",
			    key, number_text(c->a, v));
	}
	return (v >= c->row->lo && v <= c->row->hi) ||
	       fail(c, at, "`%s` is %s, and %s to %s is legal", key,
		    number_text(c->a, v), number_text(c->a, c->row->lo),
		    number_text(c->a, c->row->hi));
}

static bool
check_int(const struct check *c)
{
	const struct plan_item *it = c->v->items.at;

	if (c->v->items.n != 1 || it->word) {
		return fail(c, c->v->items.n == 1 ? span_of(c, 0) : c->v->span,
			    "`%s` is a number from %s to %s", c->row->key,
			    number_text(c->a, c->row->lo),
			    number_text(c->a, c->row->hi));
	}
	return in_range(c, it->num * (double)it->times, span_of(c, 0));
}

static bool
check_word(const struct check *c)
{
	const struct plan_item *it = c->v->items.at;
	const char *word = it->word ? it->word : "";

	return (c->v->items.n == 1 && is_among(c->a, c->row->words, word)) ||
	       fail(c, span_of(c, 0), "`%s` is %s%s", c->row->key,
		    plan_words(c->a, c->row->words, "or"),
		    near_word(c->a, c->row->words, word));
}

static bool
check_count(const struct check *c)
{
	const struct plan_item *it = c->v->items.at;

	if (c->v->items.n == 1 && !it->word) {
		return in_range(c, it->num * (double)it->times,
				span_of(c, 0));
	}
	return (c->v->items.n == 1 &&
		is_among(c->a, c->row->words, it->word)) ||
	       fail(c, c->v->items.n == 1 ? span_of(c, 0) : c->v->span,
		    "`%s` is a number from %s to %s, or `%s`", c->row->key,
		    number_text(c->a, c->row->lo),
		    number_text(c->a, c->row->hi), c->row->words);
}

/* Checks for distinct words. */
static bool
check_list(const struct check *c, const char *what)
{
	const struct plan_item *it = c->v->items.at;
	uint32_t i, j;

	for (i = 0; i < c->v->items.n; i++) {
		if (!it[i].word) {
			return fail(c, span_of(c, i), "`%s` is %s, and %s is "
				    "a number", c->row->key, what,
				    number_text(c->a, it[i].num));
		}
		for (j = 0; j < i; j++) {
			if (strcmp(it[i].word, it[j].word) == 0) {
				return fail(c, span_of(c, i), "`%s` is twice "
					    "in `%s`", it[i].word,
					    c->row->key);
			}
		}
	}
	return true;
}

static bool
check_mesh(const struct check *c)
{
	const char *words = c->row->words, *word;
	const char *legal = plan_words(c->a, words, "and");
	uint32_t i;

	if (!check_list(c, "a list of axes")) {
		return false;
	}
	for (i = 0; i < c->v->items.n; i++) {
		word = c->v->items.at[i].word;
		if (!is_among(c->a, words, word)) {
			return fail(c, span_of(c, i), "a mesh has no axis "
				    "`%s`%s: it has %s", word,
				    near_word(c->a, words, word), legal);
		}
	}
	while (plan_next_word(c->a, &words, &word)) {
		for (i = 0; i < c->v->items.n; i++) {
			if (strcmp(c->v->items.at[i].word, word) == 0) {
				break;
			}
		}
		if (i == c->v->items.n) {
			return fail(c, c->v->span, "`mesh` is an order of %s, "
				    "and `%s` is missing", legal, word);
		}
	}
	return true;
}

static bool
check_stages(const struct check *c)
{
	const struct plan_item *it = c->v->items.at;
	double n = 0;
	uint32_t i;

	if (c->v->items.n == 1 && it->word &&
	    strcmp(it->word, c->row->words) == 0) {
		return true;
	}
	for (i = 0; i < c->v->items.n; i++) {
		if (it[i].word) {
			return fail(c, span_of(c, i), "`stages` is the layers "
				    "of each stage, such as (3, 5*2, 3), or "
				    "`%s`; found "
				    "`%s`", c->row->words, it[i].word);
		}
		if (!in_range(c, it[i].num, span_of(c, i))) {
			return false;
		}
		n += (double)it[i].times;
		if (it[i].times < 1 || n > PLAN_MAX_STAGES) {
			return fail(c, span_of(c, i), "`stages` lists %s "
				    "stages up to here, and 1 to %d is legal",
				    number_text(c->a, n), PLAN_MAX_STAGES);
		}
	}
	return true;
}

/* Checks one set: the `n` words from `from` on. */
static bool
check_set(const struct check *c, uint32_t from, uint32_t n)
{
	const struct plan_item *it = &c->v->items.at[from];
	size_t bytes = 0;
	uint32_t i, j;

	for (i = 0; i < n; i++) {
		if (!it[i].word) {
			return fail(c, span_of(c, from + i), "`%s` is a word "
				    "or a list of names, and %s is a number",
				    c->row->key, number_text(c->a, it[i].num));
		}
		for (j = 0; j < i; j++) {
			if (strcmp(it[i].word, it[j].word) == 0) {
				return fail(c, span_of(c, from + i), "`%s` is "
					    "twice in `%s`",
					    it[i].word, c->row->key);
			}
		}
		if (n > 1 && (strcmp(it[i].word, "none") == 0 ||
			      strcmp(it[i].word, "full") == 0)) {
			return fail(c, span_of(c, from + i), "`%s` cannot be "
				    "combined with other names; stage by stage "
				    "it is written (full*2, (q+k)*1, "
				    "none*1)", it[i].word);
		}
		bytes += strlen(it[i].word) + 3;
	}
	return bytes <= MAX_PIECE - 64 || !it[n - 1].run ||
	       fail(c, span_of(c, from), "the names of a stage have %zu "
		    "bytes, and %d is the limit", bytes, MAX_PIECE - 64);
}

bool
plan_by_stage(const struct plan_value *v)
{
	uint32_t i;

	for (i = 0; i < v->items.n; i++) {
		if (v->items.at[i].run) {
			return true;
		}
	}
	return false;
}

/* Checks one set for all stages, or a list of sets with stage counts. */
static bool
check_recompute(const struct check *c)
{
	bool by_stage = plan_by_stage(c->v);
	uint32_t i, from = 0;
	double n = 0;

	for (i = 0; by_stage && i < c->v->items.n; i++) {
		const struct plan_item *it = &c->v->items.at[i];

		if (it->more) {
			continue;
		}
		n += (double)it->times;
		if (it->times < 1 || n > PLAN_MAX_STAGES) {
			return fail(c, span_of(c, i), "`%s` lists %s stages "
				    "up to here, and 1 to %d is legal",
				    c->row->key, number_text(c->a, n),
				    PLAN_MAX_STAGES);
		}
		if (!check_set(c, from, i + 1 - from)) {
			return false;
		}
		from = i + 1;
	}
	return by_stage || check_set(c, 0, c->v->items.n);
}

const char *
plan_alias(const char *schedule)
{
	return strcmp(schedule, "zero_bubble") == 0 ? "zb_h1" : schedule;
}

/* Checks a schedule's name; one with `.` or `/` is a file. */
static bool
check_schedule(const struct check *c)
{
	const char *word = c->v->items.at[0].word;

	if (c->v->items.n != 1 || !word) {
		return fail(c, c->v->span, "`schedule` is a name "
			    "(--list-schedules prints all), or a CSV file in "
			    "quotes");
	}
	if (strpbrk(word, "./")) {
		return strlen(word) <= 255 ||
		       fail(c, span_of(c, 0), "the name of this file has %zu "
			    "bytes, and 255 is the limit", strlen(word));
	}
	if (!sched_find(plan_alias(word))) {
		return fail(c, span_of(c, 0), "%s; a file is written with a "
			    "point or a slash, such as \"./%s\"",
			    sched_why_not(c->a, word, 1, 1, 1), word);
	}
	return true;
}

/* Checks syntax only; code generation knows which tiles are possible. */
static bool
check_tiles(const struct check *c)
{
	const struct plan_item *it = c->v->items.at;
	const char *what, *other, *why;
	struct plan_tile t;
	uint32_t i, j;

	if (!check_list(c, "a list of texts")) {
		return false;
	}
	for (i = 0; i < c->v->items.n; i++) {
		if (!plan_tile_read(c->a, it[i].word, &what, &t, &why)) {
			return fail(c, span_of(c, i), "`%s`: %s", c->row->key,
				    why);
		}
		for (j = 0; j < i; j++) {
			plan_tile_read(c->a, it[j].word, &other, &t, &why);
			if (strcmp(what, other) == 0) {
				return fail(c, span_of(c, i), "`%s` gives "
					    "`%s` two tiles", c->row->key,
					    what);
			}
		}
	}
	return true;
}

/* Checks for some of the words, each once, or for the first, which is none. */
static bool
check_words(const struct check *c)
{
	const char *words = c->row->words, *none = words;
	const struct plan_item *it = c->v->items.at;
	const char *list = plan_words(c->a, words, "or");
	uint32_t i;

	if (!check_list(c, "a word or a list of words")) {
		return false;
	}
	plan_next_word(c->a, &words, &none);
	for (i = 0; i < c->v->items.n; i++) {
		if (!is_among(c->a, c->row->words, it[i].word)) {
			return fail(c, span_of(c, i), "`%s` is %s%s",
				    c->row->key, list,
				    near_word(c->a, c->row->words,
					      it[i].word));
		}
		if (c->v->items.n > 1 && strcmp(it[i].word, none) == 0) {
			return fail(c, span_of(c, i), "`%s` cannot be "
				    "combined with other words of `%s`", none,
				    c->row->key);
		}
	}
	return true;
}

/* Rejects bytes that a quoted text of the language cannot hold. */
static bool
is_clean(const struct check *c)
{
	uint32_t i;

	for (i = 0; i < c->v->items.n; i++) {
		const char *p = c->v->items.at[i].word;

		for (; p && *p; p++) {
			if ((unsigned char)*p < 0x20 || *p == '"' ||
			    *p == '\\' || *p == 0x7f) {
				return fail(c, span_of(c, i), "`%s` of a plan "
					    "holds the byte 0x%02x, which no "
					    "text of it can", c->row->key,
					    (unsigned char)*p);
			}
		}
	}
	return true;
}

bool
plan_check(struct ir_module *m, const struct plan_row *row,
	   const struct plan_value *v)
{
	struct check c = { &m->ctx->diags, &m->ctx->tmp, row, v };

	if (v->items.n == 0) {
		return fail(&c, v->span, "`%s` has no value", row->key);
	}
	if (!is_clean(&c)) {
		return false;
	}
	switch (row->kind) {
	case PLAN_INT:
		return check_int(&c);
	case PLAN_WORD:
		return check_word(&c);
	case PLAN_SET:
		return check_words(&c);
	case PLAN_COUNT:
		return check_count(&c);
	case PLAN_MESH:
		return check_mesh(&c);
	case PLAN_STAGES:
		return check_stages(&c);
	case PLAN_DIMS:
		return check_list(&c, "a list of dims");
	case PLAN_RECOMPUTE:
		return check_recompute(&c);
	case PLAN_SCHEDULE:
		return check_schedule(&c);
	case PLAN_TILES:
		return check_tiles(&c);
	}
	return false;
}

/* ---- settings ---- */

/* Removes the settings of a key, or of the whole plan. */
static void
drop(struct ir_module *m, const char *prefix)
{
	size_t n = strlen(prefix);
	uint32_t i, kept = 0;

	for (i = 0; i < m->settings.n; i++) {
		const char *key = ir_text(m->ctx, m->settings.at[i].key);

		if (strncmp(key, prefix, n) != 0 ||
		    (prefix[n - 1] != '.' && key[n] &&
		     strncmp(key + n, ".more", 5) != 0)) {
			m->settings.at[kept++] = m->settings.at[i];
		}
	}
	m->settings.n = kept;
}

void
plan_clear(struct ir_module *m)
{
	drop(m, "plan.");
}

static void
push_text(struct ir_module *m, const char *key, const char *text,
	  struct span at)
{
	struct ir_setting s = { .n = 1, .span = at };

	s.key = intern_str(&m->ctx->syms, key);
	s.kind = plan_is_name(text) ? SET_WORD : SET_STR;
	s.text = intern_str(&m->ctx->syms, text);
	VEC_PUSH(&m->ctx->perm, &m->settings, s);
}

const char *
plan_item_text(struct arena *a, const struct plan_value *v, uint32_t *i,
	       bool (*plain)(struct arena *a, const char *word))
{
	const struct plan_item *it = &v->items.at[*i];
	bool set = it->more;
	struct buf b;

	buf_init(&b, a);
	buf_puts(&b, set ? "(" : "");
	for (;; it++, ++*i) {
		bool bare = !it->word || !plain || plain(a, it->word);

		buf_printf(&b, bare ? "%s" : "\"%s\"", it->word ? it->word
			   : number_text(a, it->num));
		if (!it->more) {
			break;
		}
		buf_putc(&b, '+');
	}
	buf_puts(&b, set ? ")" : "");
	if (it->run || it->times != 1) {
		buf_printf(&b, "*%lld", (long long)it->times);
	}
	return buf_text(&b);
}

/* Whether a list's text needs no quotes around it. */
static bool
is_one_word(struct arena *a, const char *word)
{
	(void)a;
	return *word && !strpbrk(word, " \t\r\n,+*()");
}

/* A schedule is one text, which may be a file's name: it has no quotes. */
static void
push_list(struct ir_module *m, const char *key, const struct plan_row *row,
	  const struct plan_value *v)
{
	struct arena *a = &m->ctx->tmp;
	const char *name = key;
	uint32_t i, more = 0;
	struct buf b;

	buf_init(&b, a);
	for (i = 0; i < v->items.n; i++) {
		const char *text = plan_item_text(a, v, &i, row->kind ==
			PLAN_SCHEDULE ? NULL : is_one_word);

		if (b.n + strlen(text) + 2 > MAX_PIECE) {
			push_text(m, name, buf_text(&b), v->span);
			name = arena_printf(a, "%s.more%u", key, ++more);
			buf_init(&b, a);
		}
		buf_printf(&b, "%s%s", b.n ? ", " : "", text);
	}
	push_text(m, name, buf_text(&b), v->span);
}

void
plan_store(struct ir_module *m, const struct plan_row *row,
	   const struct plan_value *v)
{
	const char *key = arena_printf(&m->ctx->tmp, "plan.%s", row->key);
	const struct plan_item *it = v->items.at;
	struct ir_setting s = { .kind = SET_NUM, .n = 1, .span = v->span };

	drop(m, key);
	if (v->items.n == 1 && !it->word &&
	    (it->times == 1 || row->kind == PLAN_INT)) {
		s.key = intern_str(&m->ctx->syms, key);
		s.num[0] = it->num * (double)it->times;
		VEC_PUSH(&m->ctx->perm, &m->settings, s);
	} else {
		push_list(m, key, row, v);
	}
}

/* Whether both are in one text: then a key was set twice. */
static bool
same_text(struct ir_module *m, struct span a, struct span b)
{
	struct source_pos x, y;

	return a.hi && b.hi && source_locate(&m->ctx->sources, a.lo, &x) &&
	       source_locate(&m->ctx->sources, b.lo, &y) &&
	       x.file->base == y.file->base;
}

bool
plan_set(struct ir_module *m, const char *key, struct span key_at,
	 const struct plan_value *v)
{
	bool more;
	const struct plan_row *row = plan_find(key, &more);
	const struct ir_setting *old;
	struct plan_value whole = *v;

	if (!row) {
		plan_unknown(m, key, key_at);
		return false;
	}
	old = ir_setting(m, arena_printf(&m->ctx->tmp, "plan.%s", key));
	if (old && same_text(m, old->span, key_at)) {
		struct span at = old->span;

		diag_error(&m->ctx->diags, key_at, "`%s` is set twice", key);
		diag_note(&m->ctx->diags, at, "it is set here first");
		return false;
	}
	if (!plan_check(m, row, v)) {
		return false;
	}
	whole.span = span_join(key_at, v->span);
	plan_store(m, row, &whole);
	return true;
}

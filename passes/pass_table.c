/*
 * The table of known passes, built in (passes.def) and from plug-ins; lists of
 * passes as the user writes them; and the check of a list's order by what each
 * pass needs, gives and kills.
 */
#include "passes/pass.h"

#include <string.h>

const struct pass pass_builtin[] = {
#define PASS(id, name, needs, gives, kills, purpose) \
	{ name, needs, gives, kills, pass_##id, purpose },
#include "passes/passes.def"
#undef PASS
};
const uint32_t pass_nbuiltin = sizeof pass_builtin / sizeof *pass_builtin;

/*
 * Words for lists of passes: all built-in passes in order, except those that
 * give or need a property in `without`.
 */
#define TRAINING (PROP_BACKWARD | PROP_UPDATE)
#define SPLIT (PROP_PLACED | PROP_STAGED)

static const struct {
	const char *word;
	uint32_t without;
} lists[] = {
	{ "default", TRAINING | SPLIT }, { "train", SPLIT },
	{ "placed", PROP_STAGED }, { "split", 0 }
};

static const char *const prop_names[PASS_NPROPS] = {
	"calls", "flat", "folded", "backward", "update", "placed",
	"staged"
};

const char *
pass_prop_name(uint32_t bit)
{
	return bit < PASS_NPROPS ? prop_names[bit] : NULL;
}

/* ---- the table ---- */

void
pass_table_init(struct pass_table *t, struct ir_ctx *c)
{
	uint32_t i;

	memset(t, 0, sizeof *t);
	t->ctx = c;
	for (i = 0; i < pass_nbuiltin; i++) {
		struct pass_known k = { pass_builtin[i], NULL };

		VEC_PUSH(&c->perm, &t->known, k);
	}
}

const struct pass_known *
pass_find(const struct pass_table *t, const char *name)
{
	uint32_t i;

	for (i = 0; i < t->known.n; i++) {
		if (strcmp(t->known.at[i].pass.name, name) == 0) {
			return &t->known.at[i];
		}
	}
	return NULL;
}

const struct pass_known *
pass_want(struct pass_table *t, const char *name)
{
	const struct pass_known *k = pass_find(t, name);
	struct span nowhere = { 0, 0 };
	struct diag_near near;
	struct buf legal;
	uint32_t i;

	if (!k) {
		diag_near_init(&near, name);
		buf_init(&legal, &t->ctx->perm);
		for (i = 0; i < t->known.n; i++) {
			const char *known = t->known.at[i].pass.name;

			diag_near_try(&near, known);
			buf_printf(&legal, "%s%s", i ? ", " : "", known);
		}
		diag_error(&t->ctx->diags, nowhere,
			   "there is no pass `%s`%s: there are %s", name,
			   diag_near_text(&near, &t->ctx->perm),
			   buf_text(&legal));
	}
	return k;
}

/* ---- lists ---- */

bool
pass_words(struct arena *a, const char **text, char **word)
{
	size_t n = strcspn(*text, ",");

	if (!**text) {
		return false;
	}
	*word = arena_strndup(a, *text, n);
	*text += n + ((*text)[n] == ',');
	return true;
}

/* Adds the passes that a word of `lists` stands for; false if it is none. */
static bool
add_list(struct pass_list *l, struct arena *a, const char *word)
{
	size_t k;
	uint32_t i;

	for (k = 0; k < sizeof lists / sizeof lists[0]; k++) {
		if (strcmp(word, lists[k].word) != 0) {
			continue;
		}
		for (i = 0; i < pass_nbuiltin; i++) {
			const struct pass *p = &pass_builtin[i];

			if (!((p->gives | p->needs) & lists[k].without)) {
				VEC_PUSH(a, &l->at, p);
			}
		}
		return true;
	}
	return false;
}

bool
pass_list_parse(struct pass_table *t, struct pass_list *l, const char *text)
{
	struct arena *a = &t->ctx->perm;
	char *word;

	while (pass_words(a, &text, &word)) {
		const struct pass_known *k;

		if (add_list(l, a, word)) {
			continue;
		}
		k = pass_want(t, word);
		if (!k) {
			return false;
		}
		VEC_PUSH(a, &l->at, &k->pass);
	}
	return true;
}

static void
insert_at(struct pass_table *t, struct pass_list *l, uint32_t place,
	  const struct pass *p)
{
	VEC_PUSH(&t->ctx->perm, &l->at, p);
	memmove(&l->at.at[place + 1], &l->at.at[place],
		(l->at.n - 1 - place) * sizeof *l->at.at);
	l->at.at[place] = p;
}

void
pass_list_lacks(struct pass_table *t, const struct pass_list *l,
		const char *name)
{
	struct span nowhere = { 0, 0 };
	struct buf all;
	uint32_t i;

	buf_init(&all, &t->ctx->perm);
	for (i = 0; i < l->at.n; i++) {
		buf_printf(&all, "%s%s", i ? ", " : "", l->at.at[i]->name);
	}
	diag_error(&t->ctx->diags, nowhere, "pass `%s` is not among those that "
		   "run for this output: %s", name, i ? buf_text(&all)
		   : "there are none");
}

/* Finds the index of a pass in the list. */
static bool
find_place(struct pass_table *t, const struct pass_list *l,
	   const char *name, uint32_t *place)
{
	const struct pass_known *k = pass_want(t, name);
	uint32_t i;

	if (!k) {
		return false;
	}
	for (i = 0; i < l->at.n; i++) {
		if (strcmp(l->at.at[i]->name, k->pass.name) == 0) {
			*place = i;
			return true;
		}
	}
	pass_list_lacks(t, l, k->pass.name);
	return false;
}

bool
pass_list_insert(struct pass_table *t, struct pass_list *l, const char *text)
{
	static const char *const words[] = { "@after:", "@before:", "@for:" };
	const char *at = strchr(text, '@');
	const struct pass_known *k;
	struct span nowhere = { 0, 0 };
	enum { AFTER, BEFORE, FOR, NWORDS } how;
	uint32_t place;

	for (how = AFTER; at && how < NWORDS; how++) {
		if (strncmp(at, words[how], strlen(words[how])) == 0) {
			break;
		}
	}
	if (!at || how == NWORDS) {
		diag_error(&t->ctx->diags, nowhere, "found `%s`, and "
			   "NAME@after:PASS, NAME@before:PASS or "
			   "NAME@for:PASS is expected", text);
		return false;
	}
	k = pass_want(t, arena_strndup(&t->ctx->perm, text,
				       (size_t)(at - text)));
	if (!k || !find_place(t, l, at + strlen(words[how]), &place)) {
		return false;
	}
	if (how == FOR) {
		l->at.at[place] = &k->pass;
	} else {
		insert_at(t, l, place + (how == AFTER), &k->pass);
	}
	return true;
}

/* ---- order ---- */

static bool
has_calls(const struct ir_module *m, region_id r)
{
	const struct ir_region *region = &m->regions.at[r];
	uint32_t i;

	for (i = 0; i < region->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, region->nodes.at[i]);

		if (ir_is(n->op, IRF_CALLS) ||
		    (ir_is(n->op, IRF_REGION) && has_calls(m, n->region))) {
			return true;
		}
	}
	return false;
}

static bool
has_sinks(const struct ir_module *m, region_id r)
{
	uint32_t i;

	for (i = 0; i < m->regions.at[r].nodes.n; i++) {
		if (ir_is(ir_node(m, m->regions.at[r].nodes.at[i])->op,
			  IRF_SINK | IRF_KEEPS)) {
			return true;
		}
	}
	return false;
}

/* A module without calls has `calls`, too: inline then does nothing. */
uint32_t
pass_props(const struct ir_module *m)
{
	uint32_t props = PROP_CALLS | PROP_FLAT | PROP_FOLDED, i;

	props |= m->axes.n > 1 ? PROP_PLACED : 0;
	for (i = 1; i < m->funcs.n; i++) {
		if (has_calls(m, m->funcs.at[i].body)) {
			props &= ~(uint32_t)PROP_FLAT;
		}
	}
	for (i = 1; i < m->dims.n; i++) {
		if (m->dims.at[i].expr) {
			props &= ~(uint32_t)PROP_FOLDED;
		}
	}
	if (!ir_model(m)) {	/* the others need a model */
		return (props & PROP_FOLDED) | PROP_STAGED;
	}
	if (ir_func_find(m, intern_str(&m->ctx->syms, "update"))) {
		props |= PROP_UPDATE;
	}
	for (i = 1; i < m->regions.n; i++) {
		if (has_sinks(m, i)) {
			props |= PROP_BACKWARD;
		}
	}
	return props;
}

static uint32_t
lowest_bit(uint32_t mask)
{
	uint32_t i = 0;

	while (!(mask >> i & 1)) {
		i++;
	}
	return i;
}

/* Says what pass k of the list lacks, and which passes give it. */
static void
explain(const struct pass_table *t, const struct pass_list *l, uint32_t k,
	uint32_t lacks, struct buf *why)
{
	uint32_t bit = lowest_bit(lacks), mask = (uint32_t)1 << bit, i;
	bool given = false;

	buf_printf(why, "pass `%s` needs `%s`", l->at.at[k]->name,
		   bit < PASS_NPROPS ? prop_names[bit] : "?");
	for (i = k; i-- > 0;) {
		if (l->at.at[i]->kills & mask) {
			buf_printf(why, ", which `%s` before it takes away",
				   l->at.at[i]->name);
			break;
		}
	}
	for (i = 0; i < t->known.n; i++) {
		if (t->known.at[i].pass.gives & mask) {
			buf_printf(why, "%s`%s`", given ? " or " : "; ",
				   t->known.at[i].pass.name);
			given = true;
		}
	}
	buf_puts(why, given ? " gives it, and must run before it"
			    : "; no pass gives it");
}

bool
pass_order(const struct pass_table *t, const struct pass_list *l,
	   uint32_t have, struct buf *why)
{
	uint32_t i;

	for (i = 0; i < l->at.n; i++) {
		const struct pass *p = l->at.at[i];

		if (p->needs & ~have) {
			explain(t, l, i, p->needs & ~have, why);
			return false;
		}
		have = (have & ~p->kills) | p->gives;
	}
	return true;
}

/*
 * Finds the functions of rank programs and all uses of names in them.
 *
 * A name becomes a key. In it `{}` replaces the variable of the outermost
 * repeat that the name mentions; the iterations of that repeat are the range of
 * the use. Variables of inner repeats, which no pass splits, become their
 * iterations in the key. So two uses are of the same tensors where their keys
 * are equal and their ranges overlap.
 */
#include "passes/check/check.h"

#include <string.h>

/* A repeat around the current node; outermost first. */
struct frame {
	sym_t var;
	int64_t start, count;
	bool named;		/* the current name mentions it */
};

/*
 * The last key found for a name in a single repeat, used again by other stages.
 */
struct in_repeat {
	sym_t var, key;		/* the variable; key 0: none yet */
};

struct walk {
	struct check *c;
	struct in_repeat *keys;	/* by name: the last key */
	uint32_t fn, at;
	struct frame frames[IR_MAX_DEPTH];
	uint32_t depth;
	node_id outermost;
};

/* ---- keys ---- */

static struct frame *
variable(struct walk *w, const char *text, size_t n, struct ir_placeholder *p)
{
	uint32_t i;

	ir_placeholder_read(text, n, p);
	for (i = w->depth; i-- > 0;) {
		const char *var = ir_text(w->c->m->ctx, w->frames[i].var);

		if (w->frames[i].var && ir_placeholder_is(p, var)) {
			return &w->frames[i];
		}
	}
	return NULL;
}

/* Marks the repeats that the name mentions; returns the outermost, or NULL. */
static struct frame *
find_named(struct walk *w, const char *name)
{
	const char *open, *shut;
	struct ir_placeholder p;
	struct frame *f;
	uint32_t i;

	for (i = 0; i < w->depth; i++) {
		w->frames[i].named = false;
	}
	while ((open = strchr(name, '{')) && (shut = strchr(open, '}'))) {
		f = variable(w, open + 1, (size_t)(shut - open) - 1, &p);
		if (f) {
			f->named = true;
		}
		name = shut;
	}
	for (i = 0; i < w->depth; i++) {
		if (w->frames[i].named) {
			return &w->frames[i];
		}
	}
	return NULL;
}

static sym_t
key_of(struct walk *w, const char *name, const struct frame *range)
{
	const char *open, *shut;
	struct ir_placeholder p;
	struct buf b;

	buf_init(&b, w->c->a);
	while ((open = strchr(name, '{')) && (shut = strchr(open, '}'))) {
		const struct frame *f = variable(w, open + 1,
						 (size_t)(shut - open) - 1,
						 &p);

		buf_add(&b, name, (size_t)(open - name));
		if (!f) {	/* a dim, whose positions are one tensor */
			buf_add(&b, open, (size_t)(shut - open) + 1);
		} else if (f == range) {
			ir_placeholder_put(&b, &p, "");
		} else {
			ir_placeholder_put(&b, &p, arena_printf(w->c->a,
				"%lld+%lld", (long long)f->start,
				(long long)f->count));
		}
		name = shut + 1;
	}
	buf_puts(&b, name);
	return intern(&w->c->keys, buf_text(&b), b.n);
}

/* ---- the walk ---- */

/*
 * Finds the key; returns the outermost repeat that the name mentions, or NULL.
 */
static const struct frame *
find_key(struct walk *w, sym_t name, sym_t *key)
{
	const char *text = ir_text(w->c->m->ctx, name);
	struct in_repeat *x = &w->keys[name];
	const struct frame *range;

	/* many stages use the same name, for other iterations */
	if (w->depth == 1 && x->key && x->var == w->frames[0].var) {
		w->frames[0].named = true;
		*key = x->key;
		return &w->frames[0];
	}
	range = find_named(w, text);
	*key = range ? key_of(w, text, range)
		     : intern_str(&w->c->keys, text);
	if (w->depth == 1 && range) {
		*x = (struct in_repeat){ range->var, *key };
	}
	return range;
}

static void
add_use(struct walk *w, node_id id, sym_t name)
{
	struct check_use u = { .node = id, .fn = w->fn, .hi = 1, .times = 1,
			       .at = w->at, .repeat = w->outermost };
	const struct frame *range = find_key(w, name, &u.key);
	uint32_t i;

	if (range) {
		u.lo = range->start;
		u.hi = range->start + range->count;
	}
	for (i = 0; i < w->depth; i++) {
		if (!w->frames[i].named &&
		    !num_mul(u.times, w->frames[i].count, &u.times)) {
			u.times = INT64_MAX;
		}
	}
	VEC_PUSH(w->c->a, &w->c->uses, u);
}

static void
count_reads(struct check *c, const value_id *v, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		c->reads[v[i]]++;
	}
}

static void
walk(struct walk *w, region_id id)
{
	const struct ir_module *m = w->c->m;
	const struct ir_region *r = &m->regions.at[id];
	uint32_t i;

	for (i = 0; i < r->nodes.n; i++) {
		node_id k = r->nodes.at[i];
		const struct ir_node *n = ir_node(m, k);
		const struct ir_attr *var = ir_attr(m, n, IR_ATTR_VAR);
		const struct ir_attr *name = ir_attr(m, n, IR_ATTR_NAME);

		w->at++;
		count_reads(w->c, ir_args(m, n), n->nargs);
		if (n->region) {
			struct frame f = { var ? var->text : 0,
				ir_attr_int(m, n, IR_ATTR_START, 0),
				ir_attr_int(m, n, IR_ATTR_COUNT, 1), false };

			w->outermost = w->depth ? w->outermost : k;
			w->frames[w->depth++] = f;
			walk(w, n->region);
			w->depth--;
			w->outermost = w->depth ? w->outermost : 0;
		} else if (name) {
			add_use(w, k, name->text);
		}
	}
	count_reads(w->c, r->results.at, r->results.n);
}

/* Sorts the uses by key; those of one key stay in order. */
static void
sort_keys(struct check *c)
{
	uint32_t nkeys = c->keys.text.n, i, sum = 0, n;

	c->key_begin = arena_alloc(c->a, (nkeys + 2) * sizeof *c->key_begin);
	c->by_key = arena_alloc(c->a, (c->uses.n + 1) * sizeof *c->by_key);
	for (i = 0; i < c->uses.n; i++) {
		c->key_begin[c->uses.at[i].key]++;
	}
	for (i = 0; i <= nkeys; i++) {
		n = c->key_begin[i];
		c->key_begin[i] = sum;
		sum += n;
	}
	for (i = 0; i < c->uses.n; i++) {
		c->by_key[c->key_begin[c->uses.at[i].key]++] = i;
	}
	for (i = nkeys + 1; i > 0; i--) {
		c->key_begin[i] = c->key_begin[i - 1];
	}
	c->key_begin[0] = 0;
}

/* ---- functions ---- */

static void
find(struct check *c, struct check_fn *f, const char *stem, uint32_t i,
     const char *what)
{
	f->func = ir_func_find(c->m, intern_str(&c->m->ctx->syms,
			arena_printf(c->a, "%s%u_%s", stem, i, what)));
	c->at_home[f->func] = 1;
}

static bool
missing(struct check *c, const char *stem, uint32_t i, const char *what)
{
	diag_error(&c->m->ctx->diags, (struct span){ 0, 0 }, "%s %u: there is "
		   "no layer `%s%u_%s`, and the schedule runs it", stem, i,
		   stem, i, what);
	return false;
}

/* Backward is one function or two, the same on all stages. */
static bool
find_stage(struct check *c, uint32_t s, bool split)
{
	static const char *const what[2][CHECK_UPDATE] = {
		{ "forward", "backward", NULL },
		{ "forward", "input", "weights" }
	};
	bool ok = true;
	uint32_t k;

	for (k = 0; k < CHECK_UPDATE; k++) {
		struct check_fn *f = &c->fns[k * c->nstages + s];

		f->phase = (enum check_phase)k;
		f->stage = s;
		f->pipe = c->s->rank_of[s];
		if (what[split][k]) {
			find(c, f, "stage", s, what[split][k]);
			ok = (f->func || missing(c, "stage", s,
						 what[split][k])) && ok;
		}
	}
	return ok;
}

/* Each function must be run: otherwise a part of the step would be left out. */
static bool
all_run(struct check *c)
{
	bool ok = true;
	func_id f;

	for (f = 1; f < c->m->funcs.n; f++) {
		const struct ir_func *fn = &c->m->funcs.at[f];

		if (!c->at_home[f] ||
		    c->m->regions.at[fn->body].params.n > 0) {
			diag_error(&c->m->ctx->diags, fn->span, "layer `%s` %s",
				   ir_text(c->m->ctx, fn->name),
				   c->at_home[f] ? "has operands, and nobody "
				   "gives them" : "is run by no rank");
			ok = false;
		}
	}
	return ok;
}

/*
 * Backward is split in two if the schedule runs the parts as actions of their
 * own.
 */
static bool
is_split(const struct sched *s)
{
	uint32_t i, k;

	for (i = 0; i < s->nranks; i++) {
		for (k = 0; k < s->ranks[i].actions.n; k++) {
			uint8_t kind = s->ranks[i].actions.at[k].kind;

			if (kind == SCHED_I || kind == SCHED_W) {
				return true;
			}
		}
	}
	return false;
}

static bool
find_functions(struct check *c)
{
	bool ok = true, split = is_split(c->s);
	uint32_t i;

	c->nfns = CHECK_UPDATE * c->nstages + c->npipes;
	c->fns = arena_alloc(c->a, c->nfns * sizeof *c->fns);
	c->at_home = arena_alloc(c->a, c->m->funcs.n);
	for (i = 0; i < c->nstages; i++) {
		ok = find_stage(c, i, split) && ok;
	}
	for (i = 0; i < c->npipes; i++) {
		struct check_fn *f = &c->fns[CHECK_UPDATE * c->nstages + i];

		f->phase = CHECK_UPDATE;
		f->stage = UINT32_MAX;
		f->pipe = i;
		find(c, f, "pipe", i, "update");
		ok = (f->func || missing(c, "pipe", i, "update")) && ok;
	}
	return all_run(c) && ok;
}

bool
check_facts(struct check *c)
{
	struct walk *w = arena_alloc(c->a, sizeof *w);
	uint32_t i;

	if (!find_functions(c)) {
		return false;
	}
	intern_init(&c->keys, c->a);
	c->reads = arena_alloc(c->a, c->m->values.n * sizeof *c->reads);
	w->c = c;
	w->keys = arena_alloc(c->a, c->m->ctx->syms.text.n * sizeof *w->keys);
	/* without an optimizer a step may end without an update */
	c->updates = ir_setting(c->m, "train.optimizer") != NULL;
	for (i = 0; i < c->nfns; i++) {
		w->fn = i;
		w->at = 0;
		c->fns[i].first = c->uses.n;
		if (c->fns[i].func) {
			walk(w, c->m->funcs.at[c->fns[i].func].body);
		}
		c->fns[i].n = c->uses.n - c->fns[i].first;
		c->updates |= c->fns[i].phase == CHECK_UPDATE && w->at > 0;
	}
	sort_keys(c);
	return true;
}

/* ---- messages ---- */

const struct check_fn *
check_fn_of(const struct check *c, const struct check_use *u)
{
	return &c->fns[u->fn];
}

const struct ir_type *
check_type(const struct check *c, const struct check_use *u)
{
	const struct ir_node *n = check_node(c, u);

	return ir_type(c->m, n->nresults ? n->result : ir_args(c->m, n)[0]);
}

const char *
check_trips(const struct check *c, const struct check_use *u, int64_t lo,
	    int64_t hi)
{
	if (!strstr(intern_text(&c->keys, u->key), "{}")) {
		return "";
	}
	return hi - lo == 1 ?
		       arena_printf(c->a, " of iteration %lld", (long long)lo) :
		       arena_printf(c->a, " of iterations %lld to %lld",
				    (long long)lo, (long long)hi - 1);
}

const char *
check_text(const struct check *c, const struct check_use *u)
{
	const struct check_fn *f = check_fn_of(c, u);
	const struct ir_node *n = check_node(c, u);
	struct ir_ctx *ctx = c->m->ctx;

	return arena_printf(c->a, "%s %u, %s: %s `%s`%s",
		f->phase == CHECK_UPDATE ? "pipe" : "stage",
		f->phase == CHECK_UPDATE ? f->pipe : f->stage,
		ir_text(ctx, c->m->funcs.at[f->func].name),
		ir_ops[n->op].name,
		ir_text(ctx, ir_attr(c->m, n, IR_ATTR_NAME)->text),
		check_trips(c, u, u->lo, u->hi));
}

void
check_fail(struct check *c, const struct check_use *u, const char *fmt, ...)
{
	struct buf b;
	va_list ap;

	buf_init(&b, c->a);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	diag_error(&c->m->ctx->diags, check_node(c, u)->span, "%s: %s",
		   check_text(c, u), buf_text(&b));
}

void
check_note(struct check *c, const struct check_use *u, const char *fmt, ...)
{
	struct buf b;
	va_list ap;

	buf_init(&b, c->a);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	diag_note(&c->m->ctx->diags, check_node(c, u)->span, "%s: %s",
		  check_text(c, u), buf_text(&b));
}

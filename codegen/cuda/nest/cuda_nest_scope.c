/*
 * What a function with a nest is begun with: the nest itself, tables of
 * constants, values by expression, and variables that are declared only if
 * they are used.
 */
#include "codegen/cuda/nest/cuda_nest.h"

#include <math.h>
#include <string.h>

/*
 * Most partial sums of a sum over rows: four blocks for each multiprocessor of
 * an H100.  A block waits for its row, and then in sums over itself, before it
 * reads the next one: two of 256 threads, with two loads of 16 bytes each, have
 * 16 KB on the way, while 3.35 TB/s with 700 ns of latency are 18 KB for each
 * multiprocessor without a pause.
 */
#define PARTS 512

struct nest *
cu_nest_build(struct cu_kernel *k, const struct cu_nest *x,
	      const struct nest_input *like)
{
	struct arena *a = k->c->a;
	struct nest *n = arena_alloc(a, sizeof *n);
	const struct cg_site site = cu_site(k);
	struct nest_input in = *like;
	struct nest_leaf *leaves = arena_alloc(a, sizeof *leaves *
					       (x->leaves.n + 1));
	uint32_t i, d;

	for (i = 0; i < x->leaves.n; i++) {
		leaves[i].value = x->leaves.at[i].value;
		leaves[i].own_type = x->leaves.at[i].own_type;
		for (d = 0; d < IR_MAX_DIMS; d++) {
			leaves[i].stride[d] = x->leaves.at[i].stride[d];
			leaves[i].moved[d] = x->leaves.at[i].from[d] != NULL;
		}
	}
	nest_input_site(&in, &site);
	in.k = x->k;
	in.nodes = x->nodes.at;
	in.nnodes = x->nodes.n;
	in.parts = PARTS;
	in.leaves = leaves;
	in.nleaves = x->leaves.n;
	for (i = 0; in.box && i < in.box->ndims; i++) {
		in.moves[i] = x->from[i] != NULL;
	}
	return nest_build(n, &in, &k->why) ? n : NULL;
}

/* A frequency, in radians, as turns in units of 2^-64, less whole turns. */
static unsigned long long
turns_of(double frequency)
{
	double turns = frequency * 0.15915494309189533577;

	return (unsigned long long)ldexp(turns - floor(turns), 64);
}

/* Tables of frequencies, before the functions that read them. */
static void
put_tables(struct cu_emit *e)
{
	struct buf *b = &e->f->k->text;
	uint32_t i;
	int64_t j;

	e->table = arena_alloc(e->a, sizeof *e->table * (e->n->tables.n + 1));
	for (i = 0; i < e->n->tables.n; i++) {
		const struct nest_table *t = &e->n->tables.at[i];

		e->table[i] = cu_func_name(e->f->k, "table");
		buf_printf(b, "\nCONSTANT u64 %s[%lld] = {", e->table[i],
			   (long long)(t->n > 0 ? t->n : 1));
		for (j = 0; j < t->n; j++) {
			buf_printf(b, j % 2 ? " 0x%016llxull,"
				   : "\n\t0x%016llxull,",
				   turns_of(t->at[j]));
		}
		buf_puts(b, t->n > 0 ? "\n};\n" : " 0 };\n");
	}
}

static void
make_expr(void *user, nest_id id)
{
	cu_expr(user, id);
}

void
cu_nest_open(struct cu_emit *e, const struct nest_step *s)
{
	static const struct nest_step none;
	uint32_t n = e->n->exprs.n;

	e->a = e->f->k->c->a;
	e->s = s ? s : &none;
	e->lanes = 1;
	nest_scope_init(&e->scope, e->n, e->a, make_expr, e);
	e->kept = arena_alloc(e->a, sizeof *e->kept * n);
	e->kept_loops = arena_alloc(e->a, sizeof *e->kept_loops * n);
	e->in_kept = arena_alloc(e->a, sizeof *e->in_kept * n);
	e->range = arena_alloc(e->a, sizeof *e->range * n);
	if (!e->table) {
		put_tables(e);
	}
}

void
cu_lazy_open(struct cu_func *f, struct cu_lazy *l)
{
	l->before = f->text;
	l->depth = f->depth;
	l->n = 0;
	buf_init(&f->text, f->k->c->a);
}

void
cu_lazy_add(struct cu_lazy *l, const char *name, const char *line)
{
	if (l->n == sizeof l->name / sizeof *l->name) {
		die("more than %u variables", l->n);
	}
	l->name[l->n] = name;
	l->line[l->n++] = line;
}

static bool
is_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z') || c == '_';
}

static bool
has_name(const char *text, const char *name)
{
	size_t n = strlen(name);
	const char *p;

	for (p = strstr(text, name); p; p = strstr(p + n, name)) {
		if ((p == text || !is_word(p[-1])) && !is_word(p[n])) {
			return true;
		}
	}
	return false;
}

/* A variable may be used by the declaration of a later one. */
void
cu_lazy_close(struct cu_func *f, struct cu_lazy *l)
{
	struct buf inner = f->text;
	const char *text = buf_text(&inner);
	uint32_t depth = f->depth, i, k;

	f->text = l->before;
	f->depth = l->depth;
	for (i = l->n; i-- > 0; ) {
		bool used = has_name(text, l->name[i]);

		for (k = i + 1; k < l->n; k++) {
			used |= l->line[k] && has_name(l->line[k],
						       l->name[i]);
		}
		l->line[i] = used ? l->line[i] : NULL;
	}
	for (i = 0; i < l->n; i++) {
		if (l->line[i]) {
			cu_line(f, "%s", l->line[i]);
		}
	}
	buf_puts(&f->text, text);
	f->depth = depth;
}

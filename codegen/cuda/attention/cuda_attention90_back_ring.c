/*
 * The ring of columns of attention's gradients with the copying unit: what is
 * loaded into it, and how what multiplies finds it.  The copying unit writes
 * tiles; if columns are queries, threads load the numbers that each of them
 * has.
 */
#include "codegen/cuda/attention/cuda_attention90_back.h"

int
ca90_back_numbers(const struct ca90_back *p)
{
	return p->s.keys ? (int)(4 * 4 * p->s.form.cols) : 0;
}

const char *
ca90_back_stage(const struct ca90_back *p, int i)
{
	return i && p->unit->tensor ? "stage1" : "stage";
}

void
ca90_back_each(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;

	buf_puts(&f->text, "#pragma unroll 1\n");
	if (p->paired) {
		cu_line(f, "for (int in_half = 0; in_half < count; in_half++, "
			"it++) {");
	} else {
		cu_line(f, "for (int it = 0; it < count; it++) {");
	}
}

const char *
ca90_back_it(const struct ca90_back *p)
{
	return p->paired ? "in_half" : "it";
}

/* ---- loads ---- */

/* Loads the numbers of a stage's columns, which the copying unit cannot. */
static void
bring_numbers(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;
	struct attn *t = p->s.t;

	if (p->unit->tensor) {
		cu_line(f, "if (TID >= %d) {", CA90_BRINGERS);
	}
	cu_line(f, "const int into = stage * %d;", ca90_back_numbers(p));
	ca_declare_pointer(f, t, &t->in[ATTN_L], "l", "head");
	ca_declare_pointer(f, t, &t->in[ATTN_DELTA], "dt", "head");
	ca_back_numbers(&p->s);
	cu_line(f, "cp_async_commit();");
	cu_line(f, "cp_async_wait(0);");
	cu_line(f, "mbar_arrive(full + 8 * stage);");
	if (p->unit->tensor) {
		cu_line(f, "}");
	}
}

/* C text: whether a thread loads, and; with all gradients only such threads are
 * here.  With tcgen05 warp 1 multiplies. */
static const char *
loaders(const struct ca90_back *p)
{
	return p->joint ? "" : !p->s.keys ? "TID < 1 && "
		: p->unit->tensor ? "(TID == 0 || TID >= 64) && "
		: "TID < 64 && ";
}

static void
load_rows(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;
	int i;

	cu_line(f, "if (TID == 0) {");
	cu_line(f, "mbar_expect(bars, %lld);", (long long)p->ring);
	for (i = 0; i < 2; i++) {
		ca_side_load(f, p->s.t, &p->x[i],
			     i ? arena_printf(f->k->c->a, "sm + %lld",
					      (long long)p->x[1].at) : "sm",
			     "bars", "row0");
	}
	cu_line(f, "}");
}

static void
load_tile(struct ca90_back *p, int i, const char *full)
{
	struct cu_func *f = &p->s.f;
	struct arena *a = f->k->c->a;
	const char *stage = ca90_back_stage(p, i);

	ca_side_load(f, p->s.t, &p->y[i],
		     arena_printf(a, "sm + %lld + %lld * %s",
				  (long long)p->y[i].at,
				  (long long)p->step[i], stage),
		     arena_printf(a, "%s + 8 * %s", full, stage), "col0");
}

/* Loads tile 1 where it has a ring of its own: it is done with before tile 0 of
 * the iteration before is. */
static void
load_first(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;
	int stages = (int)p->stages1;

	cu_line(f, "if (TID == 0) {");
	cu_line(f, "const int stage1 = it %% %d;", stages);
	cu_line(f, "mbar_wait(empty1 + 8 * stage1, ~(it / %d) & 1);", stages);
	cu_line(f, "mbar_expect(full1 + 8 * stage1, %lld);",
		(long long)p->y[1].bytes);
	load_tile(p, 1, "full1");
	cu_line(f, "}");
}

/* Loads the columns of an iteration, once their stage is free. */
static void
load_columns(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;
	int stages = (int)p->s.form.stages;

	cu_comment(f, "The first round does not wait: the phase before the "
		   "first one has ended.");
	cu_line(f, "const int stage = it %% %d, parity = ~(it / %d) & 1;",
		stages, stages);
	ca_back_tile(&p->s, ca90_back_it(p), true);
	if (p->unit->tensor) {
		load_first(p);
	}
	cu_line(f, "mbar_wait(empty + 8 * stage, parity);");
	cu_line(f, "if (TID == 0) {");
	cu_line(f, "mbar_expect(full + 8 * stage, %lld);",
		(long long)p->step[0]);
	load_tile(p, 0, "full");
	if (!p->unit->tensor) {
		load_tile(p, 1, "full");
	}
	cu_line(f, "}");
	if (p->s.keys) {
		bring_numbers(p);
	} else {
		cu_line(f, "(void)there;");
	}
}

void
ca90_back_load(struct ca90_back *p)
{
	struct cu_func *f = &p->s.f;

	cu_line(f, "if (%scount > 0) {", loaders(p));
	load_rows(p);
	ca90_back_each(p);
	load_columns(p);
	cu_close(f, 2);
}

/* ---- uses ---- */

void
ca90_back_tile(struct ca90_back *p, const char *name, int i, const char *stage,
	       bool across)
{
	cu_line(&p->s.f, "const u64 %s = %s_desc(sm + %lld + %lld * %s, "
		"%lld, 1024, 128);", name, p->unit->tensor ? "tc" : "wg",
		(long long)p->y[i].at, (long long)p->step[i], stage,
		(long long)(across ? p->s.form.cols * CA90_BOX_ROW : 16));
}

void
ca90_back_columns(struct ca90_back *p)
{
	if (p->s.keys) {
		cu_line(&p->s.f, "const int use = stage * %d;",
			ca90_back_numbers(p));
	}
	ca_back_tile(&p->s, ca90_back_it(p), false);
}

void
ca90_back_wait(struct ca90_back *p, int i)
{
	bool own = i && p->unit->tensor;

	cu_line(&p->s.f, "mbar_wait(%s + 8 * %s, it / %d & 1);",
		own ? "full1" : "full", ca90_back_stage(p, i),
		(int)(own ? p->stages1 : p->s.form.stages));
}

/*
 * What all emitters of CUDA share: functions, lines of text, and C text for
 * what a kernel is called with.
 */
#include "codegen/cuda/cuda.h"

#include <stdarg.h>
#include <string.h>

int64_t
cu_local_size(const struct cg_cuda *c, dim_id d, uint32_t cut)
{
	return cg_local_size(c->m, c->at, d, cut);
}

/* ---- lines ---- */

static void
indent(struct cu_func *f)
{
	uint32_t i;

	for (i = 0; i < f->depth; i++) {
		buf_putc(&f->text, '\t');
	}
}

void
cu_line(struct cu_func *f, const char *fmt, ...)
{
	struct buf line;
	const char *text;
	va_list ap;

	buf_init(&line, f->k->c->a);
	va_start(ap, fmt);
	buf_vprintf(&line, fmt, ap);
	va_end(ap);
	text = buf_text(&line);
	if (text[0] == '}' && f->depth > 0) {
		f->depth--;
	}
	indent(f);
	buf_puts(&f->text, text);
	buf_putc(&f->text, '\n');
	if (line.n > 0 && text[line.n - 1] == '{') {
		f->depth++;
	}
}

void
cu_close(struct cu_func *f, int blocks)
{
	while (blocks-- > 0) {
		cu_line(f, "}");
	}
}

void
cu_comment(struct cu_func *f, const char *fmt, ...)
{
	va_list ap;

	indent(f);
	buf_puts(&f->text, "/* ");
	va_start(ap, fmt);
	buf_vprintf(&f->text, fmt, ap);
	va_end(ap);
	buf_puts(&f->text, " */\n");
}

/* ---- functions ---- */

const char *
cu_func_name(struct cu_kernel *k, const char *what)
{
	struct arena *a = k->c->a;
	uint32_t n = k->nnames++;

	return n ? arena_printf(a, "%s%u_%u", what, k->number, n)
		 : arena_printf(a, "%s%u", what, k->number);
}

void
cu_func_begin(struct cu_kernel *k, const char *what, struct cu_func *f)
{
	struct cg_step s = { 0 };
	struct cg_grid *g = arena_alloc(k->c->a, sizeof *g);

	*g = (struct cg_grid){ .blocks = { 1, 1, 1 }, .threads = 32,
			       .cluster = 1 };
	g->func = cu_func_name(k, what);
	s.grid = g;
	VEC_PUSH(k->c->a, &k->out->steps, s);
	*f = (struct cu_func){ .k = k, .grid = g, .depth = 1 };
	buf_init(&f->text, k->c->a);
}

void
cu_func_end(struct cu_func *f)
{
	const struct cg_grid *g = f->grid;
	struct cu_kernel *k = f->k;

	buf_printf(&k->text, "\n/* %lld x %lld x %lld blocks of %lld threads, "
		   "%lld bytes shared */\n", (long long)g->blocks[0],
		   (long long)g->blocks[1], (long long)g->blocks[2],
		   (long long)g->threads, (long long)g->smem_bytes);
	buf_printf(&k->text, "KERNEL(%s, %lld, %u, struct %s_args)\n{\n%s",
		   g->func, (long long)g->threads, f->minblocks,
		   k->out->name, f->waits ? "" : "\tlaunch_wait();\n");
	buf_puts(&k->text, buf_text(&f->text));
	buf_puts(&k->text, "}\n");
	if (g->maps.n > k->nmaps) {
		k->nmaps = g->maps.n;
	}
}

void
cu_launch_wait(struct cu_func *f)
{
	f->waits = true;
	cu_line(f, "launch_wait();");
}

/* ---- what it is called with ---- */

const char *
cu_operand(struct cu_func *f, uint32_t operand)
{
	return arena_printf(f->k->c->a, "a.at[%u]", operand);
}

const char *
cu_pieces(struct cu_func *f, uint32_t spread)
{
	return arena_printf(f->k->c->a, "a.pieces[%u]", spread);
}

const char *
cu_num(struct cu_func *f, uint32_t num)
{
	return f->k->out->nums.at[num].kind == CG_STEP ? "a.live[0]"
		: arena_printf(f->k->c->a, "a.num[%u]", num);
}

const char *
cu_old(struct cu_func *f, node_id sink)
{
	return cu_num(f, cg_num(f->k->c->a, f->k->out, CG_OLD, sink));
}

/* ---- elements ---- */

static const struct {
	const char *type, *widen, *narrow;
	int64_t bytes;
} elems[IR_DTYPE_COUNT] = {
	[IR_F64] = { "f64", "%s", "(f64)(%s)", 8 },
	[IR_F32] = { "f32", "%s", "(f32)(%s)", 4 },
	[IR_TF32] = { "f32", "%s", "(f32)(%s)", 4 },
	[IR_BF16] = { "bf16", "bf16_f32(%s)", "f32_bf16(%s)", 2 },
	[IR_F16] = { "f16", "f16_f32(%s)", "f32_f16(%s)", 2 },
	[IR_F8E4M3] = { "e4m3", "e4m3_f32(%s)", "f32_e4m3(%s)", 1 },
	[IR_F8E5M2] = { "e5m2", "e5m2_f32(%s)", "f32_e5m2(%s)", 1 },
	[IR_INT8] = { "i8", "(f32)(%s)", NULL, 1 },
	[IR_INT4] = { "i8", NULL, NULL, 1 },	/* bytes of rows in groups */
	[IR_IDX] = { "i32", "(i64)(%s)", "(i32)(%s)", 4 }
};

const char *
cu_elem_type(enum ir_dtype t)
{
	return elems[t].type;
}

int64_t
cu_elem_bytes(enum ir_dtype t)
{
	return elems[t].bytes;
}

/* The form with its one %s replaced. */
static const char *
around(struct arena *a, const char *form, const char *x)
{
	const char *at = strstr(form, "%s");

	return arena_printf(a, "%.*s%s%s", (int)(at - form), form, x, at + 2);
}

const char *
cu_widen(struct arena *a, enum ir_dtype t, const char *x)
{
	return around(a, elems[t].widen, x);
}

const char *
cu_narrow(struct arena *a, enum ir_dtype t, const char *x)
{
	if (!elems[t].narrow) {
		die("a kernel stores weights of 8 bits");
	}
	return around(a, elems[t].narrow, x);
}

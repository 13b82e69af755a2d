/*
 * The source file around the functions that an emitter wrote: a comment about
 * the kernel, and the struct that it is called with.
 */
#include "codegen/cuda/cuda.h"

static void
forget_ways(struct cg_cuda *c)
{
	if (c->tiling) {
		c->tiling->last.n = 0;
	}
}

void
cu_kernel_reset(struct cu_kernel *k)
{
	k->out->operands.n = k->out->spreads.n = k->out->nums.n = 0;
	k->out->steps.n = 0;
	k->out->shared_bytes = 0;
	k->nmaps = k->nnames = 0;
	k->why = NULL;
	forget_ways(k->c);
	buf_init(&k->text, k->c->a);
}

bool
cu_nest_all(struct cu_kernel *k, const struct kernel *x)
{
	struct cu_nest n = cu_nest_of(k->c->a, x, x->work->shape);

	cu_kernel_reset(k);
	return cu_nest_steps(k, &n);
}

/* Copies a line; runs of blanks, which make columns on a screen, become one
 * blank. */
static void
put_squeezed(struct buf *out, const char *p)
{
	for (; *p; p++) {
		if (*p != ' ' || (p[1] && p[1] != ' ')) {
			buf_putc(out, *p);
		}
	}
}

static void
put_head(struct cu_kernel *k, const struct kernel *x, struct buf *out)
{
	struct ir_module *m = k->c->m;
	uint32_t i;

	buf_puts(out, "/*\n * ");
	put_squeezed(out, k->out->what);
	buf_puts(out, "\n *\n");
	for (i = 0; i < k->out->operands.n; i++) {
		const struct cg_operand *o = &k->out->operands.at[i];

		buf_printf(out, " * at[%u]: ", i);
		buf_puts(out, ir_type_text(m, ir_type(m, o->value ? o->value
			: ir_args(m, ir_node(m, o->sink))[0])));
		buf_puts(out, o->written ? ", written\n" : "\n");
	}
	for (i = 0; i < x->nodes.n; i++) {
		buf_printf(out, " * node %u: %s\n", x->nodes.at[i],
			   ir_ops[ir_node(m, x->nodes.at[i])->op].name);
	}
	buf_puts(out, " */\n#include \"prelude.h\"\n\n");
}

static void
put_args(struct cu_kernel *k, struct buf *out)
{
	const struct cg_kernel *x = k->out;

	buf_printf(out, "struct %s_args {\n", x->name);
	if (x->operands.n) {
		buf_printf(out, "\tchar *at[%u];\n", x->operands.n);
	}
	if (x->spreads.n) {
		buf_printf(out, "\tconst struct pieces *pieces[%u];\n",
			   x->spreads.n);
	}
	if (x->nums.n) {
		buf_printf(out, "\ti64 num[%u];\n", x->nums.n);
	}
	buf_puts(out, "\tchar *shared;\n\tconst i64 *live;\n");
	if (k->nmaps) {
		buf_printf(out, "\ttensor_map map[%u];\n", k->nmaps);
	}
	buf_puts(out, "};\n");
}

static const char *
source_of(struct cu_kernel *k, const struct kernel *x)
{
	struct buf out;

	buf_init(&out, k->c->a);
	put_head(k, x, &out);
	put_args(k, &out);
	buf_puts(&out, buf_text(&k->text));
	return buf_text(&out);
}

bool
cg_cuda_kernel_by(struct cg_cuda *c, const struct kernel *x,
		  cu_emitter *emit, struct cg_kernel *out, const char **why)
{
	struct cu_kernel k = { .c = c, .out = out, .number = c->nfuncs++ };
	struct buf what;

	*out = (struct cg_kernel){ 0 };
	forget_ways(c);
	buf_init(&what, c->a);
	kernel_print(c->m, x, &what);
	out->what = buf_text(&what);
	out->name = arena_printf(c->a, "%s%u", kernel_kind_name(x->kind),
				 k.number);
	buf_init(&k.text, c->a);
	if (!emit(&k, x)) {
		*why = k.why ? k.why : "this kernel is not compiled yet";
		return false;
	}
	out->source = source_of(&k, x);
	return true;
}

/*
 * Views as C text: pointers, and steps that copy one view to another.
 */
#include "codegen/cuda/attention/cuda_attention.h"

#define THREADS 256

static const char *
view_text(struct cu_func *f, const struct attn_view *v)
{
	if (v->place == ATTN_OPERAND) {
		return cu_view_at(f, &v->memory);
	}
	return arena_printf(f->k->c->a, "((%s *)(a.shared + %lld))",
			    cu_elem_type(v->dtype), (long long)v->shared);
}

/* Adds the place of sequence `bat`, at these strides. */
static void
put_batch(struct buf *b, const struct attn *t, const int64_t *stride)
{
	int64_t apart = 1;
	uint32_t i;

	for (i = t->nbatch; i-- > 0; ) {
		if (t->batch_size[i] > 1) {
			buf_printf(b, " + (i64)(bat / %lld %% %lld) * %lld",
				   (long long)apart,
				   (long long)t->batch_size[i],
				   (long long)stride[i]);
		}
		apart *= attn_divisor(t->batch_size[i]);
	}
}

void
ca_declare_pointer(struct cu_func *f, const struct attn *t,
		   const struct attn_view *v, const char *name,
		   const char *head)
{
	struct buf b;

	buf_init(&b, f->k->c->a);
	buf_printf(&b, "%s *%s = %s", cu_elem_type(v->dtype), name,
		   view_text(f, v));
	if (t->heads > 1 || t->kv > 1) {
		buf_printf(&b, " + (i64)(%s) * %lld", head,
			   (long long)v->head);
	}
	put_batch(&b, t, v->batch);
	cu_line(f, "%s;", buf_text(&b));
}

void
ca_declare_index(struct cu_func *f, const struct attn *t,
		 const struct attn_view *v, const char *name)
{
	struct buf b;

	buf_init(&b, f->k->c->a);
	buf_printf(&b, "const i32 *%s = %s", name, cu_view_at(f, &v->index));
	put_batch(&b, t, v->index_batch);
	cu_line(f, "%s;", buf_text(&b));
}

/* C text: an element converted to another type. */
static const char *
cast(struct cu_func *f, enum ir_dtype from, enum ir_dtype to, const char *x)
{
	struct arena *a = f->k->c->a;

	return from == to ? x
		: cu_narrow(a, to, arena_printf(a, "(f32)(%s)",
						cu_widen(a, from, x)));
}

void
ca_copy_step(struct attn *t, const struct attn_view *from,
	     const struct attn_view *to, int64_t heads, int64_t count,
	     int64_t cols)
{
	int64_t all = t->batches * heads * count * cols;
	struct cu_func f;

	cu_func_begin(t->k, "attention_copy", &f);
	f.grid->threads = THREADS;
	f.grid->blocks[0] = ca_ceil_div(all, THREADS);
	cu_comment(&f, "%lld sequences, %lld heads, %lld rows of %lld",
		   (long long)t->batches, (long long)heads, (long long)count,
		   (long long)cols);
	cu_line(&f, "i64 i = (i64)BLOCK_X * %d + TID;", THREADS);
	cu_line(&f, "if (i < %lld) {", (long long)all);
	cu_line(&f, "int col = (int)(i %% %lld);",
		(long long)attn_divisor(cols));
	cu_line(&f, "int head = (int)(i / %lld %% %lld);",
		(long long)attn_divisor(cols), (long long)attn_divisor(heads));
	cu_line(&f, "i64 pos = i / %lld %% %lld;",
		(long long)attn_divisor(cols * heads),
		(long long)attn_divisor(count));
	cu_line(&f, "int bat = (int)(i / %lld);",
		(long long)attn_divisor(cols * heads * count));
	ca_declare_pointer(&f, t, from, "from", "head");
	ca_declare_pointer(&f, t, to, "to", "head");
	cu_line(&f, "to[pos * %lld + col * %lld] = %s;", (long long)to->pos,
		(long long)to->col,
		cast(&f, from->dtype, to->dtype,
		     arena_printf(f.k->c->a, "from[pos * %lld + col * %lld]",
				  (long long)from->pos,
				  (long long)from->col)));
	cu_line(&f, "}");
	cu_func_end(&f);
}

/*
 * Attention whose keys lie on several ranks: keys and values of all of them
 * come together in shared room, in the order of their positions, and what
 * flows back to them is summed up by the rank that has them.  Ranks talk in
 * f32; what is of 16 bits is so again before it is used, without loss.
 */
#include "codegen/cuda/attention.h"

#define THREADS 256

static void
talk(const struct ca *t, const struct ir_type *type, enum rt_talk_op op,
     int64_t in, int64_t out)
{
	struct ca_group *g = t->g;
	struct cg_step s = { .op = op, .axes = t->axes, .in = in, .out = out,
			     .ndims = type->ndims };
	struct cg_spread *pieces = op == RT_TALK_SUM ? s.to : s.from;
	struct cg_spread *whole = op == RT_TALK_SUM ? s.from : s.to;
	uint32_t i;

	s.elems = ca_elems(g, type, op == RT_TALK_SUM ? t->dim[CA_KEYS] : 0);
	for (i = 0; i < type->ndims; i++) {
		pieces[i].size = ir_dim_size(g->k->c->m, type->dims[i]);
		pieces[i].cut = type->cut[i];
		whole[i] = pieces[i];
		if (type->dims[i] == t->dim[CA_KEYS]) {
			whole[i].cut = 0;
		}
	}
	VEC_PUSH(g->k->c->a, &g->k->out->steps, s);
}

/* The element as the other type, through what is computed with. */
static const char *
cast(struct cu_func *f, enum ir_dtype from, enum ir_dtype to, const char *x)
{
	struct arena *a = f->k->c->a;

	return from == to ? x
		: cu_narrow(a, to, arena_printf(a, "(f32)(%s)",
						cu_widen(a, from, x)));
}

void
ca_copy(struct ca *t, const struct ca_view *from, const struct ca_view *to,
	int64_t heads, int64_t count, int64_t cols)
{
	int64_t all = t->batches * heads * count * cols;
	struct cu_func f;

	cu_begin(t->k, "attention_copy", &f);
	f.grid->threads = THREADS;
	f.grid->blocks[0] = ca_parts(all, THREADS);
	cu_say(&f, "%lld sequences, %lld heads, %lld rows of %lld",
	       (long long)t->batches, (long long)heads, (long long)count,
	       (long long)cols);
	cu_line(&f, "i64 i = (i64)BLOCK_X * %d + TID;", THREADS);
	cu_line(&f, "if (i < %lld) {", (long long)all);
	cu_line(&f, "int col = (int)(i %% %lld);", (long long)ca_some(cols));
	cu_line(&f, "int head = (int)(i / %lld %% %lld);",
		(long long)ca_some(cols), (long long)ca_some(heads));
	cu_line(&f, "i64 pos = i / %lld %% %lld;",
		(long long)ca_some(cols * heads), (long long)ca_some(count));
	cu_line(&f, "int bat = (int)(i / %lld);",
		(long long)ca_some(cols * heads * count));
	ca_pointer(&f, t, from, "from", "head");
	ca_pointer(&f, t, to, "to", "head");
	cu_line(&f, "to[pos * %lld + col * %lld] = %s;", (long long)to->pos,
		(long long)to->col,
		cast(&f, from->dtype, to->dtype,
		     arena_printf(f.k->c->a, "from[pos * %lld + col * %lld]",
				  (long long)from->pos,
				  (long long)from->col)));
	cu_line(&f, "}");
	cu_end(&f);
}

void
ca_gather(struct ca *t, uint32_t input)
{
	struct ca_group *g = t->g;
	const struct ir_type *type = ir_type(g->k->c->m, t->values[input]);
	struct ca_brought *had = ca_find_brought(g, t->values[input], true);
	struct ca_brought made = { t->values[input], true, t->tile, 0 };
	int64_t here, all, cols = input == CA_K ? t->d : t->dv;
	dim_id keys = t->dim[CA_KEYS];
	struct ca_view f32, own;

	if (had && had->dtype == t->tile) {
		ca_view_shared(g, t, type, keys, true, had->at, t->tile,
			       &t->in[input]);
		return;
	}
	here = ca_shared(g, 4 * ca_elems(g, type, 0));
	all = ca_shared(g, 4 * ca_elems(g, type, keys));
	ca_view_shared(g, t, type, 0, true, here, IR_F32, &f32);
	ca_copy(t, &t->in[input], &f32, t->kv,
		ca_local(g, type, (uint32_t)ir_type_at(type, keys)), cols);
	talk(t, type, RT_TALK_COPY, here, all);
	ca_view_shared(g, t, type, keys, true, all, IR_F32, &f32);
	made.at = all;
	own = f32;
	if (t->tile != IR_F32) {
		made.at = ca_shared(g, cu_bytes(t->tile) *
				       ca_elems(g, type, keys));
		ca_view_shared(g, t, type, keys, true, made.at, t->tile,
			       &own);
		ca_copy(t, &f32, &own, t->kv, t->keys, cols);
	}
	t->in[input] = own;
	VEC_PUSH(g->k->c->a, &g->brought, made);
}

void
ca_bring_home(struct ca *t, enum ca_result r)
{
	struct ca_group *g = t->g;
	struct ca_made *made = &t->made[r];
	int64_t home = ca_shared(g, 4 * ca_elems(g, &made->type, 0));

	talk(t, &made->type, RT_TALK_SUM, made->room.shared, home);
	ca_view_shared(g, t, &made->type, 0, true, home, IR_F32,
		       &made->room);
	if (made->memory.place != CA_NONE) {
		ca_copy(t, &made->room, &made->memory, t->kv,
			ca_local(g, &made->type, made->pos_at),
			r == CA_DK ? t->d : t->dv);
	}
}

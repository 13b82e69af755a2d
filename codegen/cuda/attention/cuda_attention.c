/*
 * A kernel group of attention for a GPU: the table that codegen/attention/
 * calls, and the choice between the two ways to make a step: mma
 * (cuda_attention_forward.c, cuda_attention_back.c) and wgmma
 * (cuda_attention90_*.c).
 */
#include "codegen/cuda/attention/cuda_attention_back.h"
#include "codegen/cuda/attention/cuda_attention_single.h"

#include <string.h>

static bool
nest(struct attn_group *g, const struct attn_nest *from)
{
	struct cu_nest n;

	ca_nest_of(g, from, &n);
	return cu_nest_steps(g->k, &n);
}

static bool
nest_value(struct attn_group *g, const struct attn_nest *from, value_id v,
	   int64_t *at)
{
	struct cu_nest n;

	ca_nest_of(g, from, &n);
	return cu_nest_value(g->k, &n, v, at);
}

static bool
is_back(const struct attn *t)
{
	return t->made[ATTN_DQ].value || t->made[ATTN_DK].value ||
	       t->made[ATTN_DV].value;
}

static bool
forward_is_whole(const struct attn *t)
{
	return t->dv <= CA_MOST_OUT;
}

/* Steps with mma: those of single queries, if there are any, and of blocks. */
static bool
forward_mma(struct ca_forward *s, const struct ca_form *form)
{
	const char *ends = NULL;
	struct ca_single *x;

	if (!ca_forward_lay_out(s, form)) {
		return false;
	}
	x = s->parts ? ca_single_open(s) : NULL;
	if (x) {
		ca_single_list(x);
		ca_single_items(x);
		if (!ca_single_join(x)) {
			return false;
		}
		if (x->always) {
			return true;
		}
		ends = arena_printf(s->t->k->c->a, "%s[row0] > 0",
				    ca_single_at(x, "i32", x->in.count));
	}
	return ca_forward_emit(s, ends);
}

static bool
forward_steps(struct attn *t)
{
	struct ca_forward s = ca_forward_of(t);
	const struct ca_form *form = NULL;
	struct cu_candidates w;
	int64_t cols;
	bool ok;

	if (t->queries * t->heads * t->batches == 0) {
		ca_empty_step(t);
		return true;
	}
	ca_candidates_begin(t, s.out ? "forward" : "logs", &w);
	cols = ca_forward90_cols(t, &w);
	if (!cols || w.all) {
		form = ca_forward_choose(&s, &w);
	}
	if (!cols && !form) {
		t->k->why = "attention whose blocks do not fit the shared "
			    "memory";
		return false;
	}
	ok = form ? forward_mma(&s, form) : ca_forward90(t, cols);
	if (ok) {
		cu_candidates_close(t->k, &w);
	}
	return ok;
}

/* Whether a block makes all columns of gradients. */
static bool
back_is_whole(const struct attn *t)
{
	return t->d <= CA_MOST_OUT && t->dv <= CA_MOST_OUT;
}

static struct ca_back
back_of(struct attn *t, bool keys, bool slope, bool weight)
{
	return (struct ca_back){ .t = t, .keys = keys, .slope = slope,
				 .weight = weight, .apart = 1, .thread = "TID",
				 .meet = "sync_block();" };
}

/* A step: the gradient of queries, or of keys, of values, or of both. */
static bool
back_step(struct attn *t, bool keys, bool slope, bool weight)
{
	struct ca_back s = back_of(t, keys, slope, weight);
	const struct ca_back asked = s;
	/* with mma a block has 128 columns of a result, and both of a row */
	bool mma = !(slope && weight) || back_is_whole(t);
	const struct ca_form *form = NULL;
	struct cu_candidates w;
	bool wide, ok;

	if ((keys ? t->keys * t->kv : t->queries * t->heads) * t->batches
	    == 0) {
		ca_empty_step(t);
		return true;
	}
	ca_candidates_begin(t, !keys ? "queries" : !slope ? "values" : weight
			    ? "keys+values" : "keys", &w);
	wide = ca_back90_candidate(&asked, &w);
	s.out_slope = slope ? ca_out_cols(t->d) : 0;
	s.out_weight = weight ? ca_out_cols(t->dv) : 0;
	s.out_blocks = ca_out_blocks(slope ? t->d : t->dv);
	if (mma && (!wide || w.all)) {
		form = ca_back_choose(&s, &w);
	}
	if (!wide && !form) {
		t->k->why = "attention whose blocks do not fit the shared "
			    "memory";
		return false;
	}
	ok = form ? ca_back_emit(&s, form) : ca_back90(&asked);
	if (ok) {
		cu_candidates_close(t->k, &w);
	}
	return ok;
}

static bool
takes_both(struct attn *t)
{
	struct ca_back s = back_of(t, true, true, true);

	return ca_back90_takes(&s);
}

static bool
back_steps(struct attn *t)
{
	bool dq = t->made[ATTN_DQ].value != 0, dk = t->made[ATTN_DK].value != 0;
	bool dv = t->made[ATTN_DV].value != 0;
	struct ca_back all = back_of(t, true, true, true);

	if (dq && dk && dv && ca_back90_joint_pays(&all)) {
		return ca_back90_joint(&all);
	}
	if (dk && dv && (back_is_whole(t) || takes_both(t))) {
		dk = dv = false;
		if (!back_step(t, true, true, true)) {
			return false;
		}
	}
	return (!dk || back_step(t, true, true, false)) &&
	       (!dv || back_step(t, true, false, true)) &&
	       (!dq || back_step(t, false, true, false));
}

/* Tiles have 16 bits if all inputs have the same 16-bit type. */
static void
open_set(struct attn *t)
{
	const struct ir_module *m = t->g->m;
	uint32_t i;

	t->k = t->g->k;
	t->tile = (enum ir_dtype)ir_type(m, t->values[ATTN_Q])->dtype;
	for (i = ATTN_K; i <= ATTN_G; i++) {
		if (t->values[i] &&
		    ir_type(m, t->values[i])->dtype != t->tile) {
			t->tile = IR_F32;
		}
	}
	if (t->tile != IR_BF16 && t->tile != IR_F16) {
		t->tile = IR_F32;
	}
	t->whole = is_back(t) ? back_is_whole(t) : forward_is_whole(t);
}

/* Forward widens, or narrows to the tile's type, what it loads. */
static bool
selects(const struct attn *t, enum ir_dtype dtype)
{
	return !is_back(t) && dtype != IR_F64;
}

static bool
emit_set(struct attn *t)
{
	return is_back(t) ? back_steps(t) : forward_steps(t);
}

static const struct attn_back back = {
	.align = 256,
	.selects = selects,
	.open = open_set,
	.emit = emit_set,
	.nest = nest,
	.nest_value = nest_value,
	.follow = ca_epilogue_step,
	.copy = ca_copy_step
};

bool
cu_attention_steps(struct cu_kernel *k, const struct kernel *x)
{
	struct attn_group *g = arena_alloc(k->c->a, sizeof *g);

	*g = (struct attn_group){ .back = &back, .m = k->c->m, .a = k->c->a,
				  .at = k->c->at, .out = k->out, .x = x,
				  .k = k };
	if (!attn_steps(g)) {
		k->why = g->why ? g->why : k->why;
		return false;
	}
	ca_helpers(k);
	return true;
}

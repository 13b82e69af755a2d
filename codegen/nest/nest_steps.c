/*
 * A nest's kernel: what it is called with, where its temps lie in scratch, and
 * the order of its steps and collectives.  The back end writes the steps.
 */
#include "codegen/nest/nest.h"

/* ---- what it is called with ---- */

static uint32_t
ask_pieces(void *user, int64_t size, uint32_t cut)
{
	const struct cg_site *s = user;

	return cg_spread(s->a, s->out, size, cut);
}

static uint32_t
ask_number(void *user, enum nest_number kind, uint32_t node)
{
	static const enum cg_num_kind of[] = {
		[NEST_N_STEP] = CG_STEP, [NEST_N_KEY] = CG_KEY,
		[NEST_N_AT] = CG_AT, [NEST_N_OLD] = CG_OLD
	};
	const struct cg_site *s = user;

	return cg_num(s->a, s->out, of[kind], node);
}

void
nest_input_site(struct nest_input *in, const struct cg_site *s)
{
	in->m = s->m;
	in->a = s->a;
	in->at = s->at;
	in->apart = s->apart;
	in->pieces = ask_pieces;
	in->number = ask_number;
	in->user = arena_dup(s->a, s, sizeof *s);
}

/* ---- steps ---- */

static void
place_temps(struct nest *n, struct cg_kernel *out)
{
	uint32_t i;

	for (i = 0; i < n->temps.n; i++) {
		struct nest_temp *t = &n->temps.at[i];
		int64_t parts = t->parts ? t->parts : 1;

		t->offset = cg_reserve_shared(out, 64, 4 * parts * t->elems);
	}
}

/* Collectives on the temps of a stage, after its last step. */
static void
add_colls(const struct nest *n, uint16_t stage, struct cg_kernel *out)
{
	uint32_t i;

	for (i = 0; i < n->temps.n; i++) {
		const struct nest_temp *t = &n->temps.at[i];
		struct cg_step s = { .axes = t->axes, .elems = t->elems,
			.op = t->most ? RT_COLL_MAX : RT_COLL_SUM,
			.in = t->offset, .out = t->offset };

		if (t->colls && t->stage == stage) {
			VEC_PUSH(n->in.a, &out->steps, s);
		}
	}
}

void
nest_emit(struct nest *n, struct cg_kernel *out,
	  void (*step)(void *user, struct nest *n, const struct nest_step *s),
	  void *user)
{
	struct nest_steps steps;
	uint32_t i;

	nest_make_steps(n, &steps);
	place_temps(n, out);
	for (i = 0; i < steps.at.n; i++) {
		uint16_t stage = steps.at.at[i].stage;

		step(user, n, &steps.at.at[i]);
		if (i + 1 == steps.at.n || steps.at.at[i + 1].stage != stage) {
			add_colls(n, stage, out);
		}
	}
}

int64_t
nest_value_offset(const struct nest *n)
{
	const struct nest_root *root = &n->roots.at[n->roots.n - 1];

	return n->temps.at[n->memory.at[root->memory].i].offset;
}

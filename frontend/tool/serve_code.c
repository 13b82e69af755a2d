/*
 * --serve with -o: the program that serves.  The model becomes a step over a
 * ragged batch (passes/ragged.c), which the passes that split a model for
 * training split, and the code generators compile.
 */
#include "config.h"

#include "frontend/tool/tool.h"

#include <math.h>
#include <string.h>

#include "codegen/cg.h"
#include "passes/memory/memory.h"
#include "passes/plan/plan.h"
#include "passes/serve/serve.h"

/* What is chosen for keys and slots is a multiple of this, as where a
 * sequence's keys begin. */
#define UNIT 128
/* Positions and logits of a step, keys and slots, unless they are given. */
#define TOKENS 64
#define ROWS 16
#define KEYS 4096

static const struct span nowhere;

/* ---- how large a step is ---- */

static int64_t
units(double n)
{
	return n < UNIT ? UNIT : (int64_t)(n / UNIT) * UNIT;
}

static int64_t
given(const struct ir_module *m, const char *key, int64_t otherwise)
{
	return (int64_t)ir_setting_num(m, arena_printf(&m->ctx->tmp,
		"serve.%s", key), (double)otherwise);
}

static void
set(struct ir_module *m, const char *name, int64_t n)
{
	struct ir_setting s = { .kind = SET_NUM, .n = 1,
				.num = { (double)n } };

	if (!ir_setting(m, name)) {
		s.key = intern_str(&m->ctx->syms, name);
		VEC_PUSH(&m->ctx->perm, &m->settings, s);
	}
}

/*
 * The cache holds what sequences in flight have, or what memory is left for;
 * the first block of it takes what positions without a sequence write.
 */
static void
set_sizes(struct ir_module *m, const struct serve_answer_in *in,
	  const struct serve_plan *x)
{
	int64_t context = (int64_t)in->asked->context;
	int64_t least = units((double)context + UNIT - 1);
	double most = fmin(x->memory.tokens, x->sequences * (double)context);
	int64_t slots = units(fmax(most, (double)least)) + UNIT;
	int64_t tokens, keys;

	set(m, "program.serves", 1);
	set(m, "serve.tokens", TOKENS);
	tokens = given(m, "tokens", 0);
	set(m, "serve.rows", tokens < ROWS ? tokens : ROWS);
	set(m, "serve.slots", slots);
	slots = given(m, "slots", 0);
	keys = least > KEYS ? least : KEYS;
	set(m, "serve.keys", keys < slots ? keys : slots);
}

/* ---- the programs ---- */

struct step {
	struct driver *d;
	struct ir_module *m;
	struct ranks r;
	struct price price;
	int64_t context;	/* of the longest sequence */
	const char *why;
};

static bool
make_ranks(struct step *s, const struct serve_split *split)
{
	struct pass_list list = { 0 };
	struct driver *d = s->d;
	struct pass_manager pm;
	struct sched *sched;
	bool ok;

	pass_manager_init(&pm, &d->table);
	pm.memo = d->pm.memo;
	ok = plan_pin(s->m, arena_printf(&d->ctx.perm,
			"tp=%lld,pp=%lld,ep=%lld", (long long)split->tp,
			(long long)split->pp, (long long)split->ep)) &&
	     pass_list_parse(&d->table, &list, "fold-dims,inline,ragged,cse,"
			     "dce,place,stage,check") &&
	     pass_run(&pm, &list, s->m) == PASS_OK;
	pass_manager_release(&pm);
	sched = ok ? ranks_schedule(s->m, d->pm.memo, &d->ctx.perm) : NULL;
	return sched && ranks_open(&s->r, s->m, sched, d->pm.memo, &s->why);
}

/* Whether the arena fits a device, as code and its scratch need it. */
static bool
fits(struct step *s, const struct target *t, const struct cg_code *code)
{
	const struct target_device *device = &t->groups.at[0].device;
	struct target_devs devs = target_devs_all(&t->groups.at[0]);
	struct memory mem;
	double over;

	if (!memory_plan(&s->r, NULL, cg_code_reserve(code), &s->d->ctx.perm,
			 &mem, &s->why)) {
		return false;
	}
	memory_set_devices(&mem, &devs);
	over = (double)mem.rank[mem.fullest].total - device->memory_bytes;
	if (over > 0) {
		s->why = arena_printf(&s->d->ctx.perm, "it needs %.2f GB more "
			"than a device has: `slots`, `keys` and `tokens` of "
			"the serve block say how large it is", over * 1e-9);
	}
	return over <= 0;
}

static bool
compile(struct step *s, const struct target *t)
{
	struct driver *d = s->d;
	struct cg_input *in = arena_alloc(&d->ctx.perm, sizeof *in);
	struct cg_facts f = { .compiler = "llmc " PACKAGE_VERSION,
			      .model = ir_text(&d->ctx, s->m->name),
			      .target = drv_text(d, OPT_TARGET),
			      .batch = 1, .llp = "",
			      .whole_why = "it serves" };
	struct cg_code *code;
	bool ok;

	*in = (struct cg_input){ .ranks = &s->r, .target = &t->groups.at[0],
				 .price = &s->price };
	if (!drv_code_for(d, &t->groups.at[0].device, in)) {
		return false;
	}
	d->code_in = in;
	if (!in->cpu) {
		return drv_report_no_code(d, &t->groups.at[0].device);
	}
	d->kernels = arena_alloc(&d->ctx.perm, sizeof *d->kernels);
	code = drv_kernels_settle(d, &d->ctx, in, &d->kernels->plan);
	if (!code || !fits(s, t, code)) {
		if (code) {
			cg_code_free(code);
		}
		return false;
	}
	f.context = s->context;
	f.tokens = given(s->m, "tokens", 0);
	f.step_us = s->price.step_us;
	f.json = buf_text(&d->json);
	buf_init(&d->kernels->plan_object, &d->ctx.perm);
	buf_init(&d->program, &d->ctx.perm);
	ok = cg_code_finish(code, cg_code_reserve(code), &f) &&
	     cg_code_object(code, &d->kernels->plan_object);
	cg_code_free(code);
	return ok && drv_kernels_end(d, d->kernels);
}

bool
drv_serve_code(struct driver *d, struct ir_module *m,
	       const struct serve_answer_in *in, const struct serve_answer *x)
{
	static const struct price_traits plain;
	struct step s = { .d = d, .m = m,
			  .context = (int64_t)in->asked->context };
	struct target_devs devs = target_devs_all(&in->target->groups.at[0]);

	if (!x->fits) {
		diag_error(&d->ctx.diags, nowhere, "nothing that serves fits, "
			   "so no program is written");
		return false;
	}
	buf_init(&d->json, &d->ctx.perm);
	serve_print_json(in, x, NULL, &d->json);
	set_sizes(m, in, &x->best);
	if ((!make_ranks(&s, &x->best.split) ||
	     !price_step(&s.r, &devs, &plain, &d->ctx.perm, &s.price,
			 &s.why) || !compile(&s, in->target)) &&
	    d->ctx.diags.errors == 0) {
		diag_error(&d->ctx.diags, nowhere, "the program that serves "
			   "cannot be made: %s", s.why ? s.why : "?");
	}
	return d->ctx.diags.errors == 0;
}

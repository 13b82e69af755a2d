/*
 * --serve with -o: the program that serves.  The model becomes a step over a
 * ragged batch (passes/ragged.c), which the passes that split a model for
 * training split, and the code generators compile.  With --emit=ranks it is
 * printed as it is split.
 */
#include "config.h"

#include "frontend/tool/tool.h"

#include <math.h>
#include <string.h>

#include "codegen/cg.h"
#include "passes/memory/memory.h"
#include "passes/plan/plan.h"
#include "passes/serve/serve.h"

/* ---- the programs ---- */

/* Steps of 1, 8, 32, 64, .. positions, and the largest: 14 of 65536. */
#define MOST_STEPS CG_MAX_PARTS

/* The program of a step of so many positions. */
struct step {
	struct ir_module *m;
	struct ranks r;
	struct price price;
	int64_t tokens;
	struct drv_part *part;
	struct cg_input in;
	struct cg_tiling tiles;		/* those that spill */
	struct memory mem;
	struct cg_code *code;
};

struct serve_build {
	struct driver *d;
	const struct target *target;
	int64_t context;	/* of the longest sequence */
	struct step step[MOST_STEPS];	/* the largest is the first */
	const char *names[MOST_STEPS];	/* of the parts of the others */
	uint32_t n;
	const char *why;
	struct span at;		/* of the setting that is at fault */
	const struct serve_answer_in *in;
	struct serve_answer *x;
	/* bytes that a step needs beyond what a device has */
	double over;
	struct serve_made made;	/* of the largest step, slots included */
};

static bool
split(struct driver *d, struct ir_module *m, const struct serve_split *split)
{
	struct pass_list list = { 0 };
	struct pass_manager pm;
	bool ok;

	pass_manager_init(&pm, &d->table);
	pm.memo = d->pm.memo;
	ok = plan_pin(m, arena_printf(&d->ctx.perm, "tp=%lld,pp=%lld,ep=%lld,"
			"dp=%lld", (long long)split->tp,
			(long long)split->pp, (long long)split->ep,
			(long long)split->replicas)) &&
	     pass_list_parse(&d->table, &list, "fold-dims,inline,absorb,"
			     "ragged,quantise,cse,dce,place,stage,check") &&
	     pass_run(&pm, &list, m) == PASS_OK;
	pass_manager_release(&pm);
	return ok;
}

static bool
add_step(struct serve_build *s, struct ir_module *m, int64_t tokens,
	 const char *part)
{
	struct step *x = &s->step[s->n++];
	struct target_devs devs = target_devs_all(&s->target->groups.at[0]);
	static const struct price_traits plain;
	struct driver *d = s->d;
	struct sched *sched = ranks_schedule(m, d->pm.memo, &d->ctx.perm);

	x->m = m;
	x->tokens = tokens;
	x->part = drv_kernels_part(d, d->kernels, part);
	return sched &&
	       ranks_open(&x->r, m, sched, d->pm.memo, &s->why) &&
	       price_step(&x->r, &devs, &plain, &d->ctx.perm, &x->price,
			  &s->why);
}

/* The same step of fewer positions, split in the same way. */
static bool
add_steps(struct serve_build *s, struct ir_module *m)
{
	int64_t tokens = drv_serve_size(m, "tokens"), n;
	int64_t rows = drv_serve_size(m, "rows");
	struct ir_module *small;
	const char *name;

	if (!add_step(s, m, tokens, CG_PLAN)) {
		return false;
	}
	for (n = serve_next_size(0); n < tokens && s->n < MOST_STEPS;
	     n = serve_next_size(n)) {
		small = ir_copy(m, &s->d->ctx);
		pass_resize_step(small, n, rows < n ? rows : n);
		name = arena_printf(&s->d->ctx.perm, "size%lld", (long long)n);
		s->names[s->n - 1] = name;
		if (!add_step(s, small, n, name)) {
			return false;
		}
	}
	return true;
}

/* ---- memory ---- */

static bool
is_input(const struct ir_module *m, sym_t name)
{
	const struct ir_node *n;
	node_id id;

	for (id = 1; id < m->nodes.n; id++) {
		n = ir_node(m, id);
		if (n->op == IR_INPUT &&
		    ir_attr(m, n, IR_ATTR_NAME)->text == name) {
			return true;
		}
	}
	return false;
}

/*
 * All steps share weights and caches, which therefore lie at the same offsets;
 * inputs need not.
 */
static void
check_places(const struct step *x, const struct step *large)
{
	uint32_t i, k;

	for (i = 0; i < x->mem.buffers.n; i++) {
		const struct memory_buffer *b = &x->mem.buffers.at[i], *of;

		if (b->stage != UINT32_MAX || !b->name ||
		    b->kind > MEMORY_OTHER || is_input(x->m, b->name)) {
			continue;
		}
		for (k = 0; k < large->mem.buffers.n; k++) {
			of = &large->mem.buffers.at[k];
			if (of->name == b->name && of->pipe == b->pipe &&
			    of->first == b->first && of->kind == b->kind &&
			    of->offset != b->offset) {
				die("%s lies elsewhere in a step of %lld",
				    ir_text(x->m->ctx, b->name),
				    (long long)x->tokens);
			}
		}
	}
}

/* The type of an input of the step. */
static const struct ir_type *
input_type(const struct ir_module *m, const char *name)
{
	const struct ir_node *n;
	node_id id;

	for (id = 1; id < m->nodes.n; id++) {
		n = ir_node(m, id);
		if (n->op == IR_INPUT && strcmp(name, ir_text(m->ctx,
		    ir_attr(m, n, IR_ATTR_NAME)->text)) == 0) {
			return ir_type(m, n->result);
		}
	}
	die("a step without %s", name);
}

/*
 * Bytes of buffers of the fullest rank for values that have the dim.  Temporary
 * values share memory, so of these the largest counts.
 */
static double
bytes_with(const struct step *x, dim_id dim, struct arena *a)
{
	bool *counted = arena_alloc(a, x->mem.buffers.n + 1);
	const struct memory_buffer *b;
	const struct ir_node *n;
	double sum = 0, temp = 0, bytes;
	uint32_t at;
	node_id id;

	for (id = 1; id < x->m->nodes.n; id++) {
		n = ir_node(x->m, id);
		at = n->result == 0 ? 0 : x->mem.tensor[id] ? x->mem.tensor[id]
			: x->mem.value[n->result].buffer;
		if (at == 0 || counted[at] ||
		    ir_type_at(ir_type(x->m, n->result), dim) < 0) {
			continue;
		}
		counted[at] = true;
		b = &x->mem.buffers.at[at - 1];
		if (b->pipe != x->mem.fullest) {
			continue;
		}
		bytes = (double)b->bytes * (double)b->items *
			(double)b->copies;
		if (b->kind == MEMORY_TEMPS) {
			temp = fmax(temp, bytes);
		} else {
			sum += bytes;
		}
	}
	return sum + temp;
}

/* Sizes that the user did not set stand in no text. */
static int
is_set(const struct ir_setting *s)
{
	return s->value.hi > 0;
}

/* Of what the user set, or if that is nothing of all three, what takes most. */
static const struct ir_setting *
largest_setting(const struct step *x, struct arena *a)
{
	static const char *const names[] = { "serve.slots", "serve.keys",
					     "serve.tokens" };
	const dim_id dims[] = { input_type(x->m, "slot")->of,
				input_type(x->m, "key")->dims[0],
				input_type(x->m, "slot")->dims[0] };
	const struct ir_setting *worst = NULL, *at;
	double most = 0, bytes;
	uint32_t i;

	for (i = 0; i < 3; i++) {
		at = ir_setting(x->m, names[i]);
		/* kernels' scratch is that of rows put into slots */
		bytes = bytes_with(x, dims[i], a) + (i == 0
			? (double)cg_code_reserve(x->code) : 0);
		if (!worst || is_set(at) > is_set(worst) ||
		    (is_set(at) == is_set(worst) && bytes > most)) {
			most = bytes;
			worst = at;
		}
	}
	return worst;
}

static void
blame_setting(struct serve_build *s, const struct step *x, double over)
{
	struct arena *a = &s->d->ctx.perm;
	const struct ir_setting *set = largest_setting(x, a);

	s->at = set->value;
	s->why = arena_printf(a, "it needs %.2f GB more than a device has, and "
		"most of what settings decide is for `%s` = %lld: `slots`, "
		"`keys` and `tokens` of the serve block say how large it is",
		over * 1e-9, strrchr(ir_text(x->m->ctx, set->key), '.') + 1,
		(long long)set->num[0]);
}

/* What the program has, of the fullest device.  What is reserved there is
 * neither of the program nor of what is free to it. */
static struct serve_made
made_of(const struct step *x, const struct target_group *t, struct arena *a)
{
	const struct memory_rank *r = &x->mem.rank[x->mem.fullest];
	struct serve_made made = {
		.tokens = (double)x->tokens,
		.rows = (double)drv_serve_size(x->m, "rows"),
		.keys = (double)drv_serve_size(x->m, "keys"),
		.slots = (double)drv_serve_size(x->m, "slots"),
		.weights = (double)r->by[MEMORY_WEIGHTS],
		.cache = bytes_with(x, input_type(x->m, "slot")->of, a)
	};

	made.workspace = (double)r->total - made.weights - made.cache -
			 (t->device.memory_bytes - target_free_bytes(t));
	return made;
}

/* Whether the arena fits a device, as code and its scratch need it. */
static bool
fits(struct serve_build *s, struct step *x)
{
	const struct target_device *device = &s->target->groups.at[0].device;
	struct target_devs devs = target_devs_all(&s->target->groups.at[0]);
	double over;

	if (!memory_plan(&x->r, NULL, cg_code_reserve(x->code),
			 &s->d->ctx.perm, &x->mem, &s->why)) {
		return false;
	}
	memory_set_devices(&x->mem, &x->r, &devs, &s->d->ctx.perm);
	over = (double)x->mem.rank[x->mem.fullest].total -
	       device->memory_bytes;
	if (over > 0 || x == &s->step[0]) {
		s->made = made_of(x, &s->target->groups.at[0],
				  &s->d->ctx.perm);
	}
	if (over > 0) {
		blame_setting(s, x, over);
		s->over = over;
	}
	check_places(x, &s->step[0]);
	return over <= 0;
}

/* ---- code ---- */

static bool
emit_kernels(struct serve_build *s, const struct cg_input *in)
{
	struct driver *d = s->d;
	uint32_t i;

	for (i = 0; i < s->n; i++) {
		struct step *x = &s->step[i];

		x->in = *in;
		x->in.ranks = &x->r;
		x->in.price = &x->price;
		x->in.tiling = &x->tiles;
		x->code = drv_kernels_settle(d, &d->ctx, &x->in,
					     &x->part->images);
		if (!x->code || !fits(s, x)) {
			return false;
		}
		if (!cg_code_weights_agree(x->code, s->step[0].code)) {
			die("a step of %lld reads weights in another layout",
			    (long long)x->tokens);
		}
	}
	return true;
}

/* The largest is the last, as it has the arena of all. */
static bool
finish(struct serve_build *s, struct cg_facts f)
{
	uint32_t npipes = s->step[0].r.npipes, i, k;
	int64_t *bytes = arena_alloc(&s->d->ctx.perm, npipes * sizeof *bytes);
	int64_t n;

	for (i = s->n; i-- > 0;) {
		struct step *x = &s->step[i];

		f.part = x->part->name;
		f.tokens = x->tokens;
		f.step_us = x->price.step_us;
		f.is_size = i > 0;
		f.sizes = s->names;
		f.nsizes = i > 0 ? 0 : s->n - 1;
		f.arena_bytes = i > 0 ? NULL : bytes;
		if (!cg_code_finish(x->code, cg_code_reserve(x->code), &f) ||
		    !cg_code_object(x->code, &x->part->object)) {
			return false;
		}
		for (k = 0; k < npipes; k++) {
			n = cg_code_arena(x->code, k);
			bytes[k] = n > bytes[k] ? n : bytes[k];
		}
	}
	return true;
}

static bool
compile(struct serve_build *s, struct ir_module *m)
{
	struct driver *d = s->d;
	struct cg_input *in = arena_alloc(&d->ctx.perm, sizeof *in);
	const struct target_group *group = &s->target->groups.at[0];
	struct cg_facts f = { .compiler = "llmc " PACKAGE_VERSION,
			      .model = ir_text(&d->ctx, m->name),
			      .target = drv_text(d, OPT_TARGET),
			      .batch = 1, .context = s->context, .llp = "",
			      .whole_why = "it serves" };
	bool ok;
	uint32_t i;

	*in = (struct cg_input){ .target = group };
	if (!drv_code_for(d, &group->device, in)) {
		return false;
	}
	d->code_in = in;
	if (!in->cpu) {
		return drv_report_no_code(d, &group->device);
	}
	drv_note_arch(in->arch, m);
	buf_init(&d->program, &d->ctx.perm);
	ok = emit_kernels(s, in);
	if (ok) {
		s->x->program = s->made;
		serve_price_made(s->in, &d->ctx.perm, s->x);
		buf_init(&d->json, &d->ctx.perm);
		serve_print_json(s->in, s->x, NULL, &d->json);
		f.json = buf_text(&d->json);
		ok = finish(s, f);
	}
	for (i = 0; i < s->n; i++) {
		if (s->step[i].code) {
			cg_code_free(s->step[i].code);
		}
	}
	return ok && drv_kernels_end(d, d->kernels);
}

/* The setting that changes what is predicted, and that no program has. */
static bool
check_types(struct driver *d, const struct ir_module *m)
{
	const struct ir_setting *matmul = ir_setting(m, "serve.matmul");

	if (matmul) {
		diag_error(&d->ctx.diags, matmul->value, "`matmul` is %s, and "
			   "a program that serves multiplies in the types of "
			   "the model: leave it out",
			   ir_text(m->ctx, matmul->text));
	}
	return !matmul;
}

void
drv_warn_of_program(struct driver *d, const struct ir_module *m,
		    const struct serve_answer_in *in,
		    const struct serve_answer *x)
{
	struct pass_list list = { 0 };
	struct pass_manager pm;
	const struct diag_record *at;
	struct ir_module *copy;
	struct ir_ctx c;

	ir_ctx_child(&c, &d->ctx);
	copy = ir_copy(m, &c);
	drv_set_serve_sizes(copy, in, &x->best);
	pass_manager_init(&pm, &d->table);
	if (pass_list_parse(&d->table, &list, "fold-dims,inline,absorb,"
			    "ragged") &&
	    pass_run(&pm, &list, copy) == PASS_BAD_INPUT && c.diags.errors) {
		for (at = c.diags.records.at; at->level != DIAG_ERROR; at++) {
		}
		diag_warn(&d->ctx.diags, WARN_UNSERVED, at->span, "%s; the "
			  "answer is of its price alone", at->text);
	}
	pass_manager_release(&pm);
	ir_ctx_release(&c);
}

/* The rank programs of the largest step, split as the answer says. */
static bool
make_step(struct driver *d, struct ir_module *m,
	  const struct serve_answer_in *in, const struct serve_plan *x)
{
	drv_set_serve_sizes(m, in, x);
	d->for_code = true;
	drv_set_capacity(d, m);
	return split(d, m, &x->split) && check_types(d, m);
}

bool
drv_serve_ranks(struct driver *d, struct ir_module *m,
		const struct serve_answer_in *in, const struct serve_answer *x)
{
	return make_step(d, m, in, &x->best) && drv_print_ranks(d, m);
}

/*
 * What kernels leave for each other is known when they are emitted, and only
 * then what the cache can have.  If the user did not say how many slots there
 * are, the answer becomes that of the same split where so many fewer fit as
 * were too many; other splits keep their place beside it.  False: that has no
 * cache for a request.
 */
static bool
answer_with_less(const struct serve_build *s, const struct ir_module *of,
		 struct serve_asked *asked, struct serve_answer *x)
{
	const struct serve_memory *m = &x->best.memory;
	struct serve_answer_in in = *s->in;
	struct serve_answer all;
	double fewer = s->over > 0 && s->made.cache > 0
		? ceil(s->over / (s->made.cache / s->made.slots) /
		       DRV_SERVE_UNIT) * DRV_SERVE_UNIT : 0;

	if (fewer <= 0 || fewer >= s->made.slots ||
	    is_set(ir_setting(s->step[0].m, "serve.slots"))) {
		return false;
	}
	asked->workspace = m->free - m->weights -
			   (s->made.slots - fewer) * m->token /
			   (double)serve_apart(&x->best.split);
	asked->made = x->best.split;
	serve_search(&in, &s->d->ctx.perm, &all);
	in.pins.split = asked->made;
	serve_search(&in, &s->d->ctx.perm, x);
	x->tried = all.tried;
	x->ncurve = all.ncurve;
	memcpy(x->curve, all.curve, sizeof all.curve);
	return x->fits && drv_find_serve_host(s->d, of, &in, x);
}

bool
drv_serve_code(struct driver *d, struct ir_module *m,
	       const struct serve_answer_in *in, struct serve_asked *asked,
	       struct serve_answer *x)
{
	int64_t slots = INT64_MAX, had;
	struct ir_module *copy;
	struct serve_build s;
	bool ok;

	do {
		s = (struct serve_build){ .d = d, .target = in->target,
			.context = (int64_t)asked->context, .in = in, .x = x };
		d->kernels = arena_alloc(&d->ctx.perm, sizeof *d->kernels);
		copy = ir_copy(m, &d->ctx);
		had = slots;
		ok = make_step(d, copy, in, &x->best) && add_steps(&s, copy) &&
		     compile(&s, copy);
		slots = drv_serve_size(copy, "slots");
	} while (!ok && slots < had && answer_with_less(&s, m, asked, x));
	if (!ok && d->ctx.diags.errors == 0) {
		diag_error(&d->ctx.diags, s.at, "the program that serves "
			   "cannot be made: %s", s.why ? s.why : "?");
	}
	return d->ctx.diags.errors == 0;
}

/*
 * Why nothing fits, and changes that would help.  A change is printed only if a
 * search with it finds a plan.  Tried are: one pin less, more devices, and last
 * a smaller batch, which is another training run.
 *
 * Devices are doubled, first in the node and then by nodes, until a plan fits
 * or the smallest plan gets no smaller.  Other numbers of devices may do, so
 * the message names those that were tried.
 */
#include "passes/plan/plan_keys.h"
#include "passes/advice/advice.h"
#include "passes/space/space.h"

#include <string.h>

#define MAX_DOUBLINGS 16
/* doubling devices helps if the bytes fall below this part */
#define SHRINKS 0.99
/*
 * search_effort of all these searches together: an error must come soon, even
 * without all advice.  The whole command took 0.3 to 6 s of a core.
 */
#define EFFORT 46000

struct advising {
	const struct ir_module *m;
	const struct search_options *o;
	struct memo *memo;
	struct arena *a;
	struct advice_misfit *out;
	/* bytes of the smallest plan on any of `devices` */
	int64_t least;
	int64_t devices[MAX_DOUBLINGS];	/* numbers of devices that were tried */
	int ntried;
	uint64_t effort;	/* still allowed */
};

/* ---- the reason ---- */

static int64_t
smallest(const struct search_report *r)
{
	return r->any_near ? r->least.bytes : r->any_bare ? r->bare.bytes : 0;
}

static void
put_near(struct buf *b, const struct search_report *r, struct arena *a)
{
	const struct plan *p = &r->least.plan;

	buf_puts(b, "the smallest plan needs ");
	buf_grouped(b, r->least.bytes);
	buf_puts(b, " bytes of ");
	buf_grouped(b, r->least.capacity);
	buf_printf(b, " on rank %u of the pipeline%s%s (%s, microbatch %lld, "
		   "zero %d, recompute %s)", r->least.fullest,
		   *r->least.device ? ", on " : "", r->least.device,
		   search_degrees(p, a), (long long)p->microbatch, p->zero,
		   p->recompute);
}

static void
put_bare(struct buf *b, const struct search_report *r, struct arena *a)
{
	const struct plan *p = &r->bare.plan;

	buf_puts(b, p->offload ? "weights and gradients alone need "
		 : "weights, gradients and optimizer state alone need ");
	buf_grouped(b, r->bare.bytes);
	buf_puts(b, " bytes of ");
	buf_grouped(b, r->bare.capacity);
	buf_printf(b, " on each device%s%s (%s, zero %d)",
		   *r->bare.device ? ", in the mean of " : "", r->bare.device,
		   search_degrees(p, a), p->zero);
}

static void
put_host(struct buf *b, const struct search_report *r, struct arena *a)
{
	const struct plan *p = &r->host.plan;

	buf_puts(b, "what is offloaded to hosts needs ");
	buf_grouped(b, r->host.bytes);
	buf_puts(b, " bytes of ");
	buf_grouped(b, r->host.capacity);
	buf_printf(b, " of a node's `%s` (%s, zero %d)", r->host.device,
		   search_degrees(p, a), p->zero);
}

/* The reason where no plan has these pins, or none can be priced. */
static void
put_pins(struct buf *b, const struct advising *x, const struct search_report *r)
{
	int64_t devices = target_devices(x->o->target);
	struct plan p = { 0 };
	struct ir_module *m;
	struct ir_ctx c;

	ir_ctx_child(&c, x->m->ctx);
	m = ir_copy(x->m, &c);
	if (plan_read(m, &p) && p.nranks > devices) {
		buf_printf(b, "%s are %lld ranks, and the target has %lld "
			   "device%s", search_degrees(&p, x->a),
			   (long long)p.nranks, (long long)devices,
			   devices == 1 ? "" : "s");
	} else if (*r->pins) {
		buf_printf(b, "none has these pins: %s", r->pins);
	} else {
		buf_puts(b, "no plan of the search space can be priced");
	}
	ir_ctx_release(&c);
}

static const char *
why(const struct advising *x, const struct search_report *r)
{
	struct buf b;

	buf_init(&b, x->a);
	if (r->any_near) {
		put_near(&b, r, x->a);
		buf_puts(&b, r->any_host ? "; " : "");
	}
	if (r->any_host) {
		put_host(&b, r, x->a);
	} else if (r->any_near) {
		return buf_text(&b);
	} else if (r->any_bare) {
		put_bare(&b, r, x->a);
	} else {
		put_pins(&b, x, r);
	}
	return buf_text(&b);
}

/* ---- changes ---- */

static dim_id
batch_dim(const struct ir_module *m)
{
	return ir_dim_find(m, intern_str(&m->ctx->syms, "batch"));
}

/*
 * Removes a pin with all its settings: a long value is split over several,
 * since one setting has a limited length.
 */
static void
forget(struct ir_module *m, const char *key)
{
	size_t n = strlen(key);
	uint32_t i, left = 0;

	for (i = 0; i < m->settings.n; i++) {
		const char *k = ir_text(m->ctx, m->settings.at[i].key);

		if (strncmp(k, key, n) != 0 || (k[n] && k[n] != '.')) {
			m->settings.at[left++] = m->settings.at[i];
		}
	}
	m->settings.n = left;
}

/* What is other than what the user asked for: one of these. */
struct change {
	const char *without;	/* a pin, as "plan.tp" */
	const char *pin;	/* "cp=2" */
	int64_t batch;
	const struct target *target;
};

/* Searches plans for a copy with that change.  True: one was found. */
static bool
look(struct advising *x, struct change change, struct search_report *r)
{
	struct search_options o = *x->o;
	struct ir_module *m;
	struct ir_ctx c;
	uint64_t took;
	bool ok;

	memset(r, 0, sizeof *r);
	if (!x->effort) {
		x->out->stopped = true;
		return false;
	}
	o.target = change.target ? change.target : o.target;
	o.top = 1;
	o.report = NULL;
	o.effort = x->effort;
	ir_ctx_child(&c, x->m->ctx);
	m = ir_copy(x->m, &c);
	if (change.without) {
		forget(m, change.without);
	}
	if (change.batch) {
		m->dims.at[batch_dim(m)].size = change.batch;
	}
	ok = (!change.pin || plan_pin(m, change.pin)) &&
	     search_run(m, &o, x->memo, x->a, r) && r->found.n > 0 &&
	     !r->stopped;
	ir_ctx_release(&c);
	took = search_effort(r);
	x->effort -= took < x->effort ? took : x->effort;
	x->out->stopped |= r->stopped;
	return ok;
}

static void
add_advice(const struct advising *x, const char *what,
	   const struct search_report *r)
{
	struct advice e = { what, r->found.at[0] };

	VEC_PUSH(x->a, &x->out->advice, e);
}

/* "without tp=8" */
static const char *
without_text(const struct advising *x, const char *key)
{
	const char *text = "", *name = "";
	struct ir_module *m;
	struct ir_ctx c;
	int i;

	ir_ctx_child(&c, x->m->ctx);
	m = ir_copy(x->m, &c);
	for (i = 0; strcmp(name, key + 5) != 0; i++) {
		text = plan_key_text(m, NULL, i, &name);
	}
	text = arena_printf(x->a, "without %s=%s", key + 5, text);
	ir_ctx_release(&c);
	return text;
}

static void
release_pins(struct advising *x)
{
	struct search_report r;
	uint32_t i;
	bool more;

	for (i = 0; i < x->m->settings.n; i++) {
		const char *key = ir_text(x->m->ctx,
					  x->m->settings.at[i].key);

		if (strncmp(key, "plan.", 5) == 0 &&
		    plan_find(key + 5, &more) &&
		    look(x, (struct change){ .without = key }, &r)) {
			add_advice(x, without_text(x, key), &r);
		}
	}
}

/* Releases the model's own `recompute`, which is a pin, too. */
static void
release_hint(struct advising *x)
{
	struct change full = { .pin = "recompute=full" };
	struct search_report r;

	if (strcmp(plan_recompute_hint(x->m), "none") != 0 &&
	    !ir_setting(x->m, "plan.recompute") && look(x, full, &r)) {
		add_advice(x, "with recompute=full for what the model "
			   "says", &r);
	}
}

/* The most ranks over which a context may be split. */
static int64_t
most_contexts(const struct ir_module *m)
{
	struct plan_facts f;
	struct ir_module *own;
	struct ir_ctx c;
	int64_t most = 1;

	ir_ctx_child(&c, m->ctx);
	own = ir_copy(m, &c);
	plan_facts(own, &f);
	if (f.seq && !ir_setting(own, "plan.cp")) {
		most = ir_dim_size(own, f.seq) / SPACE_CONTEXT_PIECE;
	}
	ir_ctx_release(&c);
	return most;
}

/*
 * Tries to split the context.  It helps anywhere, since each rank then saves
 * fewer bytes, but without a pin a search does so only where sequences are long
 * or few.
 */
static void
split_context(struct advising *x)
{
	int64_t devices = target_devices(x->o->target), cp;
	int64_t most = most_contexts(x->m);
	struct search_report r;
	bool found = false;

	for (cp = 2; cp <= most && cp <= devices && !found && x->effort;
	     cp *= 2) {
		const char *pin = arena_printf(x->a, "cp=%lld", (long long)cp);

		found = look(x, (struct change){ .pin = pin }, &r);
		if (found) {
			add_advice(x, arena_printf(x->a, "with %s", pin), &r);
		}
	}
}

static bool
grow(struct target_group *g)
{
	if (2 * g->devices <= g->device.node_devices) {
		g->devices *= 2;
		return true;
	}
	if (g->network.bytes_us <= 0 ||
	    2 * g->devices * g->nodes > TARGET_MAX_DEVICES) {
		return false;
	}
	g->nodes *= 2;
	return true;
}

/* Doubles all groups; each grows within its nodes first. */
static bool
grow_all(struct target *t, struct arena *a)
{
	bool ok = true;
	uint32_t i;

	for (i = 0; i < t->groups.n; i++) {
		ok &= grow(&t->groups.at[i]);
	}
	target_settle(t, a);
	return ok && target_devices(t) <= TARGET_MAX_DEVICES;
}

static const char *
nodes_text(const struct target *t, struct arena *a)
{
	struct buf b;
	uint32_t i;

	buf_init(&b, a);
	for (i = 0; i < t->groups.n; i++) {
		const struct target_group *g = &t->groups.at[i];

		buf_printf(&b, "%s%lld node%s of %lld ", i ? " and " : "on ",
			   (long long)g->nodes, g->nodes == 1 ? "" : "s",
			   (long long)g->devices);
		if (t->groups.n > 1) {
			buf_puts(&b, g->device.name);
		} else {
			buf_puts(&b, g->devices == 1 ? "device" : "devices");
		}
	}
	return buf_text(&b);
}

static void
more_devices(struct advising *x, int64_t bytes)
{
	struct target t = *x->o->target;
	struct search_report r;
	int64_t least = bytes;
	bool found = false;
	int i, idle = 0;

	t.groups.at = arena_dup(x->a, t.groups.at,
				t.groups.n * sizeof *t.groups.at);
	for (i = 0; i < MAX_DOUBLINGS && !found && idle < 2 && x->effort &&
	     grow_all(&t, x->a); i++) {
		found = look(x, (struct change){ .target = &t }, &r);
		if (!found && (r.stopped || !x->effort)) {
			break;
		}
		/*
		 * one doubling may not help, where dims do not divide evenly
		 */
		idle = bytes && (double)smallest(&r) > SHRINKS * (double)bytes
			? idle + 1 : 0;
		bytes = smallest(&r);
		least = bytes && bytes < least ? bytes : least;
		x->devices[x->ntried++] = target_devices(&t);
	}
	x->least = least;
	if (found) {
		add_advice(x, nodes_text(&t, x->a), &r);
	}
}

static void
smaller_batch(struct advising *x)
{
	dim_id d = batch_dim(x->m);
	int64_t batch = d ? ir_dim_size(x->m, d) : 0;
	struct search_report r;
	bool found = false;

	while (!found && batch > 1 && x->effort) {
		batch /= 2;
		found = look(x, (struct change){ .batch = batch }, &r);
	}
	if (found) {
		add_advice(x, arena_printf(x->a, "with batch %lld, which is "
					   "another training run",
					   (long long)batch), &r);
	}
}

/* ---- all of it ---- */

static const char *
never(const struct advising *x)
{
	struct buf b;
	int i;

	buf_init(&b, x->a);
	buf_puts(&b, "none fits either on ");
	for (i = 0; i < x->ntried; i++) {
		buf_printf(&b, "%s%lld",
			   buf_between((size_t)i, (size_t)x->ntried),
			   (long long)x->devices[i]);
	}
	buf_puts(&b, " devices, where the smallest needs ");
	buf_grouped(&b, x->least);
	buf_puts(&b, " bytes of one");
	return buf_text(&b);
}

void
advice_find(const struct ir_module *m, const struct search_options *o,
	    const struct search_report *r, struct memo *memo,
	    struct arena *a, struct advice_misfit *out)
{
	struct advising x = { .m = m, .o = o, .memo = memo, .a = a, .out = out,
			      .effort = EFFORT };

	memset(out, 0, sizeof *out);
	out->why = why(&x, r);
	if (o->no_advice) {
		return;
	}
	release_pins(&x);
	release_hint(&x);
	if (r->any_near) {	/* else what neither changes does not fit */
		split_context(&x);
	}
	more_devices(&x, smallest(r));
	if (r->any_near) {
		smaller_batch(&x);
	}
	if (!out->advice.n && x.least && x.ntried > 0) {
		out->never = never(&x);
	}
}

const char *
advice_text(const struct advice *x, struct arena *a)
{
	return arena_printf(a, "%s: a step of %.3f ms, %s on the fullest "
			    "rank (%s)", x->what, x->best.step_us / 1e3,
			    unit_text(a, (double)x->best.bytes),
			    search_degrees(&x->best.plan, a));
}

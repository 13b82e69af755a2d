/*
 * The pass manager: runs a list of passes.  It alone prints, times, verifies
 * and prepares the reproducer, so that a pass is only its transformation.
 */
#include "passes/pass.h"
#include "passes/plan/plan.h"

#include <string.h>
#include <time.h>

static const struct span nowhere;

void
pass_manager_init(struct pass_manager *pm, struct pass_table *t)
{
	memset(pm, 0, sizeof *pm);
	pm->table = t;
	pm->options.limit = -1;
	pm->options.log = stderr;
	pm->stats.arena = &t->ctx->perm;
	arena_init(&pm->before, &t->ctx->mem);
	arena_init(&pm->text[0], &t->ctx->mem);
	arena_init(&pm->text[1], &t->ctx->mem);
}

void
pass_manager_release(struct pass_manager *pm)
{
	arena_release(&pm->before);
	arena_release(&pm->text[0]);
	arena_release(&pm->text[1]);
}

/* ---- sets of passes ---- */

bool
pass_set_parse(struct pass_table *t, struct pass_set *s, const char *text)
{
	char *word;

	if (!text) {
		s->all = true;
		return true;
	}
	while (pass_words(&t->ctx->perm, &text, &word)) {
		const struct pass_known *k;

		if (strcmp(word, "all") == 0) {
			s->all = true;
			continue;
		}
		k = pass_want(t, word);
		if (!k) {
			return false;
		}
		VEC_PUSH(&t->ctx->perm, &s->at, &k->pass);
	}
	return true;
}

static bool
set_has(const struct pass_set *s, const struct pass *p)
{
	uint32_t i;

	for (i = 0; i < s->at.n; i++) {
		if (strcmp(s->at.at[i]->name, p->name) == 0) {
			return true;
		}
	}
	return s->all;
}

/* ---- one run of a list ---- */

struct run {
	struct pass_manager *pm;
	struct ir_ctx *ctx;
	struct ir_module *m;
	struct buf now;		/* if comparing: the module as text */
	int current;		/* `now` is in pm->text[current] */
};

static double
clock_us(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static bool
compares(const struct run *r)
{
	return r->pm->options.compare || r->pm->options.changed;
}

/* Whether the module changed; true if not comparing. */
static bool
take_text(struct run *r)
{
	struct buf old = r->now;
	int next = !r->current;

	if (!compares(r)) {
		return true;
	}
	arena_release(&r->pm->text[next]);
	buf_init(&r->now, &r->pm->text[next]);
	ir_print(r->m, &r->now);
	arena_release(&r->ctx->tmp);
	r->current = next;
	return old.n != r->now.n ||
	       memcmp(buf_text(&old), buf_text(&r->now), old.n) != 0;
}

/* Logs a comment, then the IR, so an excerpt of the log can be parsed. */
static void
log_text(const struct run *r, const char *when, const struct pass *p)
{
	struct buf text;

	buf_init(&text, &r->ctx->tmp);
	ir_print(r->m, &text);
	fprintf(r->pm->options.log, "# %s %s\n%s", when, p->name,
		buf_text(&text));
	arena_release(&r->ctx->tmp);
}

static void
add_quoted(struct buf *b, const char *s)
{
	const char *safe = "abcdefghijklmnopqrstuvwxyz"
			   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,=+:@%";

	if (*s && strspn(s, safe) == strlen(s)) {
		buf_puts(b, s);
		return;
	}
	for (buf_putc(b, '\''); *s; s++) {
		if (*s == '\'') {
			buf_puts(b, "'\\''");
		} else {
			buf_putc(b, *s);
		}
	}
	buf_putc(b, '\'');
}

/* Arguments that run only this pass. */
static const char *
args_line(const struct run *r, const struct pass *p, struct arena *a)
{
	const struct pass_known *k = pass_find(r->pm->table, p->name);
	struct buf b;

	buf_init(&b, a);
	buf_printf(&b, "# args: opt --passes=%s --verify-each", p->name);
	if (k && k->file) {
		buf_puts(&b, " --load-pass=");
		add_quoted(&b, k->file);
	}
	buf_putc(&b, '\n');
	return buf_text(&b);
}

static const char *
message(const struct pass *p, const char *file, struct arena *a)
{
	struct buf b;

	buf_init(&b, a);
	buf_printf(&b, "llmc: pass `%s` failed; the module before it is in "
		   "%s\nllmc: to see it again: llmc opt --run-reproducer ",
		   p->name, file);
	add_quoted(&b, file);
	buf_putc(&b, '\n');
	return buf_text(&b);
}

/*
 * Prepares the reproducer.  The module is copied and not printed, since
 * printing takes many times as long and is needed only after a crash.  If the
 * last pass changed nothing, the old copy is kept.  `before` is set last: from
 * then on a signal handler may read it.
 */
static void
arm(struct run *r, const struct pass *p)
{
	struct pass_crash *c = r->pm->crash;
	struct arena *a = &r->pm->before;
	const char *file = r->pm->options.reproducer;

	if (!c) {
		return;
	}
	arena_release(a);
	c->file = file ? file : arena_printf(a, "llmc-repro-%s.ir", p->name);
	c->message = message(p, c->file, a);
	c->args = args_line(r, p, a);
	ir_print_ready(r->m, a, &c->scratch);
	c->doing = p->name;
	c->before = p->gives & PASS_SAME ? r->m : ir_copy_in(r->m, a);
}

static void
disarm(struct run *r)
{
	if (r->pm->crash) {
		r->pm->crash->before = NULL;
	}
}

/* Reports that a pass left an invalid module, and aborts. */
static void
fail_verify(struct run *r, const struct pass *p)
{
	diag_flush(&r->ctx->diags, r->pm->options.log);
	if (r->pm->crash) {
		pass_crash_write(r->pm->crash);
	}
	die("pass `%s` left a module that breaks the rules above", p->name);
}

/* Counts the run; false if it is past the bisect limit. */
static bool
may_run(struct run *r, const struct pass *p)
{
	const struct pass_options *o = &r->pm->options;
	int64_t n = ++r->pm->runs;
	bool may = o->limit < 0 || n <= o->limit;

	if (o->bisect) {
		fprintf(o->log, "bisect: %s pass (%lld) %s on module %s\n",
			may ? "running" : "not running", (long long)n,
			p->name, r->m->name ? ir_text(r->ctx, r->m->name)
					    : "(unnamed)");
	}
	return may;
}

/* Whether the pass is built in. */
static bool
is_ours(const struct run *r, const struct pass *p)
{
	const struct pass_known *k = pass_find(r->pm->table, p->name);

	return !k || !k->file;
}

/*
 * Only built-in passes may run later passes ahead and reuse results (`ahead`):
 * a plug-in's pass may change anything.  With --verify-each every pass must
 * really run, and without a memo nothing is cached.
 */
static struct pass_ctx
ctx_for(struct run *r, const struct pass *p)
{
	const struct pass_known *k = pass_find(r->pm->table, p->name);
	bool ours = k && is_ours(r, p) && k->pass.run == p->run;

	return (struct pass_ctx){
		.ctx = r->ctx, .stats = &r->pm->stats,
		.search = r->pm->search, .target = r->pm->target,
		.cluster = r->pm->cluster,
		.memo = r->pm->memo,
		.ahead = ours && r->pm->memo && !r->pm->options.verify
			? &r->pm->ahead : NULL
	};
}

/* The text of all `plan.*` settings, valid or not, in arena a. */
static const char *
plan_of(const struct ir_module *m, struct arena *a)
{
	struct buf b;
	uint32_t i, k;

	buf_init(&b, a);
	for (i = 0; i < m->settings.n; i++) {
		const struct ir_setting *s = &m->settings.at[i];
		const char *key = ir_text(m->ctx, s->key);

		if (strncmp(key, "plan.", 5) != 0) {
			continue;
		}
		buf_printf(&b, "%s %d %s", key, (int)s->kind,
			   s->text ? ir_text(m->ctx, s->text) : "");
		for (k = 0; k < s->n; k++) {
			buf_putc(&b, ' ');
			buf_double(&b, s->num[k]);
		}
		buf_putc(&b, '\n');
	}
	return buf_text(&b);
}

/*
 * Runs a plug-in's pass.  If it changed the plan, the plan is checked at once
 * as a user's pins are; later passes would report its errors as the user's.
 */
static bool
run_plugin(struct run *r, const struct pass_known *k, struct pass_ctx *ctx)
{
	struct diags *d = &r->ctx->diags;
	uint32_t errors = d->errors;
	const char *before;
	struct arena a;
	struct plan p;
	bool ok;

	arena_init(&a, &r->ctx->mem);
	before = plan_of(r->m, &a);
	ok = k->pass.run(ctx, r->m);
	if (ok && d->errors == errors &&
	    strcmp(before, plan_of(r->m, &a)) != 0) {
		ok = plan_read(r->m, &p) && plan_names(r->m) &&
		     (!p.schedule_file || plan_schedule(r->m, &p, &a));
	}
	if (d->errors != errors) {
		diag_note(d, nowhere, "this is about pass `%s` of the plug-in "
			  "%s", k->pass.name, k->file);
	}
	arena_release(&a);
	return ok;
}

static bool
run_timed(struct run *r, const struct pass *p, struct pass_ctx *ctx,
	  bool made, struct pass_time *t)
{
	size_t perm_bytes = r->ctx->perm.total_bytes;
	uint32_t errors = r->ctx->diags.errors;
	bool ok = made;

	r->pm->stats.pass = p->name;
	t->wall_us = -clock_us(CLOCK_MONOTONIC);
	t->cpu_us = -clock_us(CLOCK_PROCESS_CPUTIME_ID);
	if (made) {
		pass_ahead_take(&r->pm->ahead, ctx, r->m);
	} else {
		pass_ahead_drop(&r->pm->ahead);
		ok = is_ours(r, p) ? p->run(ctx, r->m)
			: run_plugin(r, pass_find(r->pm->table, p->name), ctx);
	}
	t->cpu_us += clock_us(CLOCK_PROCESS_CPUTIME_ID);
	t->wall_us += clock_us(CLOCK_MONOTONIC);
	t->peak_bytes = (int64_t)(r->ctx->perm.total_bytes - perm_bytes +
				  r->ctx->tmp.total_bytes);
	arena_release(&r->ctx->tmp);
	if (!ok && r->ctx->diags.errors == errors) {
		die("pass `%s` failed without saying why", p->name);
	}
	return r->ctx->diags.errors == errors;
}

static void
log_after(struct run *r, const struct pass *p, bool changed)
{
	const struct pass_options *o = &r->pm->options;

	if (set_has(&o->after, p) || (o->changed && changed)) {
		log_text(r, "after", p);
	} else if (o->changed) {
		fprintf(o->log, "# after %s (unchanged)\n", p->name);
	}
}

/* ---- results that are observed ---- */

/* The first pass that gives a watched property, or the list's end. */
static uint32_t
watched(const struct pass_manager *pm, const struct pass_list *l)
{
	uint32_t i = 0;

	while (i < l->at.n && !(l->at.at[i]->gives & pm->watch)) {
		i++;
	}
	return i;
}

static bool
is_seen(const struct run *r, const struct pass_list *l, uint32_t at)
{
	const struct pass_options *o = &r->pm->options;
	const struct pass *p = l->at.at[at];

	return at + 1 == l->at.n || compares(r) || o->limit >= 0 ||
	       watched(r->pm, l) == at + 1 || set_has(&o->after, p) ||
	       set_has(&o->before, l->at.at[at + 1]) ||
	       (o->stop && strcmp(o->stop->name, p->name) == 0);
}

/* Lists the later passes, for a pass that runs them ahead. */
static void
tell_what_follows(struct run *r, const struct pass_list *l, uint32_t at)
{
	struct pass_ahead *a = &r->pm->ahead;

	a->follow.n = 0;
	while (++at < l->at.n) {
		struct pass_follow f = { l->at.at[at]->run,
					 is_seen(r, l, at) };

		VEC_PUSH(&r->ctx->perm, &a->follow, f);
	}
}

/* ---- a list ---- */

/* Runs one pass; false after errors. */
static bool
run_one(struct run *r, const struct pass_list *l, uint32_t at)
{
	const struct pass_options *o = &r->pm->options;
	const struct pass *p = l->at.at[at];
	struct pass_ctx ctx = ctx_for(r, p);
	bool made = ctx.ahead && pass_ahead_has(ctx.ahead, &ctx, p->run);
	struct pass_time t = { .pass = p };

	if (!may_run(r, p)) {
		pass_ahead_drop(&r->pm->ahead);
		t.skipped = true;
		VEC_PUSH(&r->ctx->perm, &r->pm->times, t);
		return true;
	}
	if (o->verbose) {
		fprintf(o->log, "llmc: pass %s\n", p->name);
	}
	if (set_has(&o->before, p)) {
		log_text(r, "before", p);
	}
	if (!made) {
		tell_what_follows(r, l, at);
		arm(r, p);
	}
	if (!run_timed(r, p, &ctx, made, &t)) {
		disarm(r);
		return false;
	}
	t.changed = take_text(r);
	if (o->verify && !ir_verify(r->m)) {
		fail_verify(r, p);
	}
	disarm(r);
	arena_release(&r->ctx->tmp);
	log_after(r, p, t.changed);
	VEC_PUSH(&r->ctx->perm, &r->pm->times, t);
	return true;
}

static bool
run_list(struct run *r, const struct pass_list *l)
{
	const struct pass_manager *pm = r->pm;
	const struct pass *stop = pm->options.stop;
	uint32_t watch = watched(pm, l), i;

	take_text(r);
	for (i = 0; i < l->at.n; i++) {
		if (i == watch && !pm->look(pm->user, r->m)) {
			return false;
		}
		arena_release(&r->ctx->tmp);
		if (!run_one(r, l, i)) {
			return false;
		}
		if (stop && strcmp(stop->name, l->at.at[i]->name) == 0) {
			break;
		}
	}
	return true;
}

enum pass_result
pass_run(struct pass_manager *pm, const struct pass_list *l,
	 struct ir_module *m)
{
	struct ir_ctx *c = m->ctx;
	struct run r = { .pm = pm, .ctx = c, .m = m };
	struct buf why;
	bool ok;

	if (!ir_verify(m)) {
		return PASS_BAD_INPUT;
	}
	buf_init(&why, &c->perm);
	if (!pass_order(pm->table, l, pass_props(m), &why)) {
		diag_error(&c->diags, nowhere, "%s", buf_text(&why));
		return PASS_BAD_ORDER;
	}
	arena_release(&c->tmp);
	ok = run_list(&r, l);
	pass_ahead_drop(&pm->ahead);
	pass_manager_release(pm);
	return ok ? PASS_OK : PASS_BAD_INPUT;
}

enum pass_result
pass_apply_for(struct ir_module *m, const char *passes,
	       const struct target *cluster, bool ours, struct memo *memo,
	       bool verify)
{
	enum pass_result result = PASS_BAD_ORDER;
	struct pass_list l = { 0 };
	struct pass_table table;
	struct pass_manager pm;

	pass_table_init(&table, m->ctx);
	pass_manager_init(&pm, &table);
	pm.options.verify = verify;
	pm.cluster = cluster;
	pm.target = ours ? cluster : NULL;
	pm.memo = memo;
	if (pass_list_parse(&table, &l, passes)) {
		result = pass_run(&pm, &l, m);
	}
	pass_manager_release(&pm);
	pass_table_release(&table);
	return result;
}

enum pass_result
pass_apply(struct ir_module *m, const char *passes, bool verify)
{
	return pass_apply_for(m, passes, NULL, false, NULL, verify);
}

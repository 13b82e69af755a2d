/*
 * Binaries compute what the model means: random small models under random
 * plans over up to 8 ranks are compiled for the CPU and run as processes.
 * The losses of five steps are those of the one-rank binary and of the
 * float64 interpreter.  The same plan twice gives the same bits, losses and
 * checkpoint, whatever the number of threads, and so does a run that stops
 * and resumes.
 *
 * DIFF_DEVICE=emulate compiles plans for a GPU instead, and emulates it: the
 * losses are those of the one-rank binary for the CPU, and either goes on from
 * a checkpoint of the other.
 *
 * make check tries two plans of 40 on each day, and with emulated GPUs one of
 * four.  DIFF_PAIRS=N how many, all of them, DIFF_SEED=S from which
 * seed, DIFF_SECONDS=T goes on for so long instead, DIFF_JOBS=J so many at a
 * time, DIFF_TELL=1 says what was refused.  What fails is left in its folder,
 * and the commands printed.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MOST_RANKS 8
#include "tests/unit/shared/t-cases.h"
#include "tests/unit/shared/t-cpu.h"
#include "tests/unit/shared/t-split.h"

#define STEPS 5
#define ALL "--steps 5"
/* Plans of one model, whose other two runs they share, and models: make check
 * tries every second plan of one on each day.  What is emulated: one plan. */
#define PLANS 4
#define MODELS 10
#define EMULATED_PLANS 2
#define EMULATED_MODELS 2
#define JOBS 2
/* Of the first loss, or of this one if that is more. */
#define CLOSE_RANKS 1e-5
#define CLOSE_F64 1e-4
#define CLOSE_BF16 2e-2

enum outcome { SAME, REFUSED, DIFFERENT, OUTCOMES };

struct losses {
	double at[STEPS];
	int n;
};

/* A model, its folder, and what was run there. */
struct run {
	struct arena a;
	struct mem mem;
	const char *dir;
	uint64_t seed, built;	/* binaries, by now */
	bool bf16;
	const char *arch;	/* of a GPU; NULL: the CPU */
	struct losses f64, one;
	struct buf said;	/* commands, to be repeated by hand */
	const char *why;
};

static const char *
text(struct run *r, const char *fmt, ...)
{
	struct buf b;
	va_list ap;

	buf_init(&b, &r->a);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	return buf_text(&b);
}

static bool
run_in(struct run *r, const char *out, const char *command)
{
	const char *all = text(r, "cd %s && %s >%s 2>err", r->dir, command,
			       out);

	buf_printf(&r->said, "%s\n", all);
	return system(all) == 0;
}

static char *
slurp(struct run *r, const char *name)
{
	FILE *f = fopen(text(r, "%s/%s", r->dir, name), "rb");
	struct buf b;
	char part[4096];
	size_t n;

	buf_init(&b, &r->a);
	while (f && (n = fread(part, 1, sizeof part, f)) > 0) {
		buf_add(&b, part, n);
	}
	if (f) {
		fclose(f);
	}
	buf_puts(&b, "");
	return b.at;
}

static void
spill(struct run *r, const char *name, const char *what)
{
	FILE *f = fopen(text(r, "%s/%s", r->dir, name), "wb");

	assert_non_null(f);
	assert_true(fputs(what, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* What follows `before` in each line that has `step`. */
static void
read_losses(const char *at, const char *step, const char *before,
	    struct losses *out)
{
	const char *end, *found;

	out->n = 0;
	for (; *at; at = *end ? end + 1 : end) {
		end = at + strcspn(at, "\n");
		found = strstr(at, step);
		if (!found || found > end) {
			continue;
		}
		found = strstr(found, before);
		if (found && found < end && out->n < STEPS) {
			out->at[out->n++] = strtod(found + strlen(before),
						   NULL);
		}
	}
}

static bool
hold(struct run *r, const struct losses *got, const struct losses *want,
     double close, const char *what)
{
	double scale = fabs(want->at[0]), most;
	int i;

	for (i = 0; i < STEPS; i++) {
		most = fmax(fabs(want->at[i]), scale) * close;
		if (got->n != STEPS || want->n != STEPS ||
		    !(fabs(got->at[i] - want->at[i]) <= most)) {
			r->why = text(r, "%s: loss of step %d is %.17g, and "
				      "%.17g is expected (%d and %d steps)",
				      what, i + 1, got->at[i], want->at[i],
				      got->n, want->n);
			return false;
		}
	}
	return true;
}

/*
 * `name`.llp from pins, and from that the folder of a binary.  What the plan
 * asks of the model may be refused, and what is not compiled yet.  Three of
 * four are drafts, which takes a quarter of the time.  They are for one after
 * the other of the CPUs that this one can stand for.
 */
static enum outcome
build(struct run *r, const char *name, const char *pins, const char *target)
{
	if (!run_in(r, text(r, "%s.llp", name),
		    text(r, "$LLMC --emit=plan --pin '%s' model.llm", pins))) {
		return REFUSED;
	}
	if (!run_in(r, "answer", text(r, "$LLMC --no-whole%s --target %s "
				      "--cpu %s --plan %s.llp -o %s model.llm",
				      r->seed % 4 ? " --draft" : "", target,
				      t_cpu_alone(r->seed + r->built++), name,
				      name))) {
		if (strstr(slurp(r, "err"), "not compiled yet")) {
			return REFUSED;
		}
		r->why = "no binary";
		return DIFFERENT;
	}
	return SAME;
}

/* Trains on what is drawn; the log and the checkpoint are named for `as`. */
static bool
train(struct run *r, const char *name, const char *as, const char *options,
      struct losses *out)
{
	const char *log = text(r, "%s.jsonl", as);

	if (!run_in(r, "out", text(r, "timeout %d %s/rank train --local "
				   "--data draw --seed 7 --checkpoint %s.ck "
				   "--log %s %s", r->arch ? 900 : 300, name,
				   as, log, options))) {
		r->why = text(r, "%s does not run", name);
		return false;
	}
	read_losses(slurp(r, log), "\"step\":", "\"loss\":", out);
	return true;
}

/* Results that a plan has no part in. */
static enum outcome
run_model(struct run *r, const struct pair *p)
{
	enum outcome o;

	spill(r, "model.llm", model_text(&r->a, p));
	if (!run_in(r, "f64", text(r, "$LLMC eval --seed 7 --steps %d "
				   "model.llm", STEPS))) {
		r->why = "the interpreter does not run";
		return DIFFERENT;
	}
	read_losses(slurp(r, "f64"), "step ", "loss ", &r->f64);
	o = build(r, "one", "pp=1", "cpux1");
	if (o != SAME) {
		r->why = r->why ? r->why : "one rank is refused";
		return DIFFERENT;
	}
	if (!train(r, "one", "one", ALL " --threads 1", &r->one)) {
		return DIFFERENT;
	}
	return hold(r, &r->one, &r->f64, r->bf16 ? CLOSE_BF16 : CLOSE_F64,
		    "one rank beside float64") ? SAME : DIFFERENT;
}

static enum outcome
run_plan(struct run *r, const struct pair *p)
{
	double close = r->bf16 ? CLOSE_BF16 : CLOSE_RANKS;
	struct losses first, again;
	enum outcome o = build(r, "split", plan_text(&r->a, p),
			       text(r, "cpux%d", ranks_of(p)));

	if (o != SAME) {
		return o;
	}
	if (!train(r, "split", "first", ALL " --threads 1", &first) ||
	    !train(r, "split", "again", ALL " --threads 3", &again) ||
	    !hold(r, &first, &r->one, close, "split beside one rank") ||
	    !hold(r, &again, &first, 0, "the same once more") ||
	    !train(r, "split", "part", "--steps 2", &again) ||
	    !train(r, "split", "part", ALL " --resume", &again) ||
	    !hold(r, &again, &first, 0, "stopped and resumed")) {
		return DIFFERENT;
	}
	if (!run_in(r, "out", "diff -r first.ck again.ck") ||
	    !run_in(r, "out", "diff -r first.ck/*5 part.ck/*5")) {
		r->why = "checkpoints differ";
		return DIFFERENT;
	}
	/* folders of the next plan */
	run_in(r, "out", "rm -rf split first.* again.* part.*");
	return SAME;
}

/* What stopped in one binary goes on in another. */
static bool
goes_on(struct run *r, const char *from, const char *to, const char *as,
	const char *options, struct losses *out)
{
	const char *emulate = "--steps 2 --device emulate";
	bool starts = strcmp(from, "split") == 0;

	return train(r, from, as, starts ? emulate : "--steps 2", out) &&
	       train(r, to, as, options, out);
}

static enum outcome
run_emulated(struct run *r, const struct pair *p)
{
	double close = r->bf16 ? CLOSE_BF16 : CLOSE_RANKS;
	enum outcome o = build(r, "split", plan_text(&r->a, p),
			       text(r, "h100x%d --arch %s", ranks_of(p),
				    r->arch));
	struct losses got;

	if (o != SAME) {
		return o;
	}
	if (!train(r, "split", "all", ALL " --device emulate", &got) ||
	    !hold(r, &got, &r->one, close, "emulated beside the CPU") ||
	    !goes_on(r, "split", "one", "there", ALL " --resume", &got) ||
	    !hold(r, &got, &r->one, close, "from the GPU to the CPU") ||
	    !goes_on(r, "one", "split", "back",
		     ALL " --resume --device emulate", &got) ||
	    !hold(r, &got, &r->one, close, "from the CPU to the GPU")) {
		return DIFFERENT;
	}
	run_in(r, "out", "rm -rf split all.* there.* back.*");
	return SAME;
}

/* Most vectors are longer than those of the smallest models. */
static struct pair
pair_of(uint64_t seed, uint64_t plan)
{
	static const int scales[] = { 1, 1, 2, 4 };
	struct pair p = random_pair(seed), q;
	int scale = scales[seed % 4], i;

	q = random_pair(seed * 1000 + plan);
	for (i = NR_DP; i < NR_COUNT; i++) {
		p.n[i] = q.n[i];
	}
	/* a rounding that chooses another expert is no error, nor bounded */
	if (p.n[NR_BF16]) {
		p.n[NR_EXPERTS] = 0;
	}
	make_sense(&p);
	/* microbatches of different sizes are not compiled */
	if (p.n[NR_BATCH] % (p.n[NR_DP] * p.n[NR_EP]) != 0) {
		p.n[NR_EP] = 1;
	}
	while (p.n[NR_MICRO] > 1 &&
	       p.n[NR_BATCH] / (p.n[NR_DP] * p.n[NR_EP]) % p.n[NR_MICRO]) {
		p.n[NR_MICRO]--;
	}
	/* large steps make any rounding large */
	p.n[NR_OPTIMIZER] = p.n[NR_BF16] ? 3 : p.n[NR_OPTIMIZER] + 3;
	p.n[NR_HIDDEN] *= scale;
	p.n[NR_FFN] *= scale;
	p.n[NR_VOCAB] *= scale;
	p.n[NR_HD] *= scale > 1 ? 4 : 1;
	return p;
}

static void
tell(struct run *r, const char *what, uint64_t plan)
{
	fprintf(stderr, "%s: %s\n%s%s", what, r->why ? r->why : "",
		buf_text(&r->said), slurp(r, "err"));
	fprintf(stderr, "again: DIFF_SEED=%llu DIFF_PAIRS=%llu\n",
		(unsigned long long)r->seed, (unsigned long long)plan + 1);
}

static bool
emulates(void)
{
	const char *s = getenv("DIFF_DEVICE");

	return s && strcmp(s, "emulate") == 0;
}

/* Whether the user says which. */
static bool
is_asked(void)
{
	return getenv("DIFF_SEED") || getenv("DIFF_PAIRS") ||
	       getenv("DIFF_SECONDS");
}

/* Is this plan of a model one of today's? */
static bool
is_tried(uint64_t seed, uint64_t plan)
{
	uint32_t emulated = EMULATED_MODELS * EMULATED_PLANS;

	if (is_asked()) {
		return true;
	}
	return emulates() ? t_today(seed * EMULATED_PLANS + plan, emulated)
			  : t_today(seed * 2 + plan % 2, MODELS * 2);
}

static bool
is_any_tried(uint64_t seed, uint64_t plans)
{
	uint64_t i;

	for (i = 0; i < plans && !is_tried(seed, i); i++) {
	}
	return i < plans;
}

/* Up to `plans` plans of one model; adds up what came of them. */
static enum outcome
run_seed(uint64_t seed, uint64_t plans, const char *tmp, uint64_t *done)
{
	struct run r = { .seed = seed };
	struct pair p = pair_of(seed, 0);
	enum outcome o;
	size_t model;
	uint64_t i, last = 0;

	if (!is_any_tried(seed, plans)) {
		return SAME;
	}
	mem_init(&r.mem);
	arena_init(&r.a, &r.mem);
	buf_init(&r.said, &r.a);
	r.dir = text(&r, "%s/%llu", tmp, (unsigned long long)seed);
	r.bf16 = p.n[NR_BF16] != 0;
	if (emulates()) {
		r.arch = seed % 2 ? "sm_80" : "sm_90a";
	}
	if (system(text(&r, "mkdir %s", r.dir)) != 0) {
		return DIFFERENT;
	}
	o = run_model(&r, &p);
	model = r.said.n;
	for (i = 0; i < plans && o != DIFFERENT; i++) {
		if (!is_tried(seed, i)) {
			continue;
		}
		last = i;
		r.said.n = model;
		p = pair_of(seed, i);
		o = r.arch ? run_emulated(&r, &p) : run_plan(&r, &p);
		if (o == REFUSED && getenv("DIFF_TELL")) {
			tell(&r, "refused", i);
		}
		done[o]++;
	}
	if (o == DIFFERENT) {
		tell(&r, "different", last);
	} else if (system(text(&r, "rm -rf %s", r.dir)) != 0) {
		o = DIFFERENT;
	}
	arena_release(&r.a);
	return o;
}

static uint64_t
from_env(const char *name, uint64_t absent)
{
	const char *s = getenv(name);

	return s && *s ? strtoull(s, NULL, 10) : absent;
}

/* Every jobs-th model; its counts go to the pipe. */
static int
work(uint64_t job, uint64_t jobs, const char *tmp, int to)
{
	uint64_t seed = from_env("DIFF_SEED", 1), done[OUTCOMES] = { 0 };
	uint64_t seconds = from_env("DIFF_SECONDS", 0);
	uint64_t plans = emulates() ? EMULATED_PLANS : PLANS;
	uint64_t all = plans * (emulates() ? EMULATED_MODELS : MODELS);
	uint64_t pairs = from_env("DIFF_PAIRS", all), i, left;
	time_t start = time(NULL);
	bool bad = false;

	for (i = job; seconds || i * plans < pairs; i += jobs) {
		if (seconds && (uint64_t)(time(NULL) - start) >= seconds) {
			break;
		}
		left = seconds || pairs - i * plans > plans ? plans
			: pairs - i * plans;
		bad = run_seed(seed + i, left, tmp, done) == DIFFERENT;
		if (bad) {
			break;
		}
	}
	return write(to, done, sizeof done) != sizeof done || bad;
}

static void
test_pairs(void **state)
{
	uint64_t jobs = from_env("DIFF_JOBS", JOBS), done[OUTCOMES] = { 0 };
	uint64_t part[OUTCOMES], i;
	char tmp[] = "t-differential-XXXXXX";
	int pipes[2], status, bad = 0;

	(void)state;
	if (!getenv("LLMC")) {
		skip();
	}
	assert_non_null(mkdtemp(tmp));
	assert_int_equal(pipe(pipes), 0);
	fflush(NULL);
	for (i = 0; i < jobs; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (pid == 0) {
			_exit(work(i, jobs, tmp, pipes[1]));
		}
	}
	close(pipes[1]);
	while (wait(&status) > 0) {
		bad += status != 0;
	}
	while (read(pipes[0], part, sizeof part) == sizeof part) {
		for (i = 0; i < OUTCOMES; i++) {
			done[i] += part[i];
		}
	}
	close(pipes[0]);
	printf("%llu pairs the same, %llu refused\n",
	       (unsigned long long)done[SAME],
	       (unsigned long long)done[REFUSED]);
	assert_int_equal(bad, 0);
	assert_int_equal(rmdir(tmp), 0);
	assert_true(done[SAME] > 0);
	/* of few pairs one may be */
	assert_true(done[REFUSED] <= 1 || done[REFUSED] * 10 <= done[SAME]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_pairs) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

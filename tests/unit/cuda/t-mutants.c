/*
 * Faults planted in the text of kernels, one at a time: a fence, a barrier or a
 * wait that is not there, a stage that is freed too early or never, a wrong
 * parity, a partial sum that is lost.  Each must be found, by the checks of the
 * emulator or by results that are not the interpreter's.  The faults and the
 * kernels are in mutants*.def; a text that no kernel has any more is an error.
 *
 * MUTANTS=all: all of them, as a table; MUTANTS=NAME: those of a case;
 * MUTANTS=3, which is the default: so many, drawn by MUTANTS_SEED or by the
 * day.  T_CUDA_DUMP=FOLDER/ keeps their texts.
 *
 * DROPPED=all or DROPPED=NAME: of all kernels, or of a case's, each wait,
 * fence, barrier and commit is dropped in turn, or each DROPPED_EACH-th.
 *
 * Rows of the cases `gaps` and `gaps_maps` lie apart; in the latter maps are
 * wrong, which are no text: see tc.maps.
 */
#include <ctype.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/cuda/t-cuda.h"

struct case_of {
	const char *name, *arch;
	int units;		/* multiprocessors; 0: as many as usual */
	int splits, cluster;	/* of its tile; 0: any */
	double most;		/* of the largest element */
	const char *ir;
};

struct mutant {
	const char *name;	/* of the case */
	const char *text, *other;
	const char *says;	/* in the report */
};

#define CASE(name, arch, units, splits, cluster, most, ir) \
	{ name, arch, units, splits, cluster, most, ir },
#define MUTANT(name, text, other, says)
static const struct case_of cases[] = {
#include "tests/unit/cuda/mutants.def"
#include "tests/unit/cuda/mutants-attention.def"
#include "tests/unit/cuda/mutants-launch.def"
#include "tests/unit/cuda/mutants-single.def"
};
#undef CASE
#undef MUTANT

#define CASE(name, arch, units, splits, cluster, most, ir)
#define MUTANT(name, text, other, says) { name, text, other, says },
static const struct mutant mutants[] = {
#include "tests/unit/cuda/mutants.def"
#include "tests/unit/cuda/mutants-attention.def"
#include "tests/unit/cuda/mutants-launch.def"
#include "tests/unit/cuda/mutants-single.def"
};
#undef CASE
#undef MUTANT

enum {
	CASES = sizeof cases / sizeof cases[0],
	MUTANTS = sizeof mutants / sizeof mutants[0],
	GONE = 9,		/* exit status: no such text */
	/* of the processor, after which a kernel is said to run for ever; the
	 * slowest of them takes less than a fifth of that */
	MOST_SECONDS = 10
};

#define FOR_EVER "ran for ever"

/* ---- one of them, in a process of its own ---- */

/* Has the tile that the case asks for. */
static void
force_tile(struct tc *c, const struct case_of *x)
{
	struct cu_tiling *t = c->c.tiling;
	struct cu_candidates ways;
	uint32_t i;

	tc_text(c, x->ir, x->most);
	ways = t->last.at[0];
	for (i = 0; i < ways.at.n && !t->force; i++) {
		const struct plan_tile *p = &ways.at.at[i].tile;

		if (p->num[PLAN_TILE_SPLITS] == x->splits &&
		    p->num[PLAN_TILE_CLUSTER] == x->cluster) {
			t->force = p;
		}
	}
	if (!t->force) {
		fail_msg("no such tile");
	}
}

static bool
replace(struct tc *c, struct buf *b, const struct mutant *m)
{
	const char *from = buf_text(b), *at;
	bool any = false;
	struct buf out;

	buf_init(&out, &c->a);
	for (; (at = strstr(from, m->text)); from = at + strlen(m->text)) {
		buf_printf(&out, "%.*s%s", (int)(at - from), from, m->other);
		any = true;
	}
	buf_puts(&out, from);
	*b = out;
	return any;
}

/* What a place is where threads, copies or products are waited for, or ordered:
 * a statement that begins with a call of one of these. */
static const char *const waits[] = {
	"sync_block(", "sync_warp(", "sync_named(", "mbar_wait(",
	"fence_async(", "fence_mbar_init(", "launch_wait(", "cluster_sync(",
	"cluster_arrive(", "cluster_wait(", "cp_async_commit(",
	"cp_async_wait(", "tma_commit(", "tma_wait(", "tma_wait_read(",
	"wg_fence(", "wg_commit(", "wg_wait(", "tc_commit(",
	"tc_commit_multi(", "tc_fence_before(", "tc_fence_after(", "tc_wait(",
	"tc_wait_st(", "count_wait(", "count_next("
};

static bool
is_place(const char *line)
{
	size_t i;

	for (i = 0; i < sizeof waits / sizeof waits[0]; i++) {
		if (strncmp(line, waits[i], strlen(waits[i])) == 0) {
			return true;
		}
	}
	return false;
}

/* Drops that place of a text, of which so many came before; true: it was there.
 * It is said which one, as the lines around it. */
static bool
drop(struct tc *c, struct buf *b, int *before, int place)
{
	const char *text = buf_text(b), *line = text, *last = text, *end;
	struct buf out;

	for (; *line; last = line, line = end + 1) {
		const char *at = line + strspn(line, "\t");

		end = strchr(line, '\n');
		if (!end) {
			break;
		}
		if (!is_place(at) || (*before)++ != place) {
			continue;
		}
		end = strchr(at, ';');
		printf("%.*s", (int)(strchr(end + 2, '\n') - last), last);
		fflush(stdout);
		buf_init(&out, &c->a);
		buf_printf(&out, "%.*s%s", (int)(at - text), text, end);
		*b = out;
		return true;
	}
	return false;
}

/* This process ends by SIGXCPU, without a core, if a kernel does not end. */
static void
limit_time(void)
{
	const struct rlimit most = { MOST_SECONDS, MOST_SECONDS + 1 };
	const struct rlimit none = { 0, 0 };

	assert_int_equal(setrlimit(RLIMIT_CORE, &none), 0);
	assert_int_equal(setrlimit(RLIMIT_CPU, &most), 0);
}

/* Plants a mistake in maps, if it is one. */
static bool
plant_maps(struct tc *c, const struct mutant *m)
{
	c->maps = strcmp(m->text, "size of maps") == 0 ? TC_MAPS_WIDE
		: strcmp(m->text, "stride of maps") == 0 ? TC_MAPS_DENSE
		: TC_MAPS_RIGHT;
	return c->maps != TC_MAPS_RIGHT;
}

/* m NULL: as it is, but for a place that is dropped, if one is. */
static void
run_case(const struct case_of *x, const struct mutant *m, int place)
{
	struct cg_tiling in = { .list = true };
	bool any = !m && place < 0;
	int before = 0;
	const char *dump = getenv("T_CUDA_DUMP");
	struct tc c;
	uint32_t i;

	tc_open(&c, NULL, x->arch);
	if (dump) {
		setenv("T_CUDA_DUMP", arena_printf(&c.a, "%s%s-", dump,
						   x->name), 1);
	}
	c.c.units = x->units ? x->units : c.c.units;
	c.c.joint_scratch = strcmp(x->name, "joint") ? 0 : COST_JOINT_SCRATCH;
	c.apart = strncmp(x->name, "gaps", 4) == 0;
	any |= m && plant_maps(&c, m);
	if (x->cluster) {
		c.c.tiling = cu_tiling_open(&c.a, &in);
		force_tile(&c, x);
		c.modules.n = 0;
		for (i = 0; i < TC_SOURCES; i++) {
			buf_init(&c.source[i], &c.a);
		}
	}
	tc_text(&c, x->ir, x->most);
	c.c.tiling = NULL;
	for (i = 0; m && i < TC_SOURCES; i++) {
		any |= replace(&c, &c.source[i], m);
	}
	for (i = 0; place >= 0 && !any && i < TC_SOURCES; i++) {
		any = drop(&c, &c.source[i], &before, place);
	}
	if (!any || c.refused) {
		_exit(GONE);
	}
	tc_run(&c, RT_EMU_CHECK);
	_exit(0);
}

/* Its exit status, and what it wrote. */
static int
run_apart(const struct case_of *x, const struct mutant *m, int place,
	  char *said, size_t most)
{
	int ends[2], status = 0;
	size_t n = 0;
	ssize_t got;
	pid_t child;

	fflush(NULL);
	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		limit_time();
		run_case(x, m, place);
	}
	close(ends[1]);
	while ((got = read(ends[0], said + n, most - 1 - n)) > 0) {
		n += (size_t)got;
	}
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	snprintf(said + n, most - n, "%s", WIFSIGNALED(status) &&
		 WTERMSIG(status) == SIGXCPU ? FOR_EVER : "");
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- those that are tried ---- */

static const struct case_of *
case_of(const struct mutant *m)
{
	uint32_t i;

	for (i = 0; i < CASES && strcmp(cases[i].name, m->name) != 0; i++) {
	}
	assert_true(i < CASES);
	return &cases[i];
}

/* A text in one line. */
static void
print_text(const char *s)
{
	for (; *s; s++) {
		if (*s != '\t') {
			putchar(*s == '\n' ? ' ' : *s);
		}
	}
}

static int
try_mutant(const struct mutant *m)
{
	static char said[1 << 16];
	int status = run_apart(case_of(m), m, -1, said, sizeof said);
	bool found = status != 0 && status != GONE && strstr(said, m->says);

	printf("%s\t%s\t", found ? "found" : "MISSED", m->name);
	print_text(m->text);
	printf("\t");
	print_text(m->other);
	printf("\t%s\n", status == GONE ? "no kernel has this text" : m->says);
	if (!found && status != GONE) {
		printf("exit status %d: %s\n", status, said);
	}
	fflush(stdout);
	return !found;
}

static int
try_case(const struct case_of *x)
{
	static char said[1 << 16];
	int status = run_apart(x, NULL, -1, said, sizeof said);

	if (status != 0) {
		printf("%s is wrong as it is, exit status %d: %s\n", x->name,
		       status, said);
	}
	return status != 0;
}

/* Drops a place: 0: it was seen, 1: not, -1: there is none. */
static int
try_place(const struct case_of *x, int place)
{
	static char said[1 << 16];
	int status = run_apart(x, NULL, place, said, sizeof said);

	if (status == GONE) {
		return -1;
	}
	printf("%s\t%s\t%d\t", status ? "seen" : "UNSEEN", x->name, place);
	print_text(status ? strchr(said, '\n') : said);
	printf("\n");
	fflush(stdout);
	return status == 0;
}

/* Of each case, or of one, each place in turn, or some.  That a kernel's own
 * run shows no lack is no failure: docs/cuda.md says of which that is known. */
static int
try_places(const char *name)
{
	const char *of = getenv("DROPPED_EACH");
	int each = of ? atoi(of) : 1, n = 0, unseen = 0, r, place;
	uint32_t i;

	if (each < 1) {
		fprintf(stderr, "DROPPED_EACH is %s, and 1 is the least\n", of);
		return 2;
	}
	for (i = 0; i < CASES; i++) {
		if (strcmp(name, "all") != 0 &&
		    strcmp(cases[i].name, name) != 0) {
			continue;
		}
		for (place = (int)t_day() % each;
		     (r = try_place(&cases[i], place)) >= 0; place += each) {
			unseen += r;
			n++;
		}
	}
	printf("%d places, %d unseen\n", n, unseen);
	return n == 0;
}

/* Those of a case, or of all. */
static int
try_all(const char *name)
{
	bool all = strcmp(name, "all") == 0;
	int bad = 0, kernels = 0, n = 0;
	uint32_t i;

	for (i = 0; i < CASES; i++) {
		if (all || strcmp(cases[i].name, name) == 0) {
			bad += try_case(&cases[i]);
			kernels++;
		}
	}
	for (i = 0; i < MUTANTS; i++) {
		if (all || strcmp(mutants[i].name, name) == 0) {
			bad += try_mutant(&mutants[i]);
			n++;
		}
	}
	printf("%d mutants of %d kernels, %d wrong or missed\n", n, kernels,
	       bad);
	return bad != 0 || kernels == 0;
}

static int
try_some(long n)
{
	const char *seed = getenv("MUTANTS_SEED");
	uint64_t x = seed ? strtoull(seed, NULL, 0) : t_day();
	int bad = 0;

	printf("MUTANTS_SEED=%llu\n", (unsigned long long)x);
	while (n-- > 0) {
		const struct mutant *m;

		x = x * 6364136223846793005u + 1442695040888963407u;
		m = &mutants[(x >> 33) % MUTANTS];
		bad += try_case(case_of(m)) + try_mutant(m);
	}
	return bad != 0;
}

int
main(void)
{
	const char *which = getenv("MUTANTS"), *of = getenv("DROPPED");

	if (!rt_emu_possible()) {
		return 77;
	}
	if (of) {
		return try_places(of);
	}
	return which && !isdigit((unsigned char)*which) ? try_all(which)
		: try_some(which ? atol(which) : 3);
}

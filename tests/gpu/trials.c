/*
 * Measures and checks the folder of `llmc --trials` on the GPU of this
 * machine, which needs its driver alone: no llmc, no compiler.
 *
 *	trials FOLDER/trials [ONLY [ROUNDS]]
 *
 * ONLY: `contractions`, `attention`, of that `attention-backward`, or `maps`,
 * which have no choice of tiles; or a part of a case's name; or "" for all.
 * Candidates of a case take turns.
 * LLMC_LIBCUDA names a libcuda that is not where a loader looks.  The exit
 * status is 1 if something is wrong or missing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/trials.h"

/* Another tile than the first is worth a row from here on: see autotune.c. */
#define LEAST_GAIN 0.02

static struct trials all;

/* A driver of the tests finds its images here. */
struct rt_images llmc_trials_images;
const struct rt_plan llmc_plan = { .arch = "sm_90a",
				   .images = &llmc_trials_images };

static struct {
	int measured, wrong, compared, faster;
	char *rows;		/* of a plan */
	size_t bytes;
	FILE *to;
} found;

/* ---- showing ---- */

static void
show_number(double v, int width, int digits, const char *unit)
{
	if (v > 0) {
		printf(" %*.*f%s", width, digits, v, unit);
	} else {
		printf(" %*s%s", width, "-", *unit ? " " : "");
	}
}

static void
show_way(const struct trial_case *x, size_t i, double clock_mhz)
{
	const struct rt_tune_way *w = &x->ways[i];
	const struct trial *t = &x->trials[i];
	double gflops = x->flops / w->us * 1e-3, gbs = x->bytes / w->us * 1e-3;

	show_number(w->us, 10, 1, "");
	show_number(clock_mhz > 0 ? t->cycles / clock_mhz : 0, 10, 1, "");
	show_number(gflops * 1e-3, 9, 2, "");
	show_number(x->peak_flops_us > 0 ? 100 * x->flops / w->us /
		    x->peak_flops_us : 0, 6, 1, "%");
	show_number(gbs, 8, 1, "");
	show_number(x->peak_bytes_us > 0 ? 100 * x->bytes / w->us /
		    x->peak_bytes_us : 0, 6, 1, "%");
	printf("  %s%s\n", *t->tile ? t->tile : "no choice",
	       t->spill_bytes > 0 ? ", spills" : "");
}

static void
show_wrong(const struct trial_case *x, const struct rt_tune_way *w)
{
	printf("  WRONG: %lld of %lld elements; element %lld of buffer %lld "
	       "is %.9g where %.9g is right: %s\n", (long long)w->wrong,
	       (long long)w->checked, (long long)w->first.at,
	       (long long)w->first.buffer, w->first.got, w->first.want,
	       x->trials[w - x->ways].tile);
	found.wrong++;
}

static void
show_case(const struct trial_case *x, double clock_mhz)
{
	int64_t checked = 0;
	size_t i;

	printf("%s\n  %lld of the plan;", x->what, (long long)x->nkernels);
	if (x->us > 0) {
		printf(" predicted %.1f us;", x->us);
	}
	printf(" %.4g GFLOP, %.4g MB\n", x->flops * 1e-9, x->bytes * 1e-6);
	printf("%11s %10s %9s %7s %8s %7s\n", "us", "estimated", "TFLOP/s",
	       "of peak", "GB/s", "of peak");
	for (i = 0; i < x->ntrials; i++) {
		show_way(x, i, clock_mhz);
	}
	for (i = 0; i < x->ntrials; i++) {
		if (x->ways[i].wrong) {
			show_wrong(x, &x->ways[i]);
		}
		checked += x->ways[i].checked;
	}
	if (checked > 0) {
		printf("  compared %lld elements with %s\n", (long long)checked,
		       x->ways[0].by_host ? "the host's float64, bit by bit"
					  : "the first candidate's");
		found.compared++;
	}
}

/* ---- measuring ---- */

/* The first, unless another takes less by LEAST_GAIN and neither spills nor is
 * wrong. */
static void
keep_best(const struct trial_case *x)
{
	size_t best = 0, i;

	for (i = 1; i < x->ntrials; i++) {
		if (x->ways[i].us < x->ways[0].us * (1 - LEAST_GAIN) &&
		    x->ways[i].us < x->ways[best].us && !x->ways[i].wrong &&
		    x->trials[i].spill_bytes == 0) {
			best = i;
		}
	}
	if (best > 0) {
		fprintf(found.to, "%s\"%s: %s\"", found.faster++
			? ",\n    " : "", x->what, x->trials[best].tile);
	}
}

static enum rt_status
measure(struct rt_tuner *t, struct trial_case *x, int rounds,
	struct rt_error *err)
{
	struct rt_tune_case c = { .buffers = x->buffers,
		.nbuffers = (uint32_t)x->nbuffers,
		.nways = (uint32_t)x->ntrials, .ways = x->ways,
		.product = x->has_product ? &x->product : NULL,
		.rounds = rounds };
	enum rt_status status = rt_tuner_check(t, &c, err);

	if (status == RT_OK) {
		status = rt_tuner_run(t, &c, err);
	}
	if (status == RT_OK) {
		found.measured++;
		show_case(x, rt_tuner_clock_mhz(t));
		fflush(stdout);
		keep_best(x);
	}
	return status;
}

/* Whether it makes gradients of attention: of queries, of keys, or of all. */
static bool
is_backward(const char *what)
{
	return strncmp(what, "attention queries", 17) == 0 ||
	       strncmp(what, "attention keys", 14) == 0;
}

static bool
is_wanted(const struct trial_case *x, const char *only)
{
	bool chosen = *x->trials[0].tile != '\0';
	bool attends = chosen && strncmp(x->what, "attention ", 10) == 0;

	return strcmp(only, "contractions") == 0 ? chosen && !attends
		: strcmp(only, "attention") == 0 ? attends
		: strcmp(only, "attention-backward") == 0
		? attends && is_backward(x->what)
		: strcmp(only, "maps") == 0 ? !chosen
		: strstr(x->what, only) != NULL;
}

static enum rt_status
measure_all(struct rt_tuner *t, const char *only, int rounds,
	    struct rt_error *err)
{
	enum rt_status status = RT_OK;
	size_t i;

	printf("%s, kernels by %s\n", rt_tuner_name(t), all.images.made_by);
	for (i = 0; i < all.ncases && status == RT_OK; i++) {
		if (is_wanted(&all.cases[i], only)) {
			status = measure(t, &all.cases[i], rounds, err);
		}
	}
	return status;
}

static void
show_end(void)
{
	if (found.faster > 0) {
		printf("faster than the first, as llmc --plan FILE takes it:\n"
		       "plan {\n  tiles = (%s);\n}\n", found.rows);
	}
	printf("%d kernels measured, %d of them compared, %d candidates "
	       "wrong\n", found.measured, found.compared, found.wrong);
}

static int
fail(const char *why)
{
	fprintf(stderr, "trials: %s\n", why);
	return 1;
}

int
main(int argc, char **argv)
{
	struct rt_tuner *t = NULL;
	enum rt_status status;
	struct rt_error err;
	int rounds = argc == 4 ? atoi(argv[3]) : 0;

	if (argc < 2 || argc > 4 || rounds < 0 || rounds > 1000) {
		return fail("trials FOLDER/trials [ONLY [ROUNDS]]");
	}
	found.to = open_memstream(&found.rows, &found.bytes);
	status = trials_read(argv[1], &all, &err);
	if (status == RT_OK) {
		llmc_trials_images = all.images;
		status = rt_tuner_open(&t, getenv("LLMC_LIBCUDA"), all.arch,
				       &err);
	}
	if (status == RT_OK) {
		status = rt_tuner_load(t, &llmc_trials_images, &err);
	}
	if (status == RT_OK) {
		status = measure_all(t, argc > 2 ? argv[2] : "", rounds, &err);
	}
	fclose(found.to);
	if (t) {
		show_end();
	}
	rt_tuner_close(t);
	free(found.rows);
	if (status != RT_OK) {
		return fail(err.message);
	}
	return found.wrong > 0 || found.measured == 0;
}

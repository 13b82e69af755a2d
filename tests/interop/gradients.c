/*
 * gradients BEFORE AFTER EXPECTED LR: whether a step of plain SGD has changed
 * each tensor of BEFORE by LR times grad.NAME of EXPECTED, to 1e-5 of that
 * gradient's largest element.  Files are safetensors; a folder stands for the
 * weights in it.  Used by tests/cli/run/interop.sh.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/rt.h"

#define BOUND 1e-5

static struct rt_st *
open_weights(const char *path)
{
	struct rt_error err;
	struct rt_st *st;

	if (rt_st_open_any(&st, path, NULL, &err) != RT_OK) {
		fprintf(stderr, "%s\n", err.message);
		exit(1);
	}
	return st;
}

static double *
read_all(const struct rt_st *st, const char *name, int64_t elems)
{
	const struct rt_st_tensor *t = rt_st_find(st, name);
	double *v = malloc((size_t)(elems + 1) * sizeof *v);
	struct rt_error err;

	if (!t || !v || rt_st_elems(t) != elems ||
	    rt_st_read_f64(st, t, 0, elems, v, &err) != RT_OK) {
		fprintf(stderr, "no tensor %s of %lld elements\n", name,
			(long long)elems);
		exit(1);
	}
	return v;
}

/* Whether one tensor changed as it should. */
static int
compare(const struct rt_st *before, const struct rt_st *after,
	const struct rt_st *expected, const char *name, double lr)
{
	int64_t n = rt_st_elems(rt_st_find(before, name)), i;
	double *a = read_all(before, name, n), *b = read_all(after, name, n);
	double largest = 0, off = 0, *g;
	char grad[512];

	snprintf(grad, sizeof grad, "grad.%s", name);
	g = read_all(expected, grad, n);
	for (i = 0; i < n; i++) {
		largest = fmax(largest, fabs(g[i]));
		off = fmax(off, fabs((a[i] - b[i]) / lr - g[i]));
	}
	free(a);
	free(b);
	free(g);
	if (off <= BOUND * largest) {
		return 1;
	}
	printf("the gradient of %s is %g off, of %g\n", name, off, largest);
	return 0;
}

int
main(int argc, char **argv)
{
	struct rt_st *st[3];
	size_t i, good = 0, all = 0;
	int k;

	if (argc != 5) {
		return 2;
	}
	for (k = 0; k < 3; k++) {
		st[k] = open_weights(argv[k + 1]);
	}
	for (i = 0; i < rt_st_count(st[0]); i++) {
		const char *name = rt_st_at(st[0], i)->name;

		if (strstr(name, "correction_bias")) {
			continue;	/* a state: it is not trained */
		}
		all++;
		good += (size_t)compare(st[0], st[1], st[2], name,
					atof(argv[4]));
	}
	printf("%zu of %zu gradients\n", good, all);
	for (k = 0; k < 3; k++) {
		rt_st_free(st[k]);
	}
	return good == all && all > 0 ? 0 : 1;
}

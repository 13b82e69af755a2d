/*
 * Clusters of several kinds of node: which devices the ranks of a pipeline
 * have.  Adjacent groups are merged once, so that ranks on equal devices have
 * the same target_group and their prices are computed once.
 */
#include "passes/price/target.h"

#include <math.h>
#include <string.h>

/* ---- adjacent groups ---- */

/* Limits `to` to what g has, too. */
static void
limit_to(struct target_group *to, const struct target_group *g)
{
	struct target_device *d = &to->device;

	if (target_free_bytes(g) < target_free_bytes(to)) {
		d->memory_bytes = g->device.memory_bytes;
		d->reserve_bytes = g->device.reserve_bytes;
	}
	d->host_bytes_us = fmin(d->host_bytes_us, g->device.host_bytes_us);
	d->nvme_bytes_us = fmin(d->nvme_bytes_us, g->device.nvme_bytes_us);
	d->launch_us = fmax(d->launch_us, g->device.launch_us);
	d->plan_only |= g->device.plan_only;
	if (target_is_cpu(&g->device)) {
		d->arch = g->device.arch;	/* see target_is_cpu */
	}
	to->devices = to->devices < g->devices ? to->devices : g->devices;
}

static bool
has_group(const struct target_group *of, const struct target_group *g)
{
	uint32_t i;

	for (i = 0; i < of->nof && of->of[i] != g; i++) {
	}
	return i < of->nof;
}

/* The group itself, or one before it that is the same. */
static const struct target_group *
first_same(const struct target *t, uint32_t i)
{
	uint32_t k;

	for (k = 0; !target_same(&t->groups.at[k], &t->groups.at[i]); k++) {
	}
	return &t->groups.at[k];
}

static const struct target_group *
merge_groups(const struct target *t, uint32_t first, uint32_t last,
	     struct arena *a)
{
	struct target_group *out = arena_dup(a, &t->groups.at[first],
					     sizeof *out);
	uint32_t i;

	out->of = arena_alloc(a, (last - first + 1) * sizeof *out->of);
	out->nof = 0;
	for (i = first; i <= last; i++) {
		const struct target_group *g = first_same(t, i);

		if (!has_group(out, g)) {
			out->of[out->nof++] = g;
			limit_to(out, g);
		}
	}
	out->device.name = target_kinds(t, t->first[first], t->first[last + 1],
					a);
	return out->nof > 1 ? out : out->of[0];
}

static bool
are_same_groups(const struct target_group *x, const struct target_group *y)
{
	return x->nof > 1 && x->nof == y->nof &&
	       memcmp(x->of, y->of, x->nof * sizeof *x->of) == 0;
}

/* An earlier span of the same groups, or g. */
static const struct target_group *
first_span(const struct target *t, const struct target_group *g)
{
	uint32_t i;

	for (i = 0; i < t->groups.n * t->groups.n; i++) {
		if (t->spans[i] && are_same_groups(t->spans[i], g)) {
			return t->spans[i];
		}
	}
	return g;
}

void
target_settle(struct target *t, struct arena *a)
{
	uint32_t n = t->groups.n, first, last;

	t->spans = NULL;
	t->first = arena_alloc(a, (n + 1) * sizeof *t->first);
	for (first = 0; first < n; first++) {
		const struct target_group *g = &t->groups.at[first];

		t->first[first + 1] = t->first[first] + g->devices * g->nodes;
	}
	if (n < 2) {
		return;
	}
	t->spans = arena_alloc(a, (size_t)n * n * sizeof *t->spans);
	for (first = 0; first < n; first++) {
		for (last = first; last < n; last++) {
			t->spans[first * n + last] = first_span(t,
				merge_groups(t, first, last, a));
		}
	}
}

const struct target_group *
target_span(const struct target *t, uint32_t first, uint32_t last)
{
	return t->spans ? t->spans[first * t->groups.n + last] : t->groups.at;
}

/* The group of a device. */
static uint32_t
group_of(const struct target *t, int64_t device)
{
	uint32_t i = 0;

	while (i + 1 < t->groups.n && device >= t->first[i + 1]) {
		i++;
	}
	return i;
}

int64_t
target_used(const struct target *t, uint32_t group, int64_t n)
{
	int64_t own = t->groups.at[group].devices * t->groups.at[group].nodes;

	n -= t->groups.n > 1 ? t->first[group] : 0;
	return n < 0 ? 0 : n < own ? n : own;
}

const char *
target_kinds(const struct target *t, int64_t lo, int64_t hi, struct arena *a)
{
	uint32_t i = group_of(t, lo), last = group_of(t, hi - 1);
	const char *text = t->groups.at[i].device.name, *name;

	for (i++; i <= last; i++) {
		name = t->groups.at[i].device.name;
		if (strcmp(name, t->groups.at[i - 1].device.name) != 0) {
			text = arena_printf(a, "%s and %s", text, name);
		}
	}
	return text;
}

/* ---- ranks ---- */

void
target_devs_assign(const struct target *t, int64_t nranks, uint32_t npipes,
		   bool outer, struct arena *a, struct target_devs *out)
{
	int64_t each = nranks / npipes;
	const struct target_group **of;
	bool alike = true;
	uint32_t i;

	out->all = target_span(t, 0, group_of(t, nranks - 1));
	out->of = NULL;
	if (!t->spans || npipes < 2 || !outer) {
		return;
	}
	of = arena_alloc(a, npipes * sizeof *of);
	for (i = 0; i < npipes; i++) {
		of[i] = target_span(t, group_of(t, i * each),
				    group_of(t, (i + 1) * each - 1));
		alike &= of[i] == out->all;
	}
	out->of = alike ? NULL : of;
}

const struct target_group *
target_devs_of(const struct target_devs *s, uint32_t pipe)
{
	return s->of ? s->of[pipe] : s->all;
}

struct target_devs
target_devs_all(const struct target_group *g)
{
	return (struct target_devs){ .all = g };
}

double
target_free_bytes(const struct target_group *g)
{
	return fmax(g->device.memory_bytes - g->device.reserve_bytes, 0);
}

/* ---- hosts ---- */

/* Of each of a group's devices. */
static double
host_part(const struct target_group *g, bool drives)
{
	return drives ? g->device.nvme_memory_bytes
		      : g->device.host_memory_bytes;
}

double
target_hosts_bytes(const struct target *t, int64_t nranks, bool drives)
{
	double all = 0;
	uint32_t i;

	for (i = 0; i < t->groups.n && nranks > 0; i++) {
		const struct target_group *g = &t->groups.at[i];
		int64_t nodes = num_ceil_div(nranks, g->devices);
		double part = host_part(g, drives);

		nodes = nodes < g->nodes ? nodes : g->nodes;
		all += part > 0 ? part * (double)(nodes * g->devices)
				: INFINITY;
		nranks -= nodes * g->devices;
	}
	return all;
}

/* Of ranks [lo, hi), which lie in one node. */
static double
host_bytes(const struct target_hosted *h, int64_t lo, int64_t hi)
{
	double all = 0;

	for (; lo < hi; lo++) {
		all += h->bytes[target_place(h, lo)];
	}
	return all;
}

/* Whether y has less left than x. */
static bool
is_fuller(const struct target_host *x, const struct target_host *y)
{
	if (x->has > 0 && y->has > 0) {
		return y->has - y->bytes < x->has - x->bytes;
	}
	return y->has > 0 || (x->has <= 0 && y->bytes > x->bytes);
}

/* So many nodes after that of ranks [lo, hi) have the same ranks of pipelines.
 */
static int64_t
like_nodes(const struct target_hosted *h, int64_t lo, int64_t hi)
{
	int64_t end = (lo / h->apart + 1) * h->apart;

	end = end < h->nranks ? end : h->nranks;
	return hi < end ? (end - hi) / (hi - lo) : 0;
}

/*
 * Nodes of a group are alike once the places of their ranks in the pipeline
 * repeat, but for the last one, which may have fewer ranks.
 */
void
target_each_host(const struct target *t, const struct target_hosted *h,
		 void (*see)(void *user, const struct target_host *x),
		 void *user)
{
	int64_t lo = 0, hi, node, first, all = h->apart * (int64_t)h->npipes;
	int64_t more;
	uint32_t i;

	for (i = 0; i < t->groups.n; i++) {
		const struct target_group *g = &t->groups.at[i];

		first = lo;
		for (node = 0; node < g->nodes && lo < h->nranks &&
		     (node == 0 || (lo - first) % all != 0); node++) {
			struct target_host x;

			hi = lo + g->devices;
			hi = hi < h->nranks ? hi : h->nranks;
			x = (struct target_host){
				host_bytes(h, lo, hi),
				host_part(g, h->drives) * (double)g->devices,
				lo, hi
			};
			see(user, &x);
			more = like_nodes(h, lo, hi);
			node += more;
			lo = hi + more * g->devices;
		}
		lo = first + g->nodes * g->devices;
	}
}

static void
keep_fuller(void *user, const struct target_host *x)
{
	struct target_host *fullest = user;

	*fullest = is_fuller(fullest, x) ? *x : *fullest;
}

struct target_host
target_fullest_host(const struct target *t, const struct target_hosted *h)
{
	struct target_host fullest = { 0, 0, 0, 0 };

	target_each_host(t, h, keep_fuller, &fullest);
	return fullest;
}

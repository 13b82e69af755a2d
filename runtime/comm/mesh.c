/*
 * A rank's coordinates on the mesh of axes, and the pieces of a dim that it
 * has.
 */
#include "runtime/comm/comm.h"

#include <stdio.h>

void
rt_mesh_at(const struct rt_plan *p, int64_t rank, int64_t at[RT_MAX_AXES + 1])
{
	int64_t a;

	for (a = 0; a <= RT_MAX_AXES; a++) {
		at[a] = 0;
	}
	for (a = p->naxes - 1; a > 0; a--) {
		if (!p->axes[a].time) {
			at[a] = rank % p->axes[a].size;
			rank /= p->axes[a].size;
		}
	}
}

int64_t
rt_mesh_number(const struct rt_plan *p, const int64_t at[RT_MAX_AXES + 1])
{
	int64_t rank = 0, a;

	for (a = 1; a < p->naxes; a++) {
		if (!p->axes[a].time) {
			rank = rank * p->axes[a].size + at[a];
		}
	}
	return rank;
}

void
rt_mesh_text(const struct rt_plan *p, int64_t rank, char *out, size_t size)
{
	int64_t at[RT_MAX_AXES + 1], a;
	bool any = false;
	size_t n;

	rt_mesh_at(p, rank, at);
	n = (size_t)snprintf(out, size, "rank %lld", (long long)rank);
	for (a = 1; a < p->naxes && n < size; a++) {
		if (!p->axes[a].time && p->axes[a].size > 1) {
			n += (size_t)snprintf(out + n, size - n, "%s%s=%lld",
					      any ? " " : " (",
					      p->axes[a].name,
					      (long long)at[a]);
			any = true;
		}
	}
	if (any && n < size) {
		snprintf(out + n, size - n, ")");
	}
}

const struct rt_pieces *
rt_pieces_of(const struct rt_plan *p, const struct rt_spread *s, int64_t rank,
	     int64_t microbatch)
{
	if (s->by_time) {
		return &s->at[rank * p->nmicrobatches + microbatch];
	}
	return &s->at[rank];
}

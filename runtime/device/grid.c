/*
 * Arguments of a function of a GPU, laid out as abi.h says.
 */
#include "runtime/device/device.h"

#include <stdio.h>
#include <string.h>

#include "runtime/device/this_machine.h"

int64_t
rt_args_maps(const struct rt_kernel *k)
{
	int64_t bytes = 8 * (k->nat + k->npieces + k->nnum + 2);

	return (bytes + RT_MAP_ALIGN - 1) / RT_MAP_ALIGN * RT_MAP_ALIGN;
}

/* With maps the struct's size is a multiple of their alignment. All steps of a
 * kernel take the same struct, so it has as many maps as the step with most. */
int64_t
rt_args_bytes(const struct rt_kernel *k, const struct rt_grid *g)
{
	int64_t n = g->nmaps, i;

	for (i = 0; i < k->nsteps; i++) {
		const struct rt_grid *other = k->steps[i].grid;

		if (other && other->nmaps > n) {
			n = other->nmaps;
		}
	}
	return n ? rt_args_maps(k) + n * RT_MAP_BYTES
		 : 8 * (k->nat + k->npieces + k->nnum + 2);
}

static char *
put(char *to, const void *from, int64_t words)
{
	if (words > 0) {
		memcpy(to, from, (size_t)words * 8);
	}
	return to + words * 8;
}

enum rt_status
rt_args_words(const struct rt_kernel *k, const struct rt_grid *g,
	      const struct rt_call *c, void *out, struct rt_error *err)
{
	char *to = out;

	_Static_assert(sizeof(void *) == 8, "pointers are words");
	if (rt_args_bytes(k, g) > RT_ARGS_BYTES) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "%s takes %lld bytes "
			"of arguments, and a GPU's function %d at most",
			rt_show_name(k->what).text,
			(long long)rt_args_bytes(k, g), RT_ARGS_BYTES);
	}
	to = put(to, c->at, k->nat);
	to = put(to, c->pieces, k->npieces);
	to = put(to, c->num, k->nnum);
	to = put(to, &c->shared, 1);
	to = put(to, &c->live, 1);
	memset(to, 0, (size_t)(rt_args_bytes(k, g) - (to - (char *)out)));
	return RT_OK;
}

struct rt_shown
rt_place_text(const struct rt_place *at)
{
	struct rt_shown s = { "" };
	size_t n = 0;

	if (at->layer >= 0) {
		n = (size_t)snprintf(s.text, sizeof s.text, ", layer %lld",
				     (long long)at->layer);
	}
	if (at->microbatch >= 0) {
		snprintf(s.text + n, sizeof s.text - n, ", microbatch %lld",
			 (long long)at->microbatch);
	}
	return s;
}

/*
 * What a full step of a plan that serves has, where nobody asks for anything:
 * the keys of its positions, which a measurement of its kernels depends on.
 * Keys of sequences follow each other, and lie so in the cache.
 */
#include "runtime/train/rank.h"

#include <string.h>

/* Positions beyond those of sequences have the first key alone. */
int64_t
rt_full_step_number(const struct rt_load *l, const char *name, int64_t i)
{
	int64_t at = i / l->positions * (l->before + l->positions);

	if (strcmp(name, "key") == 0) {
		return i;
	}
	return i >= l->sequences * l->positions ? 0
		: strcmp(name, "first") == 0 ? at
		: at + l->before + i % l->positions;
}

static enum rt_status
fill_numbers(struct rt_run *r, const struct rt_port *in, struct rt_error *err)
{
	int64_t n = in->dims[0]->size, bytes = n * (int64_t)sizeof(float), i;
	enum rt_status status;
	int32_t *to;

	status = rt_feed_staging(r, in->offset, bytes, &to, err);
	for (i = 0; i < n && status == RT_OK; i++) {
		int64_t x = rt_full_step_number(&r->plan->load, in->name,
						i);
		float f = (float)x;

		if (in->elem != RT_ELEM_I32) {
			memcpy(&to[i], &f, sizeof f);
		} else {
			to[i] = (int32_t)(x % in->below);
		}
	}
	return status != RT_OK || r->device->host ? status
		: r->device->kind->write(r->device, in->offset,
					 (const char *)to, bytes, err);
}

enum rt_status
rt_fill_full_step(struct rt_run *r, struct rt_error *err)
{
	static const char *const names[] = { "first", "last", "key", "slot" };
	enum rt_status status = RT_OK;
	int64_t i, k;

	for (i = 0; i < r->program->ninputs; i++) {
		const struct rt_port *in = &r->program->inputs[i];

		for (k = 0; k < 4 && status == RT_OK; k++) {
			status = strcmp(in->name, names[k]) == 0
				? fill_numbers(r, in, err) : RT_OK;
		}
	}
	return status;
}

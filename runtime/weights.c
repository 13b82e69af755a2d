/*
 * weights.c - weights by name out of Hugging Face's files, straight into what
 * a rank has of them.
 */
#include "runtime/store.h"

#include <string.h>

/* All that the model asks for, whoever reads it: so all ranks agree. */
static enum rt_status
find_all(const struct rt_plan *p, const struct rt_st *st, const char *path,
	 int64_t *found, struct rt_error *err)
{
	const struct rt_tensor *t;
	enum rt_status status;
	int64_t i, part, n;

	*found = 0;
	for (i = 0; i < p->ntensors; i++) {
		t = &p->tensors[i];
		n = t->loaded ? rt_tensor_parts(t) : 0;
		for (part = 0; part < n; part++) {
			status = rt_part_find(st, path, t, part, err);
			if (status != RT_OK) {
				return status;
			}
		}
		*found += n;
	}
	return RT_OK;
}

static enum rt_status
read_all(const struct rt_store *s, const struct rt_st *st,
	 struct rt_error *err)
{
	const struct rt_program *g = s->program;
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < g->nholds && status == RT_OK; i++) {
		if (g->holds[i].tensor->loaded) {
			status = rt_store_read(s, st, &g->holds[i], NULL, err);
		}
	}
	return status;
}

enum rt_status
rt_weights_load(const struct rt_store *s, const char *path, int64_t *unused,
		struct rt_error *err)
{
	enum rt_status status;
	struct rt_st *st;
	int64_t found = 0;

	status = rt_st_open_any(&st, path, NULL, err);
	if (status == RT_OK) {
		status = find_all(s->plan, st, path, &found, err);
	}
	/* Before anything is overwritten. */
	status = rt_store_agree(s, status, err);
	if (status == RT_OK) {
		*unused = (int64_t)rt_st_count(st) - found;
		status = read_all(s, st, err);
		status = rt_store_agree(s, status, err);
	}
	rt_st_free(st);
	return status;
}

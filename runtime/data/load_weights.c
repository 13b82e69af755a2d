/*
 * Loads weights by name from files as Hugging Face publishes them, straight
 * into the pieces that a rank holds: see data.h.
 */
#include "runtime/data/tensor_store.h"

#include <string.h>

struct weights {
	const struct rt_store *s;
	const char *path;
	struct rt_alloc alloc;
	struct rt_st *st;
	bool *used; /* by index in st */
};

/*
 * Finds all tensors of the model, also those of other ranks, so that all ranks
 * come to the same result.
 */
static enum rt_status
find_all(struct weights *w, struct rt_error *err)
{
	const struct rt_plan *p = w->s->plan;
	const struct rt_st_tensor *found;
	enum rt_status status;
	int64_t i, part, n;

	for (i = 0; i < p->ntensors; i++) {
		n = p->tensors[i].loaded ? rt_tensor_parts(&p->tensors[i]) : 0;
		for (part = 0; part < n; part++) {
			status = rt_find_part(w->st, w->path, &p->tensors[i],
					      part, &found, err);
			if (status != RT_OK) {
				return status;
			}
			w->used[found - rt_st_at(w->st, 0)] = true;
		}
	}
	return RT_OK;
}

static enum rt_status
read_all(const struct weights *w, struct rt_error *err)
{
	const struct rt_program *g = w->s->program;
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < g->nholds && status == RT_OK; i++) {
		if (g->holds[i].tensor->loaded) {
			status = rt_store_read(w->s, w->st, &g->holds[i], NULL,
					       err);
		}
	}
	return status;
}

/* Opens the files and checks what is in them. */
static enum rt_status
open_file(struct weights *w, bool allow_unused, struct rt_error *err)
{
	enum rt_status status = rt_st_open_any(&w->st, w->path, NULL, err);
	size_t n;

	if (status != RT_OK) {
		return status;
	}
	n = rt_st_count(w->st);
	w->used = rt_resize(&w->alloc, NULL, n, sizeof(*w->used));
	if (!w->used) {
		return rt_no_memory(err, w->path);
	}
	memset(w->used, 0, n * sizeof(*w->used));
	status = find_all(w, err);
	/* One rank is enough, and it may have to read two tensors. */
	if (status == RT_OK && !allow_unused && w->s->rank == 0) {
		status = rt_st_check_used(w->st, w->path, w->used, err);
	}
	return status;
}

enum rt_status
rt_weights_load(const struct rt_store *s, const char *path, bool allow_unused,
		struct rt_error *err)
{
	struct weights w = { s, path, rt_alloc_or_libc(NULL), NULL, NULL };
	enum rt_status status = open_file(&w, allow_unused, err);

	status = rt_store_agree_status(s, status, err);
	if (status == RT_OK) {
		status = rt_store_agree_status(s, read_all(&w, err), err);
	}
	rt_release(&w.alloc, w.used);
	rt_st_free(w.st);
	return status;
}

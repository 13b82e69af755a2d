/* Loads a checkpoint into any plan of its model: see data.h. */
#include "runtime/data/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/elems.h"
#include "runtime/data/safetensors.h"

struct loading {
	const struct rt_store *s;
	struct rt_alloc alloc;
	struct rt_layout l;
	/* of the chosen one: see find_newest(); < 0: the path itself */
	int64_t number;
	char *dir;
	struct rt_manifest manifest;
	char *paths[RT_STORED_FILES];
	struct rt_st *st[RT_STORED_FILES];
	uint64_t *sums;
};

/* ---- which one ----------------------------------------------------- */

/* Whether the path is itself a checkpoint, not a folder of them. */
static bool
is_named(const struct rt_alloc *a, const char *path)
{
	char *manifest = rt_path_in(a, path, "checkpoint.json");
	char *model = rt_path_in(a, path, rt_stored_file(RT_STORED_MODEL));
	struct stat sb;
	bool is = (manifest && stat(manifest, &sb) == 0) ||
		  (model && stat(model, &sb) == 0);

	rt_release(a, manifest);
	rt_release(a, model);
	return is;
}

/*
 * *out: the newest complete one of a list, twice its step, plus 1 if it is
 * .old.  err: why the newest of all is not complete, if *passed > 0.
 */
static enum rt_status
find_newest(const struct rt_checkpoint_list *l, const char *folder,
	    int64_t *number, size_t *passed, struct rt_error *err)
{
	enum rt_status status = RT_OK, first = RT_OK;
	struct rt_error why;
	char *dir;
	size_t i;

	for (i = 0; i < l->n; i++) {
		dir = rt_step_path(&l->alloc, folder, l->at[i].step,
				   l->at[i].old ? ".old" : "");
		if (!dir) {
			return rt_no_memory(err, folder);
		}
		status = rt_checkpoint_check_complete(&l->alloc, dir, &why);
		rt_release(&l->alloc, dir);
		if (status == RT_OK) {
			*number = 2 * l->at[i].step + l->at[i].old;
			*passed = i;
			return RT_OK;
		}
		if (i == 0 || status == RT_NOMEM) {
			*err = why;
			first = status;
		}
		/* Says nothing about the files. */
		if (status == RT_NOMEM) {
			break;
		}
	}
	return first;
}

/* On rank 0; v->number < 0: the path itself is the checkpoint. */
static enum rt_status
choose_checkpoint(struct loading *v, const char *path, char *remark,
		  struct rt_error *err)
{
	struct rt_where where = { path, NULL, -1 };
	struct rt_error passed_over = { 0 };
	enum rt_status status;
	struct rt_checkpoint_list list;
	size_t passed = 0;

	if (is_named(&v->alloc, path)) {
		return RT_OK;
	}
	status = rt_checkpoint_list_read(&list, path, err);
	if (status != RT_OK) {
		return status;
	}
	if (list.n == 0) {
		return rt_fail(err, RT_RANGE, where,
			       "found no checkpoint, expected a folder with "
			       "step-N in it, or such a one itself");
	}
	status = find_newest(&list, path, &v->number, &passed, &passed_over);
	rt_checkpoint_list_release(&list);
	if (status != RT_OK) {
		*err = passed_over;
	} else if (passed > 0) {
		memcpy(remark, passed_over.message, RT_ERROR_BYTES);
	}
	return status;
}

/* Broadcasts the choice of rank 0. */
static enum rt_status
find_checkpoint(struct loading *v, const char *path, char *remark,
		struct rt_error *err)
{
	enum rt_status status = RT_OK;

	remark[0] = '\0';
	v->number = -1;
	if (v->s->rank == 0) {
		status = choose_checkpoint(v, path, remark, err);
	}
	status = rt_store_agree_status(v->s, status, err);
	if (status == RT_OK) {
		status = rt_comm_max_i64(v->s->comm, &v->number, 1, err);
	}
	return status;
}

/* ---- what is in it ------------------------------------------------- */

/* Compares the header of a file with its sum in the manifest. */
static enum rt_status
check_header(const struct loading *v, int file, struct rt_error *err)
{
	const struct rt_shard *s = &v->st[file]->shards[0];
	struct rt_where where = { v->paths[file], NULL, 0 };
	enum rt_status status;
	uint64_t sum;
	char *text;

	status = rt_shard_read_text(&v->alloc, s, 0, s->data_at, &text, err);
	if (status != RT_OK) {
		return status;
	}
	sum = rt_elems_sum(1, text, 0, s->data_at);
	rt_release(&v->alloc, text);
	if (sum != v->manifest.files[file].header ||
	    s->file_bytes != v->manifest.files[file].bytes) {
		return rt_fail(err, RT_FORMAT, where,
			       "found a header, or a size, that is not the one "
			       "checkpoint.json tells, expected the file as it "
			       "was written");
	}
	return RT_OK;
}

static bool
same_shape(const struct rt_tensor *t, const struct rt_st_tensor *stored)
{
	int64_t d = t->stacked;
	int i;

	for (i = 0; i < stored->ndim && d < t->ndims; i++, d++) {
		if (stored->shape[i] != t->sizes[d]) {
			return false;
		}
	}
	return i == stored->ndim && d == t->ndims;
}

/*
 * Checks that one part of a tensor is in its file and has a sum in the
 * manifest.
 */
static enum rt_status
check_tensor(const struct loading *v, const struct rt_stored *want,
	     struct rt_error *err)
{
	const char *path = v->paths[want->file];
	struct rt_where where = { path, want->name, -1 };
	const struct rt_st_tensor *stored;
	enum rt_status status;

	status = rt_find_part(v->st[want->file], path, want->tensor,
			      want->part, &stored, err);
	if (status != RT_OK) {
		return status;
	}
	if (!same_shape(want->tensor, stored)) {
		return rt_fail(err, RT_FORMAT, where,
			       "found dims joined or left out, expected the "
			       "shape that the model has");
	}
	if (!rt_manifest_find(&v->manifest, want->name)) {
		return rt_fail(err, RT_FORMAT, where,
			       "found no sum of it in checkpoint.json, "
			       "expected one");
	}
	return RT_OK;
}

/* Reports the first tensor of a file that the model does not have. */
static enum rt_status
fail_extra(const struct loading *v, int file, struct rt_error *err)
{
	struct rt_where where = { v->paths[file], NULL, -1 };
	size_t k, i;

	for (k = 0; k < rt_st_count(v->st[file]); k++) {
		where.tensor = rt_st_at(v->st[file], k)->name;
		i = 0;
		while (i < v->l.n &&
		       (v->l.at[i].file != file ||
			strcmp(v->l.at[i].name, where.tensor) != 0)) {
			i++;
		}
		if (i == v->l.n) {
			break;
		}
	}
	return rt_fail(err, RT_FORMAT, where,
		       "found it, expected no such tensor: the model has none "
		       "of this name");
}

/* Whether the plan trains nothing: one that serves has no use for states. */
static bool
trains_nothing(const struct rt_plan *p)
{
	int64_t i = 0;

	while (i < p->ntensors && p->tensors[i].frozen) {
		i++;
	}
	return i == p->ntensors;
}

/* Checks that the files hold exactly the tensors of the model. */
static enum rt_status
check_tensors(const struct loading *v, struct rt_error *err)
{
	size_t i, n[RT_STORED_FILES] = { 0 };
	enum rt_status status;
	int file;

	for (i = 0; i < v->l.n; i++) {
		n[v->l.at[i].file]++;
		status = check_tensor(v, &v->l.at[i], err);
		if (status != RT_OK) {
			return status;
		}
	}
	for (file = 0; file < RT_STORED_FILES; file++) {
		if (n[file] < rt_st_count(v->st[file]) &&
		    (file != RT_STORED_STATE || !trains_nothing(v->s->plan))) {
			return fail_extra(v, file, err);
		}
	}
	return RT_OK;
}

static enum rt_status
check_manifest(const struct loading *v, const char *path, struct rt_error *err)
{
	struct rt_where where = { path, NULL, -1 };
	const char *model = v->s->plan->model;

	if (strcmp(v->manifest.model, model) != 0) {
		return rt_fail(err, RT_FORMAT, where,
			       "found model '%s', expected '%s'",
			       rt_show_name(v->manifest.model).text,
			       rt_show_name(model).text);
	}
	return rt_checkpoint_check_name(v->dir, v->manifest.step, err);
}

/* Opens all files and checks their headers, before anything is read. */
static enum rt_status
open_all(struct loading *v, const char *path, struct rt_error *err)
{
	enum rt_status status;
	char *manifest;
	int i;

	status = rt_layout_init(&v->l, v->s->plan, err);
	if (status != RT_OK) {
		return status;
	}
	v->dir = v->number < 0 ?
			 rt_join(&v->alloc, path, strlen(path), "") :
			 rt_step_path(&v->alloc, path, v->number / 2,
				      v->number % 2 ? ".old" : "");
	if (!v->dir) {
		return rt_no_memory(err, path);
	}
	manifest = rt_path_in(&v->alloc, v->dir, "checkpoint.json");
	v->sums = rt_resize(&v->alloc, NULL, v->l.n, sizeof(*v->sums));
	if (!manifest || !v->sums) {
		rt_release(&v->alloc, manifest);
		return rt_no_memory(err, v->dir);
	}
	memset(v->sums, 0, v->l.n * sizeof(*v->sums));
	status = rt_manifest_read(&v->manifest, manifest, err);
	if (status == RT_OK) {
		status = check_manifest(v, manifest, err);
	}
	rt_release(&v->alloc, manifest);
	for (i = 0; i < RT_STORED_FILES && status == RT_OK; i++) {
		v->paths[i] = rt_path_in(&v->alloc, v->dir,
					 rt_stored_file(i));
		if (!v->paths[i]) {
			return rt_no_memory(err, v->dir);
		}
		status = rt_st_open(&v->st[i], v->paths[i], NULL, err);
		if (status == RT_OK) {
			status = check_header(v, i, err);
		}
	}
	return status == RT_OK ? check_tensors(v, err) : status;
}

/* ---- reading ------------------------------------------------------- */

/* v->sums: by index into l.place, which is by part. */
static enum rt_status
read_all(struct loading *v, struct rt_error *err)
{
	const struct rt_program *g = v->s->program;
	enum rt_status status = RT_OK;
	const struct rt_hold *h;
	uint64_t *sums;

	for (h = g->holds; h < g->holds + g->nholds && status == RT_OK; h++) {
		if (h->tensor->scales_of) {
			continue;
		}
		sums = v->sums + rt_layout_first(&v->l, v->s->plan, h->tensor);
		status = rt_store_read(v->s,
				       v->st[h->tensor->loaded ?
						     RT_STORED_MODEL :
						     RT_STORED_STATE],
				       h,
				       rt_store_writes(v->s, h) ? sums : NULL,
				       err);
	}
	return status;
}

static enum rt_status
check_sums(const struct loading *v, struct rt_error *err)
{
	struct rt_where where = { NULL, NULL, -1 };
	const struct rt_stored *t;
	uint64_t sum, want;
	size_t i;

	for (i = 0; i < v->l.n; i++) {
		t = &v->l.at[i];
		sum = v->sums[rt_layout_first(&v->l, v->s->plan, t->tensor) +
			      (size_t)t->part];
		want = rt_manifest_find(&v->manifest, t->name)->sum;
		if (sum != want) {
			where.path = v->paths[t->file];
			where.tensor = t->name;
			return rt_fail(err, RT_FORMAT, where,
				       "found a sum of %016" PRIx64
				       ", expected %016" PRIx64
				       " by checkpoint.json: its bytes were "
				       "changed; load an older one by name",
				       sum, want);
		}
	}
	return RT_OK;
}

static enum rt_status
load(struct loading *v, const char *path, struct rt_progress *p,
     struct rt_error *err)
{
	enum rt_status status;

	status = find_checkpoint(v, path, p->remark, err);
	if (status != RT_OK) {
		return status;
	}
	status = open_all(v, path, err);
	status = rt_store_agree_status(v->s, status, err);
	if (status != RT_OK) {
		return status;
	}
	status = read_all(v, err);
	status = rt_store_agree_status(v->s, status, err);
	if (status != RT_OK) {
		return status;
	}
	status = rt_comm_sum_u64(v->s->comm, v->sums, (int64_t)v->l.n, err);
	if (status == RT_OK) {
		status = check_sums(v, err);
	}
	p->step = v->manifest.step;
	p->sequences = v->manifest.sequences;
	p->seed = v->manifest.seed;
	p->data = v->manifest.data;
	snprintf(p->settings, sizeof p->settings, "%s",
		 v->manifest.settings);
	return status;
}

enum rt_status
rt_checkpoint_load(const struct rt_store *s, const char *path,
		   struct rt_progress *p, struct rt_error *err)
{
	struct loading v = { 0 };
	enum rt_status status;
	int i;

	v.s = s;
	v.alloc = rt_alloc_or_libc(NULL);
	status = load(&v, path, p, err);
	for (i = 0; i < RT_STORED_FILES; i++) {
		rt_st_free(v.st[i]);
		rt_release(&v.alloc, v.paths[i]);
	}
	rt_manifest_release(&v.manifest);
	rt_release(&v.alloc, v.sums);
	rt_release(&v.alloc, v.dir);
	if (v.l.alloc.realloc) {
		rt_layout_release(&v.l);
	}
	return status;
}

/*
 * Checkpoints of several files: model.safetensors.index.json, and which file of
 * a folder is meant.
 */
#include "runtime/rt.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/json.h"
#include "runtime/data/gguf.h"
#include "runtime/data/quantised.h"
#include "runtime/data/safetensors.h"

/* ---- an index ------------------------------------------------------ */

/* A file name of weight_map must stay in the folder of the index. */
static bool
check_file_name(struct rt_json *j, const struct rt_st_pair *pair)
{
	const char *p = pair->value, *why = NULL;
	size_t n;

	if (*p == '\0') {
		why = "an empty file name";
	} else if (*p == '/') {
		why = "an absolute path";
	}
	while (!why && *p) {
		n = strcspn(p, "/");
		if (n == 2 && memcmp(p, "..", 2) == 0) {
			why = "a path with '..'";
		}
		p += n;
		p += strspn(p, "/");
	}
	if (!why) {
		return true;
	}
	j->tensor = pair->key;
	return rt_json_fail(j, RT_FORMAT, pair->value,
			    "found %s, '%s', expected a file in the folder of "
			    "the index",
			    why, rt_show_path(pair->value).text);
}

/* Reads total_size; other keys are free text of the writer. */
static bool
parse_index_metadata(struct rt_json *j, int64_t *total)
{
	const char *key;
	size_t i = 0;

	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		if (strcmp(key, "total_size") != 0) {
			rt_json_skip(j);
		} else if (*total >= 0) {
			rt_json_fail(j, RT_FORMAT, key,
				     "found key 'total_size' twice, expected "
				     "it once");
		} else {
			/* Some writers print it as "123.0". */
			rt_json_whole(j, total);
		}
	}
	return j->status == RT_OK;
}

/* The whole object of an index. */
static bool
parse_index(struct rt_json *j, const struct rt_alloc *alloc,
	    struct rt_pairs *map, int64_t *total)
{
	bool seen_map = false, seen_metadata = false, *seen;
	const char *key;
	size_t i = 0;

	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		if (strcmp(key, "weight_map") == 0) {
			seen = &seen_map;
		} else if (strcmp(key, "metadata") == 0) {
			seen = &seen_metadata;
		} else {
			rt_json_skip(j);
			continue;
		}
		if (*seen) {
			return rt_json_fail(j, RT_FORMAT, key,
					    "found key '%s' twice, expected it "
					    "once",
					    key);
		}
		*seen = true;
		if (seen == &seen_map) {
			rt_st_parse_pairs(j, alloc, map);
		} else {
			parse_index_metadata(j, total);
		}
	}
	if (rt_json_end(j, " \t\r\n") && !seen_map) {
		return rt_json_fail(j, RT_FORMAT, j->text,
				    "found no key 'weight_map', expected one");
	}
	for (i = 0; i < map->n && j->status == RT_OK; i++) {
		check_file_name(j, &map->at[i]);
	}
	return j->status == RT_OK;
}

/* Fills *ix from the text of n bytes at offset 0 of a shard. */
static enum rt_status
index_read(struct rt_st_index *ix, const struct rt_alloc *alloc,
	   const struct rt_shard *s, struct rt_error *err)
{
	struct rt_json j = { 0 };
	struct rt_pairs map = { 0 };
	enum rt_status status;

	memset(ix, 0, sizeof(*ix));
	if (s->file_bytes > RT_ST_MAX_HEADER_BYTES) {
		return rt_fail(err, RT_FORMAT, rt_shard_where(s, NULL, -1),
			       "found an index of %" PRId64
			       " bytes, expected at most %d",
			       s->file_bytes, RT_ST_MAX_HEADER_BYTES);
	}
	status = rt_shard_read_text(alloc, s, 0, s->file_bytes, &j.text, err);
	if (status != RT_OK) {
		return status;
	}
	j.len = (size_t)s->file_bytes;
	j.path = s->path;
	j.err = err;
	ix->alloc = *alloc;
	ix->total_bytes = -1;
	if (!rt_json_check_utf8(&j) ||
	    !parse_index(&j, alloc, &map, &ix->total_bytes)) {
		goto fail;
	}
	ix->text = j.text;
	ix->map = map.at;
	ix->n = map.n;
	return RT_OK;
fail:
	rt_release(alloc, j.text);
	rt_release(alloc, map.at);
	memset(ix, 0, sizeof(*ix));
	return j.status;
}

void
rt_st_index_release(struct rt_st_index *ix)
{
	if (ix->text) {
		rt_release(&ix->alloc, ix->text);
		rt_release(&ix->alloc, ix->map);
	}
	memset(ix, 0, sizeof(*ix));
}

enum rt_status
rt_st_index_parse(struct rt_st_index *ix, const void *buf, size_t len,
		  const struct rt_alloc *alloc, struct rt_error *err)
{
	struct rt_alloc a = rt_alloc_or_libc(alloc);
	struct rt_shard s = rt_shard_of_memory(buf, len, (int64_t)len);

	return index_read(ix, &a, &s, err);
}

/* ---- opening an index ---------------------------------------------- */

/* By file, then by tensor. */
static int
by_file(const void *a, const void *b)
{
	const struct rt_st_pair *p = *(const struct rt_st_pair *const *)a;
	const struct rt_st_pair *q = *(const struct rt_st_pair *const *)b;
	int c = strcmp(p->value, q->value);

	return c ? c : strcmp(p->key, q->key);
}

/* The state of opening an index, in one place to free. */
struct opening {
	struct rt_st *st;
	const char *path; /* of the index */
	struct rt_st_index ix;
	const struct rt_st_pair **order; /* ix.map, sorted by by_file() */
	size_t n_files; /* different files in it */
};

/*
 * Opens the shard that the n pairs at `group` name, and finds their tensors in
 * it.
 */
static enum rt_status
add_group(struct opening *o, const struct rt_st_pair **group, size_t n,
	  struct rt_error *err)
{
	struct rt_where where = { o->path, NULL, -1 };
	const char *slash = strrchr(o->path, '/');
	const struct rt_st_tensor *found;
	struct rt_st *st = o->st;
	struct rt_st_tensor *t;
	struct rt_header h;
	enum rt_status status;
	char *path;
	size_t i;

	path = rt_join(&st->alloc, o->path,
		       slash ? (size_t)(slash + 1 - o->path) : 0,
		       group[0]->value);
	if (!path) {
		return rt_no_memory(err, o->path);
	}
	status = rt_st_add_shard(st, path, err);
	if (status != RT_OK) {
		return status;
	}
	status = rt_header_read(&st->alloc, &st->shards[st->n_shards - 1], &h,
				err);
	if (status != RT_OK) {
		return status;
	}
	for (i = 0; i < n && status == RT_OK; i++) {
		found = rt_header_find(&h, group[i]->key);
		if (!found) {
			where.tensor = group[i]->key;
			where.offset = group[i]->key - o->ix.text;
			status = rt_fail(
				err, RT_FORMAT, where,
				"not found in '%s' among its %zu tensors, "
				"expected it there",
				rt_show_path(path).text, h.n);
			break;
		}
		t = &st->header.tensors[group[i] - o->ix.map];
		*t = *found;
		t->name = group[i]->key;
		t->shard = st->n_shards - 1;
	}
	rt_header_release(&st->alloc, &h);
	return status;
}

/* Sorts the pairs by file and allocates shards and tensors. */
static enum rt_status
prepare(struct opening *o, const struct rt_alloc *alloc, struct rt_error *err)
{
	struct rt_st_tensor *tensors;
	size_t i;

	o->order = rt_resize(alloc, NULL, o->ix.n, sizeof(*o->order));
	if (!o->order) {
		return rt_no_memory(err, o->path);
	}
	for (i = 0; i < o->ix.n; i++) {
		o->order[i] = &o->ix.map[i];
	}
	qsort(o->order, o->ix.n, sizeof(*o->order), by_file);
	for (i = 0; i < o->ix.n; i++) {
		o->n_files += i == 0 || strcmp(o->order[i - 1]->value,
					       o->order[i]->value) != 0;
	}
	o->st = rt_st_new(*alloc, o->n_files);
	if (!o->st) {
		return rt_no_memory(err, o->path);
	}
	tensors = rt_resize(alloc, NULL, o->ix.n, sizeof(*tensors));
	if (!tensors) {
		return rt_no_memory(err, o->path);
	}
	o->st->header.tensors = tensors;
	return RT_OK;
}

/* Opens all shards, then compares the sum of sizes with total_size. */
static enum rt_status
add_all(struct opening *o, struct rt_error *err)
{
	struct rt_where where = { o->path, NULL, -1 };
	const struct rt_st_pair **p = o->order;
	enum rt_status status;
	int64_t sum = 0;
	size_t i, end;

	for (i = 0; i < o->ix.n; i = end) {
		end = i + 1;
		while (end < o->ix.n &&
		       strcmp(p[i]->value, p[end]->value) == 0) {
			end++;
		}
		status = add_group(o, p + i, end - i, err);
		if (status != RT_OK) {
			return status;
		}
	}
	for (i = 0; i < o->ix.n; i++) {
		sum += o->st->header.tensors[i].end -
		       o->st->header.tensors[i].begin;
	}
	if (o->ix.total_bytes >= 0 && sum != o->ix.total_bytes) {
		return rt_fail(err, RT_FORMAT, where,
			       "found a total_size of "
			       "%" PRId64 ", expected %" PRId64
			       ", the bytes of its %zu tensors in %zu files",
			       o->ix.total_bytes, sum, o->ix.n, o->n_files);
	}
	return RT_OK;
}

/* Reads the index file itself. */
static enum rt_status
load_index(struct opening *o, const struct rt_alloc *alloc,
	   struct rt_error *err)
{
	enum rt_status status;
	struct rt_shard s;
	char *copy;

	copy = rt_join(alloc, o->path, strlen(o->path), "");
	if (!copy) {
		return rt_no_memory(err, o->path);
	}
	status = rt_shard_open(&s, copy, err);
	if (status == RT_OK) {
		status = index_read(&o->ix, alloc, &s, err);
	}
	rt_shard_release(alloc, &s);
	return status;
}

enum rt_status
rt_st_open_index(struct rt_st **out, const char *path,
		 const struct rt_alloc *alloc, struct rt_error *err)
{
	struct rt_alloc a = rt_alloc_or_libc(alloc);
	struct opening o = { 0 };
	enum rt_status status;

	*out = NULL;
	o.path = path;
	status = load_index(&o, &a, err);
	if (status != RT_OK) {
		goto fail;
	}
	status = prepare(&o, &a, err);
	if (status != RT_OK) {
		goto fail;
	}
	status = add_all(&o, err);
	if (status != RT_OK) {
		goto fail;
	}
	/* The names of the tensors lie in the text of the index. */
	o.st->header.n = o.ix.n;
	o.st->header.text = o.ix.text;
	o.ix.text = NULL;
	*out = o.st;
	o.st = NULL;
fail:
	rt_release(&a, o.order);
	rt_release(&a, o.ix.map);
	rt_release(&a, o.ix.text);
	rt_st_free(o.st);
	return status;
}

/* ---- opening whatever it is ---------------------------------------- */

/*
 * The only *.safetensors of a folder, as a path to free.  Of several none can
 * be chosen: folders hold adapters and optimizer states too.
 */
static enum rt_status
only_file(const struct rt_alloc *alloc, const char *dir, char **out,
	  struct rt_error *err)
{
	struct rt_where where = { dir, NULL, -1 };
	struct dirent *entry;
	char *path = NULL;
	bool is_checkpoint = false;
	size_t found = 0;
	DIR *d;

	d = opendir(dir);
	if (!d) {
		return rt_fail(err, RT_IO, where, "cannot open: %s",
			       strerror(errno));
	}
	while ((entry = readdir(d)) != NULL) {
		is_checkpoint |= strncmp(entry->d_name, "step-", 5) == 0 ||
				 strcmp(entry->d_name, "checkpoint.json") == 0;
		if (entry->d_name[0] == '.' ||
		    !rt_ends_in(entry->d_name, ".safetensors")) {
			continue;
		}
		if (found++ > 0) {
			continue;
		}
		path = rt_join(alloc, dir, strlen(dir), "/");
		if (path) {
			*out = rt_join(alloc, path, strlen(dir) + 1,
				       entry->d_name);
			rt_release(alloc, path);
		}
	}
	closedir(d);
	if (found == 1) {
		return *out ? RT_OK : rt_no_memory(err, dir);
	}
	rt_release(alloc, *out);
	*out = NULL;
	return rt_fail(
		err, RT_IO, where,
		"found %zu *.safetensors files and no "
		"model.safetensors.index.json, expected an index or just one "
		"file%s", found, is_checkpoint ? "; checkpoints of training "
		"are for --checkpoint" : "");
}

/* The file of a folder to open, as a path to free; *out is NULL on failure. */
static enum rt_status
look_in(const struct rt_alloc *alloc, const char *dir, char **out,
	struct rt_error *err)
{
	static const char *const names[] = {
		"/model.safetensors.index.json",
		"/model.safetensors",
	};
	struct stat sb;
	size_t i;

	*out = NULL;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		*out = rt_join(alloc, dir, strlen(dir), names[i]);
		if (!*out) {
			return rt_no_memory(err, dir);
		}
		if (stat(*out, &sb) == 0) {
			return RT_OK;
		}
		rt_release(alloc, *out);
		*out = NULL;
	}
	return only_file(alloc, dir, out, err);
}

/* What is stored quantised becomes one tensor each. */
static enum rt_status
find_quantised(struct rt_st *st, const char *path, struct rt_error *err)
{
	struct rt_quantisation q;
	enum rt_status status;

	if (!rt_may_be_quantised(&st->header)) {
		return RT_OK;
	}
	status = rt_quantisation_read(&q, path, &st->alloc, err);
	if (status == RT_OK && q.method) {
		status = rt_quantised_find(st, &q, err);
	}
	rt_quantisation_release(&q, &st->alloc);
	return status;
}

enum rt_status
rt_st_open_any(struct rt_st **out, const char *path,
	       const struct rt_alloc *alloc, struct rt_error *err)
{
	struct rt_alloc a = rt_alloc_or_libc(alloc);
	enum rt_status status;
	char *inside = NULL;
	struct stat sb;

	*out = NULL;
	if (stat(path, &sb) == 0 && S_ISDIR(sb.st_mode)) {
		status = look_in(&a, path, &inside, err);
		if (status != RT_OK) {
			return status;
		}
		path = inside;
	}
	if (rt_gguf_is_path(path)) {
		status = rt_gguf_open(out, path, &a, err);
	} else if (rt_ends_in(path, ".json")) {
		status = rt_st_open_index(out, path, &a, err);
	} else {
		status = rt_st_open(out, path, &a, err);
	}
	if (status == RT_OK) {
		status = find_quantised(*out, path, err);
	}
	if (status != RT_OK) {
		rt_st_free(*out);
		*out = NULL;
	}
	rt_release(&a, inside);
	return status;
}

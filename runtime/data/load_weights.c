/*
 * Loads weights by name from files as Hugging Face publishes them, straight
 * into the pieces that a rank holds: see data.h.
 */
#include "runtime/data/tensor_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/safetensors.h"

struct weights {
	const struct rt_store *s;
	struct rt_weights_options *o;
	struct rt_alloc alloc;
	struct rt_st *st;
	bool *used; /* by index in st */
	bool *missing; /* by tensor of the plan: it starts as it is */
	char *names; /* of renamed tensors */
	struct rt_shown first; /* of those that are missing */
};

/* ---- renaming ------------------------------------------------------- */

static int
by_name(const void *a, const void *b)
{
	const struct rt_st_tensor *s = a, *t = b;

	return strcmp(s->name, t->name);
}

/* Whether a rule "old=new" is one; n: the bytes of old. */
static enum rt_status
split_rule(const char *rule, size_t *n, struct rt_error *err)
{
	const char *equals = strchr(rule, '=');

	if (!equals || strchr(equals + 1, '=')) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "--rename: found "
			       "'%s', expected OLD=NEW, the beginning of names "
			       "in the file and that which the model has",
			       rt_show_name(rule).text);
	}
	*n = (size_t)(equals - rule);
	return RT_OK;
}

/* The first rule that a name begins with, or -1. */
static int64_t
rule_for(const struct rt_weights_options *o, const char *name)
{
	int64_t i;

	for (i = 0; i < o->nrenames; i++) {
		size_t n = strcspn(o->renames[i], "=");

		if (strncmp(name, o->renames[i], n) == 0) {
			return i;
		}
	}
	return -1;
}

/* Bytes of all new names; RT_RANGE: a rule is none, or no name has it. */
static enum rt_status
measure_names(const struct weights *w, size_t *bytes, struct rt_error *err)
{
	const struct rt_header *h = &w->st->header;
	enum rt_status status = RT_OK;
	size_t n, i;
	int64_t k;

	*bytes = 1;
	for (k = 0; k < w->o->nrenames && status == RT_OK; k++) {
		status = split_rule(w->o->renames[k], &n, err);
		for (i = 0; i < h->n && status == RT_OK &&
		     rule_for(w->o, h->tensors[i].name) != k; i++) {
		}
		if (status == RT_OK && i == h->n) {
			return rt_fail(err, RT_RANGE, RT_NOWHERE, "--rename: "
				       "no tensor of the file begins as '%s' "
				       "has it, or an earlier rule applies",
				       rt_show_name(w->o->renames[k]).text);
		}
		for (i = 0; i < h->n && status == RT_OK; i++) {
			*bytes += strlen(h->tensors[i].name) +
				  strlen(w->o->renames[k]) + 1;
		}
	}
	return status;
}

/* Gives tensors of the file their new names, and sorts them again. */
static enum rt_status
rename_all(struct weights *w, struct rt_error *err)
{
	struct rt_header *h = &w->st->header;
	enum rt_status status;
	size_t bytes, i, n;
	char *at;

	status = measure_names(w, &bytes, err);
	if (status != RT_OK || w->o->nrenames == 0) {
		return status;
	}
	at = w->names = rt_resize(&w->alloc, NULL, bytes, 1);
	if (!at) {
		return rt_no_memory(err, w->o->path);
	}
	for (i = 0; i < h->n; i++) {
		struct rt_st_tensor *t = &h->tensors[i];
		int64_t k = rule_for(w->o, t->name);
		const char *rule = k < 0 ? "" : w->o->renames[k];

		if (k >= 0) {
			n = strcspn(rule, "=");
			n = (size_t)sprintf(at, "%s%s", rule + n + 1,
					    t->name + n) + 1;
			t->name = at;
			at += n;
		}
	}
	qsort(h->tensors, h->n, sizeof *h->tensors, by_name);
	for (i = 1; i < h->n; i++) {
		if (strcmp(h->tensors[i - 1].name, h->tensors[i].name) == 0) {
			return rt_fail(err, RT_RANGE, RT_NOWHERE, "--rename: "
				       "two tensors of the file are then "
				       "called '%s'",
				       rt_show_name(h->tensors[i].name).text);
		}
	}
	return RT_OK;
}

/* ---- what is there -------------------------------------------------- */

/*
 * *none: no part of the tensor is in the files, and it may start fresh.  That
 * some parts are there and others not is never meant.
 */
static enum rt_status
is_missing(const struct weights *w, const struct rt_tensor *t, bool *none,
	   struct rt_error *err)
{
	int64_t n = rt_tensor_parts(t), part;
	char name[RT_NAME_BYTES];
	enum rt_status status;

	*none = w->o->allow_missing && !t->frozen;
	for (part = 0; part < n && *none; part++) {
		status = rt_part_name(t, part, name, err);
		if (status != RT_OK) {
			return status;
		}
		*none = !rt_st_find(w->st, name);
	}
	return RT_OK;
}

/*
 * Finds all tensors of the model, also those of other ranks, so that all ranks
 * come to the same result.
 */
static enum rt_status
find_all(struct weights *w, struct rt_error *err)
{
	const struct rt_plan *p = w->s->plan;
	const struct rt_st_tensor *found;
	enum rt_status status = RT_OK;
	int64_t i, part, n;

	for (i = 0; i < p->ntensors && status == RT_OK; i++) {
		n = p->tensors[i].loaded && !p->tensors[i].scales_of
			? rt_tensor_parts(&p->tensors[i]) : 0;
		if (n > 0) {
			status = is_missing(w, &p->tensors[i], &w->missing[i],
					    err);
		}
		if (w->missing[i] && w->o->fresh == 0) {
			w->first = rt_show_name(p->tensors[i].name);
		}
		w->o->fresh += w->missing[i] ? n : 0;
		for (part = 0; part < n && !w->missing[i] && status == RT_OK;
		     part++) {
			status = rt_find_part(w->st, w->o->path,
					      &p->tensors[i], part, &found,
					      err);
			if (status == RT_OK) {
				w->used[found - rt_st_at(w->st, 0)] = true;
			}
		}
	}
	return status;
}

static enum rt_status
read_all(const struct weights *w, struct rt_error *err)
{
	const struct rt_program *g = w->s->program;
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < g->nholds && status == RT_OK; i++) {
		const struct rt_tensor *t = g->holds[i].tensor;

		if (t->loaded && !t->scales_of &&
		    !w->missing[t - w->s->plan->tensors]) {
			status = rt_store_read(w->s, w->st, &g->holds[i], NULL,
					       err);
		}
	}
	return status;
}

static bool *
make_flags(const struct weights *w, size_t n)
{
	bool *flags = rt_resize(&w->alloc, NULL, n, sizeof *flags);

	if (flags) {
		memset(flags, 0, n * sizeof *flags);
	}
	return flags;
}

/* Opens the files and checks what is in them. */
static enum rt_status
open_file(struct weights *w, struct rt_error *err)
{
	enum rt_status status = rt_st_open_any(&w->st, w->o->path, NULL, err);

	if (status == RT_OK) {
		status = rename_all(w, err);
	}
	if (status != RT_OK) {
		return status;
	}
	w->used = make_flags(w, rt_st_count(w->st));
	w->missing = make_flags(w, (size_t)w->s->plan->ntensors);
	if (!w->used || !w->missing) {
		return rt_no_memory(err, w->o->path);
	}
	status = find_all(w, err);
	/* One rank is enough, and it may have to read two tensors. */
	if (status == RT_OK && !w->o->allow_unused && w->s->rank == 0) {
		status = rt_st_check_used(w->st, w->o->path, w->used, err);
	}
	return status;
}

enum rt_status
rt_weights_load(const struct rt_store *s, struct rt_weights_options *o,
		struct rt_error *err)
{
	struct weights w = { .s = s, .o = o, .alloc = rt_alloc_or_libc(NULL) };
	enum rt_status status;

	o->fresh = 0;
	status = open_file(&w, err);
	status = rt_store_agree_status(s, status, err);
	if (status == RT_OK) {
		status = rt_store_agree_status(s, read_all(&w, err), err);
	}
	snprintf(o->first, sizeof o->first, "%s", w.first.text);
	rt_release(&w.alloc, w.used);
	rt_release(&w.alloc, w.missing);
	rt_st_free(w.st);
	rt_release(&w.alloc, w.names);
	return status;
}

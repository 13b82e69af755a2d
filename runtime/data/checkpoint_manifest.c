/*
 * checkpoint.json, the manifest: a folder that has one is a checkpoint.
 *
 *	{"format": "llmc checkpoint", "version": 3, "model": "gpt2", "step": 42,
 *	 "sequences": 21504, "seed": "HEX", "data": "HEX",
 *	 "settings": "lr=0.001 schedule=constant",
 *	 "files": {"model.safetensors": {"bytes": 9, "header": "HEX"}, ...},
 *	 "tensors": {"wte.weight": {"bytes": 9, "sum": "HEX"}, ...},
 *	 "sum": "HEX"}
 *
 * HEX is a sum of rt_elems_sum() in 16 digits; the last one is over all bytes
 * before its own line.  So any bit that flips, in any file, is found.
 */
#include "runtime/data/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/elems.h"
#include "runtime/json.h"
#include "runtime/data/safetensors.h"

#define FORMAT "llmc checkpoint"

enum {
	TAIL_BYTES = 2 + 8 + 16 + 4, /* the line of the sum, and "}\n" */
	MAX_BYTES = 1 << 28,
};

/* Upper bounds of --steps and of a model's batch. */
#define MAX_STEP INT64_C(1000000000000000)
#define MAX_BATCH INT64_C(1000000000)

const char *
rt_stored_file(int file)
{
	return file == RT_STORED_MODEL ? "model.safetensors" :
					 "state.safetensors";
}

/* ---- writing ------------------------------------------------------- */

static int
by_name(const void *a, const void *b)
{
	const struct rt_manifest_tensor *s = a, *t = b;

	return strcmp(s->name, t->name);
}

static void
print_tensors(struct rt_text *out, const struct rt_layout *l,
	      const uint64_t *sums)
{
	size_t i;

	rt_text_add(out, "  \"tensors\": {");
	for (i = 0; i < l->n; i++) {
		rt_text_add(out, "%s\n    ", i ? "," : "");
		rt_text_string(out, l->at[i].name);
		rt_text_add(out,
			    ": {\"bytes\": %" PRId64 ", \"sum\": \"%016" PRIx64
			    "\"}", l->at[i].bytes, sums[i]);
	}
	rt_text_add(out, "\n  },\n");
}

void
rt_manifest_print(struct rt_text *out, const struct rt_layout *l,
		  const struct rt_plan *plan, const struct rt_progress *p,
		  const uint64_t *sums)
{
	const struct rt_text *h;
	int i;

	rt_text_add(out, "{\n  \"format\": \"" FORMAT "\",\n"
		    "  \"version\": %d,\n  \"model\": ", RT_MANIFEST_VERSION);
	rt_text_string(out, plan->model);
	rt_text_add(out,
		    ",\n  \"step\": %" PRId64 ",\n  \"sequences\": %" PRId64
		    ",\n  \"seed\": \"%016" PRIx64
		    "\",\n  \"data\": \"%016" PRIx64
		    "\",\n  \"settings\": ",
		    p->step, p->sequences, p->seed, p->data);
	rt_text_string(out, p->settings);
	rt_text_add(out, ",\n  \"files\": {");
	for (i = 0; i < RT_STORED_FILES; i++) {
		h = &l->files[i].header;
		rt_text_add(out,
			    "%s\n    \"%s\": {\"bytes\": %" PRId64
			    ", \"header\": \"%016" PRIx64 "\"}",
			    i ? "," : "", rt_stored_file(i),
			    l->files[i].bytes,
			    rt_elems_sum(1, h->at, 0, (int64_t)h->n));
	}
	rt_text_add(out, "\n  },\n");
	print_tensors(out, l, sums);
	if (!out->failed) {
		rt_text_add(out, "  \"sum\": \"%016" PRIx64 "\"\n}\n",
			    rt_elems_sum(1, out->at, 0, (int64_t)out->n));
	}
}

/* ---- reading ------------------------------------------------------- */

/* A string of 16 hexadecimal digits. */
static bool
parse_hex(struct rt_json *j, uint64_t *out)
{
	const char *s, *p;
	uint64_t v = 0;

	if (!rt_json_string(j, &s)) {
		return false;
	}
	for (p = s; (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'f');
	     p++) {
		v = v << 4 | (uint64_t)(*p <= '9' ? *p - '0' : *p - 'a' + 10);
	}
	if (*p || p - s != 16) {
		return rt_json_fail(j, RT_FORMAT, s,
				    "found '%s', expected 16 hexadecimal "
				    "digits", rt_show_name(s).text);
	}
	*out = v;
	return true;
}

/* {"bytes": N, "WHAT": HEX}, in this order, as it was written. */
static bool
parse_sized(struct rt_json *j, const char *what, int64_t *bytes,
	    uint64_t *sum)
{
	const char *keys[2] = { "bytes", NULL }, *key;
	size_t i = 0;

	keys[1] = what;
	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		if (i > 2 || strcmp(key, keys[i - 1]) != 0) {
			return rt_json_fail(j, RT_FORMAT, key,
					    "found key '%s', expected bytes "
					    "and %s, in this order",
					    rt_show_name(key).text, what);
		}
		if (i == 1) {
			rt_json_int(j, bytes);
		} else {
			parse_hex(j, sum);
		}
	}
	if (j->status == RT_OK && i != 2) {
		return rt_json_fail(j, RT_FORMAT, j->text + j->at,
				    "found %zu keys, expected bytes and %s", i,
				    what);
	}
	return j->status == RT_OK;
}

static bool
parse_files(struct rt_json *j, struct rt_manifest *m)
{
	const char *key;
	size_t i = 0;

	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		if (i > RT_STORED_FILES ||
		    strcmp(key, rt_stored_file((int)i - 1)) != 0) {
			return rt_json_fail(j, RT_FORMAT, key,
					    "found file '%s', expected "
					    "model.safetensors and "
					    "state.safetensors, in this order",
					    rt_show_name(key).text);
		}
		parse_sized(j, "header", &m->files[i - 1].bytes,
			    &m->files[i - 1].header);
	}
	if (j->status == RT_OK && i != RT_STORED_FILES) {
		return rt_json_fail(j, RT_FORMAT, j->text + j->at,
				    "found %zu files, expected %d", i,
				    RT_STORED_FILES);
	}
	return j->status == RT_OK;
}

static bool
parse_tensors(struct rt_json *j, struct rt_manifest *m)
{
	struct rt_manifest_tensor *t;
	const char *name;
	size_t i = 0, capacity;

	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &name)) {
		if (m->n == m->capacity) {
			capacity = m->capacity ? m->capacity * 2 : 64;
			t = rt_resize(&m->alloc, m->tensors, capacity,
				      sizeof(*t));
			if (!t) {
				return rt_json_fail(j, RT_NOMEM, NULL,
						    "out of memory");
			}
			m->tensors = t;
			m->capacity = capacity;
		}
		t = &m->tensors[m->n];
		t->name = name;
		if (!parse_sized(j, "sum", &t->bytes, &t->sum)) {
			return false;
		}
		m->n++;
	}
	if (m->n > 0) {
		qsort(m->tensors, m->n, sizeof(*m->tensors), by_name);
	}
	for (i = 1; i < m->n; i++) {
		t = &m->tensors[i];
		if (strcmp(t[-1].name, t->name) == 0) {
			return rt_json_fail(j, RT_FORMAT, t->name,
					    "found tensor '%s' twice, expected "
					    "it once",
					    rt_show_name(t->name).text);
		}
	}
	return j->status == RT_OK;
}

static bool
parse_format(struct rt_json *j)
{
	const char *s;

	if (!rt_json_string(j, &s)) {
		return false;
	}
	if (strcmp(s, FORMAT) != 0) {
		return rt_json_fail(j, RT_FORMAT, s,
				    "found format '%s', expected '" FORMAT "'",
				    rt_show_name(s).text);
	}
	return true;
}

static bool
parse_version(struct rt_json *j, struct rt_manifest *m)
{
	if (!rt_json_int(j, &m->version)) {
		return false;
	}
	if (m->version < RT_MANIFEST_OLDEST ||
	    m->version > RT_MANIFEST_VERSION) {
		return rt_json_fail(j, RT_FORMAT, j->text + j->at,
				    "found version %" PRId64 ", expected %d "
				    "or %d", m->version, RT_MANIFEST_OLDEST,
				    RT_MANIFEST_VERSION);
	}
	return true;
}

static bool
parse_settings(struct rt_json *j, struct rt_manifest *m)
{
	if (!rt_json_string(j, &m->settings)) {
		return false;
	}
	if (strlen(m->settings) >= RT_SETTINGS_BYTES) {
		return rt_json_fail(j, RT_FORMAT, m->settings,
				    "found settings of %zu bytes, expected at "
				    "most %d", strlen(m->settings),
				    RT_SETTINGS_BYTES - 1);
	}
	return true;
}

/* Checks that no later arithmetic on the numbers overflows. */
static bool
check_progress(struct rt_json *j, const struct rt_manifest *m)
{
	if (m->step > MAX_STEP) {
		return rt_json_fail(j, RT_FORMAT, NULL,
				    "found step %" PRId64 ", expected 0 to "
				    "%" PRId64, m->step, MAX_STEP);
	}
	if (m->sequences < m->step || m->sequences / MAX_BATCH > m->step ||
	    (m->step == 0 && m->sequences > 0)) {
		return rt_json_fail(j, RT_FORMAT, NULL,
				    "found %" PRId64 " sequences of %" PRId64
				    " steps, expected %" PRId64 " to %" PRId64
				    " for each", m->sequences, m->step,
				    (int64_t)1, MAX_BATCH);
	}
	return true;
}

/* Keys come in the order of writing; the final sum was checked before. */
static bool
parse_manifest(struct rt_json *j, struct rt_manifest *m)
{
	static const char *const keys[] = { "format", "version", "model",
					    "step", "sequences", "seed",
					    "data", "settings", "files",
					    "tensors", "sum" };
	size_t n = sizeof(keys) / sizeof(keys[0]), i = 0;
	const char *key, *ignored;

	m->settings = "";

	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		i += i == 8 && m->version == RT_MANIFEST_OLDEST;
		if (i > n || strcmp(key, keys[i - 1]) != 0) {
			return rt_json_fail( j, RT_FORMAT, key,
					    "found key '%s', expected %s",
					    rt_show_name(key).text, i > n ?
					    "no more" : keys[i - 1]);
		}
		switch (i) {
		case 1: parse_format(j); break;
		case 2: parse_version(j, m); break;
		case 3: rt_json_string(j, &m->model); break;
		case 4: rt_json_int(j, &m->step); break;
		case 5: rt_json_int(j, &m->sequences); break;
		case 6: parse_hex(j, &m->seed); break;
		case 7: parse_hex(j, &m->data); break;
		case 8: parse_settings(j, m); break;
		case 9: parse_files(j, m); break;
		case 10: parse_tensors(j, m); break;
		default: rt_json_string(j, &ignored); break;
		}
	}
	if (j->status == RT_OK && i != n) {
		return rt_json_fail(j, RT_FORMAT, j->text + j->at,
				    "found the end, expected key '%s'",
				    keys[i]);
	}
	return rt_json_end(j, "\n") && check_progress(j, m);
}

/* Checks that the text ends with the sum over all before it. */
static bool
check_sum(struct rt_json *j)
{
	struct rt_text want = { rt_alloc_or_libc(NULL), NULL, 0, 0, false };
	size_t at = j->len < TAIL_BYTES ? 0 : j->len - TAIL_BYTES;
	bool same;

	rt_text_add(&want, "  \"sum\": \"%016" PRIx64 "\"\n}\n",
		    rt_elems_sum(1, j->text, 0, (int64_t)at));
	if (want.failed) {
		return rt_json_fail(j, RT_NOMEM, NULL, "out of memory");
	}
	same = j->len - at == want.n &&
	       memcmp(j->text + at, want.at, want.n) == 0;
	rt_text_release(&want);
	if (!same) {
		return rt_json_fail(j, RT_FORMAT, j->text + at,
				    "found another sum at its end than that "
				    "of its bytes, expected the file as it "
				    "was written: it was cut short or "
				    "changed");
	}
	return true;
}

/* Takes ownership of `text`, which has a NUL after its n bytes. */
static enum rt_status
parse_text(struct rt_manifest *m, const char *path, char *text, size_t n,
	   struct rt_error *err)
{
	struct rt_json j = { 0 };

	m->text = text;
	j.text = text;
	j.len = n;
	j.path = path;
	j.err = err;
	if (!rt_json_check_utf8(&j) || !check_sum(&j) || !parse_manifest(&j, m))
		{
		rt_manifest_release(m);
	}
	return j.status;
}

enum rt_status
rt_manifest_parse(struct rt_manifest *m, const char *path, const void *text,
		  size_t n, struct rt_error *err)
{
	char *copy;

	memset(m, 0, sizeof(*m));
	m->alloc = rt_alloc_or_libc(NULL);
	copy = rt_resize(&m->alloc, NULL, n + 1, 1);
	if (!copy) {
		return rt_no_memory(err, path);
	}
	memcpy(copy, text, n);
	copy[n] = '\0';
	return parse_text(m, path, copy, n, err);
}

enum rt_status
rt_manifest_read(struct rt_manifest *m, const char *path, struct rt_error *err)
{
	struct rt_where where = { path, NULL, -1 };
	struct rt_alloc a = rt_alloc_or_libc(NULL);
	char *copy = rt_join(&a, path, strlen(path), ""), *text;
	enum rt_status status;
	struct rt_shard s;

	memset(m, 0, sizeof(*m));
	m->alloc = a;
	if (!copy) {
		return rt_no_memory(err, path);
	}
	status = rt_shard_open(&s, copy, err);
	if (status == RT_OK && s.file_bytes > MAX_BYTES) {
		status = rt_fail(err, RT_FORMAT, where,
				 "found %" PRId64 " bytes, expected at most %d",
				 s.file_bytes, MAX_BYTES);
	}
	if (status == RT_OK) {
		status = rt_shard_read_text(&a, &s, 0, s.file_bytes, &text,
					    err);
	}
	if (status == RT_OK) {
		status = parse_text(m, path, text, (size_t)s.file_bytes, err);
	}
	rt_shard_release(&a, &s);
	return status;
}

void
rt_manifest_release(struct rt_manifest *m)
{
	struct rt_alloc a = m->alloc;

	if (m->text) {
		rt_release(&a, m->text);
		rt_release(&a, m->tensors);
	}
	memset(m, 0, sizeof(*m));
}

const struct rt_manifest_tensor *
rt_manifest_find(const struct rt_manifest *m, const char *name)
{
	struct rt_manifest_tensor key = { name, 0, 0 };

	return m->n ? bsearch(&key, m->tensors, m->n, sizeof(key), by_name) :
		      NULL;
}

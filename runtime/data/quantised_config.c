/*
 * What the config.json beside weights says of how they are quantised: one
 * object, quantization_config, in which each program that quantises has keys of
 * its own.  docs/checkpoints.md has the table.
 */
#include "runtime/data/quantised.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	MOST_BYTES = 4 << 20, /* of a config.json */
	NOT_GIVEN = -2, /* less than any number that is read */
};

/* The keys of quantization_config, of any method; NULL, NOT_GIVEN: none. */
struct settings {
	const char *method, *format, *algorithm, *checkpoint, *version, *fmt;
	const char *packs_in, *sparsity;
	int64_t bits, group;
	int64_t rows, columns; /* 0: not given */
	int64_t zero_point, is_marlin; /* flags */
	const char *dynamic; /* at it, if it says something of modules */
};

/* Those of the weights of one of compressed-tensors' groups. */
struct weights_group {
	const char *type, *strategy, *format;
	int64_t bits, size, rows, columns;
	int64_t symmetric; /* a flag */
};

struct saying {
	struct rt_json j;
	const struct rt_alloc *alloc;
	struct rt_quantisation *q;
	struct settings s;
	const char *at; /* quantization_config, for messages */
};

/* ---- values ---------------------------------------------------------- */

static bool
read_text(struct rt_json *j, const char **out)
{
	return rt_json_null(j) || rt_json_string(j, out);
}

static bool
read_flag(struct rt_json *j, int64_t *out)
{
	bool value = false;

	if (rt_json_null(j)) {
		return true;
	}
	if (!rt_json_bool(j, &value)) {
		return false;
	}
	*out = value;
	return true;
}

/* A whole number, which may be -1. */
static bool
read_number(struct rt_json *j, int64_t *out)
{
	const char *word;
	char text[24], *end;
	size_t n;

	if (rt_json_null(j)) {
		return true;
	}
	if (!rt_json_word(j, &word, &n)) {
		return false;
	}
	snprintf(text, sizeof(text), "%.*s", (int)(n < 20 ? n : 20), word);
	*out = strtoll(text, &end, 10);
	if (*end || end == text || *out < -1 || *out > INT32_MAX) {
		return rt_json_fail(j, RT_FORMAT, word, "found %s, expected a "
				    "whole number from -1 to %d", text,
				    INT32_MAX);
	}
	return true;
}

/* [rows, columns] of a block */
static bool
read_pair(struct rt_json *j, int64_t *rows, int64_t *columns)
{
	const char *at;
	int64_t v[2] = { 0, 0 };
	size_t i = 0;

	if (rt_json_null(j)) {
		return true;
	}
	rt_json_open(j, '[');
	at = j->text + j->at;
	while (rt_json_more(j, ']', &i) && i <= 2) {
		if (rt_json_int(j, &v[i - 1]) && v[i - 1] == 0) {
			return rt_json_fail(j, RT_FORMAT, at, "found a block "
					    "of 0 %s, expected 1 or more",
					    i == 1 ? "rows" : "columns");
		}
	}
	if (j->status == RT_OK && i != 2) {
		return rt_json_fail(j, RT_FORMAT, at, "found another size of a "
				    "block, expected [rows, columns]");
	}
	*rows = v[0];
	*columns = v[1];
	return j->status == RT_OK;
}

/* The names of modules that are not quantised; any but a list is skipped. */
static bool
read_ignored(struct saying *c)
{
	struct rt_pairs *p = &c->q->ignored;
	struct rt_json *j = &c->j;
	size_t i = 0, more;
	void *array;

	if (rt_json_peek(j) != '[') {
		return rt_json_skip(j);
	}
	rt_json_open(j, '[');
	while (rt_json_more(j, ']', &i)) {
		if (p->n == p->capacity) {
			more = 2 * p->capacity + 16;
			array = rt_resize(c->alloc, p->at, more,
					  sizeof(*p->at));
			if (!array) {
				return rt_json_fail(j, RT_NOMEM, NULL,
						    "out of memory");
			}
			p->at = array;
			p->capacity = more;
		}
		if (!rt_json_string(j, &p->at[p->n].key)) {
			return false;
		}
		p->at[p->n++].value = "";
	}
	return j->status == RT_OK;
}

/* ---- schemes --------------------------------------------------------- */

static bool
fail_at(struct saying *c, const char *at, const char *key, const char *found,
	const char *expected)
{
	return rt_json_fail(&c->j, RT_FORMAT, at ? at : c->at, "found %s%s%s, "
			    "expected %s", key, *key ? " " : "",
			    rt_show_name(found).text, expected);
}

static bool
is_one(const char *text, const char *a, const char *b)
{
	return strcmp(text, a) == 0 || strcmp(text, b) == 0;
}

static bool
add_scheme(struct saying *c, const struct rt_scheme *s)
{
	if (c->q->nschemes == RT_MOST_SCHEMES) {
		return fail_at(c, NULL, "", "more groups of weights",
			       "at most 8");
	}
	c->q->schemes[c->q->nschemes++] = *s;
	return true;
}

/* f8e4m3 with a scale for each tensor, or for each block of it. */
static bool
read_fp8(struct saying *c)
{
	const struct rt_scheme s = { 8, true, c->s.rows, c->s.columns, false,
				     false };

	if (c->s.fmt && !is_one(c->s.fmt, "e4m3", "float8_e4m3fn")) {
		return fail_at(c, c->s.fmt, "fmt", c->s.fmt, "e4m3");
	}
	return add_scheme(c, &s);
}

static bool
read_modelopt(struct saying *c)
{
	static const struct {
		const char *name;
		int64_t rows, columns;
	} algorithms[] = {
		{ "FP8", 0, 0 },
		{ "FP8_PER_CHANNEL_PER_TOKEN", 1, 0 },
		{ "FP8_PB_WO", 128, 128 },
		{ "fp8_pb_wo", 128, 128 },
	};
	const char *found = c->s.algorithm ? c->s.algorithm : "none";
	struct rt_scheme s = { 8, true, 0, 0, false, false };
	size_t i;

	for (i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
		if (strcmp(found, algorithms[i].name) == 0) {
			s.rows = algorithms[i].rows;
			s.columns = algorithms[i].columns;
			return add_scheme(c, &s);
		}
	}
	return fail_at(c, c->s.algorithm, "quant_algo", found, "FP8, "
		       "FP8_PER_CHANNEL_PER_TOKEN or FP8_PB_WO");
}

/* A number that is none of those expected. */
static bool
fail_number(struct saying *c, const char *key, int64_t found,
	    const char *expected)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)found);
	return found == NOT_GIVEN ? fail_at(c, NULL, "no", key, expected)
		: fail_at(c, NULL, key, text, expected);
}

static bool
fail_group_size(struct saying *c, int64_t found)
{
	return fail_number(c, "group_size", found, "numbers of a row that "
			   "share a scale, or -1: all of them");
}

/* bits and group_size of GPTQ and AWQ */
static bool
read_grouped(struct saying *c, struct rt_scheme *s, const char *bits)
{
	if (c->s.bits != 4 && (c->s.bits != 8 || strcmp(bits, "4") == 0)) {
		return fail_number(c, "bits", c->s.bits, bits);
	}
	if (c->s.group == 0 || c->s.group == NOT_GIVEN) {
		return fail_group_size(c, c->s.group);
	}
	s->bits = c->s.bits;
	s->rows = 1;
	s->columns = c->s.group > 0 ? c->s.group : 0;
	s->has_zeros = true;
	return add_scheme(c, s);
}

static bool
read_gptq(struct saying *c)
{
	const char *format = c->s.checkpoint ? c->s.checkpoint : "gptq";
	struct rt_scheme s = { 0 };

	if (!is_one(format, "gptq", "gptq_v2") || c->s.is_marlin == 1) {
		return fail_at(c, c->s.checkpoint, "checkpoint_format",
			       c->s.is_marlin == 1 ? "marlin" : format,
			       "gptq or gptq_v2");
	}
	if (c->s.packs_in && strcmp(c->s.packs_in, "int32") != 0) {
		return fail_at(c, c->s.packs_in, "pack_dtype", c->s.packs_in,
			       "int32");
	}
	if (c->s.dynamic) {
		return fail_at(c, c->s.dynamic, "", "settings of single "
			       "modules in `dynamic`", "none");
	}
	s.less_one = strcmp(format, "gptq") == 0;
	return read_grouped(c, &s, "4 or 8");
}

static bool
read_awq(struct saying *c)
{
	struct rt_scheme s = { 0 };

	if (c->s.version && !is_one(c->s.version, "gemm", "GEMM")) {
		return fail_at(c, c->s.version, "version", c->s.version,
			       "gemm");
	}
	if (c->s.zero_point == 0) {
		return fail_at(c, NULL, "zero_point", "false", "true");
	}
	return read_grouped(c, &s, "4");
}

/* ---- compressed-tensors ---------------------------------------------- */

static bool
read_group_weights(struct saying *c, struct weights_group *g)
{
	struct rt_json *j = &c->j;
	const char *key;
	size_t i = 0;

	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		if (strcmp(key, "num_bits") == 0) {
			read_number(j, &g->bits);
		} else if (strcmp(key, "type") == 0) {
			read_text(j, &g->type);
		} else if (strcmp(key, "strategy") == 0) {
			read_text(j, &g->strategy);
		} else if (strcmp(key, "group_size") == 0) {
			read_number(j, &g->size);
		} else if (strcmp(key, "symmetric") == 0) {
			read_flag(j, &g->symmetric);
		} else if (strcmp(key, "block_structure") == 0) {
			read_pair(j, &g->rows, &g->columns);
		} else {
			rt_json_skip(j);
		}
	}
	return j->status == RT_OK;
}

/* Which numbers share a scale. */
static bool
read_strategy(struct saying *c, const struct weights_group *g,
	      struct rt_scheme *s)
{
	const char *word = g->strategy ? g->strategy : g->size > 0 ? "group"
		: g->size == -1 ? "channel" : "tensor";

	if (g->size == 0) {
		return fail_group_size(c, 0);
	}
	if (strcmp(word, "channel") == 0) {
		s->rows = 1;
	} else if (strcmp(word, "group") == 0 && g->size > 0) {
		s->rows = 1;
		s->columns = g->size;
	} else if (strcmp(word, "block") == 0 && g->rows > 0) {
		s->rows = g->rows;
		s->columns = g->columns;
	} else if (strcmp(word, "tensor") != 0) {
		return fail_at(c, g->strategy, "strategy", word, "tensor, "
			       "channel, group with a group_size, or block "
			       "with a block_structure");
	}
	return true;
}

static bool
add_group(struct saying *c, const struct weights_group *g)
{
	const char *type = g->type ? g->type : "int";
	struct rt_scheme s = { .bits = g->bits == NOT_GIVEN ? 8 : g->bits };
	char text[48];

	s.is_float = strcmp(type, "float") == 0;
	s.has_zeros = g->symmetric == 0;
	if ((s.bits != 8 && (s.bits != 4 || s.is_float)) ||
	    (!s.is_float && strcmp(type, "int") != 0) ||
	    (s.is_float && s.has_zeros)) {
		snprintf(text, sizeof(text), "%s, %s of %d bits",
			 s.has_zeros ? "asymmetric" : "symmetric",
			 s.is_float ? "float" : "int", (int)s.bits);
		return fail_at(c, g->type, "", text, "int of 4 or 8 bits, or "
			       "symmetric float of 8");
	}
	return read_strategy(c, g, &s) && add_scheme(c, &s);
}

/* {"group_0": {"weights": {..}, ..}, ..} */
static bool
read_groups(struct saying *c)
{
	struct rt_json *j = &c->j;
	const char *name, *key;
	size_t i = 0, k;

	if (rt_json_null(j)) {
		return true;
	}
	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &name)) {
		struct weights_group g = { .bits = NOT_GIVEN,
					   .size = NOT_GIVEN, .symmetric = 1 };
		bool has_weights = false;

		rt_json_open(j, '{');
		for (k = 0; rt_json_more(j, '}', &k) && rt_json_key(j, &key);) {
			if (strcmp(key, "weights") == 0) {
				has_weights = !rt_json_null(j) &&
					      read_group_weights(c, &g);
			} else {
				rt_json_skip(j);
			}
		}
		if (j->status == RT_OK && has_weights) {
			add_group(c, &g);
		}
	}
	return j->status == RT_OK;
}

/* {"format": ..}: what is sparse has tensors of other kinds. */
static bool
read_sparsity(struct saying *c)
{
	struct rt_json *j = &c->j;
	const char *key;
	size_t i = 0;

	if (rt_json_null(j)) {
		return true;
	}
	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		if (strcmp(key, "format") == 0) {
			read_text(j, &c->s.sparsity);
		} else {
			rt_json_skip(j);
		}
	}
	return j->status == RT_OK;
}

static bool
check_compressed(struct saying *c)
{
	static const char *const formats[] = {
		"float-quantized", "int-quantized", "naive-quantized",
		"pack-quantized", "mixed-precision", "dense",
	};
	size_t i, n = sizeof(formats) / sizeof(formats[0]);

	if (c->s.sparsity && strcmp(c->s.sparsity, "dense") != 0) {
		return fail_at(c, c->s.sparsity, "sparse weights,",
			       c->s.sparsity, "dense ones");
	}
	for (i = 0; c->s.format && i < n &&
	     strcmp(c->s.format, formats[i]) != 0; i++) {
	}
	return i < n || !c->s.format
		? true : fail_at(c, c->s.format, "format", c->s.format,
				 "float-quantized, int-quantized, "
				 "naive-quantized, pack-quantized or "
				 "mixed-precision");
}

/* ---- the whole ------------------------------------------------------- */

/* A key whose value is an object or a list; false: it is none of them. */
static bool
read_nested(struct saying *c, const char *key)
{
	struct rt_json *j = &c->j;

	if (strcmp(key, "config_groups") == 0) {
		/* of ModelOpt too, whose quant_algo says it */
		read_groups(c);
	} else if (strcmp(key, "sparsity_config") == 0) {
		read_sparsity(c);
	} else if (strcmp(key, "ignore") == 0) {
		read_ignored(c);
	} else if (strcmp(key, "weight_block_size") == 0) {
		read_pair(j, &c->s.rows, &c->s.columns);
	} else if (strcmp(key, "dynamic") == 0 && rt_json_peek(j) == '{') {
		c->s.dynamic = j->text + j->at;
		rt_json_skip(j);
		if (j->text + j->at - c->s.dynamic <= 2) {
			c->s.dynamic = NULL;
		}
	} else {
		return false;
	}
	return true;
}

static bool
read_settings(struct saying *c)
{
	struct settings *s = &c->s;
	const struct {
		const char *key;
		const char **text;
		int64_t *number, *flag;
	} keys[] = {
		{ "quant_method", &s->method, NULL, NULL },
		{ "format", &s->format, NULL, NULL },
		{ "quant_algo", &s->algorithm, NULL, NULL },
		{ "checkpoint_format", &s->checkpoint, NULL, NULL },
		{ "version", &s->version, NULL, NULL },
		{ "fmt", &s->fmt, NULL, NULL },
		{ "pack_dtype", &s->packs_in, NULL, NULL },
		{ "bits", NULL, &s->bits, NULL },
		{ "w_bit", NULL, &s->bits, NULL },
		{ "group_size", NULL, &s->group, NULL },
		{ "q_group_size", NULL, &s->group, NULL },
		{ "zero_point", NULL, NULL, &s->zero_point },
		{ "is_marlin_format", NULL, NULL, &s->is_marlin },
	};
	const size_t n = sizeof(keys) / sizeof(keys[0]);
	struct rt_json *j = &c->j;
	const char *key;
	size_t i = 0, k;

	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		for (k = 0; k < n && strcmp(key, keys[k].key) != 0; k++) {
		}
		if (k == n) {
			if (!read_nested(c, key)) {
				rt_json_skip(j);
			}
		} else if (keys[k].text) {
			read_text(j, keys[k].text);
		} else if (keys[k].number) {
			read_number(j, keys[k].number);
		} else {
			read_flag(j, keys[k].flag);
		}
	}
	return j->status == RT_OK;
}

/* What the settings mean, by the method. */
static bool
read_method(struct saying *c)
{
	const char *m = c->s.method ? c->s.method : "none";

	if (strcmp(m, "compressed-tensors") == 0) {
		return check_compressed(c);
	}
	c->q->nschemes = 0;
	return strcmp(m, "fp8") == 0 ? read_fp8(c)
		: strcmp(m, "modelopt") == 0 ? read_modelopt(c)
		: strcmp(m, "gptq") == 0 ? read_gptq(c)
		: strcmp(m, "awq") == 0 ? read_awq(c)
		: fail_at(c, c->s.method, "quant_method", m, "fp8, modelopt, "
			  "compressed-tensors, gptq or awq");
}

static int
by_key(const void *a, const void *b)
{
	const struct rt_st_pair *p = a, *q = b;

	return strcmp(p->key, q->key);
}

/* Reads the object that one of two keys has; the others say other things. */
static bool
read_file(struct saying *c, const char *key_a, const char *key_b)
{
	struct rt_json *j = &c->j;
	const char *key;
	size_t i = 0;

	rt_json_check_utf8(j);
	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		if (!is_one(key, key_a, key_b)) {
			rt_json_skip(j);
		} else if (rt_json_null(j)) {
			continue;
		} else if (c->at) {
			rt_json_fail(j, RT_FORMAT, key, "found a second %s, "
				     "expected one", key);
		} else {
			c->at = key;
			read_settings(c);
		}
	}
	return rt_json_end(j, " \t\r\n");
}

static enum rt_status
parse(struct rt_quantisation *q, size_t len, const char *path, const char *a,
      const char *b, const struct rt_alloc *alloc, struct rt_error *err)
{
	struct saying c = { .alloc = alloc, .q = q };

	c.j.text = q->text;
	c.j.len = len;
	c.j.path = path;
	c.j.err = err;
	c.s = (struct settings){ .bits = NOT_GIVEN, .group = NOT_GIVEN,
				 .zero_point = -1, .is_marlin = -1 };
	if (read_file(&c, a, b) && c.at) {
		if (!c.s.method && strcmp(a, "quantization") == 0) {
			c.s.method = "modelopt";
		}
		q->method = c.s.method;
		read_method(&c);
	}
	if (q->ignored.n > 0) {
		qsort(q->ignored.at, q->ignored.n, sizeof(*q->ignored.at),
		      by_key);
	}
	return c.j.status;
}

/* Reads a file in the folder of `path`; without it nothing is said. */
static enum rt_status
read_beside(struct rt_quantisation *q, const char *path, const char *name,
	    const char *a, const char *b, const struct rt_alloc *alloc,
	    struct rt_error *err)
{
	const char *slash = strrchr(path, '/');
	struct rt_where where = { NULL, NULL, -1 };
	enum rt_status status;
	struct rt_shard s;
	char *beside;

	beside = rt_join(alloc, path, slash ? (size_t)(slash - path) + 1 : 0,
			 name);
	if (!beside) {
		return rt_no_memory(err, path);
	}
	if (access(beside, F_OK) != 0) {
		rt_release(alloc, beside);
		return RT_OK;
	}
	where.path = beside;
	status = rt_shard_open(&s, beside, err);
	if (status == RT_OK && s.file_bytes > MOST_BYTES) {
		status = rt_fail(err, RT_FORMAT, where, "found %lld bytes, "
				 "expected at most %d",
				 (long long)s.file_bytes, MOST_BYTES);
	}
	if (status == RT_OK) {
		status = rt_shard_read_text(alloc, &s, 0, s.file_bytes,
					    &q->text, err);
	}
	if (status == RT_OK) {
		status = parse(q, (size_t)s.file_bytes, beside, a, b, alloc,
			       err);
	}
	rt_shard_release(alloc, &s);
	return status;
}

enum rt_status
rt_quantisation_read(struct rt_quantisation *q, const char *path,
		     const struct rt_alloc *alloc, struct rt_error *err)
{
	enum rt_status status;

	memset(q, 0, sizeof(*q));
	status = read_beside(q, path, "config.json", "quantization_config",
			     "compression_config", alloc, err);
	if (status == RT_OK && !q->method) {
		rt_quantisation_release(q, alloc);
		status = read_beside(q, path, "hf_quant_config.json",
				     "quantization", "quantization", alloc,
				     err);
	}
	return status;
}

void
rt_quantisation_release(struct rt_quantisation *q, const struct rt_alloc *alloc)
{
	rt_release(alloc, q->text);
	rt_release(alloc, q->ignored.at);
	memset(q, 0, sizeof(*q));
}

/*
 * Weights by name, from files and shards, into any plan; and
 * elements from one type to another.
 */
#include "tests/unit/data/t-store.h"

#include <math.h>

#include "runtime/device/pool.h"
#include "runtime/elems.h"
#include "runtime/data/tensor_store.h"

/* ---- files --------------------------------------------------------- */

/* A number that every type here has exactly. */
static double
number(int k, int64_t elem)
{
	return (double)((k * 131 + elem * 17) % 255 - 127) / 8;
}

/* A file as somebody else writes it. */
struct maker {
	char json[8000];
	unsigned char data[40000];
	size_t n_json, n_data;
};

static void
maker_add(struct maker *m, const char *name, const char *shape,
	  const char *dtype, const void *data, size_t n)
{
	m->n_json += (size_t)snprintf(
		m->json + m->n_json, sizeof(m->json) - m->n_json,
		"%c'%s':{'dtype':'%s','shape':[%s],'data_offsets':[%zu,%zu]}",
		m->n_json ? ',' : '{', name, dtype, shape, m->n_data,
		m->n_data + n);
	assert_true(m->n_json < sizeof(m->json) - 2);
	assert_true(m->n_data + n <= sizeof(m->data));
	memcpy(m->data + m->n_data, data, n);
	m->n_data += n;
}

static void
maker_put(struct maker *m, const char *dir, const char *name)
{
	struct bytes b;

	m->json[m->n_json++] = '}';
	m->json[m->n_json] = '\0';
	b = make(m->json, m->n_data);
	memcpy(b.at + b.n - m->n_data, m->data, m->n_data);
	put_bytes(dir, name, b);
	free(m);
}

static struct maker *
maker_new(void)
{
	struct maker *m = calloc(1, sizeof(*m));

	assert_non_null(m);
	return m;
}

/* Shapes that other programs give to the parts of loaded tensors. */
static const char *
joined_shape(int k)
{
	switch (k) {
	case 0:
		return "10";
	case 1:
		return "60";		/* all in one */
	case 3:
		return "10,6";		/* one of 1 left out */
	case 4:
		return "";
	default:
		return "7,10";
	}
}

/* All parts of loaded tensors from `from` on, less than `to`. */
static void
add_tensors(struct maker *m, int from, int to, enum rt_elem elem)
{
	static const struct model_tensor *const all = model_tensors;
	unsigned char data[1000];
	char name[RT_NAME_BYTES];
	struct rt_tensor t;
	int64_t part, i, n;
	double d;
	int k;

	for (k = from; k < to; k++) {
		memset(&t, 0, sizeof(t));
		t.name = all[k].name;
		t.ndims = all[k].ndims;
		t.dims = all[k].dims;
		t.sizes = all[k].sizes;
		t.stacked = all[k].stacked;
		n = rt_part_elems(&t);
		for (part = 0; all[k].loaded && part < rt_tensor_parts(&t);
		     part++) {
			for (i = 0; i < n; i++) {
				d = number(k, part * n + i);
				rt_elems_convert(
					RT_F64, &d, elem,
					data + i * rt_elem_bytes(elem), 1);
			}
			assert_int_equal(rt_part_name(&t, part, name, NULL),
					 RT_OK);
			maker_add(m, name, joined_shape(k),
				  rt_dtype_name(rt_elem_dtype(elem)), data,
				  (size_t)(n * rt_elem_bytes(elem)));
		}
	}
}

/* Is each weight there, on each rank, and each state untouched? */
static void
check_arenas(const struct test_plan *t, const struct run *r)
{
	int64_t rank, i, d, n, e;
	double got, want;

	for (rank = 0; rank < t->plan.nranks; rank++) {
		const struct rt_program *g = &t->programs[rank];

		for (i = 0; i < g->nholds; i++) {
			const struct rt_hold *h = &g->holds[i];
			int k = (int)(h->tensor - t->tensors);
			enum rt_elem elem = (enum rt_elem)h->tensor->elem;

			n = 1;
			for (d = 0; d < h->tensor->ndims; d++) {
				n *= t->pieces[k][d][rank].total;
			}
			for (e = 0; e < n; e++) {
				rt_elems_convert(
					rt_elem_dtype(elem),
					r->jobs[rank].store.arena + h->offset +
						e * rt_elem_bytes(elem),
					RT_ELEM_F64, &got, 1);
				want = h->tensor->loaded ?
				       number(k, whole_elem(t, k, rank, e)) :
				       0;
				assert_true(fabs(got - want) < 1e-12);
			}
		}
	}
}

static void
must_load_weights(const struct test_plan *t, const char *path, int unused)
{
	char text[80];
	struct run r;

	run_all(&r, t, WEIGHTS, path, 0, unused > 0, NULL);
	assert_string_equal(r.message, "");
	check_arenas(t, &r);
	run_free(&r);
	if (unused > 0) {
		snprintf(text, sizeof(text), "found %d tensor%s that the "
			 "model does not read: ", unused,
			 unused == 1 ? "" : "s");
		run_all(&r, t, WEIGHTS, path, 0, 0, NULL);
		assert_int_equal(r.status, RT_FORMAT);
		assert_non_null(strstr(r.message, text));
		run_free(&r);
	}
}

/* ---- any plan ------------------------------------------------------ */

static void
test_files_and_shards(void **state)
{
	static const char *const names[] = { "model.safetensors", "a.st",
					     "b.st",
					     "model.safetensors.index.json",
					     NULL };
	static const struct spec specs[] = {
		{ 1, 1, 1, false }, { 2, 2, 2, true }, { 2, 3, 1, false },
	};
	static const enum rt_elem elems[] = { RT_ELEM_F16, RT_ELEM_F32,
					      RT_ELEM_BF16, RT_ELEM_F64 };
	struct maker *m, *index;
	size_t i, j, k;
	char *dir;

	(void)state;
	for (i = 0; i < 4; i++) {
		dir = make_dir();
		m = maker_new();
		add_tensors(m, 0, NTENSORS, elems[i]);
		maker_add(m, "h.0.attn.bias", "3", "U8", "abc", 3);
		maker_put(m, dir, "model.safetensors");
		m = maker_new();
		add_tensors(m, 0, 2, elems[i]);
		maker_put(m, dir, "a.st");
		m = maker_new();
		add_tensors(m, 2, NTENSORS, elems[(i + 1) % 4]);
		maker_put(m, dir, "b.st");
		index = maker_new();
		index->n_json = (size_t)snprintf(index->json,
			sizeof(index->json), "{'weight_map':{"
			"'wte.weight':'b.st'");
		for (j = 0; j < LAYERS; j++) {
			index->n_json += (size_t)snprintf(
				index->json + index->n_json, 500,
				",'h.%zu.ln.weight':'a.st',"
				"'h.%zu.mlp.up':'a.st',"
				"'h.%zu.mlp.down':'b.st',"
				"'h.%zu.scale':'b.st'", j, j, j, j);
		}
		strcat(index->json, "}}");
		for (k = 0; k < 3; k++) {
			struct test_plan *t = make_plan(specs[k]);

			must_load_weights(t, dir, 1);
			put_json(dir, names[3], index->json);
			must_load_weights(t, dir, 0);
			remove(path_in(dir, names[3]));
			free(t);
		}
		free(index);
		remove_dir(dir, names);
	}
}

/* ---- refusals ------------------------------------------------------ */

static void
refused(const struct test_plan *t, const char *dir, const char *message)
{
	struct run r;
	int64_t i;

	run_all(&r, t, WEIGHTS, path_in(dir, "x.safetensors"), 0, 0, NULL);
	assert_int_not_equal(r.status, RT_OK);
	assert_string_equal(after_path(r.message, "/x.safetensors"), message);
	/* Nothing was read before all was looked at. */
	for (i = 0; i < t->programs[0].arena_bytes; i++) {
		assert_int_equal(r.jobs[0].store.arena[i], 0);
	}
	run_free(&r);
}

static void
test_refusals(void **state)
{
	static const char *const names[] = { "x.safetensors", NULL };
	static const struct spec spec = { 2, 1, 1, false };
	struct test_plan *t = make_plan(spec);
	char *dir = make_dir();
	unsigned char zeros[280] = { 0 };
	struct maker *m;

	(void)state;
	refused(t, dir, "cannot open: No such file or directory");
	m = maker_new();
	add_tensors(m, 0, 6, RT_ELEM_F32);
	maker_add(m, "transformer.wte.weight", "7,10", "F32", zeros, 280);
	maker_put(m, dir, "x.safetensors");
	refused(t, dir,
		"tensor 'wte.weight': not found among 17, expected it; the "
		"nearest that is there is 'transformer.wte.weight'");
	m = maker_new();
	add_tensors(m, 0, 6, RT_ELEM_F32);
	maker_put(m, dir, "x.safetensors");
	refused(t, dir,
		"tensor 'wte.weight': not found among 16, expected it; the "
		"nearest that is there is 'h.0.ln.weight'");
	m = maker_new();
	add_tensors(m, 0, 6, RT_ELEM_F32);
	maker_add(m, "wte.weight", "10,7", "F32", zeros, 280);
	maker_put(m, dir, "x.safetensors");
	refused(t, dir,
		"tensor 'wte.weight': found [10, 7], expected [vocab=7, "
		"hidden=10] or products of neighbours in it");
	m = maker_new();
	add_tensors(m, 0, 6, RT_ELEM_F32);
	maker_add(m, "wte.weight", "7,10", "I32", zeros, 280);
	maker_put(m, dir, "x.safetensors");
	refused(t, dir,
		"tensor 'wte.weight': found I32, expected BF16 or another of "
		"F64, F32, BF16 and F16");
	remove_dir(dir, names);
	free(t);
}

/* What other programs write besides weights is no reason to refuse them. */
static void
test_not_weights(void **state)
{
	static const char *const names[] = { "x.safetensors", NULL };
	static const struct spec spec = { 1, 2, 1, false };
	struct test_plan *t = make_plan(spec);
	unsigned char zeros[280] = { 0 };
	char *dir = make_dir();
	struct maker *m;
	struct run r;

	(void)state;
	m = maker_new();
	add_tensors(m, 0, NTENSORS, RT_ELEM_BF16);
	/* the same as wte.weight, and so read */
	maker_add(m, "lm_head.weight", "7,10", "BF16",
		  m->data + m->n_data - 140, 140);
	maker_add(m, "text.position_ids", "1,5", "I64", zeros, 40);
	maker_add(m, "h.0.attn.bias", "1,1,3,3", "U8", zeros, 9);
	maker_add(m, "h.1.attention.bias", "1,1,2,2", "BOOL", zeros, 4);
	maker_add(m, "h.1.attn.masked_bias", "", "F32", zeros, 4);
	maker_add(m, "h.1.attn.rotary_emb.inv_freq", "3", "F32", zeros, 12);
	maker_put(m, dir, "x.safetensors");
	must_load_weights(t, dir, 0);
	m = maker_new();
	add_tensors(m, 0, NTENSORS, RT_ELEM_BF16);
	maker_add(m, "lm_head.weight", "7,10", "BF16", zeros, 140);
	maker_add(m, "text.position_ids", "1,5", "F32", zeros, 20);
	maker_put(m, dir, "x.safetensors");
	must_load_weights(t, dir, 2);
	run_all(&r, t, WEIGHTS, path_in(dir, "x.safetensors"), 0, 0, NULL);
	assert_string_equal(after_path(r.message, "/x.safetensors"),
			    "found 2 tensors that the model does not read: "
			    "'lm_head.weight', 'text.position_ids', expected "
			    "none: --allow-unused leaves them out");
	run_free(&r);
	remove_dir(dir, names);
	free(t);
}

/* ---- panels -------------------------------------------------------- */

enum { P_ROWS = 12, P_COLUMNS = 70, P_LANES = 4 };

/* A weight that lies in panels and one that does not, on two workers: words of
 * two numbers of four rows take turns. */
static void
test_panels(void **state)
{
	static const char *const dims[] = { "rows", "columns" };
	static const int64_t sizes[] = { P_ROWS, P_COLUMNS };
	static const struct rt_pieces pieces[] = {
		{ 1, P_ROWS, { { 0, P_ROWS } } },
		{ 1, P_COLUMNS, { { 0, P_COLUMNS } } }
	};
	static uint16_t arena[2 * P_ROWS * P_COLUMNS];
	const struct rt_spread spreads[2] = { { P_ROWS, 0, &pieces[0] },
					      { P_COLUMNS, 0, &pieces[1] } };
	const struct rt_spread *lists[2] = { &spreads[0], &spreads[1] };
	struct rt_tensor t = { .name = "w", .elem = RT_ELEM_BF16, .ndims = 2,
			       .dims = dims, .sizes = sizes };
	struct rt_hold holds[2] = {
		{ .tensor = &t, .dims = lists, .lanes = P_LANES,
		  .row = P_COLUMNS },
		{ .tensor = &t, .dims = lists, .offset = sizeof arena / 2 }
	};
	struct rt_program g = { .nholds = 2, .holds = holds };
	struct rt_plan p = { .naxes = 1 };
	struct rt_store s = { .plan = &p, .program = &g,
			      .arena = (char *)arena };
	struct rt_workers_options two = { .n = 2 };
	struct rt_workers *w;
	struct rt_error err = { 0 };
	int64_t i, all = P_ROWS * P_COLUMNS;

	(void)state;
	assert_int_equal(rt_workers_start(&w, &two, &err), RT_OK);
	for (i = 0; i < 2 * all; i++) {
		arena[i] = (uint16_t)i;
	}
	assert_int_equal(rt_store_panels(&s, w, &err), RT_OK);
	for (i = 0; i < all; i++) {
		int64_t row = i / P_COLUMNS, k = i % P_COLUMNS, at;

		at = row / P_LANES * P_LANES * P_COLUMNS;
		at += (k / 2 * P_LANES + row % P_LANES) * 2 + k % 2;
		assert_int_equal(arena[at], i);
		assert_int_equal(arena[all + i], all + i);
	}
	rt_workers_stop(w);
}

/* ---- long runs and short ones -------------------------------------- */

enum { ROWS = 40, COLUMNS = 6000 };

/* Columns from .. from + count - 1 and rows likewise of one tensor. */
static void
read_block(const struct rt_st *st, const char *name, enum rt_elem elem,
	   struct rt_pieces rows, struct rt_pieces columns)
{
	static const char *const dims[] = { "rows", "columns" };
	static const int64_t sizes[] = { ROWS, COLUMNS };
	static char arena[ROWS * COLUMNS * 4];
	struct rt_spread spreads[2] = { { ROWS, 0, &rows },
					{ COLUMNS, 0, &columns } };
	const struct rt_spread *lists[2] = { &spreads[0], &spreads[1] };
	struct rt_tensor t = { name, 1, 0, elem, 2, dims, sizes, 0, 0, 0, 0 };
	struct rt_hold h = { .tensor = &t, .dims = lists, .writes = 1 };
	int64_t program_of = 0, i, j, r, c, local = 0;
	struct rt_plan p = { .program_of = &program_of };
	struct rt_store s = { .plan = &p, .arena = arena };
	struct rt_error err = { 0 };
	uint64_t sum = 0;
	double got;

	memset(arena, 0, sizeof(arena));
	rt_store_read(&s, st, &h, &sum, &err);
	assert_string_equal(err.message, "");
	for (i = 0; i < rows.n; i++) {
		for (r = 0; r < rows.at[i].count; r++) {
			for (j = 0; j < columns.n; j++) {
				for (c = 0; c < columns.at[j].count; c++) {
					rt_elems_convert(
						rt_elem_dtype(elem),
						arena + local++ *
						rt_elem_bytes(elem),
						RT_ELEM_F64, &got, 1);
					assert_true(got == number(0,
						(rows.at[i].start + r) *
						COLUMNS +
						columns.at[j].start + c));
				}
			}
		}
	}
	assert_int_equal(local, rows.total * columns.total);
}

static void
test_runs_of_all_lengths(void **state)
{
	static const char *const names[] = { "x.safetensors", NULL };
	static const struct rt_pieces all_rows = { 1, ROWS, { { 0, ROWS } } };
	static const struct rt_pieces some_rows = { 2, 12, { { 3, 7 },
							     { 30, 5 } } };
	static const struct rt_pieces columns[] = {
		{ 1, COLUMNS, { { 0, COLUMNS } } },
		{ 1, COLUMNS / 2, { { COLUMNS / 2, COLUMNS / 2 } } },
		{ 3, 2030, { { 5, 1000 }, { 2000, 30 }, { 5000, 1000 } } },
		{ 1, 3, { { COLUMNS - 3, 3 } } },
		{ 3, 9, { { 0, 0 }, { 7, 9 }, { 20, 0 } } },
	};
	struct rt_error err = { 0 };
	char *dir = make_dir();
	struct bytes b, c;
	struct rt_st *st;
	double d;
	size_t i;

	(void)state;
	b = make("{'f':{'dtype':'F32','shape':[40,6000],'data_offsets':"
		 "[0,960000]},'h':{'dtype':'BF16','shape':[240000],"
		 "'data_offsets':[960000,1440000]}}", 1440000);
	c.at = b.at + b.n - 1440000;
	for (i = 0; i < ROWS * COLUMNS; i++) {
		d = number(0, (int64_t)i);
		rt_elems_convert(RT_F64, &d, RT_ELEM_F32, c.at + 4 * i, 1);
		rt_elems_convert(RT_F64, &d, RT_ELEM_BF16,
				 c.at + 960000 + 2 * i, 1);
	}
	put_bytes(dir, "x.safetensors", b);
	rt_st_open(&st, path_in(dir, "x.safetensors"), NULL, &err);
	assert_string_equal(err.message, "");
	for (i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		read_block(st, "f", RT_ELEM_F32, all_rows, columns[i]);
		read_block(st, "f", RT_ELEM_BF16, some_rows, columns[i]);
		read_block(st, "h", RT_ELEM_F32, some_rows, columns[i]);
		read_block(st, "h", RT_ELEM_BF16, all_rows, columns[i]);
	}
	rt_st_free(st);
	remove_dir(dir, names);
}

/* ---- names --------------------------------------------------------- */

static void
test_part_names(void **state)
{
	static const char *const dims[] = { "a", "b", "a", "w" };
	static const int64_t sizes[] = { 3, 4, 5, 6 };
	struct rt_tensor t = { "x.{a}.{b}.{a}.{a}.{w}", 1, 0, RT_ELEM_F32, 4,
			       dims, sizes, 3, 0, 0, 0 };
	char name[RT_NAME_BYTES];
	struct rt_error err;

	(void)state;
	assert_int_equal(rt_tensor_parts(&t), 60);
	assert_int_equal(rt_part_elems(&t), 6);
	assert_int_equal(rt_part_name(&t, 2 * 20 + 1 * 5 + 4, name, &err),
			 RT_OK);
	assert_string_equal(name, "x.2.1.4.4.{w}");
	t.name = "x.{a}";
	assert_int_equal(rt_part_name(&t, 0, name, &err), RT_FORMAT);
	assert_string_equal(err.message,
			    "tensor 'x.{a}': found a name without all of its "
			    "3 stacked dims in braces, expected them: the "
			    "plan is broken");
}

/* ---- elements ------------------------------------------------------ */

static uint32_t
bits_of(float f)
{
	uint32_t v;

	memcpy(&v, &f, 4);
	return v;
}

/* The value of a half of 1 + e + m bits, by its definition. */
static double
half_value(unsigned v, int e, int m)
{
	int x = (int)(v >> m) & ((1 << e) - 1), bias = (1 << (e - 1)) - 1;
	int f = (int)(v & ((1u << m) - 1));
	double d = x ? ldexp((1 << m) + f, x - bias - m) :
		       ldexp(f, 1 - bias - m);

	return v >> (e + m) ? -d : d;
}

/* Each half of a type, and what lies half way to the next one. */
static void
check_halves(enum rt_dtype dtype, enum rt_elem elem, int e, int m)
{
	unsigned top = ((1u << e) - 1) << m, v;

	for (v = 0; v < 65536; v++) {
		unsigned size = v & 0x7fff;
		uint16_t in = (uint16_t)v, out;
		double d, middle;
		float f;

		rt_elems_convert(dtype, &in, RT_ELEM_F64, &d, 1);
		rt_elems_convert(dtype, &in, RT_ELEM_F32, &f, 1);
		rt_elems_convert(RT_F32, &f, elem, &out, 1);
		if (size > top) {
			assert_true(isnan(d) && isnan(f));
			assert_true((out & 0x7fffu) > top);
			continue;
		}
		assert_int_equal(out, v);
		if (size == top) {
			assert_true(isinf(d) && isinf(f));
			continue;
		}
		assert_true(d == half_value(v, e, m) && (double)f == d);
		middle = (d + (size + 1 == top ? d + (d - half_value(v - 1, e,
								     m)) :
						 half_value(v + 1, e, m))) / 2;
		rt_elems_convert(RT_F64, &middle, elem, &out, 1);
		assert_int_equal(out, v & 1 ? v + 1 : v);
		middle = nextafter(middle, 0);
		rt_elems_convert(RT_F64, &middle, elem, &out, 1);
		assert_int_equal(out, v);
		middle = nextafter(nextafter(middle, d * 4 + (v >> 15 ? -1 :
							      1)),
				   d * 4 + (v >> 15 ? -1 : 1));
		rt_elems_convert(RT_F64, &middle, elem, &out, 1);
		assert_int_equal(out, v + 1);
	}
}

static void
test_halves(void **state)
{
	(void)state;
	check_halves(RT_BF16, RT_ELEM_BF16, 8, 7);
	check_halves(RT_F16, RT_ELEM_F16, 5, 10);
}

/* From f64 the C library's rounding is the measure. */
static void
test_singles(void **state)
{
	uint64_t x = 88172645463325252u;
	double d;
	float f;
	int i;

	(void)state;
	for (i = 0; i < 300000; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		/* Exponents in and around the range of f32. */
		d = ldexp((double)(int64_t)x, (int)(x >> 40 & 511) - 310);
		rt_elems_convert(RT_F64, &d, RT_ELEM_F32, &f, 1);
		assert_int_equal(bits_of(f), bits_of((float)d));
	}
	d = -0.0;
	rt_elems_convert(RT_F64, &d, RT_ELEM_F32, &f, 1);
	assert_int_equal(bits_of(f), 0x80000000u);
}

/* Parts add up, and what may go wrong with bytes changes them. */
static void
test_sums(void **state)
{
	static const int sizes[] = { 1, 2, 4, 8 };
	unsigned char data[512], other;
	uint64_t all, sum;
	int64_t n, cut;
	size_t i, k;

	(void)state;
	for (i = 0; i < sizeof(data); i++) {
		data[i] = (unsigned char)(i * i * 7 + i);
	}
	for (k = 0; k < 4; k++) {
		n = (int64_t)sizeof(data) / sizes[k];
		all = rt_elems_sum(sizes[k], data, 0, n);
		for (cut = 0; cut <= n; cut++) {
			sum = rt_elems_sum(sizes[k],
					   data + cut * sizes[k], cut,
					   n - cut);
			sum += rt_elems_sum(sizes[k], data, 0, cut);
			assert_true(sum == all);
		}
		for (i = 0; i < sizeof(data) * 8; i++) {
			data[i / 8] ^= (unsigned char)(1 << i % 8);
			sum = rt_elems_sum(sizes[k], data, 0, n);
			assert_true(sum != all);
			data[i / 8] ^= (unsigned char)(1 << i % 8);
		}
		for (i = 8; i < sizeof(data); i += 8) {
			other = data[i];
			if (other == data[0]) {
				continue;
			}
			data[i] = data[0];
			data[0] = other;
			sum = rt_elems_sum(sizes[k], data, 0, n);
			assert_true(sum != all);
			data[0] = data[i];
			data[i] = other;
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files_and_shards),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_not_weights),
		cmocka_unit_test(test_panels),
		cmocka_unit_test(test_runs_of_all_lengths),
		cmocka_unit_test(test_part_names),
		cmocka_unit_test(test_halves),
		cmocka_unit_test(test_singles),
		cmocka_unit_test(test_sums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Numbers of matrices that are stored quantised: see quantised.h.
 *
 * Scales, zero points and the order of columns of one matrix are in memory at a
 * time.  Numbers that lie in rows are read as they are asked for; others, whose
 * rows are columns of the file, a band of rows at a time, one byte each.
 */
#include "runtime/data/quantised.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "runtime/elems.h"

enum {
	BAND_BYTES = 4 << 20, /* of numbers, one byte each */
	BAND_ROWS = 1024, /* a multiple of the numbers in a word */
};

struct rt_unpacker {
	struct rt_alloc alloc;
	pthread_mutex_t lock;
	const struct rt_packed *of; /* what follows is of; NULL: nothing */
	float *scale;
	uint8_t *zero; /* NULL: all are `offset` */
	int32_t offset;
	int32_t *group; /* by column */
	/* of scales and zero points: from a row of them, and a group, to the
	 * next */
	int64_t by_row, by_group;
	uint8_t *raw; /* as in the file */
	size_t raw_capacity;
	uint8_t *band; /* [band_rows, columns] from row `first` on */
	int64_t first, band_rows, band_most;
	float e4m3[256];
};

/* ---- the file -------------------------------------------------------- */

static enum rt_status
read_bytes(const struct rt_st *st, const struct rt_st_tensor *t, int64_t at,
	   int64_t n, void *out, struct rt_error *err)
{
	const struct rt_shard *s = &st->shards[t->shard];

	return rt_shard_read(s, t, s->data_at + t->begin + at, n, out, err);
}

/* Makes sure that n bytes fit into `raw`. */
static bool
reserve(struct rt_unpacker *u, size_t n)
{
	void *p;

	if (n > u->raw_capacity) {
		p = rt_resize(&u->alloc, u->raw, n, 1);
		if (!p) {
			return false;
		}
		u->raw = p;
		u->raw_capacity = n;
	}
	return true;
}

/* A whole tensor into `raw`. */
static enum rt_status
read_whole(struct rt_unpacker *u, const struct rt_st *st,
	   const struct rt_st_tensor *t, struct rt_error *err)
{
	int64_t n = t->end - t->begin;

	return reserve(u, (size_t)n) ? read_bytes(st, t, 0, n, u->raw, err)
				     : rt_no_memory(err, t->name);
}

/* ---- numbers in words ------------------------------------------------ */

/* AWQ: where in a word of eight the numbers are. */
static const uint8_t awq_places[8] = { 0, 4, 1, 5, 2, 6, 3, 7 };

/* Number i of those in words, the lowest bits first. */
static uint8_t
number_at(const uint8_t *words, int64_t i, int64_t bits)
{
	return bits == 8 ? words[i] : words[i / 2] >> i % 2 * 4 & 15;
}

static uint8_t
number_across(const uint8_t *words, int64_t i)
{
	return number_at(words, i / 8 * 8 + awq_places[i % 8], 4);
}

/* ---- scales and zero points ------------------------------------------ */

static enum rt_status
read_scales(struct rt_unpacker *u, const struct rt_st *st,
	    const struct rt_packed *p, struct rt_error *err)
{
	int64_t n = p->scale_rows * p->groups;
	enum rt_status status = read_whole(u, st, &p->scales, err);

	if (status != RT_OK) {
		return status;
	}
	u->scale = rt_resize(&u->alloc, NULL, (size_t)n, sizeof(*u->scale));
	if (!u->scale) {
		return rt_no_memory(err, p->scales.name);
	}
	rt_elems_convert(p->scales.dtype, u->raw, RT_ELEM_F32, u->scale, n);
	u->by_row = p->packing == RT_IN_ROWS ? p->groups : 1;
	u->by_group = p->packing == RT_IN_ROWS ? 1 : p->scale_rows;
	return RT_OK;
}

/* The zero point of a row of scales and a group, as the file has it. */
static uint8_t
zero_at(const struct rt_unpacker *u, const struct rt_packed *p, int64_t row,
	int64_t group)
{
	int64_t in_word = 32 / p->scheme.bits, mask;
	int64_t words = (p->scale_rows + in_word - 1) / in_word;
	const uint8_t *at;
	uint8_t v;

	if (p->zeros.dtype == RT_I8) {
		return u->raw[row * p->groups + group] ^ 0x80;
	}
	if (p->packing == RT_IN_ROWS) {	/* rows are in words */
		at = u->raw + 4 * (row / in_word * p->groups + group);
		return number_at(at, row % in_word, p->scheme.bits);
	}
	at = u->raw + 4 * words * group;
	v = p->packing == RT_ACROSS ? number_across(at, row)
				    : number_at(at, row, p->scheme.bits);
	mask = (1 << p->scheme.bits) - 1;
	return p->scheme.less_one ? (uint8_t)((v + 1) & mask) : v;
}

static enum rt_status
read_zeros(struct rt_unpacker *u, const struct rt_st *st,
	   const struct rt_packed *p, struct rt_error *err)
{
	int64_t n = p->scale_rows * p->groups, i, g;
	enum rt_status status;

	u->offset = 1 << (p->scheme.bits - 1);
	if (!p->scheme.has_zeros) {
		return RT_OK;
	}
	status = read_whole(u, st, &p->zeros, err);
	if (status != RT_OK) {
		return status;
	}
	u->zero = rt_resize(&u->alloc, NULL, (size_t)n, 1);
	if (!u->zero) {
		return rt_no_memory(err, p->zeros.name);
	}
	for (i = 0; i < p->scale_rows; i++) {
		for (g = 0; g < p->groups; g++) {
			u->zero[i * u->by_row + g * u->by_group] =
				zero_at(u, p, i, g);
		}
	}
	return RT_OK;
}

/* The group of each column: by its place, or as the file says. */
static enum rt_status
read_order(struct rt_unpacker *u, const struct rt_st *st,
	   const struct rt_packed *p, struct rt_error *err)
{
	int64_t n = p->columns, size = p->scheme.columns, i;

	u->group = rt_resize(&u->alloc, NULL, (size_t)n, sizeof(*u->group));
	if (!u->group) {
		return rt_no_memory(err, p->numbers.name);
	}
	if (p->order.name) {
		enum rt_status status = read_bytes(st, &p->order, 0, 4 * n,
						   u->group, err);

		for (i = 0; i < n && status == RT_OK; i++) {
			if (u->group[i] < 0 || u->group[i] >= p->groups) {
				return rt_fail(err, RT_FORMAT,
					       rt_shard_where(&st->shards[
						p->order.shard], &p->order,
						-1),
					       "found group %" PRId32 " of "
					       "column %" PRId64 ", expected "
					       "one of %" PRId64, u->group[i],
					       i, p->groups);
			}
		}
		return status;
	}
	for (i = 0; i < n; i++) {
		u->group[i] = size ? (int32_t)(i / size) : 0;
	}
	return RT_OK;
}

static void
forget(struct rt_unpacker *u)
{
	rt_release(&u->alloc, u->scale);
	rt_release(&u->alloc, u->zero);
	rt_release(&u->alloc, u->group);
	rt_release(&u->alloc, u->band);
	u->scale = NULL;
	u->zero = u->band = NULL;
	u->group = NULL;
	u->of = NULL;
	u->band_rows = 0;
}

/* Goes to another matrix. */
static enum rt_status
turn_to(struct rt_unpacker *u, const struct rt_st *st,
	const struct rt_packed *p, struct rt_error *err)
{
	enum rt_status status;

	if (u->of == p) {
		return RT_OK;
	}
	forget(u);
	status = read_scales(u, st, p, err);
	if (status == RT_OK) {
		status = read_zeros(u, st, p, err);
	}
	if (status == RT_OK) {
		status = read_order(u, st, p, err);
	}
	u->of = status == RT_OK ? p : NULL;
	return status;
}

/* ---- bands ----------------------------------------------------------- */

/*
 * Row `row` of the file, of the rows from u->first on of the matrix: words in
 * the order of rows, which hold some columns (RT_DOWN), or columns, in words of
 * some rows (RT_ACROSS).
 */
static void
spread(struct rt_unpacker *u, const struct rt_packed *p, int64_t row,
       const uint8_t *words)
{
	int64_t in_word = 32 / p->scheme.bits, r, i;

	for (r = 0; r < u->band_rows; r++) {
		uint8_t *to = u->band + r * p->columns;

		if (p->packing == RT_ACROSS) {
			to[row] = number_across(words, r);
			continue;
		}
		for (i = 0; i < in_word; i++) {
			to[row * in_word + i] = number_at(words + 4 * r, i,
							  p->scheme.bits);
		}
	}
}

/* Reads the band that begins at a row, which is the first of a word. */
static enum rt_status
read_band(struct rt_unpacker *u, const struct rt_st *st,
	  const struct rt_packed *p, int64_t first, struct rt_error *err)
{
	const struct rt_st_tensor *t = &p->numbers;
	int64_t in_word = p->packing == RT_ACROSS ? 32 / p->scheme.bits : 1;
	enum rt_status status = RT_OK;
	uint8_t words[4 * BAND_ROWS];
	int64_t row, most;

	if (!u->band) {
		most = BAND_BYTES / p->columns / in_word * in_word;
		most = most > BAND_ROWS ? BAND_ROWS : most;
		u->band_most = most > in_word ? most : in_word;
		u->band = rt_resize(&u->alloc, NULL, (size_t)u->band_most,
				    (size_t)p->columns);
	}
	if (!u->band) {
		return rt_no_memory(err, t->name);
	}
	u->first = first;
	u->band_rows = p->rows - first < u->band_most ? p->rows - first
						      : u->band_most;
	for (row = 0; row < t->shape[0] && status == RT_OK; row++) {
		status = read_bytes(st, t, 4 * (row * t->shape[1] +
						first / in_word),
				    4 * (u->band_rows / in_word), words, err);
		if (status == RT_OK) {
			spread(u, p, row, words);
		}
	}
	u->band_rows = status == RT_OK ? u->band_rows : 0;
	return status;
}

/* ---- elements -------------------------------------------------------- */

/*
 * n elements of row r from column c on, whose numbers are those of `at` from
 * `skip` on, so many bits each.
 */
static void
put_elements(const struct rt_unpacker *u, const struct rt_packed *p,
	     const uint8_t *at, int64_t skip, int64_t bits, int64_t r,
	     int64_t c, int64_t n, char *out)
{
	int64_t row = p->scheme.rows ? r / p->scheme.rows * u->by_row : 0, i;
	/* I8 has a sign; all others are numbers from 0 on */
	uint8_t sign = p->numbers.dtype == RT_I8 ? 0x80 : 0;

	for (i = 0; i < n; i++) {
		int64_t k = row + u->group[c + i] * u->by_group;
		uint8_t number = number_at(at, skip + i, bits) ^ sign;
		int zero = u->zero ? u->zero[k] : u->offset;
		float v = p->scheme.is_float ? u->e4m3[number]
					     : (float)(number - zero);

		v *= u->scale[k];
		memcpy(out + 4 * i, &v, 4);
	}
}

/* n numbers of a row that is in a band. */
static enum rt_status
read_of_band(struct rt_unpacker *u, const struct rt_st *st,
	     const struct rt_packed *p, int64_t r, int64_t c, int64_t n,
	     char *out, struct rt_error *err)
{
	int64_t in_word = p->packing == RT_ACROSS ? 32 / p->scheme.bits : 1;
	enum rt_status status = RT_OK;

	if (r < u->first || r >= u->first + u->band_rows) {
		status = read_band(u, st, p, r / in_word * in_word, err);
	}
	if (status == RT_OK) {
		put_elements(u, p, u->band + (r - u->first) * p->columns + c,
			     0, 8, r, c, n, out);
	}
	return status;
}

/* Where element i of a matrix whose numbers lie in rows begins. */
static int64_t
byte_of(const struct rt_packed *p, int64_t i)
{
	return i / p->columns * p->row_bytes +
	       i % p->columns * p->scheme.bits / 8;
}

/*
 * Numbers that lie in rows: all n, whose rows follow each other in the file,
 * are read at once.
 */
static enum rt_status
read_rows(struct rt_unpacker *u, const struct rt_st *st,
	  const struct rt_packed *p, int64_t first, int64_t n, char *out,
	  struct rt_error *err)
{
	int64_t bits = p->scheme.bits, last = first + n - 1;
	int64_t from = byte_of(p, first), to = byte_of(p, last) + 1;
	enum rt_status status;
	int64_t done, some;

	if (!reserve(u, (size_t)(to - from))) {
		return rt_no_memory(err, p->numbers.name);
	}
	status = read_bytes(st, &p->numbers, from, to - from, u->raw, err);
	for (done = 0; done < n && status == RT_OK; done += some) {
		int64_t r = (first + done) / p->columns;
		int64_t c = (first + done) % p->columns;

		some = p->columns - c < n - done ? p->columns - c : n - done;
		put_elements(u, p, u->raw + (byte_of(p, first + done) - from),
			     bits == 4 ? c % 2 : 0, bits, r, c, some,
			     out + 4 * done);
	}
	return status;
}

static enum rt_status
read_locked(struct rt_unpacker *u, const struct rt_st *st,
	    const struct rt_packed *p, int64_t first, int64_t n, char *out,
	    struct rt_error *err)
{
	enum rt_status status = turn_to(u, st, p, err);
	int64_t done, some;

	if (status != RT_OK || n == 0) {
		return status;
	}
	if (p->packing == RT_IN_ROWS) {
		return read_rows(u, st, p, first, n, out, err);
	}
	for (done = 0; done < n && status == RT_OK; done += some) {
		int64_t r = (first + done) / p->columns;
		int64_t c = (first + done) % p->columns;

		some = p->columns - c < n - done ? p->columns - c : n - done;
		status = read_of_band(u, st, p, r, c, some, out + 4 * done,
				      err);
	}
	return status;
}

enum rt_status
rt_packed_read(const struct rt_st *st, const struct rt_st_tensor *t,
	       int64_t first, int64_t n, void *out, struct rt_error *err)
{
	struct rt_unpacker *u = st->unpacker;
	enum rt_status status;

	pthread_mutex_lock(&u->lock);
	status = read_locked(u, st, t->packed, first, n, out, err);
	pthread_mutex_unlock(&u->lock);
	return status;
}

/* ---- the unpacker ---------------------------------------------------- */

struct rt_unpacker *
rt_unpacker_new(const struct rt_alloc *alloc)
{
	struct rt_unpacker *u = rt_resize(alloc, NULL, 1, sizeof(*u));
	unsigned i;

	if (!u) {
		return NULL;
	}
	memset(u, 0, sizeof(*u));
	u->alloc = *alloc;
	if (pthread_mutex_init(&u->lock, NULL) != 0) {
		rt_release(alloc, u);
		return NULL;
	}
	for (i = 0; i < 256; i++) {
		u->e4m3[i] = (float)rt_widen_float(i, 4, 3, true);
	}
	return u;
}

void
rt_unpacker_free(struct rt_unpacker *u)
{
	struct rt_alloc alloc;

	if (!u) {
		return;
	}
	alloc = u->alloc;
	forget(u);
	rt_release(&alloc, u->raw);
	pthread_mutex_destroy(&u->lock);
	rt_release(&alloc, u);
}

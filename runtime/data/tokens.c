/*
 * Token files as one stream of sequences, with random access, so that any
 * number of ranks can read any part of it in any order.
 *
 * A file of c tokens has (c - 1) / length sequences: sequence k begins at token
 * k * length and is read with one token more, the label of its last position.
 * The remaining tokens of a file are not used.
 *
 * Files are read by pread(), not mapped: a file that is truncated meanwhile
 * gives an error, not a SIGBUS.
 */
#include "runtime/data/tokens.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	CHUNK_TOKENS = 4096,
	MAX_OPEN = 256, /* files; others are opened for each read */
	ROUNDS = 8, /* of the permutation */
	SAMPLES = 16, /* of a file, for its identity */
	SAMPLE_TOKENS = 1024,
};

struct rt_tokens {
	struct rt_alloc alloc;
	struct rt_token_file *files;
	int64_t nfiles;
	int64_t length, below;
	int64_t sequences, total;
	uint64_t seed;
	bool shuffled;
};

/* ---- the order ----------------------------------------------------- */

uint64_t
rt_tokens_mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/*
 * A Feistel network permutes the numbers of 2h bits, the fewest that n fits in;
 * a result that is not below n goes through it again, which makes a permutation
 * of those below n (Black and Rogaway, "Ciphers with arbitrary finite domains",
 * 2002).  The domain has fewer than 4n numbers, so that takes less than 4
 * passes on average.
 */
int64_t
rt_tokens_permute(int64_t n, uint64_t key, int64_t index)
{
	uint64_t x = (uint64_t)index, left, right, next, mask;
	int half = 1, i;

	while (half < 32 && (uint64_t)n > (uint64_t)1 << 2 * half) {
		half++;
	}
	mask = ((uint64_t)1 << half) - 1;
	do {
		left = x >> half;
		right = x & mask;
		for (i = 0; i < ROUNDS; i++) {
			next = left ^ (rt_tokens_mix(key + right +
					     ((uint64_t)i << 40)) & mask);
			left = right;
			right = next;
		}
		x = left << half | right;
	} while (x >= (uint64_t)n);
	return (int64_t)x;
}

/* ---- opening ------------------------------------------------------- */

/* The index beside NAME.bin, if there is one; *idx.path is NULL if not. */
static enum rt_status
open_index(const struct rt_alloc *alloc, const char *path,
	   struct rt_shard *idx, struct rt_error *err)
{
	size_t n = strlen(path);
	struct stat sb;
	char *name;

	memset(idx, 0, sizeof(*idx));
	if (n < 4 || strcmp(path + n - 4, ".bin") != 0) {
		return RT_OK;
	}
	name = rt_join(alloc, path, n - 4, ".idx");
	if (!name) {
		return rt_no_memory(err, path);
	}
	if (stat(name, &sb) != 0) {
		rt_release(alloc, name);
		return RT_OK;
	}
	return rt_shard_open(idx, name, err);
}

/* Opens a file and detects its format. */
static enum rt_status
open_file(struct rt_tokens *t, const char *path, struct rt_error *err)
{
	struct rt_token_file *f = &t->files[t->nfiles];
	struct rt_shard idx;
	enum rt_status status;
	char *copy;

	memset(f, 0, sizeof(*f));
	copy = rt_join(&t->alloc, path, strlen(path), "");
	if (!copy) {
		return rt_no_memory(err, path);
	}
	t->nfiles++;
	status = rt_shard_open(&f->bin, copy, err);
	if (status != RT_OK) {
		return status;
	}
	status = open_index(&t->alloc, path, &idx, err);
	if (status == RT_OK) {
		status = rt_token_file_read(f, idx.path ? &idx : NULL, err);
	}
	rt_shard_release(&t->alloc, &idx);
	if (t->nfiles > MAX_OPEN && f->bin.fd >= 0) {
		close(f->bin.fd);
		f->bin.fd = -1;
	}
	return status;
}

/* Counts a file's sequences and adds them to the stream. */
static enum rt_status
add_file(struct rt_tokens *t, struct rt_token_file *f, struct rt_error *err)
{
	f->first = t->sequences;
	f->sequences = f->count > 0 ? (f->count - 1) / t->length : 0;
	if (f->sequences == 0) {
		return rt_fail(err, RT_FORMAT,
			       rt_shard_where(&f->bin, NULL, -1),
			       "found %" PRId64 " token%s, expected at least "
			       "%" PRId64 ": a sequence of %" PRId64
			       " and the token after it",
			       f->count, f->count == 1 ? "" : "s",
			       t->length + 1, t->length);
	}
	t->sequences += f->sequences;
	t->total += f->count;
	return RT_OK;
}

enum rt_status
rt_tokens_open(struct rt_tokens **out, const struct rt_tokens_options *o,
	       struct rt_error *err)
{
	struct rt_where nowhere = { NULL, NULL, -1 };
	struct rt_alloc alloc = rt_alloc_or_libc(NULL);
	enum rt_status status = RT_OK;
	struct rt_tokens *t;
	int64_t i;

	*out = NULL;
	if (o->npaths < 1 || o->length < 1 || o->length == INT64_MAX ||
	    o->below < 1) {
		return rt_fail(err, RT_RANGE, nowhere,
			       "found %" PRId64 " token files, sequences of "
			       "%" PRId64 " and a vocabulary of %" PRId64
			       ", expected at least 1 of each",
			       o->npaths, o->length, o->below);
	}
	t = rt_resize(&alloc, NULL, 1, sizeof(*t));
	if (!t) {
		return rt_no_memory(err, NULL);
	}
	memset(t, 0, sizeof(*t));
	t->alloc = alloc;
	t->length = o->length;
	t->below = o->below;
	t->files = rt_resize(&alloc, NULL, (size_t)o->npaths,
			     sizeof(*t->files));
	if (!t->files) {
		status = rt_no_memory(err, NULL);
	}
	for (i = 0; i < o->npaths && status == RT_OK; i++) {
		status = open_file(t, o->paths[i], err);
		if (status == RT_OK) {
			status = add_file(t, &t->files[i], err);
		}
	}
	if (status != RT_OK) {
		rt_tokens_free(t);
		return status;
	}
	*out = t;
	return RT_OK;
}

void
rt_tokens_free(struct rt_tokens *t)
{
	struct rt_alloc alloc;
	int64_t i;

	if (!t) {
		return;
	}
	alloc = t->alloc;
	for (i = 0; i < t->nfiles; i++) {
		rt_shard_release(&alloc, &t->files[i].bin);
	}
	rt_release(&alloc, t->files);
	rt_release(&alloc, t);
}

void
rt_tokens_shuffle(struct rt_tokens *t, uint64_t seed)
{
	t->seed = seed;
	t->shuffled = true;
}

int64_t
rt_tokens_sequences(const struct rt_tokens *t)
{
	return t->sequences;
}

int64_t
rt_tokens_total(const struct rt_tokens *t)
{
	return t->total;
}

/* ---- reading ------------------------------------------------------- */

static int64_t
token_at(const unsigned char *p, enum rt_token_type type)
{
	switch (type) {
	case RT_TOKEN_U8:
		return p[0];
	case RT_TOKEN_U16:
		return p[0] | p[1] << 8;
	default:
		break;
	}
	/* A negative i32 becomes too large, and so is refused. */
	return p[0] | p[1] << 8 | p[2] << 16 | (int64_t)p[3] << 24;
}

static enum rt_status
fail_token(const struct rt_token_file *f, int64_t at, int64_t found,
	   int64_t below, struct rt_error *err)
{
	int64_t byte = f->data_at + at * rt_token_bytes(f->type);

	if (f->type == RT_TOKEN_I32 && found > INT32_MAX) {
		found -= (int64_t)1 << 32;
	}
	return rt_fail(err, RT_FORMAT, rt_shard_where(&f->bin, NULL, byte),
		       "found token %" PRId64 " as number %" PRId64
		       " of the file, at byte %" PRId64
		       ", expected 0 to %" PRId64
		       ", as the vocabulary has; was it made with another "
		       "tokenizer?",
		       found, at, byte, below - 1);
}

enum rt_status
rt_token_file_read_tokens(const struct rt_token_file *f, int64_t at, int64_t n,
			  int64_t below, int32_t *out, struct rt_error *err)
{
	unsigned char chunk[CHUNK_TOKENS * 4];
	int64_t bytes = rt_token_bytes(f->type), part, i, token;
	enum rt_status status;

	for (; n > 0; n -= part, at += part) {
		part = n < CHUNK_TOKENS ? n : CHUNK_TOKENS;
		status = rt_shard_read(&f->bin, NULL, f->data_at + at * bytes,
				       part * bytes, chunk, err);
		if (status != RT_OK) {
			return status;
		}
		for (i = 0; i < part; i++) {
			token = token_at(chunk + i * bytes, f->type);
			if (token >= below) {
				return fail_token(f, at + i, token, below,
						  err);
			}
			*out++ = (int32_t)token;
		}
	}
	return RT_OK;
}

/* The file of a sequence: the last that begins at or before it. */
static const struct rt_token_file *
file_of(const struct rt_tokens *t, int64_t sequence)
{
	int64_t lo = 0, hi = t->nfiles, mid;

	while (hi - lo > 1) {
		mid = lo + (hi - lo) / 2;
		if (t->files[mid].first <= sequence) {
			lo = mid;
		} else {
			hi = mid;
		}
	}
	return &t->files[lo];
}

/* Opens a file for one read: more than MAX_OPEN cannot stay open. */
static enum rt_status
get_reopened(const struct rt_tokens *t, const struct rt_token_file *f,
	     int64_t at, int64_t n, int32_t *out, struct rt_error *err)
{
	struct rt_token_file g = *f;
	enum rt_status status;
	char *path;

	path = rt_join(&t->alloc, f->bin.path, strlen(f->bin.path), "");
	if (!path) {
		return rt_no_memory(err, f->bin.path);
	}
	status = rt_shard_open(&g.bin, path, err);
	if (status == RT_OK && g.bin.file_bytes != f->bin.file_bytes) {
		status = rt_fail(err, RT_IO, rt_shard_where(&g.bin, NULL, -1),
				 "found %" PRId64 " bytes, expected %" PRId64
				 " as when the run began",
				 g.bin.file_bytes, f->bin.file_bytes);
	}
	if (status == RT_OK) {
		status = rt_token_file_read_tokens(&g, at, n, t->below, out,
						   err);
	}
	rt_shard_release(&t->alloc, &g.bin);
	return status;
}

/* Reads of any file, open or not. */
static enum rt_status
get(const struct rt_tokens *t, const struct rt_token_file *f, int64_t at,
    int64_t n, int32_t *out, struct rt_error *err)
{
	return f->bin.fd < 0 ? get_reopened(t, f, at, n, out, err) :
	       rt_token_file_read_tokens(f, at, n, t->below, out, err);
}

enum rt_status
rt_tokens_get(const struct rt_tokens *t, int64_t index, int64_t from,
	      int64_t n, int32_t *out, struct rt_error *err)
{
	struct rt_where nowhere = { NULL, NULL, -1 };
	const struct rt_token_file *f;
	uint64_t epoch;
	int64_t k, at;

	if (index < 0 || from < 0 || n < 0 || n > t->length + 1 ||
	    from > t->length + 1 - n) {
		return rt_fail(err, RT_RANGE, nowhere,
			       "tokens %" PRId64 " to %" PRId64
			       " of sequence %" PRId64
			       " were asked for, expected 0 to %" PRId64
			       " of sequence 0 or more",
			       from, from + n, index, t->length + 1);
	}
	epoch = (uint64_t)(index / t->sequences) + 1;
	k = index % t->sequences;
	if (t->shuffled) {
		epoch = rt_tokens_mix(t->seed ^ rt_tokens_mix(epoch));
		k = rt_tokens_permute(t->sequences, epoch, k);
	}
	f = file_of(t, k);
	at = (k - f->first) * t->length + from;
	return get(t, f, at, n, out, err);
}

/*
 * Hashes samples at equal distances from the first to the last token of a file.
 */
static enum rt_status
add_identity(const struct rt_tokens *t, const struct rt_token_file *f,
	     uint64_t *sum, struct rt_error *err)
{
	int64_t n = f->count < SAMPLE_TOKENS ? f->count : SAMPLE_TOKENS;
	int64_t last = f->count - n, at, i, k;
	int32_t tokens[SAMPLE_TOKENS];
	enum rt_status status;

	*sum = rt_tokens_mix(*sum + (uint64_t)f->count);
	for (k = 0; k < SAMPLES; k++) {
		at = last / (SAMPLES - 1) * k;
		at = k == SAMPLES - 1 ? last : at;
		status = get(t, f, at, n, tokens, err);
		if (status != RT_OK) {
			return status;
		}
		for (i = 0; i < n; i++) {
			*sum = rt_tokens_mix(*sum + (uint64_t)tokens[i] + 1);
		}
		if (last == 0) {
			break;
		}
	}
	return RT_OK;
}

enum rt_status
rt_tokens_identity(const struct rt_tokens *t, uint64_t *out,
		   struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	*out = rt_tokens_mix((uint64_t)t->length + 1);
	for (i = 0; i < t->nfiles && status == RT_OK; i++) {
		status = add_identity(t, &t->files[i], out, err);
	}
	return status;
}

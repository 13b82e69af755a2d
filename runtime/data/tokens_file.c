/*
 * Formats of token files: llm.c's, Megatron's, raw, or text.
 *
 * llm.c: 256 little-endian i32, of which the first are a magic number, a
 * version and the number of tokens; then the tokens.  The fourth, which llm.c
 * leaves 0, has the upper half of that number.  Megatron: NAME.bin has
 * tokens only, and NAME.idx is
 *
 *	"MMIDIDX\0\0", u64 version, u8 type, u64 sequences, u64 documents,
 *	i32 lengths[sequences], i64 places[sequences], i64 ends[documents]
 *
 * optionally followed by i8 modes[sequences].  Its sequences are documents or
 * parts of them; they are read as one stream, in the order of the file.  Raw,
 * as nanoGPT writes it: u16 tokens.  Text, NAME.txt and NAME.md: each byte is a
 * token.
 */
#include "runtime/data/tokens.h"

#include <inttypes.h>
#include <string.h>

enum {
	HEADER_BYTES = 1024, /* llm.c's */
	INDEX_BYTES = 34, /* the fixed part of Megatron's */
	CHUNK = 1024, /* sequences of an index read at once */
};

static const int token_bytes[] = {
	[RT_TOKEN_U8] = 1,
	[RT_TOKEN_U16] = 2,
	[RT_TOKEN_U32] = 4,
	[RT_TOKEN_I32] = 4,
};

int64_t
rt_token_bytes(enum rt_token_type type)
{
	return token_bytes[type];
}

static uint64_t
little_endian(const unsigned char *p, int bytes)
{
	uint64_t v = 0;

	while (bytes > 0) {
		v = v << 8 | p[--bytes];
	}
	return v;
}

/* ---- llm.c --------------------------------------------------------- */

/* Magic numbers of llm.c. */
static const struct magic {
	uint32_t magic, version;
	const char *what; /* NULL: tokens */
	enum rt_token_type type;
} magics[] = {
	{ 20240520, 1, NULL, RT_TOKEN_U16 },
	{ 20240801, 7, NULL, RT_TOKEN_U32 }, /* for Llama 3's vocabulary */
	{ 20240522, 0, "multiple choice questions", RT_TOKEN_U16 },
	{ 20240326, 0, "a model", RT_TOKEN_U16 },
	{ 20240527, 0, "the state of a run", RT_TOKEN_U16 },
	{ 20240328, 0, "a tokenizer", RT_TOKEN_U16 },
};

static enum rt_status
read_llmc(struct rt_token_file *f, const struct magic *m,
	  const unsigned char head[16], struct rt_error *err)
{
	const struct rt_shard *s = &f->bin;
	uint64_t version = little_endian(head + 4, 4);
	uint64_t count = little_endian(head + 8, 8);
	int64_t want;

	if (m->what) {
		return rt_fail(err, RT_FORMAT, rt_shard_where(s, NULL, 0),
			       "found %s of llm.c (magic %" PRIu32
			       "), expected tokens, whose magic is 20240520",
			       m->what, m->magic);
	}
	if (version != m->version) {
		return rt_fail(err, RT_FORMAT, rt_shard_where(s, NULL, 4),
			       "found version %" PRIu64
			       " of llm.c's token files at byte 4, expected "
			       "%" PRIu32,
			       version, m->version);
	}
	want = count > INT64_MAX / 8 ? INT64_MAX
		: HEADER_BYTES + (int64_t)count * token_bytes[m->type];
	if (s->file_bytes != want) {
		return rt_fail(err, RT_FORMAT, rt_shard_where(s, NULL, 8),
			       "found %" PRIu64 " tokens in the header at byte "
			       "8 and a file of %" PRId64
			       " bytes, expected %" PRId64 " bytes: 1024 and "
			       "%d for each token",
			       count, s->file_bytes, want,
			       token_bytes[m->type]);
	}
	f->type = m->type;
	f->data_at = HEADER_BYTES;
	f->count = (int64_t)count;
	return RT_OK;
}

/* ---- raw ----------------------------------------------------------- */

static enum rt_status
read_raw(struct rt_token_file *f, struct rt_error *err)
{
	const struct rt_shard *s = &f->bin;

	if (s->file_bytes % 2 != 0) {
		return rt_fail(err, RT_FORMAT,
			       rt_shard_where(s, NULL, s->file_bytes - 1),
			       "found %" PRId64
			       " bytes, neither with llm.c's header nor with "
			       "an .idx beside it, expected u16 tokens, two "
			       "bytes each",
			       s->file_bytes);
	}
	f->type = RT_TOKEN_U16;
	f->data_at = 0;
	f->count = s->file_bytes / 2;
	return RT_OK;
}

/* ---- Megatron ------------------------------------------------------ */

/* The token type of a code; -1: it cannot hold tokens. */
static int
megatron_type(int code, const char **name)
{
	static const char *const names[] = { "nothing", "u8", "i8", "i16",
					     "i32", "i64", "f64", "f32",
					     "u16" };
	int known = code < (int)(sizeof(names) / sizeof(names[0]));

	*name = known ? names[code] : "no known type";
	return code == 1 ? RT_TOKEN_U8 :
	       code == 8 ? RT_TOKEN_U16 :
	       code == 4 ? RT_TOKEN_I32 :
			   -1;
}

/* Reads the fixed part; *n: sequences. */
static enum rt_status
read_index_head(struct rt_token_file *f, const struct rt_shard *idx,
		int64_t *n, struct rt_error *err)
{
	unsigned char head[INDEX_BYTES];
	uint64_t version, sequences, documents;
	enum rt_status status;
	const char *name;
	int64_t left;
	int type;

	if (idx->file_bytes < INDEX_BYTES) {
		return rt_fail(err, RT_FORMAT, rt_shard_where(idx, NULL, 0),
			       "found %" PRId64 " bytes, expected Megatron's "
			       "index of at least %d",
			       idx->file_bytes, INDEX_BYTES);
	}
	status = rt_shard_read(idx, NULL, 0, INDEX_BYTES, head, err);
	if (status != RT_OK) {
		return status;
	}
	if (memcmp(head, "MMIDIDX\0\0", 9) != 0) {
		return rt_fail(err, RT_FORMAT, rt_shard_where(idx, NULL, 0),
			       "found no MMIDIDX at byte 0, expected "
			       "Megatron's index, since there is a .bin of "
			       "that name");
	}
	version = little_endian(head + 9, 8);
	if (version != 1) {
		return rt_fail(err, RT_FORMAT, rt_shard_where(idx, NULL, 9),
			       "found version %" PRIu64
			       " at byte 9, expected 1",
			       version);
	}
	type = megatron_type(head[17], &name);
	if (type < 0) {
		return rt_fail(err, RT_FORMAT, rt_shard_where(idx, NULL, 17),
			       "found type %d (%s) at byte 17, expected 1 "
			       "(u8), 4 (i32) or 8 (u16)",
			       head[17], name);
	}
	sequences = little_endian(head + 18, 8);
	documents = little_endian(head + 26, 8);
	left = idx->file_bytes - INDEX_BYTES;
	/* With or without a mode for each sequence. */
	if (sequences > INT32_MAX || documents > INT32_MAX ||
	    (left != (int64_t)(sequences * 12 + documents * 8) &&
	     left != (int64_t)(sequences * 13 + documents * 8))) {
		return rt_fail(err, RT_FORMAT, rt_shard_where(idx, NULL, 18),
			       "found %" PRIu64 " sequences and %" PRIu64
			       " ends of documents at byte 18 and %" PRId64
			       " bytes after byte %d, expected 12 or 13 for "
			       "each sequence and 8 for each end",
			       sequences, documents, left, INDEX_BYTES);
	}
	f->type = (enum rt_token_type)type;
	*n = (int64_t)sequences;
	return RT_OK;
}

/* Sequence k of the index must begin where the one before it ended. */
static enum rt_status
check_place(const struct rt_token_file *f, const struct rt_shard *idx,
	    int64_t k, int64_t n, int64_t place, int64_t length,
	    struct rt_error *err)
{
	int64_t want = f->count * token_bytes[f->type];

	if (length < 0) {
		return rt_fail(err, RT_FORMAT,
			       rt_shard_where(idx, NULL, INDEX_BYTES + 4 * k),
			       "found %" PRId64 " as the length of sequence "
			       "%" PRId64 ", expected 0 or more",
			       length, k);
	}
	if (place != want) {
		return rt_fail(err, RT_FORMAT,
			       rt_shard_where(idx, NULL, INDEX_BYTES + 4 * n + 8
					      * k),
			       "found sequence %" PRId64 " at byte %" PRId64
			       " of the .bin, expected it at %" PRId64
			       ", where the one before it ends",
			       k, place, want);
	}
	return RT_OK;
}

/* Adds all lengths to f->count. */
static enum rt_status
read_index_lengths(struct rt_token_file *f, const struct rt_shard *idx,
		   int64_t n, struct rt_error *err)
{
	unsigned char lengths[CHUNK * 4], places[CHUNK * 8];
	enum rt_status status;
	int64_t k, part, i, length;

	f->count = 0;
	for (k = 0; k < n; k += part) {
		part = n - k < CHUNK ? n - k : CHUNK;
		status = rt_shard_read(idx, NULL, INDEX_BYTES + 4 * k,
				       4 * part, lengths, err);
		if (status != RT_OK) {
			return status;
		}
		status = rt_shard_read(idx, NULL,
				       INDEX_BYTES + 4 * n + 8 * k, 8 * part,
				       places, err);
		if (status != RT_OK) {
			return status;
		}
		for (i = 0; i < part; i++) {
			length = (int32_t)little_endian(lengths + 4 * i, 4);
			status = check_place( f, idx, k + i, n,
					     (int64_t)little_endian(places + 8 *
								    i, 8),
					     length, err);
			if (status != RT_OK) {
				return status;
			}
			f->count += length;
		}
		/* It is wrong already, and going on could overflow. */
		if (f->count > f->bin.file_bytes) {
			break;
		}
	}
	return RT_OK;
}

static enum rt_status
read_megatron(struct rt_token_file *f, const struct rt_shard *idx,
	      struct rt_error *err)
{
	enum rt_status status;
	int64_t n = 0, want;

	status = read_index_head(f, idx, &n, err);
	if (status != RT_OK) {
		return status;
	}
	status = read_index_lengths(f, idx, n, err);
	if (status != RT_OK) {
		return status;
	}
	want = f->count * token_bytes[f->type];
	if (f->bin.file_bytes != want) {
		return rt_fail(err, RT_FORMAT, rt_shard_where(&f->bin, NULL,
							      -1), "found %"
			       PRId64 " bytes, expected %" PRId64 ": %" PRId64
			       " tokens of %" PRId64
			       " sequences by its .idx, %d bytes each",
			       f->bin.file_bytes, want, f->count, n,
			       token_bytes[f->type]);
	}
	f->data_at = 0;
	return RT_OK;
}

/* ---- text ---------------------------------------------------------- */

static bool
is_text(const char *path)
{
	const char *dot = path ? strrchr(path, '.') : NULL;

	return dot && (strcmp(dot, ".txt") == 0 || strcmp(dot, ".md") == 0);
}

static void
read_text(struct rt_token_file *f)
{
	f->type = RT_TOKEN_U8;
	f->data_at = 0;
	f->count = f->bin.file_bytes;
}

/* ---- detection ----------------------------------------------------- */

enum rt_status
rt_token_file_read(struct rt_token_file *f, const struct rt_shard *idx,
		   struct rt_error *err)
{
	unsigned char head[16];
	enum rt_status status;
	size_t i;

	if (f->bin.file_bytes == 0) {
		return rt_fail(err, RT_FORMAT, rt_shard_where(&f->bin, NULL, 0),
			       "found an empty file, expected tokens");
	}
	if (idx) {
		return read_megatron(f, idx, err);
	}
	if (is_text(f->bin.path)) {
		read_text(f);
		return RT_OK;
	}
	if (f->bin.file_bytes < (int64_t)sizeof(head)) {
		return read_raw(f, err);
	}
	status = rt_shard_read(&f->bin, NULL, 0, sizeof(head), head, err);
	if (status != RT_OK) {
		return status;
	}
	if (memcmp(head, "MMIDIDX\0\0", 9) == 0) {
		return rt_fail(err, RT_FORMAT, rt_shard_where(&f->bin, NULL, 0),
			       "found Megatron's index, expected the .bin that "
			       "it belongs to");
	}
	for (i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
		if (little_endian(head, 4) == magics[i].magic) {
			return read_llmc(f, &magics[i], head, err);
		}
	}
	return read_raw(f, err);
}

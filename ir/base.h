/*
 * What every folder of the compiler builds on: memory, text, names, source
 * positions and diagnostics.  Nothing in here knows what a tensor is.
 *
 * Sections follow the .c file that defines them.
 */
#ifndef IR_BASE_H
#define IR_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#if defined(__GNUC__)
#define BASE_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define BASE_NORETURN __attribute__((noreturn))
#else
#define BASE_PRINTF(fmt, args)
#define BASE_NORETURN
#endif

/* ---- mem.c: one gate for every allocation, and arenas ------------------ */

/*
 * Every byte that the compiler allocates is requested through `get`, so that a
 * test can make the n-th request fail.  `oom` is called on failure and must not
 * return: the driver prints one line and exits with status 1, a test longjmps.
 */
struct mem {
	void *(*get)(void *user, size_t bytes);
	void (*put)(void *user, void *p);
	void (*oom)(void *user, size_t bytes);
	void *user;
};

#define MEM_POOL_SIZES 96	/* the last one is for 2^32 pages and more */

struct mem_slab;
struct mem_free;

/*
 * Freed blocks of half a page and more are kept for later requests: the system
 * takes more time to map fresh pages than most passes take to fill them.
 */
struct mem_pool {
	struct mem under;	/* where it allocates */
	struct mem_slab *slabs;	/* newest first */
	struct mem_free *waiting[MEM_POOL_SIZES];	/* by size */
};

struct arena_chunk;

/* Allocations that are released together; no single object is freed. */
struct arena {
	struct mem *mem;
	struct arena_chunk *chunks;	/* newest first */
	char *next, *end;		/* what is free of a chunk for many
					 * objects */
	size_t size;			/* of that chunk, when it was new */
	size_t total_bytes;		/* requested of the gate so far */
};

void mem_init(struct mem *m);	/* libc's malloc; oom prints and exits 1 */
/* *gate may be used while the pool is not moved; the pool is released last. */
void mem_pool_init(struct mem_pool *p, const struct mem *under,
		   struct mem *gate);
void mem_pool_release(struct mem_pool *p);

void arena_init(struct arena *a, struct mem *m);
void arena_release(struct arena *a);
void *arena_alloc(struct arena *a, size_t bytes);	/* zeroed, aligned 16 */
void *arena_alloc_raw(struct arena *a, size_t bytes);	/* not zeroed */
void *arena_dup(struct arena *a, const void *p, size_t bytes);
char *arena_strndup(struct arena *a, const char *s, size_t n);
void *arena_grow(struct arena *a, void *p, size_t old_bytes, size_t bytes);
/*
 * What is in `from` lives as long as `to` from here on; both have the same
 * gate.
 */
void arena_join(struct arena *to, struct arena *from);

/*
 * A growable array in an arena: declare `VEC(type)` as a member, push with
 * VEC_PUSH.  Growing copies the items; the old copy is released with the arena.
 */
#define VEC(type) struct { type *at; uint32_t n, cap; }
#define VEC_PUSH(arena, v, item) \
	(((v)->n == (v)->cap ? vec_grow((arena), (void **)&(v)->at, \
		&(v)->cap, sizeof *(v)->at) : (void)0), \
	 (void)((v)->at[(v)->n++] = (item)))
/* Makes the capacity at least `more` items larger than n. */
#define VEC_RESERVE(arena, v, more) \
	do { \
		while ((v)->cap - (v)->n < (more)) { \
			vec_grow((arena), (void **)&(v)->at, &(v)->cap, \
				 sizeof *(v)->at); \
		} \
	} while (0)
void vec_grow(struct arena *a, void **at, uint32_t *cap, size_t item_bytes);

/*
 * Reports a broken invariant and aborts: a bug of the compiler, never wrong
 * input.
 */
void die_at(const char *file, int line, const char *fmt, ...)
	BASE_PRINTF(3, 4) BASE_NORETURN;
#define die(...) die_at(__FILE__, __LINE__, __VA_ARGS__)

/* ---- buf.c: text that grows ------------------------------------------- */

struct buf {
	struct arena *arena;
	char *at;	/* always NUL terminated once anything was added */
	size_t n, cap;
	/*
	 * NULL: the buffer grows.  Otherwise its capacity, of 2 bytes or more,
	 * is fixed: this is called when it is full, must consume its bytes, and
	 * n is then 0.
	 */
	void (*full)(struct buf *b);
};

void buf_init(struct buf *b, struct arena *a);
void buf_add(struct buf *b, const char *s, size_t n);
void buf_puts(struct buf *b, const char *s);
void buf_putc(struct buf *b, char c);
/* Same as buf_printf with PRId64. */
void buf_int(struct buf *b, int64_t v);
void buf_printf(struct buf *b, const char *fmt, ...) BASE_PRINTF(2, 3);
void buf_vprintf(struct buf *b, const char *fmt, va_list ap);
/* The shortest decimal text that reads back as the same double. */
void buf_double(struct buf *b, double v);
/* A JSON string literal; bytes that are not UTF-8 become U+FFFD. */
void buf_json(struct buf *b, const char *s, size_t n);
/* Length of the well-formed UTF-8 character that text begins with, or 0. */
size_t buf_utf8_len(const char *text, size_t n);
bool text_ends_in(const char *text, const char *tail);
/* 1234567 as "1,234,567". */
void buf_grouped(struct buf *b, int64_t v);
/* 1234567 as "1.235 M". */
void buf_short(struct buf *b, double v);
/* What stands before item i of n: "a", "a and b", "a, b and c". */
const char *buf_between(size_t i, size_t n);
const char *buf_text(struct buf *b);
char *arena_printf(struct arena *a, const char *fmt, ...) BASE_PRINTF(2, 3);

/* ---- num.c: arithmetic that cannot wrap ------------------------------- */

/* Each returns false, and leaves *out alone, if the result does not fit. */
bool num_add(int64_t a, int64_t b, int64_t *out);
bool num_mul(int64_t a, int64_t b, int64_t *out);
/*
 * The greatest common divisor of numbers that are not negative; of 0 and n it
 * is n.
 */
int64_t num_gcd(int64_t a, int64_t b);
/* n / p rounded up. */
int64_t num_ceil_div(int64_t n, int64_t p);
/* Strict: the whole of s[0..n) is a decimal integer that fits. */
bool num_parse_int(const char *s, size_t n, int64_t *out);
/* Strict: the whole of s[0..n) is a finite decimal number. */
bool num_parse_double(const char *s, size_t n, double *out);

/* The bits of a double. */
static inline uint64_t
num_bits(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof bits);
	return bits;
}

/* ---- unit.c: numbers for people ---------------------------------------- */

struct scale {
	const char *name;
	double size;
};

/* The largest unit in which v is at least 0.1, from GiB, GB or TFLOP down. */
struct scale unit_bytes(double v);
struct scale unit_decimal_bytes(double v);
struct scale unit_flops(double v);
/* "3.73 GiB" */
const char *unit_text(struct arena *a, double bytes);

/* ---- table.c: hashes, and tables by them ------------------------------- */

/* A hash of 128 bits: different contents are taken to have different ones. */
struct hash {
	uint64_t a, b;
};

/*
 * The hash with one word added; its lower bits are as good as its upper ones.
 */
static inline uint64_t
hash_word(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

/* One of 64 bits, for sets that may contain more than was added, never less. */
static inline uint64_t
hash_bit(uint64_t word)
{
	return (uint64_t)1 << (hash_word(0, word) & 63);
}

static inline void
hash_add(struct hash *h, uint64_t word)
{
	h->a = hash_word(h->a, word);
	h->b = (h->b + word) * 0xd6e8feb86659fd93u;
	h->b ^= h->b >> 32;
}

/* The same with a number. */
static inline void
hash_add_number(struct hash *h, double x)
{
	uint64_t word;

	memcpy(&word, &x, sizeof word);
	hash_add(h, word);
}

static inline bool
hash_same(struct hash x, struct hash y)
{
	return x.a == y.a && x.b == y.b;
}

/* The hash with a text added. */
uint64_t hash_text(uint64_t hash, const char *s);

struct table_link {
	uint32_t hash, next;	/* next: entry of the same slot; 0: none */
};

/*
 * A hash table of entries 1, 2, ... in order of insertion.  What they contain
 * is elsewhere, mostly in a VEC whose item 0 is unused.  A table of zeros is
 * empty.
 */
struct table {
	VEC(struct table_link) links;	/* by entry; the first is none */
	uint32_t *slots, nslots;	/* by slot: its newest entry, or 0 */
};

uint32_t table_add(struct arena *a, struct table *t, uint64_t hash);

static inline uint32_t
table_bits(uint64_t hash)
{
	return (uint32_t)(hash ^ hash >> 32);
}

/*
 * The newest entry of that hash which is older than `at`; of all, if `at` is
 * 0.  Hashes are compared by 32 bits: the caller compares the rest.
 */
static inline uint32_t
table_find(const struct table *t, uint64_t hash, uint32_t at)
{
	uint32_t bits = table_bits(hash);

	at = at ? t->links.at[at].next
	   : t->nslots ? t->slots[bits & (t->nslots - 1)] : 0;
	while (at && t->links.at[at].hash != bits) {
		at = t->links.at[at].next;
	}
	return at;
}

/* Removes the entries from n on. */
void table_cut(struct table *t, uint32_t n);

/* ---- intern.c: names as 32-bit ids ------------------------------------ */

typedef uint32_t sym_t;		/* 0 is "no name" */

struct intern {
	struct arena *arena;
	VEC(const char *) text;		/* by id */
	VEC(uint32_t) len;
	struct table ids;
};

void intern_init(struct intern *t, struct arena *a);
sym_t intern(struct intern *t, const char *s, size_t n);
sym_t intern_str(struct intern *t, const char *s);
/* The id of the name if it has one already, or 0. */
sym_t intern_find(const struct intern *t, const char *s);
const char *intern_text(const struct intern *t, sym_t id);

/* ---- source.c: where text came from ----------------------------------- */

/* Byte offsets into the source map; {0,0} is "nowhere". */
struct span {
	uint32_t lo, hi;
};

struct source_file {
	const char *name;	/* as the user wrote it */
	const char *text;	/* NUL terminated, may hold NULs */
	uint32_t base, len;	/* its offsets are base .. base+len */
	bool is_read;		/* its text was read by source_read */
	VEC(uint32_t) lines;	/* offset of each line; made on first use */
};

/* The text of a file that is not read from disk. */
struct source_kept {
	const char *path, *text;	/* text is followed by two NULs */
	size_t len;
};

struct sources {
	struct arena *arena;
	VEC(struct source_file) files;
	VEC(struct source_kept) kept;
	uint32_t next_base;
};

struct source_pos {
	const struct source_file *file;
	uint32_t line, col;	/* from 1; a column is a character */
	uint32_t line_lo, line_hi;	/* the line's bytes in file->text */
};

void source_init(struct sources *s, struct arena *a);
/*
 * Adds text, which must outlive the map.  False if the map would exceed 2 GiB.
 */
bool source_add(struct sources *s, const char *name, const char *text,
		size_t len, uint32_t *base);
/* From now on the file, or "-" for stdin, is taken to have this text. */
void source_keep(struct sources *s, const char *path, const char *text,
		 size_t len);
/*
 * Reads a file, or stdin if it is "-".  On failure *why says why, for a
 * message.
 */
bool source_read(struct sources *s, const char *path, uint32_t *index,
		 const char **why);
bool source_locate(struct sources *s, uint32_t offset,
		   struct source_pos *pos);
struct span span_join(struct span a, struct span b);

/* ---- diag.c: errors, warnings and notes --------------------------------- */

enum diag_warning {
#define WARN(id, name, on, text) WARN_##id,
#include "ir/warnings.def"
#undef WARN
	WARN_COUNT
};

enum diag_level { DIAG_ERROR, DIAG_WARNING, DIAG_NOTE };
enum diag_format { DIAG_TEXT, DIAG_JSON };

struct diag_record {
	enum diag_level level;
	int warning;		/* enum diag_warning, or -1 */
	bool promoted;		/* a warning that -Werror made an error */
	struct span span;
	const char *text;
};

struct diags {
	struct arena *arena;
	struct sources *sources;
	VEC(struct diag_record) records;	/* notes follow their parent */
	uint32_t errors, warnings, dropped;
	bool on[WARN_COUNT], fatal[WARN_COUNT];
	bool muted;		/* notes of a dropped record are dropped too */
	bool color;
	enum diag_format format;
};

void diag_init(struct diags *d, struct arena *a, struct sources *s);
void diag_error(struct diags *d, struct span at, const char *fmt, ...)
	BASE_PRINTF(3, 4);
void diag_warn(struct diags *d, enum diag_warning w, struct span at,
	       const char *fmt, ...) BASE_PRINTF(4, 5);
/* A note on the last error or warning. */
void diag_note(struct diags *d, struct span at, const char *fmt, ...)
	BASE_PRINTF(3, 4);
/* Applies one -W word ("name", "no-name", "error", "error=name"). */
bool diag_warning_option(struct diags *d, const char *word);
/* Prints all records since the last flush and forgets them. */
void diag_flush(struct diags *d, FILE *out);

/*
 * The name nearest to `want` of those tried so far, for "did you mean".  One
 * further away than a third of its length is no suggestion.
 */
struct diag_near {
	const char *want;
	const char *best;
	size_t best_distance;
};
void diag_near_init(struct diag_near *n, const char *want);
void diag_near_try(struct diag_near *n, const char *candidate);
/* " (did you mean `x`?)" or "", in the arena. */
const char *diag_near_text(struct diag_near *n, struct arena *a);

#endif

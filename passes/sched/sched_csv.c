/*
 * Schedules as comma-separated values, in the format that PyTorch's
 * torch.distributed.pipelining writes and reads: one row per rank, with cells
 * such as 2F0 (stage, action, microbatch).
 */
#include "passes/sched/sched.h"

#include <string.h>

#define SHOWN 24	/* bytes of a bad cell that a message quotes */

/*
 * Actions of a file that are ignored: llmc derives transfers and sharding
 * itself.
 */
static const struct {
	const char *word;
	bool of_microbatch;
	bool transfer;
} others[] = {
	{ "SEND_F", true, true }, { "RECV_F", true, true },
	{ "SEND_B", true, true }, { "RECV_B", true, true },
	{ "UNSHARD", false, false }, { "RESHARD", false, false },
	{ "REDUCE_GRAD", false, false },
};
#define NOTHERS (sizeof others / sizeof others[0])
#define OVERLAP "OVERLAP_F_B"

struct reader {
	struct arena *arena;
	struct diags *diags;
	const char *text;	/* of the file */
	uint32_t base;		/* its offset in the source map */
	VEC(struct sched_list) rows;
	uint32_t cell;		/* counted from 1 */
	uint32_t empty;		/* cells since the row's last action */
	uint32_t nrows;		/* up to the last row that is not blank */
	uint32_t nstages, nmicrobatches, nactions;
	struct sched_left left;
};

static struct span
span_of(const struct reader *r, const char *lo, const char *hi)
{
	struct span at;

	at.lo = r->base + (uint32_t)(lo - r->text);
	at.hi = r->base + (uint32_t)(hi - r->text);
	return at;
}

/* Text of the file for a message: short, and safe to print. */
static const char *
shown(struct reader *r, const char *lo, const char *hi)
{
	const char *p;
	struct buf b;

	buf_init(&b, r->arena);
	for (p = lo; p < hi && p - lo < SHOWN; p++) {
		if (*p >= ' ' && *p <= '~') {
			buf_putc(&b, *p);
		} else {
			buf_printf(&b, "<%02x>", (unsigned char)*p);
		}
	}
	buf_puts(&b, p < hi ? "..." : "");
	return buf_text(&b);
}

static bool BASE_PRINTF(4, 5)
bad(struct reader *r, const char *lo, const char *hi, const char *fmt, ...)
{
	struct buf b;
	va_list ap;

	buf_init(&b, r->arena);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	diag_error(r->diags, span_of(r, lo, hi), "row %u, cell %u: %s",
		   r->rows.n, r->cell, buf_text(&b));
	return false;
}

/* ---- one action ---- */

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_word(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static const char *
skip(const char *p, const char *end, bool (*is)(char c))
{
	while (p < end && is(*p)) {
		p++;
	}
	return p;
}

static bool
word_is(const char *lo, const char *hi, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(hi - lo) == n && memcmp(lo, word, n) == 0;
}

static bool
read_number(struct reader *r, const char *lo, const char *hi,
	    const char *what, int64_t limit, uint32_t *out)
{
	int64_t v;

	if (!num_parse_int(lo, (size_t)(hi - lo), &v) || v >= limit) {
		return bad(r, lo, hi, "found %s %s, expected at most %d",
			   what, shown(r, lo, hi), (int)(limit - 1));
	}
	*out = (uint32_t)v;
	return true;
}

static bool
bad_word(struct reader *r, const char *lo, const char *hi)
{
	const char *hint = "";
	struct buf b;
	uint32_t k;

	buf_init(&b, r->arena);
	for (k = 0; k < SCHED_NKINDS; k++) {
		const char *letter = sched_kinds[k].letter;

		buf_printf(&b, "%s%s", k == 0 ? "" : k + 1 < SCHED_NKINDS ?
			   ", " : " or ", letter);
		if (hi - lo == 1 && (*lo ^ ' ') == *letter) {
			hint = arena_printf(r->arena, " (did you mean `%s`?)",
					    letter);
		}
	}
	if (word_is(lo, hi, "BW")) {
		hint = " (older PyTorch writes BW for B and B for I)";
	}
	return bad(r, lo, hi, "found action `%s`, expected %s%s",
		   shown(r, lo, hi), buf_text(&b), hint);
}

static void
add_action(struct reader *r, struct sched_action action)
{
	struct sched_list *row = &r->rows.at[r->rows.n - 1];

	if (action.stage >= r->nstages) {
		r->nstages = action.stage + 1;
	}
	if (action.microbatch >= r->nmicrobatches) {
		r->nmicrobatches = action.microbatch + 1;
	}
	VEC_PUSH(r->arena, &row->actions, action);
	r->nactions++;
	r->left.idle += r->empty;
	r->empty = 0;
}

/*
 * Whether the word is known: then *kind is below SCHED_NKINDS, or else *other
 * is an index into `others`.
 */
static bool
find_word(const char *lo, const char *hi, uint32_t *kind, uint32_t *other)
{
	for (*kind = 0; *kind < SCHED_NKINDS; ++*kind) {
		if (word_is(lo, hi, sched_kinds[*kind].letter)) {
			return true;
		}
	}
	for (*other = 0; *other < NOTHERS; ++*other) {
		if (word_is(lo, hi, others[*other].word)) {
			return true;
		}
	}
	return false;
}

static bool
read_action(struct reader *r, const char *lo, const char *hi)
{
	const char *word = skip(lo, hi, is_digit);
	const char *number = skip(word, hi, is_word);
	const char *end = skip(number, hi, is_digit);
	struct sched_action action = { .span = span_of(r, lo, hi) };
	uint32_t kind, other = 0;

	if (word == lo || number == word) {
		return bad(r, lo, hi, "found `%s`, expected a stage, an "
			   "action and a microbatch, as in `0F3`",
			   shown(r, lo, hi));
	}
	if (!find_word(word, number, &kind, &other)) {
		return bad_word(r, word, number);
	}
	if (end < hi) {
		return bad(r, end, hi, "found `%s` after `%s`, expected a "
			   "comma or the end of the row", shown(r, end, hi),
			   shown(r, lo, end));
	}
	if (end == number && (kind < SCHED_NKINDS ||
			      others[other].of_microbatch)) {
		return bad(r, lo, hi, "found no microbatch after `%s`, "
			   "expected one, as in `0F3`", shown(r, lo, hi));
	}
	if (!read_number(r, lo, word, "stage", SCHED_MAX_STAGES,
			 &action.stage) ||
	    (end > number &&
	     !read_number(r, number, end, "microbatch",
			  SCHED_MAX_MICROBATCHES, &action.microbatch))) {
		return false;
	}
	action.kind = (uint8_t)kind;
	if (kind < SCHED_NKINDS) {
		add_action(r, action);
	} else if (others[other].transfer) {
		r->left.transfers++;
	} else {
		r->left.sharding++;
	}
	return true;
}

/* ---- cells, rows, files ---- */

static void
trim(const char **lo, const char **hi)
{
	*lo = skip(*lo, *hi, is_blank);
	while (*hi > *lo && is_blank((*hi)[-1])) {
		--*hi;
	}
}

/* (0F7;7B3)OVERLAP_F_B: actions that may run at the same time. */
static bool
read_overlap(struct reader *r, const char *lo, const char *hi)
{
	const char *close = memchr(lo, ')', (size_t)(hi - lo)), *p, *end;
	bool ok = true;

	if (!close || !word_is(close + 1, hi, OVERLAP)) {
		return bad(r, lo, hi, "found `%s`, expected actions in "
			   "parentheses and %s, as in `(0F7;7B3)%s`",
			   shown(r, lo, hi), OVERLAP, OVERLAP);
	}
	for (p = lo + 1; ok && p <= close; p = end + 1) {
		const char *from = p, *to;

		end = memchr(p, ';', (size_t)(close - p));
		end = end ? end : close;
		to = end;
		trim(&from, &to);
		ok = read_action(r, from, to);
	}
	r->left.overlaps++;
	return ok;
}

/* Reads the cell at p; returns a pointer to what is after it. */
static const char *
read_cell(struct reader *r, const char *p, const char *end)
{
	const char *lo = skip(p, end, is_blank), *hi, *next;

	if (lo < end && *lo == '"') {
		hi = memchr(lo + 1, '"', (size_t)(end - lo - 1));
		if (!hi) {
			bad(r, lo, end, "found a quote that is not closed");
			return end;
		}
		next = skip(hi + 1, end, is_blank);
		if (next < end && *next != ',') {
			bad(r, next, next + 1, "found `%s` after a quote, "
			    "expected a comma or the end of the row",
			    shown(r, next, next + 1));
		}
		next = memchr(next, ',', (size_t)(end - next));
		next = next ? next : end;
		lo++;
	} else {
		next = memchr(lo, ',', (size_t)(end - lo));
		next = next ? next : end;
		hi = next;
	}
	trim(&lo, &hi);
	if (lo == hi) {
		r->empty++;
		return next;
	}
	r->nrows = r->rows.n;
	if (*lo == '(') {
		read_overlap(r, lo, hi);
	} else {
		read_action(r, lo, hi);
	}
	return next;
}

static void
read_row(struct reader *r, const char *p, const char *end)
{
	struct sched_list row = { { 0 } };

	VEC_PUSH(r->arena, &r->rows, row);
	r->empty = 0;
	r->cell = 0;
	do {
		r->cell++;
		p = read_cell(r, p, end);
	} while (p++ < end);
}

/* Blank rows at the end of a file are ignored; any other is an error. */
static bool
check_rows(struct reader *r, const char *start, const char *end)
{
	const char *lo = start, *hi;
	uint32_t row;

	if (r->nactions == 0) {
		diag_error(r->diags, span_of(r, start, start), "found no "
			   "actions, expected a row of them for each rank");
		return false;
	}
	for (row = 0; row < r->nrows; row++, lo = hi + 1) {
		hi = memchr(lo, '\n', (size_t)(end - lo));
		hi = hi ? hi : end;
		if (r->rows.at[row].actions.n == 0) {
			diag_error(r->diags, span_of(r, lo, hi), "row %u: "
				   "found no actions, expected those of rank "
				   "%u", row + 1, row);
		}
	}
	if (r->nmicrobatches > SCHED_MAX_CELLS / r->nstages) {
		diag_error(r->diags, span_of(r, start, start), "found %u "
			   "stages and %u microbatches, expected their "
			   "product to be at most %d", r->nstages,
			   r->nmicrobatches, SCHED_MAX_CELLS);
	}
	return true;
}

/*
 * Maps each stage to the rank that does most of its actions; of equal ranks, to
 * the lowest.
 */
static void
find_ranks(struct reader *r, struct sched *s)
{
	uint32_t *n = arena_alloc(r->arena, s->nstages * sizeof *n);
	uint32_t *most = arena_alloc(r->arena, s->nstages * sizeof *most);
	uint32_t rank, i;

	for (rank = 0; rank < s->nranks; rank++) {
		const struct sched_list *list = &s->ranks[rank];

		for (i = 0; i < list->actions.n; i++) {
			uint32_t stage = list->actions.at[i].stage;

			if (++n[stage] > most[stage]) {
				most[stage] = n[stage];
				s->rank_of[stage] = rank;
			}
		}
		for (i = 0; i < list->actions.n; i++) {
			n[list->actions.at[i].stage] = 0;
		}
	}
}

struct sched *
sched_read(struct arena *a, struct diags *d, uint32_t file,
	   struct sched_left *left)
{
	const struct source_file *f = &d->sources->files.at[file];
	struct reader r = { .arena = a, .diags = d, .text = f->text,
			    .base = f->base };
	const char *start = f->text, *end = f->text + f->len, *p, *eol;
	uint32_t errors = d->errors;
	struct sched *s;

	if (f->len >= 3 && memcmp(start, "\xef\xbb\xbf", 3) == 0) {
		start += 3;	/* a spreadsheet's byte order mark */
	}
	for (p = start; p < end; p = eol + 1) {
		eol = memchr(p, '\n', (size_t)(end - p));
		eol = eol ? eol : end;
		read_row(&r, p, eol);
		if (r.nrows > SCHED_MAX_RANKS) {
			bad(&r, p, eol, "found more than %d rows",
			    SCHED_MAX_RANKS);
			return NULL;
		}
	}
	if (d->errors != errors || !check_rows(&r, start, end) ||
	    d->errors != errors) {
		return NULL;
	}
	s = sched_new(a, r.nrows, r.nstages, r.nmicrobatches);
	memcpy(s->ranks, r.rows.at, r.nrows * sizeof *s->ranks);
	find_ranks(&r, s);
	if (left) {
		*left = r.left;
	}
	return s;
}

const char *
sched_left_text(struct arena *a, const struct sched_left *left)
{
	const struct {
		uint32_t n;
		const char *what;
	} rows[] = {
		{ left->transfers, "transfers (SEND, RECV)" },
		{ left->sharding, "of UNSHARD, RESHARD, REDUCE_GRAD" },
		{ left->idle, "idle steps" },
		{ left->overlaps, "marks of overlap" },
	};
	struct buf b;
	size_t i;

	buf_init(&b, a);
	for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if (rows[i].n) {
			buf_printf(&b, "%s%u %s", b.n ? ", " : "left out: ",
				   rows[i].n, rows[i].what);
		}
	}
	return b.n ? buf_text(&b) : NULL;
}

void
sched_print(const struct sched *s, struct buf *out)
{
	struct sched_timeline t;
	bool runs = sched_time(out->arena, s, NULL, &t);
	uint32_t rank, i, cell;

	for (rank = 0; rank < s->nranks; rank++) {
		const struct sched_list *list = &s->ranks[rank];

		for (i = cell = 0; i < list->actions.n; i++, cell++) {
			const struct sched_action *a = &list->actions.at[i];

			if (i > 0) {
				buf_putc(out, ',');
			}
			while (runs && cell < t.events[rank][i].start_us) {
				buf_putc(out, ',');
				cell++;
			}
			buf_printf(out, "%u%s%u", a->stage,
				   sched_kinds[a->kind].letter,
				   a->microbatch);
		}
		buf_putc(out, '\n');
	}
}

/*
 * The command `sample`: generates text with a plan that was compiled to train.
 * Each token takes the forward of one microbatch over a sliding window, of
 * which the logits after the last token are used.  All ranks draw the same
 * token from the same numbers.  sample_text.c is for a tokenizer's text.
 */
#include "runtime/train/rank.h"
#include "runtime/train/sample_text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* With this vocabulary each token is a byte. */
#define BYTES 256
/* Bound of a prompt, far above any window. */
#define MAX_PROMPT (1 << 24)

struct sample {
	struct rt_run *r;
	const struct rt_options *o;
	FILE *out;		/* NULL on all ranks but 0 */
	/* logits; NULL: another stage computes them */
	const struct rt_port *port;
	int64_t length, below;
	int32_t *window;	/* capacity `length`, of which `n` are in use */
	int64_t n;
	struct sample_text text;
	double *logits;
	char *row;		/* of logits, in their type on the device */
};

/* ---- the prompt ---- */

static void
push_token(struct sample *s, int32_t token)
{
	if (s->n == s->length) {
		memmove(s->window, s->window + 1,
			(size_t)(s->n - 1) * sizeof *s->window);
		s->n--;
	}
	s->window[s->n++] = token;
}

/* What messages call the prompt. */
static struct rt_where
prompt_of(const struct rt_options *o)
{
	const char *name = o->prompt_file ? o->prompt_file : "--prompt";

	return (struct rt_where){ name, NULL, -1 };
}

static enum rt_status
push_checked(struct sample *s, long long token, struct rt_error *err)
{
	if (token < 0 || token >= s->below) {
		return rt_fail(err, RT_FORMAT, prompt_of(s->o), "token %lld "
			       "is not one of 0 to %lld", token,
			       (long long)s->below - 1);
	}
	push_token(s, (int32_t)token);
	return RT_OK;
}

/* The text has a NUL after its n bytes. */
static enum rt_status
read_numbers(struct sample *s, const char *text, size_t n,
	     struct rt_error *err)
{
	enum rt_status status = RT_OK;
	const char *p = text;
	char *end;

	while (status == RT_OK && p[strspn(p, " \t\r\n")]) {
		long long token = strtoll(p, &end, 10);

		if (end == p) {
			break;
		}
		p = end;
		status = push_checked(s, token, err);
	}
	p += status == RT_OK ? strspn(p, " \t\r\n") : 0;
	return status != RT_OK || p == text + n ? status
		: rt_fail(err, RT_FORMAT, prompt_of(s->o), "the model "
			"has %lld tokens, so a prompt is numbers between "
			"blanks, and this is not one: give --tokenizer FILE "
			"for text", (long long)s->below);
}

static enum rt_status
push_prompt(struct sample *s, const char *text, size_t n,
	    struct rt_error *err)
{
	enum rt_status status = RT_OK;
	size_t i;

	if (s->text.tokenizer) {
		status = sample_text_begin(&s->text, prompt_of(s->o).path,
					   text, n, err);
		for (i = 0; i < s->text.ids.n && status == RT_OK; i++) {
			status = push_checked(s, s->text.ids.at[i], err);
		}
	} else if (s->below != BYTES) {
		status = read_numbers(s, text, n, err);
	} else {
		for (i = 0; i < n; i++) {
			push_token(s, (unsigned char)text[i]);
		}
	}
	return status != RT_OK || s->n > 0 ? status
		: rt_fail(err, RT_FORMAT, prompt_of(s->o), "a prompt has at "
			  "least one token, this is empty");
}

static enum rt_status
read_prompt(struct sample *s, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	char *text;
	size_t n;
	FILE *f;

	if (s->o->prompt) {
		return push_prompt(s, s->o->prompt, strlen(s->o->prompt), err);
	}
	f = fopen(s->o->prompt_file, "rb");
	text = f ? calloc(MAX_PROMPT + 1, 1) : NULL;
	if (!f) {
		return rt_fail(err, RT_IO, prompt_of(s->o),
			       "cannot be read: %s", strerror(errno));
	}
	if (!text) {
		status = rt_no_memory(err, NULL);
	} else {
		n = fread(text, 1, MAX_PROMPT, f);
		status = ferror(f) ? rt_fail(err, RT_IO, prompt_of(s->o),
				"cannot be read: %s", strerror(errno))
			: n == MAX_PROMPT && getc(f) != EOF
			? rt_fail(err, RT_FORMAT, prompt_of(s->o), "a prompt "
				  "has at most %d bytes, and this has more",
				  MAX_PROMPT)
			: push_prompt(s, text, n, err);
	}
	free(text);
	fclose(f);
	return status;
}

/* ---- logits ---- */

/* After the last token there are zeros, which causal attention ignores. */
static enum rt_status
get_window(const struct rt_feed *f, int64_t sequence, int64_t from, int64_t n,
	   int32_t *out, struct rt_error *err)
{
	const struct sample *s = f->user;
	int64_t i;

	(void)sequence;
	(void)err;
	for (i = 0; i < n; i++) {
		out[i] = from + i < s->n ? s->window[from + i] : 0;
	}
	return RT_OK;
}

/* Index of position p among those of a rank; -1: it does not have it. */
static int64_t
place_in(const struct rt_pieces *pieces, int64_t p)
{
	int64_t before = 0, i;

	for (i = 0; i < pieces->n; i++) {
		if (p >= pieces->at[i].start &&
		    p < pieces->at[i].start + pieces->at[i].count) {
			return before + p - pieces->at[i].start;
		}
		before += pieces->at[i].count;
	}
	return -1;
}

/* Whether a rank has entry v of row p of the logits, of any sequence. */
static bool
has_entry(const struct rt_plan *p, const struct rt_port *l, int64_t rank,
	  int64_t row, int64_t v)
{
	return rt_pieces_of(p, l->dims[0], rank, 0)->total > 0 &&
	       place_in(rt_pieces_of(p, l->dims[1], rank, 0), row) >= 0 &&
	       (v < 0 ||
		place_in(rt_pieces_of(p, l->dims[2], rank, 0), v) >= 0);
}

/* Whether both ranks have the same part of the sums that logits are. */
static bool
same_part(const struct rt_plan *p, int64_t sum, int64_t a, int64_t b)
{
	int64_t x[RT_MAX_AXES + 1], y[RT_MAX_AXES + 1], i;

	rt_mesh_at(p, a, x);
	rt_mesh_at(p, b, y);
	for (i = 1; i < p->naxes; i++) {
		if (sum >> i & 1 && x[i] != y[i]) {
			return false;
		}
	}
	return true;
}

/* Of the ranks that have an entry the lowest contributes it. */
static bool
gives(const struct sample *s, int64_t row, int64_t v)
{
	const struct rt_plan *p = s->r->plan;
	int64_t i;

	for (i = 0; i < s->r->rank; i++) {
		const struct rt_port *l =
			p->programs[p->program_of[i]].logits;

		if (l && same_part(p, s->port->sum, i, s->r->rank) &&
		    has_entry(p, l, i, row, v)) {
			return false;
		}
	}
	return true;
}

static enum rt_status
own_logits(struct sample *s, int64_t row, struct rt_error *err)
{
	const struct rt_plan *p = s->r->plan;
	const struct rt_port *l = s->port;
	const struct rt_pieces *vocab;
	const char *values;
	enum rt_status status;
	int64_t bytes, i, j, at;

	if (!l || !has_entry(p, l, s->r->rank, row, -1)) {
		return RT_OK;
	}
	vocab = rt_pieces_of(p, l->dims[2], s->r->rank, 0);
	at = place_in(rt_pieces_of(p, l->dims[1], s->r->rank, 0), row) *
	     vocab->total;
	bytes = rt_elem_bytes((enum rt_elem)l->elem);
	status = rt_device_view(s->r->device, l->offset + at * bytes,
				vocab->total * bytes, s->row, &values, err);
	if (status != RT_OK) {
		return status;
	}
	at = 0;
	for (i = 0; i < vocab->n; i++) {
		for (j = 0; j < vocab->at[i].count; j++, at++) {
			int64_t v = vocab->at[i].start + j;

			if (gives(s, row, v)) {
				s->logits[v] = rt_elem_number(values, l->elem,
							      at);
			}
		}
	}
	return RT_OK;
}

static enum rt_status
find_logits(struct sample *s, struct rt_error *err)
{
	struct rt_feed feed = { get_window, s, 0, s->o->marks };
	enum rt_status status = rt_run_forward(s->r, &feed, err);

	memset(s->logits, 0, (size_t)s->below * sizeof *s->logits);
	if (status == RT_OK) {
		status = own_logits(s, s->n - 1, err);
	}
	if (status == RT_OK) {
		status = rt_comm_sum_f64(s->r->comm, s->r->axes, s->logits,
					 s->below, err);
	}
	return status;
}

/* ---- drawing ---- */

/* Uniform in [0, 1), the i-th of a seed: splitmix64. */
static double
uniform(uint64_t seed, uint64_t i)
{
	uint64_t z = (seed * 0xd1342543de82ef95u) + i * 0x9e3779b97f4a7c15u +
		     0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	z ^= z >> 31;
	return (double)(z >> 11) * 0x1p-53;
}

static int64_t
likeliest(const struct sample *s)
{
	int64_t i, best = 0;

	for (i = 1; i < s->below; i++) {
		if (s->logits[i] > s->logits[best]) {
			best = i;
		}
	}
	return best;
}

static int64_t
pick(const struct sample *s, double u)
{
	double t = s->o->temperature, sum = 0, top;
	int64_t best = likeliest(s), i;

	if (t == 0) {
		return best;
	}
	top = s->logits[best];
	for (i = 0; i < s->below; i++) {
		sum += exp((s->logits[i] - top) / t);
	}
	u *= sum;
	for (i = 0; i < s->below; i++) {
		u -= exp((s->logits[i] - top) / t);
		if (u < 0) {
			return i;
		}
	}
	return best;
}

static enum rt_status
show(struct sample *s, int64_t token, bool first, struct rt_error *err)
{
	if (s->text.tokenizer) {
		return sample_text_add(&s->text, token, s->out, err);
	}
	if (s->out && s->below == BYTES) {
		putc((int)token, s->out);
	} else if (s->out) {
		fprintf(s->out, "%s%lld", first ? "" : " ", (long long)token);
	}
	if (s->out) {
		fflush(s->out);
	}
	return RT_OK;
}

static enum rt_status
sample_all(struct sample *s, struct rt_error *err)
{
	uint64_t seed = (uint64_t)rt_options_seed(s->o, s->r->plan);
	enum rt_status status;
	int64_t i, token;

	for (i = 0; i < s->o->tokens; i++) {
		status = find_logits(s, err);
		if (status != RT_OK) {
			return status;
		}
		token = likeliest(s);
		if (!isfinite(s->logits[token])) {
			return rt_fail(err, RT_FORMAT, RT_NOWHERE, "the "
				"largest logit after token %lld is %g",
				(long long)i, s->logits[token]);
		}
		token = pick(s, uniform(seed, (uint64_t)i));
		status = show(s, token, i == 0, err);
		if (status != RT_OK) {
			return status;
		}
		push_token(s, (int32_t)token);
	}
	status = s->text.tokenizer
		? sample_text_add(&s->text, -1, s->out, err) : RT_OK;
	if (s->out) {
		putc('\n', s->out);
	}
	return status;
}

/* ---- life ---- */

static enum rt_status
prepare(struct sample *s, struct rt_error *err)
{
	const struct rt_plan *p = s->r->plan;
	struct rt_store store = rt_run_store(s->r);
	struct rt_progress progress;
	int64_t i, there = 0;

	for (i = 0; i < p->nprograms; i++) {
		const struct rt_port *l = p->programs[i].logits;

		there += l && l->ndims == 3 && l->dims[2]->size == s->below;
	}
	if (there == 0 || s->length == 0) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "this plan does not "
			       "keep logits, and so cannot be sampled from");
	}
	s->window = calloc((size_t)s->length, sizeof *s->window);
	s->logits = calloc((size_t)s->below, sizeof *s->logits);
	s->row = calloc((size_t)s->below, sizeof(double));
	if (!s->window || !s->logits || !s->row) {
		return rt_no_memory(err, NULL);
	}
	if (s->o->weights) {
		return rt_load_initial(s->r, s->o, &progress, err);
	}
	return rt_checkpoint_load(&store, s->o->checkpoint, &progress, err);
}

enum rt_status
rt_sample(struct rt_run *r, const struct rt_options *o, FILE *out,
	  struct rt_error *err)
{
	struct sample s = { .r = r, .o = o, .port = r->program->logits,
			    .out = r->rank == 0 ? out : NULL };
	enum rt_status status;

	s.length = rt_plan_length(r->plan, &s.below);
	status = sample_text_open(&s.text, o->tokenizer, err);
	if (s.text.tokenizer && s.out) {
		rt_tokenizer_warn_beyond(s.text.tokenizer, o->tokenizer,
					 s.below);
	}
	if (status == RT_OK) {
		status = prepare(&s, err);
	}
	if (status == RT_OK) {
		status = read_prompt(&s, err);
	}
	if (status == RT_OK) {
		status = sample_all(&s, err);
	}
	sample_text_close(&s.text);
	free(s.window);
	free(s.logits);
	free(s.row);
	return status;
}

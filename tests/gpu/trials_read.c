/*
 * Reads the folder that `llmc --trials` writes.  What it allocates lives as
 * long as the program.
 */
#include "tests/gpu/trials.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/elems.h"
#include "runtime/error.h"
#include "runtime/json.h"

/* Of a file, and of elements of a list. */
enum { MOST_BYTES = 1 << 28, MOST_LIST = 1 << 16 };

#define MOST_ELEMS 1e17		/* of a buffer, and more than one has */

/* ---- files ---- */

/* The bytes of FOLDER/NAME and its end, and a NUL; NULL: it cannot be read. */
static char *
read_file(const char *folder, const char *name, const char *end, size_t *n)
{
	char path[4096], *text = NULL;
	bool fits = !strchr(name, '/') &&
		    snprintf(path, sizeof path, "%s/%s%s", folder, name, end) <
		    (int)sizeof path;
	FILE *f = fits ? fopen(path, "rb") : NULL;
	long bytes = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;

	if (bytes >= 0 && bytes < MOST_BYTES) {
		rewind(f);
		text = calloc((size_t)bytes + 1, 1);
		if (text && fread(text, 1, (size_t)bytes, f) !=
		    (size_t)bytes) {
			free(text);
			text = NULL;
		}
	}
	*n = text ? (size_t)bytes : 0;
	if (f) {
		fclose(f);
	}
	return text;
}

/* ---- parts of lists ---- */

/* Room for element i of a list of things of that size, cleared. */
static void *
element(struct rt_json *j, void *list, size_t i, size_t size)
{
	char *to = i < MOST_LIST ? realloc(list, (i + 1) * size) : NULL;

	if (!to) {
		rt_json_fail(j, RT_NOMEM, NULL, "a list of %zu is too long",
			     i + 1);
		return list;
	}
	memset(to + i * size, 0, size);
	return to;
}

static bool
number(struct rt_json *j, double *out)
{
	const char *word;
	size_t n;

	if (!rt_json_word(j, &word, &n)) {
		return false;
	}
	*out = strtod(word, NULL);
	return (*out >= 0 && *out < 1e30) ||
	       rt_json_fail(j, RT_FORMAT, word, "expected a number from 0");
}

/* At most `most` of them. */
static bool
numbers(struct rt_json *j, int64_t *out, size_t most, size_t *n)
{
	size_t i = 0;

	*n = 0;
	rt_json_open(j, '[');
	while (rt_json_more(j, ']', &i)) {
		if (*n == most) {
			return rt_json_fail(j, RT_RANGE, j->text + j->at,
					    "more than %zu numbers", most);
		}
		rt_json_int(j, &out[(*n)++]);
	}
	return j->status == RT_OK;
}

/* Of a list that begins: there was none of that name before. */
static bool
once(struct rt_json *j, bool had, const char *name)
{
	return !had || rt_json_fail(j, RT_FORMAT, j->text + j->at,
				    "'%s' stands here twice", name);
}

static bool
unknown(struct rt_json *j, const char *key)
{
	return rt_json_fail(j, RT_FORMAT, key, "there is no '%s' here",
			    rt_show_name(key).text);
}

/* ---- a launch ---- */

static bool
read_map(struct rt_json *j, struct rt_map *m)
{
	const char *key;
	size_t i = 0, size = 0, stride = 0, box = 0;

	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		if (strcmp(key, "operand") == 0) {
			rt_json_int(j, &m->operand);
		} else if (strcmp(key, "offset") == 0) {
			rt_json_int(j, &m->offset);
		} else if (strcmp(key, "elem") == 0) {
			rt_json_int(j, &m->elem);
		} else if (strcmp(key, "swizzle") == 0) {
			rt_json_int(j, &m->swizzle);
		} else if (strcmp(key, "size") == 0) {
			numbers(j, m->size, 5, &size);
		} else if (strcmp(key, "stride") == 0) {
			numbers(j, m->stride, 5, &stride);
		} else if (strcmp(key, "box") == 0) {
			numbers(j, m->box, 5, &box);
		} else {
			unknown(j, key);
		}
	}
	m->ndims = (int64_t)size;
	return size >= 1 && size == stride && size == box
		? j->status == RT_OK
		: rt_json_fail(j, RT_FORMAT, j->text + j->at, "a map needs as "
			"many sizes as strides and boxes, 1 to 5");
}

static bool
read_step(struct rt_json *j, int64_t image, struct rt_step *s)
{
	struct rt_grid *g = calloc(1, sizeof *g);
	struct rt_map *maps = NULL;
	size_t i = 0, k = 0, n = 0;
	const char *key;

	s->grid = g;
	if (!g) {
		return rt_json_fail(j, RT_NOMEM, NULL, "out of memory");
	}
	g->image = image;
	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		if (strcmp(key, "function") == 0) {
			rt_json_string(j, &g->func);
		} else if (strcmp(key, "blocks") == 0) {
			numbers(j, g->blocks, 3, &n);
		} else if (strcmp(key, "threads") == 0) {
			rt_json_int(j, &g->threads);
		} else if (strcmp(key, "cluster") == 0) {
			rt_json_int(j, &g->cluster);
		} else if (strcmp(key, "shared") == 0) {
			rt_json_int(j, &g->smem_bytes);
		} else if (strcmp(key, "maps") == 0) {
			rt_json_open(j, '[');
			while (rt_json_more(j, ']', &k)) {
				maps = element(j, maps, (size_t)g->nmaps,
					       sizeof *maps);
				if (j->status == RT_OK) {
					read_map(j, &maps[g->nmaps++]);
				}
			}
			g->maps = maps;
		} else {
			unknown(j, key);
		}
	}
	return (g->func && n == 3 && g->threads >= 1 && g->cluster >= 1 &&
		g->blocks[0] >= 1 && g->blocks[1] >= 1 && g->blocks[2] >= 1) ||
	       rt_json_fail(j, RT_FORMAT, j->text + j->at, "a step needs a "
		       "function, three numbers of blocks, threads and a "
		       "cluster of 1 or more");
}

/* The whole dim, then runs: first, and how many. */
static bool
read_pieces(struct rt_json *j, struct rt_pieces *p)
{
	int64_t at[1 + 2 * RT_MAX_PIECES];
	size_t n, i;

	if (!numbers(j, at, 1 + 2 * RT_MAX_PIECES, &n) || n % 2 == 0) {
		return rt_json_fail(j, RT_FORMAT, j->text + j->at,
				    "pieces are a size, and pairs");
	}
	p->total = at[0];
	p->n = (int64_t)(n / 2);
	for (i = 0; i < n / 2; i++) {
		p->at[i].start = at[1 + 2 * i];
		p->at[i].count = at[2 + 2 * i];
	}
	return true;
}

/* ---- a trial ---- */

struct lists {			/* of a trial, until all are read */
	uint32_t *operands;
	struct rt_pieces *pieces;
	struct rt_step *steps;
	int64_t *nums;
	size_t noperands, npieces, nsteps, nnums;
	int64_t source;
};

static bool
read_lists(struct rt_json *j, const char *key, struct lists *l)
{
	int64_t operand;
	size_t i = 0;

	rt_json_open(j, '[');
	while (rt_json_more(j, ']', &i)) {
		if (strcmp(key, "operands") == 0) {
			l->operands = element(j, l->operands, l->noperands,
					      sizeof *l->operands);
			if (rt_json_int(j, &operand)) {
				l->operands[l->noperands++] =
					operand < MOST_LIST
						? (uint32_t)operand
						: MOST_LIST;
			}
		} else if (strcmp(key, "numbers") == 0) {
			l->nums = element(j, l->nums, l->nnums,
					  sizeof *l->nums);
			if (j->status == RT_OK) {
				rt_json_int(j, &l->nums[l->nnums++]);
			}
		} else if (strcmp(key, "pieces") == 0) {
			l->pieces = element(j, l->pieces, l->npieces,
					    sizeof *l->pieces);
			if (j->status == RT_OK) {
				read_pieces(j, &l->pieces[l->npieces++]);
			}
		} else {
			l->steps = element(j, l->steps, l->nsteps,
					   sizeof *l->steps);
			if (j->status == RT_OK) {
				read_step(j, l->source,
					  &l->steps[l->nsteps++]);
			}
		}
	}
	return j->status == RT_OK;
}

/* Whether all that a map reaches lies in the buffer of its operand. */
static bool
lies_inside(const struct rt_map *m, const struct lists *l,
	    const struct rt_tune_buffer *buffers)
{
	double end;
	int64_t d;

	if (m->operand >= (int64_t)l->noperands || m->elem >= RT_ELEM_I4) {
		return false;
	}
	end = (double)m->offset + (double)m->size[0] *
	      (double)rt_elem_bytes((enum rt_elem)m->elem);
	for (d = 1; d < m->ndims; d++) {
		end += ((double)m->size[d] - 1) * (double)m->stride[d];
	}
	return end <= (double)buffers[l->operands[m->operand]].bytes;
}

static bool
is_sound(const struct lists *l, const struct trial_case *x, int64_t nimages)
{
	int64_t k;
	size_t i;

	for (i = 0; i < l->noperands; i++) {
		if (l->operands[i] >= x->nbuffers) {
			return false;
		}
	}
	for (i = 0; i < l->nsteps; i++) {
		for (k = 0; k < l->steps[i].grid->nmaps; k++) {
			if (!lies_inside(&l->steps[i].grid->maps[k], l,
					 x->buffers)) {
				return false;
			}
		}
	}
	return l->nsteps > 0 && l->source < nimages;
}

static bool
read_trial(struct rt_json *j, const struct trials *all,
	   const struct trial_case *x, struct trial *t, struct rt_tune_way *w)
{
	struct lists l = { .source = MOST_LIST };
	const char *key;
	size_t i = 0;

	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		if (strcmp(key, "tile") == 0) {
			rt_json_string(j, &t->tile);
		} else if (strcmp(key, "cycles") == 0) {
			number(j, &t->cycles);
		} else if (strcmp(key, "source") == 0) {
			rt_json_int(j, &l.source);
		} else if (strcmp(key, "spills") == 0) {
			rt_json_int(j, &t->spill_bytes);
		} else if (strcmp(key, "scratch") == 0) {
			rt_json_int(j, &w->shared_bytes);
		} else if (strcmp(key, "numbers") == 0 ||
			   strcmp(key, "operands") == 0 ||
			   strcmp(key, "pieces") == 0 ||
			   strcmp(key, "steps") == 0) {
			read_lists(j, key, &l);
		} else {
			unknown(j, key);
		}
	}
	if (j->status == RT_OK && (!t->tile ||
	    !is_sound(&l, x, all->images.n))) {
		rt_json_fail(j, RT_RANGE, j->text + j->at, "a trial needs a "
			"tile, steps, and operands, maps and a source that "
			"there are, and maps inside of their buffers; buffers "
			"and sources come before it");
	}
	t->kernel = (struct rt_kernel){ .what = x->what,
		.nsteps = (int64_t)l.nsteps, .steps = l.steps,
		.nat = (int64_t)l.noperands, .npieces = (int64_t)l.npieces,
		.nnum = (int64_t)l.nnums };
	w->operands = l.operands;
	w->pieces = l.pieces;
	w->nums = l.nums;
	return j->status == RT_OK;
}

/* ---- a case ---- */

static double
positions(const struct rt_tune_factor *f)
{
	double all = 1;
	int64_t i;

	for (i = 0; i < f->n; i++) {
		all *= (double)f->size[i];
	}
	return all;
}

static bool
read_factor(struct rt_json *j, struct rt_tune_factor *f)
{
	int64_t at[3 * RT_MAX_DIMS];
	double reach = 0;
	size_t n, i;

	if (!numbers(j, at, 3 * RT_MAX_DIMS, &n) || n % 3) {
		return rt_json_fail(j, RT_FORMAT, j->text + j->at, "a factor "
			"has three numbers for each run");
	}
	f->n = (int64_t)(n / 3);
	for (i = 0; i < n / 3; i++) {
		f->size[i] = at[3 * i];
		f->stride[i][0] = at[3 * i + 1];
		f->stride[i][1] = at[3 * i + 2];
		if (f->size[i] < 1) {
			return rt_json_fail(j, RT_FORMAT, j->text + j->at,
					    "a run has 1 position or more");
		}
		reach += (double)f->size[i] *
			 fmax((double)f->stride[i][0],
			      (double)f->stride[i][1]);
	}
	return fmax(reach, positions(f)) < MOST_ELEMS ||
	       rt_json_fail(j, RT_RANGE, j->text + j->at,
			    "a factor of more elements than a buffer has");
}

static bool
read_product(struct rt_json *j, struct trial_case *x)
{
	struct rt_tune_product *p = &x->product;
	size_t i = 0, nbuffers = 0, noffsets = 0;
	const char *key;

	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		if (strcmp(key, "adds") == 0) {
			rt_json_bool(j, &p->adds);
		} else if (strcmp(key, "buffers") == 0) {
			numbers(j, p->buffer, 3, &nbuffers);
		} else if (strcmp(key, "offset") == 0) {
			numbers(j, p->offset, 2, &noffsets);
		} else if (strcmp(key, "batch") == 0) {
			read_factor(j, &p->batch);
		} else if (strcmp(key, "m") == 0) {
			read_factor(j, &p->m);
		} else if (strcmp(key, "n") == 0) {
			read_factor(j, &p->n);
		} else if (strcmp(key, "k") == 0) {
			read_factor(j, &p->k);
		} else {
			unknown(j, key);
		}
	}
	for (i = 0; i < nbuffers && j->status == RT_OK; i++) {
		nbuffers = p->buffer[i] < (int64_t)x->nbuffers ? nbuffers : 0;
	}
	x->has_product = true;
	return (nbuffers == 3 && noffsets == 2 &&
		(double)p->offset[0] < MOST_ELEMS &&
		(double)p->offset[1] < MOST_ELEMS && positions(&p->batch) *
		positions(&p->m) * positions(&p->n) < MOST_ELEMS) ||
	       rt_json_fail(j, RT_RANGE, j->text + j->at, "a product needs "
		       "three buffers that there are, and two offsets");
}

static bool
read_buffer(struct rt_json *j, struct rt_tune_buffer *b)
{
	const char *key;
	size_t i = 0;

	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		if (strcmp(key, "bytes") == 0) {
			rt_json_int(j, &b->bytes);
		} else if (strcmp(key, "elem") == 0) {
			rt_json_int(j, &b->elem);
		} else if (strcmp(key, "row") == 0) {
			rt_json_int(j, &b->row);
		} else if (strcmp(key, "pitch") == 0) {
			rt_json_int(j, &b->pitch);
		} else if (strcmp(key, "written") == 0) {
			rt_json_bool(j, &b->written);
		} else {
			unknown(j, key);
		}
	}
	if (j->status == RT_OK && (b->row < 0 || b->pitch < b->row ||
				   (b->row == 0 && b->pitch > 0))) {
		rt_json_fail(j, RT_RANGE, j->text + j->at, "rows of a buffer "
			     "that are as far apart as they are long, or more");
	}
	return j->status == RT_OK;
}

static bool
read_trials(struct rt_json *j, const struct trials *all, struct trial_case *x)
{
	size_t i = 0;

	rt_json_open(j, '[');
	while (rt_json_more(j, ']', &i)) {
		x->trials = element(j, x->trials, x->ntrials,
				    sizeof *x->trials);
		x->ways = element(j, x->ways, x->ntrials, sizeof *x->ways);
		if (j->status == RT_OK) {
			read_trial(j, all, x, &x->trials[x->ntrials],
				   &x->ways[x->ntrials]);
			x->ntrials++;
		}
	}
	return j->status == RT_OK;
}

static bool
read_buffers(struct rt_json *j, struct trial_case *x)
{
	double sum = 0;
	size_t i = 0;

	rt_json_open(j, '[');
	while (rt_json_more(j, ']', &i)) {
		x->buffers = element(j, x->buffers, x->nbuffers,
				     sizeof *x->buffers);
		if (j->status == RT_OK) {
			read_buffer(j, &x->buffers[x->nbuffers]);
			sum += (double)x->buffers[x->nbuffers++].bytes;
		}
	}
	return sum < MOST_ELEMS ||
	       rt_json_fail(j, RT_RANGE, j->text + j->at, "buffers of %g bytes "
			    "are more than there is memory", sum);
}

static bool
read_case(struct rt_json *j, const struct trials *all, struct trial_case *x)
{
	const struct {
		const char *key;
		double *to;
	} doubles[] = {
		{ "us", &x->us }, { "flops", &x->flops },
		{ "bytes", &x->bytes }, { "peak_flops_us", &x->peak_flops_us },
		{ "peak_bytes_us", &x->peak_bytes_us }
	};
	const char *key;
	size_t i = 0, k;

	rt_json_open(j, '{');
	while (rt_json_more(j, '}', &i) && rt_json_key(j, &key)) {
		for (k = 0; k < 5 && strcmp(key, doubles[k].key) != 0; k++) {
		}
		if (k < 5) {
			number(j, doubles[k].to);
		} else if (strcmp(key, "what") == 0) {
			rt_json_string(j, &x->what);
		} else if (strcmp(key, "kernels") == 0) {
			rt_json_int(j, &x->nkernels);
		} else if (strcmp(key, "buffers") == 0) {
			read_buffers(j, x);
		} else if (strcmp(key, "product") == 0) {
			read_product(j, x);
		} else if (strcmp(key, "trials") == 0) {
			read_trials(j, all, x);
		} else {
			unknown(j, key);
		}
	}
	return (x->what && x->ntrials > 0) ||
	       rt_json_fail(j, RT_FORMAT, j->text + j->at,
			    "a case needs a name and trials");
}

/* ---- the whole file ---- */

static bool
read_source(struct rt_json *j, const char *folder, struct rt_image *m)
{
	size_t n;

	if (!rt_json_string(j, &m->name)) {
		return false;
	}
	m->cubin = read_file(folder, m->name, ".cubin", &n);
	m->cubin_bytes = (int64_t)n;
	/* the emulator alone needs it */
	m->source = read_file(folder, m->name, ".cu", &n);
	return m->cubin ||
	       rt_json_fail(j, RT_IO, m->name, "%s.cubin cannot be read",
			    rt_show_name(m->name).text);
}

static bool
read_sources(struct rt_json *j, const char *folder, struct trials *out)
{
	struct rt_image *at = NULL;
	size_t i = 0;

	if (!once(j, out->images.at, "sources")) {
		return false;
	}
	rt_json_open(j, '[');
	while (rt_json_more(j, ']', &i)) {
		at = element(j, at, (size_t)out->images.n, sizeof *at);
		if (j->status == RT_OK) {
			read_source(j, folder, &at[out->images.n++]);
		}
	}
	out->images.at = at;
	return j->status == RT_OK;
}

static bool
read_texts(struct rt_json *j, const char *folder, struct trials *out)
{
	/* as in struct rt_images, which names no type for them */
	struct {
		const char *name, *text;
	} *at = NULL;
	size_t i = 0, n;

	if (!once(j, out->images.texts, "texts")) {
		return false;
	}
	rt_json_open(j, '[');
	while (rt_json_more(j, ']', &i)) {
		void *to = element(j, at, (size_t)out->images.ntexts,
				   sizeof *at);

		at = to;
		if (j->status == RT_OK && rt_json_string(j, &at[
		    out->images.ntexts].name)) {
			const char *name = at[out->images.ntexts].name;
			const char *text = read_file(folder, name, "", &n);

			at[out->images.ntexts++].text = text;
			if (!text) {
				rt_json_fail(j, RT_IO, name, "%s cannot be "
					"read", rt_show_name(name).text);
			}
		}
	}
	out->images.texts = (const void *)at;
	return j->status == RT_OK;
}

static bool
read_cases(struct rt_json *j, struct trials *out)
{
	size_t i = 0;

	rt_json_open(j, '[');
	while (rt_json_more(j, ']', &i)) {
		out->cases = element(j, out->cases, out->ncases,
				     sizeof *out->cases);
		if (j->status == RT_OK) {
			read_case(j, out, &out->cases[out->ncases++]);
		}
	}
	return j->status == RT_OK;
}

/* A case's kernels and candidates point into lists that have grown. */
static void
join(struct trials *all)
{
	size_t i, k;

	for (i = 0; i < all->ncases; i++) {
		struct trial_case *x = &all->cases[i];

		for (k = 0; k < x->ntrials; k++) {
			x->trials[k].kernel.what = x->what;
			x->ways[k].kernel = &x->trials[k].kernel;
		}
	}
}

enum rt_status
trials_read(const char *folder, struct trials *out, struct rt_error *err)
{
	struct rt_json j = { .path = "trials.json", .err = err };
	const char *key;
	size_t i = 0;

	j.text = read_file(folder, "trials.json", "", &j.len);
	if (!j.text) {
		return rt_fail(err, RT_IO, RT_NOWHERE, "%s/trials.json cannot "
			       "be read: llmc --trials -o FOLDER writes "
			       "FOLDER/trials", rt_show_path(folder).text);
	}
	out->text = j.text;
	rt_json_check_utf8(&j);
	rt_json_open(&j, '{');
	while (rt_json_more(&j, '}', &i) && rt_json_key(&j, &key)) {
		if (strcmp(key, "arch") == 0) {
			rt_json_string(&j, &out->arch);
		} else if (strcmp(key, "made_by") == 0) {
			rt_json_string(&j, &out->images.made_by);
		} else if (strcmp(key, "texts") == 0) {
			read_texts(&j, folder, out);
		} else if (strcmp(key, "sources") == 0) {
			read_sources(&j, folder, out);
		} else if (strcmp(key, "cases") == 0) {
			read_cases(&j, out);
		} else {
			unknown(&j, key);
		}
	}
	rt_json_end(&j, " \t\r\n");
	join(out);
	if (j.status == RT_OK && (!out->arch || !*out->arch ||
				  !out->images.made_by)) {
		rt_json_fail(&j, RT_FORMAT, NULL, "it names no architecture, "
			     "or not by what kernels were compiled");
	}
	return j.status;
}

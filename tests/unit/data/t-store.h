/*
 * What the tests of checkpoints and weights share: a small model
 * under plans of several ranks, and ranks that are threads.
 *
 * The plans come from a spec, not from the compiler: what is asked of the
 * runtime is any split there may be, not only those that are made today.
 */
#ifndef T_STORE_H
#define T_STORE_H

#include "tests/unit/data/t-safetensors.h"

#include <inttypes.h>
#include <pthread.h>

#include "runtime/data/data.h"
#include "runtime/files.h"

enum { MAX_RANKS = 12 };

/* ---- ranks that are threads ---------------------------------------- */

struct meeting {
	pthread_mutex_t lock;
	pthread_cond_t all;
	int64_t size, here, turn;
	uint64_t sum[4096];
	int64_t max[8];
};

struct rt_comm {
	struct meeting *m;
	int64_t rank;
};

static inline void
meet(struct meeting *m)
{
	int64_t turn = m->turn;

	if (++m->here == m->size) {
		m->here = 0;
		m->turn++;
		pthread_cond_broadcast(&m->all);
	}
	while (turn == m->turn) {
		pthread_cond_wait(&m->all, &m->lock);
	}
}

enum rt_status
rt_comm_sum_u64(struct rt_comm *c, uint64_t *at, int64_t n,
		struct rt_error *err)
{
	struct meeting *m = c->m;
	int64_t i;

	(void)err;
	assert_true(n <= (int64_t)(sizeof(m->sum) / sizeof(m->sum[0])));
	pthread_mutex_lock(&m->lock);
	for (i = 0; i < n; i++) {
		m->sum[i] = (m->here == 0 ? 0 : m->sum[i]) + at[i];
	}
	meet(m);
	memcpy(at, m->sum, (size_t)n * sizeof(*at));
	meet(m);
	pthread_mutex_unlock(&m->lock);
	return RT_OK;
}

enum rt_status
rt_comm_max_i64(struct rt_comm *c, int64_t *at, int64_t n,
		struct rt_error *err)
{
	struct meeting *m = c->m;
	int64_t i;

	(void)err;
	assert_true(n <= 8);
	pthread_mutex_lock(&m->lock);
	for (i = 0; i < n; i++) {
		if (m->here == 0 || m->max[i] < at[i]) {
			m->max[i] = at[i];
		}
	}
	meet(m);
	memcpy(at, m->max, (size_t)n * sizeof(*at));
	meet(m);
	pthread_mutex_unlock(&m->lock);
	return RT_OK;
}

/* Until mesh.c has them. */
__attribute__((weak)) const struct rt_pieces *
rt_pieces_of(const struct rt_plan *p, const struct rt_spread *s, int64_t rank,
	     int64_t microbatch)
{
	(void)p;
	(void)microbatch;
	return &s->at[rank];
}

__attribute__((weak)) int64_t
rt_elem_bytes(enum rt_elem e)
{
	return e == RT_ELEM_F64 ? 8 :
	       e == RT_ELEM_F32 || e == RT_ELEM_I32 ? 4 : 2;
}

/* ---- a model ------------------------------------------------------- */

enum { LAYERS = 4, FFN = 6, HIDDEN = 10, VOCAB = 7 };

/* How a dim is shared: the axis, and in one block or in many pieces. */
enum share { WHOLE, BY_PP, BY_TP, BY_DP };

static const struct model_tensor {
	const char *name;
	int64_t loaded;
	enum rt_elem elem;
	int64_t ndims, stacked;
	const char *dims[RT_MAX_DIMS];
	int64_t sizes[RT_MAX_DIMS];
	enum share share[RT_MAX_DIMS];
	bool tied;	/* both ends of the pipeline have it */
} model_tensors[] = {
	{ "h.{layers}.ln.weight", 1, RT_ELEM_F32, 2, 1,
	  { "layers", "hidden" }, { LAYERS, HIDDEN }, { BY_PP, WHOLE },
	  false },
	{ "h.{layers}.mlp.up", 1, RT_ELEM_BF16, 3, 1,
	  { "layers", "ffn", "hidden" }, { LAYERS, FFN, HIDDEN },
	  { BY_PP, BY_TP, WHOLE }, false },
	{ "h.{layers}.mlp.up.exp_avg", 0, RT_ELEM_F32, 3, 1,
	  { "layers", "ffn", "hidden" }, { LAYERS, FFN, HIDDEN },
	  { BY_PP, BY_TP, BY_DP }, false },
	{ "h.{layers}.mlp.down", 1, RT_ELEM_BF16, 4, 1,
	  { "layers", "hidden", "one", "ffn" }, { LAYERS, HIDDEN, 1, FFN },
	  { BY_PP, WHOLE, WHOLE, BY_TP }, false },
	{ "h.{layers}.scale", 1, RT_ELEM_F32, 1, 1, { "layers" }, { LAYERS },
	  { BY_PP }, false },
	{ "loss_scale", 0, RT_ELEM_F32, 0, 0, { NULL }, { 0 }, { WHOLE },
	  true },
	{ "wte.weight", 1, RT_ELEM_BF16, 2, 0, { "vocab", "hidden" },
	  { VOCAB, HIDDEN }, { BY_TP, WHOLE }, true },
	{ "wte.weight.exp_avg", 0, RT_ELEM_F32, 2, 0, { "vocab", "hidden" },
	  { VOCAB, HIDDEN }, { BY_TP, BY_DP }, true },
};

enum { NTENSORS = sizeof(model_tensors) / sizeof(model_tensors[0]) };

/* ---- plans --------------------------------------------------------- */

struct spec {
	int64_t pp, tp, dp;
	bool pieces;	/* shares are of many pieces */
};

struct test_plan {
	struct rt_plan plan;
	struct rt_axis axes[4];
	struct rt_tensor tensors[NTENSORS];
	/* by tensor and dim */
	struct rt_spread spreads[NTENSORS][RT_MAX_DIMS];
	const struct rt_spread *lists[NTENSORS][RT_MAX_DIMS];
	struct rt_pieces pieces[NTENSORS][RT_MAX_DIMS][MAX_RANKS];
	int64_t program_of[MAX_RANKS];
	struct rt_program programs[MAX_RANKS];
	struct rt_hold holds[MAX_RANKS][NTENSORS];
};

static inline void
share_dim(struct rt_pieces *p, int64_t size, int64_t ways, int64_t at,
	  bool pieces)
{
	int64_t i, from = size * at / ways, to = size * (at + 1) / ways;

	memset(p, 0, sizeof(*p));
	if (ways == 1 || !pieces) {
		p->n = 1;
		p->at[0].start = from;
		p->at[0].count = to - from;
		p->total = to - from;
		return;
	}
	for (i = at; i < size; i += ways) {
		p->at[p->n].start = i;
		p->at[p->n++].count = 1;
		p->total++;
	}
}

static inline void
share_tensor(struct test_plan *t, int k, const struct spec *s, int64_t rank)
{
	int64_t dp = rank % s->dp, tp = rank / s->dp % s->tp;
	int64_t pp = rank / s->dp / s->tp, d;
	const struct model_tensor *m = &model_tensors[k];

	for (d = 0; d < m->ndims; d++) {
		struct rt_pieces *p = &t->pieces[k][d][rank];

		switch (m->share[d]) {
		case WHOLE:
			share_dim(p, m->sizes[d], 1, 0, false);
			break;
		case BY_PP:
			share_dim(p, m->sizes[d], s->pp, pp, s->pieces);
			break;
		case BY_TP:
			share_dim(p, m->sizes[d], s->tp, tp, s->pieces);
			break;
		case BY_DP:
			share_dim(p, m->sizes[d], s->dp, dp, s->pieces);
			break;
		}
	}
}

static inline void
make_tensors(struct test_plan *t)
{
	int64_t d;
	int k;

	for (k = 0; k < NTENSORS; k++) {
		const struct model_tensor *m = &model_tensors[k];

		t->tensors[k].name = m->name;
		t->tensors[k].loaded = m->loaded;
		t->tensors[k].elem = m->elem;
		t->tensors[k].ndims = m->ndims;
		t->tensors[k].dims = m->dims;
		t->tensors[k].sizes = m->sizes;
		t->tensors[k].stacked = m->stacked;
		for (d = 0; d < m->ndims; d++) {
			t->spreads[k][d].size = m->sizes[d];
			t->spreads[k][d].at = t->pieces[k][d];
			t->lists[k][d] = &t->spreads[k][d];
		}
	}
}

/* What a rank holds of tensors that its place in the pipeline has. */
static inline void
make_program(struct test_plan *t, const struct spec *s, int64_t rank)
{
	struct rt_program *g = &t->programs[rank];
	int64_t pp = rank / s->dp / s->tp, bytes, d;
	int k;

	t->program_of[rank] = rank;
	g->pipe = pp;
	g->holds = t->holds[rank];
	for (k = 0; k < NTENSORS; k++) {
		const struct model_tensor *m = &model_tensors[k];
		struct rt_hold *h = &t->holds[rank][g->nholds];

		share_tensor(t, k, s, rank);
		if (m->tied && pp > 0 && pp < s->pp - 1) {
			continue;
		}
		h->tensor = &t->tensors[k];
		h->dims = t->lists[k];
		h->offset = g->arena_bytes;
		h->writes = !m->tied || pp == 0;
		bytes = m->elem == RT_ELEM_BF16 ? 2 : 4;
		for (d = 0; d < m->ndims; d++) {
			bytes *= t->pieces[k][d][rank].total;
		}
		g->arena_bytes += (bytes + 63) / 64 * 64;
		g->nholds++;
	}
}

static inline struct test_plan *
make_plan(struct spec s)
{
	struct test_plan *t = calloc(1, sizeof(*t));
	int64_t rank;

	assert_non_null(t);
	t->axes[1].name = "pp";
	t->axes[1].size = s.pp;
	t->axes[2].name = "tp";
	t->axes[2].size = s.tp;
	t->axes[3].name = "dp";
	t->axes[3].size = s.dp;
	t->plan.abi = RT_ABI_VERSION;
	t->plan.model = "tiny";
	t->plan.naxes = 4;
	t->plan.axes = t->axes;
	t->plan.pp = 1;
	t->plan.nranks = s.pp * s.tp * s.dp;
	t->plan.npipes = s.pp;
	t->plan.nmicrobatches = 1;
	t->plan.ntensors = NTENSORS;
	t->plan.tensors = t->tensors;
	t->plan.program_of = t->program_of;
	t->plan.nprograms = t->plan.nranks;
	t->plan.programs = t->programs;
	assert_true(t->plan.nranks <= MAX_RANKS);
	make_tensors(t);
	for (rank = 0; rank < t->plan.nranks; rank++) {
		make_program(t, &s, rank);
	}
	return t;
}

/* ---- values -------------------------------------------------------- */

/* Bits of an element of a whole tensor: never a NaN. */
static inline uint32_t
value(int k, int64_t elem, int64_t step)
{
	uint32_t x = (uint32_t)(k * 40503 + elem * 977 + step * 7919);

	x = (x ^ x >> 7) * 2654435761u;
	x = (x ^ x >> 15) & 0xbfffffff;
	return model_tensors[k].elem == RT_ELEM_BF16 ? x >> 16 : x;
}

/* The number, in the whole tensor, of an element that a rank has. */
static inline int64_t
whole_elem(const struct test_plan *t, int k, int64_t rank, int64_t local)
{
	int64_t d, i, at, whole = 0, stride = 1;

	for (d = model_tensors[k].ndims - 1; d >= 0; d--) {
		const struct rt_pieces *p = &t->pieces[k][d][rank];

		at = local % p->total;
		local /= p->total;
		for (i = 0; at >= p->at[i].count; i++) {
			at -= p->at[i].count;
		}
		whole += (p->at[i].start + at) * stride;
		stride *= model_tensors[k].sizes[d];
	}
	return whole;
}

/* Fills an arena (check false), or counts what is not as it was filled. */
static inline int64_t
walk(const struct test_plan *t, int64_t rank, char *arena, int64_t step,
     bool check)
{
	const struct rt_program *g = &t->programs[rank];
	int64_t wrong = 0, i, d, n, e;

	for (i = 0; i < g->nholds; i++) {
		const struct rt_hold *h = &g->holds[i];
		int k = (int)(h->tensor - t->tensors);
		size_t bytes = h->tensor->elem == RT_ELEM_BF16 ? 2 : 4;

		n = 1;
		for (d = 0; d < h->tensor->ndims; d++) {
			n *= t->pieces[k][d][rank].total;
		}
		for (e = 0; e < n; e++) {
			char *p = arena + h->offset + (size_t)e * bytes;
			uint32_t v = value(k, whole_elem(t, k, rank, e), step);

			if (check) {
				wrong += memcmp(p, &v, bytes) != 0;
			} else {
				memcpy(p, &v, bytes);
			}
		}
	}
	return wrong;
}

/* ---- running all ranks --------------------------------------------- */

enum what { SAVE, BEHIND, LOAD, WEIGHTS, EXPORT, EXPORT_AGAIN };

struct job {
	enum what what;
	struct rt_store store;
	const struct test_plan *plan;
	const char *path;
	struct rt_progress progress;
	/* WEIGHTS: not 0 allows unused tensors; EXPORT: bytes of a shard */
	int64_t keep;
	enum rt_status status;
	struct rt_error err;
};

/* Saves behind what overwrites the arena meanwhile. */
static inline void
save_behind(struct job *j)
{
	int64_t bytes = j->store.program->arena_bytes, step = -1;
	struct rt_behind *b;

	j->status = rt_behind_open(&b, &j->store, j->path, j->keep, &j->err);
	if (j->status != RT_OK) {
		return;
	}
	j->status = rt_behind_begin(b, &j->progress, &j->err);
	memset(j->store.arena, 0x77, (size_t)bytes);
	while (j->status == RT_OK && rt_behind_is_busy(b)) {
		/* each rank has to ask as often as the others */
		j->status = rt_behind_poll(b, j->progress.step % 2, &step,
					   &j->err);
	}
	if (j->status == RT_OK && step != j->progress.step) {
		j->status = rt_fail(&j->err, RT_FORMAT, RT_NOWHERE,
				    "no step is complete");
	}
	rt_behind_close(b);
}

static inline void *
job_run(void *user)
{
	struct job *j = user;

	switch (j->what) {
	case SAVE:
		walk(j->plan, j->store.rank, j->store.arena,
		     j->progress.step, false);
		j->status = rt_checkpoint_save(&j->store, &j->progress,
					       j->path, j->keep, &j->err);
		break;
	case BEHIND:
		walk(j->plan, j->store.rank, j->store.arena,
		     j->progress.step, false);
		save_behind(j);
		break;
	case LOAD:
		j->status = rt_checkpoint_load(&j->store, j->path,
					       &j->progress, &j->err);
		break;
	case WEIGHTS:
		j->status = rt_weights_load(&j->store,
			&(struct rt_weights_options){ .path = j->path,
				.allow_unused = j->keep != 0 }, &j->err);
		break;
	case EXPORT:
	case EXPORT_AGAIN:
		walk(j->plan, j->store.rank, j->store.arena,
		     j->progress.step, false);
		j->status = rt_export(&j->store, j->path, j->keep,
				      j->what == EXPORT_AGAIN, &j->err);
		break;
	}
	return NULL;
}

struct run {
	struct job jobs[MAX_RANKS];
	enum rt_status status;	/* of all ranks */
	const char *message;	/* of rank 0 */
};

static inline int
no_fsync(int fd)
{
	(void)fd;
	return 0;
}

/*
 * The system's calls, but for the disk: the crashes here are of processes,
 * and thousands of saves would wait for it.
 */
static inline struct rt_files
quick_files(void)
{
	struct rt_files f = *rt_files_or_system(NULL);

	f.fsync = no_fsync;
	return f;
}

/* Ends with all arenas, to be freed by run_free(). */
static inline void
run_all(struct run *r, const struct test_plan *t, enum what what,
	const char *path, int64_t step, int64_t keep,
	const struct rt_files *files)
{
	static struct meeting clear;
	struct rt_files quick = quick_files();
	struct meeting *m = malloc(sizeof(*m));
	struct rt_comm comms[MAX_RANKS];
	pthread_t threads[MAX_RANKS];
	int64_t n = t->plan.nranks, i;

	assert_non_null(m);
	*m = clear;
	m->size = n;
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->all, NULL);
	memset(r, 0, sizeof(*r));
	for (i = 0; i < n; i++) {
		struct job *j = &r->jobs[i];

		comms[i].m = m;
		comms[i].rank = i;
		j->what = what;
		j->plan = t;
		j->path = path;
		j->keep = keep;
		j->progress.step = step;
		j->progress.sequences = step * 100;
		j->progress.seed = UINT64_MAX - (uint64_t)step;
		j->progress.data = (uint64_t)step << 40 | 5;
		j->store.plan = &t->plan;
		j->store.program = &t->programs[t->program_of[i]];
		j->store.rank = i;
		j->store.arena = calloc(1, (size_t)
			j->store.program->arena_bytes + 1);
		assert_non_null(j->store.arena);
		j->store.comm = &comms[i];
		j->store.files = files ? files : &quick;
		if (n > 1) {
			assert_int_equal(pthread_create(&threads[i], NULL,
							job_run, j), 0);
		} else {
			job_run(j);
		}
	}
	for (i = 0; i < n && n > 1; i++) {
		pthread_join(threads[i], NULL);
	}
	r->status = r->jobs[0].status;
	r->message = r->jobs[0].err.message;
	for (i = 0; i < n; i++) {
		/* All ranks, or none. */
		assert_int_equal(r->jobs[i].status == RT_OK,
				 r->status == RT_OK);
	}
	free(m);
}

static inline void
run_free(struct run *r)
{
	int i;

	for (i = 0; i < MAX_RANKS; i++) {
		free(r->jobs[i].store.arena);
		r->jobs[i].store.arena = NULL;
	}
}

/* Saves, and expects that to work. */
static inline void
must_save(const struct test_plan *t, const char *path, int64_t step,
	  int64_t keep)
{
	struct run r;

	run_all(&r, t, SAVE, path, step, keep, NULL);
	assert_string_equal(r.message, "");
	assert_int_equal(r.status, RT_OK);
	run_free(&r);
}

/* Loads, and expects what was saved in that step. */
static inline void
must_load(const struct test_plan *t, const char *path, int64_t step)
{
	struct run r;
	int64_t i;

	run_all(&r, t, LOAD, path, 0, 0, NULL);
	assert_string_equal(r.message, "");
	assert_int_equal(r.status, RT_OK);
	for (i = 0; i < t->plan.nranks; i++) {
		assert_int_equal(r.jobs[i].progress.step, step);
		assert_int_equal(r.jobs[i].progress.sequences, step * 100);
		assert_true(r.jobs[i].progress.seed ==
			    UINT64_MAX - (uint64_t)step);
		assert_true(r.jobs[i].progress.data ==
			    ((uint64_t)step << 40 | 5));
		assert_string_equal(r.jobs[i].progress.remark, "");
		assert_int_equal(walk(t, i, r.jobs[i].store.arena, step,
				      true), 0);
	}
	run_free(&r);
}

#endif

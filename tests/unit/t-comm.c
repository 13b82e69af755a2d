/*
 * t-comm.c - talks between processes, held to plain loops over the elements:
 * pieces, types and groups at random, and sends in any order.
 */
#include "tests/unit/t-comm.h"

#include <math.h>

/* ---- elements, by the definition of their types ---- */

static double
small_float(uint64_t v, int e, int m)
{
	int top = (1 << e) - 1, bias = top >> 1;
	int x = (int)(v >> m) & top, f = (int)(v & ((1u << m) - 1));
	double d;

	if (x == top) {
		d = f ? (double)NAN : (double)INFINITY;
	} else {
		d = x ? ldexp((1 << m) + f, x - bias - m) :
			ldexp(f, 1 - bias - m);
	}
	return v >> (e + m) & 1 ? -d : d;
}

/* The nearest of all finite numbers, the even one of two. */
static uint64_t
to_small_float(double d, int e, int m)
{
	uint64_t sign = (uint64_t)!!signbit(d) << (e + m), v;
	int bias = (1 << (e - 1)) - 1, x;

	d = fabs(d);
	frexp(d, &x);
	x = d > 0 && x > 2 - bias ? x - 1 : 1 - bias;
	v = (uint64_t)nearbyint(ldexp(d, m - x));
	/* what is normal has its first bit counted as one exponent */
	v += (uint64_t)(x + bias - 1) << m;
	return sign | v;
}

static double
get(const char *at, enum rt_elem e)
{
	double d;
	float f;
	int32_t i;
	uint16_t h;

	switch (e) {
	case RT_ELEM_F64:
		memcpy(&d, at, 8);
		return d;
	case RT_ELEM_F32:
		memcpy(&f, at, 4);
		return (double)f;
	case RT_ELEM_I32:
		memcpy(&i, at, 4);
		return i;
	default:
		memcpy(&h, at, 2);
		return e == RT_ELEM_BF16 ? small_float(h, 8, 7) :
			small_float(h, 5, 10);
	}
}

static void
put(char *at, enum rt_elem e, double d)
{
	float f = (float)d;
	int32_t i;
	uint16_t h;

	switch (e) {
	case RT_ELEM_F64:
		memcpy(at, &d, 8);
		break;
	case RT_ELEM_F32:
		memcpy(at, &f, 4);
		break;
	case RT_ELEM_I32:
		i = (int32_t)d;
		memcpy(at, &i, 4);
		break;
	default:
		h = (uint16_t)(e == RT_ELEM_BF16 ? to_small_float(d, 8, 7) :
				       to_small_float(d, 5, 10));
		memcpy(at, &h, 2);
		break;
	}
}

/* What a rank has at a position, as its type has it. */
static double
value(uint64_t key, int64_t rank, int64_t position, enum rt_elem e)
{
	uint64_t s = key + (uint64_t)rank * 0x5851f42d4c957f2du +
		     (uint64_t)position;
	char room[8];
	double d = (double)(draw(&s) % 20011) / 100.0 - 100;

	put(room, e, e == RT_ELEM_I32 ? floor(d * 1e4) : d);
	return get(room, e);
}

/* ---- talks at random ---- */

enum { MAX_D = 3, MBS = 3 };

struct spread {
	struct rt_spread s;
	struct rt_pieces at[MOST_RANKS * MBS];
};

struct drawn {
	struct rt_talk talk;
	struct spread in[MAX_D], out[MAX_D];
	const struct rt_spread *ins[MAX_D], *outs[MAX_D];
	int64_t microbatch, trip;
	uint64_t key;
	bool in_place;
	char what[64];
};

/* Positions in a row, of which `keep` are kept, as pieces in any order. */
static void
pieces_of_set(const bool *keep, int64_t size, uint64_t *seed,
	      struct rt_pieces *p)
{
	int64_t i, j;

	memset(p, 0, sizeof(*p));
	for (i = 0; i < size; i = j) {
		for (j = i + 1; j < size && keep[j] == keep[i]; j++) {
		}
		if (keep[i] && p->n < RT_MAX_PIECES) {
			p->at[p->n].start = i;
			p->at[p->n++].count = j - i;
			p->total += j - i;
		}
	}
	for (i = p->n - 1; i > 0; i--) {
		int64_t k = draw_below(seed, i + 1);
		int64_t start = p->at[i].start, count = p->at[i].count;

		p->at[i] = p->at[k];
		p->at[k].start = start;
		p->at[k].count = count;
	}
}

/* Who of n each position belongs to: few runs of uneven length. */
static void
share_out(int64_t size, int64_t n, uint64_t *seed, int64_t *owner)
{
	int64_t runs = 1 + draw_below(seed, RT_MAX_PIECES), i, at = 0;

	for (i = 0; i < runs; i++) {
		int64_t to = i == runs - 1 ? size :
			at + draw_below(seed, size - at + 1);
		int64_t who = draw_below(seed, n);

		for (; at < to; at++) {
			owner[at] = who;
		}
	}
}

/* A rank's number in its group. */
static int64_t
member_of(const struct rt_plan *p, int64_t rank, int64_t axes)
{
	int64_t at[RT_MAX_AXES + 1], m = 0, a;

	rt_mesh_at(p, rank, at);
	for (a = 1; a < p->naxes; a++) {
		if (axes >> a & 1 && !p->axes[a].time) {
			m = m * p->axes[a].size + at[a];
		}
	}
	return m;
}

static int64_t
members(const struct rt_plan *p, int64_t axes)
{
	int64_t n = 1, a;

	for (a = 1; a < p->naxes; a++) {
		n *= axes >> a & 1 && !p->axes[a].time ? p->axes[a].size : 1;
	}
	return n;
}

enum who { ALL, OWN, SOME };

/* Of one dim what each rank has: all, what it owns, or that and more. */
static void
fill_spread(const struct rt_plan *p, struct spread *s, int64_t size,
	    enum who who, const int64_t *owner, int64_t axes, uint64_t *seed)
{
	bool *keep = malloc((size_t)size * sizeof(*keep));
	int64_t rank, mb, i;

	s->s.size = size;
	s->s.by_time = draw_below(seed, 2);
	s->s.at = s->at;
	for (rank = 0; rank < p->nranks; rank++) {
		int64_t m = member_of(p, rank, axes);
		struct rt_pieces one;

		for (i = 0; i < size; i++) {
			keep[i] = who == ALL || owner[i] == m ||
				(who == SOME && size < 60 &&
				 i / 7 % 3 == m % 3);
		}
		/* equal pieces must be in one order everywhere */
		pieces_of_set(keep, size, seed, &one);
		if (who == ALL) {
			one.n = 1;
		}
		for (mb = 0; mb < MBS; mb++) {
			s->at[s->s.by_time ? rank * MBS + mb : rank] = one;
		}
	}
	free(keep);
}

/*
 * all-reduce, reduce-scatter, all-gather, all-to-all, and a sum of what
 * members have in part: of dim k the shares are had, of dim j they are wanted.
 */
static void
draw_talk(const struct rt_plan *p, struct drawn *t, int64_t most,
	  uint64_t *seed)
{
	static const char *const names[] = { "all_reduce", "reduce_scatter",
		"all_gather", "all_to_all", "sum of some" };
	int64_t kind = draw_below(seed, 5), d, axes, n;
	int64_t ndims = 1 + draw_below(seed, MAX_D), k, j, *owner;

	memset(t, 0, sizeof(*t));
	if (kind == 3) {
		ndims = 2 + draw_below(seed, MAX_D - 1);
	}
	do {
		axes = draw_below(seed, (int64_t)1 << p->naxes) & ~1;
	} while (members(p, axes) < 2);
	n = members(p, axes);
	k = draw_below(seed, ndims);
	j = kind == 3 ? (k + 1) % ndims : k;
	owner = malloc((size_t)most * sizeof(*owner));
	for (d = 0; d < ndims; d++) {
		int64_t size = 1 + draw_below(seed, ndims == 1 ? most :
			ndims == 2 ? (int64_t)sqrt((double)most) : 40);
		bool had = d == k && kind >= 2, wanted = d == j &&
			(kind == 1 || kind == 3);

		share_out(size, n, seed, owner);
		fill_spread(p, &t->in[d], size, had ? kind == 4 ? SOME : OWN :
			    ALL, owner, axes, seed);
		fill_spread(p, &t->out[d], size, wanted ? OWN : ALL, owner,
			    axes, seed);
		t->ins[d] = &t->in[d].s;
		t->outs[d] = &t->out[d].s;
	}
	free(owner);
	snprintf(t->what, sizeof(t->what), "%s %d", names[kind],
		 (int)draw_below(seed, 1000));
	t->talk = (struct rt_talk){ .what = t->what, .axes = axes,
		.op = kind == 2 || kind == 3 ? RT_TALK_COPY :
			draw_below(seed, 4) ? RT_TALK_SUM : RT_TALK_MAX,
		.elem = draw_below(seed, 5), .ndims = ndims, .in = t->ins,
		.out = t->outs };
	t->in_place = draw_below(seed, 2) && (kind == 0 || kind == 2 ||
					      kind == 3);
	t->microbatch = draw_below(seed, MBS);
	t->trip = draw_below(seed, 3) - 1;
	t->key = draw(seed);
}

/* ---- the reference ---- */

static const struct rt_pieces *
pieces(const struct rt_plan *p, const struct drawn *t, int64_t d, bool in,
       int64_t rank)
{
	return rt_pieces_of(p, in ? t->ins[d] : t->outs[d], rank,
			    t->microbatch);
}

/* The position of local element i in the whole value. */
static int64_t
whole(const struct rt_plan *p, const struct drawn *t, bool in, int64_t rank,
      int64_t i, int64_t at[MAX_D])
{
	int64_t d, position = 0, times = 1;

	for (d = t->talk.ndims - 1; d >= 0; d--) {
		const struct rt_pieces *x = pieces(p, t, d, in, rank);
		int64_t local = i % x->total, b;

		i /= x->total;
		for (b = 0; local >= x->at[b].count; b++) {
			local -= x->at[b].count;
		}
		at[d] = x->at[b].start + local;
		position += at[d] * times;
		times *= t->ins[d]->size;
	}
	return position;
}

static bool
has(const struct rt_plan *p, const struct drawn *t, int64_t rank,
    const int64_t at[MAX_D])
{
	int64_t d, b;

	for (d = 0; d < t->talk.ndims; d++) {
		const struct rt_pieces *x = pieces(p, t, d, true, rank);

		for (b = 0; b < x->n; b++) {
			if (at[d] >= x->at[b].start &&
			    at[d] < x->at[b].start + x->at[b].count) {
				break;
			}
		}
		if (b == x->n) {
			return false;
		}
	}
	return true;
}

static double
add_up(const struct rt_talk *t, double acc, double v)
{
	if (t->op == RT_TALK_MAX) {
		return v > acc ? v : acc;
	}
	if (t->elem == RT_ELEM_F64) {
		return acc + v;
	}
	if (t->elem == RT_ELEM_I32) {
		return (double)((int32_t)acc + (int32_t)v);
	}
	return (double)((float)acc + (float)v);
}

static bool
same_group(const struct rt_plan *p, int64_t a, int64_t b, int64_t axes)
{
	int64_t x[RT_MAX_AXES + 1], y[RT_MAX_AXES + 1], i;

	rt_mesh_at(p, a, x);
	rt_mesh_at(p, b, y);
	for (i = 1; i < p->naxes; i++) {
		if (x[i] != y[i] && !(axes >> i & 1)) {
			return false;
		}
	}
	return true;
}

static void
expected(const struct rt_plan *p, const struct drawn *t, int64_t rank,
	 int64_t i, char *out)
{
	enum rt_elem e = (enum rt_elem)t->talk.elem;
	int64_t at[MAX_D], position = whole(p, t, false, rank, i, at), r;
	bool first = true;
	double acc = 0;

	for (r = 0; r < p->nranks; r++) {
		double v;

		if (!same_group(p, r, rank, t->talk.axes) ||
		    !has(p, t, r, at)) {
			continue;
		}
		v = value(t->key, r, position, e);
		acc = first ? v : add_up(&t->talk, acc, v);
		first = false;
	}
	put(out, e, acc);
}

static int64_t
elems(const struct rt_plan *p, const struct drawn *t, bool in, int64_t rank)
{
	int64_t n = 1, d;

	for (d = 0; d < t->talk.ndims; d++) {
		n *= pieces(p, t, d, in, rank)->total;
	}
	return n;
}

/* ---- the ranks ---- */

static int
fails(const struct drawn *t, int64_t rank, int64_t i)
{
	fprintf(stderr, "rank %d: %s elem %d op %d axes %x: element %d%s\n",
		(int)rank, t->what, (int)t->talk.elem, (int)t->talk.op,
		(unsigned)t->talk.axes, (int)i, t->in_place ? " in place" :
		"");
	return WRONG;
}

static int
try_talk(struct rt_comm *c, const struct rt_comm_options *o,
	 const struct drawn *t, int64_t room)
{
	enum rt_elem e = (enum rt_elem)t->talk.elem;
	int64_t rank = o->world.rank, size = rt_elem_bytes(e), i;
	int64_t nin = elems(o->plan, t, true, rank), at[MAX_D];
	int64_t nout = elems(o->plan, t, false, rank);
	char *in = rt_comm_arena(c) + size, *out = t->in_place ? in :
		in + room / 2;
	struct rt_error err;

	memset(out, 0x55, (size_t)(nout * size));
	out[-1] = out[nout * size] = 'x';
	for (i = 0; i < nin; i++) {
		put(in + i * size, e, value(t->key, rank, whole(o->plan, t,
			true, rank, i, at), e));
	}
	if (rt_comm_talk(c, &t->talk, t->microbatch, in, out, t->trip,
			 &err) != RT_OK) {
		return gave_up(c, &err);
	}
	for (i = 0; i < nout; i++) {
		char want[8];

		expected(o->plan, t, rank, i, want);
		if (memcmp(out + i * size, want, (size_t)size) != 0) {
			return fails(t, rank, i);
		}
	}
	return out[-1] == 'x' && ((t->in_place && nin > nout) ||
				  out[nout * size] == 'x') ? 0 :
		fails(t, rank, -1);
}

struct random_run {
	uint64_t seed;
	int talks;
	int64_t most;
};

static int
run_random(const struct rt_comm_options *o, void *user)
{
	struct random_run *r = user;
	int64_t room = 2 * (r->most + 64 * 1024) * 8;
	struct drawn *t = malloc(sizeof(*t));
	uint64_t seed = r->seed;
	struct rt_error err;
	struct rt_comm *c;
	int i, bad = 0;

	if (rt_comm_open(&c, o, room, &err) != RT_OK) {
		free(t);
		return gave_up(NULL, &err);
	}
	for (i = 0; i < r->talks && bad == 0; i++) {
		draw_talk(o->plan, t, i % 4 ? 2000 : r->most, &seed);
		bad = try_talk(c, o, t, room);
	}
	free(t);
	if (bad != GAVE_UP) {
		rt_comm_free(c);
	}
	return bad;
}

static const struct rt_axis no_axis[] = { { NULL, 0, 0 } };
static const struct rt_axis two[] = { { NULL, 0, 0 }, { "tp", 2, 0 } };
static const struct rt_axis three[] = { { NULL, 0, 0 }, { "tp", 3, 0 } };
static const struct rt_axis four[] = { { NULL, 0, 0 }, { "dp", 2, 0 },
	{ "mb", 3, 1 }, { "tp", 2, 0 } };
static const struct rt_axis eight[] = { { NULL, 0, 0 }, { "dp", 2, 0 },
	{ "mb", 3, 1 }, { "cp", 2, 0 }, { "tp", 2, 0 } };
static const struct rt_axis pipes[] = { { NULL, 0, 0 }, { "pp", 4, 0 },
	{ "tp", 2, 0 } };

static struct rt_plan
plan_of(const struct rt_axis *axes, int64_t naxes)
{
	struct rt_plan p = { .abi = RT_ABI_VERSION, .naxes = naxes,
		.axes = axes, .nranks = 1, .npipes = 1,
		.nmicrobatches = MBS, .model = "t" };
	int64_t a;

	for (a = 1; a < naxes; a++) {
		p.nranks *= axes[a].time ? 1 : axes[a].size;
	}
	return p;
}

static void
random_talks(const struct rt_axis *axes, int64_t naxes, int talks)
{
	const char *seed = getenv("COMM_SEED");
	struct random_run r = { seed ? strtoull(seed, NULL, 10) : 1, talks,
		60000 };
	struct rt_plan p = plan_of(axes, naxes);

	ranks_run(&p, run_random, &r);
}

static void
test_random(void **state)
{
	(void)state;
	random_talks(two, 2, 200);
	random_talks(three, 2, 150);
	random_talks(four, 4, 150);
	random_talks(eight, 5, 100);
}

/* ---- many small ones ---- */

/* One dim of n elements, which all ranks have. */
struct row {
	struct rt_pieces at[MOST_RANKS];
	struct rt_spread s;
	const struct rt_spread *dims[1];
};

static struct rt_talk
talk_of_row(struct row *r, int64_t n, const char *what, enum rt_talk_op op)
{
	int64_t i;

	for (i = 0; i < MOST_RANKS; i++) {
		r->at[i] = (struct rt_pieces){ .n = 1, .total = n };
		r->at[i].at[0].start = 0;
		r->at[i].at[0].count = n;
	}
	r->s = (struct rt_spread){ n, 0, r->at };
	r->dims[0] = &r->s;
	return (struct rt_talk){ .what = what, .op = op, .axes = -1,
		.elem = RT_ELEM_F32, .ndims = 1, .in = r->dims,
		.out = r->dims };
}

static int
run_many(const struct rt_comm_options *o, void *user)
{
	struct row row;
	struct rt_talk t = talk_of_row(&row, 5, "all_reduce", RT_TALK_SUM);
	struct rt_error err;
	struct rt_comm *c;
	int i, j;

	(void)user;
	if (rt_comm_open(&c, o, 4096, &err) != RT_OK) {
		return gave_up(NULL, &err);
	}
	for (i = 0; i < 10000; i++) {
		float *x = (void *)rt_comm_arena(c);

		for (j = 0; j < 5; j++) {
			x[j] = (float)(i + j + (int)o->world.rank);
		}
		if (rt_comm_talk(c, &t, i % MBS, (char *)x, (char *)x, -1,
				 &err) != RT_OK) {
			return gave_up(c, &err);
		}
		for (j = 0; j < 5; j++) {
			if (x[j] != (float)(4 * (i + j) + 6)) {
				fprintf(stderr, "talk %d\n", i);
				return WRONG;
			}
		}
	}
	rt_comm_free(c);
	return 0;
}

static void
test_many(void **state)
{
	struct rt_plan p = plan_of(four, 4);

	(void)state;
	ranks_run(&p, run_many, NULL);
}

/* ---- numbers of the host's own ---- */

enum { NUMBERS = 5000 };

static int
run_numbers(const struct rt_comm_options *o, void *user)
{
	int64_t rank = o->world.rank, m[2] = { rank, -rank }, i;
	uint64_t *u = calloc(NUMBERS, sizeof(*u));
	double *f = calloc(NUMBERS, sizeof(*f));
	struct rt_error err;
	struct rt_comm *c;
	bool good = true;

	(void)user;
	if (rt_comm_open(&c, o, 0, &err) != RT_OK) {
		return gave_up(NULL, &err);
	}
	for (i = 0; i < NUMBERS; i++) {
		u[i] = UINT64_MAX - (uint64_t)(rank * i);
		f[i] = (double)(rank * i) + 0.25;
	}
	/* over tp and time: ranks 2k and 2k + 1 */
	if (rt_comm_sum_f64(c, 1 << 2 | 1 << 3, f, NUMBERS, &err) != RT_OK ||
	    rt_comm_sum_u64(c, u, NUMBERS, &err) != RT_OK ||
	    rt_comm_max_i64(c, m, 2, &err) != RT_OK ||
	    rt_comm_sum_f64(c, 1 << 2, f, 1, &err) != RT_OK ||
	    rt_comm_barrier(c, "the end", &err) != RT_OK) {
		return gave_up(c, &err);
	}
	for (i = 0; i < NUMBERS; i++) {
		good = good && u[i] == UINT64_MAX - (uint64_t)(6 * i + 3) &&
		       f[i] == (double)((2 * (rank / 2 * 2) + 1) * i) + 0.5;
	}
	good = good && m[0] == 3 && m[1] == 0;
	rt_comm_free(c);
	free(u);
	free(f);
	return good ? 0 : WRONG;
}

static void
test_numbers(void **state)
{
	struct rt_plan p = plan_of(four, 4);

	(void)state;
	ranks_run(&p, run_numbers, NULL);
}

/* ---- what is resident ---- */

enum { LONG = 12 << 20, LONG_ROOM = 2 * LONG * 4 };

static int64_t
shared_kib(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long n = -1;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "RssShmem: %ld", &n) == 1) {
			break;
		}
	}
	if (f) {
		fclose(f);
	}
	return n;
}

/* A sum, its halves, and both halves again, of 48 MiB. */
static int
run_resident(const struct rt_comm_options *o, void *user)
{
	struct row all, half;
	struct rt_talk t = talk_of_row(&all, LONG, "x", RT_TALK_SUM);
	int64_t rank = o->world.rank, i;
	struct rt_error err;
	struct rt_comm *c;
	float *x, *y;

	(void)user;
	talk_of_row(&half, LONG / 2, "y", RT_TALK_SUM);
	for (i = 0; i < 2; i++) {
		half.at[i].at[0].start = i * (LONG / 2);
	}
	if (rt_comm_open(&c, o, LONG_ROOM, &err) != RT_OK) {
		return gave_up(NULL, &err);
	}
	x = (void *)rt_comm_arena(c);
	y = x + LONG;
	for (i = 0; i < LONG; i++) {
		x[i] = (float)(i % 1000 + rank);
		y[i] = 0;
	}
	if (rt_comm_talk(c, &t, 0, (char *)x, (char *)x, -1, &err) != RT_OK) {
		return gave_up(c, &err);
	}
	t.out = half.dims;
	if (rt_comm_talk(c, &t, 0, (char *)x, (char *)y, -1, &err) != RT_OK) {
		return gave_up(c, &err);
	}
	t.in = half.dims;
	t.out = all.dims;
	t.op = RT_TALK_COPY;
	if (rt_comm_talk(c, &t, 0, (char *)y, (char *)x, -1, &err) != RT_OK) {
		return gave_up(c, &err);
	}
	for (i = 0; i < LONG; i++) {
		if (x[i] != (float)(2 * (2 * (i % 1000) + 1))) {
			fprintf(stderr, "element %d\n", (int)i);
			return WRONG;
		}
	}
	i = shared_kib() - LONG_ROOM / 1024;
	if (i > 17 * 1024) {
		fprintf(stderr, "%d KiB more than the arena\n", (int)i);
		return WRONG;
	}
	rt_comm_free(c);
	return 0;
}

static void
test_resident(void **state)
{
	struct rt_plan p = plan_of(two, 2);

	(void)state;
	ranks_run(&p, run_resident, NULL);
}

/* ---- from stage to stage ---- */

enum { LEN = 3000, STEPS = 4, MICROBATCHES = 6, COPIES = 2 };

static int32_t
sent_value(int64_t step, int64_t mb, int64_t rank, int64_t i)
{
	return (int32_t)(step * 1000000 + mb * 10000 + rank * 1000 + i % 997);
}

/*
 * Place 0 sends each microbatch by turns from two places to place 2, which
 * takes them late; and all of them from slots, which place 2 takes in the
 * opposite order; and one to itself.
 */
static int
pipeline_step(struct rt_comm *c, const struct rt_comm_options *o, int64_t step,
	      struct rt_talk *turns, struct rt_talk *slots,
	      struct rt_error *err)
{
	int32_t *x = (void *)rt_comm_arena(c), *got = x + 10 * LEN;
	int64_t pipe = o->world.rank / 2, rank = o->world.rank, mb, i;
	struct rt_talk t;
	char *at;

	for (mb = 0; mb < MICROBATCHES && pipe == 0; mb++) {
		int32_t *slot = x + (2 + mb) * LEN;

		t = *turns;
		t.op = RT_TALK_FREE;
		if (rt_comm_talk(c, &t, mb, NULL, NULL, -1, err) != RT_OK) {
			return GAVE_UP;
		}
		at = (char *)(x + (step * MICROBATCHES + mb) % COPIES * LEN);
		for (i = 0; i < LEN; i++) {
			slot[i] = sent_value(step, mb, rank, i);
			memcpy(at + i * 4, &slot[i], 4);
		}
		t.op = slots->op = RT_TALK_SEND;
		if (rt_comm_talk(c, &t, mb, at, NULL, -1, err) != RT_OK ||
		    rt_comm_talk(c, slots, mb, (char *)slot, NULL, -1, err) !=
			    RT_OK) {
			return GAVE_UP;
		}
	}
	for (mb = 0; mb < 2 * MICROBATCHES && pipe == 2; mb++) {
		int64_t which = mb < MICROBATCHES ? mb :
			2 * MICROBATCHES - 1 - mb;

		t = mb < MICROBATCHES ? *turns : *slots;
		t.op = RT_TALK_RECV;
		t.peer = 0;
		if (mb == 1) {
			poll(NULL, 0, 3);
		}
		if (rt_comm_talk(c, &t, which, NULL, (char *)got, -1, err) !=
		    RT_OK) {
			return GAVE_UP;
		}
		for (i = 0; i < LEN; i++) {
			if (got[i] != sent_value(step, which, rank % 2, i)) {
				fprintf(stderr, "step %d microbatch %d: %d\n",
					(int)step, (int)which, (int)got[i]);
				return WRONG;
			}
		}
	}
	return 0;
}

static int
run_pipeline(const struct rt_comm_options *o, void *user)
{
	struct row row, other;
	struct rt_talk turns = talk_of_row(&row, LEN, "x.0", RT_TALK_SEND);
	struct rt_talk slots = talk_of_row(&other, LEN, "x.1", RT_TALK_SEND);
	struct rt_error err;
	struct rt_comm *c;
	int64_t step;
	int bad = 0;

	(void)user;
	turns.elem = slots.elem = RT_ELEM_I32;
	turns.channel = 0;
	slots.channel = 1;
	turns.peer = slots.peer = 2;
	turns.copies = COPIES;
	if (rt_comm_open(&c, o, 11 * LEN * 4, &err) != RT_OK) {
		return gave_up(NULL, &err);
	}
	for (step = 0; step < STEPS && bad == 0; step++) {
		bad = pipeline_step(c, o, step, &turns, &slots, &err);
		if (bad == 0 && o->world.rank / 2 == 1) {
			/* to itself */
			struct rt_talk t = turns;
			char *at = rt_comm_arena(c);

			at[0] = (char)step;
			t.channel = 2;
			t.peer = 1;
			t.op = RT_TALK_SEND;
			if (rt_comm_talk(c, &t, 0, at, NULL, -1, &err)) {
				return gave_up(c, &err);
			}
			t.op = RT_TALK_RECV;
			if (rt_comm_talk(c, &t, 0, NULL, at + LEN * 4, -1,
					 &err)) {
				return gave_up(c, &err);
			}
			bad = at[LEN * 4] == (char)step ? 0 : WRONG;
		}
		/* slots are written again when all have been taken */
		if (bad == 0 && rt_comm_barrier(c, "a step", &err) != RT_OK) {
			bad = GAVE_UP;
		}
	}
	if (bad == GAVE_UP) {
		return gave_up(c, &err);
	}
	rt_comm_free(c);
	return bad;
}

static void
test_pipeline(void **state)
{
	struct rt_plan p = plan_of(pipes, 3);

	(void)state;
	p.pp = 1;
	p.npipes = 4;
	p.nchannels = 3;
	p.nmicrobatches = MICROBATCHES;
	ranks_run(&p, run_pipeline, NULL);
}

/* ---- of some places of the pipeline alone ---- */

static int
run_holders(const struct rt_comm_options *o, void *user)
{
	struct row row;
	struct rt_talk all = talk_of_row(&row, 7, "all_reduce", RT_TALK_SUM);
	struct rt_talk some = all;
	int64_t pipe = o->world.rank / 2;
	struct rt_error err;
	struct rt_comm *c;
	int i;

	(void)user;
	all.axes = some.axes = 1 << 1;
	some.holders = 1 << 0 | 1 << 3;
	if (rt_comm_open(&c, o, 4096, &err) != RT_OK) {
		return gave_up(NULL, &err);
	}
	for (i = 0; i < 50; i++) {
		float *x = (void *)rt_comm_arena(c);
		bool take_part = pipe == 0 || pipe == 3;

		x[0] = (float)pipe;
		if (take_part && rt_comm_talk(c, &some, 0, (char *)x,
					      (char *)x, -1, &err) != RT_OK) {
			return gave_up(c, &err);
		}
		if (x[0] != (take_part ? 3 : (float)pipe)) {
			return WRONG;
		}
		if (rt_comm_talk(c, &all, 0, (char *)x, (char *)x, -1,
				 &err) != RT_OK) {
			return gave_up(c, &err);
		}
		if (x[0] != 3 + 1 + 2 + 3) {
			return WRONG;
		}
	}
	rt_comm_free(c);
	return 0;
}

static void
test_holders(void **state)
{
	struct rt_plan p = plan_of(pipes, 3);

	(void)state;
	p.pp = 1;
	p.npipes = 4;
	ranks_run(&p, run_holders, NULL);
}

/* ---- alone ---- */

static void
test_alone(void **state)
{
	struct rt_plan p = plan_of(no_axis, 1);
	struct rt_comm_options o = { &p, { 0, 1, 0, 1, "alone", "" }, 1, -1 };
	struct rt_talk t;
	struct rt_error err;
	struct rt_comm *c;
	struct row row;
	char *at;

	(void)state;
	p.nchannels = 1;
	assert_int_equal(rt_comm_open(&c, &o, 1 << 20, &err), RT_OK);
	at = rt_comm_arena(c);
	assert_int_equal(at[(1 << 20) - 1], 0);
	t = talk_of_row(&row, 100000, "all_reduce", RT_TALK_SUM);
	memset(at, 1, 400000);
	assert_int_equal(rt_comm_talk(c, &t, 0, at, at, -1, &err), RT_OK);
	assert_int_equal(rt_comm_talk(c, &t, 0, at, at + 400000, -1, &err),
			 RT_OK);
	assert_memory_equal(at, at + 400000, 400000);
	t.op = RT_TALK_SEND;
	assert_int_equal(rt_comm_talk(c, &t, 2, at, NULL, -1, &err), RT_OK);
	memset(at + 400000, 2, 400000);
	t.op = RT_TALK_RECV;
	assert_int_equal(rt_comm_talk(c, &t, 2, NULL, at + 400000, -1, &err),
			 RT_OK);
	assert_memory_equal(at, at + 400000, 400000);
	/* what cannot be */
	assert_int_equal(rt_comm_talk(c, &t, 3, NULL, at, -1, &err),
			 RT_RANGE);
	assert_int_equal(rt_comm_talk(c, &t, 0, NULL, at + 700000, -1, &err),
			 RT_RANGE);
	assert_string_equal(err.message, "all_reduce: not in the arena");
	t.op = RT_TALK_SUM;
	assert_int_equal(rt_comm_talk(c, &t, 0, at, at + 4, -1, &err),
			 RT_RANGE);
	rt_comm_free(c);
	o.world.size = 2;
	assert_int_equal(rt_comm_open(&c, &o, 0, &err), RT_RANGE);
	assert_string_equal(err.message, "the plan is for 1 ranks, but there "
			    "are 2 (alone)");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_resident),
		cmocka_unit_test(test_pipeline),
		cmocka_unit_test(test_holders)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

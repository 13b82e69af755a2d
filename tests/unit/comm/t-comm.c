/*
 * Collectives between processes, held to plain loops over the elements:
 * pieces, types and groups at random, and sends in any order.
 */
#include "tests/unit/comm/t-comm.h"
#include "tests/unit/shared/t-cases.h"

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
	char bytes[8];
	double d = (double)(draw(&s) % 20011) / 100.0 - 100;

	put(bytes, e, e == RT_ELEM_I32 ? floor(d * 1e4) : d);
	return get(bytes, e);
}

/* ---- collectives at random ---- */

enum { MAX_D = 3, MBS = PLAN_MICROBATCHES, MOST_JOINED = 4 };

struct spread {
	struct rt_spread s;
	struct rt_pieces at[MOST_RANKS * MBS];
};

struct drawn {
	struct rt_coll coll;
	struct spread in[MAX_D], out[MAX_D];
	const struct rt_spread *ins[MAX_D], *outs[MAX_D];
	int64_t microbatch, trip;
	uint64_t key;
	bool in_place;
	char what[64];
	int64_t kind;
	char *at_in, *at_out;
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
 * `first`: it is to be one call with that; NULL: alone.
 */
static void
draw_coll(const struct rt_plan *p, struct drawn *t, const struct drawn *first,
	  int64_t most, uint64_t *seed)
{
	static const char *const names[] = { "all_reduce", "reduce_scatter",
		"all_gather", "all_to_all", "sum of some" };
	int64_t kind = first ? first->kind : draw_below(seed, 5), d, axes, n;
	int64_t ndims = 1 + draw_below(seed, MAX_D), k, j, *owner;

	memset(t, 0, sizeof(*t));
	if (kind == 3) {
		ndims = 2 + draw_below(seed, MAX_D - 1);
	}
	do {
		axes = first ? first->coll.axes
			: draw_below(seed, (int64_t)1 << p->naxes) & ~1;
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
	t->coll = (struct rt_coll){ .what = t->what, .axes = axes,
		.op = kind == 2 || kind == 3 ? RT_COLL_COPY :
			draw_below(seed, 4) ? RT_COLL_SUM : RT_COLL_MAX,
		.elem = draw_below(seed, 5), .ndims = ndims, .in = t->ins,
		.out = t->outs };
	t->in_place = draw_below(seed, 2) && (kind == 0 || kind == 2 ||
					      kind == 3);
	t->microbatch = draw_below(seed, MBS);
	t->trip = draw_below(seed, 3) - 1;
	t->key = draw(seed);
	t->kind = kind;
	if (first) {
		t->coll.op = first->coll.op;
		t->coll.elem = first->coll.elem;
		t->microbatch = first->microbatch;
		t->trip = first->trip;
	}
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

	for (d = t->coll.ndims - 1; d >= 0; d--) {
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

	for (d = 0; d < t->coll.ndims; d++) {
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
add_up(const struct rt_coll *t, double acc, double v)
{
	if (t->op == RT_COLL_MAX) {
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
	enum rt_elem e = (enum rt_elem)t->coll.elem;
	int64_t at[MAX_D], position = whole(p, t, false, rank, i, at), r;
	bool first = true;
	double acc = 0;

	for (r = 0; r < p->nranks; r++) {
		double v;

		if (!same_group(p, r, rank, t->coll.axes) ||
		    !has(p, t, r, at)) {
			continue;
		}
		v = value(t->key, r, position, e);
		acc = first ? v : add_up(&t->coll, acc, v);
		first = false;
	}
	put(out, e, acc);
}

static int64_t
elems(const struct rt_plan *p, const struct drawn *t, bool in, int64_t rank)
{
	int64_t n = 1, d;

	for (d = 0; d < t->coll.ndims; d++) {
		n *= pieces(p, t, d, in, rank)->total;
	}
	return n;
}

/* ---- the ranks ---- */

static int
fails(const struct drawn *t, int64_t rank, int64_t i)
{
	fprintf(stderr, "rank %d: %s elem %d op %d axes %x: element %d%s\n",
		(int)rank, t->what, (int)t->coll.elem, (int)t->coll.op,
		(unsigned)t->coll.axes, (int)i, t->in_place ? " in place" :
		"");
	return WRONG;
}

static void
lay_out(const struct rt_comm_options *o, struct drawn *t, char *at,
	int64_t capacity)
{
	enum rt_elem e = (enum rt_elem)t->coll.elem;
	int64_t rank = o->world.rank, size = rt_elem_bytes(e), i;
	int64_t nin = elems(o->plan, t, true, rank), pos[MAX_D];
	int64_t nout = elems(o->plan, t, false, rank);

	t->at_in = at + size;
	t->at_out = t->in_place ? t->at_in : t->at_in + capacity / 2;
	memset(t->at_out, 0x55, (size_t)(nout * size));
	t->at_out[-1] = t->at_out[nout * size] = 'x';
	for (i = 0; i < nin; i++) {
		put(t->at_in + i * size, e, value(t->key, rank, whole(o->plan,
			t, true, rank, i, pos), e));
	}
}

static int
look_at(const struct rt_comm_options *o, const struct drawn *t)
{
	int64_t rank = o->world.rank, i;
	int64_t size = rt_elem_bytes((enum rt_elem)t->coll.elem);
	int64_t nin = elems(o->plan, t, true, rank);
	int64_t nout = elems(o->plan, t, false, rank);
	const char *out = t->at_out;

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

/* n collectives that are one call; each as if it were alone. */
static int
try_colls(struct rt_comm *c, const struct rt_comm_options *o, struct drawn *t,
	  int n, int64_t capacity)
{
	char *at[2 * MOST_JOINED];
	struct rt_error err;
	int i, bad = 0;

	for (i = 0; i < n; i++) {
		lay_out(o, &t[i], rt_comm_arena(c) + i * capacity,
			capacity);
		at[2 * i] = t[i].at_in;
		at[2 * i + 1] = t[i].at_out;
		t[i].coll.next = i + 1 < n ? &t[i + 1].coll : NULL;
	}
	if (rt_comm_join(c, &t->coll, t->microbatch, at, t->trip, &err) !=
	    RT_OK) {
		return gave_up(c, &err);
	}
	for (i = 0; i < n && bad == 0; i++) {
		bad = look_at(o, &t[i]);
	}
	return bad;
}

struct random_run {
	uint64_t seed;
	int colls;
	int64_t most;
};

static int
run_random(const struct rt_comm_options *o, void *user)
{
	struct random_run *r = user;
	int64_t capacity = 2 * (r->most + 64 * 1024) * 8;
	struct drawn *t = malloc(MOST_JOINED * sizeof(*t));
	uint64_t seed = r->seed;
	struct rt_error err;
	struct rt_comm *c;
	int i, k, n, bad = 0;

	if (rt_comm_open(&c, o, MOST_JOINED * capacity, &err) != RT_OK) {
		free(t);
		return gave_up(NULL, &err);
	}
	for (i = 0; i < r->colls && bad == 0; i++) {
		n = i % 3 ? 1 : 1 + (int)draw_below(&seed, MOST_JOINED);
		for (k = 0; k < n; k++) {
			draw_coll(o->plan, &t[k], k ? t : NULL,
				  i % 4 ? 2000 : r->most, &seed);
		}
		bad = try_colls(c, o, t, n, capacity);
	}
	free(t);
	if (bad != GAVE_UP) {
		rt_comm_free(c);
	}
	return bad;
}

static const struct rt_axis two[] = { { NULL, 0, 0 }, { "tp", 2, 0 } };
static const struct rt_axis three[] = { { NULL, 0, 0 }, { "tp", 3, 0 } };
static const struct rt_axis four[] = { { NULL, 0, 0 }, { "dp", 2, 0 },
	{ "mb", 3, 1 }, { "tp", 2, 0 } };
static const struct rt_axis eight[] = { { NULL, 0, 0 }, { "dp", 2, 0 },
	{ "mb", 3, 1 }, { "cp", 2, 0 }, { "tp", 2, 0 } };

static void
random_colls(const struct rt_axis *axes, int64_t naxes, uint32_t colls)
{
	const char *seed = getenv("COMM_SEED");
	struct random_run r = { seed ? strtoull(seed, NULL, 10) : 1, (int)colls,
		60000 };
	struct rt_plan p = plan_of(axes, naxes);

	ranks_run(&p, run_random, &r);
}

static void
test_random(void **state)
{
	(void)state;
	random_colls(two, 2, t_cases(200));
	random_colls(three, 2, t_cases(150));
	random_colls(four, 4, t_cases(150));
	random_colls(eight, 5, t_cases(100));
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random) };

	return ranks_main(argc, argv, tests, sizeof(tests) / sizeof(*tests));
}

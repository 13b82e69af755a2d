/*
 * Programs with attention, and tests of them for every back end.  A part of
 * t-attention.h, with its `s`.
 */
#ifndef T_ATTENTION_TESTS_H
#define T_ATTENTION_TESTS_H

struct shape {
	int64_t b, s, t, h, k, d, v;
	const char *how;	/* "causal", "window=3", ... */
	const char *dtype;
	const char *axes;
	/*
	 * after dims: how they are cut; the dim of keys; where it communicates
	 */
	const char *cut_s, *keys, *cut_t, *cut_h, *cut_k, *on;
	/* after types: sums that dk and dv are parts of */
	const char *sum;
	bool sinks, between, selected;
	const char *stored;	/* of 8 bits: what is selected; NULL: dtype */
};

static const struct shape plain = {
	1, 1, 1, 1, 1, 1, 1, "", "f32", "", "", "t", "", "", "", "", "",
	false, false, false, NULL
};

static void
put_head(const struct shape *x)
{
	text[0] = '\0';
	s.stored = x->stored != NULL;
	put("llmc-ir 1\n%s\n", x->axes);
	put("dim b = %lld\ndim s = %lld\ndim t = %lld\ndim h = %lld\n",
	    (long long)x->b, (long long)x->s, (long long)x->t,
	    (long long)x->h);
	put("dim rows = %lld\n", (long long)x->t + 40);
	put("dim k = %lld\ndim d = %lld\ndim v = %lld\ndim three = 3\n\n",
	    (long long)x->k, (long long)x->d, (long long)x->v);
	put("model {\n");
}

/* "f32[b, s, h, d]": of queries, or of keys; d or v, or neither. */
static const char *
type_of(const struct shape *x, bool keys, const char *col, const char *sum)
{
	static char names[8][96];
	static int next;
	char *at = names[next++ % 8];

	/* one dim, so that what is made of both can be added */
	col = *col && x->d == x->v ? "d" : col;

	snprintf(at, sizeof names[0], "%s[b, %s%s, %s%s%s%s]%s",
		 *col ? x->dtype : "f32", keys ? x->keys : "s",
		 keys ? x->cut_t : x->cut_s, keys ? "k" : "h",
		 keys ? x->cut_k : x->cut_h, *col ? ", " : "", col, sum);
	return at;
}

static void
put_source(int number, const char *type)
{
	put("  %%%d = weight name=\"w%d\" init=normal std=1 : %s\n", number,
	    number, type);
}

/* their values */
enum { SINKS = 16, FIRST, LAST, INDEX, KEYS_OF, VALUES_OF, KEYS, VALUES };

/* Keys or values, perhaps as rows that an index selects. */
static void
put_keys(const struct shape *x, int number, const char *col)
{
	const char *type = type_of(x, true, col, "");
	const char *stored = x->stored ? x->stored : x->dtype;
	int of = number == 1 ? KEYS_OF : VALUES_OF;
	int rows = !x->stored ? number : number == 1 ? KEYS : VALUES;

	if (!x->selected || *x->axes || x->keys[0] != 't') {
		put_source(number, type);
		return;
	}
	if (number == 1) {
		put("  %%%d = input name=\"index\" : idx<rows>[b, t]\n", INDEX);
	}
	put("  %%%d = weight name=\"w%d\" init=normal std=1 : %s[rows, k%s]\n",
	    of, number, stored, strrchr(type, ','));
	text[strlen(text) - 2] = '\0';	/* its last bracket is the type's */
	put("\n  %%%d = gather %%%d, %%%d of=rows : %s%s\n", rows, of, INDEX,
	    stored, strchr(type, '['));
	if (x->stored) {
		put("  %%%d = cast %%%d : %s\n", number, rows, type);
	}
}

static const char *
suffix(const struct shape *x)
{
	return !x->between ? x->sinks ? "_sinks" : ""
		: x->sinks ? "_sinks_between" : "_between";
}

/* The operands after those of plain attention. */
static void
put_more(const struct shape *x, bool sinks)
{
	if (x->sinks && sinks) {
		put(", %%%d", SINKS);
	}
	if (x->between) {
		put(", %%%d, %%%d", FIRST, LAST);
	}
	put("%s%s : ", x->how, x->on);
}

/* The lse of value `to`, and what it and attention itself read beside q, k and
 * v.  Some queries see no key, others all. */
static void
put_lse(const struct shape *x, int to)
{
	if (x->sinks) {
		put("  %%%d = weight name=\"sinks\" init=normal std=1 : "
		    "f32[h%s]\n", SINKS, x->cut_h);
	}
	if (x->between) {
		put("  %%%d = weight name=\"first\" init=normal std=%g : "
		    "f32[b, s%s]\n", FIRST, (double)x->t / 3, x->cut_s);
		put("  %%%d = weight name=\"last\" init=normal std=%g : "
		    "f32[b, s%s]\n", LAST, (double)x->t * 2, x->cut_s);
	}
	put("  %%%d = attention%s_lse %%0, %%1", to, suffix(x));
	put_more(x, true);
	put("%s\n", type_of(x, false, "", ""));
}

/* A derivative of value `to`, of the operands that all have. */
static void
put_back(const struct shape *x, int to, const char *what, const char *operands,
	 const char *type)
{
	put("  %%%d = attention%s_%s %s", to, x->between ? "_between" : "",
	    what, operands);
	put_more(x, false);
	put("%s\n", type);
}

static void
put_forward(const struct shape *x)
{
	put_head(x);
	put_source(0, type_of(x, false, "d", ""));
	put_keys(x, 1, "d");
	put_keys(x, 2, "v");
	put_lse(x, 4);
	put("  %%3 = attention%s %%0, %%1, %%2", suffix(x));
	put_more(x, true);
	put("%s\n", type_of(x, false, "v", ""));
	put("  return %%3, %%4\n}\n");
}

static void
put_backward(const struct shape *x)
{
	put_head(x);
	put_source(0, type_of(x, false, "d", ""));
	put_keys(x, 1, "d");
	put_keys(x, 2, "v");
	put_source(3, type_of(x, false, "v", ""));
	put_source(4, type_of(x, false, "", ""));
	put_lse(x, 5);
	put_back(x, 6, "dq", "%0, %1, %2, %3, %5, %4",
		 type_of(x, false, "d", ""));
	put_back(x, 7, "dk", "%0, %1, %2, %3, %5, %4",
		 type_of(x, true, "d", x->sum));
	put_back(x, 8, "dv", "%0, %1, %3, %5", type_of(x, true, "v", x->sum));
	if (x->d % 2) {
		put("  return %%6, %%7, %%8\n}\n");
		return;
	}
	put("  %%9 = rope %%6 seq=s theta=10000 inverse : %s\n",
	    type_of(x, false, "d", ""));
	put("  %%10 = rope %%7 seq=%s theta=10000 inverse : %s\n", x->keys,
	    type_of(x, true, "d", x->sum));
	if (x->d != x->v) {
		put("  return %%9, %%10, %%8\n}\n");
		return;
	}
	put("  %%11 = rope %%8 seq=%s theta=10000 inverse : %s\n", x->keys,
	    type_of(x, true, "v", x->sum));
	put("  %%12 = add %%10, %%11 : %s\n",
	    type_of(x, true, "v", x->sum));
	put("  return %%9, %%10, %%12\n}\n");
}

static struct shape
random_shape(void)
{
	static const char *const stored[] = { NULL, "f8e4m3", "f8e5m2" };
	static const char *const how[] = { "", " causal", " causal",
					   " causal window=5",
					   " window=17", " scale=0.3",
					   " causal softcap=1.5",
					   " causal alibi=4", " alibi=8" };
	struct shape x = plain;

	x.b = draw(1, 3);
	x.s = draw(0, 3) ? draw(1, 130) : draw(1, 3);
	x.t = draw(0, 1) ? x.s : draw(1, 130);
	x.k = draw(1, 3);
	x.h = x.k * draw(1, 3);
	x.d = draw(1, 128);
	x.v = draw(1, 128);
	if (draw(0, 1)) {
		x.keys = x.s == x.t ? "s" : x.keys;
		x.v = x.d;
	}
	x.how = how[draw(0, 8)];
	x.sinks = draw(0, 2) == 0;
	x.between = draw(0, 2) == 0;
	x.selected = draw(0, 1);
	x.stored = x.selected ? stored[draw(0, 2)] : NULL;
	return x;
}

static int
times(int n)
{
	return getenv("T_TIMES") ? atoi(getenv("T_TIMES")) : n;
}

static void
both(const struct shape *x, double bound)
{
	put_forward(x);
	check(text, NULL, bound);
	put_backward(x);
	check(text, NULL, bound);
}

/* NaN of a key's values reaches the queries that see it, and no others of their
 * block. */
static void
forward_bad(const struct shape *x, double bound)
{
	assert_true(x->between && x->b == 1);
	s.bad = true;
	s.bad_key = draw(1, x->t - 1);
	s.bad_col = draw(0, x->v - 1);
	s.seen_bad = 0;
	put_forward(x);
	check(text, NULL, bound);
	s.bad = false;
	assert_true(s.seen_bad > 0);
}

/* ---- with what stands around it ---- */

/* As autodiff makes it, with rotations, and one tensor for q, k and v. */
static void
around(const struct shape *x)
{
	const char *q = type_of(x, false, "d", "");
	const char *k = type_of(x, true, "d", "");

	put_head(x);
	put("  %%0 = weight name=\"p\" init=normal std=1 : "
	    "%s[b, s, three, h, d]\n", x->dtype);
	put("  %%1 = select %%0 of=three at=0 : %s\n", q);
	put("  %%2 = select %%0 of=three at=1 : %s\n", q);
	put("  %%3 = select %%0 of=three at=2 : %s\n", q);
	put("  %%4 = rope %%1 seq=s theta=10000 : %s\n", q);
	put("  %%5 = weight name=\"k\" init=normal std=1 : %s\n", k);
	put("  %%6 = rope %%5 seq=%s theta=10000 : %s\n", x->keys, k);
	put("  %%7 = attention %%4, %%6, %%6%s : %s\n", x->how, q);
	put("  %%8 = attention %%1, %%2, %%3%s : %s\n", x->how, q);
	put("  %%9 = attention %%7, %%7, %%7%s : %s\n", x->how, q);
	put("  %%10 = mul %%7, %%8 : %s\n", q);
	put("  %%11 = add %%9, %%10 : %s\n", q);
	put("  %%12 = cast %%11 : f32[b, s, h, d]\n");
	put("  %%13 = tanh %%12 : f32[b, s, h, d]\n");
	put("  %%14 = sum %%13 over=(b, s, h, d) : f32[]\n");
	put("  return %%14\n}\n");
}

/* ---- tests of every back end ---- */

static void
alone(void **state)
{
	struct shape x;
	int i;

	(void)state;
	for (i = 0; i < times(2); i++) {
		x = random_shape();
		both(&x, 1e-5);
	}
}

static void
half_as_wide(void **state)
{
	struct shape x;
	int i;

	(void)state;
	for (i = 0; i < times(3); i++) {
		x = random_shape();
		x.dtype = "bf16";
		both(&x, 2e-2);
	}
}

static void
heads_apart(void **state)
{
	struct shape x = random_shape();

	(void)state;
	x.axes = "axis tp = 2";
	x.cut_h = x.cut_k = ":tp";
	x.k = 2;
	x.h = 6;
	both(&x, 1e-5);
	x.cut_k = "";		/* more ranks than kv heads */
	x.k = 1;
	x.h = 4;
	x.sum = "{+tp}";
	both(&x, 1e-5);
	x.k = 3;		/* a rank has some heads of the second */
	x.h = 6;
	both(&x, 1e-5);
	x.k = x.h = 1;		/* one has none, and all are small */
	x.s = x.t = 4;
	x.d = x.v = 8;
	both(&x, 1e-5);
}

/* Queries and keys by ring: along one axis or two, balanced or not. */
static void
sequences_apart(void **state)
{
	static const char *const axes[] = {
		"axis cp = 2", "axis cp = 2 balanced",
		"axis cp = 3\naxis tp = 2", "axis cp = 3 balanced"
	};
	struct shape x;
	int i;

	(void)state;
	for (i = 0; i < 4; i++) {
		x = random_shape();
		x.t = x.s = draw(1, 100);
		x.keys = "s";
		x.axes = axes[i];
		x.cut_s = x.cut_t = ":cp";
		x.on = " on=cp";
		x.dtype = i % 2 ? "bf16" : "f32";
		if (i == 2) {
			x.cut_h = x.cut_k = ":tp";
			x.k = 2;
			x.h = 4;
		}
		both(&x, i % 2 ? 2e-2 : 1e-5);
	}
}

/* Queries are split, and all keys are on each rank. */
static void
queries_apart(void **state)
{
	struct shape x = random_shape();

	(void)state;
	x.axes = "axis cp = 2 balanced";
	x.cut_s = ":cp";
	x.sum = "{+cp}";
	x.how = " causal";
	x.s = x.t = 45;
	both(&x, 1e-5);
}

static void
with_neighbours(void **state)
{
	struct shape x;
	int i;

	(void)state;
	for (i = 0; i < times(2); i++) {
		x = random_shape();
		x.d = 2 * draw(1, 32);
		x.t = x.s;
		x.keys = "s";
		x.dtype = i % 2 ? "bf16" : "f32";
		around(&x);
		check(text, "autodiff,cse,dce", i % 2 ? 3e-2 : 1e-5);
	}
}

#endif

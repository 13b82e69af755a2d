/*
 * Bodies of functions with every op that a nest can do, and models: what
 * includes this has check(), which says what becomes of each.
 */
#ifndef T_NEST_BODIES_H
#define T_NEST_BODIES_H

#include "tests/unit/shared/t-cases.h"
#include "tests/unit/shared/t-models.h"

/* Dims of all bodies; X stands for the element type. */
#define HEAD \
	"llmc-ir 1\n%s" \
	"dim a = %d\ndim b = %d\ndim c = %d\ndim d = %d\ndim e = %d\n" \
	"dim one = 1\ndim h = 3\ndim i = 5\ndim cat = c + h\ndim two = 2\n"

static const char *
put_types(struct arena *a, const char *body, const char *type)
{
	struct buf b;

	buf_init(&b, a);
	for (; *body; body++) {
		if (*body == 'X') {
			buf_puts(&b, type);
		} else {
			buf_putc(&b, *body);
		}
	}
	return buf_text(&b);
}

static void check(const char *mesh, const char *body, const char *type,
		  const int *size, double most, uint32_t refused);

/* a, b, c, d, e */
static const int sizes[][5] = {
	{ 2, 3, 7, 16, 6 }, { 1, 1, 1, 2, 1 }, { 3, 33, 16, 8, 4 },
	{ 2, 5, 300, 64, 16 }, { 4, 33, 70, 34, 7 }
};

enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* With n of the sizes, one after the other. */
static void
check_some(const char *body, size_t n)
{
	static size_t turn;

	for (; n > 0; n--) {
		check("", body, "f32", sizes[turn++ % SIZES], 1e-5, 0);
	}
	check("", body, "bf16", sizes[0], 0x1p-6, 0);
}

static void
check_all(const char *body)
{
	check_some(body, t_short() ? 1 : SIZES);
}

/* Loops around one map are those around another. */
static void
check_map(const char *body)
{
	check_some(body, t_soaks() ? SIZES : t_short() ? 1 : 2);
}

#define X1 "%0 = input name=\"x\" : X[a, b, c]\n"
#define Y1 "%1 = input name=\"y\" : X[a, b, c]\n"
#define ALL "X[a, b, c]\n"

/* Maps whose operands must be chosen, and one that is no kernel: below. */
static bool
is_special(const char *op)
{
	static const char *const names[] = { "log", "sqrt", "rsqrt", "div",
					     "cache" };
	size_t i;

	for (i = 0; i < sizeof names / sizeof *names; i++) {
		if (strcmp(op, names[i]) == 0) {
			return true;
		}
	}
	return false;
}

/* A new row of ops.def has its expression, or this fails. */
static void
check_every_map(void)
{
	char body[512];
	uint32_t op;

	for (op = 0; op < IR_OP_COUNT; op++) {
		const struct ir_op_info *x = &ir_ops[op];

		if (!ir_is(op, IRF_MAP) || is_special(x->name)) {
			continue;
		}
		if (strcmp(x->dtypes, "ff") == 0) {
			snprintf(body, sizeof body, "%s%%1 = %s %%0 : " ALL
				 "return %%1\n", X1, x->name);
			check_map(body);
		} else if (strcmp(x->dtypes, "fff") == 0) {
			snprintf(body, sizeof body, "%s%%2 = %s %%0, %%1 : "
				 ALL "return %%2\n", X1 Y1, x->name);
			check_map(body);
		}
	}
}

static void
test_maps(void **state)
{
	size_t i;

	(void)state;
	check_every_map();
	check_all(X1 "%1 = mul %0, %0 : " ALL "%2 = log %1 : " ALL
		  "%3 = sqrt %1 : " ALL "%4 = const value=0.5 : " ALL
		  "%5 = add %1, %4 : " ALL "%6 = rsqrt %5 : " ALL
		  "%7 = div %0, %5 : " ALL "%8 = cast %7 : f32[a, b, c]\n"
		  "return %2, %3, %6, %7, %8\n");
	/* one lacks dims of the other */
	check_all(X1 "%1 = input name=\"y\" : X[c]\n%2 = mul %0, %1 : " ALL
		  "%3 = input name=\"z\" : X[a, b]\n%4 = add %3, %2 : " ALL
		  "return %4\n");
	check_all("%0 = input name=\"x\" : X[a]\n%1 = tanh %0 : X[a]\n"
		  "%2 = input name=\"y\" : X[]\n%3 = silu %2 : X[]\n"
		  "return %1, %3\n");
	for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		check("", X1 "%1 = cast %0 : f8e4m3[a, b, c]\n"
		      "%2 = sum %1 over=c : f8e4m3[a, b]\n"
		      "return %1, %2\n", "f32", sizes[i], 0x1p-4, 0);
	}
	for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		check("", X1 "%1 = amax %0 over=c : f32[a, b]\n"
		      "%2 = const value=0.0022321428571428570 : f32[]\n"
		      "%3 = mul %1, %2 : f32[a, b]\n"
		      "%4 = quantize %0, %3 : f8e4m3[a, b, c]\n"
		      "%5 = rescale %0, %1 : bf16[a, b, c]\n"
		      "return %3, %4, %5\n", "f32", sizes[i], 0x1p-4, 0);
	}
	check_all("%0 = dropout_mask name=\"drop\" rate=0.25 : X[a, b, c]\n"
		  "%1 = input name=\"x\" : X[a, b, c]\n%2 = mul %0, %1 : " ALL
		  "return %2\n");
}

static void
test_rows(void **state)
{
	(void)state;
	check_all(X1 "%1 = sum %0 over=c : X[a, b]\nreturn %1\n");
	check_all(X1 "%1 = sum %0 over=b : X[a, c]\nreturn %1\n");
	check_all(X1 "%1 = sum %0 over=a : X[b, c]\nreturn %1\n");
	check_all(X1 "%1 = sum %0 over=(a, b) : X[c]\nreturn %1\n");
	check_all(X1 "%1 = mean %0 over=(a, b, c) : X[]\nreturn %1\n");
	check_all(X1 "%1 = mean %0 over=(a, c) : X[b]\nreturn %1\n");
	check_all(X1 "%1 = amax %0 over=c : f32[a, b]\nreturn %1\n");
	check_all(X1 "%1 = amax %0 over=a : f32[b, c]\nreturn %1\n");
	check_all(X1 "%1 = amax %0 over=(a, b) : f32[c]\nreturn %1\n");
	check_all(X1 "%1 = amax %0 over=(a, b, c) : f32[]\nreturn %1\n");
	check_all(X1 "%1 = softmax %0 over=c : " ALL "return %1\n");
	check_all(X1 "%1 = softmax %0 over=b : " ALL "return %1\n");
	check_all(X1 "%1 = softmax %0 over=(b, c) : " ALL "return %1\n");
	check_all(X1 "%1 = input name=\"g\" : X[c]\n"
		  "%2 = rmsnorm %0, %1 over=c eps=1e-5 : " ALL "return %2\n");
	check_all(X1 "%1 = input name=\"g\" : X[c]\n"
		  "%2 = input name=\"o\" : X[c]\n%3 = exp %0 : " ALL
		  "%4 = layernorm %3, %1, %2 over=c eps=1e-5 : " ALL
		  "return %4\n");
	check_all(X1 "%1 = input name=\"l\" : idx<c>[a, b]\n"
		  "%2 = cross_entropy %0, %1 : f32[a, b]\n"
		  "%3 = mean %2 over=(a, b) : f32[]\n"
		  "%4 = log_sum_exp %0 over=c : f32[a, b]\n"
		  "return %3, %4\n");
	check_all(X1 "%1 = log_sum_exp %0 over=(b, c) : f32[a]\n"
		  "%2 = cast %0 : f32[a, b, c]\n"
		  "%3 = sub %2, %1 : f32[a, b, c]\n"
		  "%4 = exp %3 : f32[a, b, c]\nreturn %1, %4\n");
	check_all("%0 = input name=\"x\" : X[a, b, h, d]\n"
		  "%1 = rope %0 seq=b theta=10000 : X[a, b, h, d]\n"
		  "%2 = rope %0 seq=b theta=100 interleaved inverse : "
		  "X[a, b, h, d]\n"
		  "%3 = rope %0 seq=b theta=500000 factor=8 low=1 high=4 "
		  "original=16 : X[a, b, h, d]\nreturn %1, %2, %3\n");
	check_all("%0 = input name=\"x\" : X[a, b, h, d]\n"
		  "%1 = input name=\"p\" : f32[b]\n"
		  "%2 = rope_at %0, %1 theta=10000 : X[a, b, h, d]\n"
		  "%3 = rope_at %0, %1 theta=100 interleaved inverse : "
		  "X[a, b, h, d]\nreturn %2, %3\n");
	/* sums of sums, and a rotation of a norm */
	check_all("%0 = input name=\"x\" : X[a, b, h, d]\n"
		  "%1 = input name=\"g\" : X[d]\n"
		  "%2 = rmsnorm %0, %1 over=d eps=1e-5 : X[a, b, h, d]\n"
		  "%3 = rope %2 seq=b theta=10000 : X[a, b, h, d]\n"
		  "%4 = softmax %3 over=d : X[a, b, h, d]\n"
		  "%5 = sum %4 over=h : X[a, b, d]\n"
		  "%6 = mean %5 over=(a, b) : X[d]\nreturn %6, %3\n");
}

/* Exponentials of rows that ranks share; the last ones may have no element. */
static const char shared_rows[] =
	"%0 = input name=\"x\" : X[a, b, c:tp]\n"
	"%1 = input name=\"l\" : idx<c>[a, b]\n"
	"%2 = cross_entropy %0, %1 on=tp : f32[a, b]\n"
	"%3 = mean %2 over=(a, b) : f32[]\n"
	"%4 = log_sum_exp %0 over=c on=tp : f32[a, b]\n"
	"%5 = softmax %0 over=c on=tp : X[a, b, c:tp]\n"
	"return %3, %4, %5\n";

/* The same, masked: all but two elements of a row are -inf, so that of most
 * rows some ranks have nothing else. */
static const char masked_rows[] =
	"%0 = input name=\"x\" : X[a, b, c:tp]\n"
	"%1 = input name=\"l\" : idx<c>[a, b]\n"
	"%2 = input name=\"m\" : idx<c>[a, b]\n"
	"%3 = onehot %1 of=c : X[a, b, c:tp]\n"
	"%4 = onehot %2 of=c : X[a, b, c:tp]\n"
	"%5 = add %3, %4 : X[a, b, c:tp]\n"
	"%6 = log %5 : X[a, b, c:tp]\n"
	"%7 = add %0, %6 : X[a, b, c:tp]\n";

static const char *const of_masked_rows[] = {
	"%8 = cross_entropy %7, %1 on=tp : f32[a, b]\n"
	"%9 = mean %8 over=(a, b) : f32[]\nreturn %9\n",
	"%8 = log_sum_exp %7 over=c on=tp : f32[a, b]\nreturn %8\n",
	"%8 = softmax %7 over=c on=tp : X[a, b, c:tp]\nreturn %8\n"
};

/* Half of the rows are -inf alone: softmax is NaN there, as the difference of
 * two infinities is, and the log of the sum is -inf. */
#define BLANK_ROWS(x) \
	"%0 = input name=\"x\" : " x "\n" \
	"%1 = input name=\"l\" : idx<c>[a, b]\n" \
	"%2 = input name=\"y\" : X[a, b]\n" \
	"%3 = relu %2 : X[a, b]\n" \
	"%4 = log %3 : X[a, b]\n" \
	"%7 = add %0, %4 : " x "\n"

static const char shared_blank_rows[] = BLANK_ROWS("X[a, b, c:tp]");
static const char blank_rows[] = BLANK_ROWS("X[a, b, c]");

static const char *const of_shared_blank_rows[] = {
	"%8 = cross_entropy %7, %1 on=tp : f32[a, b]\nreturn %8\n",
	"%8 = log_sum_exp %7 over=c on=tp : f32[a, b]\nreturn %8\n",
	"%8 = softmax %7 over=c on=tp : X[a, b, c:tp]\nreturn %8\n"
};

static const char *const of_blank_rows[] = {
	"%8 = cross_entropy %7, %1 : f32[a, b]\nreturn %8\n",
	"%8 = log_sum_exp %7 over=c : f32[a, b]\nreturn %8\n",
	"%8 = softmax %7 over=c : X[a, b, c]\nreturn %8\n"
};

static void
check_ends(const char *mesh, const char *begin, const char *const end[3],
	   const char *type, const int *size, double most)
{
	char body[1024];
	size_t i;

	for (i = 0; i < 3; i++) {
		snprintf(body, sizeof body, "%s%s", begin, end[i]);
		check(mesh, body, type, size, most, 0);
	}
}

static void
check_masked(const char *mesh, const char *type, const int *size, double most)
{
	check_ends(mesh, masked_rows, of_masked_rows, type, size, most);
}

/* On ranks of the mesh, and on one. */
static void
check_blank(const char *mesh, const char *type, const int *size, double most)
{
	check_ends(mesh, shared_blank_rows, of_shared_blank_rows, type, size,
		   most);
	check_ends("", blank_rows, of_blank_rows, type, size, most);
}

static void
test_shared_rows(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		const char *mesh = i % 2 ? "axis tp = 2\n" : "axis tp = 3\n";
		const char *type = i == 2 ? "bf16" : "f32";
		double most = i == 2 ? 0x1p-6 : 1e-5;

		check(mesh, shared_rows, type, sizes[i], most, 0);
		check_masked(mesh, type, sizes[i], most);
		check_blank(mesh, type, sizes[i], most);
	}
}

static void
test_ranks_of(void **state)
{
	static const char topk[] =
		"%0 = input name=\"x\" : f32[a, b, c]\n"
		"%1 = topk %0 of=c to=two : idx<c>[a, b, two]\n"
		"%2 = gather %0, %1 of=c : f32[a, b, two]\n"
		"return %1, %2\n";
	static const char groups[] =
		"%0 = input name=\"x\" : f32[a, b, d]\n"
		"%1 = topk %0 of=d to=two groups=4 top_groups=2 : "
		"idx<d>[a, b, two]\n"
		"%2 = topk %0 of=d to=two groups=4 top_groups=2 "
		"group_best=1 : idx<d>[a, b, two]\nreturn %1, %2\n";
	/* what one pass keeps of a row is not what another's threads read */
	static const char wider[] =
		"%0 = input name=\"x\" : f32[a, b, c]\n"
		"%1 = input name=\"y\" : f32[a, b, two, c]\n"
		"%2 = mean %0 over=c : f32[a, b]\n"
		"%3 = mul %0, %2 : f32[a, b, c]\n"
		"%4 = mul %3, %1 : f32[a, b, two, c]\n"
		"return %3, %4\n";
	size_t i;

	(void)state;
	for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		check("", wider, "f32", sizes[i], 1e-5, 0);
		if (sizes[i][2] > 1) {
			check("", topk, "f32", sizes[i], 1e-5, 0);
		}
		if (sizes[i][3] % 4 == 0) {
			check("", groups, "f32", sizes[i], 1e-5, 0);
		}
	}
}

static void
test_moves(void **state)
{
	(void)state;
	check_all(X1 "%1 = slice %0 of=c to=one at=0 : X[a, b, one]\n"
		  "%2 = tanh %1 : X[a, b, one]\nreturn %2\n");
	check_all(X1 "%1 = select %0 of=b at=0 : X[a, c]\n"
		  "%2 = neg %1 : X[a, c]\nreturn %2\n");
	check_all(X1 "%1 = input name=\"z\" : X[a, b, h]\n"
		  "%2 = concat %0, %1 to=cat : X[a, b, cat]\nreturn %2\n");
	check_all(X1 "%1 = pad %0 of=c to=cat at=2 : X[a, b, cat]\n"
		  "return %1\n");
	check_all("%0 = input name=\"x\" : X[a, c]\n"
		  "%1 = put %0 of=h at=1 : X[a, c, h]\nreturn %1\n");
	check_all(X1 "%1 = expand %0 over=h : X[a, b, c, h]\n"
		  "%2 = exp %1 : X[a, b, c, h]\nreturn %2\n");
	check_all(X1 "%1 = arrange %0 over=(c, a, b) : X[c, a, b]\n"
		  "%2 = input name=\"y\" : X[c, a, b]\n"
		  "%3 = add %1, %2 : X[c, a, b]\nreturn %3\n");
	check_all("%0 = input name=\"x\" : X[c, d]\n"
		  "%1 = input name=\"t\" : idx<c>[a, b]\n"
		  "%2 = gather %0, %1 of=c : X[a, b, d]\nreturn %2\n");
	check_all("%0 = input name=\"t\" : idx<c>[a, b]\n"
		  "%1 = onehot %0 of=c : X[a, b, c]\nreturn %1\n");
	check_all("%0 = input name=\"x\" : X[a, b, d]\n"
		  "%1 = input name=\"t\" : idx<c>[a, b]\n"
		  "%2 = scatter %0, %1 of=c over=(a, b) : X[c, d]\n"
		  "accumulate %2 name=\"w\"\nreturn %0\n");
	check_all("%0 = input name=\"x\" : X[a, b, d]\n"
		  "%1 = input name=\"t\" : idx<c>[a, b]\n"
		  "%2 = scatter %0, %1 of=c over=(a, b) : X[c, d]\n"
		  "accumulate %2 name=\"w\"\nreturn %2\n");
	check_all("%0 = input name=\"x\" : X[a, b, two]\n"
		  "%1 = input name=\"t\" : idx<c>[a, b, two]\n"
		  "%2 = scatter %0, %1 of=c over=two : X[a, b, c]\n"
		  "return %2\n");
}

static void
test_sums_of_products(void **state)
{
	(void)state;
	check_all("%0 = input name=\"x\" : X[a, b, d]\n"
		  "%1 = input name=\"w\" : X[c, d]\n"
		  "%2 = dot %0, %1 over=d : X[a, b, c]\n"
		  "%3 = silu %2 : X[a, b, c]\nreturn %3\n");
	check_all("%0 = input name=\"x\" : X[a, b, d]\n"
		  "%1 = input name=\"y\" : X[a, b, c]\n"
		  "%2 = dot %0, %1 over=(a, b) : X[d, c]\n"
		  "accumulate %2 name=\"w\"\nreturn %0\n");
	check_all("%0 = input name=\"x\" : X[a, b, d]\n"
		  "%1 = input name=\"i\" : idx<e>[a, b, two]\n"
		  "%2 = input name=\"w\" : X[e, c, d]\n"
		  "%3 = dot_at %0, %1, %2 over=d of=e : X[a, b, two, c]\n"
		  "return %3\n");
	check_all("%0 = input name=\"x\" : X[a, b, d]\n"
		  "%1 = input name=\"g\" : X[a, b, two, c]\n"
		  "%2 = input name=\"i\" : idx<e>[a, b, two]\n"
		  "%3 = dot_to %0, %1, %2 of=e : X[e, c, d]\n"
		  "accumulate %3 name=\"w\"\nreturn %0\n");
}

static void
test_sinks(void **state)
{
	(void)state;
	check_all(X1 "%1 = tanh %0 : " ALL "accumulate %1 name=\"g\"\n"
		  "%2 = exp %0 : " ALL "store %2 name=\"w\"\n"
		  "%3 = mul %1, %1 : " ALL
		  "%4 = sum %3 over=(a, b, c) : X[]\n"
		  "accumulate %4 name=\"norm\"\nreturn %0\n");
	/* a state that is replaced, and read again for what follows a sum */
	check_all(X1 "%1 = state name=\"s\" init=normal std=1 : " ALL
		  "%2 = add %0, %1 : " ALL "store %2 name=\"s\"\n"
		  "%3 = mul %2, %2 : " ALL "%4 = sum %3 over=c : X[a, b]\n"
		  "%5 = sigmoid %4 : X[a, b]\n%6 = mul %2, %5 : " ALL
		  "return %6\n");
	check_all(X1 "%1 = state name=\"s\" init=normal std=1 : " ALL
		  "%2 = add %0, %1 : " ALL "store %2 name=\"s\"\n"
		  "%3 = mul %2, %2 : " ALL "%4 = sum %3 over=(a, b, c) : X[]\n"
		  "accumulate %4 name=\"norm\"\n"
		  "%5 = mean %2 over=a : X[b, c]\nreturn %5\n");
}

#endif

/*
 * The control flow of a function: its loops, and the longest way through one.
 *
 * Of parts of a function that exclude each other, as those are that copy one
 * part of a tile's sums each, a way has one.  So instructions are counted on
 * the longest way, not all of them.
 */
#include "tests/gpu/sass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the control flow ---- */

static void *
space(size_t n)
{
	void *p = calloc(n ? n : 1, 1);

	if (!p) {
		fputs("sass: out of memory\n", stderr);
		exit(1);
	}
	return p;
}

static bool
ends_path(const struct instruction *x)
{
	return !x->predicated &&
	       (begins(x->op, "EXIT") || begins(x->op, "RET") ||
		strcmp(x->op, "BRA") == 0 || x->ntargets > 0 ||
		(begins(x->op, "CALL") && x->label >= 0));
}

/* Where instruction i may go on: the k-th such place, or -1.  The assembler
 * also writes a branch as a call of a label that is inside of the function. */
static int
next_of(const struct reader *r, int i, int k)
{
	const struct instruction *x = &r->at[i];
	int first = x->label >= 0, label;

	if (!ends_path(x) && i + 1 < r->n && k-- == 0) {
		return i + 1;
	}
	if (k < 0 || k >= first + x->ntargets) {
		return -1;
	}
	label = k < first ? x->label : r->target[x->first_target + k - first];
	return r->label[label] < r->n ? r->label[label] : -1;
}

/* Marks what is reached from the function's first instruction without `not`;
 * stack has space for all instructions. */
static void
reach(const struct reader *r, int not, unsigned char *seen, int *stack)
{
	int n = 0, to, k, i;

	memset(seen, 0, (size_t)r->n);
	if (not != 0) {
		stack[n++] = 0;
		seen[0] = 1;
	}
	while (n > 0) {
		i = stack[--n];
		for (k = 0; (to = next_of(r, i, k)) >= 0; k++) {
			if (to != not && !seen[to]) {
				seen[to] = 1;
				stack[n++] = to;
			}
		}
	}
}

/* Adds to the loop what reaches instruction `from` without its head. */
static void
fill_loop(const struct reader *r, struct loop *l, int from)
{
	bool more = true;
	int i, k, to;

	l->has[l->head] = l->has[from] = 1;
	while (more) {
		more = false;
		for (i = r->n; i-- > 0;) {
			if (l->has[i]) {
				continue;
			}
			for (k = 0; (to = next_of(r, i, k)) >= 0; k++) {
				if (l->has[to] && to != l->head) {
					l->has[i] = 1;
					more = true;
				}
			}
		}
	}
}

static struct loop *
loop_at(struct reader *r, int head)
{
	int i;

	for (i = 0; i < r->nloops; i++) {
		if (r->loop[i].head == head) {
			return &r->loop[i];
		}
	}
	if (r->nloops == MOST_LOOPS) {
		fputs("sass: too many loops\n", stderr);
		exit(1);
	}
	r->loop[r->nloops].head = head;
	r->loop[r->nloops].has = space((size_t)r->n);
	return &r->loop[r->nloops++];
}

/* Finds natural loops: a branch goes back to an instruction without which it
 * cannot be reached. */
static void
find_loops(struct reader *r)
{
	unsigned char *live = space((size_t)r->n),
		      *seen = space((size_t)r->n);
	int *stack = space(sizeof *stack * (size_t)(r->n + 1));
	int i, k, head;

	reach(r, -1, live, stack);
	for (i = 0; i < r->n; i++) {
		for (k = 0; live[i] && (head = next_of(r, i, k)) >= 0; k++) {
			if (head > i) {
				continue;
			}
			reach(r, head, seen, stack);
			if (head == i || !seen[i]) {
				fill_loop(r, loop_at(r, head), i);
			}
		}
	}
	free(live);
	free(seen);
	free(stack);
}

/* ---- the loops ---- */

static void
measure_loop(struct reader *r, struct loop *l)
{
	int i;

	l->size = 0;
	for (i = 0; i < r->n; i++) {
		l->size += l->has[i];
		l->multiplies |= l->has[i] && r->at[i].cycles > 0;
		l->waits |=
			l->has[i] && begins(r->at[i].op, "SYNCS.PHASECHK");
	}
	l->waits &= l->size <= 6;
}

/* Sets the smallest loop around each instruction, and around each loop. */
static void
nest_loops(struct reader *r)
{
	int i, k;

	for (k = 0; k < r->nloops; k++) {
		measure_loop(r, &r->loop[k]);
	}
	for (i = 0; i < r->n; i++) {
		int best = -1;

		for (k = 0; k < r->nloops; k++) {
			if (r->loop[k].has[i] &&
			    (best < 0 ||
			     r->loop[k].size < r->loop[best].size)) {
				best = k;
			}
		}
		r->at[i].loop = best;
	}
	for (k = 0; k < r->nloops; k++) {
		struct loop *l = &r->loop[k];

		l->outer = -1;
		for (i = 0; i < r->nloops; i++) {
			if (i != k && r->loop[i].has[l->head] &&
			    r->loop[i].size > l->size &&
			    (l->outer < 0 ||
			     r->loop[i].size < r->loop[l->outer].size)) {
				l->outer = i;
			}
		}
	}
}

static void
find_main(struct reader *r)
{
	int i;

	r->main_loop = -1;
	for (i = 0; i < r->n; i++) {
		if (r->at[i].cycles > 0 && r->at[i].loop >= 0) {
			r->loop[r->at[i].loop].products += r->at[i].cycles;
		}
	}
	for (i = 0; i < r->nloops; i++) {
		if (r->loop[i].products > 0 &&
		    (r->main_loop < 0 ||
		     r->loop[i].products > r->loop[r->main_loop].products)) {
			r->main_loop = i;
		}
	}
}

bool
sass_is_cold(const struct reader *r, int i)
{
	return i > r->last_exit ||
	       (r->at[i].loop >= 0 && r->loop[r->at[i].loop].waits);
}

/* Loops around instruction i that are inside of loop `within`; -1: it is not
 * in there. */
static int
depth_of(const struct reader *r, int i, int within)
{
	int depth = 0, k = r->at[i].loop;

	while (k >= 0 && k != within) {
		k = r->loop[k].outer;
		depth++;
	}
	return k == within ? depth : -1;
}

/* Whether a loop comes before the main loop of a block that has one tile, and
 * stores nothing in global memory: it is none of an epilogue. */
static bool
is_before(const struct reader *r, int loop)
{
	const struct loop *main_loop = &r->loop[r->main_loop];
	const struct loop *l = &r->loop[loop];
	int i;

	for (i = 0; i < r->n && !(l->has[i] && begins(r->at[i].op, "STG"));
	     i++) {
	}
	return i == r->n && main_loop->outer < 0 &&
	       r->at[l->head].order > r->at[main_loop->head].order;
}

/* How often instruction i is issued for a tile, outside of the main loop. */
static long
slots_of(const struct reader *r, int i)
{
	const struct loop *main_loop = &r->loop[r->main_loop];
	int depth = depth_of(r, i, main_loop->outer), k;

	if (main_loop->has[i] || sass_is_cold(r, i) || depth < 0) {
		return 0;
	}
	for (k = r->at[i].loop; k >= 0 && r->loop[k].outer != main_loop->outer;
	     k = r->loop[k].outer) {
	}
	if (k >= 0 && k != main_loop->outer && r->loop[k].multiplies) {
		return 0;
	}
	return depth == 0   ? 1 :
	       k >= 0 && is_before(r, k) ? 1 :
	       depth > 1    ? r->parts * r->turns :
	       r->parts > 1 ? r->parts :
			      r->turns;
}

/* ---- the longest way ---- */

/*
 * Numbers what is reached so that all that follows an instruction, but by a
 * branch back, has a smaller number.  `stack' has space for all instructions,
 * `kth' for how many places each has gone on to.
 */
static void
number_all(struct reader *r, int *stack, int *kth)
{
	int n = 0, numbers = 0, i, to;

	for (i = 0; i < r->n; i++) {
		r->at[i].order = -1;
		kth[i] = -1;
	}
	if (r->n > 0) {
		stack[n++] = kth[0] = 0;
	}
	while (n > 0) {
		i = stack[n - 1];
		to = next_of(r, i, kth[i]++);
		if (to < 0) {
			r->at[i].order = numbers++;
			n--;
		} else if (kth[to] < 0) {
			kth[to] = 0;
			stack[n++] = to;
		}
	}
}

/* Instructions in the order of these numbers; returns how many. */
static int
in_order(const struct reader *r, int *at)
{
	int n = 0, i;

	for (i = 0; i < r->n; i++) {
		if (r->at[i].order >= 0) {
			at[r->at[i].order] = i;
			n++;
		}
	}
	return n;
}

/* Whether a loop has instruction i; -1: the function does. */
static bool
has(const struct reader *r, int loop, int i)
{
	return loop < 0 || r->loop[loop].has[i];
}

/* The largest loop inside of `loop' that has instruction i of it; -1: none. */
static int
inside(const struct reader *r, int loop, int i)
{
	int k = r->at[i].loop;

	while (k >= 0 && k != loop && r->loop[k].outer != loop) {
		k = r->loop[k].outer;
	}
	return k == loop ? -1 : k;
}

/* The most of `after' of what may follow instruction i in `loop', but outside
 * of the loop `without' (-1: anywhere). */
static long
most_after(const struct reader *r, int loop, int without, int i,
	   const long *after)
{
	long most = 0;
	int k, to;

	for (k = 0; (to = next_of(r, i, k)) >= 0; k++) {
		if (has(r, loop, to) &&
		    (without < 0 || !r->loop[without].has[to]) &&
		    r->at[to].order < r->at[i].order && after[to] > most) {
			most = after[to];
		}
	}
	return most;
}

/* The longest way from a loop's head to its end, or to a branch back; -1: from
 * the function's first instruction.  A loop inside is gone through once: its
 * instructions count as often as it runs. */
static long
longest_way(struct reader *r, int loop, const int *at, int n)
{
	long *after = space(sizeof *after * (size_t)r->n), way;
	int i, k, in;

	for (k = 0; k < r->nloops; k++) {
		if (r->loop[k].outer == loop) {
			r->loop[k].way = longest_way(r, k, at, n);
		}
	}
	for (k = 0; k < n; k++) {
		i = at[k];
		in = has(r, loop, i) ? inside(r, loop, i) : -1;
		if (!has(r, loop, i)) {
			continue;
		}
		if (in < 0) {
			after[i] = slots_of(r, i) +
				   most_after(r, loop, -1, i, after);
			continue;
		}
		/* from the end of the loop inside, wherever that is */
		way = most_after(r, loop, in, i, after);
		if (way > after[r->loop[in].head]) {
			after[r->loop[in].head] = way;
		}
		if (i == r->loop[in].head) {
			after[i] += r->loop[in].way;
		}
	}
	way = r->n == 0 ? 0 : after[loop < 0 ? 0 : r->loop[loop].head];
	free(after);
	return way;
}

long
sass_rest(struct reader *r)
{
	int *stack = space(sizeof *stack * (size_t)r->n);
	int *kth = space(sizeof *kth * (size_t)r->n);
	long way;

	number_all(r, stack, kth);
	way = longest_way(r, r->loop[r->main_loop].outer, stack,
			  in_order(r, stack));
	free(stack);
	free(kth);
	return way;
}

long
sass_least(const struct reader *r)
{
	const struct loop *l = &r->loop[r->main_loop];
	long *after = space(sizeof *after * (size_t)r->n), way;
	int *at = space(sizeof *at * (size_t)r->n);
	int n = in_order(r, at), i, k, j, to;

	for (j = 0; j < n; j++) {
		i = at[j];
		after[i] = -1;	/* no way back to the loop's head */
		for (k = 0; l->has[i] && (to = next_of(r, i, k)) >= 0; k++) {
			way = to == l->head ? 0
			      : l->has[to] && r->at[to].order < r->at[i].order
				      ? after[to] : -1;
			if (way >= 0 && (after[i] < 0 || way < after[i])) {
				after[i] = way;
			}
		}
		after[i] += after[i] >= 0 && !sass_is_cold(r, i);
	}
	way = after[l->head];
	free(after);
	free(at);
	return way;
}

void
sass_find_loops(struct reader *r)
{
	find_loops(r);
	nest_loops(r);
	find_main(r);
}

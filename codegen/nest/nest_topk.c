/*
 * Ranking (topk): winners of a row are found one after the other, each the
 * largest of those not yet taken and, among equals, the first.  If only
 * members of the best groups may win, groups are ranked first, by the sum of
 * their two largest, or by the largest.
 */
#include "codegen/nest/nest.h"

#include <math.h>
#include <string.h>

#define MOST 64		/* most winners, and most groups */

struct ranking {
	struct nest *n;
	nest_id score, i;	/* at the index of the row's own loop */
	uint64_t over;
	int64_t size;
	int64_t group_best;	/* members that rank a group: 1 or 2 */
};

static nest_id
lowest(struct nest *n)
{
	return nest_num(n, -INFINITY);
}

/* The first index where `cond` holds; the row's size if it holds nowhere. */
static nest_id
first(const struct ranking *r, nest_id cond)
{
	return nest_reduce(r->n, NEST_LEAST,
			   nest_select(r->n, cond, r->i,
				       nest_int(r->n, r->size)), r->over);
}

static nest_id
both(struct nest *n, nest_id a, nest_id b)
{
	return a ? nest_binary(n, NEST_AND, a, b) : b;
}

/* The largest, plus the second largest if two members count. */
static nest_id
group_score(const struct ranking *r, nest_id in_group, int64_t members)
{
	struct nest *n = r->n;
	nest_id best = nest_reduce(n, NEST_MOST,
		nest_select(n, in_group, r->score, lowest(n)), r->over);
	nest_id at, other;

	if (members < 2 || r->group_best < 2) {
		return best;
	}
	at = first(r, both(n, in_group,
			   nest_binary(n, NEST_EQ, r->score, best)));
	other = both(n, in_group, nest_unary(n, NEST_NOT,
			nest_binary(n, NEST_EQ, r->i, at)));
	return nest_binary(n, NEST_ADD, best, nest_reduce(n, NEST_MOST,
		nest_select(n, other, r->score, lowest(n)), r->over));
}

/* Whether group g is among the best `top`. */
static nest_id
group_wins(struct nest *n, const nest_id *score, int64_t groups, int64_t g,
	   int64_t top)
{
	nest_id rank = nest_int(n, 0), one = nest_int(n, 1), ahead;
	int64_t h;

	for (h = 0; h < groups; h++) {
		if (h == g) {
			continue;
		}
		ahead = nest_binary(n, h < g ? NEST_LE : NEST_LT, score[g],
				    score[h]);
		rank = nest_binary(n, NEST_ADD, rank,
				   nest_select(n, ahead, one, nest_int(n, 0)));
	}
	return nest_binary(n, NEST_LT, rank, nest_int(n, top));
}

/* Whether a member's group is among the best; 0: all members may win. */
static nest_id
may_win(const struct ranking *r, int64_t groups, int64_t top)
{
	struct nest *n = r->n;
	int64_t members = r->size / groups, g;
	nest_id score[MOST] = { 0 }, of, ok;

	if (top >= groups) {
		return 0;
	}
	of = nest_binary(n, NEST_DIV, r->i, nest_int(n, members));
	for (g = 0; g < groups; g++) {
		score[g] = group_score(r, nest_binary(n, NEST_EQ, of,
						      nest_int(n, g)), members);
	}
	ok = group_wins(n, score, groups, 0, top);
	for (g = 1; g < groups; g++) {
		nest_id wins = group_wins(n, score, groups, g, top);

		ok = nest_select(n, nest_binary(n, NEST_EQ, of, nest_int(n, g)),
				 wins, ok);
	}
	return ok;
}

nest_id
nest_topk(struct nest *n, const struct ir_node *node,
	  const struct nest_env *env, const struct ir_rule *rule,
	  nest_id which)
{
	dim_id of = ir_rule_factor(rule, "of")->dims[0];
	dim_id to = ir_rule_factor(rule, "to")->dims[0];
	struct nest_dim d = *nest_dim_of(n, of, 0);
	struct ranking r = { n, 0, d.index, d.mask, ir_dim_size(n->in.m, of),
			     ir_attr_int(n->in.m, node, IR_ATTR_GROUP_BEST,
					 2) };
	int64_t wanted = ir_dim_size(n->in.m, to), k;
	int64_t groups = ir_attr_int(n->in.m, node, IR_ATTR_GROUPS, 1);
	int64_t top = ir_attr_int(n->in.m, node, IR_ATTR_TOP_GROUPS, groups);
	struct nest_env row = *env;
	nest_id left, best, made = 0;
	uint64_t loops;

	if (wanted > MOST || groups > MOST) {
		n->why = "topk of more than 64, or of more than 64 groups, has "
			 "no kernel";
		return 0;
	}
	nest_env_bind(&row, of, d.index);
	r.score = nest_operand(n, node, 0, &row);
	if (!r.score) {
		return 0;
	}
	loops = nest_at(n, r.score)->loops & ~d.mask;
	if ((loops & ~n->rows) || (d.mask & n->rows)) {
		n->why = "a ranking is used at another index than that "
			 "of its rows";
		return 0;
	}
	left = may_win(&r, groups, top);
	for (k = 0; k < wanted; k++) {
		nest_id x = left ? nest_select(n, left, r.score, lowest(n))
				 : r.score;

		best = nest_reduce(n, NEST_MOST, x, d.mask);
		best = first(&r, both(n, left, nest_binary(n, NEST_EQ, r.score,
							   best)));
		made = made ? nest_select(n, nest_binary(n, NEST_EQ, which,
							 nest_int(n, k)), best,
					  made) : best;
		left = both(n, left, nest_unary(n, NEST_NOT,
				nest_binary(n, NEST_EQ, r.i, best)));
	}
	return made;
}

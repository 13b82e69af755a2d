#!/bin/sh
# Plug-ins that choose the plan: a key before the search, all of them before
# it, and one in its place; each up to an answer, and run against the
# model that was not split.
. "${top_srcdir:?}/tests/lib.sh"
need compiler
model=$examples/tiny-dense.llm

shared always.so -std=c11 -Wall -Wextra -Wpedantic -Werror \
	"$examples/pass-always-tp8/always-tp8.c" || bad 'does not build'

# answer ARGUMENTS..: of the model on eight devices
answer()
{
	run --load-pass=./always.so --target h100x8 "$@" "$model"
}

# The same as a pin: the rest is searched.
run --target h100x8 --pin tp=8 --explain=search "$model"
cp out pinned
answer --insert=always-tp8@before:search --explain=search
cmp out pinned || bad 'set before the search, a key is no pin'
grep -q '^search: pinned: tp$' out || bad 'nothing is pinned'

# A whole plan: one is left, and it is that of the rule, searched or not.
answer --insert=rule-of-eight@before:search --explain=search
grep -q '^  plans in the space  *1$' out || bad 'something is left to search'
answer --insert=rule-of-eight@before:search
cp out before
answer --insert=rule-of-eight@for:search
cmp out before || bad 'the search changed a whole plan'
grep -q '1 microbatch of 4, zero 0, recompute none, sequence on' out ||
	bad 'another plan'
answer --insert=rule-of-eight@for:search --pin microbatch=2
grep -q '2 microbatches of 2, zero 0' out || bad 'a pin is lost'
answer --insert=rule-of-eight@for:search --emit=answer-json
grep -q '"search"' out && bad 'a search that did not run has numbers'

# Behind the search the plan becomes another one, and so do the programs.
set -- -w --pin tp=4,dp=1,pp=1,ep=1,cp=1
answer "$@"
cp out searched
answer "$@" --insert=always-tp8@after:search
grep -q '^split  *tp=8 ' out || bad 'the programs of the plan before'
cmp out searched >same && bad 'not even the step is another one'
cp out behind
answer "$@" --insert=always-tp8@after:search --verify-each
cmp out behind || bad 'the programs are other ones with --verify-each'

# The ranks compute what the model does.
for how in always-tp8@before:search always-tp8@for:search \
	rule-of-eight@for:search; do
	run eval --compare --steps 2 --load-pass=./always.so --insert=$how \
		"$model"
	grep -q '^8 ranks, 1 stage, ' out || bad "$how: not eight ranks"
	grep -q '^compared .* tensors over 2 steps: ' out ||
		bad "$how: is not compared"
done

set -- --load-pass=./always.so --target h100x8 "$model"
misused 'NAME@for:PASS is expected' --insert=always-tp8@instead:search "$@"
misused 'did you mean `search`?' --insert=always-tp8@for:serch "$@"
misused 'did you mean `always-tp8`?' --insert=always-tp9@for:search "$@"
misused 'pass `search` is not among those that run' --passes=inline \
	--insert=always-tp8@for:search "$@"
refused 'the pass `search` is not among those that run' --top=3 \
	--insert=always-tp8@for:search "$@"
# The rule needs 8 ranks, whoever looks.
set -- --load-pass=./always.so --target h100x4 "$model"
refused 'has 8 ranks, and h100x4 has 4 devices' \
	--insert=rule-of-eight@for:search "$@"
refused 'tp=8 are 8 ranks, and the target has 4 devices' \
	--insert=always-tp8@before:search "$@"

# ---- what no pin may say, no plug-in may set: it is reported at once, and who

cat >bad.c <<'END'
#include "passes/pass.h"
#include "passes/plan/plan.h"
#include <stdlib.h>

#define BAD(name, what) \
static bool \
name(struct pass_ctx *ctx, struct ir_module *m) \
{ \
	struct plan p; \
	static int64_t two[2] = { 1, 1 }, three[3] = { 1, 0, 1 }; \
	static const char *const none[2] = { NULL, NULL }; \
	static const dim_id dims[2] = { 99999, 0 }; \
\
	(void)ctx; (void)two; (void)three; (void)none; (void)dims; \
	if (!plan_read(m, &p)) \
		return false; \
	what; \
	plan_write(m, &p); \
	return true; \
}
#define BADS \
	X(b1, (p.pp = 2, p.nstages = 2)) \
	X(b2, (p.pp = 0)) \
	X(b3, (p.tp = -8)) \
	X(b4, (p.zero = 7)) \
	X(b5, (p.dp = INT64_MAX)) \
	X(b6, (p.mesh[1] = (enum plan_axis)77)) \
	X(b7, (p.mesh[1] = PLAN_PP)) \
	X(b8, (p.schedule = "zb-v")) \
	X(b9, (p.recompute = "nothing_of_that_name")) \
	X(b10, (p.chunks = 65)) \
	X(b11, (p.pp = 3, p.nstages = 3, p.layers = three)) \
	X(b12, (p.pp = 2, p.nstages = 3, p.layers = three)) \
	X(b13, (p.nstages = 4000000000u)) \
	X(b14, (p.tiles = none, p.ntiles = 2)) \
	X(b15, (p.ntiles = 3)) \
	X(b16, (p.split[PLAN_TP].dims = dims, p.split[PLAN_TP].n = 1)) \
	X(b17, (p.split[PLAN_TP].n = 2)) \
	X(b18, (p.recompute_of = (const char **)(size_t)none)) \
	X(b19, (p.microbatch = 1000000)) \
	X(b20, (p.ep = 2)) \
	X(b21, (p.interleave = 3, p.pp = 2, p.layers = NULL)) \
	X(b22, (p.tp = 1 << 20, p.dp = 4)) \
	X(b23, (p.pp = 2, p.nstages = 2, p.layers = two, two[1] = 9)) \
	X(b24, (p.schedule_file = "./none.csv"))
#define X(name, what) BAD(name, what)
BADS
#undef X

static bool
pin(struct pass_ctx *ctx, struct ir_module *m)
{
	(void)ctx;
	return plan_pin(m, "tp=9999999");
}

static bool
raw(struct pass_ctx *ctx, struct ir_module *m)
{
	struct ir_setting s = { .kind = SET_NUM, .n = 1, .num = { 3 } };

	(void)ctx;
	s.key = intern_str(&m->ctx->syms, "plan.teepee");
	VEC_PUSH(&m->ctx->perm, &m->settings, s);
	return true;
}

/* What may be left open. */
static bool
open_plan(struct pass_ctx *ctx, struct ir_module *m)
{
	struct plan p;

	(void)ctx;
	if (!plan_read(m, &p))
		return false;
	p.pp = 2;
	p.layers = NULL;
	p.schedule = NULL;
	p.recompute = NULL;
	return plan_write(m, &p);
}

static const struct pass passes[] = {
#define X(name, what) { #name, PROP_FLAT, 0, 0, name, "a bad plan" },
	BADS
#undef X
	{ "pin", 0, 0, 0, pin, "a bad pin" },
	{ "raw", 0, 0, 0, raw, "a setting that is none" },
	{ "open", PROP_FLAT, 0, 0, open_plan, "a plan with holes" },
};

const struct pass_plugin *
llmc_pass_plugin(void)
{
	static const struct pass_plugin plugin = { IR_ABI_VERSION, "bad", "1",
		passes, sizeof passes / sizeof *passes };

	return &plugin;
}
END
shared bad.so -std=c11 -Wall -Wextra bad.c || bad 'does not build'

# Each for the search and before it, one of both with --verify-each, which is the
# other of both for the next.
turn=0
while read -r name words; do
	turn=$((1 - turn))
	for how in for before; do
		each=
		case $how$turn in
		for0 | before1) each=--verify-each ;;
		esac
		# shellcheck disable=SC2086 # words
		refused "$words" --load-pass=./bad.so \
			--insert=$name@$how:search --target h100x8 $each "$model"
		grep -q "note: this is about pass .$name. of the plug-in ./bad.so" \
			err || bad "$name: nobody is named"
	done
	# with no target to search for, all the same
	refused "$words" eval --compare --steps 1 --load-pass=./bad.so --insert=$name@for:search \
		"$model"
done <<'END'
b1 `stages` are 2, and `layers` are still those of 1: so many are legal
b2 `pp` is 0, and 1 to 1048576 is legal
b3 `tp` is -8, and 1 to 1048576 is legal
b4 `zero` is 7, and 0 to 3 is legal
b5 `dp` is 9.223372036854776e18, and 1 to 1048576 is legal
b6 `mesh` has axis 77, and 0 to 4 is legal
b7 `pp` is twice in `mesh`
b8 there is no schedule `zb-v` (did you mean `zbv`?)
b9 nothing_of_that_name
b10 `chunks` is 65, and 1 to 64 is legal
b11 stage 1 of 0 to 2 holds no layer
b12 `stages` are 3, and pp * interleave = 2 * 1 is legal
b13 `stages` are 4000000000, and pp * interleave = 1 * 1 is legal
b14 `tiles` has 2 texts, and number 0 is NULL
b15 `tiles` has 3 texts, and number 0 is NULL
b16 `split.tp` has 1 dims, and number 0 is none of this model
b17 `split.tp` has 2 dims, and number 0 is none of this model
b18 `recompute` has 1 texts, and number 0 is NULL
b19 `microbatch` is 1000000, and dp * ep = 1 ranks share 4 sequences
b20 `ep` is 2, and this model has no experts
b21 `interleave` is 3, and 1f1b runs 1 stage per rank
b22 makes 4194304 ranks, and 1 to 1048576 is legal
b23 the stages hold 10 layers, and the model has
b24 cannot read the schedule ./none.csv
pin plan_pin:1:4: error: `tp` is 9999999, and 1 to 1048576 is legal
raw a plan has no `teepee`
END
run --load-pass=./bad.so --insert=open@for:search --target h100x8 "$model"
grep -q '^split  *pp=2 ' out || bad 'what is left open is not settled'
exit $failed

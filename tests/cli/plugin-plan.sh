#!/bin/sh
# Plug-ins that choose the plan: a key in front of the search, all of them in
# front of it, and one in its place; each up to an answer, and run against the
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
cmp out pinned || bad 'set in front of the search, a key is no pin'
grep -q '^search: pinned are tp$' out || bad 'nothing is pinned'

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
	grep -q '^8 ranks, 1 stages, ' out || bad "$how: not eight ranks"
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
refused 'tp=8 are 8 ranks, and there are 4 devices' \
	--insert=always-tp8@before:search "$@"
exit $failed

#!/bin/sh
# The program of a rank, of a plan by hand for two ranks: trains, stops,
# resumes, is killed, and says what is wrong.
. "${top_srcdir:?}/tests/lib.sh"
rank=$build/tests/unit/runtime/toy-rank

# wants STATUS TEXT ARGUMENTS..: that exit status, and that among what is said
wants()
{
	wanted=$1 text=$2
	shift 2
	"$rank" "$@" >out 2>err
	got=$?
	test $got = "$wanted" || bad "rank $*: exit status $got, not $wanted"
	grep -qF -- "$text" out err || bad "rank $*: no '$text'"
}

# Tokens that count, as raw u16.
i=0
while test $i -lt 401; do
	printf "\\$(printf %03o $((i % 16)))\\000"
	i=$((i + 1))
done >count.bin

# ---- what it says of itself ----

"$rank" --help | sed -n 's/^  --\([a-z-]*\).*/\1/p' | sort -u >named
test "$(wc -l <named)" -gt 20 || bad '--help names few options'
while read -r name; do
	grep -q -- "--$name" "$top_srcdir/docs/running.md" ||
		bad "docs/running.md says nothing of --$name"
done <named
"$rank" serve --help >of-serve
grep -q '^  --port N' of-serve && grep -q '^  --local' of-serve ||
	bad 'serve --help lacks its options'
grep -q '^  --steps\|^train:' of-serve && bad 'serve --help has those of others'
wants 0 'rank of toy for cpux2, by llmc' --version
wants 0 'mesh       dp=2: 2 ranks, 1 stage, 2 microbatches' inspect
wants 0 '{}' inspect --json
wants 0 'plan {}' inspect --llp
wants 2 'there is no option --stpes; the nearest is --steps' train --stpes 3
wants 2 'the nearest is inspect' inspct
wants 2 "there is no command 'check'; --help lists all" check
wants 2 'there is no option --bogus; --help lists all' train --bogus
wants 2 'a command is missing'

# ---- train, stop, go on: the same bits ----

wants 0 'ended at step 9' train --local --data count.bin --steps 9 --seed 3 \
	--checkpoint whole
wants 0 'ended at step 4' train --local --data count.bin --steps 4 --seed 3 \
	--checkpoint parts --log log
wants 0 'resumed at step 4' train --local --data count.bin --steps 9 \
	--checkpoint parts --resume --threads 2 --bind no --log log
for file in model state; do
	cmp whole/step-00000009/$file.safetensors \
		parts/step-00000009/$file.safetensors ||
		bad "$file of a resumed run differs"
done
test "$(grep -c '^{"step": [0-9]*, "loss": [0-9]' log)" = 9 ||
	bad "the log has not nine steps: $(cat log)"
test "$(grep -c '"event": "resume"' log)" = 1 || bad 'no resume in the log'

# A new run in the folder of one that is further says so, others do not.
grep -q 'has a checkpoint' out && bad 'a run that goes on has no other before it'
cp -r whole mixed
wants 0 'mixed has a checkpoint of step 9, and this run begins at step 0: ' \
	train --local --data count.bin --steps 1 --checkpoint mixed

# In the order of the files: the first batch is what stands there first, and a
# run that goes on has the next one.
head -c 2 count.bin >skew.bin
for i in 1 2 3 4; do
	printf '\005\000\003\000\003\000\011\000\002\000\017\000\001\000\007\000'
done | tee first >>skew.bin
cat first >>skew.bin
cp skew.bin first.bin
head -c 780 count.bin >>skew.bin
# losses_of ARGUMENTS..: of each step
losses_of()
{
	rm -f losses
	"$rank" train --local --seed 3 --log losses "$@" >out 2>err ||
		bad "rank train $*"
	losses_in losses
}
first=$(losses_of --data first.bin --steps 1 --data-order file)
both=$(losses_of --data skew.bin --steps 2 --data-order file)
test "${both%%
*}" = "$first" || bad "file order: $both does not begin with $first"
test "$(losses_of --data skew.bin --steps 1)" != "$first" ||
	bad 'file order is the order of the seed'
losses_of --data skew.bin --steps 1 --data-order file --checkpoint ordered \
	>begun
losses_of --data skew.bin --steps 2 --data-order file --checkpoint ordered \
	--resume >>begun
echo "$both" | diff - begun || bad 'file order: another second batch'

# Loss falls; sampling then counts on.
wants 0 'ended at step 300' train --local --data count.bin --steps 300 \
	--checkpoint parts --resume --eval-data count.bin --tensorboard events
evaluated='evaluation at step 300: loss 0.0000 perplexity 1.0000'
evaluated="$evaluated over 12 batches, 384 tokens"
grep -qx "$evaluated" out ||
	bad "no evaluation, or a loss that did not fall: $(tail -3 out)"
# where no step is left that is all there is to do
wants 0 "$evaluated" train --local --data count.bin --steps 300 \
	--checkpoint parts --resume --eval-data count.bin

# ---- a checkpoint alone ----

wants 0 "$evaluated" eval --local --checkpoint parts --data count.bin
wants 0 'over 3 batches, 96 tokens' eval --local --data count.bin --steps 3 \
	--checkpoint whole/step-00000009
wants 0 '{"step": 9, ' eval --local --data count.bin --json --log log \
	--checkpoint whole
is_json out
test "$(wc -l <out)" = 1 || bad 'more than a line of JSON'
members='"step": 9, "batches": 12, "tokens": 384, "loss": [0-9.e-]*'
members="$members, \"perplexity\": [0-9.e-]*"
grep -o "$members" out >said
# what training says of the same weights and data, in a checkpoint that stays
cp -r whole before
wants 0 'ended at step 9: the checkpoint has all steps' train --local --data count.bin --steps 9 \
	--resume whole/step-00000009 --eval-data count.bin --log more
for file in log more; do
	grep '"event": "evaluation"' $file | grep -o "$members" | cmp - said ||
		bad "$file: another evaluation"
done
awk -F '[:,}]' 'function abs(x) { return x < 0 ? -x : x }
	{ if (abs(log($10) - $8) > 1e-9) exit 1 }' said || bad 'perplexity'
same_folders whole before
wants 0 'evaluation at step 9: loss' eval --local --data draw \
	--checkpoint whole
cp whole/step-00000009/model.safetensors .
wants 0 "evaluation at step 0: $(sed -n 's/.*\(loss .*\)/\1/p' out)" eval \
	--local --data draw --weights model.safetensors
wants 2 'nothing to evaluate on: give --data' eval --local --checkpoint parts
wants 2 'give --checkpoint FOLDER or --weights PATH' eval --local --data draw
wants 2 'give --checkpoint FOLDER or --weights PATH' eval --local --data draw \
	--checkpoint whole --weights model.safetensors
mkdir none
wants 1 'found no checkpoint' eval --local --data draw --checkpoint none
head -c 26 count.bin >few.bin
for how in 'eval --checkpoint whole --data' \
	'train --data draw --steps 1 --eval-data'; do
	# shellcheck disable=SC2086 # words
	wants 1 'has 3 sequences, and a batch takes 8' $how few.bin --local
	grep -q '^step' out && bad "$how: it trains"
done
ls events/events.out.tfevents.* >/dev/null || bad 'no event file'
echo 3 9 >prompt
wants 0 '10 11 12 13 14 15 0 1 2' sample --local --checkpoint parts \
	--prompt-file prompt --tokens 9 --temperature 0

wants 0 'step 1 loss 0.2402 norm 0.2345 ' train --local --data draw --steps 1
wants 0 'replicas   2 that another rank has too' verify --local
wants 0 'all_reduce gradients on dp' bench --local --steps 3
wants 0 '"kind": "kernel"' bench --local --steps 3 --json

# ---- refusals ----

wants 1 'the plan is for 2 ranks, and no launcher started the others: --local' bench
RANK=0 WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3
export RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
wants 1 'the plan is for 2 ranks, torchrun started 3' bench
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
wants 1 'nofile' train --local --data nofile
wants 1 'nowhere' train --local --data draw --steps 3 --resume nowhere
wants 1 'cannot be opened to write' train --local --data draw --steps 3 \
	--log no/log
if test -w /dev/full; then
	"$rank" train --local --data draw --steps 3 >/dev/full 2>err
	test $? = 1 || bad 'a full disk went unnoticed'
	grep -q 'standard output cannot be written' err ||
		bad 'the full disk is not said'
fi

# ---- signals and sudden death ----

# begins ARGUMENTS..: in the background, until it has trained a step
begins()
{
	rm -f log
	"$rank" train --local --data draw --steps 1000000000000 \
		--checkpoint drawn --resume --log log "$@" >out 2>err &
	pid=$!
	waits_for '{"step": ' log
}

begins --every 100
kill -TERM $pid
wait $pid || bad "SIGTERM: exit status $?"
grep -q '^stopped by a signal$' out || bad "no rank stopped: $(tail -2 out)"
last=$(sed -n 's/^ended at step //p' out)
test -f "drawn/step-$(printf %08d "$last")/checkpoint.json" ||
	bad "no checkpoint of step $last"

begins --every 100
child=$(sed 's/ .*//' /proc/$pid/task/$pid/children 2>/dev/null)
if test -n "$child"; then
	kill -KILL "$child"
	wait $pid
	test $? = 1 || bad 'a rank was killed, and the exit status is not 1'
	grep -q 'rank 0 (dp=0) died' err || bad 'nobody names it'
	wants 0 'resumed at step' train --local --data draw --checkpoint drawn \
		--resume --steps 1
else
	kill -TERM $pid
	wait $pid
fi
exit $failed

#!/bin/sh
# Each signal by which a batch system warns that time is up ends a run well,
# sent to the one who started the ranks or to a single rank: exit status 0 and
# a checkpoint of the step that is said.
. "${top_srcdir:?}/tests/lib.sh"
rank=$build/tests/unit/runtime/toy-rank
[ -x "$rank" ] || skip 'no toy-rank'

# Whoever started the tests may have had SIGHUP ignored, as nohup has it, and a
# shell cannot take that back.
default='env --default-signal=HUP'
$default true 2>/dev/null || default=

# warned SIGNAL WHO: `all' or a rank's place among the children.
warned()
{
	rm -rf log saved
	$default "$rank" train --local --data draw --steps 1000000000000 \
		--checkpoint saved --log log >out 2>err &
	pid=$!
	waits_for '{"step": ' log
	to=$pid
	[ "$2" = all ] ||
		to=$(cut -d ' ' -f "$2" "/proc/$pid/task/$pid/children")
	kill -s "$1" "$to"
	timeout 300 tail -f /dev/null --pid=$pid
	kill -s KILL $pid 2>/dev/null
	wait $pid || bad "$1 to $2: exit status $?" || return
	last=$(sed -n 's/^ended at step //p' out)
	[ -n "$last" ] && [ -f "saved/step-$(printf %08d "$last")/checkpoint.json" ] ||
		bad "$1 to $2: no checkpoint"
	grep -q '"event": "signal"' log || bad "$1 to $2: not in the log"
}

signals='TERM HUP QUIT USR1 USR2'
[ -n "$default" ] || signals='TERM QUIT USR1 USR2'
for signal in $signals; do
	warned "$signal" all
done
if [ -r "/proc/$$/task/$$/children" ]; then
	warned USR1 2
	! have attacks || for signal in $signals; do
		warned "$signal" 1
		warned "$signal" 2
	done
fi

# As nohup has it: a process that another signal ends has not ended before.
sh -c 'trap "" HUP; exec "$@"' sh "$rank" train --local --data draw \
	--steps 1000000000000 --checkpoint saved --log ignored >out 2>err &
pid=$!
waits_for '{"step": ' ignored
kill -s HUP $pid
lines=$(wc -l <ignored)
for _ in $(seq 1200); do
	[ "$(wc -l <ignored)" -le "$((lines + 20))" ] || break
	sleep 0.1
done
kill -s TERM $pid
wait $pid || bad "an ignored SIGHUP: exit status $?"
grep -q '"event": "signal", .*"signal": \(15\|0\)}' ignored ||
	bad "an ignored SIGHUP: $(grep signal ignored)"
exit $failed

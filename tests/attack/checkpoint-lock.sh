#!/bin/sh
# One run saves into a folder. Another one that comes meanwhile reads who it
# is; one that comes in the moment after a run was killed waits for that to be
# gone.
. "${top_srcdir:?}/tests/lib.sh"
rank=$build/tests/unit/runtime/toy-rank

# saver: process $holder saves into ck, and has trained a step
saver()
{
	rm -rf ck log
	"$rank" train --local --data draw --steps 1000000000000 \
		--checkpoint ck --log log >out.saver 2>err.saver &
	holder=$!
	waits_for '{"step": ' log
}

saver
"$rank" train --local --data draw --steps 1 --checkpoint ck --timeout 1 \
	>out 2>err && bad 'two runs in one folder'
grep -q 'ck: another run.* saves into this folder: wait for its end' err ||
	bad 'two runs'
if [ -r /proc/locks ]; then
	pid=$(sed -n 's/.*another run, process \([0-9]*\) of.*/\1/p;T;q' err)
	children=$(cat "/proc/$holder/task/$holder/children")
	case " $children " in
	*" ${pid:-none} "*) ;;
	*) bad "process '$pid' is named, and the ranks are $children" ;;
	esac
fi

# The run stands still, so that it has the folder for sure when the next one
# begins; that one waits, and gets it when all of the former was killed.
children=$(cat "/proc/$holder/task/$holder/children" 2>/dev/null)
if [ -n "$children" ]; then
	# shellcheck disable=SC2086 # numbers
	kill -STOP "$holder" $children
	for how in --resume ''; do
		# shellcheck disable=SC2086 # a word or none
		"$rank" train --local --data draw --steps 1 --checkpoint ck \
			$how >out 2>err &
		next=$!
		sleep 1
		if [ -n "$how" ]; then
			# shellcheck disable=SC2086 # numbers
			kill -KILL "$holder" $children
		fi
		wait $next || bad "the next run: exit status $?"
	done
else
	kill -TERM "$holder"
fi
wait "$holder"
exit $failed

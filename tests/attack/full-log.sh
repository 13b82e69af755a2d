#!/bin/sh
# A log or an event file that cannot be written on does not end training: one
# warning, all steps, the checkpoint.  What was written are whole lines and
# whole records.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker
trap 'umount "$tmp/small" "$tmp/fixed" 2>/dev/null; rm -rf "$tmp"
	[ $failed -eq 0 ] || exit 1' EXIT

cat >small.llm <<'END'
model small {
  dim seq = 8, vocab = 16, hidden = 8;
  dtype f32;
  x = embed(tokens, vocab -> hidden);
  logits = linear(x -> vocab);
  loss = cross_entropy(logits, labels);
}
train { batch = 2; optimizer = adamw(lr = 1e-3); }
END
run -w --draft --target cpux1 small.llm -o plan || exit 1

# goes_on WHAT OPTION..: 40 steps and their checkpoint, and a warning for each
# of the files that are full.
goes_on()
{
	what=$1
	shift
	rm -rf saved
	plan/rank train --data draw --steps 40 --checkpoint saved "$@" \
		>out 2>err || bad "$what: exit status $?" || return
	grep -q '^ended at step 40$' out && [ -d saved/step-00000040 ] ||
		bad "$what: no end, or no checkpoint"
	[ "$(grep -c 'cannot be written: .*; training goes on' err)" = 1 ] ||
		bad "$what: not one warning"
}

# whole FILE: lines only, each an object.
whole()
{
	[ -z "$(tail -c 1 "$1" | tr -d '\n')" ] || bad "$1: half a line"
	! grep -qv '^{.*}$' "$1" || bad "$1: no object: $(grep -v '^{.*}$' "$1")"
}

goes_on 'a full device' --log /dev/full
grep -q '^rank: warning: /dev/full: cannot be written: No space left' err ||
	bad 'another warning'
grep -q '^rank: warning: /dev/full: 4[0-9] records are missing' err ||
	bad 'nobody says how many are missing'

# Files may have 4 KiB; the model's are smaller.
(ulimit -f 8 2>/dev/null && goes_on 'a limit on files' --log log; exit $failed) ||
	failed=1
whole log
(ulimit -f 8 2>/dev/null && goes_on 'a limit' --tensorboard events
	exit $failed) || failed=1

# A disk that is full and then is not: the run goes on in the same file.
mkdir small fixed
if mount -t tmpfs -o size=8k none small 2>/dev/null; then
	head -c 4096 /dev/zero >small/other
	goes_on 'a full disk' --log small/log
	whole small/log
	lines=$(wc -l <small/log)
	rm small/other
	plan/rank train --data draw --steps 41 --checkpoint saved --resume \
		--log small/log >out 2>err && [ ! -s err ] ||
		bad 'there is space again'
	whole small/log
	[ "$(wc -l <small/log)" -gt "$lines" ] || bad 'nothing was added'
fi

# A line that another end has cut stays alone.
printf '{"step": 1, "lo' >cut
plan/rank train --data draw --steps 1 --log cut >out 2>err || bad 'a cut line'
sed 1d cut >rest
[ "$(head -n 1 cut)" = '{"step": 1, "lo' ] || bad 'the cut line grew'
whole rest

# What cannot be begun is refused, with the reason.
if mount -t tmpfs -o ro none fixed 2>/dev/null; then
	for option in --log --tensorboard; do
		plan/rank train --data draw --steps 1 $option fixed/new \
			>out 2>err && bad "$option on a read-only disk"
		grep -q '^rank.*fixed/new: cannot .*: Read-only file system$' \
			err || bad "$option: another reason"
	done
fi
exit $failed

#!/bin/sh
# What happens to plans that run: ranks that are killed at random moments,
# stopped, ended by signals; disks that are full; runs that meet in one folder.
# What is lost must be nothing, and who is to blame must be said.
#	FAULT_MOMENTS=200 FAULT_SEED=7 sh tests/cli/run/cpu-faults.sh
. "${top_srcdir:?}/tests/lib.sh"
need binaries llvm linker
model=$examples/tiny-dense.llm
seed=${FAULT_SEED:-$(date +%s)}
echo "FAULT_SEED=$seed"
moments=${FAULT_MOMENTS:-$(have time && echo 4 || echo 2)}
test -r "/proc/$$/task/$$/children" || skip 'nobody tells who the ranks are'

for plan in tp=2 dp=2,zero=1; do
	run -w --draft --no-whole --target cpux4 --pin "$plan,pp=2" -o "${plan%%=*}" "$model"
	"${plan%%=*}/rank" --version >out 2>err || skip "$(cat err)"
done
tp/rank bench --local --steps 1 >out 2>err || skip "$(cat err)"
# Text as raw u16.
head -c 9000 "$top_srcdir/README.md" | LC_ALL=C tr '\n\200-\377' ' ' |
	fold -w 1 | tr '\n' '\000' | head -c 16000 >text.bin

# starts PLAN FOLDER ARGUMENTS..: 40 steps in the background
starts()
{
	plan=$1 folder=$2
	shift 2
	rm -f pid
	timeout 600 sh -c 'echo $$ >pid; exec "$@"' sh "$plan/rank" train \
		--local --data text.bin --steps 40 --every 3 \
		--checkpoint "$folder" --resume "$@" >out 2>err &
	job=$!
	until test -s pid; do
		sleep 0.001
	done
	pid=$(cat pid)
}

# same PLAN FOLDER WHAT: what a run in that folder ends with is the
# reference's, once it has gone on to its end
same()
{
	"$1/rank" train --local --data text.bin --steps 40 --every 3 \
		--checkpoint "$2" --resume >out 2>err || {
		bad "$3: it does not resume"
		return
	}
	for file in model.safetensors state.safetensors checkpoint.json; do
		cmp "$1.whole/step-00000040/$file" \
			"$2/step-00000040/$file" || bad "$3: $file differs"
	done
	case $(ls "$2") in *tmp*) bad "$3: leaves $(ls "$2")" ;; esac
}

# names RANK WHAT: all that anybody says is about that one
names()
{
	grep -q "^rank: rank $1 was killed by signal 9" err ||
		bad "$2: nobody says that rank $1 was killed"
	grep '^rank' err | grep -v "^rank $1 \|rank $1\b" &&
		bad "$2: somebody does not name rank $1"
}

# ---- ranks that are killed ----

for plan in tp dp; do
	from=$(now_ms)
	starts $plan $plan.whole
	wait $job || bad "$plan"
	long=$(($(now_ms) - from))
	rm -rf $plan.whole
	"$plan/rank" train --local --data text.bin --steps 40 --every 3 \
		--checkpoint $plan.whole >out 2>err || bad "$plan"
	i=0
	while test $i -lt $(((moments + 1) / 2)); do
		i=$((i + 1))
		rm -rf ck
		starts $plan ck
		draw_below $((long + 10))
		late=$drawn
		test $((i % 4)) = 1 && late=$((late % 6))
		sleep "$(printf 0.%03d "$late")"
		draw_below 4
		a='' b='' c='' d=''
		{
			read -r a b c d <"/proc/$pid/task/$pid/children"
		} 2>/dev/null
		victim=$(echo "$a $b $c $d" |
			cut -d' ' -f$((drawn + 1)))
		from=$(now_ms)
		test -n "$victim" && kill -KILL "$victim" 2>/dev/null ||
			victim=
		wait $job
		got=$?
		took=$(($(now_ms) - from))
		what="$plan, killed ${victim:-nobody} after $late ms"
		# eight seconds, and what a busy machine adds; waiting for
		# one that is gone would take the 300 of --timeout
		test $took -lt 100000 || bad "$what: it took $took ms to end"
		dead=$(sed -n 's/^rank: rank \([0-9]*\) was killed.*/\1/p' err)
		if test -n "$dead"; then
			test $got = 1 || bad "$what: exit status $got"
			names "$dead" "$what"
		elif test $got != 0; then
			bad "$what: exit status $got"
		fi
		test -z "${FAULT_TELL:-}" || {
			echo "$what: $took ms, $got"
			cat err
		}
		same $plan ck "$what"
	done
done
# ---- one that is stopped, and a parent that is killed ----

starts tp stopped --steps 100000000 --timeout 1
waits_for 'step 1 ' out
read -r a b c d <"/proc/$pid/task/$pid/children"
kill -STOP "$c"
wait $job
test $? = 1 || bad "stopped: exit status $?"
# Whom rank 2 keeps waiting, or one who waits for those, is the first to say it.
grep -q '^rank [013] .*: waited [0-9]*\.[0-9] s in .*: arrived: .*; missing: .*rank 2 (pp=1 tp=0),\? \(which is in\|is in\|has done\)' err ||
	bad 'stopped: nobody says that rank 2 has not come'
kill -0 "$c" 2>/dev/null && bad 'stopped: it is left behind'

starts tp orphans --steps 100000000
waits_for 'step 1 ' out
read -r a b c d <"/proc/$pid/task/$pid/children"
kill -KILL "$pid"
wait $job
i=0
while grep -s '^State:' /proc/"$a"/status /proc/"$b"/status \
	/proc/"$c"/status /proc/"$d"/status | grep -qv Z; do
	i=$((i + 1))
	test $i -lt 100 || {
		bad 'orphans: ranks outlive the one who started them'
		break
	}
	sleep 0.1
done

# ---- ended by a signal: with a checkpoint, and the same bits later ----

# signalled NAME SIGNAL TO: to a process, or to -PID, all of its group
signalled()
{
	rm -rf ck
	starts tp ck
	sleep 0.1
	test "$2" = all && pid=-$(ps -o pgid= -p "$pid" | tr -d ' ')
	kill -s "$1" -- "$pid"
	wait $job || bad "$1 to $2: exit status $?"
	last=$(sed -n 's/^ended at step //p' out)
	test -f "ck/step-$(printf %08d "$last")/checkpoint.json" ||
		bad "$1 to $2: no checkpoint of step $last"
	same tp ck "$1 to $2"
}

signalled TERM one
signalled INT all

# ---- a full disk ----

cat >full.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int
full(const char *call)
{
	const char *which = getenv("FULL");

	return which && strcmp(which, call) == 0;
}

int
posix_fallocate(int fd, off_t at, off_t n)
{
	return full("room") ? ENOSPC : ftruncate(fd, at + n) ? errno : 0;
}

ssize_t
pwrite(int fd, const void *p, size_t n, off_t at)
{
	ssize_t (*real)(int, const void *, size_t, off_t);

	*(void **)&real = dlsym(RTLD_NEXT, "pwrite");
	if (full("write") && n > 4096) {
		errno = ENOSPC;
		return -1;
	}
	return real(fd, p, n, at);
}

int
fsync(int fd)
{
	errno = EIO;
	return full("sync") ? -1 : fd < 0;
}
END
# disk WHAT TEXT: a save fails, and what was there stays and is gone on with
disk()
{
	rm -rf ck
	tp/rank train --local --data text.bin --steps 6 --checkpoint ck \
		>out 2>err || bad 'disk'
	LD_PRELOAD="$PWD/full.so" FULL=$1 tp/rank train --local \
		--data text.bin --steps 40 --every 3 --checkpoint ck \
		--resume >out 2>err
	test $? = 1 || bad "disk: $1: exit status $?"
	grep -q "$2" err || bad "disk: $1: no '$2'"
	test "$(ls ck)" = step-00000006 || bad "disk: $1: $(ls ck)"
	same tp ck "disk: $1"
}

# A sanitizer wants to be the first library that is loaded.
if ! grep -q __asan_init tp/rank &&
	${CC:-cc} -shared -fPIC -o full.so full.c -ldl 2>cc.err; then
	disk room 'model.safetensors: cannot reserve its [0-9]* bytes: No space'
	disk write 'cannot write: No space left on device'
	disk sync 'cannot write to disk: Input/output error'
fi
if mkdir small && mount -t tmpfs -o size=4m none small 2>/dev/null; then
	tp/rank train --local --data text.bin --steps 40 --every 3 --keep 9 \
		--checkpoint small/ck >out 2>err
	test $? = 1 || bad "a small disk: exit status $?"
	grep -q 'cannot reserve its .* bytes: No space left' err ||
		bad 'a small disk'
	cp -r small/ck ck.small
	umount small
	same tp ck.small 'a small disk'
fi

# ---- two runs in one folder ----

starts tp shared --steps 100000000
until test -d shared; do
	sleep 0.01
done
sleep 0.1
tp/rank train --local --data text.bin --steps 3 --checkpoint shared \
	>out2 2>err2 && bad 'two runs in one folder'
grep -q '^rank 0 (pp=0 tp=0): shared: another run.* saves into this folder' \
	err2 || bad "two runs: $(cat err2)"
kill -TERM "$pid"
wait $job || bad 'two runs: the first'

# ---- through another plan and back: the same bytes ----

cp -r tp.whole there
for plan in dp tp; do
	mv there here
	"$plan/rank" train --local --data text.bin --steps 40 --resume here \
		--checkpoint there >out 2>err || bad 'there'
	for file in model.safetensors state.safetensors checkpoint.json; do
		cmp "tp.whole/step-00000040/$file" \
			"there/step-00000040/$file" ||
			bad "through $plan: $file differs"
	done
	rm -rf here
done
exit $failed

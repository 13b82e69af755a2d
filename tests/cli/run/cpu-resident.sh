#!/bin/sh
# What a rank has resident at its most, and what lies in its shared pages at
# the end, is what the plan says that it allocates: within 5% and 32 MiB.
. "${top_srcdir:?}/tests/lib.sh"
need binaries llvm linker
test -r "/proc/$$/task/$$/children" || skip 'nobody tells who the ranks are'
grep -q VmHWM /proc/self/status || skip 'nobody tells what they have'
! grep -q __asan_init "$LLMC" || skip "a sanitizer's shadow is resident, too"

# 12 million weights: four numbers for each are 190 MiB.
sed -e 's/layers = 2, hidden = 64/layers = 8, hidden = 320/' \
	-e 's/ffn = 160, vocab = 256/ffn = 1280, vocab = 1024/' \
	"$examples/tiny-dense.llm" >model.llm

# status_of PID NAME: KiB
status_of()
{
	sed -n "s/^$2:[^0-9]*\\([0-9]*\\) kB/\\1/p" "/proc/$1/status"
}

# measured NAME ARGUMENTS..
measured()
{
	name=$1
	shift
	run -w --draft --no-whole "$@" -o "$name" model.llm || return
	test "$name" != one ||
		"$name/rank" bench --steps 1 >out 2>err || skip "$(cat err)"
	"$name/rank" inspect >inspect
	arena=$(sed -n 's/^ *arena  *\([0-9]*\) bytes.*/\1/p' inspect |
		sort -n | tail -1)
	arena=$((arena / 1024))
	most=$((arena + arena / 20 + 32 * 1024))
	rm -f log
	"$name/rank" train --local --data draw --steps 1000000 --log log \
		--checkpoint "$name.ck" --every 2 >out 2>err &
	job=$!
	i=0
	until test -s log && grep -q '"step": 3,' log; do
		i=$((i + 1))
		test $i -lt 600 && kill -0 $job 2>/dev/null || {
			bad "$name"
			return
		}
		sleep 0.1
	done
	ranks=$job
	case $name in
	one) ;;
	*) ranks=$(cat /proc/$job/task/$job/children) ;;
	esac
	for pid in $ranks; do
		high=$(status_of "$pid" VmHWM)
		own=$(status_of "$pid" RssAnon)
		shared=$(status_of "$pid" RssShmem)
		say="$name: arena $arena KiB, at most $high resident,"
		say="$say now $own of its own and $shared shared"
		test -z "${FAULT_TELL:-}" || echo "$say"
		test "$high" -le $most || bad "$say: more than $most"
		test $((own + shared)) -le $most || bad "$say"
		test "$high" -ge $((arena / 3)) || bad "$say: so little?"
	done
	kill -KILL $job
	wait $job 2>/dev/null
	rm -rf "$name.ck"
}

# Nothing that was asked of the model may have missed it.
grep -q 'layers = 8, hidden = 320' model.llm || bad 'another model'
measured one --target cpux1
! today 2 || measured tp --target cpux2 --pin tp=2
! today 2 || measured dp --target cpux2 --pin dp=2,zero=1
exit $failed

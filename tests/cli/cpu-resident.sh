#!/bin/sh
# What a rank has resident at its most, and what lies in its shared pages at
# the end, is what the plan says that it allocates: within 5% and 32 MiB.
set -u
[ "${BINARY_TESTS-}" = skip ] && exit 77
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
trap 'exit 99' HUP INT TERM
cd "$tmp" || exit 99
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
status=0

"$LLMC" --version | grep -q '^cpu: LLVM' || exit 77
${LLMC_LINKER:-${CC:-cc}} --version >/dev/null 2>&1 || exit 77
test -r "/proc/$$/task/$$/children" || exit 77
grep -q VmHWM /proc/self/status || exit 77
# a sanitizer's shadow is resident too
! grep -q __asan_init "$LLMC" || exit 77

fail()
{
	echo "FAIL $*"
	status=1
}

# 12 million weights: four numbers for each are 190 MiB.
sed -e 's/layers = 2, hidden = 64/layers = 8, hidden = 320/' \
	-e 's/ffn = 160, vocab = 256/ffn = 1280, vocab = 1024/' \
	"${top_srcdir:?}/examples/tiny-dense.llm" >model.llm

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
	"$LLMC" -w "$@" -o "$name" model.llm >out 2>err || {
		fail "llmc $*: $(cat err)"
		return
	}
	test "$name" != one ||
		"$name/rank" bench --steps 1 >out 2>err || exit 77
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
			fail "$name: $(cat err)"
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
		test "$high" -le $most || fail "$say: more than $most"
		test $((own + shared)) -le $most || fail "$say"
		test "$high" -ge $((arena / 3)) || fail "$say: so little?"
	done
	kill -KILL $job
	wait $job 2>/dev/null
	rm -rf "$name.ck"
}

# Nothing that was asked of the model may have missed it.
grep -q 'layers = 8, hidden = 320' model.llm || fail 'another model'
measured one --target cpux1
measured tp --target cpux2 --pin tp=2
measured dp --target cpux2 --pin dp=2,zero=1
exit $status

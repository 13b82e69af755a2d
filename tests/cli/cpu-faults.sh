#!/bin/sh
# What happens to plans that run: ranks that are killed at random moments,
# stopped, told to end; disks that are full; runs that meet in one folder.
# What is lost must be nothing, and who is to blame must be said.
#	FAULT_MOMENTS=200 FAULT_SEED=7 sh tests/cli/cpu-faults.sh
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
trap 'exit 99' HUP INT TERM
model=${top_srcdir:?}/examples/tiny-dense.llm
seed=${FAULT_SEED:-$(date +%s)}
began=$seed
moments=${FAULT_MOMENTS:-12}
cd "$tmp" || exit 99
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
status=0

"$LLMC" --version | grep -q '^cpu: LLVM' || exit 77
${LLMC_LINKER:-${CC:-cc}} --version >/dev/null 2>&1 || exit 77
test -r /proc/self/task/self/children ||
	test -r "/proc/$$/task/$$/children" || exit 77

fail()
{
	echo "FAIL $* (FAULT_SEED=$began)"
	status=1
}

for plan in tp=2 dp=2,zero=1; do
	"$LLMC" -w --target cpux4 --pin "$plan,pp=2" -o "${plan%%=*}" \
		"$model" >out || fail "llmc $plan"
	"${plan%%=*}/rank" --version >out 2>err || exit 77
done
"tp/rank" bench --local --steps 1 >out 2>err || {
	cat err
	exit 77		# a CPU of another kind
}
# Text as raw u16.
head -c 9000 "$top_srcdir/README.md" | LC_ALL=C tr '\n\200-\377' ' ' |
	fold -w 1 | tr '\n' '\000' | head -c 16000 >text.bin

now_ms()
{
	echo $(($(date +%s%N) / 1000000))
}

# below N: a random number
below()
{
	seed=$(((seed * 1103515245 + 12345) & 2147483647))
	drawn=$((seed / 65536 % $1))
}

# starts PLAN FOLDER ARGUMENTS..: 40 steps in the background
starts()
{
	plan=$1 folder=$2
	shift 2
	rm -f pid
	timeout 30 sh -c 'echo $$ >pid; exec "$@"' sh "$plan/rank" train \
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
		fail "$3: it does not resume: $(cat err)"
		return
	}
	for file in model.safetensors state.safetensors checkpoint.json; do
		cmp "$1.whole/step-00000040/$file" \
			"$2/step-00000040/$file" || fail "$3: $file differs"
	done
	ls "$2" | grep -q tmp && fail "$3: leaves $(ls "$2")"
}

# names RANK WHAT: all that anybody says is about that one
names()
{
	grep -q "^rank: rank $1 was killed by signal 9" err ||
		fail "$2: nobody says that rank $1 was killed: $(cat err)"
	grep '^rank' err | grep -v "^rank $1 \|rank $1\b" &&
		fail "$2: somebody does not name rank $1: $(cat err)"
}

# ---- ranks that are killed ----

for plan in tp dp; do
	from=$(now_ms)
	starts $plan $plan.whole
	wait $job || fail "$plan: $(cat err)"
	long=$(($(now_ms) - from))
	rm -rf $plan.whole
	"$plan/rank" train --local --data text.bin --steps 40 --every 3 \
		--checkpoint $plan.whole >out 2>err || fail "$plan: $(cat err)"
	i=0
	while test $i -lt $(((moments + 1) / 2)); do
		i=$((i + 1))
		rm -rf ck
		starts $plan ck
		below $((long + 10))
		late=$drawn
		test $((i % 4)) = 1 && late=$((late % 6))
		sleep "$(printf 0.%03d "$late")"
		below 4
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
		test $took -lt 10000 || fail "$what: it took $took ms to end"
		dead=$(sed -n 's/^rank: rank \([0-9]*\) was killed.*/\1/p' err)
		if test -n "$dead"; then
			test $got = 1 || fail "$what: exit status $got"
			names "$dead" "$what"
		elif test $got != 0; then
			fail "$what: exit status $got: $(cat err)"
		fi
		test -z "${FAULT_TELL:-}" || {
			echo "$what: $took ms, $got"
			cat err
		}
		same $plan ck "$what"
	done
done
exit $status

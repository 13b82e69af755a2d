#!/bin/sh
# Ranks of several hosts that communicate by TCP alone, as torchrun and Slurm
# start them: the same bits as by shared memory; who dies, is missing or comes
# twice is named.  Hosts are played by this one.
. "${top_srcdir:?}/tests/lib.sh"
need binaries

# ---- collectives, held to plain loops; faults ----

# passes PROGRAM TEST: of two, one on each day
passes()
{
	today 2 || return
	COMM_VIA=tcp "$build/tests/unit/comm/$1" "$2" >out 2>&1 || bad "$1 $2"
}

if test -x "$build/tests/unit/comm/t-comm"; then
	passes t-comm test_random
	passes t-comm-collective test_numbers
	passes t-comm-collective test_resident
	passes t-comm-collective test_pipeline
	passes t-comm-collective test_holders
	passes t-queue test_full
	passes t-queue test_order
	passes t-queue test_wrong
	passes t-queue test_death
	passes t-faults test_message
	passes t-faults test_stopped
	passes t-faults test_apart
	passes t-faults test_gives_up
	passes t-faults test_news
	LLMC_MESSAGE_SUMS=on
	export LLMC_MESSAGE_SUMS
	passes t-comm test_random
	if have time; then
		passes t-comm-collective test_pipeline
		passes t-queue test_order
	fi
	passes t-faults test_message
	unset LLMC_MESSAGE_SUMS
fi

# ---- whole runs ----

have llvm linker || exit $failed
model=$examples/tiny-dense.llm

# torchrun N COMMAND..: as if two hosts had half of the ranks each.  Its agent
# has the port that it names, so the ranks take another one near it.
torchrun()
{
	n=$1 pids='' r=0 worst=0
	shift
	while [ $r -lt "$n" ]; do
		RANK=$r WORLD_SIZE=$n LOCAL_RANK=$((r % (n / 2))) \
			LOCAL_WORLD_SIZE=$((n / 2)) MASTER_ADDR=localhost \
			MASTER_PORT=$((10000 + $$ % 20000)) \
			TORCHELASTIC_USE_AGENT_STORE=True \
			"$@" >out.$r 2>err.$r &
		pids="$pids $!"
		r=$((r + 1))
	done
	for pid in $pids; do
		wait "$pid" || worst=$?
	done
	return $worst
}

# slurm N COMMAND..: as a step of a job on two nodes
slurm()
{
	n=$1 pids='' r=0 worst=0
	shift
	while [ $r -lt "$n" ]; do
		SLURM_PROCID=$r SLURM_NTASKS=$n SLURM_NODEID=$((r * 2 / n)) \
			SLURM_LOCALID=$((r % (n / 2))) SLURM_JOB_ID=$$ \
			SLURM_STEP_ID="${tmp##*.}" \
			SLURM_STEP_NODELIST='localhost,n[2-3]' \
			SLURM_STEP_TASKS_PER_NODE="$((n / 2))(x2)" \
			"$@" >out.$r 2>err.$r &
		pids="$pids $!"
		r=$((r + 1))
	done
	for pid in $pids; do
		wait "$pid" || worst=$?
	done
	return $worst
}

# trained NAME COMMAND..: what it says of steps to NAME.said
trained()
{
	name=$1
	shift
	"$@" --data draw --steps 3 --log "$name.log" --checkpoint "$name.ckpt" \
		--timeout 300 >out 2>err || {
		bad "$name: exit status $?"
		cat out.* err.*
	}
	sed -n 's/\("loss": [^,]*\),.*/\1/p' "$name.log" >"$name.said"
	test "$(wc -l <"$name.said")" -eq 3 || bad "$name: not three steps"
}

# same A B
same()
{
	cmp "$1.said" "$2.said" || bad "$2: other losses than $1"
	for file in model state; do
		cmp "$1.ckpt/step-00000003/$file.safetensors" \
			"$2.ckpt/step-00000003/$file.safetensors" ||
			bad "$2: $file is another than of $1"
	done
}

for plan in 'stages tp=2,pp=2' 'zero dp=4,zero=3'; do
	to=${plan% *}
	run -w --draft --no-whole --target cpux4 --pin "${plan#* }" -o "$to" \
		"$model" || exit
	have time || [ $to = stages ] || continue
	trained "$to-shm" "$to/rank" train --local
	trained "$to-torch" torchrun 4 "$to/rank" train
	same "$to-shm" "$to-torch"
done
trained slurm slurm 4 stages/rank train
same stages-shm slurm
LLMC_RENDEZVOUS=file:$tmp/place
export LLMC_RENDEZVOUS
trained file torchrun 4 stages/rank train
same stages-shm file
test ! -e place || bad 'the place of a run is left over'

# ---- before a run: what ranks are, and what links should carry ----

rm -f out.*
torchrun 4 stages/rank preflight || bad "preflight: $(cat out.* err.*)"
for want in 'rank 3 (pp=1 tp=1) ' 'small work' 'of what cpux4 promises' \
		'alike      devices are the same on all ranks'; do
	grep -qF -- "$want" out.0 || bad "preflight has no $want: $(cat out.0)"
done
test ! -s out.1 || bad 'another rank speaks too'

# ---- who cannot ----

# declined TEXT COMMAND..: exit status 1, and that text in one of the outputs
declined()
{
	text=$1
	shift
	rm -f out.* err.*
	"$@" >out 2>err
	status=$?
	test $status -eq 1 || bad "$*: exit status $status"
	cat out err out.* err.* 2>/dev/null | grep -qF -- "$text" ||
		bad "$*: no '$text' in: $(cat out.* err.* 2>/dev/null)"
}

as_two='env RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2'
# shellcheck disable=SC2086 # words
{
declined "'nowhere', expected host:port" env LLMC_RENDEZVOUS=nowhere \
	$as_two stages/rank bench
declined "1 of 4 ranks have come to the place that" $as_two stages/rank \
	bench --timeout 0.3
declined 'runs another plan than rank' slurm 4 sh -c \
	'test $SLURM_PROCID = 2 && p=zero || p=stages
	exec $p/rank bench --steps 1 --timeout 20'
unset LLMC_RENDEZVOUS
declined 'must know where: set MASTER_ADDR' $as_two stages/rank bench
declined "MASTER_PORT is 'x', expected" env MASTER_ADDR=localhost \
	MASTER_PORT=x $as_two stages/rank bench
declined 'ranks that --local starts use shared memory' stages/rank bench \
	--local --transport tcp
declined '2 of 4 ranks are on this host: shared memory' $as_two stages/rank \
	bench --transport shm
declined "LLMC_TRANSPORT is 'smoke', expected auto, shm, mpi or tcp" \
	env LLMC_TRANSPORT=smoke stages/rank bench --local
}

# ---- sudden death ----

cat >note <<'END'
echo $$ >pid.$RANK
exec "$@"
END
rm -f log err.*
torchrun 4 sh note stages/rank train --data draw --steps 1000000000 \
	--log log &
all=$!
waits_for '{"step": 20,' log
at=$(date +%s)
kill -KILL "$(cat pid.2)"
wait $all && bad 'a rank was killed, and nobody minds'
# Long before the 300 s of --timeout, however busy the machine is.
test $(($(date +%s) - at)) -le 100 || bad 'it took more than 100 s to end'
for r in 0 1 3; do
	grep -q "rank $r (.*rank 2 (pp=1 tp=0) died while rank" err.$r ||
		bad "rank $r does not name who died: $(cat err.$r)"
done
exit $failed

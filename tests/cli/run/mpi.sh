#!/bin/sh
# Ranks that communicate by MPI: the same bits as by shared memory, whatever
# carries the messages; and what is said of ranks that are lost, and of what
# cannot be.
. "${top_srcdir:?}/tests/lib.sh"
need binaries
grep -q '^#define HAVE_MPI 1' "$build/config.h" || skip 'no MPI'
# Open MPI's ways, old and new, to start more ranks than there are cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
# What MPI itself has not freed is not looked at.
export ASAN_OPTIONS="${ASAN_OPTIONS:-exitcode=99}:detect_leaks=0"
mpirun -n 2 true >/dev/null 2>&1 || skip 'mpirun does not run'

# ---- collectives, held to plain loops ----

# passes N PROGRAM TEST: of two, one on each day
passes()
{
	today 2 || return
	mpirun -n "$1" "$build/tests/unit/comm/$2" "$3" >out 2>&1 ||
		bad "$2 $3 of $1 ranks"
}

if test -x "$build/tests/unit/comm/t-comm"; then
	# More ranks than cores wait for each other awake.  Sanitizers see what
	# is MPI's own with a few; all else of these tests they see in the
	# tests themselves, and by tcp.sh.
	sizes=3
	! have time || sizes='2 3 8'
	for n in $sizes; do
		passes $n t-comm test_random
	done
	passes 4 t-comm-collective test_many
	passes 4 t-comm-collective test_numbers
	passes 2 t-comm-collective test_resident
	passes 3 t-queue test_full
	passes 3 t-queue test_order
	if have time; then
		passes 8 t-comm-collective test_pipeline
		passes 8 t-comm-collective test_holders
	fi
fi

# says N TEST TEXT: what must fail does, and says why
says()
{
	mpirun -n "$1" "$build/tests/unit/comm/t-faults" "$2" >out 2>&1 &&
		bad "$2 does not fail"
	grep -qF -- "$3" out || bad "$2: '$3' is not said"
}

if test -x "$build/tests/unit/comm/t-faults"; then
	# which rank says so: the others may be ended before they do
	says 4 test_apart 'in all_gather y, layer 5, microbatch 2'
	grep 'in all_reduce x, layer 5, microbatch 2' out |
		grep -q 'rank 1 (dp=0 tp=1)' || bad 'nobody names rank 1'
	says 4 test_gives_up 'rank 2 (dp=1 tp=0) gave up: the disk is full'
	says 4 test_news 'says no data'
	[ "$(grep -c 'says no data' out)" -eq 1 ] ||
		bad 'what all ranks find is said by more than rank 0'
	says 4 test_another_plan 'rank 2 runs another plan than rank 0'
fi

# ---- whole runs: the same losses, the same checkpoints ----

have llvm linker || exit $failed
model=$examples/tiny-dense.llm

# trained NAME COMMAND..: what it says of steps to NAME.said
trained()
{
	name=$1
	shift
	"$@" --data draw --steps 3 --log "$name.log" --checkpoint "$name.ckpt" \
		--timeout 300 >out 2>err || bad "$name: exit status $?"
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

# runs PLAN RANKS PIN: by shared memory, by MPI, and by MPI over sockets
runs()
{
	run -w --draft --target "cpux$2" --pin "$3" -o "$1" "$model" || return
	trained "$1-shm" "$1/rank" train --local
	trained "$1-mpi" mpirun -n "$2" "$1/rank" train --transport mpi
	same "$1-shm" "$1-mpi"
	have time || return 0
	export OMPI_MCA_btl=self,tcp
	trained "$1-tcp" mpirun -n "$2" "$1/rank" train --transport mpi
	unset OMPI_MCA_btl
	same "$1-shm" "$1-tcp"
}

runs stages 4 tp=2,pp=2
! have time || runs zero 4 dp=4,zero=3
runs context 2 cp=2

# ---- who takes it, and who cannot ----

# As if they were on two hosts: MPI without being asked for.
cat >two-hosts <<'END'
#!/bin/sh
OMPI_COMM_WORLD_LOCAL_SIZE=2
OMPI_COMM_WORLD_LOCAL_RANK=$((OMPI_COMM_WORLD_RANK % 2))
export OMPI_COMM_WORLD_LOCAL_SIZE OMPI_COMM_WORLD_LOCAL_RANK
exec "$@"
END
chmod +x two-hosts
if mpirun -n 1 sh -c 'test -n "${OMPI_COMM_WORLD_LOCAL_SIZE:-}"'; then
	trained hosts mpirun -n 4 ./two-hosts stages/rank train
	same stages-shm hosts
	mpirun -n 4 ./two-hosts stages/rank bench --transport shm >out 2>&1 &&
		bad 'shared memory of two hosts'
	grep -q '2 of 4 ranks are on this host: shared memory' out ||
		bad 'two hosts'
fi
LLMC_TRANSPORT=mpi mpirun -n 2 context/rank verify >out 2>&1 || bad 'verify'

# declined TEXT COMMAND..: exit status 1, and that text
declined()
{
	text=$1
	shift
	"$@" >out 2>&1
	status=$?
	test $status -eq 1 || bad "$*: exit status $status"
	grep -qF -- "$text" out || bad "$*: no '$text'"
}

declined 'ranks that --local starts use shared memory' \
	context/rank bench --local --transport mpi
# A launcher that MPI does not know.
declined 'MPI that it is 0 of 1' env RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 \
	LOCAL_WORLD_SIZE=2 context/rank bench --transport mpi

# ---- sudden death ----

# Each rank says which process it is, and is one of its own.
cat >note <<'END'
#!/bin/sh
echo "$$" >"pid.${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${PMIX_RANK-}}}"
exec "$@"
END
chmod +x note

# begins: a run that goes on for ever, as far as its twentieth step
begins()
{
	rm -f log err pid.*
	mpirun -n 4 ./note stages/rank train --data draw --steps 1000000000 \
		--transport mpi --log log >out 2>err &
	pid=$!
	waits_for '{"step": 20,' log
}

# runs_on PID: what nobody has waited for yet does not
runs_on()
{
	grep -q '^State:.[^ZX]' "/proc/$1/status" 2>/dev/null
}

# ends_soon PID WHO: within two minutes
ends_soon()
{
	for _ in $(seq 1200); do
		runs_on "$1" || return 0
		sleep 0.1
	done
	kill -KILL "$1"
	bad "a rank was killed, and $2 goes on"
}

# all_end [RANK]: mpirun does, all ranks do, and it says that this was killed
all_end()
{
	ends_soon $pid mpirun
	wait $pid && bad 'a rank was killed, and nobody minds'
	for file in pid.*; do
		ends_soon "$(cat "$file")" "$file"
	done
	[ ! "${OMPI-}" ] || [ ! "${1-}" ] ||
		grep -q "rank $1 with PID .* on signal 9" err ||
		bad "mpirun does not name rank $1"
}
if mpirun --version | grep -q 'Open MPI'; then
	OMPI=yes
fi

# What is said: a rank that gets SIGTERM while it waits prints where. When a
# rank dies, mpirun tells the others so, and kills them a second later, which
# may be sooner than a busy machine lets them speak. So here they get the signal
# while the one that they wait for is stopped, and it dies once they have
# spoken.
begins
kill -STOP "$(cat pid.2)"
for r in 0 1 3; do
	kill -TERM "$(cat pid.$r)"
done
waits_for 'rank . (pp=. tp=.): waited .* in .*missing: [0-9, ]*; asked to end' \
	err
kill -KILL "$(cat pid.2)"
all_end 2

# How it ends, as mpirun does by itself.
begins
kill -KILL "$(cat pid.3)"
all_end 3

# Before MPI has begun, the others wait in its own first call; mpirun says that
# a process failed, and not which.
cat >dies <<'END'
#!/bin/sh
if [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${PMIX_RANK-}}}" = 1 ]; then
	kill -KILL $$
fi
exec "$@"
END
chmod +x dies
rm -f err pid.*
mpirun -n 4 ./note ./dies stages/rank train --data draw --steps 1 \
	--transport mpi >out 2>err &
pid=$!
all_end
exit $failed

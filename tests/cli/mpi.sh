#!/bin/sh
# Ranks that talk by MPI: the same bits as by shared memory, whatever carries
# the messages; and what is said of ranks that are lost, and of what cannot be.
set -u
[ "${BINARY_TESTS-}" = skip ] && exit 77
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
trap 'exit 99' HUP INT TERM
build=${LLMC%/*}
grep -q '^#define HAVE_MPI 1' "$build/config.h" || exit 77
# Open MPI's ways, old and new, to start more ranks than there are cores.
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
OMPI_MCA_rmaps_base_oversubscribe=1
PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
export OMPI_MCA_rmaps_base_oversubscribe PRTE_MCA_rmaps_default_mapping_policy
# What MPI itself has not freed is not looked at.
ASAN_OPTIONS=${ASAN_OPTIONS:-exitcode=99}:detect_leaks=0
export ASAN_OPTIONS
mpirun -n 2 true >/dev/null 2>&1 || exit 77
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE LLMC_TRANSPORT
cd "$tmp" || exit 99
fail=0

bad()
{
	echo "FAIL $*"
	fail=1
}

# ---- talks, held to plain loops ----

# talks N PROGRAM TEST
talks()
{
	mpirun -n "$1" "$build/tests/unit/$2" "$3" >out 2>&1 || {
		cat out
		bad "$2 $3 of $1 ranks"
	}
}

if test -x "$build/tests/unit/t-comm"; then
	for n in 2 3 4 8; do
		talks $n t-comm test_random
	done
	talks 4 t-talk test_many
	talks 4 t-talk test_numbers
	talks 2 t-talk test_resident
	talks 8 t-talk test_pipeline
	talks 8 t-talk test_holders
fi

# says N TEST TEXT: what must fail does, and says why
says()
{
	mpirun -n "$1" "$build/tests/unit/t-faults" "$2" >out 2>&1 &&
		bad "$2 does not fail"
	grep -qF -- "$3" out || {
		cat out
		bad "$2: '$3' is not said"
	}
}

if test -x "$build/tests/unit/t-faults"; then
	says 4 test_apart 'rank 1 (dp=0 tp=1) is in all_gather y, layer 5, microbatch 2, rank 0 (dp=0 tp=0) in all_reduce x, layer 5, microbatch 2'
	says 4 test_gives_up 'rank 2 (dp=1 tp=0) gave up: the disk is full'
	says 4 test_another_plan 'rank 2 runs another plan than rank 0'
fi

# ---- whole runs: the same losses, the same checkpoints ----

"$LLMC" --version | grep -q '^cpu: LLVM' || exit $fail
${LLMC_LINKER:-${CC:-cc}} --version >/dev/null 2>&1 || exit $fail
model=${top_srcdir:?}/examples/tiny-dense.llm

# trained NAME COMMAND..: what it says of steps to NAME.said
trained()
{
	name=$1
	shift
	"$@" --data draw --steps 3 --log "$name.log" --checkpoint "$name.ckpt" \
		--timeout 60 >out 2>err || {
		cat out err
		bad "$name: exit status $?"
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

# runs PLAN RANKS PIN: by shared memory, by MPI, and by MPI over sockets
runs()
{
	"$LLMC" -w --target "cpux$2" --pin "$3" -o "$1" "$model" >out 2>err || {
		cat err
		bad "$1 cannot be compiled"
		return
	}
	trained "$1-shm" "$1/rank" train --local
	trained "$1-mpi" mpirun -n "$2" "$1/rank" train --transport mpi
	same "$1-shm" "$1-mpi"
	OMPI_MCA_btl=self,tcp
	export OMPI_MCA_btl
	trained "$1-tcp" mpirun -n "$2" "$1/rank" train --transport mpi
	unset OMPI_MCA_btl
	same "$1-shm" "$1-tcp"
}

runs stages 4 tp=2,pp=2
if [ "${SLOW_TESTS-}" != skip ]; then
	runs data 4 dp=4
	runs zero 4 dp=4,zero=3
fi
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
		bad "two hosts: $(cat out)"
fi
LLMC_TRANSPORT=mpi mpirun -n 2 context/rank verify >out 2>&1 ||
	bad "verify: $(cat out)"

# refused TEXT COMMAND..: exit status 1, and that text
refused()
{
	text=$1
	shift
	"$@" >out 2>&1
	status=$?
	test $status -eq 1 || bad "$*: exit status $status"
	grep -qF -- "$text" out || bad "$*: '$text' is not in: $(cat out)"
}

refused 'ranks that --local starts talk by shared memory' \
	context/rank bench --local --transport mpi
# A launcher that MPI does not know.
refused 'MPI that it is 0 of 1' env RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 \
	LOCAL_WORLD_SIZE=2 context/rank bench --transport mpi

# ---- sudden death ----

rm -f log pids
mpirun -n 4 sh -c 'echo $$ >>pids; exec "$@"' sh stages/rank train --data \
	draw --steps 1000000000 --transport mpi --log log >out 2>err &
pid=$!
i=0
while ! grep -q '^{"step": 20,' log 2>/dev/null; do
	i=$((i + 1))
	test $i -lt 300 || break
	sleep 0.1
done
kill -KILL "$(sed -n 2p pids)"
wait $pid && bad 'a rank was killed, and nobody minds'
grep -q 'rank . (pp=. tp=.): waited .* in .*missing: [0-9, ]*; told to end' err ||
	bad "nobody says where it waited: $(cat err)"
exit $fail

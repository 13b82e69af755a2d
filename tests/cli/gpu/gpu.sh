#!/bin/sh
# A plan with kernels of a GPU, by hand: emulated, on a driver of the tests
# whose ranks share a GPU, and on two GPUs that communicate by an NCCL of the
# tests. All train alike; what is missing is said in a line; whatever call
# fails, all ranks end, say so and leave nothing behind.
. "${top_srcdir:?}/tests/lib.sh"
need compiler
toy_gpu
fake_gpus || fail 'no driver, or no NCCL'
export XDG_CACHE_HOME="$tmp" ASAN_OPTIONS="${ASAN_OPTIONS:-}:handle_segv=0"

# trained NAME [variables] [arguments]: its losses go to NAME
trained()
{
	name=$1
	shift
	env "$@" >out 2>err || fail "$name: exit $?"
	grep '^step' out | sed 's/ [0-9.]* tokens.*//' >"$name"
	! grep -q leaks err || fail "$name leaks"
}

train="$rank train --local --data draw --steps 6"
# shellcheck disable=SC2086 # words
{
trained emulated $train --device emulate
trained checked LLMC_EMULATE_CHECK=1 $train --device emulate
trained shared $train
grep -q 'ranks share a GPU' out || fail 'nobody says that a GPU is shared'
trained alone FAKE_DEVICES=2 FAKE_LOG=log FAKE_NCCL_LOG=calls $train
trained nograph FAKE_DEVICES=2 FAKE_LOG=log2 $train --no-graph
}
[ "$(wc -l <emulated)" -eq 6 ] || fail 'there are not 6 steps'
for other in checked shared alone nograph; do
	cmp emulated "$other" || fail "$other is not as emulated"
done

# Each of five actions runs once by its calls, and five times as a graph, of
# which two share one; nothing is left over.
[ "$(grep -c 'graphs 25 of 4 leaks 0' log)" -eq 2 ] || fail "graphs: $(cat log)"
[ "$(grep -c 'graphs 0 of 0 leaks 0' log2)" -eq 2 ] || fail "log2: $(cat log2)"
[ "$(grep -c 'reduce 4 .* left 0 0' calls)" -eq 2 ] ||
	fail "calls: $(cat calls)"

# Where one group's collective goes through the host, no rank keeps graphs, and
# all ranks know it: a rank that kept them would wait for others to agree.
cp "$build/tests/unit/runtime/toy-mixed" "$tmp"
for how in 'emulate x=' 'cuda FAKE_LOG=log3 FAKE_NCCL_LOG=calls4'; do
	# shellcheck disable=SC2086 # words
	env ${how#* } FAKE_DEVICES=4 timeout 600 "$tmp/toy-mixed" train \
		--local --device "${how%% *}" --data draw --steps 4 \
		>out 2>err || fail "mixed on $how: exit $?"
	grep '^step' out | sed 's/ [0-9.]* tokens.*//' >"mixed-${how%% *}"
done
cmp mixed-emulate mixed-cuda || fail 'a collective by the host is another'
[ "$(grep -c 'graphs 0 of 0 leaks 0' log3)" -eq 4 ] || fail "log3: $(cat log3)"
[ "$(grep -c 'reduce 12 ' calls4)" -eq 2 ] || fail "calls4: $(cat calls4)"
[ "$(grep -c 'reduce 8 ' calls4)" -eq 2 ] || fail "calls4: $(cat calls4)"

# Evaluation runs the same graphs, and tokens come from the host.
i=0
while [ $i -lt 100 ]; do
	printf '\001\0\002\0\005\0\017\0\003\0\011\0\013\0\007\0'
	i=$((i + 1))
done >t.bin
for d in 'emulate FAKE_DEVICES=1' 'cuda FAKE_DEVICES=2'; do
	# shellcheck disable=SC2086 # words
	env ${d#* } "$rank" train --local --device "${d% *}" --data t.bin \
		--steps 6 --eval-data t.bin --eval-every 2 --eval-steps 2 \
		>out 2>err || fail "train on ${d% *}"
	grep -E '^(step|eval)' out | sed 's/ [0-9.]* tokens.*//' \
		>"fed-${d% *}"
done
[ "$(wc -l <fed-emulate)" -ge 9 ] || fail 'nothing was evaluated'
cmp fed-emulate fed-cuda || fail 'tokens are fed in another way'

# A checkpoint of one is one of the other.
trained first FAKE_DEVICES=2 $rank train --local --data draw --steps 3 \
	--checkpoint ck
trained second $rank train --local --device emulate --data draw --steps 6 \
	--checkpoint ck --resume
cat first second | cmp - emulated || fail 'resumed on the emulator'
rm -r ck
trained first $rank train --local --device emulate --data draw --steps 3 \
	--checkpoint ck
trained second FAKE_DEVICES=2 $rank train --local --data draw --steps 6 \
	--checkpoint ck --resume
cat first second | cmp - emulated || fail 'resumed on the driver'

printf '1 2 3' >prompt
for d in emulate cuda; do
	FAKE_DEVICES=2 "$rank" sample --local --device $d --checkpoint ck \
		--prompt-file prompt --tokens 9 >sample-$d 2>err ||
		fail "sample on $d"
	FAKE_DEVICES=2 "$rank" verify --local --device $d >verify-$d 2>err ||
		fail "verify on $d"
done
cmp sample-emulate sample-cuda || fail 'samples differ'
grep -q 'have the same bits' verify-cuda || fail 'verify said nothing'

FAKE_DEVICES=2 "$rank" bench --local --steps 3 >out 2>err || fail bench
for want in 'squares' 'all_reduce count on dp' 'stage0_backward' \
		'on rank'; do
	grep -q "$want" out || fail "bench has no $want"
done
FAKE_DEVICES=2 "$rank" preflight --local >out 2>err || fail preflight
for want in 'driver     CUDA 13.0; kernels are of NVRTC 13.0, sm_90a' \
		'rank 1 (dp=1) Fake 1, sm_90: arena' 'NCCL       2.28.9' \
		'warning    rank 1 on ' ' has Fake 1, rank 0 on ' \
		'dp         2 ranks' 'what it should be is not known' \
		'slow       '; do
	grep -qF "$want" out || fail "preflight has no $want"
done
"$rank" preflight --local >out 2>err || fail 'preflight of a shared GPU'
for want in 'links      ranks share a GPU' "by this host's memory" \
		'alike      devices and drivers are'; do
	grep -qF "$want" out || fail "preflight of a shared GPU has no $want"
done
"$rank" preflight --local --device emulate >out 2>err ||
	fail 'emulated preflight'
for want in 'device     emulate' 'small work' 'alike      devices are' \
		"by this host's memory"; do
	grep -qF "$want" out || fail "emulated preflight has no $want"
done

# Ranks of two hosts, by TCP, whose libraries are not the same.
for r in 1 0; do
	RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r LOCAL_WORLD_SIZE=2 \
		LLMC_RENDEZVOUS=file:$tmp/place FAKE_DEVICES=2 \
		FAKE_NCCL_VERSION=2280$((9 - r)) FAKE_VERSION=130$((r))0 \
		"$rank" preflight --transport tcp >out.$r 2>err.$r &
done
wait
cat out.1 out.0 >out
cat err.1 err.0 >err
for want in 'has NCCL 2.28.8, rank 0 on' ' NCCL 2.28.9' \
		'warning    rank 1 on ' 'has driver for CUDA 13.1, rank 0'; do
	grep -qF "$want" out || fail "preflight of two hosts has no $want"
done

# declined TEXT [variables]: a run ends with exit status 1, and this text
declined()
{
	want=$1
	shift
	env "$@" timeout 60 "$rank" train --local --data draw --steps 3 \
		--timeout 1 >out 2>err
	status=$?
	[ $status -eq 1 ] || fail "exit $status, not 1: $want"
	grep -qF -e "$want" err || fail "nobody says: $want"
	! grep -q leaks err || fail "leaks: $want"
}
# once TEXT [variables]: and in one line
once()
{
	declined "$@"
	[ "$(wc -l <err)" -eq 1 ] || fail "more than a line: $1"
}
once 'is missing, which comes with NVIDIA'"'"'s driver; --device emulate' \
	LLMC_LIBCUDA=/nonexistent.so
once 'no CUDA-capable device is detected (100); --device emulate' \
	FAKE_DEVICES=0
once 'driver is for CUDA 11.4, and CUDA 12.0 or later' FAKE_VERSION=11040
once 'the plan'"'"'s kernels are for sm_90a, and this GPU is an sm_80' \
	FAKE_ARCH=80
declined 'of the GPU, and' FAKE_MEMORY=1000
declined 'which NCCL allocates in pieces of 2 MiB, and 0.001 of 0.001' \
	FAKE_MEMORY=1048576 FAKE_DEVICES=2
declined 'by which GPUs communicate: install NCCL' FAKE_DEVICES=2 \
	LLMC_LIBNCCL=/nonexistent.so
# What each version lacks: 2.17 is refused by its version, 2.18 runs without
# ncclCommRegister, and what lacks a function of its version says which.
shared old.so -DFAKE_NCCL_OLD "$tests/fakes/fake-nccl.c" \
	"$tests/fakes/fake-nccl-work.c" || fail 'no older NCCL'
shared broken.so -DFAKE_NCCL_BROKEN "$tests/fakes/fake-nccl.c" \
	"$tests/fakes/fake-nccl-work.c" ||
	fail 'no broken NCCL'
for v in '2.17.5 21705' '2.7.8 2708' '0.0.0 0'; do
	declined "old.so is NCCL ${v% *}, and 2.18 or later is needed" \
		FAKE_DEVICES=2 FAKE_NCCL_VERSION="${v#* }" \
		LLMC_LIBNCCL="$tmp/old.so"
done
# shellcheck disable=SC2086 # words
trained older FAKE_DEVICES=2 FAKE_NCCL_VERSION=21801 \
	LLMC_LIBNCCL="$tmp/old.so" FAKE_NCCL_LOG=calls3 $train
cmp emulated older || fail 'NCCL 2.18 is not as emulated'
[ "$(grep -c 'left 0 0' calls3)" -eq 2 ] || fail "calls3: $(cat calls3)"
declined 'broken.so says that it is NCCL 2.28.9, and has no ncclSend' \
	FAKE_DEVICES=2 LLMC_LIBNCCL="$tmp/broken.so"
declined 'has no ncclGetVersion: it is not NCCL, of which 2.18' \
	FAKE_DEVICES=2 LLMC_LIBNCCL="$LLMC_LIBCUDA"
declined 'has not ended in 1 s' FAKE_DEVICES=2 FAKE_NCCL_SILENT=1
# In a graph: it has calls on the communicators that are aborted then.
declined 'has not ended in 1 s' FAKE_DEVICES=2 FAKE_NCCL_SILENT=5
! grep -q 'never return' err || fail 'aborted while graphs refer to it'

# Whatever call fails. All of them if there is time.
each=17
[ "${SLOW_TESTS-}" != 1 ] || each=1
n=2
while [ $n -lt 105 ]; do
	declined 'a failure that was asked for' FAKE_DEVICES=$((n % 2 + 1)) \
		FAKE_FAIL=$n
	n=$((n + each))
done
n=1
while [ $n -lt 10 ]; do
	declined 'a failure that was asked for' FAKE_DEVICES=2 FAKE_NCCL_FAIL=$n
	n=$((n + (each + 3) / 4))
done
exit $failed

#!/bin/sh
# The scripts that are for a GPU are right, as far as that can be told without
# one: plans are prepared, run on the emulator, and on the driver and the NCCL
# of the tests, which find every kernel and map of a plan for sm_90a.
. "${top_srcdir:?}/tests/lib.sh"
need llvm nvrtc compiler
# these kernels run often
unset LLMC_LINKER

fake_nvrtc || fail 'no NVRTC of the tests'
fake_gpus || fail 'no driver, or no NCCL'
export FAKE_NCCL_LOG="$tmp/talks"

# Instructions are compiled in earnest, kernels of plans elsewhere. What is
# exported lends its plan to the driver.
scripts()
{
	LLMC_NVRTC='' CASES='primitives nccl' "$tests/gpu/run" prepare plans >out 2>err ||
		fail prepare
	CASES=pipe LLMC_LINKER="$linker -O0 -Wl,-E" "$tests/gpu/run" prepare plans \
		>out 2>err || fail 'prepare pipe'
	"$tests/gpu/run" plans emulate >out 2>err || fail emulate
	grep -q '^PASS pipe : losses are' out || fail 'nothing was compared'
	grep -q '^PASS primitives: [1-9][0-9]* are' out || fail 'no instruction was compared'
	for devices in 1 2; do
		FAKE_DEVICES=$devices "$tests/gpu/run" plans >out 2>err ||
			fail "the driver of the tests, $devices devices"
		[ "$(grep -c ^PASS out)" -eq 5 ] || fail "not five: $devices"
	done
	grep -q '^PASS nccl: NCCL 2.28.9 on Fake 0, .*: 32 calls, .* 5 times all came' out ||
		fail 'no communicator of one rank'
	LLMC_LIBNCCL=/nonexistent.so plans/nccl/nccl >out 2>err
	[ $? -eq 77 ] && grep -q 'is missing, by which GPUs' err ||
		fail 'no NCCL, and not left out'
	FAKE_NCCL_FAIL=9 plans/nccl/nccl >out 2>err
	[ $? -eq 1 ] && grep -q '^nccl: .* a failure that was asked for' err ||
		fail 'a call fails, and nobody says so'
	grep -q 'send [1-9].* left 0 0' talks || fail 'nothing went by NCCL'

	# Losses that are not the CPU's are seen, and so is another instruction.
	sed '2s/[1-9]/0/' plans/pipe/losses >wrong && mv wrong plans/pipe/losses
	sed '3s/ ./ x/' plans/primitives/primitives.out >wrong &&
		mv wrong plans/primitives/primitives.out
	"$tests/gpu/run" plans emulate >out 2>err && fail 'wrong losses pass'
	grep -q '^FAIL pipe' out || fail 'wrong losses are not told'
	grep -q '^FAIL primitives' out || fail 'wrong instructions are not told'
	grep -q '^< stmatrix x' out || fail 'nobody says which'
}

# Microbatches whose values lie in the same places share their graphs: forward,
# backward and update, and of the places of a pipeline the two or three slots
# that 1f1b has. Backward of the first has its own, since it stores gradients.
# graphs DEVICES:PINS:WORDS: `many` is its plan
graphs()
{
	case=$1
	pins=${case#*:}
	LLMC_LINKER="$linker -O0 -Wl,-E" "$LLMC" -w --draft --no-whole --arch sm_90a \
		--target "h100x${case%%:*}" --pin "${pins%:*},microbatch=1" \
		-o many many.llm >out 2>err || fail "compile $case"
	rm -f calls
	for how in '' --no-graph; do
		FAKE_LOG="$tmp/calls" FAKE_DEVICES=4 many/rank train --local \
			--data draw --steps 3 $how >"out$how" 2>err ||
			fail "train $case $how"
		sed -i 's/ [0-9.]* tokens.*//' "out$how"
	done
	cmp out out--no-graph || fail "other losses without graphs: $case"
	grep -q "${case##*:} 0" calls || fail "$case: $(cat calls)"
	[ "$(grep -c 'leaks 0' calls)" -eq $((2 * ${case%%:*})) ] ||
		fail "$case leaves something: $(cat calls)"
	grep '^early' calls | sort -u >early
	grep -qx 'early 0' early && fail "$case: no kernel begins early"
}

# Kernels begin early, before the one before them has ended, unless that is
# switched off or the driver's graphs do not have it.
early()
{
	for case in LLMC_EARLY_LAUNCH=0 FAKE_VERSION=12020; do
		rm -f calls
		env "$case" FAKE_LOG="$tmp/calls" FAKE_DEVICES=4 many/rank train \
			--local --data draw --steps 3 >out 2>err || fail "train, $case"
		sed -i 's/ [0-9.]* tokens.*//' out
		cmp out out--no-graph || fail "other losses: $case"
		[ "$(grep -cx 'early 0' calls)" -eq 4 ] || fail "$case: $(cat calls)"
	done
}

# Groups of tp and of dp have a stream each, where NCCL orders launches, and
# else one; memory is registered on all ranks or on none; and collectives that
# two ranks share are launched in one order by both.
streams()
{
	for case in 2:FAKE_NCCL_UNREGISTERED=1 1:NCCL_LAUNCH_ORDER_IMPLICIT=0 \
			1:FAKE_NCCL_VERSION=22500 1:FAKE_VERSION=12080; do
		how=${case#*:}
		rm -rf order calls && mkdir order
		env "$how" FAKE_LOG="$tmp/calls" FAKE_NCCL_ORDER="$tmp/order" FAKE_DEVICES=4 many/rank train \
			--local --data draw --steps 3 >out 2>err || fail "train, $how"
		sed -i 's/ [0-9.]* tokens.*//' out
		cmp out out--no-graph || fail "other losses: $how"
		[ "$(grep -c "urgent ${case%%:*}$" calls)" -eq 4 ] ||
			fail "$how has other streams: $(cat calls)"
		shared=0
		[ "$(find order -type f | wc -l)" -eq 4 ] || fail 'not four orders'
		for a in order/*; do
			for b in order/*; do
				grep -F "$(cut -d' ' -f1 "$b" | sort -u)" "$a" >a.order
				grep -F "$(cut -d' ' -f1 "$a" | sort -u)" "$b" >b.order
				cmp a.order b.order || fail "$a and $b are in another order"
				shared=$((shared + $(wc -l <a.order)))
			done
		done
		[ "$shared" -gt 100 ] || fail 'hardly any launch was compared'
	done
}

# The archive of the first hour is all that is needed where there is a driver:
# nothing of this environment, no LLVM and no compiler.
# first_hour NUMBERS: these of its commands
first_hour()
{
	rm -rf prepared elsewhere
	SMALL=1 ONLY=$1 LLMC_LINKER="$linker -O0 -Wl,-E" \
		"$top_srcdir/bench/gpu/first-hour" prepare "$tmp/hour" >out \
		2>err || fail 'prepare the first hour'
	mkdir elsewhere
	tar -C elsewhere -xzf hour.tar.gz && mv hour prepared ||
		fail 'no archive'
	hour=elsewhere/hour/bench/gpu/first-hour
	for n in $1; do
		env -i PATH=/usr/bin:/bin LLMC_LIBCUDA="$LLMC_LIBCUDA" STEPS=1 \
			ROUNDS=1 LLMC_LIBNCCL="$LLMC_LIBNCCL" \
			FAKE_NCCL_DIR="$tmp" sh "$hour" "$n" >out 2>err ||
			fail "command $n"
		grep -q '^    predicted: ' out || fail 'nothing was predicted'
		log=elsewhere/hour/log-$n
		cmp out "$log" || fail 'the log is another'
		case $n in
		1) kernels_of contractions ;;
		2) kernels_of attention ;;
		3) served_of_hour ;;
		13) step_of_hour ;;
		16) early_of_hour ;;
		esac
	done
	sh "$hour" 5 >out 2>err && fail 'a command that was not prepared'
	grep -q "^$n *[a-z]*: tiny[a-z]*: " out || fail 'nobody says which there are'
}

kernels_of()
{
	grep -q '^    predicted: tiny: .* us, .*% of FLOP/s, .*% of bytes' \
		"$log" || fail "no prediction: $1"
	grep -q "^== $1 of tiny" "$log" || fail "no kernels: $1"
	grep -q '^\([1-9][0-9]*\) kernels measured, \1 of them compared, 0 ' \
		"$log" || fail "kernels are not compared: $1"
}

step_of_hour()
{
	grep -q '^    predicted: tiny: a step of [0-9.]* ms, contr.* MFU ' \
		"$log" || fail 'no step was predicted'
	grep -q '^step .* ms,' "$log" || fail 'no step was measured'
}

served_of_hour()
{
	grep -q '^    predicted: tinyserved: a step that decodes 4 of 0\.[0-9]*[1-9]' \
		"$log" || fail 'no step that decodes was predicted'
	grep -q '^step .* ms,' "$log" || fail 'no step was measured'
	grep -q ' a step that decodes' "$log" || fail 'no requests were measured'
}

early_of_hour()
{
	grep -q '^    predicted: tiny: LLMC_EARLY_LAUNCH=0 takes 0\.[0-9]*[1-9]' \
		"$log" || fail 'nothing was predicted of early launches'
	for early in 1 0; do
		[ "$(grep -c "^== LLMC_EARLY_LAUNCH=$early" "$log")" -eq 2 ] ||
			fail "not twice with LLMC_EARLY_LAUNCH=$early"
	done
	[ "$(grep -c '^step .* ms,' "$log")" -eq 4 ] ||
		fail 'not four measurements'
}

# Kernels of two commands are measured in turns, each twice.
others()
{
	CASES=tiny KERNELS=attention-backward OTHERS="$LLMC --draft" SOURCES=1 \
		LLMC_LINKER="$linker -O0 -Wl,-E" "$top_srcdir/bench/gpu/run" \
		prepare others >out 2>err || fail 'prepare others'
	CASES=tiny KERNELS=attention-backward ROUNDS=1 \
		"$top_srcdir/bench/gpu/run" others >out 2>err ||
		fail 'gradients by two commands'
	for name in tiny tiny@1; do
		[ "$(grep -cx "== attention-backward of $name" out)" -eq 2 ] ||
			fail "$name is not measured twice"
	done
	grep -q '^attention forward' out && fail 'forward is measured'
}

# Instructions of later tensor cores are prepared, too.
later_cores()
{
	for arch in sm_103a sm_80; do
		rm -rf other
		LLMC_NVRTC='' ARCH=$arch CASES=primitives "$tests/gpu/run" prepare \
			other >out 2>err || fail "prepare $arch"
		case $arch in
		sm_80) grep -q '^left out primitives' out ;;
		*)
			grep -q '^prepared primitives' out &&
				ARCH=$arch CASES=primitives "$tests/gpu/run" other \
					emulate >out 2>err &&
				grep -q '^PASS primitives' out
			;;
		esac || fail "instructions of $arch"
	done
}

sed 's/batch = 4/batch = 8/' "$top_srcdir/examples/tiny-dense.llm" >many.llm
# Sends and receives of a pipeline have no other test on an NCCL.
graphs 2:pp=2,schedule=1f1b:'graphs 34 of [56] leaks'
# One of ten is tried on each day: these, and what times kernels.
! today 10 || scripts
! today 10 || graphs 1:pp=1:'graphs 34 of 4 leaks'
if today 10; then
	graphs 4:tp=2,dp=2:'graphs 18 of 4 leaks'
	early
	streams
fi
! today 10 || first_hour '4 13'
! today 10 || first_hour 1
! today 10 || first_hour 2
! today 10 || first_hour 3
! today 10 || first_hour 16
! today 10 || others
if today 10; then
	later_cores
	CASES=tiny LLMC_LINKER="$linker -O0 -Wl,-E" "$top_srcdir/bench/gpu/run" \
		prepare bench >out 2>err || fail 'prepare bench'
	CASES=tiny STEPS=2 "$top_srcdir/bench/gpu/run" bench emulate >out 2>err ||
		fail 'bench emulate'
	grep -q 'predicted' out || fail 'nothing was measured'
fi

# Uneven pieces go by parts, and what only two of three places hold by a
# communicator of their own; steps are still kept as graphs.
if [ "${SLOW_TESTS-}" = 1 ]; then
	CASES='uneven tied' LLMC_LINKER="$linker -O0 -Wl,-E" "$tests/gpu/run" \
		prepare parts >out 2>err || fail 'prepare uneven'
	rm -f talks
	FAKE_DEVICES=3 FAKE_LOG="$tmp/calls" "$tests/gpu/run" parts \
		>out 2>err || fail 'uneven pieces'
	grep -q 'exchange [1-9].* left 0 0' talks || fail 'nothing by parts'
	[ "$(grep -c 'graphs [1-9].* leaks 0' calls)" -ge 12 ] ||
		fail 'steps of parts are not kept as graphs'
fi
exit $failed

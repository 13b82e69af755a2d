#!/bin/sh
# Collectives in parts beside contractions: numbers are the same to the last
# bit, on CPUs and on emulated GPUs, with and without sequence parallelism; what
# the target's prices choose is no slower than any number that is asked for, and
# nothing on a CPU, where nothing runs beside communication.
. "${top_srcdir:?}/tests/lib.sh"

# ---- prices ----

# step PINS: of Llama 3 8B on eight GPUs, in ms
step()
{
	"$LLMC" -w --target h100x8 --pin "tp=8,microbatch=4,recompute=none,$1" \
		"$examples/llama-3-8b.llm" | step_of
}

for s in on off; do
	auto=$(step "sequence=$s")
	whole=$(step "sequence=$s,chunks=1")
	for n in 2 4 8; do
		some=$(step "sequence=$s,chunks=$n")
		awk "BEGIN { exit !($auto <= $some) }" ||
			bad "$n parts take $some ms, those chosen $auto"
	done
	awk "BEGIN { exit !($auto < 0.99 * $whole) }" ||
		bad "parts hide nothing: $auto of $whole ms"
done

# marked PINS: how many collectives of a small model are in parts
marked()
{
	"$LLMC" -w --pin "$2" --target "$1" --emit=ranks \
		"$examples/tiny-dense.llm" | grep -c 'chunks='
}

test "$(marked cpux2 tp=2)" = 0 || bad 'a CPU communicates in parts'
test "$(marked cpux2 tp=2,chunks=2)" -gt 3 || bad 'no parts when asked for'
test "$(marked cpux2 tp=2,chunks=1)" = 0 || bad 'parts of one'

# ---- numbers ----

have llvm linker || exit $failed
# kernels that run once take longer to compile well; what is exported lends
# its emulator to the driver of the tests
export LLMC_LINKER="$linker -O0 -Wl,-E"

# losses NAME TARGET PINS DEVICE: of three steps, to NAME
losses()
{
	name=$1 target=$2 pins=$3 device=$4
	rm -rf plan log
	if "$LLMC" -w --no-whole --draft --verify-each --target "$target" \
			--pin "$pins" -o plan \
			"$examples/tiny-dense.llm" >out 2>err &&
		plan/rank train --local --device "$device" --data draw \
			--seed 5 --steps 3 --log log >out 2>err; then
		losses_in log >"$name"
	else
		bad "$target $pins"
	fi
}

# same TARGET PINS DEVICE N.. : whole and by N parts
same()
{
	on=$1 split=$2 by=$3
	shift 3
	rm -f want
	losses want "$on" "$split,chunks=1" "$by"
	test "$(wc -l <want)" -eq 3 || bad "$on $split: no three losses"
	for n; do
		test "$(marked "$on" "$split,chunks=$n")" -gt 3 ||
			bad "$on $split: nothing in $n parts"
		rm -f got
		losses got "$on" "$split,chunks=$n" "$by"
		cmp want got || bad "$on $split: $n parts change numbers"
	done
}

same cpux2 tp=2,microbatch=4 cpu 2 4
same cpux4 tp=2,pp=2,microbatch=2,sequence=on cpu 2
# The emulator asks for no images; whether kernels have races is not the matter.
export LLMC_NVRTC=/nonexistent LLMC_EMULATE_CHECK=0
same h100x2 tp=2,microbatch=4,sequence=on emulate 2
unset LLMC_NVRTC LLMC_EMULATE_CHECK

# On a driver whose streams do their work as late as is legal, by NCCL's own
# calls: a kernel that does not wait for its part of a collective is found.
fake_gpus && fake_nvrtc || exit $failed
export FAKE_NCCL_LOG="$tmp/calls" FAKE_DEVICES=2
same h100x2 tp=2,microbatch=4,sequence=on cuda 4
sed -n 's/.* gather \([0-9]*\) scatter \([0-9]*\) .* exchange 0 joined [0-9]* left 0 0$/\1 \2/p' \
	calls | sort -nu >counts
awk 'NR == 1 { a = $1; b = $2 } END { exit !($1 > 2 * a && $2 > 2 * b) }' \
	counts || { bad 'NCCL gathers no parts'; cat calls; }
exit $failed

#!/bin/sh
# A plan that keeps the optimizer's state in the memory of the GPU's host trains
# as one without: emulated, and on the driver of the tests, of which it maps so
# many bytes and leaves none. What is not compiled is refused.
. "${top_srcdir:?}/tests/lib.sh"
need llvm compiler
fake_gpus && fake_nvrtc || fail 'no driver, NCCL or NVRTC'
# cuda-train.sh looks for races in these kernels
export LLMC_EMULATE_CHECK=0
model=$top_srcdir/examples/tiny-dense.llm

# compiled NAME PINS
compiled()
{
	LLMC_LINKER="$linker -O0 -Wl,-E" "$LLMC" -w --draft --no-whole --arch sm_90a \
		--target h100x2 --pin "microbatch=1,$2" -o "$1" "$model" \
		>out 2>err || fail "compile $1: $(cat err)"
}

# trained PLAN NAME [arguments]: its losses go to NAME
trained()
{
	plan=$1 name=$2
	shift 2
	"$plan/rank" train --local --data draw --steps 3 "$@" >out 2>err ||
		fail "train $name: $(cat err)"
	sed 's/ [0-9.]* tokens.*//' out | grep '^step' >"$name"
	[ -s "$name" ] || fail "$name: no steps"
}

for pins in dp=2,zero=1 pp=2; do
	today 2 || continue
	rm -rf here there log
	compiled here "$pins,offload=none"
	compiled there "$pins,offload=optimizer"
	trained here emulated --device emulate
	trained there emulated-there --device emulate
	FAKE_DEVICES=2 trained here fake
	FAKE_DEVICES=2 FAKE_LOG="$tmp/log" trained there fake-there \
		--checkpoint kept
	FAKE_DEVICES=2 trained there resumed --steps 4 --resume kept
	trained here longer --device emulate --steps 4 --resume kept
	cmp resumed longer || fail "$pins: a checkpoint has other state"
	for name in emulated-there fake fake-there; do
		cmp emulated $name || fail "$pins: $name is not as emulated"
	done
	[ "$(grep -c 'leaks 0' log)" -eq 2 ] || fail "$pins: $(cat log)"
	run --emit=memory-json --pin "microbatch=1,$pins,offload=optimizer" \
		"$model"
	state=$(sed -n 's/^ *{"rank": 0, .*"host_bytes": \([0-9]*\).*/\1/p' out)
	awk -v state="$state" '$1 == "mapped" {
		n++
		bad = bad || $2 < state || $2 >= state + 2097152
	} END { exit bad || n != 2 }' log ||
		fail "$pins: not the $state bytes of state: $(cat log)"
	rm -rf kept
done

# A host without that memory is named; so is what no code moves.
FAKE_HOST_MEMORY=1000 FAKE_DEVICES=2 there/rank train --local --data draw \
	--steps 3 >out 2>err && fail 'it runs without memory'
grep -q 'GiB in the memory of the GPU.s host, which cannot be had' err ||
	fail "another reason: $(cat err)"
for offload in activations parameters optimizer+activations; do
	refused "--pin:1:6: error: \`offload\` is $offload, and programs for GPUs" \
		--target h100x2 --arch sm_90a -o refused --pin \
		"pp=2,offload=$offload" "$model"
	[ ! -e refused ] || bad 'something was written'
done
for pins in offload=optimizer,offload_to=nvme offload_to=nvme; do
	refused '`offload_to` is nvme' --target h100x2 --arch sm_90a \
		-o refused --pin "$pins" "$model"
	[ ! -e refused ] || bad 'something was written'
done
exit $failed

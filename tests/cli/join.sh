#!/bin/sh
# Collectives that are one call change no number: plans with and without
# `join` train to the same losses and the same checkpoint, bit for bit, on
# CPUs, on emulated GPUs, and on a driver and an NCCL of the tests, which sees
# groups of calls.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
trap 'exit 99' HUP INT TERM
top=${top_srcdir:?}
cd "$tmp" || exit 99
fail=0

"$LLMC" --version | grep -q '^cpu: LLVM' || exit 77
cc=${LLMC_LINKER:-${CC:-cc}}
$cc --version >/dev/null 2>&1 || exit 77
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE

cat >model.llm <<'EOF'
model m {
  dim seq = 16, hidden = 32, ffn = 64, vocab = 48;
  dtype f32;
  x = embed(tokens, vocab -> hidden)            @ "embed";
  repeat 2 as i {
    n = layernorm(x)                            @ "norm.{i}";
    x = x + linear(silu(linear(n -> ffn, bias) @ "up.{i}") -> hidden, bias)
      @ "down.{i}";
  }
  loss = cross_entropy(linear(x -> vocab) @ "head", labels);
}
train { batch = 8; steps = 3; optimizer = adamw(lr = 1e-2); clip = 1; }
EOF
sed 's/dtype f32/dtype bf16/' model.llm >half.llm

bad()
{
	echo "FAIL $*"
	cat out err 2>/dev/null
	fail=1
}

# calls ARGUMENTS..: kernels of the plan in which several talks are
calls()
{
	"$LLMC" --emit=kernels "$@" | grep -c 'collective .*[a-z]\*[0-9]'
}

# built FOLDER ARGUMENTS..: and that by hand of the same without `join`
built()
{
	rm -rf on off
	for j in on off; do
		# shellcheck disable=SC2086 # words
		"$LLMC" -w --no-whole --draft "$@" --pin join=$j -o $j \
			>out 2>err || { bad "llmc $*"; return 1; }
	done
}

# trained FOLDER OPTIONS..: losses and tensors, to its files
trained()
{
	folder=$1
	shift
	rm -rf log "$folder.ck"
	"$folder/rank" train --local --data draw --seed 3 --steps 3 \
		--checkpoint "$folder.ck" --log log "$@" >out 2>err || {
		bad "$folder train $*"
		return 1
	}
	sed -n 's/^{"step": [0-9]*, "loss": \([^,]*\).*/\1/p' log \
		>"$folder.losses"
	find "$folder.ck" -name '*.safetensors' | sort | xargs cat \
		>"$folder.tensors"
	[ -s "$folder.tensors" ]
}

# same WHAT OPTIONS..: of the two
same()
{
	what=$1
	shift
	trained on "$@" && trained off "$@" &&
		cmp on.losses off.losses && cmp on.tensors off.tensors &&
		[ "$(wc -l <on.losses)" -eq 3 ] || bad "$what: not alike"
}

# on_cpu FILE TARGET PINS LEAST: so many calls are joined, and all is alike
on_cpu()
{
	n=$(calls --target "$2" --pin "$3" "$1")
	[ "$n" -ge "$4" ] || bad "$1 $3: $n calls are joined"
	[ "$(calls --target "$2" --pin "$3,join=off" "$1")" -eq 0 ] ||
		bad "$1 $3: joined, and should not"
	built --target "$2" --pin "$3" "$1" && same "$1 $3"
}

on_cpu model.llm cpux2 dp=2,zero=0 1
on_cpu model.llm cpux2 dp=2,zero=1,microbatch=2 1
on_cpu half.llm cpux2 dp=2,zero=1,microbatch=2 2
if [ "${SLOW_TESTS-}" != skip ]; then
	on_cpu half.llm cpux4 dp=4,zero=2 1
	on_cpu model.llm cpux2 dp=2,zero=3 2
fi
on_cpu half.llm cpux4 dp=2,tp=2,zero=1,sequence=on,microbatch=2 2

# The emulator asks for no images.
LLMC_NVRTC=/nonexistent
export LLMC_NVRTC
built --arch sm_80 --target h100x2 --pin dp=2,zero=1,microbatch=2 half.llm &&
	same 'emulated' --device emulate
unset LLMC_NVRTC

# What is exported lends its emulator to the driver.
fake()
{
	# shellcheck disable=SC2086 # CC may hold options
	${CC:-cc} -std=gnu11 -O1 -shared -fPIC -I"$top" -o "$@" -ldl 2>err
}
if "$LLMC" --version | grep -q '^cuda: NVRTC' &&
   fake driver.so "$top/tests/fake-driver.c" "$top/tests/fake-device.c" \
	"$top/tests/fake-memory.c" && fake nccl.so "$top/tests/fake-nccl.c"; then
	export LLMC_LIBCUDA="$tmp/driver.so" LLMC_LIBNCCL="$tmp/nccl.so"
	export FAKE_NCCL_DIR="$tmp" FAKE_NCCL_LOG="$tmp/talks" FAKE_DEVICES=2
	mv on.losses emulated
	LLMC_LINKER="$cc -Wl,-E" built --arch sm_80 --target h100x2 \
		--pin dp=2,zero=1,microbatch=2 half.llm && {
		same 'by NCCL'
		cmp on.losses emulated || bad 'NCCL: not as emulated'
		[ "$(grep -c ' joined [1-9][0-9]* left 0 0' talks)" -eq 2 ] &&
			[ "$(grep -c ' joined 0 left 0 0' talks)" -eq 2 ] ||
			bad "groups: $(cat talks)"
	}
fi
exit $fail

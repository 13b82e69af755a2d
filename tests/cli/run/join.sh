#!/bin/sh
# Collectives that are one call change no number: plans with and without
# `join` train to the same losses and the same checkpoint, bit for bit, on
# CPUs, on emulated GPUs, and on a driver and an NCCL of the tests, which sees
# groups of calls.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker

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

# calls ARGUMENTS..: kernels of the plan in which several collectives are
calls()
{
	"$LLMC" --emit=kernels "$@" | grep -c 'collective .*[a-z]\*[0-9]'
}

# built FOLDER ARGUMENTS..: and that by hand of the same without `join`
built()
{
	rm -rf on off
	for j in on off; do
		run -w --no-whole --draft "$@" --pin join=$j -o $j || return
	done
}

# trained FOLDER OPTIONS..: losses and tensors, to its files
trained()
{
	folder=$1
	shift
	rm -rf log "$folder.ck"
	"$folder/rank" train --local --data draw --seed 3 --steps 3 \
		--checkpoint "$folder.ck" --log log "$@" >out 2>err ||
		bad "$folder train $*" || return
	losses_in log >"$folder.losses"
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

# on_cpu FILE TARGET PINS LEAST: one of three on each day: so many calls are
# joined, and all is alike
on_cpu()
{
	today 3 || return
	n=$(calls --target "$2" --pin "$3" "$1")
	[ "$n" -ge "$4" ] || bad "$1 $3: $n calls are joined"
	[ "$(calls --target "$2" --pin "$3,join=off" "$1")" -eq 0 ] ||
		bad "$1 $3: joined, and should not"
	built --target "$2" --pin "$3" "$1" && same "$1 $3"
}

on_cpu model.llm cpux2 dp=2,zero=0 1
on_cpu model.llm cpux2 dp=2,zero=1,microbatch=2 1
on_cpu half.llm cpux2 dp=2,zero=1,microbatch=2 2
on_cpu half.llm cpux4 dp=4,zero=2 1
on_cpu model.llm cpux2 dp=2,zero=3 2
on_cpu half.llm cpux4 dp=2,tp=2,zero=1,sequence=on,microbatch=2 2

# The emulator asks for no images.
export LLMC_NVRTC=/nonexistent
built --arch sm_80 --target h100x2 --pin dp=2,zero=1,microbatch=2 half.llm &&
	same 'emulated' --device emulate
unset LLMC_NVRTC

# What is exported lends its emulator to the driver.
if fake_gpus && fake_nvrtc; then
	export FAKE_NCCL_LOG="$tmp/calls" FAKE_DEVICES=2
	mv on.losses emulated
	LLMC_LINKER="$linker -O0 -Wl,-E" built --arch sm_80 --target h100x2 \
		--pin dp=2,zero=1,microbatch=2 half.llm && {
		same 'by NCCL'
		cmp on.losses emulated || bad 'NCCL: not as emulated'
		[ "$(grep -c ' joined [1-9][0-9]* left 0 0' calls)" -eq 2 ] &&
			[ "$(grep -c ' joined 0 left 0 0' calls)" -eq 2 ] ||
			bad "groups: $(cat calls)"
	}
fi
exit $failed

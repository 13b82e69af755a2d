#!/bin/sh
# A model whose layers multiply 8 bits: in float64 the program is the model's,
# split or not; a CPU trains it near the losses of the model as it is, and two
# emulated GPUs, which share what is contracted and hand on 8 bits, with those
# of the CPU.
. "${top_srcdir:?}/tests/lib.sh"

# Few kernels, which are quickly compiled.
cat >plain.llm <<'EOF'
model small {
  dim layers = 2, hidden = 64, ffn = 160, vocab = 256, seq = 16;
  dtype bf16;
  x = embed(tokens, vocab -> hidden)        @ "embed";
  repeat layers as i {
    y = linear(rmsnorm(x) @ "norm.{i}" -> ffn)          @ "up.{i}";
    x = x + linear(silu(y) -> hidden)       @ "down.{i}";
  }
  loss = cross_entropy(linear(x -> vocab)   @ "head", labels);
}
train { batch = 4; optimizer = adamw(lr = 1e-3); }
EOF
sed 's/batch = 4;/& matmul = f8e4m3;/' plain.llm >narrow.llm

# in float64 nothing is rounded, and scales come off again
for m in plain narrow; do
	run eval --steps 2 $m.llm
	sed -n 's/.*loss \([0-9]*\.[0-9]\{9\}\).*/\1/p' out >loss.$m
done
test -s loss.plain && diff loss.plain loss.narrow ||
	bad 'scales change the model'
run eval --compare --steps 2 --pin tp=2,dp=2,zero=1,microbatch=1 narrow.llm

# experts, wherever they are
sed 's/dtype f32/dtype bf16/;s/batch = 4;/& matmul = f8e4m3;/' \
	"$examples/tiny-moe.llm" >moe.llm
run --emit=ranks --pin ep=2 moe.llm
[ "$(grep -c '= dot_at_f32 ' out)" -eq 3 ] || bad 'experts are not in 8 bits'
# rows need not return for their scale
grep -q '= amax .*{@ep}' out || bad 'rows of experts leave them for amax'
run eval --compare --steps 1 --pin ep=2,tp=2,microbatch=1 moe.llm

# the largest of a token's rows, which are on several ranks, and of each row
cat >rows.llm <<'EOF'
model rows {
  dim hidden = 32, ffn = 48, expert = 4, choice = 2, vocab = 128, seq = 16;
  dtype f32;
  x = embed(tokens, vocab -> hidden, frozen)            @ "embed";
  e = topk(linear(x -> expert, frozen) @ "gate", expert -> choice);
  g = linear(x, e -> ffn, frozen)                       @ "{expert}.up";
  y = sum(g * amax(g, ffn), choice) + amax(g, choice);
  loss = cross_entropy(linear(y -> vocab)               @ "head", labels);
}
train { batch = 4; optimizer = adamw(lr = 1e-3); }
EOF
run eval --compare --steps 2 --pin ep=2,microbatch=1 rows.llm
run --emit=ranks --pin ep=2 rows.llm
grep -q '= amax .*over=choice.*{@' out && bad 'a rank has some of the rows'

# pieces of a sequence are gathered as 8 bits, sums are rounded before they go
sed 's/batch = [0-9]*;/& matmul = f8e4m3;/' "$examples/llama-3-8b.llm" >l.llm
run --emit=ranks --pin tp=4,microbatch=1,sequence=on l.llm
grep '= all_gather\|= reduce_scatter' out >exchanged
grep -q '= all_gather .*of=seq : f8e4m3' exchanged &&
	! grep -q '= reduce_scatter .*: f32' exchanged ||
	bad "what ranks exchange: $(cat exchanged)"

need llvm linker

# the emulator asks for no images
export LLMC_NVRTC=/nonexistent

# losses TO MODEL ARGUMENTS.. -- OPTIONS..: of three steps
losses()
{
	to=$1 model=$2
	shift 2
	args=
	while test "$1" != --; do
		args="$args $1"
		shift
	done
	shift
	rm -rf plan log
	# shellcheck disable=SC2086 # a list of words
	"$LLMC" -w --draft --no-whole $args -o plan "$model.llm" >out 2>&1 &&
		plan/rank train --local --data draw --seed 5 --steps 3 \
			--log log "$@" >out 2>&1 || {
		bad "$model $args"
		: >log
	}
	losses_in log >"$to"
}

# of one multiprocessor, which has tiles large enough for tcgen05
sed 's/units = 148/units = 1/;s/^target b200/target few/' \
	"$top_srcdir/targets/b200.target" >few.target
sed -i 's/seq = 16/seq = 32/;s/hidden = 32/hidden = 128/;s/ffn = 48/ffn = 256/
	s/expert = 4/expert = 2/' moe.llm
losses moe moe --target cpux1 --
losses blackwell moe --target ./few.target -- --device emulate
near_losses moe blackwell 1e-3
grep -l dot_at plan/kernels/*.cu | xargs grep -q 'tc_mma_f8(' ||
	bad 'no experts in e4m3'
losses bf16 plain --target cpux1 --
losses one narrow --target cpux1 --
cmp -s bf16 one && bad 'nothing was rounded'
near_losses bf16 one 5e-3
losses hopper narrow --target h100x2 --arch sm_90a \
	--pin tp=2,split.tp=ffn+vocab+seq -- --device emulate
near_losses one hopper 1e-3

run --target h100x1 --emit=cuda narrow.llm
grep -q 'wg_e4m3_64x' out || bad 'no kernel multiplies e4m3'
exit $failed

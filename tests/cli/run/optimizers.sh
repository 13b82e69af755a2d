#!/bin/sh
# Each optimizer: its states are counted, what is split computes what is not,
# and a compiled plan what the interpreter does.
. "${top_srcdir:?}/tests/lib.sh"
need binaries llvm linker

# model RULE: as m.llm
model()
{
	cat >m.llm <<END
model m {
  dim seq = 8, vocab = 16, hidden = 16, ffn = 32, heads = 2, hd = 8;
  layer block(x[batch, seq, hidden]) {
    n = rmsnorm(x) @ "norm";
    q = linear(n -> heads, hd) @ "q";
    k = linear(n -> heads, hd) @ "k";
    v = linear(n -> heads, hd, bias) @ "v";
    x = x + linear(attention(q, k, v, causal) -> hidden) @ "o";
    return x + linear(gelu(linear(x -> ffn) @ "up") -> hidden) @ "down";
  }
  x = embed(tokens, vocab -> hidden) @ "t";
  repeat 2 as i { x = block(x) @ "{i}"; }
  logits = linear(x -> vocab) @ "out";
  loss = cross_entropy(logits, labels);
}
train { batch = 8; clip = 1; optimizer = $1; }
END
}

# tries RULE BYTES: of states, of 4,672 parameters
tries()
{
	rule=$1 bytes=$2
	model "$rule"
	run --emit=summary m.llm
	grep -q "state, bytes  *$bytes " out || bad "$rule: states"
	for pin in tp=2,pp=2,microbatch=1 dp=3,zero=2,microbatch=1 \
		tp=2,dp=2,zero=1,microbatch=2 dp=4,zero=3,microbatch=1; do
		run eval --compare --steps 3 --pin $pin m.llm
		grep -q '^compared [0-9]* tensors over 3 steps' out ||
			bad "$rule $pin: not compared"
	done
	run eval --steps 4 --seed 5 m.llm
	sed -n 's/^step [0-9]* loss \([0-9.]*\).*/\1/p' out >wanted
	rm -rf plan log
	run --draft --target cpux4 --pin tp=2,dp=2,zero=1,microbatch=2 -o plan \
		m.llm
	plan/rank train --local --data draw --seed 5 --steps 4 --log log \
		>out 2>err || bad "$rule: train"
	losses_in log | paste - wanted >both
	awk '{ d = ($1 - $2) / $2; n += d * d < 1e-9 } END { exit n != 4 }' \
		both || bad "$rule: other losses: $(cat both)"
	plan/rank verify --local --steps 3 >out 2>err || bad "$rule: verify"
}
tries 'adamw(lr = 0.01, weight_decay = 0.1)' 37,376
tries 'sgd(lr = 0.1, momentum = 0.9)' 18,688
tries 'lion(lr = 0.003, weight_decay = 0.3, betas = (0.9, 0.95))' 18,688
# 4 bytes of 916 rows, columns and elements of vectors: o has 32 and 16 * 8
tries 'adafactor(lr = 0.02, weight_decay = 0.1)' 3,664
# 4 bytes of 4,096 elements of matrices, 8 of 576 others: AdamW's
tries 'muon(lr = 0.02, weight_decay = 0.1)' 20,992
# on a GPU, with products of two ranks' pieces; emulated, it needs no images
LLMC_NVRTC=/nonexistent run --draft --target h100x2 --pin tp=2,microbatch=8 -o gpu m.llm
gpu/rank train --local --device emulate --data draw --seed 5 --steps 2 \
	--log gpu.log >out 2>err || bad "muon: emulated"
losses_in gpu.log | paste - wanted | head -n 2 >both
awk '{ d = ($1 - $2) / $2; n += d * d < 1e-9 } END { exit n != 2 }' both ||
	bad "muon, emulated: other losses: $(cat both)"
# experts are a matrix each, and products of bf16 are added up in f32
sed 's/adamw(.*)/muon(lr = 0.01)/' "$examples/tiny-moe.llm" >moe.llm
run eval --compare --steps 2 --pin ep=2,tp=2,dp=2,zero=1,microbatch=1 moe.llm
grep -q '^compared [0-9]* tensors over 2 steps' out || bad 'muon: experts'
sed 's/model m {/& dtype bf16;/' m.llm >b.llm
run eval --compare --steps 2 --pin tp=2,dp=2,zero=1,microbatch=1 b.llm
grep -q '^compared [0-9]* tensors over 2 steps' out || bad 'muon: bf16'

model 'lion(momentum = 0.5)'
refused '`momentum`' --emit=summary m.llm
exit $failed

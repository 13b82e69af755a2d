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
model 'lion(momentum = 0.5)'
refused '`momentum`' --emit=summary m.llm
exit $failed

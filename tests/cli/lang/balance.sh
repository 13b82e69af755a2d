#!/bin/sh
# A bias that balances experts takes the steps that the interpreter takes,
# however tokens and experts are split, and in a program of two ranks.
. "${top_srcdir:?}/tests/lib.sh"
cat >m.llm <<'EOF'
model m {
  dim layers = 2, seq = 8, hidden = 32, ffn = 16, expert = 4, choice = 2, vocab = 64;
  layer block(x[batch, seq, hidden]) {
    s = sigmoid(linear(x -> expert)           @ "gate");
    b = weight(expert, balance = 0.02)        @ "gate.bias";
    e = topk(s + b, expert -> choice);
    w = counted(gather(s, e), b, e);
    g = silu(linear(x, e -> ffn)              @ "experts.{expert}.up");
    y = linear(g, e -> hidden)                @ "experts.{expert}.down";
    return x + sum(y * w / sum(w, choice), choice);
  }
  x = embed(tokens, vocab -> hidden)          @ "embed";
  repeat layers as i { x = block(x)           @ "l.{i}"; }
  logits = linear(x -> vocab)                 @ "head";
  loss = cross_entropy(logits, labels);
}
train { batch = 4; clip = 1; optimizer = adamw(lr = 1e-3); }
EOF
for pin in ep=2,tp=2 dp=2,zero=2,microbatch=1 pp=2,ep=2,microbatch=1; do
	run eval --compare --steps 3 --pin $pin m.llm
	grep -q '^compared .*: at most [0-9.]*e-1[0-9] apart' out ||
		bad "$pin: $(tail -n 1 out)"
done
need binaries llvm linker
run eval --steps 4 m.llm
sed -n 's/.* loss \([0-9.]*\).*/\1/p' out >want
run --draft --no-whole --target cpux2 --pin dp=2,microbatch=1 -o two m.llm
two/rank train --local --data draw --steps 4 --log two.log >out 2>err ||
	bad 'two ranks'
losses_in two.log | paste want - >both
awk '{ d = $1 - $2; n += d * d < 1e-9 } END { exit n != 4 }' both ||
	bad "other losses: $(cat both)"
exit $failed

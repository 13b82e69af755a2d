#!/bin/sh
# Attention whose keys and rotary positions are given by values, split in every
# way over ranks, is what it is on one: documents, sinks beside them, and a stack
# in a pipeline.
. "${top_srcdir:?}/tests/lib.sh"
cat >m.llm <<'EOF'
model m {
  dim layers = 2, hidden = 32, heads = 4, kv = 2, hd = 8, vocab = 16, seq = 16;
  input first: f32[batch, seq];
  input last: f32[batch, seq];
  layer block(x[batch, seq, hidden], a[batch, seq], b[batch, seq]) {
    n = rmsnorm(x)                       @ "norm";
    q = linear(n -> heads, hd)           @ "q";
    k = linear(n -> kv, hd)              @ "k";
    v = linear(n -> kv, hd)              @ "v";
    s = weight(heads)                    @ "sinks";
    o = attention_between(rope(q), rope(k), v, a, b, causal, alibi = 8);
    q = rope_at(q, b - 1.5 * a);
    k = rope_at(k, b - 1.5 * a);
    o = o + attention_sinks_between(q, k, v, s, a, b, window = 12);
    return x + linear(o -> hidden)       @ "o";
  }
  x = embed(tokens, vocab -> hidden)     @ "embed";
  repeat layers as i { x = block(x, first * 4, last * 8 + 8) @ "l.{i}"; }
  logits = linear(x -> vocab)            @ "head";
  loss = cross_entropy(logits, labels);
}
train { batch = 4; optimizer = adamw(lr = 1e-3); }
EOF
for pin in tp=2,sequence=on tp=2,cp=2,context=ring,balanced=on \
	cp=4,context=gather pp=2,dp=2,microbatch=1,zero=1; do
	run eval --compare --pin $pin m.llm
	grep -q '^compared .*: at most [0-9.]*e-1[0-9] apart' out ||
		bad "$pin: $(tail -n 1 out)"
done
exit $failed

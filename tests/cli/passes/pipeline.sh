#!/bin/sh
# Do the ranks of a pipeline together make the steps of the unsplit program,
# clipping and tied weights and all?
. "${top_srcdir:?}/tests/lib.sh"

# model LOSS NAME: two repeats, a value that crosses stages, a norm to clip
model()
{
	cat >"$2.llm" <<END
model m {
  dim batch = 8, seq = 4, hidden = 8, ffn = 8, heads = 2, hd = 4, vocab = 6;
  dtype f64;
  layer mlp(x[batch, seq, hidden]) {
    f = silu(linear(rmsnorm(x) @ "n" -> ffn) @ "u");
    return x + linear(f -> hidden) @ "d";
  }
  layer block(x[batch, seq, hidden]) {
    q = linear(rmsnorm(x) @ "a" -> heads, hd) @ "q";
    x = x + linear(attention(q, q, q, causal) -> hidden) @ "o";
    return mlp(x);
  }
  x = embed(tokens, vocab -> hidden) @ "e";
  y = x;
  repeat 2 as i { x = block(x) @ "h.{i}"; }
  z = rmsnorm(x) @ "mid";
  repeat 4 as i { z = mlp(z) @ "g.{i}" * y; }
  x = z + x;
  logits = linear(x -> vocab$1;
  loss = cross_entropy(logits, labels);
}
train { batch = 8; clip = 0.01; optimizer = adamw(lr = 0.01); }
END
}
model ') @ "head"' plain
model ', tied = "e")' tied

# --compare fails where ranks and the unsplit program are apart
for name in plain tied; do
	for pin in pp=2 pp=3,stages=0+5+1,schedule=gpipe pp=4,schedule=zb_h1 \
		pp=2,schedule=zbv,dp=2,zero=2 pp=2,interleave=3,tp=2; do
		run eval --compare --steps 2 --pin "$pin" $name.llm
		grep -q '^compared [0-9]* tensors over 2 steps' out ||
			bad "$name with $pin"
	done
done
exit $failed

#!/bin/sh
# A stage sends a contiguous part of what a contraction made, whose rows would
# lie apart if nobody sent them: two stages have the losses of one.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker

dims=
cat >model.llm <<'END'
model m {
  dim hidden = 16, odd = 61, vocab = 16, seq = 4, rows = 8, half = 4;
  dtype f32;
  x = embed(tokens, vocab -> hidden)                        @ "embed";
  y = linear(weight(hidden, std = 1) @ "w" -> rows, odd)    @ "y";
  s = slice(y, rows -> half, at = 3);
  repeat 2 as i {
    x = x + linear(linear(x -> half) @ "a.{i}" -> hidden)   @ "b.{i}";
  }
  logits = linear(x -> vocab) @ "c" + linear(s -> vocab)    @ "d";
  loss = cross_entropy(logits, labels);
}
train { batch = 4; optimizer = sgd(lr = 0.5); }
END
for pp in 1 2; do
	built p$pp --target cpux$pp --pin pp=$pp,microbatch=1 &&
		drawn_losses losses$pp p$pp
done
near_losses losses1 losses2 1e-6
exit $failed

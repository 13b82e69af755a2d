#!/bin/sh
# Frozen weights, and adapters beside them: the base comes from a checkpoint
# under names of its own, adapters start fresh, and nothing else is trained.
. "${top_srcdir:?}/tests/lib.sh"
need binaries llvm linker

# model FILE PREFIX ADAPTERS FLAG: the base, or the base with adapters
model()
{
	cat >"$1" <<END
model m {
  dim seq = 8, vocab = 16, hidden = 16, ffn = 32, heads = 2, hd = 8, rank = 4;
  layer block(x[batch, seq, hidden]) {
    n = rmsnorm(x$4)                                @ "norm";
    q = linear(n -> heads, hd$4)                    @ "q_proj";
    k = linear(n -> heads, hd$4)                    @ "k_proj";
    v = linear(n -> heads, hd$4)                    @ "v_proj";
    $3
    x = x + linear(attention(q, k, v, causal) -> hidden$4, bias) @ "o_proj";
    return x + linear(gelu(linear(x -> ffn$4) @ "up") -> hidden$4) @ "down";
  }
  x = embed(tokens, vocab -> hidden$4)              @ "$2embed";
  repeat 2 as i { x = block(x)                      @ "$2layers.{i}"; }
  logits = linear(x -> vocab$4)                     @ "$2head";
  loss = cross_entropy(logits, labels);
}
train { batch = 8; steps = 4; optimizer = adamw(lr = 0.05); clip = 1; }
END
}
adapters='
    a = linear(n -> rank)                           @ "q_proj.lora_A";
    q = q + 2 * linear(a -> heads, hd, init = zeros) @ "q_proj.lora_B";
    b = linear(n -> rank)                           @ "v_proj.lora_A";
    v = v + 2 * linear(b -> heads, hd, init = zeros) @ "v_proj.lora_B";'
model base.llm '' '' ''
model lora.llm 'model.' "$adapters" ', frozen'

# ---- what is trained ----

run --emit=summary lora.llm
grep -q '^  trained  *512$' out || bad 'not 512 parameters are trained'
grep -q '^gradients, bytes  *2,048 ' out || bad 'gradients'
grep -q '^adamw state, bytes  *4,096 ' out || bad 'states'
run --emit=memory --pin tp=2,dp=2,zero=1,microbatch=2 lora.llm
grep -q '^gradients  *2,048 ' out || bad 'gradients in memory'
grep -q '^optimizer  *4,096 ' out || bad 'states in memory'
for pin in dp=1 tp=2,dp=2,zero=1,microbatch=2 tp=2,pp=2,microbatch=1 \
	dp=4,zero=3,microbatch=1; do
	run eval --compare --steps 2 --pin $pin lora.llm
	grep -q '^compared 64 tensors' out || bad "$pin: not compared"
done
sed 's/linear(n -> rank)/linear(n -> rank, frozen)/
	s/init = zeros/init = zeros, frozen/' lora.llm >none.llm
refused 'all weights that reach the loss are frozen' --passes=train none.llm

# ---- the base, then adapters on it ----

run --draft --no-whole --target cpux1 -o base base.llm
run --draft --no-whole --target cpux1 -o one lora.llm
run --draft --no-whole --target cpux4 --pin tp=2,dp=2,microbatch=2 -o four \
	lora.llm
base/rank train --local --data draw --checkpoint ck.base >out 2>err ||
	bad 'the base'
base/rank eval --local --data draw --checkpoint ck.base >wanted 2>err ||
	bad 'evaluation of the base'
weights=ck.base/step-00000004/model.safetensors
begin="--weights $weights --allow-missing --rename =model."

# Adapters add zeros at first, so the loss is the base's.
# shellcheck disable=SC2086 # words
one/rank eval --local --data draw $begin >out 2>err || bad 'evaluation'
sed 's/at step [0-9]*//' wanted >a
sed 's/at step [0-9]*//' out | cmp a - || bad 'another loss than that of the base'

# sums CHECKPOINT PATTERN: of its tensors, by name
sums()
{
	sed -n 's/^ *"\([^"]*\)": {"bytes": [0-9]*, "sum": "\(.*\)"}.*/\1 \2/p' \
		"$1/checkpoint.json" | grep -v exp_avg | grep "$2" | sort
}
sums ck.base/step-00000004 . >base.sums
for plan in one four; do
	# shellcheck disable=SC2086
	$plan/rank train --local --data draw --checkpoint ck.$plan $begin \
		--steps 3 >out 2>err || bad "$plan: training"
	grep -q '^8 tensors are not in .* start as in a new run: model.layers' \
		out || bad "$plan: fresh tensors are not said"
	sums ck.$plan/step-00000003 . | grep -v lora_ | sed 's/^model\.//' |
		cmp - base.sums || bad "$plan: a frozen weight changed"
	grep -o '"[^"]*\.exp_avg' ck.$plan/step-00000003/checkpoint.json |
		grep -v lora_ && bad "$plan: a state of what is not trained"
done
sums ck.one/step-00000003 lora_B | cut -d ' ' -f 2 | sort -u | wc -l >n
test "$(cat n)" = 4 || bad 'adapters were not trained'
# a checkpoint of one plan goes on under another
four/rank train --local --data draw --steps 4 --checkpoint ck.end \
	--resume ck.one/step-00000003 >out 2>err || bad 'another plan'
sums ck.end/step-00000004 . | grep -v lora_ | sed 's/^model\.//' |
	cmp - base.sums || bad 'a frozen weight changed later'

# ---- what is wrong ----

# says STATUS TEXT ARGUMENTS..
says()
{
	wanted=$1 text=$2
	shift 2
	one/rank train --local --data draw "$@" >out 2>err
	got=$?
	test $got = "$wanted" || bad "$*: exit status $got, not $wanted"
	grep -qF -- "$text" err || bad "$*: no '$text'"
}
says 1 'model.embed.weight'\'': not found among 18' --weights $weights
says 1 "lora_A.weight': not found among 18" --weights $weights --rename =model.
says 1 'model.embed.weight'\'': not found among 18' --weights $weights \
	--allow-missing
says 1 "no tensor of the file begins as 'head=x' has it" --weights $weights \
	--rename =model. head=x
says 1 "two tensors of the file are then called 'layers.1.down.weight'" \
	--weights $weights --rename layers.0=layers.1
says 1 "found 'a', expected OLD=NEW" --weights $weights --rename a
says 1 "found 'a=b=c', expected OLD=NEW" --weights $weights --rename a=b=c
says 2 '--rename is of weights from a file' --rename a=b
says 2 '--allow-missing is of weights from a file' --allow-missing
# A stage without a trained weight adds nothing to the norm that all clip by.
cat >head.llm <<'END'
model m {
  dim seq = 4, hidden = 8, ffn = 16, vocab = 16;
  x = embed(tokens, vocab -> hidden, frozen) @ "t";
  repeat 2 as i {
    x = x + linear(gelu(linear(x -> ffn, frozen) @ "a.{i}")
                   -> hidden, frozen) @ "b.{i}";
  }
  logits = linear(x -> vocab) @ "out";
  loss = cross_entropy(logits, labels);
}
train { batch = 8; clip = 0.01; optimizer = adamw(lr = 0.01); }
END
run eval --compare --steps 2 --pin pp=2,microbatch=1 head.llm
grep -q '^compared [0-9]* tensors over 2 steps' out || bad 'head: compare'
run --draft --target cpux4 --pin pp=2,dp=2,zero=1,microbatch=2 head.llm -o head
head/rank verify --local --steps 2 >out 2>err || bad 'head: verify'

exit $failed

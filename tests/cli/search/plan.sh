#!/bin/sh
# Plans: --emit=plan prints one that reads back to the same text, whether it
# came from a block, a file, pins or IR text; what is wrong is refused by a
# message that says what would be right.
. "${top_srcdir:?}/tests/lib.sh"

cat >moe.llm <<'END'
model moe {
  dim seq = 8, hidden = 32, ffn = 48, expert = 4, choice = 2;
  dim heads = 4, hd = 8, vocab = 100;
  layer block(x[batch, seq, hidden]) {
    q = linear(x -> heads, hd)              @ "q";
    a = attention(q, q, q, causal);
    x = x + linear(a -> hidden)             @ "o";
    s = softmax(linear(x -> expert)         @ "gate");
    e = topk(s, expert -> choice);
    g = silu(linear(x, e -> ffn)            @ "experts.{expert}.w1");
    y = linear(g, e -> hidden)              @ "experts.{expert}.w2";
    return x + sum(y * gather(s, e), choice);
  }
  x = embed(tokens, vocab -> hidden)        @ "embed";
  repeat 3 as i { x = block(x)              @ "first.{i}"; }
  repeat 7 as i { x = block(x)              @ "then.{i}"; }
  logits = linear(x -> vocab)               @ "head";
  loss = cross_entropy(logits, labels);
}
train { batch = 10; optimizer = sgd; }
END
cat >plain.llm <<'END'
model plain {
  dim a = 4;
  x = weight(a)                             @ "w";
  logits = x * x;
}
END

# same ARGUMENTS...: the plan prints, and reads back, as text and as IR.
same()
{
	run --emit=plan "$@" -o got.llp &&
		run --emit=plan --plan got.llp "$model" &&
		cmp got.llp out &&
		run --emit=ir --plan got.llp "$model" -o got.ir &&
		run --emit=plan got.ir && cmp out got.llp &&
		run opt got.ir && cmp out got.ir &&
		run opt --emit=plan got.ir && cmp out got.llp ||
		bad "$*: not the same again"
}

# has LINE: the plan that was printed last says so.
has()
{
	grep -qxF -e "$1" got.llp || bad "expected: $1, in $(cat got.llp)"
}

model=moe.llm
same moe.llm
has '  stages = 10;'
has '  microbatch = 10;'
same moe.llm --pin pp=4
has '  stages = (2, 3*2, 2);'
has '  schedule = "1f1b";'
has '  microbatch = 1;'
same moe.llm --pin 'pp = 4, interleave=2 ,stages = 0+1+2+1*4+3'
has '  stages = (0, 1, 2, 1*4, 3);'
has '  schedule = interleaved;'
same moe.llm --pin pp=2,schedule=zbv
has '  interleave = 2;'
same moe.llm --pin pp=2,schedule=zero_bubble
has '  schedule = zb_h1;'
same moe.llm --pin 'mesh=tp+cp+ep+dp+pp,tp=2,cp=2,ep=2,dp=3'
has '  mesh = (tp, cp, ep, dp, pp);'
has '# ranks: 24, stages: 1, microbatches: 2, sequences in one: 6'
same moe.llm --pin recompute=attention --pin zero=3 --pin recompute=full
has '  recompute = full;'
has '  zero = 3;'
same moe.llm --pin 'recompute=(q, g, silu),split.tp=heads+ffn,split.dp=batch'
has '  recompute = (q, g, silu);'
has '  split.tp = (heads, ffn);'
has '  split.dp = batch;'
same moe.llm --pin 'pp=4,recompute=(full*2,(q+g)*1,none)'
has '  recompute = (full*2, (q+g)*1, none*1);'
grep -qxF 'set plan.recompute = "full*2, (q+g)*1, none*1"' got.ir ||
	bad 'no stages in IR text'
same moe.llm --pin 'pp=2,interleave=2,recompute=(q+g)*3+attention'
has '  recompute = ((q+g)*3, attention*1);'
same moe.llm --pin 'pp=3,recompute=((q,g)*2,(q+g))'
has '  recompute = (q, g);'
same moe.llm --pin 'pp=3,recompute=full*1'
has '  recompute = full;'
same moe.llm --pin offload=optimizer
has '  offload = optimizer;'
same moe.llm --pin sequence=on,context=gather,balanced=on,cp=4
has '  context = gather;'

# A file takes the place of the block, a pin of a key of either.
cat >one.llp <<'END'
# A plan has comments, and a name.
plan one {
  pp = 2;		// two stages
  stages = (2 + 2, 6);
  microbatch = 8 / 4;
  sequence = on;
}
END
{ cat moe.llm; echo 'plan { tp = 2; zero = 1; }'; } >block.llm
same block.llm
has '  tp = 2;'
same block.llm --plan one.llp --pin zero=2
has '  tp = 1;'
has '  zero = 2;'
has '  stages = (4, 6);'
"$LLMC" --emit=ir --plan one.llp --pin tp=2 moe.llm |
	grep -qxF 'set plan.stages = "4, 6"' || bad 'other stages'

# More stages than one setting holds: they go on in others.
sed 's/repeat 7 /repeat 24570 /; s/batch = 10/batch = 1/' moe.llm >deep.llm
model=deep.llm
same deep.llm --pin "pp=4096,interleave=4,stages=$(awk 'BEGIN {
	for (i = 0; i < 16384; i++)
		printf "%s%d", i ? "+" : "", i % 2 ? 1 : 2
}' | sed 's/^2/0/; s/1$/0/')"
grep -q '^set plan.stages.more8 = ' got.ir || bad 'not so many settings'
model=moe.llm

# A schedule of one's own.
run schedule 1f1b --ranks 2 --microbatches 5 -o mine.csv
same moe.llm --pin pp=2,microbatch=2,schedule=mine.csv
has '  schedule = "mine.csv";'

# What does not plan takes no notice if it is asked for by name, and what
# changes the program keeps it.
run --emit=summary --pin tp=2 moe.llm -o sum
run moe.llm
cmp out sum || bad 'another summary'
run --emit=plan --pin recompute=q,pp=2 moe.llm -o got.llp
run --emit=plan --passes=train --plan got.llp moe.llm
cmp out got.llp || bad 'another plan after training'

# unplanned WORDS ARGUMENTS..: refused, when the plan is asked for
unplanned()
{
	refused "$@" --emit=plan
}

# pinned PIN PATTERN: the same of a pin, with a place in its text.
pinned()
{
	unplanned "$2" moe.llm --pin "$1"
	grep -q '^--pin:1:[0-9]*: error: ' err || bad 'no place'
}

pinned 'tpp=2' 'a plan has no `tpp` (did you mean'
pinned 'tp=0' '`tp` is 0, and 1 to 1048576 is legal'
pinned 'tp=2.5' '`tp` is a whole number, and 2.5 is not'
pinned 'tp=two' '`tp` is a number from 1 to 1048576'
pinned 'tp=2+2' '`tp` is a number from 1 to 1048576'
pinned 'tp=2,pp=2,tp=4' '`tp` is set twice'
pinned 'tp' 'found `tp`, expected KEY=VALUE'
pinned 'tp=' 'found nothing more, expected a value'
pinned '' 'found nothing more, expected KEY=VALUE'
pinned 'tp=2,' 'found nothing more, expected KEY=VALUE'
pinned 'tp=2 pp=2' 'found `p`, expected `,`'
pinned 'stages=3,7' 'a list is written a+b'
pinned 'stages=(3,7' 'expected `,` or `)`'
pinned 'stages=3*x' 'expected how often'
pinned 'schedule="x' 'no closing'
pinned 'zero=4' '`zero` is 4, and 0 to 3 is legal'
pinned 'context=rign' '`context` is ring or gather (did you mean `ring`?)'
pinned 'offload=optimiser' '(did you mean `optimizer`?)'
pinned 'sequence=1' '`sequence` is on or off'
pinned 'mesh=pp+dp+ep+cp' '`tp` is missing'
pinned 'mesh=pp+dp+ep+cp+cp' '`cp` is twice in `mesh`'
pinned 'mesh=pp+dp+ep+cp+xp' 'a mesh has no axis `xp`'
pinned 'tp=101' 'the longest dim of a weight is `vocab` = 100: 1 to 100 is'
pinned 'ep=5' 'the experts are `expert` = 4: 1 to 4 is legal'
pinned 'cp=9' 'attention runs along `seq` = 8: 1 to 8 is legal'
pinned 'cp=5,balanced=on' '1 to 4 is legal'
pinned 'dp=11' 'with ep = 1, 1 to 10 is legal'
pinned 'dp=6,ep=2' 'with ep = 2, 1 to 5 is legal'
pinned 'microbatch=11' '1 to 10 is legal'
pinned 'dp=3,microbatch=5' '1 to 4 is legal'
pinned 'dp=1000,tp=1000,pp=1000' 'makes 1000000000 ranks, and 1 to 1048576'
pinned 'tp=1048576,dp=1048576,pp=1048576,cp=1048576' 'than can be counted'
pinned 'pp=11' '`pp` from 1 to 10 is legal'
pinned 'pp=3,interleave=4' 'with interleave = 4, `pp` from 1 to 2 is legal'
pinned 'interleave=2' '`interleave` is 2, and `pp` is 1'
pinned 'schedule=zbv' '`interleave` is 2, as for zbv, and `pp` is 1'
pinned 'pp=2,schedule=1f1b,interleave=2' 'another schedule (interleaved or zbv)'
pinned 'pp=2,schedule=zbv,interleave=3' 'zbv runs 2 stages per rank: 2 is legal'
pinned 'schedule=1f1c' 'did you mean `1f1b`?'
pinned 'schedule=1' 'is a name (--list-schedules prints all), or a CSV file'
pinned 'pp=2,stages=10' '`stages` lists 1, and pp * interleave = 2 * 1'
pinned 'pp=2,stages=5+6' '11 layers, and the model has 10: 1 too many'
pinned 'pp=2,stages=5+3' '8 layers, and the model has 10: 2 too few'
pinned 'pp=3,stages=5+0+5' 'stage 1 of 0 to 2 holds no layer'
pinned 'stages=1*20000' '1 to 16384 is legal'
pinned 'stages=evn' 'or `even`; found `evn`'
pinned 'recompute=atention' 'no `atention` (did you mean `attention`?)'
pinned 'recompute=full+q' '`full` cannot be combined with other names'
pinned 'pp=2,recompute=full+none' 'it is written (full*2, (q+k)*1, none*1)'
pinned 'pp=2,recompute=(full+q)*1+none*1' '`full` cannot be combined with other names'
pinned 'pp=2,recompute=full*3' 'lists 3, and pp * interleave = 2 * 1 makes 2'
pinned 'recompute=full*20000' 'lists 20000 stages up to here, and 1 to 16384'
pinned 'recompute=full*0' 'found `0`, expected how often it is repeated'
pinned 'pp=2,recompute=(q+g,full*1)' 'found `,`, expected `+` or `)`'
pinned 'pp=2,recompute=(full*1,q+g)' 'found `+`, expected `,` or `)`'
pinned 'recompute=(q*2)*2' 'a set in parentheses holds names alone'
pinned 'recompute=((q*2))' 'found `*`, expected `,` or `)`'
pinned 'recompute=(q+4)*2' 'a list of names, and 4 is a number'
pinned 'pp=2,recompute=q*1+atention*1' 'did you mean `attention`?'
pinned 'pp=2,recompute=q*1+(g+g)*1' '`g` is twice in `recompute`'
pinned 'recompute=q+q' '`q` is twice in `recompute`'
pinned 'split.tp=heds' 'no dim is named `heds` (did you mean `heads`?)'
pinned 'split.tp=4' '`split.tp` is a list of dims, and 4 is a number'
pinned 'split.pp=heads' 'a plan has no `split.pp`'
pinned 'schedule=none.csv' 'cannot read the schedule none.csv'
pinned 'schedule=mine.csv' 'a schedule of 2 ranks, and the plan has 1'

unplanned 'no contraction chooses its weights by index: 1 is legal' \
	plain.llm --pin ep=2
unplanned 'no attention' plain.llm --pin cp=2
unplanned 'has a dim `batch`' plain.llm --pin dp=2
unplanned 'has a dim `batch`' plain.llm --pin microbatch=2
unplanned 'the longest dim of a weight is `a` = 4' plain.llm --pin tp=5
unplanned 'and the model has 0' plain.llm --pin pp=2

printf 'plan { tp = 2; }\nplan { pp = 2; }\n' >two.llp
unplanned 'two.llp:2:1: error: a plan file holds one plan block' \
	moe.llm --plan two.llp
unplanned 'found the block `model`' moe.llm --plan moe.llm
echo '# nothing' >empty.llp
unplanned 'this file holds no `plan` block' moe.llm --plan empty.llp
unplanned 'cannot read none.llp' moe.llm --plan none.llp
echo 'plan { tp = 2; stages = (1, (2, 3)); tpp = 2; tp = 4; }' >wrong.llp
unplanned 'wrong.llp:1:29: error: found a list in a list' \
	moe.llm --plan wrong.llp
unplanned 'wrong.llp:1:38: error: a plan has no `tpp`' moe.llm --plan wrong.llp
echo 'plan { pp = 3; recompute = (q + g, full * 1, -q); }' >sets.llp
unplanned 'sets.llp:1:46: error: found arithmetic with words' \
	moe.llm --plan sets.llp
echo 'plan { pp = 3; recompute = (q + g, full * 1, (q, 3) * 1); }' >sets.llp
unplanned 'sets.llp:1:46: error: found arithmetic with words' \
	moe.llm --plan sets.llp
unplanned 'wrong.llp:1:47: error: `tp` is set twice' moe.llm --plan wrong.llp
echo 'plan { tp = 2 }' >short.llp
unplanned 'expected `;`' moe.llm --plan short.llp

# IR text is taken as it is, and looked at when the plan is wanted.
run --emit=ir moe.llm -o moe.ir
wrong_ir()
{
	{ echo 'llmc-ir 1'; echo "set plan.$1"; sed 1d moe.ir; } >wrong.ir
	unplanned "$2" wrong.ir
	grep -q '^wrong.ir:2:' err || bad 'another line'
}
wrong_ir 'tpp = 2' 'a plan has no `tpp`'
wrong_ir 'tp = 0' '1 to 1048576 is legal'
wrong_ir 'tp = (1, 2)' '`tp` is a number'
wrong_ir 'stages = "3, x"' 'found `x`'
wrong_ir 'stages = ""' 'expected a value'
wrong_ir 'mesh = "a\x00b"' 'byte 0'
wrong_ir 'schedule = "a\x0a.csv"' 'the byte 0x0a'
wrong_ir 'split.tp = "heads ffn"' 'expected `,`'

# The page tells of every key.
sed -n 's/^PLAN([A-Z_]*, "\([a-z.]*\)".*/\1/p' \
	"$top_srcdir/passes/plan/plan.def" >keys
while read -r key; do
	grep -q "^|.*\`$key\`.* |.*|" "$top_srcdir/docs/plan.md" ||
		bad "docs/plan.md: no row for $key"
done <keys
test "$(wc -l <keys)" -ge 20 || bad 'few keys'
exit $failed

#!/bin/sh
# When no plan fits: what binds, and that each change that is named gives a
# plan of just that price when the user makes it.
. "${top_srcdir:?}/tests/lib.sh"
large=$examples/llama-2-70b.llm
small=$examples/llama-2-7b.llm

# Each search for what would help takes long: of what does not fit, one of three
# is asked on each day.

# unfit WORDS ARGUMENTS..: refused, and the first line of `why' has the words
unfit()
{
	refused "$@"
	cp err why
	head -n 1 why | grep -qF -e "$1" || bad "not in the first line: $1"
}

# keeps WORDS ARGUMENTS..: such a note is there, and its price is that of the
# plan found by these arguments
keeps()
{
	note=$1
	shift
	grep -qF "one fits $note: a step of " why || bad "no note: $note"
	run "$@"
	grep -qF "one fits $note: a step of $(step_of out) ms" why ||
		bad "no note: one fits $note, in $(step_of out) ms: $(cat why)"
}

# 4 bytes a parameter of 68,976,648,192, of which embeddings and head stay; 10
# more lie on drives
if today 3; then
	pins=offload=optimizer+parameters,offload_to=nvme
	unfit 'offloaded to hosts needs 273,809,408,000 bytes of 250,000,000,000' \
		--target h100x1 --pin $pins "$large"
	keeps 'on 1 node of 2 devices' --target h100x2 --pin $pins "$large"
	run --target h100x1 "$large"
	grep -q 'offload optimizer and parameters to NVMe' out ||
		bad 'not on drives'
fi
if today 3; then
	unfit 'weights and gradients alone need 275,906,592,768 bytes of 78,400,000,' \
		--target h100x1 --pin offload=optimizer "$large"
	keeps 'on 1 node of 4 devices' --target h100x4 --pin offload=optimizer \
		"$large"
fi
if today 3; then
	unfit 'optimizer state alone need 137,9' --target h100x8 \
		--pin offload=none "$large"
	keeps 'on 2 nodes of 8 devices' --target h100x8x2 --pin offload=none \
		"$large"
fi

if today 3; then
	pins=zero=0,recompute=none,tp=1,offload=optimizer
	unfit 'on rank 8 of the pipeline (pp=32, microbatch 1, zero 0' \
		--target h100x8x4 --pin $pins "$large"
	for pin in offload=optimizer recompute=none tp=1; do
		keeps "without $pin" --target h100x8x4 \
			--pin "$(echo $pins | sed "s/,$pin//")" "$large"
	done
	tail -n 1 why | grep -q 'another training run' ||
		bad 'a smaller batch is not the last note'
	batch=$(sed -n 's/.*with batch \([0-9]*\), which.*/\1/p' why)
	keeps "with batch $batch, which is another training run" \
		--target h100x8x4 --pin $pins --dim "batch=$batch" "$large"
fi

if today 3; then
	unfit 'h100x4: pp=8 are 8 ranks, and the target has 4 devices' \
		--target h100x4 --pin pp=8 "$small"
	keeps 'without pp=8' --target h100x4 "$small"
	keeps 'on 1 node of 8 devices' --target h100x8 --pin pp=8 "$small"
fi

# What the model itself says of recomputation is a pin as well.
if today 3; then
	sed 's/^  x = embed/  recompute attention;\n&/' "$large" >hint.llm
	pins=tp=1,offload=optimizer
	unfit 'recompute attention)' --target h100x8x2 --pin $pins hint.llm
	keeps 'with recompute=full for what the model says' --target h100x8x2 \
		--pin $pins,recompute=full hint.llm
fi

# Sequences that are neither long nor few are not split unless that is asked for.
cat >context.llm <<'EOF'
model m {
  dim hidden = 64, heads = 8, hd = hidden / heads, ffn = 256, vocab = 256,
      seq = 8192, batch = 4;
  dtype bf16;
  x = embed(tokens, vocab -> hidden);
  repeat 2 as i {
    n = rmsnorm(x);
    q = linear(n -> heads, hd);
    k = linear(n -> heads, hd);
    v = linear(n -> heads, hd);
    x = x + linear(attention(q, k, v, causal) -> hidden);
    n = rmsnorm(x);
    x = x + linear(silu(linear(n -> ffn)) -> hidden);
  }
  loss = cross_entropy(linear(x -> vocab), labels);
}
train { optimizer = adamw(lr = 1e-4); }
EOF
"$LLMC" target h100x4 | sed 's/ memory = .*/ memory = 0.02;/
	s/ reserve = .*/ reserve = 0;/' >context.target
unfit 'no plan fits' -w --target context.target --pin tp=1 context.llm
keeps 'with cp=2' -w --target context.target --pin tp=1,cp=2 context.llm
unfit 'no plan fits' -w --target context.target --pin tp=1,cp=1 context.llm
grep -q 'with cp=' why && bad 'a pin that is there is not proposed'

# A node of its own, that nothing joins to others.
"$LLMC" target h100x1 | sed '/fabric\|network\|latency\|ports/d
	s/node_devices = .*/node_devices = 1;/' >alone.target
if today 2; then
	unfit 'offloaded to hosts needs' --target alone.target \
		--pin offload=optimizer+parameters,offload_to=nvme "$large"
	grep -q 'one fits on' why && bad 'nodes that cannot be joined'
fi
# Not even on drives is there room for 16 bytes a parameter of 405,853,388,800.
if today 2; then
	unfit 'no plan fits' --target alone.target "$examples/llama-3.1-405b.llm"
	grep -q 'one copy of weights, gradients and optimizer state takes 6,493,6' \
		why || bad 'not all that there is to have'
fi
# Devices of a megabyte, and no number of them is enough.
"$LLMC" target h100x8 | sed 's/ memory = .*/ memory = 0.001;/
	s/ reserve = .*/ reserve = 0;/' >small.target
unfit 'no plan fits' --target small.target "$examples/gpt2-124m.llm"
tail -n 1 why | awk '
	{
		gsub(/,/, "")
		for (i = 1; i < NF; i++)
			if ($i == "needs")
				bytes = $(i + 1)
	}
	!/none fits either on [0-9, and]* devices/ || bytes <= 1000000 {
		print
		exit 1
	}' || bad 'does not say that nothing helps'

# What is said not to fit does not, when it is asked for.  One node: it ends.
"$LLMC" target h100x1 | sed '/fabric\|network\|latency\|ports/d
	s/ memory = .*/ memory = 0.5;/; s/ reserve = .*/ reserve = 0;/' >one.target
asked()
{
	unfit 'no plan fits' --target one.target "$@"
	sed -n 's/.*none fits either on \([0-9, and]*\) dev.*/\1/p' why >tried
	[ "$(cat tried)" = '2, 4 and 8' ] || bad "tried: $(cat tried)"
	for n in 2 4 8; do
		sed "s/ devices = .*/ devices = $n;/" one.target >more.target
		refused 'no plan fits more.target' --target more.target "$@"
	done
}

! today 4 || asked "$small"
! today 4 || asked --pin tp=1,microbatch=1 "$small"

# What is at fault is the model, and not how many devices there are.
for drop in '/^train/,/^}/d' '/optimizer = /d'; do
	sed "$drop" "$large" >no.llm
	for target in h100x1 h100x2 h100x4 h100x8x4; do
		refused 'no.llm:2:7: error: to train, `train.optimizer` is adamw, sgd, lion, adafactor or muon' \
			--target $target no.llm
		grep -q 'fits' err && bad 'whether it fits is not the matter'
	done
done

# Looking for what helps ends before it takes long.
# stops WORDS ARGUMENTS..: one of two on each day
stops()
{
	today 2 || return
	cheaply unfit "$@"
	grep -q 'what else would help was not looked for any longer' why ||
		bad 'all that would help was looked for'
}
stops 'alone need' -w --target h100x8 --dim vocab=2147483648 \
	"$examples/deepseek-v3.llm"
# So it does where few plans are compared, but the programs of the best are
# large, as of 646,215 nodes, whose memory is not planned, or many.
if have llvm; then
	stops 'the smallest plan needs' --emit=llvm --target cpux8 \
		--dim layers=10000 "$examples/gpt-bytes.llm"
	! today 2 || cheaply unfit 'alone need' --emit=cuda --target h100x8 \
		--dim seq=10007 "$examples/megatron-1t.llm"
fi
exit $failed

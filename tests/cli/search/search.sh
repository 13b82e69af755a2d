#!/bin/sh
# What the search says of itself: the best plans, why not another, how it
# went; and what is refused.
. "${top_srcdir:?}/tests/lib.sh"
model=$examples/llama-2-7b.llm

run --target h100x8 "$model"
cp out answer

# ---- the best plans

run --target h100x8 --emit=plans "$model"
cp out plans
[ "$(wc -l <plans)" -eq 11 ] || bad 'not ten plans'
run --target h100x8 --top=10 "$model"
cat answer - plans <<'END' | cmp - out ||

END
	bad '--top is not the answer and --emit=plans'
awk -v best="$(step_of answer)" '
	NR == 1 { next }
	$1 != NR - 1 || $2 < last || (NR == 2 && $2 != best) ||
	(100 * ($2 / best - 1) - $3) ^ 2 > 0.01 {
		print
		bad = 1
	}
	{ last = $2 }
	END { exit bad }' plans || bad 'no table of the best plans'

# What a line says gives its step.
head -n 4 plans | tail -n 3 | tr -d ',' >some
while read -r _ us _ _ pp dp ep cp tp mb zero sched again; do
	chunks=${sched#*\*}
	[ "$chunks" != "$sched" ] || chunks=1
	pins=pp=$pp,dp=$dp,ep=$ep,cp=$cp,tp=$tp,microbatch=$mb,zero=$zero
	case $again in *..*) continue ;; esac	# it does not say all
	pins=$pins,schedule=${sched%\**},interleave=$chunks
	case $again in *' offload '*)
		pins=$pins,offload=${again##* offload }
		again=${again% offload *}
	esac
	pins=$pins,recompute=$(echo "$again" | tr ' ' '+')
	run --target h100x8 --pin "$pins" "$model"
	[ "$(step_of out)" = "$us" ] || bad "$pins takes not $us ms"
done <some

# ---- what it has made is taken after it, as if it had been made there; what
# the memo was asked for may differ

set -- --target h100x8x2 "$examples/llama-3-8b.llm"
for what in --stats --print-after --print-changed --emit=ranks; do
	today 2 || continue
	run "$what" "$@"
	cat out err | grep -v '  memo: ' >taken
	run "$what" --verify-each "$@"
	cat out err | grep -v '  memo: ' >made
	cmp taken made || bad "$what: the programs are other ones"
done

# ---- why not

keys=tp=4,microbatch=4
run --target h100x8 --pin $keys "$model"
pinned=$(step_of out)
run --target h100x8 --why-not $keys "$model"
head -n "$(wc -l <answer)" out | cmp - answer ||
	bad 'the answer is another one with --why-not'
grep -q "^why not $keys?\$" out || bad 'no heading'
grep -q '^tp  *1  *4$' out || bad 'the keys are not there'
sed -n '/^why not/,$p' out | awk -v a="$(step_of answer)" \
	-v b="$pinned" '
	/^step, ms/ && ($3 != a || $4 != b) { print; bad = 1 }
	/^step, ms/ { whole = $5; times = 1 }
	/^fullest/ { times = 0 }
	/^  / && times { sum += $(NF - 1); parts++ }
	END {
		off = sum - whole
		if (parts < 5 || off > 0.02 || off < -0.02) {
			print parts " parts of " sum ", not " whole
			bad = 1
		}
		exit bad
	}' || bad 'the parts are not what it costs more'
# The plan that is best anyway costs nothing more.
pp=$("$LLMC" -w --target h100x8 --emit=plan "$model" |
	sed -n 's/^  pp = \(.*\);/\1/p')
run --target h100x8 --why-not "pp=$pp" "$model"
grep -q '^no key differs$' out || bad 'the best is not itself'
# Pins hold on both sides.
run --target h100x8 --pin tp=2 --why-not zero=3 "$model"
grep -q '^tp ' out && bad 'a pin is lost'
run --target h100x8 --why-not microbatch=1024 "$model"
grep -q '^no plan fits: the smallest plan needs .* on rank 0' out ||
	bad 'does not say why it does not fit'
grep -q '^one fits without microbatch=1024: a step of ' out ||
	bad 'does not say what would'
refused '--why-not:1:6: error: `zero` is 7, and 0 to 3 is legal' \
	--target h100x8 --why-not zero=7 "$model"
refused '--why-not:1:1: error: found `nonsense`, expected KEY=VALUE' \
	--target h100x8 --why-not nonsense "$model"
refused '--why-not:1:1: error: ' --target h100x8 --why-not tq=4 "$model"
refused '--why-not:1:1: error: ' --target h100x8 --why-not '' "$model"

# ---- how it went

run --target h100x8 --explain=search --pin tp=2,zero=1 "$model"
grep -q '^search: pinned: tp, zero$' out || bad 'pins'
grep -q ": a gap of 0.0%\$" out || bad 'gap'
run --target rtx4090x8 --explain=search "$model"
grep -q '^search: pinned: no keys$' out || bad 'no pins'
# Degrees by hand: dp, pp, tp divide 8 and their product is at most 8.
grep -q '^  degrees  *20$' out || bad 'degrees'
# What became of the space, the answer knows, too.
cp out report
counted()
{
	sed -n "s/^ *$1  *\([0-9]*\)\$/\1/p" report
}
grep -q 'the search ended' report && bad 'the search ended before it was done'
grep -q ": a gap of 0.0%\$" report || bad 'gap of a whole search'
run --target rtx4090x8 --emit=answer-json "$model"
while read -r key what; do
	n=$(counted "$what")
	# of what does not fit, bounds may cut all
	[ "${n:-0}" -gt 0 ] || [ "$key$n" = too_large0 ] || bad "no $what"
	grep -qx "    \"$key\": $n," out || bad "plan.json: $key is not $n"
done <<'END'
space plans in the space
degrees degrees
degrees_cut not looked at: their bound is above
shardings placements made
priced plans priced, with ZeRO and stages
cut cut, their pieces are above
too_large did not fit
schedules run as a schedule
END
grep -qx '    "plans_left_open": 0,' out || bad 'plan.json: plans left open'
grep -qx '    "gap": 0' out || bad 'plan.json: gap of a whole search'
# What backward's layers begin with is alive in a stage of one layer, too: with
# it no choice is taken that its arena has no memory for.
run --target h100x8x8 --explain=search \
	--pin schedule=interleaved,interleave=5,pp=16 "$examples/llama-2-70b.llm"
grep -q ": a gap of 0.0%\$" out || bad 'gap with stages of one layer'
# Ways that save little have more temporary bytes: that a rank of three stages
# is full is proved with both.  It takes as long as all else here.
if today 3; then
	run --target h100x8x64 --explain=search \
		--pin schedule=interleaved,interleave=3,pp=16 \
		"$examples/deepseek-v3.llm"
	grep -q ": a gap of 0.0%\$" out ||
		bad 'gap of several stages on a rank'
fi
# Where fewer plans fit than are wanted, nothing is walked over twice: 234 plans
# are priced in three walks and three more looks at what came close.
run --target h100x8 --explain=search --top=20 \
	--pin tp=8,zero=0,sequence=off "$examples/llama-3-8b.llm"
cp out report
[ "$(counted 'plans priced, with ZeRO and stages')" -le 260 ] ||
	bad 'a walk that finds fewer plans than are wanted is made again'
# A search that ends before it has looked at all says how much it left, and how
# far below the answer that may be.
set -- --target h100x8x2048 --search-seconds=1 -w "$examples/mixtral-8x7b.llm"
run --explain=search "$@"
cp out report
left=$(counted 'plans left open: the search ended')
[ "${left:-0}" -gt 0 ] || bad 'nothing is left'
awk -v step="$(step_of report)" '
	/ no plan of the space below / {
		told++
		sub(/%$/, "")
		off = 100 * ($2 / $10 - 1) - $NF
		# all three are rounded
		most = 0.0501 + 0.05 * ($2 + $10) / $10 / $10
		if ($2 != step || $10 >= $2 || off * off > most * most)
			bad = 1
	}
	END { exit told != 1 || bad }' report || bad 'gap of what is left'
run --emit=answer-json "$@"
[ "$(field out plans_left_open)" -gt 0 ] || bad 'plan.json: plans left open'
awk -v step="$(field out us)" -v bound="$(field out bound_us)" \
	-v gap="$(field out gap)" 'BEGIN {
		off = step / bound - 1 - gap
		exit !(gap > 0 && off * off < 1e-14)
	}' || bad 'plan.json: gap of what is left'
run --target h100x8 --emit=plan "$model"
cp out best.llp
run --target h100x8 --plan best.llp --emit=arena "$model"
cp out memory
run --target h100x8 --explain=memory "$model"
# the last line, after an empty one, is about graphs of GPUs
head -n -2 out | tail -n "$(wc -l <memory)" | cmp - memory ||
	bad '--explain=memory is not --emit=arena'
tail -n 1 out | grep -q '^its graphs have about ' ||
	bad "--explain=memory does not end with graphs: $(tail -n 1 out)"
# every microbatch of gpipe has slots and graphs of its own
run --target h100x8 --pin pp=2,tp=1,dp=1,schedule=gpipe,microbatch=1 \
	--dim batch=300 --explain=memory "$examples/gpt-bytes.llm"
tail -n 1 out | grep -q '^its graphs have about 21672 kernels' ||
	bad "graphs of gpipe: $(tail -n 1 out)"
# and of very many, they fit no device
! today 3 ||
	cheaply refused 'no plan fits h100x8: the smallest plan needs ' \
		--target h100x8 --dim batch=25000 "$examples/gpt-bytes.llm" \
		--pin pp=2,tp=1,dp=1,schedule=gpipe,microbatch=1
run --target h100x8 --explain=memory,search --top=2 "$model"
cp out once
run --target h100x8 --explain=search --top=2 --explain=memory "$model"
cmp out once || bad 'two options are not a list'

# ---- a pin leaves less, and so nothing better: each is placed as it is best

run --target h100x8 --pin tp=8 "$examples/llama-3-8b.llm"
whole=$(step_of out)
for part in sequence=on sequence=off microbatch=16,sequence=on; do
	run --target h100x8 --pin "tp=8,$part" "$examples/llama-3-8b.llm"
	awk -v a="$whole" -v b="$(step_of out)" 'BEGIN { exit !(a <= b) }' ||
		bad "tp=8 takes $whole ms, with $part less"
done

# ---- what is refused

misused '`--top` takes a whole number from 1 to 1000; found `0`' \
	--target h100x8 --top=0 "$model"
misused 'from 1 to 1000; found `1001`' --target h100x8 --top=1001 "$model"
misused 'from 1 to 1000; found `x`' --target h100x8 --top=x "$model"
misused 'found `serch` (did you mean `search`?)' --target h100x8 \
	--explain=cost,serch "$model"
misused 'is one of cost, memory, search, tiles; found ``' --target h100x8 \
	--explain=cost, "$model"
refused '--pin:1:6: error: a search takes one set of `recompute`' \
	--target h100x8 --pin 'pp=2,recompute=(q+k)*1+none*1' "$model"
refused '--pin:1:1: error: a search makes its own schedules' \
	--target h100x8 --pin schedule=x.csv "$model"
for asked in --top=3 --why-not=tp=2 --explain=search --explain=cost \
	--emit=plans; do
	refused 'needs --target' $asked "$model"
done
{
	cat "$model"
	echo 'plan { tp = 2; microbatch = 1; }'
} >whole.llm
for asked in --top=3 --why-not=tp=2 --explain=search --emit=plans; do
	refused '--plan gives the whole plan' --target h100x8 \
		--plan best.llp $asked "$model"
	refused 'the model has a plan of its own' --target h100x8 $asked \
		whole.llm
done
refused 'the pass `search` is not among those that run' --target h100x8 \
	--emit=plans --passes=default "$model"
refused 'the pass `search` did not run' --target h100x8 --emit=plans \
	--bisect-limit=0 "$model"
for asked in --why-not=tp=2 --explain=search --explain=memory; do
	refused 'adds to the answer' --target h100x8 --emit=plans \
		$asked "$model"
done
refused 'adds to the answer' --target h100x8 --top=3 \
	--emit=answer-json "$model"

# ---- a model without layers has plans, too

cat >flat.llm <<'END'
model flat {
  dim hidden = 64, vocab = 256, seq = 16;
  dtype f32;
  x = rmsnorm(embed(tokens, vocab -> hidden) @ "embed") @ "norm";
  logits = linear(x -> vocab) @ "head";
  loss = cross_entropy(logits, labels);
}
train { batch = 4; optimizer = adamw(lr = 1e-3); }
END
run --target h100x2 --pin tp=2 flat.llm
exit $failed

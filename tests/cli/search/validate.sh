#!/bin/sh
# llmc validate on the committed measurements: the marks of docs/cost.md are
# kept, columns are found by name, and no row is lost without a word.
. "${top_srcdir:?}/tests/lib.sh"
data=$tests/data

# below FILE NAME MEDIAN P90: are the errors of that group at most these?
below()
{
	awk -v name="$2" -v median="$3" -v p90="$4" '
	index($0, "\"name\": \"" name "\"") { found = 1; next }
	found == 1 {
		split($0, part, /[:,]/)
		found = 2
		if (part[2] + 0 > median || part[4] + 0 > p90) {
			print name ": " $0
			exit 1
		}
	}
	END { if (found != 2) { print "no group " name; exit 1 } }' "$1" ||
		bad "$1, $2"
}

run validate --json "$data/kernels.tsv" -o kernels
run validate --json "$data/collectives.tsv" -o links
below kernels 'contractions with m >= 256, attention prefill' 0.08 0.2
below kernels 'contraction, m >= 256' 0.08 0.2
below kernels 'attention prefill' 0.08 0.2
below links '64 KB and more' 0.12 0.3

# Whole steps, and the sources that have many rows or that models are held to.
{
	cat "$data/train.tsv"
	sed 1d "$data/train-more.tsv"
} >runs.tsv
run validate --json runs.tsv -o steps
below steps '' 0.06 0.18
for mark in 'Korthikanti et al. arXiv:2205.05198 Tables 3+5/0.04/0.06' \
	'VIA-Research/vTrain data/ground_truth_single.csv/0.09/0.155' \
	'mosaicml/llm-foundry scripts/train/benchmarking/README.md/0.04/0.11'
do
	p90=${mark##*/} mark=${mark%/*}
	below steps "${mark%/*}" "${mark##*/}" "$p90"
done

# Runs of a framework that no other row is of.
run validate --json "$data/train-titan.tsv" -o titan
below titan '' 0.08 0.1

# The one of them that recomputes by op runs more again than attention alone, and
# what others recompute is their own.
for word in alternate attention; do
	run validate --rows --assume selective=$word "$data/train-titan.tsv"
	sed '/^$/q' out | awk '$1 ~ /^[0-9]+$/ { print $3 }' >$word
done
paste alternate attention | awk '
	NR == 1 && $1 < 1.02 * $2 || NR > 1 && $1 != $2 { exit 1 }
	END { if (NR != 4) exit 1 }' || bad 'recomputation by op'

# A row may say so itself, of any software.
sed '2s/torchtitan (/other (/; 2s/attention=flash/& selective=alternate/; 3,$d' \
	"$data/train-titan.tsv" >own.tsv
run validate --rows own.tsv
sed '/^$/q' out | awk '$1 ~ /^[0-9]+$/ { print $3 }' >own
sed 1q alternate | cmp -s - own || bad 'a row that recomputes by op'

# A plan that recomputes itself does nothing twice by it.
for recompute in none full; do
	for word in attention alternate; do
		run --emit=cost --target h100x8 --pin "recompute=$recompute" \
			--assume "sends=blocking,selective=$word" \
			"$examples/llama-3.2-1b.llm"
		sed -n 's/^contractions *\([0-9]*\).*/\1/p' out >$word
	done
	[ "$(cat attention)" -eq "$(cat alternate)" ]
	echo $?
done >again
printf '1\n0\n' | cmp -s - again || bad 'by op, and by the plan'

# Runs in 8 bits, which no other table has: all are quicker than in 16, and what
# brings operands to 8 bits takes time.
run validate --json "$data/train-fp8.tsv" -o eight
below eight '' 0.08 0.16
for trait in narrowing=fused products=fp8 products=own; do
	run validate --rows --assume $trait "$data/train-fp8.tsv"
	sed '/^$/q' out | awk '$1 ~ /^[0-9]+$/ { print $3 }' >$trait
done
paste narrowing=fused products=fp8 products=own |
	awk '{ n++; if (!($1 < $2 && $2 * 1.1 < $3)) exit 1 }
	END { if (n != 37) exit 1 }' || bad 'products of 8 bits'

# All plans of one cluster of T4 were measured, so their order can be judged.
# first_of FILE PART RANK: of the plans of FILE the one that is ranked first
# took at most so much more than the best, and the ranks agree so far.
first_of()
{
	awk -v part="$2" -v least="$3" '
	/"by": "all"/ { getline; sub(/.*"rank": /, ""); rank = $0 + 0 }
	/"measured_us"/ {
		is = $0
		sub(/.*"measured_us": /, "", is)
		said = $0
		sub(/.*"predicted_us": /, "", said)
		if (!n++ || is + 0 < best)
			best = is + 0
		if (n == 1 || said + 0 < low) {
			low = said + 0
			first = is + 0
		}
	}
	END {
		print n " plans, the first at " first / best ", rank " rank
		exit !(n > 1 && first <= best * (1 + part) && rank >= least)
	}' "$1" >out || bad "$1: the order of plans"
}

{
	head -n 1 "$data/train-more.tsv"
	grep "	t4	" "$data/train-more.tsv"
} >t4.tsv
run validate --rows --json t4.tsv -o plans
first_of plans 0.05 0.95
below plans '' 0.12 0.25

# Every row is counted, predicted or not, and shown by --rows.
for file in kernels collectives; do
	n=$(($(wc -l <"$data/$file.tsv") - 1))
	run validate --rows "$data/$file.tsv" -o rows
	shown=$(sed '/^$/q' rows | grep -c '^ *[0-9]')
	test "$shown" -eq "$n" || bad "$file: $shown of $n rows are shown"
	grep -q "^$n rows of $file: " rows || bad "$file: not $n rows"
done

# Rows between nodes are predicted once it is said what joins those.
run validate --network=ib200 "$data/collectives.tsv"
grep -q '^1659 rows of collectives: 1659 predicted, 0 not' out ||
	bad '--network does not help'

# Columns go by name: turned round, and one more, all is the same.
awk -F '\t' -v OFS='\t' '{
	line = NR == 1 ? "more" : "x"
	for (i = NF; i > 0; i--)
		line = line OFS $i
	print line
}' "$data/kernels.tsv" >turned.tsv
"$LLMC" validate --json turned.tsv | cmp - kernels ||
	bad 'the order of columns matters'

cut -f 1-14,17,18 "$data/kernels.tsv" >cut.tsv
refused 'the columns `time_us`, `tflops`' validate cut.tsv
cut -f 2- "$data/kernels.tsv" >cut.tsv
refused 'none of these columns is `kernel`, `op`, `step_s` or `tpot_ms`' validate cut.tsv
printf 'op\tgpu\nall_reduce\n' >short.tsv
refused ':2:1: error: this row has 1 cells, and there are 2' validate short.tsv
: >empty.tsv
refused 'this file is empty' validate empty.tsv
refused 'there is no network `ib40` (did you mean `ib400`?)' \
	validate --network ib40 "$data/collectives.tsv"
refused '--network is for collectives, and this is a table of kernels' \
	validate --network ib400 "$data/kernels.tsv"
refused 'cannot read' validate none.tsv

# What cannot be priced is counted with its reason.
{
	head -n 1 "$data/collectives.tsv"
	for row in 'all_reduce xpu 8 1' 'all_shuffle h100 8 1' \
		'all_reduce h100 8 3' 'all_reduce h100 two 1'; do
		# shellcheck disable=SC2086 # four words
		printf '%s\t%s\t%s\t%s\tNVLink\t65536\tx\thalf\t9\tt\ts\n' $row
	done
} >odd.tsv
run validate odd.tsv
for why in '1 not: its gpu is no target' '1 not: no formula is for this op' \
	'1 not: its nodes do not divide its ranks' \
	'1 not: odd.tsv:5:17: its n_gpus is not a whole number from 1 on'; do
	grep -q "$why" out || bad "no \`$why'"
done

# A time that has no ratio to the prediction, being next to none, is no error of
# endless size.
{
	head -n 1 "$data/collectives.tsv"
	printf 'all_reduce\th100\t8\t1\tNVLink\t65536\tx\thalf\t%s\tt\ts\n' \
		1e-308 9
} >brief.tsv
run validate --rows brief.tsv
grep -q '1 predicted, 1 not' out &&
	grep -q '1 not: what it took, 1e-308 us, has no ratio to a' out &&
	! grep -q 'inf' out || bad 'a time of 1e-308'
run validate --json --rows brief.tsv
grep -q '"predicted_us": null, "why": "what it took, 1e-308 us, has' out &&
	! grep -q 'inf' out || bad 'a time of 1e-308 in JSON'

# Runs go through all passes; the parts that plans do not say have defaults.
h='model layers hidden heads kv_heads ffn mlp vocab seq gpu gpus_per_node'
h="$h n_gpus node_link_gb_s tp pp dp cp vpp mbs gbs sp recompute zero"
h="$h precision step_s mem_gb mem_kind software source traits"
{
	echo "$h"
	echo m 1 8 1 1 8 gelu 8 8 a100 8 8 0 1 1 8 1 1 1 8 0 none 0 bf16 2 \
		- - x s -
} | tr ' ' '\t' >train.tsv
run validate train.tsv
grep -q '1 predicted, 0 not' out || bad 'a run is not predicted'
sed 's/\ta100\t/\tz100\t/' train.tsv >z.tsv
run validate z.tsv
grep -q '1 not: there is no target of that name' out ||
	bad 'a target of no name prices a run'
# a step of more microseconds than any number has
sed 's/\t2\t-\t-\tx/\t1e305\t-\t-\tx/' train.tsv >long.tsv
run validate --json --rows long.tsv
grep -q '"measured_us": 0, "predicted_us": null, "why": "what it took is' out ||
	bad 'a step of 1e305 s'
# a device by the words of its name is the same as by that of its target
for name in A100 'NVIDIA A100-SXM4-80GB'; do
	sed "s/	a100	/	$name	/" train.tsv >words.tsv
	run validate words.tsv
	grep -q '1 predicted, 0 not' out || bad "$name is no target"
done
# what a plan cannot say prices none: no word stands for what is usual
while read -r from to why; do
	tr '\t' , <train.tsv | sed "2s/$from/$to/" | tr , '\t' >odd.tsv
	run validate odd.tsv
	grep -q "1 not: odd.tsv:2:[1-9][0-9]*: its $why\$" out ||
		bad "no \`its $why\`"
done <<'END'
,1,1,8,1,1, ,-2,1,8,1,1, tp is not one of 1 2 3 \.\.
,1,1,8,1,1, ,1,x,8,1,1, pp is not one of 1 2 3 \.\.
,none,0,bf16, ,some,0,bf16, recompute is not one of none selective full unknown
,none,0,bf16, ,none,9,bf16, zero is not one of 0 1 2 3
,none,0,bf16, ,none,0,fp99, precision is not one of bf16 fp16 fp8
a100,8,8,0, a100,8,8,fast, node_link_gb_s is not one of the numbers from 0 on
END
# data ranks that a row does not say are what is left of its devices
for dp in 8 - 4; do
	tr '\t' , <train.tsv | sed "2s/,1,1,8,1,1,/,1,1,$dp,1,1,/" |
		tr , '\t' >odd.tsv
	run validate --rows odd.tsv
	awk '$1 == 2 { print $3 }
	/ 1 not: its degrees are not its n_gpus$/ { print "none" }' out
done >degrees
awk '{ us[NR] = $1 } END { exit !(us[1] > 0 && us[2] == us[1] &&
	us[3] == "-" && us[4] == "none" && NR == 4) }' degrees ||
	bad "$(cat degrees)"
for name in tp mem_gb; do
	sed "1s/source/$name/" train.tsv >twice.tsv
	refused "twice.tsv:1:1: error: two columns are called \`$name\`" \
		validate twice.tsv
done

# --assume counts more than the row, and is looked at before any row.
seconds()
{
	"$LLMC" validate --rows "$@" train.tsv |
		awk '$1 == 2 { print $3 }'
}
test "$(seconds --assume launches=native)" != "$(seconds)" ||
	bad 'the host of a small model costs nothing'
test "$(seconds --assume norms=alone)" != "$(seconds)" ||
	bad 'norms in steps cost what one kernel does'
test "$(seconds --assume maps=alone,launches=eager)" = "$(seconds)" ||
	bad '--assume of what is so anyway changes a price'
refused '--assume:1:13: error: `maps` is fused or alone' \
	validate --assume flash=2 --assume 'sends=async maps=lon' train.tsv
refused 'there is no trait `map` (did you mean `maps`?)' \
	validate --assume map=alone train.tsv
sed 's/-$/attention=fast/' train.tsv >fast.tsv
run validate fast.tsv
grep -q '1 not: `attention` is flash or unfused' out ||
	bad 'a trait of no such word prices a run'
exit $failed

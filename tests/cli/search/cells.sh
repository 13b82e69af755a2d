#!/bin/sh
# Tables of llmc validate as people and spreadsheets write them: another
# spelling of the same changes no figure, and a cell that is not what its column
# has is said, with its place, and prices nothing.
. "${top_srcdir:?}/tests/lib.sh"

h='model gpu n_gpus tp pp ep precision framework input_len output_len'
h="$h batch_or_concurrency scenario throughput_out_tok_s ttft_ms tpot_ms source"
l='Llama-3.1-8B h100_sxm 2 2 1 - fp8 vllm_0.12.0 1024 256 16 in_flight - 50.5'
l="$l 8.25 page"
{
	echo "$h"
	echo "$l"
} | tr ' ' '\t' | tr '_' ' ' | sed '1s/ /_/g' >plain.tsv

# figures FILE: kinds, measured and predicted times of its rows, and how many
# rows of it are not predicted
figures()
{
	run validate --rows "$1"
	sed '/^$/q' out | awk '$1 ~ /^[0-9]+$/ { print $NF, $2, $3 }' >now
	sed -n 's/.* predicted, \(.*\) not$/\1/p' out >>now
}

# same WHAT SED: after SED the plain table has the same figures
same()
{
	sed "$2" plain.tsv >other.tsv
	cmp -s plain.tsv other.tsv && bad "$1 is no change"
	figures other.tsv
	cmp -s now want || bad "$1 is another line"
}

figures plain.tsv
cp now want
printf '0\n' | cmp -s - want && bad 'nothing is predicted'
grep -q '^tpot 8250\.0 [1-9]' want && grep -q '^ttft 50500\.0 [1-9]' want &&
	grep -q '^0$' want || bad 'the plain table'

# ---- what changes nothing ----

tab=$(printf '\t') mark=$(printf '\357\273\277') nbsp=$(printf '\302\240')
same 'a byte order mark' "1s/^/$mark/"
same 'a carriage return' "s/\$/$(printf '\r')/"
same 'empty lines' 'a\
'
same 'a line of tabs' "\$a\\
$tab$tab$tab"
same 'blanks around cells' "s/$tab/ $tab  /g; s/^/ /; s/\$/  /"
same 'blanks of web pages' "2s/$tab/$nbsp$tab$nbsp/g"
same 'quotes around cells' "2s/$tab/\"$tab\"/g; 2s/^/\"/; 2s/\$/\"/"
same 'quotes around names' "1s/$tab/\"$tab\"/g; 1s/^/\"/; 1s/\$/\"/"
same 'upper case of names' '1y/abcdefghijklmnopqrstuvwxyz/ABCDEFGHIJKLMNOPQRSTUVWXYZ/'
same 'blanks in names' '1s/_/ /g'
same 'hyphens in names' '1s/_/-/g'
while read -r from to; do
	same "$to for $from" "2s$tab$from$tab$to$tab" # the tab is no part of it
done <<'END'
Llama-3.1-8B LLaMA_3.1_8B
Llama-3.1-8B meta-llama/Llama-3.1-8B-Instruct
Llama-3.1-8B llama3.1-8b
h100.sxm NVIDIA_H100_80GB_HBM3
h100.sxm H100
h100.sxm H100-SXM5-80GB
fp8 FP8
fp8 fp8_(e4m3)
vllm.0.12.0 vLLM_v0.12.0
vllm.0.12.0 VLLM-0.12.0
1024 1,024
1024 1024.0
1024 1024_tokens
256 256_tok
16 16.0
16 16_requests
50.5 50.5ms
50.5 50.5_ms
50.5 0.0505_s
50.5 50500us
50.5 5.05e1
8.25 8.25_MS
8.25 +8.25
END
for empty in '' n/a N/A NaN none -- null; do
	same "\`$empty' for a hyphen" "2s|$tab-$tab|$tab$empty$tab|g"
done
printf '\r' | tr -d '\n' >cr
tr '\n' '\r' <plain.tsv >other.tsv
figures other.tsv
cmp -s now want || bad 'lines that end in carriage returns'

# ---- what is refused as a whole ----

{
	printf '\377\376'
	cat plain.tsv
} >other.tsv
refused 'other.tsv:1:1: error: this file is in UTF-16' validate other.tsv
tr '\t' , <plain.tsv >other.tsv
refused 'other.tsv:1:1: error: this line has no tab' validate other.tsv
sed "2s/$tab/$tab$tab/" plain.tsv >other.tsv
refused 'other.tsv:2:1: error: this row has 17 cells' validate other.tsv
sed 2s/fp8/f@8/ plain.tsv | tr @ '\000' >other.tsv
refused 'other.tsv:2:1: error: this row has a zero byte' validate other.tsv
sed 1s/tpot_ms/TTFT-ms/ plain.tsv >other.tsv
refused 'tpot_ms' validate other.tsv

# ---- cells that are no numbers, each alone in its row ----

# columns PLACES WORDS..: rows in which one of these columns is one of WORDS
wrong()
{
	columns=$1
	shift
	for column in $columns; do
		for word; do
			sed 1d plain.tsv | awk -F '\t' -v OFS='\t' \
				-v c="$column" -v w="$word" '{ $c = w; print }'
			echo "$column $word" >>cases
		done
	done
}

{
	sed 1q plain.tsv
	wrong '3 4 5' x two -1 0 1.5 1e400 0x8 8/2 1,5 8.cards '2 2' 1e-9
	wrong 6 x -1 1.5 0x8
	wrong '9 10 11' many -5 0 1e999 0x10 1..2 1,5 10,24 ,024 '12 34' 1/2 \
		'5 years' 3ms
	wrong '13 14 15' fast -5 0 1e999 nan.0 1.2.3 1,5 1,024 5,5 '1 2' 5min \
		'5 tok' 1e-400 ++1 1e
} >wrong.tsv
n=$(wc -l <cases)
test "$n" -ge 120 || bad "$n cases are few"
run validate --rows wrong.tsv
sed '/^$/q' out >rows
grep -q " 0 predicted, " out || bad 'a wrong cell prices a row'
awk -F '\t' 'NR == FNR { split($0, part, " "); column[FNR + 1] = part[1]; next }
FNR > 1 {
	at = 1
	for (i = 1; i < column[FNR]; i++)
		at += length($i) + 1
	print "wrong.tsv:" FNR ":" at ": its "
}' cases wrong.tsv >places
while read -r place; do
	grep -qF "$place" rows || bad "nothing is said of $place"
done <places

# A number that might be either is said, and two commas or a point decide.
sed "2s/50.5/1,050.5/" plain.tsv >other.tsv
run validate --rows other.tsv
grep -q '^ *2 *1050500\.0 *[1-9].*: ttft$' out || bad 'a grouped number'
# What a model, a device or a precision is called, that nobody knows, is said.
while read -r column word why; do
	awk -F '\t' -v OFS='\t' -v c="$column" -v w="$word" \
		'NR == 2 { $c = w } { print }' plain.tsv >other.tsv
	run validate other.tsv
	grep -q "2 not: $why" out || bad "$word prices a row"
done <<'END'
1 Lama-3.1-8B no shape of Lama-3.1-8B is known
2 X100 no target for X100
7 fp3 no rate for fp3
END
# What says no precision is taken to have 16 bits, and a note says so.
for word in - bf16; do
	sed "2s/${tab}fp8$tab/$tab$word$tab/" plain.tsv >other.tsv
	figures other.tsv
	mv now "said $word"
	grep -c '2 with a note: no precision is said' out >>notes
done
cmp -s 'said -' 'said bf16' && printf '1\n0\n' | cmp -s - notes ||
	bad 'no precision'
# A line without a figure is a row, too; a rate alone is one that is predicted.
sed "2s/50.5/-/; 2s/8.25/-/" plain.tsv >other.tsv
run validate other.tsv
grep -q '1 not: it has no figure that its scenario predicts' out ||
	bad 'a line is lost'
sed "2s/in.flight$tab-/in flight${tab}900 tok\\/s/; 2s/50.5/-/; 2s/8.25/-/" \
	plain.tsv >other.tsv
run validate --rows other.tsv
grep -q '^ *2 *1111\.1 *[1-9].*: throughput$' out || bad 'a rate alone'
exit $failed

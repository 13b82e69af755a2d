#!/bin/sh
# llmc validate says what the worst rows have in common: what is put into a
# table on purpose is found, and nothing is where nothing was put.
. "${top_srcdir:?}/tests/lib.sh"

# table CODE [BYTES]: 120 collectives, of up to ten times so many bytes, that
# take what is predicted times f, which CODE of awk sets by i, gpu, n and tool,
# or up to 6% more
table()
{
	{
		printf 'op\tgpu\tn_gpus\tn_nodes\tinterconnect\tsize_bytes\t'
		printf 'size_semantics\tdtype\ttime_us\ttool\tsource\n'
		for gpu in a100 h100; do
			for tool in nccl-tests profiler; do
				for n in 2 4 8; do
					for size in 1 2 3 4 5 6 7 8 9 10; do
						echo "all_reduce $gpu $n 1 -" \
							"$((size * ${2:-100000})) x" \
							"half 1 $tool paper"
					done
				done
			done
		done | tr ' ' '\t'
	} >ones.tsv
	run validate --rows ones.tsv
	sed '/^$/q' out | awk '$1 ~ /^[0-9]+$/ { print $3 }' >predicted
	awk -F '\t' -v OFS='\t' '
		NR == FNR { us[FNR + 1] = $1; next }
		FNR > 1 {
			i = FNR - 1; gpu = $2; n = $3; tool = $10
			f = 1 + i % 7 / 100
			'"$1"'
			$9 = sprintf("%.3f", us[FNR] * f)
		}
		{ print }' predicted ones.tsv
}

# The ten rows of one tool on 8 of one device take twice as long.
table 'if (gpu == "a100" && n == 8 && tool == "profiler") f = 2' >slow.tsv
run validate slow.tsv
sed -n '/^worst/,$p' out >said
diff said - <<'END' || bad 'what ten rows have in common'
worst tenth of all rows: 12 of 120 rows, 5.9% off and more
     10 have n_gpus=8, gpu=a100 and tool=profiler, as 10 of all, 8.3%; their error is -50.0% in the median
END

# Neither does the order of rows or of columns matter, nor what is not said.
{
	sed 1q slow.tsv
	sed 1d slow.tsv | sort -r
} >turned.tsv
awk -F '\t' -v OFS='\t' '{
	line = $NF
	for (i = NF - 1; i > 0; i--)
		line = line OFS $i
	print line
}' slow.tsv >back.tsv
for file in turned back; do
	run validate $file.tsv
	sed -n '/^worst/,$p' out | cmp -s - said || bad "$file is another table"
done

# The same for programs.
run validate --json slow.tsv -o slow.json
grep -q '"measure": "all", "rows": 120, "worst": 12, "least": 0.05' slow.json ||
	bad 'the measure in JSON'
grep -q '"where": { "n_gpus": "8", "gpu": "a100", "tool": "profiler" }' \
	slow.json || bad 'the columns in JSON'
grep -q '"worst": 10, "rows": 10, "median": -0.4' slow.json ||
	bad 'the rows in JSON'

# Sizes are ranges, from a power of 4 to the next.
table 'if ($6 < 200000) f = 1.5' >small.tsv
run validate small.tsv
grep -q '^     12 have size_bytes=65536..262143, as 24 of all, 20.0%' out ||
	bad 'a range of sizes'
# Of the largest numbers the range has no end.
table 'if ($6 == 4600000000000000) f = 1.5' 460000000000000 >large.tsv
run validate large.tsv
grep -q '^     12 have size_bytes=>= 4503599627370496, as 12 of all, 10.0%' out ||
	bad 'a range of the largest sizes'

# Two groups are told apart, the second of the rows that are left.
table 'if (i % 20 == 0) { $8 = "bf16"; f = 3 }
	if (i % 20 == 7) { $10 = "other"; f = 2 }' >two.tsv
run validate two.tsv
grep '^ ' out | sed -n '/ have /p' >said
diff said - <<'END' || bad 'two groups'
      6 have dtype=bf16, as 6 of all, 5.0%; their error is -66.7% in the median
      6 have tool=other, as 6 of all, 5.0%; their error is -50.0% in the median
END

# A cell that says nothing is no value, however that is written.
for blank in - n/a None; do
	table 'if (i % 20 == 7) { $10 = "'$blank'"; f = 2 }' >blank.tsv
	run validate blank.tsv
	grep -q 'no value of a column is more frequent' out ||
		bad "the value of a cell that is $blank"
done

# What is spread over all columns is none's, and few rows have no worst tenth.
table 'f = 1 + i * 53 % 127 / 200' >even.tsv
run validate even.tsv
grep -q 'no value of a column is more frequent there than by chance' out ||
	bad 'chance is a reason'
sed 50q slow.tsv >few.tsv
run validate few.tsv
grep -q '^49 rows' out || bad 'the few rows'
grep -q '^worst' out && bad 'a tenth of 49 rows'
run validate --json few.tsv
grep -q '"worst": \[\]' out || bad 'a tenth of 49 rows in JSON'

# Of serving each measure is told alone, and a model's family is a column: of 60
# lines six of three Llamas have twice the time for a token, and six with 4096
# tokens of prompt a fifth of the time to the first.
{
	printf 'model\tgpu\tn_gpus\ttp\tpp\tep\tprecision\tframework\t'
	printf 'input_len\toutput_len\tbatch_or_concurrency\tscenario\t'
	printf 'throughput_out_tok_s\tttft_ms\ttpot_ms\tsource\n'
	for i in 0 1 2 3 4 5 6 7 8 9; do
		for model in Qwen3-4B Qwen3-8B Qwen3-14B Qwen2.5-7B \
			Qwen2.5-14B "$(echo Llama-2-7B Llama-3.1-8B \
				Llama-3.2-1B Qwen3-1.7B Qwen3-1.7B |
				cut -d ' ' -f $((i % 5 + 1)))"; do
			echo "$model h100 1 1 1 - bf16 engine" \
				"$((i == 3 ? 4096 : 256)) 64 4 in-flight - 1 1 me"
		done
	done | tr ' ' '\t'
} >ones.tsv
run validate --rows ones.tsv
sed '/^$/q' out | awk '$1 ~ /^[0-9]+$/ { print $NF, $3 / 1000 }' >predicted
awk -F '\t' -v OFS='\t' '
	NR == FNR { split($0, part, " "); ms[part[1] (++n[part[1]])] = part[2] }
	NR > FNR && FNR > 1 {
		$15 = ms["tpot" (FNR - 1)] * ($1 ~ /Llama/ ? 2 : 1)
		$14 = ms["ttft" (FNR - 1)] * ($9 == 4096 ? 0.2 : 1)
	}
	NR > FNR' predicted ones.tsv >serve.tsv
run validate serve.tsv
sed -n '/^worst/,$p' out >said
diff said - <<'END' || bad 'measures of serving'
worst tenth of tpot: 6 of 60 rows, 50.0% off and more
      6 have family=llama, as 6 of all, 10.0%; their error is -50.0% in the median

worst tenth of ttft: 6 of 60 rows, 400.0% off and more
      6 have input_len=4096..16383, as 6 of all, 10.0%; their error is +400.0% in the median
END
exit $failed

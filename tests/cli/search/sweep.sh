#!/bin/sh
# llmc sweep: each row is what a run of its own finds, on any number of
# threads; lists expand; what cannot be read is refused before any search.
. "${top_srcdir:?}/tests/lib.sh"
model=$examples/gpt2-124m.llm

# sweep ARGUMENTS..: CSV into out
sweep()
{
	run sweep --csv "$model" --tokens 1B "$@"
}

# column NAME: of all rows, in their order
column()
{
	awk -F, -v name="$1" 'NR == 1 {
		for (i = 1; i <= NF; i++)
			if ($i == name)
				n = i
	} NR > 1 { print $n }' "${2-out}"
}

# ---- a row is a run ----

sweep --target 'h100x{1,2},t4x2' --batch 256,512 --threads 3
mv out three
sweep --target 'h100x{1,2},t4x2' --batch 256,512 --threads 1
cmp out three || bad 'another number of threads, another table'
[ "$(wc -l <out)" -eq 7 ] || bad 'not six cells'
run --target t4x2 --dim batch=512 --tokens 1B --emit=answer-json "$model"
mv out alone
mv three out
step=$(awk -F, '$1 == "t4x2" && $5 == 512 { print $8 }' out)
[ "$step" = "$(sed -n '/"step": {/{n;s/.*"us": \([0-9.e+]*\).*/\1/p;}' \
	alone)" ] || bad "the step is not that of a run of its own: $step"
hours=$(awk -F, '$1 == "t4x2" && $5 == 512 { print $16 }' out)
[ "$hours" = "$(field alone device_hours)" ] || bad "other hours: $hours"

# ---- lists ----

# cells WANTED ARGUMENTS..: the targets and batches, sorted
cells()
{
	wanted=$1
	shift
	sweep "$@" --pin dp=1,microbatch=16
	got=$(awk -F, 'NR > 1 { print $1 ":" $5 }' out | sort | tr '\n' ' ')
	[ "$got" = "$wanted " ] || bad "cells: $got; expected: $wanted"
}

cells 't4x1:16 t4x1:32 t4x2:16 t4x2:32' --target 't4x{1,2}' --batch 16,32
# as a shell leaves braces, and with several options; cells twice are one
cells 't4x1:16 t4x1:32 t4x2:16 t4x2:32' --target t4x1 t4x2 \
	--dim batch=16 batch=32 --target t4x1,t4x2 --batch 32
cells 't4x1:16 t4x2:16 t4x4:16 t4x8:16' --target 't4x{1,2,4,..,8}' --batch 16
cells 't4x1:2 t4x1:4 t4x1:6 t4x1:8' --target t4x1 --batch '2,4,6,..,8'

# ---- order and front ----

for by in time:days_with_failures usd:usd_with_failures; do
	sweep --target 'h100x{1,2},t4x{1,2}' --batch 256 --sort "${by%:*}"
	column "${by#*:}" >keys
	sort -g keys | cmp - keys || bad "--sort=${by%:*}: it is not"
done
sweep --target 'h100x{1,2},t4x{1,2}' --batch 256 --sort usd-days
column days_with_failures >days
column usd_with_failures >usd
paste days usd | awk '{ print $1 * $2 }' >keys
sort -g keys | cmp - keys || bad '--sort=usd-days: it is not'
column front >front
paste days usd front | awk '{ d[NR] = $1; u[NR] = $2; f[NR] = $3 }
	END { for (i = 1; i <= NR; i++) {
		best = 1
		for (k = 1; k <= NR; k++)
			if (d[k] <= d[i] && u[k] <= u[i] &&
			    (d[k] < d[i] || u[k] < u[i]))
				best = 0
		if (best != f[i])
			exit 1
		n += best
	} exit n < 1 }' || bad 'the front is not'

# ---- what has no plan ----

model=$examples/llama-2-7b.llm
sweep --target 't4x{1,4}'
[ "$(column outcome | tr '\n' ' ')" = 'fits too large ' ] ||
	bad 'what does not fit is not last'
grep -q '^t4x1,.*no plan fits t4x1: ' out || bad 'it does not say why'

cheaply refused 'did you mean `a10`' sweep "$model" --target 't4x1,h10x2'
cheaply refused 'in a cell of the sweep: --target t4x1 --dim heads=7' \
	sweep "$model" --target 't4x1,h100x8x2048' --dim heads=32,7
cheaply refused 'neither one factor' sweep "$model" --target 't4x{1,2,5,..,9}'
cheaply refused 'makes more than 4096' sweep "$model" --target 't4x{1,2,3,..,5000}'
cheaply refused 'more than 4096 cells' sweep "$model" --target t4 \
	--batch '1,2,3,..,65' --dim seq='1,2,3,..,65'
{ cat "$model" && echo 'plan { tp = 2; }'; } >planned.llm
cheaply refused 'has a plan of its own' sweep --target t4 planned.llm
misused 'needs --target' sweep "$model"
misused 'two forms of one table' sweep --csv --json "$model" --target t4
misused '`--csv` is for sweep only' --csv "$model"

# ---- CSV as others read it ----

have_python()
{
	python3 -c 'import csv' 2>/dev/null
}

if have_python; then
	sweep --target 't4x{1,4}'
	python3 - out <<'END' || bad 'python does not read the CSV'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
assert [r["outcome"] for r in rows] == ["fits", "too large"], rows
assert float(rows[0]["usd"]) > 0 and rows[1]["usd"] == ""
assert None not in rows[0] and None not in rows[1]
END
	run sweep --json "$model" --target 't4x{1,4}'
	python3 - out <<'END' || bad 'python does not read the JSON'
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
assert rows[0]["plan"].count("plan {") == 1 and "why" in rows[1]
END
fi
exit $failed

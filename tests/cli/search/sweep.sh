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
mv out kept
sweep --no-memo --target 'h100x{1,2},t4x2' --batch 256,512 --threads 1
cmp out kept || bad 'what a thread keeps changes an answer'
run --target t4x2 --dim batch=512 --tokens 1B --emit=answer-json "$model"
mv out alone
mv three out
step=$(awk -F, '$1 == "t4x2" && $5 == 512 { print $9 }' out)
[ "$step" = "$(sed -n '/"step": {/{n;s/.*"us": \([0-9.e+]*\).*/\1/p;}' \
	alone)" ] || bad "the step is not that of a run of its own: $step"
hours=$(awk -F, '$1 == "t4x2" && $5 == 512 { print $17 }' out)
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

# ---- the fewest nodes, and what a budget is enough for ----

inverse()
{
	# 40 B tokens take one node of two T4 about ten days.
	run sweep "$model" --tokens 40B --target t4x2,t4x2x3 --days 3 --csv
	[ "$(awk -F, '$7 == 1 { print $1 }' out)" = t4x2x4 ] ||
		bad 'the answer is another number of nodes'
	awk -F, 'NR > 1 { days[$1] = $18 }
		END { exit !(days["t4x2x4"] <= 3 && days["t4x2x3"] > 3) }' out ||
		bad 'the next smaller number finishes in time, too'
	[ "$(grep -c '^t4x2x3,' out)" -eq 2 ] ||
		bad 'the next smaller number is no row, beside the cell of that name'
	run sweep "$model" --tokens 40B --target t4x2 --days 3
	grep -q '^in 3 days: t4x2x4, by .* USD; t4x2x3 would take ' out ||
		bad 'no sentence'
	run sweep "$model" --tokens 40B --target t4x2 --days 1000
	grep -q '^in 1000 days: t4x2x1, by [0-9.]* days and [0-9.]* USD$' out ||
		bad 'one node is not the fewest'
	run sweep "$model" --tokens 1000T --target t4x2 --batch 2 --days 1
	grep -q '^in 1 day, batch=2: no number of nodes that was tried' out ||
		bad 'a batch of two is split over many nodes'

	run sweep "$model" --tokens 1B --target 'h100x{1,2},t4x{1,2}' --budget 2
	grep -q '^within 2.00 USD the fastest: h100x2, by ' out || bad 'a budget of 2'
	run sweep "$model" --target 'h100x{1,2},t4x{1,2}' --budget 2 --days 1
	# as many as its price of a million tokens says
	awk '/^\* h100x2/ { most = 2 / $6 / 1e3 }
		/^within 1 day and 2.00 USD most tokens: h100x[12], / {
			n = $(NF - 1)
		}
		END { exit !(n > .998 * most && n < 1.002 * most) }' out ||
		bad 'the other way round'
	run sweep "$model" --tokens 1B --target 'h100x{1,2},t4x{1,2}' --budget 0.1
	grep -q '^within 0.10 USD: none of these cells; h100x[12] would take ' out ||
		bad 'a budget of 0.1'
	run sweep "$model" --tokens 1B --target 'h100x{1,2}x1,t4x{1,2}x1' --days 1
	cheapest=$(sed -n 's/^within 1 day the cheapest: \([^,]*\), by .*/\1/p' out)
	run sweep "$model" --tokens 1B --target 'h100x{1,2}x1,t4x{1,2}x1' --days 1 --csv
	[ "$(awk -F, '$7 == 1 { print $1 }' out)" = "$cheapest" ] &&
		awk -F, -v c="$cheapest" 'NR > 1 && $18 <= 1 { usd[$1] = $19 }
		END {
			for (x in usd) if (usd[x] < usd[c]) exit 1
			exit !(c in usd)
		}' out || bad 'another cell is the cheapest in time'
	run sweep "$model" --tokens 1B --target 't4x{1,2}x1' --days 0.01
	grep -q '^within 0.01 days: none of these cells; t4x2x1 would take ' out ||
		bad 'nothing is said of cells that are too slow'
}

! have time || inverse

# ---- what has no plan ----

model=$examples/llama-2-7b.llm
sweep --target 't4x{1,4}'
[ "$(column outcome | tr '\n' ' ')" = 'fits too large ' ] ||
	bad 'what does not fit is not last'
grep -q '^t4x1,.*no plan fits t4x1: ' out || bad 'it does not say why'

cheaply refused 'did you mean `h100`' sweep "$model" --target 't4x1,h10x2'
cheaply refused 'in a cell of the sweep: --target t4x1 --dim heads=7' \
	sweep "$model" --target 't4x1,h100x8x2048' --dim heads=32,7
cheaply refused 'expands braces that are not quoted' sweep "$model" \
	--target t4x1 t4x2 t4x.. t4x8
cheaply refused 'neither one factor' sweep "$model" --target 't4x{1,2,5,..,9}'
cheaply refused 'makes more than 4096' sweep "$model" --target 't4x{1,2,3,..,5000}'
cheaply refused 'more than 4096 cells' sweep "$model" --target t4 \
	--batch '1,2,3,..,65' --dim seq='1,2,3,..,65'
{ cat "$model" && echo 'plan { tp = 2; }'; } >planned.llm
cheaply refused 'has a plan of its own' sweep --target t4 planned.llm
misused 'needs --target' sweep "$model"
misused 'two forms of one table' sweep --csv --json "$model" --target t4
misused '`--csv` is for schedule, sweep only' --csv "$model"

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

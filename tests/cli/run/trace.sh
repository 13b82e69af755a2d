#!/bin/sh
# Traces: the predicted one of a plan is JSON whose slices follow one another,
# the same bytes each time, and its stages take what the program says that it
# predicted; the measured one of that program has the same names, and what it
# measured.
. "${top_srcdir:?}/tests/lib.sh"
read_trace=$build/tests/unit/runtime/read-trace
tab=$(printf '\t')
model=$examples/gpt-bytes.llm

# slices FILE: of that trace, into FILE.tsv
slices()
{
	"$read_trace" "$1" >"$1.tsv" || {
		tail -n 1 "$1.tsv"
		bad "$1 is no trace"
	}
}

# by_name FILE THREAD COLUMNS..: the time in ms by name, without microbatch:
# of two columns their difference in ns, of one its sum in us
by_name()
{
	awk -F "$tab" -v thread="$2" -v a="$3" -v b="${4-0}" '
	$2 == thread {
		sub(/ [0-9]+$/, "", $7)
		ms[$7] += b ? ($b - $a) * 1e-6 : $a * 1e-3
	}
	END { for (k in ms) printf "%s\t%.6f\n", k, ms[k] }' "$1" |
	LC_ALL=C sort
}

# names FILE THREAD..: of slices of the first ranks of places, in these
# threads; copies are not predicted
names()
{
	file=$1
	shift
	for thread; do
		awk -F "$tab" -v thread="$thread" '
		$1 ~ /tp=0/ && $2 == thread { print $7 }' "$file" |
		grep -v '^copy [0-9]* bytes$'
	done | LC_ALL=C sort | uniq -c
}

# ---- a predicted step ----

run --target cpux4 --pin tp=2,pp=2 --trace one.json "$model"
run --target cpux4 --pin tp=2,pp=2 --trace two.json --emit=answer-json "$model"
cmp one.json two.json || bad 'the same step has another trace'
slices one.json
cut -f 1 one.json.tsv | sort -u >out
printf '%s\n' 'rank 0 (pp=0 tp=0) predicted' 'rank 2 (pp=1 tp=0) predicted' |
cmp - out || bad 'processes are not the places in the pipeline'
awk -F "$tab" '$4 > end { end = $4 } END { printf "%.3f\n", end * 1e-6 }' \
	one.json.tsv >end
run --target cpux4 --pin tp=2,pp=2 "$model"
awk '$1 == "step" { print $2 }' out | cmp - end ||
	bad "the trace ends at $(cat end) ms"

# Collectives beside kernels, on a GPU; and not more than there is room for.
run --target h100x8x8 --trace big.json \
	--plan "$tests/plan/two-stages.llp" "$examples/llama-2-70b.llm"
slices big.json
grep -q '^note.kernels of the first [0-9]* of [0-9]* microbatches$' \
	big.json.tsv || bad 'all kernels of 32 microbatches of 40 layers'
awk -F "$tab" '
$1 ~ /pp=0/ && $2 == "collectives" { begin = $3; end = $4 }
$1 ~ /pp=0/ && $2 == "kernels" && $3 < end && $4 > begin { beside++ }
END { exit !(beside > 100) }' big.json.tsv ||
	bad 'no collective runs beside kernels'
[ "$(wc -l <big.json)" -lt 310000 ] || bad 'the trace is too large'

# ---- what is refused ----

refused '--trace takes the name of a file' --target cpux4 --trace - "$model"
refused '--trace needs --target' --trace x.json "$model"
refused '--trace is about the answer' --target cpux4 --emit=plan \
	--trace x.json "$model"
refused 'cannot write no/x.json' --target cpux4 --trace no/x.json "$model"
[ ! -e x.json ] || bad 'a trace of what was refused'

# ---- a measured one above it ----

have llvm linker binaries || exit $failed
run --target cpux4 --pin tp=2,pp=2 --draft --no-whole -o plan \
	--trace plan.json "$model"
cmp one.json plan.json || bad 'the trace beside a plan differs'
plan/rank bench --local --steps 1 --json --trace measured.json >bench 2>err ||
	bad 'bench fails'
[ ! -e measured.json.part ] || bad 'a part is left'
slices measured.json

names one.json.tsv schedule kernels >want
names measured.json.tsv schedule kernels >got
cmp want got || bad "other slices: $(diff want got | head)"
names one.json.tsv collectives | sed 's/^ *[0-9]* //' >want
names measured.json.tsv collectives | sed 's/^ *[0-9]* //' >got
comm -23 want got >left
[ ! -s left ] || bad "collectives that no rank runs: $(cat left)"

# bench has means over ranks, and so many calls: of one rank.
sed -n 's/.*"kind": "phase", "what": "\(stage[^"]*\)".* "ms": \([^,]*\), "predicted_ms": \([^,]*\),.*/\1 \2 \3/p' bench |
LC_ALL=C sort | awk '{ printf "%s\t%.6f\t%.6f\n", $1, $2, $3 }' >phases
[ "$(wc -l <phases)" -gt 5 ] || bad 'bench has no phases'
by_name measured.json.tsv schedule 5 | grep ^stage >own
by_name one.json.tsv schedule 3 4 | grep ^stage >predicted
join -t "$tab" phases own | join -t "$tab" - predicted | awk -F "$tab" '
function differs(a, b) { return (a > b ? a - b : b - a) > 1e-3 + 1e-5 * a }
differs($2, $4 / 2) || differs($3, $5) { print; bad = 1 }
END { exit bad || NR < 6 }' >out || bad 'other times than of bench'

# Both in one file.
{ sed '$d' one.json; echo ,; sed 1d measured.json; } >both.json
slices both.json
[ "$(cut -f 1 both.json.tsv | sort -u | wc -l)" = 6 ] ||
	bad 'not all processes of both traces'

plan/rank bench --local --steps 1 --trace no/x.json >out 2>err &&
	bad 'a trace in a folder that is missing'
grep -q 'cannot write no/x.json' err || bad 'the file is not named'
exit $failed

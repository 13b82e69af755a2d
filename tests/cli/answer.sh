#!/bin/sh
# The answer: one screen, a plan.json of exactly the documented fields whose
# parts add up, what is refused, and two plans beside each other.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
top=${top_srcdir:?}
model=$top/examples/llama-2-70b.llm
plan='tp=8,pp=2,dp=4,microbatch=1,zero=1'
fail=0

bad()
{
	echo "FAIL $*"
	fail=1
}

answer()
{
	"$LLMC" "$@" >"$tmp/out" 2>"$tmp/err" || {
		cat "$tmp/err"
		bad "$@"
	}
}

# refused WHAT ARGUMENTS..: exit 1, nothing printed, and this in the message
refused()
{
	what=$1
	shift
	"$LLMC" "$@" >"$tmp/out" 2>"$tmp/err"
	status=$?
	if [ $status -ne 1 ] || [ -s "$tmp/out" ] ||
		! grep -q -- "$what" "$tmp/err"; then
		bad "$* exits with $status: $(cat "$tmp/err")"
	fi
}

# field PATH: of $tmp/json, which has a field a line
field()
{
	sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$tmp/json" |
		head -n 1
}

# ---- one screen, whatever the model

while read -r name target pins; do
	answer --target "$target" --pin "$pins" "$top/examples/$name.llm"
	awk -v name="$name" '
		length($0) > 80 { print name ": " $0; bad = 1 }
		END {
			if (NR > 40 || NR < 20)
				print name ": " NR " lines"
			exit bad || NR > 40 || NR < 20
		}' "$tmp/out" || bad "$name is no screen"
done <<'END'
llama-2-70b h100x8x8 tp=8,pp=2,dp=4,microbatch=1,zero=1
deepseek-v3 h100x8x64 tp=2,cp=2,ep=8,pp=4,dp=4,microbatch=1,sequence=on
mixtral-8x7b a100x8x4 ep=8,tp=4,zero=3,microbatch=1,recompute=full
gpt3-175b a100x8x32 tp=8,pp=8,dp=4,microbatch=1,interleave=2,schedule=interleaved
megatron-1t a100x8x384 tp=8,pp=64,dp=6,microbatch=1,recompute=full
tiny-dense rtx4090x1 microbatch=1
END

# What follows is the default with a machine and a plan, and by name.
answer --target h100x8x8 --pin "$plan" "$model"
cp "$tmp/out" "$tmp/default"
answer --emit=answer --target h100x8x8 --pin "$plan" "$model"
cmp -s "$tmp/out" "$tmp/default" || bad 'the default is another text'

# ---- kernels: 40 layers of 256 microbatches on a rank, in one part or in
# several, flops by shape, and all of them are what the rank does not wait

answer --target h100x8x8 --plan "$top/tests/plan/two-stages.llp" \
	--explain=cost "$model"
awk '
	/talk: pipeline|waiting/ { sum += $(NF) }
	/^kernels of rank/ { on = 1; next }
	!on || /achieved/ { next }
	{ sum += $1 }
	/more$/ && $2 == "of" { next }
	{
		rows++
		if ($1 + 0 > last && rows > 1)
			bad = "not sorted"
		last = $1 + 0.1
	}
	$6 == "contraction" {
		split($7, n, "x")
		flops = 2 * n[1] * n[2] * n[3] / $3 / 1e6
		if ($2 % 10240 != 0 || flops / $4 > 1.02 || flops / $4 < 0.98)
			bad = $0
	}
	END {
		if (rows != 20 || sum < 98.9 || sum > 101.1 || bad != "") {
			print rows " rows, " sum "%: " bad
			exit 1
		}
	}' "$tmp/out" || bad '--explain=cost'

# ---- plan.json

json()
{
	answer --emit=answer-json --tokens=2T "$@"
	mv "$tmp/out" "$tmp/json"
}

# Paths of all fields, by its lines: one field, or one bracket, each.
paths()
{
	awk '
	function where(    s, i) {
		for (i = 1; i <= n; i++)
			s = s (s != "" && name[i] != "[]" ? "." : "") name[i]
		return s
	}
	{
		line = $0
		sub(/^ */, "", line)
		key = ""
		if (line ~ /^"[a-z0-9_]*": /) {
			key = line
			sub(/^"/, "", key)
			sub(/".*/, "", key)
			sub(/^"[a-z0-9_]*": /, "", line)
		}
		if (line ~ /^[]}]/) {
			n -= name[n] == "[]" && line ~ /^]/ ? 2 : 1
			next
		}
		if (line ~ /^[{]$/) {
			if (key != "")
				name[++n] = key
			else if (depth++)
				name[++n] = ""
			next
		}
		if (line ~ /^\[$/) {
			name[++n] = key
			name[++n] = "[]"
			next
		}
		if (key != "")
			name[++n] = key
		print where()
		if (key != "")
			n--
	}' "$tmp/json" | sed 's/\.\././g' | sort -u
}

sed -n 's/^| `\([a-z0-9_.]*\(\[\]\)*[a-z0-9_.]*\)` |.*/\1/p' \
	"$top/docs/answer.md" | grep -v '^kernels\.' | sort >"$tmp/documented"
grep -v '^target\.groups\|^plan\.places\|^memory.*\]\.device_bytes' \
	"$tmp/documented" >"$tmp/alike"
cat >"$tmp/mixed.target" <<'END'
target a { accelerator = a100; devices = 8; nodes = 4; }
target b { accelerator = h100; devices = 8; nodes = 4; }
END
while read -r how target pins; do
	if [ "$how" = search ]; then
		json --target "$target" --pin "$pins" "$model"
		cp "$tmp/alike" "$tmp/expected"
	else
		# a whole plan: nothing is searched, whether it fits or not
		echo "plan { $pins; }" | tr ',' ';' >"$tmp/whole.llp"
		json --target "$target" --plan "$tmp/whole.llp" "$model"
		case $target in
		*.target) cp "$tmp/documented" "$tmp/expected" ;;
		*) cp "$tmp/alike" "$tmp/expected" ;;
		esac
		sed -i '/^search\./d' "$tmp/expected"
	fi
	paths >"$tmp/emitted"
	diff "$tmp/expected" "$tmp/emitted" ||
		bad 'fields and docs/answer.md differ'
	if command -v python3 >/dev/null; then
		python3 -m json.tool "$tmp/json" >/dev/null ||
			bad 'plan.json does not parse'
	fi
	sed -n '/"parts_us"/,/}/s/.*": \(.*[0-9]\).*/\1/p' "$tmp/json" |
	awk -v step="$(field us)" '
		{ sum += $1; n++ }
		END {
			off = (sum - step) / step
			if (n != 13 || off > 1e-7 || off < -1e-7) {
				printf "%d parts, %g of %g\n", n, sum, step
				exit 1
			}
		}' || bad "the parts of $pins do not add up"
done <<END
search h100x8x8 tp=8,pp=2,dp=4,microbatch=1,zero=1
search h100x8x8 tp=8,pp=8,dp=1,microbatch=1,schedule=zb_h1,recompute=full,sequence=on
search a100x8x8 tp=4,cp=2,dp=4,microbatch=1,zero=3,recompute=attention
plan $tmp/mixed.target tp=8,pp=2,dp=4,microbatch=1,zero=1
plan rtx4090x2 microbatch=4,dp=2
plan a100x8x4 tp=4,cp=2,dp=4,microbatch=1,zero=3,recompute=attention
END

# Its plan reads back, and gives the same answer.
json --target h100x8x8 --pin "$plan" "$model"
sed -n 's/^ *"text": "\(.*\)",$/\1/p' "$tmp/json" |
	awk '{ gsub(/\\n/, "\n"); gsub(/\\"/, "\""); printf "%s", $0 }' \
	>"$tmp/again.llp"
sed '/^  "search": {$/,/^  },$/d' "$tmp/json" >"$tmp/first"
json --target h100x8x8 --plan "$tmp/again.llp" "$model"
cmp "$tmp/first" "$tmp/json" || bad 'the plan in plan.json is another one'

# One number by hand: tokens a second, dollars, days, failures.
awk -v us="$(field us)" -v rate="$(field tokens_s)" -v usd="$(field usd_h)" \
	-v mtok="$(field usd_mtoken)" -v days="$(field days)" \
	-v mtbf="$(field mtbf_s)" -v good="$(field goodput)" \
	-v slow="$(field days_with_failures)" '
	function same(what, a, b) {
		if (a / b > 1 + 1e-7 || a / b < 1 - 1e-7) {
			printf "%s: %.9g and %.9g\n", what, a, b
			bad = 1
		}
	}
	BEGIN {
		same("rate", rate, 4194304 / us * 1e6)
		same("price", usd, 64 * 2.99)
		same("a million", mtok, usd / 3600 / rate * 1e6)
		same("days", days, 2e12 / rate / 86400)
		same("mtbf", mtbf, 365.25 * 86400 / 0.173 / 64)
		same("slower", slow, days / good)
		exit bad
	}' || bad 'numbers do not follow from each other'

# ---- what a run is

tokens()
{
	json --target h100x8x8 --pin "$plan" "$@"
	field tokens
}
[ "$(tokens "$model")" = 2e+12 ] || bad '--tokens=2T'
for t in 300B 3e11 0.3T 300000M; do
	[ "$(tokens --tokens=$t "$model")" = 3e+11 ] || bad "--tokens=$t"
done
sed 's/batch = 1024;/& tokens = 15e12;/' "$model" >"$tmp/tokens.llm"
"$LLMC" --target h100x8x8 --pin "$plan" "$tmp/tokens.llm" |
	grep -q '^run *15 T tokens: ' || bad 'train.tokens is not the run'
sed 's/batch = 1024;/& steps = 1000;/' "$model" >"$tmp/steps.llm"
"$LLMC" --target h100x8x8 --pin "$plan" "$tmp/steps.llm" |
	grep -q '^run *4.194 B tokens: ' || bad 'train.steps is not the run'

# ---- what is refused

for t in 1e30 0 -1 T 2TT x nan 0x10 ''; do
	refused 'as 2e12, 2T or 300B' --target h100x8x8 --pin "$plan" \
		--tokens="$t" "$model"
done
refused 'takes GB/s' --target h100x8x8 --pin "$plan" --storage=0 "$model"
refused 'takes minutes' --target h100x8x8 --pin "$plan" --restart=- "$model"
refused 'goes with --target' --emit=answer --pin "$plan" "$model"
echo "plan { $plan; }" | tr ',' ';' >"$tmp/plan.llp"
refused 'has 64 ranks, and h100x8x4 has 32 devices' --target h100x8x4 \
	--plan "$tmp/plan.llp" "$model"
refused 'needs the pass `stage`' --emit=answer --passes=train \
	--target h100x8x8 --pin "$plan" "$model"
"$LLMC" --emit=ranks --pin "$plan" "$model" >"$tmp/ranks.ir"
refused 'is rank programs' --emit=answer --target h100x8x8 "$tmp/ranks.ir"
"$LLMC" --target h100x8x9 --pin "$plan" "$model" 2>&1 >/dev/null |
	grep -q '8 of the 72 devices of h100x8x9 stay idle' || bad 'no warning'
refused idle-devices -Werror=idle-devices --target h100x8x9 --pin "$plan" \
	"$model"

# ---- two plans

printf 'plan { tp = 8; pp = 2; }\n' >"$tmp/a.llp"
printf 'plan { tp = 8; pp = 4; recompute = (q, k); }\n' >"$tmp/b.llp"
(cd "$tmp" && "$LLMC" diff a.llp b.llp) >"$tmp/out"
cat >"$tmp/want" <<'END'
                                    a.llp            b.llp
pp                                      2                4
recompute                               -           (q, k)
END
diff "$tmp/want" "$tmp/out" || bad 'llmc diff of two plans'
(cd "$tmp" && "$LLMC" diff a.llp a.llp) | grep -q 'no key differs' ||
	bad 'llmc diff of a plan and itself'
# With a model all of a plan is settled, and beside is what each alone costs.
answer diff "$tmp/a.llp" "$tmp/b.llp" "$model" --target h100x8x4 \
	-Wno-idle-devices
grep -q '^stages  *40\*2  *20\*4$' "$tmp/out" || bad 'stages are not settled'
cp "$tmp/out" "$tmp/both"
for side in a b; do
	json --target h100x8x4 --plan "$tmp/$side.llp" -Wno-idle-devices \
		"$model"
	grep '^tokens/s ' "$tmp/both" | grep -q " $(printf %.0f \
		"$(field tokens_s)") " || bad "$side.llp costs something else"
done
refused 'goes with a model' diff "$tmp/a.llp" "$tmp/b.llp" --target h100x8
refused 'cannot read' diff "$tmp/a.llp" "$tmp/none.llp"
refused 'holds one plan block' diff "$tmp/a.llp" "$model"
refused 'a plan goes with a model' diff "$tmp/a.llp" "$tmp/b.llp" \
	"$tmp/ranks.ir"
"$LLMC" diff "$tmp/a.llp" 2>/dev/null
[ $? -eq 2 ] || bad 'llmc diff of one plan'
"$LLMC" diff "$tmp/a.llp" "$tmp/b.llp" "$model" more 2>/dev/null
[ $? -eq 2 ] || bad 'llmc diff of too many files'
exit $fail

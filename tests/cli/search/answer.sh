#!/bin/sh
# The answer: one screen, a plan.json of exactly the documented fields whose
# parts add up, what is refused, and two plans beside each other.
. "${top_srcdir:?}/tests/lib.sh"
model=$examples/llama-2-70b.llm
plan='tp=8,pp=2,dp=4,microbatch=1,zero=1'

# ---- one screen, whatever the model

while read -r name target pins; do
	run --target "$target" --pin "$pins" "$examples/$name.llm"
	awk -v name="$name" '
		length($0) > 80 { print name ": " $0; bad = 1 }
		END {
			if (NR > 46 || NR < 20)
				print name ": " NR " lines"
			exit bad || NR > 46 || NR < 20
		}' out || bad "$name is no screen"
done <<'END'
llama-2-70b h100x8x8 tp=8,pp=2,dp=4,microbatch=1,zero=1
deepseek-v3 h100x8x64 tp=2,cp=2,ep=8,pp=4,dp=4,microbatch=1,sequence=on
mixtral-8x7b a100x8x4 ep=8,tp=4,zero=3,microbatch=1,recompute=full
gpt3-175b a100x8x32 tp=8,pp=8,dp=4,microbatch=1,interleave=2,schedule=interleaved
megatron-1t a100x8x384 tp=8,pp=64,dp=6,microbatch=1,recompute=full
tiny-dense rtx4090x1 microbatch=1
END

# What follows is the default with a machine and a plan, and by name.
run --target h100x8x8 --pin "$plan" "$model"
cp out default
run --emit=answer --target h100x8x8 --pin "$plan" "$model"
cmp -s out default || bad 'the default is another text'

# ---- where constants are from, as far as they count, the least sure of them

# printed TEXT..: of the answer that was printed
printed()
{
	sed -n '/^constants /,/^[pc]/{/^pr/!{/^cost/!p;};}' out |
	tr -s ' \n' ' ' | sed 's/ $//' >constants
	[ "$(cat constants)" = "$*" ] || bad "constants: $(cat constants)"
}

printed 'constants all from published kernels, none measured: see llmc calibrate'
for measured in all none some; do
	case $measured in
	all) words='measured = all;' ;;
	none) words= ;;
	some) words='measured = "launch memory_eff link_eff";' ;;
	esac
	for devices in 1 8; do
		echo "target t { accelerator = h100; devices = $devices; $words }" \
			>$measured$devices.target
	done
done
tiny="--pin microbatch=1 $examples/tiny-dense.llm"
for devices in 1 8; do
	# shellcheck disable=SC2086 # words
	run --target all$devices.target $tiny
	printed 'constants all measured with llmc'
done
# shellcheck disable=SC2086 # words
run --target some8.target $tiny
printed 'constants measured with llmc: launch, memory_eff, link_eff' \
	'from published kernels: matrix_eff, matrix_fill, matrix_feed,' \
	'attention_eff, attention_fill, link_start, link_hop'
# A device alone has no link.
# shellcheck disable=SC2086 # words
run --target some1.target $tiny
printed 'constants measured with llmc: launch, memory_eff' \
	'from published kernels: matrix_eff, matrix_fill, matrix_feed,' \
	'attention_eff, attention_fill'
# shellcheck disable=SC2086 # words
run --emit=answer-json --target some1.target $tiny
tr -d ' \n' <out | grep -qF '"origins":{"matrix_eff":"published","matrix_fill":"published","matrix_feed":"published","launch":"measured","memory_eff":"measured","attention_eff":"published","attention_fill":"published"},"lender":null' ||
	bad 'plan.json has other constants'
# Of several kinds of node, one was measured.
cat all8.target none8.target | sed 's/devices = 8/devices = 2/' >both.target
# shellcheck disable=SC2086 # words
run --target both.target --pin dp=4 $tiny
printed 'constants all from published kernels, none measured: see llmc calibrate'
# shellcheck disable=SC2086 # words
run --target both.target --pin dp=2,tp=1,pp=1,cp=1 $tiny
printed 'constants all measured with llmc'
# A constant that is set anew has no origin until one is stated.
cat >anew.target <<'END'
target t { accelerator = rtx3090; launch = 2; link_hop = 1; borrowed = launch; }
END
# shellcheck disable=SC2086 # words
run --target anew.target $tiny
printed 'constants all borrowed from a100-sxm and l40s,' \
	'none measured: see llmc calibrate'
sed 's/borrowed = launch;//; s/rtx3090;/rtx3090; lender = l40s;/' \
	anew.target >newer.target
# shellcheck disable=SC2086 # words
run --target newer.target $tiny
printed 'constants borrowed from l40s: matrix_eff, matrix_fill, matrix_feed,' \
	'memory_eff, attention_eff, attention_fill of no stated origin: launch'

# ---- what published runs say of the prediction; none was on a CPU

run --target h100x8x8 --pin "$plan" "$model"
grep -qE '^accuracy   90% of published runs took [0-9.]* to [0-9.]* of what' out ||
	bad 'no interval'
run --emit=answer-json --target h100x8x8 --pin "$plan" "$model"
tr -d ' \n' <out | grep -qE '"accuracy":\{"part":0.9,"low":0\.[0-9]+,"high":[1-9]' ||
	bad 'plan.json has no interval'
# shellcheck disable=SC2086 # words
run --emit=answer-json --target cpux4 $tiny
tr -d ' \n' <out | grep -qF '"accuracy":{"part":0.9,"low":null,"high":null,"runs":0' ||
	bad 'plan.json has an interval for a CPU'

# ---- what is counted in llmc's own kernels: of an A100 epilogues alone, and of a
# CPU nothing is said

# of WORDS: what the answer that was printed says of prices
of()
{
	sed -n '/^prices/,/^cost/{/^cost/!p;}' out | tr -s ' \n' ' ' |
	sed 's/[0-9.]*%/N%/g; s/ $//' >prices
	[ "$(cat prices)" = "$*" ] || bad "prices: $(cat prices)"
}

run --target h100x8x8 --pin "$plan" "$model"
of "prices counted in llmc's own kernels: epilogues N% of the step," \
	"attention N%, all else by others' kernels and rates"
run --emit=answer-json --target h100x8x8 --pin "$plan" "$model"
tr -d ' \n' <out | grep -qE \
	'"counted_us":\{"epilogues":[1-9][0-9.e+]*,"attention":[1-9]' ||
	bad 'plan.json has nothing counted'
run --target a100x8x8 --pin "$plan" "$model"
of "prices counted in llmc's own kernels: epilogues N% of the step," \
	"all else by others' kernels and rates"
run --emit=answer-json --target a100x8x8 --pin "$plan" "$model"
tr -d ' \n' <out | grep -qE \
	'"counted_us":\{"epilogues":[1-9][0-9.e+]*,"attention":0\}' ||
	bad 'plan.json of an A100'
# shellcheck disable=SC2086 # words
run --target cpux4 $tiny
of ''

# ---- kernels: 40 layers of 256 microbatches on a rank, in one part or in
# several, flops by shape, and all of them are what the rank does not wait

run --target h100x8x8 --plan "$tests/plan/two-stages.llp" \
	--explain=cost "$model"
awk '
	/communication: pipeline|waiting/ { sum += $(NF) }
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
	$7 == "contraction" {
		split($8, n, "x")
		flops = 2 * n[1] * n[2] * n[3] / $3 / 1e6
		if ($2 % 10240 != 0 || flops / $5 > 1.02 || flops / $5 < 0.98)
			bad = $0
		# after its products a gate has instructions
		if (/silu/ && ($4 + 0 < 1 || $4 + 0 > 20))
			bad = $0
	}
	$7 == "attention" && $4 + 0 < 95 { bad = $0 }
	$7 == "collective" && $4 != "-" { bad = $0 }
	END {
		if (rows != 20 || sum < 98.9 || sum > 101.1 || bad != "") {
			print rows " rows, " sum "%: " bad
			exit 1
		}
	}' out || bad '--explain=cost'

# ---- plan.json

json()
{
	run --emit=answer-json --tokens=2T "$@"
	mv out json
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
	}' json | sed 's/\.\././g' | sort -u
}

sed -n 's/^| `\([a-z0-9_.]*\(\[\]\)*[a-z0-9_.]*\)` |.*/\1/p' \
	"$top_srcdir/docs/answer.md" | grep -v '^kernels\.' | sort >documented
grep -v '^target\.groups\|^plan\.device_groups\|^memory.*\]\.device_bytes' \
	documented >alike
cat >mixed.target <<'END'
target a { accelerator = a100; devices = 8; nodes = 4; }
target b { accelerator = h100; devices = 8; nodes = 4; }
END
while read -r how target pins; do
	if [ "$how" = search ]; then
		json --target "$target" --pin "$pins" "$model"
		cp alike expected
	else
		# a whole plan: nothing is searched, whether it fits or not
		echo "plan { $pins; }" | tr ',' ';' >whole.llp
		json --target "$target" --plan whole.llp "$model"
		case $target in
		*.target) cp documented expected ;;
		*) cp alike expected ;;
		esac
		sed -i '/^search\./d' expected
	fi
	paths >emitted
	diff expected emitted || bad 'fields and docs/answer.md differ'
	is_json json
	sed -n '/"parts_us"/,/}/s/.*": \(.*[0-9]\).*/\1/p' json |
	awk -v step="$(field json us)" '
		{ sum += $1; n++ }
		END {
			off = (sum - step) / step
			if (n != 14 || off > 1e-7 || off < -1e-7) {
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
sed -n 's/^ *"text": "\(.*\)",$/\1/p' json |
	awk '{ gsub(/\\n/, "\n"); gsub(/\\"/, "\""); printf "%s", $0 }' \
	>again.llp
sed '/^  "search": {$/,/^  },$/d' json >first
json --target h100x8x8 --plan again.llp "$model"
cmp first json || bad 'the plan in plan.json is another one'

# One number by hand: tokens a second, dollars, days, failures.
awk -v us="$(field json us)" -v rate="$(field json tokens_s)" \
	-v usd="$(field json usd_h)" -v mtok="$(field json usd_mtoken)" \
	-v mtbf="$(field json mtbf_s)" -v good="$(field json goodput)" \
	-v days="$(field json days)" \
	-v slow="$(field json days_with_failures)" '
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
	field json tokens
}
[ "$(tokens "$model")" = 2e+12 ] || bad '--tokens=2T'
for t in 300B 3e11 0.3T 300000M; do
	[ "$(tokens --tokens=$t "$model")" = 3e+11 ] || bad "--tokens=$t"
done
sed 's/batch = 1024;/& tokens = 15e12;/' "$model" >tokens.llm
"$LLMC" --target h100x8x8 --pin "$plan" tokens.llm |
	grep -q '^run *15 T tokens: ' || bad 'train.tokens is not the run'
sed 's/batch = 1024;/& steps = 1000;/' "$model" >steps.llm
"$LLMC" --target h100x8x8 --pin "$plan" steps.llm |
	grep -q '^run *4.194 B tokens: ' || bad 'train.steps is not the run'

# ---- what is refused

for t in 1e30 0 -1 T 2TT x nan 0x10 ''; do
	refused 'as 2e12, 2T or 300B' --target h100x8x8 --pin "$plan" \
		--tokens="$t" "$model"
done
refused 'takes GB/s' --target h100x8x8 --pin "$plan" --storage=0 "$model"
refused 'takes minutes' --target h100x8x8 --pin "$plan" --restart=- "$model"
refused 'needs --target' --emit=answer --pin "$plan" "$model"
echo "plan { $plan; }" | tr ',' ';' >plan.llp
refused 'has 64 ranks, and h100x8x4 has 32 devices' --target h100x8x4 \
	--plan plan.llp "$model"
refused 'needs the pass `stage`' --emit=answer --passes=train \
	--target h100x8x8 --pin "$plan" "$model"
"$LLMC" --emit=ranks --pin "$plan" "$model" >ranks.ir
refused 'holds rank programs' --emit=answer --target h100x8x8 ranks.ir
"$LLMC" --target h100x8x9 --pin "$plan" "$model" 2>&1 >/dev/null |
	grep -q '8 of the 72 devices of h100x8x9 stay idle' || bad 'no warning'
refused idle-devices -Werror=idle-devices --target h100x8x9 --pin "$plan" \
	"$model"

# ---- two plans

printf 'plan { tp = 8; pp = 2; }\n' >a.llp
printf 'plan { tp = 8; pp = 4; recompute = (q, k); }\n' >b.llp
run diff a.llp b.llp
cat >want <<'END'
                                    a.llp            b.llp
pp                                      2                4
recompute                               -           (q, k)
END
diff want out || bad 'llmc diff of two plans'
"$LLMC" diff a.llp a.llp | grep -q 'no key differs' ||
	bad 'llmc diff of a plan and itself'
# With a model all of a plan is settled, and beside is what each alone costs.
run diff a.llp b.llp "$model" --target h100x8x4 -Wno-idle-devices
grep -q '^stages  *40\*2  *20\*4$' out || bad 'stages are not settled'
cp out both
for side in a b; do
	json --target h100x8x4 --plan $side.llp -Wno-idle-devices "$model"
	rate=$(printf %.0f "$(field json tokens_s)")
	grep '^tokens/s ' both | grep -q " $rate " ||
		bad "$side.llp costs something else"
done

# Steps that published runs could not tell apart are said to be so.
sed 's/zero = 1/zero = 0/' "$tests/plan/two-stages.llp" >near.llp
close='Which of the two is faster is not known'
run diff "$tests/plan/two-stages.llp" near.llp "$model" --target h100x8x8
grep -q "$close" out || bad 'two plans that are close'
run diff "$tests/plan/two-stages.llp" "$tests/plan/sharded.llp" "$model" \
	--target h100x8x8
! grep -q "$close" out || bad 'two plans that are not close'

refused 'needs a model too' diff a.llp b.llp --target h100x8
refused 'cannot read' diff a.llp none.llp
refused 'holds one plan block' diff a.llp "$model"
refused 'a plan applies to a model' diff a.llp b.llp ranks.ir
misused 'takes two plans, and there is only a.llp' diff a.llp
misused '`more` is one too many' diff a.llp b.llp "$model" more
# ---- money: rented, or bought and paid over years ----

cat >bought.target <<END
target { accelerator = t4; devices = 2; price = 0.5; purchase = 8760;
	host_purchase = 17520; power = 70; host_power = 30; }
END
model=$examples/gpt2-124m.llm

# hour WANTED ARGUMENTS..: USD of an hour of two devices
hour()
{
	wanted=$1
	shift
	run --emit=answer-json --target bought.target --pin dp=2,microbatch=1 \
		"$@" "$model"
	[ "$(field out usd_h)" = "$wanted" ] ||
		bad "$*: $(field out usd_h) an hour; expected: $wanted"
}

hour 1
hour 5 --price 2.5
# 2 * 26,280 over 3 * 8,760 hours, and 2 * 0.1 kW
hour 2.1 --own 3 --energy 0.5 --pue 1
hour 2.15 --own 3 --energy 0.5 --pue 1.5
hour 6.024 --own 1
[ "$(field out energy_usd_h)" = 0.024 ] || bad 'energy has another price'
cheaply refused 'it needs --own' --target t4 --pue 1.5 "$model"
cheaply refused 'one of them is legal' --target t4 --own 3 --price 1 "$model"
cheaply refused 'years from 0.01 to 100' --target t4 --own never "$model"
cheaply refused '--price needs --target' --price 1 "$model"
run --target tpu-v5e --own 3 "$model"
grep -q 'tpu-v5e.target has no purchase, or no power' out ||
	bad 'a device that nobody sells has a price'
# A reserve of gigabytes does not make a small model's bytes 0.00.
run --target h100 "$examples/tiny-dense.llm"
grep -q '^MiB on pp ' out && grep -qE '^  0 +0\.[1-9]' out ||
	bad "memory of a small model: $(grep -A 1 ' on pp ' out)"
exit $failed

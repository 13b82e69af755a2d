#!/bin/sh
# Plans that are found, looked at from outside: tensors stay in a node where
# the network is slow, a plan reads back at its price, twice the same text,
# it fits by its arena, pins are honoured, and it computes the unsplit model.
. "${top_srcdir:?}/tests/lib.sh"

# key KEY: of the plan in `plan'
key()
{
	sed -n "s/^ *$1 = \([^;]*\);.*/\1/p" plan
}

# search TARGET MODEL [PINS]: its step, and `plan'
search()
{
	run --target "$1" ${3:+--pin "$3"} --emit=plans-json --top=1 "$2"
	step=$(sed -n 's/.*"rank": 1, "step_us": \([0-9.e+]*\),.*/\1/p' out)
	printf '%b' "$(plan_texts out)" >plan
}

# ---- a slow network: no tensor goes over it

for model in llama-2-70b gpt3-175b; do
	today 2 || continue
	search h100x8x16@eth25 "$examples/$model.llm" zero=1
	run --target h100x8x16@eth25 --plan plan --emit=answer-json \
		"$examples/$model.llm"
	cp out answer
	awk -v tp="$(key tp)" '
		/"links"/ { links = 1 }
		/}/ { links = 0 }
		links && /"tp"/ { found = 1; split($0, part, "\""); at = part[4] }
		END { exit !(found && (tp == 1 ? at == "" : at == "node")) }' \
		answer || {
		grep -A 7 '"links"' answer
		bad "$model: tp=$(key tp) is not in the node"
	}
	[ $(($(key pp) * $(key dp))) -ge 16 ] ||
		bad "$model: neither stages nor data between the nodes"
done

# ---- activations on hosts: another way to recompute has less to move

if today 2; then
	search a100x8x8 "$examples/llama-2-70b.llm"
	found=$step
	search a100x8x8 "$examples/llama-2-70b.llm" tp=2,pp=4,microbatch=4
	awk -v found="$found" -v pinned="$step" 'BEGIN {
		exit !(found > 0 && found <= pinned * (1 + 1e-9)) }' ||
		bad "llama-2-70b: $found us, with pins $step"
fi

# ---- read back, twice the same, within the arena

for model in llama-2-7b llama-2-70b gpt2-xl tiny-dense tiny-moe; do
	today 3 || continue
	file=$examples/$model.llm
	search h100x8x128 "$file"
	found=$step
	run --target h100x8x128 --plan plan --emit=answer-json "$file"
	again=$(field out us)
	[ -n "$found" ] && [ "$again" = "$found" ] ||
		bad "$model: $found us are $again when it is read back"
	run --plan plan --emit=arena "$file"
	fullest=$(sed -n 's/^fullest is .*, \([0-9]*\) bytes$/\1/p' out)
	# 80 GB, of which 1.6 are kept back
	[ "${fullest:-99999999999}" -le 78400000000 ] ||
		bad "$model: $fullest bytes are no plan's for 78400000000"
done
for model in llama-2-70b tiny-moe; do
	today 2 || continue
	run --target h100x8x8 "$examples/$model.llm"
	cp out once
	run --target h100x8x8 "$examples/$model.llm"
	cmp out once || bad "$model: two runs differ"
done

# ---- of more partial choices to recompute the best may be a slower plan

cat >known.llp <<'EOF'
plan {
  mesh = (pp, dp, ep, cp, tp);
  pp = 8;
  dp = 4;
  stages = 1*32;
  interleave = 4;
  schedule = interleaved;
  microbatch = 2;
  zero = 1;
  sequence = on;
  recompute = (full*2, (rmsnorm+dot+x+silu+g)*3, full*5,
    (rmsnorm+dot+x+silu+g)*3, (rmsnorm+dot+rope+x+silu+g)*1, full*1,
    (rmsnorm+dot+rope+x+silu+g)*1, (rmsnorm+dot+rope+silu+g)*1,
    (rmsnorm+dot+silu+g)*1, (rmsnorm+dot+x+silu+g)*3,
    (rmsnorm+dot+silu+g)*1, (rmsnorm+rope+silu+g)*3,
    (rmsnorm+v+rope+silu+g)*1, (rmsnorm+dot+x+silu+g)*3,
    (rmsnorm+silu+g)*1, (n+silu+g)*1, (silu+g)*1);
  offload = optimizer;
}
EOF
if today 2; then
	pins=pp=8,dp=4,tp=1,zero=1,schedule=interleaved,interleave=4
	search t4x8x4 "$examples/llama-2-7b.llm" \
		"$pins,microbatch=2,offload=optimizer"
	run --target t4x8x4 --plan known.llp --emit=answer-json \
		"$examples/llama-2-7b.llm"
	known=$(field out us)
	awk -v found="$step" -v known="$known" 'BEGIN {
		exit !(found > 0 && known > 0 &&
			found <= known * (1 + 1e-9)) }' ||
		bad "llama-2-7b: $step us with pins, $known us is known"
fi

# ---- pins

for pins in tp=4 pp=4,schedule=zb_h1 dp=16,zero=2 microbatch=2,recompute=full \
	tp=2,pp=2,dp=16,interleave=4; do
	today 3 || continue
	search h100x8x8 "$examples/llama-2-7b.llm" "$pins"
	echo "$pins" | tr , '\n' >pins
	while IFS='=' read -r k v; do
		[ "$(key "$k" | tr -d '"')" = "$v" ] ||
			bad "--pin $pins: $k is $(key "$k")"
	done <pins
done

# ---- it is the unsplit program

for model in tiny-dense tiny-moe; do
	for at in h100x2: h100x4:tp=2 h100x4:dp=2 h100x2x2:pp=2,tp=2 \
		h100x2x2:dp=2,zero=1; do
		today 3 || continue
		pins=${at#*:}
		search "${at%%:*}" "$examples/$model.llm" "$pins"
		run eval --compare --plan plan "$examples/$model.llm"
		grep -q '^compared ' out || bad "$model on $at differs"
	done
done
exit $failed

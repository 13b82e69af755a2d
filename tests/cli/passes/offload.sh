#!/bin/sh
# A plan that keeps the optimizer's state on the host: the same programs and
# numbers, its bytes counted apart, and its way over the link paid for.
. "${top_srcdir:?}/tests/lib.sh"
model=$examples/llama-2-7b.llm

# The programs differ in what the plan says and in nothing else.
for o in none optimizer; do
	set -- --pin "pp=2,microbatch=1,zero=1,dp=2,offload=$o" \
		"$examples/tiny-dense.llm"
	run --emit=ranks "$@" -o $o.ir
	run eval --compare --steps 2 "$@" -o $o
	grep -v '^set plan.offload' $o.ir >$o.text
done
cmp none optimizer || bad 'other numbers'
cmp none.text optimizer.text || bad 'other programs'
grep -q '^set plan.offload = optimizer' optimizer.ir ||
	bad 'rank programs do not say so'

# of_rank FILE KEY: of the pipeline's rank 1
of_rank()
{
	sed -n "s/^ *{\"rank\": 1, .*\"$2\": \\([0-9]*\\).*/\\1/p" "$1"
}

# What one rank keeps is what its host keeps.
for o in none optimizer; do
	run --emit=memory-json --pin "pp=2,tp=4,microbatch=1,offload=$o" \
		"$model" -o $o.json
done
kept=$(of_rank none.json optimizer_bytes)
[ "$kept" -gt 0 ] || bad 'nothing is kept'
[ "$(of_rank none.json host_bytes)" = 0 ] || bad 'on the host unasked'
[ "$(of_rank optimizer.json host_bytes)" = "$kept" ] || bad 'other bytes'
[ "$(of_rank optimizer.json optimizer_bytes)" = 0 ] || bad 'still on the device'
[ $(($(of_rank none.json total_bytes) - kept)) -eq \
	"$(of_rank optimizer.json total_bytes)" ] || bad 'another total'

# update TARGET PINS: milliseconds of it
update()
{
	printf 'plan { microbatch = 1; %s; }\n' "$2" | tr , ';' >p.llp
	"$LLMC" --emit=cost --target "$1" --plan p.llp "$model" |
		sed -n 's/.*the update takes \([0-9.]*\) ms.*/\1/p'
}

# Both ways over 64 GB/s, and the norm before it; both stages are alike.
plain=$(update h100x8 pp=2,tp=4,offload=none)
moved=$(update h100x8 pp=2,tp=4,offload=optimizer)
awk -v plain="$plain" -v moved="$moved" -v bytes="$kept" 'BEGIN {
	link = 2 * bytes / 64e6
	printf "%g ms, on the host %g ms, the link %g ms\n", plain, moved, link
	exit !(plain > 0 && moved > link && moved < link + plain)
}' || bad 'another price'

# A link as fast as memory hides behind the update; without one it is refused.
sed 's/host = 64/host = 100000/' "$top_srcdir/targets/h100-sxm.target" >t
sed 's/host = 64/host = 0/' "$top_srcdir/targets/h100-sxm.target" >u
for f in t u; do
	cmp -s "$f" "$top_srcdir/targets/h100-sxm.target" && exit 99
	mv "$f" "$f.target"
done
plain=$(update t.target offload=none)
moved=$(update t.target offload=optimizer)
[ -n "$plain" ] && [ "$moved" = "$plain" ] || bad 'a fast link is waited for'
refused 'host` is 0' --emit=cost --target u.target --plan p.llp "$model"

# ---- the answer shows it: in the split, the time and the memory

# keeps WHERE OFFLOAD: a whole plan
keeps()
{
	echo "plan { pp = 2; tp = 4; microbatch = 1; offload = $2; }" >"$1"
}

# shows PATTERN..: the answer has such lines, and none if there is a ! before
shows()
{
	for pattern; do
		case $pattern in
		!*) ! grep -q -e "${pattern#!}" out ;;
		*) grep -q -e "$pattern" out ;;
		esac || bad "the answer: $pattern"
	done
}

keeps here.llp none
keeps there.llp optimizer
run --target h100x8 --plan here.llp "$model"
shows '!offload' '!host'
run --target h100x8 --plan there.llp "$model"
shows '^ .*offload optimizer to the host' '-o plans with offload=none' \
	'^  host transfers  *[0-9.]* ms .*, [0-9.]* ms more hidden$' \
	'^GiB on pp .* total  *host$' '^  1  .* 9\.41\( fullest\)*$' \
	'^  the host of a node keeps 75.32 GiB of optimizer state; .* left'

# What hides behind the update is no part of the step, and is said to.
sed 's/^target.*/&  devices = 8;/' t.target >fast.target
run --target fast.target --plan there.llp "$model"
shows '^  host transfers  *0.000 ms   0.0%, [0-9.]*[1-9] ms more hidden'

run --target h100x8 --plan there.llp --emit=answer-json "$model"
all=$(awk -F'[:,]' '/"host_bytes"/ && n++ { all += 4 * $2 }
	END { printf "%.0f", all }' out)
[ "$(field out host_bytes)" = "$all" ] || bad "not the $all of its ranks"
grep -q '"offload": "optimizer"' out || bad 'no offload in plan.json'
run diff here.llp there.llp "$model" --target h100x8
shows '^offload .*none .*optimizer' '^  host transfers ' '^on its host, GiB '
run --target h100x8 --pin offload=none --why-not offload=optimizer "$model"
shows '^  host transfers ' '^on its host, GiB '

# ---- a host has memory, and what a target says of it is held to

# of_host GB: a node of eight h100, whose host has so much for each
of_host()
{
	sed "s/host_memory = [0-9]*/host_memory = $1/
		s/^target.*/&  devices = 8;/" \
		"$top_srcdir/targets/h100-sxm.target" >host.target
}

kept_gb=$(awk -v b="$kept" 'BEGIN { printf "%.6f", b / 1e9 }')
less=$(awk -v g="$kept_gb" 'BEGIN { printf "%.6f", g * 0.999 }')
more=$(awk -v g="$kept_gb" 'BEGIN { printf "%.6f", g * 1.001 }')
of_host "$more"
run --target host.target --plan there.llp "$model"
shows '^  the host of a node keeps 75.32 GiB .* left$'
run --target host.target --pin pp=2,tp=4,offload=optimizer "$model"
of_host "$less"
run --target host.target --plan there.llp "$model"
shows '^  the host of a node keeps 75.32 GiB .* TOO LITTLE$'
run --target host.target --plan there.llp --emit=answer-json "$model"
grep -q '"fits": false' out || bad 'it fits a host that has less'
refused "the optimizer's state on hosts needs " --target host.target \
	--pin pp=2,tp=4,offload=optimizer "$model"
grep -q "of a node's .host_memory. (pp=2 tp=4, zero 0)" err &&
	grep -q 'one fits without offload=optimizer' err ||
	bad 'it is not said what would help'

# Eight ranks keep eight times the same, unless ZeRO has each keep an eighth.
of_host "$more"
refused "the optimizer's state on hosts needs " --target host.target \
	--pin dp=8,zero=0,offload=optimizer "$model"
run --target host.target --pin dp=8,offload=optimizer "$model"
shows '^  the host of a node keeps .* left$' 'zero 1'

# The best plan of this one offloads, unless no host has memory for that.
big=$examples/llama-2-70b.llm
run --target h100x8x8 "$big"
shows 'offload optimizer' '^  the host of a node keeps .* left$'
of_host 8
sed -i 's/^target.*/& nodes = 8;/' host.target
run --target host.target "$big"
shows '!offload'
exit $failed

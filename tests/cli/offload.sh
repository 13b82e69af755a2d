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
exit $failed

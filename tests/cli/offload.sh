#!/bin/sh
# A plan that keeps the optimizer's state on the host: the same programs and
# numbers, its bytes counted apart, and its way over the link paid for.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
top=${top_srcdir:?}
model=$top/examples/llama-2-7b.llm
fail=0

wrong()
{
	echo "$1"
	fail=1
}

# The programs differ in what the plan says and in nothing else.
for o in none optimizer; do
	"$LLMC" --emit=ranks --pin "pp=2,microbatch=1,zero=1,dp=2,offload=$o" \
		"$top/examples/tiny-dense.llm" >"$tmp/$o.ir" || exit 1
	"$LLMC" eval --compare --steps 2 \
		--pin "pp=2,microbatch=1,zero=1,dp=2,offload=$o" \
		"$top/examples/tiny-dense.llm" >"$tmp/$o" || exit 1
	grep -v '^set plan.offload' "$tmp/$o.ir" >"$tmp/$o.text"
done
cmp "$tmp/none" "$tmp/optimizer" || wrong 'other numbers'
cmp "$tmp/none.text" "$tmp/optimizer.text" || wrong 'other programs'
grep -q '^set plan.offload = optimizer' "$tmp/optimizer.ir" ||
	wrong 'rank programs do not say so'

# field FILE KEY: of the pipeline's rank 1
field()
{
	sed -n "s/^ *{\"rank\": 1, .*\"$2\": \\([0-9]*\\).*/\\1/p" "$1"
}

# What one rank keeps is what its host keeps.
for o in none optimizer; do
	"$LLMC" --emit=memory-json --pin "pp=2,tp=4,microbatch=1,offload=$o" \
		"$model" >"$tmp/$o.json" || exit 1
done
kept=$(field "$tmp/none.json" optimizer_bytes)
[ "$kept" -gt 0 ] || wrong 'nothing is kept'
[ "$(field "$tmp/none.json" host_bytes)" = 0 ] || wrong 'on the host unasked'
[ "$(field "$tmp/optimizer.json" host_bytes)" = "$kept" ] || wrong 'other bytes'
[ "$(field "$tmp/optimizer.json" optimizer_bytes)" = 0 ] ||
	wrong 'still on the device'
[ $(($(field "$tmp/none.json" total_bytes) - kept)) -eq \
	"$(field "$tmp/optimizer.json" total_bytes)" ] || wrong 'another total'

# update TARGET PINS: milliseconds of it
update()
{
	printf 'plan { microbatch = 1; %s; }\n' "$2" | tr , ';' >"$tmp/p.llp"
	"$LLMC" --emit=cost --target "$1" --plan "$tmp/p.llp" "$model" |
		sed -n 's/.*the update takes \([0-9.]*\) ms.*/\1/p'
}

# Both ways over 64 GB/s, and the norm before it; both stages are alike.
plain=$(update h100x8 pp=2,tp=4,offload=none)
moved=$(update h100x8 pp=2,tp=4,offload=optimizer)
awk -v plain="$plain" -v moved="$moved" -v bytes="$kept" 'BEGIN {
	link = 2 * bytes / 64e6
	printf "%g ms, on the host %g ms, the link %g ms\n", plain, moved, link
	exit !(plain > 0 && moved > link && moved < link + plain)
}' || wrong 'another price'

# A link as fast as memory hides behind the update; without one it is refused.
sed 's/host = 64/host = 100000/' "$top/targets/h100-sxm.target" >"$tmp/t"
sed 's/host = 64/host = 0/' "$top/targets/h100-sxm.target" >"$tmp/u"
for f in t u; do
	cmp -s "$tmp/$f" "$top/targets/h100-sxm.target" && exit 99
	mv "$tmp/$f" "$tmp/$f.target"
done
plain=$(update "$tmp/t.target" offload=none)
moved=$(update "$tmp/t.target" offload=optimizer)
if [ -z "$plain" ] || [ "$moved" != "$plain" ]; then
	wrong 'a fast link is waited for'
fi
"$LLMC" --emit=cost --target "$tmp/u.target" \
	--plan "$tmp/p.llp" "$model" \
	>"$tmp/out" 2>"$tmp/err"
status=$?
if [ $status -ne 1 ] || [ -s "$tmp/out" ] ||
	! grep -q 'host. is 0' "$tmp/err"; then
	wrong 'without a link to the host there is a price'
fi
exit $fail

#!/bin/sh
# What the gap of a search says nothing of is said beside it, where it applies,
# and with a bound that such plans keep.
. "${top_srcdir:?}/tests/lib.sh"

field()
{
	sed -n "s/.*\"$2\": *\\([0-9a-z.e+-]*\\).*/\\1/p" "$1" | head -n 1
}

# said OF: the ms that --explain=search says in out that nothing is below
said()
{
	sed -n "s/^    not in it: $1, none below \\([0-9.]*\\) ms\$/\\1/p" out
}

# below A B: is A a number, and less than B?
below()
{
	awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0 && a < b) }'
}

# ---- parameters on hosts are in the space, where these have the memory

printf '%s\n' 'target one { accelerator = h100; devices = 1; nodes = 1;' \
	'memory = 14; reserve = 0; host = 64; }' >one.target
set -- --target ./one.target "$examples/llama-3.2-1b.llm"
run "$@"
grep -q 'offload optimizer and parameters to the host' out ||
	bad 'parameters on hosts are quicker'
step=$(step_of out)
run --pin offload=optimizer+parameters "$@"
[ "$step" = "$(step_of out)" ] || bad "$step, as pinned $(step_of out)"
# a pin that keeps them, code that does not have them there
run --pin offload=optimizer "$@"
below "$step" "$(step_of out)" || bad "$step, and $(step_of out) without"

# where the link hides kernels, what ways read again over it counts, too
printf '%s\n' 'target one { accelerator = h100; devices = 1; nodes = 1;' \
	'memory = 40; reserve = 0; host = 32; }' >one.target
set -- --target ./one.target "$examples/gpt2-xl.llm"
pins=offload=optimizer+parameters,microbatch=16
run --pin $pins "$@"
step=$(step_of out)
run --pin $pins,recompute=f "$@"
below "$step" "$(awk -v us="$(step_of out)" 'BEGIN { print us * 1.0001 }')" ||
	bad "$step, and $(step_of out) with a way of its own list"

# ---- activations on hosts: any way, as the link and their memory allow

# noworse PIN..: what run found with "$@" is no slower than that with these pins
noworse()
{
	step=$(step_of out)
	pins=$1
	shift
	run --pin "$pins" "$@"
	below "$step" "$(awk -v us="$(step_of out)" \
		'BEGIN { print us * 1.0001 }')" || bad "$step, $pins $(step_of out)"
}

set -- --target h100x8x8 --pin pp=8,ep=8,dp=1,tp=1,microbatch=2,zero=1 \
	--pin interleave=4,schedule=interleaved "$examples/deepseek-v3.llm"
run --explain=search "$@"
grep -q 'offload optimizer and activations' out || bad 'activations on hosts'
grep -q 'a gap of 0.0%' out || bad 'one rank has a host: a gap'
# words of the plan that other stages have need no warning
[ ! -s err ] || bad 'a warning'
noworse offload=optimizer+activations,recompute=full "$@"
run "$@"
noworse "offload=optimizer+activations,$(:
	)recompute=rmsnorm+slice+concat+e+sum+div+w+silu+g+y" "$@"
# ranks of a pipeline share a host, which has too little for their quickest ways
set -- --target h100x8 --pin pp=4,dp=2,microbatch=2,schedule=1f1b,zero=2 \
	"$examples/llama-3-70b.llm"
run --explain=search "$@"
grep -q 'offload optimizer and activations' out || bad 'a host of four ranks'
bound=$(said 'other ways for stages of one rank')
[ -z "$bound" ] || below "$bound" "$(step_of out)" || bad "shares: $bound"
noworse offload=optimizer+activations,recompute=rmsnorm+v+rope+silu+g "$@"
# what hosts lack is said, not what devices have
refused 'host_memory' --pin offload=optimizer+activations,recompute=silu+g "$@"
# no ways help a rank whose update does not fit: the next plan is looked at
run --target rtx4090x8x4 --explain=search "$examples/llama-2-70b.llm"
grep -q 'a gap of 0.0%' out || bad 'updates that do not fit: a gap'
refused 'needs 23,375,440,384 bytes of 23,100,000,000 on rank 15' \
	--target rtx4090x8x4 --pin pp=16,tp=1,dp=2,interleave=2,zero=1 \
	--pin schedule=interleaved,microbatch=1,offload=optimizer+activations \
	"$examples/llama-2-70b.llm"

# ---- stages of one rank: their ways are chosen by the sum of their times

set -- --target h100x8x8 "$examples/deepseek-v3.llm" \
	--pin pp=8,ep=8,dp=1,interleave=4,schedule=interleaved,microbatch=1,zero=1 \
	--pin offload=optimizer
run --explain=search "$@"
step=$(step_of out)
bound=$(said 'other ways for stages of one rank')
below "$bound" "$step" || bad "ways: $bound of $step"
bound=$(said 'ways to recompute that were not made')
below "$bound" "$step" || bad "ways that were not made: $bound of $step"
bound=$(said 'other ways for stages of one rank')
# the same way in all stages takes more in sum, and waits less
run "$@" --pin recompute=n+dot+v+concat+m+sum+div+dot_at+silu+g
even=$(step_of out)
below "$bound" "$even" || bad "$even, and none below $bound"
below "$step" "$(awk -v us="$even" 'BEGIN { print us * 1.0001 }')" ||
	bad "$step, and $even with one way in all stages"
run --emit=plans-json "$@"
below "$(field out ways_bound_us)" "$(field out bound_us)" ||
	bad 'ways: plans-json'
# stages that share slots may have different ways
set -- --target h100x8x8 "$examples/mixtral-8x7b.llm" \
	--pin pp=2,dp=4,ep=8,interleave=8,schedule=interleaved,microbatch=2
run "$@"
step=$(step_of out)
run "$@" --pin recompute=n+silu+g
below "$step" "$(step_of out)" ||
	bad "$step, and $(step_of out) with one way in all stages"
# as pinned there are no other ways
run --explain=search "$@" --pin recompute=n+silu+g
[ -z "$(said 'ways to recompute that were not made')" ] ||
	bad 'recompute is pinned'
# with one stage for each rank it is not a question of schedules
run --target h100x8x8 --explain=search --pin pp=8,interleave=1 \
	"$examples/llama-3-70b.llm"
[ -z "$(said 'other ways for stages of one rank')" ] ||
	bad 'a rank has one stage'

# ---- ways that are not among the first of a placement

set -- --target h100x8 "$examples/mixtral-8x7b.llm" \
	--pin pp=1,ep=8,dp=1,tp=1,microbatch=2,zero=1,offload=optimizer
run "$@"
step=$(step_of out)
run "$@" --pin recompute=n+silu+g
below "$step" "$(awk -v us="$(step_of out)" 'BEGIN { print us * 1.0001 }')" ||
	bad "$step, and $(step_of out) with a way that was passed over"

# ---- parameters on hosts

# of ranks that remain open, bounds have what crosses the link
run --target h100x8 --explain=search "$examples/megatron-530b.llm"
grep -q 'a gap of 0.0%' out || bad 'parameters on drives: a gap'
exit $failed

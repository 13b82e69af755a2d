#!/bin/sh
# A pinned schedule, number of stages on a rank, or list of stages leaves the
# pipeline's ranks to the search: it finds the best of what goes with the pin.
. "${top_srcdir:?}/tests/lib.sh"
model=$examples/gpt-bytes.llm	# four layers

# best PINS..: the least step with one of these
best()
{
	for pins; do
		run --target h100x8 --pin "$pins" "$model"
		step_of out
	done | sort -n | head -n 1
}

# leaves_open PIN WHOLE..: PIN finds what the best of these finds
leaves_open()
{
	pin=$1
	shift
	run --target h100x8 --pin "$pin" "$model"
	open=$(step_of out)
	[ -n "$open" ] && [ "$open" = "$(best "$@")" ] ||
		bad "$pin takes $open ms, and the best of $* another time"
}

leaves_open schedule=zbv pp=2,schedule=zbv
leaves_open interleave=2 pp=2,interleave=2,schedule=zbv \
	pp=2,interleave=2,schedule=interleaved
leaves_open stages=1+3 pp=2,interleave=1,stages=1+3
leaves_open stages=1*4 pp=4,interleave=1,stages=1*4 \
	pp=2,interleave=2,stages=1*4
leaves_open pp=2,stages=1*4 pp=2,interleave=2,stages=1*4

# Three stages are of three ranks, which do not divide eight devices.
run --target h100x8 --pin stages=1+2+1 --emit=plan "$model"
grep -q '^  pp = 3;' out || bad 'stages=1+2+1 is not of three ranks'
grep -q '^  stages = (1, 2, 1);' out || bad 'stages=1+2+1 is lost'

# ---- what does not go together is refused where it is said

refused '--pin:1:6: error: `interleave` is 2, and `pp` is 1' \
	--target h100x8 --pin pp=1,interleave=2 "$model"
refused '--pin:1:14: error: `stages` lists 3, and pp * interleave = 2 * 2' \
	--target h100x8 --pin schedule=zbv,stages=1+2+1 "$model"
refused '--pin:1:6: error: `stages` lists 4, and pp * interleave = 3 * 1' \
	--target h100x8 --pin pp=3,stages=1*4 "$model"
refused '--pin:1:15: error: `interleave` is 2, and 1f1b runs 1 stage' \
	--target h100x8 --pin schedule=1f1b,interleave=2 "$model"
refused '--pin:1:1: error: pp * interleave = 2 * 5 makes 10 stages' \
	--target h100x8 --pin interleave=5 "$model"
refused 'with interleave = 1, `pp` from 1 to 4 is legal' \
	--target h100x8 --pin interleave=4 "$model"
refused '--pin:1:1: error: schedule interleaved: found 16384 stages' \
	--target h100x8 --pin interleave=16384 "$model"
refused '--pin:1:1: error: `pp` is 5000, and 1 to 4096 is legal' \
	--target h100x8 --pin 'stages=1*5000' "$model"
# without a target nothing is searched: `pp` is 1
refused '--pin:1:1: error: `interleave` is 2, as for zbv, and `pp` is 1' \
	--pin schedule=zbv --emit=ranks "$model"
exit $failed

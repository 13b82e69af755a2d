#!/bin/sh
# A plan in bf16 for each kind of CPU that this one can stand for, AMX by
# emulation where it has none: whole programs, whose losses are all alike.
. "${top_srcdir:?}/tests/lib.sh"
need binaries llvm linker

sed 's/dtype f32/dtype bf16/' "$examples/tiny-dense.llm" >model.llm
grep -q 'dtype bf16' model.llm || fail 'no bf16'

# What llmc links is kept, and linked again with the emulator.
cat >keep <<'END'
#!/bin/sh
mkdir -p "$KEPT" || exit 1
for word; do
	case $word in
	*.o)
		cp "$word" "$KEPT" || exit 1
		word=$KEPT/${word##*/}
		;;
	esac
	echo "$word"
done >"$KEPT/words"
exec $KEPT_CC "$@"
END

# planned CPU: in plan
planned()
{
	rm -rf plan linked
	KEPT="$tmp/linked" KEPT_CC="$linker" LLMC_LINKER="sh $tmp/keep" \
		run -w --draft --target cpux2 --pin tp=2 --cpu "$1" -o plan \
		model.llm
}

# trained NAME: its losses in NAME.losses; false: not on this CPU
trained()
{
	plan/rank train --local --threads 2 --data draw --seed 7 --steps 3 \
		--checkpoint none >"$1.out" 2>"$1.err" || {
		grep -q '; this CPU ' "$1.err" || bad "$1: $(cat "$1.err")"
		return 1
	}
	sed -n 's/^step [0-9]* loss \([^ ]*\).*/\1/p' "$1.out" >"$1.losses"
	[ "$(wc -l <"$1.losses")" -eq 3 ] || bad "$1: not three losses"
}

# ran NAME HOW: for the line at the end of `quickstart check`
ran()
{
	alike "$1"
	echo "CPU code: $2 $1"
}

# alike NAME: as those of the first one
alike()
{
	paste -d ' ' x86-64-v2.losses "$1.losses" | awk '
		{ d = $1 > $2 ? $1 - $2 : $2 - $1; if (!(d < 0.02 * $1)) bad = 1 }
		END { exit bad }' ||
		bad "$1: $(cat "$1.losses") beside $(cat x86-64-v2.losses)"
}

planned x86-64-v2
trained x86-64-v2 || skip "$(cat x86-64-v2.err)"
ran x86-64-v2 masked
base=x86-64-v2
for cpu in x86-64-v3 x86-64-v4; do
	planned $cpu
	if trained $cpu; then
		ran $cpu masked
		base=$cpu
	fi
done
planned native
trained native || bad 'native: this CPU is refused'
ran native real

cpu=$base+amx-tile+amx-bf16
planned $cpu
$linker -std=gnu11 -I "$top_srcdir" -c -o amx.o "$tests/fakes/emulate-amx.c" ||
	fail 'the emulator is not compiled'
# The word after -o is where it was linked to.
sed '/^-o$/{n;s|.*|plan/rank|;}' linked/words |
	xargs $linker -Wl,--wrap=rt_cpu_check amx.o || fail 'not linked'
trained $cpu || bad "$cpu: $(cat $cpu.err)"
if grep -q '^tiles: real' $cpu.err; then
	ran $cpu real
else
	grep -q '^tiles: [1-9]' $cpu.err || bad "$cpu: no tiles"
	ran $cpu emulated
fi
exit $failed

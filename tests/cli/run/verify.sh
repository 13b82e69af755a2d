#!/bin/sh
# rank verify holds a split program to the unsplit one: it agrees for real
# plans, and finds what is made wrong in them.
. "${top_srcdir:?}/tests/lib.sh"
need binaries llvm linker

# What llmc links is kept, and linked again with each mistake.
cat >keep <<'END'
#!/bin/sh
kept=$KEPT
mkdir "$kept" || exit 1
for word; do
	case $word in
	*.o)
		cp "$word" "$kept" || exit 1
		word=$kept/${word##*/}
		;;
	esac
	echo "$word"
done >"$kept/words"
exec $KEPT_CC "$@"
END

draft=
# planned MODEL PINS: in plan.PINS; what was linked lies in linked.PINS
planned()
{
	KEPT="$tmp/linked.$2" KEPT_CC="$linker" LLMC_LINKER="sh $tmp/keep" \
		run -w $draft --target cpux4 --pin "$2" -o "plan.$2" "$1"
}

# agrees MODEL PINS: in five steps' numbers, and every tensor after the first
agrees()
{
	planned "$1" "$2"
	"plan.$2/rank" verify --local --steps 5 >out 2>err || {
		! grep -q 'this CPU' err || skip "$(cat err)"
		bad "$1 $2: verify"
	}
	for line in 'loss and norm of 5 steps are at most' 'gradients ' \
		'their squares ' 'weights '; do
		grep -q "^unsplit    $line" out || bad "$1 $2: no '$line'"
	done
}

agrees "$examples/tiny-dense.llm" tp=2,pp=2
draft=--draft
agrees "$examples/tiny-dense.llm" dp=2,zero=3,pp=2
agrees "$examples/tiny-moe.llm" ep=2,pp=2
agrees "$examples/tiny-moe.llm" dp=2,zero=1,tp=2
sed 's/dtype f32/dtype bf16/; s/^  optimizer/  clip = 1;\n&/' \
	"$examples/tiny-dense.llm" >narrow.llm
grep -q 'dtype bf16' narrow.llm || bad 'no bf16'
agrees narrow.llm tp=4
grep -q '^norm ' out || bad 'clipping computes no norm'
sed 's/optimizer = .*/optimizer = sgd(lr = 0.1);/' \
	"$examples/tiny-dense.llm" >sgd.llm
run -w --draft --target cpux4 --pin tp=2,pp=2 -o plan sgd.llm
plan/rank verify --local >out 2>err || bad sgd
grep -q "^unsplit    100.0% of the weights' elements" out || bad sgd

# ---- what is wrong is found ----

# links FLAG PINS: the plan of above with tests/fakes/verify-wrong.c in it
links()
{
	flag=$1 pins=$2
	$linker -std=c11 "$flag" -I "$top_srcdir" -c -o wrong.o \
		"$tests/fakes/verify-wrong.c" || {
		bad "$flag: not compiled"
		return
	}
	rm -rf plan
	cp -r "plan.$pins" plan
	# The word after -o is where it was linked to.
	sed '/^-o$/{n;s|.*|plan/rank|;}' "linked.$pins/words" |
		xargs $linker -Wl,--wrap=rt_run_start,--wrap=rt_comm_join wrong.o ||
		bad "$flag: not linked"
}

# wrong FLAG PINS WORDS..: verify fails, and says all of these
wrong()
{
	links "$1" "$2"
	shift 2
	plan/rank verify --local >out 2>err
	status=$?
	[ $status -eq 1 ] || bad "$flag: verify exits with $status"
	for words in "$@"; do
		grep -qF -e "$words" err || bad "$flag: no '$words'"
	done
}

# Else the others prove nothing.
links -DRIGHT tp=2,pp=2
plan/rank verify --local >out 2>err || bad 'nothing is wrong'

wrong -DWRONG_WEIGHT='"o_proj"' tp=2,pp=2 \
	'if nothing is split' 'of the largest element apart' \
	'tensor ' 'rank 1 (pp=0 tp=1) has '
wrong -DWRONG_WEIGHT='"down_proj"' dp=2,zero=3,pp=2 'if nothing is split'
wrong -DWRONG_DATA tp=2,pp=2 'if nothing is split'
wrong -DWRONG_SUM tp=2,pp=2 'if nothing is split'

# ---- nothing to compare with ----

run -w --draft --target cpux1 -o one "$examples/tiny-dense.llm"
one/rank verify >out 2>err || bad one
grep -qx 'unsplit    not compared: the plan is of one rank' out ||
	bad 'one rank'
run -w --draft --target cpux4 --pin tp=4,microbatch=1 --dim vocab=4000000 \
	-o big "$examples/tiny-dense.llm"
grep -aq 'one rank would need [0-9.]* GiB, and it is compiled for up to' \
	big/rank || bad 'a whole plan that is too large'
exit $failed

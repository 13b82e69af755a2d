#!/bin/sh
# A checkpoint that was tampered with, its sums made right again; one whose
# folder was renamed; one of another model; and going on with other data.
. "${top_srcdir:?}/tests/lib.sh"
rank=$build/tests/unit/runtime/toy-rank

# sum_of FILE: 16 digits, as docs/checkpoints.md says
sum_of()
{
	x=0 sum=0 i=0
	for byte in $(od -An -v -tu1 "$1"); do
		x=$((byte + i * -7046029254386353131))
		x=$((x ^ ((x >> 32) & 0xffffffff)))
		x=$((x * -2960836687051489901))
		sum=$((sum + (x ^ ((x >> 29) & 0x7ffffffff))))
		i=$((i + 1))
	done
	printf '%016x' $sum
}

# forge SED: ck has a good checkpoint changed so
forge()
{
	rm -rf ck
	cp -r good ck
	at=ck/step-00000004/checkpoint.json
	sed -e '/^  "sum":/,$d' -e "$1" "$at" >text
	printf '  "sum": "%s"\n}\n' "$(sum_of text)" | cat text - >"$at"
}

# declined WORDS ARGUMENTS..: refused in a line, before a step, no crash
declined()
{
	said=$1
	shift
	timeout 60 "$rank" "$@" >out 2>err
	got=$?
	[ $got = 1 ] && grep -q "^rank [01] .*$said" err &&
		! grep -q '^step' out || bad "rank $*: exit status $got, $said"
}

i=0
while test $i -lt 1000; do
	printf "\\$(printf %03o $((i * i % 13)))\\000"
	i=$((i + 1))
done >data.bin
train="train --local --data data.bin"
# shellcheck disable=SC2086 # words
"$rank" $train --steps 4 --checkpoint good >out 2>err || fail 'a first run'
mark=good/step-00000004/checkpoint.json

# the sum here is the one that the runtime writes
sed '/^  "sum":/,$d' $mark >text
grep -q "\"sum\": \"$(sum_of text)\"" $mark || fail 'sums are other ones'
forge ''
same_folders good ck

# ---- numbers that no run can have had ----

# each: what is changed, and what is said of it
while read -r change words; do
	forge "$change"
	# shellcheck disable=SC2086 # words
	declined "checkpoint.json.*$words" $train --steps 9 --resume ck
	declined "checkpoint.json.*$words" eval --local --data data.bin \
		--checkpoint ck
done <<'END'
s/"step":[^,]*/"step":-4/ expected
s/"step":[^,]*/"step":4.5/ expected
s/"step":[^,]*/"step":9223372036854775807/ found step 9223372036854775807, expected 0 to
s/"step":[^,]*/"step":99999999999999999999/ expected
s/"step":[^,]*/"step":5/ found step 5, expected 4, as its folder is named
s/"step":[^,]*/"step":0/ found 32 sequences
s/"sequences":[^,]*/"sequences":-1/ expected
s/"sequences":[^,]*/"sequences":9223372036854775807/ found 9223372036854775807 sequences of 4 steps
s/"sequences":[^,]*/"sequences":3/ found 3 sequences of 4 steps, expected 1 to
s/"model":[^,]*/"model":"other"/ found model 'other', expected 'toy'
END

# ---- a folder that was renamed ----

for name in step-00000005 step-00000003.old step-00000099; do
	rm -rf ck
	mkdir ck
	cp -r good/step-00000004 ck/$name
	for path in ck ck/$name ck/$name///; do
		# shellcheck disable=SC2086 # words
		declined "found step 4, expected [0-9]*, as its folder is named" \
			$train --steps 9 --resume $path
	done
done
# other names promise nothing; and an older one takes the place of it
rm -rf ck
cp -r good ck
cp -r good/step-00000004 ck/step-00000007
cp -r good/step-00000004 ck/best
# shellcheck disable=SC2086 # words
"$rank" $train --steps 5 --resume ck/best >out 2>err || bad 'ck/best'
# shellcheck disable=SC2086 # words
"$rank" $train --steps 5 --resume ck >out 2>err || bad 'an older one'
grep -q 'found step 4, expected 7' out || bad 'no remark'

# ---- other data ----

# each token from 60 on is another one
head -c 120 data.bin >other.bin
tail -c +119 data.bin | head -c 1880 >>other.bin
head -c 1200 data.bin >shorter.bin
head -c 600 data.bin >half.bin
tail -c +601 data.bin >rest.bin
for data in 'draw' 'other.bin' 'shorter.bin' 'data.bin data.bin' \
	'rest.bin half.bin' 'data.bin --data-order file'; do
	rm -rf ck
	cp -r good ck
	# shellcheck disable=SC2086 # words
	declined 'of other data, or in another order.*--allow-other-data' \
		train --local --steps 6 --checkpoint ck --resume --data $data
	same_folders good ck
	# shellcheck disable=SC2086 # words
	"$rank" train --local --steps 6 --checkpoint ck --resume --data $data \
		--allow-other-data >out 2>err || bad "$data: not allowed"
	# from then on it is the data of the run
	# shellcheck disable=SC2086 # words
	"$rank" train --local --steps 7 --checkpoint ck --resume --data $data \
		>out 2>err || bad "$data: twice"
done
# the same tokens elsewhere, and in another format, are the same data
mkdir elsewhere
cp data.bin elsewhere/moved.bin
# shellcheck disable=SC2086 # words
"$rank" train --local --data elsewhere/moved.bin --steps 6 --resume good \
	>out 2>err || bad 'data that moved'
{
	printf '\210\330\064\001\001\000\000\000\350\003\000\000'
	head -c 1012 /dev/zero
	cat data.bin
} >llmc.bin
"$rank" train --local --data llmc.bin --steps 6 --resume good >out 2>err ||
	bad 'data in another format'
exit $failed

#!/bin/sh
# llmc eval: results to the last bit, checksums by name, weights from files,
# and that passes change none of it.
# shellcheck disable=SC2016 # messages quote with back quotes
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99

fail()
{
	echo "$*"
	test ! -s err || cat err
	exit 1
}

cat >in.ir <<'END'
llmc-ir 1
dim a = 2
dim b = 3

model {
  %x.0 = weight name="x" init=normal : f32[a, b]
  %y.1 = repeat count=2 var=i (%y.2 = %x.0) : f32[a, b] {
    %w.3 = weight name="w.{i}" init=ones : f32[b]
    %p.4 = mul %y.2, %w.3 : f32[a, b]
    yield %p.4
  }
  %s.5 = sum %y.1 over=(a, b) : f32[]
  return %s.5, %y.1
}
END

run()
{
	"$LLMC" eval "$@" in.ir >out 2>err || fail "llmc eval $*"
}

run
grep -Eq '^s -?[0-9.e-]+$' out || fail 'no scalar result'
grep -Eq '^y 0x[0-9a-f]{16} shape \[2, 3\] f32$' out || fail 'no tensor'
cp out plain
run --passes=default
cmp out plain || fail 'passes change the result'
run --seed=1
cmp -s out plain && fail 'the seed changes nothing'
run --checksum=p,repeat[1]/w --checksum=s
cut -d ' ' -f 1,2 out >names
printf '%s\n' "$(sed 's/ .*//;q' plain) $(cut -d ' ' -f 2 plain | sed q)" \
	"y $(sed -n 's/^y \([^ ]*\).*/\1/p' plain)" \
	'checksum repeat[0]/p' 'checksum repeat[1]/w' \
	'checksum repeat[1]/p' 'checksum s' | diff - names || fail 'checksums'
run --checksum=all
test "$(grep -c '^checksum' out)" -ge 9 || fail '--checksum=all'
"$LLMC" eval --checksum=pp in.ir >out 2>err && fail 'an unknown name'
grep -q 'did you mean `p`' err || fail 'no suggestion'
test ! -s out || fail 'output in spite of an error'

# A checkpoint by hand: header length, header, data; 1.0f is 0000803f.
ones()
{
	i=0
	while test $i -lt "$1"; do
		printf '\000\000\200\077'
		i=$((i + 1))
	done
}
checkpoint()	# NAME HEADER FLOATS
{
	n=${#2}
	{
		# shellcheck disable=SC2059 # an octal escape is the point
		printf "\\$(printf %03o $((n % 256)))"
		# shellcheck disable=SC2059
		printf "\\$(printf %03o $((n / 256)))"
		printf '\000\000\000\000\000\000%s' "$2"
		ones "$3"
	} >"$1"
}
w='"w.0":{"dtype":"F32","shape":[3],"data_offsets":[24,36]}'
w="$w,\"w.1\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[36,48]}"
x='"x":{"dtype":"F32","shape":[6],"data_offsets":[0,24]}'
checkpoint good.safetensors "{$x,$w}" 12
run --weights=good.safetensors
test "$(head -n 1 out)" = 's 6' || fail 'weights from a file'

refused()
{
	words=$1
	shift
	"$LLMC" eval "$@" in.ir >out 2>err
	test $? -eq 1 || fail "$*: not refused"
	grep -qF -e "$words" err || fail "$*: not: $words"
}
x='"x":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}'
checkpoint shape.safetensors "{$x,$w}" 12
refused 'is [3, 2], and [a=2, b=3]' --weights=shape.safetensors
x='"xx":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}'
checkpoint name.safetensors "{$x,$w}" 12
refused 'has no tensor `x`' --weights=name.safetensors
x='"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}'
x="$x,\"z\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[48,52]}"
checkpoint more.safetensors "{$x,$w}" 13
run --weights=more.safetensors
test ! -s err || fail 'an unused tensor is told of without being asked'
run --weights=more.safetensors -Wunused-tensor
grep -q 'does not read `z`.*-Wunused-tensor' err || fail 'unused tensor'
refused 'error: the model does not read `z`' \
	--weights=more.safetensors -Werror=unused-tensor
test ! -s out || fail 'output in spite of an error'

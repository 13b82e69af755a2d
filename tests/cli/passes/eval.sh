#!/bin/sh
# llmc eval: results to the last bit, checksums by name, weights from files,
# and that passes change none of it.
. "${top_srcdir:?}/tests/lib.sh"

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

run eval in.ir
grep -Eq '^s -?[0-9.e-]+$' out || fail 'no scalar result'
grep -Eq '^y 0x[0-9a-f]{16} shape \[2, 3\] f32$' out || fail 'no tensor'
cp out plain
run eval --passes=default in.ir
cmp out plain || fail 'passes change the result'
run eval --seed=1 in.ir
cmp -s out plain && fail 'the seed changes nothing'
run eval --checksum=p,repeat[1]/w --checksum=s in.ir
cut -d ' ' -f 1,2 out >names
printf '%s\n' "$(sed 's/ .*//;q' plain) $(cut -d ' ' -f 2 plain | sed q)" \
	"y $(sed -n 's/^y \([^ ]*\).*/\1/p' plain)" \
	'checksum repeat[0]/p' 'checksum repeat[1]/w' \
	'checksum repeat[1]/p' 'checksum s' | diff - names || fail 'checksums'
run eval --checksum=all in.ir
test "$(grep -c '^checksum' out)" -ge 9 || fail '--checksum=all'
refused 'did you mean `p`' eval --checksum=pp in.ir

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
run eval --weights=good.safetensors in.ir
test "$(head -n 1 out)" = 's 6' || fail 'weights from a file'

x='"x":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}'
checkpoint shape.safetensors "{$x,$w}" 12
refused 'is [3, 2], and [a=2, b=3]' eval --weights=shape.safetensors in.ir
x='"xx":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}'
checkpoint name.safetensors "{$x,$w}" 12
refused 'has no tensor `x`' eval --weights=name.safetensors in.ir
x='"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}'
x="$x,\"z\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[48,52]}"
checkpoint more.safetensors "{$x,$w}" 13
refused "found 1 tensor that the model does not read: 'z', expected none" \
	eval --weights=more.safetensors in.ir
run eval --weights=more.safetensors --allow-unused in.ir

# What is not finite cannot be rounded to 8 bits.
cat >rounded.ir <<'END'
llmc-ir 1
dim a = 2
dim b = 3

model {
  %0 = weight name="x" frozen rounded=b : int8[a, b]
  %1 = scales name="x_scale_inv" stored=int8 over=(a, b) : f32[a]
  %2 = cast %0 : f32[a, b]
  %3 = sum %2 over=b : f32[a]
  %4 = mul %3, %1 : f32[a]
  %5 = sum %4 over=a : f32[]
  return %5
}
END
checkpoint finite.safetensors '{"x":{"dtype":"F32","shape":[2,3],'\
'"data_offsets":[0,24]}}' 6
run eval --weights=finite.safetensors rounded.ir
grep -q "^result 5.99999" out || bad 'rounded weights'
for value in 'NaN \300' 'infinite \200'; do
	# shellcheck disable=SC2059
	{
		head -c -6 finite.safetensors
		printf "${value#* }"'\177'
		ones 1
	} >no.safetensors
	refused "rounded.ir:6:3: error: element 4 of \`x\` is ${value% *}, and" \
		eval --weights=no.safetensors rounded.ir
done
exit $failed

#!/bin/sh
# No mbarrier of a kernel fences the whole GPU: an ERRBAR, which comes with such
# a fence, or a CCTL, which drops the first cache, is there once for each
# cluster_arrive and cluster_wait, and nowhere else. The cubins themselves are
# read: an instruction of sm_90 is 16 bytes, and its low 12 bits say which it
# is, as nvdisasm -hex prints them. With LLMC_NVDISASM, or nvdisasm in PATH, the
# numbers that are looked for are held to what that one calls them.
. "${top_srcdir:?}/tests/lib.sh"
need nvrtc linker llvm
command -v readelf >/dev/null || skip 'no readelf'

cat >model.llm <<'EOM'
model m {
  dim hidden = 1024, heads = 8, hd = 128, vocab = 64, seq = 512;
  dtype bf16;
  x = embed(tokens, vocab -> hidden)              @ "e";
  q = linear(x -> heads, hd)                      @ "q";
  a = attention(q, q, q, causal);
  x = x + linear(a -> hidden)                     @ "o";
  loss = cross_entropy(linear(x -> vocab) @ "h", labels);
}
train { batch = 8; optimizer = adamw(lr = 1e-3); }
EOM
run -w --no-whole --draft --target h100x1 model.llm -o plan || exit

# instructions CUBIN: the low 12 bits of each
instructions()
{
	readelf -SW "$1" 2>/dev/null | sed -n \
		's/.*\] \.text\.[^ ]* *[A-Z]* *[0-9a-f]* \([0-9a-f]*\) \([0-9a-f]*\) .*/\1 \2/p' |
		while read -r at bytes; do
			od -An -v -tx8 -w16 -j $((0x$at)) -N $((0x$bytes)) \
				"$1" | sed 's/^ *[0-9a-f]*\(...\) .*/\1/'
		done
}

kernels=0 clusters=0
for cubin in plan/kernels/*.cubin; do
	instructions "$cubin" >"$cubin.ops"
	grep -q 5a7 "$cubin.ops" || continue
	kernels=$((kernels + 1))
	! grep -q mbar_arrive_cta "${cubin%bin}" || clusters=$((clusters + 1))
	awk '/98f/ { n++ } /dc7/ { n-- } END { exit n != 0 }' "$cubin.ops" ||
		bad "$cubin drops the first cache behind an mbarrier"
	awk '/9ab/ { n++ } /9c7/ { n-- } END { exit n != 0 }' "$cubin.ops" ||
		bad "$cubin fences the whole GPU before an mbarrier"
done
[ $kernels -ge 4 ] || bad "only $kernels kernels wait for mbarriers"
[ $clusters -ge 1 ] || bad 'no kernel has blocks that arrive at each other'

# What the numbers mean, by the disassembler.
name=${LLMC_NVDISASM:-nvdisasm}
if command -v "$name" >/dev/null; then
	for cubin in plan/kernels/*.cubin; do
		"$name" -hex "$cubin" >text 2>err || fail "$name $cubin"
		for op in 'SYNCS.PHASECHK 5a7' 'CCTL 98f' 'ERRBAR 9ab' \
				'UCGABAR_ARV 9c7' 'UCGABAR_WAIT dc7'; do
			want=$(grep -c " ${op% *}[.; ]" text)
			got=$(grep -c "^${op#* }" "$cubin.ops")
			[ "$want" -eq "$got" ] ||
				bad "$cubin: $got of $op, and $want by $name"
		done
	done
fi
exit $failed

#!/bin/sh
# What the assembler makes of kernels: no spill, no fence in a loop of products,
# no call, no f64, no load that waits for a store, and no loop that has grown
# since bench/gpu/sass.tsv was made. The reader of the disassembly is held to
# a text in any case; kernels need NVRTC and a disassembler.
. "${top_srcdir:?}/tests/lib.sh"
SASS=$build/tests/gpu/sass
export SASS LLMC

# ---- the reader ----

"$SASS" 2 3 <"$tests/gpu/sass.txt" >out || bad 'the reader fails'
# Of `sound': its loop of products is 5 slots for 2 products of 64 cycles; the
# rest is 3 for a tile, twice 2, and 2 times 3 times 3.  `tensor' calls a trap
# alone.  `narrow' has products of 128 and 64 columns, and of nobody knows how
# many, and a loop that weighs.  Of three ways through a part of a tile in
# `parts', 2, 3 and 4 slots, each of two parts counts the longest, and 3 more.
# `attention1' may leave out 2 slots of 6.  `rows' has a loop before its products,
# of 2 slots once, and one after them, which stores, of 2 slots twice.
printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' \
	sound 168 0 0 0 0 0 0 5 128 4 25 - \
	faulty 255 2 2 1 3 1 1 6 8 75 17 - \
	tensor 0 0 0 0 0 0 0 4 256 2 2 - \
	narrow 0 0 0 0 0 0 0 7 224 3 11 - \
	narrow+weights 0 0 0 0 0 0 0 4 8 50 0 - \
	parts 0 0 0 0 0 0 0 2 64 3 18 - \
	attention1 0 0 0 0 0 0 0 6 64 9 1 4 \
	rows 0 0 0 0 0 0 0 2 64 3 8 - >want
cmp -s want out || bad "the reader counts: $(diff want out)"
"$SASS" 1 0 <"$tests/gpu/sass.txt" >out 2>err
[ $? -eq 2 ] || bad 'a loop that runs 0 times'

# ---- the rules, on rows that break each ----

"$top_srcdir/bench/gpu/sass" >/dev/null && bad 'nothing to do, and it succeeds'

# A compiler whose cubins are that text, and a disassembler that prints files.
cat >planted <<'END'
#!/bin/sh
case "$*" in
--version) echo 'cuda: NVRTC 1.0' && exit ;;
esac
mkdir -p "${*##* }/kernels"
cp "$top_srcdir/tests/gpu/sass.txt" "${*##* }/kernels/contraction1.cubin"
cp "$top_srcdir/tests/gpu/sass.txt" "${*##* }/kernels/contraction2.cubin"
cat >"${*##* }/kernels/contraction1.cu" <<'SOURCE'
/*
 * contraction 64x64x96 dot by a weight
after the products: some 99 issue slots of a thread
KERNEL(sound, 384, 1, struct x)
KERNEL(faulty, 512, 1, struct x)
SOURCE
sed 's/96 dot/96 dot+add/; s/^after.*/a warp widens 20 bytes of a stage/' \
	"${*##* }/kernels/contraction1.cu" >"${*##* }/kernels/contraction2.cu"
END
chmod +x planted

# planted SLOTS: `check', beside a table where the loop of `sound' has so many
planted()
{
	{
		echo '# NVRTC 1.0, a day'
		for name in sound faulty; do
			for op in dot dot+add; do
				printf 'small-90\tcontraction 64x64x96 %s' $op
				printf '\t%s\t1/1\t0\t0\t0\t0\t0\t0' $name
				printf '\t%d\t8\t1\t99\n' "$1"
			done
		done
	} >table
	LLMC=$tmp/planted LLMC_NVDISASM=cat SASS_TABLE=$tmp/table \
		"$top_srcdir/bench/gpu/sass" check small-90 >out 2>err
}
planted 5 && bad 'a faulty kernel passes'
for words in '255 registers of 128' '2 spills' '2 fences' '1 calls' \
		'3 instructions of f64' '1 loads after a store' \
		'1 waits for products that overlap with nothing' \
		'products need 75%' 'instructions for 13.3 bytes'; do
	grep -q "faulty: $words" out || bad "nobody says: $words"
done
grep -q 'sound: ' out && bad 'a sound kernel does not pass'
planted 1 && bad 'a loop that has grown passes'
grep -q 'sound: 5 slots in the loop, 1 in sass.tsv' out || bad 'nobody says it'

# ---- kernels ----

command -v "${LLMC_NVDISASM:-nvdisasm}" >/dev/null ||
	{ [ $failed -eq 0 ] && skip 'no nvdisasm: set LLMC_NVDISASM'; exit 1; }
need nvrtc llvm linker
"$top_srcdir/bench/gpu/sass" check small-90 narrow-90 tensor-100 experts-100 \
	small-80 small-89 serve-int4-90 serve-int4-100 serve-int4-80 \
	serve-f8-89 >out 2>err ||
	bad 'kernels are worse than they were'
exit $failed

#!/bin/sh
# Files whose matrices have 8 or 4 bits already: ranks that share a matrix read
# it as llmc eval does, whatever its format, and round it as any other.  The
# numbers themselves are held to PyTorch's by tests/unit/data/t-quantised.c.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker binaries
files=$tests/interop/quantised

run import -w "$files/int8" --dim seq=8 -o m.llm
run -w --draft --no-whole --dim batch=2 --target cpux2 --pin tp=2 m.llm -o plan

# logits WEIGHTS: the checksum of an evaluation
logits()
{
	run eval --weights "$1" --checksum logits --dim batch=2 m.llm
	grep -v '^ranks' out
}

for folder in "$files"/*; do
	format=${folder##*/}
	./plan/rank export "of-$format" --local --weights "$folder" >out 2>err ||
		bad "$format is not read: $(cat err)"
	[ "$(logits "$folder")" = "$(logits "of-$format")" ] ||
		bad "two ranks read other numbers than llmc eval of $format"
done
[ "$(logits "$files/int8")" != "$(logits "$files/awq")" ] ||
	bad 'two formats have the same logits'

# ---- programs that round, and what they say ----

letters_tokenizer
work='prompt=3,output=5,tokens=4,rows=2,keys=256,slots=384'
run --serve --draft -w --workload $work,weights=int8 --target cpux2 \
	--pin tp=2 m.llm -o served
generate()
{
	./served/rank generate --local --weights "$1" --prompt bcd --tokenizer \
		tokenizer.json --tokens 5 --temperature 0 2>err
}
for format in fp8-block gptq4-order; do
	generate "of-$format" >want || bad "generate of $format: $(cat err)"
	generate "$files/$format" >out || bad "generate: $(cat err)"
	[ -s want ] && cmp -s want out || bad "$format is rounded otherwise"
done

# ---- what is refused ----

# broken EXPRESSION MESSAGE: a config.json that sed changed
broken()
{
	rm -rf broken
	cp -R "$files/fp8-block" broken
	sed "$1" "$files/fp8-block/config.json" >broken/config.json
	refused "$2" eval --weights broken --dim batch=2 m.llm
	! ./plan/rank verify --local --weights broken >out 2>err ||
		bad "$1: a rank reads it"
	grep -qF "$2" err || bad "$1: expected $2"
}
broken 's/"fp8"/"quip"/' 'broken/config.json: found quant_method quip, expected'
broken 's/16,$/32,/' "_proj.weight_scale_inv': found [2, 1], expected [1, 1]"
sed 's/"quantization_config"/"other"/' "$files/fp8-block/config.json" \
	>broken/config.json
refused 'found 7 tensors that the model does' eval --weights broken \
	--dim batch=2 m.llm
! ./plan/rank verify --local --weights broken --allow-unused >out 2>err ||
	bad '8 bits without scales are read'
grep -q "found F8_E4M3, expected .*quantization_config.*there is none" err ||
	bad "of F8_E4M3 without scales: $(cat err)"
exit $failed

#!/bin/sh
# rank train --tokenizer: text becomes a token file beside it once, the same
# that llmc tokenize writes, and a resumed run finds it.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker binaries
json=$tests/data/tokenizers/llama3.json

# Of as many tokens as the tokenizer has, and so small that to compute is not what
# takes time.
run --target cpux2 --no-whole --draft --dim vocab=333 --dim hidden=32 \
	--pin dp=2 "$examples/gpt-bytes.llm" -o plan || exit
cat "$top_srcdir"/docs/memory.md >text.txt
printf '{"text": "%s"}\n' "$(tr -d '\\\n"\t' <text.txt)" >lines.jsonl

# train ARGUMENTS..
train()
{
	timeout $limit plan/rank train --local "$@" >out 2>err ||
		bad "rank train $*: exit status $?"
}

# stops WORDS ARGUMENTS..
stops()
{
	words=$1
	shift
	! timeout $limit plan/rank train --local --steps 1 "$@" >out 2>err &&
		grep -qF -e "$words" err || bad "rank train $*; expected: $words"
}

train --data text.txt --tokenizer "$json" --end '<|end_of_text|>' \
	--eval-data lines.jsonl --eval-steps 1 --steps 2 --checkpoint saved \
	--log log
grep -q '^text.txt.tokens-[0-9a-f]*.bin: [0-9]* tokens of 1 document$' out ||
	bad 'it does not say what it made'
"$LLMC" tokenize --tokenizer "$json" --end '<|end_of_text|>' text.txt \
	-o text.bin >/dev/null
cmp text.txt.tokens-*.bin text.bin || bad 'other tokens than of llmc tokenize'
train --data text.txt --tokenizer "$json" --end '<|end_of_text|>' --steps 3 \
	--checkpoint saved --resume --log resumed
grep -q 'tokens of' out && bad 'tokens were made twice'
# token files of the same tokens are the same data
train --data text.bin --steps 3 --log plain
losses_in log >losses
losses_in resumed >>losses
losses_in plain >others
cmp losses others || bad 'other losses from the token file'
# other text is other data
echo more >>text.txt
stops 'of other data' --data text.txt --tokenizer "$json" --steps 4 \
	--checkpoint saved --resume

# of a *.gguf its keys alone are the tokenizer
cp "$tests/data/tokenizers/llama3.gguf" a.gguf
cp a.gguf b.gguf
echo weights >>b.gguf
train --data text.txt --tokenizer a.gguf --steps 1
grep -q 'tokens of' out || bad 'no tokens were made by a .gguf'
train --data text.txt --tokenizer b.gguf --steps 1
grep -q 'tokens of' out && bad 'tokens were made twice for other weights'

stops 'lines.jsonl: this is text, and needs a tokenizer' --data lines.jsonl
stops 'there is a --tokenizer and no text' --data text.bin --tokenizer "$json"
stops '--end is of text, and there is no --tokenizer' --data text.bin --end x
stops 'none.txt: cannot open' --data none.txt --tokenizer "$json"
stops 'cannot read the tokenizer' --data text.txt --tokenizer none.json
stops 'found no token `<x>` to end documents' --data text.txt --end '<x>' \
	--tokenizer "$json"
# the line of progress in a log is as llmc's
export LLMC_PROGRESS=1s
stops 'LLMC_PROGRESS is `1s`, expected a number of seconds up to 999999' \
	--data text.txt lines.jsonl --tokenizer "$json" --end '<|eot_id|>'
unset LLMC_PROGRESS
printf '\377' >bad.txt
stops 'bad.txt: found byte 0xff' --data bad.txt --tokenizer "$json"
[ -z "$(ls bad.txt.* 2>/dev/null)" ] || bad 'bad.txt left something'

# ---- sampling text ----

# sample ARGUMENTS..
sample()
{
	timeout $limit plan/rank sample --local --checkpoint saved --tokens 9 \
		--temperature 0 --tokenizer "$json" "$@" >out 2>err
}
sample --prompt 'The arena' || bad 'rank sample --prompt'
cp out text
[ "$(wc -c <text)" -gt 1 ] || bad 'no text was sampled'
printf 'The arena' >prompt
sample --prompt-file prompt && cmp text out || bad 'another text from a file'
# the same tokens as numbers
"$LLMC" tokenize --tokenizer "$json" prompt -o prompt.bin >/dev/null
ids=$(tail -c +1025 prompt.bin | od -An -v -tu2 | tr -s ' \n' ' ')
timeout $limit plan/rank sample --local --checkpoint saved --tokens 9 \
	--temperature 0 --prompt "$ids" >out 2>err || bad 'a prompt of numbers'
[ "$(wc -w <out)" -eq 9 ] || bad 'other numbers of tokens'
sample && bad 'a sample of nothing'
grep -q 'nothing to continue: give --prompt TEXT or --prompt-file' err ||
	bad 'what is said without a prompt'
sample --prompt a --prompt-file b && bad 'two prompts'
printf '\377' >prompt
sample --prompt-file prompt && bad 'a prompt that is no text'
grep -q 'prompt: found byte 0xff' err || bad 'what is said of no text'
exit $failed

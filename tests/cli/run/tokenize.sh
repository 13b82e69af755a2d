#!/bin/sh
# llmc tokenize: the same tokens of text, of lines of JSON and of either of them
# compressed, by any number of threads; nothing is left of what went wrong.
. "${top_srcdir:?}/tests/lib.sh"
fixtures=$tests/data/tokenizers

# json FILE: its text as one record of JSON, with other members around.
json()
{
	printf '{"id": [1, {"a": null}], "text": "'
	sed 's/\\/\\\\/g
		s/"/\\"/g
		s/	/\\t/g
		s/$/\\n/' "$1" | tr -d '\n'
	printf '", "more": 1.5e3}\n'
}

# tokens OUT ARGUMENTS..: a token file, by the tokenizer $which.
tokens()
{
	out=$1
	shift
	run tokenize --tokenizer "$fixtures/$which.json" "$@" -o "$out"
}

# as_is ONE OTHER
same()
{
	cmp "$1" "$2" >differ 2>&1 || bad "$which: $(cat differ)"
}

# Some 600 KiB, which are cut in parts as text and are not as a record.
cat "$top_srcdir"/docs/*.md "$top_srcdir"/frontend/*/*.c | head -c 600000 |
	tr -d '\r' >some
iconv -c -f UTF-8 -t UTF-8 some >text.txt 2>/dev/null || cp some text.txt
echo >>text.txt
json text.txt >record.jsonl
{
	echo
	echo '{"text": "one\u00e9\u0000\ud83d\ude42"}'
	echo '  '
	printf '{"n": {"text": 1}, "text": "two"}'
} >small.jsonl

for which in gpt2 llama3 qwen llama2 mistral gemma; do
	tokens text.bin text.txt
	grep -q '^text.bin: [0-9]* tokens of 1 document, ' out ||
		bad "$which: what is said of text.bin"
	tokens record.bin record.jsonl
	same text.bin record.bin
done
tokens one.bin --threads 1 text.txt small.jsonl
tokens five.bin --threads 5 text.txt small.jsonl
same one.bin five.bin
tokens stdin.bin - <text.txt
same text.bin stdin.bin
sed 's/"text"/"body"/' record.jsonl >body
tokens field.bin --field body body
same text.bin field.bin
if command -v gzip >/dev/null; then
	gzip -c text.txt >text.txt.gz
	gzip -c record.jsonl >record.jsonl.gz
	if "$LLMC" tokenize --tokenizer "$fixtures/$which.json" text.txt.gz \
		-o gz.bin >out 2>err; then
		same text.bin gz.bin
		tokens gz.bin record.jsonl.gz
		same text.bin gz.bin
		# two members in one file, as pigz and split logs have them
		{ head -c 1000 text.txt | gzip -c
		  tail -c +1001 text.txt | gzip -c; } >two.txt.gz
		tokens gz.bin two.txt.gz
		same text.bin gz.bin
		head -c 5000 text.txt.gz >short.txt.gz
		refused 'short.txt.gz: found damaged data of .gz: it ends' \
			tokenize --tokenizer "$fixtures/$which.json" \
			short.txt.gz -o none.bin
		cp text.txt bad.txt.gz
		refused 'bad.txt.gz: found damaged data of .gz' tokenize \
			--tokenizer "$fixtures/$which.json" bad.txt.gz \
			-o none.bin
	else
		grep -q 'cannot decompress without libz' err ||
			bad 'what is said without zlib'
	fi
fi
if command -v zstd >/dev/null; then
	zstd -qc text.txt >text.txt.zst
	if "$LLMC" tokenize --tokenizer "$fixtures/$which.json" text.txt.zst \
		-o zst.bin >out 2>err; then
		same text.bin zst.bin
		head -c 5000 text.txt.zst >short.txt.zst
		refused 'short.txt.zst: found damaged data of .zst' tokenize \
			--tokenizer "$fixtures/$which.json" short.txt.zst \
			-o none.bin
	else
		grep -q 'cannot decompress without libzstd' err ||
			bad 'what is said without zstd'
	fi
fi

# ---- what is around documents ----

# numbers FILE: the tokens of a file of 16 bits.
numbers()
{
	tail -c +1025 "$1" | od -An -v -tu2 | tr -s ' \n' ' '
}

which=llama3
printf 'a\n' >a.txt
tokens a.bin a.txt a.txt
case $(numbers a.bin) in
' 330 64 198 330 64 198 '*) ;;
*) bad "llama3 puts$(numbers a.bin)" ;;
esac
tokens a.bin --bare --end '<|eot_id|>' a.txt a.txt
case $(numbers a.bin) in
' 64 198 332 64 198 332 '*) ;;
*) bad "llama3 puts$(numbers a.bin)" ;;
esac

# ---- what is wrong ----

: >empty.txt
printf 'ab\377cd' >byte.txt
printf 'ab\303' >half.txt
printf '{"text": "a"}\n{"text": "b\377"}\n' >byte.jsonl
printf '{"text": "a"}\n{"text": 7}\n' >number.jsonl
printf '{"text": "a"}\n{"texts": "b"}\n' >other.jsonl
printf '{"text": "a"}\n{"text": "b"\n' >open.jsonl
printf '{"text": "a"}\n{"text": "b"} x\n' >more.jsonl
printf '[1, 2]\n' >list.jsonl
printf '{"text": "\\ud800"}\n' >half.jsonl
{ printf '{"text": "a", "x": '; head -c 9000 /dev/zero | tr '\0' '['; } \
	>deep.jsonl
printf 'kept' >kept.bin
chmod 640 kept.bin
wrong()
{
	words=$1
	shift
	refused "$words" tokenize --tokenizer "$fixtures/gpt2.json" --bare "$@" \
		-o kept.bin
	[ "$(cat kept.bin)" = kept ] || bad "$words: kept.bin changed"
}
wrong 'no token to write' empty.txt
wrong 'byte.txt: found byte 0xff, which begins no UTF-8 character, expected' \
	byte.txt
wrong 'expected UTF-8 text, at byte 2' byte.txt
wrong 'half.txt: found byte 0xc3' half.txt
wrong 'byte.jsonl: found byte 0xff' byte.jsonl
wrong 'expected UTF-8 text, at byte 25' byte.jsonl
wrong 'found '\''7'\'', expected a string in double quotes, at byte 23' \
	number.jsonl
wrong 'record without the field `text`: --field names' other.jsonl
wrong "expected ',' or '}', at byte 26" open.jsonl
wrong 'only spaces after' more.jsonl
wrong "found '[', expected '{', at byte 0" list.jsonl
wrong 'high surrogate' half.jsonl
wrong 'more than 64 nested values' deep.jsonl
wrong 'missing.txt: cannot open: No such file' missing.txt
wrong 'cannot read: Is a directory' .
wrong 'found no token `</s>` to end documents with' --end '</s>' text.txt
wrong 'whose special tokens are <|endoftext|>' --end '</s>' text.txt
wrong 'expected 1 to 64' --threads 65 text.txt
refused 'text.txt: found' tokenize --tokenizer text.txt text.txt -o none.bin
refused 'cannot open' tokenize --tokenizer none text.txt -o none.bin
refused 'no regular file' tokenize --tokenizer . text.txt -o none.bin
refused 'no regular file' tokenize --tokenizer "$fixtures/gpt2.json" text.txt \
	-o .
refused 'cannot create' tokenize --tokenizer "$fixtures/gpt2.json" text.txt \
	-o none/none.bin
misused '--tokenizer FILE' tokenize text.txt -o none.bin
misused '-o FILE' tokenize --tokenizer "$fixtures/gpt2.json" text.txt
misused 'files of text' tokenize --tokenizer "$fixtures/gpt2.json" -o none.bin
[ ! -e none.bin ] || bad 'a broken input left a token file'
which=gpt2
tokens kept.bin a.txt
[ "$(ls -l kept.bin | cut -c1-10)" = -rw-r----- ] || bad 'its mode changed'
[ -z "$(find . -name '*.bin.*')" ] || bad 'something is left beside outputs'

# ---- how much it takes ----

# A tokenizer of 200,000 tokens is read at once; one that is deep is refused.
awk 'BEGIN {
	printf "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0"
	for (i = 1; i < 200000; i++)
		printf ", \"t%d\": %d", i, i
	printf "}, \"merges\": []}}"
}' >huge.json
{ printf '{"normalizer": '
  awk 'BEGIN { for (i = 0; i < 100000; i++)
	printf "{\"type\": \"Sequence\", \"normalizers\": [" }'; } >deep.json
cheaply run tokenize --tokenizer huge.json a.txt -o huge.bin
cheaply refused 'sequences in each other' tokenize --tokenizer deep.json a.txt \
	-o none.bin
# 20 MB that gzip makes small, in the memory of a few parts.
if have time && [ -f text.txt.gz ]; then
	for _ in $(seq 34); do cat text.txt.gz; done >long.txt.gz
	cheaply run tokenize --tokenizer "$fixtures/gpt2.json" long.txt.gz \
		-o long.bin
	head -c 34000000 /dev/zero | tr '\0' a >uncut.txt
	refused 'found text that cannot be cut of more than 33554432 bytes' \
		tokenize --tokenizer "$fixtures/gpt2.json" uncut.txt \
		-o none.bin
fi
exit $failed

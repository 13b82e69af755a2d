#!/bin/sh
# What is no model at all: missing, a folder, empty, bytes of any kind. Each
# is refused in a line that names the file, with exit status 1.
# shellcheck disable=SC2016 # messages quote with back quotes
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99
bad=0

# refused FILE WORDS: llmc says WORDS about FILE, and writes nothing else.
refused()
{
	timeout 60 "${LLMC:?}" --emit=ir "$1" >out 2>err </dev/null
	got=$?
	if test $got -ne 1 || test -s out || ! grep -qF -e "$2" err ||
		! grep -qF -e "$1" err; then
		echo "$1: status $got, expected 1 and: $2"
		cut -c 1-200 err
		bad=1
	fi
}

refused missing.llm 'No such file'
mkdir folder
refused folder 'directory'
: >empty.llm
refused empty.llm 'this file holds no `model` block'
echo '# nothing' >comment.llm
refused comment.llm 'this file holds no `model` block'

awk 'BEGIN { for (i = 1; i < 256; i++) printf "\\%03o", i }' >octal
# shellcheck disable=SC2059 # the escapes are the point
printf "$(cat octal)" >bytes.llm
refused bytes.llm 'mean nothing outside a text or a comment'
printf 'model m {\n  dim a = \0004;\n}\n' >nul.llm
refused nul.llm 'byte 0'
cat "$LLMC" >program.llm
refused program.llm 'byte 0'
awk 'BEGIN { for (i = 0; i < 4000; i++) print "?" }' >junk.llm
refused junk.llm 'more errors are not shown'
exit $bad

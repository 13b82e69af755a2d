#!/bin/sh
# What is no model at all: missing, a folder, empty, bytes of any kind. Each
# is refused in a line that names the file, with exit status 1.
. "${top_srcdir:?}/tests/lib.sh"
limit=600

# no_model FILE WORDS: refused with these, and with its name
no_model()
{
	refused "$2" --emit=ir "$1"
	grep -qF -e "$1" err || bad "$1 is not named"
}

no_model missing.llm 'No such file'
mkdir folder
no_model folder 'directory'
: >empty.llm
no_model empty.llm 'this file holds no `model` block'
echo '# nothing' >comment.llm
no_model comment.llm 'this file holds no `model` block'

awk 'BEGIN { for (i = 1; i < 256; i++) printf "\\%03o", i }' >octal
# shellcheck disable=SC2059 # the escapes are the point
printf "$(cat octal)" >bytes.llm
no_model bytes.llm 'mean nothing outside a text or a comment'
printf 'model m {\n  dim a = \0004;\n}\n' >nul.llm
no_model nul.llm 'byte 0'
cat "$LLMC" >program.llm
no_model program.llm 'byte 0'
awk 'BEGIN { for (i = 0; i < 4000; i++) print "?" }' >junk.llm
no_model junk.llm 'more errors are not shown'
exit $failed

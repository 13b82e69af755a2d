#!/bin/sh
# Color: the option, then NO_COLOR, then CLICOLOR_FORCE, then the terminal.
. "${top_srcdir:?}/tests/lib.sh"
echo 'llmc-ir 1
oops' >in.ir
escape=$(printf '\033')

# try yes|no VARIABLES ARGUMENTS
try()
{
	want=$1 variables=$2
	shift 2
	# shellcheck disable=SC2086 # a list of assignments
	env -u NO_COLOR -u CLICOLOR_FORCE $variables "$LLMC" opt "$@" in.ir \
		2>err
	if grep -q "$escape" err; then got=yes; else got=no; fi
	test $got = "$want" && return
	bad "$variables llmc opt $*: color: $got, expected: $want"
}
try no ''
try yes '' --color=always
try no '' --color=auto
try yes CLICOLOR_FORCE=1
try no CLICOLOR_FORCE=0
try no CLICOLOR_FORCE=1 --color=never
try no 'CLICOLOR_FORCE=1 NO_COLOR=1'
try yes 'CLICOLOR_FORCE=1 NO_COLOR='
try yes NO_COLOR=1 --color=always

NO_COLOR=1 "$LLMC" opt --diagnostics=json in.ir 2>err
tr -d '\n' <err | grep -q '^\[.*"level":"error".*\]$' || bad 'no JSON'
exit $failed

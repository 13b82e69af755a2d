#!/bin/sh
# Exit status: 0 done, 1 the input's fault, 2 the command line's.
# shellcheck disable=SC2016 # messages quote with back quotes
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99
bad=0

cat >ok.ir <<'END'
llmc-ir 1
dim a = 4

model {
  %0 = weight name="w" init=ones : f32[a]
  %1 = neg %0 : f32[a]
  return %1
}
END
cat >called.ir <<'END'
llmc-ir 1
dim a = 4
layer f(%0: f32[a]) {
  return %0
}
model {
  %0 = weight name="w" init=ones : f32[a]
  %1 = call f(%0) : f32[a]
  return %1
}
END
echo 'llmc-ir 1
model {' >broken.ir
echo 'model m {' >broken.llm

# try STATUS WORDS-OF-STDERR ARGUMENTS...: "-" is silence on stderr.
try()
{
	want=$1 words=$2
	shift 2
	"$LLMC" "$@" >out 2>err </dev/null
	got=$?
	if test $got -ne "$want"; then
		echo "llmc $*: status $got, expected $want"
		cat err
		bad=1
	elif test "$words" = - && test -s err; then
		echo "llmc $*: standard error is not empty"
		cat err
		bad=1
	elif test "$words" != - && ! grep -qF -e "$words" err; then
		echo "llmc $*: standard error does not say: $words"
		cat err
		bad=1
	elif test "$want" -ne 0 && test -s out; then
		echo "llmc $*: wrote to standard output, and failed"
		bad=1
	fi
}

try 0 - opt ok.ir
cmp -s out ok.ir || { echo 'opt does not print what it read'; bad=1; }
try 0 - --help
try 0 - -h
try 0 - opt --help
try 0 - --version
try 0 - --list-ops
try 0 - --list-passes
try 0 - --emit=ir ok.ir
try 0 - --emit ir ok.ir
try 0 - eval ok.ir
try 0 - opt -- ok.ir
try 0 - opt --passes= ok.ir
try 0 - opt --passes=default,dce --verify-each ok.ir
try 0 - opt -w -Wno-shadow -W error=shadow ok.ir
try 0 'llmc: pass cse' opt -v --passes=cse ok.ir

try 1 'cannot read none.ir' opt none.ir
try 1 'is a directory' opt .
try 1 broken.ir:2: opt broken.ir
try 1 broken.llm:1: broken.llm
try 1 'llmc-ir 1' opt broken.llm
try 1 'has no AST' --emit=ast ok.ir
try 1 'cannot load plug-in' --load-pass=none.so ok.ir
try 1 'no value is called `nn`' eval --checksum=nn ok.ir
try 1 'the limit is 1' eval --max-bytes=1 ok.ir
try 1 'weights.none' eval --weights=weights.none ok.ir

try 2 'no input file'
try 2 'no input file' opt
try 2 'did you mean `--passes`' opt --pases=cse ok.ir
try 2 'there is no option `-x`' -x ok.ir
try 2 'did you mean `cse`' opt --passes=csee ok.ir
try 2 'did you mean `summary`' --emit=sumary ok.ir
try 2 'did you mean `error=shadow`' -Werror=shadw ok.ir
try 2 'there is no warning `nonsense`' -Wnonsense ok.ir
try 2 '`-o` needs FILE' ok.ir -o
try 2 '`--emit` needs WHAT' ok.ir --emit
try 2 '`--stats` takes no value' --stats=3 ok.ir
try 2 'a whole number' --bisect-limit=x ok.ir
try 2 'a whole number' --bisect-limit=-2 ok.ir
try 2 'is for eval only' --weights=x ok.ir
try 2 'is for opt only' --run-reproducer=x ok.ir
try 2 '`--dim` takes NAME=N' --dim=a=x ok.ir
try 2 'did you mean `eval`' evl ok.ir
try 2 '`eval` is a command, and a command is the first word' -w eval ok.ir
try 2 '`cse` needs `flat`; `inline` gives it' opt --passes=cse called.ir
try 2 'which `inline` before it takes away' opt --passes=inline,inline ok.ir
try 2 'not among those that run' opt --passes=cse --stop-after=dce ok.ir
try 2 'NAME@after:PASS' opt --insert=cse ok.ir
try 2 'there is no pass `x`' opt --print-after=x ok.ir
exit $bad

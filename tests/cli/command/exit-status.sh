#!/bin/sh
# Exit status: 0 done, 1 the input's fault, 2 the command line's.
. "${top_srcdir:?}/tests/lib.sh"

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

# silent ARGUMENTS..: done, without a word on standard error
silent()
{
	run "$@"
	test ! -s err || bad "llmc $*: standard error is not empty"
}

silent opt ok.ir
cmp -s out ok.ir || bad 'opt does not print what it read'
silent --help
silent -h
silent opt --help
silent --version
silent --list-ops
silent --list-passes
silent --emit=ir ok.ir
silent --emit ir ok.ir
silent eval ok.ir
silent opt -- ok.ir
silent opt --passes= ok.ir
silent opt --passes=default,dce --verify-each ok.ir
silent opt -w -Wno-shadow -W error=shadow ok.ir
run opt -v --passes=cse ok.ir
grep -q 'llmc: pass cse' err || bad '-v says nothing'

refused 'cannot read none.ir' opt none.ir
refused 'is a directory' opt .
refused broken.ir:2: opt broken.ir
refused broken.llm:1: broken.llm
refused 'llmc-ir 1' opt broken.llm
refused 'has no AST' --emit=ast ok.ir
refused 'cannot load plug-in' --load-pass=none.so ok.ir
refused 'no value is called `nn`' eval --checksum=nn ok.ir
refused 'the limit is 1: --max-bytes sets another' eval --max-bytes=1 ok.ir
refused 'weights.none' eval --weights=weights.none ok.ir

misused 'no input file'
misused 'no input file' opt
misused 'takes a table of measured kernels' validate
misused 'did you mean `--passes`' opt --pases=cse ok.ir
misused 'there is no option `-x`' -x ok.ir
misused 'did you mean `cse`' opt --passes=csee ok.ir
misused 'did you mean `summary`' --emit=sumary ok.ir
misused 'did you mean `error=shadow`' -Werror=shadw ok.ir
misused 'there is no warning `nonsense`' -Wnonsense ok.ir
misused '`-o` needs FILE' ok.ir -o
misused '`--emit` needs WHAT' ok.ir --emit
misused '`--stats` takes no value' --stats=3 ok.ir
misused 'a whole number' --bisect-limit=x ok.ir
misused 'a whole number' --bisect-limit=-2 ok.ir
misused 'is for eval only' --weights=x ok.ir
misused 'is for sweep only: elsewhere a batch is --dim batch=N' --batch=4 ok.ir
misused 'is for opt only' --run-reproducer=x ok.ir
misused '`--dim` takes NAME=N' --dim=a=x ok.ir
misused 'did you mean `eval`' evl ok.ir
misused '`eval` is a command, which must be the first word' -w eval ok.ir
misused '`cse` needs `flat`; `inline` gives it' opt --passes=cse called.ir
misused 'which `inline` before it takes away' opt --passes=inline,inline ok.ir
misused 'not among those that run for this output: cse' opt --passes=cse \
	--stop-after=dce ok.ir
misused '`ragged` or `autodiff` gives it, and must run before it' \
	--passes=fold-dims,inline,stage "$examples/tiny-dense.llm"
misused 'NAME@after:PASS' opt --insert=cse ok.ir
misused 'there is no pass `x`' opt --print-after=x ok.ir
# A plan that cannot be finished says what it lacks.
mkdir lost
echo '{"kernels": {"made_by": null}}' >lost/plan.json
: >lost/rank
refused 'lost/unfinished is missing, and kernels are not compiled' finish lost
mkdir lost/unfinished
refused 'lost/unfinished/list, the list of what to compile, is missing' \
	finish lost
exit $failed

#!/bin/sh
# An answer kept in a folder: both files, whole or not at all, and a plan that
# gives the same answer.
# shellcheck disable=SC2012 # the names are our own
. "${top_srcdir:?}/tests/lib.sh"
model=$examples/tiny-dense.llm

# keep ARGUMENTS..: of the answer
keep()
{
	run --target mi250x2 "$@" "$model"
}

# unkept WORDS ARGUMENTS..: refused, and nothing is left behind
unkept()
{
	before=$(ls -R)
	refused "$@" --target mi250x2 "$model"
	[ "$(ls -R)" = "$before" ] || bad "$*: leaves something"
}

# Before minutes of compiling, not behind them.
echo mine >file
for path in file no/where /dev/null ''; do
	"$LLMC" -v --target mi250x2 -o "$path" "$model" >out 2>err
	test $? = 1 || bad "-o '$path' exits with another status"
	grep -q 'llmc: pass' err && bad "-o '$path': passes ran"
done
rm file

keep
cp out plain
umask 027
keep -o kept
cmp out plain || bad 'the answer is another one'
[ "$(ls -A kept)" = "plan.json
plan.llp" ] || bad 'the folder holds something else'
[ "$(ls -ld kept | cut -c1-10)" = drwxr-x--- ] || bad 'mode of the folder'
[ "$(ls -l kept/plan.json | cut -c1-10)" = -rw-r----- ] || bad 'mode of a file'
"$LLMC" --target mi250x2 --emit=answer-json "$model" | cmp - kept/plan.json ||
	bad 'plan.json is not the answer'

# The plan reads back, and gives the same answer, without a search.
keep --plan kept/plan.llp -o again/
cmp out plain || bad 'the plan gives another answer'
cmp kept/plan.llp again/plan.llp || bad 'the plan is another one'
sed '/^  "search": {$/,/^  },$/d' kept/plan.json | cmp - again/plan.json ||
	bad 'its plan.json is another one'

# Into one that is there, beside what else is in it.
echo mine >kept/notes
echo old >kept/plan.llp
keep -o kept
cmp kept/plan.llp again/plan.llp || bad 'the old plan stays'
[ "$(ls -A kept | wc -l)" -eq 3 ] || bad 'something else was left'
[ "$(cat kept/notes)" = mine ] || bad 'the notes are gone'

# A file by name, and standard output.
keep --emit=answer -o file
cmp file plain || bad '--emit=answer -o FILE'
keep -o -
cmp out plain || bad '-o -'

unkept 'is not a folder' -o file
unkept 'is not a folder' -o /dev/null
unkept 'cannot write none/out' -o none/out
mkdir -p taken/plan.llp
unkept 'cannot write taken/plan.llp' -o taken
[ "$(ls -A taken)" = plan.llp ] || bad 'half of it was written'
unkept 'no plan fits' --pin dp=3 -o new
unkept '--why-not:1:1' --why-not x -o new
if [ "$(id -u)" -ne 0 ]; then
	mkdir locked
	chmod a-w locked
	unkept 'cannot write locked' -o locked
	unkept 'cannot write locked/out' -o locked/out
fi
exit $failed

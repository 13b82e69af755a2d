#!/bin/sh
# An answer kept in a folder: both files, whole or not at all, and a plan that
# gives the same answer.
# shellcheck disable=SC2012 # the names are our own
set -u
tmp=$(mktemp -d) || exit 99
trap 'chmod -R u+w "$tmp"; rm -rf "$tmp"' EXIT
model=${top_srcdir:?}/examples/tiny-dense.llm
cd "$tmp" || exit 99
fail=0

bad()
{
	echo "FAIL $*"
	fail=1
}

keep()
{
	"$LLMC" --target mi250x2 "$@" "$model" >answer 2>err || {
		cat err
		bad "$@"
	}
}

# refused WORDS ARGUMENTS..: exit 1, nothing printed, nothing left behind
refused()
{
	words=$1
	shift
	ls -R . >before
	"$LLMC" --target mi250x2 "$@" "$model" >none 2>err
	status=$?
	ls -R . | sed '/^none$/d;/^err$/d' >after
	sed '/^none$/d;/^err$/d' before >want
	sed -i '/^after$/d;/^before$/d;/^want$/d' after want
	if [ $status -ne 1 ] || [ -s none ] || ! grep -qF -e "$words" err ||
		! cmp -s after want; then
		cat err
		bad "$* exits with $status, or leaves something"
	fi
}

# Before minutes of compiling, not behind them.
echo mine >file
for path in file no/where /dev/null ''; do
	"$LLMC" -v --target mi250x2 -o "$path" "$model" >none 2>err
	test $? = 1 || bad "-o '$path' exits with another status"
	grep -q 'llmc: pass' err && bad "-o '$path': passes ran"
done
rm file none err

keep
cp answer plain
umask 027
keep -o out
cmp answer plain || bad 'the answer is another one'
[ "$(ls -A out)" = "plan.json
plan.llp" ] || bad 'the folder holds something else'
[ "$(ls -ld out | cut -c1-10)" = drwxr-x--- ] || bad 'mode of the folder'
[ "$(ls -l out/plan.json | cut -c1-10)" = -rw-r----- ] ||
	bad 'mode of a file'
"$LLMC" --target mi250x2 --emit=answer-json "$model" | cmp - out/plan.json ||
	bad 'plan.json is not the answer'

# The plan reads back, and gives the same answer, without a search.
keep --plan out/plan.llp -o again/
cmp answer plain || bad 'the plan gives another answer'
cmp out/plan.llp again/plan.llp || bad 'the plan is another one'
sed '/^  "search": {$/,/^  },$/d' out/plan.json | cmp - again/plan.json ||
	bad 'its plan.json is another one'

# Into one that is there, beside what else is in it.
echo mine >out/notes
echo old >out/plan.llp
keep -o out
cmp out/plan.llp again/plan.llp || bad 'the old plan stays'
[ "$(ls -A out | wc -l)" -eq 3 ] || bad 'something else was left'
[ "$(cat out/notes)" = mine ] || bad 'the notes are gone'

# A file by name, and standard output.
keep --emit=answer -o file
cmp file plain || bad '--emit=answer -o FILE'
keep -o -
cmp answer plain || bad '-o -'

refused 'is no folder' -o file
refused 'is no folder' -o /dev/null
refused 'cannot write none/out' -o none/out
mkdir -p taken/plan.llp
refused 'cannot write taken/plan.llp' -o taken
[ "$(ls -A taken)" = plan.llp ] || bad 'half of it was written'
refused 'no plan fits' --pin dp=3 -o new
refused '--why-not:1:1' --why-not x -o new
if [ "$(id -u)" -ne 0 ]; then
	mkdir locked
	chmod a-w locked
	refused 'cannot write locked' -o locked
	refused 'cannot write locked/out' -o locked/out
fi
exit $fail

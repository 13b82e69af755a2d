#!/bin/sh
# -o FILE appears whole or not at all; - is standard input and output; a
# write that fails is an error.
. "${top_srcdir:?}/tests/lib.sh"

cat >in.ir <<'END'
llmc-ir 1
dim a = 4

model {
  %0 = weight name="w" init=ones : f32[a]
  return %0
}
END
echo 'llmc-ir 1
oops' >bad.ir

"$LLMC" opt - <in.ir >out || bad 'standard input'
cmp in.ir out || bad 'standard input: another text'
"$LLMC" opt -o - in.ir | cmp - in.ir || bad '-o -'
run opt -oout.ir in.ir
cmp in.ir out.ir || bad '-oFILE: another text'

echo old >out.ir
refused 'found `oops`' opt -o out.ir bad.ir
test "$(cat out.ir)" = old || bad 'a failed run touched its output'
refused 'found `oops`' opt -o new.ir bad.ir
test ! -e new.ir || bad 'a failed run left an output'

# The old file's permissions stay, a new file's are the usual ones.
chmod 600 out.ir
run opt --output=out.ir in.ir
case $(ls -l out.ir) in -rw-------*) ;; *) bad 'permissions changed' ;; esac
(umask 027 && "$LLMC" opt -o masked.ir in.ir) || bad 'umask'
case $(ls -l masked.ir) in -rw-r-----*) ;; *) bad 'umask ignored' ;; esac

# A name that says another type than what is written is refused at once.
model=$examples/tiny-moe.llm
other='says another type: legal'
refused "a picture, a table or text, and the name \`x.png\` $other are .svg" \
	schedule 1f1b -o x.png
refused "writes CSV, and the name \`x.svg\` $other is .csv" \
	schedule 1f1b --csv -o x.svg
refused "writes SVG, and the name \`x.csv\` $other is .svg" \
	schedule 1f1b --svg -o x.csv
refused "writes text, and the name \`x.csv\` $other is .txt" \
	schedule 1f1b --summary -o x.csv
refused "--report writes HTML, and the name \`x.png\` $other is .html" \
	--target h100 --report x.png "$model"
refused "--trace writes JSON, and the name \`x.html\` $other is .json" \
	--target h100 --trace x.html "$model"
refused '--emit=WHAT-json writes JSON' -o x.json "$model"
refused "writes JSON, and the name \`x.csv\` $other is .json" \
	--emit=summary-json -o x.csv "$model"
refused 'writes a folder for the plan' --target h100 -o plan.json "$model"
refused '--json and --csv write the table in another form' sweep \
	--target h100x8 -o x.csv "$model"
refused 'writes a token file' tokenize --tokenizer no.json -o x.json no.txt
test -z "$(ls x.* 2>&-)" || bad 'a refused name was written'
run --emit=summary-json -o x.json "$model"
run -o x.md "$model"
run schedule 1f1b -o x.svg

# Input and output may be the same file.
cp in.ir same.ir
run opt -o same.ir same.ir
cmp in.ir same.ir || bad 'output onto input: another text'

# A link stays a link, a device a device.
ln -s out.ir link.ir
run opt -o link.ir in.ir
test -L link.ir || bad 'the link was replaced'
run opt -o /dev/null in.ir
test -c /dev/null || bad '/dev/null was replaced'

refused 'cannot write none/out.ir' opt -o none/out.ir in.ir
if test -c /dev/full; then
	"$LLMC" opt in.ir >/dev/full 2>err
	test $? -eq 1 || bad 'a full disk is no error'
	grep -q 'cannot write standard output' err || bad 'full: message'
	refused 'cannot write /dev/full' opt -o /dev/full in.ir
	"$LLMC" --help >/dev/full 2>/dev/null
	test $? -eq 1 || bad '--help on a full disk is no error'
fi
# A run that takes long says so, in a log, too, unless it is not to.
: >err
for _ in $(seq 600); do
	grep -q '^llmc: 1 s so far, in ' err && break
	sleep 0.1
done | LLMC_PROGRESS=1 "$LLMC" opt - >out 2>err
grep -q '^llmc: 1 s so far, in ' err || bad 'no progress in a log'
for seconds in 0 ''; do
	sleep 2 | LLMC_PROGRESS=$seconds "$LLMC" opt - >out 2>err
	grep -q ' so far' err && bad "progress with LLMC_PROGRESS=$seconds"
done
LLMC_PROGRESS=1s "$LLMC" opt in.ir >out 2>err
[ $? -eq 2 ] && grep -q 'LLMC_PROGRESS is not a number' err ||
	bad 'progress: no number'
mkfifo pipe
# The reader closes at once; the writer may still get its few bytes in.
: <pipe &
"$LLMC" --help=bash >pipe 2>err
status=$?
wait
test $status -le 1 || bad "a closed pipe: status $status"
"$LLMC" opt in.ir >&- 2>/dev/null
test $? -eq 1 || bad 'closed standard output is no error'

ls -a >names
! grep -q '\.ir\..' names || bad 'temporary files are left'
exit $failed

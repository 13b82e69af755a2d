#!/bin/sh
# -o FILE appears whole or not at all; - is standard input and output; a
# write that fails is an error.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99

fail()
{
	echo "$*"
	exit 1
}

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

"$LLMC" opt - <in.ir >out || fail 'standard input'
cmp in.ir out || fail 'standard input: another text'
"$LLMC" opt -o - in.ir | cmp - in.ir || fail '-o -'
"$LLMC" opt -oout.ir in.ir || fail '-oFILE'
cmp in.ir out.ir || fail '-oFILE: another text'

echo old >out.ir
"$LLMC" opt -o out.ir bad.ir 2>/dev/null && fail 'bad input succeeds'
test "$(cat out.ir)" = old || fail 'a failed run touched its output'
"$LLMC" opt -o new.ir bad.ir 2>/dev/null
test ! -e new.ir || fail 'a failed run left an output'

# The old file's permissions stay, a new file's are the usual ones.
chmod 600 out.ir
"$LLMC" opt --output=out.ir in.ir || fail 'overwriting'
case $(ls -l out.ir) in -rw-------*) ;; *) fail 'permissions changed' ;; esac
(umask 027 && "$LLMC" opt -o masked.ir in.ir) || fail 'umask'
case $(ls -l masked.ir) in -rw-r-----*) ;; *) fail 'umask ignored' ;; esac

# Input and output may be the same file.
cp in.ir same.ir
"$LLMC" opt -o same.ir same.ir || fail 'output onto input'
cmp in.ir same.ir || fail 'output onto input: another text'

# A link stays a link, a device a device.
ln -s out.ir link.ir
"$LLMC" opt -o link.ir in.ir || fail 'through a link'
test -L link.ir || fail 'the link was replaced'
"$LLMC" opt -o /dev/null in.ir || fail '/dev/null'
test -c /dev/null || fail '/dev/null was replaced'

"$LLMC" opt -o none/out.ir in.ir 2>err && fail 'no such folder'
grep -q 'cannot write none/out.ir' err || fail 'no such folder: message'
if test -c /dev/full; then
	"$LLMC" opt in.ir >/dev/full 2>err
	test $? -eq 1 || fail 'a full disk is no error'
	grep -q 'cannot write standard output' err || fail 'full: message'
	"$LLMC" opt -o /dev/full in.ir 2>/dev/null
	test $? -eq 1 || fail '-o on a full disk is no error'
	"$LLMC" --help >/dev/full 2>/dev/null
	test $? -eq 1 || fail '--help on a full disk is no error'
fi
mkfifo pipe
# The reader closes at once; the writer may still get its few bytes in.
: <pipe &
"$LLMC" --help=bash >pipe 2>err
status=$?
wait
test $status -le 1 || fail "a closed pipe: status $status"
"$LLMC" opt in.ir >&- 2>/dev/null
test $? -eq 1 || fail 'closed standard output is no error'

ls -a >names
! grep -q '\.ir\..' names || fail 'temporary files are left'

#!/bin/sh
# --print-*, --bisect-limit, --stop-after, --time-passes: what they print is
# on standard error, and the IR in it reads again.
set -u
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99

fail()
{
	echo "$*"
	test ! -s err || cat err
	exit 1
}

cat >in.ir <<'END'
llmc-ir 1
module m
dim a = 4

layer f(%0: f32[a]) {
  %1 = neg %0 : f32[a]
  return %1
}

model {
  %0 = weight name="w" init=ones : f32[a]
  %1 = call f(%0) : f32[a]
  %2 = call f(%0) : f32[a]
  %3 = add %1, %2 : f32[a]
  return %3
}
END

opt()
{
	"$LLMC" opt "$@" in.ir >out 2>err || fail "llmc opt $*"
}

opt --passes=default --print-changed
cp out all.ir
grep '^#' err >heads
cat >want <<'END'
# after fold-dims (unchanged)
# after inline
# after cse
# after dce (unchanged)
END
diff want heads || fail '--print-changed: other passes'
opt --passes=inline,cse --stop-after=inline
cp out inlined.ir
opt --passes=default --print-changed
sed -n '/^# after inline$/,/^# after cse$/p' err | sed '$d' >cut.ir
"$LLMC" opt cut.ir | cmp - inlined.ir || fail 'what was cut out differs'

opt --passes=default --print-before=cse,dce --print-after=inline
grep '^#' err >heads
printf '# after inline\n# before cse\n# before dce\n' | diff - heads ||
	fail '--print-before, --print-after'
opt --passes=default --print-after
test "$(grep -c '^# after' err)" = 4 || fail '--print-after of all'

opt --passes=default --bisect-limit=2
cmp -s out inlined.ir || fail '--bisect-limit: another module'
cat >want <<'END'
bisect: running pass (1) fold-dims on module m
bisect: running pass (2) inline on module m
bisect: not running pass (3) cse on module m
bisect: not running pass (4) dce on module m
END
diff want err || fail '--bisect-limit'
opt --passes=default --bisect-limit=-1
cmp -s out all.ir || fail '--bisect-limit=-1 skips something'
test "$(grep -c 'bisect: running' err)" = 4 || fail '--bisect-limit=-1'

opt --passes=default --time-passes --stats
grep -Eq '^# +[0-9]+\.[0-9]+ +[0-9]+\.[0-9]+ +[0-9]+  inline$' err ||
	fail '--time-passes'
grep -Eq '^# +2  inline: calls inlined$' err || fail '--stats'
cmp -s out all.ir || fail 'options that only print change the module'

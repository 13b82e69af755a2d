#!/bin/sh
# --print-*, --bisect-limit, --stop-after, --time-passes: what they print is
# on standard error, and the IR in it reads again.
. "${top_srcdir:?}/tests/lib.sh"

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
	run opt "$@" in.ir
}

opt --passes=default --print-changed
cp out all.ir
grep '^#' err >heads
cat >want <<'END'
# after fold-dims (unchanged)
# after inline
# after absorb (unchanged)
# after quantise (unchanged)
# after cse
# after dce (unchanged)
END
diff want heads || bad '--print-changed: other passes'
opt --passes=inline,cse --stop-after=inline
cp out inlined.ir
opt --passes=default --print-changed
sed -n '/^# after inline$/,/^# after absorb /p' err | sed '$d' >cut.ir
"$LLMC" opt cut.ir | cmp - inlined.ir || bad 'what was cut out differs'

opt --passes=default --print-before=cse,dce --print-after=inline
grep '^#' err >heads
printf '# after inline\n# before cse\n# before dce\n' | diff - heads ||
	bad '--print-before, --print-after'
opt --passes=default --print-after
test "$(grep -c '^# after' err)" = 6 || bad '--print-after of all'

opt --passes=default --bisect-limit=2
cmp -s out inlined.ir || bad '--bisect-limit: another module'
cat >want <<'END'
bisect: running pass (1) fold-dims on module m
bisect: running pass (2) inline on module m
bisect: not running pass (3) absorb on module m
bisect: not running pass (4) quantise on module m
bisect: not running pass (5) cse on module m
bisect: not running pass (6) dce on module m
END
diff want err || bad '--bisect-limit'
opt --passes=default --bisect-limit=-1
cmp -s out all.ir || bad '--bisect-limit=-1 skips something'
test "$(grep -c 'bisect: running' err)" = 6 || bad '--bisect-limit=-1'

opt --passes=default --time-passes --stats
grep -Eq '^# +[0-9]+\.[0-9]+ +[0-9]+\.[0-9]+ +[0-9]+  inline$' err ||
	bad '--time-passes'
grep -Eq '^# +2  inline: calls inlined$' err || bad '--stats'
cmp -s out all.ir || bad 'options that only print change the module'
exit $failed

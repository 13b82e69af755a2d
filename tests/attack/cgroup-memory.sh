#!/bin/sh
# A run that its control group has no memory for is refused in one line, and
# not killed when the memory is touched.  The limit is a child group's, where
# the root's says nothing.
. "${top_srcdir:?}/tests/lib.sh"
need llvm linker

# Where this process may make groups, and the names of their files.
two=$(awk '$9 == "cgroup2" || $10 == "cgroup2" || / - cgroup2 / {
	print $5; exit }' /proc/self/mountinfo)
one=$(awk '/ - cgroup .*[ ,]memory(,|$)/ { print $5; exit }' \
	/proc/self/mountinfo)
if [ -n "$one" ]; then
	parent=$one most=memory.limit_in_bytes
elif [ -n "$two" ]; then
	parent=$two most=memory.max
	grep -qw memory "$two/cgroup.subtree_control" 2>/dev/null ||
		skip 'the root group has no memory control'
else
	skip 'no control groups'
fi
group=$parent/${tmp##*/}
mkdir "$group" 2>/dev/null || skip 'control groups cannot be made here'
trap 'rmdir "$group/inner" "$group"; rm -rf "$tmp"; [ $failed -eq 0 ] || exit 1
	' EXIT
echo 209715200 >"$group/$most" || skip 'limits cannot be set here'
mkdir "$group/inner" || skip 'control groups cannot be made here'

cat >large.llm <<'END'
model large {
  dim seq = 8, vocab = 16384, hidden = 4096;
  dtype f32;
  x = embed(tokens, vocab -> hidden);
  logits = linear(x -> vocab);
  loss = cross_entropy(logits, labels);
}
train { batch = 1; optimizer = adamw(lr = 1e-3); }
END
run -w --draft --target cpux1 large.llm -o plan || exit 1

# The limit is set around the group that the run is in.
sh -c "echo \$\$ >'$group/inner/cgroup.procs' && exec plan/rank train \
	--steps 1 --data draw" >out 2>err
status=$?
[ $status -eq 1 ] && grep -q \
	'^rank.*: 1 rank of this host needs .* GiB, and 0.[012].* GiB are free' \
	err || bad "in a group of 200 MiB: exit status $status"

# Its arena fits, and the copy of a save behind the steps does not.
sed 's/16384/4096/; s/4096;/1024;/' large.llm >small.llm
run -w --draft --target cpux1 small.llm -o small || exit 1
sh -c "echo \$\$ >'$group/inner/cgroup.procs' && exec small/rank train \
	--steps 1 --data draw --checkpoint c --async-checkpoint" >out 2>err
status=$?
[ $status -eq 1 ] && grep -q 'GiB of it for copies of --async-checkpoint' \
	err || bad "with a copy: exit status $status"
exit $failed

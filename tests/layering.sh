#!/bin/sh
# Do includes point down only, and across folders at public headers only?
set -eu
cd "${top_srcdir:?}"
LC_ALL=C
export LC_ALL

# Every `file:line:name', quoted names and those of the libraries we wrap.
find ir passes frontend codegen runtime -type f \
	\( -name '*.[chyl]' -o -name '*.def' \) \
	! -path frontend/lang/parser.c ! -path frontend/lang/parser.h \
	! -path frontend/lang/lexer.c -print | sort |
xargs grep -nHE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' |
sed 's/#[[:space:]]*include[[:space:]]*\(["<]\)\([^">]*\).*/\1\2/
	s/:[[:space:]]*\(["<]\)/:\1/' |
awk -F: '
function bad(why)
{
	printf "%s:%s: includes %s: %s\n", $1, $2, substr($3, 2), why
	failed = 1
}
# One .c may know the library, so that one stub can stand for it.
function lone(what, home)
{
	if (folder != home || $1 !~ /\.c$/)
		bad("only one .c of " home "/ may")
	else if (what in owner && owner[what] != $1)
		bad(owner[what] " does already")
	owner[what] = $1
}
BEGIN {
	n = split("ir/base.h ir/ir.h ir/machine.h passes/answer/answer.h " \
		"passes/price/cost.h passes/kernels/kernels.h passes/memory/memory.h " \
		"passes/pass.h passes/plan/plan.h passes/price/price.h " \
		"passes/stage/ranks.h passes/sched/sched.h passes/search/search.h " \
		"passes/sim/sim.h passes/price/target.h codegen/cg.h " \
		"runtime/abi.h runtime/cache.h runtime/delay.h " \
		"runtime/measure/measure.h runtime/rt.h runtime/scratch.h " \
		"runtime/measure/tune.h", list, " ")
	for (i = 1; i <= n; i++)
		public[list[i]] = 1
	sees["passes"] = " ir "
	sees["codegen"] = " ir passes runtime "
	sees["frontend"] = " ir passes codegen runtime "
}
{
	folder = $1
	sub("/.*", "", folder)
	name = substr($3, 2)
}
$3 ~ /^</ {
	if (name ~ /^llvm-c\//)
		lone("llvm-c", "codegen")
	else if (name == "nvrtc.h")
		lone("nvrtc.h", "codegen")
	else if (name == "nccl.h")
		lone("nccl.h", "runtime")
	else if (name == "mpi.h")
		lone("mpi.h", "runtime")
	next
}
# A plain name stands for a file of the same folder.
name == "config.h" || name !~ /\// { next }
name ~ /^\./ { bad("name it from the top of the sources"); next }
{
	to = name
	sub("/.*", "", to)
	if (to == folder)
		next
	if (index(sees[folder], " " to " ") == 0)
		bad(folder "/ must not know " to "/")
	else if (folder == "codegen" && to == "runtime" &&
		 name !~ /^runtime\/(abi|cache|delay|scratch)\.h$/)
		bad("of runtime/ codegen knows abi.h, cache.h, " \
			"delay.h and scratch.h only")
	else if (!(name in public) && name !~ /^(ir|passes)\/[a-z]*\.def$/)
		bad("it is private to " to "/")
}
END { exit failed }
'

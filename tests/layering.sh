#!/bin/sh
# Do includes follow the architecture?  A row of the table for each folder:
#
# FOLDER: HEADERS
#	< WHAT IT INCLUDES
#
# HEADERS are those that other folders may include; all others are private.
# What a folder includes are public headers of the folders that are named, or
# the one header that is named.  Rows stand in the order of the layers: a
# folder includes from rows above its own, and from the folder that it lies in,
# whose headers are what its parts share.  `!' marks what does not follow that
# rule and is to go; nothing new may be marked.
layers='
ir/text: scan.h
	< ir
ir: base.h ir.h machine.h memo.h ops.def warnings.def
	< ir/text
ir/rule:
	< ir
ir/interp:
	< ir
ir/train: step_numbers.h
	< ir
runtime: abi.h append.h cache.h delay.h elems.h error.h files.h json.h rt.h
		scratch.h text.h
runtime/emulate: emulate.h
	< runtime
runtime/comm/tcp: tcp.h
	< runtime runtime/comm
runtime/comm: comm.h msg.h secret.h transport.h
	< runtime runtime/comm/tcp
runtime/device: cgroup.h cpuid.h cuda_device.h device.h pool.h
		this_machine.h
	< runtime runtime/emulate runtime/comm
runtime/data: data.h tensor_store.h
	< runtime runtime/comm runtime/device
runtime/tokenize: tokenize.h
	< runtime
runtime/grammar: grammar.h
	< runtime
runtime/serve/schedule: draw.h kv.h scheduler.h
	< runtime runtime/grammar runtime/serve
runtime/serve/chat: chat.h chat_forms.h codec.h reasoning.h
	< runtime runtime/tokenize runtime/grammar
runtime/serve/api: reply.h request.h
	< runtime runtime/tokenize runtime/grammar runtime/serve/schedule
		runtime/serve/chat
runtime/serve/http: http.h
	< runtime runtime/serve/api
runtime/serve: server.h
	< runtime runtime/tokenize runtime/serve/schedule runtime/serve/chat
		runtime/serve/http
runtime/train: rank.h served_memory.h
	< runtime runtime/comm runtime/device runtime/data runtime/tokenize
		runtime/serve
runtime/measure: measure.h tune.h
	< runtime runtime/device
passes/solve: lagrange.h pareto.h pooling.h solve.h tuples.h
	< ir
passes/sched: sched.h
	< ir
passes/plan: plan.h plan_keys.h
	< ir passes/sched passes
passes/kernels: explicit_attention.h kernels.h
	< ir passes/plan passes
passes/stage: ranks.h
	< ir passes/sched passes/plan passes/kernels passes
passes/price: cost.h price.h target.h
	< ir passes/plan passes/kernels passes/stage passes
passes/memory: memory.h
	< ir passes/sched passes/plan passes/kernels passes/stage passes/price
		passes
passes/check:
	< ir passes/sched passes/plan passes/stage passes
passes/place: place_bound.h
	< ir passes/solve passes/plan passes/kernels passes/price passes
passes/recompute: pareto_front.h
	< ir passes/solve passes/plan passes/kernels passes
passes/sim: sim.h
	< ir ir/train passes/stage
passes/space: space.h
	< ir passes/sched passes/plan passes/price passes/memory passes
passes/pieces: pieces.h
	< ir passes/plan passes/kernels passes/price passes/memory
		passes/recompute passes/space passes
passes/bound: bound.h
	< ir passes/kernels passes/price passes/place passes/space
		passes/pieces passes
passes/trial: search_report.h search_state.h trial.h
	< ir passes/solve passes/plan passes/price passes/memory passes/space
		passes/pieces passes/bound passes
passes/search: search.h
	< ir passes/plan passes/price passes/memory passes/space
		passes/pieces passes/bound passes/trial passes
passes/advice: advice.h
	< ir passes/plan passes/price passes/space passes/search passes
passes/serve: serve.h
	< ir passes/plan passes/kernels passes/price passes
passes/answer: answer.h
	< ir passes/plan passes/price passes/memory passes/search passes
passes/pictures: pictures.h
	< ir passes/sched passes/plan passes/kernels passes/stage passes/price
		passes/memory passes/search passes/answer
passes: derive.h pass.h passes.def weight_use.h
	< ir ir/train passes/plan passes/kernels passes/stage passes/price
		passes/memory
codegen: cg.h kernel.h
	< ir runtime/abi.h passes/plan passes/kernels passes/stage
		passes/price passes/memory
codegen/link: compile_cache.h
	< ir runtime/abi.h runtime/cache.h runtime/delay.h runtime/scratch.h
		codegen
codegen/llvm: ll.h ll_cpu.h
	< ir codegen codegen/link
codegen/attention: attention.h
	< ir codegen
codegen/dot: dot.h
	< ir codegen
codegen/experts: experts.h
	< ir codegen/dot
codegen/nest: nest.h
	< ir codegen
codegen/cpu/dot: cpu_dot.h
	< ir codegen/llvm codegen/dot codegen/cpu
codegen/cpu: cpu.h
	< ir passes/price codegen codegen/llvm codegen/attention codegen/dot
		codegen/experts codegen/nest codegen/cpu/dot
codegen/cuda/prelude:
codegen/cuda/attention:
	< ir codegen/attention codegen/cuda
codegen/cuda/dot: cuda_dot.h
	< ir codegen/dot codegen/cuda
codegen/cuda/experts:
	< ir codegen/experts codegen/cuda/dot
codegen/cuda/nest:
	< ir codegen/nest codegen/cuda
codegen/cuda: cuda.h
	< ir codegen codegen/cuda/dot
codegen/nvrtc:
	< ir runtime/abi.h codegen codegen/link codegen/cuda
codegen/host:
	< ir ir/train passes/price passes/memory codegen codegen/link codegen/llvm
		codegen/cpu codegen/cuda
frontend/options: options.def options.h
	< ir passes
frontend/lang:
	< ir passes/plan passes/price frontend
frontend/eval: eval.h
	< ir ir/train runtime passes/sim passes frontend
frontend/validate: validate.h
	< ir runtime/measure passes/plan passes/price passes/memory
		passes/search passes/serve passes/answer codegen frontend
frontend/import: import.h
	< ir runtime passes frontend
frontend/tool: tool.h
	< ir runtime runtime/measure runtime/tokenize
		runtime/train/served_memory.h passes/sched passes/plan passes/kernels
		passes/price passes/memory passes/search passes/advice passes/serve
		passes/answer passes/pictures passes codegen frontend/options frontend/eval frontend/import
		frontend/validate frontend
frontend: driver.h frontend.h
	< ir passes/stage passes/price passes frontend/options frontend/tool
'
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
LAYERS=$layers awk -F: '
function bad(why)
{
	printf "%s:%s: includes %s: %s\n", $1, $2, substr($3, 2), why
	failed = 1
}
function wrong_row(folder, why)
{
	printf "tests/layering.sh: row of %s: %s\n", folder, why
	failed = 1
}
function folder_of(path)
{
	return sub(/\/[^\/]*$/, "", path) ? path : ""
}
# One .c may know the library, so that one stub can stand for it.
function lone(what, home)
{
	if (index($1, home "/") != 1 || $1 !~ /\.c$/)
		bad("only one .c of " home "/ may")
	else if (what in owner && owner[what] != $1)
		bad(owner[what] " does already")
	owner[what] = $1
}
function read_rows(    word, words, n, i, row, what, upward)
{
	n = split(ENVIRON["LAYERS"], words, " ")
	for (i = 1; i <= n; i++) {
		word = words[i]
		if (word ~ /:$/) {
			row = substr(word, 1, length(word) - 1)
			place[row] = ++rows
			names[rows] = row
			what = "headers"
		} else if (word == "<") {
			what = "includes"
		} else if (what == "headers") {
			public[row "/" word] = 1
		} else {
			upward = sub(/^!/, "", word)
			may[row, word] = 1
			if (upward)
				marked[row, word] = 1
			wants[rows] = wants[rows] " " word
		}
	}
}
# Rows stand in the order of the layers, but for what is marked.
function check_rows(    r, n, i, list, to, header, line)
{
	for (header in public) {
		if ((getline line <header) < 0)
			wrong_row(folder_of(header), header " does not exist")
		close(header)
	}
	for (r = 1; r <= rows; r++) {
		n = split(wants[r], list, " ")
		for (i = 1; i <= n; i++) {
			to = list[i] ~ /\.(h|def)$/ ? folder_of(list[i]) \
				: list[i]
			if (!(to in place))
				wrong_row(names[r], "no row for " to)
			else if (place[to] > r && folder_of(names[r]) != to &&
				 !((names[r], list[i]) in marked))
				wrong_row(names[r], list[i] " is a layer above")
		}
	}
}
BEGIN {
	read_rows()
	check_rows()
}
{
	from = folder_of($1)
	name = substr($3, 2)
	if (!(from in place) && !(from in missing)) {
		wrong_row(from, "it has none")
		missing[from] = 1
	}
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
	else if (name == "microhttpd.h")
		lone("microhttpd.h", "runtime")
	next
}
# A plain name stands for a file of the same folder.
name == "config.h" || name !~ /\// { next }
name ~ /^\./ { bad("name it from the top of the sources"); next }
{
	to = folder_of(name)
	if (to == from)
		next
	if (!((from, to) in may) && !((from, name) in may))
		bad("nothing in " from "/ may include " \
			((to in place) ? "that" : "from there"))
	else if (!(name in public))
		bad("it is private to " to "/")
	else
		used[from, (from, name) in may ? name : to] = 1
}
END {
	for (r = 1; r <= rows; r++) {
		n = split(wants[r], list, " ")
		for (i = 1; i <= n; i++)
			if ((names[r], list[i]) in marked &&
			    !((names[r], list[i]) in used))
				wrong_row(names[r], "nothing needs !" list[i])
	}
	exit failed
}
'

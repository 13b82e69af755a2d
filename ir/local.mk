# The lowest layer: memory, diagnostics, the graph and its text.
noinst_LIBRARIES += %D%/libir.a

%C%_libir_a_SOURCES = \
	%D%/axes.c \
	%D%/buf.c \
	%D%/copy.c \
	%D%/cost.c \
	%D%/counts.c \
	%D%/define.c \
	%D%/diag.c \
	%D%/graph.c \
	%D%/hash.c \
	%D%/intern.c \
	%D%/interp/interp.c \
	%D%/interp/interp.h \
	%D%/interp/interp_attention.c \
	%D%/interp/interp_comm.c \
	%D%/interp/interp_grad.c \
	%D%/interp/interp_io.c \
	%D%/interp/interp_nest.c \
	%D%/interp/interp_ops.c \
	%D%/interp/interp_pool.c \
	%D%/interp/interp_rounded.c \
	%D%/interp/interp_rows.c \
	%D%/machine.h \
	%D%/mem.c \
	%D%/memo.c \
	%D%/memo.h \
	%D%/module.c \
	%D%/num.c \
	%D%/ops.c \
	%D%/pieces.c \
	%D%/placement.c \
	%D%/rng.c \
	%D%/rope.c \
	%D%/rule/rule.c \
	%D%/rule/rule_binding.h \
	%D%/rule/rule_type.c \
	%D%/source.c \
	%D%/table.c \
	%D%/text/print.c \
	%D%/text/read.c \
	%D%/text/read.h \
	%D%/text/read_body.c \
	%D%/text/read_names.c \
	%D%/text/read_terms.c \
	%D%/text/scan.c \
	%D%/text/scan.h \
	%D%/train/step_numbers.c \
	%D%/train/step_numbers.h \
	%D%/type.c \
	%D%/unit.c \
	%D%/verify.c \
	%D%/verify.h \
	%D%/verify_attr.c \
	%D%/verify_head.c \
	%D%/verify_node.c \
	%D%/verify_report.c \
	%D%/ways.c

# What a plug-in includes, under the same names as here.
nobase_llmcinclude_HEADERS += \
	%D%/attrs.def \
	%D%/base.h \
	%D%/dtypes.def \
	%D%/ir.h \
	%D%/ops.def \
	%D%/warnings.def

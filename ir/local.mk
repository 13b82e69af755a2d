# The bottom floor: memory, diagnostics, the graph and its text.
noinst_LIBRARIES += %D%/libir.a

%C%_libir_a_SOURCES = \
	%D%/axes.c \
	%D%/bind.c \
	%D%/buf.c \
	%D%/copy.c \
	%D%/cost.c \
	%D%/counts.c \
	%D%/diag.c \
	%D%/graph.c \
	%D%/hash.c \
	%D%/intern.c \
	%D%/interp.c \
	%D%/interp.h \
	%D%/interp_attention.c \
	%D%/interp_grad.c \
	%D%/interp_io.c \
	%D%/interp_nest.c \
	%D%/interp_ops.c \
	%D%/interp_pool.c \
	%D%/interp_rows.c \
	%D%/interp_talk.c \
	%D%/machine.h \
	%D%/mem.c \
	%D%/num.c \
	%D%/ops.c \
	%D%/pieces.c \
	%D%/place.c \
	%D%/print.c \
	%D%/read.c \
	%D%/read.h \
	%D%/read_body.c \
	%D%/read_names.c \
	%D%/read_terms.c \
	%D%/rng.c \
	%D%/rule.c \
	%D%/scan.c \
	%D%/scan.h \
	%D%/source.c \
	%D%/table.c \
	%D%/type.c \
	%D%/unit.c \
	%D%/verify.c \
	%D%/verify.h \
	%D%/verify_attr.c \
	%D%/verify_head.c \
	%D%/verify_node.c \
	%D%/ways.c

# What a pass plug-in includes.
irincludedir = $(includedir)/llmc/ir
irinclude_HEADERS = \
	%D%/attrs.def \
	%D%/base.h \
	%D%/dtypes.def \
	%D%/ir.h \
	%D%/ops.def \
	%D%/warnings.def

# The backends. Only this folder sees the headers of LLVM and NVRTC.
noinst_LIBRARIES += %D%/libcodegen.a

%C%_libcodegen_a_CPPFLAGS = $(AM_CPPFLAGS) $(LLVM_CFLAGS) $(NVRTC_CFLAGS)
%C%_libcodegen_a_SOURCES = \
	%D%/cg.h \
	%D%/cpu/attention.h \
	%D%/cpu/attention_group.h \
	%D%/cpu/cpu.h \
	%D%/cpu/dot.h \
	%D%/cpu/experts.h \
	%D%/cpu/nest.h \
	%D%/cpu_names.c \
	%D%/host/host.h \
	%D%/link.c \
	%D%/ll.h \
	%D%/ll_cpu.c \
	%D%/ll_cpu.h \
	%D%/nest.c \
	%D%/nest.h \
	%D%/nest_plan.c \
	%D%/nest_pull.c \
	%D%/nest_rows.c \
	%D%/nest_topk.c \
	%D%/toolchain.c

# What calls LLVM is built where its headers are; without, cg.h's functions
# say what is missing.
if HAVE_LLVM
%C%_libcodegen_a_SOURCES += \
	%D%/cpu/attention.c \
	%D%/cpu/attention_after.c \
	%D%/cpu/attention_block.c \
	%D%/cpu/attention.h \
	%D%/cpu/attention_group.h \
	%D%/cpu/attention_keys.c \
	%D%/cpu/attention_put.c \
	%D%/cpu/attention_queries.c \
	%D%/cpu/attention_sets.c \
	%D%/cpu/attention_talk.c \
	%D%/cpu/attention_tile.c \
	%D%/cpu/attention_view.c \
	%D%/cpu/attention_where.c \
	%D%/cpu/dot.c \
	%D%/cpu/dot_pack.c \
	%D%/cpu/dot_plan.c \
	%D%/cpu/dot_steps.c \
	%D%/cpu/dot_tile.c \
	%D%/cpu/dot_view.c \
	%D%/cpu/experts.c \
	%D%/cpu/experts_at.c \
	%D%/cpu/experts_to.c \
	%D%/cpu/group.c \
	%D%/cpu/kernel.c \
	%D%/cpu/math.c \
	%D%/cpu/nest.c \
	%D%/cpu/nest_expr.c \
	%D%/cpu/nest_rows.c \
	%D%/cpu/nest_scatter.c \
	%D%/cpu/rng.c \
	%D%/host/canon.c \
	%D%/host/code.c \
	%D%/host/data.c \
	%D%/host/fit.c \
	%D%/host/func.c \
	%D%/host/place.c \
	%D%/host/port.c \
	%D%/host/program.c \
	%D%/host/route.c \
	%D%/host/spread.c \
	%D%/host/start.c \
	%D%/host/talk.c \
	%D%/host/tensor.c \
	%D%/ll.c \
	%D%/ll_more.c
else
%C%_libcodegen_a_SOURCES += %D%/none.c
endif

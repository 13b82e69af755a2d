# The backends. Only this folder sees the headers of LLVM and NVRTC.
noinst_LIBRARIES += %D%/libcodegen.a

%C%_libcodegen_a_CPPFLAGS = $(AM_CPPFLAGS) $(LLVM_CFLAGS) $(NVRTC_CFLAGS)
%C%_libcodegen_a_SOURCES = \
	%D%/cg.h \
	%D%/cpu/cpu.h \
	%D%/cpu/dot.c \
	%D%/cpu/dot.h \
	%D%/cpu/dot_pack.c \
	%D%/cpu/dot_plan.c \
	%D%/cpu/dot_steps.c \
	%D%/cpu/dot_tile.c \
	%D%/cpu/dot_view.c \
	%D%/cpu/group.c \
	%D%/cpu/kernel.c \
	%D%/cpu/nest.c \
	%D%/cpu/nest.h \
	%D%/cpu/nest_expr.c \
	%D%/cpu/nest_rows.c \
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
	%D%/cpu/math.c \
	%D%/cpu/rng.c \
	%D%/ll.c \
	%D%/ll_more.c
endif

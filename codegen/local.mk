# The backends. Only this folder sees the headers of LLVM and NVRTC.
noinst_LIBRARIES += %D%/libcodegen.a

%C%_libcodegen_a_CPPFLAGS = $(AM_CPPFLAGS) $(LLVM_CFLAGS) $(NVRTC_CFLAGS)
%C%_libcodegen_a_SOURCES = \
	%D%/cg.h \
	%D%/cpu/cpu.h \
	%D%/cpu/group.c \
	%D%/cpu/kernel.c \
	%D%/ll.h \
	%D%/toolchain.c

# The backends. Only this folder sees the headers of LLVM and NVRTC.
noinst_LIBRARIES += %D%/libcodegen.a

%C%_libcodegen_a_CPPFLAGS = $(AM_CPPFLAGS) $(LLVM_CFLAGS) $(NVRTC_CFLAGS)
%C%_libcodegen_a_SOURCES = \
	%D%/attention.c \
	%D%/attention.h \
	%D%/attention_after.c \
	%D%/attention_sets.c \
	%D%/attention_talk.c \
	%D%/attention_view.c \
	%D%/cache.c \
	%D%/cache.h \
	%D%/cg.h \
	%D%/cpu/attention.h \
	%D%/cpu/cpu.h \
	%D%/cpu/dot.h \
	%D%/cpu/experts.h \
	%D%/cpu/nest.h \
	%D%/cpu_names.c \
	%D%/cuda/arch.c \
	%D%/cuda/attention.c \
	%D%/cuda/attention.h \
	%D%/cuda/attention90.c \
	%D%/cuda/attention90.h \
	%D%/cuda/attention90_back.c \
	%D%/cuda/attention90_forward.c \
	%D%/cuda/attention_after.c \
	%D%/cuda/attention_back.c \
	%D%/cuda/attention_back.h \
	%D%/cuda/attention_forward.c \
	%D%/cuda/attention_forward.h \
	%D%/cuda/attention_tile.c \
	%D%/cuda/attention_view.c \
	%D%/cuda/attention_ways.c \
	%D%/cuda/attention_where.c \
	%D%/cuda/cuda.h \
	%D%/cuda/dot.c \
	%D%/cuda/dot.h \
	%D%/cuda/dot90.c \
	%D%/cuda/dot90.h \
	%D%/cuda/dot90_map.c \
	%D%/cuda/dot90_parts.c \
	%D%/cuda/dot90_put.c \
	%D%/cuda/dot90_store.c \
	%D%/cuda/dot90_text.c \
	%D%/cuda/dot_after.c \
	%D%/cuda/dot_fma.c \
	%D%/cuda/dot_load.c \
	%D%/cuda/dot_loop.c \
	%D%/cuda/dot_mma.c \
	%D%/cuda/dot_plan.c \
	%D%/cuda/dot_steps.c \
	%D%/cuda/dot_where.c \
	%D%/cuda/experts.c \
	%D%/cuda/experts.h \
	%D%/cuda/experts_at.c \
	%D%/cuda/experts_sort.c \
	%D%/cuda/experts_to.c \
	%D%/cuda/group.c \
	%D%/cuda/kernel.c \
	%D%/cuda/nest.c \
	%D%/cuda/nest.h \
	%D%/cuda/nest_expr.c \
	%D%/cuda/nest_pass.c \
	%D%/cuda/nest_place.c \
	%D%/cuda/nest_rows.c \
	%D%/cuda/nest_scatter.c \
	%D%/cuda/nest_team.h \
	%D%/cuda/source.c \
	%D%/cuda/view.c \
	%D%/cuda/ways.c \
	%D%/dot.c \
	%D%/dot.h \
	%D%/experts.c \
	%D%/host/host.h \
	%D%/images.c \
	%D%/images.h \
	%D%/images_object.c \
	%D%/kernel.c \
	%D%/kernel.h \
	%D%/link.c \
	%D%/ll.def \
	%D%/ll.h \
	%D%/ll_cpu.c \
	%D%/ll_cpu.h \
	%D%/nest.c \
	%D%/nest.h \
	%D%/nest_plan.c \
	%D%/nest_pull.c \
	%D%/nest_rows.c \
	%D%/nest_scatter.c \
	%D%/nest_steps.c \
	%D%/nest_topk.c \
	%D%/toolchain.c \
	%D%/view.c

# What calls LLVM is built where its headers are; without, cg.h's functions
# say what is missing.
if HAVE_LLVM
%C%_libcodegen_a_SOURCES += \
	%D%/cpu/attention.c \
	%D%/cpu/attention_block.c \
	%D%/cpu/attention.h \
	%D%/cpu/attention_keys.c \
	%D%/cpu/attention_put.c \
	%D%/cpu/attention_queries.c \
	%D%/cpu/attention_tile.c \
	%D%/cpu/attention_where.c \
	%D%/cpu/dot.c \
	%D%/cpu/dot_ahead.c \
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
	%D%/host/room.c \
	%D%/host/route.c \
	%D%/host/service.c \
	%D%/host/spills.c \
	%D%/host/spread.c \
	%D%/host/start.c \
	%D%/host/sums.c \
	%D%/host/talk.c \
	%D%/host/tensor.c \
	%D%/host/trials.c \
	%D%/ll.c \
	%D%/ll_more.c
else
%C%_libcodegen_a_SOURCES += %D%/none.c
endif

if HAVE_NVRTC
%C%_libcodegen_a_SOURCES += %D%/nvrtc.c
else
%C%_libcodegen_a_SOURCES += %D%/nvrtc_none.c
endif

# The text that kernels are compiled with, as llmc carries it: the prelude and
# what it shares with the emulator.
cuda_prelude = \
	%D%/cuda/prelude/prelude-async.h \
	%D%/cuda/prelude/prelude-common.h \
	%D%/cuda/prelude/prelude-vector.h \
	%D%/cuda/prelude/prelude-device.h \
	%D%/cuda/prelude/prelude-host.h \
	%D%/cuda/prelude/prelude-wgmma.h \
	%D%/cuda/prelude/prelude.h \
	runtime/emulate-call.h
cuda_services = %D%/cuda/prelude/services.cu
EXTRA_DIST += %D%/cuda/embed.sh $(cuda_prelude) $(cuda_services)

nodist_%C%_libcodegen_a_SOURCES = %D%/cuda/prelude_text.c
BUILT_SOURCES += %D%/cuda/prelude_text.c
CLEANFILES += %D%/cuda/prelude_text.c
%D%/cuda/prelude_text.c: %D%/cuda/embed.sh $(cuda_prelude) $(cuda_services)
	$(AM_V_at)$(MKDIR_P) %D%/cuda
	$(AM_V_GEN)files=; for file in $(cuda_prelude); do \
		test -f $$file || file=$(srcdir)/$$file; \
		files="$$files $$file"; \
	done && sh $(srcdir)/%D%/cuda/embed.sh \
		$(srcdir)/$(cuda_services) $$files >$@.tmp && mv $@.tmp $@

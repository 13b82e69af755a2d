# The backends. Only this folder sees the headers of LLVM and NVRTC.
noinst_LIBRARIES += %D%/libcodegen.a

%C%_libcodegen_a_CPPFLAGS = $(AM_CPPFLAGS) $(LLVM_CFLAGS) $(NVRTC_CFLAGS)
%C%_libcodegen_a_SOURCES = \
	%D%/attention/attention.c \
	%D%/attention/attention.h \
	%D%/attention/attention_comm.c \
	%D%/attention/attention_results.c \
	%D%/attention/attention_sets.c \
	%D%/attention/attention_view.c \
	%D%/cg.h \
	%D%/cpu/cpu.h \
	%D%/cpu/cpu_attention.c \
	%D%/cpu/cpu_attention.h \
	%D%/cpu/cpu_attention_block.c \
	%D%/cpu/cpu_attention_keys.c \
	%D%/cpu/cpu_attention_parts.c \
	%D%/cpu/cpu_attention_put.c \
	%D%/cpu/cpu_attention_queries.c \
	%D%/cpu/cpu_attention_ranges.c \
	%D%/cpu/cpu_attention_single.c \
	%D%/cpu/cpu_attention_single_sums.c \
	%D%/cpu/cpu_attention_step.c \
	%D%/cpu/cpu_attention_tile.c \
	%D%/cpu/cpu_attention_where.c \
	%D%/cpu/dot/cpu_dot.c \
	%D%/cpu/dot/cpu_dot.h \
	%D%/cpu/dot/cpu_dot_ahead.c \
	%D%/cpu/dot/cpu_dot_pack.c \
	%D%/cpu/dot/cpu_dot_panels.c \
	%D%/cpu/dot/cpu_dot_plan.c \
	%D%/cpu/dot/cpu_dot_steps.c \
	%D%/cpu/dot/cpu_dot_stream.c \
	%D%/cpu/dot/cpu_dot_stream_across.c \
	%D%/cpu/dot/cpu_dot_stream.h \
	%D%/cpu/dot/cpu_dot_stream_line.c \
	%D%/cpu/dot/cpu_dot_stream_sums.c \
	%D%/cpu/dot/cpu_dot_stretches.c \
	%D%/cpu/dot/cpu_dot_tile.c \
	%D%/cpu/dot/cpu_dot_tile.h \
	%D%/cpu/dot/cpu_dot_tile_ahead.c \
	%D%/cpu/dot/cpu_dot_tile_amx.c \
	%D%/cpu/dot/cpu_dot_unit.c \
	%D%/cpu/dot/cpu_dot_view.c \
	%D%/cpu/dot/cpu_dot_widen.c \
	%D%/cpu/cpu_experts.c \
	%D%/cpu/cpu_experts.h \
	%D%/cpu/cpu_experts_at.c \
	%D%/cpu/cpu_experts_step.c \
	%D%/cpu/cpu_experts_to.c \
	%D%/cpu/cpu_group.c \
	%D%/cpu/cpu_kernel.c \
	%D%/cpu/cpu_math.c \
	%D%/cpu/cpu_nest.c \
	%D%/cpu/cpu_nest.h \
	%D%/cpu/cpu_nest_expr.c \
	%D%/cpu/cpu_nest_rows.c \
	%D%/cpu/cpu_nest_scatter.c \
	%D%/cpu/cpu_nest_step.c \
	%D%/cpu/cpu_rng.c \
	%D%/cuda/attention/cuda_attention.c \
	%D%/cuda/attention/cuda_attention.h \
	%D%/cuda/attention/cuda_attention90.c \
	%D%/cuda/attention/cuda_attention90.h \
	%D%/cuda/attention/cuda_attention90_back.c \
	%D%/cuda/attention/cuda_attention90_back.h \
	%D%/cuda/attention/cuda_attention90_back_ring.c \
	%D%/cuda/attention/cuda_attention90_back_tensor.c \
	%D%/cuda/attention/cuda_attention90_forward.c \
	%D%/cuda/attention/cuda_attention90_forward.h \
	%D%/cuda/attention/cuda_attention90_items.c \
	%D%/cuda/attention/cuda_attention90_joint.c \
	%D%/cuda/attention/cuda_attention90_joint_steps.c \
	%D%/cuda/attention/cuda_attention90_lanes.c \
	%D%/cuda/attention/cuda_attention90_tensor.c \
	%D%/cuda/attention/cuda_attention90_weigh.c \
	%D%/cuda/attention/cuda_attention_again.c \
	%D%/cuda/attention/cuda_attention_back.c \
	%D%/cuda/attention/cuda_attention_back.h \
	%D%/cuda/attention/cuda_attention_candidates.c \
	%D%/cuda/attention/cuda_attention_forward.c \
	%D%/cuda/attention/cuda_attention_forward.h \
	%D%/cuda/attention/cuda_attention_join.c \
	%D%/cuda/attention/cuda_attention_list.c \
	%D%/cuda/attention/cuda_attention_parts.c \
	%D%/cuda/attention/cuda_attention_results.c \
	%D%/cuda/attention/cuda_attention_single.c \
	%D%/cuda/attention/cuda_attention_single.h \
	%D%/cuda/attention/cuda_attention_tile.c \
	%D%/cuda/attention/cuda_attention_view.c \
	%D%/cuda/attention/cuda_attention_where.c \
	%D%/cuda/cuda.h \
	%D%/cuda/cuda_arch.c \
	%D%/cuda/cuda_candidates.c \
	%D%/cuda/cuda_group.c \
	%D%/cuda/cuda_kernel.c \
	%D%/cuda/cuda_source.c \
	%D%/cuda/cuda_take.c \
	%D%/cuda/cuda_view.c \
	%D%/cuda/dot/cuda_dot.c \
	%D%/cuda/dot/cuda_dot.h \
	%D%/cuda/dot/cuda_dot90.c \
	%D%/cuda/dot/cuda_dot90.h \
	%D%/cuda/dot/cuda_dot90_added.c \
	%D%/cuda/dot/cuda_dot90_beside.c \
	%D%/cuda/dot/cuda_dot90_launch.c \
	%D%/cuda/dot/cuda_dot90_map.c \
	%D%/cuda/dot/cuda_dot90_members.c \
	%D%/cuda/dot/cuda_dot90_pair.c \
	%D%/cuda/dot/cuda_dot90_parts.c \
	%D%/cuda/dot/cuda_dot90_put.c \
	%D%/cuda/dot/cuda_dot90_slots.c \
	%D%/cuda/dot/cuda_dot90_store.c \
	%D%/cuda/dot/cuda_dot90_sum.c \
	%D%/cuda/dot/cuda_dot90_take.c \
	%D%/cuda/dot/cuda_dot90_tensor.c \
	%D%/cuda/dot/cuda_dot90_terms.c \
	%D%/cuda/dot/cuda_dot90_text.c \
	%D%/cuda/dot/cuda_dot90_tiles.c \
	%D%/cuda/dot/cuda_dot_async.c \
	%D%/cuda/dot/cuda_dot_epilogue.c \
	%D%/cuda/dot/cuda_dot_load.c \
	%D%/cuda/dot/cuda_dot_loop.c \
	%D%/cuda/dot/cuda_dot_mma.c \
	%D%/cuda/dot/cuda_dot_plan.c \
	%D%/cuda/dot/cuda_dot_products.c \
	%D%/cuda/dot/cuda_dot_ring.c \
	%D%/cuda/dot/cuda_dot_slots.c \
	%D%/cuda/dot/cuda_dot_steps.c \
	%D%/cuda/dot/cuda_dot_where.c \
	%D%/cuda/dot/cuda_dot_widen.c \
	%D%/cuda/experts/cuda_experts.c \
	%D%/cuda/experts/cuda_experts.h \
	%D%/cuda/experts/cuda_experts_at.c \
	%D%/cuda/experts/cuda_experts_plan.c \
	%D%/cuda/experts/cuda_experts_sort.c \
	%D%/cuda/experts/cuda_experts_to.c \
	%D%/cuda/nest/cuda_nest.c \
	%D%/cuda/nest/cuda_nest.h \
	%D%/cuda/nest/cuda_nest_box.c \
	%D%/cuda/nest/cuda_nest_expr.c \
	%D%/cuda/nest/cuda_nest_lanes.c \
	%D%/cuda/nest/cuda_nest_pass.c \
	%D%/cuda/nest/cuda_nest_range.c \
	%D%/cuda/nest/cuda_nest_rows.c \
	%D%/cuda/nest/cuda_nest_scatter.c \
	%D%/cuda/nest/cuda_nest_scope.c \
	%D%/cuda/nest/cuda_nest_slots.c \
	%D%/cuda/nest/cuda_nest_sums.c \
	%D%/cuda/nest/cuda_nest_team.c \
	%D%/dot/dot.c \
	%D%/dot/dot.h \
	%D%/experts/experts.c \
	%D%/experts/experts.h \
	%D%/host/host.h \
	%D%/host/host_code.c \
	%D%/host/host_coll.c \
	%D%/host/host_comm.c \
	%D%/host/host_data.c \
	%D%/host/host_fit.c \
	%D%/host/host_func.c \
	%D%/host/host_joins.c \
	%D%/host/host_kernel.c \
	%D%/host/host_launch.c \
	%D%/host/host_place.c \
	%D%/host/host_port.c \
	%D%/host/host_program.c \
	%D%/host/host_service.c \
	%D%/host/host_single.c \
	%D%/host/host_spills.c \
	%D%/host/host_spread.c \
	%D%/host/host_stage.c \
	%D%/host/host_start.c \
	%D%/host/host_sums.c \
	%D%/host/host_tensor.c \
	%D%/host/host_trials.c \
	%D%/kernel.c \
	%D%/kernel.h \
	%D%/link/compile_cache.c \
	%D%/link/compile_cache.h \
	%D%/link/link.c \
	%D%/link/toolchain.c \
	%D%/llvm/ll.def \
	%D%/llvm/ll.h \
	%D%/llvm/ll_cpu.c \
	%D%/llvm/ll_cpu.h \
	%D%/llvm/ll_derived.c \
	%D%/nest/nest.c \
	%D%/nest/nest.h \
	%D%/nest/nest_env.c \
	%D%/nest/nest_map.c \
	%D%/nest/nest_plan.c \
	%D%/nest/nest_pull.c \
	%D%/nest/nest_roots.c \
	%D%/nest/nest_row.h \
	%D%/nest/nest_row_dims.c \
	%D%/nest/nest_row_statistics.c \
	%D%/nest/nest_rows.c \
	%D%/nest/nest_scatter.c \
	%D%/nest/nest_scope.c \
	%D%/nest/nest_steps.c \
	%D%/nest/nest_topk.c \
	%D%/nvrtc/images.c \
	%D%/nvrtc/images.h \
	%D%/nvrtc/images_object.c \
	%D%/panels.c \
	%D%/scratch_bounds.c \
	%D%/view.c

# Without LLVM's headers ll.h's functions say what is missing.
if HAVE_LLVM
%C%_libcodegen_a_SOURCES += %D%/llvm/ll.c
else
%C%_libcodegen_a_SOURCES += %D%/llvm/ll_none.c
endif

if HAVE_NVRTC
%C%_libcodegen_a_SOURCES += %D%/nvrtc/nvrtc.c
else
%C%_libcodegen_a_SOURCES += %D%/nvrtc/nvrtc_none.c
endif

# The text that kernels are compiled with, as llmc carries it: the prelude and
# what it shares with the emulator.
cuda_prelude = \
	%D%/cuda/prelude/prelude-async.h \
	%D%/cuda/prelude/prelude-common.h \
	%D%/cuda/prelude/prelude-device.h \
	%D%/cuda/prelude/prelude-host.h \
	%D%/cuda/prelude/prelude-tcgen05.h \
	%D%/cuda/prelude/prelude-vector.h \
	%D%/cuda/prelude/prelude-wgmma.h \
	%D%/cuda/prelude/prelude.h \
	runtime/emulate/emulate_call.h
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

# From graph to graph, and the plug-ins which do the same from outside.
noinst_LIBRARIES += %D%/libpasses.a

%C%_libpasses_a_SOURCES = \
	%D%/ahead.c \
	%D%/answer/answer.c \
	%D%/answer/answer.h \
	%D%/answer/answer_accuracy.c \
	%D%/answer/answer_faults.c \
	%D%/answer/answer_json.c \
	%D%/answer/answer_kernels.c \
	%D%/answer/answer_trace.c \
	%D%/answer/answer_memory.c \
	%D%/answer/answer_print.c \
	%D%/answer/answer_time.c \
	%D%/answer/runs.def \
	%D%/answer/summary.c \
	%D%/answer/summary_print.c \
	%D%/autodiff.c \
	%D%/check/check.c \
	%D%/check/check.h \
	%D%/check/check_comm.c \
	%D%/check/check_facts.c \
	%D%/check/check_layers.c \
	%D%/check/check_runs.c \
	%D%/check/check_saves.c \
	%D%/check/check_sums.c \
	%D%/check/check_tensors.c \
	%D%/check/check_types.c \
	%D%/check/check_updates.c \
	%D%/chunk.c \
	%D%/crash.c \
	%D%/cse.c \
	%D%/dce.c \
	%D%/derive.c \
	%D%/derive.h \
	%D%/fold.c \
	%D%/found.c \
	%D%/funcs.c \
	%D%/inline.c \
	%D%/kernels/explicit_attention.c \
	%D%/kernels/explicit_attention.h \
	%D%/kernels/fuse.c \
	%D%/kernels/fuse.h \
	%D%/kernels/fuse_comm.c \
	%D%/kernels/fuse_copy.c \
	%D%/kernels/fuse_count.c \
	%D%/kernels/fuse_facts.c \
	%D%/kernels/fuse_grow.c \
	%D%/kernels/fuse_join.c \
	%D%/kernels/fuse_key.c \
	%D%/kernels/fuse_memo.c \
	%D%/kernels/fuse_order.c \
	%D%/kernels/fuse_sink.c \
	%D%/kernels/fuse_template.c \
	%D%/kernels/kernels.h \
	%D%/memory/memory.h \
	%D%/kernels/kernels_print.c \
	%D%/kernels/parts.c \
	%D%/manager.c \
	%D%/memory/memory.c \
	%D%/memory/memory.h \
	%D%/memory/memory_buffer.c \
	%D%/memory/memory_carry.c \
	%D%/memory/memory_check.c \
	%D%/memory/memory_history.c \
	%D%/memory/memory_pack.c \
	%D%/memory/memory_parts.h \
	%D%/memory/memory_print.c \
	%D%/memory/memory_saves.c \
	%D%/memory/memory_scratch.c \
	%D%/memory/memory_slots.c \
	%D%/memory/memory_temps.c \
	%D%/memory/memory_tensors.c \
	%D%/memory/memory_wait.c \
	%D%/memory/memory_where.c \
	%D%/narrow.c \
	%D%/optimize.c \
	%D%/pass_table.c \
	%D%/pictures/picture_comm.c \
	%D%/pictures/picture_html.c \
	%D%/pictures/picture_memory.c \
	%D%/pictures/picture_mesh.c \
	%D%/pictures/picture_page.c \
	%D%/pictures/picture_parts.h \
	%D%/pictures/picture_plans.c \
	%D%/pictures/picture_roofline.c \
	%D%/pictures/picture_schedule.c \
	%D%/pictures/picture_time.c \
	%D%/pictures/picture_timeline.c \
	%D%/pictures/pictures.h \
	%D%/place/place.c \
	%D%/place/place.h \
	%D%/place/place_bound.h \
	%D%/place/place_cells.c \
	%D%/place/place_choice.h \
	%D%/place/place_cost.c \
	%D%/place/place_dims.c \
	%D%/place/place_due.c \
	%D%/place/place_like.c \
	%D%/place/place_link.c \
	%D%/place/place_rates.c \
	%D%/place/place_memo.c \
	%D%/place/place_route.c \
	%D%/place/place_shape.c \
	%D%/place/place_solve.c \
	%D%/place/place_take.c \
	%D%/place/place_write.c \
	%D%/plan/plan.c \
	%D%/plan/plan_check.c \
	%D%/plan/plan_facts.c \
	%D%/plan/plan_keys.c \
	%D%/plan/plan_keys.h \
	%D%/plan/plan_print.c \
	%D%/plan/plan_sched.c \
	%D%/plan/plan_text.c \
	%D%/plan/plan_tiles.c \
	%D%/plugin.c \
	%D%/price/cost_collective.c \
	%D%/price/cost_kernel.c \
	%D%/price/price.c \
	%D%/price/price.h \
	%D%/price/price_joins.c \
	%D%/price/price_kernel.c \
	%D%/price/price_maps.c \
	%D%/price/price_memo.c \
	%D%/price/price_parts.c \
	%D%/price/price_run.c \
	%D%/price/price_traits.c \
	%D%/price/target.c \
	%D%/price/target_groups.c \
	%D%/price/target_spec.c \
	%D%/recompute.c \
	%D%/recompute.h \
	%D%/recompute_find.c \
	%D%/recompute_set.c \
	%D%/recompute_split.c \
	%D%/report.c \
	%D%/sched/sched.c \
	%D%/sched/sched_brief.c \
	%D%/sched/sched_check.c \
	%D%/sched/sched_csv.c \
	%D%/sched/sched_draw.c \
	%D%/sched/sched_make.c \
	%D%/sched/sched_run.c \
	%D%/search/pareto_front.c \
	%D%/search/pareto_front.h \
	%D%/search/search.c \
	%D%/search/search.h \
	%D%/search/search_advice.c \
	%D%/search/search_bound.c \
	%D%/search/search_bytes.c \
	%D%/search/search_compose.c \
	%D%/search/search_data.c \
	%D%/search/search_devs.c \
	%D%/search/search_each.c \
	%D%/search/search_fit.c \
	%D%/search/search_host.c \
	%D%/search/search_line.c \
	%D%/search/search_parts.h \
	%D%/search/search_place.c \
	%D%/search/search_print.c \
	%D%/search/search_recompute.c \
	%D%/search/search_settle.c \
	%D%/search/search_sharding.c \
	%D%/search/search_slots.c \
	%D%/search/search_space.c \
	%D%/search/search_stages.c \
	%D%/search/search_trial.h \
	%D%/search/search_try.c \
	%D%/search/search_zero.c \
	%D%/sim/sim.c \
	%D%/sim/sim.h \
	%D%/sim/sim_collect.c \
	%D%/sim/sim_fault.c \
	%D%/sim/sim_match.c \
	%D%/sim/sim_parts.h \
	%D%/sim/sim_store.c \
	%D%/solve/solve.c \
	%D%/solve/solve.h \
	%D%/solve/solve_bound.c \
	%D%/solve/solve_build.c \
	%D%/solve/solve_eliminate.c \
	%D%/solve/solve_net.c \
	%D%/solve/solve_net.h \
	%D%/solve/solve_pairs.c \
	%D%/solve/solve_plan.c \
	%D%/solve/solve_prune.c \
	%D%/solve/solve_reduce.c \
	%D%/solve/solve_search.c \
	%D%/stage/ranks.c \
	%D%/stage/ranks.h \
	%D%/stage/stage.c \
	%D%/stage/stage.h \
	%D%/stage/stage_emit.c \
	%D%/stage/stage_split.c \
	%D%/stage/stage_sums.c \
	%D%/stage/stage_units.c \
	%D%/stage/stage_update.c \
	%D%/tensor_names.c \
	%D%/weight_use.c \
	%D%/weight_use.h \
	%D%/weight_values.c

EXTRA_DIST += %D%/answer/runs.sh

# The style and the script of a report, as llmc carries them.
pictures_texts = %D%/pictures/page.css %D%/pictures/page.js \
	%D%/pictures/kinds.css
EXTRA_DIST += %D%/pictures/embed.sh $(pictures_texts)

nodist_%C%_libpasses_a_SOURCES = %D%/pictures/picture_texts.c
BUILT_SOURCES += %D%/pictures/picture_texts.c
CLEANFILES += %D%/pictures/picture_texts.c
%D%/pictures/picture_texts.c: %D%/pictures/embed.sh $(pictures_texts)
	$(AM_V_at)$(MKDIR_P) $(@D)
	$(AM_V_GEN)sh $(srcdir)/%D%/pictures/embed.sh $(srcdir) \
		$(pictures_texts) >$@.tmp && mv $@.tmp $@

# What a plug-in includes, under the same names as here.
nobase_llmcinclude_HEADERS += \
	%D%/answer/answer.h \
	%D%/kernels/kernels.h \
	%D%/memory/memory.h \
	%D%/pass.h \
	%D%/passes.def \
	%D%/plan/plan.def \
	%D%/plan/plan.h \
	%D%/price/cost.h \
	%D%/price/networks.def \
	%D%/price/price.h \
	%D%/price/target.h \
	%D%/sched/sched.h \
	%D%/search/search.h \
	%D%/stage/ranks.h

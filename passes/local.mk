# From graph to graph, and the plug-ins which do the same from outside.
noinst_LIBRARIES += %D%/libpasses.a

%C%_libpasses_a_SOURCES = \
	%D%/autodiff.c \
	%D%/crash.c \
	%D%/cse.c \
	%D%/dce.c \
	%D%/derive.c \
	%D%/derive.h \
	%D%/fold.c \
	%D%/funcs.c \
	%D%/fuse.c \
	%D%/fuse.h \
	%D%/fuse_count.c \
	%D%/fuse_facts.c \
	%D%/fuse_grow.c \
	%D%/fuse_order.c \
	%D%/fuse_sink.c \
	%D%/groups.c \
	%D%/groups.h \
	%D%/inline.c \
	%D%/kernels.h \
	%D%/kernels_print.c \
	%D%/manager.c \
	%D%/names.c \
	%D%/optimize.c \
	%D%/plan.c \
	%D%/plan_check.c \
	%D%/plan_facts.c \
	%D%/plan_keys.c \
	%D%/plan_keys.h \
	%D%/plan_print.c \
	%D%/plan_sched.c \
	%D%/plan_text.c \
	%D%/place.c \
	%D%/place.h \
	%D%/place_cells.c \
	%D%/place_choice.h \
	%D%/place_cost.c \
	%D%/place_dims.c \
	%D%/place_route.c \
	%D%/place_solve.c \
	%D%/place_take.c \
	%D%/place_write.c \
	%D%/plugin.c \
	%D%/ranks.c \
	%D%/ranks.h \
	%D%/recompute.c \
	%D%/report.c \
	%D%/sched.c \
	%D%/sched_check.c \
	%D%/sched_csv.c \
	%D%/sched_make.c \
	%D%/sched_run.c \
	%D%/sim.c \
	%D%/sim.h \
	%D%/sim_collect.c \
	%D%/sim_fault.c \
	%D%/sim_match.c \
	%D%/sim_parts.h \
	%D%/sim_store.c \
	%D%/solve.c \
	%D%/solve.h \
	%D%/solve_bound.c \
	%D%/solve_eliminate.c \
	%D%/solve_net.c \
	%D%/solve_net.h \
	%D%/solve_plan.c \
	%D%/solve_prune.c \
	%D%/solve_search.c \
	%D%/stage.c \
	%D%/stage.h \
	%D%/stage_emit.c \
	%D%/stage_split.c \
	%D%/stage_sums.c \
	%D%/stage_units.c \
	%D%/stage_update.c \
	%D%/summary.c \
	%D%/summary_print.c \
	%D%/table.c

passesincludedir = $(includedir)/llmc/passes
passesinclude_HEADERS = \
	%D%/pass.h \
	%D%/passes.def \
	%D%/plan.def \
	%D%/plan.h \
	%D%/sched.h

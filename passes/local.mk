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
	%D%/groups.c \
	%D%/groups.h \
	%D%/inline.c \
	%D%/manager.c \
	%D%/names.c \
	%D%/optimize.c \
	%D%/plugin.c \
	%D%/ranks.c \
	%D%/ranks.h \
	%D%/recompute.c \
	%D%/report.c \
	%D%/sched.c \
	%D%/sched.h \
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
	%D%/summary.c \
	%D%/summary_print.c \
	%D%/table.c

passesincludedir = $(includedir)/llmc/passes
passesinclude_HEADERS = %D%/pass.h %D%/passes.def

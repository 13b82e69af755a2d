# The language, and llmc's main.c.
bin_PROGRAMS += llmc
noinst_LIBRARIES += %D%/libfrontend.a
EXTRA_LIBRARIES += %D%/libgrammar.a

# The generated lexer and parser are compiled without our warnings. They are
# a library of their own only for that; their objects go into libfrontend.a.
AM_YFLAGS = -d -Werror -Wno-yacc
# Automake looks for this name, whatever prefix the lexer chose.
AM_LFLAGS = -olex.yy.c
BUILT_SOURCES += %D%/parser.h
%C%_libgrammar_a_CFLAGS = $(BASE_CFLAGS) $(SANITIZER_CFLAGS)
%C%_libgrammar_a_SOURCES = %D%/lexer.l %D%/parser.y

%C%_libfrontend_a_LIBADD = $(%C%_libgrammar_a_OBJECTS)
%C%_libfrontend_a_DEPENDENCIES = $(%C%_libgrammar_a_OBJECTS)
%C%_libfrontend_a_SOURCES = \
	%D%/answer.c \
	%D%/answer.h \
	%D%/append.c \
	%D%/assume.c \
	%D%/ast.c \
	%D%/ast.h \
	%D%/ast_print.c \
	%D%/autotune.c \
	%D%/calibrate.c \
	%D%/calibrate.h \
	%D%/calibrate_fit.c \
	%D%/calibrate_print.c \
	%D%/call.c \
	%D%/call.h \
	%D%/compare.c \
	%D%/compare.h \
	%D%/completion.c \
	%D%/driver.c \
	%D%/driver.h \
	%D%/dropout.c \
	%D%/emit.c \
	%D%/eval.c \
	%D%/explain.c \
	%D%/family.c \
	%D%/expr.c \
	%D%/finish.c \
	%D%/fits.c \
	%D%/frontend.h \
	%D%/functions.c \
	%D%/help.c \
	%D%/ir_text.c \
	%D%/kernels.c \
	%D%/kernels.h \
	%D%/linear.c \
	%D%/lower.c \
	%D%/lower.h \
	%D%/messages.c \
	%D%/names.c \
	%D%/ops.c \
	%D%/options.c \
	%D%/options.def \
	%D%/options.h \
	%D%/output.c \
	%D%/override.c \
	%D%/plan.c \
	%D%/plan_diff.c \
	%D%/repeat.c \
	%D%/reproducer.c \
	%D%/rerun.c \
	%D%/schedule.c \
	%D%/scope.c \
	%D%/search.c \
	%D%/settings.c \
	%D%/settings.def \
	%D%/settings_legal.c \
	%D%/split.c \
	%D%/store.c \
	%D%/target.c \
	%D%/target.h \
	%D%/tell.c \
	%D%/tensors.c \
	%D%/tsv.c \
	%D%/tsv.h \
	%D%/validate.c \
	%D%/validate.h \
	%D%/validate_collectives.c \
	%D%/validate_kernels.c \
	%D%/validate_print.c \
	%D%/validate_search.c \
	%D%/validate_train.c \
	%D%/wants.c \
	%D%/weights.c \
	%D%/whole.c \
	%D%/why_not.c \
	%D%/words.c

nodist_%C%_libfrontend_a_SOURCES = %D%/target_files.c

# A pass plug-in finds every function of ir/ and passes/ in llmc itself,
# used by llmc or not: hence whole archives and exported names.
llmc_SOURCES = %D%/main.c
llmc_LDFLAGS = $(AM_LDFLAGS) -Wl,--export-dynamic
llmc_LDADD = \
	%D%/libfrontend.a \
	codegen/libcodegen.a \
	$(WHOLE_ARCHIVE) \
	passes/libpasses.a \
	ir/libir.a \
	$(NO_WHOLE_ARCHIVE) \
	runtime/librt_llmc.a \
	$(external_libs)

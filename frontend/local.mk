# The language, and llmc's main.c.
bin_PROGRAMS += llmc
noinst_LIBRARIES += %D%/libfrontend.a
EXTRA_LIBRARIES += %D%/libgrammar.a

# The generated lexer and parser are compiled without our warnings. They are
# a library of their own only for that; their objects go into libfrontend.a.
AM_YFLAGS = -d -Werror -Wno-yacc
# Automake looks for this name, whatever prefix the lexer chose.
AM_LFLAGS = -olex.yy.c
BUILT_SOURCES += %D%/lang/parser.h
%C%_libgrammar_a_CFLAGS = $(BASE_CFLAGS) $(SANITIZER_CFLAGS) $(GRAMMAR_CFLAGS)
%C%_libgrammar_a_SOURCES = %D%/lang/lexer.l %D%/lang/parser.y

%C%_libfrontend_a_LIBADD = $(%C%_libgrammar_a_OBJECTS)
%C%_libfrontend_a_DEPENDENCIES = $(%C%_libgrammar_a_OBJECTS)
%C%_libfrontend_a_SOURCES = \
	%D%/driver.c \
	%D%/driver.h \
	%D%/eval/eval.c \
	%D%/eval/eval.h \
	%D%/eval/eval_compare.c \
	%D%/eval/eval_split.c \
	%D%/eval/eval_store.c \
	%D%/eval/eval_weights.c \
	%D%/frontend.h \
	%D%/import/import.c \
	%D%/import/import.h \
	%D%/import/import_config.c \
	%D%/import/import_export.c \
	%D%/import/import_family.c \
	%D%/import/import_family.h \
	%D%/import/import_kinds.c \
	%D%/import/import_model.c \
	%D%/import/import_places.c \
	%D%/import/import_rope.c \
	%D%/import/import_values.c \
	%D%/import/import_weights.c \
	%D%/lang/ast.c \
	%D%/lang/ast.h \
	%D%/lang/ast_print.c \
	%D%/lang/call.h \
	%D%/lang/call_args.c \
	%D%/lang/call_layer.c \
	%D%/lang/expr.c \
	%D%/lang/functions.c \
	%D%/lang/ir_text.c \
	%D%/lang/lang_append.c \
	%D%/lang/lang_export.c \
	%D%/lang/lang_inputs.c \
	%D%/lang/lang_names.c \
	%D%/lang/lang_ops.c \
	%D%/lang/lang_plan.c \
	%D%/lang/lang_target.c \
	%D%/lang/lang_unknown.c \
	%D%/lang/lang_loss.c \
	%D%/lang/lang_weights.c \
	%D%/lang/lower.c \
	%D%/lang/lower.h \
	%D%/lang/operators.c \
	%D%/lang/override.c \
	%D%/lang/settings.c \
	%D%/lang/settings.def \
	%D%/lang/settings_legal.c \
	%D%/lang/tensors.c \
	%D%/lang/words.c \
	%D%/options/completion.c \
	%D%/options/help.c \
	%D%/options/options.c \
	%D%/options/options.def \
	%D%/options/options.h \
	%D%/tool/about.c \
	%D%/tool/autotune.c \
	%D%/tool/endings.c \
	%D%/tool/explain.c \
	%D%/tool/finish.c \
	%D%/tool/input.c \
	%D%/tool/messages.c \
	%D%/tool/output.c \
	%D%/tool/plan_code.c \
	%D%/tool/plan_diff.c \
	%D%/tool/plan_kernels.c \
	%D%/tool/plan_trials.c \
	%D%/tool/rank_programs.c \
	%D%/tool/rerun.c \
	%D%/tool/schedule.c \
	%D%/tool/serve_code.c \
	%D%/tool/serve_sizes.c \
	%D%/tool/sweep.c \
	%D%/tool/sweep.h \
	%D%/tool/sweep_ask.c \
	%D%/tool/sweep_cell.c \
	%D%/tool/sweep_list.c \
	%D%/tool/sweep_print.c \
	%D%/tool/tool.c \
	%D%/tool/tool.h \
	%D%/tool/tool_answer.c \
	%D%/tool/tool_serve.c \
	%D%/tool/tool_target.c \
	%D%/tool/tool_tokenize.c \
	%D%/tool/wants.c \
	%D%/tool/whole.c \
	%D%/validate/calibrate.c \
	%D%/validate/calibrate.h \
	%D%/validate/calibrate_fit.c \
	%D%/validate/calibrate_kernels.c \
	%D%/validate/calibrate_print.c \
	%D%/validate/tsv.c \
	%D%/validate/tsv.h \
	%D%/validate/validate.c \
	%D%/validate/validate.h \
	%D%/validate/validate_collectives.c \
	%D%/validate/validate_kernels.c \
	%D%/validate/validate_print.c \
	%D%/validate/validate_row.c \
	%D%/validate/software.def \
	%D%/validate/validate_search.c \
	%D%/validate/validate_software.c \
	%D%/validate/serving.def \
	%D%/validate/serving_names.def \
	%D%/validate/validate_serve.c \
	%D%/validate/validate_serve.h \
	%D%/validate/validate_serve_cell.c \
	%D%/validate/validate_serve_engine.c \
	%D%/validate/validate_serve_names.c \
	%D%/validate/validate_serve_row.c \
	%D%/validate/validate_train.c \
	%D%/validate/validate_unread.c \
	%D%/validate/validate_worst.c

nodist_%C%_libfrontend_a_SOURCES = %D%/import/family_files.c \
	%D%/lang/target_files.c

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

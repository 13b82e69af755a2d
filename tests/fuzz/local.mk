# Each fuzzer exists twice: with replay.c as a check of the committed seeds,
# which any compiler can build, and with clang's libFuzzer by `make fuzz'.
check_PROGRAMS += \
	%D%/replay-dsl \
	%D%/replay-gguf \
	%D%/replay-import \
	%D%/replay-ir \
	%D%/replay-json \
	%D%/replay-mark \
	%D%/replay-plan \
	%D%/replay-safetensors \
	%D%/replay-sched \
	%D%/replay-schema \
	%D%/replay-target \
	%D%/replay-tokenizer \
	%D%/replay-tokens \
	%D%/replay-tsv
replay_sources = %D%/replay.c %D%/mutate.c %D%/mutate.h %D%/failing.h
%C%_replay_dsl_SOURCES = $(replay_sources) \
	%D%/fuzz-dsl.c
%C%_replay_gguf_SOURCES = $(replay_sources) \
	%D%/fuzz-gguf.c
%C%_replay_import_SOURCES = $(replay_sources) \
	%D%/fuzz-import.c
%C%_replay_ir_SOURCES = $(replay_sources) \
	%D%/fuzz-ir.c
%C%_replay_json_SOURCES = $(replay_sources) \
	%D%/fuzz-json.c
%C%_replay_mark_SOURCES = $(replay_sources) \
	%D%/fuzz-mark.c
%C%_replay_plan_SOURCES = $(replay_sources) \
	%D%/fuzz-plan.c
%C%_replay_safetensors_SOURCES = $(replay_sources) \
	%D%/fuzz-safetensors.c
%C%_replay_sched_SOURCES = $(replay_sources) \
	%D%/fuzz-sched.c
%C%_replay_schema_SOURCES = $(replay_sources) \
	%D%/fuzz-schema.c
%C%_replay_target_SOURCES = $(replay_sources) \
	%D%/fuzz-target.c
%C%_replay_tokenizer_SOURCES = $(replay_sources) \
	%D%/fuzz-tokenizer.c
%C%_replay_tokens_SOURCES = $(replay_sources) \
	%D%/fuzz-tokens.c
%C%_replay_tsv_SOURCES = $(replay_sources) \
	%D%/fuzz-tsv.c

fuzzers = \
	%D%/fuzz-dsl \
	%D%/fuzz-gguf \
	%D%/fuzz-import \
	%D%/fuzz-ir \
	%D%/fuzz-json \
	%D%/fuzz-mark \
	%D%/fuzz-plan \
	%D%/fuzz-safetensors \
	%D%/fuzz-sched \
	%D%/fuzz-schema \
	%D%/fuzz-target \
	%D%/fuzz-tokenizer \
	%D%/fuzz-tokens \
	%D%/fuzz-tsv
EXTRA_PROGRAMS += $(fuzzers)
CLEANFILES += $(fuzzers) %D%/found-*
fuzzer_ldflags = $(AM_LDFLAGS) -fsanitize=fuzzer
custom_sources = %D%/custom.c %D%/mutate.c %D%/mutate.h %D%/failing.h
%C%_fuzz_dsl_SOURCES = $(custom_sources) \
	%D%/fuzz-dsl.c
%C%_fuzz_dsl_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_gguf_SOURCES = $(custom_sources) \
	%D%/fuzz-gguf.c
%C%_fuzz_gguf_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_import_SOURCES = $(custom_sources) \
	%D%/fuzz-import.c
%C%_fuzz_import_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_ir_SOURCES = $(custom_sources) \
	%D%/fuzz-ir.c
%C%_fuzz_ir_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_json_SOURCES = $(custom_sources) \
	%D%/fuzz-json.c
%C%_fuzz_json_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_mark_SOURCES = $(custom_sources) \
	%D%/fuzz-mark.c
%C%_fuzz_mark_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_plan_SOURCES = $(custom_sources) \
	%D%/fuzz-plan.c
%C%_fuzz_plan_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_safetensors_SOURCES = $(custom_sources) \
	%D%/fuzz-safetensors.c
%C%_fuzz_safetensors_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_sched_SOURCES = $(custom_sources) \
	%D%/fuzz-sched.c
%C%_fuzz_sched_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_schema_SOURCES = $(custom_sources) \
	%D%/fuzz-schema.c
%C%_fuzz_schema_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_target_SOURCES = $(custom_sources) \
	%D%/fuzz-target.c
%C%_fuzz_target_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_tokenizer_SOURCES = $(custom_sources) \
	%D%/fuzz-tokenizer.c
%C%_fuzz_tokenizer_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_tokens_SOURCES = $(custom_sources) \
	%D%/fuzz-tokens.c
%C%_fuzz_tokens_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_tsv_SOURCES = $(custom_sources) \
	%D%/fuzz-tsv.c
%C%_fuzz_tsv_LDFLAGS = $(fuzzer_ldflags)

# Built in two steps, since a fresh folder has no generated headers yet.
fuzzers: $(BUILT_SOURCES)
	$(MAKE) $(AM_MAKEFLAGS) $(fuzzers)

# make fuzz [FUZZ_SECONDS=600] [FUZZ=dsl]
fuzz:
	top_srcdir='$(abs_srcdir)' FUZZ='$(FUZZ)' MAKE='$(MAKE)' \
	FUZZ_SECONDS='$(FUZZ_SECONDS)' sh $(srcdir)/%D%/run.sh

EXTRA_DIST += \
	%D%/dsl.dict \
	%D%/run.sh \
	%D%/seeds

.PHONY: fuzz fuzzers

# Four kinds of test, each reported by its own name:
#   NAME.llm, NAME.ir  beside NAME.out or NAME.err     tests/run-pair
#   page.md            whose examples must be true     tests/docs.sh
#   *.sh               0 passes, 77 skips; of cli/, by lib.sh
#   unit/t-*           cmocka programs
# Scripts find LLMC (the built program), top_srcdir (absolute) and CC in the
# environment. A sanitizer's exit status must not look like a user error, and
# its search for leaks fails at times on threads of libraries that are loaded
# late, unless it leaves their storage alone.  That each allocation is told by
# four callers, and 16 MiB of what was freed are kept from use, takes a fifth
# less time than the 30 and 256 MiB of their own.
AM_TESTS_ENVIRONMENT = \
	LLMC='$(abs_builddir)/llmc$(EXEEXT)'; export LLMC; \
	top_srcdir='$(abs_srcdir)'; export top_srcdir; \
	CC='$(CC)'; export CC; \
	LLMC_CACHE="$${TESTS_CACHE:-$(abs_builddir)/tests/cache}"; \
	export LLMC_CACHE; \
	ASAN_OPTIONS=exitcode=99:intercept_tls_get_addr=0; \
	ASAN_OPTIONS=$$ASAN_OPTIONS:malloc_context_size=4; \
	ASAN_OPTIONS=$$ASAN_OPTIONS:quarantine_size_mb=16; \
	export ASAN_OPTIONS; \
	UBSAN_OPTIONS=exitcode=99:print_stacktrace=1; export UBSAN_OPTIONS;

# What was compiled before: by LLVM, by NVRTC, and by the emulator. TESTS_CACHE
# names a folder that several builds can share.
clean-local: clean-cache
clean-cache:
	rm -rf tests/cache
.PHONY: clean-cache

LLM_LOG_COMPILER = sh $(srcdir)/%D%/run-pair
IR_LOG_COMPILER = sh $(srcdir)/%D%/run-pair
MD_LOG_COMPILER = sh $(srcdir)/%D%/docs.sh
SH_LOG_COMPILER = sh

# pair_tests, pair_files, cli_tests, attack_tests and doc_pages.
include %D%/pairs.mk

script_tests = \
	%D%/fuzz/replay.sh \
	%D%/layering.sh \
	%D%/order.sh \
	%D%/pairs-listed.sh \
	%D%/settings.sh \
	%D%/style.sh

EXTRA_DIST += \
	$(attack_tests) \
	$(cli_tests) \
	$(pair_files) \
	$(script_tests) \
	%D%/code.awk \
	%D%/extend/accelerator.patch \
	%D%/extend/op.patch \
	%D%/extend/schedule.patch \
	%D%/docs.sh \
	%D%/fake-cuda.c \
	%D%/fake-device.c \
	%D%/fake-driver.c \
	%D%/fake-driver.h \
	%D%/fake-memory.c \
	%D%/fake-nccl.c \
	%D%/fake-nvrtc.c \
	%D%/emulate-amx.c \
	%D%/gpu/clean.cu \
	%D%/gpu/every-80.cu \
	%D%/gpu/every-90.cu \
	%D%/gpu/faults.cu \
	%D%/gpu/run \
	%D%/verify-wrong.c \
	%D%/fuzz/dsl.dict \
	%D%/fuzz/run.sh \
	%D%/fuzz/seeds \
	%D%/installcheck.sh \
	%D%/lib.sh \
	%D%/list-pairs \
	%D%/no-cmocka.sh \
	%D%/run-pair \
	%D%/unit/t-amx.h \
	%D%/unit/t-attention.h \
	%D%/unit/t-check.h \
	%D%/unit/t-check-names.h \
	%D%/unit/t-check-places.h \
	%D%/unit/t-comm.h \
	%D%/unit/t-emulate.h \
	%D%/unit/t-eval.h \
	%D%/unit/t-ir.h \
	%D%/unit/t-context.h \
	%D%/unit/t-cpu.h \
	%D%/unit/t-dot-text.h \
	%D%/unit/t-left-out.h \
	%D%/unit/t-dot.h \
	%D%/unit/t-cuda.h \
	%D%/unit/t-kernels.h \
	%D%/unit/t-models.h \
	%D%/unit/t-nest-bodies.h \
	%D%/unit/t-ranks.h \
	%D%/unit/t-object.h \
	%D%/unit/t-random-ir.h \
	%D%/unit/t-rank.h \
	%D%/unit/t-safetensors.h \
	%D%/unit/t-scarce.h \
	%D%/unit/t-sched.h \
	%D%/unit/t-split.h \
	%D%/unit/t-store.h \
	%D%/unit/t-tcp.h \
	%D%/unit/t-search.h \
	%D%/unit/t-sim.h \
	%D%/unit/t-toy-gpu.h \
	%D%/unit/t-toy.h \
	%D%/unit/t-type.h

# A unit test is one file, %D%/unit/t-NAME.c, and one line here. make runs
# them behind all scripts, so the longest stand first.
unit_tests = \
	%D%/unit/t-search \
	%D%/unit/t-search-pins \
	%D%/unit/t-split
# Of generated code.
if HAVE_LLVM
unit_tests += \
	%D%/unit/t-attention-cpu \
	%D%/unit/t-cg-math \
	%D%/unit/t-differential \
	%D%/unit/t-dot \
	%D%/unit/t-dot-models \
	%D%/unit/t-host \
	%D%/unit/t-ll \
	%D%/unit/t-nest \
	%D%/unit/t-room
endif
unit_tests += \
	%D%/unit/t-answer \
	%D%/unit/t-append \
	%D%/unit/t-autodiff \
	%D%/unit/t-base \
	%D%/unit/t-calibrate \
	%D%/unit/t-cgroup \
	%D%/unit/t-check \
	%D%/unit/t-checkpoint \
	%D%/unit/t-comm \
	%D%/unit/t-copy \
	%D%/unit/t-cost \
	%D%/unit/t-cuda-attention \
	%D%/unit/t-cuda-dot \
	%D%/unit/t-cuda-driver \
	%D%/unit/t-cuda-dot90 \
	%D%/unit/t-cuda-nest \
	%D%/unit/t-cuda-parts \
	%D%/unit/t-cuda-ways \
	%D%/unit/t-device \
	%D%/unit/t-emulate \
	%D%/unit/t-faults \
	%D%/unit/t-front \
	%D%/unit/t-fuse \
	%D%/unit/t-hash \
	%D%/unit/t-images \
	%D%/unit/t-interp \
	%D%/unit/t-interp-ops \
	%D%/unit/t-ir \
	%D%/unit/t-lang \
	%D%/unit/t-ops \
	%D%/unit/t-local \
	%D%/unit/t-memory \
	%D%/unit/t-measure \
	%D%/unit/t-msg-wait \
	%D%/unit/t-optimize \
	%D%/unit/t-options \
	%D%/unit/t-passes \
	%D%/unit/t-pieces \
	%D%/unit/t-place \
	%D%/unit/t-plan \
	%D%/unit/t-prelude \
	%D%/unit/t-price \
	%D%/unit/t-price-run \
	%D%/unit/t-rank \
	%D%/unit/t-recompute \
	%D%/unit/t-rng \
	%D%/unit/t-run \
	%D%/unit/t-safetensors \
	%D%/unit/t-sched \
	%D%/unit/t-sched-brief \
	%D%/unit/t-sched-csv \
	%D%/unit/t-search-width \
	%D%/unit/t-secret \
	%D%/unit/t-shm-meet \
	%D%/unit/t-sim \
	%D%/unit/t-sim-ops \
	%D%/unit/t-sim-train \
	%D%/unit/t-solve \
	%D%/unit/t-st-index \
	%D%/unit/t-st-read \
	%D%/unit/t-stage \
	%D%/unit/t-summary \
	%D%/unit/t-table \
	%D%/unit/t-comm-collective \
	%D%/unit/t-target \
	%D%/unit/t-tcp \
	%D%/unit/t-tcp-guard \
	%D%/unit/t-tokens \
	%D%/unit/t-train-random \
	%D%/unit/t-verify \
	%D%/unit/t-weights \
	%D%/unit/t-world

# What a plan links, and nothing of the compiler.
check_PROGRAMS += %D%/unit/toy-rank
%C%_unit_toy_rank_LDADD = runtime/librank.a $(external_libs)
# The same with kernels of a GPU; a driver of the tests finds what runs them.
check_PROGRAMS += %D%/unit/toy-gpu
%C%_unit_toy_gpu_LDADD = runtime/librank.a codegen/libcodegen.a \
	$(external_libs)
%C%_unit_toy_gpu_LDFLAGS = $(AM_LDFLAGS) -Wl,-E
# tests/gpu/primitives.cu on a GPU, or on such a driver.  make has a rule by
# which a program x is the source of x.out, so they differ in name.
check_PROGRAMS += %D%/gpu/dump
%C%_gpu_dump_SOURCES = %D%/gpu/primitives.c %D%/gpu/primitives.h
%C%_gpu_dump_LDADD = codegen/libcodegen.a passes/libpasses.a \
	ir/libir.a runtime/librt_llmc.a $(external_libs)
%C%_gpu_dump_LDFLAGS = $(AM_LDFLAGS) -Wl,-E
rank_ldadd = runtime/librank.a $(CMOCKA_LIBS) $(external_libs)
%C%_unit_t_rank_LDADD = $(rank_ldadd)
%C%_unit_t_run_LDADD = $(rank_ldadd)

# What launches, and what carries, are the test's.
%C%_unit_t_cuda_parts_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=rt_gpu_launch \
	-Wl,--wrap=rt_nccl_calls -Wl,--wrap=rt_nccl_exchange

# The clock, and how long others keep the core, are the test's.
%C%_unit_t_msg_wait_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=rt_now_us \
	-Wl,--wrap=sched_yield -Wl,--wrap=nanosleep

# Memory that runs out where the test says so.
%C%_unit_t_checkpoint_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=realloc
%C%_unit_t_cuda_driver_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc
%C%_unit_t_device_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc

# Those of a moment last: so no core waits long for another at the end.
if HAVE_CMOCKA
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)
else
TESTS += %D%/no-cmocka.sh
endif
TESTS += $(cli_tests) $(attack_tests) $(doc_pages) $(script_tests) $(pair_tests)

# Each fuzzer exists twice: with replay.c as a check of the committed seeds,
# which any compiler can build, and with clang's libFuzzer by `make fuzz'.
check_PROGRAMS += \
	%D%/fuzz/replay-dsl \
	%D%/fuzz/replay-ir \
	%D%/fuzz/replay-json \
	%D%/fuzz/replay-mark \
	%D%/fuzz/replay-plan \
	%D%/fuzz/replay-safetensors \
	%D%/fuzz/replay-sched \
	%D%/fuzz/replay-target \
	%D%/fuzz/replay-tokens \
	%D%/fuzz/replay-tsv
replay_sources = %D%/fuzz/replay.c %D%/fuzz/mutate.c %D%/fuzz/mutate.h
%C%_fuzz_replay_dsl_SOURCES = $(replay_sources) \
	%D%/fuzz/fuzz-dsl.c
%C%_fuzz_replay_ir_SOURCES = $(replay_sources) \
	%D%/fuzz/fuzz-ir.c
%C%_fuzz_replay_json_SOURCES = $(replay_sources) \
	%D%/fuzz/fuzz-json.c
%C%_fuzz_replay_mark_SOURCES = $(replay_sources) \
	%D%/fuzz/fuzz-mark.c
%C%_fuzz_replay_plan_SOURCES = $(replay_sources) \
	%D%/fuzz/fuzz-plan.c
%C%_fuzz_replay_safetensors_SOURCES = $(replay_sources) \
	%D%/fuzz/fuzz-safetensors.c
%C%_fuzz_replay_sched_SOURCES = $(replay_sources) \
	%D%/fuzz/fuzz-sched.c
%C%_fuzz_replay_target_SOURCES = $(replay_sources) \
	%D%/fuzz/fuzz-target.c
%C%_fuzz_replay_tokens_SOURCES = $(replay_sources) \
	%D%/fuzz/fuzz-tokens.c
%C%_fuzz_replay_tsv_SOURCES = $(replay_sources) \
	%D%/fuzz/fuzz-tsv.c

fuzzers = \
	%D%/fuzz/fuzz-dsl \
	%D%/fuzz/fuzz-ir \
	%D%/fuzz/fuzz-json \
	%D%/fuzz/fuzz-mark \
	%D%/fuzz/fuzz-plan \
	%D%/fuzz/fuzz-safetensors \
	%D%/fuzz/fuzz-sched \
	%D%/fuzz/fuzz-target \
	%D%/fuzz/fuzz-tokens \
	%D%/fuzz/fuzz-tsv
EXTRA_PROGRAMS += $(fuzzers)
CLEANFILES += $(fuzzers) %D%/fuzz/found-*
fuzzer_ldflags = $(AM_LDFLAGS) -fsanitize=fuzzer
custom_sources = %D%/fuzz/custom.c %D%/fuzz/mutate.c %D%/fuzz/mutate.h
%C%_fuzz_fuzz_dsl_SOURCES = $(custom_sources) \
	%D%/fuzz/fuzz-dsl.c
%C%_fuzz_fuzz_dsl_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_fuzz_ir_SOURCES = $(custom_sources) \
	%D%/fuzz/fuzz-ir.c
%C%_fuzz_fuzz_ir_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_fuzz_json_SOURCES = $(custom_sources) \
	%D%/fuzz/fuzz-json.c
%C%_fuzz_fuzz_json_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_fuzz_mark_SOURCES = $(custom_sources) \
	%D%/fuzz/fuzz-mark.c
%C%_fuzz_fuzz_mark_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_fuzz_plan_SOURCES = $(custom_sources) \
	%D%/fuzz/fuzz-plan.c
%C%_fuzz_fuzz_plan_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_fuzz_safetensors_SOURCES = $(custom_sources) \
	%D%/fuzz/fuzz-safetensors.c
%C%_fuzz_fuzz_safetensors_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_fuzz_sched_SOURCES = $(custom_sources) \
	%D%/fuzz/fuzz-sched.c
%C%_fuzz_fuzz_sched_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_fuzz_target_SOURCES = $(custom_sources) \
	%D%/fuzz/fuzz-target.c
%C%_fuzz_fuzz_target_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_fuzz_tokens_SOURCES = $(custom_sources) \
	%D%/fuzz/fuzz-tokens.c
%C%_fuzz_fuzz_tokens_LDFLAGS = $(fuzzer_ldflags)
%C%_fuzz_fuzz_tsv_SOURCES = $(custom_sources) \
	%D%/fuzz/fuzz-tsv.c
%C%_fuzz_fuzz_tsv_LDFLAGS = $(fuzzer_ldflags)

# Built in two steps, since a fresh folder has no generated headers yet.
fuzzers: $(BUILT_SOURCES)
	$(MAKE) $(AM_MAKEFLAGS) $(fuzzers)

# make fuzz [FUZZ_SECONDS=600] [FUZZ=dsl]
fuzz:
	top_srcdir='$(abs_srcdir)' FUZZ='$(FUZZ)' MAKE='$(MAKE)' \
	FUZZ_SECONDS='$(FUZZ_SECONDS)' sh $(srcdir)/%D%/fuzz/run.sh

# Random models under random plans for as long as asked, from a seed of the
# day, in float64; then every attack in full; then, where there is LLVM, such
# models as binaries, and ranks that die at random moments.
# make soak [SOAK_SECONDS=600] [SOAK_SEED=1]
soak: llmc$(EXEEXT) runtime/librank.a %D%/unit/t-split$(EXEEXT) \
	%D%/unit/toy-rank$(EXEEXT) %D%/unit/toy-gpu$(EXEEXT)
	@$(AM_TESTS_ENVIRONMENT) \
	seed=$${SOAK_SEED:-`date +%Y%m%d`0000}; \
	SPLIT_SECONDS=$${SOAK_SECONDS:-600} SPLIT_SEED=$$seed \
		%D%/unit/t-split$(EXEEXT) && \
	for attack in $(attack_tests); do \
		ATTACKS=all sh $(srcdir)/$$attack || test $$? -eq 77 || exit 1; \
	done && \
	if test -n '$(HAVE_LLVM_TRUE)'; then exit 0; fi && \
	$(MAKE) $(AM_MAKEFLAGS) %D%/unit/t-differential$(EXEEXT) && \
	DIFF_SECONDS=$${SOAK_SECONDS:-600} DIFF_SEED=$$seed \
		%D%/unit/t-differential$(EXEEXT) && \
	FAULT_MOMENTS=200 FAULT_SEED=$$seed \
		sh $(srcdir)/%D%/cli/cpu-faults.sh

# Rewrites what the pair tests expect, and the list of them. To be followed
# by a look at the difference. make update-golden [PAIRS=tests/parse/x.llm]
update-golden: llmc$(EXEEXT)
	@$(AM_TESTS_ENVIRONMENT) status=0; UPDATE=1; export UPDATE; \
	pairs='$(PAIRS)'; \
	test -n "$$pairs" || \
		pairs=`sh $(srcdir)/%D%/list-pairs --tests $(srcdir)`; \
	for pair in $$pairs; do \
		sh $(srcdir)/%D%/run-pair $(srcdir)/$$pair || status=1; \
	done; \
	sh $(srcdir)/%D%/list-pairs $(srcdir) >pairs.tmp && \
	if cmp -s pairs.tmp $(srcdir)/%D%/pairs.mk; then rm pairs.tmp; \
	else mv pairs.tmp $(srcdir)/%D%/pairs.mk; fi || status=1; \
	exit $$status

# The headers, the plug-in interface and the program, as a user finds them.
installcheck-local:
	DESTDIR='$(DESTDIR)' bindir='$(bindir)' includedir='$(includedir)' \
	top_srcdir='$(abs_srcdir)' CC='$(CC)' \
	sh $(srcdir)/%D%/installcheck.sh

.PHONY: fuzz fuzzers soak update-golden

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
	%D%/fakes/fake-cuda.c \
	%D%/fakes/fake-device.c \
	%D%/fakes/fake-driver.c \
	%D%/fakes/fake-driver.h \
	%D%/fakes/fake-memory.c \
	%D%/fakes/fake-nccl.c \
	%D%/fakes/fake-nvrtc.c \
	%D%/fakes/emulate-amx.c \
	%D%/gpu/clean.cu \
	%D%/gpu/every-80.cu \
	%D%/gpu/every-90.cu \
	%D%/gpu/faults.cu \
	%D%/gpu/run \
	%D%/fakes/verify-wrong.c \
	%D%/fuzz/dsl.dict \
	%D%/fuzz/run.sh \
	%D%/fuzz/seeds \
	%D%/installcheck.sh \
	%D%/lib.sh \
	%D%/list-pairs \
	%D%/no-cmocka.sh \
	%D%/run-pair \
	%D%/unit/shared/t-amx.h \
	%D%/unit/shared/t-attention.h \
	%D%/unit/passes/t-check.h \
	%D%/unit/passes/t-check-names.h \
	%D%/unit/passes/t-check-places.h \
	%D%/unit/comm/t-comm.h \
	%D%/unit/cuda/t-emulate.h \
	%D%/unit/shared/t-eval.h \
	%D%/unit/shared/t-ir.h \
	%D%/unit/shared/t-context.h \
	%D%/unit/shared/t-cpu.h \
	%D%/unit/shared/t-dot-text.h \
	%D%/unit/shared/t-left-out.h \
	%D%/unit/codegen/t-dot.h \
	%D%/unit/cuda/t-cuda.h \
	%D%/unit/codegen/t-kernels.h \
	%D%/unit/shared/t-models.h \
	%D%/unit/shared/t-nest-bodies.h \
	%D%/unit/shared/t-ranks.h \
	%D%/unit/shared/t-object.h \
	%D%/unit/shared/t-random-ir.h \
	%D%/unit/runtime/t-rank.h \
	%D%/unit/data/t-safetensors.h \
	%D%/unit/shared/t-scarce.h \
	%D%/unit/sched/t-sched.h \
	%D%/unit/shared/t-split.h \
	%D%/unit/data/t-store.h \
	%D%/unit/comm/t-tcp.h \
	%D%/unit/search/t-search.h \
	%D%/unit/sim/t-sim.h \
	%D%/unit/runtime/t-toy-gpu.h \
	%D%/unit/runtime/t-toy.h \
	%D%/unit/shared/t-type.h

# A unit test is one file, %D%/unit/t-NAME.c, and one line here. make runs
# them behind all scripts, so the longest stand first.
unit_tests = \
	%D%/unit/search/t-search \
	%D%/unit/search/t-search-pins \
	%D%/unit/sim/t-split
# Of generated code.
if HAVE_LLVM
unit_tests += \
	%D%/unit/codegen/t-attention-cpu \
	%D%/unit/codegen/t-cg-math \
	%D%/unit/codegen/t-differential \
	%D%/unit/codegen/t-dot \
	%D%/unit/codegen/t-dot-models \
	%D%/unit/codegen/t-host \
	%D%/unit/codegen/t-ll \
	%D%/unit/codegen/t-nest \
	%D%/unit/codegen/t-room
endif
unit_tests += \
	%D%/unit/price/t-answer \
	%D%/unit/runtime/t-append \
	%D%/unit/passes/t-autodiff \
	%D%/unit/ir/t-base \
	%D%/unit/frontend/t-calibrate \
	%D%/unit/runtime/t-cgroup \
	%D%/unit/passes/t-check \
	%D%/unit/data/t-checkpoint \
	%D%/unit/comm/t-comm \
	%D%/unit/passes/t-copy \
	%D%/unit/price/t-cost \
	%D%/unit/cuda/t-cuda-attention \
	%D%/unit/cuda/t-cuda-dot \
	%D%/unit/cuda/t-cuda-driver \
	%D%/unit/cuda/t-cuda-dot90 \
	%D%/unit/cuda/t-cuda-nest \
	%D%/unit/cuda/t-cuda-parts \
	%D%/unit/cuda/t-cuda-ways \
	%D%/unit/runtime/t-device \
	%D%/unit/cuda/t-emulate \
	%D%/unit/comm/t-faults \
	%D%/unit/passes/t-front \
	%D%/unit/passes/t-fuse \
	%D%/unit/ir/t-hash \
	%D%/unit/cuda/t-images \
	%D%/unit/ir/t-interp \
	%D%/unit/ir/t-interp-ops \
	%D%/unit/ir/t-ir \
	%D%/unit/frontend/t-lang \
	%D%/unit/ir/t-ops \
	%D%/unit/comm/t-local \
	%D%/unit/passes/t-memory \
	%D%/unit/runtime/t-measure \
	%D%/unit/comm/t-msg-wait \
	%D%/unit/passes/t-optimize \
	%D%/unit/frontend/t-options \
	%D%/unit/passes/t-passes \
	%D%/unit/data/t-pieces \
	%D%/unit/passes/t-place \
	%D%/unit/passes/t-plan \
	%D%/unit/cuda/t-prelude \
	%D%/unit/price/t-price \
	%D%/unit/price/t-price-run \
	%D%/unit/runtime/t-rank \
	%D%/unit/passes/t-recompute \
	%D%/unit/ir/t-rng \
	%D%/unit/runtime/t-run \
	%D%/unit/data/t-safetensors \
	%D%/unit/sched/t-sched \
	%D%/unit/sched/t-sched-brief \
	%D%/unit/sched/t-sched-csv \
	%D%/unit/search/t-search-width \
	%D%/unit/comm/t-secret \
	%D%/unit/comm/t-shm-meet \
	%D%/unit/sim/t-sim \
	%D%/unit/sim/t-sim-ops \
	%D%/unit/sim/t-sim-train \
	%D%/unit/passes/t-solve \
	%D%/unit/data/t-st-index \
	%D%/unit/data/t-st-read \
	%D%/unit/passes/t-stage \
	%D%/unit/passes/t-summary \
	%D%/unit/ir/t-table \
	%D%/unit/comm/t-comm-collective \
	%D%/unit/price/t-target \
	%D%/unit/comm/t-tcp \
	%D%/unit/comm/t-tcp-guard \
	%D%/unit/data/t-tokens \
	%D%/unit/passes/t-train-random \
	%D%/unit/ir/t-verify \
	%D%/unit/data/t-weights \
	%D%/unit/comm/t-world

# What a plan links, and nothing of the compiler.
check_PROGRAMS += %D%/unit/runtime/toy-rank
%C%_unit_runtime_toy_rank_LDADD = runtime/librank.a $(external_libs)
# The same with kernels of a GPU; a driver of the tests finds what runs them.
check_PROGRAMS += %D%/unit/runtime/toy-gpu
%C%_unit_runtime_toy_gpu_LDADD = runtime/librank.a codegen/libcodegen.a \
	$(external_libs)
%C%_unit_runtime_toy_gpu_LDFLAGS = $(AM_LDFLAGS) -Wl,-E
# tests/gpu/primitives.cu on a GPU, or on such a driver.  make has a rule by
# which a program x is the source of x.out, so they differ in name.
check_PROGRAMS += %D%/gpu/dump
%C%_gpu_dump_SOURCES = %D%/gpu/primitives.c %D%/gpu/primitives.h
%C%_gpu_dump_LDADD = codegen/libcodegen.a passes/libpasses.a \
	ir/libir.a runtime/librt_llmc.a $(external_libs)
%C%_gpu_dump_LDFLAGS = $(AM_LDFLAGS) -Wl,-E
rank_ldadd = runtime/librank.a $(CMOCKA_LIBS) $(external_libs)
%C%_unit_runtime_t_rank_LDADD = $(rank_ldadd)
%C%_unit_runtime_t_run_LDADD = $(rank_ldadd)

# What launches, and what carries, are the test's.
%C%_unit_cuda_t_cuda_parts_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=rt_gpu_launch \
	-Wl,--wrap=rt_nccl_calls -Wl,--wrap=rt_nccl_exchange

# The clock, and how long others keep the core, are the test's.
%C%_unit_comm_t_msg_wait_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=rt_now_us \
	-Wl,--wrap=sched_yield -Wl,--wrap=nanosleep

# Memory that runs out where the test says so.
%C%_unit_data_t_checkpoint_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=realloc
%C%_unit_cuda_t_cuda_driver_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc
%C%_unit_runtime_t_device_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc

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
soak: llmc$(EXEEXT) runtime/librank.a %D%/unit/sim/t-split$(EXEEXT) \
	%D%/unit/runtime/toy-rank$(EXEEXT) %D%/unit/runtime/toy-gpu$(EXEEXT)
	@$(AM_TESTS_ENVIRONMENT) \
	seed=$${SOAK_SEED:-`date +%Y%m%d`0000}; \
	SPLIT_SECONDS=$${SOAK_SECONDS:-600} SPLIT_SEED=$$seed \
		%D%/unit/sim/t-split$(EXEEXT) && \
	for attack in $(attack_tests); do \
		ATTACKS=all sh $(srcdir)/$$attack || test $$? -eq 77 || exit 1; \
	done && \
	if test -n '$(HAVE_LLVM_TRUE)'; then exit 0; fi && \
	$(MAKE) $(AM_MAKEFLAGS) %D%/unit/codegen/t-differential$(EXEEXT) && \
	DIFF_SECONDS=$${SOAK_SECONDS:-600} DIFF_SEED=$$seed \
		%D%/unit/codegen/t-differential$(EXEEXT) && \
	FAULT_MOMENTS=200 FAULT_SEED=$$seed \
		sh $(srcdir)/%D%/cli/run/cpu-faults.sh

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

# Four kinds of test, each of which automake reports by its name:
#   FOLDER/about.pairs the pairs of FOLDER, one by one    tests/run-pairs
#   page.md            whose examples must be true        tests/docs.sh
#   *.sh               0 passes, 77 skips; of cli/, by lib.sh
#   unit/FOLDER/t-*    cmocka programs
# Scripts find LLMC (the built program), top_srcdir (absolute) and CC in the
# environment. A sanitizer's exit status is 99, which no user error has; its
# search for leaks fails at times on threads of libraries that are loaded late,
# unless intercept_tls_get_addr is off.  With four callers for each allocation,
# and 16 MiB of freed memory kept from use, tests take a fifth less time than
# with the defaults, 30 and 256 MiB.
AM_TESTS_ENVIRONMENT = \
	LLMC='$(abs_builddir)/llmc$(EXEEXT)'; export LLMC; \
	top_srcdir='$(abs_srcdir)'; export top_srcdir; \
	LLMC_PROGRESS=0; export LLMC_PROGRESS; \
	CC='$(CC)'; export CC; \
	LLMC_CACHE="$${TESTS_CACHE:-$(abs_builddir)/tests/cache}"; \
	export LLMC_CACHE; \
	TESTS_SECONDS="$${TESTS_SECONDS:-$(abs_builddir)/tests/seconds}"; \
	export TESTS_SECONDS; \
	ASAN_OPTIONS=exitcode=99:intercept_tls_get_addr=0; \
	ASAN_OPTIONS=$$ASAN_OPTIONS:malloc_context_size=4; \
	ASAN_OPTIONS=$$ASAN_OPTIONS:quarantine_size_mb=16; \
	export ASAN_OPTIONS; \
	UBSAN_OPTIONS=exitcode=99:print_stacktrace=1; export UBSAN_OPTIONS;

# A program of a test runs once, and may take longer to compile well than that.
%D%/%.$(OBJEXT): CFLAGS += $(TESTS_CFLAGS)

# What was compiled before: by LLVM, by NVRTC, and by the emulator. TESTS_CACHE
# names a folder that several builds can share.
clean-local: clean-cache
clean-cache:
	rm -rf tests/cache
.PHONY: clean-cache

# What each test computes is written into tests/seconds of the build folder, or
# the file TESTS_SECONDS: tests/slowest reads it.
CLEANFILES += %D%/seconds
LOG_DRIVER = $(SHELL) $(srcdir)/%D%/run-timed $(SHELL) \
	$(top_srcdir)/config/test-driver
MD_LOG_DRIVER = $(LOG_DRIVER)
SH_LOG_DRIVER = $(LOG_DRIVER)
PAIRS_LOG_DRIVER = AM_TAP_AWK='$(AWK)' $(SHELL) $(srcdir)/%D%/run-timed \
	$(SHELL) $(top_srcdir)/config/tap-driver.sh
PAIRS_LOG_COMPILER = sh $(srcdir)/%D%/run-pairs
MD_LOG_COMPILER = sh $(srcdir)/%D%/docs.sh
SH_LOG_COMPILER = sh

# Pairs: NAME.llm or NAME.ir beside NAME.out or NAME.err. A new pair is two
# files in one of these folders; a new folder has an about.pairs, a line that
# says what its pairs test, and is listed here.
pair_folders = \
	%D%/ir/attributes \
	%D%/ir/layers \
	%D%/ir/placed \
	%D%/ir/settings \
	%D%/ir/text \
	%D%/ir/types \
	%D%/lang/arguments \
	%D%/lang/calls \
	%D%/lang/dims \
	%D%/lang/dropout \
	%D%/lang/export \
	%D%/lang/families \
	%D%/lang/hints \
	%D%/lang/layers \
	%D%/lang/lexer \
	%D%/lang/loss \
	%D%/lang/models \
	%D%/lang/names \
	%D%/lang/numbers \
	%D%/lang/operands \
	%D%/lang/ops \
	%D%/lang/repeats \
	%D%/lang/rotary \
	%D%/lang/settings \
	%D%/lang/settings-values \
	%D%/lang/shape \
	%D%/lang/shape-views \
	%D%/lang/syntax \
	%D%/lang/syntax-missing \
	%D%/lang/tied \
	%D%/lang/types \
	%D%/lang/warnings \
	%D%/passes/check \
	%D%/passes/join \
	%D%/passes/reduce \
	%D%/passes/refine \
	%D%/passes/stage \
	%D%/plan/refused \
	%D%/plan/text \
	%D%/target/absent \
	%D%/target/files \
	%D%/target/names \
	%D%/target/valid

attack_tests = \
	%D%/attack/rendezvous-file.sh \
	%D%/attack/cgroup-memory.sh \
	%D%/attack/checkpoint-forged.sh \
	%D%/attack/checkpoint-links.sh \
	%D%/attack/checkpoint-lock.sh \
	%D%/attack/emulator-cache.sh \
	%D%/attack/full-log.sh \
	%D%/attack/local-user.sh \
	%D%/attack/tcp-rendezvous.sh \
	%D%/attack/warned.sh

script_tests = \
	%D%/fuzz/replay.sh
release_script_tests = \
	%D%/circles.sh \
	%D%/layering.sh \
	%D%/links.sh \
	%D%/listed.sh \
	%D%/names.sh \
	%D%/order.sh \
	%D%/settings.sh \
	%D%/style.sh

# What tests/cli/run/interop.sh compares files with.
check_PROGRAMS += %D%/interop/gradients
%C%_interop_gradients_LDADD = runtime/librank.a $(external_libs)

# cli_tests; unit_tests and their programs; those of the release; the fuzzers.
include %D%/cli/local.mk
include %D%/unit/local.mk
include %D%/fuzz/local.mk

# Folders are copied whole: `dist-hook' removes what a build leaves in them.
EXTRA_DIST += \
	$(release_script_tests) \
	$(script_tests) \
	%D%/attack \
	%D%/cli \
	%D%/code.awk \
	%D%/data \
	%D%/docs.sh \
	%D%/extend \
	%D%/fakes \
	%D%/gpu/clean.cu \
	%D%/gpu/every-80.cu \
	%D%/gpu/every-90.cu \
	%D%/gpu/faults.cu \
	%D%/gpu/moves.cu \
	%D%/gpu/primitives.cu \
	%D%/gpu/primitives.out \
	%D%/gpu/run \
	%D%/gpu/sass.txt \
	%D%/installcheck.sh \
	%D%/interop/check_balance.py \
	%D%/interop/check_export.py \
	%D%/interop/check_perplexity.py \
	%D%/interop/events-of-tensorboard \
	%D%/interop/gguf \
	%D%/interop/make_fixtures.py \
	%D%/interop/make_gguf.py \
	%D%/interop/make_perplexity.py \
	%D%/interop/openai_client.py \
	%D%/interop/make_bf16.py \
	%D%/interop/make_cached.py \
	%D%/interop/make_quantised.py \
	%D%/interop/make_rounded.py \
	%D%/interop/perplexity \
	%D%/interop/public \
	%D%/interop/quantised \
	%D%/interop/rounded \
	%D%/interop/tiny \
	%D%/interop/tokenizers_compare.py \
	%D%/interop/tokenizers_fixtures.py \
	%D%/interop/tokenizers_gguf.py \
	%D%/interop/tokenizers_random.py \
	%D%/interop/tokenizers_train.py \
	%D%/ir \
	%D%/lang \
	%D%/lib.sh \
	%D%/no-cmocka.sh \
	%D%/passes \
	%D%/plan \
	%D%/run-pair \
	%D%/run-pairs \
	%D%/run-timed \
	%D%/slowest \
	%D%/target

dist-hook: dist-clean-tests
dist-clean-tests:
	find $(distdir)/tests -type f \( -name '*.log' -o -name '*.trs' \
		-o -name '*~' -o -name '*.orig' -o -name '*.rej' -o -name '*.o' \
		\) -exec rm -f {} +
.PHONY: dist-clean-tests

# tests/gpu/primitives.cu on a GPU, or on such a driver.  make has a rule by
# which a program x is the source of x.out, so they differ in name.
check_PROGRAMS += %D%/gpu/dump
%C%_gpu_dump_SOURCES = %D%/gpu/primitives.c %D%/gpu/primitives.h
%C%_gpu_dump_LDADD = codegen/libcodegen.a passes/libpasses.a \
	ir/libir.a runtime/libemulate.a runtime/librt_llmc.a $(external_libs)
%C%_gpu_dump_LDFLAGS = $(AM_LDFLAGS) -Wl,-E

# Measures what `llmc --trials` writes, on a GPU or on such a driver.
check_PROGRAMS += %D%/gpu/trials
%C%_gpu_trials_SOURCES = %D%/gpu/trials.c %D%/gpu/trials.h \
	%D%/gpu/trials_read.c
%C%_gpu_trials_LDADD = runtime/librt_llmc.a $(external_libs)
%C%_gpu_trials_LDFLAGS = $(AM_LDFLAGS) -Wl,-E

# A communicator of one rank, through NCCL: tests/gpu/run.
check_PROGRAMS += %D%/gpu/nccl
%C%_gpu_nccl_SOURCES = %D%/gpu/nccl_alone.c
%C%_gpu_nccl_LDADD = runtime/librank.a $(external_libs)
%C%_gpu_nccl_LDFLAGS = $(AM_LDFLAGS) -Wl,-E

# Reads what a disassembler prints of kernels: bench/gpu/sass.
check_PROGRAMS += %D%/gpu/sass
%C%_gpu_sass_SOURCES = %D%/gpu/sass.c %D%/gpu/sass.h %D%/gpu/sass_flow.c
%C%_gpu_sass_LDADD =

# Kernels of whole models, which takes minutes: make sass [SASS_CASES="gpt2"]
sass: llmc$(EXEEXT) %D%/gpu/sass$(EXEEXT)
	@$(AM_TESTS_ENVIRONMENT) \
	SASS=$(abs_builddir)/%D%/gpu/sass$(EXEEXT) \
		sh $(srcdir)/bench/gpu/sass check $(SASS_CASES)
.PHONY: sass

# Sanitizers find mistakes of our own C on the ways through it that a test goes,
# and such a build is three to five times slower.  release_*_tests are not run
# there: they go no way of our C that others do not go, and take their time in
# LLVM, NVRTC, a C compiler, or code that these made, in which there is no
# sanitizer; or in many searches whose results they compare; or they are about
# the text of the sources, about benches, and about a build of a changed copy.
# So are the pages in release_doc_pages.
if SANITIZERS
EXTRA_PROGRAMS += $(release_unit_tests)
CLEANFILES += $(release_unit_tests)
# Other tests try fewer cases: an eighth by SLOW_TESTS (t-cases.h), or those of
# another seed; and what a release runs as this CPU is run as a masked one, and
# the other way round.
AM_TESTS_ENVIRONMENT += \
	SLOW_TESTS=$${SLOW_TESTS-skip}; export SLOW_TESTS; \
	T_CPU_SWAP=$${T_CPU_SWAP-1}; export T_CPU_SWAP; \
	SPLIT_SEED=$${SPLIT_SEED-401}; export SPLIT_SEED; \
	SPLIT_PAIRS=$${SPLIT_PAIRS-20}; export SPLIT_PAIRS; \
	CHECK_PLACES=$${CHECK_PLACES-1}; export CHECK_PLACES; \
	CHECK_PAIRS=$${CHECK_PAIRS-20}; export CHECK_PAIRS; \
	MEMORY_PAIRS=$${MEMORY_PAIRS-15}; export MEMORY_PAIRS; \
	SEARCH_BOUNDS=$${SEARCH_BOUNDS-8}; export SEARCH_BOUNDS; \
	SEARCH_PLANS=$${SEARCH_PLANS-4}; export SEARCH_PLANS;
else
if HAVE_CMOCKA
check_PROGRAMS += $(release_unit_tests)
TESTS += $(release_unit_tests)
endif
TESTS += $(release_cli_tests)
endif

# The quickest tests come last, so that no core waits long for another: pages
# of a release search for whole models.
if !SANITIZERS
TESTS += $(release_doc_pages)
endif
if HAVE_CMOCKA
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)
else
TESTS += %D%/no-cmocka.sh
endif
TESTS += $(cli_tests) $(attack_tests) $(doc_pages)
if !SANITIZERS
TESTS += $(release_script_tests)
endif
TESTS += $(script_tests) $(pair_folders:=/about.pairs)

# Of these a fifth is run on each day by `make check-today', which is what
# ./quickstart check does under sanitizers: they take most of the time there, and
# of our C go few ways that no other test goes.  With SLOW_TESTS=1 it runs all of
# them.  The release runs all on each day, and so does `make check' in any build.
# Those that take longest come first, so that days take about as long.  Where a
# test has cases of the day, the number of its days is no multiple of five, so
# that each case has its day here, too.  Of t-dot-rows, t-nest, t-dot and
# t-attention-rows one runs on most days, and tells as which CPUs code was run.
in_turns = \
	%D%/unit/codegen/t-dot-rows \
	%D%/cli/gpu/trials.sh \
	%D%/unit/search/t-search \
	%D%/unit/codegen/t-attention-rows \
	%D%/unit/codegen/t-nest \
	%D%/cli/run/tcp.sh \
	%D%/unit/codegen/t-dot \
	%D%/cli/run/settings.sh \
	%D%/cli/command/plugin-plan.sh \
	%D%/cli/run/http.sh \
	%D%/cli/run/cpu-faults.sh \
	%D%/cli/run/mpi.sh \
	%D%/cli/run/verify.sh \
	%D%/cli/search/sweep.sh \
	%D%/cli/run/served.sh \
	%D%/cli/search/calibrate.sh \
	%D%/unit/cuda/t-prelude \
	%D%/cli/run/cpu-refusals.sh \
	%D%/unit/passes/t-memory \
	%D%/unit/sim/t-split \
	%D%/unit/passes/t-stage \
	%D%/cli/gpu/gpu.sh \
	docs/answer.md \
	%D%/unit/passes/t-check \
	%D%/unit/passes/t-solve \
	%D%/cli/passes/train.sh \
	%D%/unit/passes/t-recompute \
	%D%/unit/cuda/t-mutants \
	%D%/unit/sim/t-sim-train \
	%D%/cli/run/sample.sh \
	%D%/cli/run/trace.sh \
	%D%/cli/search/report.sh \
	%D%/cli/run/text.sh \
	%D%/cli/lang/examples.sh \
	%D%/cli/run/data.sh \
	%D%/cli/run/tokenize.sh \
	%D%/cli/passes/arena.sh \
	docs/report.md \
	docs/target.md \
	docs/serving.md \
	%D%/cli/passes/activations.sh \
	%D%/cli/run/export.sh \
	%D%/cli/run/lora.sh \
	docs/calibrate.md \
	%D%/cli/run/rank.sh \
	%D%/unit/passes/t-fuse \
	%D%/unit/passes/t-train-random \
	docs/walkthrough.md \
	%D%/unit/frontend/t-calibrate \
	%D%/unit/passes/t-copy \
	%D%/cli/run/weights.sh \
	%D%/unit/passes/t-autodiff \
	%D%/unit/sim/t-ragged \
	docs/memory.md \
	%D%/cli/passes/place.sh \
	%D%/cli/command/interrupted.sh \
	%D%/unit/passes/t-solve-ladders

# Of these one half is run on a day, and the other on the next: what a compiler
# makes of a module that it has read.  What reads what others wrote, and what
# exchanges messages with others, is run on each day.  None has cases of the day.
in_halves = \
	%D%/unit/codegen/t-host \
	%D%/unit/codegen/t-ll \
	%D%/unit/cuda/t-emulate \
	%D%/unit/cuda/t-moves \
	%D%/unit/cuda/t-cuda-driver \
	%D%/unit/cuda/t-cuda-parts \
	%D%/unit/cuda/t-cuda-slots \
	%D%/unit/cuda/t-images \
	%D%/unit/frontend/t-serving-names \
	%D%/unit/frontend/t-software \
	%D%/unit/ir/t-interp \
	%D%/unit/ir/t-interp-ops \
	%D%/unit/ir/t-memo \
	%D%/unit/ir/t-ops \
	%D%/unit/ir/t-rng \
	%D%/unit/ir/t-rope \
	%D%/unit/passes/t-optimize \
	%D%/unit/passes/t-passes \
	%D%/unit/passes/t-pictures \
	%D%/unit/passes/t-place \
	%D%/unit/passes/t-pooling \
	%D%/unit/passes/t-tuples \
	%D%/unit/passes/t-solve-cost \
	%D%/unit/passes/t-summary \
	%D%/unit/passes/t-weight-values \
	%D%/unit/price/t-accuracy \
	%D%/unit/price/t-answer \
	%D%/unit/price/t-cost \
	%D%/unit/price/t-own \
	%D%/unit/price/t-price \
	%D%/unit/price/t-price-launch \
	%D%/unit/price/t-price-run \
	%D%/unit/price/t-widened \
	%D%/unit/sched/t-sched \
	%D%/unit/sched/t-sched-brief \
	%D%/unit/sim/t-sim \
	%D%/unit/sim/t-sim-ops \
	%D%/cli/command/launches.sh \
	%D%/cli/command/plugin.sh \
	%D%/cli/command/reproducer.sh \
	%D%/cli/lang/attention.sh \
	%D%/cli/lang/balance.sh \
	%D%/cli/lang/dim.sh \
	%D%/cli/lang/dropout.sh \
	%D%/cli/lang/loss.sh \
	%D%/cli/passes/eval.sh \
	%D%/cli/passes/pipeline.sh \
	%D%/cli/passes/schedule.sh \
	%D%/cli/search/cells.sh \
	%D%/cli/search/first.sh \
	%D%/cli/search/placed.sh \
	docs/cost.md \
	docs/design.md \
	docs/import.md \
	docs/kernels.md \
	docs/language.md \
	docs/passes.md \
	docs/plan.md \
	docs/ranks.md \
	docs/schedule.md \
	docs/trace.md \
	%D%/passes/check/about.pairs \
	%D%/passes/join/about.pairs \
	%D%/passes/reduce/about.pairs \
	%D%/passes/refine/about.pairs \
	%D%/passes/stage/about.pairs

# Sets `left' to those that have no turn, `some' to the others of TESTS, and
# `programs' to what is built for these; none of it has spaces in its names.
choose_today = \
	day=$${TESTS_DAY:-$$((`date +%s` / 86400))}; \
	echo "TESTS_DAY=$$day"; \
	left=' ' some= programs= i=0; \
	for test in $(in_turns); do \
		i=$$((i + 1)); \
		case $${SLOW_TESTS-}:$$(((i + day) % 5)) in \
		1:* | *:0) ;; \
		*) left="$$left$$test " ;; \
		esac; \
	done; \
	i=0; \
	for test in $(in_halves); do \
		i=$$((i + 1)); \
		case $${SLOW_TESTS-}:$$(((i + day) % 2)) in \
		1:* | *:0) ;; \
		*) left="$$left$$test " ;; \
		esac; \
	done; \
	for test in $(TESTS); do \
		case "$$left" in \
		*" $$test "*) ;; \
		*) some="$$some $$test" ;; \
		esac; \
	done; \
	for program in $(check_PROGRAMS); do \
		case "$$left" in \
		*" $$program "*) ;; \
		*) programs="$$programs $$program" ;; \
		esac; \
	done

check-today:
	@$(choose_today); \
	$(MAKE) $(AM_MAKEFLAGS) check TESTS="$$some" check_PROGRAMS="$$programs"

# What these tests need, without running them.
programs-today:
	@$(choose_today); \
	$(MAKE) $(AM_MAKEFLAGS) check TESTS= check_PROGRAMS="$$programs"
.PHONY: check-today programs-today

# Those of which make check tries some cases alone, as t-cases.h has it, or those
# of the day.
soaked_tests = \
	%D%/cli/command/benches.sh \
	%D%/cli/command/extending.sh \
	%D%/cli/gpu/cuda-build.sh \
	%D%/cli/gpu/cuda-pairs.sh \
	%D%/cli/gpu/cuda-train.sh \
	%D%/cli/gpu/gpu-offload.sh \
	%D%/cli/gpu/gpu-run.sh \
	%D%/cli/gpu/gpu-sums.sh \
	%D%/cli/lang/families.sh \
	%D%/cli/passes/offload.sh \
	%D%/cli/passes/recompute.sh \
	%D%/cli/run/cpu-resident.sh \
	%D%/cli/run/http.sh \
	%D%/cli/run/http-crowd.sh \
	%D%/cli/run/interop.sh \
	%D%/cli/run/join.sh \
	%D%/cli/run/mpi.sh \
	%D%/cli/run/served-groups.sh \
	%D%/cli/run/served-rounded.sh \
	%D%/cli/run/served-traces.sh \
	%D%/cli/run/tcp.sh \
	%D%/cli/search/memo.sh \
	%D%/cli/search/nothing-fits.sh \
	%D%/cli/search/search-plans.sh \
	%D%/cli/search/search.sh \
	%D%/unit/codegen/t-attention-rows \
	%D%/unit/codegen/t-dot \
	%D%/unit/codegen/t-dot-rows \
	%D%/unit/codegen/t-nest \
	%D%/unit/cuda/t-cuda-attention \
	%D%/unit/cuda/t-cuda-attention-rows \
	%D%/unit/cuda/t-cuda-dot \
	%D%/unit/cuda/t-cuda-dot90 \
	%D%/unit/cuda/t-cuda-launch \
	%D%/unit/cuda/t-cuda-nest \
	%D%/unit/search/t-search-pins \
	%D%/unit/sim/t-ragged \
	%D%/unit/sim/t-split

# Random models under random plans for as long as asked, from a seed of the
# day, in float64; then every attack in full; then all cases of tests of which
# make check tries some, and, where there is LLVM, such models as binaries, and
# ranks that die at random moments, of runs and of a server.
# make soak [SOAK_SECONDS=600] [SOAK_SEED=1]
soak: llmc$(EXEEXT) runtime/librank.a runtime/emulate.so \
	%D%/unit/sim/t-split$(EXEEXT) %D%/unit/runtime/toy-rank$(EXEEXT) \
	%D%/unit/runtime/toy-gpu$(EXEEXT)
	@$(AM_TESTS_ENVIRONMENT) \
	seed=$${SOAK_SEED:-`date +%Y%m%d`0000}; \
	SPLIT_SECONDS=$${SOAK_SECONDS:-600} SPLIT_SEED=$$seed \
		%D%/unit/sim/t-split$(EXEEXT) && \
	for attack in $(attack_tests); do \
		ATTACKS=all sh $(srcdir)/$$attack || test $$? -eq 77 || exit 1; \
	done && \
	if test -n '$(HAVE_LLVM_TRUE)'; then exit 0; fi && \
	SLOW_TESTS=1 $(MAKE) $(AM_MAKEFLAGS) check \
		TESTS='$(soaked_tests)' && \
	$(MAKE) $(AM_MAKEFLAGS) %D%/unit/codegen/t-differential$(EXEEXT) && \
	DIFF_SECONDS=$${SOAK_SECONDS:-600} DIFF_SEED=$$seed \
		%D%/unit/codegen/t-differential$(EXEEXT) && \
	FAULT_MOMENTS=200 FAULT_SEED=$$seed \
		sh $(srcdir)/%D%/cli/run/cpu-faults.sh && \
	{ FAULT_MOMENTS=100 FAULT_SEED=$$seed \
		sh $(srcdir)/%D%/cli/run/served-faults.sh || \
		test $$? -eq 77; }

# Plants every fault of tests/unit/cuda/mutants*.def, of t-cuda-attention and of
# t-cuda-attention-rows in a kernel: none is missed.
mutations: %D%/unit/cuda/t-mutants$(EXEEXT) \
	%D%/unit/cuda/t-cuda-attention$(EXEEXT) \
	%D%/unit/cuda/t-cuda-attention-rows$(EXEEXT)
	@$(AM_TESTS_ENVIRONMENT) SLOW_TESTS=1; export SLOW_TESTS; \
	MUTANTS=all %D%/unit/cuda/t-mutants$(EXEEXT) && \
	T_ONLY='planted*' %D%/unit/cuda/t-cuda-attention$(EXEEXT) && \
	T_ONLY='planted*' %D%/unit/cuda/t-cuda-attention-rows$(EXEEXT)

# Runs the pairs that PAIRS names, files or folders of the source folder, and
# prints what differs: make check-pairs PAIRS=tests/lang/shape/residual.llm
# `make update-golden' writes what llmc prints into the .out and .err files
# instead, of all pairs where PAIRS is empty: read the difference then.
check-pairs update-golden: llmc$(EXEEXT)
	@$(AM_TESTS_ENVIRONMENT) status=0; \
	test $@ = check-pairs || { UPDATE=1; export UPDATE; }; \
	pairs='$(PAIRS)'; \
	for pair in `cd $(srcdir) && find $${pairs:-$(pair_folders)} -type f \
		\( -name '*.llm' -o -name '*.ir' \) -print | sort`; do \
		sh $(srcdir)/%D%/run-pair $(srcdir)/$$pair || status=1; \
	done; \
	exit $$status

# What published runs took over what is predicted of them, which the answer's
# interval is made of: to be written again when the cost model changes.
update-runs: llmc$(EXEEXT)
	$(AM_V_GEN)sh $(srcdir)/passes/answer/runs.sh ./llmc$(EXEEXT) \
		$(srcdir)/%D%/data >runs.def.tmp && \
	mv runs.def.tmp $(srcdir)/passes/answer/runs.def

# The headers, the plug-in interface and the program, as a user finds them.
installcheck-local:
	DESTDIR='$(DESTDIR)' bindir='$(bindir)' includedir='$(includedir)' \
	pkglibdir='$(pkglibdir)' \
	top_srcdir='$(abs_srcdir)' CC='$(CC)' \
	sh $(srcdir)/%D%/installcheck.sh

.PHONY: check-pairs mutations soak update-golden update-runs

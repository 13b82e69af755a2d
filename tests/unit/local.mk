# Unit tests: a program each, of one file, FOLDER/t-NAME.c, and one line here.
# make starts tests in the order of TESTS: the longest come first.
unit_tests = \
	%D%/search/t-search \
	%D%/sim/t-split \
	%D%/sim/t-ragged
# Of generated code.
if HAVE_LLVM
unit_tests += \
	%D%/codegen/t-attention-rows \
	%D%/codegen/t-dot \
	%D%/codegen/t-dot-rows \
	%D%/codegen/t-host \
	%D%/codegen/t-ll \
	%D%/codegen/t-nest \
	%D%/codegen/t-single
endif
unit_tests += \
	%D%/price/t-accuracy \
	%D%/price/t-answer \
	%D%/runtime/t-append \
	%D%/passes/t-autodiff \
	%D%/ir/t-base \
	%D%/frontend/t-calibrate \
	%D%/frontend/t-serving-names \
	%D%/frontend/t-software \
	%D%/runtime/t-cgroup \
	%D%/passes/t-check \
	%D%/data/t-checkpoint \
	%D%/comm/t-comm \
	%D%/passes/t-copy \
	%D%/price/t-cost \
	%D%/cuda/t-cuda-driver \
	%D%/cuda/t-cuda-parts \
	%D%/cuda/t-cuda-beside \
	%D%/cuda/t-cuda-slots \
	%D%/cuda/t-mutants \
	%D%/runtime/t-device \
	%D%/frontend/t-import \
	%D%/frontend/t-import-families \
	%D%/cuda/t-emulate \
	%D%/cuda/t-moves \
	%D%/data/t-export \
	%D%/comm/t-faults \
	%D%/passes/t-fuse \
	%D%/ir/t-hash \
	%D%/cuda/t-images \
	%D%/runtime/t-inputs \
	%D%/ir/t-interp \
	%D%/ir/t-interp-ops \
	%D%/ir/t-ir \
	%D%/frontend/t-lang \
	%D%/ir/t-ops \
	%D%/comm/t-local \
	%D%/ir/t-memo \
	%D%/passes/t-memory \
	%D%/passes/t-pictures \
	%D%/runtime/t-measure \
	%D%/comm/t-msg-wait \
	%D%/comm/t-queue \
	%D%/passes/t-optimize \
	%D%/frontend/t-options \
	%D%/passes/t-passes \
	%D%/data/t-pieces \
	%D%/passes/t-place \
	%D%/passes/t-plan \
	%D%/cuda/t-prelude \
	%D%/price/t-price \
	%D%/price/t-own \
	%D%/price/t-price-launch \
	%D%/price/t-price-run \
	%D%/runtime/t-rank \
	%D%/passes/t-recompute \
	%D%/ir/t-rng \
	%D%/ir/t-rope \
	%D%/runtime/t-run \
	%D%/runtime/t-sample-text \
	%D%/data/t-safetensors \
	%D%/sched/t-sched \
	%D%/search/t-space-order \
	%D%/sched/t-sched-brief \
	%D%/sched/t-sched-csv \
	%D%/comm/t-secret \
	%D%/comm/t-shm-meet \
	%D%/serve/t-calls \
	%D%/serve/t-talks \
	%D%/serve/t-draw \
	%D%/serve/t-grammar \
	%D%/serve/t-kv \
	%D%/serve/t-logprobs \
	%D%/serve/t-pattern \
	%D%/serve/t-speed \
	%D%/serve/t-reasoned \
	%D%/serve/t-reply \
	%D%/serve/t-scarce-serve \
	%D%/serve/t-scheduler \
	%D%/serve/t-serve \
	%D%/serve/t-serve-own \
	%D%/serve/t-serve-priced \
	%D%/serve/t-stored \
	%D%/sim/t-sim \
	%D%/sim/t-sim-ops \
	%D%/sim/t-sim-train \
	%D%/passes/t-pooling \
	%D%/passes/t-tuples \
	%D%/passes/t-solve \
	%D%/passes/t-solve-cost \
	%D%/passes/t-solve-ladders \
	%D%/data/t-st-index \
	%D%/data/t-st-read \
	%D%/passes/t-stage \
	%D%/passes/t-summary \
	%D%/ir/t-table \
	%D%/comm/t-comm-collective \
	%D%/price/t-target \
	%D%/price/t-widened \
	%D%/comm/t-tcp \
	%D%/comm/t-tcp-guard \
	%D%/data/t-blend \
	%D%/data/t-tokenize \
	%D%/data/t-tokens \
	%D%/passes/t-train-random \
	%D%/ir/t-verify \
	%D%/data/t-gguf \
	%D%/data/t-gguf-parts \
	%D%/data/t-quantised \
	%D%/data/t-round \
	%D%/data/t-weights \
	%D%/passes/t-weight-values \
	%D%/data/t-words \
	%D%/comm/t-world

# Reads traces for tests/cli/run/trace.sh.
check_PROGRAMS += %D%/runtime/read-trace
%C%_runtime_read_trace_LDADD = runtime/librank.a $(external_libs)
# Of a release alone, by the rule in tests/local.mk.
release_unit_tests =
if HAVE_LLVM
release_unit_tests += \
	%D%/codegen/t-differential \
	%D%/codegen/t-attention-cpu \
	%D%/codegen/t-cg-math \
	%D%/codegen/t-scratch \
	%D%/codegen/t-dot-models
endif
release_unit_tests += \
	%D%/cuda/t-cuda-attention \
	%D%/cuda/t-cuda-attention-rows \
	%D%/cuda/t-cuda-gradients \
	%D%/cuda/t-cuda-dot90 \
	%D%/cuda/t-cuda-launch \
	%D%/cuda/t-cuda-dot \
	%D%/cuda/t-cuda-ways \
	%D%/cuda/t-cuda-nest \
	%D%/search/t-pareto-front \
	%D%/search/t-search-bound \
	%D%/search/t-search-least \
	%D%/search/t-search-step \
	%D%/search/t-search-memory \
	%D%/search/t-search-choose \
	%D%/search/t-search-ahead \
	%D%/search/t-search-bytes \
	%D%/search/t-search-lasting \
	%D%/search/t-search-pins

# The server with an engine that has no model, for tests/cli/run/serve.sh.
check_PROGRAMS += %D%/serve/serve-fake
%C%_serve_serve_fake_LDADD = runtime/librank.a $(external_libs)

# What a plan links, and nothing of the compiler.
check_PROGRAMS += %D%/runtime/toy-rank
%C%_runtime_toy_rank_LDADD = runtime/librank.a $(external_libs)
# The same with kernels of a GPU; a driver of the tests finds what runs them.
check_PROGRAMS += %D%/runtime/toy-gpu
%C%_runtime_toy_gpu_LDADD = runtime/librank.a codegen/libcodegen.a \
	$(external_libs)
%C%_runtime_toy_gpu_LDFLAGS = $(AM_LDFLAGS) -Wl,-E
# And on ranks of which some alone have a collective that NCCL cannot run.
check_PROGRAMS += %D%/runtime/toy-mixed
%C%_runtime_toy_mixed_LDADD = $(%C%_runtime_toy_gpu_LDADD)
%C%_runtime_toy_mixed_LDFLAGS = $(AM_LDFLAGS) -Wl,-E
rank_ldadd = runtime/librank.a $(CMOCKA_LIBS) $(external_libs)
%C%_runtime_t_rank_LDADD = $(rank_ldadd)
%C%_runtime_t_inputs_LDADD = $(rank_ldadd)
%C%_runtime_t_run_LDADD = $(rank_ldadd)
%C%_serve_t_calls_LDADD = $(rank_ldadd)
%C%_serve_t_draw_LDADD = $(rank_ldadd)
%C%_serve_t_grammar_LDADD = $(rank_ldadd)
%C%_serve_t_kv_LDADD = $(rank_ldadd)
%C%_serve_t_pattern_LDADD = $(rank_ldadd)
%C%_serve_t_speed_LDADD = $(rank_ldadd)
%C%_serve_t_reply_LDADD = $(rank_ldadd)
%C%_serve_t_scarce_serve_LDADD = $(rank_ldadd)
%C%_serve_t_scarce_serve_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc \
	-Wl,--wrap=calloc -Wl,--wrap=realloc -Wl,--wrap=free
%C%_serve_t_scheduler_LDADD = $(rank_ldadd)
%C%_runtime_t_sample_text_LDADD = $(rank_ldadd)

# What launches, and what carries, are the test's.
%C%_cuda_t_cuda_parts_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=rt_gpu_launch \
	-Wl,--wrap=rt_nccl_calls -Wl,--wrap=rt_nccl_exchange

# The clock, and how long others keep the core, are the test's.
%C%_comm_t_msg_wait_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=rt_now_us \
	-Wl,--wrap=sched_yield -Wl,--wrap=nanosleep

# Memory that runs out where the test says so.
%C%_data_t_checkpoint_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=realloc
%C%_cuda_t_cuda_driver_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc
%C%_runtime_t_device_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc

EXTRA_DIST += \
	%D%/codegen/t-dot.h \
	%D%/codegen/t-kernels.h \
	%D%/comm/t-comm.h \
	%D%/comm/t-tcp.h \
	%D%/cuda/t-cuda.h \
	%D%/cuda/mutants.def \
	%D%/cuda/mutants-attention.def \
	%D%/cuda/mutants-launch.def \
	%D%/cuda/mutants-single.def \
	%D%/cuda/t-emulate.h \
	%D%/data/t-gguf.h \
	%D%/data/t-safetensors.h \
	%D%/data/t-store.h \
	%D%/passes/t-check-names.h \
	%D%/passes/t-check-places.h \
	%D%/passes/t-check.h \
	%D%/passes/t-solve.h \
	%D%/runtime/t-alone.h \
	%D%/runtime/t-rank.h \
	%D%/runtime/t-toy-gpu.h \
	%D%/runtime/t-feed.h \
	%D%/runtime/t-toy.h \
	%D%/sched/t-sched.h \
	%D%/search/t-search.h \
	%D%/search/t-stand.h \
	%D%/search/t-trial.h \
	%D%/shared/t-amx.h \
	%D%/shared/t-attention-bad.h \
	%D%/shared/t-attention-f8.h \
	%D%/shared/t-attention-kept.h \
	%D%/cuda/t-attention-compiled.h \
	%D%/cuda/t-attention-gpu.h \
	%D%/shared/t-attention-comm.h \
	%D%/shared/t-attention-tests.h \
	%D%/shared/t-attention.h \
	%D%/shared/t-context.h \
	%D%/shared/t-cpu.h \
	%D%/shared/t-dot-text.h \
	%D%/shared/t-eval.h \
	%D%/shared/t-ir.h \
	%D%/shared/t-cases.h \
	%D%/shared/t-left-out.h \
	%D%/shared/t-models.h \
	%D%/shared/t-nest-bodies.h \
	%D%/shared/t-object.h \
	%D%/shared/t-random-ir.h \
	%D%/shared/t-ranks.h \
	%D%/shared/t-scarce.h \
	%D%/shared/t-split.h \
	%D%/shared/t-today.h \
	%D%/shared/t-type.h \
	%D%/shared/t-weights-files.h \
	%D%/serve/t-engine.h \
	%D%/serve/t-calls.h \
	%D%/serve/t-serve.h \
	%D%/serve/t-schemas.h \
	%D%/serve/t-valid.h \
	%D%/sim/t-sim.h

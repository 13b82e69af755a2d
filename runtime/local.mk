# What is linked into every plan. Knows nothing of the compiler.  The same
# without main, and with what measures machines, is linked into llmc.
noinst_LIBRARIES += %D%/librt_llmc.a
pkglib_LIBRARIES += %D%/librank.a

# The one file that knows MPI's header, or what stands in for it.
if HAVE_MPI
mpi_sources = %D%/comm/mpi.c
else
mpi_sources = %D%/comm/mpi_none.c
endif

# The one file that knows libmicrohttpd's header, or what stands in for it.
if HAVE_MICROHTTPD
http_sources = %D%/serve/http/http.c
else
http_sources = %D%/serve/http/http_none.c
endif

rank_sources = \
	$(mpi_sources) \
	$(http_sources) \
	%D%/abi.h \
	%D%/append.c \
	%D%/append.h \
	%D%/cache.c \
	%D%/cache.h \
	%D%/comm/collective.c \
	%D%/comm/comm.c \
	%D%/comm/comm.h \
	%D%/comm/comm_move.c \
	%D%/comm/comm_parts.c \
	%D%/comm/doorbell.c \
	%D%/comm/mesh.c \
	%D%/comm/msg.h \
	%D%/comm/msg_collective.c \
	%D%/comm/msg_move.c \
	%D%/comm/msg_queue.c \
	%D%/comm/msg_wait.c \
	%D%/comm/queue.c \
	%D%/comm/reduce.c \
	%D%/comm/rendezvous.c \
	%D%/comm/secret.c \
	%D%/comm/secret.h \
	%D%/comm/sha256.c \
	%D%/comm/shm.c \
	%D%/comm/shm.h \
	%D%/comm/shm_files.c \
	%D%/comm/shm_layout.c \
	%D%/comm/shm_meet.c \
	%D%/comm/shm_meet.h \
	%D%/comm/shm_name.c \
	%D%/comm/siphash.c \
	%D%/comm/tcp/tcp.c \
	%D%/comm/tcp/tcp.h \
	%D%/comm/tcp/tcp_host.c \
	%D%/comm/tcp/tcp_join.c \
	%D%/comm/tcp/tcp_meet.c \
	%D%/comm/tcp/tcp_meet.h \
	%D%/comm/tcp/tcp_messages.h \
	%D%/comm/tcp/tcp_place.c \
	%D%/comm/tcp/tcp_proof.c \
	%D%/comm/tcp/tcp_read.c \
	%D%/comm/tcp/tcp_socket.c \
	%D%/comm/tcp/tcp_unproven.c \
	%D%/comm/tcp/tcp_write.c \
	%D%/comm/transport.h \
	%D%/comm/watch.c \
	%D%/comm/world.c \
	%D%/data/blend.c \
	%D%/data/checkpoint.c \
	%D%/data/checkpoint.h \
	%D%/data/checkpoint_behind.c \
	%D%/data/checkpoint_list.c \
	%D%/data/checkpoint_load.c \
	%D%/data/checkpoint_manifest.c \
	%D%/data/data.h \
	%D%/data/export.c \
	%D%/data/gguf.c \
	%D%/data/gguf.h \
	%D%/data/gguf_blocks.c \
	%D%/data/gguf_config.c \
	%D%/data/gguf_names.c \
	%D%/data/gguf_read.c \
	%D%/data/gguf_reading.c \
	%D%/data/gguf_reading.h \
	%D%/data/gguf_tensors.c \
	%D%/data/gguf_words.c \
	%D%/data/load_weights.c \
	%D%/data/quantised.h \
	%D%/data/quantised_config.c \
	%D%/data/quantised_find.c \
	%D%/data/quantised_read.c \
	%D%/data/safetensors.c \
	%D%/data/safetensors.h \
	%D%/data/safetensors_index.c \
	%D%/data/safetensors_match.c \
	%D%/data/safetensors_read.c \
	%D%/data/safetensors_write.c \
	%D%/data/safetensors_write.h \
	%D%/data/round.c \
	%D%/data/shard.c \
	%D%/data/tensor_store.c \
	%D%/data/tensor_store.h \
	%D%/data/tensor_store_read.c \
	%D%/data/tokens.c \
	%D%/data/tokens.h \
	%D%/data/tokens_file.c \
	%D%/data/turn_panels.c \
	%D%/delay.c \
	%D%/delay.h \
	%D%/device/cgroup.c \
	%D%/device/cgroup.h \
	%D%/device/comm_scratch.c \
	%D%/device/cpuid.c \
	%D%/device/cpuid.h \
	%D%/device/cuda.c \
	%D%/device/cuda_comm.c \
	%D%/device/cuda_comm_parts.c \
	%D%/device/cuda_device.h \
	%D%/device/cuda_graph.c \
	%D%/device/cuda_image.c \
	%D%/device/cuda_load.c \
	%D%/device/cuda_host.c \
	%D%/device/cuda_query.c \
	%D%/device/cuda_probe.c \
	%D%/device/cuda_window.c \
	%D%/device/device.c \
	%D%/device/device.h \
	%D%/device/device_emulate.c \
	%D%/device/device_open.c \
	%D%/device/device_window.c \
	%D%/device/grid.c \
	%D%/device/machine.c \
	%D%/device/nccl.c \
	%D%/device/this_machine.h \
	%D%/device/pool.c \
	%D%/device/pool.h \
	%D%/elems.c \
	%D%/elems.h \
	%D%/error.c \
	%D%/error.h \
	%D%/files.c \
	%D%/files.h \
	%D%/grammar/gram.h \
	%D%/grammar/gram_apart.c \
	%D%/grammar/gram_calls.c \
	%D%/grammar/gram_chars.c \
	%D%/grammar/gram_finish.c \
	%D%/grammar/gram_guide.c \
	%D%/grammar/gram_if.c \
	%D%/grammar/gram_kinds.c \
	%D%/grammar/gram_match.c \
	%D%/grammar/gram_not.c \
	%D%/grammar/gram_number.c \
	%D%/grammar/gram_pattern.c \
	%D%/grammar/gram_pattern.h \
	%D%/grammar/gram_reader.c \
	%D%/grammar/gram_reader.h \
	%D%/grammar/gram_schema.c \
	%D%/grammar/gram_string.c \
	%D%/grammar/gram_texts.c \
	%D%/grammar/gram_tokens.c \
	%D%/grammar/gram_tree.c \
	%D%/grammar/gram_types.c \
	%D%/grammar/gram_ways.c \
	%D%/grammar/grammar.h \
	%D%/json.c \
	%D%/json.h \
	%D%/rt.h \
	%D%/scratch.c \
	%D%/scratch.h \
	%D%/serve/api/calls.c \
	%D%/serve/api/calls.h \
	%D%/serve/api/calls_read.h \
	%D%/serve/api/calls_write.c \
	%D%/serve/api/reasoned.c \
	%D%/serve/api/reasoned.h \
	%D%/serve/api/reply.c \
	%D%/serve/api/reply.h \
	%D%/serve/api/reply_logprobs.c \
	%D%/serve/api/request.c \
	%D%/serve/api/request.h \
	%D%/serve/api/request_fit.c \
	%D%/serve/api/request_prompts.c \
	%D%/serve/api/request_reader.h \
	%D%/serve/api/request_reasoning.c \
	%D%/serve/api/request_tools.c \
	%D%/serve/api/request_values.c \
	%D%/serve/api/structured.c \
	%D%/serve/api/structured.h \
	%D%/serve/api/token_paths.c \
	%D%/serve/chat/chat.c \
	%D%/serve/chat/chat.h \
	%D%/serve/chat/chat_forms.h \
	%D%/serve/chat/chat_write.c \
	%D%/serve/chat/codec.c \
	%D%/serve/chat/codec.h \
	%D%/serve/chat/reasoning.c \
	%D%/serve/chat/reasoning.h \
	%D%/serve/generate.c \
	%D%/serve/http/http.h \
	%D%/serve/http/metrics.c \
	%D%/serve/http/metrics.h \
	%D%/serve/http/paths.c \
	%D%/serve/http/paths.h \
	%D%/serve/http/service.c \
	%D%/serve/http/service.h \
	%D%/serve/schedule/allow.c \
	%D%/serve/schedule/draw.c \
	%D%/serve/schedule/draw.h \
	%D%/serve/schedule/fill.c \
	%D%/serve/schedule/kv.c \
	%D%/serve/schedule/kv.h \
	%D%/serve/schedule/scheduler.c \
	%D%/serve/schedule/scheduler.h \
	%D%/serve/schedule/sequences.h \
	%D%/serve/serve.c \
	%D%/serve/serve_memory.c \
	%D%/serve/server.h \
	%D%/serve/speed.c \
	%D%/text.c \
	%D%/text.h \
	%D%/tokenize/tok.h \
	%D%/tokenize/tok_added.c \
	%D%/tokenize/tok_bpe.c \
	%D%/tokenize/tok_bytes.c \
	%D%/tokenize/tok_category_table.c \
	%D%/tokenize/tok_cut.c \
	%D%/tokenize/tok_decode.c \
	%D%/tokenize/tok_encode.c \
	%D%/tokenize/tok_file.c \
	%D%/tokenize/tok_input.c \
	%D%/tokenize/tok_gguf.c \
	%D%/tokenize/tok_job.c \
	%D%/tokenize/tok_load.c \
	%D%/tokenize/tok_model.c \
	%D%/tokenize/tok_nfc.c \
	%D%/tokenize/tok_nfc_table.c \
	%D%/tokenize/tok_normalize.c \
	%D%/tokenize/tok_open.c \
	%D%/tokenize/tok_output.c \
	%D%/tokenize/tok_output.h \
	%D%/tokenize/tok_parts.c \
	%D%/tokenize/tok_regex.c \
	%D%/tokenize/tok_regex.h \
	%D%/tokenize/tok_regex_chars.c \
	%D%/tokenize/tok_regex_parse.c \
	%D%/tokenize/tok_regex_parse.h \
	%D%/tokenize/tok_regex_program.c \
	%D%/tokenize/tok_stream.c \
	%D%/tokenize/tok_unicode.c \
	%D%/tokenize/tok_unicode.h \
	%D%/tokenize/tokenize.h \
	%D%/train/bench.c \
	%D%/train/data_words.c \
	%D%/train/evaluate.c \
	%D%/train/export_run.c \
	%D%/train/engine.c \
	%D%/train/engine.h \
	%D%/train/feed.c \
	%D%/train/full_step.c \
	%D%/train/inspect.c \
	%D%/train/load.c \
	%D%/train/local.c \
	%D%/train/log.c \
	%D%/train/preflight.c \
	%D%/train/preflight.h \
	%D%/train/preflight_links.c \
	%D%/train/rank.h \
	%D%/train/rank_options.c \
	%D%/train/rank_verify.c \
	%D%/train/rank_verify_whole.c \
	%D%/train/run.c \
	%D%/train/sample.c \
	%D%/train/sample_text.c \
	%D%/train/sample_text.h \
	%D%/train/served_memory.c \
	%D%/train/served_memory.h \
	%D%/train/serving.c \
	%D%/train/tally.c \
	%D%/train/tally.h \
	%D%/train/trace.c \
	%D%/train/trace.h \
	%D%/train/tensorboard.c \
	%D%/train/tokenized.c \
	%D%/train/train.c \
	%D%/train/training.c

# The emulator of GPUs is no part of `rank': it lies beside the one of a plan
# for GPUs, which loads it for --device emulate.  It shares no code with who
# loads it, so the few files that both need are compiled into it once more.
# The programs of the tests link it as a library.
emulate_cflags = $(AM_CFLAGS) -fPIC -fvisibility=hidden \
	-ftls-model=initial-exec
noinst_LIBRARIES += %D%/libemulate.a
%C%_libemulate_a_CFLAGS = $(emulate_cflags)
%C%_libemulate_a_SOURCES = \
	%D%/emulate/emulate.c \
	%D%/emulate/emulate.h \
	%D%/emulate/emulate_address.c \
	%D%/emulate/emulate_build.c \
	%D%/emulate/emulate_call.h \
	%D%/emulate/emulate_cells.c \
	%D%/emulate/emulate_cells.h \
	%D%/emulate/emulate_check.c \
	%D%/emulate/emulate_check_async.c \
	%D%/emulate/emulate_copy.c \
	%D%/emulate/emulate_count.c \
	%D%/emulate/emulate_fiber.c \
	%D%/emulate/emulate_inner.h \
	%D%/emulate/emulate_mbar.c \
	%D%/emulate/emulate_mma.c \
	%D%/emulate/emulate_operand.c \
	%D%/emulate/emulate_past.c \
	%D%/emulate/emulate_shadow.h \
	%D%/emulate/emulate_sources.c \
	%D%/emulate/emulate_switch.c \
	%D%/emulate/emulate_switch.h \
	%D%/emulate/emulate_sync.c \
	%D%/emulate/emulate_tensor.c \
	%D%/emulate/emulate_tensor.h \
	%D%/emulate/emulate_tensor_move.c \
	%D%/emulate/emulate_tma.c \
	%D%/emulate/emulate_wgmma.c

emulatordir = $(pkglibdir)
emulator_PROGRAMS = %D%/emulate.so
AM_INSTALLCHECK_STD_OPTIONS_EXEMPT = %D%/emulate.so
%C%_emulate_so_CFLAGS = $(emulate_cflags)
%C%_emulate_so_SOURCES = \
	%D%/cache.c \
	%D%/delay.c \
	%D%/error.c \
	%D%/scratch.c
%C%_emulate_so_LDADD = %D%/libemulate.a $(external_libs)
%C%_emulate_so_LDFLAGS = $(SANITIZER_CFLAGS) -shared -Wl,--as-needed \
	-Wl,-u,rt_emulator -Wl,-s -Wl,--build-id=none -Wl,-z,noexecstack

%C%_librank_a_SOURCES = $(rank_sources) %D%/train/rank_main.c

%C%_librt_llmc_a_SOURCES = \
	$(rank_sources) \
	%D%/measure/measure.c \
	%D%/measure/measure.h \
	%D%/measure/measure_comm.c \
	%D%/measure/measure_cpu.c \
	%D%/measure/measure_cpu.h \
	%D%/measure/measure_cuda.c \
	%D%/measure/measure_cuda.h \
	%D%/measure/measure_cuda_load.c \
	%D%/measure/measure_kernel.c \
	%D%/measure/measure_nccl.c \
	%D%/measure/measure_pool.c \
	%D%/measure/measure_stream.c \
	%D%/measure/tune.c \
	%D%/measure/tune.h \
	%D%/measure/tune_check.c \
	%D%/measure/tune_inner.h \
	%D%/measure/tune_numbers.c

# Wrote tok_category_table.c and tok_nfc_table.c.
EXTRA_DIST += %D%/tokenize/make-tables.py

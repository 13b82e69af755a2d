# What is linked into every plan. Knows nothing of the compiler.  The same
# without main, and with what measures machines, is linked into llmc.
noinst_LIBRARIES += %D%/librt_llmc.a
pkglib_LIBRARIES += %D%/librank.a

# The one file that knows MPI's header, or what stands in for it.
if HAVE_MPI
mpi_sources = %D%/mpi.c
else
mpi_sources = %D%/mpi-none.c
endif

rank_sources = \
	$(mpi_sources) \
	%D%/abi.h \
	%D%/append.c \
	%D%/append.h \
	%D%/bell.c \
	%D%/bench.c \
	%D%/cgroup.c \
	%D%/cgroup.h \
	%D%/cache.c \
	%D%/cache.h \
	%D%/checkpoint-list.c \
	%D%/checkpoint-load.c \
	%D%/checkpoint-mark.c \
	%D%/checkpoint.c \
	%D%/checkpoint.h \
	%D%/comm.c \
	%D%/comm.h \
	%D%/cpuid.c \
	%D%/cpuid.h \
	%D%/data.h \
	%D%/cuda.c \
	%D%/cuda.h \
	%D%/cuda-image.c \
	%D%/cuda-load.c \
	%D%/cuda-look.c \
	%D%/cuda-probe.c \
	%D%/cuda-parts.c \
	%D%/cuda-talk.c \
	%D%/delay.c \
	%D%/delay.h \
	%D%/device-emulate.c \
	%D%/device-open.c \
	%D%/device-window.c \
	%D%/device.c \
	%D%/device.h \
	%D%/grid.c \
	%D%/elems.c \
	%D%/elems.h \
	%D%/evaluate.c \
	%D%/emulate-build.c \
	%D%/emulate-call.h \
	%D%/emulate-check.c \
	%D%/emulate-copy.c \
	%D%/emulate-fiber.c \
	%D%/emulate-inner.h \
	%D%/emulate-mbar.c \
	%D%/emulate-mma.c \
	%D%/emulate-past.c \
	%D%/emulate-shadow.h \
	%D%/emulate-switch.c \
	%D%/emulate-switch.h \
	%D%/emulate-sync.c \
	%D%/emulate-tma.c \
	%D%/emulate-wgmma.c \
	%D%/emulate.c \
	%D%/emulate.h \
	%D%/error.c \
	%D%/error.h \
	%D%/feed.c \
	%D%/files.c \
	%D%/files.h \
	%D%/hall.c \
	%D%/inspect.c \
	%D%/json.c \
	%D%/json.h \
	%D%/local.c \
	%D%/log.c \
	%D%/machine.c \
	%D%/meeting.c \
	%D%/mesh.c \
	%D%/move.c \
	%D%/msg-move.c \
	%D%/msg-talk.c \
	%D%/msg-wait.c \
	%D%/msg.h \
	%D%/nccl.c \
	%D%/options.c \
	%D%/parts.c \
	%D%/pool.c \
	%D%/pool.h \
	%D%/rank.h \
	%D%/preflight-links.c \
	%D%/preflight.c \
	%D%/preflight.h \
	%D%/reduce.c \
	%D%/rendezvous.c \
	%D%/rt.h \
	%D%/run.c \
	%D%/safetensors.c \
	%D%/sample.c \
	%D%/secret.c \
	%D%/secret.h \
	%D%/sha256.c \
	%D%/scratch.c \
	%D%/scratch.h \
	%D%/shm-meet.c \
	%D%/shm-meet.h \
	%D%/shm-name.c \
	%D%/shm.c \
	%D%/shm.h \
	%D%/siphash.c \
	%D%/st-index.c \
	%D%/st-read.c \
	%D%/st-want.c \
	%D%/st-write.c \
	%D%/st-write.h \
	%D%/st.h \
	%D%/store-read.c \
	%D%/store.c \
	%D%/store.h \
	%D%/talk-room.c \
	%D%/tcp-guests.c \
	%D%/tcp-host.c \
	%D%/tcp-meet.c \
	%D%/tcp-meet.h \
	%D%/tcp-place.c \
	%D%/tcp-proof.c \
	%D%/tcp-socket.c \
	%D%/tcp-visit.c \
	%D%/tcp.c \
	%D%/tcp.h \
	%D%/tensorboard.c \
	%D%/text.c \
	%D%/text.h \
	%D%/tokens-file.c \
	%D%/tokens.c \
	%D%/tokens.h \
	%D%/train.c \
	%D%/transport.h \
	%D%/verify-whole.c \
	%D%/verify.c \
	%D%/watch.c \
	%D%/weights.c \
	%D%/world.c

%C%_librank_a_SOURCES = $(rank_sources) %D%/rank-main.c

%C%_librt_llmc_a_SOURCES = \
	$(rank_sources) \
	%D%/measure.c \
	%D%/measure.h \
	%D%/measure-attend.c \
	%D%/measure-cpu.c \
	%D%/measure-cpu.h \
	%D%/measure-cuda.c \
	%D%/measure-cuda.h \
	%D%/measure-cuda-load.c \
	%D%/measure-gemm.c \
	%D%/measure-nccl.c \
	%D%/measure-pool.c \
	%D%/measure-stream.c \
	%D%/measure-talk.c \
	%D%/measure-tile.c \
	%D%/tune.c \
	%D%/tune.h

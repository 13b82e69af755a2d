# What is linked into every plan. Knows nothing of the compiler.
noinst_LIBRARIES += %D%/librt_llmc.a

%C%_librt_llmc_a_SOURCES = \
	%D%/abi.h \
	%D%/bell.c \
	%D%/comm.c \
	%D%/comm.h \
	%D%/data.h \
	%D%/error.c \
	%D%/error.h \
	%D%/hall.c \
	%D%/json.c \
	%D%/json.h \
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
	%D%/local.c \
	%D%/mesh.c \
	%D%/move.c \
	%D%/reduce.c \
	%D%/rt.h \
	%D%/safetensors.c \
	%D%/shm.c \
	%D%/shm.h \
	%D%/shm-meet.c \
	%D%/st-index.c \
	%D%/st-read.c \
	%D%/st.h \
	%D%/transport.h \
	%D%/watch.c \
	%D%/world.c

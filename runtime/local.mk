# What is linked into every plan. Knows nothing of the compiler.
noinst_LIBRARIES += %D%/librt_llmc.a

%C%_librt_llmc_a_SOURCES = \
	%D%/abi.h \
	%D%/comm.h \
	%D%/data.h \
	%D%/error.c \
	%D%/error.h \
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
	%D%/rt.h \
	%D%/safetensors.c \
	%D%/st-index.c \
	%D%/st-read.c \
	%D%/st.h \
	%D%/tokens.c \
	%D%/tokens.h \
	%D%/tokens-file.c

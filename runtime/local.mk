# What is linked into every plan. Knows nothing of the compiler.
noinst_LIBRARIES += %D%/librt_llmc.a

%C%_librt_llmc_a_SOURCES = \
	%D%/abi.h \
	%D%/checkpoint.c \
	%D%/checkpoint.h \
	%D%/checkpoint-list.c \
	%D%/checkpoint-load.c \
	%D%/checkpoint-mark.c \
	%D%/comm.h \
	%D%/data.h \
	%D%/elems.c \
	%D%/elems.h \
	%D%/error.c \
	%D%/error.h \
	%D%/files.c \
	%D%/files.h \
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
	%D%/st-write.c \
	%D%/st-write.h \
	%D%/st.h \
	%D%/store.c \
	%D%/store.h \
	%D%/store-read.c \
	%D%/text.c \
	%D%/text.h \
	%D%/tokens.c \
	%D%/tokens.h \
	%D%/tokens-file.c \
	%D%/weights.c

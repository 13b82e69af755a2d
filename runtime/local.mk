# What is linked into every plan. Knows nothing of the compiler.
noinst_LIBRARIES += %D%/librt_llmc.a

%C%_librt_llmc_a_SOURCES = \
	%D%/error.c \
	%D%/error.h \
	%D%/json.c \
	%D%/json.h \
	%D%/rt.h \
	%D%/safetensors.c \
	%D%/st-index.c \
	%D%/st-read.c \
	%D%/st.h

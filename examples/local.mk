# Installed beside the documentation, under the same relative names.
nobase_dist_doc_DATA += \
	%D%/deepseek-v3.llm \
	%D%/gpt-block.llm \
	%D%/gpt-bytes.llm \
	%D%/gpt2-124m.llm \
	%D%/gpt2-xl.llm \
	%D%/gpt3-175b.llm \
	%D%/llama-2-70b.llm \
	%D%/llama-2-7b.llm \
	%D%/llama-3-70b.llm \
	%D%/llama-3-8b.llm \
	%D%/llama-3.1-405b.llm \
	%D%/llama-3.2-1b.llm \
	%D%/megatron-1t.llm \
	%D%/megatron-22b.llm \
	%D%/megatron-530b.llm \
	%D%/mixtral-8x7b.llm \
	%D%/tiny-dense.llm \
	%D%/tiny-moe.llm \
	%D%/pass-always-tp8/README.md \
	%D%/pass-always-tp8/always-tp8.c \
	%D%/pass-plugin/README.md \
	%D%/pass-plugin/count-ops.c \
	%D%/pass-price/README.md \
	%D%/pass-price/price-step.c

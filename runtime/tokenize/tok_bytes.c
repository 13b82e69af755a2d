/*
 * The tokenizer of models whose tokens are bytes.  It is written as the
 * tokenizer.json that says so: an alphabet in which a character stands for each
 * byte, and nothing to merge.
 */
#include "runtime/text.h"
#include "runtime/tokenize/tokenize.h"

/* GPT-2's alphabet: printable bytes of Latin-1 are themselves, the others the
 * characters from U+0100 on. */
static unsigned
char_of_byte(unsigned byte, unsigned *others)
{
	bool itself = (byte >= 0x21 && byte <= 0x7e) ||
		      (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;

	return itself ? byte : 0x100 + (*others)++;
}

enum rt_status
rt_tokenizer_of_bytes(struct rt_tokenizer **out, const struct rt_alloc *alloc,
		      struct rt_error *err)
{
	struct rt_text t = { .alloc = rt_alloc_or_libc(alloc) };
	enum rt_status status;
	unsigned others = 0, i;

	rt_text_add(&t, "{\"added_tokens\":[],\"normalizer\":null,"
		    "\"pre_tokenizer\":{\"type\":\"ByteLevel\","
		    "\"add_prefix_space\":false,\"use_regex\":false},"
		    "\"post_processor\":null,"
		    "\"decoder\":{\"type\":\"ByteLevel\"},"
		    "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
	for (i = 0; i < 256; i++) {
		rt_text_add(&t, "%s\"\\u%04x\":%u", i ? "," : "",
			    char_of_byte(i, &others), i);
	}
	rt_text_add(&t, "}}}");
	*out = NULL;
	status = t.failed ? rt_no_memory(err, NULL)
		: rt_tokenizer_parse(out, "tokens of bytes", t.at, t.n, alloc,
				     err);
	rt_text_release(&t);
	return status;
}

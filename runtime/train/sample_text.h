/* Private header of the command `sample`: its text, by a tokenizer. */
#ifndef RT_SAMPLE_TEXT_H
#define RT_SAMPLE_TEXT_H

#include "runtime/error.h"
#include "runtime/tokenize/tokenize.h"

struct sample_text {
	struct rt_tokenizer *tokenizer;	/* NULL: there is none */
	struct rt_ids ids;	/* the prompt's */
	struct rt_stream stream;
};

enum rt_status sample_text_open(struct sample_text *x, const char *path,
				struct rt_error *err);
void sample_text_close(struct sample_text *x);
/* The ids of a prompt; `name` is for messages. */
enum rt_status sample_text_begin(struct sample_text *x, const char *name,
				 const char *text, size_t n,
				 struct rt_error *err);
/*
 * Adds an id, or nothing for -1: the end.  Writes what is known of the text
 * now: a character may be made of several ids.
 */
enum rt_status sample_text_add(struct sample_text *x, int64_t id, FILE *out,
			       struct rt_error *err);

#endif

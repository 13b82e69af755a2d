/* Private to runtime/tokenize/: a token file that is being written. */
#ifndef RT_TOK_OUTPUT_H
#define RT_TOK_OUTPUT_H

#include "runtime/tokenize/tok.h"

struct tok_output {
	const char *path;
	char *temporary;	/* NULL: the file has no name yet */
	int fd;			/* -1: none */
	bool wide;		/* tokens have 32 bits, not 16 */
	int64_t tokens;
	struct rt_alloc alloc;
	struct rt_bytes packed;
};

/* Checks that a file can be written there, and begins one without a name. */
enum rt_status rt_tok_output_open(struct tok_output *o, const char *path,
				  int64_t limit, const struct rt_alloc *a,
				  struct rt_error *err);
enum rt_status rt_tok_output_add(struct tok_output *o,
				 const struct rt_ids *ids,
				 struct rt_error *err);
/* Writes the header, and gives the file its name. */
enum rt_status rt_tok_output_finish(struct tok_output *o,
				    struct rt_error *err);
/* Removes what was not finished. */
void rt_tok_output_release(struct tok_output *o);

#endif

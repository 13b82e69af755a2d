/*
 * What the tests of GGUF share: a file in memory, which they write and damage.
 */
#ifndef T_GGUF_H
#define T_GGUF_H

#include <stdint.h>
#include <string.h>

enum { MOST_BYTES = 1 << 16 };

static unsigned char whole_file[MOST_BYTES];

static inline unsigned char *
add_number(unsigned char *to, uint64_t v, int bytes)
{
	while (bytes-- > 0) {
		*to++ = (unsigned char)v;
		v >>= 8;
	}
	return to;
}

static inline unsigned char *
add_text(unsigned char *to, const char *text)
{
	to = add_number(to, strlen(text), 8);
	memcpy(to, text, strlen(text));
	return to + strlen(text);
}

/* To where the data may begin. */
static inline unsigned char *
add_zeros(unsigned char *to)
{
	while ((to - whole_file) % 32 != 0) {
		*to++ = 0;
	}
	return to;
}

/* What stands before the keys of a file with one tensor. */
static inline unsigned char *
begin_file(uint64_t keys)
{
	memcpy(whole_file, "GGUF", 4);
	return add_number(add_number(add_number(whole_file + 4, 3, 4), 1, 8),
			  keys, 8);
}

#endif

/*
 * The words of --data and --eval-data.  A word WEIGHT:FILE begins a source of
 * a blend, NAME:FILE begins a set to evaluate on; files without one belong to
 * the source or set before them.  What comes before the colon has no slash, so
 * ./0.7:FILE is always a path.
 */
#include "runtime/train/rank.h"

#include <string.h>

#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
/* Digits of a weight before and after the point: a unit is 1e-9. */
enum { WHOLE_DIGITS = 6, PART_DIGITS = 9 };

/* Bytes before the colon if all are of `set` and some are of `one`; or 0. */
static size_t
prefix_of(const char *word, const char *set, const char *one)
{
	size_t n = strspn(word, set);

	return word[n] == ':' && strcspn(word, one) < n ? n : 0;
}

static size_t
name_prefix(const char *word)
{
	return strchr(DIGITS ".-:", word[0]) ? 0 :
		prefix_of(word, LETTERS DIGITS ".-", LETTERS);
}

static size_t
number_prefix(const char *word)
{
	return prefix_of(word, DIGITS ".eE+-", DIGITS);
}

/* A number such as 0.7, in units of 1e-9; 0: it is none, or is 0. */
static int64_t
weight_of(const char *word)
{
	size_t whole = strspn(word, DIGITS), part = 0, i;
	int64_t v = 0;

	if (word[whole] == '.') {
		part = strspn(word + whole + 1, DIGITS);
		if (part == 0) {
			return 0;
		}
	}
	if (whole < 1 || whole > WHOLE_DIGITS || part > PART_DIGITS ||
	    word[whole + (part ? part + 1 : 0)] != ':') {
		return 0;
	}
	for (i = 0; i < whole; i++) {
		v = v * 10 + (word[i] - '0');
	}
	for (i = 0; i < PART_DIGITS; i++) {
		v = v * 10 + (i < part ? word[whole + 1 + i] - '0' : 0);
	}
	return v;
}

static enum rt_status
fail_weight(const char *word, size_t n, struct rt_error *err)
{
	struct rt_shown shown = rt_show_name(word);

	shown.text[n < sizeof shown.text ? n : sizeof shown.text - 1] = '\0';
	return rt_fail(err, RT_RANGE, RT_NOWHERE, "--data: found the weight "
		       "'%s', expected a number such as 0.7, above 0 and below "
		       "1000000, with at most %d digits after the point",
		       shown.text, PART_DIGITS);
}

/* Begins a source or set with what is after the prefix of *word, if any. */
static enum rt_status
begin_set(struct rt_data *d, const char **word, size_t prefix,
	  struct rt_error *err)
{
	if (d->n == RT_BLEND_SOURCES) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "--%s: found more "
			       "than %d %s, expected at most as many",
			       d->weighted ? "data" : "eval-data",
			       RT_BLEND_SOURCES,
			       d->weighted ? "sources" : "sets");
	}
	if (prefix >= RT_SET_NAME_BYTES) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "the name '%s..' of "
			       "a set of data is too long: at most %d bytes",
			       rt_show_name(*word).text,
			       RT_SET_NAME_BYTES - 1);
	}
	d->at[d->n].paths = word;
	memcpy(d->names[d->n], *word, prefix);
	d->n++;
	*word += prefix ? prefix + 1 : 0;
	if (!**word) {	/* its files are words of their own */
		d->at[d->n - 1].paths++;
	}
	return RT_OK;
}

/* Checks what is known only when all words were read. */
static enum rt_status
check_sets(const struct rt_data *d, struct rt_error *err)
{
	int64_t i, j;

	for (i = 0; i < d->n; i++) {
		if (d->at[i].npaths == 0) {
			return rt_fail(err, RT_RANGE, RT_NOWHERE, "'%s:' names "
				       "no file: give one after it",
				       d->names[i]);
		}
		for (j = 0; j < i && !d->weighted; j++) {
			if (strcmp(d->names[i], d->names[j]) == 0) {
				return rt_fail(err, RT_RANGE, RT_NOWHERE,
					       "two sets of data are called "
					       "'%s'", d->names[i]);
			}
		}
	}
	if (d->weighted && d->n > 1 && d->at[0].weight == 0) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "--data: '%s' has no "
			       "weight, and files after it have: either all "
			       "sources have one, or none",
			       rt_show_path(d->at[0].paths[0]).text);
	}
	return RT_OK;
}

enum rt_status
rt_data_read(struct rt_data *d, const struct rt_paths *words, bool weighted,
	     struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t i;

	*d = (struct rt_data){ .weighted = weighted };
	for (i = 0; i < words->n && status == RT_OK; i++) {
		const char **word = &words->at[i];
		size_t number = number_prefix(*word);
		size_t prefix = weighted ? number : name_prefix(*word);
		int64_t weight = 0;

		if (number > 0 && !weighted) {
			return rt_fail(err, RT_RANGE, RT_NOWHERE, "'%s': sets "
				       "to evaluate on have names, as "
				       "web:FILE, and no weights",
				       rt_show_name(*word).text);
		}
		if (prefix > 0 && weighted) {
			weight = weight_of(*word);
			status = weight > 0 ? RT_OK :
				fail_weight(*word, number, err);
		}
		if (status == RT_OK && (prefix > 0 || d->n == 0)) {
			status = begin_set(d, word, prefix, err);
			if (status != RT_OK) {
				break;
			}
			d->at[d->n - 1].weight = weighted ? weight : 1;
		}
		if (status == RT_OK) {
			d->at[d->n - 1].npaths += **word != '\0';
		}
	}
	if (status == RT_OK) {
		status = check_sets(d, err);
	}
	if (status == RT_OK && d->n > 0 && d->at[0].weight == 0) {
		d->at[0].weight = 1;
	}
	return status;
}

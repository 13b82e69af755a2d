/*
 * Any bytes as a table of `llmc validate`: every row that is read has all
 * cells, and nothing is refused without a word.
 */
#include <stdlib.h>
#include <string.h>

#include "frontend/validate/tsv.h"

#define CHECK(x) ((x) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_cells(const struct tsv *t, struct diags *d)
{
	static const char *const words[] = { "source", "device" };
	int where[2], column;
	uint32_t row;
	double v;

	for (row = 0; row < t->nrows; row++) {
		column = (int)(row % t->ncols);
		CHECK(tsv_cell(t, row, (int)t->ncols - 1) != NULL);
		tsv_number(t, row, column, &v);
	}
	if (tsv_columns(t, d, "a test", words, 2, where)) {
		CHECK(where[0] == tsv_column(t, "source") && where[0] >= 0 &&
		      where[1] == tsv_column(t, "device"));
	} else {
		CHECK(d->errors > 0);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sources sources;
	struct diags diags;
	struct arena a;
	struct mem mem;
	struct tsv t;
	uint32_t base;
	char *text = malloc(size + 1);

	CHECK(text);
	if (size > 0) {
		memcpy(text, data, size);
	}
	text[size] = '\0';
	mem_init(&mem);
	arena_init(&a, &mem);
	source_init(&sources, &a);
	diag_init(&diags, &a, &sources);
	CHECK(source_add(&sources, "fuzz.tsv", text, size, &base));
	if (tsv_read(&a, &diags, 0, &t)) {
		CHECK(diags.errors == 0);
		check_cells(&t, &diags);
	} else {
		CHECK(diags.errors > 0);
	}
	arena_release(&a);
	free(text);
	return 0;
}

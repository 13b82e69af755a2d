/*
 * Traits by name: in a row of measured training runs, and in --assume.
 */
#include "passes/price/price.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const struct price_trait price_traits_table[] = {
#define TRAIT(field, name, no, yes, what) \
	{ name, { no, yes }, what, offsetof(struct price_traits, field) },
	PRICE_TRAITS(TRAIT)
#undef TRAIT
};
const uint32_t price_ntraits =
	sizeof price_traits_table / sizeof *price_traits_table;

#define SEPARATORS ", \t"

static bool
set_trait(struct price_traits *t, const struct price_trait *row,
	  const char *word, struct arena *a, const char **why)
{
	struct diag_near near;
	int i;

	diag_near_init(&near, word);
	for (i = 0; i < 2; i++) {
		if (strcmp(row->words[i], word) == 0) {
			*(bool *)((char *)t + row->at) = i == 1;
			return true;
		}
		diag_near_try(&near, row->words[i]);
	}
	*why = arena_printf(a, "`%s` is %s or %s (%s); found `%s`%s",
			    row->name, row->words[0], row->words[1],
			    row->what, word, diag_near_text(&near, a));
	return false;
}

static const char *
no_such(const char *name, struct arena *a)
{
	struct diag_near near;
	struct buf legal;
	uint32_t i;

	buf_init(&legal, a);
	diag_near_init(&near, name);
	for (i = 0; i < price_ntraits; i++) {
		diag_near_try(&near, price_traits_table[i].name);
		buf_printf(&legal, "%s%s", i ? ", " : "",
			   price_traits_table[i].name);
	}
	return arena_printf(a, "there is no trait `%s`%s: there are %s", name,
			    diag_near_text(&near, a), buf_text(&legal));
}

static bool
parse_trait(struct price_traits *t, const char *item, bool lax, struct arena *a,
	    const char **why)
{
	const char *eq = strchr(item, '=');
	const char *name;
	uint32_t i;

	if (!eq) {
		*why = arena_printf(a, "a trait is NAME=WORD; found `%s`",
				    item);
		return lax;
	}
	name = arena_strndup(a, item, (size_t)(eq - item));
	for (i = 0; i < price_ntraits; i++) {
		if (strcmp(price_traits_table[i].name, name) == 0) {
			return set_trait(t, &price_traits_table[i], eq + 1, a,
					 why);
		}
	}
	*why = no_such(name, a);
	return lax;
}

bool
price_traits_parse(struct price_traits *t, const char *text, bool lax,
		   struct arena *a, struct price_fault *fault)
{
	size_t at = strspn(text, SEPARATORS), n;

	for (; text[at]; at += n + strspn(text + at + n, SEPARATORS)) {
		n = strcspn(text + at, SEPARATORS);
		if (!parse_trait(t, arena_strndup(a, text + at, n), lax, a,
			 &fault->why)) {
			fault->lo = (uint32_t)at;
			fault->hi = (uint32_t)(at + n);
			return false;
		}
	}
	return true;
}

bool
price_ours(const struct price_traits *t)
{
	static const struct price_traits ours;

	return memcmp(t, &ours, sizeof ours) == 0;
}

#define FIRST_ARCH 80	/* that llmc has kernels for */

bool
price_has_kernels(const struct target_device *d)
{
	return target_is_cuda(d) && !d->plan_only &&
	       atoi(d->arch + strlen("sm_")) >= FIRST_ARCH;
}

bool
price_own_moves(const struct price_traits *t)
{
	struct price_traits kernels = *t;

	kernels.overlap_data = kernels.overlap_tensor = false;
	kernels.blocking = kernels.zeroed_sums = false;
	return price_ours(&kernels);
}

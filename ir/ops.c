/*
 * The tables of ops.def, attrs.def and dtypes.def, and look-up by name.
 */
#include "ir/ir.h"

#include <string.h>

#define NEVER IR_RC_NEVER
#define CHEAP IR_RC_CHEAP
#define ROW IR_RC_ROW
#define HEAVY IR_RC_HEAVY
#define SOURCE IRF_SOURCE
#define UNIQUE IRF_UNIQUE
#define PARAM IRF_PARAM
#define MAP IRF_MAP
#define SPREAD IRF_SPREAD
#define COMMUTES IRF_COMMUTES
#define ROWWISE IRF_ROWWISE
#define MOVES IRF_MOVES
#define INDEXED IRF_INDEXED
#define CONTRACTS IRF_CONTRACTS
#define CACHED IRF_CACHED
#define REGION IRF_REGION
#define CALLS IRF_CALLS
#define SINK IRF_SINK
#define STORED IRF_STORED
#define STASH IRF_STASH
#define PAIRS IRF_PAIRS
#define CONVERTS IRF_CONVERTS
#define COMM IRF_COMM
#define PEER IRF_PEER
#define LOADED IRF_LOADED
#define COUNTS IRF_COUNTS
#define KEEPS IRF_KEEPS
#define SUMS IRF_SUMS
#define TAKES IRF_TAKES

const struct ir_op_info ir_ops[IR_OP_COUNT] = {
#define OP(id, name, n, rule, split, dtypes, attrs, flags, flops, bytes, rc, \
	   grad, help) \
	{ #name, n, rule, split, dtypes, attrs, flags, flops, bytes, rc, \
	  grad, help },
#include "ir/ops.def"
#undef OP
};

const struct ir_attr_info ir_attrs[IR_NATTRS] = {
#define ATTR(id, name, kind, help) { name, ATTR_##kind, help },
#include "ir/attrs.def"
#undef ATTR
};

const struct ir_dtype_info ir_dtypes[IR_DTYPE_COUNT] = {
#define DTYPE(id, name, bits, is_float, most, least) \
	{ name, bits, is_float, most, least },
#include "ir/dtypes.def"
#undef DTYPE
};

bool
ir_find_op(const char *name, enum ir_op *op)
{
	int i;

	for (i = 0; i < IR_OP_COUNT; i++) {
		if (strcmp(ir_ops[i].name, name) == 0) {
			*op = (enum ir_op)i;
			return true;
		}
	}
	return false;
}

bool
ir_find_attr(const char *name, enum ir_attr_key *key)
{
	int i;

	for (i = 0; i < IR_NATTRS; i++) {
		if (strcmp(ir_attrs[i].name, name) == 0) {
			*key = (enum ir_attr_key)i;
			return true;
		}
	}
	return false;
}

bool
ir_find_dtype(const char *name, enum ir_dtype *dtype)
{
	int i;

	for (i = 0; i < IR_DTYPE_COUNT; i++) {
		if (strcmp(ir_dtypes[i].name, name) == 0) {
			*dtype = (enum ir_dtype)i;
			return true;
		}
	}
	return false;
}

double
ir_elem_bytes(uint8_t dtype)
{
	return ir_dtypes[dtype].bits / 8. +
	       (dtype == IR_INT4 ? 2. / IR_GROUP : 0);
}

/* ---- the attributes of an op: words of its row, `?` after some ---- */

/* Whether a word of n letters is the name of an attribute. */
static bool
is_named(const char *word, size_t n, enum ir_attr_key key)
{
	const char *name = ir_attrs[key].name;

	return strncmp(name, word, n) == 0 && !name[n];
}

/* Steps over a word of n letters. */
static const char *
next_word(const char *p, size_t n)
{
	p += n;
	return p + strspn(p, " ?");
}

long
ir_attr_place(enum ir_op op, enum ir_attr_key key)
{
	const char *row = ir_ops[op].attrs, *p = row;
	size_t n;

	for (; *p; p = next_word(p, n)) {
		n = strcspn(p, " ?");
		if (is_named(p, n, key)) {
			return p - row;
		}
	}
	return -1;
}

enum ir_takes
ir_op_takes(enum ir_op op, enum ir_attr_key key)
{
	long at = ir_attr_place(op, key);
	size_t n = strlen(ir_attrs[key].name);

	return at < 0 ? IR_TAKES_NOT
		: ir_ops[op].attrs[(size_t)at + n] == '?' ? IR_TAKES_OPTION
		: IR_TAKES_MUST;
}

enum ir_attr_key
ir_missing_attr(enum ir_op op, const struct ir_attr *attrs, uint32_t nattrs)
{
	const char *p = ir_ops[op].attrs;
	uint32_t i;
	size_t n;
	int k;

	for (; *p; p = next_word(p, n)) {
		n = strcspn(p, " ?");
		if (p[n] == '?') {
			continue;
		}
		for (i = 0; i < nattrs &&
		     !is_named(p, n, (enum ir_attr_key)attrs[i].key); i++) {
		}
		for (k = 0; i == nattrs && k < IR_NATTRS; k++) {
			if (is_named(p, n, (enum ir_attr_key)k)) {
				return (enum ir_attr_key)k;
			}
		}
	}
	return IR_NATTRS;
}

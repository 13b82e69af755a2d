/*
 * Maps that ops.def defines by other maps, as MAP_OP rows: their definition
 * as steps for a stack machine.  The interpreter computes with the steps and
 * code generation builds expressions from them, so such an op needs no code.
 * A definition that does not parse is a bug in ops.def, so it dies.
 */
#include "ir/ir.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *const definitions[IR_OP_COUNT] = {
#define OP(id, name, n, rule, split, dtypes, attrs, flags, flops, bytes, rc, \
	   grad, help)
#define MAP_OP(id, name, attrs, flops, definition, grad, help) \
	[IR_##id] = definition,
#include "ir/ops.def"
#undef OP
};

/* A definition that is being read. */
struct define_reader {
	enum ir_op op;
	const char *at;
	struct ir_definition *out;
};

static void sum(struct define_reader *r);

_Noreturn static void
bad(const struct define_reader *r, const char *expected)
{
	die("definition of %s: %s expected at \"%s\"", ir_ops[r->op].name,
	    expected, r->at);
}

static bool
read_char(struct define_reader *r, char c)
{
	r->at += strspn(r->at, " ");
	if (*r->at != c) {
		return false;
	}
	r->at++;
	return true;
}

static struct ir_define_step *
add_step(struct define_reader *r, enum ir_define_kind kind)
{
	struct ir_definition *d = r->out;

	if (d->n == IR_MAX_DEFINE) {
		bad(r, "an end");
	}
	d->step[d->n].kind = kind;
	return &d->step[d->n++];
}

static void
call_map(struct define_reader *r, enum ir_op op)
{
	int k;

	if (!ir_is(op, IRF_MAP) || definitions[op]) {
		bad(r, "a map that has code of its own");
	}
	for (k = 0; k < ir_ops[op].nargs; k++) {
		if (k > 0 && !read_char(r, ',')) {
			bad(r, "`,`");
		}
		sum(r);
	}
	if (!read_char(r, ')')) {
		bad(r, "`)`");
	}
	add_step(r, IR_DEFINE_MAP)->op = op;
}

/* The operand `a`, an attribute, or a call of a map. */
static void
word(struct define_reader *r)
{
	enum ir_attr_key key;
	char name[16] = "";
	enum ir_op op;
	size_t n = 0;

	while (isalnum((unsigned char)r->at[n]) || r->at[n] == '_') {
		n++;
	}
	if (n == 0 || n >= sizeof name) {
		bad(r, "a name or a number");
	}
	memcpy(name, r->at, n);
	r->at += n;
	if (read_char(r, '(')) {
		if (!ir_find_op(name, &op)) {
			bad(r, "an op's operands");
		}
		call_map(r, op);
	} else if (strcmp(name, "a") == 0) {
		add_step(r, IR_DEFINE_OPERAND);
	} else if (ir_find_attr(name, &key) &&
		   ir_op_takes(r->op, key) == IR_TAKES_MUST) {
		add_step(r, IR_DEFINE_ATTR)->key = key;
	} else {
		bad(r, "`a` or an attribute that the op requires");
	}
}

static void
factor(struct define_reader *r)
{
	char *end;

	if (read_char(r, '(')) {
		sum(r);
		if (!read_char(r, ')')) {
			bad(r, "`)`");
		}
	} else if (isdigit((unsigned char)*r->at)) {
		add_step(r, IR_DEFINE_NUMBER)->number = strtod(r->at, &end);
		r->at = end;
	} else {
		word(r);
	}
}

static void
product(struct define_reader *r)
{
	factor(r);
	for (;;) {
		if (read_char(r, '*')) {
			factor(r);
			add_step(r, IR_DEFINE_MAP)->op = IR_MUL;
		} else if (read_char(r, '/')) {
			factor(r);
			add_step(r, IR_DEFINE_MAP)->op = IR_DIV;
		} else {
			return;
		}
	}
}

static void
sum(struct define_reader *r)
{
	product(r);
	for (;;) {
		if (read_char(r, '+')) {
			product(r);
			add_step(r, IR_DEFINE_MAP)->op = IR_ADD;
		} else if (read_char(r, '-')) {
			product(r);
			add_step(r, IR_DEFINE_MAP)->op = IR_SUB;
		} else {
			return;
		}
	}
}

bool
ir_define(enum ir_op op, struct ir_definition *out)
{
	struct define_reader r = {
		.op = op, .at = definitions[op], .out = out
	};

	out->n = 0;
	if (!r.at) {
		return false;
	}
	sum(&r);
	if (*r.at) {
		bad(&r, "an end");
	}
	return true;
}

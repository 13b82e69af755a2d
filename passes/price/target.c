/*
 * Targets: the settings of a target block as a struct.  One table knows where
 * each key goes and in which unit; what must be there, and what must agree,
 * is checked once all of it is known.
 */
#include "passes/price/target.h"

#include <math.h>
#include <string.h>

const char *const target_rate_names[TARGET_NRATES] = {
	"fp32", "tf32", "bf16", "fp16", "fp8", "int8"
};

const char *const target_constant_names[TARGET_NCONSTANTS] = {
#define CONSTANT(id, key, member, what) key,
	TARGET_CONSTANTS(CONSTANT)
#undef CONSTANT
};

enum kind { NUM, INT, TEXT, FLAG };

/* GB/s are 1e3 bytes/us, TFLOP/s 1e6 flops/us, GHz 1e3 MHz. */
static const struct field {
	const char *key;
	enum kind kind;
	size_t at;
	double scale;
} fields[] = {
#define GROUP(member) offsetof(struct target_group, member)
#define DEVICE(member) GROUP(device.member)
	{ "vendor", TEXT, DEVICE(vendor), 0 },
	{ "arch", TEXT, DEVICE(arch), 0 },
	{ "link", TEXT, DEVICE(link), 0 },
	{ "fp32", NUM, DEVICE(flops_us[TARGET_FP32]), 1e6 },
	{ "tf32", NUM, DEVICE(flops_us[TARGET_TF32]), 1e6 },
	{ "bf16", NUM, DEVICE(flops_us[TARGET_BF16]), 1e6 },
	{ "fp16", NUM, DEVICE(flops_us[TARGET_FP16]), 1e6 },
	{ "fp8", NUM, DEVICE(flops_us[TARGET_FP8]), 1e6 },
	{ "int8", NUM, DEVICE(flops_us[TARGET_INT8]), 1e6 },
	{ "memory", NUM, DEVICE(memory_bytes), 1e9 },
	{ "reserve", NUM, DEVICE(reserve_bytes), 1e9 },
	{ "bandwidth", NUM, DEVICE(memory_bytes_us), 1e6 },
	{ "units", INT, DEVICE(units), 0 },
	{ "clock", NUM, DEVICE(clock_mhz), 1e3 },
	{ "link_bandwidth", NUM, DEVICE(link_bytes_us), 1e3 / 2 },
	{ "link_devices", INT, DEVICE(link_devices), 0 },
	{ "bridge", NUM, DEVICE(bridge_bytes_us), 1e3 },
	{ "reduces", FLAG, DEVICE(reduces), 0 },
	{ "host", NUM, DEVICE(host_bytes_us), 1e3 },
	{ "host_memory", NUM, DEVICE(host_memory_bytes), 1e9 },
	{ "node_devices", INT, DEVICE(node_devices), 0 },
	{ "price", NUM, DEVICE(price_usd_h), 1 },
	{ "failures", NUM, DEVICE(failures_year), 1 },
	{ "plan_only", FLAG, DEVICE(plan_only), 0 },
#define CONSTANT(id, key, member, what) { key, NUM, DEVICE(member), 1 },
	TARGET_CONSTANTS(CONSTANT)
#undef CONSTANT
	{ "devices", INT, GROUP(devices), 0 },
	{ "nodes", INT, GROUP(nodes), 0 },
	{ "ports", INT, GROUP(network.ports), 0 },
	{ "latency", NUM, GROUP(network.latency_us), 1 },
#undef DEVICE
#undef GROUP
};

/* ---- networks ---- */

static const struct {
	const char *name;
	double gb_s, latency_us;
} networks[] = {
#define NETWORK(name, gb_s, latency_us, help) { name, gb_s, latency_us },
#include "passes/price/networks.def"
#undef NETWORK
};
#define NNETWORKS (sizeof networks / sizeof *networks)

bool
target_network(const char *name, struct target_network *out,
	       struct diag_near *near)
{
	size_t i;

	for (i = 0; i < NNETWORKS; i++) {
		diag_near_try(near, networks[i].name);
		if (strcmp(networks[i].name, name) == 0) {
			out->name = networks[i].name;
			out->bytes_us = networks[i].gb_s * 1e3;
			out->latency_us = networks[i].latency_us;
			return true;
		}
	}
	return false;
}

const char *
target_networks(struct arena *a)
{
	struct buf b;
	size_t i;

	buf_init(&b, a);
	for (i = 0; i < NNETWORKS; i++) {
		buf_printf(&b, "%s%s", !i ? "" : i + 1 < NNETWORKS ? ", "
			   : " and ", networks[i].name);
	}
	return buf_text(&b);
}

/* ---- one block ---- */

static const struct ir_setting *
said(struct ir_module *m, const char *key)
{
	char name[64];

	snprintf(name, sizeof name, "target.%s", key);
	return ir_setting(m, name);
}

static void
put(struct ir_module *m, const struct field *f, const struct ir_setting *s,
    struct target_group *g)
{
	char *at = (char *)g + f->at;

	switch (f->kind) {
	case NUM:
		*(double *)(void *)at = s->num[0] * f->scale;
		break;
	case INT:
		*(int64_t *)(void *)at = (int64_t)s->num[0];
		break;
	case TEXT:
		*(const char **)(void *)at = ir_text(m->ctx, s->text);
		break;
	case FLAG:
		*(bool *)(void *)at =
			strcmp(ir_text(m->ctx, s->text), "on") == 0;
		break;
	}
}

/* `fabric` is a port by name, `network` all that leaves a node. */
static bool
put_network(struct ir_module *m, struct target_group *g)
{
	const struct ir_setting *fabric = said(m, "fabric");
	const struct ir_setting *all = said(m, "network");
	double latency_us = g->network.latency_us;
	struct diag_near near;
	const char *name;

	if (fabric) {
		name = ir_text(m->ctx, fabric->text);
		diag_near_init(&near, name);
		if (!target_network(name, &g->network, &near)) {
			diag_error(&m->ctx->diags, fabric->span, "there is no "
				   "network `%s`%s: there are %s", name,
				   diag_near_text(&near, &m->ctx->tmp),
				   target_networks(&m->ctx->tmp));
			return false;
		}
		if (said(m, "latency")) {
			g->network.latency_us = latency_us;
		}
	}
	if (all) {
		if (g->network.ports < 1) {
			g->network.ports = 1;
		}
		g->network.name = "";
		g->network.bytes_us = all->num[0] * 1e3 /
				      (double)g->network.ports;
	}
	return true;
}

/* ---- where constants come from ---- */

const char *
target_measured_text(uint32_t measured, struct arena *a)
{
	struct buf b;
	int i;

	if (measured == (1u << TARGET_NCONSTANTS) - 1) {
		return "all";
	}
	buf_init(&b, a);
	for (i = 0; i < TARGET_NCONSTANTS; i++) {
		if (measured >> i & 1) {
			buf_printf(&b, "%s%s", b.n ? " " : "",
				   target_constant_names[i]);
		}
	}
	return buf_text(&b);
}

static bool
no_constant(struct ir_module *m, const struct ir_setting *s, const char *name)
{
	struct arena *a = &m->ctx->tmp;
	struct diag_near near;
	struct buf all;
	int i;

	diag_near_init(&near, name);
	buf_init(&all, a);
	for (i = 0; i < TARGET_NCONSTANTS; i++) {
		diag_near_try(&near, target_constant_names[i]);
		buf_printf(&all, "%s%s", !i ? "" : i + 1 < TARGET_NCONSTANTS
			   ? ", " : " and ", target_constant_names[i]);
	}
	diag_error(&m->ctx->diags, s->value, "`%s` is no constant that could "
		   "be measured%s: `measured` is all, or a text of some of "
		   "%s", name, diag_near_text(&near, a), buf_text(&all));
	return false;
}

/* The words of a text, each the name of a constant. */
static bool
put_words(struct ir_module *m, const struct ir_setting *s, uint32_t *measured)
{
	const char *at = ir_text(m->ctx, s->text);
	size_t n;
	int i;

	if (strcmp(at, "all") == 0) {
		*measured = (1u << TARGET_NCONSTANTS) - 1;
		return true;
	}
	for (at += strspn(at, " "); *at; at += n, at += strspn(at, " ")) {
		const char *name;

		n = strcspn(at, " ");
		name = arena_strndup(&m->ctx->tmp, at, n);
		for (i = 0; i < TARGET_NCONSTANTS &&
			    strcmp(target_constant_names[i], name) != 0; i++) {
		}
		if (i == TARGET_NCONSTANTS) {
			return no_constant(m, s, name);
		}
		*measured |= 1u << i;
	}
	return true;
}

/*
 * A constant that a block sets was measured if that block says so: what
 * stands behind `accelerator` was of another number.
 */
static bool
put_measured(struct ir_module *m, struct target_group *g)
{
	const struct ir_setting *s = said(m, "measured");
	int i;

	for (i = 0; i < TARGET_NCONSTANTS; i++) {
		if (said(m, target_constant_names[i])) {
			g->device.measured &= ~(1u << i);
		}
	}
	return !s || put_words(m, s, &g->device.measured);
}

bool
target_apply(struct ir_module *m, struct target_group *g)
{
	const struct ir_setting *s;
	size_t i;

	for (i = 0; i < sizeof fields / sizeof *fields; i++) {
		s = said(m, fields[i].key);
		if (s) {
			put(m, &fields[i], s, g);
		}
	}
	return put_measured(m, g) && put_network(m, g);
}

/* ---- the check ---- */

static bool
any_matrix_rate(const struct target_device *d)
{
	int i;

	for (i = TARGET_TF32; i <= TARGET_FP16; i++) {
		if (d->flops_us[i] > 0) {
			return true;
		}
	}
	return false;
}

static void
lacks(struct buf *b, bool there, const char *key)
{
	if (!there) {
		buf_printf(b, "%s%s", b->n ? ", " : "", key);
	}
}

/* Every one of the constants, since a zero would price something as free. */
static void
lacks_constants(struct buf *b, const struct target_device *d)
{
#define CONSTANT(id, key, member, what) lacks(b, d->member > 0, key);
	TARGET_CONSTANTS(CONSTANT)
#undef CONSTANT
}

bool
target_check(struct ir_ctx *c, const struct target_group *g)
{
	const struct target_device *d = &g->device;
	struct buf b;

	if (g->devices > d->node_devices && d->node_devices > 0) {
		diag_error(&c->diags, g->span, "a node of %s holds at most "
			   "%lld devices, and %lld are asked for", d->name,
			   (long long)d->node_devices,
			   (long long)g->devices);
		return false;
	}
	if (d->memory_bytes > 0 && d->reserve_bytes >= d->memory_bytes) {
		diag_error(&c->diags, g->span, "`reserve`, %.6g GB of a "
			   "device, leaves nothing of `memory`, %.6g GB: "
			   "less is legal", d->reserve_bytes / 1e9,
			   d->memory_bytes / 1e9);
		return false;
	}
	buf_init(&b, &c->tmp);
	lacks(&b, any_matrix_rate(d), "a matrix rate (bf16, fp16, ..)");
	lacks(&b, d->memory_bytes > 0, "memory");
	lacks(&b, d->memory_bytes_us > 0, "bandwidth");
	lacks(&b, d->units > 0, "units");
	lacks(&b, d->clock_mhz > 0, "clock");
	lacks(&b, g->devices == 1 || d->link_bytes_us > 0,
	      "link_bandwidth");
	lacks(&b, g->devices <= d->link_devices || d->bridge_bytes_us > 0 ||
	      d->link_devices == 0, "bridge");
	lacks(&b, g->nodes == 1 || g->network.bytes_us > 0,
	      "fabric or network");
	lacks_constants(&b, d);
	if (b.n) {
		diag_error(&c->diags, g->span, "this target does not say: %s",
			   buf_text(&b));
		return false;
	}
	return true;
}

/* ---- the cluster ---- */

static bool
same_field(const struct field *f, const struct target_group *a,
	   const struct target_group *b)
{
	const void *x = (const char *)a + f->at, *y = (const char *)b + f->at;

	switch (f->kind) {
	case NUM:
		return *(const double *)x == *(const double *)y;
	case INT:
		return *(const int64_t *)x == *(const int64_t *)y;
	case TEXT:
		return strcmp(*(const char *const *)x,
			      *(const char *const *)y) == 0;
	case FLAG:
		break;
	}
	return *(const bool *)x == *(const bool *)y;
}

bool
target_same(const struct target_group *a, const struct target_group *b)
{
	size_t i;

	for (i = 0; i < sizeof fields / sizeof *fields; i++) {
		if (fields[i].at != offsetof(struct target_group, nodes) &&
		    !same_field(&fields[i], a, b)) {
			return false;
		}
	}
	return a->network.bytes_us == b->network.bytes_us;
}

bool
target_is_cpu(const struct target_device *d)
{
	return strncmp(d->arch, "x86", 3) == 0;
}

int64_t
target_devices(const struct target *t)
{
	int64_t n = 0;
	uint32_t i;

	for (i = 0; i < t->groups.n; i++) {
		n += t->groups.at[i].devices * t->groups.at[i].nodes;
	}
	return n;
}

int64_t
target_nodes(const struct target *t)
{
	int64_t n = 0;
	uint32_t i;

	for (i = 0; i < t->groups.n; i++) {
		n += t->groups.at[i].nodes;
	}
	return n;
}

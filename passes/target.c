/*
 * Targets: the settings of a target block as a struct.  One table knows where
 * each key goes and in which unit; what must be there, and what must agree,
 * is checked once all of it is known.
 */
#include "passes/target.h"

#include <math.h>
#include <string.h>

const char *const target_rate_names[TARGET_NRATES] = {
	"fp32", "tf32", "bf16", "fp16", "fp8", "int8"
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
	{ "matrix_eff", NUM, DEVICE(matrix_eff), 1 },
	{ "matrix_fill", NUM, DEVICE(matrix_fill), 1 },
	{ "matrix_feed", NUM, DEVICE(matrix_feed), 1 },
	{ "launch", NUM, DEVICE(launch_us), 1 },
	{ "memory_eff", NUM, DEVICE(memory_eff), 1 },
	{ "attention_eff", NUM, DEVICE(attention_eff), 1 },
	{ "attention_fill", NUM, DEVICE(attention_fill), 1 },
	{ "link_eff", NUM, DEVICE(link_eff), 1 },
	{ "link_start", NUM, DEVICE(link_start_us), 1 },
	{ "link_hop", NUM, DEVICE(link_hop_us), 1 },
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
#include "passes/networks.def"
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
	return put_network(m, g);
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
	lacks(b, d->matrix_eff > 0, "matrix_eff");
	lacks(b, d->matrix_fill > 0, "matrix_fill");
	lacks(b, d->matrix_feed > 0, "matrix_feed");
	lacks(b, d->launch_us > 0, "launch");
	lacks(b, d->memory_eff > 0, "memory_eff");
	lacks(b, d->attention_eff > 0, "attention_eff");
	lacks(b, d->attention_fill > 0, "attention_fill");
	lacks(b, d->link_eff > 0, "link_eff");
	lacks(b, d->link_start_us > 0, "link_start");
	lacks(b, d->link_hop_us > 0, "link_hop");
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

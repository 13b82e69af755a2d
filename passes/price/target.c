/*
 * Targets: the settings of a target block as a struct, and as text again.  One
 * table has the member and the unit of each key; what a target must have, and
 * what must agree, is checked once all blocks are read.
 */
#include "passes/price/target.h"

#include <math.h>
#include <string.h>

const char *const target_rate_names[TARGET_NRATES] = {
	"fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4"
};

const char *const target_constant_names[TARGET_NCONSTANTS] = {
#define CONSTANT(id, key, member, what) key,
	TARGET_CONSTANTS(CONSTANT)
#undef CONSTANT
};

const char *const target_origin_names[TARGET_NORIGINS] = {
#define ORIGIN(id, key, what) key,
	TARGET_ORIGINS(ORIGIN)
#undef ORIGIN
};

enum target_field_kind { NUM, INT, TEXT, FLAG };

/*
 * Keys of a target block but for its network, in the order in which they are
 * printed.  GB/s are 1e3 bytes/us, TFLOP/s 1e6 flops/us, GHz 1e3 MHz.
 */
static const struct target_field {
	const char *key;
	enum target_field_kind kind;
	size_t at;
	double scale;
} fields[] = {
#define GROUP(member) offsetof(struct target_group, member)
#define DEVICE(member) GROUP(device.member)
	{ "devices", INT, GROUP(devices), 1 },
	{ "nodes", INT, GROUP(nodes), 1 },
	{ "vendor", TEXT, DEVICE(vendor), 0 },
	{ "arch", TEXT, DEVICE(arch), 0 },
	{ "plan_only", FLAG, DEVICE(plan_only), 0 },
	{ "fp32", NUM, DEVICE(flops_us[TARGET_FP32]), 1e6 },
	{ "tf32", NUM, DEVICE(flops_us[TARGET_TF32]), 1e6 },
	{ "bf16", NUM, DEVICE(flops_us[TARGET_BF16]), 1e6 },
	{ "fp16", NUM, DEVICE(flops_us[TARGET_FP16]), 1e6 },
	{ "fp8", NUM, DEVICE(flops_us[TARGET_FP8]), 1e6 },
	{ "int8", NUM, DEVICE(flops_us[TARGET_INT8]), 1e6 },
	{ "fp4", NUM, DEVICE(flops_us[TARGET_FP4]), 1e6 },
	{ "memory", NUM, DEVICE(memory_bytes), 1e9 },
	{ "reserve", NUM, DEVICE(reserve_bytes), 1e9 },
	{ "bandwidth", NUM, DEVICE(memory_bytes_us), 1e6 },
	{ "read_bandwidth", NUM, DEVICE(read_bytes_us), 1e6 },
	{ "read_shown", NUM, DEVICE(read_shown), 1 },
	{ "widen_rows", NUM, DEVICE(widen_rows), 1 },
	{ "widen_int4_rows", NUM, DEVICE(widen_int4_rows), 1 },
	{ "keys_eff", NUM, DEVICE(keys_eff), 1 },
	{ "keys_shown", NUM, DEVICE(keys_shown), 1 },
	{ "units", INT, DEVICE(units), 1 },
	{ "clock", NUM, DEVICE(clock_mhz), 1e3 },
	{ "link", TEXT, DEVICE(link), 0 },
	{ "link_bandwidth", NUM, DEVICE(link_bytes_us), 1e3 / 2 },
	{ "link_devices", INT, DEVICE(link_devices), 1 },
	{ "bridge", NUM, DEVICE(bridge_bytes_us), 1e3 },
	{ "reduces", FLAG, DEVICE(reduces), 0 },
	{ "host", NUM, DEVICE(host_bytes_us), 1e3 },
	{ "host_memory", NUM, DEVICE(host_memory_bytes), 1e9 },
	{ "nvme", NUM, DEVICE(nvme_bytes_us), 1e3 },
	{ "nvme_memory", NUM, DEVICE(nvme_memory_bytes), 1e9 },
	{ "node_devices", INT, DEVICE(node_devices), 1 },
	{ "price", NUM, DEVICE(price_usd_h), 1 },
	{ "purchase", NUM, DEVICE(purchase_usd), 1 },
	{ "host_purchase", NUM, DEVICE(host_purchase_usd), 1 },
	{ "power", NUM, DEVICE(power_w), 1 },
	{ "host_power", NUM, DEVICE(host_power_w), 1 },
	{ "failures", NUM, DEVICE(failures_year), 1 },
	{ "ports", INT, GROUP(network.ports), 1 },
	{ "latency", NUM, GROUP(network.latency_us), 1 },
#define CONSTANT(id, key, member, what) { key, NUM, DEVICE(member), 1 },
	TARGET_CONSTANTS(CONSTANT)
#undef CONSTANT
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
		buf_printf(&b, "%s%s", buf_between(i, NNETWORKS),
			   networks[i].name);
	}
	return buf_text(&b);
}

/* ---- one block ---- */

static const struct ir_setting *
setting_of(struct ir_module *m, const char *key)
{
	char name[64];

	snprintf(name, sizeof name, "target.%s", key);
	return ir_setting(m, name);
}

static void
set_field(struct ir_module *m, const struct target_field *f,
	  const struct ir_setting *s, struct target_group *g)
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
set_network(struct ir_module *m, struct target_group *g)
{
	const struct ir_setting *fabric = setting_of(m, "fabric");
	const struct ir_setting *all = setting_of(m, "network");
	double latency_us = g->network.latency_us;
	struct diag_near near;
	const char *name;

	if (fabric && all) {
		diag_error(&m->ctx->diags, all->span, "`fabric` and `network` "
			   "both say what leaves a node: one of them is legal");
		diag_note(&m->ctx->diags, fabric->span, "`fabric` is here");
		return false;
	}
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
		if (setting_of(m, "latency")) {
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
target_origin_text(const struct target_device *d, enum target_origin which,
		   struct arena *a)
{
	struct buf b;
	int i, n = 0;

	buf_init(&b, a);
	for (i = 0; i < TARGET_NCONSTANTS; i++) {
		if (d->origin[i] == which) {
			buf_printf(&b, "%s%s", n++ ? " " : "",
				   target_constant_names[i]);
		}
	}
	return n == TARGET_NCONSTANTS ? "all" : buf_text(&b);
}

static bool
no_constant(struct ir_module *m, const struct ir_setting *s, const char *key,
	    const char *name)
{
	struct arena *a = &m->ctx->tmp;
	struct diag_near near;
	struct buf all;
	int i;

	diag_near_init(&near, name);
	buf_init(&all, a);
	for (i = 0; i < TARGET_NCONSTANTS; i++) {
		diag_near_try(&near, target_constant_names[i]);
		buf_printf(&all, "%s%s",
			   buf_between((size_t)i, TARGET_NCONSTANTS),
			   target_constant_names[i]);
	}
	diag_error(&m->ctx->diags, s->value, "`%s` is no constant of a target"
		   "%s: `%s` is all, or a text of some of %s", name,
		   diag_near_text(&near, a), key, buf_text(&all));
	return false;
}

/* The keys of one block: by constant the key that names it. */
struct origin_keys {
	struct ir_module *m;
	const char *key[TARGET_NCONSTANTS];	/* NULL: none does */
	const char *all;	/* the key of all others, or NULL */
};

static bool
two_origins(struct origin_keys *k, const struct ir_setting *s,
	    const char *name, const char *key, const char *other)
{
	diag_error(&k->m->ctx->diags, s->value, "%s has two origins, `%s` and "
		   "`%s`: one is legal", name, other, key);
	return false;
}

/* The words of a text, each the name of a constant. */
static bool
set_origin(struct origin_keys *k, const struct ir_setting *s,
	   enum target_origin which, struct target_device *d)
{
	const char *at = ir_text(k->m->ctx, s->text);
	const char *key = target_origin_names[which];
	size_t n;
	int i;

	for (at += strspn(at, " "); *at; at += n, at += strspn(at, " ")) {
		const char *name;

		n = strcspn(at, " ");
		name = arena_strndup(&k->m->ctx->tmp, at, n);
		for (i = 0; i < TARGET_NCONSTANTS &&
			    strcmp(target_constant_names[i], name) != 0; i++) {
		}
		if (i == TARGET_NCONSTANTS) {
			return no_constant(k->m, s, key, name);
		}
		if (k->key[i] && strcmp(k->key[i], key) != 0) {
			return two_origins(k, s, arena_printf(
				&k->m->ctx->tmp, "`%s`", name), key,
				k->key[i]);
		}
		k->key[i] = key;
		d->origin[i] = which;
	}
	return true;
}

/* `all` are those that no other key of the block names. */
static bool
set_all_origins(struct origin_keys *k, const struct ir_setting *s,
		enum target_origin which, struct target_device *d)
{
	int i;

	if (k->all) {
		return two_origins(k, s, "each constant",
				   target_origin_names[which], k->all);
	}
	k->all = target_origin_names[which];
	for (i = 0; i < TARGET_NCONSTANTS; i++) {
		d->origin[i] = k->key[i] ? d->origin[i] : which;
	}
	return true;
}

/*
 * A constant that a block sets has the origin that this block states: what the
 * accelerator's own file says of it was about another number.
 */
static bool
set_origins(struct ir_module *m, struct target_device *d)
{
	const struct ir_setting *lender = setting_of(m, "lender"), *s;
	struct origin_keys k = { .m = m };
	int i, all;

	for (i = 0; i < TARGET_NCONSTANTS; i++) {
		if (setting_of(m, target_constant_names[i])) {
			d->origin[i] = TARGET_UNSTATED;
		}
	}
	d->lender = lender ? ir_text(m->ctx, lender->text)
			   : d->lender ? d->lender : "";
	for (i = 0; i < 2 * TARGET_UNSTATED; i++) {
		enum target_origin which = i % TARGET_UNSTATED;

		s = setting_of(m, target_origin_names[which]);
		all = s && strcmp(ir_text(m->ctx, s->text), "all") == 0;
		if (!s || all != (i >= TARGET_UNSTATED)) {
			continue;
		}
		if (!(all ? set_all_origins : set_origin)(&k, s, which, d)) {
			return false;
		}
	}
	return true;
}

bool
target_apply(struct ir_module *m, struct target_group *g)
{
	const struct ir_setting *s;
	size_t i;

	for (i = 0; i < sizeof fields / sizeof *fields; i++) {
		s = setting_of(m, fields[i].key);
		if (s) {
			set_field(m, &fields[i], s, g);
		}
	}
	return set_origins(m, &g->device) && set_network(m, g);
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
add_missing(struct buf *b, bool there, const char *key)
{
	if (!there) {
		buf_printf(b, "%s%s", b->n ? ", " : "", key);
	}
}

/* Each constant must be set: with 0 something would cost nothing. */
static void
add_missing_constants(struct buf *b, const struct target_device *d)
{
#define CONSTANT(id, key, member, what) \
	add_missing(b, d->member > 0, key);
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
	add_missing(&b, any_matrix_rate(d), "a matrix rate (bf16, fp16, ..)");
	add_missing(&b, d->memory_bytes > 0, "memory");
	add_missing(&b, d->memory_bytes_us > 0, "bandwidth");
	add_missing(&b, d->units > 0, "units");
	add_missing(&b, d->clock_mhz > 0, "clock");
	add_missing(&b, g->devices == 1 || d->link_bytes_us > 0,
		    "link_bandwidth");
	add_missing(&b, g->devices <= d->link_devices ||
		    d->bridge_bytes_us > 0 || d->link_devices == 0, "bridge");
	add_missing(&b, g->nodes == 1 || g->network.bytes_us > 0,
		    "fabric or network");
	add_missing_constants(&b, d);
	if (b.n) {
		diag_error(&c->diags, g->span, "this target does not say: %s",
			   buf_text(&b));
		return false;
	}
	return true;
}

/* ---- the cluster ---- */

static bool
same_field(const struct target_field *f, const struct target_group *a,
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

/* LLVM has too many names of CPUs to know them here; those of GPUs have a
 * beginning in common. */
bool
target_is_cpu(const struct target_device *d)
{
	return *d->arch && !target_is_cuda(d) &&
	       strncmp(d->arch, "gfx", 3) != 0;
}

bool
target_is_cuda(const struct target_device *d)
{
	return strncmp(d->arch, "sm_", 3) == 0;
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

/* ---- as text ---- */

/* Nine digits undo the scaling, whatever it rounded off. */
static void
print_num(struct buf *out, const char *key, double v)
{
	buf_printf(out, "  %s = %.9g;\n", key, v);
}

static void
print_text(struct buf *out, const char *key, const char *s)
{
	if (s && *s) {
		buf_printf(out, "  %s = \"%s\";\n", key, s);
	}
}

/* What is 0, off or empty is left out. */
static void
print_field(struct buf *out, const struct target_field *f, const void *g)
{
	const void *at = (const char *)g + f->at;
	double v = f->kind == NUM ? *(const double *)at :
		   f->kind == INT ? (double)*(const int64_t *)at : 0;

	if (f->kind == TEXT) {
		print_text(out, f->key, *(const char *const *)at);
	} else if (f->kind == FLAG && *(const bool *)at) {
		buf_printf(out, "  %s = on;\n", f->key);
	} else if (v != 0) {
		print_num(out, f->key, v / f->scale);
	}
}

/* The name of a block, which may not have all characters of a file's. */
static void
print_name(struct buf *out, const char *name)
{
	if (*name >= '0' && *name <= '9') {
		buf_putc(out, '_');
	}
	for (; *name; name++) {
		buf_putc(out, *name == '-' || *name == '.' ? '_' : *name);
	}
}

/* One of the keys of which each sets bytes_us of a port. */
static void
print_network(struct buf *out, const struct target_network *n)
{
	double all = n->bytes_us * (double)n->ports / 1e3;

	if (n->name && *n->name) {
		buf_printf(out, "  fabric = %s;\n", n->name);
	} else if (all != 0) {
		print_num(out, "network", all);
	}
}

static void
print_origins(struct buf *out, const struct target_device *d)
{
	int i;

	for (i = 0; i < TARGET_UNSTATED; i++) {
		print_text(out, target_origin_names[i],
			   target_origin_text(d, (enum target_origin)i,
					      out->arena));
	}
	if (*target_origin_text(d, TARGET_BORROWED, out->arena)) {
		print_text(out, "lender", d->lender);
	}
}

void
target_print(const struct target *t, struct buf *out)
{
	uint32_t i;
	size_t k;

	for (i = 0; i < t->groups.n; i++) {
		const struct target_group *g = &t->groups.at[i];

		buf_puts(out, "target ");
		print_name(out, g->device.name);
		buf_puts(out, " {\n");
		for (k = 0; k < sizeof fields / sizeof *fields; k++) {
			if (strcmp(fields[k].key, "ports") == 0) {
				print_network(out, &g->network);
			}
			print_field(out, &fields[k], g);
		}
		print_origins(out, &g->device);
		buf_puts(out, "}\n");
	}
}

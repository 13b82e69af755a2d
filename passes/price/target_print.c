/*
 * A target as text: the blocks that say all of it, so that what was put
 * together of a name and a file can be kept, read and changed.
 */
#include "passes/price/target.h"

#include <string.h>

static void
num(struct buf *out, const char *key, double v, double scale)
{
	char digits[32];

	if (v == 0) {
		return;
	}
	/* nine digits undo the scaling, whatever it rounded off */
	snprintf(digits, sizeof digits, "%.9g", v / scale);
	buf_printf(out, "  %s = %s;\n", key, digits);
}

static void
text(struct buf *out, const char *key, const char *s)
{
	if (s && *s) {
		buf_printf(out, "  %s = \"%s\";\n", key, s);
	}
}

static void
flag(struct buf *out, const char *key, bool on)
{
	if (on) {
		buf_printf(out, "  %s = on;\n", key);
	}
}

static void
print_device(struct buf *out, const struct target_device *d)
{
	int i;

	text(out, "vendor", d->vendor);
	text(out, "arch", d->arch);
	flag(out, "plan_only", d->plan_only);
	for (i = 0; i < TARGET_NRATES; i++) {
		num(out, target_rate_names[i], d->flops_us[i], 1e6);
	}
	num(out, "memory", d->memory_bytes, 1e9);
	num(out, "reserve", d->reserve_bytes, 1e9);
	num(out, "bandwidth", d->memory_bytes_us, 1e6);
	num(out, "units", (double)d->units, 1);
	num(out, "clock", d->clock_mhz, 1e3);
	text(out, "link", d->link);
	num(out, "link_bandwidth", d->link_bytes_us, 1e3 / 2);
	num(out, "link_devices", (double)d->link_devices, 1);
	num(out, "bridge", d->bridge_bytes_us, 1e3);
	flag(out, "reduces", d->reduces);
	num(out, "host", d->host_bytes_us, 1e3);
	num(out, "host_memory", d->host_memory_bytes, 1e9);
	num(out, "node_devices", (double)d->node_devices, 1);
	num(out, "price", d->price_usd_h, 1);
	num(out, "failures", d->failures_year, 1);
}

static void
print_constants(struct buf *out, const struct target_device *d)
{
#define CONSTANT(id, key, member, what) num(out, key, d->member, 1);
	TARGET_CONSTANTS(CONSTANT)
#undef CONSTANT
	text(out, "measured", target_measured_text(d->measured, out->arena));
}

/* Names of files hold what names of blocks do not. */
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

void
target_print(const struct target *t, struct buf *out)
{
	uint32_t i;

	for (i = 0; i < t->groups.n; i++) {
		const struct target_group *g = &t->groups.at[i];
		const struct target_network *n = &g->network;

		buf_puts(out, "target ");
		print_name(out, g->device.name);
		buf_puts(out, " {\n");
		num(out, "devices", (double)g->devices, 1);
		num(out, "nodes", (double)g->nodes, 1);
		print_device(out, &g->device);
		if (n->name && *n->name) {
			buf_printf(out, "  fabric = %s;\n", n->name);
		} else {
			num(out, "network", n->bytes_us * (double)n->ports,
			    1e3);
		}
		num(out, "ports", (double)n->ports, 1);
		num(out, "latency", n->latency_us, 1);
		print_constants(out, &g->device);
		buf_puts(out, "}\n");
	}
}

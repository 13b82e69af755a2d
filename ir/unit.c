/*
 * Units that people read numbers in.  A table has one unit, chosen by its
 * largest number, so that it is not all zeros for a small model.
 */
#include "ir/base.h"

static struct scale
unit_of(const struct scale *units, double v)
{
	v = v < 0 ? -v : v;
	while (v > 0 && v < units->size / 10 && units[1].name) {
		units++;
	}
	return *units;
}

struct scale
unit_bytes(double v)
{
	static const struct scale units[] = {
		{ "GiB", 0x1p30 }, { "MiB", 0x1p20 }, { "KiB", 0x1p10 },
		{ 0 }
	};

	return unit_of(units, v);
}

struct scale
unit_decimal_bytes(double v)
{
	static const struct scale units[] = {
		{ "GB", 1e9 }, { "MB", 1e6 }, { "KB", 1e3 }, { 0 }
	};

	return unit_of(units, v);
}

struct scale
unit_flops(double v)
{
	static const struct scale units[] = {
		{ "TFLOP", 1e12 }, { "GFLOP", 1e9 }, { "MFLOP", 1e6 },
		{ "KFLOP", 1e3 }, { 0 }
	};

	return unit_of(units, v);
}

const char *
unit_text(struct arena *a, double bytes)
{
	struct scale u = unit_bytes(bytes);

	return arena_printf(a, "%.2f %s", bytes / u.size, u.name);
}

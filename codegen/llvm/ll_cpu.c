/*
 * CPUs by name, and the features that code may use there.  LLVM knows them
 * all, but its C interface does not list features, and names are checked
 * before LLVM is loaded, or where it is missing.
 */
#include "codegen/cg.h"
#include "codegen/llvm/ll_cpu.h"

#include <string.h>

#define V2 "sse3 ssse3 sse4.1 sse4.2 popcnt"
#define V3 V2 " avx avx2 bmi bmi2 f16c fma lzcnt movbe"
#define V4 V3 " avx512f avx512bw avx512cd avx512dq avx512vl"
#define BF16 V4 " avx512vnni avx512bf16"
#define AMX BF16 " avx512fp16 amx-tile amx-bf16 amx-int8"

/*
 * VDPBF16PS, which multiplies pairs of bf16, is four micro-operations on
 * Sapphire Rapids and those after it, and starts every second cycle (LLVM's
 * model of it, X86SchedSapphireRapids.td; measured on Emerald Rapids: every 2.2
 * cycles), where two FMAs start in each cycle.  So pairs are half as many
 * products as FMAs there: 42 and 84 in a nanosecond of a core.  On Zen 4 they
 * are 1.7 times and on Zen 5 twice as many (targets/cpu-avx512.target,
 * cpu-znver5.target).  Of Cooper Lake no figure is known to us.
 */
#define PAIRS "avx512bf16"

/* To add a CPU, add a row. */
static const struct ll_cpu_row rows[] = {
	{ "x86-64-v2", V2, "" },
	{ "x86-64-v3", V3, "" },
	{ "x86-64-v4", V4, "" },
	{ "haswell", V3, "" },
	{ "skylake", V3, "" },
	{ "znver2", V3, "" },
	{ "znver3", V3, "" },
	{ "skylake-avx512", V4, "" },
	{ "cascadelake", V4 " avx512vnni", "" },
	{ "icelake-server", V4 " avx512vnni", "" },
	{ "cooperlake", BF16, "" },
	{ "znver4", BF16 " avx512vbmi", "" },
	{ "sapphirerapids", AMX, PAIRS },
	{ "emeraldrapids", AMX, PAIRS },
	{ "graniterapids", AMX, PAIRS },
};

/* Beyond plain x86-64.  A rank checks that its CPU has those in use. */
static const char *const checked[] = {
	"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "avx2", "bmi",
	"bmi2", "f16c", "fma", "lzcnt", "movbe", "avx512f", "avx512bw",
	"avx512cd", "avx512dq", "avx512vl", "avx512vnni", "avx512bf16",
	"avx512vbmi", "avx512vbmi2", "avx512ifma", "avx512bitalg",
	"avx512vpopcntdq", "avx512fp16", "avxvnni", "gfni", "amx-tile",
	"amx-bf16", "amx-int8"
};

const char *const *
ll_cpu_features(uint32_t *n)
{
	*n = sizeof checked / sizeof checked[0];
	return checked;
}

/*
 * Features that a feature needs.  Code with vectors of 64 bytes uses all that
 * x86-64-v4 has, and LLVM takes AVX-512 to be there by any feature of it.
 */
static const char *
needed_by(const char *feature)
{
	return strncmp(feature, "avx512", 6) == 0 ? V4
		: strncmp(feature, "amx-", 4) == 0 ? "amx-tile" : "";
}

const struct ll_cpu_row *
ll_cpu_rows(uint32_t *n)
{
	*n = sizeof rows / sizeof rows[0];
	return rows;
}

const struct ll_cpu_row *
ll_cpu_find(const char *name)
{
	uint32_t i;

	for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if (strcmp(rows[i].name, name) == 0) {
			return &rows[i];
		}
	}
	return NULL;
}

bool
ll_cpu_gains(const char *name, const char *feature)
{
	const struct ll_cpu_row *row = ll_cpu_find(name);

	return !row || !ll_cpu_has(row->slow, feature);
}

const char *
ll_cpu_next(struct arena *a, const char **more)
{
	const char *from = *more + (**more == '+');
	size_t n = strcspn(from, "+");

	if (!**more) {
		return NULL;
	}
	*more = from + n;
	return arena_printf(a, "%.*s", (int)n, from);
}

/* "+FEATURE+FEATURE" with those before each that it needs. */
static const char *
with_needed(struct arena *a, const char *more)
{
	const char *feature, *p;
	struct buf all;
	size_t n;

	buf_init(&all, a);
	while ((feature = ll_cpu_next(a, &more)) != NULL) {
		for (p = needed_by(feature); *p; p += n + (p[n] == ' ')) {
			n = strcspn(p, " ");
			buf_printf(&all, "+%.*s", (int)n, p);
		}
		buf_printf(&all, "+%s", feature);
	}
	return buf_text(&all);
}

const char *
ll_cpu_split(struct arena *a, const char *cpu, const char **more)
{
	const char *plus = strchr(cpu, '+');

	*more = plus ? with_needed(a, plus) : "";
	return plus ? arena_printf(a, "%.*s", (int)(plus - cpu), cpu) : cpu;
}

bool
ll_cpu_has(const char *features, const char *feature)
{
	size_t n = strlen(feature);
	const char *p = features;

	for (; (p = strstr(p, feature)) != NULL; p += n) {
		bool starts = p == features || strchr(" ,+", p[-1]);

		/* LLVM writes a minus before a feature that is missing */
		if (starts && (p[n] == '\0' || p[n] == ' ' || p[n] == ',')) {
			return true;
		}
	}
	return false;
}

/*
 * To a name that has no registers of 64 bytes avx512f does not add them in
 * LLVM: its evex512 would, which not all versions know.
 */
const char *
ll_cpu_of_llvm(const char *name, const char *features)
{
	const struct ll_cpu_row *row = ll_cpu_find(name);

	return row && !ll_cpu_has(row->features, "avx512f") &&
	       ll_cpu_has(features, "avx512f") ? "x86-64-v4" : name;
}

/* ---- names that a user gives ---- */

/* "a, b and c" */
static void
put_name(struct buf *out, const char *name, uint32_t i, uint32_t n)
{
	buf_printf(out, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " and ",
		   name);
}

static bool
feature_known(const char *name, struct arena *a, const char **why)
{
	uint32_t n = sizeof checked / sizeof checked[0], i;
	struct diag_near near;
	struct buf list;

	diag_near_init(&near, name);
	buf_init(&list, a);
	for (i = 0; i < n; i++) {
		if (strcmp(checked[i], name) == 0) {
			return true;
		}
		diag_near_try(&near, checked[i]);
		put_name(&list, checked[i], i, n);
	}
	*why = arena_printf(a, "there is no feature `%s` of a CPU%s: there are "
			    "%s", name, diag_near_text(&near, a),
			    buf_text(&list));
	return false;
}

static bool
name_known(const char *name, struct arena *a, const char **why)
{
	uint32_t n = sizeof rows / sizeof rows[0], i;
	struct diag_near near;
	struct buf all;

	if (strcmp(name, "native") == 0 || ll_cpu_find(name)) {
		return true;
	}
	diag_near_init(&near, name);
	buf_init(&all, a);
	for (i = 0; i <= n; i++) {
		const char *known = i ? rows[i - 1].name : "native";

		diag_near_try(&near, known);
		put_name(&all, known, i, n + 1);
	}
	*why = arena_printf(a, "there is no CPU `%s`%s: there are %s", name,
			    diag_near_text(&near, a), buf_text(&all));
	return false;
}

bool
cg_cpu_may_have(const char *cpu, const char *feature)
{
	size_t n = strcspn(cpu, "+"), i;

	for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if (strlen(rows[i].name) == n &&
		    memcmp(rows[i].name, cpu, n) == 0) {
			return ll_cpu_has(rows[i].features, feature) ||
			       strstr(cpu + n, feature);
		}
	}
	return true;
}

bool
cg_cpu_known(const char *cpu, struct arena *a, const char **why)
{
	const char *more, *name = ll_cpu_split(a, cpu, &more);

	if (!name_known(name, a, why)) {
		return false;
	}
	while ((name = ll_cpu_next(a, &more)) != NULL) {
		if (!feature_known(name, a, why)) {
			return false;
		}
	}
	return true;
}

/*
 * The CPUs that code is made for by name, and what a program may use there.
 * LLVM knows them all, but its C interface does not say what they have.
 */
#include "codegen/llvm/ll_cpu.h"

#include <string.h>

#define V2 "sse3 ssse3 sse4.1 sse4.2 popcnt"
#define V3 V2 " avx avx2 bmi bmi2 f16c fma lzcnt movbe"
#define V4 V3 " avx512f avx512bw avx512cd avx512dq avx512vl"
#define BF16 V4 " avx512vnni avx512bf16"
#define AMX BF16 " avx512fp16 amx-tile amx-bf16 amx-int8"

/* A row is all that a new one takes. */
static const struct ll_cpu_row rows[] = {
	{ "x86-64-v2", V2 },
	{ "x86-64-v3", V3 },
	{ "x86-64-v4", V4 },
	{ "haswell", V3 },
	{ "skylake", V3 },
	{ "znver2", V3 },
	{ "znver3", V3 },
	{ "skylake-avx512", V4 },
	{ "cascadelake", V4 " avx512vnni" },
	{ "icelake-server", V4 " avx512vnni" },
	{ "cooperlake", BF16 },
	{ "znver4", BF16 },
	{ "sapphirerapids", AMX },
	{ "emeraldrapids", AMX },
	{ "graniterapids", AMX },
};

/* What code may use beyond plain x86-64, and a rank asks its CPU for. */
static const char *const asked[] = {
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
	*n = sizeof asked / sizeof asked[0];
	return asked;
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

const char *
ll_cpu_split(struct arena *a, const char *cpu, const char **more)
{
	const char *plus = strchr(cpu, '+');

	*more = plus ? plus : "";
	return plus ? arena_printf(a, "%.*s", (int)(plus - cpu), cpu) : cpu;
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

bool
ll_cpu_has(const char *features, const char *feature)
{
	size_t n = strlen(feature);
	const char *p = features;

	for (; (p = strstr(p, feature)) != NULL; p += n) {
		bool starts = p == features || strchr(" ,+", p[-1]);

		/* as LLVM writes them, what is missing has a minus */
		if (starts && (p[n] == '\0' || p[n] == ' ' || p[n] == ',')) {
			return true;
		}
	}
	return false;
}

/*
 * What the assembler made of a kernel that multiplies matrices: reads the text
 * that `nvdisasm` prints of a cubin (standard input), and prints a line for
 * each function that has such an instruction:
 *
 *	nvdisasm x.cubin | sass [PARTS TURNS]
 *
 * function, registers, and how many instructions
 *	spill	load or store spilled registers
 *	fence	fence the whole GPU, or drop the first cache (MEMBAR.*.GPU,
 *		MEMBAR.*.SYS, CCTL), in a loop that multiplies
 *	call	call a function: a slow path of a division or a root
 *	f64	compute in float64
 *	late	load global memory in the same loop as a store of global memory
 *		that comes before them, both outside of loops that multiply:
 *		the assembler keeps their order, and a store waits for what it
 *		stores, so such a load begins when earlier loads have ended
 *	alone	wait, in the main loop, for all products of a warpgroup, fewer
 *		than 16 instructions after one: none of it overlaps with them
 *	slots	are issued in one iteration of the main loop, which is the loop
 *		with the most products of those without another such loop
 *	cycles	that the products of this iteration take their unit
 *	share	slots / cycles in percent: what these products need of the issue
 *		slots of a scheduler
 *	rest	are issued for a tile outside of the main loop, on the longest
 *		way, with loops that run PARTS times, and TURNS times in each of
 *		those; once those that come before a main loop in no other loop,
 *		and store nothing in global memory
 *	least	of attention by wgmma: are issued in an iteration of the main
 *		loop on the shortest way, which masks no score and rescales no
 *		sum; else -
 *
 * An iteration of a loop that waits for an mbarrier, and what only leads to
 * one, is not counted, nor is what comes after the last EXIT.
 *
 * Where one thread issues products, and other warps load what they made and
 * store what the next ones read, the loop with most of these stores has a line
 * too, FUNCTION+weights: its `cycles' are those that exponentials of a warp
 * take the unit of a scheduler.
 */
#include "tests/gpu/sass.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINE = 4096, FEW = 16 };

/* ---- what an instruction is ---- */

/*
 * Cycles that a product takes the unit of a scheduler: a warp's, or a quarter
 * of a warpgroup's.  0: it is no product.  From dense rates that NVIDIA
 * states: a multiprocessor multiplies 2048 elements of 16 bits in a cycle
 * (H100), 1024 (A100), 512 (L40S), where elements of 8 bits (QMMA) take half.
 * `form' is that of a product of tcgen05, as tc_form() makes it, or -1.
 */
static double
product_cycles(const char *op, int arch, long form)
{
	double slower = arch == 89 ? 2 : 1;
	int m, n, k;

	if (sscanf(op, "HGMMA.%dx%dx%d", &m, &n, &k) == 3 ||
	    sscanf(op, "QGMMA.%dx%dx%d", &m, &n, &k) == 3) {
		/* k is 32 bytes, whatever elements have */
		return (double)m * n * 32 / 4096;
	}
	if (begins(op, "UTCHMMA") || begins(op, "UTCQMMA")) {
		/* a multiprocessor of sm_100 multiplies twice as much; of
		 * 128 x 256, which is the most, if nobody knows */
		m = form < 0 ? 128 : (int)(form >> 24 & 0x1f) * 16;
		n = form < 0 ? 256 : (int)(form >> 17 & 0x3f) * 8;
		return (double)m * n * 32 / 8192;
	}
	if (begins(op, "HMMA.16816.")) {
		return 8 * slower;
	}
	if (begins(op, "HMMA.1688.") || begins(op, "HMMA.1684.")) {
		return (strstr(op, ".TF32") ? 8 : 4) * slower;
	}
	return begins(op, "QMMA.16832.") ? 16 : 0;
}

/* The number in uniform register `reg` before instruction i, by what was
 * written last in the order of the text; -1: it is computed. */
static long
known_number(const struct reader *r, int i, int reg)
{
	const struct instruction *x;

	while (reg >= 0 && i-- > 0) {
		x = &r->at[i];
		if (x->to < 0 || reg < x->to || reg >= x->to + x->writes) {
			continue;
		}
		if (x->value >= 0 || x->from < 0) {
			return x->value;
		}
		reg = x->from;
	}
	return -1;
}

static void
price_products(struct reader *r)
{
	int i;

	for (i = 0; i < r->n; i++) {
		r->at[i].cycles = product_cycles(r->at[i].op, r->arch,
			known_number(r, i, r->at[i].form));
	}
}

static bool
is_f64(const char *op)
{
	static const char *const of[] = { "DADD", "DMUL", "DFMA", "DSETP",
					  "DMNMX" };
	size_t i;

	for (i = 0; i < sizeof of / sizeof *of; i++) {
		if (begins(op, of[i])) {
			return true;
		}
	}
	return strstr(op, ".F64") || strstr(op, "64H");
}

static bool
is_fence(const char *op)
{
	return (begins(op, "MEMBAR.") && (strstr(op, ".GPU") ||
					  strstr(op, ".SYS"))) ||
	       begins(op, "CCTL");
}

static bool
is_spill(const char *op)
{
	return begins(op, "LDL") || begins(op, "STL");
}

/* ---- what is printed ---- */

static long
loop_slots(const struct reader *r, int loop)
{
	long n = 0;
	int i;

	for (i = 0; i < r->n; i++) {
		n += r->loop[loop].has[i] && !sass_is_cold(r, i);
	}
	return n;
}

static long
late_loads(const struct reader *r)
{
	static unsigned char stored[MOST_LOOPS + 1];
	long n = 0;
	int i, k;

	memset(stored, 0, sizeof stored);
	for (i = 0; i < r->n; i++) {
		k = r->at[i].loop;
		if (k >= 0 && r->loop[k].products > 0) {
			continue;
		}
		if (begins(r->at[i].op, "STG")) {
			stored[k + 1] = 1;
		}
		/* .CONSTANT: nothing stores there */
		n += begins(r->at[i].op, "LDG") && stored[k + 1] &&
		     !strstr(r->at[i].op, ".CONSTANT");
	}
	return n;
}

static long
waits_alone(const struct reader *r)
{
	int since = FEW, i;
	long n = 0;

	for (i = 0; r->main_loop >= 0 && i < r->n; i++) {
		if (!r->loop[r->main_loop].has[i] || sass_is_cold(r, i)) {
			continue;
		}
		n += r->at[i].waits && since < FEW;
		since = r->at[i].cycles > 0 ? 0 : since + 1;
	}
	return n;
}

static int
registers_of(const struct reader *r)
{
	int i;

	for (i = 0; i < r->nknown; i++) {
		if (strcmp(r->known[i].name, r->function) == 0) {
			return r->known[i].registers;
		}
	}
	return 0;
}

/* Whether tiles may leave out much of the main loop: attention by wgmma. */
static bool
has_least(const struct reader *r)
{
	int i;

	for (i = 0; i < r->n; i++) {
		if (r->loop[r->main_loop].has[i] &&
		    begins(r->at[i].op, "HGMMA")) {
			return begins(r->function, "attention");
		}
	}
	return false;
}

static void
print_function(struct reader *r)
{
	long spill = 0, fence = 0, call = 0, f64 = 0, slots;
	double cycles;
	int i;

	for (i = 0; i < r->n; i++) {
		const char *op = r->at[i].op;
		int k = r->at[i].loop;

		spill += is_spill(op);
		call += begins(op, "CALL") && r->at[i].label < 0 &&
			!r->at[i].traps;
		f64 += is_f64(op);
		fence += is_fence(op) && k >= 0 && r->loop[k].products > 0;
	}
	if (r->main_loop < 0) {
		printf("%s\t%d\t%ld\t%ld\t%ld\t%ld\t%ld\t0\t-\t-\t-\t-\t-\n",
		       r->function, registers_of(r), spill, fence, call, f64,
		       late_loads(r));
		return;
	}
	slots = loop_slots(r, r->main_loop);
	cycles = r->loop[r->main_loop].products;
	printf("%s\t%d\t%ld\t%ld\t%ld\t%ld\t%ld\t%ld\t%ld\t%.0f\t%.0f"
	       "\t%ld\t", r->function, registers_of(r), spill, fence, call,
	       f64, late_loads(r), waits_alone(r), slots, cycles,
	       100 * (double)slots / cycles, sass_rest(r));
	if (has_least(r)) {
		printf("%ld\n", sass_least(r));
	} else {
		printf("-\n");
	}
}

/* The loop with most stores to tensor memory; -1: there is none. */
static int
weights_loop(const struct reader *r)
{
	int stores[MOST_LOOPS] = { 0 }, best = -1, i, k;

	for (i = 0; i < r->n; i++) {
		k = r->at[i].loop;
		if (k >= 0 && begins(r->at[i].op, "STTM")) {
			stores[k]++;
			best = best < 0 || stores[k] > stores[best] ? k : best;
		}
	}
	return best;
}

/* A warp's exponential takes a quarter of a multiprocessor 8 cycles: it
 * computes 16 in a cycle. */
static void
print_weights(const struct reader *r)
{
	int k = weights_loop(r), i;
	long slots, cycles = 0;

	if (k < 0) {
		return;
	}
	for (i = 0; i < r->n; i++) {
		cycles += r->loop[k].has[i] && begins(r->at[i].op, "MUFU.EX2")
			  ? 8 : 0;
	}
	slots = loop_slots(r, k);
	printf("%s+weights\t%d\t0\t0\t0\t0\t0\t0\t%ld\t%ld\t%ld\t0\t-\n",
	       r->function, registers_of(r), slots, cycles,
	       cycles > 0 ? 100 * slots / cycles : 0);
}

static void
end_function(struct reader *r)
{
	bool multiplies = false;
	int i;

	price_products(r);
	for (i = 0; i < r->n; i++) {
		multiplies |= r->at[i].cycles > 0;
	}
	if (multiplies) {
		sass_find_loops(r);
		print_function(r);
		print_weights(r);
	}
	for (i = 0; i < r->nloops; i++) {
		free(r->loop[i].has);
		memset(&r->loop[i], 0, sizeof r->loop[i]);
	}
	r->n = r->nloops = r->ntargets = 0;
	r->last_exit = MOST_INSTRUCTIONS;
	for (i = 0; i < MOST_LABELS; i++) {
		r->label[i] = -1;
	}
}

/* ---- the text ---- */

/* The number of a label of code, ".L_x_12"; -1: it is another one. */
static int
label_of(const char *s)
{
	const char *at = strstr(s, ".L_x_");
	long n = at ? strtol(at + 5, NULL, 10) : -1;

	return n < MOST_LABELS ? (int)n : -1;
}

/* The number of the uniform register that s begins with, or -1. */
static int
register_at(const char *s)
{
	return begins(s, "UR") && isdigit((unsigned char)s[2]) ? atoi(s + 2)
								: -1;
}

/* What becomes of uniform registers; s is the text after the name. */
static void
read_uniform(struct instruction *x, const char *s)
{
	const char *form = strstr(s, "idesc["), *rest = strstr(s, ", ");

	s += strspn(s, " ");
	x->to = begins(x->op, "UTC") ? -1 : register_at(s);
	x->writes = strstr(x->op, "128") ? 4 : strstr(x->op, "64") ||
		    strstr(x->op, "WIDE") ? 2 : 1;
	x->form = form ? register_at(form + 6) : -1;
	x->value = x->from = -1;
	if (strcmp(x->op, "UMOV") == 0 && rest && !x->predicated) {
		x->from = register_at(rest + 2);
		x->value = begins(rest + 2, "0x") ? strtol(rest + 2, NULL, 16)
						   : -1;
	}
}

/* The labels of a branch by a table: BRX R12 -0x40 (*"BRANCH_TARGETS .L_x_1,..
 * ,.L_x_2"*). */
static void
read_targets(struct reader *r, struct instruction *x, const char *s)
{
	x->first_target = r->ntargets;
	s = begins(x->op, "BRX") ? strstr(s, "BRANCH_TARGETS") : NULL;
	while (s && label_of(s) >= 0 && r->ntargets < MOST_TARGETS) {
		r->target[r->ntargets++] = label_of(s);
		x->ntargets++;
		s = strstr(s, ".L_x_") + 5;
	}
}

static void
read_instruction(struct reader *r, const char *s)
{
	struct instruction *x;
	size_t n;

	if (r->n == MOST_INSTRUCTIONS) {
		fputs("sass: a function is too long\n", stderr);
		exit(1);
	}
	x = &r->at[r->n];
	memset(x, 0, sizeof *x);
	if (*s == '@') {
		x->predicated = true;
		s += strcspn(s, " ");
		s += strspn(s, " ");
	}
	n = strcspn(s, " ;");
	n = n < sizeof x->op ? n : sizeof x->op - 1;
	memcpy(x->op, s, n);
	read_uniform(x, s + n);
	x->waits = begins(x->op, "WARPGROUP.DEPBAR") && strstr(s, ", 0x0 ");
	x->traps = strstr(s, "tcgen05_guardrail_trap") != NULL;
	x->label = begins(x->op, "BRA") || begins(x->op, "CALL") ? label_of(s)
								  : -1;
	read_targets(r, x, s);
	if (begins(x->op, "EXIT")) {
		r->last_exit = r->n;
	}
	r->n++;
}

/* The count of registers is the word after the name of its function. */
static void
read_registers(struct reader *r, const char *line, bool *counts)
{
	const char *s;

	if (strstr(line, "EIATTR_")) {
		*counts = strstr(line, "EIATTR_REGCOUNT") != NULL;
	}
	if (!*counts || r->nknown == MOST_FUNCTIONS) {
		return;
	}
	s = strstr(line, "index@(");
	if (s) {
		sscanf(s + 7, "%127[^)]", r->known[r->nknown].name);
	}
	s = strstr(line, ".word\t0x");
	if (s && r->known[r->nknown].name[0]) {
		r->known[r->nknown++].registers =
			(int)strtol(s + 6, NULL, 16);
	}
}

/* A line outside of a function's code. */
static void
read_header(struct reader *r, const char *line, bool *counts)
{
	if (begins(line, "\t.target\tsm_")) {
		r->arch = (int)strtol(line + 12, NULL, 10);
	}
	read_registers(r, line, counts);
}

static void
read_line(struct reader *r, const char *line, bool *code, bool *counts)
{
	const char *s;

	if (begins(line, "\t.section\t")) {
		*code = false;
		*counts = false;
	}
	if (begins(line, ".text.")) {
		end_function(r);
		sscanf(line + 6, "%127[^:]", r->function);
		*code = true;
		return;
	}
	if (!*code) {
		read_header(r, line, counts);
		return;
	}
	if (begins(line, ".L_x_") && label_of(line) >= 0) {
		r->label[label_of(line)] = r->n;
		return;
	}
	s = line + strspn(line, " \t");
	if (begins(s, "/*") && strstr(s, "*/")) {
		s = strstr(s, "*/") + 2;
		s += strspn(s, " \t");
		if (*s == '@' || isupper((unsigned char)*s)) {
			read_instruction(r, s);
		}
	}
}

int
main(int argc, char **argv)
{
	static struct reader r;
	static char line[MOST_LINE];
	bool code = false, counts = false;

	r.parts = argc == 3 ? strtol(argv[1], NULL, 10) : 1;
	r.turns = argc == 3 ? strtol(argv[2], NULL, 10) : 1;
	if ((argc != 1 && argc != 3) || r.parts < 1 || r.turns < 1) {
		fputs("usage: nvdisasm FILE | sass [PARTS TURNS]\n", stderr);
		return 2;
	}
	end_function(&r);
	while (fgets(line, sizeof line, stdin)) {
		read_line(&r, line, &code, &counts);
	}
	end_function(&r);
	return 0;
}

/*
 * A function as a disassembler shows it: its instructions and its loops.
 */
#ifndef TESTS_GPU_SASS_H
#define TESTS_GPU_SASS_H

#include <stdbool.h>
#include <string.h>

enum {
	MOST_INSTRUCTIONS = 1 << 16,
	MOST_LABELS = 4096,
	MOST_LOOPS = 512,
	MOST_TARGETS = 4096,
	MOST_FUNCTIONS = 64
};

struct instruction {
	char op[48];
	bool predicated;
	bool waits;	/* for all products of a warpgroup */
	/* it calls what stops a kernel that misuses tensor memory */
	bool traps;
	int label;	/* of its target, or -1 */
	/* of a branch by a table: its labels, among the reader's targets */
	int first_target, ntargets;
	int loop;	/* the smallest that has it, or -1 */
	double cycles;	/* of a product; 0: it is none */
	/* uniform registers, or -1: the first that it writes; the one that it
	 * copies; and the one with the form of a product of tcgen05 */
	int to, from, form;
	int writes;	/* how many it writes */
	long value;	/* that it writes, or -1 */
	/* its place in the order in which all that follows an instruction, but
	 * by a branch back, comes before it; -1: it is not reached */
	int order;
};

/* A natural loop: what reaches its end without its first instruction. */
struct loop {
	int head, size, outer;	/* outer: the next larger loop, or -1 */
	double products;	/* cycles of products in it alone */
	bool multiplies;	/* it, or a loop inside of it */
	bool waits;	/* for an mbarrier */
	unsigned char *has;
	long way;	/* slots of its longest way, once known */
};

struct reader {
	char function[128];
	struct instruction at[MOST_INSTRUCTIONS];
	int n, last_exit;
	int arch;	/* 90 of sm_90a */
	/* where each label is, or -1 */
	int label[MOST_LABELS];
	/* labels that branches by a table go to */
	int target[MOST_TARGETS];
	int ntargets;
	struct loop loop[MOST_LOOPS];
	int nloops;
	int main_loop;
	struct {
		char name[128];
		int registers;
	} known[MOST_FUNCTIONS];
	int nknown;
	long parts, turns;
};

static inline bool
begins(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* ---- sass_flow.c: the control flow ---- */

/* Finds all loops, and the main one. */
void sass_find_loops(struct reader *r);
/* Instructions that are issued for a tile outside of the main loop. */
long sass_rest(struct reader *r);
/* Instructions on the shortest way through an iteration of the main loop, after
 * sass_rest(). */
long sass_least(const struct reader *r);
/* Whether instruction i only leads to a loop that waits, or back from it. */
bool sass_is_cold(const struct reader *r, int i);

#endif

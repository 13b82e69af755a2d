/*
 * The answer as pictures: one HTML file with everything in it, which needs no
 * network, for --report; and a schedule as one SVG file.  It reads a priced
 * plan with its schedule, kernels, memory and search (sched/, price/, memory/,
 * search/, answer/) and computes no price of its own; frontend/tool/ calls
 * it.  docs/report.md says how to read each picture.
 *
 * A picture is one file here and one row of the table in picture_page.c.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef PASSES_PICTURES_H
#define PASSES_PICTURES_H

#include "passes/answer/answer.h"
#include "passes/memory/memory.h"

struct picture_input {
	const struct answer *answer;
	const struct target *target;
	const struct target_devs *devs;
	const struct ranks *ranks;
	const struct price *price;
	const struct memory *memory;	/* its devices are set */
};

/* ---- picture_page.c ----------------------------------------------------- */

/* The whole file; the same input gives the same bytes. */
void picture_report(const struct picture_input *in, struct buf *out);

/* ---- picture_schedule.c ------------------------------------------------- */

/*
 * A schedule that has passed sched_check as an SVG file, with all actions one
 * step long.
 */
void picture_schedule(const struct sched *s, struct buf *out);

#endif

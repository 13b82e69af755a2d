/*
 * Which tiles spill.  Only the compiler knows how many registers a function
 * needs: so all is emitted and compiled, and if a tile spills, all is emitted
 * again with the next best one.  The result depends on the text of kernels
 * alone.
 */
#include "codegen/host/host.h"

#include <string.h>

/* Whether the function is one of the steps that the choice is of. */
static bool
makes(const struct host_kernel *h, const struct cu_candidates *w,
      const char *func)
{
	uint32_t i;

	for (i = w->first; i < w->end; i++) {
		const struct cg_grid *g = h->k.steps.at[i].grid;

		if (g && strcmp(g->func, func) == 0) {
			return true;
		}
	}
	return false;
}

/* Adds a tile to those that spill; not one that the plan sets, nor one that was
 * chosen although it spills, as all others do. */
static bool
add_spill(struct cg_code *c, const struct cu_candidates *w)
{
	struct cg_spill s = { w->what, w->chosen };
	struct cg_tiling *in = c->in.tiling;
	uint32_t i;

	for (i = 0; i < in->spills.n; i++) {
		const struct cg_spill *x = &in->spills.at[i];

		if (strcmp(x->what, s.what) == 0 &&
		    memcmp(&x->tile, &s.tile, sizeof s.tile) == 0) {
			return false;
		}
	}
	if (w->met || w->spills) {
		return false;
	}
	VEC_PUSH(c->a, &in->spills, s);
	return true;
}

static uint32_t
kernel_spills(struct cg_code *c, const struct host_kernel *h,
	      const struct cg_image *x)
{
	uint32_t n = 0, i, j;

	for (i = 0; i < x->funcs.n; i++) {
		for (j = 0; x->funcs.at[i].spill_bytes > 0 && j < h->ways.n;
		     j++) {
			if (makes(h, &h->ways.at[j], x->funcs.at[i].name)) {
				n += add_spill(c, &h->ways.at[j]);
			}
		}
	}
	return n;
}

uint32_t
cg_code_spills(struct cg_code *c, const struct cg_images *x)
{
	uint32_t n = 0, i;

	for (i = 0; c->tiling && x->at && i < c->kernels.n; i++) {
		const struct host_kernel *h = c->kernels.at[i];

		if (h) {
			n += kernel_spills(c, h, &x->at[h->image]);
		}
	}
	return n;
}

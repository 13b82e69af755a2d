/*
 * What tests of kernels on a CPU share: the prelude's texts as a plan carries
 * them, and files of tests/gpu as images.
 */
#ifndef T_EMULATE_H
#define T_EMULATE_H

#include "codegen/cuda/cuda.h"
#include "runtime/emulate/emulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As in struct rt_images, which names no type for them. */
struct t_text {
	const char *name, *text;
};

struct t_images {
	struct rt_images all;
	struct rt_image image[8];
	struct t_text texts[16];
};

static void
t_images_init(struct t_images *x)
{
	uint32_t i;

	memset(x, 0, sizeof *x);
	for (i = 0; i < cu_nprelude; i++) {
		x->texts[i].name = cu_prelude[i].name;
		x->texts[i].text = cu_prelude[i].text;
	}
	x->all.at = x->image;
	x->all.ntexts = cu_nprelude;
	x->all.texts = (const void *)x->texts;
}

static void
t_images_add(struct t_images *x, const char *name, const char *source)
{
	x->image[x->all.n].name = name;
	x->image[x->all.n++].source = source;
}

/* All of a file below the top of the sources; freed by the caller. */
static char *
t_source(const char *name)
{
	const char *top = getenv("top_srcdir");
	char path[1024], *text = calloc(1, 1 << 20);
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", top ? top : ".", name);
	f = fopen(path, "r");
	if (!f || !text || fread(text, 1, (1 << 20) - 1, f) == 0) {
		fprintf(stderr, "cannot read %s\n", path);
		exit(1);
	}
	fclose(f);
	return text;
}

#endif

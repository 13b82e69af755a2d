/*
 * A libnvrtc of the tests: a cubin is the source's own text, and which kernels
 * spill is planted.
 *
 * FAKE_SPILLS=TEXT   a kernel spills if its text has this; several: a;b
 * FAKE_LOG=FILE      a line for each source that is compiled: its name
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID = 3 };

struct program {
	char *name, *text, *log;
};

int
nvrtcVersion(int *major, int *minor)
{
	*major = 13;
	*minor = 99;
	return OK;
}

static const int archs[] = { 80, 86, 89, 90, 100, 103 };

int
nvrtcGetNumSupportedArchs(int *n)
{
	*n = sizeof archs / sizeof *archs;
	return OK;
}

int
nvrtcGetSupportedArchs(int *out)
{
	memcpy(out, archs, sizeof archs);
	return OK;
}

const char *
nvrtcGetErrorString(int code)
{
	return code == OK ? "OK" : "INVALID";
}

int
nvrtcCreateProgram(struct program **out, const char *text, const char *name,
		   int ntexts, const char *const *texts,
		   const char *const *names)
{
	struct program *p = malloc(sizeof *p);

	(void)ntexts;
	(void)texts;
	(void)names;
	*p = (struct program){ strdup(name), strdup(text), NULL };
	*out = p;
	return OK;
}

int
nvrtcDestroyProgram(struct program **p)
{
	free((*p)->name);
	free((*p)->text);
	free((*p)->log);
	free(*p);
	*p = NULL;
	return OK;
}

/* ---- compiling ---- */

/* Whether the n bytes hold a text of FAKE_SPILLS. */
static int
spills(const char *text, size_t n)
{
	const char *p = getenv("FAKE_SPILLS");

	while (p && *p) {
		size_t k = strcspn(p, ";");

		if (k > 0 && memmem(text, n, p, k)) {
			return 1;
		}
		p += k + (p[k] == ';');
	}
	return 0;
}

/* As the assembler of NVRTC 13 has it, with -v and -warn-spills. */
static void
say(FILE *out, const char *name, int length, int spilled)
{
	if (spilled) {
		fprintf(out, "ptxas warning : Registers are spilled to local "
			"memory in function '%.*s', 8 bytes spill stores, 8 "
			"bytes spill loads\n", length, name);
	}
	fprintf(out, "ptxas info    : Compiling entry function '%.*s' for "
		"'sm'\nptxas info    : Function properties for %.*s\n    %d "
		"bytes stack frame, %d bytes spill stores, %d bytes spill "
		"loads\nptxas info    : Used 128 registers, used 1 barriers, "
		"16 bytes smem\n", length, name, length, name, 8 * spilled,
		8 * spilled, 8 * spilled);
}

static void
note(const char *name)
{
	const char *path = getenv("FAKE_LOG");
	FILE *f = path ? fopen(path, "a") : NULL;

	if (f) {
		fprintf(f, "%s\n", name);
		fclose(f);
	}
}

int
nvrtcCompileProgram(struct program *p, int noptions,
		    const char *const *options)
{
	static const char word[] = "\nKERNEL(";
	const char *at = strstr(p->text, word), *next, *name;
	size_t n;
	FILE *f = open_memstream(&p->log, &n);

	(void)noptions;
	(void)options;
	for (; at; at = next) {
		name = at + strlen(word);
		next = strstr(name, word);
		n = next ? (size_t)(next - at) : strlen(at);
		say(f, name, (int)strcspn(name, ","), spills(at, n));
	}
	fclose(f);
	note(p->name);
	return OK;
}

/* ---- what came of it ---- */

static int
size(const char *text, size_t *n)
{
	*n = text ? strlen(text) + 1 : 0;
	return text ? OK : INVALID;
}

int
nvrtcGetProgramLogSize(struct program *p, size_t *n)
{
	return size(p->log, n);
}

int
nvrtcGetProgramLog(struct program *p, char *out)
{
	strcpy(out, p->log);
	return OK;
}

int
nvrtcGetCUBINSize(struct program *p, size_t *n)
{
	return size(p->text, n);
}

int
nvrtcGetCUBIN(struct program *p, char *out)
{
	strcpy(out, p->text);
	return OK;
}

int
nvrtcGetPTXSize(struct program *p, size_t *n)
{
	return size(p->text, n);
}

int
nvrtcGetPTX(struct program *p, char *out)
{
	strcpy(out, p->text);
	return OK;
}

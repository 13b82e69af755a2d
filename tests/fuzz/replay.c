/*
 * Feeds files to a fuzzer's entry point without libFuzzer, so that any
 * compiler's `make check` goes through every committed seed, and through as
 * many mutants of each as FUZZ_MUTANTS says (mutate.h; from FUZZ_SEED on).
 *
 * Arguments are files, or folders whose plain files are taken in the order of
 * their names.  An input that takes more processor time than FUZZ_CPU seconds
 * or lets the process grow over FUZZ_MB megabytes is a finding, as a crash
 * is; the mutant that was run last is in the file `mutant`.
 */
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/fuzz/mutate.h"

enum { MOST_BYTES = 1 << 20 };	/* of a mutant */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
fatal(const char *path)
{
	perror(path);
	exit(EXIT_FAILURE);
}

/* A setting from the environment. */
static long
setting(const char *name, long otherwise)
{
	const char *text = getenv(name);

	return text && *text ? atol(text) : otherwise;
}

static void
on_time(int sig)
{
	static const char text[] = "more than FUZZ_CPU seconds\n";

	(void)sig;
	_exit(write(STDERR_FILENO, text, sizeof text - 1) > 0 ? 1 : 2);
}

/*
 * From here on so much time of the processor.  RLIMIT_CPU counts ticks, and
 * getrusage what was run: they grow apart as a long process goes on, so a limit
 * on one that is set by the other was met by inputs that took no time.
 */
static void
limit_time(void)
{
	struct itimerval t = { 0 };

	t.it_value.tv_sec = setting("FUZZ_CPU", 40);
	signal(SIGPROF, on_time);
	setitimer(ITIMER_PROF, &t, NULL);
}

/* What a process held at most only grows: the first to exceed is named. */
static void
check_memory(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	if (u.ru_maxrss / 1024 > setting("FUZZ_MB", 2000)) {
		fprintf(stderr, "%ld MB, more than FUZZ_MB\n",
			u.ru_maxrss / 1024);
		exit(EXIT_FAILURE);
	}
}

/* Exactly as long as the input, for the sanitizer to see its end. */
static void
run(const uint8_t *data, size_t size)
{
	uint8_t *own = malloc(size ? size : 1);

	if (!own)
		fatal("malloc");
	if (size > 0)
		memcpy(own, data, size);
	limit_time();
	LLVMFuzzerTestOneInput(own, size);
	check_memory();
	free(own);
}

static void
keep_mutant(const uint8_t *data, size_t size)
{
	FILE *f = fopen("mutant", "wb");

	if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
		fatal("mutant");
}

static void
run_mutants(const uint8_t *data, size_t size, long count)
{
	uint64_t seed = (uint64_t)setting("FUZZ_SEED", 1);
	uint8_t *mutant = malloc(MOST_BYTES);
	long i;

	if (!mutant)
		fatal("malloc");
	for (i = 0; i < count && size > 0 && size < MOST_BYTES; i++) {
		size_t n;

		memcpy(mutant, data, size);
		n = fuzz_mutate(mutant, size, MOST_BYTES,
				(seed + (uint64_t)i) << 20 | (size & 0xfffff));
		keep_mutant(mutant, n);
		run(mutant, n);
	}
	free(mutant);
}

static void
replay_file(const char *path, size_t size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data;

	data = malloc(size ? size : 1);
	if (!f || !data || fread(data, 1, size, f) != size)
		fatal(path);
	fclose(f);
	printf("%s\n", path);
	fflush(stdout);
	run(data, size);
	run_mutants(data, size, setting("FUZZ_MUTANTS", 0));
	free(data);
}

static int
visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static int
replay(const char *path)
{
	struct dirent **entries;
	struct stat st;
	char *name;
	size_t size;
	int count = 0;
	int n;

	if (stat(path, &st) < 0)
		fatal(path);
	if (!S_ISDIR(st.st_mode)) {
		replay_file(path, (size_t)st.st_size);
		return 1;
	}
	n = scandir(path, &entries, visible, alphasort);
	if (n < 0)
		fatal(path);
	for (int i = 0; i < n; i++) {
		size = strlen(path) + strlen(entries[i]->d_name) + 2;
		name = malloc(size);
		if (!name)
			fatal(path);
		snprintf(name, size, "%s/%s", path, entries[i]->d_name);
		count += replay(name);
		free(name);
		free(entries[i]);
	}
	free(entries);
	return count;
}

int
main(int argc, char **argv)
{
	int count = 0;

	for (int i = 1; i < argc; i++)
		count += replay(argv[i]);
	printf("%d inputs\n", count);
	return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

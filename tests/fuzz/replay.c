/*
 * Feeds files to a fuzzer's entry point without libFuzzer, so that any
 * compiler's `make check` goes through every committed seed.
 *
 * Arguments are files, or folders whose plain files are taken in the order of
 * their names.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
fatal(const char *path)
{
	perror(path);
	exit(EXIT_FAILURE);
}

static void
replay_file(const char *path, size_t size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data;

	/* Exactly as long as the input, for the sanitizer to see its end. */
	data = malloc(size ? size : 1);
	if (!f || !data || fread(data, 1, size, f) != size)
		fatal(path);
	fclose(f);
	printf("%s\n", path);
	fflush(stdout);
	LLVMFuzzerTestOneInput(data, size);
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

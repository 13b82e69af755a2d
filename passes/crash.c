/*
 * The reproducer: the module before a pass that died, written by whoever
 * notices, which may be a signal handler.  So nothing here allocates,
 * formats or buffers; all text was made ready before the pass ran.
 */
#include "passes/pass.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static bool
write_all(int fd, const char *text, size_t n)
{
	while (n > 0) {
		ssize_t k = write(fd, text, n);

		if (k <= 0) {
			return false;
		}
		text += k;
		n -= (size_t)k;
	}
	return true;
}

void
pass_crash_write(struct pass_crash *c)
{
	static const char no_file[] =
		"llmc: the reproducer cannot be written\n";
	const char *text = c->text;
	bool ok;
	int fd;

	if (!text) {
		return;
	}
	c->text = NULL;		/* a second signal finds nothing to do */
	fd = open(c->file, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	ok = fd >= 0 && write_all(fd, text, c->n);
	if (fd >= 0) {
		ok &= close(fd) == 0;
	}
	if (ok) {
		write_all(STDERR_FILENO, c->message, strlen(c->message));
	} else {
		write_all(STDERR_FILENO, no_file, sizeof no_file - 1);
	}
}

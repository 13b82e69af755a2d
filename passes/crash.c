/*
 * The reproducer: writes the module as it was before a pass that crashed.  This
 * may run in a signal handler on a small stack, in a process whose heap is
 * damaged, so nothing here allocates: the manager copied the module before the
 * pass ran, and it is printed through a small buffer.  Names are read from the
 * context, where they are only ever added.
 */
#include "passes/pass.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* A buffer that is written to a file whenever it is full. */
struct to_file {
	struct buf text;	/* first member: `full` casts it back */
	int fd;
	bool ok;
};

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

static void
flush(struct buf *b)
{
	struct to_file *f = (struct to_file *)b;

	f->ok = f->ok && write_all(f->fd, b->at, b->n);
	b->n = 0;
}

static bool
write_module(const struct pass_crash *c, struct ir_module *m)
{
	char text[4096];
	struct to_file f = {
		.text = { .at = text, .cap = sizeof text, .full = flush },
		.fd = open(c->file, O_WRONLY | O_CREAT | O_TRUNC, 0666),
		.ok = true
	};

	if (f.fd < 0) {
		return false;
	}
	buf_puts(&f.text, c->args);
	ir_print_in(m, &c->scratch, &f.text);
	flush(&f.text);
	return close(f.fd) == 0 && f.ok;
}

void
pass_crash_write(struct pass_crash *c)
{
	static const char no_file[] =
		"llmc: the reproducer cannot be written\n";
	struct ir_module *m = c->before;
	bool again = c->writing, ok;

	if (!m && !again) {
		return;
	}
	c->before = NULL;	/* a second signal does nothing */
	c->writing = !again;	/* unless writing itself faulted */
	ok = !again && write_module(c, m);
	c->writing = false;
	if (ok) {
		write_all(STDERR_FILENO, c->message, strlen(c->message));
	} else {
		write_all(STDERR_FILENO, no_file, sizeof no_file - 1);
	}
}

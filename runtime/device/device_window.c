/*
 * A window that moves over the arena from one end to the other: directly, or
 * through a buffer of the host.
 */
#include "runtime/device/device.h"

#include <stdlib.h>

/* Bytes that are copied between the host and a device at once. */
#define WINDOW_BYTES (16 << 20)

enum rt_status
rt_window_open(struct rt_window *w, struct rt_device *d, char *arena,
	       struct rt_error *err)
{
	*w = (struct rt_window){ .device = d && !d->host ? d : NULL,
				 .arena = arena };
	if (w->device) {
		w->buffer = malloc(WINDOW_BYTES);
		return w->buffer ? RT_OK : rt_no_memory(err, NULL);
	}
	return RT_OK;
}

int64_t
rt_window_most(const struct rt_window *w)
{
	return w->device ? WINDOW_BYTES : INT64_MAX;
}

static enum rt_status
flush_window(struct rt_window *w, struct rt_error *err)
{
	enum rt_status status = RT_OK;

	if (w->written) {
		status = w->device->kind->write(w->device, w->from, w->buffer,
						w->to - w->from, err);
	}
	w->from = w->to = 0;
	w->written = false;
	return status;
}

enum rt_status
rt_window_read(struct rt_window *w, int64_t offset, int64_t bytes,
	       int64_t ahead, char **at, struct rt_error *err)
{
	enum rt_status status;

	if (!w->device) {
		*at = w->arena + offset;
		return RT_OK;
	}
	if (offset < w->from || offset + bytes > w->to) {
		ahead = ahead > bytes ? ahead : bytes;
		ahead = ahead < WINDOW_BYTES ? ahead : WINDOW_BYTES;
		status = w->device->kind->read(w->device, offset, w->buffer,
					       ahead, err);
		if (status != RT_OK) {
			return status;
		}
		w->from = offset;
		w->to = offset + ahead;
	}
	*at = w->buffer + (offset - w->from);
	return RT_OK;
}

enum rt_status
rt_window_write(struct rt_window *w, int64_t offset, int64_t bytes, char **at,
		struct rt_error *err)
{
	enum rt_status status = RT_OK;

	if (!w->device) {
		*at = w->arena + offset;
		return RT_OK;
	}
	if (!w->written || offset != w->to ||
	    offset + bytes - w->from > WINDOW_BYTES) {
		status = flush_window(w, err);
		w->from = w->to = offset;
		w->written = true;
	}
	*at = w->buffer + (offset - w->from);
	w->to = offset + bytes;
	return status;
}

enum rt_status
rt_window_close(struct rt_window *w, enum rt_status status,
		struct rt_error *err)
{
	if (w->device && status == RT_OK) {
		status = flush_window(w, err);
	}
	free(w->buffer);
	w->buffer = NULL;
	return status;
}

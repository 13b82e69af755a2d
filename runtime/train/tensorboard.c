/*
 * Event files of TensorBoard: records of a length, its checksum, a protobuf
 * Event, its checksum.  Checksums are CRC-32C, masked as TFRecord requires.
 */
#define _GNU_SOURCE	/* gethostname */

#include "runtime/append.h"
#include "runtime/files.h"
#include "runtime/train/rank.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define POLYNOMIAL 0x82f63b78u	/* of CRC-32C, reflected */
#define MASK 0xa282ead8u

/* Fields of tensorflow.Event, Summary and Summary.Value, with wire types. */
enum {
	EVENT_WALL_TIME = 1 << 3 | 1,
	EVENT_STEP = 2 << 3,
	EVENT_VERSION = 3 << 3 | 2,
	EVENT_SUMMARY = 5 << 3 | 2,
	SUMMARY_VALUE = 1 << 3 | 2,
	VALUE_TAG = 1 << 3 | 2,
	VALUE_SIMPLE = 2 << 3 | 5
};

struct rt_events {
	struct rt_append file;
};

uint32_t
rt_crc32c(const void *at, size_t n)
{
	const unsigned char *s = at;
	uint32_t crc = ~0u;
	int bit;

	while (n-- > 0) {
		crc ^= *s++;
		for (bit = 0; bit < 8; bit++) {
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		}
	}
	return ~crc;
}

/* ---- bytes ---- */

struct event_bytes {
	unsigned char at[512];
	size_t n;
};

static void
put(struct event_bytes *b, const void *at, size_t n)
{
	memcpy(b->at + b->n, at, n);
	b->n += n;
}

/* Little-endian, n bytes of v. */
static void
put_fixed(struct event_bytes *b, uint64_t v, int n)
{
	for (; n > 0; n--, v >>= 8) {
		b->at[b->n++] = (unsigned char)v;
	}
}

static void
put_varint(struct event_bytes *b, uint64_t v)
{
	for (; v >= 0x80; v >>= 7) {
		b->at[b->n++] = (unsigned char)(v | 0x80);
	}
	b->at[b->n++] = (unsigned char)v;
}

static void
put_text(struct event_bytes *b, int field, const void *at, size_t n)
{
	put_varint(b, (uint64_t)field);
	put_varint(b, n);
	put(b, at, n);
}

static uint32_t
masked(const void *at, size_t n)
{
	uint32_t crc = rt_crc32c(at, n);

	return (crc >> 15 | crc << 17) + MASK;
}

static enum rt_status
write_event(struct rt_events *e, const struct event_bytes *event,
	    struct rt_error *err)
{
	struct event_bytes all = { .n = 0 };

	put_fixed(&all, event->n, 8);
	put_fixed(&all, masked(all.at, 8), 4);
	put(&all, event->at, event->n);
	put_fixed(&all, masked(event->at, event->n), 4);
	return rt_append_record(&e->file, all.at, all.n, err);
}

static void
put_time(struct event_bytes *b)
{
	struct timespec now;
	uint64_t bits;
	double s;

	clock_gettime(CLOCK_REALTIME, &now);
	s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
	memcpy(&bits, &s, sizeof bits);
	put_varint(b, EVENT_WALL_TIME);
	put_fixed(b, bits, 8);
}

/* ---- files ---- */

enum rt_status
rt_events_open(struct rt_events **out, const char *folder,
	       struct rt_error *err)
{
	static const char version[] = "brain.Event:2";
	struct rt_events *e = calloc(1, sizeof *e);
	struct event_bytes b = { .n = 0 };
	char host[65] = "", path[512];
	struct rt_error unused;
	enum rt_status status;

	*out = NULL;
	if (!e) {
		return rt_no_memory(err, folder);
	}
	gethostname(host, sizeof host - 1);
	e->file.fd = -1;
	status = rt_files_make_dir(rt_files_or_system(NULL), folder, err);
	if (status == RT_OK &&
	    snprintf(path, sizeof path, "%s/events.out.tfevents.%lld.%s.%ld",
		     folder, (long long)time(NULL), host, (long)getpid()) >=
	    (int)sizeof path) {
		status = rt_fail(err, RT_RANGE, (struct rt_where){ folder,
			NULL, -1 }, "the folder's path has more bytes than "
			"there is place for");
	}
	if (status == RT_OK) {
		/* readers stop at a truncated record */
		status = rt_append_open(&e->file, path, true, NULL, err);
	}
	if (status == RT_OK) {
		put_time(&b);
		put_text(&b, EVENT_VERSION, version, sizeof version - 1);
		status = write_event(e, &b, err);
	}
	if (status != RT_OK) {
		rt_events_close(e, &unused);
		return status;
	}
	*out = e;
	return RT_OK;
}

enum rt_status
rt_events_scalar(struct rt_events *e, const char *tag, int64_t step, double v,
		 struct rt_error *err)
{
	struct event_bytes event = { .n = 0 }, summary = { .n = 0 };
	struct event_bytes value = { .n = 0 };
	struct rt_shown name = rt_show_name(tag);
	float f = (float)v;
	uint32_t bits;

	memcpy(&bits, &f, sizeof bits);
	put_text(&value, VALUE_TAG, name.text, strlen(name.text));
	put_varint(&value, VALUE_SIMPLE);
	put_fixed(&value, bits, 4);
	put_text(&summary, SUMMARY_VALUE, value.at, value.n);
	put_time(&event);
	put_varint(&event, EVENT_STEP);
	put_varint(&event, (uint64_t)step);
	put_text(&event, EVENT_SUMMARY, summary.at, summary.n);
	return write_event(e, &event, err);
}

int64_t
rt_events_lost(const struct rt_events *e)
{
	return e->file.lost;
}

enum rt_status
rt_events_close(struct rt_events *e, struct rt_error *err)
{
	enum rt_status status = rt_append_close(&e->file, err);

	free(e);
	return status;
}

/*
 * What the NCCL of the tests does when its turn comes on a stream: collectives
 * and sends over memory that ranks of a host map.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake-nccl.h"

static int collectives;		/* of this process that have begun */

/* ---- numbers ---- */

size_t
fake_bytes_of(int type)
{
	return type <= 1 ? 1 : type == 8 ? 8 : type == 6 || type == 9 ? 2 : 4;
}

static double
get(const char *at, int type)
{
	uint16_t h;
	uint32_t w;
	int32_t i;
	double d;
	float f;

	switch (type) {
	case 2:
		memcpy(&i, at, 4);
		return i;
	case 8:
		memcpy(&d, at, 8);
		return d;
	case 9:
		memcpy(&h, at, 2);
		w = (uint32_t)h << 16;
		memcpy(&f, &w, 4);
		return (double)f;
	default:
		memcpy(&f, at, 4);
		return (double)f;
	}
}

static void
put(char *at, int type, double v)
{
	int32_t i = (int32_t)v;
	float f = (float)v;
	uint32_t w;
	uint16_t h;

	switch (type) {
	case 2:
		memcpy(at, &i, 4);
		break;
	case 8:
		memcpy(at, &v, 8);
		break;
	case 9:
		memcpy(&w, &f, 4);
		h = (uint16_t)((w + 0x7fff + (w >> 16 & 1)) >> 16);
		memcpy(at, &h, 2);
		break;
	default:
		memcpy(at, &f, 4);
	}
}

/* ---- work ---- */

static int
all_at(const struct comm *c, _Atomic uint64_t *counts, uint64_t least)
{
	int i;

	for (i = 0; i < c->n; i++) {
		if (atomic_load(&counts[i]) < least) {
			return 0;
		}
	}
	return 1;
}

static void
finish(const struct work *w)
{
	struct comm *c = w->comm;
	size_t size = fake_bytes_of(w->type), from = 0, i;
	uint64_t slot = w->op % SLOTS;
	double sum, v;
	int r;

	if (w->kind == GATHER) {
		for (r = 0; r < c->n; r++) {
			memcpy(w->out + (size_t)r * w->n * size,
			       c->shm->data[r][slot], w->n * size);
		}
		return;
	}
	if (w->kind == RECV) {
		memcpy(w->out, c->shm->data[1 - c->rank][slot], w->n * size);
		return;
	}
	from = w->kind == SCATTER ? (size_t)c->rank * w->n : 0;
	for (i = 0; i < w->n; i++) {
		sum = get(c->shm->data[0][slot] + (from + i) * size, w->type);
		for (r = 1; r < c->n; r++) {
			v = get(c->shm->data[r][slot] + (from + i) * size,
				w->type);
			sum = w->fold == 2 ? (v > sum ? v : sum) : sum + v;
		}
		put(w->out + i * size, w->type, sum);
	}
}

/* ---- exchanges ---- */

/* A slot begins with where each peer's part is, and how long. */
struct posted {
	size_t at[RANKS], bytes[RANKS];
};

static void
post_parts(const struct work *w, char *slot)
{
	struct posted p = { { 0 }, { 0 } };
	size_t at = sizeof p;
	int i;

	for (i = 0; i < w->nparts; i++) {
		const struct part *x = &w->parts[i];

		if (x->kind == SEND) {
			memcpy(slot + at, x->at, x->bytes);
			p.at[x->peer] = at;
			p.bytes[x->peer] = x->bytes;
			at += x->bytes;
		}
	}
	memcpy(slot, &p, sizeof p);
}

/* What a peer sends must be what is awaited of it. */
static int
take_parts(const struct work *w)
{
	const struct comm *c = w->comm;
	struct posted p;
	int i;

	for (i = 0; i < w->nparts; i++) {
		const struct part *x = &w->parts[i];
		const char *slot = c->shm->data[x->peer][w->op % SLOTS];

		if (x->kind != RECV) {
			continue;
		}
		memcpy(&p, slot, sizeof p);
		if (p.bytes[c->rank] != x->bytes) {
			return INTERNAL;
		}
		memcpy(x->at, slot + p.at[c->rank], x->bytes);
	}
	return FAKE_DONE;
}

size_t
fake_exchange_head(void)
{
	return sizeof(struct posted);
}

/* ---- a turn ---- */

/* Is all of it registered? */
static int
is_registered(const struct comm *c, const struct work *w)
{
	const char *at = w->kind == EXCHANGE ? w->parts[0].at
		: w->in ? w->in : w->out;

	return c->lo && at >= c->lo && at < c->hi;
}

/* Of a collective that begins: who else runs, and what is registered. */
static void
check_begin(struct comm *c, const struct work *w, int captured)
{
	const char *order = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
	int ordered = order && strcmp(order, "1") == 0 &&
		fake_setting("FAKE_NCCL_VERSION", 22809) >= 22600;
	const struct comm *other;

	c->shm->told[c->rank][w->op % SLOTS] = (struct told){ .kind = w->kind,
		.type = w->type, .fold = w->fold, .n = w->n,
		.registered = is_registered(c, w), .captured = captured };
	c->running = w->kind != SEND && w->kind != RECV;
	for (other = fake_comms; other; other = other->next) {
		if (other != c && other->running && !other->dead &&
		    c->running && !ordered) {
			fake_refuse("collectives of two communicators run at "
				    "once, in an order that nothing fixes");
		}
	}
}

/* All ranks are there: what they say of it must fit together. */
static void
check_end(struct comm *c, const struct work *w)
{
	const struct told *mine = &c->shm->told[c->rank][w->op % SLOTS];
	int i;

	for (i = 0; i < c->n; i++) {
		const struct told *x = &c->shm->told[i][w->op % SLOTS];

		if (x->registered != mine->registered) {
			fake_refuse("some ranks alone pass registered memory");
		}
		if (x->captured != mine->captured) {
			fake_refuse("some ranks alone captured a collective");
		}
		if (x->kind != mine->kind || x->n != mine->n ||
		    x->type != mine->type || x->fold != mine->fold) {
			fake_refuse("ranks call different collectives, or of "
				    "different sizes");
		}
	}
	c->running = 0;
}

/* What a peer sends must be as much as is received. */
static void
check_sent(const struct comm *c, const struct work *w)
{
	const struct told *x = &c->shm->told[1 - c->rank][w->op % SLOTS];

	if (x->kind != SEND || x->n != w->n || x->type != w->type) {
		fake_refuse("a rank receives what its peer does not send");
	}
}

/* Writes that the host launched it. */
void
fake_note_launch(struct fake_op *op)
{
	const struct work *w = (const void *)op->data;
	const char *folder = getenv("FAKE_NCCL_ORDER");
	char path[512];
	FILE *f;

	if (!folder || w->kind == SEND || w->kind == RECV) {
		return;
	}
	snprintf(path, sizeof path, "%s/%d", folder, (int)getpid());
	f = fopen(path, "a");
	if (f) {
		fprintf(f, "%s %d\n", w->comm->name, w->kind);
		fclose(f);
	}
}

static void
post(const struct work *w, size_t size)
{
	struct comm *c = w->comm;
	char *slot = c->shm->data[c->rank][w->op % SLOTS];

	fake_driver()->open(1);
	if (w->kind == EXCHANGE) {
		post_parts(w, slot);
	} else {
		memcpy(slot, w->in, size);
	}
	fake_driver()->open(0);
	atomic_store(&c->shm->posted[c->rank], w->op + 1);
}

/* A rank posts what it has, and ends when all have. */
int
fake_run_work(struct fake_op *op)
{
	struct work *w = (void *)op->data;
	struct comm *c = w->comm;
	struct shm *shm = c->shm;
	size_t size = fake_bytes_of(w->type) * w->n *
		      (size_t)(w->kind == SCATTER ? c->n : 1);
	long silent = fake_setting("FAKE_NCCL_SILENT", 0);
	struct timespec t = { 0, 20000 };
	int r = FAKE_DONE;

	if (c->dead) {
		return FAKE_DONE;
	}
	if (!w->done) {
		w->op = c->op;
		if (silent && collectives >= silent) {
			return FAKE_LATER;
		}
		if (w->kind != RECV && w->op >= SLOTS &&
		    !all_at(c, shm->taken, w->op - SLOTS + 1)) {
			return FAKE_LATER;
		}
		collectives++;
		c->op++;
		w->done = 1;
		check_begin(c, w, op->captured);
		if (w->kind != RECV) {
			post(w, size);
		}
	}
	if (w->kind == SEND) {
		atomic_store(&shm->taken[c->rank], w->op + 1);
		return FAKE_DONE;
	}
	if (w->kind == RECV
	    ? atomic_load(&shm->posted[1 - c->rank]) < w->op + 1
	    : !all_at(c, shm->posted, w->op + 1)) {
		nanosleep(&t, NULL);
		return FAKE_LATER;
	}
	if (w->kind == RECV) {
		check_sent(c, w);
	} else {
		check_end(c, w);
	}
	fake_driver()->open(1);
	if (w->kind == EXCHANGE) {
		r = take_parts(w);
	} else {
		finish(w);
	}
	fake_driver()->open(0);
	atomic_store(&shm->taken[c->rank], w->op + 1);
	return r;
}


/*
 * A rank of the toy plan alone: stand-ins of runtime/comm for one rank, and a
 * run.
 */
#ifndef T_ALONE_H
#define T_ALONE_H

#include "runtime/train/rank.h"

#include "t-toy.h"
#include "tests/unit/runtime/t-feed.h"

/* ---- stand-ins of communication and devices ---- */

struct rt_comm {
	char *arena;
};

char *
rt_comm_arena(struct rt_comm *c)
{
	return c->arena;
}

enum rt_status
rt_comm_join(struct rt_comm *c, const struct rt_coll *t, int64_t microbatch,
	     char *const *at, int64_t layer, struct rt_error *err)
{
	(void)c;
	(void)microbatch;
	if (layer != -1) {
		return rt_fail(err, RT_IO, RT_NOWHERE, "no such iteration");
	}
	memmove(at[1], at[0], (size_t)(t->in[0]->at[0].total * 4));
	return RT_OK;
}

void
rt_comm_note(struct rt_comm *c, const char *what, int64_t layer,
	     int64_t microbatch)
{
	(void)c;
	(void)what;
	(void)layer;
	(void)microbatch;
}

enum rt_status
rt_comm_sum_f64(struct rt_comm *c, int64_t axes, double *at, int64_t n,
		struct rt_error *err)
{
	(void)c;
	(void)axes;
	(void)at;
	(void)n;
	(void)err;
	return RT_OK;
}

enum rt_status
rt_comm_sum_u64(struct rt_comm *c, uint64_t *at, int64_t n,
		struct rt_error *err)
{
	(void)c;
	(void)at;
	(void)n;
	(void)err;
	return RT_OK;
}

enum rt_status
rt_comm_max_i64(struct rt_comm *c, int64_t *at, int64_t n,
		struct rt_error *err)
{
	(void)c;
	(void)at;
	(void)n;
	(void)err;
	return RT_OK;
}

enum rt_status
rt_comm_spread(struct rt_comm *c, int64_t from, void *at, int64_t bytes,
	       struct rt_error *err)
{
	(void)c;
	(void)at;
	(void)bytes;
	(void)err;
	assert_int_equal(from, 0);
	return RT_OK;
}

enum rt_status
rt_comm_barrier(struct rt_comm *c, const char *what, struct rt_error *err)
{
	(void)c;
	(void)what;
	(void)err;
	return RT_OK;
}

/* Of the unsplit plan, that verify runs. */
enum rt_status
rt_comm_open(struct rt_comm **out, const struct rt_comm_options *o,
	     int64_t arena_bytes, struct rt_error *err)
{
	(void)err;
	assert_int_equal(o->world.size, 1);
	assert_int_equal(arena_bytes, TOY_ARENA);
	*out = malloc(sizeof **out);
	(*out)->arena = aligned_alloc(64, (TOY_ARENA + 63) / 64 * 64);
	memset((*out)->arena, 0, TOY_ARENA);
	return RT_OK;
}

void
rt_comm_free(struct rt_comm *c)
{
	if (c) {
		free(c->arena);
		free(c);
	}
}

enum rt_status
rt_device_open(struct rt_device *d, enum rt_on on, const struct rt_plan *plan,
	       int64_t rank, struct rt_comm *comm, struct rt_workers *workers,
	       const struct rt_device_options *options, struct rt_error *err)
{
	(void)on;
	(void)options;
	(void)err;
	rt_device_cpu(d, plan, rank, comm, workers);
	return RT_OK;
}

/* ---- a run ---- */

static const struct rt_marks unmarked = { -1, -1, -1 };

struct bed {
	struct rt_comm comm;
	struct rt_workers *workers;
	struct rt_device device;
	struct rt_run *r;
	struct rt_error err;
};

static void
open_plan(struct bed *b, const struct rt_plan *p, int64_t threads)
{
	struct rt_workers_options o = { threads, NULL, false };

	memset(b, 0, sizeof *b);
	b->comm.arena = aligned_alloc(64, (TOY_ARENA + 63) / 64 * 64);
	memset(b->comm.arena, 0, TOY_ARENA);
	assert_int_equal(rt_workers_start(&b->workers, &o, &b->err), RT_OK);
	rt_device_cpu(&b->device, p, 0, &b->comm, b->workers);
	assert_int_equal(rt_run_open(&b->r, p, 0, &b->device, 0, &b->err),
			 RT_OK);
}

static void
close_plan(struct bed *b)
{
	rt_run_free(b->r);
	rt_workers_stop(b->workers);
	free(b->comm.arena);
}

#endif

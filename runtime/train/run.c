/*
 * A step of the plan on this rank: the environment that compiled functions are
 * called with, and the order in which they are called.
 */
#include "runtime/train/rank.h"

#include <stdlib.h>
#include <string.h>

/* ---- the environment of programs ---- */

/* Time on this host without launches of kernels that are timed themselves. */
static double
clock_ms(const struct rt_run *r)
{
	return rt_now_ms() - r->lost_ms;
}

/*
 * Runs a collective or a transfer; its time counts as communication, or as
 * waiting for another stage.
 */
static enum rt_status
do_coll(struct rt_run *r, const struct rt_coll *t, char *const *at,
	int64_t iteration)
{
	bool waits = t->op == RT_COLL_RECV || t->op == RT_COLL_FREE;
	struct rt_place place = { iteration, r->microbatch };
	struct rt_device *d = r->device;
	double begin_ms = clock_ms(r), ms = rt_now_ms();
	enum rt_status status;

	status = d->kind->coll ? d->kind->coll(d, t, at, &place, &r->err)
		: rt_comm_join(r->comm, t, r->microbatch, at, iteration,
			       &r->err);
	ms = rt_now_ms() - ms;
	*(waits ? &r->times.waiting : &r->times.coll) += ms;
	if (r->tally) {
		rt_tally_add(r->tally, &(struct rt_tallied_call){
			RT_TALLY_COLL, t, t->what, r->microbatch, begin_ms,
			begin_ms + ms, ms, 0, 0, 0 });
	}
	return status;
}

static enum rt_status
run_step(struct rt_run *r, const struct rt_kernel *k, const struct rt_step *s,
	 const struct rt_call *c, int64_t iteration)
{
	struct rt_place at = { iteration, r->microbatch };
	struct rt_device *d = r->device;
	double start_ms, ms = 0;
	enum rt_status status;

	if (!d->timed) {
		return d->kind->step(d, k, s, c, &at, &r->err);
	}
	start_ms = rt_now_ms();
	status = d->kind->step(d, k, s, c, &at, &r->err);
	if (status == RT_OK) {
		status = d->kind->last_ms(d, &ms, &r->err);
	}
	r->lost_ms += rt_now_ms() - start_ms - ms;
	return status;
}

/* The steps of a kernel, one after the other. */
static enum rt_status
run_steps(struct rt_run *r, const struct rt_kernel *k,
	  const struct rt_call *c, int64_t iteration)
{
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < k->nsteps && status == RT_OK; i++) {
		const struct rt_step *s = &k->steps[i];

		if (s->run || s->grid) {
			status = run_step(r, k, s, c, iteration);
		} else {
			char *const at[] = { c->shared + s->in,
					     c->shared + s->out };

			status = do_coll(r, s->coll, at, iteration);
		}
	}
	return status;
}

static int64_t
launch(struct rt_env *env, const struct rt_kernel *k, const struct rt_call *c,
       int64_t iteration)
{
	struct rt_run *r = (struct rt_run *)env;
	struct rt_call call = *c;
	double begin_ms = clock_ms(r), communicated = r->times.coll;
	double end_ms, ms;
	enum rt_status status;

	call.shared = env->arena + r->program->work_offset;
	rt_comm_note(r->comm, k->what, iteration, r->microbatch);
	status = run_steps(r, k, &call, iteration);
	end_ms = clock_ms(r);
	ms = end_ms - begin_ms - (r->times.coll - communicated);
	r->times.compute += ms;
	if (r->tally) {
		rt_tally_add(r->tally, &(struct rt_tallied_call){
			RT_TALLY_KERNEL, k, k->what, r->microbatch, begin_ms,
			end_ms, ms, k->us, k->flops, k->bytes });
	}
	return status == RT_OK && r->pulse ? r->pulse(r->pulse_user, &r->err)
					   : status;
}

static int64_t
coll(struct rt_env *env, const struct rt_coll *t, char *const *at,
     int64_t iteration)
{
	return do_coll((struct rt_run *)env, t, at, iteration);
}

static void
go_to(struct rt_run *r, int64_t microbatch)
{
	r->microbatch = microbatch;
	r->env.pieces = r->pieces + microbatch * r->plan->nspreads;
}

/* Calls a function of the program; time that it waits is not its own. */
static enum rt_status
call_func(struct rt_run *r, const struct rt_func *f, int64_t microbatch,
	  struct rt_error *err)
{
	double begin_ms = clock_ms(r), waited = r->times.waiting, end_ms;
	int64_t status;

	go_to(r, microbatch);
	r->err = (struct rt_error){ .status = RT_OK, .offset = -1 };
	status = f->run(&r->env, microbatch);
	if (status != RT_OK) {
		*err = r->err;
		return err->status != RT_OK ? err->status :
			rt_fail(err, RT_FORMAT, RT_NOWHERE, "%s ended with "
				"%lld, which no function of a plan may",
				f->name, (long long)status);
	}
	if (r->tally) {
		end_ms = clock_ms(r);
		rt_tally_add(r->tally, &(struct rt_tallied_call){
			RT_TALLY_PHASE, f, f->name, microbatch, begin_ms,
			end_ms, end_ms - begin_ms - (r->times.waiting -
			waited), f->us, 0, 0 });
	}
	return RT_OK;
}

/* ---- before and after the actions ---- */

static enum rt_status
zero_ranges(struct rt_run *r, struct rt_error *err)
{
	const struct rt_program *p = r->program;
	enum rt_status status = RT_OK;
	int64_t i;

	for (i = 0; i < p->nzero && status == RT_OK; i++) {
		status = r->device->kind->zero(r->device, p->zero[i].offset,
					       p->zero[i].bytes, err);
	}
	return status;
}

static enum rt_status
fill_inputs(struct rt_run *r, const struct rt_feed *feed, struct rt_error *err)
{
	enum rt_status status = RT_OK;
	int64_t mb;

	for (mb = 0; mb < r->plan->nmicrobatches && status == RT_OK; mb++) {
		go_to(r, mb);
		if (feed) {
			status = rt_feed_fill_inputs(r, feed, err);
		} else if (r->program->draw) {
			status = call_func(r, r->program->draw, mb, err);
			if (status == RT_OK && r->plan->load.sequences > 0) {
				status = rt_fill_full_step(r, err);
			}
		} else if (r->program->ninputs > 0) {
			status = rt_fail(err, RT_RANGE, RT_NOWHERE,
				"this plan cannot draw its inputs: give it "
				"data");
		}
	}
	return status;
}

/*
 * Whether this rank contributes a result, of all ranks that have the same part
 * of it.
 */
static bool
speaks(const struct rt_run *r, const struct rt_port *p)
{
	int64_t at[RT_MAX_AXES + 1], a;

	rt_mesh_at(r->plan, r->rank, at);
	for (a = 1; a < r->plan->naxes; a++) {
		if (a != r->plan->pp && a != r->plan->time && at[a] != 0 &&
		    !(p->sum >> a & 1)) {
			return false;
		}
	}
	return true;
}

static enum rt_status
sum_result(const struct rt_run *r, const struct rt_port *p, double *sum,
	   struct rt_error *err)
{
	bool by_time = r->plan->time && p->sum >> r->plan->time & 1;
	int64_t n = by_time ? r->plan->nmicrobatches : 1, mb;
	enum rt_status status = RT_OK;
	double v = 0;

	for (mb = 0; mb < n && status == RT_OK; mb++) {
		status = rt_device_number(r->device, p->offset +
					  mb * p->apart, p->elem, 0, &v, err);
		*sum += v;
	}
	return status;
}

/*
 * What all ranks sum up after a step: results, watched numbers, times, and
 * whether any rank got a signal to end.
 */
#define NTIMES 5
#define NSUMS (2 * RT_MAX_NUMBERS + NTIMES + 1)

static enum rt_status
own_part(const struct rt_run *r, bool stop, double sums[NSUMS],
	 struct rt_error *err)
{
	const struct rt_program *p = r->program;
	const struct rt_times *t = &r->times;
	enum rt_status status = RT_OK;
	int64_t i;

	memset(sums, 0, NSUMS * sizeof *sums);
	for (i = 0; i < p->nresults && i < RT_MAX_NUMBERS &&
	     status == RT_OK; i++) {
		if (p->results[i].ndims == 0 && speaks(r, &p->results[i])) {
			status = sum_result(r, &p->results[i], &sums[i], err);
		}
	}
	for (i = 0; i < p->nwatch && i < RT_MAX_NUMBERS &&
	     r->rank == r->first_watch && status == RT_OK; i++) {
		status = rt_device_number(r->device, p->watch[i].offset,
					  p->watch[i].elem, 0,
					  &sums[RT_MAX_NUMBERS + i], err);
	}
	sums += 2 * RT_MAX_NUMBERS;
	sums[0] = t->data;
	sums[1] = t->compute;
	sums[2] = t->coll;
	sums[3] = t->waiting;
	sums[4] = t->update;
	sums[NTIMES] = stop;
	return status;
}

static enum rt_status
add_up(struct rt_run *r, bool stop, struct rt_outcome *out,
       struct rt_error *err)
{
	double sums[NSUMS], n = (double)r->plan->nranks;
	const double *t = sums + 2 * RT_MAX_NUMBERS;
	enum rt_status status;
	int64_t i;

	status = own_part(r, stop, sums, err);
	if (status == RT_OK) {
		status = rt_comm_sum_f64(r->comm, r->axes, sums, NSUMS, err);
	}
	if (status != RT_OK) {
		return status;
	}
	for (i = 0; r->shows && i < r->shows->nresults &&
	     i < RT_MAX_NUMBERS; i++) {
		if (r->shows->results[i].ndims == 0) {
			out->at[out->n++] = sums[i];
		}
	}
	out->nwatch = r->first_watch < 0 ? 0 :
		r->plan->programs[r->plan->program_of[r->first_watch]].nwatch;
	out->nwatch = out->nwatch > RT_MAX_NUMBERS ? RT_MAX_NUMBERS :
		out->nwatch;
	memcpy(out->watch, sums + RT_MAX_NUMBERS, sizeof out->watch);
	out->times = (struct rt_times){ t[0] / n, t[1] / n, t[2] / n,
					t[3] / n, t[4] / n };
	out->stop = t[NTIMES] != 0;
	return RT_OK;
}

/* ---- a step ---- */

/* Kernels and collectives of the update count as time of the update. */
static enum rt_status
run_update(struct rt_run *r, struct rt_error *err)
{
	struct rt_times before = r->times;
	double ms = rt_now_ms();
	enum rt_status status = call_func(r, r->program->update, 0, err);

	r->times = before;
	r->times.update = rt_now_ms() - ms;
	return status;
}

static enum rt_status
set_step(struct rt_run *r, int64_t step, struct rt_error *err)
{
	double *numbers = r->env.numbers;

	r->env.step = step;
	memcpy(numbers, r->training.at, sizeof r->env.numbers);
	numbers[RT_NUMBER_STEP] = (double)step;
	numbers[RT_NUMBER_LR] = rt_training_rate(&r->training, step);
	return r->device->kind->set_step
		? r->device->kind->set_step(r->device, numbers, err) : RT_OK;
}

/* The i-th action of the program, or its update, unless the device replays
 * it. */
static enum rt_status
run_action(struct rt_run *r, int64_t i, struct rt_error *err)
{
	const struct rt_program *p = r->program;
	bool is_update = i == p->nactions, done = false;
	const struct rt_action *a = &p->actions[i];
	struct rt_device *d = r->device;
	enum rt_status status = RT_OK;

	if (d->kind->enter) {
		status = d->kind->enter(d, i, is_update ? 0 : a->microbatch,
					&done, err);
	}
	if (status != RT_OK || done) {
		return status;
	}
	status = is_update ? run_update(r, err)
		: call_func(r, a->func, a->microbatch, err);
	return status == RT_OK && d->kind->leave ? d->kind->leave(d, err)
						 : status;
}

static enum rt_status
run_actions(struct rt_run *r, bool update, struct rt_error *err)
{
	const struct rt_program *p = r->program;
	int64_t n = p->nactions + (update && p->update), i;
	enum rt_status status = RT_OK;

	for (i = 0; i < n && status == RT_OK; i++) {
		status = run_action(r, i, err);
	}
	return status;
}

/*
 * On an asynchronous device all of it counts as compute: the time to enqueue it
 * means nothing.
 */
static enum rt_status
compute(struct rt_run *r, bool update, struct rt_error *err)
{
	const struct rt_device_kind *k = r->device->kind;
	double ms = rt_now_ms(), data = r->times.data;
	enum rt_status status;

	if (!k->begin) {
		return run_actions(r, update, err);
	}
	status = k->begin(r->device, err);
	if (status == RT_OK) {
		status = run_actions(r, update, err);
	}
	if (status == RT_OK) {
		status = k->end(r->device, err);
	}
	r->times = (struct rt_times){ .data = data,
				      .compute = rt_now_ms() - ms };
	return status;
}

enum rt_status
rt_run_step(struct rt_run *r, int64_t step, const struct rt_feed *feed,
	    bool update, bool stop, struct rt_outcome *out,
	    struct rt_error *err)
{
	double ms = rt_now_ms();
	enum rt_status status;

	memset(out, 0, sizeof *out);
	memset(&r->times, 0, sizeof r->times);
	status = set_step(r, step, err);
	if (status == RT_OK) {
		status = zero_ranges(r, err);
	}
	if (status == RT_OK) {
		status = fill_inputs(r, feed, err);
	}
	/* drawing inputs does not count as compute */
	r->times = (struct rt_times){ .data = rt_now_ms() - ms };
	if (status == RT_OK) {
		status = compute(r, update, err);
	}
	if (status == RT_OK) {
		status = add_up(r, stop, out, err);
	}
	out->step_ms = rt_now_ms() - ms;
	return status;
}

enum rt_status
rt_run_forward(struct rt_run *r, const struct rt_feed *feed,
	       struct rt_error *err)
{
	const struct rt_program *p = r->program;
	enum rt_status status;
	int64_t i;

	status = set_step(r, 1, err);
	go_to(r, 0);
	if (status == RT_OK && feed) {
		status = rt_feed_fill_inputs(r, feed, err);
	}
	for (i = 0; i < p->nactions && status == RT_OK; i++) {
		const struct rt_action *a = &p->actions[i];

		if (a->func->kind == 'F' && a->microbatch == 0) {
			status = call_func(r, a->func, 0, err);
		}
	}
	return status;
}

enum rt_status
rt_run_start(struct rt_run *r, struct rt_error *err)
{
	enum rt_status status = set_step(r, 0, err);

	return status == RT_OK && r->program->start
		? call_func(r, r->program->start, 0, err) : status;
}

struct rt_store
rt_run_store(const struct rt_run *r)
{
	return (struct rt_store){ .plan = r->plan, .program = r->program,
				  .rank = r->rank, .arena = r->device->host,
				  .device = r->device, .comm = r->comm };
}

/* ---- life ---- */

static void
look_around(struct rt_run *r)
{
	const struct rt_plan *p = r->plan;
	int64_t i;

	for (i = 1; i < p->naxes; i++) {
		r->axes |= i == p->time ? 0 : (int64_t)1 << i;
	}
	for (i = 0; i < p->nprograms && !r->shows; i++) {
		r->shows = p->programs[i].nresults > 0 ? &p->programs[i] :
			NULL;
	}
	r->first_watch = -1;
	for (i = p->nranks - 1; i >= 0; i--) {
		if (p->programs[p->program_of[i]].nwatch > 0) {
			r->first_watch = i;
		}
	}
}

enum rt_status
rt_run_open(struct rt_run **out, const struct rt_plan *plan, int64_t rank,
	    struct rt_device *device, int64_t seed, struct rt_error *err)
{
	struct rt_run *r = calloc(1, sizeof *r);
	int64_t n = plan->nspreads, mb, i;
	enum rt_status status = RT_OK;

	*out = NULL;
	if (!r || !(r->pieces = calloc((size_t)(plan->nmicrobatches * n + 1),
				       sizeof *r->pieces))) {
		free(r);
		return rt_no_memory(err, NULL);
	}
	r->env = (struct rt_env){ .arena = device->arena, .seed = seed,
				  .launch = launch, .coll = coll };
	r->plan = plan;
	r->training = plan->training;
	r->program = &plan->programs[plan->program_of[rank]];
	r->comm = device->comm;
	r->workers = device->workers;
	r->device = device;
	r->rank = rank;
	for (mb = 0; mb < plan->nmicrobatches; mb++) {
		for (i = 0; i < n; i++) {
			r->pieces[mb * n + i] = rt_pieces_of(plan,
				&plan->spreads[i], rank, mb);
		}
	}
	look_around(r);
	go_to(r, 0);
	if (device->kind->pieces) {
		status = device->kind->pieces(device, r->pieces,
					      plan->nmicrobatches * n, err);
	}
	if (status != RT_OK) {
		rt_run_free(r);
		return status;
	}
	*out = r;
	return RT_OK;
}

void
rt_run_free(struct rt_run *r)
{
	if (r) {
		free(r->staging);
		free(r->pieces);
		free(r);
	}
}

/*
 * Which rank of how many this process is, as its launcher says by environment
 * variables.
 *
 * Each launcher is a row of variables; the first row whose rank is set counts,
 * so that torchrun under srun is torchrun.
 */
#include "runtime/comm/comm.h"

#include "runtime/error.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOWHERE ((struct rt_where){ NULL, NULL, -1 })

enum { MOST_RANKS = 1000000, JOB_PARTS = 4 };

struct env {
	const char *(*get)(void *user, const char *name);
	void *user;
};

struct launcher {
	const char *how;
	const char *rank;
	const char *size[3];		/* the first one that is set counts */
	const char *local_rank, *local_size;
	const char *needs;		/* must be set as well */
	/* those that are set name the job; none: the parent's process id
	 * does */
	const char *job[JOB_PARTS];
};

/* PMIx tells a program its size only by calls, so Slurm's count is used.  A
 * batch script of Slurm has SLURM_PROCID as well, but is no step. */
static const struct launcher launchers[] = {
	{ "torchrun", "RANK", { "WORLD_SIZE", NULL, NULL }, "LOCAL_RANK",
	  "LOCAL_WORLD_SIZE", NULL,
	  { "TORCHELASTIC_RUN_ID", "MASTER_PORT",
	    "TORCHELASTIC_RESTART_COUNT", NULL } },
	{ "Open MPI", "OMPI_COMM_WORLD_RANK",
	  { "OMPI_COMM_WORLD_SIZE", NULL, NULL }, "OMPI_COMM_WORLD_LOCAL_RANK",
	  "OMPI_COMM_WORLD_LOCAL_SIZE", NULL,
	  { "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", NULL, NULL } },
	{ "PMIx", "PMIX_RANK",
	  { "PMIX_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS" },
	  "SLURM_LOCALID", NULL, NULL, { "PMIX_NAMESPACE", NULL, NULL, NULL } },
	{ "Hydra", "PMI_RANK", { "PMI_SIZE", NULL, NULL }, "MPI_LOCALRANKID",
	  "MPI_LOCALNRANKS", NULL, { NULL, NULL, NULL, NULL } },
	{ "Slurm", "SLURM_PROCID",
	  { "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", NULL }, "SLURM_LOCALID",
	  NULL, "SLURM_STEP_ID",
	  { "SLURM_JOB_ID", "SLURM_STEP_ID", NULL, NULL } }
};

/* ---- numbers ---- */

static const char *
variable_of(const struct env *e, const char *name)
{
	const char *s = name ? e->get(e->user, name) : NULL;

	return s && *s ? s : NULL;
}

/* Reads a variable that is set; from `least` to `most`. */
static enum rt_status
read_number(const struct env *e, const char *name, int64_t least, int64_t most,
	    int64_t *out, struct rt_error *err)
{
	const char *s = variable_of(e, name);
	int64_t v = 0;
	size_t i;

	for (i = 0; s[i] >= '0' && s[i] <= '9' && v <= MOST_RANKS; i++) {
		v = v * 10 + (s[i] - '0');
	}
	if (i == 0 || s[i] || v < least || v > most) {
		return rt_fail(err, RT_FORMAT, NOWHERE,
			       "the variable %s is '%s', expected a number "
			       "from %lld to %lld", name,
			       rt_show_name(s).text, (long long)least,
			       (long long)most);
	}
	*out = v;
	return RT_OK;
}

/* Item `node` of "4(x2),3": tasks of each node, in order. */
static enum rt_status
tasks_of_node(const char *name, const char *list, int64_t node, int64_t *out,
	      struct rt_error *err)
{
	const char *s = list;

	while (*s >= '0' && *s <= '9') {
		char *end;
		long n = strtol(s, &end, 10), times = 1;

		if (end[0] == '(' && end[1] == 'x') {
			times = strtol(end + 2, &end, 10);
			end += *end == ')';
		}
		if (n < 1 || n > MOST_RANKS || times < 1) {
			break;
		}
		if (node < times) {
			*out = n;
			return RT_OK;
		}
		node -= times;
		s = end + (*end == ',');
	}
	return rt_fail(err, RT_FORMAT, NOWHERE,
		       "the variable %s is '%s', expected the tasks of each "
		       "node, as 4(x2),3, for at least %lld more nodes", name,
		       rt_show_name(list).text, (long long)node + 1);
}

/* ---- one launcher ---- */

/* Slurm lists each node's tasks; the name of the list depends on who started
 * the task. */
static enum rt_status
local_size_of(const struct env *e, const struct launcher *l,
	      struct rt_world *w, struct rt_error *err)
{
	const char *name = "SLURM_STEP_TASKS_PER_NODE", *list;
	int64_t node = 0;
	enum rt_status s;

	if (variable_of(e, l->local_size)) {
		return read_number(e, l->local_size, 1, w->size, &w->local_size,
				   err);
	}
	list = variable_of(e, name);
	if (!list) {
		name = "SLURM_TASKS_PER_NODE";
		list = variable_of(e, name);
	}
	if (l->local_size || !list) {
		w->local_size = w->size;
		return RT_OK;
	}
	if (variable_of(e, "SLURM_NODEID")) {
		s = read_number(e, "SLURM_NODEID", 0, MOST_RANKS, &node, err);
		if (s != RT_OK) {
			return s;
		}
	}
	return tasks_of_node(name, list, node, &w->local_size, err);
}

static enum rt_status
place_on_host(const struct env *e, const struct launcher *l,
	      struct rt_world *w, struct rt_error *err)
{
	enum rt_status s = local_size_of(e, l, w, err);

	if (s != RT_OK) {
		return s;
	}
	if (variable_of(e, l->local_rank)) {
		return read_number(e, l->local_rank, 0, w->local_size - 1,
				   &w->local_rank, err);
	}
	if (w->local_size != w->size) {
		return rt_fail(err, RT_FORMAT, NOWHERE,
			       "the variable %s is not set, but %lld of %lld "
			       "ranks are on this host: which of them is this?",
			       l->local_rank, (long long)w->local_size,
			       (long long)w->size);
	}
	w->local_rank = w->rank;
	return RT_OK;
}

/* Long names are hashed, so that the name of a socket stays short. */
static void
name_job(const struct env *e, const struct launcher *l, struct rt_world *w)
{
	char text[1024] = "";
	uint64_t h = 14695981039346656037u;
	size_t n = 0, i;

	for (i = 0; i < JOB_PARTS && l->job[i]; i++) {
		const char *s = variable_of(e, l->job[i]);

		if (s && n < sizeof(text)) {
			n += (size_t)snprintf(text + n, sizeof(text) - n,
					      "-%s", s);
		}
	}
	if (n == 0) {
		snprintf(text, sizeof(text), "-%ld", (long)getppid());
	}
	if (strlen(text) + strlen(l->how) < sizeof(w->job)) {
		snprintf(w->job, sizeof(w->job), "%.12s%.50s", l->how, text);
		return;
	}
	for (i = 0; text[i]; i++) {
		h = (h ^ (unsigned char)text[i]) * 1099511628211u;
	}
	snprintf(w->job, sizeof(w->job), "%s-%016llx", l->how,
		 (unsigned long long)h);
}

static enum rt_status
read_launcher(const struct env *e, const struct launcher *l,
	      struct rt_world *w, struct rt_error *err)
{
	const char *size = NULL;
	enum rt_status s;
	size_t i;

	for (i = 0; i < 3 && !size; i++) {
		size = variable_of(e, l->size[i]) ? l->size[i] : NULL;
	}
	if (!size) {
		return rt_fail(err, RT_FORMAT, NOWHERE,
			       "the variable %s is '%s', but %s, the number "
			       "of ranks, is not set: set both, or none",
			       l->rank,
			       rt_show_name(variable_of(e, l->rank)).text,
			       l->size[0]);
	}
	s = read_number(e, size, 1, MOST_RANKS, &w->size, err);
	if (s == RT_OK) {
		s = read_number(e, l->rank, 0, w->size - 1, &w->rank, err);
	}
	if (s == RT_OK) {
		s = place_on_host(e, l, w, err);
	}
	if (s == RT_OK && w->local_rank > w->rank) {
		s = rt_fail(err, RT_FORMAT, NOWHERE,
			    "the variable %s says rank %lld, but %s says %lld: "
			    "a rank's number on its host cannot be larger",
			    l->rank, (long long)w->rank, l->local_rank,
			    (long long)w->local_rank);
	}
	if (s == RT_OK && w->local_size > w->size) {
		s = rt_fail(err, RT_FORMAT, NOWHERE,
			    "%s: %lld ranks on this host, but %s says %lld in "
			    "all", l->how, (long long)w->local_size, size,
			    (long long)w->size);
	}
	w->how = l->how;
	name_job(e, l, w);
	return s;
}

enum rt_status
rt_world_find(struct rt_world *w,
	      const char *(*get)(void *user, const char *name), void *user,
	      struct rt_error *err)
{
	struct env e = { get, user };
	size_t i;

	memset(w, 0, sizeof(*w));
	for (i = 0; i < sizeof(launchers) / sizeof(*launchers); i++) {
		const struct launcher *l = &launchers[i];

		if (variable_of(&e, l->rank) &&
		    (!l->needs || variable_of(&e, l->needs))) {
			return read_launcher(&e, l, w, err);
		}
	}
	w->size = w->local_size = 1;
	w->how = "alone";
	snprintf(w->job, sizeof(w->job), "alone-%ld", (long)getpid());
	return RT_OK;
}

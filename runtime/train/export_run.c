/*
 * Exports, folders that other programs load: the command `export`, of a
 * checkpoint or of weights; and those of a training run.
 */
#include "runtime/files.h"
#include "runtime/train/rank.h"

#include <string.h>

static void
note_config(const struct rt_run *r)
{
	if (!r->plan->config) {
		fprintf(stderr, "rank: note: the model has no block `export`, "
			"so the folder has no config.json\n");
	}
}

/* A file of rounded weights without their scales would say nothing. */
static enum rt_status
check_stored(const struct rt_plan *p, struct rt_error *err)
{
	int64_t i;

	for (i = 0; i < p->ntensors; i++) {
		if (p->tensors[i].rounded) {
			return rt_fail(err, RT_RANGE, RT_NOWHERE, "weights are "
				       "stored rounded here: export with a "
				       "program that was compiled without "
				       "weights= in --workload");
		}
	}
	return RT_OK;
}

enum rt_status
rt_export_run(struct rt_run *r, const struct rt_options *o, FILE *out,
	      struct rt_error *err)
{
	struct rt_store store = rt_run_store(r);
	struct rt_progress p;
	enum rt_status status = check_stored(r->plan, err);

	if (status == RT_OK) {
		status = rt_load_saved(r, o, &p, err);
	}
	if (status == RT_OK) {
		status = rt_export(&store, o->folder, o->shard_bytes, false,
				   err);
	}
	if (status != RT_OK || r->rank != 0) {
		return status;
	}
	fprintf(out, "exported to %s\n", o->folder);
	note_config(r);
	return RT_OK;
}

enum rt_status
rt_export_open(const struct rt_run *r, const struct rt_options *o,
	       struct rt_error *err)
{
	if (!o->exports || r->rank != 0) {
		return RT_OK;
	}
	note_config(r);
	return rt_files_make_dir(rt_files_or_system(NULL), o->exports, err);
}

enum rt_status
rt_export_step(const struct rt_run *r, const struct rt_options *o,
	       int64_t step, struct rt_log *log, struct rt_error *err)
{
	struct rt_alloc alloc = rt_alloc_or_libc(NULL);
	struct rt_store store = rt_run_store(r);
	double ms = rt_now_ms();
	enum rt_status status;
	char name[32], line[160], *path;

	snprintf(name, sizeof name, "/step-%08lld", (long long)step);
	path = rt_join(&alloc, o->exports, strlen(o->exports), name);
	status = path ? rt_export(&store, path, o->shard_bytes, true, err)
		      : rt_no_memory(err, NULL);
	if (status == RT_OK) {
		ms = rt_now_ms() - ms;
		snprintf(line, sizeof line, "exported to %s, %.1f ms",
			 rt_show_path(path).text, ms);
		rt_log_event(log, "export", line, "\"step\": %lld, "
			     "\"export_ms\": %.17g", (long long)step, ms);
	}
	rt_release(&alloc, path);
	return status;
}

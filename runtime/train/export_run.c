/*
 * The command `export`: a checkpoint, or weights, as a folder that other
 * programs load.
 */
#include "runtime/train/rank.h"

enum rt_status
rt_export_run(struct rt_run *r, const struct rt_options *o, FILE *out,
	      struct rt_error *err)
{
	struct rt_store store = rt_run_store(r);
	struct rt_progress p;
	enum rt_status status = rt_load_saved(r, o, &p, err);

	if (status == RT_OK) {
		status = rt_export(&store, o->folder, o->shard_bytes, err);
	}
	if (status != RT_OK || r->rank != 0) {
		return status;
	}
	fprintf(out, "exported to %s\n", o->folder);
	if (!r->plan->config) {
		fprintf(stderr, "rank: note: the model has no block `export`, "
			"so the folder has no config.json\n");
	}
	return RT_OK;
}

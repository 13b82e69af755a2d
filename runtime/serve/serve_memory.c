/*
 * What a service keeps in the memory of its host, from the functions by which
 * it is allocated.
 */
#include "runtime/serve/http/http.h"
#include "runtime/serve/schedule/kv.h"
#include "runtime/serve/schedule/scheduler.h"
#include "runtime/text.h"

struct rt_serve_memory
rt_serve_memory(const struct rt_engine *e, const struct rt_serve_options *o)
{
	int64_t replicas = e->replicas > 1 ? e->replicas : 1;

	return (struct rt_serve_memory){
		.index = replicas * rt_kv_bytes(e->blocks, e->block),
		.steps = rt_scheduler_bytes(e),
		.client = RT_HTTP_CLIENT_BYTES +
			  (int64_t)rt_text_capacity((size_t)o->body_bytes)
	};
}

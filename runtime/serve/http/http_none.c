/*
 * Takes the place of http.c in a build without libmicrohttpd.
 */
#include "runtime/serve/http/http.h"

enum rt_status
rt_http_open(struct rt_http **out, struct rt_service *s,
	     const struct rt_http_options *o, struct rt_error *err)
{
	(void)s;
	(void)o;
	*out = NULL;
	return rt_fail(err, RT_RANGE, RT_NOWHERE, "this program was built "
		       "without libmicrohttpd: build llmc where microhttpd.h "
		       "is found (libmicrohttpd-dev)");
}

int64_t
rt_http_port(const struct rt_http *h)
{
	(void)h;
	return 0;
}

void
rt_http_quiesce(struct rt_http *h)
{
	(void)h;
}

void
rt_http_close(struct rt_http *h)
{
	(void)h;
}

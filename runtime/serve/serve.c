/*
 * The command `serve`.
 */
#include "runtime/serve/http/http.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct rt_serve_options
rt_serve_plain(void)
{
	return (struct rt_serve_options){ .model = "model",
		.host = "127.0.0.1", .port = 8000, .queue = 256,
		.clients = 1000, .body_bytes = 4 << 20, .timeout_s = 60,
		.drain_s = 30 };
}

/* The first line of a file, without the end of the line. */
static enum rt_status
read_key(const char *path, char *key, size_t size, struct rt_error *err)
{
	struct rt_where where = { path, NULL, -1 };
	FILE *f = fopen(path, "r");
	enum rt_status status = RT_OK;

	if (!f) {
		return rt_fail(err, RT_IO, where, "cannot be read: %s",
			       strerror(errno));
	}
	key[0] = '\0';
	if (!fgets(key, (int)size, f) && ferror(f)) {
		status = rt_fail(err, RT_IO, where, "cannot be read: %s",
				 strerror(errno));
	} else if (strlen(key) == size - 1 && key[size - 2] != '\n') {
		status = rt_fail(err, RT_FORMAT, where, "a key has at most "
				 "%zu characters", size - 2);
	}
	key[strcspn(key, "\r\n")] = '\0';
	if (status == RT_OK && !key[0]) {
		status = rt_fail(err, RT_FORMAT, where, "the first line is to "
				 "be the key, and is empty");
	}
	fclose(f);
	return status;
}

static enum rt_status
run(struct rt_service *s, const struct rt_serve_options *o, const char *key,
    FILE *out, struct rt_error *err)
{
	struct rt_http_options ho = { .host = o->host, .port = o->port,
		.key = key, .clients = o->clients,
		.body_bytes = o->body_bytes, .timeout_s = o->timeout_s };
	struct rt_http *h;
	enum rt_status status = rt_http_open(&h, s, &ho, err);
	bool v6 = strchr(o->host, ':') != NULL;

	if (status != RT_OK) {
		return status;
	}
	fprintf(out, "%s at http://%s%s%s:%" PRId64 "/v1, %s\n", o->model,
		v6 ? "[" : "", o->host, v6 ? "]" : "", rt_http_port(h),
		key ? "with a key" : "without a key");
	fflush(out);
	status = rt_service_run(s, err);
	rt_http_quiesce(h);
	rt_service_wait_left(s);
	rt_http_close(h);
	return status;
}

enum rt_status
rt_serve(const struct rt_engine *e, const struct rt_serve_options *o,
	 FILE *out, struct rt_error *err)
{
	struct rt_codec codec;
	struct rt_service_options so = { .engine = e, .codec = &codec,
		.model = o->model, .queue = o->queue,
		.no_sharing = o->no_sharing, .drain_s = o->drain_s,
		.end_asked = o->end_asked };
	struct rt_service *s = NULL;
	const char *key = o->key;
	char line[512];
	enum rt_status status;

	status = rt_codec_open(&codec, o->tokenizer, o->chat, e->vocab, err);
	if (status == RT_OK && o->reasoning) {
		status = rt_codec_set_reasoning(&codec, o->reasoning, err);
	}
	if (status == RT_OK && o->key_file) {
		status = read_key(o->key_file, line, sizeof line, err);
		key = line;
	}
	if (status == RT_OK) {
		status = rt_service_open(&s, &so, err);
	}
	if (status == RT_OK) {
		status = run(s, o, key, out, err);
	}
	if (s) {
		rt_service_free(s);
	}
	rt_codec_close(&codec);
	return status;
}

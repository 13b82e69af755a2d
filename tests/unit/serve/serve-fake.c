/*
 * `serve` and `generate` with an engine that has no model:
 *	serve-fake NAME=VALUE..
 * Names are options of the commands and bounds of the engine.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/serve/t-engine.h"

static volatile sig_atomic_t end_asked;
static int64_t pause_us;

static void
on_signal(int number)
{
	end_asked = number;
}

static void
pause_step(void)
{
	struct timespec t = { pause_us / 1000000, pause_us % 1000000 * 1000 };

	nanosleep(&t, NULL);
}

struct fake_options {
	struct rt_engine e;
	struct rt_serve_options s;
	struct rt_generate_options g;
	int64_t fails_at, broken, script_at;
	const char *script;
	bool generate;
};

static bool
read_word(struct fake_options *o, const char *name, const char *value)
{
	const struct {
		const char *name;
		int64_t *at;
	} numbers[] = {
		{ "tokens", &o->e.tokens }, { "rows", &o->e.rows },
		{ "keys", &o->e.keys }, { "align", &o->e.align },
		{ "block", &o->e.block }, { "blocks", &o->e.blocks },
		{ "context", &o->e.context }, { "vocab", &o->e.vocab },
		{ "in_flight", &o->e.in_flight },
		{ "pause", &pause_us }, { "fails", &o->fails_at },
		{ "broken", &o->broken }, { "script_at", &o->script_at },
		{ "port", &o->s.port }, { "queue", &o->s.queue },
		{ "clients", &o->s.clients }, { "body", &o->s.body_bytes },
		{ "timeout", &o->s.timeout_s }, { "most", &o->g.tokens },
	};
	size_t i;

	for (i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		if (strcmp(name, numbers[i].name) == 0) {
			*numbers[i].at = strtoll(value, NULL, 10);
			return true;
		}
	}
	if (strcmp(name, "prompt") == 0) {
		o->generate = true;
		o->g.prompt = value;
		o->g.prompt_bytes = strlen(value);
	} else if (strcmp(name, "tokenizer") == 0) {
		o->s.tokenizer = o->g.tokenizer = value;
	} else if (strcmp(name, "chat") == 0) {
		o->s.chat = o->g.chat = value;
	} else if (strcmp(name, "reasoning") == 0) {
		o->s.reasoning = value;
	} else if (strcmp(name, "script") == 0) {
		o->script = value;
	} else if (strcmp(name, "key_file") == 0) {
		o->s.key_file = value;
	} else if (strcmp(name, "drain") == 0) {
		o->s.drain_s = strtod(value, NULL);
	} else {
		return false;
	}
	return true;
}

int
main(int argc, char **argv)
{
	struct fake_options o = {
		.e = { .tokens = 64, .rows = 32, .keys = 1 << 16, .align = 32,
		       .block = 16, .blocks = 4096, .context = 2048,
		       .vocab = 256 },
		.s = rt_serve_plain(), .g = rt_generate_plain(),
		.fails_at = -1, .broken = -1 };
	struct sigaction a = { .sa_handler = on_signal };
	struct rt_error err = { .message = "" };
	struct rt_generated got;
	enum rt_status status;
	struct fake_engine f;
	int i;

	o.s.port = 0;
	o.s.model = "fake";
	o.s.key = getenv("LLMC_API_KEY");
	o.s.end_asked = &end_asked;
	for (i = 1; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (value) {
			*value++ = '\0';
		}
		if (!value || !read_word(&o, argv[i], value)) {
			fprintf(stderr, "serve-fake: %s\n", argv[i]);
			return 2;
		}
	}
	sigaction(SIGTERM, &a, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (!fake_open(&f, o.e)) {
		return 1;
	}
	f.fails_at = o.fails_at;
	f.broken = o.broken;
	f.script = o.script;
	f.script_at = o.script_at;
	f.pause = pause_us ? pause_step : NULL;
	status = o.generate ? rt_generate(&f.e, &o.g, stdout, &got, &err)
			    : rt_serve(&f.e, &o.s, stdout, &err);
	fake_close(&f);
	if (status != RT_OK) {
		fprintf(stderr, "serve-fake: %s\n", err.message);
		return 1;
	}
	return 0;
}

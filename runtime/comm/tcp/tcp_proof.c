/*
 * How two ranks prove to each other that they know the job's secret.
 *
 * Each proof is an HMAC over a word for its purpose and over all that was sent
 * on this connection, which includes random numbers of both ends.  The key of
 * the session is made the same way, and later messages have a code under it,
 * over their direction and a counter.
 */
#define _GNU_SOURCE	/* getrandom */

#include "runtime/comm/tcp/tcp_meet.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* The purpose of a code: none is valid as another. */
#define PLACE "llmc place"
#define TOKEN "llmc token"
#define HELLO "llmc hello"
#define SESSION "llmc session"
#define VERDICT "llmc verdict"
#define MESSAGES "llmc messages"

static void
begin_hmac(struct rt_hmac *h, const uint8_t key[RT_SHA256_BYTES],
	   const char *what)
{
	rt_hmac_begin(h, key, RT_SHA256_BYTES);
	rt_hmac_add(h, what, strlen(what) + 1);
}

enum rt_status
rt_tcp_keys(struct rt_tcp_meeting *m, struct rt_error *err)
{
	struct rt_hmac h;

	begin_hmac(&h, m->secret.key, PLACE);
	rt_hmac_add(&h, m->at.token, sizeof(m->at.token));
	rt_hmac_end(&h, m->key);
	if (getrandom(m->own.nonce, sizeof(m->own.nonce), 0) !=
	    (ssize_t)sizeof(m->own.nonce)) {
		return rt_tcp_refused(err, "draw a random number");
	}
	return RT_OK;
}

void
rt_tcp_key_of_token(struct rt_tcp_meeting *m)
{
	struct rt_hmac h;

	begin_hmac(&h, m->key, TOKEN);
	rt_hmac_add(&h, &m->token, sizeof(m->token));
	rt_hmac_end(&h, m->key);
}

/* ---- the first two messages ---- */

bool
rt_tcp_send_greeting(const struct rt_tcp_meeting *m, struct rt_tcp_guest *g)
{
	struct rt_tcp_greeting *hi = &g->greeting;

	*hi = (struct rt_tcp_greeting){ .magic = RT_TCP_MAGIC,
		.version = RT_TCP_VERSION, .key = m->at.key,
		.rank = m->own.rank, .loopback = m->loopback };
	return getrandom(hi->nonce, sizeof(hi->nonce), GRND_NONBLOCK) ==
		       (ssize_t)sizeof(hi->nonce) &&
	       rt_tcp_write(g->fd, hi, sizeof(*hi), rt_now_us());
}

static void
proof_of(const struct rt_tcp_meeting *m, const struct rt_tcp_greeting *g,
	 const struct rt_tcp_hello *h, uint8_t proof[RT_SHA256_BYTES])
{
	struct rt_hmac sum;

	begin_hmac(&sum, m->key, HELLO);
	rt_hmac_add(&sum, g, sizeof(*g));
	rt_hmac_add(&sum, h, offsetof(struct rt_tcp_hello, proof));
	rt_hmac_end(&sum, proof);
}

static void
begin_session(const struct rt_tcp_meeting *m, const struct rt_tcp_greeting *g,
	      const struct rt_tcp_hello *h, bool caller,
	      struct rt_tcp_session *s)
{
	struct rt_hmac sum;

	*s = (struct rt_tcp_session){ .caller = caller };
	begin_hmac(&sum, m->key, SESSION);
	rt_hmac_add(&sum, g, sizeof(*g));
	rt_hmac_add(&sum, h, sizeof(*h));
	rt_hmac_end(&sum, s->key);
}

void
rt_tcp_prove(const struct rt_tcp_meeting *m, const struct rt_tcp_greeting *g,
	     struct rt_tcp_hello *h, struct rt_tcp_session *s)
{
	proof_of(m, g, h, h->proof);
	begin_session(m, g, h, true, s);
}

bool
rt_tcp_proven(const struct rt_tcp_meeting *m, struct rt_tcp_guest *g)
{
	uint8_t proof[RT_SHA256_BYTES];

	proof_of(m, &g->greeting, &g->hello, proof);
	begin_session(m, &g->greeting, &g->hello, false, &g->session);
	return rt_same_bytes(proof, g->hello.proof, sizeof(proof));
}

/* ---- later messages ---- */

static void
sum_of(const struct rt_tcp_session *s, bool by_caller, uint64_t count,
       const struct rt_tcp_verdict *v, const void *more, size_t bytes,
       uint8_t sum[RT_SHA256_BYTES])
{
	uint8_t who = by_caller;
	struct rt_hmac h;

	begin_hmac(&h, s->key, VERDICT);
	rt_hmac_add(&h, &who, sizeof(who));
	rt_hmac_add(&h, &count, sizeof(count));
	rt_hmac_add(&h, v, offsetof(struct rt_tcp_verdict, proof));
	rt_hmac_add(&h, more, bytes);
	rt_hmac_end(&h, sum);
}

bool
rt_tcp_send_verdict(struct rt_tcp_meeting *m, int fd, struct rt_tcp_session *s,
		    const struct rt_error *why, const void *more, size_t bytes,
		    double until_us)
{
	struct rt_tcp_verdict v;

	memset(&v, 0, sizeof(v));
	v.token = m->token;
	v.ok = why == NULL;
	snprintf(v.why, sizeof(v.why), "%s", why ? why->message : "");
	sum_of(s, s->caller, s->said++, &v, more, bytes, v.proof);
	return rt_tcp_write(fd, &v, sizeof(v), until_us) &&
	       rt_tcp_write(fd, more, bytes, until_us);
}

/* Without a secret anybody may have written the text: replaces what a terminal
 * would obey. */
static void
make_plain(char *text, size_t n)
{
	size_t i;

	text[n - 1] = '\0';
	for (i = 0; text[i]; i++) {
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) {
			text[i] = '?';
		}
	}
}

bool
rt_tcp_read_verdict(int fd, struct rt_tcp_session *s, struct rt_tcp_verdict *v,
		    void *more, size_t bytes, double until_us)
{
	uint8_t sum[RT_SHA256_BYTES];

	if (!rt_tcp_read(fd, v, sizeof(*v), until_us)) {
		return false;
	}
	bytes = v->ok ? bytes : 0;
	if (bytes > 0 && !rt_tcp_read(fd, more, bytes,
				      rt_now_us() + RT_TCP_SAY_US)) {
		return false;
	}
	sum_of(s, !s->caller, s->heard++, v, more, bytes, sum);
	if (!rt_same_bytes(sum, v->proof, sizeof(sum))) {
		errno = EBADMSG;
		return false;
	}
	make_plain(v->why, sizeof(v->why));
	return true;
}

void
rt_tcp_message_key(const struct rt_tcp_session *s, bool said,
		   uint8_t key[RT_SIPHASH_KEY])
{
	uint8_t by_caller = said == s->caller, sum[RT_SHA256_BYTES];
	struct rt_hmac h;

	begin_hmac(&h, s->key, MESSAGES);
	rt_hmac_add(&h, &by_caller, sizeof(by_caller));
	rt_hmac_end(&h, sum);
	memcpy(key, sum, RT_SIPHASH_KEY);
}

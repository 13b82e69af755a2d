/*
 * What a run may change of how it trains: the learning rate and its schedule,
 * the largest norm, the decay of each group of weights.  The plan has those of
 * the model, options change them, checkpoints record them.
 *
 * All arithmetic is of IEEE 754 without functions of a library, so that ranks
 * on different hosts get the same bits.
 */
#include "runtime/train/rank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846

static const char *const schedules[RT_SCHEDULES] = { "constant", "linear",
						     "cosine", "wsd" };
/* Groups of weights in the order of enum rt_number, from its first decay on. */
static const char *const groups[] = { "matrices", "embeddings", "vectors" };

enum { GROUPS = sizeof groups / sizeof *groups };

/* ---- a step ---------------------------------------------------------- */

/* cos(pi x) of 0 <= x <= 1, by its series; less than 1e-15 off. */
static double
cos_pi(double x)
{
	double a = x > 0.5 ? 1 - x : x, square = PI * a * (PI * a);
	double sum = 1, term = 1;
	int i;

	for (i = 1; i <= 12; i++) {
		term = -term * square / ((2 * i - 1) * (2 * i));
		sum = sum + term;
	}
	return x > 0.5 ? -sum : sum;
}

double
rt_training_rate(const struct rt_training *t, int64_t step)
{
	double over = t->decay > 0 ? t->decay
		: t->steps > t->warmup ? t->steps - t->warmup : 1;
	double from = t->schedule == RT_WSD && t->steps > over
		? t->steps - over : t->warmup;
	double x = ((double)step - from) / over, down;
	double low = t->lr > 0 ? t->min_lr / t->lr : 0;

	x = x < 0 ? 0 : x > 1 ? 1 : x;
	down = t->schedule == RT_COSINE ? (cos_pi(x) + 1) / 2 : 1 - x;
	down = t->schedule == RT_CONSTANT ? 1 : low + (1 - low) * down;
	if (t->warmup > (double)step) {
		down = down * ((double)step / t->warmup);
	}
	return t->lr * down;
}

/* ---- options --------------------------------------------------------- */

#define WRONG(err, ...) rt_fail(err, RT_RANGE, RT_NOWHERE, __VA_ARGS__)

/* The decay in s; -1: it is none. */
static double
decay_of(const char *s)
{
	char *end;
	double v = strtod(s, &end);

	return end == s || *end || !(v >= 0) || !(v <= 10) ? -1 : v;
}

/* "0.1" is of matrices and embeddings, "vectors=0.1" of a group. */
static enum rt_status
read_decay(struct rt_training *t, const char *word, struct rt_error *err)
{
	const char *number = strchr(word, '=');
	size_t n = number ? (size_t)(number - word) : 0;
	double v = decay_of(number ? number + 1 : word);
	int i = 0;

	while (number && i < GROUPS && (strlen(groups[i]) != n ||
					memcmp(groups[i], word, n) != 0)) {
		i++;
	}
	if (v < 0 || i == GROUPS) {
		return WRONG(err, "--weight-decay: found '%s', expected a "
			     "number from 0 to 10, or that of a group as "
			     "matrices=0.1, embeddings=0.1 or vectors=0.1",
			     rt_show_name(word).text);
	}
	t->at[RT_NUMBER_DECAY + i] = v;
	if (!number) {
		t->at[RT_NUMBER_DECAY_EMBEDDINGS] = v;
	}
	return RT_OK;
}

static enum rt_status
read_schedule(struct rt_training *t, const struct rt_options *o,
	      struct rt_error *err)
{
	while (o->schedule && t->schedule < RT_SCHEDULES &&
	       strcmp(schedules[t->schedule], o->schedule) != 0) {
		t->schedule = (t->schedule + 1) % RT_SCHEDULES;
	}
	t->lr = o->lr >= 0 ? o->lr : t->lr;
	t->warmup = o->warmup >= 0 ? (double)o->warmup : t->warmup;
	t->decay = o->decay_steps > 0 ? (double)o->decay_steps : t->decay;
	t->min_lr = o->min_lr >= 0 ? o->min_lr : t->min_lr;
	if (t->schedule == RT_CONSTANT && (o->decay_steps || o->min_lr >= 0)) {
		return WRONG(err, "--%s is of a schedule that falls, and this "
			     "one is constant: give --schedule linear, cosine "
			     "or wsd", o->decay_steps ? "decay-steps"
			     : "min-lr");
	}
	if (t->schedule != RT_CONSTANT && t->min_lr > t->lr) {
		return WRONG(err, "the learning rate is %.15g, and the "
			     "schedule ends at %.15g: give --min-lr 0 to %.15g",
			     t->lr, t->min_lr, t->lr);
	}
	return RT_OK;
}

enum rt_status
rt_training_settle(struct rt_training *t, const struct rt_options *o,
		   const struct rt_plan *p, struct rt_error *err)
{
	enum rt_status status;
	int64_t i;

	*t = p->training;
	status = read_schedule(t, o, err);
	for (i = 0; i < o->weight_decay.n && status == RT_OK; i++) {
		status = read_decay(t, o->weight_decay.at[i], err);
	}
	if (status == RT_OK && o->clip > 0 && !p->clips) {
		return WRONG(err, "--clip: this plan computes no norm of "
			     "gradients; give the model's train block a clip, "
			     "such as clip = 1e9, and compile it again");
	}
	t->at[RT_NUMBER_CLIP] = o->clip > 0 ? o->clip
					    : t->at[RT_NUMBER_CLIP];
	return status;
}

enum rt_status
rt_training_agree(struct rt_training *t, const struct rt_run *r,
		  struct rt_error *err)
{
	double all[6 + RT_NUMBERS] = { (double)t->schedule, t->lr, t->min_lr,
				       t->warmup, t->decay, t->steps };
	enum rt_status status;
	int i;

	memcpy(all + 6, t->at, sizeof t->at);
	for (i = 0; i < 6 + RT_NUMBERS; i++) {
		all[i] = r->rank == 0 ? all[i] : 0;
	}
	status = rt_comm_sum_f64(r->comm, r->axes, all, 6 + RT_NUMBERS, err);
	t->schedule = (int64_t)all[0];
	t->lr = all[1];
	t->min_lr = all[2];
	t->warmup = all[3];
	t->decay = all[4];
	t->steps = all[5];
	memcpy(t->at, all + 6, sizeof t->at);
	return status;
}

/* ---- as text --------------------------------------------------------- */

void
rt_training_print(const struct rt_training *t, bool clips,
		  char out[RT_SETTINGS_BYTES])
{
	bool falls = t->schedule != RT_CONSTANT;
	char *at = out, *end = out + RT_SETTINGS_BYTES;
	int i;

#define ADD(...) (at += at < end ? snprintf(at, (size_t)(end - at), \
					    __VA_ARGS__) : 0)
	ADD("lr=%.17g schedule=%s warmup=%.17g", t->lr,
	    schedules[t->schedule], t->warmup);
	if (falls) {
		ADD(" min_lr=%.17g", t->min_lr);
	}
	if (falls && t->decay > 0) {
		ADD(" decay_steps=%.17g", t->decay);
	}
	if (falls && (t->decay == 0 || t->schedule == RT_WSD)) {
		ADD(" steps=%.17g", t->steps);
	}
	if (clips) {
		ADD(" clip=%.17g", t->at[RT_NUMBER_CLIP]);
	}
	for (i = 0; i < GROUPS; i++) {
		ADD(" weight_decay.%s=%.17g", groups[i],
		    t->at[RT_NUMBER_DECAY + i]);
	}
#undef ADD
}

/* The value of a key in "key=value key=value", or "none". */
static struct rt_shown
value_in(const char *settings, const char *key, size_t n)
{
	struct rt_shown v = { "none" };
	const char *s = settings;
	size_t length;

	while (*s) {
		length = strcspn(s, " ");
		if (length > n && s[n] == '=' && memcmp(s, key, n) == 0) {
			length -= n + 1;
			length = length < sizeof v.text ? length
							: sizeof v.text - 1;
			memcpy(v.text, s + n + 1, length);
			v.text[length] = '\0';
			break;
		}
		s += length + (s[length] == ' ');
	}
	return v;
}

/* Says of each key in `keys` how its value changed; `twice`: not of others. */
static void
say_keys(struct rt_log *l, const char *keys, const char *was, const char *is,
	 bool twice, int64_t step)
{
	const char *s = keys;
	char line[256];

	for (; *s; s += strcspn(s, " "), s += *s == ' ') {
		size_t n = strcspn(s, "= ");
		struct rt_shown a = value_in(was, s, n);
		struct rt_shown b = value_in(is, s, n);

		if (strcmp(a.text, b.text) == 0 ||
		    (!twice && strcmp(a.text, "none") != 0)) {
			continue;
		}
		snprintf(line, sizeof line, "%.*s was %s, and is %s from step "
			 "%lld on", (int)n, s, a.text, b.text,
			 (long long)step + 1);
		rt_log_event(l, "setting", line, "\"step\": %lld, \"name\": "
			     "\"%.*s\", \"was\": \"%s\", \"is\": \"%s\"",
			     (long long)step, (int)n, s, a.text, b.text);
	}
}

void
rt_training_say_changes(struct rt_log *l, const char *was, const char *is,
			int64_t step)
{
	if (*was) {
		say_keys(l, was, was, is, true, step);
		say_keys(l, is, was, is, false, step);
	}
}

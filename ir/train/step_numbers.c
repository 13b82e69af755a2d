/* Numbers of a training step: see step_numbers.h, and docs/language.md. */
#include "ir/train/step_numbers.h"

#include <math.h>
#include <string.h>

/* A point in each but the first, so that no input of a model has the name. */
const char *const ir_number_names[IR_NUMBERS] = {
	[IR_NUMBER_STEP] = "step",
	[IR_NUMBER_LR] = "train.lr",
	[IR_NUMBER_CLIP] = "train.clip",
	[IR_NUMBER_DECAY] = "train.weight_decay",
	[IR_NUMBER_DECAY_EMBEDDINGS] = "train.weight_decay.embeddings",
	[IR_NUMBER_DECAY_VECTORS] = "train.weight_decay.vectors"
};

enum ir_number
ir_number_find(const char *name)
{
	int i = 0;

	while (i < IR_NUMBERS && strcmp(name, ir_number_names[i]) != 0) {
		i++;
	}
	return (enum ir_number)i;
}

static enum ir_schedule
schedule_of(const struct ir_module *m)
{
	static const char *const names[] = { "constant", "linear", "cosine",
					     "wsd" };
	const struct ir_setting *s = ir_setting(m, "train.schedule");
	const char *word = s && s->kind != SET_NUM && s->text
		? ir_text(m->ctx, s->text) : names[0];
	size_t i = sizeof names / sizeof *names - 1;

	while (i > 0 && strcmp(names[i], word) != 0) {
		i--;
	}
	return (enum ir_schedule)i;
}

void
ir_training_read(const struct ir_module *m, struct ir_training *t)
{
	double decay = ir_setting_num(m, "train.optimizer.weight_decay", 0);

	*t = (struct ir_training){
		.schedule = schedule_of(m),
		.lr = ir_setting_num(m, "train.optimizer.lr", 1e-3),
		.min_lr = ir_setting_num(m, "train.schedule.min_lr", 0),
		.warmup = ir_setting_num(m, "train.schedule.warmup", 0),
		.decay = ir_setting_num(m, "train.schedule.decay", 0),
		.steps = ir_setting_num(m, "train.steps", 0)
	};
	t->at[IR_NUMBER_CLIP] = ir_setting_num(m, "train.clip", 0);
	t->at[IR_NUMBER_DECAY] = decay;
	t->at[IR_NUMBER_DECAY_EMBEDDINGS] =
		ir_setting_num(m, "train.optimizer.decay_embeddings", decay);
	t->at[IR_NUMBER_DECAY_VECTORS] =
		ir_setting_num(m, "train.optimizer.decay_vectors", 0);
}

/*
 * The learning rate of step 1, 2, ...: it rises to lr over `warmup` steps, then
 * falls to min_lr over `decay`: by half a cosine, linearly, or not at all.
 */
static double
learning_rate(const struct ir_training *t, double step)
{
	double over = t->decay > 0 ? t->decay
		: t->steps > t->warmup ? t->steps - t->warmup : 1;
	double from = t->schedule == IR_SCHEDULE_WSD && t->steps > over
		? t->steps - over : t->warmup;
	double x = fmin(1, fmax(0, (step - from) / over)), down = 1 - x;
	double low = t->lr > 0 ? t->min_lr / t->lr : 0;

	if (t->schedule == IR_SCHEDULE_CONSTANT) {
		low = 1;
	} else if (t->schedule == IR_SCHEDULE_COSINE) {
		down = (cos(acos(-1) * x) + 1) / 2;
	}
	down = low + (1 - low) * down;
	if (t->warmup > 0) {
		down *= fmin(1, step / t->warmup);
	}
	return t->lr * down;
}

double
ir_training_number(const struct ir_training *t, enum ir_number n, double step)
{
	return n == IR_NUMBER_STEP ? step
		: n == IR_NUMBER_LR ? learning_rate(t, step) : t->at[n];
}

bool
ir_training_input(const struct ir_module *m, const char *name, double step,
		  double *out)
{
	enum ir_number n = ir_number_find(name);
	struct ir_training t;

	if (n == IR_NUMBERS) {
		return false;
	}
	ir_training_read(m, &t);
	*out = ir_training_number(&t, n, step);
	return true;
}

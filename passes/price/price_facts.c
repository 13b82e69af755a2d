/*
 * What the prices of kernels have in common: how they add up, which node a
 * kernel is named for, the rate of a type, and the time of bytes.
 */
#include "passes/price/price.h"

#include <math.h>

void
price_add(struct price_func *to, const struct price_func *from, double times)
{
	int i;

	for (i = 0; i < PRICE_NPARTS; i++) {
		to->us[i] += times * from->us[i];
	}
	to->total_us += times * from->total_us;
	to->data_us += times * from->data_us;
	to->tensor_us += times * from->tensor_us;
	to->beside_us += times * from->beside_us;
	to->saves_us += times * from->saves_us;
	to->params_us += times * from->params_us;
	to->drives_us += times * from->drives_us;
	to->first_us += times * from->first_us;
	to->first_beside_us += times * from->first_beside_us;
	to->put_us += times * from->put_us;
	to->own_us += times * from->own_us;
	to->kernels += times * from->kernels;
}

enum target_rate
price_rate(uint8_t dtype)
{
	switch (dtype) {
	case IR_BF16:
		return TARGET_BF16;
	case IR_F16:
		return TARGET_FP16;
	case IR_TF32:
		return TARGET_TF32;
	case IR_F8E4M3:
	case IR_F8E5M2:
		return TARGET_FP8;
	default:
		return TARGET_FP32;
	}
}

void
price_add_part(struct price_func *f, enum price_part part, double us)
{
	f->us[part] += us;
	f->total_us += us;
}

const struct ir_node *
price_main_node(const struct ir_module *m, const struct kernel *k,
		uint32_t flag, uint32_t without)
{
	uint32_t i;

	for (i = 0; i < k->nodes.n; i++) {
		const struct ir_node *n = ir_node(m, k->nodes.at[i]);

		if (ir_is(n->op, flag) && !ir_is(n->op, without)) {
			return n;
		}
	}
	return ir_node(m, k->nodes.at[0]);
}

double
price_bytes_us(const struct pricing *p, double bytes)
{
	struct cost c = cost_bytes(&p->t->device, COST_MAP, bytes);

	return bytes > 0 ? c.us - c.launch_us : 0;
}

void
price_bytes(const struct pricing *p, enum cost_kind kind, double bytes,
	    uint32_t n, struct price_func *f)
{
	const struct target_group *t = p->t;
	double us = cost_bytes(&t->device, kind, bytes).us +
		    (n - 1) * t->device.launch_us;
	uint32_t i;

	for (i = 0; i < t->nof; i++) {
		const struct target_device *d = &t->of[i]->device;

		us = fmax(i ? us : 0, cost_bytes(d, kind, bytes).us +
				      (n - 1) * d->launch_us);
	}
	price_add_part(f, PRICE_MAPS, us);
	f->kernels += n;
}

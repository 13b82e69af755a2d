/* Private to preflight*.c. */
#ifndef RT_PREFLIGHT_H
#define RT_PREFLIGHT_H

#include <stdio.h>

#include "runtime/device/cuda_device.h"
#include "runtime/train/rank.h"

/*
 * Measures each kind of group beside what the target promises; prints to `out`
 * unless NULL.
 */
enum rt_status rt_preflight_links(struct rt_run *r, FILE *out,
				  struct rt_error *err);

#endif

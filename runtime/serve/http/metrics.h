/*
 * Private to runtime/serve: counts as Prometheus reads them.
 */
#ifndef RT_METRICS_H
#define RT_METRICS_H

#include "runtime/serve/http/service.h"
#include "runtime/text.h"

void rt_metrics_write(const struct rt_service_counts *c, struct rt_text *out);

#endif

/*
 * The text form of Prometheus, version 0.0.4: a row for each metric.
 */
#include "runtime/serve/http/metrics.h"

#include <inttypes.h>
#include <stddef.h>

#define AT(m) offsetof(struct rt_service_counts, m)

static const struct metric {
	const char *name, *type;
	size_t at;
	const char *help;
} metrics[] = {
	{ "requests_total", "counter", AT(requests), "requests taken" },
	{ "requests_refused_total", "counter", AT(refused),
	  "requests refused because the queue was full" },
	{ "requests_cancelled_total", "counter", AT(cancelled),
	  "requests whose client went before the end" },
	{ "prompt_tokens_total", "counter", AT(prompt_tokens),
	  "tokens of prompts" },
	{ "generated_tokens_total", "counter", AT(steps.drawn),
	  "tokens of answers" },
	{ "computed_positions_total", "counter", AT(steps.computed),
	  "positions computed, of prompts, answers and recomputation" },
	{ "shared_positions_total", "counter", AT(steps.shared),
	  "positions whose keys were there, of an equal prefix" },
	{ "steps_total", "counter", AT(steps.steps), "steps computed" },
	{ "steps_in_flight", "gauge", AT(steps.in_flight),
	  "steps that have begun and not ended" },
	{ "preemptions_total", "counter", AT(steps.preempted),
	  "sequences that had to give their blocks back" },
	{ "sequences_running", "gauge", AT(steps.running),
	  "sequences in steps" },
	{ "sequences_waiting", "gauge", AT(steps.waiting),
	  "sequences in the queue" },
	{ "cache_blocks", "gauge", AT(steps.blocks), "blocks of the cache" },
	{ "cache_blocks_used", "gauge", AT(steps.blocks_used),
	  "blocks that sequences in steps use" },
};

static const struct histogram_row {
	const char *name;
	size_t at;
	const char *help;
} histograms[] = {
	{ "time_to_first_token_seconds", AT(first_token),
	  "from a request to its first token" },
	{ "time_per_output_token_seconds", AT(next_token),
	  "between tokens of requests with one answer" },
	{ "request_seconds", AT(whole),
	  "from a request to the end of its last answer" },
};

static void
write_histogram(const struct histogram_row *row, const struct rt_histogram *h,
		struct rt_text *out)
{
	int64_t n = 0;
	int i;

	rt_text_add(out, "# HELP llmc_%s %s\n# TYPE llmc_%s histogram\n",
		    row->name, row->help, row->name);
	for (i = 0; i < RT_BUCKETS; i++) {
		n += h->count[i];
		rt_text_add(out, "llmc_%s_bucket{le=\"%g\"} %" PRId64 "\n",
			    row->name, rt_bucket_end(i), n);
	}
	n += h->count[i];
	rt_text_add(out, "llmc_%s_bucket{le=\"+Inf\"} %" PRId64 "\n",
		    row->name, n);
	rt_text_add(out, "llmc_%s_sum %.9g\nllmc_%s_count %" PRId64 "\n",
		    row->name, h->sum, row->name, n);
}

static void
write_ended(const struct rt_service_counts *c, struct rt_text *out)
{
	static const char *const why[] = {
		[RT_ENDED_STOP] = "stop", [RT_ENDED_LENGTH] = "length",
		[RT_ENDED_CANCELLED] = "cancelled",
		[RT_ENDED_BROKEN] = "error",
	};
	size_t i;

	rt_text_add(out, "# HELP llmc_answers_total answers that ended, by "
		    "why\n# TYPE llmc_answers_total counter\n");
	for (i = 0; i < sizeof why / sizeof *why; i++) {
		rt_text_add(out, "llmc_answers_total{reason=\"%s\"} %" PRId64
			    "\n", why[i], c->ended[i]);
	}
}

void
rt_metrics_write(const struct rt_service_counts *c, struct rt_text *out)
{
	const char *at = (const char *)c;
	size_t i;

	for (i = 0; i < sizeof metrics / sizeof *metrics; i++) {
		const struct metric *m = &metrics[i];

		rt_text_add(out, "# HELP llmc_%s %s\n# TYPE llmc_%s %s\n"
			    "llmc_%s %" PRId64 "\n", m->name, m->help, m->name,
			    m->type, m->name,
			    *(const int64_t *)(const void *)(at + m->at));
	}
	write_ended(c, out);
	for (i = 0; i < sizeof histograms / sizeof *histograms; i++) {
		write_histogram(&histograms[i],
				(const void *)(at + histograms[i].at), out);
	}
}

/*
 * The command `inspect`: what a plan's program consists of, without running it.
 */
#include "runtime/train/rank.h"

static void
show_mesh(const struct rt_plan *p, FILE *out)
{
	int64_t i, many = 0;

	fprintf(out, "%-10s", "mesh");
	for (i = 1; i < p->naxes; i++) {
		if (!p->axes[i].time) {
			fprintf(out, "%s %s=%lld", many++ ? "," : "",
				p->axes[i].name, (long long)p->axes[i].size);
		}
	}
	fprintf(out, "%s %lld rank%s, %lld stage%s, %lld microbatch%s\n",
		many ? ":" : "", (long long)p->nranks,
		p->nranks == 1 ? "" : "s", (long long)p->nstages,
		p->nstages == 1 ? "" : "s", (long long)p->nmicrobatches,
		p->nmicrobatches == 1 ? "" : "es");
}

static void
show_features(const struct rt_plan *p, FILE *out)
{
	int column = fprintf(out, "%-10s %s:", "cpu", p->cpu);
	int64_t i;

	for (i = 0; i < p->nfeatures; i++) {
		column += fprintf(out, " %s", p->features[i]);
		if (column > 68 && i + 1 < p->nfeatures) {
			column = fprintf(out, "\n%-10s", "") - 1;
		}
	}
	putc('\n', out);
}

static void
show_gpu(const struct rt_plan *p, FILE *out)
{
	const struct rt_images *m = p->images;

	if (!p->arch) {
		return;
	}
	fprintf(out, "%-10s %s: %lld sources of kernels, %s%s\n", "gpu",
		p->arch, m ? (long long)m->n : 0,
		m && m->made_by ? "compiled by " : "not compiled yet",
		m && m->made_by ? m->made_by : "");
}

/* Bytes of weights, or of states, that a rank holds. */
static int64_t
bytes_of(const struct rt_plan *p, int64_t rank, bool loaded)
{
	const struct rt_program *g = &p->programs[p->program_of[rank]];
	int64_t sum = 0, i, j;

	for (i = 0; i < g->nholds; i++) {
		const struct rt_hold *h = &g->holds[i];
		int64_t n = 1;

		for (j = 0; j < h->tensor->ndims; j++) {
			n *= rt_pieces_of(p, h->dims[j], rank, 0)->total;
		}
		n = rt_elems_bytes((enum rt_elem)h->tensor->elem, n);
		sum += (h->tensor->loaded != 0) == loaded ? n : 0;
	}
	return sum;
}

static void
show_sizes(const struct rt_plan *p, int64_t rank, FILE *out)
{
	const struct rt_program *g = &p->programs[p->program_of[rank]];
	int64_t zero = 0, scratch, i;

	for (i = 0; i < g->nzero; i++) {
		zero += g->zero[i].bytes;
	}
	scratch = g->shared_bytes + p->workers * g->own_bytes;
	fprintf(out, "  %-18s %14lld bytes\n", "arena",
		(long long)g->arena_bytes);
	fprintf(out, "  %-18s %14lld bytes\n", "weights",
		(long long)bytes_of(p, rank, true));
	fprintf(out, "  %-18s %14lld bytes\n", "optimizer",
		(long long)bytes_of(p, rank, false));
	fprintf(out, "  %-18s %14lld bytes\n", "zeroed each step",
		(long long)zero);
	fprintf(out, "  %-18s %14lld bytes, %lld shared, %lld a worker\n",
		"kernel scratch", (long long)scratch,
		(long long)g->shared_bytes, (long long)g->own_bytes);
	if (p->arch) {
		fprintf(out, "  %-18s %14lld bytes\n", "collective scratch",
			(long long)g->comm_bytes);
	}
}

static void
show_ports(const char *what, const struct rt_port *p, int64_t n, FILE *out)
{
	int64_t i, j;

	for (i = 0; i < n; i++) {
		fprintf(out, "  %-18s %s[", what, p[i].name);
		for (j = 0; j < p[i].ndims; j++) {
			fprintf(out, "%s%s=%lld", j ? ", " : "",
				p[i].names[j], (long long)p[i].dims[j]->size);
		}
		fprintf(out, "]\n");
	}
}

/* "F0 F1 F2 B0 ...": of one stage a rank, the stage is left out. */
static void
show_actions(const struct rt_plan *p, const struct rt_program *g, FILE *out)
{
	int column = fprintf(out, "  %-18s", "actions");
	int64_t i;

	for (i = 0; i < g->nactions; i++) {
		const struct rt_action *a = &g->actions[i];

		if (column > 70) {
			column = fprintf(out, "\n  %-18s", "") - 1;
		}
		column += fprintf(out, " %c", a->func->kind ?
				  (int)a->func->kind : '?');
		if (p->nstages > p->npipes) {
			column += fprintf(out, "%lld.",
					  (long long)a->func->stage);
		}
		column += fprintf(out, "%lld", (long long)a->microbatch);
	}
	putc('\n', out);
}

static void
show_program(const struct rt_plan *p, int64_t number, FILE *out)
{
	const struct rt_program *g = &p->programs[number];
	int64_t ranks = 0, first = 0, i;

	for (i = p->nranks - 1; i >= 0; i--) {
		if (p->program_of[i] == number) {
			ranks++;
			first = i;
		}
	}
	fprintf(out, "\nprogram %lld of %lld: place %lld of the pipeline, "
		"%lld rank%s\n", (long long)number + 1,
		(long long)p->nprograms, (long long)g->pipe, (long long)ranks,
		ranks == 1 ? "" : "s");
	show_sizes(p, first, out);
	fprintf(out, "  %-18s %14lld\n", "tensors held",
		(long long)g->nholds);
	show_ports("input", g->inputs, g->ninputs, out);
	show_ports("result", g->results, g->nresults, out);
	show_actions(p, g, out);
	if (g->update) {
		fprintf(out, "  %-18s %s\n", "update", g->update->name);
	}
}

/* What the step has that is predicted, of a plan that serves. */
static void
show_load(const struct rt_plan *p, FILE *out)
{
	const struct rt_load *l = &p->load;

	if (l->sequences > 0) {
		fprintf(out, "%-10s %lld sequence%s, each with %lld position%s "
			"after %lld\n", "full of", (long long)l->sequences,
			l->sequences == 1 ? "" : "s", (long long)l->positions,
			l->positions == 1 ? "" : "s", (long long)l->before);
	}
}

void
rt_inspect(const struct rt_plan *p, FILE *out)
{
	int64_t i;

	fprintf(out, "%-10s %s\n%-10s %s\n%-10s %s\n", "model", p->model,
		"target", p->target, "compiler", p->compiler);
	show_features(p, out);
	show_gpu(p, out);
	show_mesh(p, out);
	fprintf(out, "%-10s %lld sequences, %lld tokens, %.4g GFLOP\n",
		"step", (long long)p->batch, (long long)p->tokens,
		p->flops * 1e-9);
	show_load(p, out);
	fprintf(out, "%-10s %.3f ms a step", "predicted", p->step_us * 1e-3);
	if (p->peak > 0 && p->step_us > 0) {
		fprintf(out, ", MFU %.1f%%", 100 * p->flops /
			(p->step_us * 1e-6) / p->peak);
	}
	fprintf(out, "\n%-10s %lld at most on a rank\n", "threads",
		(long long)p->workers);
	for (i = 0; i < p->nprograms; i++) {
		show_program(p, i, out);
	}
}

/*
 * The mesh of ranks on the nodes of the cluster.  Rank n runs on device n, and
 * devices are numbered group by group.  Neighbouring nodes that hold the same
 * places of the pipeline are drawn once.
 */
#include "passes/pictures/picture_parts.h"

#define MOST_NODES 64
#define MOST_SQUARES 64		/* devices of a node */
#define SIDE 20			/* of a device's square */

struct mesh {
	const struct picture_facts *f;
	uint32_t drawn;
	int64_t left;		/* nodes that are not */
};

/* Consecutive nodes of one group that are alike. */
struct mesh_nodes {
	const struct target_group *group;
	int64_t first, n;	/* nodes, counted over all groups */
	int64_t device;		/* the first of the first node */
};

/* The place of a device's rank; UINT32_MAX: it has none. */
static uint32_t
place_of(const struct mesh *m, int64_t device)
{
	const struct ranks *r = m->f->in->ranks;

	return device < r->nranks ? ranks_pipe(r, (uint32_t)device)
				  : UINT32_MAX;
}

static bool
are_alike(const struct mesh *m, const struct target_group *g, int64_t a,
	  int64_t b)
{
	int64_t i;

	for (i = 0; i < g->devices && place_of(m, a + i) ==
	     place_of(m, b + i); i++) {
	}
	return i == g->devices;
}

/* ---- one node ---- */

/* One of twelve colors, so that neighbours in the pipeline differ. */
static const char *
color_of(const struct mesh *m, uint32_t place)
{
	return place == UINT32_MAX ? "box none"
		: arena_printf(m->f->a, "box k%u", 1 + place % 12);
}

/* "tp 3, dp 0": the axes that have several ranks. */
static const char *
coordinates(const struct mesh *m, uint32_t rank)
{
	const struct ranks *r = m->f->in->ranks;
	uint32_t at[IR_MAX_AXES + 1], i;
	struct buf b;

	buf_init(&b, m->f->a);
	ranks_at(r, rank, at);
	for (i = 1; i < r->m->axes.n; i++) {
		if (!r->m->axes.at[i].time && r->m->axes.at[i].size > 1) {
			buf_printf(&b, "%s%s %u", b.n ? ", " : "",
				   ir_text(r->m->ctx, r->m->axes.at[i].name),
				   at[i]);
		}
	}
	return b.n ? buf_text(&b) : "alone";
}

static void
add_device(const struct mesh *m, int64_t device, int64_t nth,
	   struct buf *out)
{
	uint32_t place = place_of(m, device);
	double at[4] = { (double)(nth % 8 * SIDE), (double)(nth / 8 * SIDE),
			 SIDE, SIDE };
	struct arena *a = m->f->a;

	picture_rect(out, color_of(m, place), at, place == UINT32_MAX
		     ? arena_printf(a, "device %lld: unused",
				    (long long)device)
		     : arena_printf(a, "device %lld, rank %lld: place %u of "
				    "the pipeline; %s", (long long)device,
				    (long long)device, place,
				    coordinates(m, (uint32_t)device)));
}

static void
add_places_text(const struct mesh *m, const struct mesh_nodes *x,
		struct buf *out)
{
	uint32_t lo = UINT32_MAX, hi = 0, place;
	int64_t i;

	for (i = 0; i < x->group->devices; i++) {
		place = place_of(m, x->device + i);
		if (place != UINT32_MAX) {
			lo = place < lo ? place : lo;
			hi = place > hi ? place : hi;
		}
	}
	if (lo == UINT32_MAX) {
		buf_puts(out, "unused");
	} else {
		buf_printf(out, lo == hi ? "place %u" : "places %u to %u", lo,
			   hi);
	}
}

static void
add_nodes(struct mesh *m, const struct mesh_nodes *x, struct buf *out)
{
	int64_t has = x->group->devices, i;
	int64_t n = has < MOST_SQUARES ? has : MOST_SQUARES;

	if (m->drawn == MOST_NODES) {
		m->left += x->n;
		return;
	}
	m->drawn++;
	buf_printf(out, "<div class=\"node\"><svg viewBox=\"0 0 %d %d\" "
		   "role=\"group\" aria-label=\"node %lld\">\n",
		   8 * SIDE, (int)((n + 7) / 8 * SIDE), (long long)x->first);
	for (i = 0; i < n; i++) {
		add_device(m, x->device + i, i, out);
	}
	buf_printf(out, "</svg>%s %lld", x->n > 1 ? "nodes" : "node",
		   (long long)x->first);
	if (x->n > 1) {
		buf_printf(out, " to %lld", (long long)(x->first + x->n - 1));
	}
	buf_puts(out, ", ");
	picture_text(out, x->group->device.name);
	buf_puts(out, "<br/>");
	add_places_text(m, x, out);
	if (n < has) {
		buf_printf(out, "<br/>%lld devices, of which %lld are drawn",
			   (long long)has, (long long)n);
	}
	buf_puts(out, "</div>\n");
}

/* ---- all nodes, all axes ---- */

static void
add_group(struct mesh *m, const struct target_group *g, int64_t first,
	  int64_t device, struct buf *out)
{
	struct mesh_nodes x = { g, first, 0, device };
	int64_t i;

	for (i = 0; i < g->nodes; i++) {
		int64_t at = device + i * g->devices;

		if (x.n && !are_alike(m, g, x.device, at)) {
			add_nodes(m, &x, out);
			x = (struct mesh_nodes){ g, first + i, 0, at };
		}
		x.n++;
	}
	add_nodes(m, &x, out);
}

static void
add_axes(const struct mesh *m, struct buf *out)
{
	static const char *const heads[] = {
		"axis, outermost first", "ranks", "devices apart",
		"ranks of a group in a node", "nodes of a group"
	};
	const struct ranks *r = m->f->in->ranks;
	uint32_t i, apart = r->nranks;

	picture_open_table(out, "the axes of the mesh", false, heads, 5);
	for (i = 1; i < r->m->axes.n; i++) {
		const struct ir_axis *x = &r->m->axes.at[i];
		struct cost_group g;

		if (x->time) {
			continue;
		}
		apart = (uint32_t)(apart / x->size);
		g = price_group(r, m->f->in->devs->all, 1u << i);
		buf_puts(out, "<tr>");
		picture_cell(out, ir_text(r->m->ctx, x->name));
		buf_printf(out, "<td>%lld</td><td>%u</td><td>%lld</td>"
			   "<td>%lld</td></tr>\n", (long long)x->size, apart,
			   (long long)g.per_node, (long long)g.nodes);
	}
	picture_close_table(out, false);
}

void
picture_mesh(const struct picture_facts *f, struct buf *out)
{
	const struct target *t = f->in->target;
	struct mesh m = { .f = f };
	int64_t first = 0, device = 0;
	uint32_t i;

	add_axes(&m, out);
	buf_puts(out, "<div class=\"nodes\">\n");
	for (i = 0; i < t->groups.n; i++) {
		const struct target_group *g = &t->groups.at[i];

		add_group(&m, g, first, device, out);
		first += g->nodes;
		device += g->nodes * g->devices;
	}
	buf_puts(out, "</div>\n");
	if (m.left) {
		buf_printf(out, "<p>%lld nodes more are not drawn.</p>\n",
			   (long long)m.left);
	}
}

/*
 * The machine that a plan is for: its devices, how many a node has, and the
 * links between them.  frontend/tool/ makes one from --target; the price,
 * memory and code generation read it.  Rates are per microsecond, so that sizes
 * over rates are times; docs/target.md describes the keys.
 *
 * Sections are named for the .c that defines them.
 */
#ifndef PASSES_TARGET_H
#define PASSES_TARGET_H

#include "ir/ir.h"

#define TARGET_MAX_DEVICES ((int64_t)1 << 20)	/* of a whole cluster */
#define TARGET_MAX_GROUPS 32	/* kinds of node in it */

/* What a matrix unit multiplies; fp32 is the plain units. */
enum target_rate { TARGET_FP32, TARGET_TF32, TARGET_BF16, TARGET_FP16,
		   TARGET_FP8, TARGET_INT8, TARGET_FP4, TARGET_NRATES };

/* CONSTANT(id, key, member, what it is) */
#define TARGET_CONSTANTS(CONSTANT) \
	CONSTANT(MATRIX_EFF, "matrix_eff", matrix_eff, \
		 "of the matrix rate, in a long contraction") \
	CONSTANT(MATRIX_FILL, "matrix_fill", matrix_fill, \
		 "of k, in elements of 2 bytes: one tile's") \
	CONSTANT(MATRIX_FEED, "matrix_feed", matrix_feed, \
		 "bytes that a unit can take in a cycle") \
	CONSTANT(LAUNCH, "launch", launch_us, "of one kernel") \
	CONSTANT(MEMORY_EFF, "memory_eff", memory_eff, \
		 "of the memory's bandwidth, in long maps") \
	CONSTANT(ATTENTION_EFF, "attention_eff", attention_eff, \
		 "of the matrix rate, in long attention") \
	CONSTANT(ATTENTION_FILL, "attention_fill", attention_fill, \
		 "keys: prologue of one block of queries") \
	CONSTANT(LINK_EFF, "link_eff", link_eff, \
		 "of the link's bandwidth, in a long ring") \
	CONSTANT(LINK_START, "link_start", link_start_us, \
		 "of one collective") \
	CONSTANT(LINK_HOP, "link_hop", link_hop_us, "of one step of it")

enum target_constant {
#define CONSTANT(id, key, member, what) TARGET_##id,
	TARGET_CONSTANTS(CONSTANT)
#undef CONSTANT
	TARGET_NCONSTANTS
};

/*
 * ORIGIN(id, key, what is printed of such constants): where a constant comes
 * from, the surest first.  Each key but the last lists constants of a block.
 */
#define TARGET_ORIGINS(ORIGIN) \
	ORIGIN(MEASURED, "measured", "measured with llmc") \
	ORIGIN(PUBLISHED, "published", "from published kernels") \
	ORIGIN(BORROWED, "borrowed", "borrowed from ") \
	ORIGIN(UNSTATED, "unstated", "of no stated origin")

enum target_origin {
#define ORIGIN(id, key, what) TARGET_##id,
	TARGET_ORIGINS(ORIGIN)
#undef ORIGIN
	TARGET_NORIGINS
};

struct target_device {
	const char *name;	/* of its file: "h100-sxm" */
	const char *vendor, *arch, *link;	/* "" if not given */
	double flops_us[TARGET_NRATES];	/* dense; 0: it has none */
	double memory_bytes, memory_bytes_us;
	double read_bytes_us;	/* by kernels that read weights and write
				 * little; 0: memory_eff of the bandwidth */
	double read_shown;	/* of what they read or compute, whichever is
				 * shorter: the part that is not hidden */
	double widen_rows;	/* of products of few rows on a CPU that take as
				 * long as widening 8 bits; 0: 4 */
	double widen_int4_rows;	/* the same of int4; 0: as if they were not
				 * widened, but lay in rows */
	/* of attention to keys of a cache: the part of the rate that it
	 * reaches, and its read_shown; eff 0: attention_eff, read_shown are */
	double keys_eff, keys_shown;
	double reserve_bytes;	/* of it that a plan cannot use */
	int64_t units;		/* that a matrix tile runs on (SMs) */
	double clock_mhz;
	double link_bytes_us;	/* out of one device */
	int64_t link_devices;	/* that the link joins; more use the bridge;
				 * 1: none reads another's memory */
	double bridge_bytes_us;	/* of a node, shared by all; 0: none */
	bool reduces;		/* the switch between links adds up */
	double host_bytes_us;	/* between a device and its host, one way */
	double host_memory_bytes;	/* of the node, for each of its devices,
					 * which share them; 0: not known */
	double nvme_bytes_us;	/* of a node's drives, for each device, one way
				 * at a time; 0: it has none */
	double nvme_memory_bytes;	/* of them, as host_memory_bytes */
	int64_t node_devices;	/* at most in a node */
	double price_usd_h;	/* its rent */
	/* of the device, and of the rest of its node, for each device; 0: not
	 * known, or nothing */
	double purchase_usd, host_purchase_usd;
	double power_w, host_power_w;
	double failures_year;	/* of one device, those that stop a run */
	bool plan_only;		/* llmc emits no code for it */
	/* the constants of its efficiency: see docs/cost.md */
#define CONSTANT(id, key, member, what) double member;
	TARGET_CONSTANTS(CONSTANT)
#undef CONSTANT
	enum target_origin origin[TARGET_NCONSTANTS];
	const char *lender;	/* devices that borrowed ones are of, or "" */
};

struct target_network {
	const char *name;	/* "ib400", or "" for plain numbers */
	double bytes_us;	/* one port, one way */
	double latency_us;	/* of one message */
	int64_t ports;		/* of one node */
};

/* Nodes that are alike. */
struct target_group {
	struct target_device device;
	int64_t devices, nodes;	/* devices in a node */
	struct target_network network;
	struct span span;
	/*
	 * Of ranks that lie on several groups: those groups.  Each of them has
	 * a price, and the slowest counts; the fields above are what all of
	 * them have at least.  None: this is one group.
	 */
	const struct target_group **of;
	uint32_t nof;
};

struct target {
	const char *name;	/* as --target has it: "h100x8x16" */
	VEC(struct target_group) groups;
	/* by first and last: some groups side by side */
	const struct target_group **spans;	/* NULL: there is one group */
	int64_t *first;		/* by group: its first device, and the end */
};

/* ---- target.c: target blocks ------------------------------------------ */

extern const char *const target_rate_names[TARGET_NRATES];
extern const char *const target_constant_names[TARGET_NCONSTANTS];
extern const char *const target_origin_names[TARGET_NORIGINS];

/*
 * Overwrites what the target settings of a module set of *g, which may be
 * zero.  False after errors.
 */
bool target_apply(struct ir_module *settings, struct target_group *g);
/* Reports, at g->span, numbers that are missing or do not agree. */
bool target_check(struct ir_ctx *c, const struct target_group *g);
/* Whether all figures are the same, whatever the names and the nodes are. */
bool target_same(const struct target_group *a, const struct target_group *b);
/* Devices and nodes of all groups. */
int64_t target_devices(const struct target *t);
/* Whether it is a CPU, on which nothing runs beside kernels. */
bool target_is_cpu(const struct target_device *d);
/* Whether it is an NVIDIA GPU: its kernels are CUDA's. */
bool target_is_cuda(const struct target_device *d);
int64_t target_nodes(const struct target *t);
/* A network by name. False: there is none, and `near` was tried with all. */
bool target_network(const char *name, struct target_network *out,
		    struct diag_near *near);
/*
 * The constants of that origin, as the value of its key: "all", or names with
 * blanks between.
 */
const char *target_origin_text(const struct target_device *d,
			       enum target_origin which, struct arena *a);
/* "ib100, ib200, .. and roce400", in the arena. */
const char *target_networks(struct arena *a);
/* Target blocks that read back as the same. */
void target_print(const struct target *t, struct buf *out);

/* ---- target_spec.c: "h100x8x16@ib400" --------------------------------- */

struct target_spec {
	const char *device, *network;	/* network is NULL if none is named */
	int64_t devices, nodes;		/* 0: not given */
};

/* Which devices there are: rtx4090 is one, and no `rt` in 4,090 pieces. */
struct target_names {
	bool (*has)(void *user, const char *name, size_t n);
	/* Edits to the nearest one; SIZE_MAX: none is near. */
	size_t (*distance)(void *user, const char *name, size_t n);
	void *user;
};

/* False after errors. What *out points to is in ctx->perm. */
bool target_spec_read(struct ir_ctx *c, const char *text,
		      const struct target_names *known,
		      struct target_spec *out);

/* ---- target_groups.c: which devices ranks lie on ------------------------ */

/*
 * Devices are numbered group by group, and ranks lie on the first of them.
 * Where the pipeline is the outermost axis each of its ranks has a run of
 * devices; else every rank may lie on any.
 */
struct target_devs {
	const struct target_group *all;
	const struct target_group *const *of;	/* by rank of the pipeline;
						 * NULL: all of them */
};

/* Computes the spans, once all groups are added; in arena a. */
void target_settle(struct target *t, struct arena *a);
/* Of groups [first, last]. */
const struct target_group *target_span(const struct target *t, uint32_t first,
				       uint32_t last);
/* Devices of that group among the first n. */
int64_t target_used(const struct target *t, uint32_t group, int64_t n);
/* Of nranks ranks; `outer`: their pipeline is the outermost axis. */
void target_devs_assign(const struct target *t, int64_t nranks,
			uint32_t npipes, bool outer, struct arena *a,
			struct target_devs *out);
const struct target_group *target_devs_of(const struct target_devs *s,
					  uint32_t pipe);
/* One kind of node for all. */
struct target_devs target_devs_all(const struct target_group *g);

/* What ranks keep on the hosts of their nodes. */
struct target_hosted {
	int64_t nranks;
	uint32_t npipes;	/* ranks of the pipeline */
	int64_t apart;		/* from a rank to the next in its pipeline */
	const double *bytes;	/* by rank of the pipeline */
	bool drives;		/* on their drives, not in their memory */
};

/* Of a node: bytes that are used, and that it has; 0: not known. */
struct target_host {
	double bytes, has;
	int64_t lo, hi;		/* its ranks are [lo, hi) */
};

/*
 * Memory, or drives, of the hosts of nodes that so many ranks are in; INFINITY
 * if it is not known of all.
 */
double target_hosts_bytes(const struct target *t, int64_t nranks, bool drives);
/* The place in the pipeline of one of all ranks. */
static inline uint32_t
target_place(const struct target_hosted *h, int64_t rank)
{
	return (uint32_t)(rank / h->apart % h->npipes);
}

/* Calls `see` for the node of each kind, of those that have the same ranks. */
void target_each_host(const struct target *t, const struct target_hosted *h,
		      void (*see)(void *user, const struct target_host *x),
		      void *user);
/*
 * The node that has least left, or lacks most; where no node says what it
 * has, the one whose ranks keep most.
 */
struct target_host target_fullest_host(const struct target *t,
				       const struct target_hosted *h);
/* Whether they fit, as far as is known. */
static inline bool
target_has_room(const struct target_host *h)
{
	return h->has <= 0 || h->bytes <= h->has;
}

/* Bytes that a plan has there. */
double target_free_bytes(const struct target_group *g);
/* "h100-sxm and a100-sxm": the kinds that the devices [lo, hi) are of. */
const char *target_kinds(const struct target *t, int64_t lo, int64_t hi,
			 struct arena *a);

#endif

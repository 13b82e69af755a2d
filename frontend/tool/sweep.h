/*
 * llmc sweep: one model planned for many clusters and sizes.  sweep.c makes
 * the cells, runs them on threads and orders them; sweep_list.c reads lists
 * such as `h100x8x{4,8,16,..,64}`; sweep_ask.c answers --days and --budget;
 * sweep_cell.c plans one cell, as a run of llmc of its own; sweep_print.c
 * prints the table.  No other file of the folder includes this.
 */
#ifndef FRONTEND_SWEEP_H
#define FRONTEND_SWEEP_H

#include "frontend/tool/tool.h"

#define SWEEP_MOST 4096		/* cells of a sweep, and words of a list */

struct sweep_words {
	const char **at;
	uint32_t n, cap;
};

/* One plan to search for. */
struct sweep_cell {
	const char *target;
	const struct opt_dim *dims;	/* of the model, in their order */
	uint32_t ndims;
};

/*
 * What a thread keeps from one cell to the next: pages, and what it knows of
 * programs.
 */
struct sweep_thread {
	struct mem_pool pool;
	struct mem gate;	/* to the pool, so it may not be moved */
	struct memo memo;
};

#define SWEEP_MEMO_BYTES ((size_t)64 << 20)	/* of a thread */

enum sweep_outcome { SWEEP_FITS, SWEEP_TOO_LARGE, SWEEP_REFUSED };

/* What came of a cell; texts are in its own arena. */
struct sweep_row {
	struct sweep_cell cell;
	struct mem mem;
	struct arena keep;
	enum sweep_outcome outcome;
	const char *why;	/* of a cell without a plan; else "" */
	int64_t devices, nodes, used;	/* of the cluster; with a rank */
	bool is_gpu;		/* all devices are GPUs */
	/* of a plan; NAN: not known, as money without a price */
	double step_us, tokens, tokens_s, mfu, usd_h, usd_mtoken, goodput;
	struct answer_run plain, faulty;
	int64_t left_bytes;
	const char *plan_text, *schedule, *recompute;
	int64_t degree[PLAN_NAXES], microbatch, interleave;
	int zero;
	uint32_t offload;	/* enum plan_offloaded */
	bool is_on_front;	/* no cell is both sooner and cheaper */
	bool is_answer;		/* to --days or --budget */
};

/*
 * A cell, or a question for the fewest nodes, which is answered by planning
 * for one number of them after the other.
 */
struct sweep_job {
	struct sweep_row *row;	/* a question has SWEEP_SLOTS of them */
	bool asks_nodes;
	/* of a question: what finishes in time, and the next smaller number,
	 * which does not; NULL: there is none */
	struct sweep_row *enough, *less;
};

#define SWEEP_SLOTS 3

struct sweep {
	struct driver *d;
	uint32_t file;		/* of the model, among d->ctx.sources */
	double days, budget_usd;	/* that may pass, be spent; 0: any */
	bool has_tokens;	/* of the run */
	struct sweep_job *job;
	uint32_t njobs;
	struct sweep_row **sorted;	/* of the table */
	uint32_t n;
	uint32_t ndims;		/* that each cell sets */
};

/* ---- sweep_print.c ---------------------------------------------------- */

void sweep_print_table(const struct sweep *s, struct buf *out);
void sweep_print_csv(const struct sweep *s, struct buf *out);
void sweep_print_json(const struct sweep *s, struct buf *out);

/* ---- sweep_ask.c ------------------------------------------------------ */

/* Reads --days and --budget. */
bool sweep_read_asked(struct sweep *s);
/* Plans for numbers of nodes until it knows how many finish in time. */
void sweep_find_nodes(const struct sweep *s, struct sweep_thread *t,
		      struct sweep_job *job);
/* Marks the rows that are answers; those of the table are sorted. */
void sweep_mark_answers(struct sweep *s);
/* Tokens that the days and the budget are enough for; NAN: not known. */
double sweep_most_tokens(const struct sweep *s, const struct sweep_row *r);
/* A sentence for each answer. */
void sweep_print_answers(const struct sweep *s, struct buf *out);

/* ---- sweep_cell.c ----------------------------------------------------- */

/*
 * Reads the model of a cell and its target, as far as a search needs it, and
 * forgets them.  False: the messages are printed.
 */
bool sweep_check_cell(const struct sweep *s, const struct sweep_cell *cell,
		      bool warns);
/* Whether the tokens of the run are given, by --tokens or the model. */
bool sweep_has_tokens(const struct sweep *s);
void sweep_open_thread(struct sweep_thread *t);
void sweep_close_thread(struct sweep_thread *t);
/* Plans a cell.  Threads may do so at once, each with another row. */
void sweep_run_cell(const struct sweep *s, struct sweep_thread *t,
		    struct sweep_row *row);
/* Days of the run with failures where these are known; NAN: no tokens. */
double sweep_days(const struct sweep_row *r);
/* Dollars of the run, the same. */
double sweep_usd(const struct sweep_row *r);
/* Frees what a row keeps. */
void sweep_drop_row(struct sweep_row *r);

/* ---- sweep_list.c ----------------------------------------------------- */

/*
 * The words of a list with commas between, in which `a{1,2}` stands for a1 and
 * a2, and {4,8,16,..,64} for a progression.  A word that was there before is
 * left out.  `option` is what the list was given for.
 */
bool sweep_read_list(struct driver *d, const char *option, const char *text,
		     struct sweep_words *out);

#endif

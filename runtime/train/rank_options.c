/*
 * All options of a plan's program: the parser and the help read the same table.
 */
#include "runtime/text.h"
#include "runtime/train/rank.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, INT, NUM, TEXT, MAYBE, LIST, WORD };

#define T RT_TRAIN
#define B RT_BENCH
#define I RT_INSPECT
#define V RT_VERIFY
#define S RT_SAMPLE
#define P RT_PREFLIGHT
#define E RT_EVAL
#define X RT_EXPORT
#define G RT_GENERATE
#define H RT_SERVE
#define RUNS (T | B | V | S | P | E | X | G | H)

static const struct option_row {
	const char *name;
	/* commands that accept it; 0: also without one */
	int64_t commands;
	enum kind kind;
	size_t at, text;	/* text: the value of a MAYBE */
	double least, most;
	/* placeholder in the help; of a WORD the words */
	const char *arg;
	const char *help;
} rows[] = {
#define AT(m) offsetof(struct rt_options, m)
	{ "help", 0, FLAG, AT(help), 0, 0, 0, "", "print this" },
	{ "version", 0, FLAG, AT(version), 0, 0, 0, "",
	  "print what was compiled, and by what" },
	{ "local", RUNS, FLAG, AT(local), 0, 0, 0, "",
	  "start all ranks of the plan on this host" },
	{ "threads", RUNS, INT, AT(threads), 0, 1, 1024, "N",
	  "of each rank (default: its share of the cores)" },
	{ "bind", RUNS, WORD, AT(bind), 0, 0, 0, "cores|no",
	  "keep each thread on a core, if there are enough (default: cores)" },
	{ "device", RUNS, WORD, AT(device), 0, 0, 0, "auto|cuda|emulate|cpu",
	  "what runs kernels (default: auto, what they are compiled for; "
	  "emulate: a GPU's, by this host's CPU, exactly and slowly)" },
	{ "no-graph", RUNS, FLAG, AT(no_graph), 0, 0, 0, "",
	  "of a GPU: call each kernel of each step, keep no graph of them" },
	{ "transport", RUNS, WORD, AT(transport), 0, 0, 0, "auto|shm|mpi|tcp",
	  "how ranks communicate: by shared memory, MPI or TCP (default: "
	  "LLMC_TRANSPORT, or auto: TCP or MPI, as who started them has it, "
	  "if they are on several hosts)" },
	{ "timeout", RUNS, NUM, AT(timeout_s), 0, 0.1, 1e6, "S",
	  "seconds that a rank waits for others (default: 300)" },
	{ "seed", RUNS, INT, AT(seed), 0, 0, 9e15, "N",
	  "of weights, of the order of data, of samples "
	  "(default: the model's)" },
	{ "weights", T | V | S | E | X | G | H, TEXT, AT(weights), 0, 0, 0,
	  "PATH",
	  "begin with these: safetensors, an index, a folder, or GGUF" },
	{ "allow-unused", T | V | S | E | X | G | H, FLAG, AT(allow_unused), 0,
	  0, 0, "",
	  "leave out tensors of --weights that the model does not read" },
	{ "allow-missing", T | V | S | E, FLAG, AT(allow_missing), 0, 0, 0, "",
	  "trained tensors that --weights lack start as in a new run" },
	{ "rename", T | V | S | E | X | G | H, LIST, AT(renames), 0, 0, 0,
	  "OLD=NEW..",
	  "names in --weights that begin with OLD begin with NEW instead" },
	{ "steps", T | B | V | E, INT, AT(steps), 0, 1, 1e15, "N",
	  "train: in all, resumed ones too (default: the model's, or the "
	  "data once); bench: measured (default: 5); verify: compared "
	  "(default: 1); eval: batches (default: the data once)" },
	{ "data", T | E, LIST, AT(data), 0, 0, 0, "FILE..|draw",
	  "token files to train or evaluate on, or drawn tokens; train: "
	  "0.7:FILE.. 0.3:FILE.. is a blend; eval: NAME:FILE.. a set" },
	{ "tokenizer", T | E | S | G | H, TEXT, AT(tokenizer), 0, 0, 0,
	  "FILE",
	  "a tokenizer.json or a *.gguf: data may be text, JSON lines, .gz "
	  "or .zst of these; token files are made beside it once; sample, "
	  "generate, serve: prompts are text, and so is what comes" },
	{ "field", T | E, TEXT, AT(field), 0, 0, 0, "NAME",
	  "of JSON lines: the text (default: text)" },
	{ "end", T | E, TEXT, AT(end), 0, 0, 0, "TOKEN",
	  "comes after each document of text" },
	{ "document-end", T | E | S, INT, AT(marks.document_end), 0, 0,
	  2147483647, "N", "the token that ends a document, for models that "
	  "read documents, positions, document_first, document_last, "
	  "prefix_last, loss_mask or loss_tokens" },
	{ "prefix-end", T | E | S, INT, AT(marks.prefix_end), 0, 0, 2147483647,
	  "N", "the token that ends the prefix of a document, for models that "
	  "read prefix_last, loss_mask or loss_tokens; needs --document-end "
	  "too" },
	{ "ignore-label", T | E, INT, AT(marks.ignored), 0, 0, 2147483647, "N",
	  "the label that does not count in the loss, for models that read "
	  "loss_mask or loss_tokens" },
	{ "data-order", T, WORD, AT(data_order), 0, 0, 0, "shuffled|file",
	  "of its sequences: a permutation that the seed gives, or as they "
	  "come in the files (default: shuffled)" },
	{ "lr", T, NUM, AT(lr), 0, 0, 1e3, "R",
	  "learning rate (this and the next six: default: the model's)" },
	{ "schedule", T, WORD, AT(schedule), 0, 0, 0,
	  "constant|linear|cosine|wsd", "course of the learning rate" },
	{ "warmup", T, INT, AT(warmup), 0, 0, 1e12, "N",
	  "steps over which it rises" },
	{ "decay-steps", T, INT, AT(decay_steps), 0, 1, 1e12, "N",
	  "steps over which it falls" },
	{ "min-lr", T, NUM, AT(min_lr), 0, 0, 1e3, "R", "where it ends" },
	{ "clip", T, NUM, AT(clip), 0, 1e-9, 1e9, "N",
	  "largest norm of all gradients together" },
	{ "weight-decay", T, LIST, AT(weight_decay), 0, 0, 0,
	  "D|GROUP=D..", "of all but vectors (norms, biases); or of a group: "
	  "matrices, embeddings, vectors" },
	{ "eval-data", T, LIST, AT(eval_data), 0, 0, 0, "FILE..",
	  "token files to evaluate on; NAME:FILE.. begins a set with a loss "
	  "of its own" },
	{ "eval-every", T, INT, AT(eval_every), 0, 1, 1e15, "N",
	  "steps between evaluations (default: at the end)" },
	{ "eval-steps", T, INT, AT(eval_steps), 0, 1, 1e15, "N",
	  "batches of an evaluation (default: the data once)" },
	{ "checkpoint", T | S | E | X | G | H, TEXT, AT(checkpoint), 0, 0, 0,
	  "FOLDER",
	  "train: save there, at the end too; the others: load the newest" },
	{ "shard-bytes", T | X, INT, AT(shard_bytes), 0, 1, 1e15, "N",
	  "the most of one file, before an index joins several (default: "
	  "5e9)" },
	{ "every", T, INT, AT(every), 0, 1, 1e15, "N",
	  "steps between checkpoints (default: at the end)" },
	{ "keep", T, INT, AT(keep), 0, 1, 1e6, "N",
	  "newest checkpoints that stay (default: 2)" },
	{ "async-checkpoint", T, FLAG, AT(async), 0, 0, 0, "",
	  "save a copy in the host's memory, behind the steps that follow" },
	{ "export", T, TEXT, AT(exports), 0, 0, 0, "FOLDER",
	  "write weights and config.json for other programs as "
	  "FOLDER/step-N, at the end too" },
	{ "export-every", T, INT, AT(export_every), 0, 1, 1e15, "N",
	  "steps between these (default: at the end)" },
	{ "resume", T, MAYBE, AT(resume), AT(resume_path), 0, 0, "PATH",
	  "go on from that checkpoint (default: the newest of --checkpoint, "
	  "and anew if it has none)" },
	{ "allow-other-data", T, FLAG, AT(allow_other_data), 0, 0, 0, "",
	  "go on with other data, or another order, than the checkpoint's" },
	{ "log", T | E, TEXT, AT(log), 0, 0, 0, "FILE",
	  "add a JSON object for each step and event" },
	{ "tensorboard", T, TEXT, AT(tensorboard), 0, 0, 0, "FOLDER",
	  "write an event file there" },
	{ "trace", B, TEXT, AT(trace), 0, 0, 0, "FILE",
	  "write a measured step, for Perfetto" },
	{ "sequences", B, INT, AT(sequences), 0, 1, 1e6, "N",
	  "of a plan that serves: answer so many at once" },
	{ "prompt-tokens", B, INT, AT(prompt_tokens), 0, 1, 1e9, "N",
	  "the prompt of each (default: 512)" },
	{ "mixed", B, FLAG, AT(mixed), 0, 0, 0, "",
	  "lengths of prompts and answers go from half of these to one and a "
	  "half" },
	{ "json", B | I | E, FLAG, AT(json), 0, 0, 0, "",
	  "print JSON; inspect: plan.json" },
	{ "llp", I, FLAG, AT(llp), 0, 0, 0, "", "print the plan as text" },
	{ "prompt", S | G, TEXT, AT(prompt), 0, 0, 0, "TEXT",
	  "what comes first: text with --tokenizer or if there are 256 "
	  "tokens, else numbers" },
	{ "prompt-file", S | G, TEXT, AT(prompt_file), 0, 0, 0, "FILE",
	  "the same in a file" },
	{ "tokens", S | G | B, INT, AT(tokens), 0, 1, 1e12, "N",
	  "tokens that come (default: 256; bench: 64)" },
	{ "temperature", S | G, NUM, AT(temperature), 0, 0, 1e6, "T",
	  "0 takes the likeliest each time (default: 1)" },
	{ "top-k", G, INT, AT(generate.top_k), 0, 0, 1e9, "N",
	  "draw among the N likeliest (default: 0, among all)" },
	{ "top-p", G, NUM, AT(generate.top_p), 0, 0, 1, "P",
	  "draw among the fewest whose chances sum up to P (default: 1)" },
	{ "min-p", G, NUM, AT(generate.min_p), 0, 0, 1, "P",
	  "draw among those that have P of the likeliest's chance "
	  "(default: 0)" },
	{ "repetition-penalty", G, NUM, AT(generate.repetition), 0, 1e-3, 1e3,
	  "R", "logits of tokens that came are divided by R (default: 1)" },
	{ "presence-penalty", G, NUM, AT(generate.presence), 0, -100, 100,
	  "R", "taken from logits of tokens that were drawn (default: 0)" },
	{ "frequency-penalty", G, NUM, AT(generate.frequency), 0, -100, 100,
	  "R", "taken from them for each time (default: 0)" },
	{ "ignore-eos", G, FLAG, AT(generate.ignore_eos), 0, 0, 0, "",
	  "go on after a token that ends the text" },
	{ "chat", G | H, TEXT, AT(generate.chat), 0, 0, 0, "NAME",
	  "the chat template, such as llama-3 or chatml; generate: the "
	  "prompt is a message of it; serve: default by the tokenizer" },
	{ "reasoning", H, TEXT, AT(serve.reasoning), 0, 0, 0, "NAME",
	  "tell what the model thinks apart from what it says: qwen3, "
	  "deepseek-r1, deepseek-v3.1 or mistral (default: none, but "
	  "gpt-oss with its chat template)" },
	{ "in-flight", G | H | B, INT, AT(in_flight), 0, 1, 65536, "N",
	  "steps that stages of a pipeline work on at a time (default: one "
	  "each)" },
	{ "host", H, TEXT, AT(serve.host), 0, 0, 0, "ADDRESS",
	  "to listen on (default: 127.0.0.1, this host alone)" },
	{ "port", H, INT, AT(serve.port), 0, 0, 65535, "N",
	  "to listen on; 0 takes any (default: 8000)" },
	{ "model-name", H, TEXT, AT(serve.model), 0, 0, 0, "NAME",
	  "that clients call the model by (default: its own)" },
	{ "api-key-file", H, TEXT, AT(serve.key_file), 0, 0, 0, "FILE",
	  "its first line is the key that requests must have (default: the "
	  "variable LLMC_API_KEY, or none)" },
	{ "queue", H, INT, AT(serve.queue), 0, 1, 1e6, "N",
	  "answers that may wait; more are told to come again" },
	{ "clients", H, INT, AT(serve.clients), 0, 1, 65536, "N",
	  "connections at a time" },
	{ "drain", H, NUM, AT(serve.drain_s), 0, 0, 1e5, "S",
	  "seconds that answers under way have when the service ends" },
	{ "no-sharing", H, FLAG, AT(serve.no_sharing), 0, 0, 0, "",
	  "equal prompts have keys of their own" },
#undef AT
};

#define NROWS (sizeof rows / sizeof *rows)

static const struct command_word {
	const char *name;
	int64_t bit;
	const char *help;
} commands[] = {
	{ "train", T, "trains, and saves checkpoints" },
	{ "bench", B, "measures steps beside what was predicted" },
	{ "inspect", I, "shows what is in this program" },
	{ "verify", V, "runs the first step twice and compares all ranks" },
	{ "eval", E, "prints the loss of a checkpoint, or of weights" },
	{ "sample", S, "continues a text" },
	{ "generate", G, "continues a text, with a plan that serves" },
	{ "serve", H, "answers requests by HTTP, with a plan that serves" },
	{ "export", X, "writes weights and config.json to a FOLDER" },
	{ "preflight", P, "shows what ranks run on, and how fast links are" },
};

#define NCOMMANDS (sizeof commands / sizeof *commands)

/* ---- the nearest name ---- */

static const char *
name_of(size_t i, bool command)
{
	return command ? commands[i].name : rows[i].name;
}

/* "; the nearest is --steps", or nothing if half of the name is another. */
static struct rt_shown
nearest_option(const char *name, bool command)
{
	size_t n = command ? NCOMMANDS : NROWS, i, best = 0;
	struct rt_shown out = { "" };

	for (i = 1; i < n; i++) {
		if (rt_edit_distance(name, name_of(i, command)) <
		    rt_edit_distance(name, name_of(best, command))) {
			best = i;
		}
	}
	if (2 * rt_edit_distance(name, name_of(best, command)) <=
	    strlen(name)) {
		snprintf(out.text, sizeof out.text, "; the nearest is %s%s",
			 command ? "" : "--", name_of(best, command));
	}
	return out;
}

/* ---- reading ---- */

struct option_reader {
	struct rt_options *o;
	char *const *argv;
	int argc, at;
	struct rt_error *err;
};

#define WRONG(r, ...) rt_fail((r)->err, RT_RANGE, RT_NOWHERE, __VA_ARGS__)

static const char *
next_word(struct option_reader *r)
{
	if (r->at < r->argc && strncmp(r->argv[r->at], "--", 2) != 0) {
		return r->argv[r->at++];
	}
	return NULL;
}

static enum rt_status
read_number(struct option_reader *r, const struct option_row *w, const char *s)
{
	char *end;
	double v;

	errno = 0;
	v = strtod(s, &end);
	if (end == s || *end || errno != 0 || !(v >= w->least) ||
	    !(v <= w->most) || (w->kind == INT && v != floor(v))) {
		return WRONG(r, "--%s takes a %snumber from %.16g to %.16g, "
			     "not '%s'", w->name,
			     w->kind == INT ? "whole " : "", w->least, w->most,
			     rt_show_name(s).text);
	}
	if (w->kind == INT) {
		*(int64_t *)(void *)((char *)r->o + w->at) = (int64_t)v;
	} else {
		*(double *)(void *)((char *)r->o + w->at) = v;
	}
	return RT_OK;
}

static bool
is_word(const char *words, const char *s)
{
	size_t n = strlen(s);

	for (;;) {
		const char *end = words + strcspn(words, "|");

		if ((size_t)(end - words) == n && memcmp(words, s, n) == 0) {
			return true;
		}
		if (!*end) {
			return false;
		}
		words = end + 1;
	}
}

static enum rt_status
read_list(struct option_reader *r, const struct option_row *w,
	  const char *first)
{
	struct rt_paths *l = (void *)((char *)r->o + w->at);
	const char *s;

	if (!l->at) {
		l->at = calloc((size_t)r->argc, sizeof *l->at);
	}
	if (!l->at) {
		return rt_no_memory(r->err, NULL);
	}
	for (s = first; s; s = next_word(r)) {
		l->at[l->n++] = s;
	}
	return RT_OK;
}

static enum rt_status
read_value(struct option_reader *r, const struct option_row *w, const char *s)
{
	void *to = (char *)r->o + w->at;

	if (w->kind == FLAG) {
		*(bool *)to = true;
		return s ? WRONG(r, "--%s takes no argument", w->name) : RT_OK;
	}
	s = s ? s : next_word(r);
	if (w->kind == MAYBE) {
		*(bool *)to = true;
		*(const char **)(void *)((char *)r->o + w->text) = s;
		return RT_OK;
	}
	if (!s) {
		return WRONG(r, "--%s takes an argument: %s", w->name, w->arg);
	}
	if (w->kind == INT || w->kind == NUM) {
		return read_number(r, w, s);
	}
	if (w->kind == LIST) {
		return read_list(r, w, s);
	}
	if (w->kind == WORD && !is_word(w->arg, s)) {
		return WRONG(r, "--%s takes %s, not '%s'", w->name, w->arg,
			     rt_show_name(s).text);
	}
	*(const char **)to = s;
	return RT_OK;
}

/* Reads "--name" or "--name=value"; `s` comes after the dashes. */
static enum rt_status
read_option(struct option_reader *r, const char *s)
{
	size_t n = strcspn(s, "="), i;

	for (i = 0; i < NROWS; i++) {
		if (strlen(rows[i].name) == n &&
		    memcmp(rows[i].name, s, n) == 0) {
			break;
		}
	}
	if (i == NROWS) {
		struct rt_shown name = rt_show_name(s);

		name.text[strcspn(name.text, "=")] = '\0';
		return WRONG(r, "there is no option --%s%s; --help lists "
			     "all", name.text,
			     nearest_option(name.text, false).text);
	}
	if (rows[i].commands && !(rows[i].commands & r->o->command)) {
		return WRONG(r, "--%s is not an option of this command; "
			     "--help says which have it", rows[i].name);
	}
	return read_value(r, &rows[i], s[n] ? s + n + 1 : NULL);
}

static enum rt_status
read_command(struct option_reader *r, const char *s)
{
	size_t i;

	for (i = 0; i < NCOMMANDS; i++) {
		if (strcmp(commands[i].name, s) == 0) {
			r->o->command = commands[i].bit;
			return RT_OK;
		}
	}
	return WRONG(r, "there is no command '%s'%s; --help lists all",
		     rt_show_name(s).text, nearest_option(s, true).text);
}

/* What the words of --data and --eval-data mean. */
static enum rt_status
read_data(struct rt_options *o, struct rt_error *err)
{
	const struct rt_paths *sets = o->command == E ? &o->data
						      : &o->eval_data;
	enum rt_status status = RT_OK;

	if (o->command == T && !rt_options_draw(o)) {
		status = rt_data_read(&o->sources, &o->data, true, err);
	}
	if (status == RT_OK && (o->command == T || !rt_options_draw(o))) {
		status = rt_data_read(&o->sets, sets, false, err);
	}
	return status;
}

/* The command `bench` measures steps, or how sequences are answered. */
static enum rt_status
check_bench(struct option_reader *r)
{
	const struct rt_options *o = r->o;

	if ((o->tokens || o->prompt_tokens || o->mixed) && !o->sequences) {
		return WRONG(r, "--tokens, --prompt-tokens and --mixed are of "
			     "sequences: give --sequences N");
	}
	if (o->in_flight && !o->sequences) {
		return WRONG(r, "--in-flight is of sequences: give "
			     "--sequences N");
	}
	if (o->sequences && (o->steps || o->trace)) {
		return WRONG(r, "--%s is of a bench of steps: leave it out, or "
			     "--sequences", o->steps ? "steps" : "trace");
	}
	return RT_OK;
}

/* Checks options about checkpoints and files of weights. */
static enum rt_status
check_stored(struct option_reader *r)
{
	const struct rt_options *o = r->o;

	if ((o->every || o->async || (o->resume && !o->resume_path)) &&
	    !o->checkpoint) {
		return WRONG(r, "no folder for checkpoints is given: "
			     "--checkpoint FOLDER");
	}
	if ((o->allow_missing || o->renames.n > 0) && !o->weights) {
		return WRONG(r, "--%s is of weights from a file: give "
			     "--weights PATH", o->allow_missing ?
			     "allow-missing" : "rename");
	}
	if (o->resume && o->weights) {
		return WRONG(r, "--resume and --weights both say where "
			     "weights come from: give one");
	}
	return RT_OK;
}

/* Checks combinations of options. */
static enum rt_status
check_options(struct option_reader *r)
{
	struct rt_options *o = r->o;

	if (o->help || o->version) {
		return RT_OK;
	}
	if (!o->command) {
		return WRONG(r, "a command is missing: train, bench, inspect, "
			     "verify, eval, sample, generate, serve, export or "
			     "preflight; --help says more");
	}
	if (o->command == T && o->data.n == 0) {
		return WRONG(r, "there is nothing to train on: give --data "
			     "FILE.. or --data draw");
	}
	if ((o->command == E && o->data.n == 0) ||
	    ((o->eval_every || o->eval_steps) && o->eval_data.n == 0)) {
		return WRONG(r, "there is nothing to evaluate on: give "
			     "--%sdata FILE..", o->command == E ? "" :
			     "eval-");
	}
	if (check_stored(r) != RT_OK) {
		return r->err->status;
	}
	if (o->command & (S | G) && !o->prompt == !o->prompt_file) {
		return WRONG(r, "%s to continue: give --prompt TEXT or "
			     "--prompt-file FILE", o->prompt ? "two texts"
							     : "nothing");
	}
	if (o->export_every && !o->exports) {
		return WRONG(r, "no folder for exports is given: --export "
			     "FOLDER");
	}
	if (o->command & (S | E | X | G | H) &&
	    !o->checkpoint == !o->weights) {
		return WRONG(r, "%s weights to %s: give --checkpoint FOLDER or "
			     "--weights PATH",
			     o->weights ? "two sets of" : "no",
			     o->command == S ? "sample from" :
			     o->command == X ? "export" :
			     o->command == E ? "evaluate" : "answer with");
	}
	if (o->command == X && !o->folder) {
		return WRONG(r, "no folder to write is given: rank export "
			     "FOLDER");
	}
	if (o->command == B && check_bench(r) != RT_OK) {
		return r->err->status;
	}
	o->tokens = o->tokens ? o->tokens : o->command == B ? 64 : 256;
	o->prompt_tokens = o->prompt_tokens ? o->prompt_tokens : 512;
	return read_data(o, r->err);
}

bool
rt_options_draw(const struct rt_options *o)
{
	return o->data.n == 1 && strcmp(o->data.at[0], "draw") == 0;
}

bool
rt_options_in_order(const struct rt_options *o)
{
	return strcmp(o->data_order, "file") == 0;
}

/* Whether clients can write it in JSON, and a line of text has it. */
static bool
is_name(const char *s)
{
	size_t left = strlen(s), n;
	bool ok = left > 0;

	while (ok && left > 0) {
		n = rt_utf8_len((const unsigned char *)s, left);
		ok = n > 0 && (unsigned char)*s >= ' ' && *s != 127;
		s += n;
		left -= n;
	}
	return ok;
}

enum rt_status
rt_options_settle(struct rt_options *o, const struct rt_plan *p,
		  struct rt_error *err)
{
	if (o->serve.model && !is_name(o->serve.model)) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "--model-name is one "
			       "line of text in UTF-8, not empty, that clients "
			       "can ask for");
	}
	if (o->command == RT_SERVE && !o->help && o->timeout_s < 20) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "--timeout of a "
			       "server is at least 20 seconds: ranks may wait "
			       "so long for a step");
	}
	if (o->command != RT_TRAIN || o->help || o->version) {
		return RT_OK;
	}
	o->steps = o->steps ? o->steps : p->steps;
	if (o->steps == 0 && rt_options_draw(o)) {
		return rt_fail(err, RT_RANGE, RT_NOWHERE, "drawn tokens have "
			       "no end, and the model has no train.steps: "
			       "give --steps N");
	}
	return rt_training_settle(&o->training, o, p, err);
}

int64_t
rt_options_seed(const struct rt_options *o, const struct rt_plan *p)
{
	return o->seed < 0 ? p->seed : o->seed;
}

enum rt_status
rt_options_read(struct rt_options *o, int argc, char *const *argv,
		struct rt_error *err)
{
	struct option_reader r = { o, argv, argc, 1, err };
	enum rt_status status = RT_OK;

	*o = (struct rt_options){ .seed = -1, .keep = 2,
				  .marks = { -1, -1, -1 },
				  .lr = -1, .min_lr = -1,
				  .clip = -1, .warmup = -1,
				  .timeout_s = 300, .temperature = 1,
				  .shard_bytes = 5000000000,
				  .bind = "cores", .device = "auto",
				  .data_order = "shuffled",
				  .generate = rt_generate_plain(),
				  .serve = rt_serve_plain() };
	o->serve.model = NULL;	/* that of the plan */
	if (argc > 1 && argv[1][0] != '-') {
		r.at = 2;
		status = read_command(&r, argv[1]);
	}
	while (status == RT_OK && r.at < argc) {
		const char *s = argv[r.at++];

		if (strncmp(s, "--", 2) == 0 && s[2]) {
			status = read_option(&r, s + 2);
		} else if (o->command == X && !o->folder && *s) {
			o->folder = s;
		} else {
			status = WRONG(&r, "'%s' is neither an option nor the "
				       "argument of one",
				       rt_show_name(s).text);
		}
	}
	return status == RT_OK ? check_options(&r) : status;
}

void
rt_options_release(struct rt_options *o)
{
	int64_t i;

	for (i = 0; i < o->made.n; i++) {
		free((void *)(uintptr_t)o->made.at[i]);
	}
	free(o->made.at);
	free(o->data.at);
	free(o->eval_data.at);
	free(o->weight_decay.at);
	free(o->renames.at);
}

/* ---- help ---- */

/* Prints s from column `at` on, wrapped between words. */
static void
fold(FILE *out, const char *s, int at)
{
	int column = at;

	while (*s) {
		int n = (int)strcspn(s, " ");

		if (column > at && column + 1 + n > 78) {
			fprintf(out, "\n%*s", at, "");
			column = at;
		} else if (column > at) {
			putc(' ', out);
			column++;
		}
		fprintf(out, "%.*s", n, s);
		column += n;
		s += n + (s[n] == ' ');
	}
	putc('\n', out);
}

#define HELP_AT 26

static void
help_of(FILE *out, const struct option_row *w)
{
	bool maybe = w->kind == MAYBE;
	int n = fprintf(out, "  --%s%s%s%s%s", w->name,
			w->arg[0] ? " " : "", maybe ? "[" : "", w->arg,
			maybe ? "]" : "");

	if (n >= HELP_AT) {
		putc('\n', out);
		n = 0;
	}
	fprintf(out, "%*s", HELP_AT - n, "");
	fold(out, w->help, HELP_AT);
}

/* Those whose commands are these, or, if `among`, with others. */
static void
help_of_rows(FILE *out, int64_t bits, bool among)
{
	size_t i;

	for (i = 0; i < NROWS; i++) {
		if (among ? rows[i].commands & bits && rows[i].commands != RUNS
			  : rows[i].commands == bits) {
			help_of(out, &rows[i]);
		}
	}
}

void
rt_options_help(FILE *out, int64_t command)
{
	size_t i;

	fputs("usage: rank COMMAND [options]\n", out);
	for (i = 0; i < NCOMMANDS; i++) {
		if (!command || commands[i].bit == command) {
			fprintf(out, "\n%s: %s\n", commands[i].name,
				commands[i].help);
			help_of_rows(out, commands[i].bit, true);
		}
	}
	if (command != I) {
		fputs("\nall but inspect:\n", out);
		help_of_rows(out, RUNS, false);
	}
	fputs("\nwithout a command, or with any:\n", out);
	help_of_rows(out, 0, false);
}

/*
 * Checkpoints: any plan loads any other's, files do not
 * depend on the plan, and whatever goes wrong at whatever moment, the one
 * before or the new one is complete.
 */
#include "tests/unit/data/t-store.h"
#include "tests/unit/shared/t-cases.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "runtime/data/checkpoint.h"

static const struct spec specs[] = {
	{ 1, 1, 1, false }, { 2, 2, 1, false }, { 2, 2, 1, true },
	{ 1, 3, 2, true },  { 1, 1, 3, false }, { 4, 1, 2, false },
	{ 3, 2, 2, true },  { 1, 8, 1, false },	/* some ranks have nothing */
};

enum { NSPECS = sizeof(specs) / sizeof(specs[0]) };

/* How these tests save: the tests of saving run both ways. */
static enum what how = SAVE;

static const char *const file_names[] = { "model.safetensors",
					  "state.safetensors",
					  "checkpoint.json" };

/* ---- folders ------------------------------------------------------- */

/* Removes a folder of checkpoints, and fails if anything else is there. */
static void
remove_all(char *dir)
{
	char name[RT_STEP_NAME_BYTES];
	struct rt_checkpoint_list l;
	size_t i;

	rt_checkpoint_remove_leftovers(rt_files_or_system(NULL), dir);
	assert_int_equal(rt_checkpoint_list_read(&l, dir, NULL), RT_OK);
	for (i = 0; i < l.n; i++) {
		rt_step_name(name, l.at[i].step, l.at[i].old ? ".old" : "");
		rt_checkpoint_remove(rt_files_or_system(NULL), dir, name);
	}
	rt_checkpoint_list_release(&l);
	assert_int_equal(rmdir(dir), 0);
	free(dir);
}

static char *
step_file(const char *dir, int64_t step, const char *name)
{
	struct rt_alloc a = rt_alloc_or_libc(NULL);
	char tail[80];

	snprintf(tail, sizeof(tail), "/%s", name);
	return rt_step_path(&a, dir, step, tail);
}

static struct bytes
slurp(const char *path)
{
	struct bytes b = { NULL, 0 };
	FILE *f = fopen(path, "rb");
	struct stat sb;

	assert_non_null(f);
	assert_int_equal(fstat(fileno(f), &sb), 0);
	b.n = (size_t)sb.st_size;
	b.at = malloc(b.n + 1);
	assert_non_null(b.at);
	assert_int_equal(fread(b.at, 1, b.n, f), b.n);
	fclose(f);
	return b;
}

static void
spill(const char *path, struct bytes b)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(b.at, 1, b.n, f), b.n);
	assert_int_equal(fclose(f), 0);
}

static void
same_files(const char *a, const char *b, int64_t step)
{
	size_t i;

	for (i = 0; i < 3; i++) {
		char *p = step_file(a, step, file_names[i]);
		char *q = step_file(b, step, file_names[i]);
		struct bytes x = slurp(p), y = slurp(q);

		assert_int_equal(x.n, y.n);
		assert_memory_equal(x.at, y.at, x.n);
		free(x.at);
		free(y.at);
		free(p);
		free(q);
	}
}

/* ---- any plan, any other ------------------------------------------- */

static void
test_any_plan_loads_any_other(void **state)
{
	struct test_plan *plans[NSPECS];
	char *dirs[NSPECS];
	int i, j;

	(void)state;
	for (i = 0; i < NSPECS; i++) {
		struct run r;

		plans[i] = make_plan(specs[i]);
		dirs[i] = make_dir();
		run_all(&r, plans[i], how, dirs[i], 42, 2,
			rt_files_or_system(NULL));
		assert_string_equal(r.message, "");
		run_free(&r);
	}
	for (i = 0; i < NSPECS; i++) {
		same_files(dirs[0], dirs[i], 42);
		for (j = 0; j < NSPECS; j++) {
			must_load(plans[j], dirs[i], 42);
		}
	}
	for (i = 0; i < NSPECS; i++) {
		remove_all(dirs[i]);
		free(plans[i]);
	}
}

/* A reader that knows nothing of plans finds each value in its place. */
static void
test_files_are_whole(void **state)
{
	struct test_plan *t = make_plan(specs[6]);
	char *dir = make_dir(), *path, name[RT_NAME_BYTES];
	struct rt_error err = { 0 };
	int64_t part, parts, elems, i;
	struct rt_st *st[2];
	int k, f;

	(void)state;
	must_save(t, dir, 3, 1);
	for (f = 0; f < 2; f++) {
		path = step_file(dir, 3, file_names[f]);
		rt_st_open_any(&st[f], path, NULL, &err);
		assert_string_equal(err.message, "");
		assert_string_equal(rt_st_metadata(st[f], "format"), "pt");
		free(path);
	}
	assert_int_equal(rt_st_count(st[0]), 4 * LAYERS + 1);
	assert_int_equal(rt_st_count(st[1]), LAYERS + 2);
	for (k = 0; k < NTENSORS; k++) {
		parts = rt_tensor_parts(&t->tensors[k]);
		elems = rt_part_elems(&t->tensors[k]);
		for (part = 0; part < parts; part++) {
			const struct rt_st_tensor *s;
			uint32_t v, bits = 0;

			rt_part_name(&t->tensors[k], part, name, NULL);
			f = !t->tensors[k].loaded;
			s = rt_st_find(st[f], name);
			assert_non_null(s);
			assert_int_equal(rt_st_elems(s), elems);
			for (i = 0; i < elems; i++) {
				int bytes = rt_dtype_bits(s->dtype) / 8;

				rt_st_read_raw(st[f], s, i * bytes, bytes,
					       &bits, &err);
				v = value(k, part * elems + i, 3);
				assert_int_equal(bits, v);
			}
		}
	}
	rt_st_free(st[0]);
	rt_st_free(st[1]);
	remove_all(dir);
	free(t);
}

/* ---- calls that fail ----------------------------------------------- */

/* What the n-th call does; the count is of all ranks together. */
enum harm { NO_HARM, DIE, NO_SPACE, SHORT, INTERRUPT };

static struct {
	pthread_mutex_t lock;
	enum harm harm;
	int at, count;
} sick = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Is it this call's turn? */
static enum harm
turn(void)
{
	enum harm now = NO_HARM;

	pthread_mutex_lock(&sick.lock);
	if (sick.harm == SHORT || sick.harm == INTERRUPT) {
		now = ++sick.count % 2 ? sick.harm : NO_HARM;
	} else if (sick.count++ == sick.at) {
		now = sick.harm;
	}
	pthread_mutex_unlock(&sick.lock);
	if (now == DIE) {
		_exit(42);
	}
	errno = now == NO_SPACE ? ENOSPC : EINTR;
	return now;
}

static int
sick_mkdir(const char *path, mode_t mode)
{
	return turn() == NO_SPACE ? -1 : mkdir(path, mode);
}

static int
sick_open(const char *path, int flags, mode_t mode)
{
	return turn() == NO_SPACE ? -1 : open(path, flags, mode);
}

static int
sick_reserve(int fd, int64_t bytes)
{
	enum harm now = turn();

	return now == NO_SPACE ? ENOSPC :
	       now == INTERRUPT ? EINTR : posix_fallocate(fd, 0, bytes);
}

static ssize_t
sick_pwrite(int fd, const void *p, size_t n, off_t at)
{
	enum harm now = turn();

	if (now == NO_SPACE || now == INTERRUPT) {
		return -1;
	}
	return pwrite(fd, p, now == SHORT ? (n + 2) / 3 : n, at);
}

static int
sick_fsync(int fd)
{
	enum harm now = turn();

	(void)fd;
	return now == NO_SPACE || now == INTERRUPT ? -1 : 0;
}

static int
sick_close(int fd)
{
	int failed = turn() == NO_SPACE;

	close(fd);
	return failed ? -1 : 0;
}

static int
sick_rename(const char *from, const char *to)
{
	return turn() == NO_SPACE ? -1 : rename(from, to);
}

static int
sick_unlinkat(int dir, const char *name, int flags)
{
	return turn() == NO_SPACE ? -1 : unlinkat(dir, name, flags);
}

static const struct rt_files sick_files = {
	sick_mkdir, sick_open, sick_reserve, sick_pwrite, sick_fsync,
	sick_close, sick_rename, sick_unlinkat,
};

static void
fall_sick(enum harm harm, int at)
{
	sick.harm = harm;
	sick.at = at;
	sick.count = 0;
}

/* The step of what is there, all of which is as it was saved. */
static int64_t
loads(const struct test_plan *t, const char *dir)
{
	struct run r;
	int64_t i, step;

	run_all(&r, t, LOAD, dir, 0, 0, NULL);
	assert_string_equal(r.message, "");
	step = r.jobs[0].progress.step;
	for (i = 0; i < t->plan.nranks; i++) {
		assert_int_equal(walk(t, i, r.jobs[i].store.arena, step,
				      true), 0);
	}
	run_free(&r);
	return step;
}

/*
 * Ends the process at each call of a save in turn, the ranks with it.  `again`
 * is the step of the save, over one of step 10.
 */
static void
die_at_each(const struct test_plan *t, int64_t again, bool *saw_old,
	    bool *saw_new)
{
	int at, status = 42;
	char *dir = make_dir();
	int64_t step;

	must_save(t, dir, 10, 1);
	for (at = 0; status == 42; at += t_short() ? 2 : 1) {
		pid_t pid = fork();
		struct run r;

		if (pid == 0) {
			fall_sick(DIE, at);
			run_all(&r, t, how, dir, again, 1, &sick_files);
			_exit(r.status != RT_OK);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		status = WEXITSTATUS(status);
		assert_true(status == 42 || status == 0);
		step = loads(t, dir);
		assert_true(step == 10 || step == again);
		*saw_old |= step == 10 && status == 42;
		*saw_new |= step == again && status == 42;
		/* What is left lying about does not hinder the next. */
		if (step != 10) {
			remove_all(dir);
			dir = make_dir();
			must_save(t, dir, 10, 1);
		}
	}
	assert_true(at > 20);
	remove_all(dir);
}

static void
test_kill_at_every_call(void **state)
{
	static const int which[] = { 0, 1 };
	bool saw_old, saw_new;
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		struct test_plan *t = make_plan(specs[which[i]]);

		saw_old = saw_new = false;
		die_at_each(t, 11, &saw_old, &saw_new);
		assert_true(saw_old && saw_new);
		/* In place of one of the same step. */
		die_at_each(t, 10, &saw_old, &saw_new);
		free(t);
	}
}

/* A disk that is full at any call: an error, and what was there is there. */
static void
test_full_disk_at_every_call(void **state)
{
	struct test_plan *t = make_plan(specs[1]);
	char *dir = make_dir();
	int at, failures = 0;
	int64_t step;
	struct run r;

	(void)state;
	must_save(t, dir, 10, 1);
	for (at = 0;; at++) {
		fall_sick(NO_SPACE, at);
		run_all(&r, t, how, dir, 11, 1, &sick_files);
		if (sick.count <= at) {
			break;
		}
		step = loads(t, dir);
		if (r.status != RT_OK) {
			failures++;
			assert_int_equal(r.status, RT_IO);
			assert_non_null(strstr(r.message,
					       "No space left on device"));
			assert_true(step == 10 || step == 11);
		} else {
			assert_int_equal(step, 11);
		}
		run_free(&r);
		remove_all(dir);
		dir = make_dir();
		must_save(t, dir, 10, 1);
	}
	assert_int_equal(r.status, RT_OK);
	assert_true(failures > 20);
	run_free(&r);
	remove_all(dir);
	free(t);
}

static void
test_short_and_interrupted(void **state)
{
	static const enum harm harms[] = { SHORT, INTERRUPT };
	struct test_plan *t = make_plan(specs[2]);
	char *dir = make_dir(), *other = make_dir();
	struct run r;
	size_t i;

	(void)state;
	must_save(t, dir, 5, 1);
	for (i = 0; i < 2; i++) {
		fall_sick(harms[i], 0);
		run_all(&r, t, how, other, 5, 1, &sick_files);
		assert_string_equal(r.message, "");
		run_free(&r);
		same_files(dir, other, 5);
		must_load(t, other, 5);
	}
	remove_all(dir);
	remove_all(other);
	free(t);
}

/* ---- memory that runs out ------------------------------------------ */

static struct {
	pthread_mutex_t lock;
	int left; /* requests until one fails; < 0: none does */
} memory = { .lock = PTHREAD_MUTEX_INITIALIZER, .left = -1 };

/* The linker puts it in the place of realloc(). */
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);

void *
__wrap_realloc(void *p, size_t n)
{
	bool fail;

	pthread_mutex_lock(&memory.lock);
	fail = memory.left == 0;
	memory.left -= memory.left >= 0;
	pthread_mutex_unlock(&memory.lock);
	return fail ? NULL : __real_realloc(p, n);
}

/* Nothing leaks, nothing is lost, and no older one is taken for it. */
static void
test_no_memory_at_every_request(void **state)
{
	static const enum what whats[] = { SAVE, BEHIND, LOAD };
	struct test_plan *t = make_plan(specs[1]);
	char *dir = make_dir();
	int64_t left, i;
	struct run r;
	size_t k;
	int at;

	(void)state;
	must_save(t, dir, 9, 2);
	must_save(t, dir, 10, 2);
	for (k = 0; k < 3; k++) {
		for (at = 0, left = -1; left < 0; at++) {
			memory.left = at;
			run_all(&r, t, whats[k], dir, 11, 2, NULL);
			left = memory.left;
			memory.left = -1;
			if (r.status != RT_OK) {
				assert_int_equal(r.status, RT_NOMEM);
				assert_non_null(strstr(r.message,
						       "out of memory"));
			}
			for (i = 0; whats[k] == LOAD && r.status == RT_OK &&
				    i < t->plan.nranks; i++) {
				assert_int_equal(r.jobs[i].progress.step, 11);
			}
			run_free(&r);
			assert_true(loads(t, dir) >= 10);
		}
		assert_true(at > 50);
	}
	assert_int_equal(loads(t, dir), 11);
	remove_all(dir);
	free(t);
}

/* Which rank it was, and the same text everywhere. */
static void
test_who_failed_is_named(void **state)
{
	struct test_plan *t = make_plan(specs[0]);
	char *dir = make_dir();
	struct run r;

	(void)state;
	put(dir, "file", "", 0);
	run_all(&r, t, SAVE, path_in(dir, "file"), 1, 1, NULL);
	assert_int_equal(r.status, RT_IO);
	assert_string_equal(after_path(r.message, "/file"),
			    "found a file, expected a folder, or nothing yet");
	run_free(&r);
	free(t);
	t = make_plan(specs[1]);
	run_all(&r, t, SAVE, path_in(dir, "no/where"), 1, 1, NULL);
	assert_string_equal(after_path(r.message, "/no/where"),
			    "cannot make the folder: No such file or "
			    "directory");
	assert_memory_equal(r.jobs[3].err.message, "rank 0: ", 8);
	assert_string_equal(r.jobs[3].err.message + 8, r.message);
	run_free(&r);
	free(t);
	remove(path_in(dir, "file"));
	assert_int_equal(rmdir(dir), 0);
	free(dir);
}

/* ---- what is not as it was ----------------------------------------- */

/* Loading fails, and says this of the file. */
static void
refused(const struct test_plan *t, const char *dir, const char *file,
	const char *message)
{
	struct run r;

	run_all(&r, t, LOAD, dir, 0, 0, NULL);
	assert_int_equal(r.status, RT_FORMAT);
	assert_string_equal(after_path(r.message, file), message);
	run_free(&r);
}

/* Changes one bit of a byte, in place: it is back after the second time. */
static void
flip(const char *path, const struct bytes *b, size_t i)
{
	int fd = open(path, O_WRONLY);

	assert_true(fd >= 0);
	b->at[i] ^= (unsigned char)(1u << i % 8);
	assert_int_equal(pwrite(fd, b->at + i, 1, (off_t)i), 1);
	close(fd);
}

/* Every byte of every file, in turn, with one bit flipped. */
static void
test_every_bit_flip_is_found(void **state)
{
	struct test_plan *t = make_plan(specs[0]);
	char *dir = make_dir(), *path;
	struct bytes b;
	size_t i, k;
	struct run r;

	(void)state;
	must_save(t, dir, 7, 1);
	for (k = 0; k < 3; k++) {
		path = step_file(dir, 7, file_names[k]);
		b = slurp(path);
		for (i = 0; i < b.n; i++) {
			flip(path, &b, i);
			run_all(&r, t, LOAD, dir, 0, 0, NULL);
			assert_int_equal(r.status, RT_FORMAT);
			run_free(&r);
			flip(path, &b, i);
		}
		free(b.at);
		free(path);
	}
	must_load(t, dir, 7);
	remove_all(dir);
	free(t);
}

static void
test_flip_names_the_tensor(void **state)
{
	struct test_plan *t = make_plan(specs[1]);
	char *dir = make_dir(), *path;
	const char *p;
	struct bytes b;
	struct run r;

	(void)state;
	must_save(t, dir, 7, 1);
	path = step_file(dir, 7, "model.safetensors");
	b = slurp(path);
	b.at[b.n - 1] ^= 1;
	spill(path, b);
	run_all(&r, t, LOAD, dir, 0, 0, NULL);
	assert_int_equal(r.status, RT_FORMAT);
	p = after_path(r.message, "/step-00000007/model.safetensors");
	assert_memory_equal(p, "tensor 'wte.weight': found a sum of ", 36);
	assert_non_null(strstr(p, "its bytes were changed; load an older one "
				  "by name"));
	run_free(&r);
	free(b.at);
	free(path);
	remove_all(dir);
	free(t);
}

/* One that is cut short is passed over for an older one, with a remark. */
static void
test_cut_short(void **state)
{
	struct test_plan *t = make_plan(specs[1]);
	char *dir = make_dir(), *path;
	struct bytes b;
	struct run r;
	size_t k;

	(void)state;
	must_save(t, dir, 7, 3);
	must_save(t, dir, 8, 3);
	for (k = 0; k < 3; k++) {
		path = step_file(dir, 8, file_names[k]);
		b = slurp(path);
		b.n -= 9;
		spill(path, b);
		run_all(&r, t, LOAD, dir, 0, 0, NULL);
		assert_string_equal(r.message, "");
		assert_int_equal(r.jobs[3].progress.step, 7);
		assert_non_null(strstr(r.jobs[0].progress.remark,
				       file_names[k]));
		assert_string_equal(r.jobs[3].progress.remark, "");
		run_free(&r);
		b.n += 9;
		spill(path, b);
		free(b.at);
		free(path);
	}
	/* If there is no older one it is an error. */
	path = step_file(dir, 7, "checkpoint.json");
	remove(path);
	free(path);
	path = step_file(dir, 8, "state.safetensors");
	assert_int_equal(truncate(path, 100), 0);
	run_all(&r, t, LOAD, dir, 0, 0, NULL);
	assert_int_equal(r.status, RT_FORMAT);
	assert_non_null(strstr(r.message, "found 100 bytes, expected "));
	assert_non_null(strstr(r.message, " by checkpoint.json"));
	run_free(&r);
	free(path);
	remove_all(dir);
	free(t);
}

static void
test_none_or_one_by_name(void **state)
{
	struct test_plan *t = make_plan(specs[0]);
	char *dir = make_dir(), *path;
	struct run r;

	(void)state;
	run_all(&r, t, LOAD, dir, 0, 0, NULL);
	assert_int_equal(r.status, RT_RANGE);
	assert_non_null(strstr(r.message, ": found no checkpoint, expected a "
					  "folder with step-N in it, or such "
					  "a one itself"));
	run_free(&r);
	must_save(t, dir, 7, 0);
	must_save(t, dir, 8, 0);
	must_load(t, dir, 8);
	path = step_file(dir, 7, "");
	must_load(t, path, 7);
	remove(path_in(path, "checkpoint.json"));
	run_all(&r, t, LOAD, path, 0, 0, NULL);
	assert_int_equal(r.status, RT_IO);
	assert_string_equal(after_path(r.message, "checkpoint.json"),
			    "cannot open: No such file or directory");
	run_free(&r);
	free(path);
	remove_all(dir);
	free(t);
}

/* ---- other models -------------------------------------------------- */

static void
test_other_model(void **state)
{
	static const char *const dims[] = { "vocab", "hidden" };
	static const int64_t sizes[] = { HIDDEN, VOCAB };
	static const int64_t joined[] = { VOCAB * HIDDEN, 1 };
	struct test_plan *t = make_plan(specs[0]);
	struct test_plan *u = make_plan(specs[0]);
	struct rt_tensor *wte = &u->tensors[6];
	char *dir = make_dir();

	(void)state;
	must_save(t, dir, 7, 1);
	assert_string_equal(wte->name, "wte.weight");
	wte->name = "wte.weights";
	refused(u, dir, "/model.safetensors",
		"tensor 'wte.weights': not found among 17, expected it; the "
		"nearest that is there is 'wte.weight'");
	wte->name = "wte.weight";
	wte->sizes = sizes;
	wte->dims = dims;
	refused(u, dir, "/model.safetensors",
		"tensor 'wte.weight': found [7, 10], expected [vocab=10, "
		"hidden=7] or products of neighbours in it");
	wte->sizes = joined;
	refused(u, dir, "/model.safetensors",
		"tensor 'wte.weight': found [7, 10], expected [vocab=70, "
		"hidden=1] or products of neighbours in it");
	wte->sizes = model_tensors[6].sizes;
	u->tensors[6].elem = RT_ELEM_I32;
	refused(u, dir, "/model.safetensors",
		"tensor 'wte.weight': found BF16, expected I32");
	u->tensors[6].elem = RT_ELEM_BF16;
	u->plan.ntensors = NTENSORS - 1;
	u->programs[0].nholds = NTENSORS - 1;
	refused(u, dir, "/state.safetensors",
		"tensor 'wte.weight.exp_avg': found it, expected no such "
		"tensor: the model has none of this name");
	free(u);
	remove_all(dir);
	free(t);
}

/* bf16 where there was f32, and the other way round. */
static void
test_other_types(void **state)
{
	static char arena[2][VOCAB * HIDDEN * 4];
	struct test_plan *t = make_plan(specs[0]);
	struct test_plan *u = make_plan(specs[0]);
	char *dir = make_dir();
	uint32_t v, w;
	struct run r;
	int64_t i;

	(void)state;
	must_save(t, dir, 7, 1);
	u->tensors[6].elem = RT_ELEM_F32;
	u->tensors[7].elem = RT_ELEM_BF16;
	/* Arenas of their own: the offsets are those of t. */
	u->holds[0][6].offset = u->programs[0].arena_bytes;
	u->holds[0][7].offset = u->holds[0][6].offset +
				(int64_t)sizeof(arena[0]);
	u->programs[0].arena_bytes += (int64_t)sizeof(arena);
	run_all(&r, u, LOAD, dir, 0, 0, NULL);
	assert_string_equal(r.message, "");
	memcpy(arena, r.jobs[0].store.arena + u->holds[0][6].offset,
	       sizeof(arena));
	for (i = 0; i < VOCAB * HIDDEN; i++) {
		memcpy(&v, arena[0] + 4 * i, 4);
		assert_int_equal(v, value(6, i, 7) << 16);
		v = 0;
		memcpy(&v, arena[1] + 2 * i, 2);
		w = value(7, i, 7);
		w += 0x7fff + (w >> 16 & 1);
		assert_int_equal(v, w >> 16);
	}
	run_free(&r);
	free(u);
	remove_all(dir);
	free(t);
}

/* ---- which stay ---------------------------------------------------- */

static bool
there(const char *dir, const char *name)
{
	struct stat sb;

	return stat(path_in(dir, name), &sb) == 0;
}

static void
test_keep(void **state)
{
	struct test_plan *t = make_plan(specs[0]);
	char *dir = make_dir();
	int64_t step;

	(void)state;
	/* What a run that was killed left, and what is somebody else's. */
	assert_int_equal(mkdir(path_in(dir, "step-00000002.tmp-1f"), 0777),
			 0);
	put(dir, "step-00000002.tmp-1f/model.safetensors", "x", 1);
	assert_int_equal(mkdir(path_in(dir, "step-notes"), 0777), 0);
	for (step = 1; step <= 5; step++) {
		must_save(t, dir, step, step == 1 ? 0 : 2);
		assert_false(there(dir, "step-00000002.tmp-1f"));
		assert_int_equal(there(dir, "step-00000001"), step < 3);
		assert_int_equal(there(dir, "step-00000003"),
				 step == 3 || step == 4);
	}
	assert_true(there(dir, "step-00000004"));
	/* One that is not complete does not count, and stays. */
	remove(path_in(dir, "step-00000005/checkpoint.json"));
	must_save(t, dir, 6, 2);
	assert_true(there(dir, "step-00000004"));
	assert_true(there(dir, "step-00000005"));
	/* A run that went back: the new one stays, whatever is newer. */
	must_save(t, dir, 3, 1);
	assert_true(there(dir, "step-00000003"));
	assert_true(there(dir, "step-00000006"));
	assert_true(there(dir, "step-notes"));
	assert_int_equal(rmdir(path_in(dir, "step-notes")), 0);
	remove_all(dir);
	free(t);
}

/* A plan that leaves elements out saves nothing. */
static void
test_broken_plan(void **state)
{
	struct test_plan *t = make_plan(specs[1]);
	char *dir = make_dir();
	struct run r;

	(void)state;
	t->holds[3][1].writes = 0;
	run_all(&r, t, SAVE, dir, 1, 1, NULL);
	assert_int_equal(r.status, RT_FORMAT);
	assert_string_equal(r.message,
			    "tensor 'h.2.mlp.up': found 30 elements on all "
			    "ranks to save, expected 60: the plan is broken");
	run_free(&r);
	assert_false(there(dir, "step-00000001"));
	remove_all(dir);
	free(t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_plan_loads_any_other),
		cmocka_unit_test(test_files_are_whole),
		cmocka_unit_test(test_kill_at_every_call),
		cmocka_unit_test(test_full_disk_at_every_call),
		cmocka_unit_test(test_short_and_interrupted),
		cmocka_unit_test(test_no_memory_at_every_request),
		cmocka_unit_test(test_who_failed_is_named),
		cmocka_unit_test(test_every_bit_flip_is_found),
		cmocka_unit_test(test_flip_names_the_tensor),
		cmocka_unit_test(test_cut_short),
		cmocka_unit_test(test_none_or_one_by_name),
		cmocka_unit_test(test_other_model),
		cmocka_unit_test(test_other_types),
		cmocka_unit_test(test_keep),
		cmocka_unit_test(test_broken_plan),
	};

	const struct CMUnitTest behind[] = {
		cmocka_unit_test(test_any_plan_loads_any_other),
		cmocka_unit_test(test_kill_at_every_call),
		cmocka_unit_test(test_full_disk_at_every_call),
		cmocka_unit_test(test_short_and_interrupted),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	how = BEHIND;
	return failed + cmocka_run_group_tests(behind, NULL, NULL);
}

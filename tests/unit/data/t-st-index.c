/*
 * Checkpoints of several files, good and bad, what a folder
 * stands for, and memory that runs out while opening them.
 */
#include "tests/unit/data/t-safetensors.h"
#include "tests/unit/shared/t-weights-files.h"

#include <sys/stat.h>

/* ---- indexes ------------------------------------------------------- */

static const char INDEX[] = "model.safetensors.index.json";
static const char *const of_index[] = {
	"model.safetensors.index.json",
	"model.safetensors",
	"m1.safetensors",
	"sub/m2.safetensors",
	"sub",
	NULL,
};

/* a and b in m1, c and d (which no index here names) in sub/m2. */
static char *
dir_with_shards(void)
{
	struct bytes b;
	char *dir = make_dir();

	b = make("{'a':{'dtype':'U8','shape':[2],'data_offsets':[1,3]},"
		 "'b':{'dtype':'I8','shape':[1],'data_offsets':[0,1]}}",
		 3);
	memcpy(b.at + b.n - 3, "\x09\x01\x02", 3);
	put_bytes(dir, "m1.safetensors", b);
	assert_int_equal(mkdir(path_in(dir, "sub"), 0700), 0);
	b = make("{'c':{'dtype':'U8','shape':[],'data_offsets':[0,1]},"
		 "'d':{'dtype':'U8','shape':[],'data_offsets':[1,2]}}",
		 2);
	memcpy(b.at + b.n - 2, "\x05\x06", 2);
	put_bytes(dir, "sub/m2.safetensors", b);
	return dir;
}

static void
test_good_index(void **state)
{
	static const double want[] = { 1, 2, 9, 5 };
	char *dir = dir_with_shards();
	struct rt_error err = { 0 };
	struct rt_st *st;
	double out[4];
	size_t i, n = 0;

	(void)state;
	put_json(dir, INDEX,
		 " {'metadata':{'total_parameters':-1.5e+3,'x':[{'y':[null,"
		 "true,{}]},[]],'total_size':4.0},'note':'z',"
		 "'weight_map':{'c':'sub/m2.safetensors','b':'m1.safetensors',"
		 "'a':'m1.safetensors'}}\n");
	rt_st_open_any(&st, dir, NULL, &err);
	assert_string_equal(err.message, "");
	assert_int_equal(rt_st_count(st), 3);
	for (i = 0; i < 3; i++) {
		assert_int_equal(rt_st_at(st, i)->name[0], "abc"[i]);
		assert_int_equal(rt_st_read_f64(st, rt_st_at(st, i), 0,
						rt_st_elems(rt_st_at(st, i)),
						out + n, &err),
				 RT_OK);
		n += (size_t)rt_st_elems(rt_st_at(st, i));
	}
	assert_memory_equal(out, want, sizeof(want));
	assert_null(rt_st_find(st, "d"));
	assert_string_equal(rt_st_path(st, rt_st_find(st, "c")),
			    path_in(dir, "sub/m2.safetensors"));
	rt_st_free(st);
	/* By its name, from within its folder, with no slash in the path. */
	assert_int_equal(chdir(dir), 0);
	assert_int_equal(rt_st_open_any(&st, INDEX, NULL, &err), RT_OK);
	assert_string_equal(rt_st_path(st, rt_st_at(st, 0)), "m1.safetensors");
	rt_st_free(st);
	assert_int_equal(chdir("/"), 0);
	/* An index of nothing is a checkpoint of nothing. */
	put_json(dir, INDEX, "{'weight_map':{}}");
	assert_int_equal(rt_st_open_any(&st, dir, NULL, &err), RT_OK);
	assert_int_equal(rt_st_count(st), 0);
	assert_null(rt_st_find(st, "a"));
	rt_st_free(st);
	remove_dir(dir, of_index);
}

#define MAP(file) "{'weight_map':{'a':'" file "'}}"
#define DEEP "[[[[[[[[[[[[[[[["

static const struct {
	const char *json;
	int64_t offset;
	enum rt_status status;
	const char *message; /* after the path of the index */
} bad_index[] = {
	{ "", 0, RT_FORMAT, "found the end of the text, expected '{'" },
	{ "[]", 0, RT_FORMAT, "found '[', expected '{'" },
	{ "{}", 0, RT_FORMAT, "found no key 'weight_map', expected one" },
	{ "{'weight_map':{}}\v", 17, RT_FORMAT,
	  "found byte 0x0b, expected only spaces after the closing '}'" },
	{ "{'weight_map':[]}", 14, RT_FORMAT, "found '[', expected '{'" },
	{ "{'weight_map':{'a':1}}", 19, RT_FORMAT,
	  "found '1', expected a string in double quotes" },
	{ "{'weight_map':{},'weight_map':{}}", 18, RT_FORMAT,
	  "found key 'weight_map' twice, expected it once" },
	{ "{'weight_map':{'a':'x','b':'x','a':'x'}}", 32, RT_FORMAT,
	  "found key 'a' twice, expected each key once" },
	{ "{'metadata':{},'metadata':{},'weight_map':{}}", 16, RT_FORMAT,
	  "found key 'metadata' twice, expected it once" },
	{ "{'metadata':{'total_size':1,'total_size':1},'weight_map':{}}", 29,
	  RT_FORMAT, "found key 'total_size' twice, expected it once" },
	{ "{'metadata':{'total_size':-1},'weight_map':{}}", 26, RT_FORMAT,
	  "found '-', expected an integer of 0 or more" },
	{ "{'metadata':{'total_size':1.50},'weight_map':{}}", 28, RT_FORMAT,
	  "found '5', expected a fraction of zeros only" },
	{ "{'metadata':{'total_size':1.},'weight_map':{}}", 28, RT_FORMAT,
	  "found '}', expected a fraction of zeros only" },
	{ "{'metadata':{'total_size':1},'weight_map':{}}", -1, RT_FORMAT,
	  "found a total_size of 1, expected 0, the bytes of its 0 tensors in "
	  "0 files" },
	{ "{'x':nul,'weight_map':{}}", 5, RT_FORMAT,
	  "found 'n', expected a value" },
	{ "{'x':01,'weight_map':{}}", 6, RT_FORMAT,
	  "found '1', expected ',' or '}'" },
	{ "{'x':1.e1,'weight_map':{}}", 7, RT_FORMAT,
	  "found 'e', expected a digit" },
	{ "{'x':1e+,'weight_map':{}}", 8, RT_FORMAT,
	  "found ',', expected a digit" },
	{ "{'x':-,'weight_map':{}}", 6, RT_FORMAT,
	  "found ',', expected a digit" },
	{ "{'x':[{'y':1]},'weight_map':{}}", 12, RT_FORMAT,
	  "found ']', expected ',' or '}'" },
	{ "{'x':" DEEP DEEP DEEP DEEP "[", 69, RT_FORMAT,
	  "found more than 64 nested values, expected fewer" },
	{ MAP(""), 20, RT_FORMAT,
	  "tensor 'a': found an empty file name, '', expected a file in the "
	  "folder of the index" },
	{ MAP("/m1.safetensors"), 20, RT_FORMAT,
	  "tensor 'a': found an absolute path, '/m1.safetensors', expected a "
	  "file in the folder of the index" },
	{ MAP(".."), 20, RT_FORMAT,
	  "tensor 'a': found a path with '..', '..', expected a file in the "
	  "folder of the index" },
	{ MAP("sub//../m1.safetensors"), 20, RT_FORMAT,
	  "tensor 'a': found a path with '..', 'sub//../m1.safetensors', "
	  "expected a file in the folder of the index" },
	{ "{'weight_map':{'a':'m1.safetensors','d':'m1.safetensors'}}", 37,
	  RT_FORMAT, NULL },
	{ "{'weight_map':{'a':'..m'}}", -1, RT_IO, NULL },
	{ MAP("sub"), -1, RT_IO, NULL },
	{ MAP("model.safetensors.index.json"), 0, RT_FORMAT, NULL },
};

static void
test_bad_index(void **state)
{
	char *dir = dir_with_shards();
	struct rt_error err;
	struct rt_st *st;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad_index) / sizeof(bad_index[0]); i++) {
		put_json(dir, INDEX, bad_index[i].json);
		assert_int_equal(rt_st_open_any(&st, dir, NULL, &err),
				 bad_index[i].status);
		assert_null(st);
		if (bad_index[i].message) {
			assert_string_equal(after_path(err.message, INDEX),
					    bad_index[i].message);
		}
		assert_int_equal(err.offset, bad_index[i].offset);
	}
	put_json(dir, INDEX, "{'weight_map':{'d':'m1.safetensors'}}");
	assert_int_equal(rt_st_open_any(&st, dir, NULL, &err), RT_FORMAT);
	assert_non_null(strstr(err.message, "tensor 'd': not found in '"));
	assert_non_null(strstr(err.message, "/m1.safetensors' among its 2 "
					    "tensors, expected it there"));
	put_json(dir, INDEX,
		 "{'weight_map':{'a':'m1.safetensors',"
		 "'c':'sub/m2.safetensors'},'metadata':{'total_size':4}}");
	assert_int_equal(rt_st_open_any(&st, dir, NULL, &err), RT_FORMAT);
	assert_string_equal(
		after_path(err.message, INDEX),
		"found a total_size of 4, expected 3, the bytes of its 2 "
		"tensors in 2 files");
	remove_dir(dir, of_index);
}

static void
test_index_parse(void **state)
{
	char text[] = "{\"weight_map\":{\"b\":\"y\",\"a\":\"x\"}}";
	struct rt_st_index ix;

	(void)state;
	assert_int_equal(rt_st_index_parse(&ix, text, strlen(text), NULL, NULL),
			 RT_OK);
	assert_int_equal(ix.n, 2);
	assert_int_equal(ix.total_bytes, -1);
	assert_string_equal(ix.map[0].key, "a");
	assert_string_equal(ix.map[1].value, "y");
	rt_st_index_release(&ix);
	rt_st_index_release(&ix);
	assert_int_equal(rt_st_index_parse(&ix, text, 5, NULL, NULL),
			 RT_FORMAT);
	rt_st_index_release(&ix);
}

static void
test_open_any(void **state)
{
	static const char *const files[] = { "a.safetensors", "b.safetensors",
					     "model.safetensors", "none.txt",
					     "step-00000005", NULL };
	char *dir = make_dir();
	struct rt_error err;
	struct rt_st *st;

	(void)state;
	put(dir, "none.txt", "", 0);
	put_bytes(dir, "a.safetensors", make_one("U8", 1, "a", 1));
	assert_int_equal(rt_st_open_any(&st, dir, NULL, &err), RT_OK);
	assert_string_equal(rt_st_path(st, rt_st_at(st, 0)),
			    path_in(dir, "a.safetensors"));
	rt_st_free(st);
	assert_int_equal(
		rt_st_open_any(&st, path_in(dir, "a.safetensors"), NULL, &err),
		RT_OK);
	rt_st_free(st);
	put_bytes(dir, "b.safetensors", make("{}", 0));
	assert_int_equal(rt_st_open_any(&st, dir, NULL, &err), RT_IO);
	assert_non_null(strstr(
		err.message,
		": found 2 *.safetensors files and no "
		"model.safetensors.index.json, expected an index or just one "
		"file"));
	assert_null(strstr(err.message, "--checkpoint"));
	put(dir, "step-00000005", "", 0);
	assert_int_equal(rt_st_open_any(&st, dir, NULL, &err), RT_IO);
	assert_non_null(strstr(err.message, "just one file; checkpoints of "
			       "training are for --checkpoint"));
	put_bytes(dir, "model.safetensors", make("{}", 0));
	assert_int_equal(rt_st_open_any(&st, dir, NULL, &err), RT_OK);
	assert_int_equal(rt_st_count(st), 0);
	rt_st_free(st);
	assert_int_equal(
		rt_st_open_any(&st, path_in(dir, "missing"), NULL, &err),
		RT_IO);
	assert_null(st);
	remove_dir(dir, files);
}

/* ---- memory -------------------------------------------------------- */

static void
test_out_of_memory(void **state)
{
	struct t_granted spent = { 0, 0 };
	struct rt_alloc none = { t_granted_realloc, &spent };
	char *dir = dir_with_shards();
	struct rt_error err;
	struct rt_st *st;

	(void)state;
	put_json(dir, INDEX,
		 "{'weight_map':{'c':'sub/m2.safetensors','b':'m1.safetensors',"
		 "'a':'m1.safetensors'}}\n");
	assert_true(t_starve(dir, NULL) > 10);
	assert_true(t_starve(path_in(dir, INDEX), NULL) > 10);
	assert_true(t_starve(path_in(dir, "m1.safetensors"), NULL) > 4);
	assert_int_equal(remove(path_in(dir, INDEX)), 0);
	assert_true(t_starve(dir, NULL) > 5);
	put_bytes(dir, "model.safetensors",
		  make("{'__metadata__':{'1':'','2':'','3':'','4':'','5':'',"
		       "'6':'','7':'','8':'','9':'','10':'','11':'','12':'',"
		       "'13':'','14':'','15':'','16':'','17':''}}",
		       0));
	assert_true(t_starve(dir, NULL) > 6);
	assert_int_equal(rt_st_parse(&st, "", 0, 0, &none, &err), RT_NOMEM);
	assert_string_equal(err.message, "out of memory");
	remove_dir(dir, of_index);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_index),
		cmocka_unit_test(test_bad_index),
		cmocka_unit_test(test_index_parse),
		cmocka_unit_test(test_open_any),
		cmocka_unit_test(test_out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Replaces ll.c where LLVM's headers were not found: ll_new says so, and what
 * builds a module, which there is none of, is never called.  So types of these
 * functions do not matter, and ll.h, which has them, is not included.
 */
#include "ir/base.h"

struct ll;

struct ll *ll_new(struct arena *a, const char *cpu, bool quick,
		  const char **why);

struct ll *
ll_new(struct arena *a, const char *cpu, bool quick, const char **why)
{
	(void)a;
	(void)cpu;
	(void)quick;
	*why = "code for a CPU, and for the host of a GPU, needs LLVM, and "
	       "this llmc was built without it (llvm-19-dev); --emit=answer "
	       "goes without, and so does --emit=cuda";
	return NULL;
}

#define NONE(name) \
	void name(void); \
	void name(void) { die("%s without LLVM", #name); }

NONE(ll_free) NONE(ll_arena) NONE(ll_cpu) NONE(ll_features) NONE(ll_has)
NONE(ll_lanes) NONE(ll_settings) NONE(ll_print) NONE(ll_verify)
NONE(ll_passes) NONE(ll_object) NONE(ll_typeof) NONE(ll_func) NONE(ll_param)
NONE(ll_extern) NONE(ll_noalias) NONE(ll_apart) NONE(ll_block) NONE(ll_at)
NONE(ll_here) NONE(ll_jump) NONE(ll_branch) NONE(ll_return) NONE(ll_phi)
NONE(ll_phi_add) NONE(ll_call) NONE(ll_call_ptr) NONE(ll_int) NONE(ll_num)
NONE(ll_zero) NONE(ll_undef) NONE(ll_iota) NONE(ll_data) NONE(ll_data_at)
NONE(ll_bytes) NONE(ll_text) NONE(ll_bin) NONE(ll_neg) NONE(ll_test)
NONE(ll_select) NONE(ll_bits) NONE(ll_convert) NONE(ll_overloaded)
NONE(ll_lane) NONE(ll_set_lane) NONE(ll_shuffle) NONE(ll_load) NONE(ll_store)
NONE(ll_add_atomic) NONE(ll_plus) NONE(ll_stack) NONE(ll_copy)

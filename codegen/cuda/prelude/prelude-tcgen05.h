/*
 * prelude-tcgen05.h - sm_100a: tensor memory and its products (PTX ISA, 9.7.16;
 * numbers of sections are its).  Descriptors are in prelude-common.h.
 *
 * Tensor memory is 128 lanes of 512 columns of 32 bits for each multiprocessor;
 * an address has the lane in its upper 16 bits.  The sums of a product of 128
 * rows have row i in lane i.  Warp w of a block reads lanes 32 (w % 4) to 32
 * (w % 4) + 31.
 */
#if __CUDA_ARCH__ >= 1000

/*
 * Whether this is the lane that acts for the warp, of which all lanes come
 * here.  A comparison of the thread's number would do, but does not tell the
 * assembler that one thread alone executes what follows: it then puts a loop
 * over threads around each instruction that takes uniform registers.
 */
FN int
elect_one(void)
{
	u32 one;

	asm volatile("{\n\t.reg .pred p;\n\t"
		     "elect.sync _|p, 0xffffffff;\n\t"
		     "selp.u32 %0, 1, 0, p;\n\t}" : "=r"(one) :: "memory");
	return (int)one;
}

/* ---- allocation, by all lanes of a warp (9.7.16.7) ----------------------- */

/* Stores the address of n columns, a power of two from 32 to 512, at `at`.  It
 * waits until so many are free. */
FN void
tc_alloc(u32 at, int n)
{
	asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 "
		     "[%0], %1;" :: "r"(at), "r"(n) : "memory");
}

/* No thread of the block allocates more: others that wait may. */
FN void
tc_relinquish(void)
{
	asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync"
		     ".aligned;" ::: "memory");
}

/* All that was allocated is to be freed before the block ends. */
FN void
tc_dealloc(u32 at, int n)
{
	asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;"
		     :: "r"(at), "r"(n) : "memory");
}

/* ---- products, by one thread (9.7.16.10) --------------------------------- */

/* d = a b, or d += a b if `add`, of 128 rows and 32 bytes of k; `form` is of
 * tc_form(). */
#define LLMC_TC(name, kind) \
	FN void name(u32 d, u64 a, u64 b, u32 form, int add) \
	{ \
		asm volatile("{\n\t.reg .pred p;\n\t" \
			     "setp.ne.b32 p, %4, 0;\n\t" \
			     "tcgen05.mma.cta_group::1.kind::" kind \
			     " [%0], %1, %2, %3, p;\n\t}" \
			     :: "r"(d), "l"(a), "l"(b), "r"(form), "r"(add) \
			     : "memory"); \
	}
LLMC_TC(tc_mma_f16, "f16")
LLMC_TC(tc_mma_tf32, "tf32")
LLMC_TC(tc_mma_f8, "f8f6f4")

/*
 * The same with a left operand of 16-bit elements in tensor memory, 32 bytes of
 * k of row i in lane i of 8 columns (9.7.16.10.5).
 */
FN void
tc_mma_f16_left(u32 d, u32 a, u64 b, u32 form, int add)
{
	asm volatile("{\n\t.reg .pred p;\n\t"
		     "setp.ne.b32 p, %4, 0;\n\t"
		     "tcgen05.mma.cta_group::1.kind::f16 "
		     "[%0], [%1], %2, %3, p;\n\t}"
		     :: "r"(d), "r"(a), "l"(b), "r"(form), "r"(add)
		     : "memory");
}

/* An arrival at the mbarrier once all products that the thread has issued so
 * far are done (9.7.16.12). */
FN void
tc_commit(u32 bar)
{
	asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one"
		     ".shared::cluster.b64 [%0];" :: "r"(bar) : "memory");
}

/* The same, at the same address in each block whose bit is set. */
FN void
tc_commit_multi(u32 bar, int mask)
{
	asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one"
		     ".shared::cluster.multicast::cluster.b64 [%0], %1;"
		     :: "r"(bar), "h"((u16)mask) : "memory");
}

/* ---- order between threads (9.7.16.6) ------------------------------------ */

/* After these instructions of the thread, before it arrives anywhere; and after
 * a wait, before them. */
FN void
tc_fence_before(void)
{
	asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

FN void
tc_fence_after(void)
{
	asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

/* ---- loads, by all lanes of a warp (9.7.16.8) ---------------------------- */

/*
 * 16 lanes of 32 or 64 columns, half as many registers, as wgmma leaves sums: a
 * thread has 2 adjacent columns of every 8, in rows lane / 4 and 8 further on
 * (.16x256b).
 */
#define LLMC_O8(d, i) \
	"=f"((d)[i]), "=f"((d)[i + 1]), "=f"((d)[i + 2]), \
	"=f"((d)[i + 3]), "=f"((d)[i + 4]), "=f"((d)[i + 5]), \
	"=f"((d)[i + 6]), "=f"((d)[i + 7])
#define tc_ld32(d, at) \
	asm volatile("tcgen05.ld.sync.aligned.16x256b.x4.b32 {" LLMC_T16 \
		     "}, [%16];" : LLMC_O8(d, 0), LLMC_O8(d, 8) : "r"(at))
#define tc_ld64(d, at) \
	asm volatile("tcgen05.ld.sync.aligned.16x256b.x8.b32 {" LLMC_T32 \
		     "}, [%32];" : LLMC_O8(d, 0), LLMC_O8(d, 8), \
		     LLMC_O8(d, 16), LLMC_O8(d, 24) : "r"(at))

/* All loads of the warp are done: n sums may be used.  Compilers see them
 * written by the load itself. */
#define tc_wait(d, n) \
	do { \
		asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); \
		wg_sums(d, n); \
	} while (0)

/* ---- stores, by all lanes of a warp (9.7.16.8) --------------------------- */

/*
 * 16 lanes of 32 columns: 16 registers that lie as those of tc_ld32; or of
 * pairs of 16-bit elements, of which a thread has one of every 4, in rows lane
 * / 4 and 8 further on (.16x128b).  So adjacent sums of two columns become a
 * pair of the same thread.
 */
#define LLMC_I8(x, kind, i) \
	kind((x)[i]), kind((x)[i + 1]), kind((x)[i + 2]), kind((x)[i + 3]), \
	kind((x)[i + 4]), kind((x)[i + 5]), kind((x)[i + 6]), kind((x)[i + 7])
#define tc_st32(at, x) \
	asm volatile("tcgen05.st.sync.aligned.16x256b.x4.b32 [%16], {" \
		     LLMC_T16 "};" :: LLMC_I8(x, "f", 0), LLMC_I8(x, "f", 8), \
		     "r"(at) : "memory")
#define tc_st32_pairs(at, w) \
	asm volatile("tcgen05.st.sync.aligned.16x128b.x8.b32 [%16], {" \
		     LLMC_T16 "};" :: LLMC_I8(w, "r", 0), LLMC_I8(w, "r", 8), \
		     "r"(at) : "memory")

/* All stores of the warp are done: they may be loaded, and products may read
 * them after the fences. */
FN void
tc_wait_st(void)
{
	asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}
#endif

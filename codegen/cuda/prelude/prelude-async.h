/*
 * prelude-async.h - sm_90: mbarriers, the copying unit (TMA), clusters and
 * registers.  Numbers of sections are those of the PTX ISA.
 */
#if __CUDA_ARCH__ >= 900

/*
 * ---- mbarriers (9.7.13.15) ----------------------------------------------
 *
 * Arriving releases, and waiting acquires, within the block: `.release` and
 * `.acquire` default to `.cta`.  At `.cluster` the assembler emits a fence of
 * the whole GPU before each arrival, and invalidates the L1 cache after each
 * wait.  No kernel needs that: a block's generic writes are never read by
 * another block.  Blocks of a cluster tell each other only that a stage may be
 * copied to again, once wg_wait() has waited for all reads of it; and what the
 * copying unit wrote is visible to whoever waits for the mbarrier that counts
 * its bytes.
 */

FN void
mbar_init(u32 bar, int count)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
		     :: "r"(bar), "r"(count) : "memory");
}

/* Makes initialised mbarriers visible to the copying unit and to the other
 * blocks of the cluster; a barrier of the threads follows. */
FN void
fence_mbar_init(void)
{
	asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
	asm volatile("fence.proxy.async;" ::: "memory");
}

FN void
mbar_arrive(u32 bar)
{
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
		     :: "r"(bar) : "memory");
}

/*
 * The mbarrier of another block of the cluster, at the same address of its
 * shared memory: signals that this block's reads are over, and publishes no
 * generic write.
 */
FN void
mbar_arrive_cta(u32 bar, int cta)
{
	asm volatile("{\n\t"
		     ".reg .b32 there;\n\t"
		     "mapa.shared::cluster.u32 there, %0, %1;\n\t"
		     "mbarrier.arrive.shared::cluster.b64 _, [there];\n\t"
		     "}" :: "r"(bar), "r"(cta) : "memory");
}

FN void
mbar_expect(u32 bar, int bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
		     :: "r"(bar), "r"(bytes) : "memory");
}

/*
 * Waits until the phase of this parity is over. try_wait sleeps for a time
 * that the hardware chooses, and lanes may wake one by one; what threads of
 * this block did before they arrived is visible afterwards.
 */
FN void
mbar_wait(u32 bar, int parity)
{
	asm volatile("{\n\t"
		     ".reg .pred done;\n\t"
		     "again:\n\t"
		     "mbarrier.try_wait.parity.shared::cta.b64 done, "
		     "[%0], %1;\n\t"
		     "@done bra over;\n\t"
		     "bra again;\n\t"
		     "over:\n\t"
		     "}" :: "r"(bar), "r"(parity) : "memory");
}

/* Generic writes of shared memory become visible to the copying unit and wgmma;
 * to be executed by the thread that wrote, before the barrier (8.6.3). */
FN void
fence_async(void)
{
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- boxes of a tensor (9.7.9.25) --------------------------------------- */

#define LLMC_LOAD(n) \
	"cp.async.bulk.tensor." #n "d.shared::cluster.global.tile" \
	".mbarrier::complete_tx::bytes "
#define LLMC_LOAD_MULTI(n) \
	"cp.async.bulk.tensor." #n "d.shared::cluster.global.tile" \
	".mbarrier::complete_tx::bytes.multicast::cluster "
#define LLMC_STORE(n) \
	"cp.async.bulk.tensor." #n "d.global.shared::cta.tile.bulk_group "
#define LLMC_ADD(n) \
	"cp.reduce.async.bulk.tensor." #n "d.global.shared::cta.add.tile" \
	".bulk_group "

FN void
tma_load2(u32 to, const tensor_map *m, u32 bar, int x, int y)
{
	asm volatile(LLMC_LOAD(2) "[%0], [%1, {%3, %4}], [%2];"
		     :: "r"(to), "l"(m), "r"(bar), "r"(x), "r"(y)
		     : "memory");
}

FN void
tma_load3(u32 to, const tensor_map *m, u32 bar, int x, int y, int z)
{
	asm volatile(LLMC_LOAD(3) "[%0], [%1, {%3, %4, %5}], [%2];"
		     :: "r"(to), "l"(m), "r"(bar), "r"(x), "r"(y), "r"(z)
		     : "memory");
}

FN void
tma_load4(u32 to, const tensor_map *m, u32 bar, int x, int y, int z, int u)
{
	asm volatile(LLMC_LOAD(4) "[%0], [%1, {%3, %4, %5, %6}], [%2];"
		     :: "r"(to), "l"(m), "r"(bar), "r"(x), "r"(y), "r"(z),
		     "r"(u) : "memory");
}

FN void
tma_load5(u32 to, const tensor_map *m, u32 bar, int x, int y, int z, int u,
	  int v)
{
	asm volatile(LLMC_LOAD(5) "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];"
		     :: "r"(to), "l"(m), "r"(bar), "r"(x), "r"(y), "r"(z),
		     "r"(u), "r"(v) : "memory");
}

/* To the same address in each block whose bit is set; each block's mbarrier
 * counts the bytes that it received. */
FN void
tma_load2_multi(u32 to, const tensor_map *m, u32 bar, int x, int y, int mask)
{
	asm volatile(LLMC_LOAD_MULTI(2) "[%0], [%1, {%3, %4}], [%2], %5;"
		     :: "r"(to), "l"(m), "r"(bar), "r"(x), "r"(y),
		     "h"((u16)mask) : "memory");
}

FN void
tma_load3_multi(u32 to, const tensor_map *m, u32 bar, int x, int y, int z,
		int mask)
{
	asm volatile(LLMC_LOAD_MULTI(3) "[%0], [%1, {%3, %4, %5}], [%2], "
		     "%6;" :: "r"(to), "l"(m), "r"(bar), "r"(x), "r"(y),
		     "r"(z), "h"((u16)mask) : "memory");
}

FN void
tma_load4_multi(u32 to, const tensor_map *m, u32 bar, int x, int y, int z,
		int u, int mask)
{
	asm volatile(LLMC_LOAD_MULTI(4) "[%0], [%1, {%3, %4, %5, %6}], "
		     "[%2], %7;" :: "r"(to), "l"(m), "r"(bar), "r"(x),
		     "r"(y), "r"(z), "r"(u), "h"((u16)mask) : "memory");
}

FN void
tma_load5_multi(u32 to, const tensor_map *m, u32 bar, int x, int y, int z,
		int u, int v, int mask)
{
	asm volatile(LLMC_LOAD_MULTI(5) "[%0], [%1, {%3, %4, %5, %6, %7}], "
		     "[%2], %8;" :: "r"(to), "l"(m), "r"(bar), "r"(x),
		     "r"(y), "r"(z), "r"(u), "r"(v), "h"((u16)mask)
		     : "memory");
}

#define LLMC_PUT2(name, what) \
	FN void name(const tensor_map *m, u32 from, int x, int y) \
	{ \
		asm volatile(what(2) "[%0, {%2, %3}], [%1];" \
			     :: "l"(m), "r"(from), "r"(x), "r"(y) \
			     : "memory"); \
	}
#define LLMC_PUT3(name, what) \
	FN void name(const tensor_map *m, u32 from, int x, int y, int z) \
	{ \
		asm volatile(what(3) "[%0, {%2, %3, %4}], [%1];" \
			     :: "l"(m), "r"(from), "r"(x), "r"(y), "r"(z) \
			     : "memory"); \
	}
#define LLMC_PUT4(name, what) \
	FN void name(const tensor_map *m, u32 from, int x, int y, int z, \
		     int u) \
	{ \
		asm volatile(what(4) "[%0, {%2, %3, %4, %5}], [%1];" \
			     :: "l"(m), "r"(from), "r"(x), "r"(y), "r"(z), \
			     "r"(u) : "memory"); \
	}
#define LLMC_PUT5(name, what) \
	FN void name(const tensor_map *m, u32 from, int x, int y, int z, \
		     int u, int v) \
	{ \
		asm volatile(what(5) "[%0, {%2, %3, %4, %5, %6}], [%1];" \
			     :: "l"(m), "r"(from), "r"(x), "r"(y), "r"(z), \
			     "r"(u), "r"(v) : "memory"); \
	}

LLMC_PUT2(tma_store2, LLMC_STORE)
LLMC_PUT3(tma_store3, LLMC_STORE)
LLMC_PUT4(tma_store4, LLMC_STORE)
LLMC_PUT5(tma_store5, LLMC_STORE)
LLMC_PUT2(tma_add2, LLMC_ADD)
LLMC_PUT3(tma_add3, LLMC_ADD)
LLMC_PUT4(tma_add4, LLMC_ADD)
LLMC_PUT5(tma_add5, LLMC_ADD)

/*
 * to[i] += from[i], n bytes of shared memory, which are those of one piece of
 * global memory; both on 16 bytes.
 */
FN void
bulk_add(f32 *to, u32 from, int bytes)
{
	asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group"
		     ".add.f32 [%0], [%1], %2;"
		     :: "l"(to), "r"(from), "r"(bytes) : "memory");
}

/* The same, where to[] holds nothing yet: to[i] = from[i]. */
FN void
bulk_put(f32 *to, u32 from, int bytes)
{
	asm volatile("cp.async.bulk.global.shared::cta.bulk_group"
		     " [%0], [%1], %2;"
		     :: "l"(to), "r"(from), "r"(bytes) : "memory");
}

FN void
tma_commit(void)
{
	asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

#define tma_wait(n) \
	asm volatile("cp.async.bulk.wait_group %0;" :: "n"(n) : "memory")
#define tma_wait_read(n) \
	asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(n) \
		     : "memory")

/*
 * ---- an order of blocks (8.6.3, 8.11) -----------------------------------
 *
 * A number in global memory says how many blocks are done with something.
 * count_wait() waits until it is n; count_next() adds 1 after what this thread
 * did, of which tma_wait(0) has shown the end of what the copying unit did.  A
 * block may only wait for blocks that have begun.
 */

FN void
count_wait(const i32 *at, i32 n)
{
	i32 x;

	do {
		asm volatile("ld.acquire.gpu.global.s32 %0, [%1];"
			     : "=r"(x) : "l"(at) : "memory");
	} while (x != n);
	asm volatile("fence.proxy.async.global;" ::: "memory");
}

FN void
count_next(i32 *at)
{
	asm volatile("fence.proxy.async.global;" ::: "memory");
	asm volatile("red.release.gpu.global.add.s32 [%0], 1;"
		     :: "l"(at) : "memory");
}

FN void
tma_prefetch(const tensor_map *m)
{
	asm volatile("prefetch.tensormap [%0];" :: "l"(m) : "memory");
}

/* ---- registers, clusters ------------------------------------------------ */

#define regs_more(n) \
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(n))
#define regs_fewer(n) \
	asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(n))

FN int
cluster_rank(void)
{
	u32 r;

	asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
	return (int)r;
}

FN void
cluster_arrive(void)
{
	asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

FN void
cluster_wait(void)
{
	asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

FN void
cluster_sync(void)
{
	cluster_arrive();
	cluster_wait();
}

FN u32
map_cta(u32 at, int cta)
{
	u32 r;

	asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
		     : "=r"(r) : "r"(at), "r"(cta));
	return r;
}

/*
 * Stores a word in shared memory of a block of the cluster and counts its 4
 * bytes at an mbarrier there, both at addresses of map_cta: whoever waits for
 * that sees it, with no fence (9.7.9.12, "st.async").
 */
FN void
send_word(u32 to, u32 x, u32 bar)
{
	asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes"
		     ".u32 [%0], %1, [%2];"
		     :: "r"(to), "r"(x), "r"(bar) : "memory");
}

/* 16 bytes of a block of the cluster, at an address of map_cta. */
FN u32x4
lds16_at(u32 at)
{
	u32x4 r;

	asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
		     : "r"(at) : "memory");
	return r;
}
#endif

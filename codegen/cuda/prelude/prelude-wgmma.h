/*
 * prelude-wgmma.h - sm_90a: matrices of a warpgroup (PTX ISA, 9.7.15).  It is
 * long because of the lists of registers: N / 2 of them for a tile of 64 rows
 * and N columns.
 */
#if __CUDA_ARCH__ >= 900

/* Sums are operands of a product without `add`, too. */
#pragma nv_diag_suppress 549

/* Matrix descriptor: 9.7.15.5.1.2.2. */
FN u64
wg_desc(u32 at, int lead_bytes, int stride_bytes, int swizzle)
{
	u64 mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32
		? 3 : 0;

	return (u64)((at & 0x3ffff) >> 4) |
		(u64)((u32)lead_bytes >> 4 & 0x3fff) << 16 |
		(u64)((u32)stride_bytes >> 4 & 0x3fff) << 32 | mode << 62;
}

/* Before the first product, and after plain writes of its registers. */
FN void
wg_fence(void)
{
	asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

FN void
wg_commit(void)
{
	asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

#define wg_wait(n) \
	asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(n) \
		     : "memory")

/*
 * After wg_wait, before the first use of n sums: compilers see sums written by
 * a product's own instruction, and may read them ahead of the wait.
 */
#define wg_sums(d, n) \
	do { \
		_Pragma("unroll") \
		for (int wg_i = 0; wg_i < (n); wg_i++) { \
			asm volatile("" : "+f"((d)[wg_i]) :: "memory"); \
		} \
	} while (0)

/* The same for a left operand in n registers: after the code that computes it,
 * so that no part of that code moves between wg_fence and the product. */
#define wg_regs(a, n) \
	do { \
		_Pragma("unroll") \
		for (int wg_i = 0; wg_i < (n); wg_i++) { \
			asm volatile("" : "+r"((a)[wg_i]) :: "memory"); \
		} \
	} while (0)

/*
 * Keeps the code that computes x, which is never below 0, ahead of this place:
 * otherwise the assembler moves it after the wait for a product that it could
 * overlap with, since no instruction forbids that.  The branch that is never
 * taken must not leave the function: products would then be serialized (ptxas,
 * C7520).
 */
FN void
wg_made(f32 x)
{
	asm volatile("{\n\t.reg .pred p;\n\t"
		     "setp.lt.f32 p, %0, 0f00000000;\n\t"
		     "@p nanosleep.u32 0;\n\t}" :: "f"(x) : "memory");
}

/* ---- lists of registers: as text of PTX, and as operands ----------------- */

#define LLMC_T4 "%0, %1, %2, %3"
#define LLMC_T8 LLMC_T4 \
	", %4, %5, %6, %7"
#define LLMC_T16 LLMC_T8 \
	", %8, %9, %10, %11, %12, %13, %14, %15"
#define LLMC_T32 LLMC_T16 \
	", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27" \
	", %28, %29, %30, %31"
#define LLMC_T48 LLMC_T32 \
	", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43" \
	", %44, %45, %46, %47"
#define LLMC_T64 LLMC_T48 \
	", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59" \
	", %60, %61, %62, %63"
#define LLMC_T96 LLMC_T64 \
	", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75" \
	", %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87" \
	", %88, %89, %90, %91, %92, %93, %94, %95"
#define LLMC_T128 LLMC_T96 \
	", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105" \
	", %106, %107, %108, %109, %110, %111, %112, %113, %114, %115" \
	", %116, %117, %118, %119, %120, %121, %122, %123, %124, %125" \
	", %126, %127"
#define LLMC_D4(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define LLMC_F8(d, i) \
	"+f"((d)[i]), "+f"((d)[i + 1]), "+f"((d)[i + 2]), \
	"+f"((d)[i + 3]), "+f"((d)[i + 4]), "+f"((d)[i + 5]), \
	"+f"((d)[i + 6]), "+f"((d)[i + 7])
#define LLMC_D8(d) LLMC_F8(d, 0)
#define LLMC_D16(d) \
	LLMC_D8(d), LLMC_F8(d, 8)
#define LLMC_D32(d) \
	LLMC_D16(d), LLMC_F8(d, 16), LLMC_F8(d, 24)
#define LLMC_D48(d) \
	LLMC_D32(d), LLMC_F8(d, 32), LLMC_F8(d, 40)
#define LLMC_D64(d) \
	LLMC_D48(d), LLMC_F8(d, 48), LLMC_F8(d, 56)
#define LLMC_D96(d) \
	LLMC_D64(d), LLMC_F8(d, 64), LLMC_F8(d, 72), \
	LLMC_F8(d, 80), LLMC_F8(d, 88)
#define LLMC_D128(d) \
	LLMC_D96(d), LLMC_F8(d, 96), LLMC_F8(d, 104), \
	LLMC_F8(d, 112), LLMC_F8(d, 120)

/*
 * d = a b, or d += a b if `add`. `add` is any number; whether an operand is
 * transposed is a literal: 0: along k, 1: along m or n.
 */
#define LLMC_WG(n, c, k, types, d, a, b, add, p0, p1, p2, tail, extra) \
	asm volatile("{\n\t.reg .pred p;\n\t" \
		     "setp.ne.b32 p, %" #p2 ", 0;\n\t" \
		     "wgmma.mma_async.sync.aligned.m64n" #n "k" #k ".f32." \
		     types " {" LLMC_T##c "}, %" #p0 ", %" #p1 ", p, 1, 1" \
		     tail ";\n\t}" \
		     : LLMC_D##c(d) \
		     : "l"(a), "l"(b), "r"((int)(add)) extra)
#define LLMC_WG16(n, c, types, d, a, b, add, ta, tb, p0, p1, p2, p3, p4) \
	LLMC_WG(n, c, 16, types, d, a, b, add, p0, p1, p2, \
		", %" #p3 ", %" #p4, LLMC_TURNS(ta, tb))
#define LLMC_TURNS(ta, tb) , "n"(ta), "n"(tb)
/* a in registers */
#define LLMC_WGR(n, c, types, d, a, b, add, tb, p0, p1, p2, p3, p4, p5, p6) \
	asm volatile("{\n\t.reg .pred p;\n\t" \
		     "setp.ne.b32 p, %" #p5 ", 0;\n\t" \
		     "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." \
		     types " {" LLMC_T##c "}, {%" #p0 ", %" #p1 ", %" #p2 \
		     ", %" #p3 "}, %" #p4 ", p, 1, 1, %" #p6 ";\n\t}" \
		     : LLMC_D##c(d) \
		     : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), \
		     "l"(b), "r"((int)(add)), "n"(tb))

#define wg_bf16_64x8(d, a, b, add, ta, tb) \
	LLMC_WG16(8, 4, "bf16.bf16", d, a, b, add, ta, tb, \
		  4, 5, 6, 7, 8)
#define wg_bf16_rs_64x8(d, a, b, add, tb) \
	LLMC_WGR(8, 4, "bf16.bf16", d, a, b, add, tb, \
		 4, 5, 6, 7, 8, 9, 10)
#define wg_f16_64x8(d, a, b, add, ta, tb) \
	LLMC_WG16(8, 4, "f16.f16", d, a, b, add, ta, tb, \
		  4, 5, 6, 7, 8)
#define wg_f16_rs_64x8(d, a, b, add, tb) \
	LLMC_WGR(8, 4, "f16.f16", d, a, b, add, tb, \
		 4, 5, 6, 7, 8, 9, 10)
#define wg_e4m3_64x8(d, a, b, add) \
	LLMC_WG(8, 4, 32, "e4m3.e4m3", d, a, b, add, 4, 5, 6, "", )
#define wg_tf32_64x8(d, a, b, add) \
	LLMC_WG(8, 4, 8, "tf32.tf32", d, a, b, add, 4, 5, 6, "", )
#define wg_bf16_64x16(d, a, b, add, ta, tb) \
	LLMC_WG16(16, 8, "bf16.bf16", d, a, b, add, ta, tb, \
		  8, 9, 10, 11, 12)
#define wg_bf16_rs_64x16(d, a, b, add, tb) \
	LLMC_WGR(16, 8, "bf16.bf16", d, a, b, add, tb, \
		 8, 9, 10, 11, 12, 13, 14)
#define wg_f16_64x16(d, a, b, add, ta, tb) \
	LLMC_WG16(16, 8, "f16.f16", d, a, b, add, ta, tb, \
		  8, 9, 10, 11, 12)
#define wg_f16_rs_64x16(d, a, b, add, tb) \
	LLMC_WGR(16, 8, "f16.f16", d, a, b, add, tb, \
		 8, 9, 10, 11, 12, 13, 14)
#define wg_e4m3_64x16(d, a, b, add) \
	LLMC_WG(16, 8, 32, "e4m3.e4m3", d, a, b, add, 8, 9, 10, "", )
#define wg_tf32_64x16(d, a, b, add) \
	LLMC_WG(16, 8, 8, "tf32.tf32", d, a, b, add, 8, 9, 10, "", )
#define wg_bf16_64x32(d, a, b, add, ta, tb) \
	LLMC_WG16(32, 16, "bf16.bf16", d, a, b, add, ta, tb, \
		  16, 17, 18, 19, 20)
#define wg_bf16_rs_64x32(d, a, b, add, tb) \
	LLMC_WGR(32, 16, "bf16.bf16", d, a, b, add, tb, \
		 16, 17, 18, 19, 20, 21, 22)
#define wg_f16_64x32(d, a, b, add, ta, tb) \
	LLMC_WG16(32, 16, "f16.f16", d, a, b, add, ta, tb, \
		  16, 17, 18, 19, 20)
#define wg_f16_rs_64x32(d, a, b, add, tb) \
	LLMC_WGR(32, 16, "f16.f16", d, a, b, add, tb, \
		 16, 17, 18, 19, 20, 21, 22)
#define wg_e4m3_64x32(d, a, b, add) \
	LLMC_WG(32, 16, 32, "e4m3.e4m3", d, a, b, add, 16, 17, 18, "", )
#define wg_tf32_64x32(d, a, b, add) \
	LLMC_WG(32, 16, 8, "tf32.tf32", d, a, b, add, 16, 17, 18, "", )
#define wg_bf16_64x64(d, a, b, add, ta, tb) \
	LLMC_WG16(64, 32, "bf16.bf16", d, a, b, add, ta, tb, \
		  32, 33, 34, 35, 36)
#define wg_bf16_rs_64x64(d, a, b, add, tb) \
	LLMC_WGR(64, 32, "bf16.bf16", d, a, b, add, tb, \
		 32, 33, 34, 35, 36, 37, 38)
#define wg_f16_64x64(d, a, b, add, ta, tb) \
	LLMC_WG16(64, 32, "f16.f16", d, a, b, add, ta, tb, \
		  32, 33, 34, 35, 36)
#define wg_f16_rs_64x64(d, a, b, add, tb) \
	LLMC_WGR(64, 32, "f16.f16", d, a, b, add, tb, \
		 32, 33, 34, 35, 36, 37, 38)
#define wg_e4m3_64x64(d, a, b, add) \
	LLMC_WG(64, 32, 32, "e4m3.e4m3", d, a, b, add, 32, 33, 34, "", )
#define wg_tf32_64x64(d, a, b, add) \
	LLMC_WG(64, 32, 8, "tf32.tf32", d, a, b, add, 32, 33, 34, "", )
#define wg_bf16_64x96(d, a, b, add, ta, tb) \
	LLMC_WG16(96, 48, "bf16.bf16", d, a, b, add, ta, tb, \
		  48, 49, 50, 51, 52)
#define wg_bf16_rs_64x96(d, a, b, add, tb) \
	LLMC_WGR(96, 48, "bf16.bf16", d, a, b, add, tb, \
		 48, 49, 50, 51, 52, 53, 54)
#define wg_f16_64x96(d, a, b, add, ta, tb) \
	LLMC_WG16(96, 48, "f16.f16", d, a, b, add, ta, tb, \
		  48, 49, 50, 51, 52)
#define wg_f16_rs_64x96(d, a, b, add, tb) \
	LLMC_WGR(96, 48, "f16.f16", d, a, b, add, tb, \
		 48, 49, 50, 51, 52, 53, 54)
#define wg_e4m3_64x96(d, a, b, add) \
	LLMC_WG(96, 48, 32, "e4m3.e4m3", d, a, b, add, 48, 49, 50, "", )
#define wg_tf32_64x96(d, a, b, add) \
	LLMC_WG(96, 48, 8, "tf32.tf32", d, a, b, add, 48, 49, 50, "", )
#define wg_bf16_64x128(d, a, b, add, ta, tb) \
	LLMC_WG16(128, 64, "bf16.bf16", d, a, b, add, ta, tb, \
		  64, 65, 66, 67, 68)
#define wg_bf16_rs_64x128(d, a, b, add, tb) \
	LLMC_WGR(128, 64, "bf16.bf16", d, a, b, add, tb, \
		 64, 65, 66, 67, 68, 69, 70)
#define wg_f16_64x128(d, a, b, add, ta, tb) \
	LLMC_WG16(128, 64, "f16.f16", d, a, b, add, ta, tb, \
		  64, 65, 66, 67, 68)
#define wg_f16_rs_64x128(d, a, b, add, tb) \
	LLMC_WGR(128, 64, "f16.f16", d, a, b, add, tb, \
		 64, 65, 66, 67, 68, 69, 70)
#define wg_e4m3_64x128(d, a, b, add) \
	LLMC_WG(128, 64, 32, "e4m3.e4m3", d, a, b, add, 64, 65, 66, "", )
#define wg_tf32_64x128(d, a, b, add) \
	LLMC_WG(128, 64, 8, "tf32.tf32", d, a, b, add, 64, 65, 66, "", )
#define wg_bf16_64x192(d, a, b, add, ta, tb) \
	LLMC_WG16(192, 96, "bf16.bf16", d, a, b, add, ta, tb, \
		  96, 97, 98, 99, 100)
#define wg_bf16_rs_64x192(d, a, b, add, tb) \
	LLMC_WGR(192, 96, "bf16.bf16", d, a, b, add, tb, \
		 96, 97, 98, 99, 100, 101, 102)
#define wg_f16_64x192(d, a, b, add, ta, tb) \
	LLMC_WG16(192, 96, "f16.f16", d, a, b, add, ta, tb, \
		  96, 97, 98, 99, 100)
#define wg_f16_rs_64x192(d, a, b, add, tb) \
	LLMC_WGR(192, 96, "f16.f16", d, a, b, add, tb, \
		 96, 97, 98, 99, 100, 101, 102)
#define wg_e4m3_64x192(d, a, b, add) \
	LLMC_WG(192, 96, 32, "e4m3.e4m3", d, a, b, add, 96, 97, 98, "", )
#define wg_tf32_64x192(d, a, b, add) \
	LLMC_WG(192, 96, 8, "tf32.tf32", d, a, b, add, 96, 97, 98, "", )
#define wg_bf16_64x256(d, a, b, add, ta, tb) \
	LLMC_WG16(256, 128, "bf16.bf16", d, a, b, add, ta, tb, \
		  128, 129, 130, 131, 132)
#define wg_bf16_rs_64x256(d, a, b, add, tb) \
	LLMC_WGR(256, 128, "bf16.bf16", d, a, b, add, tb, \
		 128, 129, 130, 131, 132, 133, 134)
#define wg_f16_64x256(d, a, b, add, ta, tb) \
	LLMC_WG16(256, 128, "f16.f16", d, a, b, add, ta, tb, \
		  128, 129, 130, 131, 132)
#define wg_f16_rs_64x256(d, a, b, add, tb) \
	LLMC_WGR(256, 128, "f16.f16", d, a, b, add, tb, \
		 128, 129, 130, 131, 132, 133, 134)
#define wg_e4m3_64x256(d, a, b, add) \
	LLMC_WG(256, 128, 32, "e4m3.e4m3", d, a, b, add, 128, 129, 130, "", )
#define wg_tf32_64x256(d, a, b, add) \
	LLMC_WG(256, 128, 8, "tf32.tf32", d, a, b, add, 128, 129, 130, "", )
#endif

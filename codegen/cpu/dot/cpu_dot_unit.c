/*
 * Units: what a tile of the microkernel is on a CPU, for operands of a dtype,
 * and the instructions that its words are multiplied by.
 */
#include "codegen/cpu/dot/cpu_dot.h"

#define UNROLL 4
#define VECTORS 3	/* of a tile's row; in AMX it has two */

struct dot_unit
dot_unit(struct cg_cpu *c, enum ir_dtype dtype)
{
	struct dot_unit u = { .kind = DOT_FMA, .nv = VECTORS, .per_word = 1,
			      .words = UNROLL, .parts = 1 };

	u.lanes = ll_lanes(c->ll, LL_F32);
	u.mr = u.lanes == 16 ? 8 : 4;
	if (dtype != IR_BF16) {
		return u;
	}
	if (ll_has(c->ll, "amx-bf16") && ll_has(c->ll, "amx-tile")) {
		return (struct dot_unit){
			.kind = DOT_TILES, .lanes = 16, .mr = 32, .nv = 2,
			.per_word = 2, .words = 16, .parts = 1
		};
	}
	if (ll_gains(c->ll, "avx512bf16") && u.lanes == 16) {
		u.kind = DOT_PAIRS;
		u.per_word = 2;
	}
	return u;
}

void
dot_set_panels(struct dot_unit *u, bool panels, enum ll_base base)
{
	u->panels = panels;
	u->parts = !panels ? 1 : base == LL_I8 ? 4 / u->per_word
		: base == LL_BF16 && u->kind == DOT_FMA ? 2 : 1;
	/* of 16 registers some hold what is widened for the next word */
	if (u->kind != DOT_TILES) {
		u->nv = base == LL_BF16 && u->parts == 2 && u->lanes < 16
			? VECTORS - 1 : VECTORS;
	}
}

/* AMX sums up over all of k, which groups cut: it gets scaled numbers. */
struct dot_unit
dot_int4_unit(struct cg_cpu *c, enum ir_dtype dtype)
{
	struct dot_unit u = dot_unit(c, dtype);

	u.scaled = u.kind != DOT_TILES;
	return u;
}

/* ---- in vector registers ---- */

struct ll_value *
dot_multiply_add(struct ll *l, const struct dot_unit *u, struct ll_value *a,
		 struct ll_value *b, struct ll_value *sum)
{
	const struct ll_type pairs = ll_type(LL_BF16, 2 * u->lanes);
	struct ll_value *args[3] = { sum, a, b };

	if (u->kind == DOT_FMA && ll_has(l, "fma")) {
		return ll_fma(l, a, b, sum);
	}
	if (u->kind == DOT_FMA) {	/* LLVM would call a library */
		return ll_add(l, ll_bin(l, LL_MUL, a, b), sum);
	}
	args[1] = ll_bits(l, a, pairs);
	args[2] = ll_bits(l, b, pairs);
	return ll_intrinsic(l, "llvm.x86.avx512bf16.dpbf16ps.512",
			    ll_type(LL_F32, u->lanes), args, 3);
}

struct ll_value *
dot_scale_add(struct ll *l, struct ll_value *sum, struct ll_value *scale,
	      struct ll_value *to)
{
	return ll_has(l, "fma") ? ll_fma(l, sum, scale, to)
				: ll_add(l, ll_bin(l, LL_MUL, sum, scale), to);
}

/* A bf16 is the upper half of a float; of a pair the first one is below. */
void
dot_split(struct ll *l, struct ll_value *pairs, struct ll_value *out[2])
{
	const struct ll_type t = ll_typeof(l, pairs);
	const struct ll_type f32 = ll_type(LL_F32, t.lanes);
	struct ll_value *upper = ll_int(l, t, -(int64_t)0x10000);

	out[0] = ll_bin(l, LL_SHL, pairs, ll_int(l, t, 16));
	out[0] = ll_bits(l, out[0], f32);
	out[1] = ll_bits(l, ll_bin(l, LL_AND, pairs, upper), f32);
}

/* ---- in AMX tiles ---- */

void
dot_amx(struct ll *l, const char *name, const int *tiles, uint32_t ntiles,
	struct ll_value *at, struct ll_value *apart)
{
	struct ll_value *args[5];
	uint32_t n;

	for (n = 0; n < ntiles; n++) {
		args[n] = ll_int(l, ll_type(LL_I8, 1), tiles[n]);
	}
	if (at) {
		args[n++] = at;
		args[n++] = apart;
	}
	ll_intrinsic(l, name, ll_type(LL_VOID, 1), args, n);
}

void
dot_tiles_begin(struct cg_cpu *c, const struct dot_unit *u)
{
	uint8_t config[64] = { 1 };	/* the palette of 8 tiles */
	struct ll_value *at;
	int i;

	if (u->kind != DOT_TILES) {
		return;
	}
	for (i = 0; i < 8; i++) {
		config[16 + 2 * i] = 64;	/* bytes of a row, u16 */
		config[48 + i] = 16;		/* rows */
	}
	at = ll_bytes(c->ll, config, sizeof config);
	ll_intrinsic(c->ll, "llvm.x86.ldtilecfg", ll_type(LL_VOID, 1), &at, 1);
}

void
dot_tiles_end(struct cg_cpu *c, const struct dot_unit *u)
{
	if (u->kind == DOT_TILES) {
		ll_intrinsic(c->ll, "llvm.x86.tilerelease",
			     ll_type(LL_VOID, 1), NULL, 0);
	}
}

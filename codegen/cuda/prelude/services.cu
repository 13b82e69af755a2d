/*
 * What the host program launches beside kernels, on as many blocks of 256
 * threads as it likes: each thread goes on with what is left.  Sizes are
 * numbers of the call.
 *
 *	copy		at[0] to at[1], which do not overlap; num[0] bytes
 *	put_given	number num[0] of the step as f32, to at[0]
 *	root		of the f32 at at[0], to at[1]
 *	fill		see struct fill_args
 *	keep_own	see struct keep_args
 *	move		see struct move_args
 *	fold		see struct fold_args
 */
#include "prelude.h"

/* As RT_ELEM_* of runtime/abi.h. */
enum { ELEM_F64, ELEM_F32, ELEM_BF16, ELEM_F16, ELEM_I32 };

FN i64
first_of(void)
{
	return (i64)BLOCK_X * NTHREADS + TID;
}

FN i64
step_of(void)
{
	return (i64)NBLOCKS_X * NTHREADS;
}

/* The position of local index i. */
FN i64
place_of(const struct pieces *p, i64 i)
{
	i64 k;

	for (k = 0; k < p->n && i >= p->at[k].count; k++) {
		i -= p->at[k].count;
	}
	return p->at[k].start + i;
}

/* ---- copies and single numbers ---- */

struct copy_args {
	char *at[2];
	i64 num[1];
	char *shared;
	const i64 *live;
};

/* Operands are aligned; sizes need not be. */
KERNEL(copy, 256, 0, struct copy_args)
{
	i64 bytes = a.num[0], i;

	launch_wait();
	for (i = first_of(); i < bytes / 16; i += step_of()) {
		st16(a.at[1] + 16 * i, ld16(a.at[0] + 16 * i));
	}
	for (i = bytes / 16 * 16 + first_of(); i < bytes; i += step_of()) {
		a.at[1][i] = a.at[0][i];
	}
}

struct given_args {
	char *at[1];
	i64 num[1];
	char *shared;
	const i64 *live;
};

/* The step is a whole number, all others have the bits of an f32. */
KERNEL(put_given, 256, 0, struct given_args)
{
	i64 v;

	launch_wait();
	v = a.live[a.num[0]];
	if (first_of() == 0) {
		*(f32 *)a.at[0] = a.num[0] == 0 ? (f32)v : bits_f32((u32)v);
	}
}

struct root_args {
	char *at[2];
	char *shared;
	const i64 *live;
};

KERNEL(root, 256, 0, struct root_args)
{
	launch_wait();
	if (first_of() == 0) {
		*(f32 *)a.at[1] = f_sqrt(*(const f32 *)a.at[0]);
	}
}

/* ---- numbers that are drawn ---- */

/*
 * A rank's shard of a tensor, at at[0]; pieces by dim.  Each element is drawn
 * by its index in the whole tensor.
 */
struct fill_args {
	char *at[1];
	const struct pieces *pieces[8];
	/* key, how ('n' normal, '0', '1', 'b' below), bits of the f64 that
	 * normal ones are scaled by, below what, ELEM_*, dims, elements
	 * between rows, and before the first one; sizes of whole dims */
	i64 num[16];
	char *shared;
	const i64 *live;
};

union bits64 {
	i64 i;
	f64 f;
};

union bits32 {
	u32 u;
	f32 f;
};

/* Rounded to odd, so that a second rounding is right. */
FN f32
to_odd(f64 v)
{
	union bits32 x;

	x.f = (f32)v;
	if ((f64)x.f != v) {
		if ((f64)x.f > v ? v > 0 : v < 0) {
			x.u--;
		}
		x.u |= 1;
	}
	return x.f;
}

FN void
put_number(char *to, i64 elem, i64 i, f64 v)
{
	switch (elem) {
	case ELEM_F64:
		((f64 *)to)[i] = v;
		break;
	case ELEM_F32:
		((f32 *)to)[i] = (f32)v;
		break;
	case ELEM_BF16:
		((bf16 *)to)[i] = f32_bf16((f32)v);
		break;
	case ELEM_F16:
		((f16 *)to)[i] = f32_f16(to_odd(v));
		break;
	default:
		((i32 *)to)[i] = (i32)v;
	}
}

FN f64
drawn(const i64 *num, i64 index)
{
	union bits64 std;

	switch ((int)num[1]) {
	case 'n':
		std.i = num[2];
		return rng_normal((u64)num[0], index) * std.f;
	case 'b':
		return (f64)rng_below((u64)num[0], index, num[3]);
	default:
		return (f64)(num[1] - '0');
	}
}

KERNEL(fill, 256, 0, struct fill_args)
{
	i64 ndims = a.num[5], n = 1, i, d;

	launch_wait();
	for (d = 0; d < ndims; d++) {
		n *= a.pieces[d]->total;
	}
	for (i = first_of(); i < n; i += step_of()) {
		i64 left = i, index = a.num[7], apart = 1;

		for (d = ndims - 1; d >= 0; d--) {
			i64 size = a.pieces[d]->total;

			index += place_of(a.pieces[d], left % size) * apart;
			left /= size;
			apart *= a.num[8 + d];
			apart += d == ndims - 1 ? a.num[6] : 0;
		}
		put_number(a.at[0], a.num[4], i, drawn(a.num, index));
	}
}

/* ---- rows of experts elsewhere ---- */

/*
 * Clears rows at at[0] whose expert, in the index at at[1], is not among
 * pieces[0].
 */
struct keep_args {
	char *at[2];
	const struct pieces *pieces[1];
	/* rows, bytes of a row, dims that select one, by dim its size, and its
	 * stride in the index */
	i64 num[19];
	char *shared;
	const i64 *live;
};

FN int
is_among(const struct pieces *p, i64 x)
{
	i64 k;

	for (k = 0; k < p->n; k++) {
		if (x >= p->at[k].start &&
		    x < p->at[k].start + p->at[k].count) {
			return 1;
		}
	}
	return 0;
}

/* A warp for each row. */
KERNEL(keep_own, 256, 0, struct keep_args)
{
	i64 bytes = a.num[1], row, left, at, i, d;

	launch_wait();
	for (row = first_of() / 32; row < a.num[0]; row += step_of() / 32) {
		left = row;
		at = 0;
		for (d = a.num[2] - 1; d >= 0; d--) {
			at += left % a.num[3 + d] * a.num[11 + d];
			left /= a.num[3 + d];
		}
		if (is_among(a.pieces[0], ((const i32 *)a.at[1])[at])) {
			continue;
		}
		for (i = 2 * (i64)LANE; i < bytes; i += 64) {
			*(u16 *)(a.at[0] + row * bytes + i) = 0;
		}
	}
}

/* ---- parts of what ranks exchange ---- */

/*
 * Boxes from at[0] to at[1].  The runtime calls both of these (cuda_comm_parts.c),
 * and has their numbers' places.
 */
struct move_args {
	char *at[2];
	/* bytes moved at once, dims, boxes; bytes from place to place of each
	 * of 8 dims, in at[0] and in at[1]; of each box the bytes to its first
	 * place in both, and its sizes */
	i64 num[179];
	char *shared;
	const i64 *live;
};

FN void
move_unit(char *to, const char *from, i64 bytes)
{
	switch ((int)bytes) {
	case 16:
		st16(to, ld16(from));
		break;
	case 8:
		*(u64 *)to = *(const u64 *)from;
		break;
	case 4:
		*(u32 *)to = *(const u32 *)from;
		break;
	case 2:
		*(u16 *)to = *(const u16 *)from;
		break;
	default:
		*to = *from;
	}
}

KERNEL(move, 256, 0, struct move_args)
{
	i64 ndims = a.num[1], box, i, d;

	launch_wait();
	for (box = 0; box < a.num[2]; box++) {
		i64 x = 19 + 10 * box, n = 1;

		for (d = 0; d < ndims; d++) {
			n *= a.num[x + 2 + d];
		}
		for (i = first_of(); i < n; i += step_of()) {
			i64 left = i, from = a.num[x], to = a.num[x + 1];

			for (d = ndims - 1; d >= 0; d--) {
				i64 size = a.num[x + 2 + d];

				from += left % size * a.num[3 + d];
				to += left % size * a.num[11 + d];
				left /= size;
			}
			move_unit(a.at[1] + to, a.at[0] + from, a.num[0]);
		}
	}
}

/*
 * The sum or maximum of parts, in their order, to at[0]: in f32 if elements
 * are shorter, as ranks of CPUs do.
 */
struct fold_args {
	char *at[1];
	/* ELEM_*, 1 for the maximum, elements, parts, where each is */
	i64 num[132];
	char *shared;
	const i64 *live;
};

FN f64
folded_f64(f64 x, f64 y, i64 is_max)
{
	return is_max ? (y > x || y != y ? y : x) : x + y;
}

FN f32
folded_f32(f32 x, f32 y, i64 is_max)
{
	return is_max ? (y > x || y != y ? y : x) : x + y;
}

FN i32
folded_i32(i32 x, i32 y, i64 is_max)
{
	return is_max ? (y > x ? y : x) : (i32)((u32)x + (u32)y);
}

FN f32
short_at(const char *at, i64 elem, i64 i)
{
	return elem == ELEM_F32 ? ((const f32 *)at)[i]
		: elem == ELEM_BF16 ? bf16_f32(((const bf16 *)at)[i])
		: f16_f32(((const f16 *)at)[i]);
}

KERNEL(fold, 256, 0, struct fold_args)
{
	i64 elem = a.num[0], i, k;

	launch_wait();
	for (i = first_of(); i < a.num[2]; i += step_of()) {
		const char *at = (const char *)a.num[4];
		f64 d = elem == ELEM_F64 ? ((const f64 *)at)[i] : 0;
		i32 n = elem == ELEM_I32 ? ((const i32 *)at)[i] : 0;
		f32 f = elem == ELEM_F64 || elem == ELEM_I32 ? 0
			: short_at(at, elem, i);

		for (k = 1; k < a.num[3]; k++) {
			at = (const char *)a.num[4 + k];
			if (elem == ELEM_F64) {
				d = folded_f64(d, ((const f64 *)at)[i],
					       a.num[1]);
			} else if (elem == ELEM_I32) {
				n = folded_i32(n, ((const i32 *)at)[i],
					       a.num[1]);
			} else {
				f = folded_f32(f, short_at(at, elem, i),
					       a.num[1]);
			}
		}
		switch ((int)elem) {
		case ELEM_F64:
			((f64 *)a.at[0])[i] = d;
			break;
		case ELEM_F32:
			((f32 *)a.at[0])[i] = f;
			break;
		case ELEM_BF16:
			((bf16 *)a.at[0])[i] = f32_bf16(f);
			break;
		case ELEM_F16:
			((f16 *)a.at[0])[i] = f32_f16(f);
			break;
		default:
			((i32 *)a.at[0])[i] = n;
		}
	}
}

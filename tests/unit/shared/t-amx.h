/*
 * AMX where this process has none: its instructions raise SIGILL, and the
 * handler does what they would have done.  For code of our own that uses tiles
 * of 16 rows of 64 bytes.
 *
 * Without AMX each of its instructions raises SIGILL.  On a CPU that has it
 * those that touch the tiles' data do, as long as the process did not ask for
 * permission; ldtilecfg and tilerelease do not (Intel's manual, volume 1,
 * 13.14).  What was loaded by then is in the state that a signal saves.
 */
#ifndef T_AMX_H
#define T_AMX_H

#include <cpuid.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

/* Of each thread, as the CPU's are. */
static _Thread_local struct {
	uint32_t tile[8][16][16];
	bool configured;
} amx;

/* Of all threads. */
static struct {
	bool on;
	uint64_t configs, products;
	struct sigaction before;
} amx_all;

/* uc_mcontext.gregs: the order is the kernel's, names are GNU's. */
enum { AMX_RIP = 16 };

static inline void
amx_die(const char *what)
{
	(void)!write(2, what, strlen(what));
	_exit(1);
}

static inline float
amx_float(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof f);
	return f;
}

/* to += a b, pairs of bf16. */
static inline void
amx_multiply(int to, int a, int b)
{
	int m, n, k;

	for (m = 0; m < 16; m++) {
		for (n = 0; n < 16; n++) {
			float sum = amx_float(amx.tile[to][m][n]);

			for (k = 0; k < 16; k++) {
				uint32_t x = amx.tile[a][m][k];
				uint32_t y = amx.tile[b][k][n];

				sum += amx_float(x << 16) * amx_float(y << 16);
				sum += amx_float(x & 0xffff0000) *
				       amx_float(y & 0xffff0000);
			}
			memcpy(&amx.tile[to][m][n], &sum, sizeof sum);
		}
	}
	__atomic_add_fetch(&amx_all.products, 1, __ATOMIC_RELAXED);
}

static inline int64_t
amx_register(const ucontext_t *u, int i)
{
	/* rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi; r8 to r15 come first */
	static const int at[] = { 13, 14, 12, 11, 15, 10, 9, 8 };

	return u->uc_mcontext.gregs[i < 8 ? at[i] : i - 8];
}

/* One instruction, VEX-encoded with three bytes in front. */
struct amx_code {
	const uint8_t *at;
	int opcode, prefix, reg, rm, third;
	bool memory;
	char *address;
	int64_t apart;		/* of rows: the index register */
	int length;
};

static inline void
amx_address(const ucontext_t *u, struct amx_code *c)
{
	const uint8_t *p = c->at + 5;
	int mod = c->at[4] >> 6, base = c->at[4] & 7, index;
	int64_t a = 0;
	int32_t far;

	c->memory = mod != 3;
	c->length = 5;
	if (!c->memory) {
		return;
	}
	if (base == 4) {
		index = (*p >> 3 & 7) | (c->at[1] & 0x40 ? 0 : 8);
		c->apart = index == 4 ? 0
			: amx_register(u, index) * (1 << (*p >> 6));
		base = *p++ & 7;
	}
	if (mod == 0 && base == 5) {
		memcpy(&far, p, 4);
		p += 4;
		a = far + (c->at[4] & 7 ? (int64_t)(intptr_t)p : 0);
	} else {
		a = amx_register(u, base | (c->at[1] & 0x20 ? 0 : 8));
	}
	if (mod == 1) {
		a += (int8_t)*p++;
	} else if (mod == 2) {
		memcpy(&far, p, 4);
		p += 4;
		a += far;
	}
	c->address = (char *)(intptr_t)a;
	c->length = (int)(p - c->at);
}

/* The only configuration that code of ours has. */
static inline void
amx_check_config(const uint8_t *have)
{
	uint8_t want[64] = { 1 };
	int i;

	for (i = 0; i < 8; i++) {
		want[16 + 2 * i] = 64;
		want[48 + i] = 16;
	}
	if (memcmp(have, want, sizeof want) != 0) {
		amx_die("another tile configuration\n");
	}
}

static inline void
amx_config(const struct amx_code *c)
{
	if (!c->memory) {
		amx.configured = false;
		return;
	}
	amx_check_config((const uint8_t *)c->address);
	memset(amx.tile, 0, sizeof amx.tile);
	amx.configured = true;
	__atomic_add_fetch(&amx_all.configs, 1, __ATOMIC_RELAXED);
}

/* Offsets in what a signal saves, by Linux's and Intel's layout. */
#define AMX_MAGIC 0x46505853	/* FP_XSTATE_MAGIC1 */
#define AMX_MAGIC_AT 464
#define AMX_HEADER_AT 512	/* bits of the components that are there */
#define AMX_CONFIG_BIT 17
#define AMX_CONFIG_LEAF 0xd	/* of CPUID: where the component is */

/*
 * The configuration in registers saved at `fp`, `at` bytes from their
 * beginning; NULL: there is none.
 */
static inline const uint8_t *
amx_saved_config(const char *fp, uint32_t at)
{
	uint32_t magic;
	uint64_t parts;

	if (!fp || at == 0) {
		return NULL;
	}
	memcpy(&magic, fp + AMX_MAGIC_AT, sizeof magic);
	if (magic != AMX_MAGIC) {
		return NULL;
	}
	memcpy(&parts, fp + AMX_HEADER_AT, sizeof parts);
	return parts >> AMX_CONFIG_BIT & 1 && fp[at]
		? (const uint8_t *)fp + at : NULL;
}

/* Where this CPU loaded the configuration itself, and did not trap. */
static inline bool
amx_loaded(const ucontext_t *u)
{
	uint32_t a, at = 0, c, d;
	const uint8_t *have;

	__get_cpuid_count(AMX_CONFIG_LEAF, AMX_CONFIG_BIT, &a, &at, &c, &d);
	have = amx_saved_config((const char *)u->uc_mcontext.fpregs, at);
	if (have) {
		amx_check_config(have);
	}
	return have != NULL;
}

static inline void
amx_trap(int signal, siginfo_t *info, void *at)
{
	ucontext_t *u = at;
	struct amx_code c = { 0 };
	int i;

	(void)signal;
	(void)info;
	c.at = (const uint8_t *)(intptr_t)u->uc_mcontext.gregs[AMX_RIP];
	c.prefix = c.at[2] & 3;
	c.third = ~(c.at[2] >> 3) & 15;
	c.opcode = c.at[3];
	c.reg = c.at[4] >> 3 & 7;
	c.rm = c.at[4] & 7;
	if (c.at[0] != 0xc4 || (c.at[1] & 31) != 2) {
		amx_die("an instruction that is not of AMX\n");
	}
	amx_address(u, &c);
	if (c.opcode == 0x49 && c.prefix == 0) {
		amx_config(&c);
	} else if (!amx.configured && !amx_loaded(u)) {
		amx_die("tiles before they are configured\n");
	} else if (c.opcode == 0x49 && c.prefix == 3) {
		memset(amx.tile[c.reg], 0, sizeof amx.tile[0]);
	} else if (c.opcode == 0x4b) {
		for (i = 0; i < 16; i++) {
			char *row = c.address + i * c.apart;

			if (c.prefix == 2) {
				memcpy(row, amx.tile[c.reg][i], 64);
			} else {
				memcpy(amx.tile[c.reg][i], row, 64);
			}
		}
	} else if (c.opcode == 0x5c && c.prefix == 2) {
		amx_multiply(c.reg, c.rm, c.third);
	} else {
		amx_die("an instruction that is not of AMX\n");
	}
	u->uc_mcontext.gregs[AMX_RIP] += c.length;
}

/*
 * From here to amx_end.  The process must not have the permission, by
 * rt_cpu_allow, for then nothing traps.
 */
static inline void
amx_begin(void)
{
	struct sigaction s = { .sa_flags = SA_SIGINFO };

	s.sa_sigaction = amx_trap;
	sigaction(SIGILL, &s, &amx_all.before);
	amx.configured = false;
	amx_all.on = true;
}

static inline void
amx_end(void)
{
	sigaction(SIGILL, &amx_all.before, NULL);
	amx_all.on = false;
}

#endif

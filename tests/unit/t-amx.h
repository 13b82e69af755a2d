/*
 * AMX where the CPU has none: what is no instruction here raises SIGILL, and
 * the handler does what it would have done.  For code of our own that uses
 * tiles of 16 rows of 64 bytes.
 */
#ifndef T_AMX_H
#define T_AMX_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static struct {
	uint32_t tile[8][16][16];
	bool configured;
	uint64_t done, products;
} amx;

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
	amx.products++;
}

static inline int64_t
amx_register(const ucontext_t *u, int i)
{
	static const int name[] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX,
		REG_RSP, REG_RBP, REG_RSI, REG_RDI, REG_R8, REG_R9, REG_R10,
		REG_R11, REG_R12, REG_R13, REG_R14, REG_R15 };

	return u->uc_mcontext.gregs[name[i]];
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

static inline void
amx_config(const struct amx_code *c)
{
	uint8_t have[64];
	int i;

	if (!c->memory) {
		amx.configured = false;
		return;
	}
	memcpy(have, c->address, sizeof have);
	for (i = 0; i < 8; i++) {
		if (have[0] != 1 || have[16 + 2 * i] != 64 ||
		    have[48 + i] != 16) {
			amx_die("another tile configuration\n");
		}
	}
	memset(amx.tile, 0, sizeof amx.tile);
	amx.configured = true;
}

static inline void
amx_trap(int signal, siginfo_t *info, void *at)
{
	ucontext_t *u = at;
	struct amx_code c = { 0 };
	int i;

	(void)signal;
	(void)info;
	c.at = (const uint8_t *)(intptr_t)u->uc_mcontext.gregs[REG_RIP];
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
	} else if (!amx.configured) {
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
	amx.done++;
	u->uc_mcontext.gregs[REG_RIP] += c.length;
}

static inline void
amx_begin(struct sigaction *before)
{
	struct sigaction s = { .sa_flags = SA_SIGINFO };

	s.sa_sigaction = amx_trap;
	sigaction(SIGILL, &s, before);
	memset(&amx, 0, sizeof amx);
}

static inline void
amx_end(const struct sigaction *before)
{
	sigaction(SIGILL, before, NULL);
}

#endif

/*
 * A CUDA machine for tests: the functions of libcuda, libcublas and libnccl
 * that the meter calls, in one shared object under three names.  Device
 * memory is the host's.  Time is a clock of its own, which each call moves on
 * by what a device with round numbers would take, so that every run of a
 * program prints the same.
 *
 * FAKE_CUDA_DEVICES says how many there are; FAKE_CUDA_WRONG makes products
 * wrong.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOPS_US 100e6		/* 100 TFLOP/s; a half of it in fp32 */
#define BYTES_US 1e6		/* 1 TB/s */
#define LINK_US 100e3		/* 100 GB/s */
#define LAUNCH_US 4.0

/*
 * Three libraries are three copies of this object; they share what they must
 * by an address in the environment.
 */
static double *
now_us(void)
{
	const char *at = getenv("FAKE_CUDA_CLOCK");
	static double own;
	unsigned long long address = 0;
	char text[32];

	if (!at) {
		snprintf(text, sizeof text, "%llx",
			 (unsigned long long)(uintptr_t)&own);
		setenv("FAKE_CUDA_CLOCK", text, 1);
		return &own;
	}
	sscanf(at, "%llx", &address);
	return (double *)(uintptr_t)address;
}

static void
pass_time(double us)
{
	*now_us() += us;
}

/* ---- libcuda ---- */

int
cuInit(unsigned flags)
{
	(void)flags;
	return 0;
}

int
cuGetErrorString(int error, const char **out)
{
	*out = error == 2 ? "out of memory" : "unknown error";
	return 0;
}

int
cuDeviceGetCount(int *n)
{
	const char *s = getenv("FAKE_CUDA_DEVICES");

	*n = s ? atoi(s) : 1;
	return 0;
}

int
cuDeviceGet(int *out, int i)
{
	*out = i;
	return 0;
}

int
cuDeviceGetName(char *out, int size, int device)
{
	(void)device;
	snprintf(out, (size_t)size, "Fake \"GPU\"\n");
	return 0;
}

int
cuDeviceTotalMem_v2(size_t *out, int device)
{
	(void)device;
	*out = (size_t)16 << 30;
	return 0;
}

int
cuDeviceGetAttribute(int *out, int attribute, int device)
{
	(void)device;
	*out = attribute == 13 ? 1000000 : attribute == 16 ? 100 :
	       attribute == 38 ? 4 << 20 : attribute == 75 ? 9 : 0;
	return 0;
}

static int context[64];

int
cuDevicePrimaryCtxRetain(void **out, int device)
{
	context[device]++;
	*out = &context[device];
	return 0;
}

int
cuDevicePrimaryCtxRelease_v2(int device)
{
	return --context[device] == 0 ? 0 : 1;
}

int
cuCtxSetCurrent(void *c)
{
	return c ? 0 : 201;
}

int
cuMemAlloc_v2(uint64_t *out, size_t bytes)
{
	*out = (uint64_t)(uintptr_t)malloc(bytes);
	return *out ? 0 : 2;
}

int
cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n)
{
	memcpy((void *)(uintptr_t)to, from, n);
	return 0;
}

/* The last product, of which an element is computed when it is read. */
struct product {
	int m, n, k, type;
	const char *a, *b;
	char *c;
};

static struct product *
product(void)
{
	const char *at = getenv("FAKE_CUDA_PRODUCT");
	static struct product own;
	unsigned long long address = 0;
	char text[32];

	if (!at) {
		snprintf(text, sizeof text, "%llx",
			 (unsigned long long)(uintptr_t)&own);
		setenv("FAKE_CUDA_PRODUCT", text, 1);
		return &own;
	}
	sscanf(at, "%llx", &address);
	return (struct product *)(uintptr_t)address;
}

int
cuMemFree_v2(uint64_t at)
{
	struct product *p = product();

	if ((uint64_t)(uintptr_t)p->c == at) {
		p->c = NULL;
	}
	free((void *)(uintptr_t)at);
	return 0;
}

static float
load(const char *base, long i, int type)
{
	uint32_t bits = 0;
	uint16_t half;
	float v;

	if (type == 0) {
		memcpy(&v, base + 4 * i, 4);
		return v;
	}
	memcpy(&half, base + 2 * i, 2);
	if (type == 14) {
		bits = (uint32_t)half << 16;
	} else if (half & 0x7fff) {
		bits = (uint32_t)(half & 0x8000) << 16 |
		       ((uint32_t)(half >> 10 & 31) + 112) << 23 |
		       (uint32_t)(half & 1023) << 13;
	}
	memcpy(&v, &bits, 4);
	return v;
}

static void
store(char *to, int type, float v)
{
	uint32_t bits;
	uint16_t half;

	memcpy(&bits, &v, 4);
	if (type == 0) {
		memcpy(to, &bits, 4);
		return;
	}
	half = (uint16_t)(bits >> 16);
	if (type == 2) {
		half = (uint16_t)((bits >> 16 & 0x8000) |
				  ((bits >> 23 & 255) - 112) << 10 |
				  (bits >> 13 & 1023));
	}
	memcpy(to, &half, 2);
}

int
cuMemcpyDtoH_v2(void *to, uint64_t at, size_t n)
{
	struct product *p = product();
	char *from = (char *)(uintptr_t)at;
	long size = p->type ? 2 : 4, i, k;
	double sum = 0;

	if (p->c && from >= p->c && from < p->c + (long)p->m * p->n * size) {
		i = (from - p->c) / size;
		for (k = 0; k < p->k; k++) {
			/* columns first: C(j, i) = A(j, k) B(k, i) */
			sum += (double)load(p->a, k * p->m + i % p->m,
					    p->type) *
			       (double)load(p->b, i / p->m * p->k + k,
					    p->type);
		}
		store(to, p->type, (float)sum * (getenv("FAKE_CUDA_WRONG")
						 ? 2 : 1) + (sum == 0));
		return 0;
	}
	memcpy(to, from, n);
	return 0;
}

int
cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void *stream)
{
	(void)stream;
	memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, n);
	pass_time(2 * (double)n / (0.9 * BYTES_US) + LAUNCH_US);
	return 0;
}

int
cuMemsetD32Async(uint64_t to, unsigned v, size_t n, void *stream)
{
	uint32_t *p = (uint32_t *)(uintptr_t)to;
	size_t i;

	(void)stream;
	for (i = 0; i < n; i++) {
		p[i] = v;
	}
	pass_time(4 * (double)n / BYTES_US + LAUNCH_US);
	return 0;
}

int
cuStreamCreate(void **out, unsigned flags)
{
	(void)flags;
	*out = malloc(1);
	return 0;
}

int
cuStreamDestroy_v2(void *s)
{
	free(s);
	return 0;
}

int
cuStreamSynchronize(void *s)
{
	return s ? 0 : 400;
}

int
cuEventCreate(void **out, unsigned flags)
{
	(void)flags;
	*out = calloc(1, sizeof(double));
	return 0;
}

int
cuEventDestroy_v2(void *e)
{
	free(e);
	return 0;
}

int
cuEventRecord(void *event, void *stream)
{
	(void)stream;
	*(double *)event = *now_us();
	return 0;
}

int
cuEventSynchronize(void *e)
{
	return e ? 0 : 400;
}

int
cuEventElapsedTime(float *ms, void *from, void *to)
{
	*ms = (float)((*(double *)to - *(double *)from) / 1e3);
	return 0;
}

int
cuModuleLoadData(void **out, const void *ptx)
{
	*out = (void *)(uintptr_t)ptx;
	return strncmp(ptx, ".version", 8) == 0 ? 0 : 218;
}

int
cuModuleUnload(void *module)
{
	return module ? 0 : 400;
}

/* A kernel is its name, which must be an entry of the text. */
int
cuModuleGetFunction(void **out, void *module, const char *name)
{
	char entry[64];

	snprintf(entry, sizeof entry, ".entry %s(", name);
	*out = (void *)(uintptr_t)name;
	return strstr(module, entry) ? 0 : 500;
}

int
cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz,
	       unsigned bx, unsigned by, unsigned bz, unsigned shared,
	       void *stream, void **arguments, void **extra)
{
	const char *name = function;

	(void)shared;
	(void)stream;
	(void)extra;
	if (gx * gy * gz == 0 || bx * by * bz == 0 || bx > 1024) {
		return 1;
	}
	pass_time(LAUNCH_US);
	if (strcmp(name, "triad") == 0) {
		float *a = *(float **)arguments[0];
		const float *b = *(float **)arguments[1];
		const float *c = *(float **)arguments[2];
		size_t n = 4 * (size_t)*(uint32_t *)arguments[3], i;

		for (i = 0; i < n; i++) {
			a[i] = b[i] + 3 * c[i];
		}
		pass_time(12 * (double)n / (0.95 * BYTES_US));
	} else if (strcmp(name, "read") == 0) {
		pass_time(16.0 * *(uint32_t *)arguments[3] / BYTES_US);
	}
	return 0;
}

/* ---- libcublas ---- */

int
cublasCreate_v2(void **out)
{
	*out = malloc(1);
	return 0;
}

int
cublasDestroy_v2(void *h)
{
	free(h);
	return 0;
}

int
cublasSetStream_v2(void *h, void *s)
{
	return h && s ? 0 : 1;
}

/* 80% of the rate behind 128 of k, or the bytes at 85% of the memory. */
int
cublasGemmEx(void *h, int op_a, int op_b, int m, int n, int k,
	     const void *alpha, const void *a, int a_type, int lda,
	     const void *b, int b_type, int ldb, const void *beta, void *c,
	     int c_type, int ldc, int compute, int algorithm)
{
	double rate = FLOPS_US / (compute == 69 ? 10 : compute == 77 ? 2 : 1);
	double us = 2.0 * m * n * (k + 128) / (0.8 * rate);
	double bytes = ((double)m * k + (double)k * n + (double)m * n) *
		       (a_type ? 2 : 4);

	(void)algorithm;
	if (!h || op_a || op_b || lda != m || ldb != k || ldc != m ||
	    a_type != b_type || b_type != c_type || *(float *)alpha != 1 ||
	    *(float *)beta != 0) {
		return 7;
	}
	*product() = (struct product){ m, n, k, a_type, a, b, c };
	if (us < bytes / (0.85 * BYTES_US)) {
		us = bytes / (0.85 * BYTES_US);
	}
	pass_time(us + LAUNCH_US);
	return 0;
}

/* ---- libnccl: a ring of so many ---- */

static int ranks, pending, in_group;
static double group_us;

struct comm {
	int rank;
};

int
ncclCommInitAll(void **comms, int n, const int *devices)
{
	int i;

	(void)devices;
	ranks = n;
	for (i = 0; i < n; i++) {
		struct comm *c = malloc(sizeof *c);

		c->rank = i;
		comms[i] = c;
	}
	return 0;
}

int
ncclCommDestroy(void *c)
{
	free(c);
	return 0;
}

int
ncclGroupStart(void)
{
	in_group = 1;
	pending = 0;
	return 0;
}

/* A collective that some rank did not call would hang. */
int
ncclGroupEnd(void)
{
	in_group = 0;
	pass_time(group_us);
	return pending == ranks || pending == 2 ? 0 : 5;
}

static int
called(double us)
{
	if (!in_group) {
		return 5;
	}
	pending++;
	group_us = us;
	return 0;
}

static void
give(void *out, size_t n, float v)
{
	float *p = out;
	size_t i;

	for (i = 0; i < n; i++) {
		p[i] = v;
	}
}

static double
ring_us(double turns, size_t n)
{
	return 10 + turns * (ranks - 1) *
	       (1 + 4 * (double)n / ranks / LINK_US);
}

int
ncclAllReduce(const void *in, void *out, size_t n, int type, int op, void *c,
	      void *s)
{
	(void)in;
	(void)c;
	give(out, n, (float)ranks);
	return type == 7 && op == 0 && s ? called(ring_us(2, n)) : 4;
}

int
ncclAllGather(const void *in, void *out, size_t own, int type, void *c,
	      void *s)
{
	(void)in;
	(void)c;
	give(out, own * (size_t)ranks, 1);
	return type == 7 && s ? called(ring_us(1, own * (size_t)ranks)) : 4;
}

int
ncclReduceScatter(const void *in, void *out, size_t own, int type, int op,
		  void *c, void *s)
{
	(void)in;
	(void)c;
	give(out, own, (float)ranks);
	return type == 7 && op == 0 && s
		? called(ring_us(1, own * (size_t)ranks)) : 4;
}

int
ncclSend(const void *in, size_t n, int type, int peer, void *c, void *s)
{
	(void)in;
	return type == 7 && s && peer == ranks - 1 &&
	       ((struct comm *)c)->rank == 0
		? called(10 + 4 * (double)n / LINK_US) : 4;
}

int
ncclRecv(void *out, size_t n, int type, int peer, void *c, void *s)
{
	give(out, n, 1);
	return type == 7 && s && peer == 0 && ((struct comm *)c)->rank > 0
		? called(10 + 4 * (double)n / LINK_US) : 4;
}

/*
 * Private to runtime/measure/: the parts of the CUDA meter, and the functions
 * of the three libraries that it loads when it is opened.
 *
 * The types are those of the ABI of these libraries (cuda.h, cublas_v2.h and
 * nccl.h of CUDA 11 to 13): handles are pointers, device addresses 64-bit
 * numbers, enums int.  So nothing of CUDA is needed to build llmc.
 */
#ifndef RT_MEASURE_CUDA_H
#define RT_MEASURE_CUDA_H

#include "runtime/error.h"
#include "runtime/measure/measure.h"

typedef uint64_t rt_cu_address; /* CUdeviceptr */

/* CU(library, member, symbol, arguments) */
#define RT_CU_FUNCTIONS(CU) \
	CU(0, init, "cuInit", (unsigned flags)) \
	CU(0, error_string, "cuGetErrorString", (int, const char **)) \
	CU(0, device_count, "cuDeviceGetCount", (int *)) \
	CU(0, device_get, "cuDeviceGet", (int *, int ordinal)) \
	CU(0, device_name, "cuDeviceGetName", (char *, int capacity, int dev)) \
	CU(0, device_memory, "cuDeviceTotalMem_v2", (size_t *, int dev)) \
	CU(0, device_attribute, "cuDeviceGetAttribute", \
	   (int *, int attribute, int dev)) \
	CU(0, context_retain, "cuDevicePrimaryCtxRetain", (void **, int dev)) \
	CU(0, context_release, "cuDevicePrimaryCtxRelease_v2", (int dev)) \
	CU(0, context_set, "cuCtxSetCurrent", (void *)) \
	CU(0, alloc, "cuMemAlloc_v2", (rt_cu_address *, size_t)) \
	CU(0, release, "cuMemFree_v2", (rt_cu_address)) \
	CU(0, to_device, "cuMemcpyHtoD_v2", \
	   (rt_cu_address, const void *, size_t)) \
	CU(0, to_host, "cuMemcpyDtoH_v2", (void *, rt_cu_address, size_t)) \
	CU(0, copy, "cuMemcpyDtoDAsync_v2", \
	   (rt_cu_address to, rt_cu_address from, size_t, void *stream)) \
	CU(0, set, "cuMemsetD32Async", \
	   (rt_cu_address, unsigned value, size_t n, void *stream)) \
	CU(0, stream_create, "cuStreamCreate", (void **, unsigned flags)) \
	CU(0, stream_destroy, "cuStreamDestroy_v2", (void *)) \
	CU(0, stream_wait, "cuStreamSynchronize", (void *)) \
	CU(0, event_create, "cuEventCreate", (void **, unsigned flags)) \
	CU(0, event_destroy, "cuEventDestroy_v2", (void *)) \
	CU(0, event_record, "cuEventRecord", (void *event, void *stream)) \
	CU(0, event_wait, "cuEventSynchronize", (void *)) \
	CU(0, event_elapsed, "cuEventElapsedTime", \
	   (float *ms, void *from, void *to)) \
	CU(0, module_load, "cuModuleLoadData", (void **, const void *)) \
	CU(0, module_unload, "cuModuleUnload", (void *)) \
	CU(0, module_function, "cuModuleGetFunction", \
	   (void **, void *module, const char *name)) \
	CU(0, launch, "cuLaunchKernel", \
	   (void *function, unsigned, unsigned, unsigned, unsigned, \
	    unsigned, unsigned, unsigned shared, void *stream, \
	    void **arguments, void **extra)) \
	CU(1, blas_create, "cublasCreate_v2", (void **)) \
	CU(1, blas_destroy, "cublasDestroy_v2", (void *)) \
	CU(1, blas_stream, "cublasSetStream_v2", (void *, void *stream)) \
	CU(1, gemm, "cublasGemmEx", \
	   (void *, int op_a, int op_b, int m, int n, int k, \
	    const void *alpha, const void *a, int a_type, int lda, \
	    const void *b, int b_type, int ldb, const void *beta, void *c, \
	    int c_type, int ldc, int compute, int algorithm)) \
	CU(2, nccl_init, "ncclCommInitAll", \
	   (void **comms, int n, const int *devices)) \
	CU(2, nccl_destroy, "ncclCommDestroy", (void *)) \
	CU(2, nccl_start, "ncclGroupStart", (void)) \
	CU(2, nccl_end, "ncclGroupEnd", (void)) \
	CU(2, nccl_all_reduce, "ncclAllReduce", \
	   (const void *, void *, size_t n, int type, int op, void *comm, \
	    void *stream)) \
	CU(2, nccl_all_gather, "ncclAllGather", \
	   (const void *, void *, size_t own, int type, void *comm, \
	    void *stream)) \
	CU(2, nccl_reduce_scatter, "ncclReduceScatter", \
	   (const void *, void *, size_t own, int type, int op, void *comm, \
	    void *stream)) \
	CU(2, nccl_send, "ncclSend", \
	   (const void *, size_t n, int type, int peer, void *comm, \
	    void *stream)) \
	CU(2, nccl_recv, "ncclRecv", \
	   (void *, size_t n, int type, int peer, void *comm, void *stream))

enum { RT_CU_CUDA, RT_CU_BLAS, RT_CU_NCCL, RT_CU_LIBRARIES };

struct rt_cu_api {
	void *libraries[RT_CU_LIBRARIES];
#define CU(library, member, symbol, arguments) int (*member) arguments;
	RT_CU_FUNCTIONS(CU)
#undef CU
};

enum { RT_CU_DEVICES = 64 };

struct rt_cuda {
	struct rt_cu_api api;
	int n; /* number of devices */
	int devices[RT_CU_DEVICES];
	void *contexts[RT_CU_DEVICES]; /* primary contexts, retained */
	void *stream, *blas, *module; /* of the first device */
	void *from, *to; /* events of the first device */
	void *empty, *read, *triad; /* kernels */
};

/* ---- measure_cuda_load.c ------------------------------------------- */

/*
 * Loads one library, from the chosen file if that is not NULL; an error names
 * it or the function that is missing.
 */
enum rt_status rt_cu_load(struct rt_cu_api *api, int library,
			  const char *chosen, struct rt_error *err);
void rt_cu_unload(struct rt_cu_api *api);
/* Converts a result to a status; `member`: offset of the function. */
enum rt_status rt_cu_check(const struct rt_cu_api *api, int result,
			   size_t member, struct rt_error *err);

/* CALL(c, alloc, &at, n): a status; the caller has an `err`. */
#define CALL(c, member, ...) \
	CHECK(c, (c)->api.member(__VA_ARGS__), member)
#define CHECK(c, result, member) \
	rt_cu_check(&(c)->api, result, offsetof(struct rt_cu_api, member), err)

/* ---- measure_nccl.c ------------------------------------------------ */

enum rt_status rt_cuda_comm(struct rt_meter *m, const struct rt_coll_shape *x,
			    struct rt_sample *out, struct rt_error *err);

#endif

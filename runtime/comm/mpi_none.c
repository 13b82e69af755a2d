/*
 * mpi_none.c - in mpi.c's place where there was no MPI to build with.
 */
#include "runtime/comm/msg.h"

enum rt_status
rt_mpi_calls_find(const struct rt_msg_calls **out, struct rt_error *err)
{
	*out = NULL;
	return rt_fail(err, RT_RANGE, RT_NOWHERE, "this program was built "
		       "without MPI: --transport tcp needs none, or build "
		       "llmc where mpicc is found");
}

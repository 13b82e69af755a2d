/*
 * Takes the place of mpi.c in a build without MPI.
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

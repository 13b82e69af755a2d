/* The same by MPI_Allreduce; see bench/comm. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/comm-sizes.h"

int
main(int argc, char **argv)
{
	long bytes;
	int rank, ranks, i, r;
	char *x;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	x = malloc(most_bytes());
	memset(x, 0, most_bytes());
	for (bytes = LEAST_BYTES; bytes <= most_bytes(); bytes *= 4) {
		double us[ROUNDS];

		for (r = -1; r < ROUNDS; r++) {
			double start;

			MPI_Barrier(MPI_COMM_WORLD);
			start = MPI_Wtime();
			for (i = 0; i < times(bytes); i++) {
				MPI_Allreduce(MPI_IN_PLACE, x,
					      (int)(bytes / 4), MPI_FLOAT,
					      MPI_SUM, MPI_COMM_WORLD);
			}
			if (r >= 0) {
				us[r] = (MPI_Wtime() - start) * 1e6 /
					times(bytes);
			}
		}
		if (rank == 0) {
			tell("mpi", ranks, bytes, us);
		}
	}
	free(x);
	MPI_Finalize();
	return 0;
}

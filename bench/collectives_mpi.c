/* SPDX-License-Identifier: Apache-2.0 */
/* The MPI peer of collectives_ranks.cc: same sizes, same way to take times, buffers in place.
 *   collectives_mpi allreduce|allgather RUNS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = {8, 1024, 65536, 1 << 20, 16 << 20, 64 << 20};

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return (x > y) - (x < y);
}

static void operate(int gather, char* data, size_t bytes, int ranks) {
  if (gather) {
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, data, (int)(bytes / (size_t)ranks), MPI_BYTE,
                  MPI_COMM_WORLD);
  } else {
    MPI_Allreduce(MPI_IN_PLACE, data, (int)(bytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int gather = argc > 1 && strcmp(argv[1], "allgather") == 0;
  const int runs = argc > 2 ? atoi(argv[2]) : 5;
  char* data = aligned_alloc(4096, 64 << 20);
  double* times = calloc((size_t)runs, sizeof(double));
  memset(data, 0, 64 << 20);
  for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); ++s) {
    int iterations = 3;
    for (int i = -1; i < runs; ++i) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      for (int k = 0; k < iterations; ++k) {
        operate(gather, data, sizes[s], ranks);
      }
      double mine = (MPI_Wtime() - start) / iterations;
      double slowest = 0;
      MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      if (i >= 0) {
        times[i] = slowest * 1e6;
        continue;
      }
      const double wanted = 0.06 / (slowest + 1e-9);
      iterations = wanted < 3 ? 3 : wanted > 20000 ? 20000 : (int)wanted;
      MPI_Bcast(&iterations, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    qsort(times, (size_t)runs, sizeof(double), by_value);
    if (rank == 0) {
      printf("%zu %.3f\n", sizes[s], times[runs / 2]);
      fflush(stdout);
    }
  }
  MPI_Finalize();
  return 0;
}

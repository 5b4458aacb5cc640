/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mpi_default.c - half a round trip of 8 bytes, and the rate of messages of 1 MB one way with 16 under way, between
 * ranks 0 and 1 of an MPI program. All received bytes are compared. Run by mpi_default.sh.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIPS  500
#define SIZE   (1 << 20)
#define WINDOW 16
#define ROUNDS 20

static unsigned char byte_of(int round, int slot, int i)
{
	return (unsigned char)(round * 7 + slot * 31 + i * 13 + (i >> 8));
}

int main(int argc, char **argv)
{
	static unsigned char buf[WINDOW][SIZE];
	MPI_Request requests[WINDOW];
	MPI_Status statuses[WINDOW];
	unsigned char word[8] = { 0 }, ok = 1;
	double start, us, mb = 0;
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	start = MPI_Wtime();
	for (int i = 0; i < TRIPS; i++) {
		memset(word, rank ? 0 : i & 0xff, sizeof(word));
		if (!rank)
			MPI_Send(word, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(word, 8, MPI_BYTE, !rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int j = 0; j < 8; j++)
			ok &= word[j] == (i & 0xff);
		if (rank)
			MPI_Send(word, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
	}
	us = (MPI_Wtime() - start) / TRIPS / 2 * 1e6;
	for (int round = 0; round < ROUNDS; round++) {
		for (int slot = 0; slot < WINDOW; slot++)
			for (int i = 0; i < SIZE; i++)
				buf[slot][i] = rank ? 0 : byte_of(round, slot, i);
		MPI_Barrier(MPI_COMM_WORLD);
		start = MPI_Wtime();
		for (int slot = 0; slot < WINDOW; slot++)
			if (rank)
				MPI_Irecv(buf[slot], SIZE, MPI_BYTE, 0, 2, MPI_COMM_WORLD,
					  &requests[slot]);
			else
				MPI_Isend(buf[slot], SIZE, MPI_BYTE, 1, 2, MPI_COMM_WORLD,
					  &requests[slot]);
		MPI_Waitall(WINDOW, requests, statuses);
		MPI_Barrier(MPI_COMM_WORLD);
		mb += WINDOW * SIZE / 1e6 / (MPI_Wtime() - start) / ROUNDS;
		for (int slot = 0; slot < WINDOW; slot++)
			for (int i = 0; i < SIZE; i++)
				ok &= buf[slot][i] == byte_of(round, slot, i);
	}
	if (!ok) {
		fprintf(stderr, "mpi_default: rank %d: wrong bytes\n", rank);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	if (!rank)
		printf("mpi_default: latency %.1f us, 1 MB messages %.0f MB/s\n", us, mb);
	MPI_Finalize();
	return 0;
}

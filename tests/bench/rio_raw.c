/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rio_raw.c - `rio_raw FROM TO MB`: what DMA of a RapidIO port by itself moves to another port of this machine, by the
 * kernel's rio_mport_cdev: from a contiguous buffer to an inbound window, 1 MB a transfer, four under way. FROM, TO: the
 * kernel's numbers of the ports. Prints MB/s (10^6 bytes). rio-vm measures ffrio against it.
 */
#include <fcntl.h>
#include <linux/rio_mport_cdev.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>

#define CHUNK	   (1u << 20)
#define AT_ONCE	   4u
#define TIMEOUT_MS 60000

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int port_open(const char *number)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/dev/rio_mport%s", number);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		die(path);
	return fd;
}

static uint16_t destid(const char *number)
{
	char path[64];
	unsigned id;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/rapidio_port/rapidio%s/port_destid", number);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%x", &id) != 1)
		die(path);
	fclose(f);
	return (uint16_t)id;
}

/* The transfer's token. */
static uint32_t start(int fd, const struct rio_transfer_io *io)
{
	struct rio_transaction t = { .block = (uintptr_t)io, .count = 1 };
	int token;

	t.transfer_mode = RIO_TRANSFER_MODE_TRANSFER;
	t.sync = RIO_TRANSFER_ASYNC;
	t.dir = RIO_TRANSFER_DIR_WRITE;
	token = ioctl(fd, RIO_TRANSFER, &t);
	if (token < 0)
		die("RIO_TRANSFER");
	return (uint32_t)token;
}

static void wait_for(int fd, uint32_t token)
{
	struct rio_async_tx_wait w = { .token = token, .timeout = TIMEOUT_MS };

	if (ioctl(fd, RIO_WAIT_FOR_ASYNC, &w))
		die("RIO_WAIT_FOR_ASYNC");
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct rio_mmap window = { .rio_addr = RIO_MAP_ANY_ADDR, .length = CHUNK };
	struct rio_dma_mem mem = { .length = CHUNK };
	struct rio_transfer_io io = { .length = CHUNK, .method = RIO_EXCHANGE_NWRITE };
	uint32_t token[AT_ONCE];
	unsigned long count;
	int from, to;
	double t;

	if (argc != 4 || !(count = strtoul(argv[3], NULL, 10))) {
		fprintf(stderr, "usage: rio_raw FROM TO MB\n");
		return 2;
	}
	from = port_open(argv[1]);
	to = port_open(argv[2]);
	io.rioid = destid(argv[2]);
	if (ioctl(to, RIO_MAP_INBOUND, &window))
		die("RIO_MAP_INBOUND");
	if (ioctl(from, RIO_ALLOC_DMA, &mem))
		die("RIO_ALLOC_DMA");
	io.rio_addr = window.rio_addr;
	io.handle = mem.dma_handle;
	t = now();
	for (unsigned long i = 0; i < count + AT_ONCE; i++) {
		if (i >= AT_ONCE && i - AT_ONCE < count)
			wait_for(from, token[i % AT_ONCE]);
		if (i < count)
			token[i % AT_ONCE] = start(from, &io);
	}
	printf("%.3f\n", (double)count * CHUNK / (now() - t) / 1e6);
	return 0;
}

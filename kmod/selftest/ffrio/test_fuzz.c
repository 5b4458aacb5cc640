// SPDX-License-Identifier: GPL-2.0
/*
 * test_fuzz.c - calls with any arguments by several threads on shared files, doorbells with any payload from a
 * node that keeps no rule, and writes of it to wherever the receive buffers are. What is tested is that the
 * kernel stays whole and that nothing is lost; its log says the rest.
 */
#include "rt.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILES	6
#define THREADS 3

static int files[FILES];
static double until;
#define MEMORY (1 << 16)
static char memory[2 * MEMORY]; /* calls begin in the first half, and are for half of it at most */

static uint64_t any(unsigned int *seed)
{
	static const uint64_t odd[] = { 0, 1, 7, 4096, 1 << 15, 1ULL << 32, 1ULL << 40, ~0ULL };

	switch (rand_r(seed) % 4) {
	case 0:
		return odd[rand_r(seed) % (sizeof(odd) / sizeof(odd[0]))];
	case 1:
		return (uintptr_t)memory + rand_r(seed) % MEMORY;
	case 2:
		return rand_r(seed) % 256;
	}
	return (uint64_t)rand_r(seed) << 32 ^ rand_r(seed);
}

/* Mostly a call that may work, with something wrong in it now and then. */
static void one_call(unsigned int *seed)
{
	static const unsigned long calls[] = { FFRIO_BIND,	FFRIO_SEND,	FFRIO_RECV,
					       FFRIO_FLUSH,	FFRIO_ALLOC,	FFRIO_FREE,
					       FFRIO_POST,	FFRIO_REAP,	FFRIO_TAKE,
					       FFRIO_GIVE_BACK, FFRIO_WINDOW,	FFRIO_WINDOW_END,
					       FFRIO_TRANSFER,	FFRIO_GET_STATS };
	unsigned long cmd = calls[rand_r(seed) % 14];
	unsigned int to = mport_id(rand_r(seed) % PORTS), endpoint = 30 + rand_r(seed) % FILES;
	union {
		uint64_t q[32];
		struct ffrio_send send;
		struct ffrio_recv recv;
		struct ffrio_buf buf;
		struct ffrio_post post;
		struct ffrio_window window;
	} a;

	for (int i = 0; i < 32; i++)
		a.q[i] = any(seed);
	if (rand_r(seed) % 8) {
		if (cmd == FFRIO_SEND)
			a.send = (struct ffrio_send){ .address = (uintptr_t)memory,
						      .length = any(seed) % MEMORY,
						      .destid = to,
						      .endpoint = endpoint,
						      .flags = rand_r(seed) %
							       (rand_r(seed) % 4 ? 2 : 16) };
		else if (cmd == FFRIO_RECV)
			a.recv = (struct ffrio_recv){ .address = (uintptr_t)memory,
						      .length = any(seed) % MEMORY };
		else if (cmd == FFRIO_POST)
			a.post = (struct ffrio_post){ .buffer = rand_r(seed) % 33,
						      .length = rand_r(seed) % 40000,
						      .destid = to,
						      .endpoint = endpoint,
						      .flags = rand_r(seed) % 4 };
		else if (cmd == FFRIO_WINDOW)
			a.window = (struct ffrio_window){ .length = PAGE << rand_r(seed) % 4 };
		else if (cmd != FFRIO_TRANSFER && cmd != FFRIO_GET_STATS)
			a.buf = (struct ffrio_buf){ .buffer = rand_r(seed) % 33 };
	}
	if (rand_r(seed) % 16 == 0)
		cmd = _IOC(rand_r(seed) % 4, FFRIO_IOC, rand_r(seed) % 16, rand_r(seed) % 200);
	/* what they may write is this memory's, and not terabytes */
	if (_IOC_NR(cmd) == _IOC_NR(FFRIO_TRANSFER) || _IOC_NR(cmd) == _IOC_NR(FFRIO_RECV))
		a.q[1] %= MEMORY;
	ioctl(files[rand_r(seed) % FILES], cmd, rand_r(seed) % 32 ? (void *)&a : (void *)any(seed));
}

static void *fuzz_calls(void *arg)
{
	unsigned int seed = (uintptr_t)arg;
	unsigned long n = 0;

	for (; check_now() < until; n++) {
		int i = rand_r(&seed) % FILES;
		size_t length = PAGE << rand_r(&seed) % 10;
		void *p;

		one_call(&seed);
		if (n % 64)
			continue;
		p = mmap(NULL, length, rand_r(&seed) % 4, MAP_SHARED, files[i],
			 rand_r(&seed) % 2 ? (off_t)(rand_r(&seed) % 4) << 32 :
					     (off_t)(any(&seed) & ~0xfffULL & ~(1ULL << 63)));
		if (p != MAP_FAILED)
			munmap(p, length);
	}
	return (void *)n;
}

/* A port's own node that says what it likes, by the kernel's rio_mport_cdev. */
static void *fuzz_doorbells(void *arg)
{
	int fd = mport_open(2);
	unsigned int seed = 99;
	unsigned long n = 0;

	(void)arg;
	for (; check_now() < until; n++) {
		uint16_t info = 0x8000 | rand_r(&seed) % 0x8000;

		doorbell(fd, mport_id(rand_r(&seed) % 2), info);
		if (n % 50 == 0)
			usleep(1000);
	}
	close(fd);
	return (void *)n;
}

void test_fuzz(void)
{
	pthread_t thread[THREADS], mad;
	unsigned long calls = 0;
	void *n;

	for (int i = 0; i < FILES; i++)
		files[i] = rt_open(i % 2, 30 + i, O_NONBLOCK);
	until = check_now() + 6;
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, fuzz_calls, (void *)(i + 1)));
	CHECK(!pthread_create(&mad, NULL, fuzz_doorbells, NULL));
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &n);
		calls += (unsigned long)n;
	}
	pthread_join(mad, &n);
	printf("  %lu calls, %lu doorbells\n", calls, (unsigned long)n);
	for (int i = 0; i < FILES; i++)
		close(files[i]);
	/* And it works as before; at another endpoint, for what is under way to those goes on without its file. */
	files[0] = rt_open(0, 50, 0);
	files[1] = rt_open(1, 50, 0);
	for (int i = 0; rio_send(files[0], mport_id(1), 50, memory, 8, FFRIO_SYNC) != 8; i++)
		CHECK(i < 20);
	close(files[1]);
	rt_all_free(files[0]);
	close(files[0]);
}

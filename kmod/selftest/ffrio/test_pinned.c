// SPDX-License-Identifier: GPL-2.0
/*
 * test_pinned.c - messages from the sender's own pages: sizes and alignments in each mode of the module, what
 * follows the data, memory that can't be pinned or read, calls that are interrupted or killed, and memory that
 * changes or goes meanwhile. After each no page is pinned.
 */
#include "rt.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK 32768 /* of the module, by default */

static long long blocks_pinned(int fd)
{
	return rio_stat(fd, 0, "blocks_pinned");
}

static uint8_t *map(size_t n)
{
	uint8_t *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* Which way a call goes: by its flags, then by zero_copy. */
static void ways(int a, int b)
{
	static const struct {
		const char *zero_copy;
		size_t n;
		unsigned int flags, pinned; /* blocks */
	} cases[] = {
		{ "0", 3 * BLOCK, 0, 0 },
		{ "0", 3 * BLOCK, FFRIO_PINNED, 3 },
		{ "65536", 65535, 0, 0 },
		{ "65536", 65536, 0, 2 },
		{ "65536", 65536, FFRIO_COPY, 0 },
		{ "65536", 65536, FFRIO_SYNC, 2 },
		{ "0", 7, FFRIO_PINNED, 0 }, /* not worth it */
		{ "0", 8, FFRIO_PINNED | FFRIO_SYNC, 1 },
		{ "1", 0, 0, 0 },
	};

	char by_default[16];

	rt_parameter_get("zero_copy", by_default, sizeof(by_default));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		long long before = blocks_pinned(a);

		rt_parameter("zero_copy", cases[i].zero_copy);
		rt_send(a, mport_id(1), 14, cases[i].n, i, cases[i].flags);
		rt_expect(b, cases[i].n, i);
		EXPECT(blocks_pinned(a) - before, (long)cases[i].pinned);
		rt_none_pinned();
	}
	rt_parameter("zero_copy", by_default);
}

/* Both ways in one message. */
static void mixed(int a, int b)
{
	const size_t n = 150000;
	uint8_t *p = map(n);

	vt_fill(p, n, 9);
	EXPECT(rio_send(a, mport_id(1), 14, p, 50001, FFRIO_PINNED | FFRIO_MORE), 50001);
	EXPECT(rio_send(a, mport_id(1), 14, p + 50001, 49999, FFRIO_COPY | FFRIO_MORE), 49999);
	EXPECT(rio_send(a, mport_id(1), 14, p + 100000, 50000, FFRIO_PINNED), 50000);
	rt_expect(b, n, 9);
	munmap(p, n);
}

/* What rounding adds to a message is 0, whatever is behind it in its page. */
static void nothing_leaks(int a, const struct ffrio_bind *bb, int b)
{
	const uint8_t *rmb = rio_map_rmb(b, bb);
	uint8_t *p = map(PAGE);
	struct ffrio_take t;

	CHECK(rmb);
	memset(p, 0xee, PAGE);
	for (size_t n = 8; n < 17; n++) {
		const uint8_t *data;

		EXPECT(rio_send(a, mport_id(1), 14, p + n, n, FFRIO_PINNED), (long)n);
		EXPECT(rio_take(b, &t), 0);
		data = rmb + rio_data(bb, t.buffer);
		for (size_t k = 0; k < (n + 7) / 8 * 8; k++)
			CHECK(data[k] == (k < n ? 0xee : 0));
		EXPECT(rio_give_back(b, t.buffer), 0);
	}
	munmap((void *)rmb, bb->rmb_length);
	munmap(p, PAGE);
}

/* Of its own send buffers, which are a device's pages, a program's message is copied. */
static void of_a_device(int a, const struct ffrio_bind *ab, int b)
{
	uint8_t *smb = rio_map_smb(a, ab);
	int buffer = rio_alloc(a);
	long long before = blocks_pinned(a);

	CHECK(smb && buffer >= 0);
	vt_fill(smb + rio_data(ab, buffer), 1000, 5);
	EXPECT(rio_send(a, mport_id(1), 14, smb + rio_data(ab, buffer), 1000, FFRIO_PINNED), 1000);
	rt_expect(b, 1000, 5);
	EXPECT(blocks_pinned(a) - before, 0);
	EXPECT(rio_free(a, buffer), 0);
	munmap(smb, ab->smb_length);
}

static void *drain(void *arg)
{
	static uint8_t p[1 << 16];
	struct rio_from from;
	sigset_t alarm;
	ssize_t n;

	/* it is for who sends */
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	/* a message of one byte ends it */
	do {
		n = rio_recv(*(int *)arg, p, sizeof(p), &from);
		CHECK(n >= 0 || n == -ECONNRESET);
	} while (n != 1 || !from.first || !from.last);
	return NULL;
}

static void drain_end(int a, pthread_t receiver)
{
	EXPECT(rio_send(a, mport_id(1), 14, "", 1, FFRIO_SYNC), 1);
	pthread_join(receiver, NULL);
}

/* Addresses of nothing, of the kernel, that wrap, and of memory that ends in the middle. */
static void unreadable(int a, int b)
{
	const size_t n = 20 * PAGE;
	uint8_t *p = map(2 * n);
	pthread_t receiver;

	CHECK(!pthread_create(&receiver, NULL, drain, &b));
	munmap(p + n, n);
	EXPECT(rio_send(a, mport_id(1), 14, NULL, 100000, FFRIO_PINNED), -EFAULT);
	EXPECT(rio_send(a, mport_id(1), 14, (void *)-4096UL, 100000, FFRIO_PINNED), -EFAULT);
	EXPECT(rio_send(a, mport_id(1), 14, (void *)-8UL, 8, FFRIO_PINNED), -EFAULT);
	EXPECT(rio_send(a, mport_id(1), 14, (void *)(1UL << 63 | 1UL << 62), 1UL << 40,
			FFRIO_PINNED),
	       -EFAULT);
	for (size_t k = 0; k < 12; k++) {
		EXPECT(rio_send(a, mport_id(1), 14, p + n - k * 8191, k * 8191 + 1, FFRIO_PINNED),
		       -EFAULT);
		rt_none_pinned();
	}
	EXPECT(rio_send(a, mport_id(1), 14, p, n, FFRIO_PINNED), (long)n);
	drain_end(a, receiver);
	munmap(p, n);
}

void test_pinned(void)
{
	struct ffrio_bind ab, bb;
	int a = rio_open(0, 14, 0, &ab), b = rio_open(1, 14, 0, &bb);
	uint8_t byte = 1;

	CHECK(a >= 0 && b >= 0 && ab.block == BLOCK);
	EXPECT(rio_send(a, mport_id(1), 14, &byte, 1, FFRIO_PINNED | FFRIO_COPY), -EINVAL);
	EXPECT(rio_send(a, mport_id(1), 14, &byte, 1, 16), -EINVAL);
	for (unsigned int i = 0; i < RT_MODES; i++) {
		long long before = blocks_pinned(a);

		rt_mode(i);
		rt_all_sizes(a, b, mport_id(1), 14, FFRIO_PINNED);
		CHECK(blocks_pinned(a) > before + 50);
		rt_none_pinned();
	}
	rt_mode(0);
	ways(a, b);
	mixed(a, b);
	nothing_leaks(a, &bb, b);
	of_a_device(a, &ab, b);
	unreadable(a, b);
	close(a);
	close(b);
	a = rt_open(0, -1, O_NONBLOCK);
	EXPECT(rio_send(a, mport_id(1), 14, &byte, 1, FFRIO_PINNED), -EINVAL);
	rt_all_free(a);
	close(a);
}

/* ---- calls that end early ------------------------------------------------------------------------ */

static void nothing(int signal)
{
	(void)signal;
}

/* Nobody reads, so a long message comes to a stop; or all of it moves, and is interrupted anywhere. */
static void interrupted(int a, bool read)
{
	const size_t n = 8 << 20;
	uint8_t *p = map(n);
	int b = rt_open(1, 14, 0), hit = 0;
	pthread_t receiver;

	if (read)
		CHECK(!pthread_create(&receiver, NULL, drain, &b));
	for (int i = 0; i < (read ? 60 : 4); i++) {
		/* again and again, for the first may come before the call */
		struct itimerval t = { .it_value.tv_usec = read ? 20 + 100 * i : 100000 + 30000 * i,
				       .it_interval.tv_usec = 50000 };
		long ret;

		rt_mode(i);
		CHECK(!setitimer(ITIMER_REAL, &t, NULL));
		ret = rio_send(a, mport_id(1), 14, p, read ? (size_t)100000 : n, FFRIO_PINNED);
		setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
		hit += ret == -EINTR;
		CHECK(ret == -EINTR || (read && ret == 100000));
		rt_none_pinned();
	}
	rt_mode(0);
	/* what moves may be there before the signal */
	CHECK(read || hit == 4);
	if (read)
		AWAIT(rio_flush(a) == 0);
	if (read)
		drain_end(a, receiver);
	close(b);
	munmap(p, n);
}

static void killed(void)
{
	const size_t n = 8 << 20;
	int b = rt_open(1, 14, 0);

	for (int i = 0; i < 4; i++) {
		pid_t child = fork();

		CHECK(child >= 0);
		if (!child) {
			int a = rio_open(0, -1, 0, NULL);

			rio_send(a, mport_id(1), 14, map(n), n, FFRIO_PINNED);
			_exit(1);
		}
		usleep(50000 + 20000 * i);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		rt_none_pinned();
	}
	close(b);
}

/* The receiver closes, or its node is not to be reached, in the middle. */
static void *send_long(void *arg)
{
	const size_t n = 8 << 20;
	uint8_t *p = map(n);
	long ret = rio_send(*(int *)arg, mport_id(1), 14, p, n, FFRIO_PINNED);

	munmap(p, n);
	return (void *)ret;
}

static void deserted(int a, bool cut)
{
	int b = rt_open(1, 14, 0);
	pthread_t sender;
	void *ret;

	CHECK(!pthread_create(&sender, NULL, send_long, &a));
	usleep(100000);
	if (cut)
		EXPECT(mport_set(1, "link", "0"), 0);
	else
		close(b);
	pthread_join(sender, &ret);
	CHECK((long)ret == -EHOSTUNREACH || (long)ret == -ECONNREFUSED ||
	      (long)ret == -ECONNABORTED || (long)ret == -ETIMEDOUT);
	rt_none_pinned();
	if (cut) {
		EXPECT(mport_set(1, "link", "1"), 0);
		close(b);
	}
}

void test_ends(void)
{
	struct sigaction action = { .sa_handler = nothing }, before;
	int a = rt_open(0, -1, 0);

	sigaction(SIGALRM, &action, &before);
	interrupted(a, false);
	interrupted(a, true);
	sigaction(SIGALRM, &before, NULL);
	killed();
	deserted(a, false);
	deserted(a, true);
	rt_all_free(a);
	close(a);
}

/* ---- memory that changes ------------------------------------------------------------------------- */

#define CHANGING (64 * PAGE)
static uint8_t *changing;
static atomic_bool stop;

/* Writes, empties, takes away and puts back pages that are being sent. */
static void *change(void *arg)
{
	unsigned int seed = 1;

	(void)arg;
	while (!stop) {
		uint8_t *p = changing + rand_r(&seed) % 64 * PAGE;

		switch (rand_r(&seed) % 4) {
		case 0:
			madvise(p, PAGE, MADV_DONTNEED);
			break;
		case 1:
			munmap(p, PAGE);
			usleep(100);
			CHECK(mmap(p, PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
			break;
		default:
			memset(p, rand_r(&seed), PAGE);
		}
	}
	return NULL;
}

/* Some messages fail, of which nothing else suffers; another pair's arrive as they are meanwhile. */
void test_changes(void)
{
	int a = rt_open(0, -1, 0), b = rt_open(1, 14, 0), c = rt_open(0, 15, 0),
	    d = rt_open(1, 15, 0), sent = 0, failed = 0;
	pthread_t receiver, changer;
	unsigned int seed = 2;

	changing = map(CHANGING);
	CHECK(!pthread_create(&receiver, NULL, drain, &b));
	CHECK(!pthread_create(&changer, NULL, change, NULL));
	for (int i = 0; i < 150; i++) {
		size_t n = 2 + rand_r(&seed) % (CHANGING / 2), at = rand_r(&seed) % (CHANGING / 2);
		long ret = rio_send(a, mport_id(1), 14, changing + at, n, FFRIO_PINNED);

		CHECK(ret == (long)n || ret == -EIO || ret == -EFAULT || ret == -ECONNABORTED);
		*(ret < 0 ? &failed : &sent) += 1;
		if (i % 8)
			continue;
		rt_send(c, mport_id(1), 15, 70000, i, FFRIO_PINNED);
		rt_expect(d, 70000, i);
	}
	stop = true;
	pthread_join(changer, NULL);
	printf("  %d sent, %d failed\n", sent, failed);
	CHECK(sent > 10);
	drain_end(a, receiver);
	munmap(changing, CHANGING);
	close(b);
	close(c);
	close(d);
	rt_all_free(a);
	close(a);
}

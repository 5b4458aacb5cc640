/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/cmt.c tests/rig/verbs/rst.c -lrdmacm -lpthread */
/*
 * rs_router.c - what rsockets say when the router dies under them: listeners, which have no connection to lose.
 * rs_router.sh, which starts this, kills the router when "ready" is printed. Streams: verbs_router.c has their queue pairs.
 */
#include "tests/rig/verbs/rst.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static atomic_uint set_up; /* threads that are about to wait */

static uint64_t cpu_ns(void)
{
	struct rusage ru;

	CHECK_OK(getrusage(RUSAGE_SELF, &ru));
	return (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000000u +
	       (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) * 1000u;
}

/* Sleeps in raccept(). Later calls fail as well. */
static void *accepts(void *arg)
{
	struct sockaddr_in addr;
	int fd = rst_listener(&addr, 1);

	set_up++;
	for (int i = 0; i < 2; i++)
		CHECK_IS(raccept(fd, NULL, NULL), ENODEV);
	CHECK_OK(rclose(fd));
	return arg;
}

static void *polls(void *arg)
{
	struct sockaddr_in addr;
	int fd = rst_listener(&addr, 1);
	struct pollfd p = { .fd = fd, .events = POLLIN };

	set_up++;
	CHECK_EQ(rpoll(&p, 1, -1), 1);
	CHECK_EQ(p.revents, POLLIN | POLLERR | POLLHUP);
	CHECK_IS(raccept(fd, NULL, NULL), ENODEV);
	CHECK_OK(rclose(fd));
	return arg;
}

/* Looks now and then. */
static void *looks(void *arg)
{
	struct sockaddr_in addr;
	int fd = rst_listener(&addr, 1);

	rst_nonblocking(fd);
	set_up++;
	while (raccept(fd, NULL, NULL) < 0 && errno == EAGAIN)
		usleep(10000);
	CHECK_EQ(errno, ENODEV);
	CHECK_OK(rclose(fd));
	return arg;
}

/* An rsocket that does not listen has no events, and a wait for events takes no CPU time. */
static void waits(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t before = cpu_ns();

	CHECK_EQ(rpoll(&p, 1, 2000), 0);
	if (cpu_ns() - before > 1000000000u)
		FAIL("%llu ms of CPU in 2 s of waiting",
		     (unsigned long long)(cpu_ns() - before) / 1000000);
	CHECK_OK(rclose(fd));
}

static void listeners(void)
{
	void *(*const all[])(void *) = { accepts, polls, looks };
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	pthread_t t[ARRAY_SIZE(all)];

	CHECK(fd >= 0);
	for (unsigned i = 0; i < ARRAY_SIZE(all); i++)
		CHECK_EQ(pthread_create(&t[i], NULL, all[i], NULL), 0);
	while (set_up < ARRAY_SIZE(all))
		usleep(1000);
	printf("ready\n");
	fflush(stdout);
	for (unsigned i = 0; i < ARRAY_SIZE(all); i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	waits(fd);
}

VT_MAIN({ "listeners", listeners, 60 })

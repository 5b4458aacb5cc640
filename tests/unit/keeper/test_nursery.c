/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* test_nursery.c - the process that has mapped what routers can map once only, and makes routers. */
#include <pthread.h>
#include <string.h>

#include "tests/rig/unit/unit.h"
#include "ffr/keeper/nursery.c"

#define SIZE 8192

static void *serves(void *arg)
{
	while (!nursery_serve(*(int *)arg))
		;
	return NULL;
}

static int memory(int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* Nobody serves the router's requests: it waits no longer than a moment, and asks no more when they fill the socket. */
static void a_nursery_that_hangs(void **state)
{
	int pair[2], fd = memory(SEALS);

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	own = pair[0];
	assert_int_equal(nursery_hold(fd), -ETIMEDOUT);
	/* what comes late is no answer to the next one */
	assert_int_equal(nursery_serve(pair[1]), 0);
	assert_int_equal(nursery_serve(pair[1]), 0); /* it has let it go */
	assert_int_equal(nursery_hold(fd), -ETIMEDOUT);
	for (unsigned i = 0; own >= 0 && i < 100000; i++)
		nursery_let_go(fd);
	assert_int_equal(own, -1);
	assert_int_equal(nursery_hold(fd), -ENOENT);
	close(pair[1]);
	close(fd);
}

static void it_maps_memory_and_nothing_else(void **state)
{
	int pair[2], p[2], fd = memory(SEALS), zero = open("/dev/zero", O_RDWR), soft = memory(0);
	pthread_t t;
	uint8_t *at;

	(void)state;
	assert_int_equal(nursery_hold(fd), -ENOENT); /* there is none */
	nursery_let_go(fd);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(pipe(p), 0);
	assert_int_equal(pthread_create(&t, NULL, serves, &pair[1]), 0);
	own = pair[0];
	assert_int_equal(nursery_hold(p[1]), -EINVAL);
	assert_int_equal(nursery_hold(zero), -EINVAL);
	assert_int_equal(nursery_hold(soft), -EINVAL); /* it could be cut off */
	assert_int_equal(nursery_hold(fd), 0);
	assert_int_equal(nursery_hold(fd), -EEXIST);
	/* as a client does: from now on nobody maps it */
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
	assert_null(nursery_take(soft, SIZE));
	assert_null(nursery_take(fd, SIZE / 2));
	at = nursery_take(fd, SIZE);
	assert_non_null(at);
	at[SIZE - 1] = 1;
	assert_null(nursery_take(fd, SIZE)); /* once */
	munmap(at, SIZE);
	close(fd);
	fd = memory(SEALS);
	assert_int_equal(nursery_hold(fd), 0);
	nursery_let_go(fd);
	assert_int_equal(nursery_hold(fd), 0);
	own = -1;
	close(pair[0]);
	pthread_join(t, NULL); /* here both sides have one table */
	nursery_take_no_more();
	assert_null(nursery_take(fd, SIZE));
	close(pair[1]);
	close(fd);
	close(soft);
	close(zero);
	close(p[0]);
	close(p[1]);
}

/* A router: tells by `conf` who its parent is, and what it finds in the memory; then leaves something there. */
static void router(int conf, int fd)
{
	struct {
		int32_t parent;
		uint8_t found;
	} tell = { .parent = getppid() };
	uint8_t *at = nursery_take(fd, SIZE);

	if (at)
		tell.found = at[0]++;
	else if (!nursery_hold(fd))
		tell.found = 0xff;
	(void)!write(conf, &tell, sizeof(tell));
	_exit(0);
}

static void ask(int nursery, uint8_t *found)
{
	struct {
		int32_t parent;
		uint8_t found;
	} tell = { 0 };
	int pair[2], status;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	pid = nursery_router(nursery, pair[1]);
	assert_true(pid > 0);
	assert_int_equal(read(pair[0], &tell, sizeof(tell)), sizeof(tell));
	assert_int_equal(tell.parent, getpid());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	*found = tell.found;
	close(pair[0]);
	close(pair[1]);
}

/* The second router and the third find the memory, though nobody can map it any more. */
static void routers_are_forks_of_it(void **state)
{
	int pair[2], fd = memory(SEALS), conf;
	uint8_t found;
	pid_t pid;

	(void)state;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	if (!pid) {
		close(pair[0]);
		conf = nursery_run(pair[1]);
		router(conf, fd);
	}
	close(pair[1]);
	ask(pair[0], &found);
	assert_int_equal(found, 0xff);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
	ask(pair[0], &found);
	assert_int_equal(found, 0);
	ask(pair[0], &found);
	assert_int_equal(found, 1);
	close(pair[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(fd);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(it_maps_memory_and_nothing_else),
			cmocka_unit_test(a_nursery_that_hangs),
			cmocka_unit_test(routers_are_forks_of_it));
}

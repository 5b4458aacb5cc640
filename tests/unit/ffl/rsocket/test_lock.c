/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_lock.c - ffl/rsocket/lock.c: whose the lock is, how often it was taken, and who is woken.
 *
 * threads: yes
 * build: ffl/rsocket/lock.c
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/rig/unit/asleep.h"
#include "tests/rig/unit/unit.h"
#include "ffl/rsocket/rsocket.h"

#define SLEEPERS 3
#define WAIT_US	 1000u
#define TRIES	 10000u /* of WAIT_US: 10 s */

static struct rs_lock lock;

static void *try_lock(void *arg)
{
	bool *got = arg;

	*got = rs_trylock(&lock);
	if (*got)
		rs_unlock(&lock);
	return NULL;
}

/* Does another thread get the lock now? */
static bool is_free(void)
{
	bool got = false;
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, try_lock, &got), 0);
	pthread_join(t, NULL);
	return got;
}

static void depth(void **state)
{
	(void)state;
	assert_true(is_free());
	rs_lock(&lock);
	assert_true(rs_trylock(&lock));
	rs_lock(&lock);
	rs_unlock(&lock);
	rs_unlock(&lock);
	assert_false(is_free()); /* it was taken three times */
	rs_unlock(&lock);
	assert_true(is_free());
}

static _Atomic bool held, let_go;

static void *hold(void *arg)
{
	(void)arg;
	rs_lock(&lock);
	atomic_store(&held, true);
	while (!atomic_load(&let_go))
		usleep(WAIT_US);
	rs_unlock(&lock);
	return NULL;
}

/* A thread that had the lock once has no more right to it than others. */
static void former_owner(void **state)
{
	pthread_t t;

	(void)state;
	rs_lock(&lock);
	rs_unlock(&lock);
	assert_int_equal(pthread_create(&t, NULL, hold, NULL), 0);
	while (!atomic_load(&held))
		usleep(WAIT_US);
	assert_false(rs_trylock(&lock));
	atomic_store(&let_go, true);
	pthread_join(t, NULL);
	assert_true(rs_trylock(&lock));
	rs_unlock(&lock);
}

static _Atomic int tids[SLEEPERS];
static _Atomic unsigned had;

static void *sleep_for_lock(void *arg)
{
	atomic_store((_Atomic int *)arg, (int)syscall(SYS_gettid));
	rs_lock(&lock);
	atomic_fetch_add(&had, 1);
	rs_unlock(&lock);
	return NULL;
}

/* Each of several threads that sleep for the lock gets it, although one release wakes one thread. */
static void all_sleepers_are_woken(void **state)
{
	pthread_t t[SLEEPERS];
	unsigned tries = TRIES * unit_slow();

	(void)state;
	rs_lock(&lock);
	for (int i = 0; i < SLEEPERS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, sleep_for_lock, &tids[i]), 0);
	for (int i = 0; i < SLEEPERS; i++)
		while (!atomic_load(&tids[i]) || !is_asleep(atomic_load(&tids[i])))
			usleep(WAIT_US);
	rs_unlock(&lock);
	while (atomic_load(&had) < SLEEPERS && --tries)
		usleep(WAIT_US);
	assert_int_equal(atomic_load(&had), SLEEPERS);
	for (int i = 0; i < SLEEPERS; i++)
		pthread_join(t[i], NULL);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(depth), cmocka_unit_test(former_owner),
			cmocka_unit_test(all_sleepers_are_woken));
}

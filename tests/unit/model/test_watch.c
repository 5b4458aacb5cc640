/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/model/c11.c */
/*
 * test_watch.c - ffr/fast/watch.h in all orders that C11 allows: no runner is in a call, and no worker wanted, while the
 * watcher sleeps.
 */
#include <string.h>

#include "tests/rig/model/c11_atomics.h"
#include "ffr/fast/watch.h"
#include "tests/rig/unit/unit.h"

static struct pvm p;

static void reset(void)
{
	memset(&p, 0, sizeof(p));
	p.armed = 1;
	c11_word(&p.armed, 4);
	c11_word(&p.call_seq, 4);
	c11_word(&p.hire, 4);
}

/* It sleeps while `armed` is 0. */
static void watcher(void)
{
	uint32_t seq = atomic_load_explicit(&p.call_seq, memory_order_acquire);

	if (!(seq & 1) && atomic_load(&p.hire) != HIRE_WANTED)
		watch_disarm(&p, seq);
	c11_take(&p.armed);
}

static void call(void)
{
	watch_call(&p);
}

static void want_worker(void)
{
	uint32_t nobody = HIRE_NONE;

	if (atomic_compare_exchange_strong(&p.hire, &nobody, HIRE_WANTED))
		watch_arm(&p);
}

/* In the order in which they were: the watcher is looked at first. */
static void look_and_call(void)
{
	watch_arm(&p);
	atomic_fetch_add(&p.call_seq, 1);
}

static void disarm_and_sleep(void)
{
	if (!(atomic_load(&p.call_seq) & 1))
		atomic_store(&p.armed, 0);
	c11_take(&p.armed);
}

static const char *is_awake(void)
{
	return c11_ended(0) ? NULL : "the watcher sleeps";
}

static const char *explore(void (*watch)(void), void (*run)(void))
{
	const struct c11_program program = { .thread = { watch, run },
					     .reset = reset,
					     .check = is_awake };

	return c11_explore(&program).wrong;
}

static void nobody_is_left(void **state)
{
	(void)state;
	assert_null(explore(watcher, call));
	assert_null(explore(watcher, want_worker));
}

static void what_is_left_out_is_found(void **state)
{
	(void)state;
	assert_non_null(explore(watcher, look_and_call));
	assert_non_null(explore(disarm_and_sleep, call));
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(nobody_is_left),
			cmocka_unit_test(what_is_left_out_is_found));
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/fakes/fake_backend.c */
/*
 * test_carrier.c - the carriers of a thread: in which order they are opened and closed, what is closed when one cannot be
 * opened, and whose answer counts when all are asked.
 */
#include "tests/rig/unit/unit.h"

#include <errno.h>

#include "ffr/fast/backend.h"
#include "ffr/fast/fast.h"
#include "tests/rig/fakes/fake_backend.h"

static char said[64]; /* what was called, a letter each */
static int open_err, first_says;

static void say(char c)
{
	size_t n = strlen(said);

	assert_true(n + 1 < sizeof(said));
	said[n] = c;
	said[n + 1] = '\0';
}

static int open_a(struct fast *f, const void *conf)
{
	assert_non_null(f->be->priv); /* the device is there */
	assert_string_equal(conf, "a");
	say('a');
	return 0;
}

static int open_b(struct fast *f, const void *conf)
{
	(void)f;
	assert_string_equal(conf, "b");
	say('b');
	return open_err;
}

static void close_a(struct fast *f)
{
	assert_non_null(f->be->priv);
	say('A');
}

static void close_b(struct fast *f)
{
	(void)f;
	say('B');
}

static bool ready_a(struct fast *f, void *what, uint32_t events)
{
	(void)f, (void)what;
	assert_int_equal(events, 5);
	say('r');
	return first_says;
}

static bool ready_b(struct fast *f, void *what, uint32_t events)
{
	(void)f, (void)what, (void)events;
	say('R');
	return false;
}

static uint32_t poll_a(struct fast *f)
{
	(void)f;
	return 3;
}

static uint32_t poll_b(struct fast *f)
{
	(void)f;
	return 4;
}

static const struct carrier a = {
	.open = open_a, .close = close_a, .ready = ready_a, .poll = poll_a
};
static const struct carrier none = { .name = "it has nothing to do" };
static const struct carrier b = {
	.open = open_b, .close = close_b, .ready = ready_b, .poll = poll_b
};
static const struct carrier_use list[] = { { &a, "a" }, { &none, NULL }, { &b, "b" }, { 0 } };

static struct backend_ops ops;

static int open_device(struct backend *be)
{
	be->priv = be;
	return 0;
}

static int setup(void **state)
{
	(void)state;
	ops = fake_ops;
	ops.open = open_device;
	said[0] = '\0';
	open_err = first_says = 0;
	return 0;
}

static void opened_and_closed(void **state)
{
	struct fast_conf conf = FAST_CONF_DEFAULT;
	struct backend be = { .ops = &ops, .carriers = list };
	struct fast_host *h = fast_create(&conf, &be);

	(void)state;
	assert_non_null(h);
	assert_int_equal(fast_add_thread(h, &conf), 0); /* has the same ones */
	fast_free(h);
	assert_string_equal(said, "ababBABA");
}

static void one_cannot_be_opened(void **state)
{
	struct fast_conf conf = FAST_CONF_DEFAULT;
	struct backend be = { .ops = &ops, .carriers = list };

	(void)state;
	open_err = -ENODEV;
	errno = 0;
	assert_null(fast_create(&conf, &be));
	assert_int_equal(errno, ENODEV);
	assert_string_equal(said, "abA"); /* b was not open */
}

static void whose_answer_counts(void **state)
{
	struct fast_conf conf = FAST_CONF_DEFAULT;
	struct backend be = { .ops = &ops, .carriers = list };
	struct fast_host *h = fast_create(&conf, &be);
	struct fast *f = h->threads[0];

	(void)state;
	said[0] = '\0';
	assert_false(CARRIERS_FIRST(ready, f, NULL, 5));
	assert_string_equal(said, "rR");
	first_says = 1;
	assert_true(CARRIERS_FIRST(ready, f, NULL, 5));
	assert_string_equal(said, "rRr"); /* b is not asked */
	assert_int_equal(CARRIERS_SUM(poll, f), 7);
	assert_false(carriers_make_objects(f));
	assert_null(carriers_ucma(f));
	fast_free(h);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	return UNIT_RUN(TEST(opened_and_closed), TEST(one_cannot_be_opened),
			TEST(whose_answer_counts));
}

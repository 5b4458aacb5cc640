/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_topic.c - who watches a key is called once for each news of it, whoever comes and goes meanwhile.
 */
#include <string.h>

#include "tests/rig/unit/unit.h"
#include "ffo/store/topic.h"

#define WATCHES 5

struct watch {
	struct store_watch w;
	unsigned calls;
	void (*then)(struct watch *me); /* what it does when it is called */
};

static struct topics topics;
static struct watch watch[WATCHES];
static unsigned unused;
static struct store_key unused_key;

static void on_unused(struct topics *ts, struct topic *t)
{
	assert_ptr_equal(ts, &topics);
	assert_true(LIST_EMPTY(&t->watches));
	unused++;
	unused_key = t->key;
}

static const struct store_news *told;

static void called(void *arg, const struct store_news *news)
{
	struct watch *w = arg;

	w->calls++;
	told = news;
	if (w->then)
		w->then(w);
}

static struct store_key key_of(uint32_t id)
{
	struct store_key key;

	memset(&key, 0, sizeof(key));
	key.kind = STORE_ID;
	key.id = id;
	return key;
}

static int setup(void **state)
{
	(void)state;
	topics = (struct topics){ .unused = on_unused };
	unused = 0;
	memset(watch, 0, sizeof(watch));
	for (uint32_t i = 0; i < WATCHES; i++)
		watch[i].w = (struct store_watch){ .cb = called, .arg = &watch[i] };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < WATCHES; i++)
		topic_leave(&topics, &watch[i].w);
	assert_null(topics.table);
	return 0;
}

static struct topic *join(int i, uint32_t id)
{
	struct topic *t;

	watch[i].w.key = key_of(id);
	t = topic_join(&topics, &watch[i].w);
	assert_non_null(t);
	assert_ptr_equal(watch[i].w.topic, t);
	return t;
}

static void deliver(struct topic *t)
{
	struct store_news news = { 0 };

	told = NULL;
	topic_deliver(&topics, t, &news);
	assert_ptr_equal(told, &news);
}

/* How often each was called. */
static void calls(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e)
{
	unsigned want[WATCHES] = { a, b, c, d, e };

	for (int i = 0; i < WATCHES; i++)
		assert_int_equal(watch[i].calls, want[i]);
}

static void one_topic_for_each_key(void **state)
{
	struct store_key key = key_of(1);
	struct topic *one, *two;

	(void)state;
	assert_null(topic_find(&topics, &key));
	one = join(0, 1);
	assert_null(one->priv);
	two = join(1, 2);
	assert_ptr_not_equal(one, two);
	assert_ptr_equal(join(2, 1), one);
	assert_ptr_equal(topic_find(&topics, &key), one);
	key.kind = STORE_LID;
	assert_null(topic_find(&topics, &key));
	deliver(one);
	calls(1, 0, 1, 0, 0);
	deliver(two);
	calls(1, 1, 1, 0, 0);
}

static void the_last_one_ends_it(void **state)
{
	struct store_key key = key_of(7);

	(void)state;
	join(0, 7);
	join(1, 7);
	topic_leave(&topics, &watch[0].w);
	assert_null(watch[0].w.topic);
	assert_int_equal(unused, 0);
	topic_leave(&topics, &watch[0].w); /* it is in none */
	assert_int_equal(unused, 0);
	topic_leave(&topics, &watch[1].w);
	assert_int_equal(unused, 1);
	assert_int_equal(unused_key.id, 7);
	assert_null(topic_find(&topics, &key));
	topics.unused = NULL; /* nobody wants to know */
	join(0, 7);
	topic_leave(&topics, &watch[0].w);
	assert_null(topic_find(&topics, &key));
}

static void leave_me(struct watch *me)
{
	topic_leave(&topics, &me->w);
}

/* Those that are not called yet, too. */
static void leave_all(struct watch *me)
{
	(void)me;
	for (int i = 0; i < WATCHES; i++)
		topic_leave(&topics, &watch[i].w);
}

static void join_fourth(struct watch *me)
{
	(void)me;
	if (!watch[4].w.topic)
		join(4, 1);
}

static void leaving_meanwhile(void **state)
{
	struct topic *t;

	(void)state;
	for (int i = 0; i < 4; i++) {
		t = join(i, 1);
		watch[i].then = leave_me;
	}
	watch[2].then = NULL;
	deliver(t);
	calls(1, 1, 1, 1, 0);
	deliver(t);
	calls(1, 1, 2, 1, 0);
	assert_int_equal(unused, 0);
	watch[2].then = leave_me;
	deliver(t); /* it ends behind the call, not within */
	calls(1, 1, 3, 1, 0);
	assert_int_equal(unused, 1);
}

static void all_leave_at_the_first(void **state)
{
	unsigned sum = 0;
	struct topic *t = NULL;

	(void)state;
	for (int i = 0; i < 4; i++) {
		t = join(i, 1);
		watch[i].then = leave_all;
	}
	deliver(t);
	for (int i = 0; i < 4; i++)
		sum += watch[i].calls;
	assert_int_equal(sum, 1);
	assert_int_equal(unused, 1);
}

/* One that comes while others are called has the next news. */
static void joining_meanwhile(void **state)
{
	struct topic *t;

	(void)state;
	join(0, 1);
	t = join(1, 1);
	watch[0].then = watch[1].then = join_fourth;
	deliver(t);
	calls(1, 1, 0, 0, 0);
	deliver(t);
	calls(2, 2, 0, 0, 1);
}

static struct topic *inner;

static void deliver_within(struct watch *me)
{
	me->then = leave_me;
	deliver(inner);
}

/* A delivery within a delivery: the topic lives until the outer one ends. */
static void within(void **state)
{
	(void)state;
	inner = join(0, 1);
	watch[0].then = deliver_within;
	topic_deliver(&topics, inner, &(struct store_news){ 0 });
	calls(2, 0, 0, 0, 0);
	assert_int_equal(unused, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	return UNIT_RUN(TEST(one_topic_for_each_key), TEST(the_last_one_ends_it),
			TEST(leaving_meanwhile), TEST(all_leave_at_the_first),
			TEST(joining_meanwhile), TEST(within));
}

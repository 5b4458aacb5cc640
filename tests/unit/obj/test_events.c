/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* test_events.c - the ring of events: numbers, what is kept, and what one container can cause. */
#include "tests/rig/unit/unit.h"

#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ffr/obj/events.c"

static time_t later; /* s that the clock is ahead */

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int rc = (int)syscall(SYS_clock_gettime, id, ts);

	ts->tv_sec += later;
	return rc;
}

static unsigned told;

static void on_event(void *arg)
{
	assert_ptr_equal(arg, &told);
	told++;
}

static const char *text_of(uint64_t number)
{
	const struct event *e = event_get(number);

	assert_non_null(e);
	assert_int_equal(e->number, number);
	return e->text;
}

static void the_last_ones_are_kept(void **state)
{
	struct container c = { .name = "web" };
	uint64_t first = event_next();

	(void)state;
	told = 0;
	event_listen(on_event, &told);
	event_add(EVENT_ATTACHED, &c, "tenant %s", "red");
	assert_int_equal(told, 1);
	assert_string_equal(text_of(first), "tenant red");
	assert_string_equal(event_get(first)->container, "web");
	assert_true(event_get(first)->at > 1600000000000);
	assert_null(event_get(first + 1));
	for (unsigned i = 1; i <= EVENTS_KEPT; i++)
		event_add(EVENT_CONNECTED, NULL, "%u", i);
	assert_null(event_get(first));
	assert_int_equal(event_oldest(), first + 1);
	assert_string_equal(text_of(first + 1), "1");
	assert_string_equal(text_of(event_next() - 1), "1024");
	assert_string_equal(event_get(first + 1)->container, "");
	event_listen(NULL, NULL);
}

static void text_is_one_line(void **state)
{
	char longer[300];

	(void)state;
	event_add(EVENT_CLOSED, NULL, "a\nb\033[2J\xc3\xa9");
	assert_string_equal(text_of(event_next() - 1), "a?b?[2J??");
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	event_add(EVENT_CLOSED, NULL, "%s", longer);
	assert_int_equal(strlen(text_of(event_next() - 1)), sizeof(ring[0].text) - 1);
}

static void one_container_fills_nothing(void **state)
{
	struct container c = { .name = "web" }, other = { .name = "db" };
	uint64_t first = event_next();

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		event_add_client(EVENT_OPENED, &c, "%u", i);
	assert_int_equal(event_next() - first, LOG_BURST);
	event_add_client(EVENT_OPENED, &other, "another's");
	assert_string_equal(text_of(event_next() - 1), "another's");
	later += LOG_WINDOW;
	event_add_client(EVENT_OPENED, &c, "later");
	assert_string_equal(text_of(event_next() - 1),
			    "later; 990 events of its programs were left out before");
	event_add_client(EVENT_OPENED, &c, "once more");
	assert_string_equal(text_of(event_next() - 1), "once more");
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(the_last_ones_are_kept),
			cmocka_unit_test(text_is_one_line),
			cmocka_unit_test(one_container_fills_nothing));
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_events.c - the admin socket's connections that follow events: what they are sent, and one
 * that does not read.
 */
#include "tests/rig/unit/unit.h"

#include <signal.h>

#include "ffr/admin/socket.c"

/* Events: more than the ring, one write, and the socket hold together. */
#define FLOOD 100000u

static uv_loop_t loop;
static struct ctl ctl;
static struct admin *admin;
static char path[64];

static int start(void **state)
{
	struct admin_conf conf = { .ctl = &ctl, .socket = path, .host = "h0" };

	(void)state;
	signal(SIGPIPE, SIG_IGN); /* as ffr does */
	snprintf(path, sizeof(path), "/tmp/test_events.%d", (int)getpid());
	uv_loop_init(&loop);
	ctl.loop = &loop;
	return admin_start(&admin, &conf);
}

static int stop(void **state)
{
	(void)state;
	admin_stop(admin);
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop);
}

struct reader {
	int fd;
	char text[1 << 20];
	size_t len;
};

static struct reader *reader_open(const char *request)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct reader *r = calloc(1, sizeof(*r));

	r->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	assert_int_equal(connect(r->fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(write(r->fd, request, strlen(request)), strlen(request));
	return r;
}

static void reader_close(struct reader *r)
{
	close(r->fd);
	free(r);
}

static void turns(unsigned n)
{
	while (n--)
		uv_run(&loop, UV_RUN_NOWAIT);
}

/* The next line that comes. */
static json_t *line(struct reader *r)
{
	char *end;
	json_t *j;
	ssize_t n;

	for (unsigned turn = 0; !(end = memchr(r->text, '\n', r->len)); turn++) {
		assert_true(turn < 100000);
		uv_run(&loop, UV_RUN_NOWAIT);
		n = read(r->fd, r->text + r->len, sizeof(r->text) - r->len);
		assert_int_not_equal(n, 0);
		r->len += n > 0 ? (size_t)n : 0;
	}
	j = json_loadb(r->text, (size_t)(end - r->text), 0, NULL);
	assert_true(json_is_object(j));
	r->len -= (size_t)(end + 1 - r->text);
	memmove(r->text, end + 1, r->len);
	return j;
}

static json_int_t number_in(json_t *j, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(j, key));

	json_decref(j);
	return n;
}

static void expect_text(json_t *j, const char *text)
{
	assert_string_equal(json_string_value(json_object_get(j, "text")), text);
	json_decref(j);
}

static void the_last_ones(void **state)
{
	struct reader *r;
	json_t *j, *list;

	(void)state;
	event_add(EVENT_CONNECTED, NULL, "one");
	event_add(EVENT_DISCONNECTED, NULL, "two");
	r = reader_open("{\"op\":\"events\",\"count\":1}\n{\"op\":\"events\",\"count\":5000}\n"
			"{\"op\":\"events\",\"count\":-1}\n");
	j = line(r);
	list = json_object_get(j, "events");
	assert_int_equal(json_array_size(list), 1);
	expect_text(json_incref(json_array_get(list, 0)), "two");
	json_decref(j);
	j = line(r);
	assert_true(json_array_size(json_object_get(j, "events")) >= 2);
	json_decref(j);
	j = line(r);
	assert_true(json_is_false(json_object_get(j, "ok")));
	json_decref(j);
	reader_close(r);
	turns(3);
}

static void who_follows_is_told(void **state)
{
	struct reader *r = reader_open("{\"op\":\"events\",\"count\":0,\"follow\":true}\n"),
		      *other = reader_open("{\"op\":\"events\",\"count\":0,\"follow\":true}\n");

	(void)state;
	json_decref(line(r));
	json_decref(line(other));
	for (unsigned i = 0; i < 200; i++) /* more than are written at once */
		event_add(EVENT_CONNECTED, NULL, "%u", i);
	expect_text(line(r), "0");
	for (unsigned i = 1; i < 199; i++)
		json_decref(line(r));
	expect_text(line(r), "199");
	expect_text(line(other), "0");
	reader_close(other);
	event_add(EVENT_CONNECTED, NULL, "last");
	expect_text(line(r), "last");
	/* what it sends is no request any more */
	assert_int_equal(write(r->fd, "{\"op\":\"version\"}\n", 17), 17);
	turns(3);
	event_add(EVENT_CONNECTED, NULL, "after that");
	expect_text(line(r), "after that");
	reader_close(r);
	turns(3);
	event_add(EVENT_CONNECTED, NULL, "nobody listens");
}

static void one_that_does_not_read(void **state)
{
	struct reader *slow = reader_open("{\"op\":\"events\",\"count\":0,\"follow\":true}\n"),
		      *r = reader_open("{\"op\":\"events\",\"count\":0,\"follow\":true}\n");
	json_int_t last, lost = 0, n;
	struct admin_conn *conn;
	uint64_t next;
	json_t *j;

	(void)state;
	json_decref(line(slow));
	json_decref(line(r));
	last = (json_int_t)event_next() - 1;
	for (unsigned i = 0; i < FLOOD; i++) {
		event_add(EVENT_CONNECTED, NULL, "%u", i);
		if (i % 32 == 0)
			turns(1);
		assert_int_equal(number_in(line(r), "number"), event_next() - 1);
		LIST_FOREACH(conn, &admin->conns, entry)
			assert_true(uv_stream_get_write_queue_size((uv_stream_t *)&conn->pipe) <
				    EVENTS_AT_ONCE * sizeof(struct event));
	}
	reader_close(r);
	next = event_next();
	while (last + 1 < (json_int_t)next) {
		j = line(slow);
		n = json_integer_value(json_object_get(j, "lost"));
		last += n;
		lost += n;
		if (n)
			json_decref(j);
		else
			assert_int_equal(number_in(j, "number"), ++last);
	}
	assert_true(lost > 0);
	reader_close(slow);
	turns(3);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test_setup_teardown(the_last_ones, start, stop),
			cmocka_unit_test_setup_teardown(who_follows_is_told, start, stop),
			cmocka_unit_test_setup_teardown(one_that_does_not_read, start, stop));
}

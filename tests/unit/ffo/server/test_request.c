/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ffo_rig.c ffr/lib/log.c */
/*
 * test_request.c - requests with a store that fails at its Nth call, ends calls late, or goes away.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/rig/unit/ffo_rig.h"
#include "tests/rig/unit/unit.h"

/* ---- a store that fails, or answers late ---------------------------------------------------- */

/* All that the orchestrator tells, and what it would allocate next. */
static char *whole_state(struct test *t)
{
	json_t *all = json_array();
	struct ffo_container c;
	char *text;

	c = container(ask_ok(t, 0, "'container_add','name':'probe'"));
	json_decref(ask_ok(t, 0, "'container_rm','name':'probe'"));
	c.id = 1; /* is another one each time */
	json_array_append_new(all, ffo_container_to_json(&c));
	json_array_append_new(all, ask_ok(t, 0, "'container_list'"));
	json_array_append_new(all, ask_ok(t, 0, "'map_list'"));
	text = json_dumps(all, JSON_COMPACT);
	json_decref(all);
	return text;
}

/*
 * Make a request with the Nth store call failing, for each N up to the first that is not reached:
 * it fails with EIO and all is as it was, until it works.
 */
static json_t *fail_each(struct test *t, int i, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static json_t *fail_each(struct test *t, int i, const char *fmt, ...)
{
	char *before = whole_state(t), *after;
	bool reached = true;
	json_t *msg = NULL;
	va_list ap;

	for (unsigned int n = 1; reached; n++) {
		assert_true(n < 20);
		faulty->fail_at = n;
		va_start(ap, fmt);
		msg = ask_va(t, i, fmt, ap);
		va_end(ap);
		reached = !faulty->fail_at;
		faulty->fail_at = 0;
		if (reached) {
			expect_error(msg, 7, "EIO");
			after = whole_state(t);
			assert_string_equal(after, before);
			free(after);
		} else {
			assert_true(n > 1);
			assert_true(json_is_true(json_object_get(msg, "ok")));
		}
	}
	free(before);
	return msg;
}

static void test_failing_store(void **state)
{
	struct test *t = *state;
	struct ffo_container c;
	uint32_t id;

	router(t, 0);
	c = container(fail_each(t, 0, "'container_add','name':'a'"));
	expect_ip(&c, 0, "10.1.0.2");
	id = c.id;
	json_decref(fail_each(t, 0, "'container_add','name':'b','ips':['10.1.0.4']"));
	json_decref(fail_each(t, 0,
			      "'map_publish','maps':[[%u,5,1,0,4096,7,0,5,1],"
			      "[%u,6,1,0,4096,7,0,5,1]]",
			      id, id));
	json_decref(fail_each(t, 0, "'map_withdraw','maps':[[%u,5]]", id));
	json_decref(fail_each(t, 0, "'container_set','name':'b','ips':['10.1.0.5'],'mode':'spin'"));
	json_decref(fail_each(t, 0, "'container_get','name':'a'"));
	json_decref(fail_each(t, 0, "'map_drop','container':%u", id));
	json_decref(fail_each(t, 0, "'container_set','name':'a','host':'h1'"));
	json_decref(fail_each(t, 0, "'container_rm','name':'b'"));
	hello(t, 1);
	json_decref(fail_each(t, 1, "'host_register','host':'h1'"));
	json_decref(fail_each(t, 1, "'host_list'"));
	json_decref(fail_each(t, 1, "'container_list'"));
	json_decref(fail_each(t, 1, "'map_list'"));
}

/* The end of a host's connection, with its store call failing: served on. */
static void test_failing_goodbye(void **state)
{
	struct test *t = *state;

	router(t, 0);
	for (int n = 1; n <= 2; n++) {
		router(t, 1);
		faulty->fail_at = 1;
		close(t->fd[1]);
		t->fd[1] = -1;
		wait_conns(t, 1);
		assert_int_equal(faulty->fail_at, 0);
		expect_host(t, 0, "h1", false);
	}
}

static void send_line(struct test *t, int i, const char *line)
{
	send_text(t, i, line, strlen(line));
	send_text(t, i, "\n", 1);
}

/* A change that ends later: the answer waits for it, others are served meanwhile. */
static void test_late_store(void **state)
{
	static const char add[] =
		"{\"id\":7,\"op\":\"container_add\",\"name\":\"a\",\"host\":\"h5\"}";
	struct test *t = *state;
	struct ffo_container c;

	router(t, 0);
	hello(t, 1);
	c = container(ask_ok(t, 0, "'container_add','name':'b'"));
	faulty->hold = true;
	send_line(t, 1, add);
	expect_silence(t, 1);
	assert_int_equal(count(ask_ok(t, 0, "'host_list'"), "hosts"), 1);
	release(0);
	c = container(receive(t, 1));
	expect_ip(&c, 0, "10.1.0.3");
	assert_int_equal(c.lid, 2);
	/* It fails in the end. */
	send_line(t, 0, "{\"id\":7,\"op\":\"map_drop\",\"container\":1}");
	expect_silence(t, 0);
	release(-ESHUTDOWN);
	expect_error(receive(t, 0), 7, "ESHUTDOWN");
	/* The client has left before that. */
	send_line(t, 1, "{\"id\":7,\"op\":\"container_rm\",\"name\":\"b\"}");
	expect_silence(t, 1);
	close(t->fd[1]);
	t->fd[1] = -1;
	wait_conns(t, 1);
	release(0);
	json_decref(event(t, 0, "detach"));
	ask_err(t, 0, "ENOENT", "'container_get','name':'b'");
	/* The orchestrator ends before that. */
	send_line(t, 0, "{\"id\":7,\"op\":\"container_rm\",\"name\":\"a\"}");
	expect_silence(t, 0);
}

/* Somebody else was faster: the change is made once more. */
static void test_faster_change(void **state)
{
	struct test *t = *state;
	struct ffo_container c;

	router(t, 0);
	json_decref(ask_ok(t, 0, "'container_add','name':'a'"));
	faulty->hold = true;
	send_line(t, 0, "{\"id\":7,\"op\":\"container_set\",\"name\":\"a\",\"mode\":\"spin\"}");
	while (!faulty->held)
		uv_run(&t->loop, UV_RUN_ONCE);
	release(-EAGAIN);
	while (!faulty->held)
		uv_run(&t->loop, UV_RUN_ONCE);
	release(0);
	c = container(receive(t, 0));
	assert_string_equal(c.name, "a");
}

/* An answer that the kernel has taken has no time limit, however long the loop does not turn then. */
static void test_answer_taken(void **state)
{
	struct test *t = *state;
	struct ffo_container c;

	router(t, 0);
	hello(t, 1);
	faulty->hold = true;
	send_line(t, 1, "{\"id\":7,\"op\":\"container_add\",\"name\":\"a\",\"host\":\"h5\"}");
	expect_silence(t, 1);
	t->ffo->write_timeout = 0;
	release(0);
	c = container(receive(t, 1));
	assert_int_equal(c.lid, 1);
	/* who asked and a router that was told are both still there */
	for (int i = 0; i < 2; i++)
		assert_int_equal(count(ask_ok(t, i, "'host_list'"), "hosts"), 1);
}

/* ---- a store that goes away ------------------------------------------------------------------- */

static void test_store_away(void **state)
{
	struct test *t = *state;
	uint64_t now;

	/* Registration waits for it, for a while. */
	store_becomes(STORE_AWAY);
	hello(t, 0);
	ask_err(t, 0, "ENOTCONN", "'host_register','host':'h0'");
	send_str(t, 0, "{\"id\":7,\"op\":\"host_register\",\"host\":\"h0\"}\n");
	for (int i = 0; i < 20; i++)
		uv_run(&t->loop, UV_RUN_NOWAIT);
	store_becomes(STORE_READY);
	json_decref(receive(t, 0));
	expect_host(t, 0, "h0", true);
	/* So does what has no first state yet; then it can be asked for again. */
	faulty->mute = true;
	ask_err(t, 0, "ENOTCONN", "'resolve','lid':5");
	ask_err(t, 0, "ENOTCONN", "'mcast_watch','tenant':'blue','mgid':'ff0e::7'");
	faulty->mute = false;
	expect_resolved(ask_ok(t, 0, "'resolve','lid':5"), "-", "-", 0);
	/* Each of two that wait has its own time. */
	faulty->mute = true;
	send_str(t, 0, "{\"id\":7,\"op\":\"resolve\",\"lid\":8}\n");
	now = uv_now(&t->loop);
	while (uv_now(&t->loop) <= now + 1)
		uv_run(&t->loop, UV_RUN_NOWAIT);
	send_str(t, 0, "{\"id\":8,\"op\":\"resolve\",\"lid\":9}\n");
	expect_error(receive(t, 0), 7, "ENOTCONN");
	expect_error(receive(t, 0), 8, "ENOTCONN");
	/* What waits when the connection ends. */
	send_str(t, 0, "{\"id\":7,\"op\":\"resolve\",\"lid\":6}\n");
	for (int i = 0; i < 5; i++)
		uv_run(&t->loop, UV_RUN_NOWAIT);
	router_leaves(t, 0);
	/* A registration that waits when the connection, or the orchestrator, ends. */
	hello(t, 1);
	ask_err(t, 1, "ENOTCONN", "'host_register','host':'h1'"); /* its containers are not told */
	faulty->mute = false;
	json_decref(ask_ok(t, 1, "'host_register','host':'h1'"));
	store_becomes(STORE_AWAY);
	hello(t, 2);
	send_str(t, 2, "{\"id\":7,\"op\":\"host_register\",\"host\":\"h2\"}\n");
	for (int i = 0; i < 5; i++)
		uv_run(&t->loop, UV_RUN_NOWAIT);
}

/* The store's session is lost: hosts are to come again, others stay. */
static void test_store_lost(void **state)
{
	struct test *t = *state;

	router(t, 0);
	router(t, 1);
	hello(t, 2);
	store_becomes(STORE_LOST);
	assert_null(receive(t, 0));
	assert_null(receive(t, 1));
	wait_conns(t, 1);
	assert_int_equal(count(ask_ok(t, 2, "'container_list'"), "containers"), 0);
	store_becomes(STORE_READY);
	router(t, 0);
	expect_host(t, 2, "h0", true);
}

int main(void)
{
	return UNIT_RUN(FFO_T(test_failing_store), FFO_T(test_failing_goodbye),
			FFO_T(test_late_store), FFO_T(test_faster_change), FFO_T(test_answer_taken),
			FFO_T(test_store_away), FFO_T(test_store_lost));
}

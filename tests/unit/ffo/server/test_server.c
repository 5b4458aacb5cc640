/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ffo_rig.c ffr/lib/log.c */
/*
 * test_server.c - the orchestrator's connections: what is malformed, too long or not allowed,
 * clients that do not read, and where it listens.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ffo/base/address.h"
#include "tests/rig/unit/ffo_rig.h"
#include "tests/rig/unit/unit.h"

/* ---- bad input ------------------------------------------------------------------------------ */

static void test_requests_refused(void **state)
{
	static const struct {
		const char *error, *request;
	} cases[] = {
		{ "EINVAL", "5" },
		{ "EINVAL", "null" },
		{ "EOPNOTSUPP", "'reboot'" },
		{ "EOPNOTSUPP", "''" },
		{ "EOPNOTSUPP", "'hello\\u0007\\u00e4'" },
		{ "EPROTO", "'hello','version':1" }, /* once only */
		{ "EINVAL", "'hello'" },
		{ "EINVAL", "'hello','version':'1'" },
		{ "EINVAL", "'hello','version':-1" },
		{ "EINVAL", "'hello','version':4294967296" },
		{ "EPERM", "'map_publish','maps':[[1,5,1,0,4096,7,0,5,1]]" },
		{ "EPERM", "'map_withdraw','maps':[[1,5]]" },
		{ "EPERM", "'map_drop','container':1" },
		{ "EINVAL", "'map_publish','maps':5" },
		{ "EINVAL", "'map_list','maps':[]" },
		{ "EINVAL", "'container_list','after':-1" },
		{ "EINVAL", "'container_list','after':1.5" },
		{ "EINVAL", "'container_list','host':7" },
		{ "EINVAL", "'container_get'" },
		{ "EINVAL", "'container_get','container':0" },
		{ "EINVAL", "'container_get','name':'a','container':1" },
		{ "EINVAL", "'container_get','name':'a','color':'red'" },
		{ "EINVAL", "'container_add'" },
		{ "EINVAL", "'container_add','name':'a'" }, /* of which host? */
		{ "EINVAL", "'container_add','name':'','host':'h0'" },
		{ "EINVAL", "'container_add','name':'../x','host':'h0'" },
		{ "EINVAL", "'container_add','name':'.x','host':'h0'" },
		{ "EINVAL", "'container_add','name':'a b','host':'h0'" },
		{ "EINVAL", "'container_add','name':'a\\u00e4','host':'h0'" },
		{ "EINVAL", "'container_add','name':'a','host':'-h'" },
		{ "EINVAL", "'container_add','name':'a','tenant':null,'host':'h0'" },
		{ "EINVAL",
		  "'container_add','name':'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		  "aaaaaaaaaaaaaaaa','host':'h0'" },
		{ "EINVAL", "'host_register'" },
		{ "EINVAL", "'host_register','host':'h0','instance':'a\\nb'" },
	};
	struct test *t = *state;

	attach(t, 0);
	ask_err(t, 0, "EPROTO", "'container_list'");
	ask_err(t, 0, "EPROTONOSUPPORT", "'hello','version':0");
	ask_err(t, 0, "EPROTO", "'host_register','host':'h0'");
	json_decref(ask_ok(t, 0, "'hello','version':4294967295"));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ask_err(t, 0, cases[i].error, "%s", cases[i].request);
	expect_error(ask(t, 0, "{\"op\":\"container_list\"}"), 0, "EINVAL");
	expect_error(ask(t, 0, "{\"op\":\"container_list\",\"id\":-1}"), 0, "EINVAL");
	expect_error(ask(t, 0, "{\"op\":\"container_list\",\"id\":\"1\"}"), 0, "EINVAL");
	expect_error(ask(t, 0, "{}"), 0, "EINVAL");
	assert_int_equal(count(ask_ok(t, 0, "'container_list'"), "containers"), 0);
}

/* What is no message ends that connection, after an answer; others are served on. */
static void test_malformed(void **state)
{
	static const struct {
		const char *text;
		size_t len;
	} lines[] = {
#define L(s) { s, sizeof(s) - 1 }
		L("\n"),
		L("\r\n"),
		L("hello\n"),
		L("[]\n"),
		L("5\n"),
		L("\"hello\"\n"),
		L("null\n"),
		L("{\n"),
		L("}\n"),
		L("{\"op\":\"hello\"\n"),
		L("{\"op\":\"hello\"}}\n"),
		L("{\"op\":\"hello\",\"op\":\"hello\",\"id\":1}\n"),
		L("{\"id\":1e999}\n"),
		L("{\"id\":99999999999999999999}\n"),
		L("{\"a\":\"\\u0000\"}\n"),
		L("\0\0\0\n"),
		L("{\"op\":\"\xff\xfe\"}\n"),
		L("{\"op\":\"\\ud800\"}\n"),
		L("{\"op\":\"a\tb\"}\n"),
		L("GET / HTTP/1.1\r\n\r\n"),
		L("{\"a\":1}{\"a\":1}\n"),
#undef L
	};
	struct test *t = *state;

	hello(t, 1);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		hello(t, 0);
		send_text(t, 0, lines[i].text, lines[i].len);
		/* Nothing behind it is looked at. */
		send_text(t, 0, "{\"op\":\"container_list\",\"id\":7}\n", 32);
		expect_error(receive(t, 0), 0, "EBADMSG");
		assert_null(receive(t, 0));
		close(t->fd[0]);
		t->fd[0] = -1;
		assert_int_equal(count(ask_ok(t, 1, "'container_list'"), "containers"), 0);
	}
	wait_conns(t, 1);
}

static void test_deep_nesting(void **state)
{
	struct test *t = *state;
	char *text = malloc(200001);

	hello(t, 0);
	memset(text, '[', 200000);
	text[200000] = '\0';
	expect_error(ask(t, 0, text), 0, "EBADMSG");
	assert_null(receive(t, 0));
	free(text);
}

static void test_line_length(void **state)
{
	static const char head[] = "{\"id\":7,\"op\":\"container_get\",\"name\":\"";
	struct test *t = *state;
	char *text = malloc(2 * FFO_LINE_MAX);

	hello(t, 0);
	/* The longest that is allowed, newline included, in one piece and byte by byte at the end. */
	memset(text, 'a', 2 * FFO_LINE_MAX);
	memcpy(text, head, sizeof(head) - 1);
	memcpy(text + FFO_LINE_MAX - 3, "\"}\n", 3);
	send_text(t, 0, text, FFO_LINE_MAX);
	expect_error(receive(t, 0), 7, "EINVAL"); /* the name is too long */
	send_text(t, 0, text, FFO_LINE_MAX - 3);
	for (int i = 3; i; i--) {
		uv_run(&t->loop, UV_RUN_NOWAIT);
		send_text(t, 0, text + FFO_LINE_MAX - i, 1);
	}
	expect_error(receive(t, 0), 7, "EINVAL");
	json_decref(ask_ok(t, 0, "'container_list'"));
	/* One byte more. */
	memset(text + sizeof(head) - 1, 'a', FFO_LINE_MAX);
	memcpy(text + FFO_LINE_MAX - 2, "\"}\n", 3);
	send_text(t, 0, text, FFO_LINE_MAX + 1);
	expect_error(receive(t, 0), 0, "EMSGSIZE");
	assert_null(receive(t, 0));
	wait_conns(t, 0);
	/* No end in sight. */
	close(t->fd[0]);
	hello(t, 0);
	memset(text, ' ', 2 * FFO_LINE_MAX);
	send_text(t, 0, text, 2 * FFO_LINE_MAX);
	expect_error(receive(t, 0), 0, "EMSGSIZE");
	assert_null(receive(t, 0));
	wait_conns(t, 0);
	free(text);
}

/* Many requests in one piece, one request in many. */
static void test_framing(void **state)
{
	static const char one[] = "{\"op\":\"container_list\",\"id\":7}\n";
	struct test *t = *state;
	char text[100 * (sizeof(one) - 1)];

	hello(t, 0);
	for (size_t i = 0; i < 100; i++)
		memcpy(text + i * (sizeof(one) - 1), one, sizeof(one) - 1);
	send_text(t, 0, text, sizeof(text));
	for (int i = 0; i < 100; i++)
		assert_int_equal(count(receive(t, 0), "containers"), 0);
	for (size_t i = 0; i < sizeof(one) - 1; i++) {
		send_text(t, 0, one + i, 1);
		uv_run(&t->loop, UV_RUN_NOWAIT);
	}
	assert_int_equal(count(receive(t, 0), "containers"), 0);
	/* The end of the connection in the middle of a message. */
	send_text(t, 0, one, 10);
	close(t->fd[0]);
	t->fd[0] = -1;
	wait_conns(t, 0);
}

/* ---- clients that do not read --------------------------------------------------------------- */

static void fill_maps(struct test *t)
{
	router(t, 0);
	for (uint32_t i = 0; i < CONTS; i++)
		json_decref(ask_ok(t, 0, "'container_add','name':'c%u'", i));
	publish_batch(t, 0);
	publish_batch(t, BATCH);
}

/* Asks for big answers until the orchestrator does not take requests any more. */
static unsigned int flood(struct test *t, int i)
{
	static const char end[] = "{\"op\":\"map_list\",\"id\":7}\n";
	unsigned int sent = 0;
	char one[2048];

	memset(one, ' ', sizeof(one)); /* or the socket's buffer has room for thousands */
	memcpy(one + sizeof(one) - (sizeof(end) - 1), end, sizeof(end) - 1);
	for (int idle = 0; idle < 1000;) {
		if (send(t->fd[i], one, sizeof(one), MSG_NOSIGNAL) == sizeof(one)) {
			sent++;
			idle = 0;
		} else {
			idle++;
		}
		uv_run(&t->loop, UV_RUN_NOWAIT);
		assert_true(sent < 10000);
	}
	return sent;
}

static struct conn *last_conn(struct test *t)
{
	return LIST_FIRST(&t->ffo->conns);
}

static void test_slow_client(void **state)
{
	struct test *t = *state;

	fill_maps(t);
	hello(t, 1);
	flood(t, 1);
	assert_true(last_conn(t)->paused);
	assert_true(uv_stream_get_write_queue_size(&last_conn(t)->stream) < 2 * FFO_LINE_MAX);
	/* Others are served. */
	json_decref(ask_ok(t, 0, "'container_get','name':'c0'"));
	/* It never reads: it is dropped. */
	uv_timer_start(&last_conn(t)->timer, last_conn(t)->timer.timer_cb, 0, 0);
	wait_conns(t, 1);
	json_decref(ask_ok(t, 0, "'container_get','name':'c0'"));
}

/* One that reads in the end gets every answer. */
static void test_late_client(void **state)
{
	struct test *t = *state;
	unsigned int sent;

	fill_maps(t);
	hello(t, 1);
	sent = flood(t, 1);
	assert_true(last_conn(t)->paused);
	while (sent--)
		assert_int_equal(count(receive(t, 1), "maps"), 2 * BATCH);
	assert_false(last_conn(t)->paused);
	json_decref(ask_ok(t, 1, "'container_get','name':'c0'"));
}

/* A client may have so many requests under way; the rest waits, and is answered in the end. */
static void test_many_requests(void **state)
{
	enum { NUM = 600 };
	struct test *t = *state;
	char text[NUM * 40] = "", *p = text;

	router(t, 0);
	faulty->mute = true; /* none can be answered */
	for (int i = 1; i <= NUM; i++)
		p += sprintf(p, "{\"id\":7,\"op\":\"resolve\",\"lid\":%d}\n", i);
	send_str(t, 0, text);
	while (!last_conn(t)->paused && last_conn(t)->busy < NUM)
		uv_run(&t->loop, UV_RUN_ONCE);
	assert_true(last_conn(t)->busy < NUM / 2);
	for (int i = 0; i < NUM; i++)
		expect_error(receive(t, 0), 7, "ENOTCONN");
	assert_false(last_conn(t)->paused);
}

/* It leaves while answers wait. */
static void test_gone_client(void **state)
{
	struct test *t = *state;

	fill_maps(t);
	hello(t, 1);
	flood(t, 1);
	close(t->fd[1]);
	t->fd[1] = -1;
	wait_conns(t, 1);
	json_decref(ask_ok(t, 0, "'container_get','name':'c0'"));
}

static void test_too_many_clients(void **state)
{
	struct test *t = *state;

	for (int i = 0; i < MAX_CLIENTS; i++)
		hello(t, i);
	attach(t, MAX_CLIENTS);
	expect_error(receive(t, MAX_CLIENTS), 0, "EBUSY");
	assert_null(receive(t, MAX_CLIENTS));
	wait_conns(t, MAX_CLIENTS);
	close(t->fd[0]);
	wait_conns(t, MAX_CLIENTS - 1);
	hello(t, 0);
}

/* ---- listening ------------------------------------------------------------------------------ */

static void test_listen(void **state)
{
	static const char *const bad[] = {
		"",
		"unix:",
		"unix:relative",
		"tcp:",
		"tcp:1.2.3.4",
		"tcp:1.2.3.4:",
		"tcp:1.2.3.4:65536",
		"tcp:1.2.3.4:x",
		"tcp:host:1",
		"tcp:[::1:1",
		"tcp:::1:1",
		"udp:1.2.3.4:5",
		"unix:/123456789012345678901234567890123456789012345678901234"
		"567890123456789012345678901234567890123456789012345678901234"
	};
	struct test *t = *state;
	char dir[] = "/tmp/test_ffo_listen.XXXXXX", path[64], address[80];
	struct ffo *second;
	struct ffo_conf conf = { 0 };
	struct stat st;
	FILE *f;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(ffo_listen(t->ffo, bad[i]), -EINVAL);
	assert_int_equal(ffo_listen(t->ffo, "unix:/nonexistent/dir/sock"), -ENOENT);

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/sock", dir);
	snprintf(address, sizeof(address), "unix:%s", path);
	f = fopen(path, "w"); /* no socket: not replaced */
	fclose(f);
	assert_int_equal(ffo_listen(t->ffo, address), -EADDRINUSE);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(ffo_listen(t->ffo, address), 0);
	/* Who may use it may change the cluster. */
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	/* In use: not replaced. */
	assert_int_equal(ffo_create(&conf, &t->loop, &second), 0);
	assert_int_equal(ffo_listen(second, address), -EADDRINUSE);
	assert_int_equal(access(path, F_OK), 0);
	/* Left behind by a dead process: replaced. */
	snprintf(path, sizeof(path), "%s/dead", dir);
	snprintf(address, sizeof(address), "unix:%s", path);
	{
		struct sockaddr_storage sa;
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);

		assert_int_equal(ffo_address_parse(address, &sa), 0);
		assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(struct sockaddr_un)), 0);
		close(fd);
	}
	assert_int_equal(ffo_listen(second, address), 0);
	ffo_destroy(second);
	ffo_destroy(t->ffo);
	uv_run(&t->loop, UV_RUN_DEFAULT);
	assert_int_equal(rmdir(dir), 0); /* both sockets are gone */
	start(t);
}

static void test_store_unusable(void **state)
{
	struct test *t = *state;
	static const char *const bad_pool[] = { "10.0.0.0/33" };
	struct ffo_conf conf = { .store = "/nonexistent/ffo.db" };
	struct ffo *f = NULL;

	assert_int_equal(ffo_create(&conf, &t->loop, &f), -EIO);
	conf = (struct ffo_conf){ .pools = bad_pool, .num_pools = 1 };
	assert_int_equal(ffo_create(&conf, &t->loop, &f), -EINVAL);
	assert_null(f);
}

int main(void)
{
	return UNIT_RUN(FFO_T(test_requests_refused), FFO_T(test_malformed),
			FFO_T(test_deep_nesting), FFO_T(test_line_length), FFO_T(test_framing),
			FFO_T(test_slow_client), FFO_T(test_late_client), FFO_T(test_many_requests),
			FFO_T(test_gone_client), FFO_T(test_too_many_clients), FFO_T(test_listen),
			FFO_T(test_store_unusable));
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ffo_rig.c ffr/lib/log.c */
/*
 * test_client.c - the router's side of the connection to the orchestrator (ffo/client/client.c), and
 * the orchestrator in a thread (ffo/server/embed.c).
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffo/client/client.h"
#include "ffo/server/server.c" /* struct listener */
#include "tests/rig/unit/ffo_rig.h"

struct client_seen {
	uv_loop_t *loop;
	struct ffo_client *client;
	int answers, last_err, closed, closed_err;
	char version_seen;
	char why[200];
	bool close_in_callback;
};

static void answered(void *arg, int err, const char *why, json_t *answer)
{
	struct client_seen *seen = arg;

	seen->answers++;
	seen->last_err = err;
	snprintf(seen->why, sizeof(seen->why), "%s", why);
	assert_true(err ? !answer : json_is_object(answer));
	if (json_object_get(answer, "version"))
		seen->version_seen = true;
	if (seen->close_in_callback)
		ffo_client_close(seen->client);
}

static void client_closed(void *arg, int err)
{
	struct client_seen *seen = arg;

	seen->closed++;
	seen->closed_err = err;
}

static void wait_answers(struct client_seen *seen, int n)
{
	for (int turn = 0; seen->answers + seen->closed < n; turn++) {
		assert_true(turn < 10000);
		uv_run(seen->loop, UV_RUN_ONCE);
	}
}

static json_t *version(void)
{
	return json_pack("{s:i}", "version", FFO_PROTO_VERSION);
}

static void test_client(void **state)
{
	struct test *t = *state;
	struct client_seen seen = { .loop = &t->loop };
	struct ffo_client *c;
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	assert_int_equal(ffo_attach(t->ffo, fd[0]), 0);
	assert_int_equal(ffo_client_open(&t->loop, fd[1], client_closed, &seen, &c), 0);
	assert_int_equal(ffo_client_call(c, FFO_OP_HELLO, version(), answered, &seen), 0);
	assert_int_equal(seen.answers, 0); /* later */
	wait_answers(&seen, 1);
	assert_true(seen.version_seen);
	/* Pipelined; an error with its text. */
	for (int i = 0; i < 100; i++)
		assert_int_equal(ffo_client_call(c, FFO_OP_CONTAINER_LIST, NULL, answered, &seen),
				 0);
	assert_int_equal(ffo_client_call(c, FFO_OP_CONTAINER_GET, json_pack("{s:s}", "name", "x"),
					 answered, &seen),
			 0);
	wait_answers(&seen, 102);
	assert_int_equal(seen.last_err, -ENOENT);
	assert_string_equal(seen.why, "there is no container \"x\"");
	/* What cannot be asked. */
	assert_int_equal(ffo_client_call(c, FFO_OP_HELLO, json_array(), answered, &seen), -EINVAL);
	assert_int_equal(ffo_client_call(c, FFO_OP_HELLO,
					 json_pack("{s:o}", "host", json_sprintf("%600000d", 1)),
					 answered, &seen),
			 -EMSGSIZE);
	/* Closed with calls under way. */
	assert_int_equal(ffo_client_call(c, FFO_OP_CONTAINER_LIST, NULL, answered, &seen), 0);
	ffo_client_close(c);
	assert_int_equal(seen.answers, 103);
	assert_int_equal(seen.last_err, -ECANCELED);
	wait_conns(t, 0);
	assert_int_equal(seen.closed, 0);
}

/* The orchestrator goes, talks nonsense, or is not there. */
static void test_client_lost(void **state)
{
	static const char *const nonsense[] = {
		"5\n",
		"{}\n",
		"{\"id\":1}\n",
		"{\"id\":1,\"ok\":false}\n",
		"{\"id\":2,\"ok\":true}\n",
		"{\"id\":1,\"ok\":1}\n",
		"\n",
	};
	struct test *t = *state;
	struct client_seen seen;
	struct ffo_client *c;
	int fd[2];

	for (size_t i = 0; i <= 2 * sizeof(nonsense) / sizeof(nonsense[0]) + 1; i++) {
		seen = (struct client_seen){ .loop = &t->loop, .close_in_callback = i % 2 };
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
		assert_int_equal(ffo_client_open(&t->loop, fd[1], client_closed, &seen, &c), 0);
		seen.client = c;
		assert_int_equal(ffo_client_call(c, FFO_OP_HELLO, version(), answered, &seen), 0);
		if (i / 2 < sizeof(nonsense) / sizeof(nonsense[0]))
			dprintf(fd[0], "%s", nonsense[i / 2]);
		else
			close(fd[0]);
		wait_answers(&seen, i % 2 ? 1 : 2);
		assert_int_equal(seen.answers, 1);
		assert_int_equal(seen.last_err, -ECONNRESET);
		assert_int_equal(seen.closed, i % 2 ? 0 : 1);
		if (i / 2 < sizeof(nonsense) / sizeof(nonsense[0])) {
			if (seen.closed)
				assert_int_equal(seen.closed_err, -EPROTO);
			close(fd[0]);
		}
	}

	seen = (struct client_seen){ .loop = &t->loop };
	assert_int_equal(ffo_client_connect(&t->loop, "nonsense", NULL, client_closed, &seen, &c),
			 -EINVAL);
	assert_int_equal(ffo_client_connect(&t->loop, "unix:/nonexistent/sock", NULL, client_closed,
					    &seen, &c),
			 0);
	assert_int_equal(ffo_client_call(c, FFO_OP_HELLO, version(), answered, &seen), -ENOTCONN);
	wait_answers(&seen, 1);
	assert_int_equal(seen.answers, 0); /* the call had failed */
	assert_int_equal(seen.closed, 1);
	assert_int_equal(seen.closed_err, -ENOENT);
}

/* As many calls as there may be, and a line without an end. */
static void test_client_limits(void **state)
{
	struct test *t = *state;
	struct client_seen seen = { .loop = &t->loop };
	char text[4096];
	struct ffo_client *c;
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	assert_int_equal(ffo_client_open(&t->loop, fd[1], client_closed, &seen, &c), 0);
	for (unsigned int i = 0; i < FFO_CLIENT_CALLS; i++)
		assert_int_equal(ffo_client_call(c, FFO_OP_CONTAINER_LIST, NULL, answered, &seen),
				 0);
	assert_int_equal(ffo_client_call(c, FFO_OP_CONTAINER_LIST, NULL, answered, &seen),
			 -ENOBUFS);
	dprintf(fd[0], "{\"id\":1,\"ok\":true}\n"); /* there is room for one more */
	wait_answers(&seen, 1);
	assert_int_equal(ffo_client_call(c, FFO_OP_CONTAINER_LIST, NULL, answered, &seen), 0);

	memset(text, ' ', sizeof(text));
	for (size_t sent = 0; sent < FFO_LINE_MAX;) {
		size_t rest = FFO_LINE_MAX - sent;
		ssize_t n = write(fd[0], text, rest < sizeof(text) ? rest : sizeof(text));

		assert_int_equal(seen.closed, 0);
		if (n > 0)
			sent += (size_t)n;
		uv_run(&t->loop, UV_RUN_NOWAIT);
	}
	wait_answers(&seen, (int)FFO_CLIENT_CALLS + 2);
	assert_int_equal(seen.answers, FFO_CLIENT_CALLS + 1);
	assert_int_equal(seen.last_err, -ECONNRESET);
	assert_int_equal(seen.closed, 1);
	assert_int_equal(seen.closed_err, -EPROTO);
	close(fd[0]);
}

static void test_client_connect(void **state)
{
	static const char *const listen[] = { "unix:/tmp/test_ffo_client", "tcp:127.0.0.1:0",
					      "tcp:[::1]:0" };
	struct test *t = *state;

	for (size_t i = 0; i < sizeof(listen) / sizeof(listen[0]); i++) {
		struct client_seen seen = { .loop = &t->loop };
		struct sockaddr_in6 sa = { 0 };
		socklen_t len = sizeof(sa);
		int err;
		struct ffo_client *c;
		char address[64];

		snprintf(address, sizeof(address), i ? "%s" : "%s.%d", listen[i], (int)getpid());
		err = ffo_listen(t->ffo, address);
		if (i == 2 && (err == -EADDRNOTAVAIL || err == -EAFNOSUPPORT))
			continue; /* no IPv6 here */
		assert_int_equal(err, 0);
		if (i) { /* the port that it got; sin_port and sin6_port are at one place */
			getsockname(LIST_FIRST(&t->ffo->listeners)->acceptor.fd,
				    (struct sockaddr *)&sa, &len);
			snprintf(strrchr(address, ':'), 8, ":%u", ntohs(sa.sin6_port));
		}
		assert_int_equal(
			ffo_client_connect(&t->loop, address, NULL, client_closed, &seen, &c), 0);
		assert_int_equal(ffo_client_call(c, FFO_OP_HELLO, version(), answered, &seen), 0);
		wait_answers(&seen, 1);
		assert_true(seen.version_seen);
		ffo_client_close(c);
		wait_conns(t, 0);
	}
}

struct told {
	struct client_seen seen; /* first: the client's arg */
	char event[16];
	uint32_t id;
	int events;
};

static void told(void *arg, const char *event, json_t *msg)
{
	struct told *told = arg;
	struct ffo_container c;

	snprintf(told->event, sizeof(told->event), "%s", event);
	assert_int_equal(ffo_container_from_json(json_object_get(msg, "container"), &c), 0);
	told->id = c.id;
	told->events++;
}

/* Events reach their callback, which is the answers' neighbour; without one they are dropped. */
static void test_events(void **state)
{
	struct test *t = *state;
	struct told told_of = { .seen.loop = &t->loop };
	struct ffo_client *c;
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	ffo_attach(t->ffo, fd[0]);
	assert_int_equal(ffo_client_open(&t->loop, fd[1], client_closed, &told_of.seen, &c), 0);
	assert_int_equal(ffo_client_call(c, FFO_OP_HELLO, version(), answered, &told_of.seen), 0);
	assert_int_equal(ffo_client_call(c, FFO_OP_HOST_REGISTER, json_pack("{s:s}", "host", "h0"),
					 answered, &told_of.seen),
			 0);
	wait_answers(&told_of.seen, 2);
	hello(t, 1);
	json_decref(ask_ok(t, 1, "'container_add','name':'a','host':'h0'"));
	for (int i = 0; i < 10; i++)
		uv_run(&t->loop, UV_RUN_NOWAIT);
	ffo_client_on_event(c, told);
	json_decref(ask_ok(t, 1, "'container_add','name':'b','host':'h0'"));
	for (int turn = 0; !told_of.events; turn++) {
		assert_true(turn < 100000);
		uv_run(&t->loop, UV_RUN_NOWAIT);
	}
	assert_int_equal(told_of.events, 1);
	assert_string_equal(told_of.event, "attach");
	assert_int_equal(told_of.id, 2);
	assert_int_equal(told_of.seen.closed, 0);
	ffo_client_close(c);
	wait_conns(t, 1);
}

static void test_embedded(void **state)
{
	struct test *t = *state;
	struct ffo_conf conf = { .store = "/nonexistent/x" };
	struct client_seen seen;
	struct ffo_client *c;
	int fd;

	ffo_embedded_stop(); /* does not run: nothing to do */
	assert_int_equal(ffo_embedded_start(&conf, &fd), -EIO);
	conf.store = NULL;
	for (int round = 0; round < 3; round++) {
		seen = (struct client_seen){ .loop = &t->loop };
		assert_int_equal(ffo_embedded_start(&conf, &fd), 0);
		assert_int_equal(ffo_embedded_start(&conf, &fd), -EBUSY);
		assert_int_equal(ffo_client_open(&t->loop, fd, client_closed, &seen, &c), 0);
		assert_int_equal(ffo_client_call(c, FFO_OP_HELLO, version(), answered, &seen), 0);
		assert_int_equal(ffo_client_call(c, FFO_OP_HOST_REGISTER,
						 json_pack("{s:s}", "host", "h0"), answered, &seen),
				 0);
		wait_answers(&seen, 2);
		assert_int_equal(seen.last_err, 0);
		assert_true(seen.version_seen);
		/* Whoever ends first. */
		if (round == 1)
			ffo_client_close(c);
		ffo_embedded_stop();
		if (round != 1) {
			wait_answers(&seen, 3);
			assert_int_equal(seen.closed, 1);
		}
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, ffo_setup, ffo_teardown)

	signal(SIGPIPE, SIG_IGN);
	return UNIT_RUN(T(test_client), T(test_client_lost), T(test_client_limits),
			T(test_client_connect), T(test_events), T(test_embedded));
}

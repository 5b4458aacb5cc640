/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/secure_rig.c tests/rig/unit/ffo_rig.c tests/rig/unit/certs.c ffr/lib/log.c */
/*
 * test_stream.c - messages of any size between the orchestrator and its clients, through TLS.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/secure_rig.h"

/* Asked before there is a connection, in either family; answers and events. */
static void test_messages(void **state)
{
	static const char *const listen[] = { "tls:127.0.0.1:0", "tls:[::1]:0" };
	struct test *t = *state;
	const char *address;
	struct secure_client s;

	for (size_t i = 0; i < 2; i++) {
		if (i && access("/proc/net/if_inet6", F_OK))
			continue;
		address = secure_serve(t, "server", listen[i]);
		secure_connect_as(t, &s, address, "h0", "ca");
		secure_call(&s, FFO_OP_HOST_REGISTER, json_pack("{s:s}", "host", "h0"));
		SECURE_WAIT_FOR(t, s.answers == 2 || s.closed);
		assert_int_equal(s.err, 0);
		assert_false(s.closed);
		hello(t, 0);
		json_decref(ask_ok(t, 0, "'container_add','name':'c%zu','host':'h0'", i));
		SECURE_WAIT_FOR(t, s.events == 1);
		secure_leave(&s);
		wait_conns(t, 1);
		close(t->fd[0]);
		wait_conns(t, 0);
		t->fd[0] = -1;
	}
}

/* A long answer is many records, and a long question too. */
static void test_long_messages(void **state)
{
	struct test *t = *state;
	struct secure_client s;
	char *long_name = malloc(FFO_LINE_MAX);

	secure_connect_as(t, &s, secure_serve(t, "server", "tls:127.0.0.1:0"), "boss", "ca");
	hello(t, 0);
	for (int i = 0; i < 250; i++)
		json_decref(ask_ok(t, 0, "'container_add','name':'c%d','host':'h0'", i));
	secure_let_in(t, &s);
	for (int i = 0; i < 20; i++)
		secure_call(&s, FFO_OP_CONTAINER_LIST, NULL);
	SECURE_WAIT_FOR(t, s.answers == 21 || s.closed);
	assert_false(s.closed);
	assert_int_equal(json_array_size(json_object_get(s.answer, "containers")), 250);

	memset(long_name, 'x', FFO_LINE_MAX);
	long_name[FFO_LINE_MAX - 100] = '\0';
	secure_call(&s, FFO_OP_CONTAINER_GET, json_pack("{s:s}", "name", long_name));
	SECURE_WAIT_FOR(t, s.answers == 22 || s.closed);
	assert_false(s.closed);
	assert_int_equal(s.err, -EINVAL);
	free(long_name);
	secure_leave(&s);
}

struct raw {
	struct tls *tls;
	SSL *ssl;
	int fd;
};

/*
 * A client that the test reads for, or does not; which the kernel would end after FFO_TCP_SILENCE, and a slow
 * machine takes longer than that to ask it thousands of times.
 */
static void raw_open(struct test *t, struct raw *r, const char *address)
{
	static const char hello[] = "{\"op\":\"hello\",\"id\":1,\"version\":1}\n";
	int ret = 0, little = 16384, never = 0, fd;

	r->fd = secure_dial(address);
	/* or it holds thousands of answers */
	setsockopt(r->fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
	assert_int_equal(fcntl(r->fd, F_SETFL, O_NONBLOCK), 0);
	r->tls = secure_tls_of("boss", "ca");
	r->ssl = tls_open(r->tls, true, TLS_TAKES(ORCHESTRATOR));
	/* of so little memory the kernel's TLS waits for ever for the rest of a record */
	SSL_clear_options(r->ssl, SSL_OP_ENABLE_KTLS);
	assert_int_equal(SSL_set_fd(r->ssl, r->fd), 1);
	SECURE_WAIT_FOR(t, (ret = SSL_do_handshake(r->ssl)) == 1);
	assert_int_equal(SSL_write(r->ssl, hello, sizeof(hello) - 1), sizeof(hello) - 1);
	SECURE_WAIT_FOR(t, t->ffo->num_handshakes == 0);
	assert_int_equal(uv_fileno((uv_handle_t *)&secure_last_conn(t)->stream, &fd), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &never, sizeof(never)), 0);
}

static void raw_close(struct raw *r)
{
	SSL_free(r->ssl);
	tls_free(r->tls);
	close(r->fd);
}

/* Asks for big answers until the orchestrator takes no requests any more; how many it asked for. */
static unsigned int raw_flood(struct test *t, struct raw *r)
{
	static const char end[] = "{\"op\":\"container_list\",\"id\":7}\n";
	uint64_t deadline = SECURE_DEADLINE();
	unsigned int sent = 0;
	char one[16384];

	memset(one, ' ', sizeof(one));
	memcpy(one + sizeof(one) - (sizeof(end) - 1), end, sizeof(end) - 1);
	for (int idle = 0; idle < 1000 || !secure_last_conn(t)->paused;) {
		assert_true(uv_hrtime() < deadline);
		if (SSL_write(r->ssl, one, sizeof(one)) == sizeof(one)) {
			sent++;
			idle = 0;
		} else {
			idle++;
		}
		uv_run(&t->loop, UV_RUN_NOWAIT);
		assert_true(sent < 20000);
	}
	return sent;
}

/* What waits for one that does not read is bounded; one that reads in the end gets all. */
static void test_late_client(void **state)
{
	struct test *t = *state;
	const char *address = secure_serve(t, "server", "tls:127.0.0.1:0");
	unsigned int sent, lines = 0;
	char buf[16384];
	struct raw r;
	int n;

	hello(t, 0);
	for (int i = 0; i < 250; i++)
		json_decref(ask_ok(t, 0, "'container_add','name':'c%d','host':'h0'", i));
	raw_open(t, &r, address);
	t->ffo->write_timeout = 1000000; /* not yet */
	sent = raw_flood(t, &r);
	assert_true(secure_last_conn(t)->paused);
	assert_true(uv_stream_get_write_queue_size(&secure_last_conn(t)->stream) <
		    2 * FFO_LINE_MAX);
	json_decref(ask_ok(t, 0, "'container_get','name':'c0'")); /* others are served */
	/* The last request may be half sent: OpenSSL has it, and wants it finished. */
	for (uint64_t deadline = SECURE_DEADLINE(); lines < sent + 1;) {
		assert_true(uv_hrtime() < deadline);
		n = SSL_read(r.ssl, buf, sizeof(buf));
		for (int i = 0; i < n; i++)
			lines += buf[i] == '\n';
		uv_run(&t->loop, UV_RUN_NOWAIT);
	}
	assert_false(secure_last_conn(t)->paused);
	raw_close(&r);
	wait_conns(t, 1);

	/* It never reads: it is dropped. */
	raw_open(t, &r, address);
	raw_flood(t, &r);
	assert_true(secure_last_conn(t)->paused);
	uv_timer_start(&secure_last_conn(t)->timer, secure_last_conn(t)->timer.timer_cb, 0, 0);
	wait_conns(t, 1);
	raw_close(&r);
	json_decref(ask_ok(t, 0, "'container_get','name':'c0'"));
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	return UNIT_RUN_GROUP(secure_make_files, secure_remove_files, SECURE_TEST(test_messages),
			      SECURE_TEST(test_long_messages), SECURE_TEST(test_late_client));
}

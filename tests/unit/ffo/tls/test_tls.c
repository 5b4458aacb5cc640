/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/secure_rig.c tests/rig/unit/ffo_rig.c tests/rig/unit/certs.c ffr/lib/log.c */
/*
 * test_tls.c - who is let in by the orchestrator, and as whom: strangers, roles, new certificates.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/secure_rig.h"

/* ---- who is let in --------------------------------------------------------------------------- */

/* The client's certificate is none of ours; it learns that, and the log tells once. */
static void test_client_refused(void **state)
{
	static const struct {
		const char *cert, *word;
	} cases[] = { { "stranger", "certificate" }, { "expired", "expired" } };
	struct test *t = *state;
	const char *address = secure_serve(t, "server", "tls:127.0.0.1:0");
	struct secure_client s;

	hello(t, 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		secure_log_capture();
		secure_connect_as(t, &s, address, cases[i].cert, "ca");
		SECURE_WAIT_FOR(t, s.closed);
		wait_conns(t, 1);
		secure_log_is(cases[i].word);
		assert_int_equal(s.answers, 1);
		assert_int_equal(s.err, -ECONNRESET);
		assert_int_equal(s.closed_err, -EACCES);
		assert_non_null(strstr(s.why, "does not take this side's certificate"));
		secure_leave(&s);
	}
	json_decref(ask_ok(t, 0, "'container_list'"));
}

/* Neither a certificate nor TLS, nor anything at all: that connection ends, and no other. */
static void test_strangers(void **state)
{
	static const struct {
		const char *text, *word;
		size_t len;
	} cases[] = {
#define S(text, word) { text, word, sizeof(text) - 1 }
		S("{\"op\":\"hello\",\"id\":1,\"version\":1}\n", "does not speak TLS"),
		S("GET / HTTP/1.1\r\n\r\n", "does not speak TLS"),
		S("\x16\x03\x01\x00\x05\x01\x00\x00\x01\xff", "TLS: "),
		S("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "TLS: "),
		S("", "takes too long"),
		S("\x16\x03\x01", "takes too long"),
#undef S
	};
	struct test *t = *state;
	const char *address = secure_serve(t, "server", "tls:127.0.0.1:0");
	struct secure_client s;
	int fd;

	secure_connect_as(t, &s, address, "h0", "ca");
	secure_let_in(t, &s);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool stalls = !strcmp(cases[i].word, "takes too long");

		secure_log_capture();
		t->ffo->handshake_timeout = stalls ? 40 : 1000000;
		fd = secure_dial(address);
		SECURE_WAIT_FOR(t, t->ffo->num_conns == 2);
		assert_int_equal(write(fd, cases[i].text, cases[i].len), cases[i].len);
		if (stalls)
			wait_conns(t, 1);
		else
			SECURE_WAIT_FOR(t, secure_last_conn(t)->leaving);
		secure_log_is(cases[i].word);
		close(fd);
		wait_conns(t, 1);
	}
	assert_int_equal(t->ffo->num_handshakes, 0);
	secure_is_served(t, &s);
	secure_leave(&s);
}

static void test_no_certificate(void **state)
{
	struct test *t = *state;
	int fd = secure_dial(secure_serve(t, "server", "tls:127.0.0.1:0")), ret;
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	char byte;

	secure_log_capture();
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	SSL_set_fd(ssl, fd);
	SECURE_WAIT_FOR(t, SSL_connect(ssl) == 1); /* TLS 1.3: it learns only afterwards */
	SECURE_WAIT_FOR(t, (ret = SSL_read(ssl, &byte, 1)) <= 0 &&
				   SSL_get_error(ssl, ret) != SSL_ERROR_WANT_READ);
	assert_int_equal(SSL_get_error(ssl, ret), SSL_ERROR_SSL);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	close(fd);
	wait_conns(t, 0);
	secure_log_is("did not return a certificate");
}

/* What TLS 1.2 leaves open, and tells whoever listens, is not offered. */
static void test_old_version(void **state)
{
	struct test *t = *state;
	int fd = secure_dial(secure_serve(t, "server", "tls:127.0.0.1:0")), ret;
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl;

	SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
	ssl = SSL_new(ctx);
	secure_log_capture();
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	SSL_set_fd(ssl, fd);
	SECURE_WAIT_FOR(t, (ret = SSL_connect(ssl)) == 1 ||
				   SSL_get_error(ssl, ret) != SSL_ERROR_WANT_READ);
	assert_int_not_equal(ret, 1);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	close(fd);
	wait_conns(t, 0);
	secure_log_is("unsupported protocol");
}

/* Many that say nothing keep nobody out. */
static void test_many_strangers(void **state)
{
	struct test *t = *state;
	const char *address = secure_serve(t, "server", "tls:127.0.0.1:0");
	int fd[SECURE_STRANGERS + 10];
	struct secure_client s[MAX_CLIENTS + 1];
	char byte;

	t->ffo->handshake_timeout = 1000000;
	for (unsigned int i = 0; i < SECURE_STRANGERS + 10; i++) {
		fd[i] = secure_dial(address);
		SECURE_WAIT_FOR(t, t->ffo->conn_seq == i + 1);
	}
	assert_int_equal(t->ffo->num_handshakes, SECURE_STRANGERS);
	/* The oldest ones had to go for them. */
	SECURE_WAIT_FOR(t, recv(fd[9], &byte, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN);
	assert_int_equal(recv(fd[10], &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	for (int i = 0; i < MAX_CLIENTS; i++) {
		secure_connect_as(t, &s[i], address, "h0", "ca");
		secure_let_in(t, &s[i]);
	}
	/* Those who are let in have a limit of their own. */
	secure_connect_as(t, &s[MAX_CLIENTS], address, "h0", "ca");
	SECURE_WAIT_FOR(t, s[MAX_CLIENTS].closed);
	assert_int_equal(t->ffo->num_conns - t->ffo->num_handshakes, MAX_CLIENTS);
	for (int i = 0; i <= MAX_CLIENTS; i++)
		secure_leave(&s[i]);
	for (unsigned int i = 0; i < SECURE_STRANGERS + 10; i++)
		close(fd[i]);
	wait_conns(t, 0);
	assert_int_equal(t->ffo->num_handshakes, 0);
}

/* The orchestrator's certificate: for its address or its name, of our authority, and valid. */
static void test_server_refused(void **state)
{
	static const struct {
		const char *cert, *ca;
		const char *word; /* NULL: it is taken */
	} cases[] = {
		{ "server", "ca", NULL },
		{ "address", "ca", NULL },
		{ "address6", "ca", "neither for its address nor" },
		{ "h0", "ca", "that of a host, which" },
		{ "boss", "ca", "that of an operator, which" },
		{ "nobody", "ca", "names no role" },
		{ "FFO", "ca", "neither for its address nor" },
		{ "server", "foreign", "certificate" },
		{ "old", "ca", "expired" },
	};
	struct test *t = *state;
	struct secure_client s;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *address = secure_serve(t, cases[i].cert, "tls:127.0.0.1:0");

		secure_connect_as(t, &s, address, "h0", cases[i].ca);
		if (!cases[i].word) {
			secure_let_in(t, &s);
		} else {
			SECURE_WAIT_FOR(t, s.closed);
			assert_int_equal(s.closed_err, -EACCES);
			if (!strstr(s.why, cases[i].word))
				fail_msg("%s: %s", cases[i].cert, s.why);
			assert_int_equal(s.err, -ECONNRESET);
		}
		secure_leave(&s);
		wait_conns(t, 0);
		ffo_destroy(t->ffo);
		t->ffo = NULL;
		uv_run(&t->loop, UV_RUN_DEFAULT);
	}
	/* One without TLS. */
	{
		char address[64];

		strcpy(address, secure_serve(t, "server", "tcp:127.0.0.1:0"));
		memcpy(address, "tls", 3);
		secure_connect_as(t, &s, address, "h0", "ca");
		SECURE_WAIT_FOR(t, s.closed);
		assert_int_equal(s.closed_err, -EPROTO);
		assert_non_null(strstr(s.why, "does not speak TLS"));
		secure_leave(&s);
		wait_conns(t, 0);
		assert_int_equal(ffo_client_connect(&t->loop, address, NULL, secure_closed, &s,
						    &s.client),
				 -EINVAL);
	}
}

/* A router is of the host that its certificate names; another name is refused, and no more. */
static void test_registration(void **state)
{
	static const char *const wrong[] = { "h1", "H0", "server", "h0.h0" };
	struct test *t = *state;
	struct secure_client s;

	secure_connect_as(t, &s, secure_serve(t, "server", "tls:127.0.0.1:0"), "h0", "ca");
	secure_let_in(t, &s);
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		secure_log_capture();
		secure_call(&s, FFO_OP_HOST_REGISTER, json_pack("{s:s}", "host", wrong[i]));
		SECURE_WAIT_FOR(t, s.answers == 2 + i || s.closed);
		secure_log_is("its certificate is not that host's");
		assert_int_equal(s.err, -EPERM);
		assert_non_null(strstr(s.why, "the certificate of this connection"));
		assert_non_null(strstr(s.why, wrong[i]));
	}
	secure_call(&s, FFO_OP_HOST_REGISTER, json_pack("{s:s}", "host", "h0"));
	SECURE_WAIT_FOR(t, s.answers == 6 || s.closed);
	assert_int_equal(s.err, 0);
	secure_leave(&s);
	wait_conns(t, 0);

	secure_connect_as(t, &s, secure_serve(t, "server", "tls:127.0.0.1:0"), "wild", "ca");
	secure_call(&s, FFO_OP_HOST_REGISTER, json_pack("{s:s}", "host", "h0.x"));
	SECURE_WAIT_FOR(t, s.answers == 2 || s.closed);
	assert_int_equal(s.err, -EPERM);
	secure_leave(&s);
}

/* A certificate has one role, of a client's. */
static void test_roles(void **state)
{
	static const struct {
		const char *cert, *word; /* NULL: it is let in */
	} cases[] = {
		{ "nobody", "names no role" },
		{ "other", "names no role" },
		{ "both", "more than one role" },
		{ "server", "that of an orchestrator" },
		{ "boss", NULL },
		{ "twice", NULL },
		{ "h0", NULL },
	};
	struct test *t = *state;
	const char *address = secure_serve(t, "server", "tls:127.0.0.1:0");
	struct secure_client s;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		secure_log_capture();
		secure_connect_as(t, &s, address, cases[i].cert, "ca");
		SECURE_WAIT_FOR(t, s.closed || s.answers);
		secure_log_is(cases[i].word);
		assert_int_equal(s.closed, cases[i].word != NULL);
		secure_leave(&s);
		wait_conns(t, 0);
	}
}

/* An operator is no host, whatever its certificate is called. */
static void test_operator_is_no_host(void **state)
{
	struct test *t = *state;
	struct secure_client s;

	secure_connect_as(t, &s, secure_serve(t, "server", "tls:127.0.0.1:0"), "boss", "ca");
	secure_call(&s, FFO_OP_HOST_REGISTER, json_pack("{s:s}", "host", "boss"));
	SECURE_WAIT_FOR(t, s.answers == 2 || s.closed);
	assert_int_equal(s.err, -EPERM);
	secure_leave(&s);
}

/* ---- certificates that are revoked ------------------------------------------------------------ */

/* New files are for new connections; broken ones are not taken. */
static void test_new_certificates(void **state)
{
	struct test *t = *state;
	const char *address = secure_serve(t, "server", "tls:127.0.0.1:0");
	struct secure_client s, later;
	FILE *f;

	secure_connect_as(t, &s, address, "h0", "ca");
	secure_let_in(t, &s);
	secure_make_as(&secure_foreign, "orchestrator", "server", "ffo", 5);
	secure_connect_as(t, &later, address, "h0", "ca");
	SECURE_WAIT_FOR(t, later.closed);
	assert_int_equal(later.closed_err, -EACCES);
	secure_leave(&later);
	secure_make_as(&secure_ours, "orchestrator", "server", "ffo", 5);
	secure_visit(t, &later, address);
	f = fopen(secure_file("server", ".pem"), "w");
	assert_non_null(f);
	fputs("nothing\n", f);
	fclose(f);
	secure_visit(t, &later, address);
	secure_is_served(t, &s);
	secure_leave(&s);
}

/* Without files, or with wrong ones, there is no tls: address. */
static void test_no_files(void **state)
{
	struct test *t = *state;
	struct ffo_conf conf = secure_conf("server");

	conf.cert = secure_file("none", ".pem");
	assert_int_equal(ffo_create(&conf, &t->loop, &t->ffo), -EINVAL);
	conf.cert = NULL;
	assert_int_equal(ffo_create(&conf, &t->loop, &t->ffo), 0);
	assert_int_equal(ffo_listen(t->ffo, "tls:127.0.0.1:0"), -EINVAL);
	assert_int_equal(ffo_listen(t->ffo, "tls:127.0.0.1"), -EINVAL);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	return UNIT_RUN_GROUP(secure_make_files, secure_remove_files,
			      SECURE_TEST(test_client_refused), SECURE_TEST(test_strangers),
			      SECURE_TEST(test_no_certificate), SECURE_TEST(test_old_version),
			      SECURE_TEST(test_many_strangers), SECURE_TEST(test_server_refused),
			      SECURE_TEST(test_registration), SECURE_TEST(test_new_certificates),
			      SECURE_TEST(test_no_files), SECURE_TEST(test_roles),
			      SECURE_TEST(test_operator_is_no_host));
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/unit/lib/ffo_rig.c tests/unit/lib/certs.c ffr/lib/log.c */
/*
 * test_tls.c - the orchestrator and its clients through TLS (ffo/tls/stream.c in server.c and
 * client.c): messages of any size, who is let in and as whom, strangers, new certificates.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/lib/certs.h"
#include "ffo/client/client.h"
#include "ffo/server/server.c" /* struct listener */
#include "tests/unit/lib/ffo_rig.h"

#define TURNS 1000000

/* Run the loop until that is so. */
#define UNTIL(t, what)                                                                             \
	for (int turn = 0; !(what); turn++) {                                                      \
		assert_true(turn < TURNS);                                                         \
		uv_run(&(t)->loop, UV_RUN_NOWAIT);                                                 \
	}

static char dir[] = "/tmp/test_ffo_tls.XXXXXX";
static struct authority ours, foreign;
static long serial_h1; /* of h1's certificate */

/* ---- files ----------------------------------------------------------------------------------- */

/* Up to four names at once. */
static const char *file(const char *name, const char *end)
{
	static char path[4][128];
	static unsigned int next;
	char *p = path[next++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s%s", dir, name, end);
	return p;
}

/* Its serial number. role: "" for none. */
static long make_as(const struct authority *a, const char *role, const char *name, const char *san,
		    int days)
{
	char names[160];

	snprintf(names, sizeof(names), "DNS:%s%s%s", san, *role ? ",URI:freeflow:" : "", role);
	return cert_make_named(a, name, names, days, file(name, ".pem"), file(name, ".key"));
}

static long make(const struct authority *a, const char *name, const char *san, int days)
{
	return make_as(a, "host", name, san, days);
}

/* Of clients, for those tests that say so. */
static const char *client_crl;
static bool client_any_role;

static struct tls *tls_of(const char *name, const char *ca)
{
	struct tls_files files = { .cert = file(name, ".pem"),
				   .key = file(name, ".key"),
				   .ca = file(ca, ".pem"),
				   .crl = client_crl,
				   .any_role = client_any_role };
	char err[512] = "";
	struct tls *tls = tls_create(&files, err, sizeof(err));

	if (!tls)
		fail_msg("%s", err);
	return tls;
}

/* ---- the orchestrator, and what it logs ------------------------------------------------------- */

static int up(void **state)
{
	struct test *t = calloc(1, sizeof(*t));

	memset(t->fd, 0xff, sizeof(t->fd));
	uv_loop_init(&t->loop);
	make_as(&ours, "orchestrator", "server", "ffo", 5);
	client_crl = NULL;
	client_any_role = false;
	*state = t;
	return 0;
}

/* What the orchestrator has beside its certificate, for those tests that say so. */
static struct {
	const char *crl;
	bool any_role;
} server;

static int down(void **state)
{
	memset(&server, 0, sizeof(server));
	return tear_down(state);
}

/* With that certificate; the address it listens at. */
static const char *serve(struct test *t, const char *cert, const char *listen)
{
	struct ffo_conf conf = { .cert = file(cert, ".pem"),
				 .key = file(cert, ".key"),
				 .ca = file("ca", ".pem"),
				 .crl = server.crl,
				 .any_role = server.any_role,
				 .max_clients = MAX_CLIENTS };
	static char address[64];
	struct sockaddr_in6 sa;
	int len = sizeof(sa);

	if (!t->ffo)
		assert_int_equal(ffo_create(&conf, &t->loop, &t->ffo), 0);
	assert_int_equal(ffo_listen(t->ffo, listen), 0);
	/* the port that it got; sin_port and sin6_port are at one place */
	uv_tcp_getsockname(&LIST_FIRST(&t->ffo->listeners)->tcp, (struct sockaddr *)&sa, &len);
	snprintf(address, sizeof(address), "%.*s:%u", (int)(strrchr(listen, ':') - listen), listen,
		 ntohs(sa.sin6_port));
	return address;
}

static struct {
	int fd, was;
} captured;

static void log_capture(void)
{
	captured.fd = memfd_create("log", 0);
	captured.was = dup(STDERR_FILENO);
	dup2(captured.fd, STDERR_FILENO);
}

/* What was logged since has that word in it. */
static const char *log_has(const char *word)
{
	static char text[4096];
	ssize_t n = pread(captured.fd, text, sizeof(text) - 1, 0);

	dup2(captured.was, STDERR_FILENO);
	close(captured.was);
	close(captured.fd);
	assert_true(n >= 0);
	text[n] = '\0';
	fputs(text, stderr);
	if (!strstr(text, word))
		fail_msg("\"%s\" is not in \"%s\"", word, text);
	return text;
}

/* ... and is one line; NULL: it is none. */
static void log_is(const char *word)
{
	const char *text = log_has(word ? word : "");

	if (word)
		assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	else
		assert_string_equal(text, "");
}

/* ---- clients --------------------------------------------------------------------------------- */

struct seen {
	struct ffo_client *client;
	struct tls *tls;
	unsigned int answers, events;
	int err, closed, closed_err;
	char why[300]; /* of the last answer, or of the end */
	json_t *answer;
};

static void answered(void *arg, int err, const char *why, json_t *answer)
{
	struct seen *s = arg;

	s->answers++;
	s->err = err;
	snprintf(s->why, sizeof(s->why), "%s", why);
	json_decref(s->answer);
	s->answer = json_incref(answer);
}

static void closed(void *arg, int err)
{
	struct seen *s = arg;

	s->closed++;
	s->closed_err = err;
	snprintf(s->why, sizeof(s->why), "%s", ffo_client_why(s->client));
}

static void told(void *arg, const char *event, json_t *msg)
{
	struct seen *s = arg;

	(void)msg;
	assert_string_equal(event, "attach");
	s->events++;
}

static void call(struct seen *s, enum ffo_op op, json_t *fields)
{
	assert_int_equal(ffo_client_call(s->client, op, fields, answered, s), 0);
}

/* Connect with that certificate and say hello at once. */
static void connect_as(struct test *t, struct seen *s, const char *address, const char *cert,
		       const char *ca)
{
	memset(s, 0, sizeof(*s));
	s->tls = tls_of(cert, ca);
	assert_int_equal(ffo_client_connect(&t->loop, address, s->tls, closed, s, &s->client), 0);
	ffo_client_on_event(s->client, told);
	call(s, FFO_OP_HELLO, json_pack("{s:i}", "version", FFO_PROTO_VERSION));
}

static void let_in(struct test *t, struct seen *s)
{
	UNTIL(t, s->answers + (unsigned int)s->closed);
	if (s->closed || s->err)
		fail_msg("%d %s", s->closed_err, s->why);
}

static void leave(struct seen *s)
{
	if (!s->closed)
		ffo_client_close(s->client);
	tls_free(s->tls);
	json_decref(s->answer);
}

static int dial(const char *address)
{
	struct sockaddr_storage sa;
	int fd;

	assert_int_equal(ffo_address_parse(address, &sa), 0);
	fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Asked before there is a connection, in either family; answers and events. */
static void test_messages(void **state)
{
	static const char *const listen[] = { "tls:127.0.0.1:0", "tls:[::1]:0" };
	struct test *t = *state;
	const char *address;
	struct seen s;

	for (size_t i = 0; i < 2; i++) {
		if (i && access("/proc/net/if_inet6", F_OK))
			continue;
		address = serve(t, "server", listen[i]);
		connect_as(t, &s, address, "h0", "ca");
		call(&s, FFO_OP_HOST_REGISTER, json_pack("{s:s}", "host", "h0"));
		UNTIL(t, s.answers == 2 || s.closed);
		assert_int_equal(s.err, 0);
		assert_false(s.closed);
		hello(t, 0);
		json_decref(ask_ok(t, 0, "'container_add','name':'c%zu','host':'h0'", i));
		UNTIL(t, s.events == 1);
		leave(&s);
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
	struct seen s;
	char *long_name = malloc(FFO_LINE_MAX);

	connect_as(t, &s, serve(t, "server", "tls:127.0.0.1:0"), "boss", "ca");
	hello(t, 0);
	for (int i = 0; i < 250; i++)
		json_decref(ask_ok(t, 0, "'container_add','name':'c%d','host':'h0'", i));
	let_in(t, &s);
	for (int i = 0; i < 20; i++)
		call(&s, FFO_OP_CONTAINER_LIST, NULL);
	UNTIL(t, s.answers == 21 || s.closed);
	assert_false(s.closed);
	assert_int_equal(json_array_size(json_object_get(s.answer, "containers")), 250);

	memset(long_name, 'x', FFO_LINE_MAX);
	long_name[FFO_LINE_MAX - 100] = '\0';
	call(&s, FFO_OP_CONTAINER_GET, json_pack("{s:s}", "name", long_name));
	UNTIL(t, s.answers == 22 || s.closed);
	assert_false(s.closed);
	assert_int_equal(s.err, -EINVAL);
	free(long_name);
	leave(&s);
}

struct raw {
	struct tls *tls;
	SSL *ssl;
	int fd;
};

/* A client that the test reads for, or does not. */
static void raw_open(struct test *t, struct raw *r, const char *address)
{
	static const char hello[] = "{\"op\":\"hello\",\"id\":1,\"version\":1}\n";
	int ret = 0, little = 16384;

	r->fd = dial(address);
	/* or it holds thousands of answers */
	setsockopt(r->fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
	assert_int_equal(fcntl(r->fd, F_SETFL, O_NONBLOCK), 0);
	r->tls = tls_of("boss", "ca");
	r->ssl = tls_open(r->tls, true, TLS_TAKES(ORCHESTRATOR));
	assert_int_equal(SSL_set_fd(r->ssl, r->fd), 1);
	UNTIL(t, (ret = SSL_do_handshake(r->ssl)) == 1);
	assert_int_equal(SSL_write(r->ssl, hello, sizeof(hello) - 1), sizeof(hello) - 1);
	UNTIL(t, t->ffo->num_handshakes == 0);
}

static void raw_close(struct raw *r)
{
	SSL_free(r->ssl);
	tls_free(r->tls);
	close(r->fd);
}

static struct conn *last_conn(struct test *t)
{
	return LIST_FIRST(&t->ffo->conns);
}

/* Asks for big answers until the orchestrator takes no requests any more; how many it asked for. */
static unsigned int raw_flood(struct test *t, struct raw *r)
{
	static const char end[] = "{\"op\":\"container_list\",\"id\":7}\n";
	unsigned int sent = 0;
	char one[16384];

	memset(one, ' ', sizeof(one));
	memcpy(one + sizeof(one) - (sizeof(end) - 1), end, sizeof(end) - 1);
	for (int idle = 0; idle < 1000 || !last_conn(t)->paused;) {
		assert_true(idle < TURNS);
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
	const char *address = serve(t, "server", "tls:127.0.0.1:0");
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
	assert_true(last_conn(t)->paused);
	assert_true(uv_stream_get_write_queue_size(&last_conn(t)->stream) < 2 * FFO_LINE_MAX);
	json_decref(ask_ok(t, 0, "'container_get','name':'c0'")); /* others are served */
	/* The last request may be half sent: OpenSSL has it, and wants it finished. */
	for (int idle = 0; lines < sent + 1; idle++) {
		assert_true(idle < TURNS);
		n = SSL_read(r.ssl, buf, sizeof(buf));
		for (int i = 0; i < n; i++)
			lines += buf[i] == '\n';
		if (n > 0)
			idle = 0;
		uv_run(&t->loop, UV_RUN_NOWAIT);
	}
	assert_false(last_conn(t)->paused);
	raw_close(&r);
	wait_conns(t, 1);

	/* It never reads: it is dropped. */
	raw_open(t, &r, address);
	raw_flood(t, &r);
	assert_true(last_conn(t)->paused);
	uv_timer_start(&last_conn(t)->timer, last_conn(t)->timer.timer_cb, WRITE_TIMEOUT, 0);
	wait_conns(t, 1);
	raw_close(&r);
	json_decref(ask_ok(t, 0, "'container_get','name':'c0'"));
}

/* ---- who is let in --------------------------------------------------------------------------- */

/* The client's certificate is none of ours; it learns that, and the log tells once. */
static void test_client_refused(void **state)
{
	static const struct {
		const char *cert, *word;
	} cases[] = { { "stranger", "certificate" }, { "expired", "expired" } };
	struct test *t = *state;
	const char *address = serve(t, "server", "tls:127.0.0.1:0");
	struct seen s;

	hello(t, 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		log_capture();
		connect_as(t, &s, address, cases[i].cert, "ca");
		UNTIL(t, s.closed);
		wait_conns(t, 1);
		log_is(cases[i].word);
		assert_int_equal(s.answers, 1);
		assert_int_equal(s.err, -ECONNRESET);
		assert_int_equal(s.closed_err, -EACCES);
		assert_non_null(strstr(s.why, "does not take this side's certificate"));
		leave(&s);
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
	const char *address = serve(t, "server", "tls:127.0.0.1:0");
	struct seen s;
	int fd;

	connect_as(t, &s, address, "h0", "ca");
	let_in(t, &s);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool stalls = !strcmp(cases[i].word, "takes too long");

		log_capture();
		t->ffo->handshake_timeout = stalls ? 40 : 1000000;
		fd = dial(address);
		UNTIL(t, t->ffo->num_conns == 2);
		assert_int_equal(write(fd, cases[i].text, cases[i].len), cases[i].len);
		if (stalls)
			wait_conns(t, 1);
		else
			UNTIL(t, last_conn(t)->leaving);
		log_is(cases[i].word);
		close(fd);
		wait_conns(t, 1);
	}
	assert_int_equal(t->ffo->num_handshakes, 0);
	call(&s, FFO_OP_HOST_LIST, NULL);
	UNTIL(t, s.answers == 2 || s.closed);
	assert_int_equal(s.err, 0);
	leave(&s);
}

static void test_no_certificate(void **state)
{
	struct test *t = *state;
	int fd = dial(serve(t, "server", "tls:127.0.0.1:0")), ret;
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	char byte;

	log_capture();
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	SSL_set_fd(ssl, fd);
	UNTIL(t, SSL_connect(ssl) == 1); /* TLS 1.3: it learns only afterwards */
	UNTIL(t, (ret = SSL_read(ssl, &byte, 1)) <= 0 &&
			 SSL_get_error(ssl, ret) != SSL_ERROR_WANT_READ);
	assert_int_equal(SSL_get_error(ssl, ret), SSL_ERROR_SSL);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	close(fd);
	wait_conns(t, 0);
	log_is("did not return a certificate");
}

/* Many that say nothing keep nobody out. */
static void test_many_strangers(void **state)
{
	struct test *t = *state;
	const char *address = serve(t, "server", "tls:127.0.0.1:0");
	int fd[STRANGERS + 10];
	struct seen s[MAX_CLIENTS + 1];

	t->ffo->handshake_timeout = 1000000;
	for (unsigned int i = 0; i < STRANGERS + 10; i++) {
		fd[i] = dial(address);
		UNTIL(t, t->ffo->conn_seq == i + 1);
	}
	assert_int_equal(t->ffo->num_handshakes, STRANGERS);
	for (int i = 0; i < MAX_CLIENTS; i++) {
		connect_as(t, &s[i], address, "h0", "ca");
		let_in(t, &s[i]);
	}
	/* Those who are let in have a limit of their own. */
	connect_as(t, &s[MAX_CLIENTS], address, "h0", "ca");
	UNTIL(t, s[MAX_CLIENTS].closed);
	assert_int_equal(t->ffo->num_conns - t->ffo->num_handshakes, MAX_CLIENTS);
	for (int i = 0; i <= MAX_CLIENTS; i++)
		leave(&s[i]);
	for (unsigned int i = 0; i < STRANGERS + 10; i++)
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
	struct seen s;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *address = serve(t, cases[i].cert, "tls:127.0.0.1:0");

		connect_as(t, &s, address, "h0", cases[i].ca);
		if (!cases[i].word) {
			let_in(t, &s);
		} else {
			UNTIL(t, s.closed);
			assert_int_equal(s.closed_err, -EACCES);
			if (!strstr(s.why, cases[i].word))
				fail_msg("%s: %s", cases[i].cert, s.why);
			assert_int_equal(s.err, -ECONNRESET);
		}
		leave(&s);
		wait_conns(t, 0);
		ffo_destroy(t->ffo);
		t->ffo = NULL;
		uv_run(&t->loop, UV_RUN_DEFAULT);
	}
	/* One without TLS. */
	{
		char address[64];

		strcpy(address, serve(t, "server", "tcp:127.0.0.1:0"));
		memcpy(address, "tls", 3);
		connect_as(t, &s, address, "h0", "ca");
		UNTIL(t, s.closed);
		assert_int_equal(s.closed_err, -EPROTO);
		assert_non_null(strstr(s.why, "does not speak TLS"));
		leave(&s);
		wait_conns(t, 0);
		assert_int_equal(ffo_client_connect(&t->loop, address, NULL, closed, &s, &s.client),
				 -EINVAL);
	}
}

/* A router is of the host that its certificate names; another name is refused, and no more. */
static void test_registration(void **state)
{
	static const char *const wrong[] = { "h1", "H0", "server", "h0.h0" };
	struct test *t = *state;
	struct seen s;

	connect_as(t, &s, serve(t, "server", "tls:127.0.0.1:0"), "h0", "ca");
	let_in(t, &s);
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		log_capture();
		call(&s, FFO_OP_HOST_REGISTER, json_pack("{s:s}", "host", wrong[i]));
		UNTIL(t, s.answers == 2 + i || s.closed);
		log_is("its certificate is not that host's");
		assert_int_equal(s.err, -EPERM);
		assert_non_null(strstr(s.why, "the certificate of this connection"));
		assert_non_null(strstr(s.why, wrong[i]));
	}
	call(&s, FFO_OP_HOST_REGISTER, json_pack("{s:s}", "host", "h0"));
	UNTIL(t, s.answers == 6 || s.closed);
	assert_int_equal(s.err, 0);
	leave(&s);
	wait_conns(t, 0);

	connect_as(t, &s, serve(t, "server", "tls:127.0.0.1:0"), "wild", "ca");
	call(&s, FFO_OP_HOST_REGISTER, json_pack("{s:s}", "host", "h0.x"));
	UNTIL(t, s.answers == 2 || s.closed);
	assert_int_equal(s.err, -EPERM);
	leave(&s);
}

/* A certificate has one role, of a client's; one that names none is let in where that is allowed. */
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
	const char *address;
	struct seen s;

	for (int any = 0; any < 2; any++) {
		server.any_role = any;
		address = serve(t, "server", "tls:127.0.0.1:0");
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			bool in = !cases[i].word || (any && strstr(cases[i].word, "no role"));

			log_capture();
			connect_as(t, &s, address, cases[i].cert, "ca");
			UNTIL(t, s.closed || s.answers);
			if (in)
				log_is(NULL);
			else
				log_is(cases[i].word);
			assert_int_equal(s.closed, !in);
			leave(&s);
			wait_conns(t, 0);
		}
		ffo_destroy(t->ffo);
		t->ffo = NULL;
		uv_run(&t->loop, UV_RUN_DEFAULT);
	}
	/* Likewise where an orchestrator names none. */
	address = serve(t, "nobody", "tls:127.0.0.1:0");
	client_any_role = true;
	connect_as(t, &s, address, "h0", "ca");
	UNTIL(t, s.closed);
	assert_non_null(strstr(s.why, "neither for its address nor"));
	leave(&s);
}

/* An operator is no host, whatever its certificate is called. */
static void test_operator_is_no_host(void **state)
{
	struct test *t = *state;
	struct seen s;

	connect_as(t, &s, serve(t, "server", "tls:127.0.0.1:0"), "boss", "ca");
	call(&s, FFO_OP_HOST_REGISTER, json_pack("{s:s}", "host", "boss"));
	UNTIL(t, s.answers == 2 || s.closed);
	assert_int_equal(s.err, -EPERM);
	leave(&s);
}

/* ---- certificates that are revoked ------------------------------------------------------------ */

/* Replace the file, as an operator should: a reader sees the old one or the new one. */
static const char *new_list(const long *serials, size_t n, int days)
{
	crl_make(&ours, serials, n, days, file("new", ".crl"), false);
	assert_int_equal(rename(file("new", ".crl"), file("list", ".crl")), 0);
	return file("list", ".crl");
}

static void look_now(struct test *t)
{
	uv_timer_start(&t->ffo->look, on_look, 0, TLS_LOOK);
}

static void expect_refused(struct test *t, const char *address, const char *cert, const char *word)
{
	struct seen s;

	log_capture();
	connect_as(t, &s, address, cert, "ca");
	UNTIL(t, s.closed);
	log_is(word);
	leave(&s);
}

/* Who is on the list is not let in; who comes onto it goes, at once, and nobody else does. */
static void test_revoked(void **state)
{
	struct test *t = *state;
	struct seen h0, h1;
	const char *address;
	char crl[128];

	strcpy(crl, new_list(&serial_h1, 1, 5));
	server.crl = crl;
	address = serve(t, "server", "tls:127.0.0.1:0");
	expect_refused(t, address, "h1", "certificate revoked");
	connect_as(t, &h0, address, "h0", "ca");
	let_in(t, &h0);

	/* Taken off the list, and put on again. */
	new_list(NULL, 0, 5);
	connect_as(t, &h1, address, "h1", "ca");
	let_in(t, &h1);
	call(&h1, FFO_OP_HOST_REGISTER, json_pack("{s:s}", "host", "h1"));
	UNTIL(t, h1.answers == 2 || h1.closed);
	assert_int_equal(h1.err, 0);
	look_now(t);
	call(&h1, FFO_OP_HOST_LIST, NULL);
	UNTIL(t, h1.answers == 3 || h1.closed);
	assert_int_equal(h1.err, 0);
	new_list(&serial_h1, 1, 5);
	log_capture();
	look_now(t);
	UNTIL(t, h1.closed);
	log_has("has been revoked");
	leave(&h1);
	wait_conns(t, 1);
	expect_refused(t, address, "h1", "certificate revoked");
	call(&h0, FFO_OP_HOST_LIST, NULL);
	UNTIL(t, h0.answers == 2 || h0.closed);
	assert_int_equal(h0.err, 0);
	leave(&h0);
}

/* It was let in by the list before, and comes to its end under the new one. */
static void test_revoked_in_handshake(void **state)
{
	struct test *t = *state;
	struct seen h1;
	const char *address;
	char crl[128];

	strcpy(crl, new_list(NULL, 0, 5));
	server.crl = crl;
	address = serve(t, "server", "tls:127.0.0.1:0");
	connect_as(t, &h1, address, "h1", "ca");
	UNTIL(t, t->ffo->num_handshakes == 1);
	new_list(&serial_h1, 1, 5);
	look_now(t);
	UNTIL(t, h1.closed);
	assert_int_equal(h1.answers, 1);
	assert_int_equal(h1.err, -ECONNRESET);
	leave(&h1);
}

/* No list, a broken one, one that has expired, another authority's: nobody is let in; others stay. */
static void test_list_unusable(void **state)
{
	struct test *t = *state;
	struct seen s, later;
	const char *address;
	char crl[128];
	FILE *f;

	strcpy(crl, new_list(NULL, 0, 5));
	server.crl = crl;
	address = serve(t, "server", "tls:127.0.0.1:0");
	connect_as(t, &s, address, "h0", "ca");
	let_in(t, &s);
	for (int i = 0; i < 5; i++) {
		log_capture();
		if (i == 0) {
			unlink(crl);
		} else if (i == 1) {
			f = fopen(crl, "w");
			fputs("nothing\n", f);
			fclose(f);
		} else if (i == 2) {
			new_list(NULL, 0, 5);
			f = fopen(crl, "a");
			fputs("-----BEGIN X509 CRL-----\nMII", f);
			fclose(f);
		} else if (i == 3) {
			new_list(NULL, 0, -1);
		} else {
			crl_make(&foreign, NULL, 0, 5, crl, false);
		}
		connect_as(t, &later, address, "h0", "ca");
		UNTIL(t, later.closed);
		log_has(i == 0 ? "No such file" :
			i < 3  ? "not a PEM file" :
			i == 3 ? "list has expired" :
				 "unable to get certificate CRL");
		leave(&later);
	}
	/* Those of both authorities in one file. */
	crl_make(&ours, NULL, 0, 5, crl, true);
	connect_as(t, &later, address, "h0", "ca");
	let_in(t, &later);
	leave(&later);
	look_now(t);
	call(&s, FFO_OP_HOST_LIST, NULL);
	UNTIL(t, s.answers == 2 || s.closed);
	assert_int_equal(s.err, 0);
	leave(&s);
}

/* The orchestrator does not start without the list that it is to have. */
static void test_list_at_start(void **state)
{
	struct test *t = *state;
	struct ffo_conf conf = { .cert = file("server", ".pem"),
				 .key = file("server", ".key"),
				 .ca = file("ca", ".pem") };
	char none[128];

	strcpy(none, file("none", ".crl"));
	conf.crl = none;
	log_capture();
	assert_int_equal(ffo_create(&conf, &t->loop, &t->ffo), -EINVAL);
	log_is("none.crl: No such file");
}

/* A client's own list: the orchestrator is on it, or comes onto it. */
static void test_orchestrator_revoked(void **state)
{
	struct test *t = *state;
	long serial = make_as(&ours, "orchestrator", "server", "ffo", 5);
	const char *address = serve(t, "server", "tls:127.0.0.1:0");
	struct seen s;
	char crl[128];

	strcpy(crl, new_list(NULL, 0, 5));
	client_crl = crl;
	connect_as(t, &s, address, "h0", "ca");
	let_in(t, &s);
	assert_int_equal(tls_list_number(s.tls), 0);
	assert_false(ffo_client_is_revoked(s.client));
	new_list(&serial, 1, 5);
	assert_int_equal(tls_list_number(s.tls), 1);
	assert_true(ffo_client_is_revoked(s.client));
	leave(&s);
	connect_as(t, &s, address, "h0", "ca");
	UNTIL(t, s.closed);
	assert_non_null(strstr(s.why, "certificate revoked"));
	leave(&s);
}

/* New files are for new connections; broken ones are not taken. */
static void test_new_certificates(void **state)
{
	struct test *t = *state;
	const char *address = serve(t, "server", "tls:127.0.0.1:0");
	struct seen s, later;
	FILE *f;

	connect_as(t, &s, address, "h0", "ca");
	let_in(t, &s);
	make_as(&foreign, "orchestrator", "server", "ffo", 5);
	connect_as(t, &later, address, "h0", "ca");
	UNTIL(t, later.closed);
	assert_int_equal(later.closed_err, -EACCES);
	leave(&later);
	make_as(&ours, "orchestrator", "server", "ffo", 5);
	connect_as(t, &later, address, "h0", "ca");
	let_in(t, &later);
	leave(&later);
	f = fopen(file("server", ".pem"), "w");
	assert_non_null(f);
	fputs("nothing\n", f);
	fclose(f);
	connect_as(t, &later, address, "h0", "ca");
	let_in(t, &later);
	leave(&later);
	call(&s, FFO_OP_HOST_LIST, NULL);
	UNTIL(t, s.answers == 2 || s.closed);
	assert_int_equal(s.err, 0);
	leave(&s);
}

/* Without files, or with wrong ones, there is no tls: address. */
static void test_no_files(void **state)
{
	struct test *t = *state;
	struct ffo_conf conf = { .cert = file("none", ".pem"),
				 .key = file("server", ".key"),
				 .ca = file("ca", ".pem") };

	assert_int_equal(ffo_create(&conf, &t->loop, &t->ffo), -EINVAL);
	conf.cert = NULL;
	assert_int_equal(ffo_create(&conf, &t->loop, &t->ffo), 0);
	assert_int_equal(ffo_listen(t->ffo, "tls:127.0.0.1:0"), -EINVAL);
	assert_int_equal(ffo_listen(t->ffo, "tls:127.0.0.1"), -EINVAL);
}

static int make_files(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(dir));
	authority_make(&ours, "ours", file("ca", ".pem"));
	authority_make(&foreign, "foreign", file("foreign", ".pem"));
	make(&ours, "h0", "h0", 5);
	make_as(&ours, "orchestrator", "FFO", "FFO", 5);
	make(&ours, "wild", "*.x", 5);
	make_as(&ours, "orchestrator", "address", "somewhere,IP:127.0.0.1", 5);
	make_as(&ours, "orchestrator", "address6", "somewhere,IP:::1", 5);
	make_as(&ours, "orchestrator", "old", "ffo", -1);
	make_as(&ours, "operator", "boss", "boss", 5);
	make_as(&ours, "", "nobody", "h0", 5);
	make_as(&ours, "host,URI:freeflow:operator", "both", "h0", 5);
	make_as(&ours, "hosts", "other", "h0", 5);
	make_as(&ours, "host,URI:freeflow:host", "twice", "h0", 5);
	serial_h1 = make(&ours, "h1", "h1", 5);
	make(&ours, "expired", "h0", -1);
	make(&foreign, "stranger", "h0", 5);
	return 0;
}

static int remove_files(void **state)
{
	char command[64];

	(void)state;
	authority_free(&ours);
	authority_free(&foreign);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, up, down)
	const struct CMUnitTest tests[] = {
		T(test_messages),
		T(test_long_messages),
		T(test_late_client),
		T(test_client_refused),
		T(test_strangers),
		T(test_no_certificate),
		T(test_many_strangers),
		T(test_server_refused),
		T(test_registration),
		T(test_new_certificates),
		T(test_no_files),
		T(test_roles),
		T(test_operator_is_no_host),
		T(test_revoked),
		T(test_revoked_in_handshake),
		T(test_list_unusable),
		T(test_list_at_start),
		T(test_orchestrator_revoked),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, make_files, remove_files);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* secure_rig.c - see secure_rig.h. */
#include "tests/rig/unit/secure_rig.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffo/server/server.c" /* struct listener */

static_assert(SECURE_STRANGERS == STRANGERS, "as server.c has it");

static char dir[] = "/tmp/test_ffo_tls.XXXXXX";
struct authority secure_ours, secure_foreign;
long secure_serial_h1;

/* ---- files ----------------------------------------------------------------------------------- */

const char *secure_file(const char *name, const char *end)
{
	static char path[4][128];
	static unsigned int next;
	char *p = path[next++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s%s", dir, name, end);
	return p;
}

long secure_make_as(const struct authority *a, const char *role, const char *name, const char *san,
		    int days)
{
	char names[160];

	snprintf(names, sizeof(names), "DNS:%s%s%s", san, *role ? ",URI:freeflow:" : "", role);
	return cert_make_named(a, name, names, days, secure_file(name, ".pem"),
			       secure_file(name, ".key"));
}

static long make(const struct authority *a, const char *name, const char *san, int days)
{
	return secure_make_as(a, "host", name, san, days);
}

const char *secure_client_crl;

struct tls *secure_tls_of(const char *name, const char *ca)
{
	struct tls_files files = { .cert = secure_file(name, ".pem"),
				   .key = secure_file(name, ".key"),
				   .ca = secure_file(ca, ".pem"),
				   .crl = secure_client_crl };
	char err[512] = "";
	struct tls *tls = tls_create(&files, err, sizeof(err));

	if (!tls)
		fail_msg("%s", err);
	return tls;
}

/* ---- the orchestrator, and what it logs ------------------------------------------------------- */

int secure_setup(void **state)
{
	struct test *t = calloc(1, sizeof(*t));

	memset(t->fd, 0xff, sizeof(t->fd));
	uv_loop_init(&t->loop);
	secure_make_as(&secure_ours, "orchestrator", "server", "ffo", 5);
	secure_client_crl = NULL;
	*state = t;
	return 0;
}

struct secure_server secure_server;

int secure_teardown(void **state)
{
	memset(&secure_server, 0, sizeof(secure_server));
	return ffo_teardown(state);
}

struct ffo_conf secure_conf(const char *cert)
{
	return (struct ffo_conf){ .cert = secure_file(cert, ".pem"),
				  .key = secure_file(cert, ".key"),
				  .ca = secure_file("ca", ".pem") };
}

const char *secure_serve(struct test *t, const char *cert, const char *listen)
{
	struct ffo_conf conf = secure_conf(cert);
	static char address[64];
	struct sockaddr_in6 sa;
	socklen_t len = sizeof(sa);

	conf.crl = secure_server.crl;
	conf.max_clients = MAX_CLIENTS;
	if (!t->ffo)
		assert_int_equal(ffo_create(&conf, &t->loop, &t->ffo), 0);
	assert_int_equal(ffo_listen(t->ffo, listen), 0);
	/* the port that it got; sin_port and sin6_port are at one place */
	getsockname(LIST_FIRST(&t->ffo->listeners)->acceptor.fd, (struct sockaddr *)&sa, &len);
	snprintf(address, sizeof(address), "%.*s:%u", (int)(strrchr(listen, ':') - listen), listen,
		 ntohs(sa.sin6_port));
	return address;
}

static struct {
	int fd, was;
} captured;

void secure_log_capture(void)
{
	captured.fd = memfd_create("log", 0);
	captured.was = dup(STDERR_FILENO);
	dup2(captured.fd, STDERR_FILENO);
}

const char *secure_log_has(const char *word)
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

void secure_log_is(const char *word)
{
	const char *text = secure_log_has(word ? word : "");

	if (word)
		assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	else
		assert_string_equal(text, "");
}

/* ---- clients --------------------------------------------------------------------------------- */

static void answered(void *arg, int err, const char *why, json_t *answer)
{
	struct secure_client *s = arg;

	s->answers++;
	s->err = err;
	snprintf(s->why, sizeof(s->why), "%s", why);
	json_decref(s->answer);
	s->answer = json_incref(answer);
}

void secure_closed(void *arg, int err)
{
	struct secure_client *s = arg;

	s->closed++;
	s->closed_err = err;
	snprintf(s->why, sizeof(s->why), "%s", ffo_client_why(s->client));
}

static void told(void *arg, const char *event, json_t *msg)
{
	struct secure_client *s = arg;

	(void)msg;
	assert_string_equal(event, "attach");
	s->events++;
}

void secure_call(struct secure_client *s, enum ffo_op op, json_t *fields)
{
	assert_int_equal(ffo_client_call(s->client, op, fields, answered, s), 0);
}

void secure_connect_as(struct test *t, struct secure_client *s, const char *address,
		       const char *cert, const char *ca)
{
	memset(s, 0, sizeof(*s));
	s->tls = secure_tls_of(cert, ca);
	assert_int_equal(
		ffo_client_connect(&t->loop, address, s->tls, secure_closed, s, &s->client), 0);
	ffo_client_on_event(s->client, told);
	secure_call(s, FFO_OP_HELLO, json_pack("{s:i}", "version", FFO_PROTO_VERSION));
}

void secure_let_in(struct test *t, struct secure_client *s)
{
	SECURE_WAIT_FOR(t, s->answers + (unsigned int)s->closed);
	if (s->closed || s->err)
		fail_msg("%d %s", s->closed_err, s->why);
}

void secure_leave(struct secure_client *s)
{
	if (!s->closed)
		ffo_client_close(s->client);
	tls_free(s->tls);
	json_decref(s->answer);
}

void secure_is_served(struct test *t, struct secure_client *s)
{
	secure_call(s, FFO_OP_HOST_LIST, NULL);
	SECURE_WAIT_FOR(t, s->answers == 2 || s->closed);
	assert_int_equal(s->err, 0);
}

void secure_visit(struct test *t, struct secure_client *s, const char *address)
{
	secure_connect_as(t, s, address, "h0", "ca");
	secure_let_in(t, s);
	secure_leave(s);
}

int secure_dial(const char *address)
{
	struct sockaddr_storage sa;
	int fd;

	assert_int_equal(ffo_address_parse(address, &sa), 0);
	fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

struct conn *secure_last_conn(struct test *t)
{
	return LIST_FIRST(&t->ffo->conns);
}

/* ---- the group ------------------------------------------------------------------------------- */

int secure_make_files(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(dir));
	authority_make(&secure_ours, "ours", secure_file("ca", ".pem"));
	authority_make(&secure_foreign, "foreign", secure_file("foreign", ".pem"));
	make(&secure_ours, "h0", "h0", 5);
	secure_make_as(&secure_ours, "orchestrator", "FFO", "FFO", 5);
	make(&secure_ours, "wild", "*.x", 5);
	secure_make_as(&secure_ours, "orchestrator", "address", "somewhere,IP:127.0.0.1", 5);
	secure_make_as(&secure_ours, "orchestrator", "address6", "somewhere,IP:::1", 5);
	secure_make_as(&secure_ours, "orchestrator", "old", "ffo", -1);
	secure_make_as(&secure_ours, "operator", "boss", "boss", 5);
	secure_make_as(&secure_ours, "", "nobody", "h0", 5);
	secure_make_as(&secure_ours, "host,URI:freeflow:operator", "both", "h0", 5);
	secure_make_as(&secure_ours, "hosts", "other", "h0", 5);
	secure_make_as(&secure_ours, "host,URI:freeflow:host", "twice", "h0", 5);
	secure_serial_h1 = make(&secure_ours, "h1", "h1", 5);
	make(&secure_ours, "expired", "h0", -1);
	make(&secure_foreign, "stranger", "h0", 5);
	return 0;
}

int secure_remove_files(void **state)
{
	char command[64];

	(void)state;
	authority_free(&secure_ours);
	authority_free(&secure_foreign);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

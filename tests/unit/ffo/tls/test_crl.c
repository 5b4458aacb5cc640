/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/secure_rig.c tests/rig/unit/ffo_rig.c tests/rig/unit/certs.c ffr/lib/log.c */
/*
 * test_crl.c - certificates that are revoked, on either side and at any time, and lists that cannot
 * be used.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/secure_rig.h"

/* Replace the file, as an operator should: a reader sees the old one or the new one. */
static const char *new_list(const long *serials, size_t n, int days)
{
	crl_make(&secure_ours, serials, n, days, secure_file("new", ".crl"), false);
	assert_int_equal(rename(secure_file("new", ".crl"), secure_file("list", ".crl")), 0);
	return secure_file("list", ".crl");
}

static void look_now(struct test *t)
{
	uv_timer_start(&t->ffo->look, t->ffo->look.timer_cb, 0, TLS_LOOK);
}

static void expect_refused(struct test *t, const char *address, const char *cert, const char *word)
{
	struct secure_client s;

	secure_log_capture();
	secure_connect_as(t, &s, address, cert, "ca");
	SECURE_WAIT_FOR(t, s.closed);
	secure_log_is(word);
	secure_leave(&s);
}

/* Who is on the list is not let in; who comes onto it goes, at once, and nobody else does. */
static void test_revoked(void **state)
{
	struct test *t = *state;
	struct secure_client h0, h1;
	const char *address;
	char crl[128];

	strcpy(crl, new_list(&secure_serial_h1, 1, 5));
	secure_server.crl = crl;
	address = secure_serve(t, "server", "tls:127.0.0.1:0");
	expect_refused(t, address, "h1", "certificate revoked");
	secure_connect_as(t, &h0, address, "h0", "ca");
	secure_let_in(t, &h0);

	/* Taken off the list, and put on again. */
	new_list(NULL, 0, 5);
	secure_connect_as(t, &h1, address, "h1", "ca");
	secure_let_in(t, &h1);
	secure_call(&h1, FFO_OP_HOST_REGISTER, json_pack("{s:s}", "host", "h1"));
	SECURE_WAIT_FOR(t, h1.answers == 2 || h1.closed);
	assert_int_equal(h1.err, 0);
	look_now(t);
	secure_call(&h1, FFO_OP_HOST_LIST, NULL);
	SECURE_WAIT_FOR(t, h1.answers == 3 || h1.closed);
	assert_int_equal(h1.err, 0);
	new_list(&secure_serial_h1, 1, 5);
	secure_log_capture();
	look_now(t);
	SECURE_WAIT_FOR(t, h1.closed);
	secure_log_has("has been revoked");
	secure_leave(&h1);
	wait_conns(t, 1);
	expect_refused(t, address, "h1", "certificate revoked");
	secure_call(&h0, FFO_OP_HOST_LIST, NULL);
	SECURE_WAIT_FOR(t, h0.answers == 2 || h0.closed);
	assert_int_equal(h0.err, 0);
	secure_leave(&h0);
}

/* It was let in by the list before, and comes to its end under the new one. */
static void test_revoked_in_handshake(void **state)
{
	struct test *t = *state;
	struct secure_client h1;
	const char *address;
	char crl[128];

	strcpy(crl, new_list(NULL, 0, 5));
	secure_server.crl = crl;
	address = secure_serve(t, "server", "tls:127.0.0.1:0");
	secure_connect_as(t, &h1, address, "h1", "ca");
	SECURE_WAIT_FOR(t, t->ffo->num_handshakes == 1);
	new_list(&secure_serial_h1, 1, 5);
	look_now(t);
	SECURE_WAIT_FOR(t, h1.closed);
	assert_int_equal(h1.answers, 1);
	assert_int_equal(h1.err, -ECONNRESET);
	secure_leave(&h1);
}

/* No list, a broken one, one that has expired, another authority's: nobody is let in; others stay. */
static void test_list_unusable(void **state)
{
	struct test *t = *state;
	struct secure_client s, later;
	const char *address;
	char crl[128];
	FILE *f;

	strcpy(crl, new_list(NULL, 0, 5));
	secure_server.crl = crl;
	address = secure_serve(t, "server", "tls:127.0.0.1:0");
	secure_connect_as(t, &s, address, "h0", "ca");
	secure_let_in(t, &s);
	for (int i = 0; i < 5; i++) {
		secure_log_capture();
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
			crl_make(&secure_foreign, NULL, 0, 5, crl, false);
		}
		secure_connect_as(t, &later, address, "h0", "ca");
		SECURE_WAIT_FOR(t, later.closed);
		secure_log_has(i == 0 ? "No such file" :
			       i < 3  ? "not a PEM file" :
			       i == 3 ? "list has expired" :
					"unable to get certificate CRL");
		secure_leave(&later);
		look_now(t); /* its certificate is on no list, and was good when it came */
		secure_call(&s, FFO_OP_HOST_LIST, NULL);
		SECURE_WAIT_FOR(t, s.answers == 2u + (unsigned int)i || s.closed);
		assert_int_equal(s.err, 0);
	}
	/* Those of both authorities in one file. */
	crl_make(&secure_ours, NULL, 0, 5, crl, true);
	secure_visit(t, &later, address);
	look_now(t);
	secure_call(&s, FFO_OP_HOST_LIST, NULL);
	SECURE_WAIT_FOR(t, s.answers == 7 || s.closed);
	assert_int_equal(s.err, 0);
	secure_leave(&s);
}

static off_t size_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

/* A list in the place of another one of as many bytes is another list. */
static void test_list_of_the_same_size(void **state)
{
	struct test *t = *state;
	struct secure_client h1;
	const char *address;
	off_t size;
	char crl[128];

	strcpy(crl, new_list(&secure_serial_h1, 1, 5));
	size = size_of(crl);
	secure_server.crl = crl;
	address = secure_serve(t, "server", "tls:127.0.0.1:0");
	expect_refused(t, address, "h1", "certificate revoked");
	do /* the signature is of some bytes more or less */
		new_list(&(long){ secure_serial_h1 + 1 }, 1, 5);
	while (size_of(crl) != size);
	secure_connect_as(t, &h1, address, "h1", "ca");
	secure_let_in(t, &h1);
	secure_leave(&h1);
}

/* The orchestrator does not start without the list that it is to have. */
static void test_list_at_start(void **state)
{
	struct test *t = *state;
	struct ffo_conf conf = secure_conf("server");
	char none[128];

	strcpy(none, secure_file("none", ".crl"));
	conf.crl = none;
	secure_log_capture();
	assert_int_equal(ffo_create(&conf, &t->loop, &t->ffo), -EINVAL);
	secure_log_is("none.crl: No such file");
}

/* A client's own list: the orchestrator is on it, or comes onto it. */
static void test_orchestrator_revoked(void **state)
{
	struct test *t = *state;
	long serial = secure_make_as(&secure_ours, "orchestrator", "server", "ffo", 5);
	const char *address = secure_serve(t, "server", "tls:127.0.0.1:0");
	struct secure_client s;
	char crl[128];

	strcpy(crl, new_list(NULL, 0, 5));
	secure_client_crl = crl;
	secure_connect_as(t, &s, address, "h0", "ca");
	secure_let_in(t, &s);
	assert_int_equal(tls_list_number(s.tls), 0);
	assert_false(ffo_client_is_revoked(s.client));
	new_list(&serial, 1, 5);
	assert_int_equal(tls_list_number(s.tls), 1);
	assert_true(ffo_client_is_revoked(s.client));
	secure_leave(&s);
	secure_connect_as(t, &s, address, "h0", "ca");
	SECURE_WAIT_FOR(t, s.closed);
	assert_non_null(strstr(s.why, "certificate revoked"));
	secure_leave(&s);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	return UNIT_RUN_GROUP(secure_make_files, secure_remove_files, SECURE_TEST(test_revoked),
			      SECURE_TEST(test_revoked_in_handshake),
			      SECURE_TEST(test_list_unusable),
			      SECURE_TEST(test_list_of_the_same_size),
			      SECURE_TEST(test_list_at_start),
			      SECURE_TEST(test_orchestrator_revoked));
}

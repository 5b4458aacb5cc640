/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/peer/peer.c ffr/peer/conn.c ffr/peer/hello.c ffr/peer/sock.c ffr/peer/tls.c ffr/peer/io.c ffr/conf.c ffr/lib/log.c tests/rig/unit/peer_rig.c tests/rig/unit/certs.c -Wl,--wrap=tls_is_current -Wl,--wrap=tls_cert_of -Wl,--wrap=tls_cert_free */
/*
 * test_tls.c - connections with TLS: whose certificates are taken, new ones, and such that are revoked.
 */
#include <errno.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/certs.h"
#include "tests/rig/unit/peer_rig.h"

/* ---- TLS ------------------------------------------------------------------------------------- */

static char dir[] = "/tmp/test_peer.XXXXXX";
static struct authority ours, foreign;
static long serial_a, serial_b, serial_foreign;

static char *file(const char *name)
{
	static char path[4][64];
	static int turn;
	char *p = path[turn++ & 3];

	snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
	return p;
}

static void prepare_tls(int i, const char *cert, const char *ca)
{
	struct ffr_conf *c = &nodes[i].r.conf;
	char name[32];

	node_prepare(i);
	c->wire_tls = true;
	snprintf(name, sizeof(name), "%s.pem", cert);
	c->wire_cert = strdup(file(name));
	snprintf(name, sizeof(name), "%s.key", cert);
	c->wire_key = strdup(file(name));
	c->wire_ca = strdup(file(ca));
}

static void up_tls(int i, const char *cert, const char *ca)
{
	char err[256] = "";

	prepare_tls(i, cert, ca);
	if (node_start(i, err, sizeof(err)))
		fail_msg("%s", err);
}

static void tls_meets(void **state)
{
	(void)state;
	for (int from = A; from <= B; from++) {
		up_tls(A, "a", "ca.pem");
		up_tls(B, "b", "ca.pem");
		nodes_meet();
		/* the certificate is the proof, whatever the address */
		fast_lock(&nodes[B - from].host);
		peer_of_host(nodes[B - from].r.peers, from ? "b" : "a", nodes[from].r.instance,
			     "tcp:127.0.0.1:1", true);
		fast_unlock(&nodes[B - from].host);
		want(from, B - from);
		WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
		assert_true(joined(A, B));
		assert_false(wire_io_is_plain(peer_at(A, B)->tcp->io));
		assert_string_equal(SSL_get_version(wire_io_ssl(peer_at(A, B)->tcp->io)),
				    "TLSv1.3");
		nodes_teardown(NULL);
	}
}

static void tls_both_at_once(void **state)
{
	(void)state;
	for (int round = 0; round < 10; round++) {
		up_tls(A, "a", "ca.pem");
		up_tls(B, "b", "ca.pem");
		nodes_meet();
		want(A, B);
		want(B, A);
		WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
		assert_true(joined(A, B));
		assert_int_equal(nodes[B].attached, 1);
		nodes_teardown(NULL);
	}
}

/* A certificate that is not the host's, or of another authority, or too old: not as who connects,
 * not as who is connected to. */
static void tls_who_is_not_let_in(void **state)
{
	static const char *const bad[] = { "foreign", "c",	  "expired",  "upper",
					   "wild",    "roleless", "operator", "orchestrator" };

	(void)state;
	for (unsigned int k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
		up_tls(A, "a", "ca.pem");
		up_tls(B, bad[k], "ca.pem");
		nodes_meet();
		want(A, B);
		WAIT_FOR(peer_ctl_at(A, B)->delay > 2 * peer_times.retry_min);
		fast_lock(&nodes[A].host);
		peer_unwant(peer_at(A, B));
		fast_unlock(&nodes[A].host);
		want(B, A);
		WAIT_FOR(peer_ctl_at(B, A)->delay > 2 * peer_times.retry_min);
		assert_int_equal(nodes[A].attached + nodes[B].attached, 0);
		assert_int_equal(nodes[A].asked, 0); /* nobody is asked about who has no proof */
		nodes_teardown(NULL);
	}
}

/* A common name is a name where there is no other. */
static void tls_common_name(void **state)
{
	(void)state;
	up_tls(A, "a", "ca.pem");
	up_tls(B, "common", "ca.pem");
	nodes_meet();
	want(A, B);
	WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
}

static void tls_and_plain(void **state)
{
	(void)state;
	up_tls(A, "a", "ca.pem");
	node_up(B);
	nodes_meet();
	want(A, B);
	WAIT_FOR(peer_ctl_at(A, B)->delay > peer_times.retry_min);
	want(B, A);
	WAIT_FOR(peer_ctl_at(B, A)->delay > peer_times.retry_min);
	assert_int_equal(nodes[A].attached + nodes[B].attached, 0);
}

static void tls_silence(void **state)
{
	static const uint8_t half[] = { 0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3 };
	uint8_t buf[4096];
	int fd;

	(void)state;
	up_tls(A, "a", "ca.pem");
	for (size_t len = 0; len <= sizeof(half); len += sizeof(half)) {
		fd = dial(A, 0);
		assert_int_equal(send(fd, half, len, 0), len);
		WAIT_FOR(in_handshake(A) == 1);
		assert_int_equal(listen_till_end(fd, buf, sizeof(buf)), 0);
		close(fd);
	}
	WAIT_FOR(nodes_settled());
}

/* New files are taken up without a new start; broken ones are not. */
static void tls_new_certificates(void **state)
{
	FILE *f;

	(void)state;
	cert_make(&foreign, "b", "b", 5, file("new.pem"), file("new.key"));
	up_tls(A, "a", "ca.pem");
	up_tls(B, "new", "ca.pem");
	nodes_meet();
	want(A, B);
	WAIT_FOR(peer_ctl_at(A, B)->delay > peer_times.retry_min);
	cert_make(&ours, "b", "b", 5, file("new.pem"), file("new.key"));
	WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
	f = fopen(file("new.pem"), "w");
	assert_non_null(f);
	fputs("nothing\n", f);
	fclose(f);
	lose(A, B);
	want(A, B);
	WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled() &&
		 peer_at(B, A)->generation == 2);
	assert_true(joined(A, B));
}

static void new_list(const long *serials, size_t n)
{
	crl_make(&ours, serials, n, 5, file("new.crl"), false);
	assert_int_equal(rename(file("new.crl"), file("list.crl")), 0);
}

static void up_listed(int i, const char *cert)
{
	char err[256] = "";

	prepare_tls(i, cert, "ca.pem");
	nodes[i].r.conf.wire_crl = strdup(file("list.crl"));
	if (node_start(i, err, sizeof(err)))
		fail_msg("%s", err);
}

/* A connection ends when the certificate of either side comes onto the list, and is not made again. */
static void tls_revoked(void **state)
{
	(void)state;
	for (int at = A; at <= B; at++) {
		new_list(NULL, 0);
		if (at == A)
			up_listed(A, "a");
		else
			up_tls(A, "a", "ca.pem");
		if (at == B)
			up_listed(B, "b");
		else
			up_tls(B, "b", "ca.pem");
		nodes_meet();
		want(A, B);
		WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
		new_list(at == A ? &serial_b : &serial_a, 1);
		WAIT_FOR(!attached(at, B - at));
		lose(B - at, at); /* as the wire notices */
		nodes[A].attached = nodes[B].attached = 0;
		want(A, B);
		WAIT_FOR(peer_ctl_at(A, B)->delay > 2 * peer_times.retry_min);
		want(B, A);
		WAIT_FOR(peer_ctl_at(B, A)->delay > 2 * peer_times.retry_min);
		assert_int_equal(nodes[A].attached + nodes[B].attached, 0);
		/* Another's number does no harm. */
		new_list(&serial_foreign, 1);
		WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
		nodes_teardown(NULL);
	}
}

/* Nobody is let in by a list that is not there, and who was is left alone. */
static void tls_list_gone(void **state)
{
	(void)state;
	new_list(NULL, 0);
	up_listed(A, "a");
	up_tls(B, "b", "ca.pem");
	nodes_meet();
	want(A, B);
	WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
	unlink(file("list.crl"));
	WAIT_FOR(nodes[A].r.peers->list == 1);
	assert_true(attached(A, B));
	lose(A, B);
	want(A, B);
	WAIT_FOR(peer_ctl_at(A, B)->delay > 2 * peer_times.retry_min);
	assert_false(attached(A, B));
	new_list(NULL, 0);
	WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
}

static bool all_revoked; /* while their handshakes were under way */
static int num_certs;	 /* that routers have now */

bool __real_tls_is_current(const struct tls *t, const SSL *ssl);
bool __wrap_tls_is_current(const struct tls *t, const SSL *ssl);
bool __wrap_tls_is_current(const struct tls *t, const SSL *ssl)
{
	return !all_revoked && __real_tls_is_current(t, ssl);
}

struct tls_cert *__real_tls_cert_of(const SSL *ssl);
struct tls_cert *__wrap_tls_cert_of(const SSL *ssl);
struct tls_cert *__wrap_tls_cert_of(const SSL *ssl)
{
	struct tls_cert *cert = __real_tls_cert_of(ssl);

	num_certs += cert != NULL;
	return cert;
}

void __real_tls_cert_free(struct tls_cert *cert);
void __wrap_tls_cert_free(struct tls_cert *cert);
void __wrap_tls_cert_free(struct tls_cert *cert)
{
	num_certs -= cert != NULL;
	__real_tls_cert_free(cert);
}

/* The list may be another one by the end of a handshake. */
static void tls_revoked_in_handshake(void **state)
{
	(void)state;
	up_tls(A, "a", "ca.pem");
	up_tls(B, "b", "ca.pem");
	nodes_meet();
	all_revoked = true;
	want(A, B);
	WAIT_FOR(peer_ctl_at(A, B)->delay > 2 * peer_times.retry_min);
	assert_int_equal(nodes[A].attached + nodes[B].attached, 0);
	assert_int_equal(num_certs, 0);
	all_revoked = false;
	WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
	for (int i = 0; i < 5; i++) {
		assert_int_equal(num_certs, 2); /* of each other's */
		lose(A, B);
		lose(B, A);
		want(A, B);
		WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
	}
	nodes_teardown(NULL);
	assert_int_equal(num_certs, 0);
}

static void tls_files(void **state)
{
	static const struct {
		const char *cert, *ca, *word;
	} bad[] = {
		{ "none", "ca.pem", "No such file" }, { "a", "none.pem", "No such file" },
		{ "locked", "ca.pem", "passphrase" }, { "mixed", "ca.pem", "not that of" },
		{ "a", "empty.pem", "empty.pem" },    { "empty", "ca.pem", "empty.pem" },
	};
	char err[512];

	(void)state;
	for (unsigned int k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
		prepare_tls(A, bad[k].cert, bad[k].ca);
		err[0] = '\0';
		assert_int_equal(node_start(A, err, sizeof(err)), -EINVAL);
		if (!strstr(err, bad[k].word) || strncmp(err, dir, strlen(dir)))
			fail_msg("%s: \"%s\"", bad[k].cert, err);
		node_conf_free(A);
	}
}

/* ---- files ----------------------------------------------------------------------------------- */

static int make_files(void **state)
{
	FILE *f;

	(void)state;
	signal(SIGPIPE, SIG_IGN); /* as main() does */
	log_level = getenv("TEST_LOG") ? LOG_LEVEL_DEBUG : LOG_LEVEL_ERR;
	peer_times = (struct peer_times){ .connect = 1000,
					  .handshake = 600,
					  .accept = 300,
					  .retry_min = 5,
					  .retry_max = 40,
					  .stable = 1000,
					  .sweep = 60000,
					  .look = 20 };
	if (!mkdtemp(dir))
		return -1;
	authority_make(&ours, "ours", file("ca.pem"));
	authority_make(&foreign, "ours", file("foreign-ca.pem"));
	serial_a = cert_make_named(&ours, "a", "DNS:a,URI:freeflow:host", 5, file("a.pem"),
				   file("a.key"));
	serial_b = cert_make_named(&ours, "b", "DNS:b,URI:freeflow:host", 5, file("b.pem"),
				   file("b.key"));
	cert_make_named(&ours, "b", "DNS:b", 5, file("roleless.pem"), file("roleless.key"));
	cert_make_named(&ours, "b", "DNS:b,URI:freeflow:operator", 5, file("operator.pem"),
			file("operator.key"));
	cert_make_named(&ours, "b", "DNS:b,URI:freeflow:orchestrator", 5, file("orchestrator.pem"),
			file("orchestrator.key"));
	cert_make(&ours, "b", "c", 5, file("c.pem"), file("c.key"));
	cert_make(&ours, "B", "B", 5, file("upper.pem"), file("upper.key"));
	cert_make(&ours, "*", "*", 5, file("wild.pem"), file("wild.key"));
	cert_make(&ours, "b", NULL, 5, file("common.pem"), file("common.key"));
	cert_make(&ours, "b", "b", -1, file("expired.pem"), file("expired.key"));
	serial_foreign = cert_make_named(&foreign, "b", "DNS:b,URI:freeflow:host", 5,
					 file("foreign.pem"), file("foreign.key"));
	cert_make(&ours, "a", "a", 5, file("locked.pem"), file("locked.key"));
	key_make_locked(file("locked.key"));
	cert_make(&ours, "a", "a", 5, file("mixed.pem"), file("other.key"));
	cert_make(&ours, "a", "a", 5, file("other.pem"), file("mixed.key"));
	cert_make(&ours, "a", "a", 5, file("empty.pem"), file("empty.key"));
	f = fopen(file("empty.pem"), "w");
	return f ? fclose(f) : -1;
}

static int remove_files(void **state)
{
	char cmd[64];

	(void)state;
	authority_free(&ours);
	authority_free(&foreign);
	snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
	return system(cmd);
}

int main(void)
{
	return UNIT_RUN_GROUP(make_files, remove_files, NODES_TEST(tls_meets),
			      NODES_TEST(tls_both_at_once), NODES_TEST(tls_who_is_not_let_in),
			      NODES_TEST(tls_common_name), NODES_TEST(tls_and_plain),
			      NODES_TEST(tls_silence), NODES_TEST(tls_new_certificates),
			      NODES_TEST(tls_files), NODES_TEST(tls_revoked),
			      NODES_TEST(tls_list_gone), NODES_TEST(tls_revoked_in_handshake));
}

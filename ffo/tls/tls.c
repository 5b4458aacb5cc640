/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * tls.c - see tls.h. Used by the orchestrator and its clients (stream.c) and by routers among
 * themselves (ffr/peer/tls.c); by one thread for each struct tls.
 *
 * Which host a certificate is of is the name in it, literally (no wildcards: a certificate is of one
 * host). There is nothing to resume: a connection lives as long as its two ends, and tickets are one
 * more thing that can leak.
 */
#include "ffo/tls/tls.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ffr/lib/log.h"
#include "ffo/tls/crl.h"
#include "ffo/tls/internal.h"

#define READ_BUFFER (128u * 1024) /* bytes of records that one read() gets at most */

/* AES-128 first: it is safe, and takes half to two thirds of the time of AES-256. */
#define CIPHERS "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

enum { CERT, KEY, CA, NUM_FILES };
static_assert(NUM_FILES == TLS_NUM_FILES, "struct tls has room for each");

/* ---- the files ------------------------------------------------------------------------------- */

/* Why OpenSSL did not like it: the first error tells, others are where it came through. */
static const char *tls_reason(void)
{
	unsigned long e = ERR_peek_error();
	const char *s = ERR_reason_error_string(e);

	if (ERR_GET_LIB(e) == ERR_LIB_PEM && ERR_GET_REASON(e) == PEM_R_NO_START_LINE)
		return "not a PEM file of that kind";
	return s ? s : "it cannot be read";
}

/* Without one, OpenSSL would ask at a terminal. */
static int no_passphrase(char *buf, int size, int writing, void *arg)
{
	(void)buf;
	(void)size;
	(void)writing;
	*(bool *)arg = true;
	return -1;
}

/* OpenSSL compares it with the certificate that was read before. */
static int key_read(SSL_CTX *ctx, const char *path, const char *cert, char *err, size_t size)
{
	bool asked = false;
	struct stat st;
	int ok;

	if (!stat(path, &st) && (st.st_mode & 0007))
		log_warn("%s: this private key can be read or changed by everybody", path);
	SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
	SSL_CTX_set_default_passwd_cb_userdata(ctx, &asked);
	ok = SSL_CTX_use_PrivateKey_file(ctx, path, SSL_FILETYPE_PEM);
	SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
	SSL_CTX_set_default_passwd_cb(ctx, NULL);
	if (ok == 1)
		return 0;
	if (ERR_GET_REASON(ERR_peek_error()) == X509_R_KEY_VALUES_MISMATCH)
		snprintf(err, size, "%s: the key is not that of %s", path, cert);
	else
		snprintf(err, size, "%s: %s", path,
			 asked ? "the key has a passphrase; it must have none" : tls_reason());
	return -EINVAL;
}

static int files_read(SSL_CTX *ctx, const struct tls *t, char *err, size_t size)
{
	for (int i = 0; i < NUM_FILES; i++) {
		FILE *f = fopen(t->path[i], "re"); /* for the words of errno */

		if (!f) {
			snprintf(err, size, "%s: %s", t->path[i], strerror(errno));
			return -EINVAL;
		}
		fclose(f);
	}
	ERR_clear_error();
	if (SSL_CTX_use_certificate_chain_file(ctx, t->path[CERT]) != 1) {
		snprintf(err, size, "%s: %s", t->path[CERT], tls_reason());
		return -EINVAL;
	}
	if (key_read(ctx, t->path[KEY], t->path[CERT], err, size))
		return -EINVAL;
	if (SSL_CTX_load_verify_locations(ctx, t->path[CA], NULL) != 1) {
		snprintf(err, size, "%s: %s", t->path[CA], tls_reason());
		return -EINVAL;
	}
	return 0;
}

static SSL_CTX *ctx_create(const struct tls *t, char *err, size_t size)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_method());

	if (!ctx) {
		snprintf(err, size, "TLS: %s", tls_reason());
		return NULL;
	}
	if (files_read(ctx, t, err, size)) {
		SSL_CTX_free(ctx);
		ERR_clear_error();
		return NULL;
	}
	SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION);
	SSL_CTX_set_ciphersuites(ctx, CIPHERS);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, tls_verify_role);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(ctx, 0);
	SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_ENABLE_KTLS);
	SSL_CTX_set_read_ahead(ctx, 1);
	SSL_CTX_set_default_read_buffer_len(ctx, READ_BUFFER);
	return ctx;
}

/*
 * What certificates are checked against where there is a revocation list: the authorities of t->ctx, and
 * the list. Without memory for it nobody is let in.
 */
static void trust_make(struct tls *t)
{
	STACK_OF(X509) *authorities = NULL;
	X509_STORE *store = NULL;
	bool ok = false;

	if (!t->crl)
		return;
	authorities = X509_STORE_get1_all_certs(SSL_CTX_get_cert_store(t->ctx));
	store = X509_STORE_new();
	if (authorities && store)
		ok = !tls_crl_apply(t->crl, store);
	for (int i = 0; ok && i < sk_X509_num(authorities); i++)
		ok = X509_STORE_add_cert(store, sk_X509_value(authorities, i)) == 1;
	sk_X509_pop_free(authorities, X509_free);
	if (!ok) {
		log_err("TLS: out of memory; nobody is let in");
		X509_STORE_free(store);
		store = NULL;
	}
	X509_STORE_free(t->trust);
	t->trust = store;
}

/* When the files were changed last. */
static void files_look(const struct tls *t, struct timespec *changed)
{
	struct stat st;

	for (int i = 0; i < NUM_FILES; i++)
		changed[i] = stat(t->path[i], &st) ? t->changed[i] : st.st_mtim;
}

/* New files are for new connections. Half of new files is an error that the next look mends. */
static void files_refresh(struct tls *t)
{
	struct timespec changed[NUM_FILES];
	char err[512];
	SSL_CTX *ctx;

	files_look(t, changed);
	if (!memcmp(changed, t->changed, sizeof(changed)))
		return;
	memcpy(t->changed, changed, sizeof(changed));
	ctx = ctx_create(t, err, sizeof(err));
	if (!ctx) {
		log_err("%s; what was read before is used on", err);
		return;
	}
	log_info("TLS: new certificates were read");
	SSL_CTX_free(t->ctx);
	t->ctx = ctx;
	trust_make(t);
}

static void list_refresh(struct tls *t)
{
	if (!t->crl || !tls_crl_look(t->crl))
		return;
	t->list++;
	trust_make(t);
}

void tls_look(struct tls *t)
{
	files_refresh(t);
	list_refresh(t);
}

bool tls_has_list(const struct tls *t)
{
	return t->crl;
}

unsigned int tls_list_number(struct tls *t)
{
	list_refresh(t);
	return t->list;
}

struct tls *tls_create(const struct tls_files *files, char *err, size_t size)
{
	struct tls *t = calloc(1, sizeof(*t));

	if (t) {
		t->path[CERT] = strdup(files->cert);
		t->path[KEY] = strdup(files->key);
		t->path[CA] = strdup(files->ca);
	}
	if (!t || !t->path[CERT] || !t->path[KEY] || !t->path[CA]) {
		snprintf(err, size, "out of memory");
		tls_free(t);
		return NULL;
	}
	files_look(t, t->changed);
	t->ctx = ctx_create(t, err, size);
	if (t->ctx && files->crl)
		t->crl = tls_crl_create(files->crl, err, size);
	if (!t->ctx || (files->crl && !t->crl)) {
		tls_free(t);
		return NULL;
	}
	trust_make(t);
	return t;
}

void tls_free(struct tls *t)
{
	if (!t)
		return;
	X509_STORE_free(t->trust);
	tls_crl_free(t->crl);
	SSL_CTX_free(t->ctx);
	for (int i = 0; i < NUM_FILES; i++)
		free(t->path[i]);
	free(t);
}

/* ---- a handshake ----------------------------------------------------------------------------- */

SSL *tls_open(struct tls *t, bool connects, unsigned int roles)
{
	SSL *ssl;

	tls_look(t);
	ERR_clear_error();
	ssl = t->crl && !t->trust ? NULL : SSL_new(t->ctx);
	if (!ssl)
		return NULL;
	if (t->trust && SSL_set1_verify_cert_store(ssl, t->trust) != 1) {
		SSL_free(ssl);
		return NULL;
	}
	tls_takes(ssl, roles);
	if (connects)
		SSL_set_connect_state(ssl);
	else
		SSL_set_accept_state(ssl);
	return ssl;
}

/* Has the other side said that it does not take this side's certificate? */
static bool is_refusal(int reason)
{
	switch (reason) {
	case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
	case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
	case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
	case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
	case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
	case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
	case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
	case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
		return true;
	default:
		return false;
	}
}

/* What comes is no record, or one of another protocol's. */
static bool is_other_protocol(int reason)
{
	return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
	       reason == SSL_R_HTTPS_PROXY_REQUEST || reason == SSL_R_UNKNOWN_PROTOCOL;
}

int tls_failed(const SSL *ssl, char *why, size_t size)
{
	int reason = ERR_GET_REASON(ERR_peek_error()), err = -EPROTO;
	long verify = SSL_get_verify_result(ssl);

	if (tls_why_role(ssl, why, size)) {
		err = -EACCES;
	} else if (verify != X509_V_OK) {
		snprintf(why, size, "TLS: %s", X509_verify_cert_error_string(verify));
		err = -EACCES;
	} else if (is_refusal(reason)) {
		snprintf(why, size, "TLS: it does not take this side's certificate: %s",
			 tls_reason());
		err = -EACCES;
	} else if (is_other_protocol(reason)) {
		snprintf(why, size, "TLS: it does not speak TLS: %s", tls_reason());
	} else {
		snprintf(why, size, "TLS: %s", tls_reason());
		if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
			err = -EACCES;
	}
	ERR_clear_error();
	return err;
}

int tls_step(SSL *ssl, bool *writes, char *why, size_t size)
{
	int ret, err;

	ERR_clear_error();
	errno = 0;
	ret = SSL_do_handshake(ssl);
	if (ret == 1)
		return 0;
	err = errno;
	switch (SSL_get_error(ssl, ret)) {
	case SSL_ERROR_WANT_READ:
		*writes = false;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		*writes = true;
		return -EAGAIN;
	case SSL_ERROR_SYSCALL:
		snprintf(why, size, "TLS: %s",
			 err ? strerror(err) : "it has closed the connection");
		ERR_clear_error();
		return -EPROTO;
	default:
		return tls_failed(ssl, why, size);
	}
}

bool tls_is(const SSL *ssl, const char *host)
{
	X509 *cert = SSL_get0_peer_certificate(ssl);
	char *name = NULL;
	bool is;

	if (!cert || SSL_get_verify_result(ssl) != X509_V_OK ||
	    X509_check_host(cert, host, strlen(host), X509_CHECK_FLAG_NO_WILDCARDS, &name) != 1)
		return false;
	is = !strcmp(name, host); /* to DNS "H1" is "h1"; to the orchestrator it is not */
	OPENSSL_free(name);
	return is;
}

bool tls_is_at(const SSL *ssl, const struct sockaddr_storage *sa)
{
	const struct sockaddr_in6 *six = (const void *)sa;
	const struct sockaddr_in *four = (const void *)sa;
	X509 *cert = SSL_get0_peer_certificate(ssl);

	if (!cert || SSL_get_verify_result(ssl) != X509_V_OK)
		return false;
	if (sa->ss_family == AF_INET)
		return X509_check_ip(cert, (const void *)&four->sin_addr, sizeof(four->sin_addr),
				     0) == 1;
	return sa->ss_family == AF_INET6 &&
	       X509_check_ip(cert, six->sin6_addr.s6_addr, sizeof(six->sin6_addr), 0) == 1;
}

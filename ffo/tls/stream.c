/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * stream.c - see stream.h. OpenSSL between two BIOs in memory, so that nothing here waits.
 *
 * What is received is at most NET_MAX bytes and a part of a record, until all of it was read; what is
 * to be sent is what was written and not taken, which is the caller's to bound. That the stream ends
 * without TLS's own end is no more than a lost connection: of a line that was cut nothing is handled.
 */
#include "ffo/tls/stream.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NET_MAX (16u * 1024) /* bytes that are received at once */

struct tls_stream {
	struct tls *tls;
	enum tls_role role; /* the other side's */
	SSL *ssl;
	BIO *in, *out; /* the SSL's */
	struct sockaddr_storage at;
	bool connects, up;
	int failed;  /* -errno, for good */
	char *early; /* [early_len] written before the handshake was done */
	size_t early_len;
	char why[256];
	char net[NET_MAX];
};

struct tls_stream *tls_stream_create(struct tls *t, const struct sockaddr_storage *at)
{
	struct tls_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->tls = t;
	s->connects = at;
	if (at)
		s->at = *at;
	s->ssl = tls_open(t, s->connects,
			  s->connects ? TLS_TAKES(ORCHESTRATOR) :
					TLS_TAKES(HOST) | TLS_TAKES(OPERATOR));
	s->in = BIO_new(BIO_s_mem());
	s->out = BIO_new(BIO_s_mem());
	if (!s->ssl || !s->in || !s->out) {
		BIO_free(s->in);
		BIO_free(s->out);
		SSL_free(s->ssl);
		free(s);
		return NULL;
	}
	SSL_set_bio(s->ssl, s->in, s->out);
	/* There can be many of them, most of them idle. */
	SSL_set_read_ahead(s->ssl, 0);
	SSL_set_default_read_buffer_len(s->ssl, 0);
	SSL_set_mode(s->ssl, SSL_MODE_RELEASE_BUFFERS);
	return s;
}

void tls_stream_free(struct tls_stream *s)
{
	if (!s)
		return;
	SSL_free(s->ssl); /* and its BIOs */
	free(s->early);
	free(s);
}

/* ---- in ------------------------------------------------------------------------------------- */

char *tls_stream_space(struct tls_stream *s, size_t *size)
{
	*size = sizeof(s->net);
	return s->net;
}

int tls_stream_received(struct tls_stream *s, size_t n)
{
	return BIO_write(s->in, s->net, (int)n) == (int)n ? 0 : -ENOMEM;
}

static int encrypt(struct tls_stream *s, const void *text, size_t len)
{
	size_t done;

	ERR_clear_error();
	if (SSL_write_ex(s->ssl, text, len, &done) == 1)
		return 0;
	s->failed = tls_failed(s->ssl, s->why, sizeof(s->why));
	return s->failed;
}

/* Is it who it is to be? Then what waits for that goes out. */
static int handshake_done(struct tls_stream *s)
{
	int err = 0;

	s->role = tls_role(s->ssl);
	if (!tls_is_current(s->tls, s->ssl)) {
		snprintf(s->why, sizeof(s->why), TLS_NEW_LIST);
		(void)SSL_shutdown(s->ssl); /* the other side need not wait to come again */
		return -EACCES;
	}
	if (s->connects && !tls_is_at(s->ssl, &s->at) && !tls_is(s->ssl, TLS_ORCHESTRATOR)) {
		snprintf(s->why, sizeof(s->why),
			 "TLS: its certificate is neither for its address nor for the name "
			 "\"" TLS_ORCHESTRATOR "\"");
		return -EACCES;
	}
	s->up = true;
	if (s->early_len)
		err = encrypt(s, s->early, s->early_len);
	free(s->early);
	s->early = NULL;
	s->early_len = 0;
	return err;
}

ssize_t tls_stream_read(struct tls_stream *s, void *buf, size_t size)
{
	bool writes;
	size_t n;
	int ret;

	if (s->failed)
		return s->failed;
	if (!s->up) {
		ret = tls_step(s->ssl, &writes, s->why, sizeof(s->why));
		if (ret == -EAGAIN)
			return ret;
		if (!ret)
			ret = handshake_done(s);
		if (ret) {
			s->failed = ret;
			return ret;
		}
	}
	ERR_clear_error();
	ret = SSL_read_ex(s->ssl, buf, size, &n);
	if (ret == 1)
		return (ssize_t)n;
	switch (SSL_get_error(s->ssl, ret)) {
	case SSL_ERROR_WANT_READ:
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	default:
		s->failed = tls_failed(s->ssl, s->why, sizeof(s->why));
		return s->failed;
	}
}

/* ---- out ------------------------------------------------------------------------------------ */

int tls_stream_write(struct tls_stream *s, const void *text, size_t len)
{
	char *early;

	if (s->failed)
		return s->failed;
	if (s->up)
		return encrypt(s, text, len);
	early = realloc(s->early, s->early_len + len);
	if (!early)
		return -ENOMEM;
	memcpy(early + s->early_len, text, len);
	s->early = early;
	s->early_len += len;
	return 0;
}

int tls_stream_take(struct tls_stream *s, char **bytes, size_t *len)
{
	char *data;
	long n = BIO_get_mem_data(s->out, &data);
	BIO *fresh;

	*bytes = NULL;
	*len = 0;
	if (n <= 0)
		return 0;
	*bytes = malloc((size_t)n);
	if (!*bytes)
		return -ENOMEM;
	memcpy(*bytes, data, (size_t)n);
	*len = (size_t)n;
	/* What has become large for one long answer does not stay so. */
	fresh = (size_t)n > NET_MAX ? BIO_new(BIO_s_mem()) : NULL;
	if (fresh) {
		SSL_set0_wbio(s->ssl, fresh);
		s->out = fresh;
	} else {
		BIO_reset(s->out);
	}
	return 0;
}

/* ---- who it is ------------------------------------------------------------------------------ */

bool tls_stream_is_up(const struct tls_stream *s)
{
	return s->up;
}

enum tls_role tls_stream_role(const struct tls_stream *s)
{
	return s->role;
}

bool tls_stream_has_tenant(const struct tls_stream *s, const char *tenant)
{
	return tls_has_tenant(s->ssl, tenant);
}

bool tls_stream_is_revoked(const struct tls_stream *s)
{
	struct tls_cert *c = s->up ? tls_cert_of(s->ssl) : NULL;
	bool revoked = s->up && (!c || tls_cert_is_revoked(s->tls, c));

	tls_cert_free(c);
	return revoked;
}

bool tls_stream_is(const struct tls_stream *s, const char *host)
{
	return s->up && tls_is(s->ssl, host);
}

const char *tls_stream_why(const struct tls_stream *s)
{
	return s->why;
}

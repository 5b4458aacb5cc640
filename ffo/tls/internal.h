/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * internal.h - what tls.c (files, handshakes) and cert.c (the other side's certificate) share.
 */
#ifndef FFO_TLS_INTERNAL_H
#define FFO_TLS_INTERNAL_H

#include <time.h>

#include "ffo/tls/tls.h"

#define TLS_NUM_FILES 3

struct tls_crl;

struct tls {
	SSL_CTX *ctx;
	char *path[TLS_NUM_FILES];
	struct timespec changed[TLS_NUM_FILES];
	struct tls_crl *crl; /* NULL: there is no list */
	X509_STORE *trust;   /* with a list: what certificates are checked against */
	unsigned int list;   /* its number */
};

/* Which roles the SSL's other side may have: TLS_TAKES(), or'ed. */
void tls_takes(SSL *ssl, unsigned int roles);
/* For SSL_set_verify(). */
int tls_verify_role(int ok, X509_STORE_CTX *ctx);
/* Was it refused for its role? Then `why` has a line. */
bool tls_why_role(const SSL *ssl, char *why, size_t size);

#endif

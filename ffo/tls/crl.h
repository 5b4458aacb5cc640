/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * crl.h - the revocation list: a PEM file with a list of each authority, which is read again when
 * it has changed. For tls.c. One thread.
 */
#ifndef FFO_TLS_CRL_H
#define FFO_TLS_CRL_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>

struct tls_crl;

/* NULL: `err` has one line. */
struct tls_crl *tls_crl_create(const char *path, char *err, size_t size);
void tls_crl_free(struct tls_crl *c);
/*
 * Look at the file: true when it is another one than before, or cannot be read any more, and tells the
 * log so, once; also when a list in it expires.
 */
bool tls_crl_look(struct tls_crl *c);
/*
 * Certificates are taken only by what the lists say: put them into the store. There are none where the
 * file cannot be read, and then no certificate is taken. 0 or -ENOMEM.
 */
int tls_crl_apply(const struct tls_crl *c, X509_STORE *store);
/* Are there lists to be asked? */
bool tls_crl_is_readable(const struct tls_crl *c);

#endif

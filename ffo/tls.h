/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * tls.h - TLS 1.3 with certificates of both sides: their files, which are read again when they have
 * changed, and a connection's handshake.
 */
#ifndef FFO_TLS_H
#define FFO_TLS_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct tls;

/* PEM files: the own certificate (and those between it and the CA's), its key, and who may sign. */
struct tls_files {
	const char *cert, *key, *ca;
};

/* NULL: `err` has one line. */
struct tls *tls_create(const struct tls_files *files, char *err, size_t size);
void tls_free(struct tls *t);

/* For a handshake, with files that are new meanwhile; it has no BIO yet. NULL: out of memory. */
SSL *tls_open(struct tls *t, bool connects);
/*
 * 0: done; -EAGAIN: its BIO must become readable, or if *writes writable; or as tls_failed().
 */
int tls_step(SSL *ssl, bool *writes, char *why, size_t size);
/*
 * After a call of SSL's that failed for good: -EACCES, one side's certificate is missing or not taken,
 * or -EPROTO; `why` gets a line.
 */
int tls_failed(const SSL *ssl, char *why, size_t size);
/* Is the peer's certificate that host's? */
bool tls_is(const SSL *ssl, const char *host);
/* Is it for that IP address? */
bool tls_is_at(const SSL *ssl, const struct sockaddr_storage *sa);

#endif

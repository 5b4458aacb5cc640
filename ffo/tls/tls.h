/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * tls.h - TLS 1.3 with certificates of both sides: their files, which are read again when they have
 * changed, a connection's handshake, and what the other side's certificate is for (cert.c).
 *
 * The room ffo/tls/ may use base/ and ffr/lib/; it runs on the loop whose connection it is.
 */
#ifndef FFO_TLS_TLS_H
#define FFO_TLS_TLS_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct tls;
struct tls_cert;

#define TLS_LOOK 2000u /* ms between two looks at whether the revocation list has changed */

/*
 * What a certificate is for: URI:freeflow:ROLE in its subjectAltName, where its authority has put it.
 * X(NAME, name, words)
 */
#define TLS_ROLES(X)                                                                               \
	X(HOST, host, "a host")                                                                    \
	X(OPERATOR, operator, "an operator")                                                       \
	X(ORCHESTRATOR, orchestrator, "an orchestrator")

enum tls_role {
	TLS_ROLE_NONE, /* the certificate names none, and is refused */
#define X(NAME, name, words) TLS_ROLE_##NAME,
	TLS_ROLES(X)
#undef X
};

/*
 * PEM files: the own certificate (and those between it and the CA's), its key, who may sign, and which
 * certificates are revoked (NULL: none is asked for).
 */
struct tls_files {
	const char *cert, *key, *ca, *crl;
};

/* NULL: `err` has one line. */
struct tls *tls_create(const struct tls_files *files, char *err, size_t size);
void tls_free(struct tls *t);

/* Look now, not with the next connection, whether there are new files; the log tells of them, or what is wrong. */
void tls_look(struct tls *t);

/*
 * For a handshake with who has one of these roles, with files that are new meanwhile; it has no BIO yet.
 * NULL: out of memory.
 */
SSL *tls_open(struct tls *t, bool connects, unsigned int roles);
#define TLS_TAKES(NAME) (1u << TLS_ROLE_##NAME)
/*
 * 0: done; -EAGAIN: its BIO must become readable, or if *writes writable; or as tls_failed().
 */
int tls_step(SSL *ssl, bool *writes, char *why, size_t size);
/*
 * After a call of SSL's that failed for good: -EACCES, one side's certificate is missing or not taken,
 * or -EPROTO; `why` gets a line.
 */
int tls_failed(const SSL *ssl, char *why, size_t size);
/* After the handshake: what the peer's certificate is for. */
enum tls_role tls_role(const SSL *ssl);
/* Was the peer's certificate checked with the revocation list of now? */
bool tls_is_current(const struct tls *t, const SSL *ssl);
#define TLS_NEW_LIST "TLS: there is a new revocation list meanwhile"
/*
 * May the host that shows it have containers of that tenant? Those of the URI:freeflow:tenant/TENANT in
 * its certificate, or of all tenants where there is none.
 */
bool tls_has_tenant(const SSL *ssl, const char *tenant);

/* ---- certificates that are revoked while their connections live ---- */

/* Is there a list at all? */
bool tls_has_list(const struct tls *t);
/* The list's number, which grows when there is a new one; looks at the file. */
unsigned int tls_list_number(struct tls *t);
/* The peer's certificate, to be asked for later; NULL: out of memory. */
struct tls_cert *tls_cert_of(const SSL *ssl);
void tls_cert_free(struct tls_cert *c);
/* Is it on the list, or one of those between it and the authority? */
bool tls_cert_is_revoked(const struct tls *t, const struct tls_cert *c);
#define TLS_REVOKED "its certificate has been revoked"

/* Is the peer's certificate that host's? */
bool tls_is(const SSL *ssl, const char *host);
/* Is it for that IP address? */
bool tls_is_at(const SSL *ssl, const struct sockaddr_storage *sa);

#endif

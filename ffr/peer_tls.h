/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * peer_tls.h - TLS between routers: keys and certificates, and a connection's handshake. Control
 * thread.
 */
#ifndef FFR_PEER_TLS_H
#define FFR_PEER_TLS_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>

struct ffr_conf;
struct peer_tls;

/* Reads conf.wire_cert, _key and _ca. NULL: `err` has one line. */
struct peer_tls *peer_tls_create(const struct ffr_conf *conf, char *err, size_t size);
void peer_tls_free(struct peer_tls *t);

/* For a handshake on a connected, non-blocking socket; with files that are new meanwhile. */
SSL *peer_tls_open(struct peer_tls *t, int fd, bool connects);
/* 0: done; -EAGAIN: *events (UV_READABLE or UV_WRITABLE) must come; -EPROTO: `why` has a line. */
int peer_tls_step(SSL *ssl, int *events, char *why, size_t size);
/* Is the peer's certificate that host's? */
bool peer_tls_is(const SSL *ssl, const char *host);

#endif

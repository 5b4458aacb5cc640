/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* tls.h - TLS between routers, on sockets. Control thread. */
#ifndef FFR_PEER_TLS_H
#define FFR_PEER_TLS_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "ffo/tls/tls.h"

/* For a handshake on a connected, non-blocking socket; with files that are new meanwhile. */
SSL *peer_tls_open(struct tls *t, int fd, bool connects);
/* 0: done; -EAGAIN: *events (UV_READABLE or UV_WRITABLE) must come; or as tls_failed(). */
int peer_tls_step(SSL *ssl, int *events, char *why, size_t size);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * tls.c - TLS between routers, on sockets: ffo/tls/tls.c does it. Control thread; the SSL goes to
 * io.c afterwards.
 */
#include "ffr/peer/tls.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <uv.h>

SSL *peer_tls_open(struct tls *t, int fd, bool connects)
{
	SSL *ssl = tls_open(t, connects, TLS_TAKES(HOST));

	if (ssl && SSL_set_fd(ssl, fd) != 1) {
		SSL_free(ssl);
		return NULL;
	}
	return ssl;
}

int peer_tls_step(SSL *ssl, int *events, char *why, size_t size)
{
	bool writes = false;
	int err = tls_step(ssl, &writes, why, size);

	if (err == -EAGAIN)
		*events = writes ? UV_WRITABLE : UV_READABLE;
	return err;
}

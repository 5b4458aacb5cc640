/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * stream.h - TLS over a stream that somebody else reads and writes: what comes from the network
 * goes in and plain text comes out, and the other way round. server.c and client.c put it between
 * their lines and libuv's stream. One thread.
 */
#ifndef FFO_TLS_STREAM_H
#define FFO_TLS_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "ffo/tls/tls.h"

#define TLS_ORCHESTRATOR "ffo" /* the DNS name of an orchestrator's certificate */

struct tls_stream;

/*
 * at: the address of the orchestrator that it connects to, whose certificate must be an orchestrator's,
 * for that address or for TLS_ORCHESTRATOR; NULL: it is the orchestrator, and who has connected is
 * tls_stream_role() and tls_stream_is(). t must live as long. NULL: out of memory.
 */
struct tls_stream *tls_stream_create(struct tls *t, const struct sockaddr_storage *at);
void tls_stream_free(struct tls_stream *s);

/* Where to put what the network brings next, *size bytes at most; until the next call of any. */
char *tls_stream_space(struct tls_stream *s, size_t *size);
/*
 * So many bytes were put there. Only when tls_stream_read() has returned -EAGAIN for those before,
 * which bounds what is kept here. 0 or -ENOMEM.
 */
int tls_stream_received(struct tls_stream *s, size_t n);
/*
 * Plain text, after the handshake, which goes on in here: so many bytes; 0: the other side has ended
 * it; -EAGAIN: more must be received; or -errno as tls_failed(), for good. Whatever it returns, there
 * may be something to send.
 */
ssize_t tls_stream_read(struct tls_stream *s, void *buf, size_t size);
/* Encrypt; before the handshake is done, keep it until then. 0 or -errno. */
int tls_stream_write(struct tls_stream *s, const void *text, size_t len);
/* What is to be sent, for free(); NULL: nothing is. 0 or -ENOMEM. */
int tls_stream_take(struct tls_stream *s, char **bytes, size_t *len);

/* The handshake is done, and the other side is who it is to be. */
bool tls_stream_is_up(const struct tls_stream *s);
/* What the other side's certificate is for, when it is up. */
enum tls_role tls_stream_role(const struct tls_stream *s);
/* Is the other side's certificate that host's? */
bool tls_stream_is(const struct tls_stream *s, const char *host);
/* May that host have containers of the tenant? */
bool tls_stream_has_tenant(const struct tls_stream *s, const char *tenant);
/* There is a new revocation list: is the other side's certificate on it? */
bool tls_stream_is_revoked(const struct tls_stream *s);
/* A line about what failed; "": nothing did. */
const char *tls_stream_why(const struct tls_stream *s);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * io.h - a connected stream between two routers: a TCP socket, or TLS on one.
 *
 * peer.c makes one, does the handshake on it and gives it to wire_attach(); from then on it is the
 * wire's, [lock]. Never blocks. One user at a time.
 *
 * With TLS a record is encrypted as a whole, and bytes that were taken may wait inside until the
 * socket takes them. So a writer does this:
 *
 *	n = wire_io_writev(io, iov, cnt);		until -EAGAIN or nothing is left
 *	again = wire_io_flush(io) == -EAGAIN;		wait for EPOLLOUT, then flush or write on
 *
 * and a reader, before it waits for EPOLLIN, reads until -EAGAIN or asks wire_io_pending().
 */
#ifndef FFR_PEER_IO_H
#define FFR_PEER_IO_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

struct wire_io;
struct ssl_st;

/* Both take fd (non-blocking), the second ssl, too, with its handshake done. NULL: -ENOMEM, neither
 * is taken. */
struct wire_io *wire_io_plain(int fd);
struct wire_io *wire_io_tls(int fd, struct ssl_st *ssl);
/* Closes the stream, with TLS's goodbye where it goes out at once. NULL is fine. */
void wire_io_close(struct wire_io *io);

/*
 * Bytes read (> 0), in order over the iovs, perhaps fewer than are there; 0: the peer has ended the
 * stream; -EAGAIN: nothing there now; -EPROTO, -EBADMSG: the peer breaks TLS; -errno. iovs of
 * length 0 are fine, all of them empty are not.
 */
ssize_t wire_io_readv(struct wire_io *io, const struct iovec *iov, int n);
/* Bytes taken (> 0), in order, perhaps not all; they need not stay. -EAGAIN; -errno. */
ssize_t wire_io_writev(struct wire_io *io, const struct iovec *iov, int n);
/* 0: all that was taken is the socket's; -EAGAIN: not yet, again at EPOLLOUT; -errno. */
int wire_io_flush(struct wire_io *io);
/* There may be bytes to read that epoll will not tell of. */
bool wire_io_pending(const struct wire_io *io);
/* For its certificate; NULL: plain. */
struct ssl_st *wire_io_ssl(const struct wire_io *io);
/* For epoll. Level- or edge-triggered: reads and writes end with -EAGAIN as on a socket. */
int wire_io_fd(const struct wire_io *io);
/* What is read and written is what goes over the socket: the caller may also use it directly. */
bool wire_io_is_plain(const struct wire_io *io);

#endif

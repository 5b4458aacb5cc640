/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * io.c - reading and writing the stream between two routers, plain or TLS. Made on the control
 * thread by conn.c; afterwards the wire's, [lock].
 *
 * TLS has three ways to write:
 *
 *	kernel TLS	the kernel makes the records: written like a plain socket
 *	our records	OpenSSL encrypts a batch of records into `out`, one send() takes them
 *	(OpenSSL's own: one write() for each record of 16 KB, a retry with the same bytes: not used)
 *
 * Nothing is encrypted while `out` holds something, so that it needs no moving and has a bound, and
 * SSL_write() never meets a full buffer, so that there is nothing to retry. Pieces shorter than a
 * record (headers before their payload) are gathered, because each record costs 22 bytes and the
 * set-up of its cipher. Reading goes through OpenSSL's buffer, filled with one read() for many
 * records.
 */
#include "ffr/peer/io.h"

#include <assert.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECORD	SSL3_RT_MAX_PLAIN_LENGTH /* bytes of data */
#define BATCH	(128u * 1024)		 /* bytes of records that one send() gets at most */
#define OUT_MAX (BATCH + 4096)		 /* alerts and key updates may come on top */
#define IOV_CAP 1024			 /* the kernel's IOV_MAX */

struct wire_io {
	int fd;
	SSL *ssl;	 /* NULL: plain */
	bool kernel_tx;	 /* kernel TLS on the way out */
	bool drained;	 /* the last read ended with -EAGAIN */
	int err;	 /* -errno: TLS is broken for good */
	uint32_t out_at; /* of `out`: sent */
	uint32_t out_len;
	uint8_t *out;	/* records that the socket has not taken yet */
	uint8_t *stage; /* a record's data, while it is gathered */
};

/* ---- the socket ------------------------------------------------------------------------------ */

static ssize_t sock_writev(struct wire_io *io, const struct iovec *iov, int n)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n };
	ssize_t sent;

	do
		sent = sendmsg(io->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : sent;
}

static ssize_t sock_readv(struct wire_io *io, const struct iovec *iov, int n)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n };
	ssize_t got;

	do
		got = recvmsg(io->fd, &msg, MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

/* ---- records out ----------------------------------------------------------------------------- */

/* OpenSSL has made a record. */
static int out_write(BIO *bio, const char *data, size_t len, size_t *written)
{
	struct wire_io *io = BIO_get_data(bio);

	BIO_clear_retry_flags(bio);
	if (len > OUT_MAX - io->out_len) {
		BIO_set_retry_write(bio);
		return 0;
	}
	memcpy(io->out + io->out_len, data, len);
	io->out_len += (uint32_t)len;
	*written = len;
	return 1;
}

static long out_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
	(void)bio;
	(void)num;
	(void)ptr;
	return cmd == BIO_CTRL_FLUSH;
}

static BIO_METHOD *out_method;

static void out_method_init(void)
{
	out_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "wire_io");
	if (!out_method)
		return;
	BIO_meth_set_write_ex(out_method, out_write);
	BIO_meth_set_ctrl(out_method, out_ctrl);
}

static int out_init(struct wire_io *io)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	BIO *bio;

	pthread_once(&once, out_method_init);
	bio = out_method ? BIO_new(out_method) : NULL;
	io->out = malloc(OUT_MAX);
	io->stage = malloc(RECORD);
	if (!bio || !io->out || !io->stage) {
		BIO_free(bio);
		return -ENOMEM;
	}
	BIO_set_data(bio, io);
	BIO_set_init(bio, 1);
	SSL_set0_wbio(io->ssl, bio);
	return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct wire_io *wire_io_plain(int fd)
{
	struct wire_io *io = calloc(1, sizeof(*io));

	if (io)
		io->fd = fd;
	return io;
}

static void io_free(struct wire_io *io)
{
	free(io->out);
	free(io->stage);
	free(io);
}

struct wire_io *wire_io_tls(int fd, SSL *ssl)
{
	struct wire_io *io = wire_io_plain(fd);

	if (!io)
		return NULL;
	io->ssl = ssl;
	io->kernel_tx = BIO_get_ktls_send(SSL_get_wbio(ssl));
	if (!io->kernel_tx && out_init(io)) {
		io_free(io);
		return NULL;
	}
	return io;
}

void wire_io_close(struct wire_io *io)
{
	if (!io)
		return;
	if (io->ssl) {
		/* behind records that wait the goodbye would come out of order */
		if (!io->err && !wire_io_flush(io)) {
			ERR_clear_error();
			SSL_shutdown(io->ssl);
			wire_io_flush(io);
		}
		SSL_free(io->ssl);
		ERR_clear_error();
	}
	close(io->fd);
	io_free(io);
}

int wire_io_fd(const struct wire_io *io)
{
	return io->fd;
}

SSL *wire_io_ssl(const struct wire_io *io)
{
	return io->ssl;
}

bool wire_io_is_plain(const struct wire_io *io)
{
	return !io->ssl;
}

/* ---- TLS ------------------------------------------------------------------------------------- */

/* What stopped SSL_read_ex() or SSL_write_ex(): 0 is the end of the stream. */
static int tls_error(struct wire_io *io, int ret, int err)
{
	switch (SSL_get_error(io->ssl, ret)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		io->err = err ? -err : -ECONNRESET;
		break;
	default:
		switch (ERR_GET_REASON(ERR_peek_error())) {
		case SSL_R_UNEXPECTED_EOF_WHILE_READING: /* somebody cut it off */
			io->err = -ECONNRESET;
			break;
		case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
			io->err = -EBADMSG;
			break;
		default:
			io->err = -EPROTO;
		}
	}
	ERR_clear_error();
	return io->err;
}

static ssize_t tls_readv(struct wire_io *io, const struct iovec *iov, int n)
{
	size_t sum = 0, got;

	if (io->err)
		return io->err;
	ERR_clear_error();
	for (int i = 0; i < n; i++) {
		for (size_t at = 0; at < iov[i].iov_len; at += got, sum += got) {
			int ret, err;

			errno = 0;
			ret = SSL_read_ex(io->ssl, (uint8_t *)iov[i].iov_base + at,
					  iov[i].iov_len - at, &got);
			if (ret > 0)
				continue;
			err = tls_error(io, ret, errno);
			io->drained = err == -EAGAIN;
			/* after data, the end or an error is met again by the next read */
			return sum ? (ssize_t)sum : err;
		}
	}
	io->drained = false;
	return (ssize_t)sum;
}

static int tls_record(struct wire_io *io, const void *data, size_t len)
{
	size_t done;
	int ret;

	errno = 0;
	ret = SSL_write_ex(io->ssl, data, len, &done);
	if (ret > 0)
		return 0;
	/* there is room for it: that it has to wait is not possible */
	ret = tls_error(io, ret, errno);
	io->err = ret == -EAGAIN || !ret ? -EPIPE : ret;
	return io->err;
}

/* Encrypts up to BATCH bytes from *i, *at on. Bytes, or -errno. */
static ssize_t tls_batch(struct wire_io *io, const struct iovec *iov, int n, int *i, size_t *at)
{
	size_t sum = 0, staged = 0;
	int err = 0;

	while (*i < n && sum <= BATCH - 2 * RECORD && !err) {
		const uint8_t *from = (const uint8_t *)iov[*i].iov_base + *at;
		size_t len = iov[*i].iov_len - *at;

		if (!staged && len >= RECORD) {
			len = RECORD;
			err = tls_record(io, from, len);
		} else {
			len = len < RECORD - staged ? len : RECORD - staged;
			memcpy(io->stage + staged, from, len);
			staged += len;
			if (staged == RECORD) {
				err = tls_record(io, io->stage, staged);
				staged = 0;
			}
		}
		sum += len;
		*at += len;
		if (*at == iov[*i].iov_len) {
			++*i;
			*at = 0;
		}
	}
	if (staged && !err)
		err = tls_record(io, io->stage, staged);
	return err ? err : (ssize_t)sum;
}

static ssize_t tls_writev(struct wire_io *io, const struct iovec *iov, int n)
{
	ssize_t sum = 0;
	size_t at = 0;
	int i = 0, err = wire_io_flush(io);

	ERR_clear_error();
	while (!err && i < n) {
		ssize_t len = tls_batch(io, iov, n, &i, &at);

		if (len < 0)
			return len;
		sum += len;
		err = wire_io_flush(io);
	}
	/* an error of the socket that comes behind bytes which were taken comes again */
	return sum ? sum : err;
}

/*
 * The kernel tells of an error once, and takes bytes for records that go nowhere after that. But memory that is not
 * there (a client took it away) is the caller's matter, and no error of the stream.
 */
static ssize_t ktls_writev(struct wire_io *io, const struct iovec *iov, int n)
{
	ssize_t sent;

	if (io->err)
		return io->err;
	sent = sock_writev(io, iov, n);
	if (sent < 0 && sent != -EAGAIN && sent != -EFAULT)
		io->err = (int)sent;
	return sent;
}

/* ---- either ---------------------------------------------------------------------------------- */

ssize_t wire_io_readv(struct wire_io *io, const struct iovec *iov, int n)
{
	return io->ssl ? tls_readv(io, iov, n) : sock_readv(io, iov, n < IOV_CAP ? n : IOV_CAP);
}

ssize_t wire_io_writev(struct wire_io *io, const struct iovec *iov, int n)
{
	int at_once = n < IOV_CAP ? n : IOV_CAP;

	if (!io->ssl)
		return sock_writev(io, iov, at_once);
	return io->kernel_tx ? ktls_writev(io, iov, at_once) : tls_writev(io, iov, n);
}

int wire_io_flush(struct wire_io *io)
{
	if (io->err)
		return io->err;
	while (io->out_at < io->out_len) {
		struct iovec iov = { io->out + io->out_at, io->out_len - io->out_at };
		ssize_t n = sock_writev(io, &iov, 1);

		if (n == -EAGAIN)
			return -EAGAIN;
		if (n < 0) {
			io->err = (int)n;
			return io->err;
		}
		io->out_at += (uint32_t)n;
	}
	io->out_at = io->out_len = 0;
	return 0;
}

bool wire_io_pending(const struct wire_io *io)
{
	return io->ssl && !io->drained && !io->err && SSL_has_pending(io->ssl);
}

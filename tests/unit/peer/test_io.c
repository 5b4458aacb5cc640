/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_io.c - the stream between routers, plain and TLS: every byte, in order, whatever the
 * pieces are; its end, and what breaks it. build: ffr/peer/tls.c ffr/lib/log.c tests/rig/unit/certs.c
 *
 * With WIRE_IO_BENCH=1 it also tells how fast both are over loopback TCP.
 *
 * threads: yes
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/peer/tls.h"
#include "tests/rig/unit/certs.h"

static int fail_with; /* what the next sendmsg() says; 0: nothing */

static ssize_t failing_sendmsg(int fd, const struct msghdr *m, int flags)
{
	errno = fail_with;
	fail_with = 0;
	return errno ? -1 : sendmsg(fd, m, flags);
}

#define sendmsg failing_sendmsg
#include "ffr/peer/io.c"
#undef sendmsg

static char dir[] = "/tmp/test_wire_io.XXXXXX";
static char cert[64], key[64], ca[64];
static struct tls *tls;

struct pair {
	struct wire_io *io[2];
	int relay[2]; /* TLS in the hands of somebody between: his ends; or -1 */
};

/* ---- a connected pair ------------------------------------------------------------------------ */

static void tcp_pair(int fd[2])
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	socklen_t len = sizeof(sa);
	int l = socket(AF_INET, SOCK_STREAM, 0);

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(l, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&sa, &len), 0);
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(fd[0], (struct sockaddr *)&sa, sizeof(sa)), 0);
	fd[1] = accept(l, NULL, NULL);
	assert_true(fd[1] >= 0);
	close(l);
	for (int i = 0; i < 2; i++)
		fcntl(fd[i], F_SETFL, O_NONBLOCK);
}

static bool relay_some(int from, int to)
{
	uint8_t buf[4096];
	ssize_t n = read(from, buf, sizeof(buf));

	if (n > 0)
		assert_int_equal(write(to, buf, (size_t)n), n);
	return n > 0;
}

static void shake(struct pair *p, const int fd[2])
{
	char why[256] = "";
	SSL *ssl[2];
	int events, ret[2] = { -EAGAIN, -EAGAIN };

	for (int i = 0; i < 2; i++) {
		ssl[i] = peer_tls_open(tls, fd[i], !i);
		assert_non_null(ssl[i]);
	}
	while (ret[0] || ret[1]) {
		for (int i = 0; i < 2; i++)
			if (ret[i])
				ret[i] = peer_tls_step(ssl[i], &events, why, sizeof(why));
		if (p->relay[0] >= 0) {
			relay_some(p->relay[0], p->relay[1]);
			relay_some(p->relay[1], p->relay[0]);
		}
		if (ret[0] == -EPROTO || ret[1] == -EPROTO)
			fail_msg("%s", why);
	}
	for (int i = 0; i < 2; i++)
		p->io[i] = wire_io_tls(fd[i], ssl[i]);
}

static void pair_open(struct pair *p, bool with_tls, bool small)
{
	int fd[2], size = 4096;

	p->relay[0] = p->relay[1] = -1;
	if (!small) {
		tcp_pair(fd);
	} else { /* TCP with as little room has long waits */
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
		for (int i = 0; i < 2; i++)
			setsockopt(fd[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	}
	if (with_tls)
		shake(p, fd);
	for (int i = 0; i < 2; i++) {
		if (!with_tls)
			p->io[i] = wire_io_plain(fd[i]);
		assert_non_null(p->io[i]);
		assert_int_equal(wire_io_fd(p->io[i]), fd[i]);
		assert_int_equal(wire_io_is_plain(p->io[i]), !with_tls);
	}
}

/* TLS with somebody between the two. */
static void pair_open_relayed(struct pair *p)
{
	int left[2], right[2];

	tcp_pair(left);
	tcp_pair(right);
	p->relay[0] = left[1];
	p->relay[1] = right[0];
	shake(p, (int[]){ left[0], right[1] });
}

static void pair_close(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		wire_io_close(p->io[i]);
		if (p->relay[i] >= 0)
			close(p->relay[i]);
	}
}

static ssize_t write_all(struct wire_io *io, const void *data, size_t len)
{
	struct iovec iov = { (void *)data, len };

	return wire_io_writev(io, &iov, 1);
}

static ssize_t read_some(struct wire_io *io, void *data, size_t len)
{
	struct iovec iov = { data, len };

	return wire_io_readv(io, &iov, 1);
}

/* What epoll and pending() tell of: there is something to read, or the end. */
static void await(struct wire_io *io)
{
	struct pollfd pfd = { .fd = wire_io_fd(io), .events = POLLIN };

	if (!wire_io_pending(io))
		assert_int_equal(poll(&pfd, 1, 10000), 1);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static uint8_t byte_at(size_t pos)
{
	return (uint8_t)(pos * 167 >> 7 ^ pos);
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* Some iovs over data[at..end), some of them empty, some long. */
static int cut(struct iovec *iov, int max, uint8_t *data, size_t at, size_t end, uint32_t *seed)
{
	int n = 0;

	while (n < max && (at < end || !n)) {
		size_t len = next_random(seed) % (next_random(seed) % 4 ? 100 : 70000);

		if (next_random(seed) % 8 == 0)
			len = 0;
		if (len > end - at || n == max - 1)
			len = end - at;
		iov[n++] = (struct iovec){ data + at, len };
		at += len;
	}
	return n;
}

/*
 * A megabyte and a bit in random pieces through a socket with little room. What was taken is wiped at
 * once: the writer's memory is its own again.
 */
static void pieces(bool with_tls, bool small, uint32_t seed)
{
	const size_t total = (1 << 20) + 12345;
	uint8_t *out = malloc(total), *in = calloc(1, total + 1);
	size_t sent = 0, got = 0;
	struct iovec iov[9];
	struct pair p;
	int flushed = 0;

	pair_open(&p, with_tls, small);
	for (size_t i = 0; i < total; i++)
		out[i] = byte_at(i);
	while (got < total) {
		if (sent < total) {
			int k = cut(iov, 9, out, sent, total, &seed);
			ssize_t n = wire_io_writev(p.io[0], iov, k);

			assert_true(n >= 0 || n == -EAGAIN);
			for (; n > 0; n--)
				out[sent++] = 0xee;
		}
		flushed = wire_io_flush(p.io[0]);
		assert_true(!flushed || flushed == -EAGAIN);
		for (;;) {
			int k = cut(iov, 9, in, got, got + 200000 < total ? got + 200000 : total,
				    &seed);
			ssize_t n = wire_io_readv(p.io[1], iov, k);

			if (n == -EAGAIN || got == total)
				break;
			assert_true(n >= 0);
			got += (size_t)n;
			if (!n)
				break; /* all of the iovs were empty */
		}
	}
	assert_int_equal(sent, total);
	assert_int_equal(wire_io_flush(p.io[0]), 0);
	for (size_t i = 0; i < total; i++)
		if (in[i] != byte_at(i))
			fail_msg("byte %zu", i);
	assert_int_equal(in[total], 0);
	assert_int_equal(read_some(p.io[1], in, 1), -EAGAIN);
	assert_false(wire_io_pending(p.io[1]));
	pair_close(&p);
	free(out);
	free(in);
}

static void pieces_plain(void **state)
{
	(void)state;
	pieces(false, true, 1);
	pieces(false, false, 2);
}

static void pieces_tls(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed < 6; seed++) {
		pieces(true, true, seed);
		pieces(true, false, seed);
	}
}

/* Both directions at once, each side full: nobody may wait for the other. */
static void both_ways(void **state)
{
	static uint8_t data[1 << 16], in[1 << 16];
	size_t sent[2] = { 0 }, got[2] = { 0 };
	const size_t total = 4 << 20;
	struct pair p;

	(void)state;
	pair_open(&p, true, true);
	memset(data, 7, sizeof(data));
	while (got[0] < total || got[1] < total) {
		for (int i = 0; i < 2; i++) {
			ssize_t n;

			if (sent[i] < total) {
				n = write_all(p.io[i], data, sizeof(data));
				assert_true(n > 0 || n == -EAGAIN);
				sent[i] += n > 0 ? (size_t)n : 0;
			}
			wire_io_flush(p.io[i]);
			n = read_some(p.io[i], in, sizeof(in));
			assert_true(n > 0 || n == -EAGAIN);
			for (ssize_t k = 0; k < n; k++)
				assert_int_equal(in[k], 7);
			got[i] += n > 0 ? (size_t)n : 0;
		}
	}
	pair_close(&p);
}

/* Who reads a part of what is there learns of the rest from pending() or epoll. */
static void nothing_is_forgotten_inside(void **state)
{
	uint8_t data[5000], c;
	struct pair p;

	(void)state;
	for (int with_tls = 0; with_tls < 2; with_tls++) {
		pair_open(&p, with_tls, false);
		for (size_t i = 0; i < sizeof(data); i++)
			data[i] = byte_at(i);
		for (size_t i = 0; i < sizeof(data); i += 50) /* many records */
			assert_int_equal(write_all(p.io[0], data + i, 50), 50);
		for (size_t i = 0; i < sizeof(data); i++) {
			await(p.io[1]);
			assert_int_equal(read_some(p.io[1], &c, 1), 1);
			assert_int_equal(c, byte_at(i));
		}
		assert_int_equal(read_some(p.io[1], &c, 1), -EAGAIN);
		assert_false(wire_io_pending(p.io[1]));
		pair_close(&p);
	}
}

/* What was taken comes before the end, and the end is told as often as is asked. */
static void the_end(void **state)
{
	uint8_t data[1000] = { 1 }, in[2000];
	struct pair p;

	(void)state;
	for (int with_tls = 0; with_tls < 2; with_tls++) {
		pair_open(&p, with_tls, false);
		assert_int_equal(write_all(p.io[0], data, sizeof(data)), sizeof(data));
		wire_io_close(p.io[0]);
		p.io[0] = NULL;
		await(p.io[1]);
		assert_int_equal(read_some(p.io[1], in, sizeof(in)), sizeof(data));
		for (int i = 0; i < 3; i++) {
			await(p.io[1]);
			assert_int_equal(read_some(p.io[1], in, sizeof(in)), 0);
		}
		pair_close(&p);
	}
}

static void writing_to_nobody(void **state)
{
	static uint8_t data[1 << 16];
	struct pair p;
	ssize_t n;

	(void)state;
	for (int with_tls = 0; with_tls < 2; with_tls++) {
		pair_open(&p, with_tls, false);
		wire_io_close(p.io[1]);
		p.io[1] = NULL;
		do {
			n = write_all(p.io[0], data, sizeof(data));
			if (n > 0)
				n = wire_io_flush(p.io[0]);
		} while (n == 0);
		assert_true(n == -EPIPE || n == -ECONNRESET);
		assert_true(write_all(p.io[0], data, sizeof(data)) < 0);
		pair_close(&p);
	}
}

static void interrupted(void **state)
{
	uint8_t data[100] = { 4 }, in[100];
	struct pair p;

	(void)state;
	for (int with_tls = 0; with_tls < 2; with_tls++) {
		pair_open(&p, with_tls, false);
		fail_with = EINTR;
		assert_int_equal(write_all(p.io[0], data, sizeof(data)), sizeof(data));
		assert_int_equal(fail_with, 0);
		await(p.io[1]);
		assert_int_equal(read_some(p.io[1], in, sizeof(in)), sizeof(in));
		assert_memory_equal(in, data, sizeof(in));
		pair_close(&p);
	}
}

/* Records may have been lost: nothing is sent behind them, though the socket would take it. */
static void a_broken_stream_stays_broken(void **state)
{
	uint8_t data[100] = { 4 }, in[100];
	struct pair p;

	(void)state;
	pair_open(&p, true, false);
	fail_with = ECONNABORTED;
	write_all(p.io[0], data, sizeof(data)); /* taken, or not */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(write_all(p.io[0], data, sizeof(data)), -ECONNABORTED);
		assert_int_equal(wire_io_flush(p.io[0]), -ECONNABORTED);
	}
	assert_int_equal(recv(wire_io_fd(p.io[1]), in, sizeof(in), MSG_PEEK | MSG_DONTWAIT), -1);
	pair_close(&p);
}

/* With kernel TLS the data is a client's memory, which may not be there: nothing was sent, and the stream goes on. */
static void memory_that_is_not_there(void **state)
{
	uint8_t data[100] = { 4 };
	struct iovec iov = { data, sizeof(data) };
	struct pair p;

	(void)state;
	pair_open(&p, false, false);
	for (int i = 0; i < 2; i++) {
		fail_with = i ? EFAULT : EAGAIN;
		assert_int_equal(ktls_writev(p.io[0], &iov, 1), i ? -EFAULT : -EAGAIN);
		assert_int_equal(ktls_writev(p.io[0], &iov, 1), sizeof(data));
	}
	fail_with = ECONNABORTED;
	for (int i = 0; i < 2; i++)
		assert_int_equal(ktls_writev(p.io[0], &iov, 1), -ECONNABORTED);
	pair_close(&p);
}

/* ---- somebody between ------------------------------------------------------------------------ */

static ssize_t take(int fd, uint8_t *buf, size_t size)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	assert_int_equal(poll(&pfd, 1, 10000), 1);
	return read(fd, buf, size);
}

/* A record of 100 bytes has come as far as who is between: its length on the wire. */
static ssize_t record_taken(struct pair *p, const uint8_t data[100], uint8_t *buf, size_t size)
{
	pair_open_relayed(p);
	assert_int_equal(write_all(p->io[0], data, 100), 100);
	return take(p->relay[0], buf, size);
}

static void a_changed_byte(void **state)
{
	uint8_t buf[4096], data[100] = { 0 };
	struct pair p;
	ssize_t n;

	(void)state;
	n = record_taken(&p, data, buf, sizeof(buf));
	assert_true(n > 100);
	buf[n - 20] ^= 1;
	assert_int_equal(write(p.relay[1], buf, (size_t)n), n);
	await(p.io[1]);
	assert_int_equal(read_some(p.io[1], buf, sizeof(buf)), -EBADMSG);
	assert_int_equal(read_some(p.io[1], buf, sizeof(buf)), -EBADMSG);
	assert_true(write_all(p.io[1], data, sizeof(data)) < 0);
	pair_close(&p);
}

static void a_replayed_record(void **state)
{
	uint8_t buf[4096], in[100], data[100] = { 3 };
	struct pair p;
	ssize_t n;

	(void)state;
	n = record_taken(&p, data, buf, sizeof(buf));
	for (int i = 0; i < 2; i++)
		assert_int_equal(write(p.relay[1], buf, (size_t)n), n);
	await(p.io[1]);
	assert_int_equal(read_some(p.io[1], in, sizeof(in)), sizeof(in));
	assert_memory_equal(in, data, sizeof(in));
	await(p.io[1]);
	assert_int_equal(read_some(p.io[1], in, sizeof(in)), -EBADMSG);
	pair_close(&p);
}

/* TLS says goodbye: an end without it was somebody else's. */
static void cut_off(void **state)
{
	uint8_t buf[4096], data[100] = { 3 };
	struct pair p;
	ssize_t n;

	(void)state;
	n = record_taken(&p, data, buf, sizeof(buf));
	assert_int_equal(write(p.relay[1], buf, (size_t)n), n);
	shutdown(p.relay[1], SHUT_WR); /* close() would reset it, because it has not read all */
	await(p.io[1]);
	assert_int_equal(read_some(p.io[1], buf, 100),
			 100); /* the next read is the first to meet the end */
	await(p.io[1]);
	for (int i = 0; i < 2; i++)
		assert_int_equal(read_some(p.io[1], buf, sizeof(buf)), -ECONNRESET);
	pair_close(&p);
}

static void garbage(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\n\r\n";
	uint8_t buf[64];
	struct pair p;

	(void)state;
	pair_open_relayed(&p);
	assert_true(write(p.relay[1], text, sizeof(text)) > 0);
	await(p.io[1]);
	assert_int_equal(read_some(p.io[1], buf, sizeof(buf)), -EPROTO);
	pair_close(&p);
}

/* ---- figures --------------------------------------------------------------------------------- */

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct sink {
	struct wire_io *io;
	size_t total;
	bool echo;
	double cpu;
};

static void *drain(void *arg)
{
	struct sink *s = arg;
	static uint8_t buf[1 << 20];
	size_t got = 0;

	while (got < s->total) {
		ssize_t n;

		n = read_some(s->io, buf, s->echo ? 8 : sizeof(buf));
		if (n == -EAGAIN) {
			await(s->io);
			continue;
		}
		assert_true(n > 0);
		got += (size_t)n;
		if (s->echo)
			write_all(s->io, buf, (size_t)n);
	}
	s->cpu = now(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

static void stream(const char *name, bool with_tls, size_t head, size_t body)
{
	static uint8_t data[1 << 20];
	struct sink s = { .total = (size_t)2 << 30 };
	double start, cpu, took;
	size_t sent = 0;
	pthread_t t;
	struct pair p;

	pair_open(&p, with_tls, false);
	s.io = p.io[1];
	pthread_create(&t, NULL, drain, &s);
	start = now(CLOCK_MONOTONIC);
	cpu = now(CLOCK_THREAD_CPUTIME_ID);
	while (sent < s.total) {
		size_t at = sent % (head + body);
		struct iovec iov[16];
		size_t left = s.total - sent;
		ssize_t n;
		int k = 0;

		for (; k < 16 && left; k++) {
			bool in_head = at < head;
			size_t len = in_head ? head - at : head + body - at;

			len = len < left ? len : left;
			iov[k] = (struct iovec){ data, len };
			left -= len;
			at = in_head ? head : 0;
		}
		n = wire_io_writev(p.io[0], iov, k);
		if (n > 0)
			sent += (size_t)n;
		if (n == -EAGAIN || wire_io_flush(p.io[0]) == -EAGAIN) {
			struct pollfd pfd = { .fd = wire_io_fd(p.io[0]), .events = POLLOUT };

			poll(&pfd, 1, 1000);
		}
	}
	wire_io_flush(p.io[0]);
	cpu = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
	pthread_join(t, NULL);
	took = now(CLOCK_MONOTONIC) - start;
	printf("%-28s %6.2f GB/s; CPU ns/KB: writer %4.0f, reader %4.0f\n", name,
	       (double)s.total / took * 1e-9, cpu * 1e9 / (double)(s.total >> 10),
	       s.cpu * 1e9 / (double)(s.total >> 10));
	pair_close(&p);
}

static void ping_pong(const char *name, bool with_tls)
{
	struct sink s = { .total = 8 * 50000, .echo = true };
	uint8_t buf[8] = { 0 };
	double start;
	pthread_t t;
	struct pair p;
	int one = 1;

	pair_open(&p, with_tls, false);
	for (int i = 0; i < 2; i++)
		setsockopt(wire_io_fd(p.io[i]), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	s.io = p.io[1];
	pthread_create(&t, NULL, drain, &s);
	start = now(CLOCK_MONOTONIC);
	for (size_t i = 0; i < s.total; i += 8) {
		write_all(p.io[0], buf, 8);
		while (read_some(p.io[0], buf, 8) == -EAGAIN)
			await(p.io[0]);
	}
	printf("%-28s %6.2f us round trip\n", name,
	       (now(CLOCK_MONOTONIC) - start) * 1e6 / (double)(s.total / 8));
	pthread_join(t, NULL);
	pair_close(&p);
}

static void bench(void)
{
	for (int i = 0; i < 3; i++) {
		stream("plain 64 KB", false, 64, 65536);
		stream("TLS   64 KB", true, 64, 65536);
		stream("plain 4 KB", false, 64, 4096);
		stream("TLS   4 KB", true, 64, 4096);
		stream("TLS   64 B", true, 64, 64);
		ping_pong("plain 8 B", false);
		ping_pong("TLS   8 B", true);
	}
}

/* ---- files ----------------------------------------------------------------------------------- */

static int setup(void **state)
{
	const struct tls_files files = { .cert = cert, .key = key, .ca = ca };
	struct authority a;
	char err[256];

	(void)state;
	signal(SIGPIPE, SIG_DFL); /* nothing here may raise it */
	if (!mkdtemp(dir))
		return -1;
	snprintf(cert, sizeof(cert), "%s/h.pem", dir);
	snprintf(key, sizeof(key), "%s/h.key", dir);
	snprintf(ca, sizeof(ca), "%s/ca.pem", dir);
	authority_make(&a, "test", ca);
	cert_make(&a, "h0", "h0", 1, cert, key);
	authority_free(&a);
	tls = tls_create(&files, err, sizeof(err));
	if (getenv("WIRE_IO_BENCH"))
		bench();
	return tls ? 0 : -1;
}

static int cleanup(void **state)
{
	(void)state;
	tls_free(tls);
	unlink(cert);
	unlink(key);
	unlink(ca);
	return rmdir(dir);
}

int main(void)
{
	return UNIT_RUN_GROUP(setup, cleanup, cmocka_unit_test(pieces_plain),
			      cmocka_unit_test(pieces_tls), cmocka_unit_test(both_ways),
			      cmocka_unit_test(nothing_is_forgotten_inside),
			      cmocka_unit_test(the_end), cmocka_unit_test(writing_to_nobody),
			      cmocka_unit_test(interrupted),
			      cmocka_unit_test(a_broken_stream_stays_broken),
			      cmocka_unit_test(memory_that_is_not_there),
			      cmocka_unit_test(a_changed_byte), cmocka_unit_test(a_replayed_record),
			      cmocka_unit_test(cut_off), cmocka_unit_test(garbage));
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/peer/sock.c */
/*
 * test_sock.c - sockets between routers and their addresses: which two are the same, what a socket is set to,
 * and where it listens and connects from. On the loopback interface.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/peer/internal.h"

#define WAIT_MS 10000

static struct sockaddr_storage addr(const char *text, uint16_t port)
{
	struct sockaddr_storage sa = { 0 };
	struct sockaddr_in6 *six = (void *)&sa;
	struct sockaddr_in *four = (void *)&sa;

	if (strchr(text, ':')) {
		six->sin6_family = AF_INET6;
		six->sin6_port = htons(port);
		assert_int_equal(inet_pton(AF_INET6, text, &six->sin6_addr), 1);
	} else {
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
		assert_int_equal(inet_pton(AF_INET, text, &four->sin_addr), 1);
	}
	return sa;
}

static void same(void **state)
{
	static const struct {
		const char *a, *b;
		bool is_same, is_near;
	} pair[] = {
		{ "10.0.0.1", "10.0.0.1", true, true },
		{ "10.0.0.1", "10.0.0.2", false, false },
		{ "10.0.0.1", "11.0.0.1", false, false },
		{ "10.0.0.1", "::ffff:10.0.0.1", true, true },
		{ "::ffff:10.0.0.1", "::ffff:10.0.0.2", false, false },
		{ "2001:db8::1", "2001:db8::1", true, true },
		{ "2001:db8::1", "2001:db8::ffff:2", false, true }, /* one /64 */
		{ "2001:db8::1", "2001:db8:0:1::1", false, false },
		{ "10.0.0.1", "2001:db8::1", false, false },
		{ "10.0.0.1", "::10.0.0.1", false, false }, /* not the mapped one */
	};
	struct sockaddr_storage none = { 0 };

	(void)state;
	for (unsigned i = 0; i < sizeof(pair) / sizeof(pair[0]); i++) {
		struct sockaddr_storage a = addr(pair[i].a, 1), b = addr(pair[i].b, 2);

		assert_int_equal(addr_same(&a, &b), pair[i].is_same);
		assert_int_equal(addr_same(&b, &a), pair[i].is_same);
		assert_int_equal(addr_near(&a, &b), pair[i].is_near);
		assert_false(addr_same(&a, &none));
		assert_false(addr_same(&none, &b));
	}
	assert_false(addr_same(&none, &none));
}

static void text(void **state)
{
	struct sockaddr_storage a = addr("192.0.2.7", 4789), b = addr("2001:db8::7", 65535);
	char buf[ADDR_STR_SZ], few[6];

	(void)state;
	assert_string_equal(addr_str(&a, buf, sizeof(buf)), "192.0.2.7:4789");
	assert_string_equal(addr_str(&b, buf, sizeof(buf)), "[2001:db8::7]:65535");
	b = addr("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255", 65535);
	assert_string_equal(addr_str(&b, buf, sizeof(buf)),
			    "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535");
	assert_string_equal(addr_str(&a, few, sizeof(few)), "192.0");
}

static int option(int fd, int level, int name)
{
	int v = -1;
	socklen_t n = sizeof(v);

	assert_int_equal(getsockopt(fd, level, name, &v, &n), 0);
	return v;
}

/* One that lives is never taken for dead by a lost packet, and one that is dead is found out in seconds. */
static void is_set_up(int fd)
{
	assert_int_not_equal(option(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
	assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 2);
	assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 1);
	assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPCNT), 3);
	assert_int_equal(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 3000);
	assert_int_not_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 0);
	assert_int_equal(option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT), 256 * 1024);
}

static void is_ours(int fd)
{
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

/* The socket's own address. */
static struct sockaddr_storage own(int fd)
{
	struct sockaddr_storage sa;
	socklen_t n = sizeof(sa);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &n), 0);
	return sa;
}

static void ready(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
}

static int listen_at(const char *text)
{
	struct sockaddr_storage sa = addr(text, 0);
	int fd = sock_listen(&sa);

	assert_true(fd >= 0);
	is_ours(fd);
	return fd;
}

/* Connects from there; where the other side sees it come from. */
static struct sockaddr_storage seen_from(const struct sockaddr_storage *from, int server)
{
	struct sockaddr_storage to = own(server), me, peer;
	socklen_t n = sizeof(peer);
	int fd = sock_connect(from, &to), other;

	assert_true(fd >= 0);
	is_ours(fd);
	is_set_up(fd);
	ready(fd, POLLOUT);
	assert_int_equal(option(fd, SOL_SOCKET, SO_ERROR), 0);
	ready(server, POLLIN);
	other = accept(server, (struct sockaddr *)&peer, &n);
	assert_true(other >= 0);
	me = own(fd);
	assert_true(addr_same(&me, &peer));
	close(other);
	close(fd);
	return peer;
}

static void connects_from(void **state)
{
	struct sockaddr_storage none = { 0 }, from, at, seen;
	int four = listen_at("127.0.0.1"), six;

	(void)state;
	at = addr("127.0.0.1", 0);
	seen = seen_from(&none, four);
	assert_true(addr_same(&seen, &at));
	from = addr("127.0.0.9", 0);
	seen = seen_from(&from, four);
	assert_true(addr_same(&seen, &from));
	/* an address that is not ours, or of the other family: from another one */
	from = addr("192.0.2.1", 0);
	seen = seen_from(&from, four);
	assert_true(addr_same(&seen, &at));
	from = addr("::1", 0);
	seen = seen_from(&from, four);
	assert_true(addr_same(&seen, &at));
	/* the old connections have not come to their end yet */
	at = own(four);
	close(four);
	four = sock_listen(&at);
	assert_true(four >= 0);
	close(four);
	if (access("/proc/net/if_inet6", F_OK)) {
		print_message("no IPv6 here\n");
		return;
	}
	six = listen_at("::1");
	seen = seen_from(&from, six);
	assert_true(addr_same(&seen, &from));
	close(six);
}

/* Whatever is wrong is said, and nothing is left open. */
static void errors(void **state)
{
	struct sockaddr_storage none = { 0 }, at = addr("127.0.0.1", 0), nowhere;
	int fd = listen_at("127.0.0.1"), first = fd, to;

	(void)state;
	nowhere = addr("192.0.2.1", 1); /* not ours */
	assert_int_equal(sock_listen(&nowhere), -EADDRNOTAVAIL);
	at = own(fd);
	assert_int_equal(sock_listen(&at), -EADDRINUSE);
	assert_int_equal(sock_listen(&none), -EAFNOSUPPORT);
	assert_int_equal(sock_connect(&none, &none), -EAFNOSUPPORT);
	nowhere = addr("255.255.255.255", 1); /* TCP has no broadcast */
	assert_true(sock_connect(&none, &nowhere) < 0);
	close(fd);
	to = sock_connect(&none, &at); /* nobody listens any more: at once, or a little later */
	if (to >= 0) {
		ready(to, POLLOUT);
		assert_int_equal(option(to, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
		close(to);
	} else {
		assert_int_equal(to, -ECONNREFUSED);
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(dup(0), first + i);
	for (int i = 0; i < 3; i++)
		close(first + i);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(same), cmocka_unit_test(text),
			cmocka_unit_test(connects_from), cmocka_unit_test(errors));
}

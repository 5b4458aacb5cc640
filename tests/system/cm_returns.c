/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/cmt.c tests/rig/verbs/rst.c -lrdmacm -lpthread */
/*
 * cm_returns.c - listeners on the wildcard address outlive the router: when the next one is there, they are connected to
 * without having been made again. Each way to wait for a request has a thread. cm_returns.sh, which starts this, kills the
 * router when "ready" is printed, and starts another one.
 */
#include "tests/rig/verbs/rst.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

struct server {
	const char *name;
	void (*serve)(struct server *s);
	/* rdma_cm's, or an rsocket */
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener;
	int fd;
	uint16_t port; /* network byte order */
	struct rdma_cm_id *_Atomic accepted;
	pthread_t thread;
};

static struct ibv_context *first_verbs; /* of the router that dies */
static atomic_uint num_waiting;		/* threads that are about to wait */

/* ---- servers --------------------------------------------------------------------------------------- */

static void accept_id(struct server *s, struct rdma_cm_id *id)
{
	struct ibv_device_attr attr;

	CHECK(id->verbs && id->verbs != first_verbs);
	CHECK_OK(ibv_query_device(id->verbs, &attr));
	cmt_qp(id);
	CHECK_OK(rdma_accept(id, NULL));
	s->accepted = id;
}

/* In an epoll set of the program's, which has the descriptor since before the router died. */
static void with_epoll(struct server *s)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct rdma_cm_event *e = NULL;
	struct rdma_cm_id *id;

	cmt_nonblock(s->ch);
	CHECK_OK(epoll_ctl(ep, EPOLL_CTL_ADD, s->ch->fd, &ev));
	num_waiting++;
	while (!e) {
		CHECK_EQ(epoll_wait(ep, &ev, 1, -1), 1);
		if (rdma_get_cm_event(s->ch, &e))
			CHECK_EQ(errno, EAGAIN);
	}
	CHECK_EQ(e->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(e->listen_id == s->listener);
	id = e->id;
	CHECK_OK(rdma_ack_cm_event(e));
	accept_id(s, id);
	close(ep);
	WANT_CM_ACK(s->ch, id, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void with_thread(struct server *s)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;

	num_waiting++;
	CHECK_OK(rdma_get_cm_event(s->ch, &e));
	CHECK_EQ(e->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(e->listen_id == s->listener);
	id = e->id;
	CHECK_OK(rdma_ack_cm_event(e));
	accept_id(s, id);
	CHECK_OK(rdma_get_cm_event(s->ch, &e));
	CHECK_EQ(e->event, RDMA_CM_EVENT_ESTABLISHED);
	CHECK_OK(rdma_ack_cm_event(e));
}

static void with_endpoint(struct server *s)
{
	struct rdma_cm_id *id;

	num_waiting++;
	CHECK_OK(rdma_get_request(s->listener, &id));
	accept_id(s, id);
}

static void with_raccept(struct server *s)
{
	int fd;
	char c;

	num_waiting++;
	fd = raccept(s->fd, NULL, NULL);
	CHECK(fd >= 0);
	CHECK_OK(rfcntl(fd, F_SETFL, 0)); /* it has the listener's flags */
	rst_recv_all(fd, &c, 1);
	rst_send_all(fd, &c, 1);
	CHECK_OK(rclose(fd));
}

static void with_rpoll(struct server *s)
{
	rst_nonblocking(s->fd);
	num_waiting++;
	CHECK_EQ(rst_poll(s->fd, POLLIN, -1), POLLIN);
	with_raccept(s);
}

static void *serve(void *arg)
{
	struct server *s = arg;

	s->serve(s);
	return NULL;
}

static void listen_ip(struct server *s, int family)
{
	struct sockaddr_in6 any6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct sockaddr *addr = family == AF_INET6 ? (struct sockaddr *)&any6 :
						     (struct sockaddr *)&any;
	int one = 1;

	if (s->serve == with_raccept || s->serve == with_rpoll) {
		struct sockaddr_in name;
		socklen_t len = sizeof(name);

		s->fd = rsocket(AF_INET, SOCK_STREAM, 0);
		CHECK(s->fd >= 0);
		CHECK_OK(rbind(s->fd, addr, sizeof(any)));
		CHECK_OK(rlisten(s->fd, 4));
		CHECK_OK(rgetsockname(s->fd, (struct sockaddr *)&name, &len));
		s->port = name.sin_port;
		return;
	}
	s->ch = s->serve == with_endpoint ? NULL : cmt_channel();
	s->listener = cmt_id(s->ch, RDMA_PS_TCP);
	CHECK_OK(rdma_set_option(s->listener, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one,
				 sizeof(one)));
	CHECK_OK(rdma_bind_addr(s->listener, addr));
	CHECK_OK(rdma_listen(s->listener, 3));
	s->port = rdma_get_src_port(s->listener);
}

/* ---- the client ------------------------------------------------------------------------------------- */

/*
 * Connect to a port of this container. A listener comes back a moment after the router: until then a request is refused, as
 * by a server that is late.
 */
static struct rdma_cm_id *connect_to(uint16_t port)
{
	struct sockaddr_in sin = cmt_self();
	struct rdma_event_channel *ch = cmt_channel();
	uint64_t until = vt_deadline();

	sin.sin_port = port;
	for (;;) {
		struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_TCP);
		enum rdma_cm_event_type type;
		struct rdma_cm_event *e;

		cmt_resolve(id, (struct sockaddr *)&sin);
		cmt_qp(id);
		CHECK_OK(rdma_connect(id, NULL));
		CHECK_OK(rdma_get_cm_event(ch, &e));
		type = e->event;
		CHECK_OK(rdma_ack_cm_event(e));
		if (type == RDMA_CM_EVENT_ESTABLISHED)
			return id;
		CHECK_EQ(type, RDMA_CM_EVENT_REJECTED);
		CHECK(vt_now() < until);
		cmt_destroy(id);
	}
}

static void use_rsocket(uint16_t port)
{
	struct sockaddr_in sin = cmt_self();
	uint64_t until = vt_deadline();
	char c = 'x', d;
	int fd;

	sin.sin_port = port;
	for (;;) {
		fd = rsocket(AF_INET, SOCK_STREAM, 0);
		CHECK(fd >= 0);
		if (!rconnect(fd, (struct sockaddr *)&sin, sizeof(sin)))
			break;
		CHECK_EQ(errno, ECONNREFUSED);
		CHECK(vt_now() < until);
		CHECK_OK(rclose(fd));
	}
	rst_send_all(fd, &c, 1);
	rst_recv_all(fd, &d, 1);
	CHECK_EQ(c, d);
	CHECK_OK(rclose(fd));
}

static void use(struct server *s)
{
	struct rdma_cm_id *id;

	if (!s->listener) {
		use_rsocket(s->port);
		CHECK_EQ(pthread_join(s->thread, NULL), 0);
		CHECK_OK(rclose(s->fd));
		return;
	}
	id = connect_to(s->port);
	CHECK_EQ(pthread_join(s->thread, NULL), 0);
	cmt_transfer(id, s->accepted, 5);
	rdma_destroy_qp(s->accepted);
	CHECK_OK(rdma_destroy_id(s->accepted));
	CHECK_OK(rdma_destroy_id(s->listener));
	if (s->ch)
		rdma_destroy_event_channel(s->ch);
	cmt_destroy(id);
}

/* Waits until a router answers again. */
static bool is_back(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	if (ch)
		rdma_destroy_event_channel(ch);
	return ch;
}

static void listeners(void)
{
	struct server servers[] = {
		{ "epoll", with_epoll, .fd = -1 },	 { "thread", with_thread, .fd = -1 },
		{ "endpoint", with_endpoint, .fd = -1 }, { "IPv6", with_thread, .fd = -1 },
		{ "raccept()", with_raccept, .fd = -1 }, { "rpoll()", with_rpoll, .fd = -1 },
	};
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *bound = cmt_id(ch, RDMA_PS_TCP), *idle = cmt_id(ch, RDMA_PS_TCP);
	struct sockaddr_in self = cmt_self();

	CHECK_OK(rdma_bind_addr(bound, (struct sockaddr *)&self));
	CHECK_OK(rdma_listen(bound, 0));
	first_verbs = CHECK_PTR(bound->verbs);
	for (unsigned i = 0; i < ARRAY_SIZE(servers); i++) {
		listen_ip(&servers[i], strcmp(servers[i].name, "IPv6") ? AF_INET : AF_INET6);
		CHECK_EQ(pthread_create(&servers[i].thread, NULL, serve, &servers[i]), 0);
	}
	WAIT_FOR(num_waiting == ARRAY_SIZE(servers));
	printf("ready\n");
	fflush(stdout);

	/* one that listens on an address has the device, which is gone */
	WANT_CM_ACK(ch, bound, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	CHECK_NO_EVENT(ch);
	WAIT_FOR(is_back());
	CHECK_OK(rdma_destroy_id(bound));
	/* an id and a channel of before are as good as new ones */
	cmt_resolve(idle, (struct sockaddr *)&self);
	CHECK(idle->verbs && idle->verbs != first_verbs);
	cmt_close(ch, idle, NULL);
	for (unsigned i = 0; i < ARRAY_SIZE(servers); i++) {
		printf("%s\n", servers[i].name);
		fflush(stdout);
		use(&servers[i]);
	}
}

VT_MAIN({ "listeners", listeners, 120 })

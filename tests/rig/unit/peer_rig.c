/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* peer_rig.c - hosts for tests of peer.c; see peer_rig.h. */
#include "tests/rig/unit/peer_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PORT 7471

struct node nodes[RIG_NODES];
uint32_t rig_net;
static int lock_held;

/* ---- what peer.c calls ----------------------------------------------------------------------- */

void fast_lock(struct fast_host *h)
{
	pthread_mutex_lock(&h->threads[0]->lock);
	assert_int_equal(lock_held++, 0);
}

void fast_unlock(struct fast_host *h)
{
	lock_held--;
	pthread_mutex_unlock(&h->threads[0]->lock);
}

static struct node *node_of(struct fast *f)
{
	return (struct node *)((char *)f - offsetof(struct node, f));
}

static int attach(struct fast *f, struct wire_peer *p, struct wire_io *io,
		  const struct wire_hello *theirs)
{
	struct node *n = node_of(f);

	assert_int_equal(lock_held, 1);
	assert_null(p->tcp);
	assert_int_equal(p->version, WIRE_PROTO);
	if (n->refuse)
		return -ENOMEM;
	p->tcp = calloc(1, sizeof(*p->tcp));
	p->tcp->io = io;
	p->tcp->theirs = *theirs;
	n->attached++;
	return 0;
}

static void tcp_free(struct wire_peer *p)
{
	wire_io_close(p->tcp->io);
	free(p->tcp);
	p->tcp = NULL;
}

static void detach(struct fast *f, struct wire_peer *p, const char *why)
{
	assert_int_equal(lock_held, 1);
	assert_non_null(p->tcp);
	assert_non_null(why);
	tcp_free(p);
	node_of(f)->detached++;
}

static const struct backend_ops rig_ops = {
	.wire_attach = attach,
	.wire_detach = detach,
};

static void want_host(void *arg, const char *host)
{
	struct node *n = arg;

	assert_int_equal(lock_held, 0);
	n->asked++;
	snprintf(n->asked_for, sizeof(n->asked_for), "%s", host);
}

/* ---- hosts ----------------------------------------------------------------------------------- */

static char *text(const char *fmt, unsigned int x)
{
	char *s;

	if (asprintf(&s, fmt, x) < 0)
		abort();
	return s;
}

static void wire_of(int i, char *buf, size_t size)
{
	snprintf(buf, size, "tcp:127.%u.%u.%d:%d", rig_net >> 16 & 255, rig_net >> 8 & 255, i + 1,
		 PORT);
}

void node_prepare(int i)
{
	struct node *n = &nodes[i];
	static unsigned int starts;
	char wire[64];

	if (!rig_net) /* two runs at a time have two networks */
		rig_net = 0x7f000000 | (1 + ((uint32_t)getpid() * 7919 & 0xfffe)) << 8;
	memset(n, 0, sizeof(*n));
	wire_of(i, wire, sizeof(wire));
	n->r.conf.hostname = text("%c", 'a' + (unsigned int)i);
	n->r.conf.cluster = strdup("test");
	n->r.conf.wire_listen = strdup(wire);
	n->r.conf.wire_check_addr = true;
	snprintf(n->r.instance, sizeof(n->r.instance), "start-%u", ++starts);
	pthread_mutex_init(&n->f.lock, NULL);
	n->f.host = &n->host;
	n->host.threads[0] = &n->f;
	n->host.num_threads = 1;
	n->f.be = &n->be;
	n->be.ops = &rig_ops;
}

int node_start(int i, char *err, size_t size)
{
	struct node *n = &nodes[i];
	const struct tls_files files = conf_tls_files(&n->r.conf);
	const struct peers_conf conf = {
		.loop = &n->r.loop,
		.fast = &n->host,
		.host = n->r.conf.hostname,
		.instance = n->r.instance,
		.cluster = n->r.conf.cluster,
		.listen = n->r.conf.wire_listen,
		.advertise = n->r.conf.wire_advertise,
		.check_addr = n->r.conf.wire_check_addr,
		.tls = n->r.conf.wire_tls ? &files : NULL,
	};
	int rc;

	assert_int_equal(uv_loop_init(&n->r.loop), 0);
	rc = peers_create(&n->r.peers, &conf, err, size);
	if (!rc)
		peers_on_stranger(n->r.peers, want_host, n);
	n->up = !rc;
	if (rc) {
		uv_run(&n->r.loop, UV_RUN_DEFAULT);
		assert_int_equal(uv_loop_close(&n->r.loop), 0);
	}
	return rc;
}

void node_up(int i)
{
	char err[256] = "";

	node_prepare(i);
	if (node_start(i, err, sizeof(err)))
		fail_msg("%s", err);
}

void node_conf_free(int i)
{
	pthread_mutex_destroy(&nodes[i].f.lock);
	conf_free(&nodes[i].r.conf);
}

void node_down(int i)
{
	struct node *n = &nodes[i];

	if (!n->up)
		return;
	n->up = false;
	peers_free(n->r.peers);
	uv_run(&n->r.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&n->r.loop), 0);
	node_conf_free(i);
}

void rig_turn(void)
{
	struct pollfd pfd[RIG_NODES];
	int wait = 100;
	nfds_t k = 0;

	for (int i = 0; i < RIG_NODES; i++)
		if (nodes[i].up)
			uv_run(&nodes[i].r.loop, UV_RUN_NOWAIT);
	for (int i = 0; i < RIG_NODES; i++) {
		int ms;

		if (!nodes[i].up)
			continue;
		uv_update_time(&nodes[i].r.loop);
		ms = uv_backend_timeout(&nodes[i].r.loop);
		wait = ms >= 0 && ms < wait ? ms : wait;
		pfd[k++] =
			(struct pollfd){ .fd = uv_backend_fd(&nodes[i].r.loop), .events = POLLIN };
	}
	/* what uv_poll_start() asked for reaches the kernel with the next run only */
	poll(pfd, k, wait < 2 ? wait : 2);
}

static void hasten(uv_handle_t *handle, void *arg)
{
	uv_timer_t *t = (uv_timer_t *)handle;
	const unsigned int *ms = arg;

	if (handle->type == UV_TIMER && uv_is_active(handle) && uv_timer_get_due_in(t) <= *ms)
		uv_timer_start(t, t->timer_cb, 0, uv_timer_get_repeat(t));
}

void nodes_later(unsigned int ms)
{
	for (int i = 0; i < RIG_NODES; i++)
		if (nodes[i].up)
			uv_walk(&nodes[i].r.loop, hasten, &ms);
}

struct wire_peer *node_tell(int at, int of)
{
	struct node *n = &nodes[at];
	char wire[64], host[2] = { (char)('a' + of) };
	struct wire_peer *p;

	wire_of(of, wire, sizeof(wire));
	fast_lock(&n->host);
	p = peer_of_host(n->r.peers, host, nodes[of].r.instance, wire, true);
	fast_unlock(&n->host);
	assert_non_null(p);
	return p;
}

void nodes_meet(void)
{
	for (int x = 0; x < RIG_NODES; x++)
		for (int y = 0; y < RIG_NODES; y++)
			if (x != y && nodes[x].up && nodes[y].up)
				node_tell(x, y);
}

struct wire_peer *peer_at(int at, int of)
{
	struct peer_ctl *h = host_find(nodes[at].r.peers, (char[]){ (char)('a' + of), '\0' });

	return h ? &h->p : NULL;
}

bool attached(int at, int of)
{
	struct wire_peer *p = peer_at(at, of);

	return p && p->tcp;
}

void want(int at, int of)
{
	fast_lock(&nodes[at].host);
	peer_want(peer_at(at, of));
	fast_unlock(&nodes[at].host);
}

void lose(int at, int of)
{
	struct wire_peer *p = peer_at(at, of);

	fast_lock(&nodes[at].host);
	tcp_free(p);
	peer_lost(p, "the test cuts it");
	fast_unlock(&nodes[at].host);
}

/* Does what one writes come out at the other? What came before is of older greetings. */
static bool heard(struct wire_peer *from, struct wire_peer *to)
{
	static uint32_t last;
	uint32_t token = ++last, got = 0;
	struct iovec out = { &token, sizeof(token) }, in = { &got, sizeof(got) };
	struct pollfd pfd = { .fd = wire_io_fd(to->tcp->io), .events = POLLIN };
	ssize_t n;

	if (wire_io_writev(from->tcp->io, &out, 1) != sizeof(token))
		return false;
	while (got != token) {
		if (!wire_io_pending(to->tcp->io) && poll(&pfd, 1, 5000) != 1)
			return false;
		n = wire_io_readv(to->tcp->io, &in, 1);
		if (n != sizeof(got) && n != -EAGAIN)
			return false;
	}
	return true;
}

bool joined(int x, int y)
{
	return attached(x, y) && attached(y, x) && heard(peer_at(x, y), peer_at(y, x)) &&
	       heard(peer_at(y, x), peer_at(x, y));
}

unsigned int in_handshake(int i)
{
	return nodes[i].r.peers->num_conns;
}

/* ---- strangers ------------------------------------------------------------------------------- */

int dial(int i, uint32_t from)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	sa.sin_addr.s_addr = htonl(from);
	if (from)
		assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	sa.sin_addr.s_addr = htonl(rig_net + (uint32_t)i + 1);
	sa.sin_port = htons(PORT);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

size_t listen_till_end(int fd, void *buf, size_t size)
{
	uint64_t give_up = uv_hrtime() + unit_slow() * 20000000000u;
	size_t got = 0;
	ssize_t n;

	for (;;) {
		n = recv(fd, (char *)buf + got, size - got, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN))
			return got;
		got += n > 0 ? (size_t)n : 0;
		assert_true(got < size && uv_hrtime() < give_up);
		rig_turn();
	}
}

int nodes_setup(void **state)
{
	(void)state;
	peer_times.retry_min = 5;
	peer_times.retry_max = 40;
	return 0;
}

int nodes_teardown(void **state)
{
	(void)state;
	for (int i = 0; i < RIG_NODES; i++)
		node_down(i);
	return 0;
}

void nodes_up_two(void)
{
	node_up(A);
	node_up(B);
	nodes_meet();
}

bool nodes_settled(void)
{
	for (int i = 0; i < RIG_NODES; i++)
		if (nodes[i].up && in_handshake(i))
			return false;
	return true;
}

struct peer_ctl *peer_ctl_at(int at, int of)
{
	return peer_at(at, of)->ctl;
}

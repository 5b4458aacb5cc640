/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* fake_router.c - see fake_router.h. A thread of its own, but where a function says otherwise. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/rig/fakes/fake_router.h"

#define MAX_FDS 16
#define DIE()                                                                                      \
	do {                                                                                       \
		perror(__func__);                                                                  \
		abort();                                                                           \
	} while (0)

struct answer {
	struct ff_hdr hdr;
	uint8_t body[1024];
	size_t len; /* of the body */
	int fd[MAX_FDS];
	unsigned int n_fds, told_fds;
};

static const struct {
	size_t req, resp;
} length[] = {
#define X(num, NAME, name, tail, fds)                                                              \
	[num] = { sizeof(struct ff_##name##_req), sizeof(struct ff_##name##_resp) },
	FF_MSG_TABLE(X)
#undef X
};

static int dup_null(void)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	if (fd < 0)
		DIE();
	return fd;
}

static void hello(struct router *r, unsigned int c, const struct ff_hello_req *req,
		  struct answer *a)
{
	struct ff_hello_resp *resp = (void *)a->body;
	int pair[2];

	r->hello = *req;
	if (r->challenge && memcmp(req->nonce, ROUTER_NONCE, sizeof(req->nonce))) {
		a->hdr.status = -EAGAIN;
		return;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		DIE();
	if (r->async[c] >= 0)
		close(r->async[c]);
	r->async[c] = pair[0];
	a->fd[0] = pair[1];
	a->fd[1] = dup_null();
	a->n_fds = 2;
	resp->version = r->hello_version ? r->hello_version : FF_PROTO_VERSION;
	resp->seg0_size = r->hello_seg0 ? r->hello_seg0 : sizeof(struct ff_ses_hdr);
	resp->num_ports = 1;
	resp->num_devices = r->num_devices;
	resp->node_guid = 0x1122334455667788;
}

static void device(struct router *r, const struct ff_device_req *req, struct answer *a)
{
	struct ff_device_resp *resp = (void *)a->body;

	if (req->index != FF_DEVICE_AS_IS)
		r->device = req->index;
	resp->index = r->device;
	resp->node_guid = 0x1122334455667788 + r->device;
	snprintf(resp->name, sizeof(resp->name), "%s%u", r->device_name, r->device);
}

static void get_seg(struct router *r, struct answer *a)
{
	struct ff_get_seg_resp *resp = (void *)a->body;
	int fd = memfd_create("seg", MFD_CLOEXEC | r->seg_flags);

	resp->size = 1u << 16;
	if (fd < 0 || ftruncate(fd, resp->size))
		DIE();
	if (r->seg_fd >= 0)
		close(r->seg_fd);
	r->seg_fd = dup(fd);
	a->fd[0] = fd;
	a->n_fds = 1;
}

static void serve(struct router *r, unsigned int c, enum ff_msg_type type, const void *req,
		  struct answer *a)
{
	const struct ff_query_gid_req *gid = req;
	const struct ff_query_port_req *port = req;

	switch (type) {
	case FF_MSG_HELLO:
		hello(r, c, req, a);
		break;
	case FF_MSG_DEVICE:
		device(r, req, a);
		break;
	case FF_MSG_CHALLENGE:
		memcpy(a->body, ROUTER_NONCE, FF_NONCE_SZ);
		break;
	case FF_MSG_GET_SEG:
		get_seg(r, a);
		break;
	case FF_MSG_QUERY_DEVICE:
		memcpy(a->body, &r->dev, sizeof(r->dev));
		break;
	case FF_MSG_QUERY_PORT:
		if (port->port == 1)
			memcpy(a->body, &r->port, sizeof(r->port));
		else
			a->hdr.status = -EINVAL;
		break;
	case FF_MSG_QUERY_GID:
		if (gid->port != 1 || gid->index >= ROUTER_GIDS) {
			a->hdr.status = -EINVAL;
			break;
		}
		memcpy(a->body, r->gid[gid->index], 16);
		memcpy(a->body + 16, &r->gid_type[gid->index], 4);
		break;
	case FF_MSG_CREATE_AH:
		r->ah = *(const struct ff_create_ah_req *)req;
		memcpy(a->body, &r->next_handle, 4);
		break;
	default: /* handles come first in the answers that have one */
		r->next_handle++;
		memcpy(a->body, &r->next_handle, 4);
	}
}

static void spoil(const struct router *r, enum fault f, struct answer *a)
{
	switch (f) {
	case FAULT_STATUS:
		a->hdr.status = r->fault_status ? r->fault_status : -EMFILE;
		break;
	case FAULT_UNKNOWN:
		a->hdr.status = -EOPNOTSUPP;
		a->len = 0;
		break;
	case FAULT_SHORT:
		a->len--;
		break;
	case FAULT_LONG:
		a->len++;
		break;
	case FAULT_HEADER_ONLY:
		a->len = 0;
		break;
	case FAULT_MAGIC:
		a->hdr.magic++;
		break;
	case FAULT_TYPE:
		a->hdr.type++;
		break;
	case FAULT_SEQ:
		a->hdr.seq++;
		break;
	case FAULT_TAIL:
		a->hdr.n_tail = 1;
		break;
	case FAULT_POSITIVE:
		a->hdr.status = 5;
		break;
	case FAULT_RANGE:
		a->hdr.status = INT32_MIN;
		break;
	case FAULT_FD:
		a->fd[a->n_fds++] = dup_null();
		a->told_fds = a->n_fds;
		break;
	case FAULT_FD_UNTOLD:
		a->fd[a->n_fds++] = dup_null();
		break;
	case FAULT_FD_MISSING:
		a->told_fds++;
		break;
	case FAULT_FD_MANY:
		while (a->n_fds < MAX_FDS)
			a->fd[a->n_fds++] = dup_null();
		a->told_fds = a->n_fds;
		break;
	default:
		break;
	}
}

static void send_answer(int sock, struct answer *a)
{
	char control[CMSG_SPACE(MAX_FDS * sizeof(int))] = { 0 };
	struct iovec iov[] = { { &a->hdr, sizeof(a->hdr) }, { a->body, a->len } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	struct cmsghdr *c;

	a->hdr.n_fds = a->told_fds;
	if (a->n_fds) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(a->n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(a->n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), a->fd, a->n_fds * sizeof(int));
	}
	if (sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
		DIE();
	while (a->n_fds)
		close(a->fd[--a->n_fds]);
}

static void drop(struct router *r, unsigned int c)
{
	close(r->conn[c]);
	if (r->async[c] >= 0)
		close(r->async[c]);
	r->conn[c] = r->async[c] = -1;
	atomic_fetch_add(&r->closed, 1);
}

static void receive(struct router *r, unsigned int c)
{
	uint8_t buf[FF_MSG_MAX];
	struct answer a = { 0 };
	struct ff_hdr *hdr = (void *)buf;
	enum fault fault = FAULT_NONE;
	ssize_t n = recv(r->conn[c], buf, sizeof(buf), 0);

	if (n <= 0) {
		drop(r, c);
		return;
	}
	if ((size_t)n < sizeof(*hdr) || hdr->type >= FF_MSG_NUM || !hdr->type ||
	    hdr->magic != FF_PROTO_MAGIC || hdr->status ||
	    hdr->n_fds != (hdr->type == FF_MSG_HELLO ? 2 : 0) ||
	    (size_t)n !=
		    sizeof(*hdr) + length[hdr->type].req + hdr->n_tail * sizeof(struct ff_mr_run)) {
		atomic_fetch_add(&r->malformed, 1);
		drop(r, c);
		return;
	}
	atomic_fetch_add(&r->calls[hdr->type], 1);
	if (r->fault_type == (enum ff_msg_type)hdr->type)
		fault = r->fault;
	if (fault == FAULT_SILENT)
		return;
	if (hdr->type == FF_MSG_HELLO && r->hello_ms)
		usleep(r->hello_ms * 1000);
	if (fault == FAULT_CLOSE) {
		drop(r, c);
		return;
	}
	a.hdr = *hdr;
	a.hdr.n_tail = 0;
	a.len = length[hdr->type].resp;
	if (fault != FAULT_STATUS)
		serve(r, c, hdr->type, hdr + 1, &a);
	a.told_fds = a.n_fds;
	spoil(r, fault, &a);
	send_answer(r->conn[c], &a);
}

static void accept_one(struct router *r)
{
	unsigned int c;

	for (c = 0; r->conn[c] >= 0; c++)
		if (c == ROUTER_CONNS - 1)
			abort();
	r->conn[c] = accept4(r->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (r->conn[c] < 0)
		DIE();
	atomic_fetch_add(&r->accepted, 1);
}

static void *run(void *arg)
{
	struct router *r = arg;
	struct pollfd p[2 + ROUTER_CONNS];
	unsigned int c;

	for (;;) {
		p[0] = (struct pollfd){ .fd = r->stop_fd, .events = POLLIN };
		p[1] = (struct pollfd){ .fd = r->listen_fd, .events = POLLIN };
		for (c = 0; c < ROUTER_CONNS; c++)
			p[2 + c] = (struct pollfd){ .fd = r->conn[c], .events = POLLIN };
		if (poll(p, 2 + ROUTER_CONNS, -1) < 0) {
			if (errno == EINTR) /* test_ffl_call sends the process signals */
				continue;
			DIE();
		}
		if (p[0].revents)
			return NULL;
		if (p[1].revents)
			accept_one(r);
		for (c = 0; c < ROUTER_CONNS; c++)
			if (r->conn[c] >= 0 && p[2 + c].revents)
				receive(r, c);
	}
}

void router_start(struct router *r)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	unsigned int c;

	memset(r, 0, sizeof(*r));
	for (c = 0; c < ROUTER_CONNS; c++)
		r->conn[c] = r->async[c] = -1;
	r->seg_fd = -1;
	r->seg_flags = MFD_ALLOW_SEALING;
	r->next_handle = 0x10001;
	r->dev.phys_port_cnt = 1;
	r->dev.num_comp_vectors = 1;
	r->port.gid_tbl_len = ROUTER_GIDS;
	r->port.pkey_tbl_len = 1;
	r->port.pkey0 = 0xffff;
	strcpy(r->dir, "/tmp/ffl-router.XXXXXX");
	if (!mkdtemp(r->dir))
		DIE();
	snprintf(r->path, sizeof(r->path), "%s/sock", r->dir);
	strcpy(sa.sun_path, r->path);
	r->stop_fd = dup_null();
	r->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (r->listen_fd < 0 || bind(r->listen_fd, (void *)&sa, sizeof(sa)) ||
	    listen(r->listen_fd, ROUTER_CONNS) || pthread_create(&r->thread, NULL, run, r))
		DIE();
	setenv("FFL_SOCKET", r->path, 1);
}

void router_stop(struct router *r)
{
	unsigned int c;

	if (r->listen_fd < 0)
		return;
	if (eventfd_write(r->stop_fd, 1))
		DIE();
	pthread_join(r->thread, NULL);
	for (c = 0; c < ROUTER_CONNS; c++)
		if (r->conn[c] >= 0)
			drop(r, c);
	if (r->seg_fd >= 0)
		close(r->seg_fd);
	close(r->stop_fd);
	close(r->listen_fd);
	r->listen_fd = r->seg_fd = -1;
	unlink(r->path);
	rmdir(r->dir);
}

/* Any thread; to the first connection that has an event socket. */
void router_event(struct router *r, uint32_t type, uint32_t kind, uint32_t handle)
{
	struct ff_async_event ev = { .event_type = type, .kind = kind, .handle = handle };
	unsigned int c;

	for (c = 0; r->async[c] < 0; c++)
		;
	if (send(r->async[c], &ev, sizeof(ev), MSG_NOSIGNAL) != sizeof(ev))
		DIE();
}

void router_wait_closed(struct router *r, uint32_t n)
{
	while (atomic_load(&r->closed) < n)
		sched_yield();
}

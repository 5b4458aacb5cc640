/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ctl_rig.c - see ctl_rig.h. Aborts where the test cannot go on. */
#include "tests/rig/unit/ctl_rig.h"
#include "ffr/mem/shadow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffr/cm/cm.h"
#include "ffr/keeper/keeper.h"
#include "ffr/lib/fds.h"
#include "ffr/remote/remote.h"
#include "ffr/soft/soft.h"
#include "tests/rig/common/dir.h"
#include "tests/rig/common/hello.h"
#include "tests/rig/unit/seal.h"

#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "ctl_rig: %s: %s\n", #cond, strerror(errno));              \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static void attach(struct ctl_rig *g, int i)
{
	struct ffo_container info = {
		.id = (uint32_t)i + 1,
		.epoch = 1,
		.lid = (uint16_t)(i + 1),
		.num_ips = 2,
		.tenant = "default",
	};

	info.name[0] = (char)('a' + i);
	info.ip[0].s6_addr[10] = info.ip[0].s6_addr[11] = 0xff;
	info.ip[0].s6_addr[15] = (uint8_t)(i + 1);
	info.ip[1].s6_addr[0] = 0xfd;
	info.ip[1].s6_addr[15] = (uint8_t)(i + 1);
	MUST(!container_attach(&g->ctl, &info));
	g->c[i] = container_find(&g->ctl, info.name);
}

static const struct carrier_use wire[] = { { .ops = &wire_carrier }, { 0 } };
const struct carrier_use *ctl_rig_carriers = wire;

void rig_open(struct ctl_rig *g)
{
	static const struct fast_conf fast = FAST_CONF_DEFAULT;
	struct ctl *ctl = &g->ctl;

	memset(g, 0, sizeof(*g));
	strcpy(g->dir, "/tmp/ctl_rig.XXXXXX");
	MUST(mkdtemp(g->dir));
	ctl->conf.runtime_dir = g->dir;
#define X(name, def, max) ctl->conf.limits.name = def;
	FFR_LIMITS(X)
#undef X
	ctl->uffd_fd = -1;
	guard_init(); /* descriptors that open later are a client's */
	MUST(!uv_loop_init(&g->loop));
	MUST(!ctl_open(ctl, &g->loop));
	g->backend.ops = &soft_ops;
	g->backend.carriers = ctl_rig_carriers;
	ctl->host = fast_create(&fast, &g->backend);
	MUST(ctl->host);
	MUST(!CARRIERS_FIRST(start, ctl->host->threads[0]));
	ctl->host->session_bad = ctl_session_bad;
	soft_describe(&ctl->dev);
	CARRIERS_DO(describe, ctl->host->threads[0], &ctl->dev);
	ctl->dev.num_comp_vectors = 1;
	ctl->cm = cm_create(ctl);
	MUST(ctl->cm);
	MUST(!containers_init(ctl));
	attach(g, 0);
	attach(g, 1);
}

void rig_close(struct ctl_rig *g)
{
	struct ctl *ctl = &g->ctl;
	struct container *c;
	char path[64];

	while (!TAILQ_EMPTY(&ctl->conns))
		ctl_conn_close(TAILQ_FIRST(&ctl->conns), NULL);
	LIST_FOREACH(c, &ctl->host->containers, entry)
		for (int q = 0; q < QUOTA_NUM; q++)
			MUST(!c->quota.use.used[q] && !c->of->use.used[q]);
	while (!LIST_EMPTY(&ctl->host->containers))
		container_detach(LIST_FIRST(&ctl->host->containers));
	ctl_close(ctl);
	cm_free(ctl->cm);
	uv_run(&g->loop, UV_RUN_DEFAULT);
	MUST(!uv_loop_close(&g->loop));
	fast_free(ctl->host);
	close(ctl->containers_fd);
	snprintf(path, sizeof(path), "%s/containers", g->dir);
	MUST(!rmdir(path) && !rmdir(g->dir));
}

void rig_pump(struct ctl_rig *g)
{
	if (!g->unsealed)
		clients_seal(g->ctl.host);
	for (int i = 0; i < 3; i++)
		uv_run(&g->loop, UV_RUN_NOWAIT);
	clients_settle(); /* HELLO is answered when what came with it was looked at */
	for (int i = 0; i < 3; i++)
		uv_run(&g->loop, UV_RUN_NOWAIT);
}

int rig_connect(struct ctl_rig *g, int container)
{
	int pair[2];

	MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
	MUST(!ctl_conn_create(g->c[container], pair[1]));
	return pair[0];
}

void rig_send(int sock, const void *bytes, size_t len, int fd, unsigned n_fds)
{
	int fds[FDS_MAX] = { fd };

	for (unsigned i = 0; i < n_fds; i++)
		fds[i] = fd;
	/* closed by the router; with something that it has not read if reset */
	MUST(fds_send(sock, bytes, len, fds, n_fds, 0) == (ssize_t)len || errno == EPIPE ||
	     errno == ECONNRESET);
}

/* One packet, with its descriptors: its length, 0 when closed, -EAGAIN. */
static ssize_t receive(int sock, void *buf, size_t size, int *fds, unsigned *n_fds)
{
	ssize_t n = fds_recv(sock, buf, size, fds, RIG_MAX_FDS, n_fds, MSG_DONTWAIT);

	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;
	return n;
}

bool rig_is_closed(struct ctl_rig *g, int sock)
{
	int fds[RIG_MAX_FDS];
	uint8_t buf[1024];
	unsigned n;

	rig_pump(g);
	return receive(sock, buf, sizeof(buf), fds, &n) == 0;
}

uint32_t rig_conns(const struct container_ctl *ct)
{
	struct ctl_conn *conn;
	uint32_t n = 0;

	TAILQ_FOREACH(conn, &ct->ctl->conns, entry)
		n += conn->cont == ct->c;
	return n;
}

static uint32_t seq;

/* The answer to the request with number `seq`. */
static int answer(struct ctl_rig *g, int sock, uint16_t type, void *resp, size_t resp_len, int *fds,
		  unsigned *n_fds)
{
	struct ff_hdr h;
	int got[RIG_MAX_FDS];
	uint8_t buf[FF_MSG_MAX];
	unsigned n;
	ssize_t len;

	rig_pump(g);
	len = receive(sock, buf, sizeof(buf), got, &n);
	if (len == -EAGAIN)
		return -EAGAIN;
	if (!len)
		return RIG_CLOSED;
	MUST(len == (ssize_t)(sizeof(h) + resp_len));
	memcpy(&h, buf, sizeof(h));
	memcpy(resp, buf + sizeof(h), resp_len);
	MUST(h.magic == FF_PROTO_MAGIC && h.type == type && h.seq == seq && h.n_fds == n);
	if (fds) {
		memcpy(fds, got, n * sizeof(int));
		*n_fds = n;
	} else {
		while (n)
			close(got[--n]);
	}
	return h.status;
}

void rig_ask(int sock, uint16_t type, const void *req, size_t req_len, const void *tail,
	     size_t tail_len, unsigned n_tail)
{
	struct ff_hdr h = { FF_PROTO_MAGIC, type, ++seq, 0, (uint16_t)n_tail, 0 };
	uint8_t buf[FF_MSG_MAX];

	memcpy(buf, &h, sizeof(h));
	memcpy(buf + sizeof(h), req, req_len);
	if (tail_len)
		memcpy(buf + sizeof(h) + req_len, tail, tail_len);
	rig_send(sock, buf, sizeof(h) + req_len + tail_len, -1, 0);
}

int rig_answer(struct ctl_rig *g, int sock, uint16_t type, void *resp, size_t resp_len)
{
	return answer(g, sock, type, resp, resp_len, NULL, NULL);
}

int rig_call(struct ctl_rig *g, int sock, uint16_t type, const void *req, size_t req_len,
	     const void *tail, size_t tail_len, unsigned n_tail, void *resp, size_t resp_len,
	     int *fds, unsigned *n_fds)
{
	rig_ask(sock, type, req, req_len, tail, tail_len, n_tail);
	return answer(g, sock, type, resp, resp_len, fds, n_fds);
}

int rig_call_fd(struct ctl_rig *g, int sock, uint16_t type, const void *req, size_t req_len,
		const int *send, unsigned n_send, void *resp, size_t resp_len, int *fd)
{
	struct ff_hdr h = { FF_PROTO_MAGIC, type, ++seq, 0, 0, (uint16_t)n_send };
	int fds[RIG_MAX_FDS], status;
	uint8_t buf[FF_MSG_MAX];
	unsigned n = 0;

	memcpy(buf, &h, sizeof(h));
	memcpy(buf + sizeof(h), req, req_len);
	MUST(fds_send(sock, buf, sizeof(h) + req_len, send, n_send, 0) > 0 || errno == EPIPE);
	status = answer(g, sock, type, resp, resp_len, fds, &n);
	MUST(n <= 1);
	*fd = n ? fds[0] : -1;
	return status;
}

static int hello_once(struct ctl_rig *g, int sock, const struct ff_hello_req *req,
		      struct ff_hello_resp *resp, const int send[2], int *fds, unsigned *n_fds)
{
	struct {
		struct ff_hdr h;
		struct ff_hello_req req;
	} m = { { FF_PROTO_MAGIC, FF_MSG_HELLO, ++seq, 0, 0, 2 }, *req };
	ssize_t n = send ? hello_send_fds(sock, &m, sizeof(m), send) :
			   hello_send(sock, &m, sizeof(m));

	MUST(n == (ssize_t)sizeof(m) || errno == EPIPE);
	return answer(g, sock, FF_MSG_HELLO, resp, sizeof(*resp), fds, n_fds);
}

int rig_hello_with(struct ctl_rig *g, int sock, const struct ff_hello_req *req,
		   struct ff_hello_resp *resp, const int send[2], int *fds, unsigned *n_fds)
{
	struct ff_hello_req again = *req;
	struct ff_challenge_req ask = { 0 };
	struct ff_challenge_resp answer;
	int st = hello_once(g, sock, req, resp, send, fds, n_fds);

	if (st != -EAGAIN) /* before Linux 6.5 */
		return st;
	MUST(!RIG_CALL(g, sock, CHALLENGE, &ask, &answer));
	memcpy(again.nonce, answer.nonce, sizeof(again.nonce));
	return hello_once(g, sock, &again, resp, send, fds, n_fds);
}

int rig_hello(struct ctl_rig *g, int sock)
{
	struct ff_hello_req req = { FF_PROTO_VERSION, FF_PROTO_VERSION, "test", { 0 } };
	struct ff_hello_resp resp;

	return rig_hello_with(g, sock, &req, &resp, NULL, NULL, NULL);
}

/*
 * Clients are this process, but when their sessions are over, they are to be gone: threads that watch their pages
 * (mem/watch.c) look at the first byte of their memory for that.
 */
ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
	return n == 1 && !off ? 0 : syscall(SYS_pread64, fd, buf, n, off);
}

unsigned rig_open_fds(void)
{
	return dir_count("/proc/self/fd");
}

void rig_fds(struct ctl_rig *g, unsigned want)
{
	uint64_t end = uv_hrtime() + 20000000000ull;

	rig_pump(g);
	while (rig_open_fds() > want) {
		MUST(uv_hrtime() < end);
		rig_pump(g);
	}
}

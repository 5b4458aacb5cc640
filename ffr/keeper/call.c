/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * call.c - the router's side of the keeper. Control thread. A request waits for its answer, because no client can delay
 * the answer. When the keeper has ended, every request fails, and main.c stops the router.
 *
 * Tests: test_keeper.c
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/lib/fds.h"
#include "ffr/lib/log.h"
#include "ffr/lib/sandbox.h"
#include "ffr/keeper/keeper.h"
#include "ffr/keeper/opener.h"

void keeper_main(int sock, const struct sandbox_conf *conf) __attribute__((noreturn));

static int keeper = -1; /* -1: there is none */
static uint32_t last_seq;

pid_t keeper_start(const struct sandbox_conf *conf, int *sock)
{
	struct sandbox_conf own = *conf;
	int pair[2], err;
	pid_t pid;

	own.keeper = true;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		err = -errno;
		log_err("keeper: %s", strerror(-err));
		return err;
	}
	pid = fork();
	if (!pid)
		keeper_main(pair[1], &own);
	err = pid < 0 ? -errno : 0;
	close(pair[1]);
	if (err) {
		close(pair[0]);
		log_err("keeper: %s", strerror(-err));
		return err;
	}
	*sock = pair[0];
	return pid;
}

/* After an error: is it to be tried again? libuv, which watches the socket, has it not block. */
static bool again(short events)
{
	struct pollfd p = { .fd = keeper, .events = events };

	if (errno == EAGAIN)
		return poll(&p, 1, -1) == 1 || errno == EINTR;
	return errno == EINTR;
}

/* Receive one answer. 0 or -errno; *fd is the descriptor that came with the answer, or -1. */
static int answer_get(struct keeper_resp *resp, int *fd)
{
	unsigned n_fds;
	ssize_t n;

	do
		n = fds_recv(keeper, resp, sizeof(*resp), fd, 1, &n_fds, 0);
	while (n < 0 && again(POLLIN));
	if (!n_fds)
		*fd = -1;
	if (n != sizeof(*resp))
		return -EPIPE;
	return 0;
}

/* The answer's status; *fd is the descriptor that came with it, or -1. req begins `len` bytes. */
static int call_long(struct keeper_req *req, size_t len, const int *fds, unsigned n_fds,
		     struct keeper_resp *resp, int *fd)
{
	ssize_t n;
	int err;

	*fd = -1;
	req->seq = ++last_seq;
	do
		n = fds_send(keeper, req, len, fds, n_fds, 0);
	while (n < 0 && again(POLLOUT));
	if (n < 0)
		return -errno;
	while (!(err = answer_get(resp, fd)) && resp->seq != req->seq)
		if (*fd >= 0)
			close(*fd);
	if (err)
		return err;
	return resp->status;
}

static int call(struct keeper_req *req, const int *fds, unsigned n_fds, struct keeper_resp *resp,
		int *fd)
{
	return call_long(req, sizeof(*req), fds, n_fds, resp, fd);
}

/* Make a request that is answered with a descriptor. Returns the descriptor, or -errno. */
static int call_for_fd(struct keeper_req *req)
{
	struct keeper_resp resp;
	int fd, err = call(req, NULL, 0, &resp, &fd);

	return err ? err : fd < 0 ? -EPROTO : fd;
}

int keeper_use(int sock)
{
	struct keeper_req req = { .op = KEEPER_BEGIN };
	struct keeper_resp resp;
	int fd;

	keeper = sock;
	if (getrandom(&last_seq, sizeof(last_seq), 0) != sizeof(last_seq))
		return -EIO;
	return call(&req, NULL, 0, &resp, &fd);
}

static int client_add(const struct ctl_peer *peer, const char *cgroup, int sock, uint32_t *id)
{
	struct keeper_cgroup_req r = { .req = { .op = KEEPER_ADD, .pid = peer->pid } };
	const int fds[] = { peer->pidfd, sock };
	struct keeper_resp resp;
	int err, none;

	if (keeper < 0)
		return clients_add(peer, cgroup, sock, id);
	snprintf(r.cgroup, sizeof(r.cgroup), "%s", cgroup);
	err = call_long(&r.req, sizeof(r), fds, 2, &resp, &none);
	*id = err ? 0 : resp.id;
	return err;
}

int keeper_client_add(const struct ctl_peer *peer, int mem, int maps, const char *cgroup,
		      uint32_t *id)
{
	const int memory[] = { mem, maps };
	int pair[2], err = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
		return -errno;
	if (fds_send(pair[0], "", 1, memory, 2, 0) != 1)
		err = -errno;
	else
		err = client_add(peer, cgroup ? cgroup : "", pair[1], id);
	close(pair[1]);
	if (!err)
		return pair[0];
	close(pair[0]);
	return err;
}

void keeper_client_del(uint32_t id)
{
	struct keeper_req req = { .op = KEEPER_DEL, .id = id };
	struct keeper_resp resp;
	int fd;

	if (keeper < 0)
		clients_del(id);
	else
		(void)call(&req, NULL, 0, &resp, &fd); /* gone with the keeper, if that has ended */
}

static int look(uint32_t id, const struct keeper_range *range, uint32_t n, bool writes, int sock)
{
	struct keeper_look_req r = {
		.req = { .op = KEEPER_LOOK, .id = id, .writes = writes, .num = n },
	};
	struct keeper_resp resp;
	int none;

	if (keeper < 0)
		return clients_look(id, range, n, writes, sock);
	memcpy(r.range, range, n * sizeof(*range));
	return call_long(&r.req, sizeof(r.req) + n * sizeof(*range), &sock, 1, &resp, &none);
}

int keeper_look(uint32_t id, const struct keeper_range *range, uint32_t n, bool writes)
{
	int pair[2], err;

	if (n > KEEPER_RANGES)
		return -EINVAL;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	err = look(id, range, n, writes, pair[1]);
	close(pair[1]);
	if (!err)
		return pair[0];
	close(pair[0]);
	return err;
}

int keeper_found(int sock, struct keeper_found *found)
{
	unsigned n_fds;
	ssize_t n;
	int fd;

	do
		n = fds_recv(sock, found, sizeof(*found), &fd, 1, &n_fds, 0);
	while (n < 0 && errno == EINTR);
	if (n == sizeof(*found) && n_fds == 1)
		return fd;
	if (n_fds)
		close(fd);
	return -ENOENT;
}

static int runs(int dir, const char *cgroup, int sock)
{
	struct keeper_cgroup_req r = { .req = { .op = KEEPER_RUNS } };
	const int fds[] = { dir, sock };
	struct keeper_resp resp;
	int none;

	if (keeper < 0)
		return runs_start(dir, cgroup, sock);
	snprintf(r.cgroup, sizeof(r.cgroup), "%s", cgroup);
	return call_long(&r.req, sizeof(r), fds, 2, &resp, &none);
}

int keeper_runs(int dir, const char *cgroup)
{
	int pair[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
		return -errno;
	err = runs(dir, cgroup ? cgroup : "", pair[1]);
	close(pair[1]);
	if (!err)
		return pair[0];
	close(pair[0]);
	return err;
}

int keeper_open_ffmem(void)
{
	struct keeper_req req = { .op = KEEPER_OPEN_FFMEM };

	return keeper < 0 ? opener_device(OPENER_FFMEM) : call_for_fd(&req);
}

static struct keeper_req named(enum keeper_op op, const char *name)
{
	struct keeper_req req = { .op = op };

	snprintf(req.name, sizeof(req.name), "%s", name);
	return req;
}

int keeper_hold(const char *name, int fd)
{
	struct keeper_req req = named(KEEPER_HOLD, name);
	struct keeper_resp resp;
	int none;

	return keeper < 0 ? 0 : call(&req, &fd, 1, &resp, &none);
}

int keeper_held(const char *name)
{
	struct keeper_req req = named(KEEPER_HELD, name);

	return keeper < 0 ? -ENOENT : call_for_fd(&req);
}

bool keeper_is_there(void)
{
	return keeper >= 0;
}

int keeper_save(uint32_t id, const uint32_t *slot, const int *fds, uint32_t n)
{
	struct keeper_save_req r = { .req = { .op = KEEPER_SAVE, .id = id, .num = n } };
	struct keeper_resp resp;
	int none;

	if (keeper < 0 || !n || n > KEEPER_SAVES)
		return keeper < 0 ? -ENOENT : -EINVAL;
	memcpy(r.slot, slot, n * sizeof(*slot));
	return call_long(&r.req, sizeof(r.req) + n * sizeof(*slot), fds, n, &resp, &none);
}

int keeper_saved(uint32_t id, uint32_t slot)
{
	struct keeper_req req = { .op = KEEPER_SAVED, .id = id, .num = slot };

	return keeper < 0 ? -ENOENT : call_for_fd(&req);
}

void keeper_unsave(uint32_t id, uint32_t slot)
{
	struct keeper_req req = { .op = KEEPER_UNSAVE, .id = id, .num = slot };
	struct keeper_resp resp;
	int fd;

	if (keeper >= 0)
		(void)call(&req, NULL, 0, &resp, &fd);
}

int keeper_saved_next(uint32_t after, uint32_t *id)
{
	struct keeper_req req = { .op = KEEPER_SAVED_NEXT, .id = after };
	struct keeper_resp resp;
	int fd, err = keeper < 0 ? -ENOENT : call(&req, NULL, 0, &resp, &fd);

	*id = err ? 0 : resp.id;
	return err;
}

int keeper_open_rio(void)
{
	struct keeper_req req = { .op = KEEPER_OPEN_RIO };

	return keeper < 0 ? opener_device(OPENER_RIO) : call_for_fd(&req);
}

void keeper_let_go(const char *name)
{
	struct keeper_req req = named(KEEPER_LET_GO, name);
	struct keeper_resp resp;
	int fd;

	if (keeper >= 0)
		(void)call(&req, NULL, 0, &resp, &fd);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * keeper.c - the process with the privileges: messages in, one dispatch, answers out. See keeper.h.
 *
 * The requests come from the router, which may have been taken over. So the keeper does no more than a client has
 * allowed by the descriptors that it handed over. The keeper answers each packet with one packet, in turn. It ends with
 * its parent, and when nobody has the other end of the socket any more.
 */
#include "ffr/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ffr/keeper/opener.h"
#include "ffr/lib/fds.h"
#include "ffr/lib/log.h"
#include "ffr/lib/sandbox.h"

#define THREAD_STACK (256u << 10) /* bytes */
#define ROOM_FDS                                                                                   \
	8u /* descriptors of a packet; no good request has more, and the kernel closes further ones */

#define KEEPER_REQ_MAX sizeof(struct keeper_look_req)
static_assert(KEEPER_REQ_MAX >= sizeof(struct keeper_cgroup_req) && ROOM_FDS >= KEEPER_SAVES,
	      "the longest request");

void keeper_main(int sock, const struct sandbox_conf *conf) __attribute__((noreturn));

static unsigned fds_of(const struct keeper_req *req)
{
	switch (req->op) {
	case KEEPER_SAVE:
		return req->num && req->num <= KEEPER_SAVES ? req->num : KEEPER_SAVES + 1;
	case KEEPER_HOLD:
	case KEEPER_LOOK:
		return 1;
	case KEEPER_ADD:
	case KEEPER_RUNS:
		return 2; /* pidfd or folder, socket */
	default:
		return 0;
	}
}

static size_t len_of(const struct keeper_req *req)
{
	size_t num = req->num < KEEPER_RANGES ? req->num : KEEPER_RANGES;

	switch (req->op) {
	case KEEPER_ADD:
	case KEEPER_RUNS:
		return sizeof(struct keeper_cgroup_req);
	case KEEPER_LOOK:
		return sizeof(*req) + num * sizeof(struct keeper_range);
	case KEEPER_SAVE:
		return sizeof(*req) + num * sizeof(uint32_t);
	default:
		return sizeof(*req);
	}
}

/* A path, or "". */
static bool is_cgroup(const char *cgroup)
{
	return memchr(cgroup, '\0', CGROUP_MAX) && (!*cgroup || !cgroup_path_wrong(cgroup));
}

static int serve_add(const struct keeper_req *req, const char *cgroup, const int *fds, uint32_t *id)
{
	const struct ctl_peer peer = { .pid = req->pid, .pidfd = fds[0] };

	if (req->pid <= 0 || req->id || !is_cgroup(cgroup))
		return -EINVAL;
	return clients_add(&peer, cgroup, fds[1], id);
}

static int serve_look(const struct keeper_req *req, const void *bytes, const int *fds)
{
	struct keeper_range range[KEEPER_RANGES];

	if (req->num > KEEPER_RANGES)
		return -EINVAL;
	memcpy(range, (const char *)bytes + sizeof(*req), req->num * sizeof(*range));
	return clients_look(req->id, range, req->num, req->writes, fds[0]);
}

/* fds_of() has checked req->num. */
static int serve_save(const struct keeper_req *req, const void *bytes, const int *fds)
{
	uint32_t slot[KEEPER_SAVES];

	memcpy(slot, (const char *)bytes + sizeof(*req), req->num * sizeof(*slot));
	return clients_save(req->id, slot, fds, req->num);
}

static int serve_runs(const char *cgroup, const int *fds)
{
	if (!is_cgroup(cgroup))
		return -EINVAL;
	return runs_start(fds[0], cgroup, fds[1]);
}

int keeper_serve(const void *bytes, size_t len, const int *fds, unsigned n_fds,
		 struct keeper_resp *resp)
{
	struct keeper_req req;
	int fd = -1;

	*resp = (struct keeper_resp){ .status = -EINVAL };
	if (len < sizeof(req))
		goto out;
	memcpy(&req, bytes, sizeof(req));
	resp->seq = req.seq;
	if (len != len_of(&req) || n_fds != fds_of(&req))
		goto out;
	switch (req.op) {
	case KEEPER_ADD:
		resp->status = serve_add(&req, (const char *)bytes + sizeof(req), fds, &resp->id);
		break;
	case KEEPER_DEL:
		resp->status = clients_del(req.id);
		break;
	case KEEPER_LOOK:
		resp->status = serve_look(&req, bytes, fds);
		break;
	case KEEPER_BEGIN:
		clients_begin();
		resp->status = 0;
		break;
	case KEEPER_HOLD:
		resp->status = held_add(req.name, fds[0]);
		break;
	case KEEPER_HELD:
		fd = held_get(req.name);
		resp->status = fd < 0 ? fd : 0;
		break;
	case KEEPER_OPEN_RIO:
		fd = opener_device(OPENER_RIO);
		resp->status = fd < 0 ? fd : 0;
		break;
	case KEEPER_LET_GO:
		resp->status = held_del(req.name);
		break;
	case KEEPER_OPEN_FFMEM:
		fd = opener_device(OPENER_FFMEM);
		resp->status = fd < 0 ? fd : 0;
		break;
	case KEEPER_RUNS:
		resp->status = serve_runs((const char *)bytes + sizeof(req), fds);
		break;
	case KEEPER_SAVE:
		resp->status = serve_save(&req, bytes, fds);
		break;
	case KEEPER_SAVED:
		fd = clients_saved(req.id, req.num);
		resp->status = fd < 0 ? fd : 0;
		break;
	case KEEPER_UNSAVE:
		resp->status = clients_unsave(req.id, req.num);
		break;
	case KEEPER_SAVED_NEXT:
		resp->status = clients_saved_next(req.id, &resp->id);
		break;
	default:
		break;
	}
out:
	while (n_fds)
		close(fds[--n_fds]);
	return fd;
}

int keeper_thread(void *(*fn)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t t;
	int err = -pthread_attr_init(&attr);

	if (err)
		return err;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	err = -pthread_create(&t, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	return err;
}

/* Receive one packet and its descriptors. Returns the packet's length; 0: the other end has hung up. */
static ssize_t receive(int sock, void *buf, size_t size, int fds[ROOM_FDS], unsigned *n_fds)
{
	ssize_t n;

	do
		n = fds_recv(sock, buf, size, fds, ROOM_FDS, n_fds, 0);
	while (n < 0 && errno == EINTR);
	return n;
}

/*
 * Answer whatever happens, because the router waits. The kernel refuses a descriptor while the user, over all
 * containers, has as many on their way in sockets as this process may have open (ETOOMANYREFS, without
 * CAP_SYS_RESOURCE). Then the answer has that error, and no descriptor.
 */
static void answer(int sock, struct keeper_resp *resp, int fd)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	while (fds_send(sock, resp, sizeof(*resp), &fd, fd >= 0, 0) < 0) {
		int err = -errno;

		if (err == -EINTR)
			continue;
		if (fd >= 0) {
			resp->status = err;
			close(fd);
			fd = -1;
		} else if (err == -ENOMEM || err == -ENOBUFS) {
			nanosleep(&pause, NULL);
		} else {
			break; /* nobody has the other end */
		}
	}
	if (fd >= 0)
		close(fd);
}

void keeper_main(int sock, const struct sandbox_conf *conf)
{
	struct keeper_resp resp;
	int fds[ROOM_FDS], fd;
	static uint8_t buf[KEEPER_REQ_MAX + 1];
	unsigned n_fds;
	ssize_t n;

	pid_t parent = getppid();

	/* what the router is told to stop by; this one ends with its parent */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	prctl(PR_SET_NAME, "ffr-keeper");
	log_journal(NULL); /* its descriptor is not kept */
	if (dup2(sock, STDERR_FILENO + 1) < 0 || chdir("/"))
		_exit(EXIT_FAILURE);
	sock = STDERR_FILENO + 1;
	syscall(SYS_close_range, sock + 1, ~0u, 0);
	/* another user has no PDEATHSIG any more, so it comes behind sandbox_prepare() */
	if (opener_start(conf) || sandbox_prepare(conf) || prctl(PR_SET_PDEATHSIG, SIGKILL) ||
	    getppid() != parent || sandbox_enter(SANDBOX_KEEPER))
		_exit(EXIT_FAILURE);
	while ((n = receive(sock, buf, sizeof(buf), fds, &n_fds)) > 0 || n_fds) {
		fd = keeper_serve(buf, n > 0 ? (size_t)n : 0, fds, n_fds, &resp);
		answer(sock, &resp, fd);
	}
	_exit(EXIT_SUCCESS);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * nursery.c - the process that routers are children of, and the router's side of it. One thread; started by parent.c.
 *
 * A client seals the memory of its rings (mem/seg.c), after which nobody can map it writable any more. So a router
 * that is run anew can never reach the rings that the last router had. The nursery maps each segment before the client
 * gets it, and never touches it. A router is a fork of the nursery, which has these mappings, at the same addresses.
 *
 * The nursery has the rights of the parent, because each router begins with them. It does nothing else: it maps
 * memfds that are sealed against shrinking, which the router names, it forgets them, and it makes routers when the
 * parent says so. It reads no memory, and opens nothing.
 *
 * All routers of one nursery have one layout of their address space. So the parent has a new nursery after a router has
 * crashed: what an attacker has learnt from a router that he made crash is of no use against the next one.
 *
 * Tests: unit/keeper/test_nursery.c, system/verbs_restart.sh
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "ffr/keeper/keeper.h"
#include "ffr/lib/fds.h"
#include "ffr/lib/log.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

struct mapped {
	UT_hash_handle hh;
	uint64_t inode, size;
	void *map;
};

static struct mapped *mapped; /* hash by inode; in a router: what the nursery had when it began */

#define WAIT_MS 20 /* that the router waits for the nursery */

/* A request of the router's: with a descriptor, map it; without, forget that inode. */
struct nursery_req {
	uint64_t inode;
	uint64_t number; /* of one that is answered */
};
struct nursery_resp {
	uint64_t number;
	int32_t status, reserved;
};

/* ---- both ------------------------------------------------------------------------------------------------------- */

static struct mapped *find(uint64_t inode)
{
	struct mapped *m;

	HASH_FIND(hh, mapped, &inode, sizeof(inode), m);
	return m;
}

/* The memory stays mapped. */
static void forget(struct mapped *m)
{
	HASH_DEL(mapped, m);
	free(m);
}

/* A memfd that stays as long as it is: 0 and *st, or -EINVAL. */
static int memfd_look(int fd, struct stat *st)
{
	int seals = fcntl(fd, F_GET_SEALS); /* only memory has seals */

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, st) || st->st_size <= 0)
		return -EINVAL;
	return 0;
}

/* ---- the nursery ------------------------------------------------------------------------------------------------ */

static int map(int fd)
{
	struct mapped *m;
	struct stat st;
	int err = memfd_look(fd, &st);

	if (err)
		return err;
	if (find(st.st_ino))
		return -EEXIST;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->inode = st.st_ino;
	m->size = (uint64_t)st.st_size;
	m->map = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (m->map == MAP_FAILED) {
		err = -errno;
		free(m);
		return err;
	}
	HASH_ADD(hh, mapped, inode, sizeof(m->inode), m);
	if (m->hh.tbl)
		return 0;
	munmap(m->map, m->size);
	free(m);
	return -ENOMEM;
}

static void unmap(uint64_t inode)
{
	struct mapped *m = find(inode);

	if (!m)
		return;
	munmap(m->map, m->size);
	forget(m);
}

int nursery_serve(int sock)
{
	struct nursery_req req;
	struct nursery_resp resp = { 0 };
	unsigned n_fds = 0;
	ssize_t n;
	int fd = -1;

	do
		n = fds_recv(sock, &req, sizeof(req), &fd, 1, &n_fds, 0);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return -EPIPE;
	if (!n_fds && n == sizeof(req)) {
		unmap(req.inode);
		return 0;
	}
	resp.status = n_fds && n == sizeof(req) ? map(fd) : -EINVAL;
	resp.number = n == sizeof(req) ? req.number : 0;
	if (n_fds)
		close(fd);
	(void)fds_send(sock, &resp, sizeof(resp), NULL, 0, MSG_DONTWAIT);
	return 0;
}

/*
 * A child of the parent's: it is the child of a process that ends at once. 0 in the child; its number, or -errno. The
 * parent takes in children whose own parent has ended.
 */
static pid_t grandchild(void)
{
	int32_t pid = -EAGAIN;
	int pair[2];
	pid_t between;

	if (pipe2(pair, O_CLOEXEC))
		return -errno;
	between = fork();
	if (!between) {
		pid_t self = getpid(), child = fork();

		if (!child) {
			while (getppid() == self)
				sched_yield();
			close(pair[0]);
			close(pair[1]);
			return 0;
		}
		pid = child;
		_exit(write(pair[1], &pid, sizeof(pid)) != sizeof(pid));
	}
	close(pair[1]);
	if (between > 0) {
		if (read(pair[0], &pid, sizeof(pid)) != sizeof(pid) || pid <= 0)
			pid = -EAGAIN;
		waitpid(between, NULL, 0);
	}
	close(pair[0]);
	return pid;
}

static int own = -1; /* the router's socket to the nursery */

/* The parent wants a router, and has sent its socket for configurations. True: this process is the router. */
static bool birth(int sock, int *router, int *conf)
{
	unsigned n_fds = 0;
	int pair[2];
	int32_t pid;
	char c;

	if (fds_recv(sock, &c, 1, conf, 1, &n_fds, 0) <= 0)
		_exit(EXIT_SUCCESS); /* the parent has ended */
	if (*router >= 0)
		close(*router); /* with what a router that has ended has left there */
	*router = -1;
	pid = -EINVAL;
	if (n_fds && !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		pid = grandchild();
		if (!pid) {
			own = pair[1];
			close(pair[0]);
			return true;
		}
		*router = pair[0];
		close(pair[1]);
	}
	if (n_fds)
		close(*conf);
	(void)fds_send(sock, &pid, sizeof(pid), NULL, 0, 0);
	return false;
}

int nursery_run(int sock)
{
	struct pollfd p[2] = { { .fd = sock, .events = POLLIN }, { .fd = -1, .events = POLLIN } };
	int conf;

	prctl(PR_SET_NAME, "ffr-nursery");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* what routers are told to stop by; this process ends with the parent */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	for (;;) {
		if (poll(p, 2, -1) < 0)
			continue;
		if (p[0].revents && birth(sock, &p[1].fd, &conf))
			break;
		if (!p[0].revents && p[1].revents && nursery_serve(p[1].fd)) {
			close(p[1].fd);
			p[1].fd = -1;
		}
	}
	prctl(PR_SET_NAME, "ffr");
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	close(sock);
	return conf;
}

/* ---- the parent ------------------------------------------------------------------------------------------------- */

pid_t nursery_router(int sock, int conf)
{
	int32_t pid;
	unsigned none;
	ssize_t n;
	int fd;

	if (fds_send(sock, "", 1, &conf, 1, 0) != 1)
		return -errno;
	do
		n = fds_recv(sock, &pid, sizeof(pid), &fd, 1, &none, 0);
	while (n < 0 && errno == EINTR);
	return n == sizeof(pid) ? pid : -EPIPE;
}

/* ---- the router ------------------------------------------------------------------------------------------------- */

/* The answer to that request, which may be behind later ones: -ETIMEDOUT: it has not come in time. */
static int answer(uint64_t number)
{
	struct pollfd p = { .fd = own, .events = POLLIN };
	struct nursery_resp resp;
	unsigned none;
	int got;

	while (poll(&p, 1, WAIT_MS) > 0) {
		ssize_t n = fds_recv(own, &resp, sizeof(resp), &got, 1, &none, MSG_DONTWAIT);

		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n != sizeof(resp))
			return -EPIPE;
		if (resp.number == number)
			return resp.status;
	}
	return -ETIMEDOUT;
}

/* The nursery unmaps what a client can make slow to unmap, so nobody waits for it. */
static void lost(void)
{
	log_warn("ffr-nursery does not answer: new sessions do not outlive this router");
	close(own);
	own = -1;
}

int nursery_hold(int fd)
{
	static uint64_t number;
	struct nursery_req req = { 0 };
	ssize_t n;
	int err;

	if (own < 0)
		return -ENOENT;
	req.number = ++number;
	do
		n = fds_send(own, &req, sizeof(req), &fd, 1, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(req)) {
		lost();
		return -EPIPE;
	}
	err = answer(number);
	if (err == -ETIMEDOUT)
		nursery_let_go(fd); /* it will have it by then */
	return err;
}

void nursery_let_go(int fd)
{
	struct nursery_req req = { 0 };
	struct stat st;
	ssize_t n;

	if (own < 0 || fstat(fd, &st))
		return;
	req.inode = st.st_ino;
	do
		n = fds_send(own, &req, sizeof(req), NULL, 0, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(req))
		lost();
}

void *nursery_take(int fd, uint64_t size)
{
	struct stat st;
	struct mapped *m = memfd_look(fd, &st) ? NULL : find(st.st_ino);
	void *at;

	if (!m || m->size != size || (uint64_t)st.st_size != size)
		return NULL;
	at = m->map;
	forget(m);
	return at;
}

void nursery_take_no_more(void)
{
	struct mapped *m, *next;

	HASH_ITER(hh, mapped, m, next) {
		struct nursery_req req = { .inode = m->inode };

		munmap(m->map, m->size);
		if (own >= 0)
			(void)fds_send(own, &req, sizeof(req), NULL, 0, 0);
		forget(m);
	}
}

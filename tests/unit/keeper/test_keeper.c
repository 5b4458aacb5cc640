/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_keeper.c - ffr/keeper/: the process, asked by a router and by somebody who has taken one over.
 * build: tests/rig/unit/mounter.c
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/magic.h>

#include "ffr/keeper/keeper.h"
#include "ffr/lib/fds.h"
#include "ffr/lib/sandbox.h"
#include "tests/rig/common/hello.h"
#include "tests/rig/unit/keeper_add.h"
#include "tests/rig/unit/mounter.h"

#define LEN	      ((size_t)16 * 4096)
#define KEEPER_NOFILE 64 /* RLIMIT_NOFILE of the keeper */

static int sock;
static int memory[2], pidfd;
static uint8_t *shared, *private;

static int setup(void **state)
{
	const struct sandbox_conf conf = { .mode = SANDBOX_ON };
	struct rlimit before, less;

	(void)state;
	if (getrlimit(RLIMIT_NOFILE, &before))
		return -1;
	less = before;
	less.rlim_cur = KEEPER_NOFILE; /* for the_answer_comes_without_a_descriptor() */
	if (setrlimit(RLIMIT_NOFILE, &less) || keeper_start(&conf, &sock) < 0 ||
	    setrlimit(RLIMIT_NOFILE, &before) || keeper_use(sock))
		return -1;
	/* as libuv has it */
	if (fcntl(sock, F_SETFL, O_NONBLOCK))
		return -1;
	hello_memory(memory);
	pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	shared = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	private = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return pidfd < 0 || shared == MAP_FAILED || private == MAP_FAILED;
}

static struct ff_vma vma_of(const void *p)
{
	struct ff_vma v = { 0 };

	if (ff_vma_ask(memory[1], (uintptr_t)p, &v) == -ENOTTY)
		skip();
	return v;
}

static int add(uint32_t *id)
{
	const struct ctl_peer peer = { .pid = getpid(), .pidfd = pidfd };
	struct keeper_added added;

	return keeper_add(&peer, memory, NULL, id, &added);
}

/* The descriptor of the one file that is mapped there, or -ENOENT: there is none. */
static int find(uint32_t id, const void *p, size_t len, bool writes, struct keeper_found *found)
{
	const struct keeper_range range = { (uintptr_t)p, (uintptr_t)p + len };
	int in = keeper_look(id, &range, 1, writes), fd;
	struct keeper_found other;

	if (in < 0)
		return in;
	fd = keeper_found(in, found);
	if (fd >= 0)
		assert_int_equal(keeper_found(in, &other), -ENOENT);
	close(in);
	return fd;
}

static void a_shared_mapping_is_found(void **state)
{
	struct ff_vma v = vma_of(shared);
	struct keeper_found found;
	struct stat st;
	uint32_t id;
	uint8_t *again;
	int fd;

	(void)state;
	assert_int_equal(add(&id), 0);
	fd = find(id, shared, LEN, true, &found);
	if (fd == -ENOENT) {
		print_message("no right to open map_files here\n");
		skip();
	}
	assert_true(fd >= 0);
	assert_int_equal(found.start, (uintptr_t)shared);
	assert_int_equal(found.end, (uintptr_t)shared + LEN);
	assert_memory_equal(&found.vma, &v, sizeof(v));
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_ino, v.inode);
	again = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	shared[1] = 0x5a;
	assert_int_equal(again[1], 0x5a);
	munmap(again, LEN);
	/* a part of it, and no more than was asked for */
	fd = find(id, shared + FF_PAGE, FF_PAGE, true, &found);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(found.start, (uintptr_t)shared + FF_PAGE);
	assert_int_equal(found.end, (uintptr_t)shared + 2 * (size_t)FF_PAGE);
	keeper_client_del(id);
	assert_int_equal(find(id, shared, LEN, true, &found), -ENOENT);
}

static void what_is_not_shared_or_not_writable_is_not_found(void **state)
{
	struct keeper_found found;
	uint32_t id;
	int fd;

	(void)state;
	(void)vma_of(shared);
	assert_int_equal(add(&id), 0);
	assert_int_equal(find(id, private, LEN, false, &found), -ENOENT);
	assert_int_equal(mprotect(shared, LEN, PROT_READ), 0);
	assert_int_equal(find(id, shared, LEN, true, &found), -ENOENT);
	fd = find(id, shared, LEN, false, &found);
	if (fd >= 0) {
		assert_true(write(fd, "x", 1) < 0); /* for reading only */
		close(fd);
	}
	assert_int_equal(mprotect(shared, LEN, PROT_READ | PROT_WRITE), 0);
	keeper_client_del(id);
}

/* Opening a file of a disk, or of a server of a client's, may take as long as that likes. */
static void only_files_in_memory_are_opened(void **state)
{
	int file = open("/bin/sh", O_RDONLY | O_CLOEXEC);
	uint8_t *p = mmap(NULL, FF_PAGE, PROT_READ, MAP_SHARED, file, 0);
	struct keeper_found found;
	struct statfs fs;
	uint32_t id;

	(void)state;
	(void)vma_of(shared);
	assert_int_equal(fstatfs(file, &fs), 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	close(file);
	if (fs.f_type == TMPFS_MAGIC) {
		print_message("/bin/sh is in memory here\n");
		skip();
	}
	assert_int_equal(add(&id), 0);
	assert_int_equal(find(id, p, FF_PAGE, false, &found), -ENOENT);
	keeper_client_del(id);
	munmap(p, FF_PAGE);
}

/* One question opens no more than 32 files, whether they are the client's or not. */
static void one_question_opens_so_many(void **state)
{
	enum { N = 64 };
	int mem = memfd_create("many", 0), in, fd, found_num = 0;
	uint8_t *p = mmap(NULL, N * (size_t)FF_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct keeper_range range = { (uintptr_t)p, (uintptr_t)p + N * (size_t)FF_PAGE };
	struct keeper_found found;
	uint32_t id;

	(void)state;
	(void)vma_of(shared);
	assert_int_equal(ftruncate(mem, N * (off_t)FF_PAGE), 0);
	/* in the other order, so that no two become one */
	for (int i = 0; i < N; i++)
		mmap(p + i * (size_t)FF_PAGE, FF_PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, mem,
		     (N - 1 - i) * (off_t)FF_PAGE);
	assert_int_equal(add(&id), 0);
	in = keeper_look(id, &range, 1, false);
	assert_true(in >= 0);
	for (; (fd = keeper_found(in, &found)) >= 0; found_num++)
		close(fd);
	close(in);
	if (!found_num) {
		print_message("no right to open map_files here\n");
		skip();
	}
	assert_int_equal(found_num, 32);
	keeper_client_del(id);
	munmap(p, N * (size_t)FF_PAGE);
	close(mem);
}

/* Raw packets to the process itself: what it answers. */
static int32_t ask(const void *bytes, size_t len, const int *fds, unsigned n_fds)
{
	struct keeper_resp resp;

	assert_int_equal(fds_send(sock, bytes, len, fds, n_fds, 0), len);
	while (recv(sock, &resp, sizeof(resp), 0) < 0)
		assert_int_equal(errno, EAGAIN);
	return resp.status;
}

static void bad_requests_are_refused(void **state)
{
	struct keeper_cgroup_req r = { .req = { .op = KEEPER_ADD, .pid = getpid() } };
	struct keeper_req *req = &r.req;
	static uint8_t big[sizeof(struct keeper_look_req) + 1];
	int fds[64] = { pidfd }, in[2];
	uint32_t id;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, in), 0);
	for (unsigned i = 1; i < 64; i++)
		fds[i] = in[1];
	for (size_t len = 1; len < sizeof(r); len += 7)
		assert_int_equal(ask(&r, len, NULL, 0), -EINVAL);
	assert_int_equal(ask(big, sizeof(big), NULL, 0), -EINVAL);
	for (unsigned n = 0; n <= 64; n++)
		if (n != 2)
			assert_int_equal(ask(&r, sizeof(r), fds, n), -EINVAL);
	req->pid = 0;
	assert_int_equal(ask(&r, sizeof(r), fds, 2), -EINVAL);
	req->pid = getpid();
	strcpy(r.cgroup, "/a/../b");
	assert_int_equal(ask(&r, sizeof(r), fds, 2), -EINVAL);
	memset(r.cgroup, 'x', sizeof(r.cgroup)); /* without an end */
	r.cgroup[0] = '/';
	assert_int_equal(ask(&r, sizeof(r), fds, 2), -EINVAL);
	r.cgroup[0] = '\0';
	for (uint32_t op = 0; op < 100; op++) {
		req->op = op;
		if (op == KEEPER_BEGIN)
			continue;
		assert_true(ask(req, sizeof(*req), fds, 3) < 0);
		req->id = 0xdead;
		assert_true(ask(req, sizeof(*req), NULL, 0) < 0);
		req->id = 0;
	}
	close(in[0]);
	close(in[1]);
	assert_int_equal(add(&id), 0); /* and it works as before */
	keeper_client_del(id);
}

/* Nothing behind a request is read: here is no memory there. */
static void a_cgroup_without_an_end(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), len = sizeof(struct keeper_cgroup_req),
		     size = (len + page - 1) / page * page;
	uint8_t *p =
		mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct keeper_cgroup_req req = { .req = { .op = KEEPER_ADD, .pid = getpid() } };
	const int fds[2] = { dup(pidfd), dup(pidfd) };
	struct keeper_resp resp;

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(mprotect(p + size, page, PROT_NONE), 0);
	memset(req.cgroup, 'x', sizeof(req.cgroup));
	req.cgroup[0] = '/';
	memcpy(p + size - len, &req, len);
	assert_int_equal(keeper_serve(p + size - len, len, fds, 2, &resp), -1);
	assert_int_equal(resp.status, -EINVAL);
	munmap(p, size + page);
}

/* The answer to a question of somebody who has taken a router over: with these descriptors in the socket. */
static int added_with(int pid, int peer, const int *fds, unsigned n, uint32_t *id)
{
	struct keeper_cgroup_req r = { .req = { .op = KEEPER_ADD, .pid = pid } };
	struct keeper_added added;
	struct keeper_resp resp;
	int in[2], with[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, in), 0);
	with[0] = peer;
	with[1] = in[1];
	if (n)
		assert_int_equal(fds_send(in[0], "", 1, fds, n, 0), 1);
	else
		shutdown(in[0], SHUT_WR);
	assert_int_equal(fds_send(sock, &r, sizeof(r), with, 2, 0), sizeof(r));
	while (recv(sock, &resp, sizeof(resp), 0) < 0)
		assert_int_equal(errno, EAGAIN);
	assert_int_equal(resp.status, 0);
	close(in[1]);
	assert_int_equal(recv(in[0], &added, sizeof(added), 0), sizeof(added));
	close(in[0]);
	*id = resp.id;
	return added.err;
}

/* What was not found to be a client's own memory has a name, and nothing can be asked about it. */
static void only_a_clients_own_memory_is_kept(void **state)
{
	const int other[] = { memory[0], memory[0], memory[0] },
		  swapped[] = { memory[1], memory[0] };
	struct keeper_found found;
	uint32_t id;

	(void)state;
	(void)vma_of(shared);
	assert_int_equal(added_with(getpid(), pidfd, other, 0, &id), -EINVAL);
	assert_int_equal(find(id, shared, LEN, true, &found), -ENOENT);
	keeper_client_del(id);
	assert_int_equal(added_with(getpid(), pidfd, other, 1, &id), -EINVAL);
	keeper_client_del(id);
	assert_int_equal(added_with(getpid(), pidfd, other, 2, &id), -EPERM);
	assert_int_equal(find(id, shared, LEN, true, &found), -ENOENT);
	keeper_client_del(id);
	assert_int_equal(added_with(getpid(), pidfd, swapped, 2, &id), -EPERM);
	keeper_client_del(id);
	/* another process, which these are not of */
	assert_int_equal(added_with(1, pidfd, memory, 2, &id), -EPERM);
	assert_int_equal(find(id, shared, LEN, true, &found), -ENOENT);
	keeper_client_del(id);
	/* no pidfd */
	assert_int_equal(added_with(getpid(), memory[1], memory, 2, &id), -EPERM);
	keeper_client_del(id);
	assert_int_equal(added_with(getpid(), pidfd, memory, 2, &id), 0);
	assert_int_not_equal(id, 0);
	keeper_client_del(id);
}

/* A client that does not come, as one whose server does not answer: others are looked at meanwhile. */
static void a_question_keeps_nobody_waiting(void **state)
{
	struct keeper_cgroup_req r = { .req = { .op = KEEPER_ADD, .pid = getpid() } };
	struct keeper_added added;
	struct keeper_resp resp;
	uint32_t id, other;
	int in[2], with[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, in), 0);
	with[0] = pidfd;
	with[1] = in[1];
	assert_int_equal(fds_send(sock, &r, sizeof(r), with, 2, 0), sizeof(r));
	while (recv(sock, &resp, sizeof(resp), 0) < 0)
		assert_int_equal(errno, EAGAIN);
	id = resp.id;
	assert_int_equal(add(&other), 0);
	keeper_client_del(other);
	keeper_client_del(id); /* before it is looked at */
	assert_int_equal(recv(in[0], &added, sizeof(added), MSG_DONTWAIT), -1);
	assert_int_equal(fds_send(in[0], "", 1, memory, 2, 0), 1);
	close(in[1]);
	assert_int_equal(recv(in[0], &added, sizeof(added), 0), sizeof(added));
	assert_int_equal(added.err, 0);
	close(in[0]);
	assert_int_equal(add(&other), 0);
	keeper_client_del(other);
}

static void bad_questions_about_mappings(void **state)
{
	static struct keeper_look_req req = { .req = { .op = KEEPER_LOOK, .num = 2 } };
	size_t two = sizeof(req.req) + 2 * sizeof(req.range[0]);
	struct keeper_found found;
	int fds[2], in[2], fd;

	(void)state;
	(void)vma_of(shared);
	assert_int_equal(add(&req.req.id), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, in), 0);
	fds[0] = fds[1] = in[1];
	/* one that is empty, and one that is no range */
	req.range[0] = (struct keeper_range){ (uintptr_t)shared, (uintptr_t)shared };
	req.range[1] = (struct keeper_range){ (uintptr_t)shared + LEN, (uintptr_t)shared };
	assert_int_equal(ask(&req, two, fds, 0), -EINVAL);
	assert_int_equal(ask(&req, two, fds, 2), -EINVAL);
	assert_int_equal(ask(&req, two - 1, fds, 1), -EINVAL);
	assert_int_equal(ask(&req, two + 1, fds, 1), -EINVAL);
	assert_int_equal(ask(&req, two, fds, 1), 0);
	req.req.num = KEEPER_RANGES + 1;
	assert_int_equal(ask(&req, sizeof(req), fds, 1), -EINVAL);
	req.req.num = UINT32_MAX;
	assert_int_equal(ask(&req, sizeof(req), fds, 1), -EINVAL);
	req.req.num = KEEPER_RANGES;
	req.range[KEEPER_RANGES - 1] =
		(struct keeper_range){ (uintptr_t)shared, (uintptr_t)shared + LEN };
	assert_int_equal(ask(&req, sizeof(req), fds, 1), 0);
	close(in[1]);
	fd = keeper_found(in[0], &found);
	if (fd >= 0) {
		close(fd);
		assert_int_equal(keeper_found(in[0], &found), -ENOENT);
	}
	/* the answer cannot be sent, which is nobody's fault but the sender's */
	fds[0] = pidfd;
	assert_int_equal(ask(&req, sizeof(req), fds, 1), 0);
	close(in[0]);
	keeper_client_del(req.req.id);
}

static void where_a_process_is(void **state)
{
	struct ctl_peer peer = { .pid = getpid(), .pidfd = pidfd };
	char path[CGROUP_MAX], below[CGROUP_MAX + 8];
	struct keeper_added added;
	uint32_t id;
	int st, gone;

	(void)state;
	st = cgroup_of(getpid(), path);
	assert_int_equal(keeper_add(&peer, memory, "/freeflow-no-such-one", &id, &added),
			 st == -ENOENT ? -ENOENT : -EACCES);
	assert_int_equal(added.outside, 1);
	if (!st && strlen(path) < KEEPER_CGROUP)
		assert_string_equal(added.cgroup, path);
	keeper_client_del(id);
	if (!st && !cgroup_path_wrong(path)) {
		assert_int_equal(keeper_add(&peer, memory, path, &id, &added), 0);
		keeper_client_del(id);
		snprintf(below, sizeof(below), "%s/x", path);
		assert_int_equal(keeper_add(&peer, memory, below, &id, &added), -EACCES);
		keeper_client_del(id);
	}
	assert_int_equal(keeper_add(&peer, memory, "/", &id, &added), -EINVAL);
	/* one that has ended, whose number may be another's */
	peer.pid = fork();
	assert_true(peer.pid >= 0);
	if (!peer.pid)
		_exit(0);
	peer.pidfd = gone = (int)syscall(SYS_pidfd_open, peer.pid, 0);
	assert_true(gone >= 0);
	assert_int_equal(waitpid(peer.pid, &st, 0), peer.pid);
	peer.pid = getpid();
	assert_int_equal(keeper_add(&peer, memory, "/freeflow-no-such-one", &id, &added), -ESRCH);
	assert_int_equal(added.outside, 0);
	keeper_client_del(id);
	close(gone);
}

/* The inode of a socket that listens, or of one that does not; its descriptor is the caller's. */
static ino_t socket_new(bool listens, int *fd)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct stat st;

	*fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_true(*fd >= 0);
	if (listens)
		assert_false(bind(*fd, (struct sockaddr *)&sa, sizeof(sa.sun_family)) ||
			     listen(*fd, 1));
	assert_int_equal(fstat(*fd, &st), 0);
	return st.st_ino;
}

static ino_t held(const char *name)
{
	int fd = keeper_held(name);
	struct stat st;

	if (fd < 0)
		return 0;
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	return st.st_ino;
}

/* What the keeper finds of a container that has that folder and that cgroup. */
static uint32_t runs(int dir, const char *cgroup)
{
	struct keeper_ran ran = { .err = -EIO };
	struct pollfd p = { .events = POLLIN };

	p.fd = keeper_runs(dir, cgroup);
	assert_true(p.fd >= 0);
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_int_equal(recv(p.fd, &ran, sizeof(ran), 0), sizeof(ran));
	close(p.fd);
	assert_int_equal(ran.err, 0);
	return ran.found;
}

static void a_container_runs_while_its_folder_is_mounted(void **state)
{
	char top[] = "/tmp/ff-keeper.XXXXXX", dir[64], beside[64], at[64];
	int fd, other, end[2];
	pid_t pid;

	(void)state;
	assert_non_null(mkdtemp(top));
	snprintf(dir, sizeof(dir), "%s/a b", top);
	snprintf(beside, sizeof(beside), "%s/a b2", top);
	snprintf(at, sizeof(at), "%s/at", top);
	assert_int_equal(mkdir(dir, 0755) | mkdir(beside, 0755) | mkdir(at, 0755), 0);
	fd = open(dir, O_DIRECTORY | O_CLOEXEC);
	other = open(beside, O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(runs(fd, NULL), 0);
	pid = mounter_start(dir, at, end);
	if (!pid) {
		print_message("no right to mount here\n");
		skip();
	}
	assert_int_equal(runs(fd, NULL), KEEPER_RUNS_MOUNTED);
	assert_int_equal(runs(other, NULL), 0);
	/* removed and made again meanwhile: the mount is of the one before */
	close(fd);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(mkdir(dir, 0755), 0);
	fd = open(dir, O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(runs(fd, NULL), KEEPER_RUNS_STALE);
	mounter_stop(pid, end);
	assert_int_equal(runs(fd, NULL), 0);
	/* a folder whose name begins like its own */
	pid = mounter_start(beside, at, end);
	assert_int_equal(runs(fd, NULL), 0);
	assert_int_equal(runs(other, NULL), KEEPER_RUNS_MOUNTED);
	mounter_stop(pid, end);
	close(fd);
	close(other);
	rmdir(dir);
	rmdir(beside);
	rmdir(at);
	rmdir(top);
}

static void a_container_runs_while_its_cgroup_has_processes(void **state)
{
	char cgroup[CGROUP_MAX], below[CGROUP_MAX + 8];
	int fd = open("/tmp", O_DIRECTORY | O_CLOEXEC);

	(void)state;
	if (cgroup_of(getpid(), cgroup) || cgroup_path_wrong(cgroup)) {
		print_message("in no cgroup that a container could have\n");
		close(fd);
		skip();
	}
	assert_true(runs(fd, cgroup) & KEEPER_RUNS_CGROUP);
	snprintf(below, sizeof(below), "%.4000s/none", cgroup);
	assert_false(runs(fd, below) & KEEPER_RUNS_CGROUP);
	close(fd);
}

static void bad_questions_about_containers(void **state)
{
	struct keeper_cgroup_req req = { .req = { .op = KEEPER_RUNS } };
	const int fds[] = { memory[0], memory[1], pidfd };

	(void)state;
	assert_int_equal(ask(&req, sizeof(req), fds, 1), -EINVAL);
	assert_int_equal(ask(&req, sizeof(req), fds, 3), -EINVAL);
	assert_int_equal(ask(&req, sizeof(req.req), fds, 2), -EINVAL);
	strcpy(req.cgroup, "no/slash");
	assert_int_equal(ask(&req, sizeof(req), fds, 2), -EINVAL);
	memset(req.cgroup, 'a', sizeof(req.cgroup));
	assert_int_equal(ask(&req, sizeof(req), fds, 2), -EINVAL);
	memset(req.cgroup, 0, sizeof(req.cgroup));
	assert_int_equal(ask(&req, sizeof(req), fds, 2), 0); /* no folder, and no socket */
}

static void sockets_are_held(void **state)
{
	ino_t a, b;
	int fd;

	(void)state;
	assert_int_equal(keeper_held("a"), -ENOENT);
	a = socket_new(true, &fd);
	assert_int_equal(keeper_hold("a", fd), 0);
	close(fd);
	assert_int_equal(held("a"), a);
	assert_int_equal(held("a"), a);
	b = socket_new(true, &fd);
	assert_int_equal(keeper_hold("a", fd), 0); /* in its place */
	assert_int_equal(keeper_hold("b", fd), 0);
	close(fd);
	assert_int_equal(held("a"), b);
	/* more often than it may have descriptors open */
	for (int i = 0; i < 2 * KEEPER_NOFILE; i++) {
		a = socket_new(true, &fd);
		assert_int_equal(keeper_hold("a", fd), 0);
		close(fd);
		assert_int_equal(held("a"), a);
	}
	keeper_let_go("a");
	assert_int_equal(keeper_held("a"), -ENOENT);
	assert_int_equal(held("b"), b);
	/* the router is another one now: it has no clients, and the sockets of the former */
	assert_int_equal(keeper_use(sock), 0);
	assert_int_equal(held("b"), b);
	keeper_let_go("b");
}

/*
 * Of this user, more descriptors are on their way than the keeper may have open. It sends some all the same with
 * CAP_SYS_RESOURCE. Without it the keeper says so, at once: the router would wait for ever.
 */
static void a_descriptor_that_cannot_be_sent(void **state)
{
	int fd, got, pair[2], many[KEEPER_NOFILE];
	struct stat st;
	ino_t ino;

	(void)state;
	ino = socket_new(true, &fd);
	assert_int_equal(keeper_hold("a", fd), 0);
	close(fd);
	assert_false(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	for (int i = 0; i < KEEPER_NOFILE; i++)
		many[i] = pair[0];
	for (int i = 0; i < 2; i++)
		assert_int_equal(fds_send(pair[0], "x", 1, many, KEEPER_NOFILE, 0), 1);
	got = keeper_held("a");
	close(pair[0]);
	close(pair[1]);
	if (got >= 0) {
		assert_int_equal(fstat(got, &st), 0);
		assert_int_equal(st.st_ino, ino);
		close(got);
	} else {
		assert_int_equal(got, -ETOOMANYREFS);
	}
	keeper_let_go("a");
}

/* Of this process and of the keeper, which were not told that they may; and of one that was. */
static void rapidio_is_opened_if_it_may(void **state)
{
	struct keeper_req req = { .op = KEEPER_OPEN_RIO };
	struct keeper_resp resp;
	int fd;

	(void)state;
	rio_node = "/dev/null";
	assert_int_equal(rio_node_open(), -EPERM);
	assert_int_equal(keeper_open_rio(), -EPERM);
	rio_node_allow();
	fd = keeper_serve(&req, sizeof(req), NULL, 0, &resp);
	assert_true(fd >= 0);
	assert_int_equal(resp.status, 0);
	assert_int_equal(fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK), O_RDWR | O_NONBLOCK);
	close(fd);
	rio_node = "/dev/null/none";
	assert_int_equal(keeper_serve(&req, sizeof(req), NULL, 0, &resp), -ENOTDIR);
	assert_int_equal(resp.status, -ENOTDIR);
}

static void what_does_not_listen_is_not_held(void **state)
{
	struct keeper_req req = { .op = KEEPER_HOLD };
	int fd, p[2];

	(void)state;
	socket_new(false, &fd);
	assert_int_equal(keeper_hold("a", fd), -EINVAL);
	close(fd);
	assert_false(pipe(p));
	assert_int_equal(keeper_hold("a", p[0]), -EINVAL);
	assert_int_equal(keeper_hold("a", pidfd), -EINVAL);
	socket_new(true, &fd);
	assert_int_equal(keeper_hold("", fd), -EINVAL);
	memset(req.name, 'x', sizeof(req.name)); /* without an end */
	assert_int_equal(ask(&req, sizeof(req), &fd, 1), -EINVAL);
	close(fd);
	close(p[0]);
	close(p[1]);
}

/* A router that died has asked and not read: its successor does not take that for an answer of its own. */
static void an_answer_to_somebody_else_is_none(void **state)
{
	const struct keeper_req req = { .op = KEEPER_HELD, .name = "b" };
	ino_t ino;
	int fd;

	(void)state;
	ino = socket_new(true, &fd);
	assert_int_equal(keeper_hold("b", fd), 0);
	close(fd);
	for (int i = 0; i < 3; i++)
		assert_int_equal(send(sock, &req, sizeof(req), 0), sizeof(req));
	assert_int_equal(keeper_use(sock), 0);
	assert_int_equal(keeper_held("a"), -ENOENT);
	assert_int_equal(held("b"), ino);
	keeper_let_go("b");
}

static void a_router_begins_without_clients(void **state)
{
	struct keeper_found found;
	uint32_t id, other;

	(void)state;
	assert_int_equal(add(&id), 0);
	assert_int_equal(keeper_use(sock), 0);
	assert_int_equal(find(id, shared, LEN, true, &found), -ENOENT);
	assert_int_equal(add(&other), 0);
	assert_int_not_equal(other, id);
	keeper_client_del(other);
}

/* Last: it ends when the router's end does, and then all requests fail. */
static void without_it_nobody_is_let_in(void **state)
{
	uint32_t id;
	int st;

	(void)state;
	shutdown(sock, SHUT_WR);
	assert_true(wait(&st) > 0);
	assert_true(WIFEXITED(st) && WEXITSTATUS(st) == 0);
	assert_true(add(&id) < 0);
	assert_int_equal(id, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_shared_mapping_is_found),
		cmocka_unit_test(what_is_not_shared_or_not_writable_is_not_found),
		cmocka_unit_test(only_files_in_memory_are_opened),
		cmocka_unit_test(one_question_opens_so_many),
		cmocka_unit_test(bad_requests_are_refused),
		cmocka_unit_test(a_cgroup_without_an_end),
		cmocka_unit_test(only_a_clients_own_memory_is_kept),
		cmocka_unit_test(a_question_keeps_nobody_waiting),
		cmocka_unit_test(bad_questions_about_mappings),
		cmocka_unit_test(where_a_process_is),
		cmocka_unit_test(a_container_runs_while_its_folder_is_mounted),
		cmocka_unit_test(a_container_runs_while_its_cgroup_has_processes),
		cmocka_unit_test(bad_questions_about_containers),
		cmocka_unit_test(sockets_are_held),
		cmocka_unit_test(a_descriptor_that_cannot_be_sent),
		cmocka_unit_test(rapidio_is_opened_if_it_may),
		cmocka_unit_test(what_does_not_listen_is_not_held),
		cmocka_unit_test(an_answer_to_somebody_else_is_none),
		cmocka_unit_test(a_router_begins_without_clients),
		cmocka_unit_test(without_it_nobody_is_let_in),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}

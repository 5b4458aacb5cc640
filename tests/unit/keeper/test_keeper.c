/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_keeper.c - ffr/keeper/: the process, asked by a router and by somebody who has taken one over.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ffr/keeper/keeper.h"
#include "ffr/lib/sandbox.h"
#include "tests/lib/hello.h"

#define LEN ((size_t)16 * 4096)

static int sock;
static int memory[2], pidfd;
static uint8_t *shared, *private;

static int setup(void **state)
{
	const struct sandbox_conf conf = { .mode = SANDBOX_ON };

	(void)state;
	if (keeper_start(&conf, &sock))
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
	char why[KEEPER_WHY];

	return keeper_client_add(&peer, memory[0], memory[1], id, why);
}

static void a_shared_mapping_is_opened(void **state)
{
	struct ff_vma v = vma_of(shared);
	struct stat st;
	uint32_t id;
	uint8_t *again;
	int fd;

	(void)state;
	assert_int_equal(add(&id), 0);
	fd = keeper_map_file(id, &v, true);
	if (fd == -EPERM || fd == -EACCES) {
		print_message("no right to open map_files here\n");
		skip();
	}
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_ino, v.inode);
	again = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	shared[1] = 0x5a;
	assert_int_equal(again[1], 0x5a);
	munmap(again, LEN);
	keeper_client_del(id);
	assert_int_equal(keeper_map_file(id, &v, true), -ENOENT);
}

static void what_is_not_mapped_so_is_not_opened(void **state)
{
	struct ff_vma v = vma_of(shared), p = vma_of(private), exe = vma_of((void *)setup);
	uint32_t id;

	(void)state;
	assert_int_equal(add(&id), 0);
	assert_true(keeper_map_file(id, &p, false) < 0);
	p.flags |= FF_VMA_SHARED; /* a lie */
	assert_true(keeper_map_file(id, &p, true) < 0);
	exe.flags |= FF_VMA_SHARED | FF_VMA_WRITE;
	assert_true(keeper_map_file(id, &exe, true) < 0);
	v.inode++;
	assert_true(keeper_map_file(id, &v, true) < 0);
	v.inode--;
	v.end += 4096;
	assert_true(keeper_map_file(id, &v, true) < 0);
	v.end -= 4096;
	assert_int_equal(mprotect(shared, LEN, PROT_READ), 0);
	v.flags |= FF_VMA_WRITE;
	assert_true(keeper_map_file(id, &v, true) < 0);
	assert_int_equal(mprotect(shared, LEN, PROT_READ | PROT_WRITE), 0);
	keeper_client_del(id);
}

/* Raw packets to the process itself: what it answers. */
static int32_t ask(const void *bytes, size_t len, const int *fds, unsigned n_fds)
{
	union {
		struct cmsghdr h;
		uint8_t room[CMSG_SPACE(64 * sizeof(int))];
	} cm = { .h = { CMSG_LEN(n_fds * sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec iov = { (void *)bytes, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct keeper_resp resp;

	if (n_fds) {
		memcpy(CMSG_DATA(&cm.h), fds, n_fds * sizeof(int));
		msg.msg_control = &cm;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
	}
	assert_int_equal(sendmsg(sock, &msg, 0), len);
	while (recv(sock, &resp, sizeof(resp), 0) < 0)
		assert_int_equal(errno, EAGAIN);
	return resp.status;
}

static void bad_requests_are_refused(void **state)
{
	struct keeper_req req = { .op = KEEPER_ADD, .pid = getpid() };
	int fds[64] = { pidfd, memory[0], memory[1] };
	uint8_t big[1024] = { 0 };
	uint32_t id;

	(void)state;
	for (unsigned i = 3; i < 64; i++)
		fds[i] = memory[0];
	for (size_t len = 1; len < sizeof(req); len += 7)
		assert_int_equal(ask(&req, len, NULL, 0), -EINVAL);
	assert_int_equal(ask(big, sizeof(big), NULL, 0), -EINVAL);
	for (unsigned n = 0; n <= 64; n++)
		assert_int_equal(ask(&req, sizeof(req), fds, n), n == 3 ? 0 : -EINVAL);
	req.pid = 0;
	assert_int_equal(ask(&req, sizeof(req), fds, 3), -EINVAL);
	req.pid = 1; /* another process, which these are not of */
	assert_int_equal(ask(&req, sizeof(req), fds, 3), -EPERM);
	req.pid = getpid();
	fds[0] = memory[1]; /* no pidfd */
	assert_true(ask(&req, sizeof(req), fds, 3) < 0);
	fds[0] = pidfd;
	for (uint32_t op = 0; op < 100; op++) {
		req.op = op;
		if (op == KEEPER_CALL_ENDS)
			continue;
		if (op != KEEPER_ADD)
			assert_true(ask(&req, sizeof(req), fds, 3) < 0);
		req.id = 0xdead;
		assert_true(ask(&req, sizeof(req), NULL, 0) < 0);
		req.id = 0;
	}
	assert_int_equal(add(&id), 0); /* and it works as before */
	keeper_client_del(id);
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
		cmocka_unit_test(a_shared_mapping_is_opened),
		cmocka_unit_test(what_is_not_mapped_so_is_not_opened),
		cmocka_unit_test(bad_requests_are_refused),
		cmocka_unit_test(without_it_nobody_is_let_in),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}

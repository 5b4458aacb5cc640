/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * memory_io.c - operations by which the kernel reads and writes the program's memory. Some keep a
 * reference to the pages: they have a second half, `late`, which comes when the memory is
 * registered no more, and other memory is.
 */
#include "tests/conformance/memory.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

static uint8_t buf[IO_LEN] __attribute__((aligned(4096)));

static void say_bytes(const char *what, ssize_t n)
{
	say(" %s=%s", what, n == (ssize_t)IO_LEN ? "ok" : n < 0 ? err_name(errno) : "partly");
}

/* A file of case_dir with these contents, or empty; -1 where it cannot be had. */
static int file_with(const struct area *a, enum content what, int flags)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/data", case_dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	if (what != ZERO) {
		fill_io(buf, a, what);
		(void)!write(fd, buf, IO_LEN);
		fsync(fd);
	}
	close(fd);
	return open(path, O_RDWR | O_CLOEXEC | flags);
}

static void say_file(const struct area *a)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/data", case_dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	say_bytes("file", pread(fd, buf, IO_LEN, 0));
	say(" has=%s", io_content(buf, a));
	close(fd);
}

static void say_got(const struct area *a, ssize_t n)
{
	say_bytes("late", n);
	say(" got=%s", io_content(buf, a));
}

/* ---- files ----------------------------------------------------------------------------------- */

static void op_read(struct area *a, int flags)
{
	int fd = file_with(a, KERNEL, flags);

	say_bytes("pread", pread(fd, IO(a), IO_LEN, 0));
	say(" io=%s", io_content(IO(a), a));
	close(fd);
}

static void op_write(struct area *a, int flags)
{
	int fd = file_with(a, ZERO, flags);

	say_bytes("pwrite", pwrite(fd, IO(a), IO_LEN, 0));
	close(fd);
	say_file(a);
}

static struct uring ring;
static int ring_file = -1;

static void op_uring_read(struct area *a, int arg)
{
	int fd = file_with(a, KERNEL, 0), err = uring_open(&ring), n;

	(void)arg;
	n = err ? -err : uring_rw(&ring, IORING_OP_READ, fd, IO(a), IO_LEN, 0);
	say(" uring=%s", n == (int)IO_LEN ? "ok" : n < 0 ? err_name(-n) : "partly");
	close(fd);
	uring_close(&ring);
}

static void uring_fixed(const struct area *a)
{
	int n = uring_rw(&ring, IORING_OP_READ_FIXED, ring_file, IO(a), IO_LEN, 0);

	say(" fixed=%s", n == (int)IO_LEN ? "ok" : n < 0 ? err_name(-n) : "partly");
	say(" io=%s", io_content(IO(a), a));
}

/* A registered buffer pins the pages as an MR does. */
static void op_uring_fixed(struct area *a, int arg)
{
	int err = uring_open(&ring);

	(void)arg;
	ring_file = file_with(a, KERNEL, 0);
	err = err ? err : uring_register(&ring, IO(a), IO_LEN);
	say(" register=%s", err_name(err));
	uring_fixed(a);
}

static void late_uring_fixed(struct area *a, int arg)
{
	(void)arg;
	if (CAUGHT(fill_io(IO(a), a, CHILD)))
		say(" write=signal");
	uring_fixed(a);
	uring_close(&ring);
}

/* ---- pipes ----------------------------------------------------------------------------------- */

static int pipes[2], more[2];

/* The pipe has the pages, not a copy of them. */
static bool vmspliced(const struct area *a)
{
	struct iovec iov = { IO(a), IO_LEN };

	if (!say_ret("pipe", pipe2(pipes, O_CLOEXEC)))
		return false;
	say_bytes("vmsplice", vmsplice(pipes[1], &iov, 1, 0));
	return true;
}

static void op_vmsplice(struct area *a, int rewrite)
{
	if (vmspliced(a) && rewrite && CAUGHT(fill_io(IO(a), a, NEW)))
		say(" write=signal");
}

static void late_vmsplice(struct area *a, int arg)
{
	(void)arg;
	fcntl(pipes[0], F_SETFL, O_NONBLOCK);
	memset(buf, 0, IO_LEN);
	say_got(a, read(pipes[0], buf, IO_LEN));
}

static void op_tee(struct area *a, int arg)
{
	(void)arg;
	if (vmspliced(a) && say_ret("pipe", pipe2(more, O_CLOEXEC)))
		say_bytes("tee", tee(pipes[0], more[1], IO_LEN, 0));
}

static void late_tee(struct area *a, int arg)
{
	late_vmsplice(a, arg);
	pipes[0] = more[0];
	late_vmsplice(a, arg);
}

static void op_splice(struct area *a, int arg)
{
	int fd = file_with(a, ZERO, 0);

	(void)arg;
	if (vmspliced(a))
		say_bytes("splice", splice(pipes[0], NULL, fd, NULL, IO_LEN, 0));
	say_file(a);
	close(fd);
}

/* The kernel copies from a pipe to the memory. */
static void op_vmsplice_from(struct area *a, int arg)
{
	struct iovec iov = { IO(a), IO_LEN };

	(void)arg;
	if (!say_ret("pipe", pipe2(pipes, O_CLOEXEC)))
		return;
	fill_io(buf, a, KERNEL);
	(void)!write(pipes[1], buf, IO_LEN);
	say_bytes("vmsplice", vmsplice(pipes[0], &iov, 1, 0));
}

/* ---- sockets --------------------------------------------------------------------------------- */

static int sockets[2];

static void op_send(struct area *a, int arg)
{
	(void)arg;
	socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets);
	say_bytes("send", send(sockets[0], IO(a), IO_LEN, 0));
	say_bytes("recv", recv(sockets[1], buf, IO_LEN, MSG_WAITALL));
	say(" got=%s", io_content(buf, a));
}

static void op_recv(struct area *a, int arg)
{
	(void)arg;
	socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets);
	fill_io(buf, a, KERNEL);
	(void)!send(sockets[0], buf, IO_LEN, 0);
	say_bytes("recv", recv(sockets[1], IO(a), IO_LEN, MSG_WAITALL));
}

/* Of the file that is mapped. */
static void op_sendfile(struct area *a, int arg)
{
	off_t at = (off_t)(a->q + FIRST_PAGE * PAGE);

	(void)arg;
	socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets);
	say_bytes("sendfile", sendfile(sockets[0], a->fd, &at, IO_LEN));
	say_bytes("recv", recv(sockets[1], buf, IO_LEN, MSG_WAITALL));
	say(" got=%s", io_content(buf, a));
}

#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif
/* Over TCP, to itself: the socket has the pages until the data is received. */
static void op_zerocopy(struct area *a, int arg)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(to);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)arg;
	bind(fd, (void *)&to, sizeof(to));
	listen(fd, 1);
	getsockname(fd, (void *)&to, &len);
	sockets[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	say_ret("connect", connect(sockets[0], (void *)&to, len));
	sockets[1] = accept(fd, NULL, NULL);
	say_ret("zerocopy", setsockopt(sockets[0], SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)));
	say_bytes("send", send(sockets[0], IO(a), IO_LEN, MSG_ZEROCOPY));
	close(fd);
}

static void late_zerocopy(struct area *a, int arg)
{
	struct timeval limit = { 2, 0 };

	(void)arg;
	setsockopt(sockets[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	memset(buf, 0, IO_LEN);
	say_got(a, recv(sockets[1], buf, IO_LEN, MSG_WAITALL));
}

/* ---- futexes --------------------------------------------------------------------------------- */

static struct {
	uint32_t *word;
	int private;
	pthread_t thread;
	_Atomic pid_t tid;
	const char *volatile ended;
} waiter;

static void *waits(void *arg)
{
	waiter.tid = gettid();
	waiter.ended =
		syscall(SYS_futex, waiter.word, FUTEX_WAIT | waiter.private, *waiter.word, NULL) ?
			err_name(errno) :
			"woken";
	return arg;
}

/* Until the thread sleeps in the kernel. */
static void wait_asleep(void)
{
	char path[64], text[64] = "";

	while (!waiter.tid)
		usleep(20);
	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", waiter.tid);
	for (unsigned i = 0; i < 50000; i++) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		(void)!read(fd, text, sizeof(text) - 1);
		close(fd);
		if (!strncmp(text, "202 ", 4)) /* SYS_futex on x86-64 */
			return;
		usleep(100);
	}
}

static void op_futex(struct area *a, int private)
{
	waiter.word = (void *)IO(a);
	waiter.private = private;
	waiter.tid = 0;
	pthread_create(&waiter.thread, NULL, waits, NULL);
	wait_asleep();
}

static void late_futex(struct area *a, int private)
{
	long n = syscall(SYS_futex, waiter.word, FUTEX_WAKE | private, 1);

	(void)a;
	if (n == 1)
		pthread_join(waiter.thread, NULL); /* otherwise it sleeps for ever */
	say(" woke=%ld futex=%s", n, waiter.ended ? waiter.ended : "asleep");
}

OPS(ops_io, { "pread", op_read, 0, AGAIN, NULL }, //
    { "pwrite", op_write, 0, AGAIN | ONE_KIND, NULL },
    { "odirect-read", op_read, O_DIRECT, AGAIN, NULL },
    { "odirect-write", op_write, O_DIRECT, AGAIN, NULL },
    { "uring-read", op_uring_read, 0, AGAIN, NULL },
    { "uring-fixed", op_uring_fixed, 0, 0, late_uring_fixed },
    { "vmsplice", op_vmsplice, 0, 0, late_vmsplice },
    { "vmsplice-rewrite", op_vmsplice, 1, 0, late_vmsplice },
    { "vmsplice-from", op_vmsplice_from, 0, AGAIN | ONE_KIND, NULL },
    { "tee", op_tee, 0, 0, late_tee }, //
    { "splice", op_splice, 0, 0, NULL }, { "send", op_send, 0, AGAIN | ONE_KIND, NULL },
    { "recv", op_recv, 0, AGAIN, NULL }, { "sendfile", op_sendfile, 0, NEEDS_FD, NULL },
    { "zerocopy", op_zerocopy, 0, 0, late_zerocopy },
    { "futex-private", op_futex, FUTEX_PRIVATE_FLAG, 0, late_futex },
    { "futex-shared", op_futex, 0, 0, late_futex })

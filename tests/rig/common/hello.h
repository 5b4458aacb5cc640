/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* hello.h - what a client in a test hands over with HELLO: its own memory. Inlines; no state. */
#ifndef TEST_HELLO_H
#define TEST_HELLO_H

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* This process's /proc/self/mem and /proc/self/maps, opened as they must be. */
static inline void hello_memory(int fd[2])
{
	fd[0] = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	fd[1] = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (fd[0] < 0 || fd[1] < 0)
		abort();
}

/* One packet with two descriptors. What sendmsg() returns. */
static inline ssize_t hello_send_fds(int sock, const void *packet, size_t len, const int fd[2])
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} cm = { .h = { CMSG_LEN(2 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec iov = { (void *)packet, len };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &cm,
			      .msg_controllen = sizeof(cm.room) };

	memcpy(CMSG_DATA(&cm.h), fd, 2 * sizeof(int));
	return sendmsg(sock, &msg, MSG_NOSIGNAL);
}

/* HELLO with this process's memory. */
static inline ssize_t hello_send(int sock, const void *packet, size_t len)
{
	int fd[2];
	ssize_t n;

	hello_memory(fd);
	n = hello_send_fds(sock, packet, len, fd);
	close(fd[0]);
	close(fd[1]);
	return n;
}

#endif

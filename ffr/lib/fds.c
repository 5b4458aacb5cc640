/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* fds.c - see fds.h. */
#include "ffr/lib/fds.h"

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

union room {
	struct cmsghdr h;
	uint8_t bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
};

ssize_t fds_send(int sock, const void *bytes, size_t len, const int *fds, unsigned n, int flags)
{
	union room room = { .h = { CMSG_LEN(n * sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec iov = { (void *)bytes, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n) {
		memcpy(CMSG_DATA(&room.h), fds, n * sizeof(int));
		msg.msg_control = &room;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL | flags);
}

ssize_t fds_recv(int sock, void *buf, size_t size, int *fds, unsigned max, unsigned *n, int flags)
{
	union room room;
	struct iovec iov = { buf, size };
	/* CMSG_LEN(), not CMSG_SPACE(): what pads an odd number would hold one more */
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &room,
			      .msg_controllen = CMSG_LEN(max * sizeof(int)) };
	ssize_t len = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | flags);
	struct cmsghdr *h = len < 0 ? NULL : CMSG_FIRSTHDR(&msg);

	*n = 0;
	if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS) {
		*n = (unsigned)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(h), *n * sizeof(int));
	}
	return len;
}

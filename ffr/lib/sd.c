/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sd.c - socket activation, readiness and watchdog, for ffr and ffo. Main thread.
 *
 * The protocol is four environment variables, sd_listen_fds(3) and sd_notify(3): LISTEN_PID says for
 * whom LISTEN_FDS descriptors from 3 on are, LISTEN_FDNAMES what they are called, with colons between
 * them; NOTIFY_SOCKET is where a datagram goes; WATCHDOG_PID has to say WATCHDOG=1 there once in WATCHDOG_USEC.
 */
#include "ffr/lib/sd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_FD 3
#define MAX_FDS	 64

static int int_option(int fd, int option)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) ? -1 : value;
}

/* The number of the descriptor of that name, or -1. */
static int passed(const char *name)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	const char *names = getenv("LISTEN_FDNAMES");
	long n = fds ? strtol(fds, NULL, 10) : 0;

	if (!pid || strtol(pid, NULL, 10) != getpid() || !names)
		return -1;
	for (long i = 0; i < n && i < MAX_FDS; i++) {
		size_t len = strcspn(names, ":");

		if (len == strlen(name) && !memcmp(names, name, len))
			return FIRST_FD + (int)i;
		names += len + (names[len] == ':');
	}
	return -1;
}

int sd_listener(const char *name)
{
	int fd = passed(name);

	if (fd < 0)
		return -ENOENT;
	if (int_option(fd, SO_DOMAIN) != AF_UNIX || int_option(fd, SO_TYPE) != SOCK_STREAM ||
	    int_option(fd, SO_ACCEPTCONN) != 1)
		return -EINVAL;
	/* CLOEXEC says that it was taken, too */
	if (fcntl(fd, F_GETFD) & FD_CLOEXEC)
		return -ENOENT;
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) || fcntl(fd, F_SETFL, O_NONBLOCK))
		return -errno;
	return fd;
}

bool sd_is_passed(const char *name)
{
	return passed(name) >= 0;
}

uint64_t sd_watchdog_ms(void)
{
	const char *pid = getenv("WATCHDOG_PID"), *usec = getenv("WATCHDOG_USEC");

	if (!usec || (pid && strtol(pid, NULL, 10) != getpid()))
		return 0;
	return strtoull(usec, NULL, 10) / 1000 / 2;
}

void sd_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (len < 2 || len >= sizeof(sa.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(sa.sun_path, path, len);
	if (path[0] == '@') /* an abstract one */
		sa.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	/* who does not listen does not want to know */
	(void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&sa,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	close(fd);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * hello.c - the process behind a client's socket, and the memory that the process hands over. The control thread calls
 * the first part: ctl/conn.c when a client connects, and ctl/hello.c. A thread of the keeper calls the rest
 * (clients.c).
 *
 * The router never opens another process's memory, because a process number may belong to another process by the time
 * it is used. The client opens /proc/self/mem and /proc/self/maps with its own rights and hands the descriptors over.
 * The kernel has bound them to the client's address space: after an exec, or after the client's end, nothing can be
 * reached through them, whoever has the number then. But a client could hand over other files, which the router would
 * then write to with its own rights. So the descriptors have to be:
 *
 *	1. opened as they must be: mem for reading and writing, maps for reading
 *	2. of procfs: the device of the file, by statx(AT_STATX_DONT_SYNC), which asks no server of a
 *	   FUSE file system, is one that the client's mountinfo, or ours, has as procfs
 *	3. those files: the link of the one ends with /NUMBER/mem, and the link of the other differs only in the name
 *	4. of that process: NUMBER is the process's number in one of the namespaces that it is in
 *	5. of a process that still lives, so that what was found out by its number was about this process
 *
 * Some things have to be found out by number even so: 2 and 4 here, the process's cgroup, and /proc/PID/map_files in
 * map_file.c. For each, the caller looks before and afterwards at a pidfd from the socket, whether the process lives.
 * Before Linux 6.5 a socket gives no pidfd, and a pidfd that is opened by number may be another process's. So the
 * client has to show a nonce that it was told after the pidfd was opened, in a message that the kernel stamps with its
 * sender's number. The process that has the number then, and is still alive afterwards, is the process of the pidfd.
 */
#include "ffr/keeper/hello.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "ffr/keeper/mounts.h"
#include "ffr/keeper/opener.h"
#include "ffr/lib/cgroup.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

/* ---- who --------------------------------------------------------------------------------------- */

bool ctl_peer_lives(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return pidfd >= 0 && poll(&p, 1, 0) == 0;
}

int ctl_peer_find(int sock, struct ctl_peer *peer)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int yes = 1;

	*peer = (struct ctl_peer){ .pidfd = -1 };
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	/* The router works on its clients' memory: they must be in sight. */
	if (cred.pid <= 0)
		return -ESRCH;
	peer->pid = cred.pid;
	peer->uid = cred.uid;
	len = sizeof(peer->pidfd);
	if (!getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &peer->pidfd, &len)) {
		peer->proven = true;
		return 0;
	}
	peer->pidfd = -1;
	if (errno != ENOPROTOOPT) /* it has ended: whoever has its number now is another */
		return -ESRCH;
	if (setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)))
		return -errno;
	peer->pidfd = (int)syscall(SYS_pidfd_open, cred.pid, 0);
	return peer->pidfd < 0 ? -errno : 0;
}

int ctl_peer_again(int sock, int pidfd, struct ctl_peer *peer)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	*peer = (struct ctl_peer){ .pidfd = pidfd, .proven = true };
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	peer->pid = cred.pid;
	peer->uid = cred.uid;
	return ctl_peer_lives(pidfd) ? 0 : -ESRCH;
}

int ctl_peer_ask(struct ctl_peer *peer)
{
	if (getrandom(peer->nonce, sizeof(peer->nonce), 0) != sizeof(peer->nonce))
		return -EIO;
	peer->asked = true;
	return 0;
}

int ctl_peer_prove(struct ctl_peer *peer, const uint8_t nonce[FF_NONCE_SZ], pid_t sender)
{
	if (!peer->proven) {
		if (!peer->asked || memcmp(nonce, peer->nonce, sizeof(peer->nonce)))
			return -EAGAIN;
		if (sender != peer->pid)
			return -EPERM;
	}
	if (!ctl_peer_lives(peer->pidfd))
		return -ESRCH;
	peer->proven = true;
	return 0;
}

/* ---- what it hands over -------------------------------------------------------------------------- */

/* A descriptor's link: ".../NUMBER/name". */
struct proc_link {
	char path[256];
	size_t prefix; /* bytes before "name" */
	long number;
};

static bool link_parse(int fd, const char *name, struct proc_link *l)
{
	char own[32], *base, *number, *end;
	ssize_t n;

	snprintf(own, sizeof(own), "/proc/self/fd/%d", fd);
	n = readlink(own, l->path, sizeof(l->path) - 1);
	if (n <= 0 || n == (ssize_t)sizeof(l->path) - 1)
		return false;
	l->path[n] = '\0';
	base = strrchr(l->path, '/');
	if (!base || strcmp(base + 1, name))
		return false;
	l->prefix = (size_t)(base + 1 - l->path);
	*base = '\0';
	number = strrchr(l->path, '/');
	if (!number || number[1] < '1' || number[1] > '9')
		return false;
	l->number = strtol(number + 1, &end, 10);
	*base = '/';
	return end == base;
}

/* The number in both links, which are the same but for the name; 0: they are not. */
static long links_number(int mem, int maps)
{
	struct proc_link m, p;

	if (!link_parse(mem, "mem", &m) || !link_parse(maps, "maps", &p) || m.prefix != p.prefix ||
	    memcmp(m.path, p.path, m.prefix))
		return 0;
	return m.number;
}

/* The file system that a regular file of no size, as those of procfs, is on; 0: it is none. */
static dev_t proc_dev(int fd, const char *path, int flags)
{
	struct statx st;

	if (statx(fd, path, flags | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_SIZE, &st) ||
	    !S_ISREG(st.stx_mode) || st.stx_size)
		return 0;
	return makedev(st.stx_dev_major, st.stx_dev_minor);
}

static bool is_procfs(pid_t pid, dev_t dev)
{
	static const char *const proc[] = { "proc", NULL };

	return dev &&
	       (dev == proc_dev(AT_FDCWD, "/proc/self/stat", 0) || mounts_is(pid, dev, proc));
}

/* "NSpid:	4711	12": its numbers, from our namespace inwards. */
static bool has_number(pid_t pid, long number)
{
	char path[32], *line = NULL, *p, *end;
	bool found = false;
	size_t size = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = opener_proc_stream(path);
	if (!f)
		return false;
	while (getline(&line, &size, f) > 0) {
		if (strncmp(line, "NSpid:", 6))
			continue;
		for (p = line + 6; !found; p = end) {
			long n = strtol(p, &end, 10);

			if (end == p)
				break;
			found = n == number;
		}
		break;
	}
	free(line);
	fclose(f);
	return found;
}

static bool opened(int fd, int mode)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) == mode;
}

const char *ctl_memory_wrong(int mem, int maps)
{
	if (!opened(mem, O_RDWR) || !opened(maps, O_RDONLY))
		return "its descriptors are not open for what they are for";
	if (!proc_dev(mem, "", AT_EMPTY_PATH) || !proc_dev(maps, "", AT_EMPTY_PATH))
		return "its descriptors are not of procfs";
	if (!links_number(mem, maps))
		return "its descriptors are not /proc/self/mem and /proc/self/maps";
	return NULL;
}

const char *ctl_peer_memory(const struct ctl_peer *peer, int mem, int maps)
{
	const char *wrong = ctl_memory_wrong(mem, maps);
	long number;
	dev_t dev;

	if (wrong)
		return wrong;
	dev = proc_dev(mem, "", AT_EMPTY_PATH);
	if (!is_procfs(peer->pid, dev) || dev != proc_dev(maps, "", AT_EMPTY_PATH))
		return "its descriptors are not of procfs";
	number = links_number(mem, maps);
	if (!number || !has_number(peer->pid, number))
		return "its descriptors are of another process";
	return ctl_peer_lives(peer->pidfd) ? NULL : "it has ended";
}

/* ---- where it is --------------------------------------------------------------------------------- */

int ctl_peer_in_cgroup(const struct ctl_peer *peer, const char *cgroup, char path[CGROUP_MAX])
{
	int err = opener_cgroup_of(peer->pid, path);

	if (err)
		*path = '\0';
	/* else it was about another one with that number */
	if (!ctl_peer_lives(peer->pidfd))
		return -ESRCH;
	if (err)
		return err;
	if (cgroup_within(path, cgroup))
		return 0;
	return cgroup_is_outside(path) ? -EXDEV : -EACCES;
}

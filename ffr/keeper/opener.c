/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * opener.c - a child of the keeper, the only one of the two that opens files; and the keeper's side of it.
 *
 * The keeper has to reach into other processes, so Landlock cannot confine the keeper (landlock.c), and the keeper may
 * name any file of the host. Therefore its filter lets the keeper open files with O_PATH only, which gives a handle
 * that nothing can be read from. The keeper sends the handle to the opener. The opener checks what the handle is, opens
 * the file by "/proc/self/fd/4", and sends the descriptor back. The opener's filter allows that path and those of two
 * devices, by their addresses in read-only memory, and no call that could change what is mapped. So an attacker
 *
 *	- who runs code in the keeper gets from the opener only a few files of /proc that have no secret, the two
 *	  devices, and regular files of tmpfs and hugetlbfs except for those in the host's /run
 *	- who runs code in the opener opens only what the keeper has sent, and cannot name a file
 *
 * One opener serves all clients, so no opening may wait. The keeper has checked that a handle's file system is one of
 * these, without asking the file system (map_file.c). Opening a file of tmpfs with O_NONBLOCK waits for no lease, and
 * opening these files of /proc takes no lock of the process's memory.
 *
 * Tests: test_opener.c
 */
#include "ffr/keeper/opener.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "ffr/keeper/keeper.h"
#include "ffr/lib/fds.h"
#include "ffr/lib/log.h"
#include "ffr/lib/sandbox.h"

#define SOCK	      3 /* of the opener */
#define HANDLE	      4
#define HANDLE_PATH   "/proc/self/fd/4"
#define PROC_ROOT_INO 1

static const char handle_path[] = HANDLE_PATH, ffmem_path[] = "/dev/ffmem";

enum what { WHAT_PROC, WHAT_SHM, WHAT_FFMEM, WHAT_RIO };

/*
 * A request: one packet, with a handle for WHAT_PROC and WHAT_SHM. The answer: 0 with a descriptor, or -errno
 * (int32_t).
 */
struct question {
	uint32_t what;
	uint32_t writes; /* WHAT_SHM: 0 or 1 */
};

static int opener = -1; /* -1: there is none, this process opens files itself */
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;
static dev_t refused[2]; /* file systems of /run, whose files tell the host's programs what to do */

/* ---- what is opened ------------------------------------------------------------------------------ */

/* fstat(), which in some versions of libc is another system call. */
static int file_stat(int fd, struct stat *st)
{
	return (int)syscall(SYS_fstat, fd, st);
}

/* WHAT_PROC: check that `handle` is a file that may be opened, and open it by `path`. */
static int open_proc(int handle, const char *path)
{
	static const char *const names[] = { "/status", "/cgroup", "/mountinfo" };
	char is[256];
	struct statfs fs;
	struct stat st;
	const char *name;
	bool known;
	ssize_t n;
	int fd;

	if (fstatfs(handle, &fs) || file_stat(handle, &st))
		return -errno;
	if (fs.f_type != PROC_SUPER_MAGIC)
		return -EACCES;
	n = readlinkat(AT_FDCWD, path, is, sizeof(is) - 1);
	if (n <= 0)
		return -EACCES;
	is[n] = '\0';
	name = strrchr(is, '/');
	known = S_ISDIR(st.st_mode) && st.st_ino == PROC_ROOT_INO;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && name && S_ISREG(st.st_mode); i++)
		known |= !strcmp(name, names[i]);
	if (!known)
		return -EACCES;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_shm(int handle, const char *path, bool writes)
{
	struct statfs fs;
	struct stat st;
	int fd;

	if (fstatfs(handle, &fs) || file_stat(handle, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || (fs.f_type != TMPFS_MAGIC && fs.f_type != HUGETLBFS_MAGIC))
		return -EACCES;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		if (refused[i] && st.st_dev == refused[i])
			return -EACCES;
	fd = open(path, (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

static int open_ffmem(void)
{
	int fd = open(ffmem_path, O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int serve(const struct question *q, int handle, const char *path)
{
	switch ((enum what)q->what) {
	case WHAT_PROC:
		return open_proc(handle, path);
	case WHAT_SHM:
		return open_shm(handle, path, q->writes);
	case WHAT_FFMEM:
		return open_ffmem();
	case WHAT_RIO:
		return rio_node_open();
	}
	return -EINVAL;
}

/* ---- the process --------------------------------------------------------------------------------- */

static void answer(int fd)
{
	int32_t status = fd < 0 ? fd : 0;

	while (fds_send(SOCK, &status, sizeof(status), &fd, fd >= 0, 0) < 0) {
		if (errno == EINTR)
			continue;
		if (fd < 0)
			_exit(EXIT_FAILURE);
		status = -errno;
		close(fd);
		fd = -1;
	}
	if (fd >= 0)
		close(fd);
}

/* Find the file systems of /run, also the host's if the router is in a container that sees the host's processes. */
static void refused_find(void)
{
	static const char *const paths[] = { "/run", "/proc/1/root/run" };
	struct stat st;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		refused[i] = stat(paths[i], &st) ? 0 : st.st_dev;
}

static int close_others(void *arg)
{
	return (int)syscall(SYS_close_range, SOCK + 1, ~0u, (uintptr_t)arg);
}

static void opener_main(int sock, const struct sandbox_conf *conf, pid_t parent)
	__attribute__((noreturn));
static void opener_main(int sock, const struct sandbox_conf *conf, pid_t parent)
{
	const char *const paths[] = { handle_path, ffmem_path, rio_node };
	struct sandbox_conf own = *conf;
	struct question q;
	unsigned n_fds;
	ssize_t n;
	int fd;

	own.paths = paths;
	own.num_paths = sizeof(paths) / sizeof(paths[0]);
	prctl(PR_SET_NAME, "ffr-opener");
	refused_find();
	if (dup2(sock, SOCK) < 0 || sandbox_prepare(&own) || prctl(PR_SET_PDEATHSIG, SIGKILL) ||
	    getppid() != parent || sandbox_enter_with(SANDBOX_OPENER, close_others, NULL))
		_exit(EXIT_FAILURE);
	for (;;) {
		fd = -1;
		do
			n = fds_recv(SOCK, &q, sizeof(q), &fd, 1, &n_fds, 0);
		while (n < 0 && errno == EINTR);
		if (n <= 0)
			_exit(EXIT_SUCCESS);
		if (n != sizeof(q) || n_fds != (q.what == WHAT_PROC || q.what == WHAT_SHM) ||
		    (n_fds && fd != HANDLE))
			answer(-EINVAL);
		else
			answer(serve(&q, fd, handle_path));
		if (n_fds)
			close(fd);
	}
}

/* ---- the keeper's side --------------------------------------------------------------------------- */

int opener_start(const struct sandbox_conf *conf)
{
	pid_t parent = getpid(), pid;
	int pair[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		err = -errno;
		log_err("keeper: %s", strerror(-err));
		return err;
	}
	pid = fork();
	if (!pid)
		opener_main(pair[1], conf, parent);
	err = pid < 0 ? -errno : 0;
	close(pair[1]);
	if (err) {
		close(pair[0]);
		log_err("keeper: %s", strerror(-err));
		return err;
	}
	opener = pair[0];
	return 0;
}

/* Ask the opener: a descriptor, or -errno. One request at a time, because answers come in the order of requests. */
static int ask(enum what what, int handle, bool writes)
{
	const struct question q = { .what = what, .writes = writes };
	int32_t status = -EPIPE;
	unsigned n_fds = 0;
	int fd = -1;
	ssize_t n;

	pthread_mutex_lock(&asking);
	do
		n = fds_send(opener, &q, sizeof(q), &handle, handle >= 0, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EPIPE && errno != ECONNRESET) {
		status =
			-errno; /* such as ETOOMANYREFS: too many descriptors of this user wait in sockets */
		goto out;
	}
	do
		n = fds_recv(opener, &status, sizeof(status), &fd, 1, &n_fds, 0);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(status)) {
		log_err("the keeper's opener has ended: stopping");
		_exit(EXIT_FAILURE);
	}
out:
	pthread_mutex_unlock(&asking);
	if (n_fds)
		return fd;
	return status ? status : -EMFILE;
}

static int by_handle(enum what what, int handle, bool writes)
{
	const struct question q = { .what = what, .writes = writes };
	char path[64];

	if (opener >= 0)
		return ask(what, handle, writes);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", handle);
	return serve(&q, handle, path);
}

int opener_proc(const char *path)
{
	int handle = open(path, O_PATH | O_CLOEXEC), fd;

	if (handle < 0)
		return -errno;
	fd = by_handle(WHAT_PROC, handle, false);
	close(handle);
	return fd;
}

FILE *opener_proc_stream(const char *path)
{
	int fd = opener_proc(path);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (fd >= 0 && !f)
		close(fd);
	return f;
}

int opener_cgroup_of(pid_t pid, char path[CGROUP_MAX])
{
	char name[32];
	int fd, err;

	snprintf(name, sizeof(name), "/proc/%d/cgroup", (int)pid);
	fd = opener_proc(name);
	if (fd < 0)
		return fd == -ENOENT ? -ESRCH : fd;
	err = cgroup_read(fd, path);
	close(fd);
	return err;
}

int opener_shm(int handle, bool writes)
{
	return by_handle(WHAT_SHM, handle, writes);
}

int opener_device(enum opener_device device)
{
	enum what what = device == OPENER_FFMEM ? WHAT_FFMEM : WHAT_RIO;
	const struct question q = { .what = what };

	return opener >= 0 ? ask(what, -1, false) : serve(&q, -1, NULL);
}

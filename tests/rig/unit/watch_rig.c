/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "tests/rig/unit/watch_rig.h"

#include <dirent.h>
#include <errno.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct tenant tenant;
struct container cont = { .of = &tenant };
struct session ses;
int file;

/* ---- the client -------------------------------------------------------------------------------------- */

struct order {
	enum op op;
	uint64_t va, len, arg;
};

struct client client;

uint64_t has_all(uint64_t va, uint64_t len, uint8_t byte)
{
	for (uint64_t i = 0; i < len; i++)
		if (((volatile uint8_t *)va)[i] != byte)
			return 0;
	return 1;
}

/* Pages that are filled, dropped, zero then, and filled again, `n` times: 1. */
static uint64_t churn(uint64_t va, uint64_t len, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		uint64_t from = i * 7 % (len / PG) * PG;
		uint64_t some = (1 + i * 3 % ((len - from) / PG)) * PG;

		memset((void *)(va + from), 5, some);
		if (madvise((void *)(va + from), some, MADV_DONTNEED))
			return 0;
		if (i % 2 && !has_all(va + from, some, 0))
			return 0;
		memset((void *)(va + from), 6, some);
		if (!has_all(va + from, some, 6))
			return 0;
	}
	return 1;
}

static uint64_t obey(int uffd, const struct order *o)
{
	struct uffdio_register reg = {
		.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR,
	};
	void *p;

	switch (o->op) {
	case MAP:
		p = mmap(NULL, o->len, RW, MAP_SHARED, file, (off_t)o->arg);
		reg.range.start = (uintptr_t)p;
		reg.range.len = o->len;
		return p == MAP_FAILED || ioctl(uffd, UFFDIO_REGISTER, &reg) ? 0 : (uintptr_t)p;
	case DROP:
		return !madvise((void *)o->va, o->len, MADV_DONTNEED);
	case DROP_HALF: /* every other page, one by one */
		for (uint64_t i = 0; i < o->len; i += 2 * FF_PAGE)
			if (madvise((void *)(o->va + i), FF_PAGE, MADV_DONTNEED))
				return 0;
		return 1;
	case UNMAP:
		return !munmap((void *)o->va, o->len);
	case MOVE: { /* to somewhere else, with room for that many bytes there */
		void *to = mmap(NULL, o->arg, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		p = mremap((void *)o->va, o->len, o->arg, MREMAP_MAYMOVE | MREMAP_FIXED, to);
		return p == MAP_FAILED ? 0 : (uintptr_t)p;
	}
	case FILL:
		memset((void *)o->va, (int)o->arg, o->len);
		return 1;
	case CHECK:
		return has_all(o->va, o->len, (uint8_t)o->arg);
	case CHURN:
		return churn(o->va, o->len, o->arg);
	}
	return 0;
}

static void client_main(int sock)
{
	const uint64_t features = UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM |
				  UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP |
				  UFFD_FEATURE_EVENT_REMAP;
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	int fds[4] = { ioctl(dev, _IO(0xAA, 0x00), O_CLOEXEC | O_NONBLOCK),
		       open("/proc/self/mem", O_RDWR), open("/proc/self/maps", O_RDONLY),
		       open("/proc/self/pagemap", O_RDONLY) };
	struct order o;

	if (fds[0] < 0 || ioctl(fds[0], UFFDIO_API, &api))
		_exit(1);
	if (fds_send(sock, "", 1, fds, 4, 0) != 1)
		_exit(2);
	while (recv(sock, &o, sizeof(o), 0) == sizeof(o)) {
		uint64_t answer = obey(fds[0], &o);

		if (send(sock, &answer, sizeof(answer), 0) != sizeof(answer))
			_exit(3);
	}
	_exit(0);
}

bool rig_client_start(int fds[4])
{
	int pair[2];
	unsigned n;
	char c;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	client.pid = fork();
	assert_true(client.pid >= 0);
	if (!client.pid) {
		alarm(120);
		close(pair[0]);
		client_main(pair[1]);
	}
	close(pair[1]);
	client.sock = pair[0];
	return fds_recv(client.sock, &c, 1, fds, 4, &n, 0) == 1 && n == 4;
}

void rig_client_stop(void)
{
	if (!client.pid)
		return;
	close(client.sock);
	kill(client.pid, SIGKILL);
	waitpid(client.pid, NULL, 0);
	client.pid = 0;
}

void order(enum op op, uint64_t va, uint64_t len, uint64_t arg)
{
	struct order o = { op, va, len, arg };

	assert_int_equal(send(client.sock, &o, sizeof(o), 0), sizeof(o));
}

uint64_t answer(void)
{
	uint64_t a = 0;

	assert_int_equal(recv(client.sock, &a, sizeof(a), 0), sizeof(a));
	return a;
}

uint64_t tell(enum op op, uint64_t va, uint64_t len, uint64_t arg)
{
	order(op, va, len, arg);
	return answer();
}

uint64_t place(uint64_t span)
{
	struct ff_place_pages_req req = { .len = span, .span = span };
	uint64_t off = 0;
	int uffd;

	assert_int_equal(pages_place(&ses, &req, LIMIT, &off, &uffd), 0);
	return off;
}

/* What was placed last is mapped. */
void placed(void)
{
	struct ff_place_pages_req req = { 0 };
	uint64_t off;
	int uffd;

	assert_int_equal(pages_place(&ses, &req, LIMIT, &off, &uffd), 0);
}

/* A new region, all of which the client has mapped and filled: its address there. */
uint64_t region(uint64_t span, uint8_t byte, uint64_t *off)
{
	uint64_t va;

	*off = place(span);
	va = tell(MAP, 0, span, *off);
	assert_true(va);
	placed();
	assert_true(tell(FILL, va, span, byte));
	return va;
}

/* Pages of the file. */
uint64_t pages(void)
{
	struct stat st;

	assert_int_equal(fstat(file, &st), 0);
	return (uint64_t)st.st_blocks * 512 / PG;
}

unsigned threads(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static unsigned num_before; /* of threads, without any of a session */

static void *nothing(void *arg)
{
	return arg;
}

/* ThreadSanitizer adds a thread of its own to the first one that is made. */
int rig_group_setup(void **state)
{
	pthread_t t;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, nothing, NULL), 0);
	pthread_join(t, NULL);
	num_before = threads();
	return 0;
}

int rig_setup(void **state)
{
	int fds[4];

	(void)state;
	WAIT_FOR(threads() == num_before); /* those of the last test end within a second */
	memset(&ses, 0, sizeof(ses));
	ses.mem.node = -1;
	ses.cont = &cont;
	file = sealed_memfd("test", REGIONS_MAX * FF_PAGES_STRIDE);
	assert_true(file >= 0);
	if (access("/dev/userfaultfd", R_OK | W_OK)) {
		ses.mem.maps_fd = -1;
		return 0;
	}
	assert_true(rig_client_start(fds));
	ses.mem.maps_fd = fds[2];
	assert_int_equal(quota_charge(&cont, QUOTA_FD, PAGES_FDS), 0);
	assert_int_equal(pages_watch(&ses, fds[0], fds[3], fds[1], file), 0);
	close(fds[0]);
	close(fds[1]);
	close(fds[3]);
	return 0;
}

int rig_teardown(void **state)
{
	(void)state;
	pages_end(&ses);
	rig_client_stop();
	close(file);
	if (ses.mem.maps_fd >= 0)
		close(ses.mem.maps_fd);
	return cont.quota.use.used[QUOTA_PINNED] || cont.quota.use.used[QUOTA_FD] ? -1 : 0;
}

void need_client(void)
{
	if (client.pid)
		return;
	print_message("no /dev/userfaultfd here\n");
	skip();
}

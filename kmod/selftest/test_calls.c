// SPDX-License-Identifier: GPL-2.0
/* test_calls.c - each call's errors, who may call, whose memory. */
#include "ft.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long call(int fd, unsigned long cmd, void *arg)
{
	return ioctl(fd, cmd, arg) ? -errno : 0;
}

/* In a child, whose result is 0 if all was as expected. */
#define IN_CHILD(...)                                                                              \
	do {                                                                                       \
		int status_;                                                                       \
		pid_t pid_ = fork();                                                               \
		if (!pid_) {                                                                       \
			__VA_ARGS__;                                                               \
			_exit(0);                                                                  \
		}                                                                                  \
		CHECK(waitpid(pid_, &status_, 0) == pid_);                                         \
		CHECK(status_ == 0);                                                               \
	} while (0)

static void hello(void)
{
	struct ffmem_hello h = { .version = FFMEM_VERSION + 1 };
	struct ffmem_unmap u = { .object = 1 };
	int fd = open("/dev/ffmem", O_RDWR);

	CHECK(fd >= 0);
	EXPECT(call(fd, FFMEM_UNMAP, &u), -ENOTCONN);
	EXPECT(call(fd, FFMEM_HELLO, &h), -EPROTO);
	CHECK(h.version == FFMEM_VERSION);
	h.version = 0;
	EXPECT(call(fd, FFMEM_HELLO, &h), -EPROTO);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EPERM);
	h.version = FFMEM_VERSION;
	EXPECT(call(fd, FFMEM_HELLO, &h), 0);
	CHECK(h.page_size == PAGE && h.max_objects > 10000 && h.max_pinned_bytes > 0);
	EXPECT(call(fd, FFMEM_HELLO, &h), -EALREADY);
	EXPECT(call(fd, FFMEM_UNMAP, &u), -ENOENT);
	EXPECT(call(fd, _IO(FFMEM_IOC, 99), NULL), -ENOTTY);
	EXPECT(call(fd, _IOWR(FFMEM_IOC, 0, char[4000]), &h), -ENOTTY);
	EXPECT(call(fd, FFMEM_HELLO, NULL), -EFAULT);
	/* The file is the router's: not its child's, and not whom it is passed to. */
	IN_CHILD(EXPECT(call(fd, FFMEM_UNMAP, &u), -EPERM));
	IN_CHILD(EXPECT(call(fd, FFMEM_HELLO, &h), -EPERM));
	close(fd);
}

static void unprivileged(void)
{
	CHECK(!setgroups(0, NULL) && !setresgid(65534, 65534, 65534) &&
	      !setresuid(65534, 65534, 65534));
}

static void consent(void)
{
	struct owner o, other;
	uint32_t p;
	int mem, file = open("/etc/passwd", O_RDONLY), self = syscall(SYS_pidfd_open, getpid(), 0);
	int fds[2];
	char name[64];

	CHECK(!pipe(fds));
	owner_start(&o);
	owner_start(&other);
	EXPECT(ft_attach(ft_fd, file, o.mem_fd, &p), -EBADF);
	EXPECT(ft_attach(ft_fd, fds[0], o.mem_fd, &p), -EBADF);
	EXPECT(ft_attach(ft_fd, ft_fd, o.mem_fd, &p), -EBADF);
	EXPECT(ft_attach(ft_fd, -7, o.mem_fd, &p), -EBADF);
	EXPECT(ft_attach(ft_fd, o.pidfd, file, &p), -EBADF);
	EXPECT(ft_attach(ft_fd, o.pidfd, ft_fd, &p), -EBADF);
	EXPECT(ft_attach(ft_fd, o.pidfd, 9999, &p), -EBADF);
	EXPECT(ft_attach(ft_fd, o.pidfd, -2, &p), -EINVAL);
	EXPECT(ft_attach(ft_fd, o.pidfd, other.mem_fd, &p), -ESRCH);
	/* /proc/PID/environ keeps the same in its file, but its permission is another. */
	snprintf(name, sizeof(name), "/proc/%d/environ", o.pid);
	mem = open(name, O_RDONLY);
	EXPECT(ft_attach(ft_fd, o.pidfd, mem, &p), -EBADF);
	close(mem);
	EXPECT(ft_attach(ft_fd, self, -1, &p), -EDEADLK);
	/* With CAP_SYS_PTRACE, and without. */
	EXPECT(ft_attach(ft_fd, o.pidfd, -1, &p), 0);
	EXPECT(ft_detach(ft_fd, p), 0);
	IN_CHILD(int fd = ft_open(); unprivileged(); EXPECT(ft_attach(fd, o.pidfd, -1, &p), -EPERM);
		 EXPECT(ft_attach(fd, o.pidfd, o.mem_fd, &p), 0));
	/* A router can't be mapped by another, nor what is mapped become a router. */
	IN_CHILD(int fd = ft_open(); int parent = syscall(SYS_pidfd_open, getppid(), 0);
		 EXPECT(ft_attach(fd, parent, -1, &p), -EDEADLK));
	EXPECT(ft_attach(ft_fd, o.pidfd, o.mem_fd, &p), 0);
	{
		struct ffmem_hello h = { .version = FFMEM_VERSION };
		uint64_t name_at = own(&o, OWN_PLACE, 3, 0, 0, 0), hello_at = name_at + 64;
		long fd;

		CHECK(pwrite(o.mem_fd, "/dev/ffmem", 11, name_at) == 11);
		CHECK(pwrite(o.mem_fd, &h, sizeof(h), hello_at) == sizeof(h));
		fd = own_sys(&o, SYS_openat, AT_FDCWD, name_at, O_RDWR, 0, 0, 0);
		CHECK(fd >= 0);
		EXPECT(own_sys(&o, SYS_ioctl, fd, FFMEM_HELLO, hello_at, 0, 0, 0), -EDEADLK);
	}
	EXPECT(ft_detach(ft_fd, p), 0);
	EXPECT(ft_detach(ft_fd, p), -ENOENT);
	owner_stop(&o);
	owner_stop(&other);
	close(file);
	close(self);
	close(fds[0]);
	close(fds[1]);
}

static void ranges(void)
{
	struct owner o;
	struct view v, w;
	uint32_t p;
	uint64_t at, done;
	/* Of five levels of page tables; with four it is beyond, too. */
	uint64_t top = (1ULL << 56) - PAGE;
	int ro;
	char name[64];

	owner_start(&o);
	at = own_mmap(&o, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, NULL);
	EXPECT(ft_attach(ft_fd, o.pidfd, o.mem_fd, &p), 0);
	EXPECT(ft_map(ft_fd, p + 1, at, PAGE, 0, &v), -ENOENT);
	EXPECT(ft_map(ft_fd, p, at, 0, 0, &v), -EINVAL);
	EXPECT(ft_map(ft_fd, p, at, PAGE, 1 << 5, &v), -EINVAL);
	EXPECT(ft_map(ft_fd, p, at, PAGE, FFMEM_WAIT | FFMEM_NOWAIT, &v), -EINVAL);
	EXPECT(ft_map(ft_fd, p, at, -PAGE, 0, &v), -EINVAL);
	EXPECT(ft_map(ft_fd, p, -PAGE, 2 * PAGE, 0, &v), -EINVAL);
	EXPECT(ft_map(ft_fd, p, ~0ULL, 1, 0, &v), -EINVAL);
	EXPECT(ft_map(ft_fd, p, 1ULL << 63, PAGE, 0, &v), -EINVAL);
	EXPECT(ft_map(ft_fd, p, top - PAGE, 2 * PAGE, 0, &v), -EINVAL);
	EXPECT(ft_map(ft_fd, p, top, PAGE, 0, &v), -EINVAL);
	EXPECT(ft_map(ft_fd, p, 0, PAGE, FFMEM_PINNED, &v), -EFAULT);
	EXPECT(ft_map(ft_fd, p, 1ULL << 46, PAGE, FFMEM_PINNED, &v), -EFAULT);
	EXPECT(ft_map(ft_fd, p, 1ULL << 40, 1ULL << 40, FFMEM_PINNED, &v), -ENOSPC);

	/* mmap: within the object, shared, not for execution, for writing only where that was asked. */
	EXPECT(ft_map(ft_fd, p, at, 4 * PAGE, 0, &v), 0);
	CHECK(mmap(NULL, 5 * PAGE, PROT_READ, MAP_SHARED, ft_fd, v.offset) == MAP_FAILED &&
	      errno == EINVAL);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, ft_fd, v.offset + 4 * PAGE) == MAP_FAILED);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, ft_fd, v.offset) == MAP_FAILED &&
	      errno == EINVAL);
	CHECK(mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, ft_fd, v.offset) == MAP_FAILED &&
	      errno == EACCES);
	CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ft_fd, v.offset) == MAP_FAILED &&
	      errno == EACCES);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, ft_fd, 0) == MAP_FAILED && errno == ENXIO);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, ft_fd, 1ULL << 62) == MAP_FAILED);
	EXPECT(ft_show(ft_fd, 4 * PAGE, 0, &v), 0);
	CHECK(mprotect(v.base, PAGE, PROT_READ | PROT_WRITE) && errno == EACCES);
	CHECK(mprotect(v.base, PAGE, PROT_READ | PROT_EXEC) && errno == EACCES);
	CHECK(mremap(v.base, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED);

	EXPECT(ft_populate(ft_fd, v.base, 4 * PAGE, 1 << 2, NULL), -EINVAL);
	EXPECT(ft_populate(ft_fd, v.base, 0, 0, NULL), -EINVAL);
	EXPECT(ft_populate(ft_fd, v.base, -1ULL, 0, NULL), -EINVAL);
	EXPECT(ft_populate(ft_fd, v.base, 4 * PAGE, FFMEM_POPULATE_WRITE, NULL), -EFAULT);
	EXPECT(ft_populate(ft_fd, &o, sizeof(o), 0, NULL), -EFAULT);
	EXPECT(ft_populate(ft_fd, v.base + 5, 2 * PAGE, 0, &done), 0);
	CHECK(done == 3 * PAGE);
	EXPECT(ft_populate(ft_fd, v.base + 3 * PAGE, 3 * PAGE, 0, &done), -EFAULT);
	CHECK(done == PAGE);
	EXPECT(ft_detach(ft_fd, p), -EBUSY);
	EXPECT(ft_unmap(ft_fd, v.object), 0);
	EXPECT(ft_unmap(ft_fd, v.object), -ENOENT);
	CHECK(ft_sigbus(v.base, false));
	munmap(v.base, 4 * PAGE);
	EXPECT(ft_detach(ft_fd, p), 0);

	/* A descriptor that may only read gives a view that is only read. */
	snprintf(name, sizeof(name), "/proc/%d/mem", o.pid);
	ro = open(name, O_RDONLY);
	EXPECT(ft_attach(ft_fd, o.pidfd, ro, &p), 0);
	EXPECT(ft_map(ft_fd, p, at, PAGE, FFMEM_WRITE, &w), -EPERM);
	EXPECT(ft_map(ft_fd, p, at, PAGE, 0, &w), 0);
	EXPECT(ft_unmap(ft_fd, w.object), 0);
	EXPECT(ft_detach(ft_fd, p), 0);
	close(ro);
	owner_stop(&o);
}

static void limits(void)
{
	static struct view v[20000];
	struct owner o;
	uint32_t p;
	uint64_t at;
	long r = 0;
	int n = 0;
	double t;

	owner_start(&o);
	at = own_mmap(&o, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, NULL);
	EXPECT(ft_attach(ft_fd, o.pidfd, o.mem_fd, &p), 0);
	t = check_now();
	for (; n < 20000 && !r; n++)
		r = ft_map(ft_fd, p, at, PAGE, FFMEM_WRITE, &v[n]);
	CHECK(r == -ENOSPC && n == 16384);
	printf("  %d objects in %.0f ms, ", n - 1, (check_now() - t) * 1e3);
	t = check_now();
	for (int i = 0; i < 10000; i++)
		EXPECT(ft_unmap(ft_fd, v[i].object), 0);
	printf("10000 ended in %.0f ms\n", (check_now() - t) * 1e3);
	for (int i = 10000; i < n - 1; i++)
		EXPECT(ft_unmap(ft_fd, v[i].object), 0);
	EXPECT(ft_detach(ft_fd, p), 0);
	owner_stop(&o);
}

void test_calls(void)
{
	hello();
	consent();
	ranges();
	limits();
}

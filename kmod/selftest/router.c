// SPDX-License-Identifier: GPL-2.0
/* router.c - the device's calls, and accesses that may fail. See ft.h. */
#include "ft.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

int ft_fd = -1;
__thread sigjmp_buf *ft_bus;

static long call(int fd, unsigned long cmd, void *arg)
{
	return ioctl(fd, cmd, arg) ? -errno : 0;
}

int ft_open(void)
{
	struct ffmem_hello h = { .version = FFMEM_VERSION };
	int fd = open("/dev/ffmem", O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	EXPECT(call(fd, FFMEM_HELLO, &h), 0);
	return fd;
}

long ft_attach(int fd, int pidfd, int mem_fd, uint32_t *process)
{
	struct ffmem_attach a = { .pidfd = pidfd, .mem_fd = mem_fd };
	long r = call(fd, FFMEM_ATTACH, &a);

	*process = a.process;
	return r;
}

long ft_detach(int fd, uint32_t process)
{
	struct ffmem_detach d = { .process = process };

	return call(fd, FFMEM_DETACH, &d);
}

long ft_map(int fd, uint32_t process, uint64_t address, uint64_t length, uint32_t flags,
	    struct view *v)
{
	struct ffmem_map m = {
		.process = process, .flags = flags, .address = address, .length = length
	};
	long r = call(fd, FFMEM_MAP, &m);

	memset(v, 0, sizeof(*v));
	v->object = m.object;
	v->offset = m.offset;
	return r;
}

long ft_show(int fd, uint64_t length, uint32_t flags, struct view *v)
{
	void *p = mmap(NULL, length, PROT_READ | (flags & FFMEM_WRITE ? PROT_WRITE : 0), MAP_SHARED,
		       fd, v->offset);

	if (p == MAP_FAILED)
		return -errno;
	v->base = v->p = p;
	v->length = length;
	return 0;
}

long ft_unmap(int fd, uint32_t object)
{
	struct ffmem_unmap u = { .object = object };

	return call(fd, FFMEM_UNMAP, &u);
}

long ft_populate(int fd, void *p, uint64_t length, uint32_t flags, uint64_t *done)
{
	struct ffmem_populate a = { .address = (uint64_t)p, .length = length, .flags = flags };
	long r = call(fd, FFMEM_POPULATE, &a);

	if (done)
		*done = a.done;
	return r;
}

/* The owner is attached for this view only. */
void view_make(struct view *v, struct owner *o, uint64_t address, uint64_t length, uint32_t flags)
{
	uint64_t in = address % PAGE;
	uint32_t process;

	EXPECT(ft_attach(ft_fd, o->pidfd, o->mem_fd, &process), 0);
	EXPECT(ft_map(ft_fd, process, address, length, flags, v), 0);
	EXPECT(ft_show(ft_fd, (in + length + PAGE - 1) & -PAGE, flags, v), 0);
	v->p = v->base + in;
	v->process = process;
}

void view_end(struct view *v)
{
	EXPECT(ft_unmap(ft_fd, v->object), 0);
	EXPECT(ft_detach(ft_fd, v->process), 0);
	CHECK(ft_sigbus(v->p, false));
	CHECK(!munmap(v->base, v->length));
}

void view_stat(struct view *v, struct ffmem_stat *s)
{
	memset(s, 0, sizeof(*s));
	s->object = v->object;
	EXPECT(call(ft_fd, FFMEM_STAT, s), 0);
}

static void on_bus(int signal)
{
	(void)signal;
	if (!ft_bus)
		_exit(99);
	siglongjmp(*ft_bus, 1);
}

void ft_signals(void)
{
	struct sigaction a = { .sa_handler = on_bus, .sa_flags = SA_NODEFER };

	sigaction(SIGBUS, &a, NULL);
}

bool ft_sigbus(volatile uint8_t *p, bool write)
{
	sigjmp_buf here, *before = ft_bus;
	volatile bool bus = true;

	ft_bus = &here;
	if (!sigsetjmp(here, 0)) {
		uint8_t byte = *p;

		if (write)
			*p = byte;
		bus = false;
	}
	ft_bus = before;
	return bus;
}

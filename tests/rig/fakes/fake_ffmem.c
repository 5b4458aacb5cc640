/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* fake_ffmem.c - see fake_ffmem.h. */
#include "tests/rig/fakes/fake_ffmem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct fake_ffmem fake_ffmem;

void fake_ffmem_start(uint64_t size)
{
	fake_ffmem = (struct fake_ffmem){ .fd = memfd_create("ffmem", MFD_CLOEXEC),
					  .version = FFMEM_VERSION };
	if (fake_ffmem.fd < 0 || ftruncate(fake_ffmem.fd, (off_t)size))
		abort();
	fake_ffmem.app = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fake_ffmem.fd, 0);
	if (fake_ffmem.app == MAP_FAILED)
		abort();
}

static int map(struct ffmem_map *m)
{
	errno = fake_ffmem.refuse;
	if (errno)
		return -1;
	if (m->address < (uintptr_t)fake_ffmem.app)
		abort();
	m->offset = (m->address - (uintptr_t)fake_ffmem.app) & ~(uint64_t)4095;
	m->object = ++fake_ffmem.objects;
	fake_ffmem.address = m->address;
	fake_ffmem.length = m->length;
	fake_ffmem.flags = m->flags;
	return 0;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (fd != fake_ffmem.fd)
		return (int)syscall(SYS_ioctl, fd, request, arg);
	switch (request) {
	case FFMEM_HELLO:
		((struct ffmem_hello *)arg)->version = fake_ffmem.version;
		errno = EPROTO;
		return fake_ffmem.version == FFMEM_VERSION ? 0 : -1;
	case FFMEM_ATTACH:
		((struct ffmem_attach *)arg)->process = ++fake_ffmem.processes;
		return 0;
	case FFMEM_DETACH:
		fake_ffmem.processes--;
		return 0;
	case FFMEM_MAP:
		return map(arg);
	case FFMEM_UNMAP:
		if (fake_ffmem.unmapped)
			fake_ffmem.unmapped();
		fake_ffmem.objects--;
		return 0;
	case FFMEM_STAT:
		((struct ffmem_stat *)arg)->faults = 5;
		return 0;
	default:
		errno = EINVAL;
		return -1;
	}
}

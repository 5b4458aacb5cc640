/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ffmem_fake.c - see ffmem_fake.h. */
#include "tests/lib/ffmem_fake.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct ffmem_fake ffmem_fake;

void ffmem_fake_start(uint64_t size)
{
	ffmem_fake = (struct ffmem_fake){ .fd = memfd_create("ffmem", MFD_CLOEXEC),
					  .version = FFMEM_VERSION };
	if (ffmem_fake.fd < 0 || ftruncate(ffmem_fake.fd, (off_t)size))
		abort();
	ffmem_fake.app = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ffmem_fake.fd, 0);
	if (ffmem_fake.app == MAP_FAILED)
		abort();
}

static int map(struct ffmem_map *m)
{
	errno = ffmem_fake.refuse;
	if (errno)
		return -1;
	if (m->address < (uintptr_t)ffmem_fake.app)
		abort();
	m->offset = (m->address - (uintptr_t)ffmem_fake.app) & ~(uint64_t)4095;
	m->object = ++ffmem_fake.objects;
	ffmem_fake.address = m->address;
	ffmem_fake.length = m->length;
	ffmem_fake.flags = m->flags;
	return 0;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (fd != ffmem_fake.fd)
		return (int)syscall(SYS_ioctl, fd, request, arg);
	switch (request) {
	case FFMEM_HELLO:
		((struct ffmem_hello *)arg)->version = ffmem_fake.version;
		errno = EPROTO;
		return ffmem_fake.version == FFMEM_VERSION ? 0 : -1;
	case FFMEM_ATTACH:
		((struct ffmem_attach *)arg)->process = ++ffmem_fake.processes;
		return 0;
	case FFMEM_DETACH:
		ffmem_fake.processes--;
		return 0;
	case FFMEM_MAP:
		return map(arg);
	case FFMEM_UNMAP:
		if (ffmem_fake.unmapped)
			ffmem_fake.unmapped();
		ffmem_fake.objects--;
		return 0;
	case FFMEM_STAT:
		((struct ffmem_stat *)arg)->faults = 5;
		return 0;
	default:
		errno = EINVAL;
		return -1;
	}
}

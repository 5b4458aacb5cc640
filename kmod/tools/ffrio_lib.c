// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ffrio_lib.c - see ffrio_lib.h. No state of its own but the descriptor.
 *
 * Tests: vm/ffrio.sh
 */
#include "ffrio_lib.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

static int call(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg) < 0 ? -errno : 0;
}

int rio_open(unsigned int port, int endpoint, int flags, struct ffrio_bind *bound)
{
	struct ffrio_bind b = { .version = FFRIO_VERSION, .port = port, .endpoint = endpoint };
	int fd = open("/dev/ffrio", O_RDWR | O_CLOEXEC | flags), ret;

	if (fd < 0)
		return -errno;
	ret = call(fd, FFRIO_BIND, &b);
	if (ret) {
		close(fd);
		return ret;
	}
	if (bound)
		*bound = b;
	return fd;
}

ssize_t rio_send(int fd, unsigned int destid, unsigned int endpoint, const void *p, size_t n,
		 unsigned int flags)
{
	struct ffrio_send s = {
		.address = (uintptr_t)p,
		.length = n,
		.destid = destid,
		.endpoint = endpoint,
		.flags = flags,
	};
	int ret = call(fd, FFRIO_SEND, &s);

	return ret ? ret : (ssize_t)s.done;
}

int rio_flush(int fd)
{
	return call(fd, FFRIO_FLUSH, NULL);
}

ssize_t rio_recv(int fd, void *p, size_t n, struct rio_from *from)
{
	struct ffrio_recv r = { .address = (uintptr_t)p, .length = n };
	int ret = call(fd, FFRIO_RECV, &r);

	if (from)
		*from = (struct rio_from){
			.destid = r.destid,
			.endpoint = r.endpoint,
			.first = r.flags & FFRIO_FIRST,
			.last = r.flags & FFRIO_LAST,
		};
	return ret ? ret : (ssize_t)r.done;
}

void *rio_map_smb(int fd, const struct ffrio_bind *bound)
{
	void *p = mmap(NULL, bound->smb_length, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		       bound->smb_offset);

	return p == MAP_FAILED ? NULL : p;
}

const void *rio_map_rmb(int fd, const struct ffrio_bind *bound)
{
	void *p = mmap(NULL, bound->rmb_length, PROT_READ, MAP_SHARED, fd, bound->rmb_offset);

	return p == MAP_FAILED ? NULL : p;
}

int rio_alloc(int fd)
{
	struct ffrio_buf b;
	int ret = call(fd, FFRIO_ALLOC, &b);

	return ret ? ret : (int)b.buffer;
}

int rio_free(int fd, unsigned int buffer)
{
	struct ffrio_buf b = { .buffer = buffer };

	return call(fd, FFRIO_FREE, &b);
}

int rio_post(int fd, unsigned int destid, unsigned int endpoint, unsigned int buffer, size_t n,
	     unsigned int flags, uint64_t cookie)
{
	struct ffrio_post post = {
		.buffer = buffer,
		.length = n,
		.destid = destid,
		.endpoint = endpoint,
		.flags = flags,
		.cookie = cookie,
	};

	return call(fd, FFRIO_POST, &post);
}

int rio_reap(int fd, struct ffrio_reap *r)
{
	return call(fd, FFRIO_REAP, r);
}

int rio_take(int fd, struct ffrio_take *t)
{
	return call(fd, FFRIO_TAKE, t);
}

int rio_give_back(int fd, unsigned int buffer)
{
	struct ffrio_buf b = { .buffer = buffer };

	return call(fd, FFRIO_GIVE_BACK, &b);
}

int rio_window(int fd, size_t length, struct rio_window *w)
{
	struct ffrio_window a = { .length = length };
	struct ffrio_buf b;
	int ret = call(fd, FFRIO_WINDOW, &a);

	if (ret)
		return ret;
	*w = (struct rio_window){ .length = length, .rio = a.rio, .id = a.window };
	w->memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, a.offset);
	if (w->memory != MAP_FAILED)
		return 0;
	ret = -errno;
	b = (struct ffrio_buf){ .buffer = w->id };
	call(fd, FFRIO_WINDOW_END, &b);
	return ret;
}

int rio_window_end(int fd, struct rio_window *w)
{
	struct ffrio_buf b = { .buffer = w->id };

	munmap(w->memory, w->length);
	return call(fd, FFRIO_WINDOW_END, &b);
}

static int transfer(int fd, unsigned int destid, uint64_t rio, const void *p, size_t n,
		    unsigned int flags)
{
	struct ffrio_transfer t = {
		.address = (uintptr_t)p,
		.length = n,
		.rio = rio,
		.destid = destid,
		.flags = flags,
	};

	return call(fd, FFRIO_TRANSFER, &t);
}

int rio_read(int fd, unsigned int destid, uint64_t rio, void *p, size_t n)
{
	return transfer(fd, destid, rio, p, n, FFRIO_READ);
}

int rio_write(int fd, unsigned int destid, uint64_t rio, const void *p, size_t n,
	      unsigned int flags)
{
	return transfer(fd, destid, rio, p, n, flags);
}

#define NAME(name) #name,
static const char *const names[] = { FFRIO_STATS(NAME) };

int rio_state(int fd, unsigned int port, struct ffrio_stats *s)
{
	s->port = port;
	return call(fd, FFRIO_GET_STATS, s);
}

long long rio_stat(int fd, unsigned int port, const char *name)
{
	uint64_t values[FFRIO_STAT_COUNT] = { 0 };
	struct ffrio_stats s = { .values = (uintptr_t)values, .count = FFRIO_STAT_COUNT };
	int ret = rio_state(fd, port, &s);

	for (int i = 0; !ret && i < FFRIO_STAT_COUNT; i++)
		if (!strcmp(names[i], name))
			return values[i];
	return ret ? ret : -ENOENT;
}

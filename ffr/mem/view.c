/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * view.c - clients' pages in the router's address space, while the application's mapping stays what it is.
 *
 * Theory of operation
 * -------------------
 * What no run of an MR reaches, the router copies through the process (fast/pvm.c): the edges of unaligned buffers,
 * memory with on-demand paging, large memory that is not replaced yet. With ffmem.ko such an MR has a view as well: a
 * mapping of the MR's addresses that follows the process's page tables. A copy that finds its pages there is one
 * memcpy, of nothing but the bytes asked for; one that does not ends (fallible.h) and is made through the process,
 * where what waits does so on a worker.
 *
 * Views are FFMEM_NOWAIT: an access brings a page in where that takes no wait, and fails where it would have to
 * wait for the process's lock, a userfaultfd or a disk. So what a client does to its memory never delays a runner.
 * After execve() or the process's end there is nothing in its views any more.
 *
 * A view takes of the router's address space as much as the MR is long, whatever it holds, so SHARE_VIEW counts it
 * in units of 1 GB. Who gets none has its copies made as without the module.
 */
#include "ffr/mem/view.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ffr/keeper/keeper.h"
#include "ffr/lib/log.h"
#include "ffr/obj/quota.h"

#define UNIT_SHIFT 30
#define VIEW_MAX   ((uint64_t)8 << 40) /* bytes */

static int dev = -1;

int view_use(int fd)
{
	struct ffmem_hello h = { .version = FFMEM_VERSION };
	int err;

	if (!ioctl(fd, FFMEM_HELLO, &h)) {
		dev = fd;
		return 0;
	}
	err = -errno;
	if (err == -EPROTO)
		log_warn("ffmem: the module's version is %u, the router's %u", h.version,
			 FFMEM_VERSION);
	close(fd);
	return err;
}

void view_init(void)
{
	int fd = keeper_open_ffmem(), err = fd < 0 ? fd : view_use(fd);

	if (!err)
		log_info("ffmem: clients' memory is viewed where it is not shared");
	else if (err != -ENOENT && err != -ENXIO)
		log_warn("ffmem: %s: it is not used", strerror(-err));
}

void view_fini(void)
{
	if (dev >= 0)
		close(dev);
	dev = -1;
}

void view_session_add(struct session *s, int pidfd, int mem)
{
	struct ffmem_attach a = { .pidfd = pidfd, .mem_fd = mem };

	s->mem.viewed = dev >= 0 && pidfd >= 0 && !ioctl(dev, FFMEM_ATTACH, &a);
	s->mem.process = a.process;
}

void view_session_del(struct session *s)
{
	struct ffmem_detach d = { .process = s->mem.process };

	if (s->mem.viewed && ioctl(dev, FFMEM_DETACH, &d))
		log_err("ffmem: a process stays: %m");
	s->mem.viewed = false;
}

/* Whole pages. */
static uint64_t pages_len(const struct mr *mr)
{
	return ((mr->addr & (FF_PAGE - 1)) + mr->length + FF_PAGE - 1) & ~(uint64_t)(FF_PAGE - 1);
}

static uint32_t units(const struct mr *mr)
{
	return 1 + (uint32_t)(pages_len(mr) >> UNIT_SHIFT);
}

static void object_end(uint32_t object)
{
	struct ffmem_unmap u = { .object = object };

	if (ioctl(dev, FFMEM_UNMAP, &u))
		log_err("ffmem: an object stays: %m");
}

static int map(struct mr *mr, bool writes)
{
	struct ffmem_map m = { .process = mr->o.ses->mem.process,
			       .flags = FFMEM_NOWAIT | (writes ? FFMEM_WRITE : 0),
			       .address = mr->addr,
			       .length = mr->length };
	uint8_t *p;

	if (ioctl(dev, FFMEM_MAP, &m))
		return -errno;
	p = mmap(NULL, pages_len(mr), writes ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, dev,
		 (off_t)m.offset);
	if (p == MAP_FAILED) {
		int err = -errno;

		object_end(m.object);
		return err;
	}
	mr->view = p + (mr->addr & (FF_PAGE - 1));
	mr->view_object = m.object;
	return 0;
}

void view_map(struct mr *mr)
{
	const struct session *s = mr->o.ses;

	mr->view = NULL;
	if (!s->mem.viewed || mr->kind != MR_USER || !mr->length || mr->length > VIEW_MAX ||
	    mr->zero_copy == mr->length || quota_share_take(s->cont, SHARE_VIEW, units(mr)))
		return;
	if (map(mr, view_writes(mr->access)))
		quota_share_return(s->cont, SHARE_VIEW, units(mr));
}

void view_unmap(struct mr *mr)
{
	if (!mr->view)
		return;
	object_end(mr->view_object);
	munmap(mr->view - (mr->addr & (FF_PAGE - 1)), pages_len(mr));
	mr->view = NULL;
	quota_share_return(mr->o.ses->cont, SHARE_VIEW, units(mr));
}

struct ffmem_stat view_stat(const struct mr *mr)
{
	struct ffmem_stat st = { .object = mr->view_object };

	if (!mr->view || ioctl(dev, FFMEM_STAT, &st))
		return (struct ffmem_stat){ 0 };
	return st;
}

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
 * A NIC cannot have what a view has (docs/internals/ffmem.md). One that pages on demand has pages of FFMEM_PAGES
 * beside it, which are such that its driver can take them; they are in the same place as the view, but of shared memory
 * only.
 *
 * A view takes of the router's address space as much as the MR is long, whatever it holds, so SHARE_VIEW counts it
 * in units of 1 GB. Who gets none has its copies made as without the module.
 *
 * Tests: unit/soft/test_view.c
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

bool view_is_there(void)
{
	return dev >= 0;
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

/* An object of the MR's pages, and where it is: anywhere if *base is NULL. 0 or -errno */
static int map(const struct mr *mr, uint32_t flags, uint32_t *object, uint8_t **base)
{
	int how = MAP_SHARED | (*base ? MAP_FIXED_NOREPLACE : 0);
	uint8_t *at = *base;
	struct ffmem_map m = { .process = mr->o.ses->mem.process,
			       .flags = FFMEM_NOWAIT | flags,
			       .address = mr->addr,
			       .length = mr->length };
	int prot = PROT_READ;

	if (view_writes(mr->access)) {
		m.flags |= FFMEM_WRITE;
		prot |= PROT_WRITE;
	}
	if (ioctl(dev, FFMEM_MAP, &m))
		return -errno;
	*base = mmap(at, pages_len(mr), prot, how, dev, (off_t)m.offset);
	if (*base == MAP_FAILED || (at && *base != at)) { /* an old kernel takes it for a wish */
		int err = *base == MAP_FAILED ? -errno : -EEXIST;

		if (*base != MAP_FAILED)
			munmap(*base, pages_len(mr));
		object_end(m.object);
		return err;
	}
	*object = m.object;
	return 0;
}

void view_map(struct mr *mr)
{
	const struct session *s = mr->o.ses;
	uint8_t *base = NULL;

	mr->view = NULL;
	if (!s->mem.viewed || mr->kind != MR_USER || !mr->length || mr->length > VIEW_MAX ||
	    mr->zero_copy == mr->length || quota_share_take(s->cont, SHARE_VIEW, units(mr)))
		return;
	if (map(mr, 0, &mr->view_object, &base))
		quota_share_return(s->cont, SHARE_VIEW, units(mr));
	else
		mr->view = base + (mr->addr & (FF_PAGE - 1));
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

int view_pages_map(const struct mr *mr, void *at, struct view_pages *pages)
{
	int err;

	if (!mr->view)
		return -ENODEV;
	pages->base = at;
	err = map(mr, FFMEM_PAGES, &pages->object, &pages->base);
	if (err) {
		pages->base = NULL;
		return err;
	}
	pages->size = pages_len(mr);
	return 0;
}

void view_pages_end(struct view_pages *pages)
{
	if (pages->object)
		object_end(pages->object);
	pages->object = 0;
}

void view_pages_unmap(struct view_pages *pages, bool in_use)
{
	if (!pages->base)
		return;
	view_pages_end(pages);
	/* what shows an object that has ended has nothing to show, and is an address that nobody else gets */
	if (!in_use)
		munmap(pages->base, pages->size);
	pages->base = NULL;
}

static struct ffmem_stat stat_of(uint32_t object)
{
	struct ffmem_stat st = { .object = object };

	if (!object || ioctl(dev, FFMEM_STAT, &st))
		return (struct ffmem_stat){ 0 };
	return st;
}

struct ffmem_stat view_stat(const struct mr *mr)
{
	struct ffmem_stat st = stat_of(mr->view ? mr->view_object : 0),
			  pages = stat_of(mr->view ? mr->pages_object : 0);

	st.faults += pages.faults;
	st.fault_pages += pages.fault_pages;
	st.fault_ns += pages.fault_ns;
	st.failed_faults += pages.failed_faults;
	st.invalidations += pages.invalidations;
	st.invalidate_ns += pages.invalidate_ns;
	return st;
}

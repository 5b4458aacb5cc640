/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * dmabuf.c - MRs on an application's dma-buf: the router maps the buffer and keeps it mapped for as
 * long as the MR lives. Control thread; called by ctl/dm.c and ctl/mr.c.
 *
 * The descriptor came from a client and may be of anything. What it is of is found out without
 * calling any file system, which may be the client's own: /proc/self/fdinfo has an exporter's name
 * for dma-bufs alone. Only then is the descriptor asked for its size, and mapped. The size of a
 * dma-buf cannot change; the mapping is watched all the same, since memory can run out.
 *
 * Only exporters of plain, coherent memory are taken: udmabuf (pages of a memfd) and the system
 * heap. What a CPU may do with a GPU's buffer is for its driver to say, and mostly it is slow.
 */
#include "ffr/mem/dmabuf.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "ffr/mem/shadow.h"

#ifndef DMA_BUF_MAGIC
#define DMA_BUF_MAGIC 0x444d4142
#endif

#define ACCESS_WRITES (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

static bool plain_memory(const char *exporter)
{
	static const char *const names[] = { "udmabuf", "system" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(exporter, names[i]))
			return true;
	return false;
}

/* 0, -EINVAL: not a dma-buf, -EOPNOTSUPP: not of plain memory. */
static int check_exporter(int fd)
{
	char path[64], line[256], name[64];
	struct statfs st;
	int err = -EINVAL;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	while (err == -EINVAL && fgets(line, sizeof(line), f))
		if (sscanf(line, "exp_name: %63s", name) == 1)
			err = plain_memory(name) ? 0 : -EOPNOTSUPP;
	fclose(f);
	if (!err && (fstatfs(fd, &st) || st.f_type != DMA_BUF_MAGIC))
		err = -EINVAL;
	return err;
}

int dmabuf_map(struct mr *mr, int fd, uint64_t offset)
{
	struct session *s = mr->o.ses;
	uint64_t from = offset & ~(uint64_t)(FF_PAGE - 1), end;
	int prot = PROT_READ | (mr->access & ACCESS_WRITES ? PROT_WRITE : 0);
	off_t size;
	int err = check_exporter(fd);

	if (err)
		return err;
	size = lseek(fd, 0, SEEK_END);
	if (size < 0 || !mr->length || __builtin_add_overflow(offset, mr->length, &end) ||
	    end > (uint64_t)size)
		return -EINVAL;
	if (s->mem.num_foreign >= MAX_FOREIGN)
		return -ENOSPC;
	mr->run = calloc(1, sizeof(*mr->run));
	if (!mr->run)
		return -ENOMEM;
	mr->map_len = ((end + FF_PAGE - 1) & ~(uint64_t)(FF_PAGE - 1)) - from;
	mr->map = mmap(NULL, mr->map_len, prot, MAP_SHARED, fd, (off_t)from);
	if (mr->map == MAP_FAILED) {
		err = -errno;
		goto err_run;
	}
	mr->watch = err = sigbus_watch(mr->map, mr->map_len, FF_PAGE, s);
	if (err < 0)
		goto err_unmap;
	s->mem.num_foreign++;
	/* it has no address but those on the wire */
	mr->addr = mr->iova;
	mr->run[0] = (struct mr_run){ .va = mr->addr,
				      .len = mr->length,
				      .host = mr->map + (offset - from) };
	mr->num_runs = 1;
	mr->zero_copy = mr->length;
	return 0;

err_unmap:
	munmap(mr->map, mr->map_len);
err_run:
	free(mr->run);
	mr->run = NULL;
	mr->map = NULL;
	return err;
}

void dmabuf_unmap(struct mr *mr)
{
	if (!mr->map)
		return;
	sigbus_unwatch(mr->watch);
	unmap_later(mr->o.ses, mr->map, mr->map_len, -1);
	mr->o.ses->mem.num_foreign--;
	mr->map = NULL;
}

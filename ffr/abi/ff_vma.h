/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ff_vma.h - what is mapped at an address, of oneself (ffl) or of a client (ffr).
 *
 * Asks /proc/<pid>/maps by PROCMAP_QUERY (Linux 6.11, 0.1 us), and reads the text where the kernel
 * does not know that. Inlines for both sides; any thread; no allocation, no stdio.
 */
#ifndef FFR_ABI_FF_VMA_H
#define FFR_ABI_FF_VMA_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ffr/abi/ff_ring.h"

/* ff_vma.flags; the numbers are PROCMAP_QUERY's */
#define FF_VMA_READ   0x01
#define FF_VMA_WRITE  0x02
#define FF_VMA_EXEC   0x04
#define FF_VMA_SHARED 0x08

struct ff_vma {
	uint64_t start, end;
	uint64_t offset; /* of start in the file, bytes */
	uint64_t inode;	 /* 0: not of a file */
	uint32_t dev_major, dev_minor;
	uint32_t flags;	    /* FF_VMA_* */
	uint32_t page_size; /* bytes; larger than a page: hugetlb */
};

/* struct procmap_query of <linux/fs.h>, for headers older than the kernel. */
struct ff_procmap_query {
	uint64_t size, query_flags, query_addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};
static_assert(sizeof(struct ff_procmap_query) == 104, "ABI");
#define FF_PROCMAP_QUERY	    _IOWR('f', 17, struct ff_procmap_query)
#define FF_PROCMAP_COVERING_OR_NEXT 0x10

static inline const char *ff_vma_number(const char *p, unsigned base, uint64_t *out)
{
	uint64_t v = 0;

	for (;; p++) {
		unsigned d;

		if (*p >= '0' && *p <= '9')
			d = (unsigned)(*p - '0');
		else if (base == 16 && *p >= 'a' && *p <= 'f')
			d = (unsigned)(*p - 'a') + 10;
		else
			break;
		v = v * base + d;
	}
	*out = v;
	return p;
}

/* "start-end rwxp offset major:minor inode name" */
static inline void ff_vma_parse(const char *p, struct ff_vma *v)
{
	uint64_t major, minor;

	p = ff_vma_number(p, 16, &v->start);
	p = ff_vma_number(p + 1, 16, &v->end);
	v->flags = (p[1] == 'r' ? FF_VMA_READ : 0u) | (p[2] == 'w' ? FF_VMA_WRITE : 0u) |
		   (p[3] == 'x' ? FF_VMA_EXEC : 0u) | (p[4] == 's' ? FF_VMA_SHARED : 0u);
	p = ff_vma_number(p + 6, 16, &v->offset);
	p = ff_vma_number(p + 1, 16, &major);
	p = ff_vma_number(p + 1, 16, &minor);
	ff_vma_number(p + 1, 10, &v->inode);
	v->dev_major = (uint32_t)major;
	v->dev_minor = (uint32_t)minor;
	v->page_size = FF_PAGE;
}

typedef bool ff_vma_fn(void *arg, const struct ff_vma *v); /* false: enough */

/* All mappings, in order, by reading the text once. 0 or -errno. */
static inline int ff_vma_each_text(int maps_fd, ff_vma_fn *fn, void *arg)
{
	char buf[2048], line[128];
	size_t fill = 0; /* of line; what a name has beyond it is of no interest */
	struct ff_vma v;
	ssize_t n;

	if (lseek(maps_fd, 0, SEEK_SET) < 0)
		return -errno;
	while ((n = read(maps_fd, buf, sizeof(buf))) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			if (buf[i] != '\n') {
				if (fill < sizeof(line) - 1)
					line[fill++] = buf[i];
				continue;
			}
			memset(line + fill, 0, sizeof(line) - fill);
			fill = 0;
			ff_vma_parse(line, &v);
			if (!fn(arg, &v))
				return 0;
		}
	}
	return n < 0 ? -errno : 0;
}

struct ff_vma_wanted {
	uint64_t addr;
	struct ff_vma *out;
	bool found;
};

static inline bool ff_vma_is_wanted(void *arg, const struct ff_vma *v)
{
	struct ff_vma_wanted *w = (struct ff_vma_wanted *)arg;

	if (v->end <= w->addr)
		return true;
	*w->out = *v;
	w->found = true;
	return false;
}

/* ff_vma_query() by reading the text. */
static inline int ff_vma_query_text(int maps_fd, uint64_t addr, struct ff_vma *out)
{
	struct ff_vma_wanted w = { .addr = addr, .out = out };
	int err = ff_vma_each_text(maps_fd, ff_vma_is_wanted, &w);

	return err ? err : w.found ? 0 : -ENOENT;
}

/*
 * Does the kernel know PROCMAP_QUERY? This does not wait for the lock of the address space; the other
 * functions do.
 */
static inline bool ff_vma_can_ask(int maps_fd)
{
	struct ff_procmap_query q = { .size = 0 }; /* -EINVAL, before anything else is looked at */

	return ioctl(maps_fd, FF_PROCMAP_QUERY, &q) && errno != ENOTTY;
}

/*
 * The mapping that holds addr or else the next one above it, where the kernel knows PROCMAP_QUERY.
 * maps_fd is an open /proc/<pid>/maps; others may have the same one open: nothing is read from it. 0;
 * -ENOENT: there is none; -ENOTTY: the kernel does not know; other -errno: the process is gone.
 */
static inline int ff_vma_ask(int maps_fd, uint64_t addr, struct ff_vma *out)
{
	struct ff_procmap_query q = {
		.size = sizeof(q),
		.query_flags = FF_PROCMAP_COVERING_OR_NEXT,
		.query_addr = addr,
	};

	if (ioctl(maps_fd, FF_PROCMAP_QUERY, &q) < 0)
		return -errno;
	*out = (struct ff_vma){
		.start = q.vma_start,
		.end = q.vma_end,
		.offset = q.vma_offset,
		.inode = q.inode,
		.dev_major = q.dev_major,
		.dev_minor = q.dev_minor,
		.flags = (uint32_t)q.vma_flags & 0xf,
		.page_size = (uint32_t)q.vma_page_size,
	};
	return 0;
}

/*
 * Likewise, by reading the text where that is needed: maps_fd must be this process's alone. 0;
 * -ENOENT: there is none; other -errno: cannot be found out.
 */
static inline int ff_vma_query(int maps_fd, uint64_t addr, struct ff_vma *out)
{
	int err = ff_vma_ask(maps_fd, addr, out);

	return err == -ENOTTY ? ff_vma_query_text(maps_fd, addr, out) : err;
}

/*
 * All mappings from the lowest on, until fn() says that it has enough. 0, or -errno: they cannot be found out. What
 * is mapped meanwhile may be missing. maps_fd as with ff_vma_query().
 */
static inline int ff_vma_each(int maps_fd, ff_vma_fn *fn, void *arg)
{
	struct ff_vma v = { 0 };
	uint64_t at = 0;
	int err;

	while (!(err = ff_vma_ask(maps_fd, at, &v))) {
		if (v.end <= at) /* no /proc/<pid>/maps says so */
			return -EPROTO;
		at = v.end;
		if (!fn(arg, &v))
			return 0;
	}
	if (err == -ENOTTY)
		return ff_vma_each_text(maps_fd, fn, arg);
	return err == -ENOENT ? 0 : err;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mm.h - mmap() and its like as plain system calls. For all of ffl, on any thread.
 *
 * UCX, Open MPI and others patch these functions of libc in the running program, to learn which
 * addresses no longer have the pages that were registered. What ffl maps and moves is none of that:
 * what a program sees at its addresses stays. The patches call code of others, which must not run
 * with ffl's locks held (window.c), and UCX's mremap() drops the address of MREMAP_FIXED.
 */
#ifndef FFL_SESSION_MM_H
#define FFL_SESSION_MM_H

#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of newer kernels, or not in musl's headers. */
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef UFFD_FEATURE_MINOR_SHMEM
#define UFFD_FEATURE_MINOR_SHMEM   (1 << 10)
#define UFFDIO_REGISTER_MODE_MINOR ((__u64)1 << 2)
#endif

static inline void *mm_map(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, offset);
}

static inline int mm_unmap(void *addr, size_t len)
{
	return (int)syscall(SYS_munmap, addr, len);
}

/* to: for MREMAP_FIXED and MREMAP_DONTUNMAP, else NULL */
static inline void *mm_remap(void *addr, size_t len, size_t new_len, int flags, void *to)
{
	return (void *)syscall(SYS_mremap, addr, len, new_len, flags, to);
}

static inline int mm_protect(void *addr, size_t len, int prot)
{
	return (int)syscall(SYS_mprotect, addr, len, prot);
}

/* ioctl() itself is this library's, too, and takes the region lock for this (mem/libc.c). */
static inline int mm_uffd_register(int uffd, void *addr, size_t len, uint64_t mode)
{
	struct uffdio_register r = { .range = { (uintptr_t)addr, len }, .mode = mode };

	return (int)syscall(SYS_ioctl, uffd, UFFDIO_REGISTER, &r);
}

static inline int mm_advise(void *addr, size_t len, int advice)
{
	return (int)syscall(SYS_madvise, addr, len, advice);
}

#endif

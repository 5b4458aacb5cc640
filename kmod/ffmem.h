/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ffmem.h - the calls of /dev/ffmem. The router includes this file, the module ffmem.ko answers.
 *
 * With ffmem a router maps pages of a container's process into its own address space, and the
 * application's mapping stays what it is. The words:
 *
 *   process	a process that the router may map from, after FFMEM_ATTACH
 *   object	a range of a process's addresses, after FFMEM_MAP; mmap() at its offset shows it
 *
 * Who may: the file answers only in the address space that said FFMEM_HELLO; a child or a process
 * that was passed the descriptor gets EPERM. A process is named by a pidfd, and its consent is a
 * descriptor of its own /proc/self/mem, which it opened and passed: the kernel's check at that
 * open() is the permission, and ffmem adds no right to it, for its holder may read and write the
 * same memory by pread() and pwrite(). Without that descriptor the caller needs CAP_SYS_PTRACE in
 * the process's user namespace. The address space that the pidfd leads to must be that of the
 * descriptor; after execve() it no longer is. ffmem never forces: what the process may not write,
 * the router can't write (EFAULT, or SIGBUS at an access).
 *
 * A router can't be a process of another router, nor of itself (EDEADLK), so that no two of them
 * wait for each other's mmap_lock.
 *
 * Objects, two kinds:
 *   pinned (FFMEM_PINNED)	The pages are pinned while the object lives and counted in the process's
 *		VmPin against its RLIMIT_MEMLOCK (ENOMEM). What the application unmaps or replaces later
 *		stays what it was in the router's view, as for a memory region of a NIC without ODP.
 *		A writable shared mapping of a file is refused (EOPNOTSUPP) unless it is of tmpfs or
 *		hugetlbfs: pages of other file systems must be told of each write.
 *	mirrored	No page is held. The router's view follows the process's page tables: an
 *		invalidation there takes the page out of the router's view before it takes effect, and
 *		the next access faults it in again. A region that is sparse costs what is touched.
 *
 * An access never waits for user space, unless that was asked for. It brings a page in that is there
 * or that the kernel alone can bring: of swap, of a move in memory, of a file on a block device. It waits
 * at most the module parameter fault_wait_us (1000) for the process's mmap_lock, which the process
 * holds in mmap(), fork() and the like. What would take longer, or would wait for a userfaultfd or a
 * file system that is no block device's (FUSE, a network's), ends in SIGBUS (EFAULT in a system call),
 * and so does what isn't mapped or may not be written. After a SIGBUS, FFMEM_POPULATE on a worker
 * waits instead, or tells what is wrong; a signal ends its wait. An object with FFMEM_WAIT waits in the
 * access itself; a signal ends that, too, and its handler runs. No wait but that of fault_wait_us holds
 * the router's mmap_lock. With FFMEM_NOWAIT there is no wait at all, nor one for swap or a disk: what the
 * process does to its mappings never delays the router, which gets a SIGBUS and has other ways to the page.
 *
 * The router's view of an object with FFMEM_PAGES has pages that the kernel can take once more, as those of the
 * router's own: for O_DIRECT, and for ibv_reg_mr() with IBV_ACCESS_ON_DEMAND, whose device is told of invalidations
 * like the router. Only pages of shared memory (tmpfs, memfd, System V) can be shown so. All others, which a process
 * has where it maps something else there, aren't in the view: SIGBUS.
 *
 * The end: when the process ends or execs, its objects are dead: every page leaves the router's
 * view, pins are let go, accesses give SIGBUS and calls ESRCH; the numbers stay taken until
 * FFMEM_UNMAP and FFMEM_DETACH, or close(). When the router ends, all that it had ends.
 *
 * All fields are in host order; fields named reserved and undefined flags must be zero (EINVAL).
 */
#ifndef FFMEM_H
#define FFMEM_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Raised with any change that an older module or router would misunderstand. */
#define FFMEM_VERSION 3

/*
 * The first call, once for each open(). Another version: EPROTO, with the module's in version and
 * nothing else done; the module's log has a line. Any other call before it: ENOTCONN.
 */
struct ffmem_hello {
	__u32 version;		/* in: FFMEM_VERSION of the router; out: of the module */
	__u32 page_size;	/* out: bytes */
	__u32 max_processes;	/* out: for this file */
	__u32 max_objects;	/* out: for this file */
	__u64 max_bytes;	/* out: sum of the lengths of all objects of this file */
	__u64 max_pinned_bytes; /* out: of those, pinned */
};

/*
 * EBADF: not a pidfd, or not a /proc/PID/mem; ESRCH: the process has ended or they aren't of the
 * same address space; EPERM: no consent and no capability; EDEADLK: it is a router; ENOSPC.
 */
struct ffmem_attach {
	__s32 pidfd;
	__s32 mem_fd; /* /proc/PID/mem, open for reading, and for writing if FFMEM_WRITE will be; -1: none */
	__u32 reserved; /* 0 */
	__u32 process;	/* out */
};

/* EBUSY: objects of it are left. */
struct ffmem_detach {
	__u32 process;
	__u32 reserved;
};

enum ffmem_map_flags {
	FFMEM_WRITE = 1 << 0,  /* the router may write; else its view is read-only */
	FFMEM_PINNED = 1 << 1, /* pinned, otherwise mirrored */
	FFMEM_WAIT = 1 << 2,   /* mirrored: accesses wait where they must, instead of SIGBUS */
	/* mirrored: accesses don't wait for the process's mmap_lock or swap either */
	FFMEM_NOWAIT = 1 << 3,
	FFMEM_PAGES = 1 << 4, /* mirrored: shared memory only, for devices that page on demand */
};

/*
 * Any address and length; the object has the whole pages that they touch. mmap() the device with
 * MAP_SHARED at offset, or at any page in it, for a part, as often as wanted, MAP_FIXED or not.
 * Its first page has the byte at address at address % page_size.
 *
 * EINVAL: a length of 0, FFMEM_WAIT with FFMEM_NOWAIT, FFMEM_PAGES with FFMEM_PINNED, or a range that wraps or isn't
 * user space; EFAULT: pinned, and something isn't mapped, or isn't writable; ENOMEM: over RLIMIT_MEMLOCK; ENOSPC:
 * over this file's limits.
 */
struct ffmem_map {
	__u32 process;
	__u32 flags;
	__u64 address; /* in the process */
	__u64 length;  /* bytes, at most 2^48; ~0: up to there, or to the end of user space */
	__u32 object;  /* out */
	__u32 reserved;
	__u64 offset; /* out: for mmap() */
};

/* The pages leave the router's view at once, mappings of it or not; munmap() them at leisure. */
struct ffmem_unmap {
	__u32 object;
	__u32 reserved;
};

enum ffmem_populate_flags {
	FFMEM_POPULATE_WRITE = 1 << 0,	/* ready for writing: breaks copy-on-write in the process */
	FFMEM_POPULATE_NOWAIT = 1 << 1, /* EAGAIN where it would wait */
};

/*
 * Brings pages into the router's view, for accesses that then don't fault, unless an invalidation
 * comes between. Ends at the first page that can't be had; done says how far it came, also with an
 * error. EFAULT: not mapped there; EINTR; EAGAIN; ESRCH: dead.
 */
struct ffmem_populate {
	__u64 address; /* in the router, in a mapping of this file; whole pages are taken */
	__u64 length;  /* bytes */
	__u32 flags;
	__u32 reserved;
	__u64 done; /* out: bytes from the start of address's page */
};

/* Counts since FFMEM_MAP; times are sums of nanoseconds. */
struct ffmem_stat {
	__u32 object;
	__u32 dead;	     /* out: 1 once its process has ended */
	__u64 faults;	     /* out: accesses of the router that faulted */
	__u64 fault_pages;   /* out: pages that they brought in, with those around them */
	__u64 fault_ns;	     /* out */
	__u64 failed_faults; /* out: those that ended in SIGBUS */
	__u64 invalidations; /* out: the kernel's calls that met pages of the object's range */
	__u64 invalidate_ns; /* out */
	__u64 prefetched;    /* out: pages that FFMEM_POPULATE brought in */
	__u64 populate_ns;   /* out */
	__u64 pinned;	     /* out: pages pinned now */
	__u64 reserved[2];   /* out: 0 */
};

/*
 * An eventfd that counts up with each invalidation that took pages from the router's view, and with
 * each death. -1: none any more.
 */
struct ffmem_event {
	__s32 eventfd;
	__u32 reserved;
};

#define FFMEM_IOC      0xf7
#define FFMEM_HELLO    _IOWR(FFMEM_IOC, 0, struct ffmem_hello)
#define FFMEM_ATTACH   _IOWR(FFMEM_IOC, 1, struct ffmem_attach)
#define FFMEM_DETACH   _IOW(FFMEM_IOC, 2, struct ffmem_detach)
#define FFMEM_MAP      _IOWR(FFMEM_IOC, 3, struct ffmem_map)
#define FFMEM_UNMAP    _IOW(FFMEM_IOC, 4, struct ffmem_unmap)
#define FFMEM_POPULATE _IOWR(FFMEM_IOC, 5, struct ffmem_populate)
#define FFMEM_STAT     _IOWR(FFMEM_IOC, 6, struct ffmem_stat)
#define FFMEM_EVENT    _IOW(FFMEM_IOC, 7, struct ffmem_event)

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * region.h - shadow memory inside the process: region.c, malloc.c and fork.c among
 * themselves, and what mr.c calls. Everything needs the region lock held that does not say
 * otherwise. Lengths and offsets are in bytes and multiples of FF_PAGE.
 *
 * The room ffl/mem/ is registration and what becomes of the program's memory for it: shadow
 * pages, windows of them, allocators, fork. It may use session/.
 */
#ifndef FFL_MEM_REGION_H
#define FFL_MEM_REGION_H

#include <sys/mman.h>

#include "ffr/abi/ff_proto.h"
#include "ffr/abi/ff_vma.h"
#include "ffl/mem/attr.h"
#include "ffl/mem/plan.h"
#include "ffl/session/ffl.h"

#define PAGE_DOWN(x) ((x) & ~(uintptr_t)(FF_PAGE - 1))
#define PAGE_UP(x)   (((x) + FF_PAGE - 1) & ~(uintptr_t)(FF_PAGE - 1))

/* ---- lock.c ------------------------------------------------------------------------------- */

/*
 * Is the router to be asked again? It maps no pages for a container that has kept it waiting (-EINPROGRESS), and where
 * there is a NIC nothing else will do. Returns true after a pause.
 */
static inline bool ffl_map_again(int err)
{
	const struct timespec pause = { .tv_nsec = 10000000 };

	if (err != -EINPROGRESS)
		return false;
	nanosleep(&pause, NULL);
	return true;
}

/*
 * The region lock: outermost of this library's locks, held across fork (fork.c). All signals are
 * blocked while it is held: a handler may not touch pages that are just being swapped, and may
 * call fork().
 */
void ffl_regions_lock(void);
void ffl_regions_unlock(void);
/*
 * As ffl_regions_lock(), for who may have interrupted a thread that the lock's holder waits for. False:
 * not in 2 s, and nothing is locked.
 */
bool ffl_regions_lock_soon(void);
/* False: another thread has the lock, and nothing is locked. */
bool ffl_regions_trylock(void);
/* Threads that wait for the lock get it before the caller, who is about to take it again. */
void ffl_regions_pass(void);
void ffl_regions_lock_forget(void); /* in a child, with the lock held: nobody waits for it there */

/* ---- region.c: the files of shadow pages, and who has what of the program's memory ------- */

/*
 * The file of a context's shadow pages. Files of contexts that were closed are kept as well, because
 * the program goes on having their pages.
 */
struct ffl_file {
	int fd;
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	struct ffl_context *ctx; /* NULL: closed */
	bool has_others; /* bytes that no MR has may be on its pages: the program needs them, always */
};

/* A part of the program's memory that is shadow pages, as fork's prepare handler found it. */
struct ffl_part {
	uintptr_t va;
	size_t len;
	uint64_t off; /* in the file */
	uint32_t file;
	uint8_t prot;  /* PROT_* */
	bool is_there; /* in the child: it has been copied */
};

/*
 * An MR that was registered with pages of which some may be replaced when they are used (heat.c).
 * They have one place in the file, so that what is next to each other in the MR is in the
 * router's mapping as well.
 */
struct ffl_lazy {
	struct ffl_lazy *next;
	struct ffl_mr *mr;
	uintptr_t from, to; /* its whole pages */
	bool busy;	    /* the last part had pages that the kernel, or a device, writes to */
	bool never;	    /* a part had attributes that shadow pages cannot have */
	bool placed;	    /* `off` is the place of `from` */
	uint32_t closed;    /* ffl_track_closed() before the router was told */
	struct ffl_context *was; /* the MR's, which has gone */
	uint64_t off;
	struct ffl_attr attr; /* of the last part that was replaced, and so perhaps of the next one */
	enum ff_why why; /* what was to be replaced last was not, for the most part; UNUSED: it was */
};

/* PROT_* */
static inline int ffl_vma_prot(const struct ff_vma *v)
{
	return (v->flags & FF_VMA_READ ? PROT_READ : 0) |
	       (v->flags & FF_VMA_WRITE ? PROT_WRITE : 0) |
	       (v->flags & FF_VMA_EXEC ? PROT_EXEC : 0);
}

/*
 * Room in an array, of *max elements of that size so far, for one more than `num`. Such arrays are outside of the
 * program's heap, which may itself be registered. 0 or -ENOMEM.
 */
int ffl_pages_grow(void **array, uint32_t num, uint32_t *max, size_t size);

/* No lock. A context is opened. */
void ffl_regions_add(struct ffl_context *ctx);
/*
 * A context ends. Its shadow pages stay the program's memory, and their file stays
 * open, because fork.c copies from it.
 */
void ffl_regions_remove(struct ffl_context *ctx);

/* A place in a file for new shadow pages. */
struct ffl_place {
	uint64_t span; /* bytes of the region; 0: it is there, and these pages are to be at `off` */
	uint64_t off;
	int fd; /* the file's */
};

/*
 * `len` bytes of new shadow pages of the context, mapped and present, readable and writable, which the
 * router is told of; never in the program's children. place->span and off: where they are wanted; at
 * last where they are. NULL: errno.
 */
char *ffl_regions_place(struct ffl_context *ctx, size_t len, struct ffl_place *place);
/* They were not used. */
void ffl_regions_unplace(struct ffl_context *ctx, char *home, size_t len);
/* Is there what replacing pages of the program by shadow pages needs? */
bool ffl_regions_can_replace(const struct ffl_context *ctx);
/* Is this mapping shadow pages of the context? */
bool ffl_regions_is_of(const struct ffl_context *ctx, const struct ff_vma *v);
/* An open /proc/self/maps, which stays here, or -1. */
int ffl_regions_maps(void);
/*
 * `len` bytes of shadow pages, present, readable and writable, somewhere. NULL: errno. munmap()
 * gives them back.
 */
char *ffl_regions_map(struct ffl_context *ctx, size_t len);

/* MRs whose runs the router is about to be told of: no shadow page may become anything else meanwhile. No lock. */
extern _Atomic uint32_t ffl_untold;

/* For private.c: whose pages these are; NULL: of no file, or its descriptor was closed. */
const struct ffl_file *ffl_regions_file_of(const struct ff_vma *v);
/* The first of the open contexts; ffl_context.next_regions leads to the others. */
struct ffl_context *ffl_regions_contexts(void);

/*
 * For fork.c: what of the program's memory is shadow pages now. The number of parts; they are
 * this file's.
 */
unsigned ffl_regions_look(struct ffl_part **first);
const struct ffl_file *ffl_regions_file(uint32_t i);
/* In a child: async-signal-safe, needs no lock. `fds_too`: the descriptors are not its parent's, too. */
void ffl_regions_forget(bool fds_too);

/* No lock. Has this process ever had shadow pages? */
bool ffl_regions_any(void);
/* No lock. Is this mapping shadow pages? */
bool ffl_regions_has(const struct ff_vma *v);

/* ---- kind.c, and apply.c ----------------------------------------------------------------- */

/* The largest inaccessible mapping that counts as the guard of a thread's stack, bytes. */
#define FFL_GUARD_MAX ((uint64_t)1 << 20)

/* A context begins: no lock. */
void ffl_kind_init(struct ffl_context *ctx);

/*
 * [region lock] Of pages [va, end) of private mapping v, whose rights allow to replace them. `whole`: they may have
 * bytes that are no MR's. maps is an open /proc/self/maps.
 */
enum ffl_use ffl_kind_of(const struct ff_vma *v, uintptr_t va, uintptr_t end, bool whole, int maps);

/* May this thread touch [va, end) in a window? */
bool ffl_is_own(uintptr_t va, uintptr_t end);

/*
 * Make [addr, addr + len) ready, with these IBV_ACCESS_*, and describe what the router has a pointer to in
 * run[FF_MR_MAX_RUNS]. The number of runs; what they leave out is reached through /proc. -EFAULT: there is a
 * hole, or a mapping that lacks the right to be read, or to be written where the access wants that. Of
 * on-demand memory a hole is no error. *why: the reason of most bytes that get no run, UNUSED if all
 * do; *unused: bytes of whole pages that get none, but might be replaced later.
 */
int ffl_apply_mr(struct ffl_context *ctx, uintptr_t addr, size_t len, int access,
		 enum ffl_when when, enum ff_why *why, uint64_t *unused, struct ff_mr_run *run);
/*
 * The same for the whole pages [from, to) of a lazy MR, which has no run for them yet, and at most so many
 * runs. Shared memory that is not this context's gets no run. Sets lazy->why.
 */
int ffl_apply_part(struct ffl_lazy *lazy, uintptr_t from, uintptr_t to, struct ff_mr_run *run,
		   unsigned max);

/* Append a run to the first *num, which it may continue. */
void ffl_apply_append(struct ff_mr_run *run, unsigned *num, const struct ff_mr_run *r);

/* ---- fork.c: no lock --------------------------------------------------------------------- */

/*
 * What fork()'s handlers do, around a system call that makes a child with a copy of this process's
 * memory, on that stack (NULL: this one). False: nothing is to be done, or the lock is not to be had,
 * and no other of these is to be called.
 */
bool ffl_fork_begin(const char *stack);
/* `pid`: what the call has returned. */
void ffl_fork_parent(pid_t pid);
void ffl_fork_child(bool shares_fds);

/* ---- mr.c: no lock ----------------------------------------------------------------------- */

/* May an MR have some of [from, to), or get it just now? */
bool ffl_mr_covers(uintptr_t from, uintptr_t to);

/* ---- private.c: no lock ------------------------------------------------------------------ */

/* Are there shadow pages in [addr, addr + len)? */
bool ffl_private_has(uintptr_t addr, size_t len);
/*
 * Private memory with the same content takes their place; MRs are copied from and to there. 0 or
 * -errno; then some of them may have been replaced. -EBUSY: not now.
 */
int ffl_private_make(uintptr_t addr, size_t len);

/* ---- heat.c: pages that are replaced when they are used ---------------------------------- */

/* When are pages of MRs that have so many of them, and that access, replaced? Bytes. */
enum ffl_when ffl_heat_when(struct ffl_context *ctx, size_t len, int access);
/* Can they be replaced when they are used? Starts the thread. */
bool ffl_heat_start(struct ffl_context *ctx);
/*
 * No lock. The MR has pages to be replaced later, from now on; it is registered. `tracked`: its
 * pages were, when the router was asked (track.c). NULL: does nothing.
 */
void ffl_heat_add(struct ffl_lazy *lazy, bool tracked);
/* No lock. The MR has no such pages any more. It may be added again. NULL: does nothing. */
void ffl_heat_remove(struct ffl_lazy *lazy);
/*
 * No lock, and does not wait for one. The MR was removed, and has gone: its pages stay tracked for some time only.
 * Takes lazy; NULL: does nothing.
 */
void ffl_heat_leave(struct ffl_lazy *lazy);
/* What other MRs have of [from, to) to be replaced later is replaced now. */
void ffl_heat_replace(uintptr_t from, uintptr_t to);
/*
 * No lock. The program wants its own userfaultfd for [from, to): they are not tracked any more, and copies
 * follow the address. False: they were not, as far as is known.
 */
bool ffl_heat_release(uintptr_t from, uintptr_t to);
/* No lock; the context goes. */
void ffl_heat_stop(struct ffl_context *ctx);
void ffl_heat_forget(void); /* in a child: async-signal-safe, needs no lock */

/* ---- filter.c: filters of system calls that the program installs -------------------------- */

/*
 * Who makes system calls of which the program knows nothing is inside the gate meanwhile. False: the program has
 * installed a filter, and none may be made but read(2).
 */
bool ffl_gate_enter(void);
void ffl_gate_leave(void);
void ffl_gate_init(void); /* before a thread is started that enters it */
/* syscall(SYS_seccomp, op, flags, arg), and what it returns when the kernel says -errno. */
long ffl_filter_seccomp(long nr, unsigned long op, unsigned long flags, void *arg);
long ffl_filter_failed(long err);

/* ---- malloc.c ---------------------------------------------------------------------------- */

void ffl_malloc_forget(struct ffl_context *ctx); /* the context goes; NULL: all (in a child) */

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * memory.h - what memory.c and memory_*.c share: the memory that a case is about, the words that it
 * writes down, the device that registers the memory, and the tables of kinds and operations.
 *
 * A case is one kind of mapping, one operation and one time. The memory is four quarters. In each
 * quarter, page 0 is written by the program at each look, to see whether it may, page 1 by the
 * second thread only, and page 2 by RDMA only. The pages from 3 on hold what the operations are
 * judged by. Most operations act on the middle, which is quarters 1 and 2.
 *
 * Words never depend on addresses or on timing.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include <errno.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define PAGE	      ((size_t)4096)
#define TOUCH_PAGE    0u
#define THREAD_PAGE   1u
#define RDMA_PAGE     2u
#define FIRST_PAGE    3u /* of those that operations are judged by */

/* Far from where the kernel puts mappings by itself, and far from each other. */
#define AREA_AT	 ((uint8_t *)0x200000000000)
#define MOVED_AT ((uint8_t *)0x210000000000)
#define OTHER_AT ((uint8_t *)0x220000000000)

/* ---- the memory of a case: memory_kinds.c ---------------------------------------------------- */

/* What a page is filled with. Each 8-byte word tells the content and the number of the page. */
enum content { ZERO, OLD, NEW, RDMA, CHILD, KERNEL, NUM_CONTENTS };

struct area {
	const struct kind *kind;
	uint8_t *p;	/* where the memory was registered */
	size_t len;	/* bytes */
	size_t q;	/* bytes of a quarter */
	int fd;		/* of the file that is mapped, or -1 */
	uint8_t *moved; /* where an operation has put a part of it, or NULL */
	size_t moved_len;
	unsigned moved_page; /* the number that the first moved page had */
	bool dropped;	     /* MADV_FREE: the middle may be zero at any time */
};

struct kind {
	const char *name;
	/*
	 * Maps the memory, or takes `room`, which the caller has on its stack. False: not
	 * available.
	 */
	bool (*make)(struct area *a, uint8_t *room);
	size_t len;   /* bytes */
	size_t align; /* bytes, of what operations may act on */
	bool has_fd;
	size_t inset; /* bytes at each end that are not registered */
	/* Without remote atomics, large memory is not replaced when it is registered. */
	bool no_atomics;
	bool used; /* much, after it is registered, so that it is replaced then */
};
extern const struct kind kinds[];
extern const unsigned num_kinds;
#define STACK_ROOM ((size_t)256 << 10)

void fill(void *page, enum content what, unsigned number);
/* Pages from FIRST_PAGE on of quarters [from, to). */
void fill_quarters(const struct area *a, unsigned from, unsigned to, enum content what);
/* "old", "zero" or "other"; "signal" words if the page cannot be read. */
const char *content_of(const void *page, unsigned number);
/* Without access to the page by the program: a copy of one. */
const char *content_of_copy(const void *page, unsigned number);
/* The middle, and the part of quarter 1 that data is sent from and received into. */
#define MIDDLE(a)     ((a)->p + (a)->q)
#define MIDDLE_LEN(a) (2 * (a)->q)
#define IO(a)	      ((a)->p + (a)->q + FIRST_PAGE * PAGE)
#define IO_LEN	      (8 * PAGE)

/* Runs `expr`; the signal that it got, or 0. */
#define CAUGHT(expr)                                                                               \
	({                                                                                         \
		sigjmp_buf jump_;                                                                  \
		sigjmp_buf *before_ = catcher;                                                     \
		int sig_ = sigsetjmp(jump_, 1);                                                    \
		if (!sig_) {                                                                       \
			catcher = &jump_;                                                          \
			__asm__ volatile("" : : : "memory"); /* expr stays between */              \
			expr;                                                                      \
			__asm__ volatile("" : : : "memory");                                       \
		}                                                                                  \
		catcher = before_;                                                                 \
		sig_;                                                                              \
	})
extern __thread sigjmp_buf *catcher;
void catch_signals(void);

/*
 * Says what the program sees: contents, "a+b" where pages differ; with `all` also rights and flags,
 * and what may be written.
 */
void look(const struct area *a, const char *word, bool all);

/* ---- the words of a case: memory.c ----------------------------------------------------------- */

#define WORDS_MAX 4096
/* Shared with the case's process and its children. */
struct words {
	char program[WORDS_MAX], rdma[WORDS_MAX];
	bool wants_core;
};
extern struct words *words;
/* Both write to memory that the case's children share. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void say_rdma(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* "ok" or "EINVAL"; `ret` is -1, or MAP_FAILED, with errno set. Returns whether it is "ok". */
bool say_ret(const char *what, intptr_t ret);
/* Four words; if they are the same, one. */
void say_four(void (*to)(const char *fmt, ...), const char *what, const char *const word[4]);
const char *err_name(int err);
/* The child's end: says nothing if it ended with status 0. */
void say_end(const char *what, pid_t pid);
/* A folder for files of the case, on a disk where there is one. */
extern const char *case_dir;
/* Operations are called by bare system calls, not by libc. */
extern bool bare;

/* ---- devices: memory_dev.c, memory_pin.c ----------------------------------------------------- */

struct device {
	const char *name;
	const char *(*open)(void);		       /* "ok", or why there is no device */
	int (*reg)(void *p, size_t len, bool atomics); /* 0 or errno */
	int (*dereg)(void);
	/*
	 * Moves a page between `page` and the memory at `off`, as it was registered: "ok" or the
	 * status.
	 */
	const char *(*write)(size_t off, const void *page);
	const char *(*read)(size_t off, void *page);
};
extern const struct device dev_verbs, dev_pin;
extern const struct device *dev; /* the one in use; NULL: mode none */

/* A ring of io_uring: memory_uring.c */
struct uring {
	int fd;
	unsigned *sq_tail, *sq_mask, *cq_head, *cq_tail, *cq_mask, *sq_array;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
};
int uring_open(struct uring *r); /* 0 or errno */
void uring_close(struct uring *r);
int uring_register(struct uring *r, void *p, size_t len); /* buffer 0: 0 or errno */
int uring_unregister(struct uring *r);
/* One IORING_OP_* to its end: bytes or -errno. */
int uring_rw(struct uring *r, int op, int fd, void *p, unsigned len, uint64_t off);

/* ---- operations: memory_map.c, memory_proc.c, memory_io.c, memory_uffd.c --------------------- */

enum {
	NEEDS_FD = 1,  /* the memory is of a file that the program has */
	AGAIN = 2,     /* may be repeated: has a case "race", in which another thread registers */
	FINAL = 4,     /* the case's process ends in it */
	ONE_KIND = 8,  /* by default, of the first kind and during registration only */
	IF_NAMED = 16, /* only if somebody chose the cases */
};

struct op {
	const char *name;
	void (*run)(struct area *a, int arg);
	int arg;
	unsigned flags;
	/*
	 * The second half, if there is one: after ibv_dereg_mr(), when other memory is registered.
	 */
	void (*late)(struct area *a, int arg);
};
extern const struct op ops_map[], ops_proc[], ops_io[], ops_uffd[];
/* A table ends with an operation without a name. */
#define OPS(table, ...) const struct op table[] = { __VA_ARGS__, { 0 } };

/* The pages that data is sent from and received into, IO(a), or a copy of them. */
void fill_io(uint8_t *buf, const struct area *a, enum content what);
const char *io_content(const uint8_t *buf, const struct area *a);

/* ---- cases: memory_case.c -------------------------------------------------------------------- */

enum when { BEFORE, DURING, AFTER, FLIGHT, THREADS, RACE, NUM_WHEN };

struct one {
	const struct kind *kind;
	const struct op *op;
	enum when when;
	char name[96];
};

/*
 * The whole of a case. `room` is STACK_ROOM and four pages on the caller's stack, for the kind that
 * needs it.
 */
void run_body(const struct one *c, uint8_t *room);

/* What the parent adds when the case's process has ended: of the core file in case_dir. */
void say_core(void);

/* ---- system calls, by libc or bare ----------------------------------------------------------- */

static inline int m_madvise(void *p, size_t len, int advice)
{
	return bare ? (int)syscall(SYS_madvise, p, len, advice) : madvise(p, len, advice);
}

static inline int m_mprotect(void *p, size_t len, int prot)
{
	return bare ? (int)syscall(SYS_mprotect, p, len, prot) : mprotect(p, len, prot);
}

static inline int m_munmap(void *p, size_t len)
{
	return bare ? (int)syscall(SYS_munmap, p, len) : munmap(p, len);
}

static inline void *m_mmap(void *p, size_t len, int prot, int flags, int fd, off_t off)
{
	return bare ? (void *)syscall(SYS_mmap, p, len, prot, flags, fd, off) :
		      mmap(p, len, prot, flags, fd, off);
}

static inline void *m_mremap(void *p, size_t len, size_t now, int flags, void *to)
{
	return bare ? (void *)syscall(SYS_mremap, p, len, now, flags, to) :
		      mremap(p, len, now, flags, to);
}

#endif

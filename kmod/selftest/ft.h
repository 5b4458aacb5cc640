/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ft.h - what the self-test's files share: an owner, a process that does what it is told and whose
 * memory is mapped, and a router, which is the test itself.
 */
#ifndef FT_H
#define FT_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#include "../ffmem.h"
#include "check.h"

#define PAGE	  ((size_t)getpagesize())
#define PAGE_MOST 65536UL /* of any kernel */

/* ---- the owner (owner.c) ------------------------------------------------------------------------- */

struct owner {
	pid_t pid;
	int pidfd, mem_fd; /* mem_fd as the owner opened and passed it */
	int ch;
};

enum owner_op {
	OWN_SYSCALL, /* a system call; its value, or -errno */
	OWN_FILL,    /* address, length, seed */
	OWN_VERIFY,  /* address, length, seed: bytes that differ */
	OWN_MALLOC,  /* length */
	OWN_PLACE,   /* 0: stack, 1: data, 2: constants, 3: bss; addresses of 3 pages' bytes */
	OWN_FORK,    /* a child stays until OWN_REAP, which has it verify: its bytes that differ */
	OWN_REAP,    /* address, length, seed */
	OWN_EXEC,
	OWN_CHURN, /* address, length, ms, enum churn: threads that unsettle the range */
	OWN_UFFD,  /* address, length: misses there wait */
	OWN_COPY,  /* address, seed: ends the wait for this page */
};

enum churn {
	CHURN_FORK = 1,
	CHURN_PAGEOUT = 2,
	CHURN_PROTECT = 4,
	CHURN_DISCARD = 8,
	CHURN_REMAP = 16,
	CHURN_COUNT = 32, /* a thread of the owner counts up its word of each page */
};

/* Where the words of a page stand that are counted up: one for the owner, then the router's threads. */
#define WORD_OWNER  0
#define WORD_ROUTER 1

void owner_start(struct owner *o);
void owner_stop(struct owner *o);
long own(struct owner *o, enum owner_op op, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
long own_sys(struct owner *o, long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
	     uint64_t f);
void own_send(struct owner *o, enum owner_op op, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
long own_wait(struct owner *o);
uint64_t own_mmap(struct owner *o, uint64_t length, int prot, int flags, const char *path);
/* A number of /proc/PID/status, kB; -1 if the process has no such line. */
long own_status(struct owner *o, const char *word);

uint8_t ft_byte(uint64_t seed, uint64_t i);
void ft_fill(void *p, uint64_t n, uint64_t seed);
uint64_t ft_differ(const void *p, uint64_t n, uint64_t seed);

/* ---- the router (router.c) ----------------------------------------------------------------------- */

int ft_open(void); /* the device, as FFMEM_HELLO left it */
extern int ft_fd;  /* opened once for the process */

long ft_attach(int fd, int pidfd, int mem_fd, uint32_t *process);
long ft_detach(int fd, uint32_t process);
struct view {
	uint32_t object, process;
	uint64_t offset; /* for mmap() */
	uint8_t *base;	 /* the mapping */
	uint8_t *p;	 /* the owner's first byte in it */
	uint64_t length; /* of the mapping */
};
long ft_map(int fd, uint32_t process, uint64_t address, uint64_t length, uint32_t flags,
	    struct view *v);
long ft_show(int fd, uint64_t length, uint32_t flags, struct view *v); /* mmap() */
long ft_unmap(int fd, uint32_t object);
/* Maps and shows, or fails the test; view_end() takes both away. */
void view_make(struct view *v, struct owner *o, uint64_t address, uint64_t length, uint32_t flags);
void view_end(struct view *v);
void view_stat(struct view *v, struct ffmem_stat *s);
long ft_populate(int fd, void *p, uint64_t length, uint32_t flags, uint64_t *done);

/* Whether an access gave SIGBUS; reads a byte, or writes it back. */
bool ft_sigbus(volatile uint8_t *p, bool write);
/* 0 or -EFAULT: as an access by the kernel for a system call. */
void ft_signals(void);
extern __thread sigjmp_buf *ft_bus;

/* ---- the cases ----------------------------------------------------------------------------------- */

void test_calls(void);
void test_kinds(void);
void test_follow(void);
void test_ends(void);
void test_waits(void);
void test_traffic(void);
void test_fuzz(void);
void test_load(const char *module);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* memory_kinds.c - the kinds of mappings, their contents, and what a program sees of them. */
#include "tests/conformance/memory.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* ---- contents -------------------------------------------------------------------------------- */

static const char *const content_names[NUM_CONTENTS] = { "zero", "old",	  "new",
							 "rdma", "child", "kernel" };

static uint64_t word_of(enum content what, unsigned number)
{
	return what == ZERO ? 0 : 0x6d656d0000000000u | (uint64_t)what << 32 | number;
}

void fill(void *page, enum content what, unsigned number)
{
	uint64_t *w = page, v = word_of(what, number);

	for (size_t i = 0; i < PAGE / sizeof(*w); i++)
		w[i] = v;
}

void fill_quarters(const struct area *a, unsigned from, unsigned to, enum content what)
{
	unsigned per = (unsigned)(a->q / PAGE);

	for (unsigned i = from * per; i < to * per; i++)
		if (i % per >= FIRST_PAGE)
			fill(a->p + i * PAGE, what, i);
}

const char *content_of_copy(const void *page, unsigned number)
{
	const uint64_t *w = page;
	uint64_t v = w[0];

	for (size_t i = 1; i < PAGE / sizeof(*w); i++)
		if (w[i] != v)
			return "other";
	for (unsigned c = 0; c < NUM_CONTENTS; c++) {
		if (v == word_of((enum content)c, number))
			return content_names[c];
		if (c != ZERO && v >> 32 == word_of((enum content)c, 0) >> 32)
			return "misplaced";
	}
	return "other";
}

__thread sigjmp_buf *catcher;

static void on_signal(int sig)
{
	if (catcher)
		siglongjmp(*catcher, sig);
	signal(sig, SIG_DFL); /* the instruction runs again, and ends the process */
}

void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
}

static const char *signal_word(int sig)
{
	return sig == SIGSEGV ? "SIGSEGV" : sig == SIGBUS ? "SIGBUS" : "signal";
}

const char *content_of(const void *page, unsigned number)
{
	const char *volatile word = "?";
	int sig = CAUGHT(word = content_of_copy(page, number));

	return sig ? signal_word(sig) : word;
}

void fill_io(uint8_t *buf, const struct area *a, enum content what)
{
	for (unsigned i = 0; i < IO_LEN / PAGE; i++)
		fill(buf + i * PAGE, what, (unsigned)(a->q / PAGE) + FIRST_PAGE + i);
}

const char *io_content(const uint8_t *buf, const struct area *a)
{
	const char *first = NULL;

	for (unsigned i = 0; i < IO_LEN / PAGE; i++) {
		const char *word =
			content_of(buf + i * PAGE, (unsigned)(a->q / PAGE) + FIRST_PAGE + i);

		if (first && strcmp(first, word))
			return "mixed";
		first = word;
	}
	return first;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

#define SMALL ((size_t)256 << 10)
#define LARGE ((size_t)2 << 20)

static bool map_at_area(struct area *a, int flags, int fd)
{
	a->fd = fd;
	a->p = mmap(AREA_AT, a->len, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, fd, 0);
	return a->p == AREA_AT;
}

static bool make_anon(struct area *a, uint8_t *room)
{
	(void)room;
	return map_at_area(a, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static bool make_shared(struct area *a, uint8_t *room)
{
	(void)room;
	return map_at_area(a, MAP_SHARED | MAP_ANONYMOUS, -1);
}

static bool make_memfd(struct area *a, uint8_t *room)
{
	int fd = memfd_create("memory", MFD_CLOEXEC);

	(void)room;
	return fd >= 0 && !ftruncate(fd, (off_t)a->len) && map_at_area(a, MAP_SHARED, fd);
}

/* All pages are written to later, so they are copies of the file's. */
static bool make_file(struct area *a, uint8_t *room)
{
	char path[256];
	int fd;

	(void)room;
	snprintf(path, sizeof(path), "%s/file", case_dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	return fd >= 0 && !ftruncate(fd, (off_t)a->len) && map_at_area(a, MAP_PRIVATE, fd);
}

/* Written back to the disk, and seen by others who have the file. */
static bool make_disk(struct area *a, uint8_t *room)
{
	char path[256];
	int fd;

	(void)room;
	snprintf(path, sizeof(path), "%s/disk", case_dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	return fd >= 0 && !ftruncate(fd, (off_t)a->len) && map_at_area(a, MAP_SHARED, fd);
}

static bool make_sysv(struct area *a, uint8_t *room)
{
	int id = shmget(IPC_PRIVATE, a->len, IPC_CREAT | 0600);

	(void)room;
	a->fd = -1;
	a->p = shmat(id, AREA_AT, 0);
	shmctl(id, IPC_RMID, NULL);
	return a->p == AREA_AT;
}

/* Each quarter is another mapping. */
static bool make_mixed(struct area *a, uint8_t *room)
{
	return make_anon(a, room) &&
	       mmap(a->p + a->q, a->q, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED &&
	       !madvise(a->p + 2 * a->q, a->q, MADV_DONTDUMP);
}

static bool make_hugetlb(struct area *a, uint8_t *room)
{
	(void)room;
	return map_at_area(a, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
}

static bool make_thp(struct area *a, uint8_t *room)
{
	(void)room;
	if (!map_at_area(a, MAP_PRIVATE | MAP_ANONYMOUS, -1))
		return false;
	madvise(a->p, a->len, MADV_HUGEPAGE);
	return true;
}

static bool make_stack(struct area *a, uint8_t *room)
{
	a->p = (uint8_t *)(((uintptr_t)room + 2 * PAGE) & ~(PAGE - 1));
	a->fd = -1;
	return true;
}

static bool make_bss(struct area *a, uint8_t *room)
{
	static uint8_t bss[SMALL + 4 * PAGE];

	(void)room;
	return make_stack(a, bss);
}

/* With room before and behind, so that malloc()'s own pages are never in the memory. */
static bool make_heap(struct area *a, uint8_t *room)
{
	uint8_t *p = sbrk((intptr_t)(a->len + 4 * PAGE));

	(void)room;
	return p != (void *)-1 && make_stack(a, p);
}

const struct kind kinds[] = {
	{ .name = "anon", .make = make_anon, .len = SMALL, .align = PAGE },
	{ .name = "shared", .make = make_shared, .len = SMALL, .align = PAGE },
	{ .name = "memfd", .make = make_memfd, .len = SMALL, .align = PAGE, .has_fd = true },
	{ .name = "file", .make = make_file, .len = SMALL, .align = PAGE, .has_fd = true },
	{ .name = "odd", .make = make_anon, .len = SMALL, .align = PAGE, .inset = 72 },
	{ .name = "stack", .make = make_stack, .len = SMALL, .align = PAGE },
	{ .name = "large", .make = make_anon, .len = LARGE, .align = PAGE, .no_atomics = true },
	{ .name = "bss", .make = make_bss, .len = SMALL, .align = PAGE },
	{ .name = "heap", .make = make_heap, .len = SMALL, .align = PAGE },
	{ .name = "thp", .make = make_thp, .len = LARGE, .align = PAGE },
	{ .name = "used",
	  .make = make_anon,
	  .len = LARGE,
	  .align = PAGE,
	  .no_atomics = true,
	  .used = true },
	{ .name = "sysv", .make = make_sysv, .len = SMALL, .align = PAGE },
	{ .name = "disk", .make = make_disk, .len = SMALL, .align = PAGE, .has_fd = true },
	{ .name = "mixed", .make = make_mixed, .len = SMALL, .align = PAGE },
	{ .name = "hugetlb", .make = make_hugetlb, .len = 4 * LARGE, .align = LARGE },
};
const unsigned num_kinds = ARRAY_SIZE(kinds);

/* ---- what a program sees --------------------------------------------------------------------- */

/* Of the pages from FIRST_PAGE on of a quarter at `p`, whose first page has this number. */
static const char *quarter_content(const struct area *a, const uint8_t *p, unsigned number,
				   bool may_be_zero, char *out, size_t room)
{
	unsigned per = (unsigned)(a->q / PAGE);

	out[0] = 0;
	for (unsigned i = FIRST_PAGE; i < per; i++) {
		const char *word = content_of(p + i * PAGE, number + i);
		size_t used = strlen(out);

		if (may_be_zero && (!strcmp(word, "zero") || !strcmp(word, "old")))
			word = "free";
		if (!strstr(out, word))
			snprintf(out + used, room - used, "%s%s", used ? "+" : "", word);
	}
	return out;
}

/*
 * Flags of smaps that a program has asked for, and can count on; the last is for a protection key.
 */
static const char *const flag_names[] = { "lo", "dd", "wf", "mg", "hg", "nh",
					  "sr", "rr", "um", "uw", "key" };
#define NUM_FLAGS ARRAY_SIZE(flag_names)

struct rights {
	char prot[4];
	bool has[NUM_FLAGS];
};

/* A line "VmFlags: rd wr lo" of smaps, or "ProtectionKey: 1". */
static void add_flags(struct rights *r, const char *line)
{
	int key = 0;

	for (unsigned f = 0; f < NUM_FLAGS - 1; f++) {
		char word[8];

		snprintf(word, sizeof(word), " %.2s ", flag_names[f]);
		if (!strncmp(line, "VmFlags:", 8) && strstr(line, word))
			r->has[f] = true;
	}
	if (sscanf(line, "ProtectionKey: %d", &key) == 1 && key)
		r->has[NUM_FLAGS - 1] = true;
}

/* Of the mappings at four addresses. */
static void find_rights(const uint8_t *const at[4], struct rights out[4])
{
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long lo = 0, hi = 0, from, to;
	char line[512], prot[5];

	memset(out, 0, 4 * sizeof(*out));
	for (unsigned i = 0; i < 4; i++)
		strcpy(out[i].prot, "no");
	while (f && fgets(line, sizeof(line), f)) {
		bool head = sscanf(line, "%lx-%lx %4s", &from, &to, prot) == 3;

		if (head) {
			lo = from;
			hi = to;
		}
		for (unsigned i = 0; i < 4; i++) {
			if ((uintptr_t)at[i] < lo || (uintptr_t)at[i] >= hi)
				continue;
			if (head)
				snprintf(out[i].prot, sizeof(out[i].prot), "%.3s", prot);
			else
				add_flags(&out[i], line);
		}
	}
	if (f)
		fclose(f);
}

static void say_rights(const char *what, const uint8_t *const at[4])
{
	struct rights r[4];
	const char *word[4];
	char name[80];

	find_rights(at, r);
	for (unsigned i = 0; i < 4; i++)
		word[i] = r[i].prot;
	snprintf(name, sizeof(name), "%s-prot", what);
	say_four(say, name, word);
	for (unsigned f = 0; f < NUM_FLAGS; f++) {
		bool any = false;

		for (unsigned i = 0; i < 4; i++) {
			word[i] = r[i].has[f] ? "yes" : "no";
			any = any || r[i].has[f];
		}
		snprintf(name, sizeof(name), "%s-%s", what, flag_names[f]);
		if (any)
			say_four(say, name, word);
	}
}

/* Writes to a page and reads it back. */
static const char *touch(uint8_t *page, unsigned number)
{
	const char *volatile word = "?";
	int sig = CAUGHT({
		fill(page, NEW, number);
		word = strcmp(content_of_copy(page, number), "new") ? "lost" : "ok";
	});

	return sig ? signal_word(sig) : word;
}

static void look_at(const struct area *a, uint8_t *p, unsigned quarters, unsigned number,
		    const char *what, bool all)
{
	const char *word[4], *touched[4];
	char name[64], text[4][128];
	const uint8_t *at[4];
	unsigned per = (unsigned)(a->q / PAGE);

	for (unsigned i = 0; i < 4; i++) {
		unsigned k = i < quarters ? i : quarters - 1;
		bool zero = a->dropped && p == a->p && (k == 1 || k == 2);

		word[i] = quarter_content(a, p + k * a->q, number + k * per, zero, text[i],
					  sizeof(text[i]));
	}
	say_four(say, what, word);
	if (!all)
		return;
	for (unsigned i = 0; i < 4; i++) {
		unsigned k = i < quarters ? i : quarters - 1;

		at[i] = p + k * a->q + FIRST_PAGE * PAGE;
		touched[i] = touch(p + k * a->q + TOUCH_PAGE * PAGE, number + k * per + TOUCH_PAGE);
	}
	snprintf(name, sizeof(name), "%s-write", what);
	say_four(say, name, touched);
	say_rights(what, at);
}

void look(const struct area *a, const char *what, bool all)
{
	char name[64];

	look_at(a, a->p, 4, 0, what, all);
	if (!a->moved)
		return;
	snprintf(name, sizeof(name), "moved-%s", what);
	look_at(a, a->moved, (unsigned)(a->moved_len / a->q), a->moved_page, name, all);
}

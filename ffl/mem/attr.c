/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * attr.c - what the program has asked of a mapping: locked, not in core dumps, and so on. Called
 * by apply.c and window.c with the region lock held.
 *
 * A shadow mapping takes the place of the program's, and has none of what was asked of that. So
 * it is asked again of the shadow mapping; and what that cannot have (a child finds zeros there,
 * or nothing; pages that may be merged; protection keys; a NUMA policy), and what is not known
 * here, means that the pages are not replaced.
 *
 * Only /proc/self/smaps tells, and it looks at all pages of the process on the way, 10 ms for
 * each GB. So it is not read but where needed: most memory has no attributes, and whether it has
 * those that are expected the kernel can be asked otherwise. It makes one mapping of two that are
 * next to each other if they have everything in common, all flags, the protection key and the NUMA
 * policy included. So a mapping is made that was asked the same, an empty copy of the program's
 * mapping is put next to it (mremap(MREMAP_DONTUNMAP) of one that is empty), and if there is one
 * mapping then, they are alike. That takes some microseconds, and is done in the window
 * (window.c), so that nothing can change between. Of an empty mapping that remains the kernel
 * forgets that it was locked; whether the pages are locked madvise() tells.
 *
 * A program that registers much fresh memory with attributes does not spend more than a part of
 * its time on smaps: what it registers beyond is copied at first, and replaced when it is used.
 *
 * Tests: test_attr.c
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ffr/abi/ff_vma.h"
#include "ffl/mem/attr.h"
#include "ffl/session/ffl.h"
#include "ffl/session/mm.h"

#define NS_PER_MS  1000000u
#define BUDGET_NS  (500u * NS_PER_MS) /* may be spent at once */
#define BUDGET_DIV 20u		      /* the budget grows by this part of the time that passes */

/*
 * Names in VmFlags, of proc_pid_smaps(5), and what asks for the same again; 0: nothing needs to.
 */
static const struct {
	char name[3];
	int advice;
} known[] = {
	{ "rd", 0 }, /* rights, which the caller knows */
	{ "wr", 0 },
	{ "mr", 0 },
	{ "mw", 0 },
	{ "me", 0 },
	{ "ac", 0 }, /* accounting is the file's */
	{ "nr", 0 },
	{ "sd", 0 }, /* a new mapping is soft-dirty */
	{ "uw", 0 }, /* a userfaultfd: track.c's, or else the window cannot be opened */
	{ "lo", 0 }, /* is_locked */
	{ "dd", MADV_DONTDUMP },
	{ "sr", MADV_SEQUENTIAL },
	{ "rr", MADV_RANDOM },
	{ "hg", MADV_HUGEPAGE },
	{ "nh", MADV_NOHUGEPAGE },
};

#define COPIES 16u

/* Names in VmFlags that a shadow mapping has besides those. */
static const char shadow_flags[][3] = { "sh", "ms", "dc", "um", "ui" };

static uint64_t began, spent; /* ns */

static bool is_shadow_flag(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(shadow_flags); i++)
		if (!strncmp(shadow_flags[i], name, 2))
			return true;
	return false;
}

/* False: it is none that can be asked for again. */
static bool add_flag(const char *name, struct ffl_attr *a)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(known); i++) {
		if (strncmp(known[i].name, name, 2))
			continue;
		if (!strncmp(name, "lo", 2))
			a->is_locked = true;
		while (a->advice[n])
			n++;
		if (known[i].advice && n < 3)
			a->advice[n] = known[i].advice;
		return n < 3 || !known[i].advice;
	}
	return false;
}

/* "VmFlags: rd wr mr mw me ac " */
static bool add_flags(const char *line, bool is_shadow, struct ffl_attr *a)
{
	for (const char *p = strchr(line, ':') + 1; *p;) {
		while (*p == ' ')
			p++;
		if (!p[0] || !p[1])
			break;
		if (!(is_shadow && is_shadow_flag(p)) && !add_flag(p, a))
			return false;
		p += 2;
	}
	return true;
}

struct look {
	uintptr_t va, end;
	struct ffl_attr *attr;
	bool is_in;    /* lines are of a mapping of that range */
	bool is_first; /* no mapping of it has been seen */
	bool is_over;
	bool is_shadow;
	int err;
};

static void on_flags(struct look *l, const char *line)
{
	struct ffl_attr a = { 0 };

	if (!add_flags(line, l->is_shadow, &a))
		l->err = -EOPNOTSUPP;
	else if (!l->is_first && memcmp(&a, l->attr, sizeof(a)))
		l->err = -EOPNOTSUPP;
	*l->attr = a;
	l->is_first = false;
}

static bool is_number(const char *p)
{
	return (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'f');
}

static void on_line(struct look *l, const char *line)
{
	if (is_number(line)) {
		struct ff_vma v;

		ff_vma_parse(line, &v);
		l->is_in = v.start < l->end && v.end > l->va;
		l->is_over = v.start >= l->end;
	} else if (l->is_in && !strncmp(line, "VmFlags:", 8)) {
		on_flags(l, line);
	} else if (l->is_in && !strncmp(line, "ProtectionKey:", 14)) {
		const char *p = line + 14;

		while (*p == ' ' || *p == '0')
			p++;
		if (*p) /* a key other than 0 */
			l->err = -EOPNOTSUPP;
	}
}

static int look_through(int fd, struct look *l)
{
	char buf[4096], line[256];
	size_t fill = 0; /* of line; names of files may be longer, and are of no interest */
	ssize_t n;

	while (!l->is_over && !l->err && (n = read(fd, buf, sizeof(buf))) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			if (buf[i] != '\n') {
				if (fill < sizeof(line) - 1)
					line[fill++] = buf[i];
				continue;
			}
			line[fill] = 0;
			fill = 0;
			on_line(l, line);
		}
	}
	return l->err ? l->err : l->is_first ? -EOPNOTSUPP : 0;
}

/*
 * Has it a NUMA policy of its own? Where containers may not ask they cannot have set one either;
 * what the thread has for all of its memory does not count.
 */
static bool has_policy(uintptr_t va)
{
	unsigned long own[16] = { 0 }, all[16] = { 0 };
	int own_mode = 0, mode = 0;

	if (syscall(SYS_get_mempolicy, &mode, all, sizeof(all) * 8, NULL, 0) ||
	    syscall(SYS_get_mempolicy, &own_mode, own, sizeof(own) * 8, va, MPOL_F_ADDR))
		return false;
	return mode != own_mode || memcmp(all, own, sizeof(all));
}

static int look_at(struct look *l)
{
	int fd, err;

	memset(l->attr, 0, sizeof(*l->attr));
	fd = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -EOPNOTSUPP;
	err = look_through(fd, l);
	close(fd);
	return err;
}

int ffl_attr_of_shadow(uintptr_t va, uintptr_t end, struct ffl_attr *out)
{
	struct look l = { .va = va, .end = end, .attr = out, .is_first = true, .is_shadow = true };

	return look_at(&l);
}

int ffl_attr_get(uintptr_t va, uintptr_t end, bool must, struct ffl_attr *out)
{
	struct look l = { .va = va, .end = end, .attr = out, .is_first = true };
	uint64_t from = ffl_clock_ns(CLOCK_MONOTONIC);
	int err;

	if (!began)
		began = from;
	if (!must && spent > BUDGET_NS + (from - began) / BUDGET_DIV)
		return -EAGAIN;
	err = look_at(&l);
	if (!err && has_policy(va))
		err = -EXDEV;
	spent += ffl_clock_ns(CLOCK_MONOTONIC) - from;
	return err;
}

int ffl_attr_before(const struct ffl_attr *a, void *home, size_t len)
{
	for (unsigned i = 0; a->advice[i]; i++)
		if (mm_advise(home, len, a->advice[i]))
			return -errno;
	return 0;
}

/* The program had as much locked a moment ago, so its RLIMIT_MEMLOCK allows it. */
void ffl_attr_after(const struct ffl_attr *a, void *va, size_t len)
{
	if (a->is_locked)
		syscall(SYS_mlock, va, len);
}

/* ---- comparing --------------------------------------------------------------------------- */

/*
 * Address space in which nothing can be read: a page for a mapping as it is expected, room for
 * the copy, and a page for another one, made with MAP_NORESERVE. A page at either end stays
 * unreadable, so that the program's mapping does not become one with them by itself. [region lock]
 */
static char *room;
static size_t room_len;

int ffl_attr_init(size_t max)
{
	room_len = max + 4 * FF_PAGE;
	room = mm_map(NULL, room_len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		      0);
	if (room == MAP_FAILED)
		room = NULL;
	return room ? 0 : -ENOMEM;
}

void ffl_attr_fini(void)
{
	if (room)
		mm_unmap(room, room_len);
	room = NULL;
}

void ffl_attr_forget(void)
{
	mm_map(room, room_len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
	       -1, 0);
}

/* A page at `at` that was asked for the same. 0 or -errno. */
static int model(char *at, const struct ffl_attr *a, int prot, int flags)
{
	if (mm_map(at, FF_PAGE, prot | PROT_WRITE, flags | MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		   -1, 0) == MAP_FAILED)
		return -errno;
	if (!(prot & PROT_WRITE)) {
		/* somebody has written to it before, else there were nothing to be replaced */
		*(volatile char *)at = 0;
		if (mm_protect(at, FF_PAGE, prot))
			return -errno;
	}
	syscall(SYS_munlock, at, FF_PAGE); /* the program has called mlockall(MCL_FUTURE) */
	return ffl_attr_before(a, at, FF_PAGE);
}

int ffl_attr_expect(const struct ffl_attr *a, int prot, size_t len)
{
	int err = model(room + FF_PAGE, a, prot, 0);

	return err ? err : model(room + 2 * FF_PAGE + len, a, prot, MAP_NORESERVE);
}

/*
 * A copy of p at `copy`, next to the models. mremap() takes the userfaultfd away from the copy, before it looks for a
 * neighbour that is alike (seen with Linux 7.3) or after that (6.18). The kernel looks again when a userfaultfd is
 * taken away by itself.
 */
static bool copy_to(char *copy, int uffd, char *p, size_t len)
{
	const int flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
	struct uffdio_range r = { (uintptr_t)copy, len };

	return mm_remap(p, len, len, flags, copy) != MAP_FAILED &&
	       !mm_uffd_register(uffd, copy, len, UFFDIO_REGISTER_MODE_MISSING) &&
	       !ioctl(uffd, UFFDIO_UNREGISTER, &r);
}

/*
 * Is [at, at + len) one mapping? The kernel enlarges no more than one, which it sees to first, and has no
 * room to: the page behind it is mapped, too.
 */
static bool is_one(char *at, size_t len)
{
	return mm_remap(at, len, len + FF_PAGE, 0, NULL) == MAP_FAILED && errno != EFAULT;
}

/* Is all of the copy one mapping with one of the models? */
static bool is_merged(char *copy, size_t len)
{
	return is_one(copy - FF_PAGE, len + FF_PAGE) || is_one(copy, len + FF_PAGE);
}

/*
 * A thread that touches the program's mapping sleeps. But before it sleeps, the kernel ties the
 * mapping to its address (anon_vma), and then a copy of the mapping merges with no other mapping.
 * Copying the mapping unties it. So the copy is made again until no thread has touched the mapping
 * since the last copy. Each thread touches it once at most, since it sleeps then.
 */
bool ffl_attr_is(int uffd, char *p, size_t len)
{
	char *copy = room + 2 * FF_PAGE;

	for (unsigned i = 0; i < COPIES; i++) {
		if (!copy_to(copy, uffd, p, len))
			return false;
		if (is_merged(copy, len))
			return true;
	}
	return false;
}

bool ffl_attr_is_locked(char *page)
{
	return mm_advise(page, FF_PAGE, MADV_COLD) && errno == EINVAL;
}

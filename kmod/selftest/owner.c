// SPDX-License-Identifier: GPL-2.0
/* owner.c - a process that does what it is told over a socket. See ft.h. */
#include "ft.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

struct request {
	enum owner_op op;
	long nr;
	uint64_t a[6];
};

static uint8_t place_data[3 * PAGE_MOST] = { 1 };
static const uint8_t place_const[3 * PAGE_MOST] = { 1 };
static uint8_t place_bss[3 * PAGE_MOST];
static int uffd = -1;

uint8_t ft_byte(uint64_t seed, uint64_t i)
{
	uint64_t x = (seed << 32) + i / 8;

	x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9;
	return (x ^ (x >> 32)) >> (i % 8 * 7);
}

void ft_fill(void *p, uint64_t n, uint64_t seed)
{
	for (uint64_t i = 0; i < n; i++)
		((volatile uint8_t *)p)[i] = ft_byte(seed, i);
}

uint64_t ft_differ(const void *p, uint64_t n, uint64_t seed)
{
	uint64_t bad = 0;

	for (uint64_t i = 0; i < n; i++)
		bad += ((const volatile uint8_t *)p)[i] != ft_byte(seed, i);
	return bad;
}

/* ---- what unsettles a range ----------------------------------------------------------------------- */

struct churn_job {
	uint8_t *p;
	uint64_t n;
	double until;
	int kinds;
};

/* In threads of its own; each keeps the range's content, but for DISCARD. */
static void *churn_run(void *arg)
{
	struct churn_job *j = arg;
	unsigned int turn = 0;

	while (check_now() < j->until) {
		uint64_t pages = j->n / PAGE, at = rand() % pages;
		uint8_t *p = j->p + at * PAGE;
		uint64_t n = PAGE * (1 + rand() % (pages - at));

		turn++;
		if (j->kinds & CHURN_FORK) {
			pid_t child = fork();

			if (!child)
				_exit(0);
			if (child > 0)
				waitpid(child, NULL, 0);
		}
		if (j->kinds & CHURN_PAGEOUT)
			madvise(p, n, MADV_PAGEOUT);
		if (j->kinds & CHURN_PROTECT) {
			mprotect(p, n, PROT_NONE);
			mprotect(p, n, PROT_READ | PROT_WRITE);
		}
		if (j->kinds & CHURN_DISCARD)
			madvise(p, n, MADV_DONTNEED);
		if (j->kinds & CHURN_REMAP) {
			uint8_t *q = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			if (q != MAP_FAILED) {
				CHECK(mremap(p, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, q) == q);
				CHECK(mremap(q, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, p) == p);
			}
		}
		if (turn % 8 == 0)
			usleep(500);
	}
	return NULL;
}

static void *count_run(void *arg)
{
	struct churn_job *j = arg;

	while (check_now() < j->until)
		for (uint64_t at = 0; at < j->n; at += PAGE)
			((volatile uint64_t *)(j->p + at))[WORD_OWNER]++;
	return NULL;
}

/* The turns of the owner's count are equal on each page: 0, or the pages where they aren't. */
static long churn(uint64_t address, uint64_t length, uint64_t ms, int kinds)
{
	struct churn_job j = { (uint8_t *)address, length, check_now() + ms / 1e3, kinds };
	pthread_t count;
	long bad = 0;

	if (kinds & CHURN_COUNT)
		CHECK(!pthread_create(&count, NULL, count_run, &j));
	churn_run(&j);
	if (kinds & CHURN_COUNT) {
		pthread_join(count, NULL);
		for (uint64_t at = PAGE; at < length; at += PAGE)
			bad += *(uint64_t *)(j.p + at) != *(uint64_t *)j.p;
	}
	return bad;
}

/* ---- the rest ------------------------------------------------------------------------------------ */

static long uffd_set(uint64_t address, uint64_t length)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register r = { .range = { address, length },
				     .mode = UFFDIO_REGISTER_MODE_MISSING };

	uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	return uffd < 0 || ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &r) ?
		       -errno :
		       0;
}

static long uffd_copy(uint64_t address, uint64_t seed)
{
	static uint8_t page[PAGE_MOST] __attribute__((aligned(PAGE_MOST)));
	struct uffdio_copy c = { .dst = address, .src = (uint64_t)page, .len = PAGE };

	ft_fill(page, PAGE, seed);
	return ioctl(uffd, UFFDIO_COPY, &c) ? -errno : 0;
}

static pid_t child;
static int child_ch[2];

static long fork_child(void)
{
	struct request q;
	long bad;

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, child_ch));
	child = fork();
	if (child)
		return child > 0 ? 0 : -errno;
	if (read(child_ch[1], &q, sizeof(q)) != sizeof(q))
		_exit(1);
	bad = ft_differ((void *)q.a[0], q.a[1], q.a[2]);
	_exit(write(child_ch[1], &bad, sizeof(bad)) != sizeof(bad));
}

static long reap_child(const struct request *q)
{
	long bad;

	CHECK(write(child_ch[0], q, sizeof(*q)) == sizeof(*q));
	CHECK(read(child_ch[0], &bad, sizeof(bad)) == sizeof(bad));
	waitpid(child, NULL, 0);
	close(child_ch[0]);
	close(child_ch[1]);
	return bad;
}

static long obey(const struct request *q, uint8_t *stack)
{
	const uint64_t *a = q->a;
	uint8_t *places[] = { stack, place_data, (uint8_t *)place_const, place_bss };
	long r;

	switch (q->op) {
	case OWN_SYSCALL:
		r = syscall(q->nr, a[0], a[1], a[2], a[3], a[4], a[5]);
		return r == -1 ? -errno : r;
	case OWN_FILL:
		ft_fill((void *)a[0], a[1], a[2]);
		return 0;
	case OWN_VERIFY:
		return ft_differ((void *)a[0], a[1], a[2]);
	case OWN_MALLOC:
		return (long)malloc(a[0]);
	case OWN_PLACE:
		return (long)places[a[0]];
	case OWN_FORK:
		return fork_child();
	case OWN_REAP:
		return reap_child(q);
	case OWN_CHURN:
		return churn(a[0], a[1], a[2], a[3]);
	case OWN_UFFD:
		return uffd_set(a[0], a[1]);
	case OWN_COPY:
		return uffd_copy(a[0], a[1]);
	case OWN_EXEC:
		execl("/bin/sleep", "sleep", "100", NULL);
		return -errno;
	}
	return -ENOSYS;
}

static void send_fd(int ch, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec iov = { "x", 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	CHECK(sendmsg(ch, &m, 0) == 1);
}

static int receive_fd(int ch)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	int fd;

	CHECK(recvmsg(ch, &m, 0) == 1 && CMSG_FIRSTHDR(&m));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

static void serve(int ch)
{
	uint8_t stack[3 * PAGE_MOST];
	struct request q;
	long r;

	send_fd(ch, open("/proc/self/mem", O_RDWR | O_CLOEXEC));
	while (read(ch, &q, sizeof(q)) == sizeof(q)) {
		r = obey(&q, stack);
		CHECK(write(ch, &r, sizeof(r)) == sizeof(r));
	}
	_exit(0);
}

void owner_start(struct owner *o)
{
	int ch[2];

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ch));
	o->pid = fork();
	CHECK(o->pid >= 0);
	if (!o->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ch[0]);
		close(ft_fd);
		serve(ch[1]);
	}
	close(ch[1]);
	o->ch = ch[0];
	o->pidfd = syscall(SYS_pidfd_open, o->pid, 0);
	CHECK(o->pidfd >= 0);
	o->mem_fd = receive_fd(o->ch);
}

void owner_stop(struct owner *o)
{
	kill(o->pid, SIGKILL);
	waitpid(o->pid, NULL, 0);
	close(o->ch);
	close(o->pidfd);
	close(o->mem_fd);
}

static void own_post(struct owner *o, const struct request *q)
{
	CHECK(write(o->ch, q, sizeof(*q)) == sizeof(*q));
}

void own_send(struct owner *o, enum owner_op op, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	struct request q = { .op = op, .a = { a, b, c, d } };

	own_post(o, &q);
}

long own_wait(struct owner *o)
{
	long r;

	CHECK(read(o->ch, &r, sizeof(r)) == sizeof(r));
	return r;
}

long own(struct owner *o, enum owner_op op, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	own_send(o, op, a, b, c, d);
	return own_wait(o);
}

long own_sys(struct owner *o, long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
	     uint64_t f)
{
	struct request q = { .op = OWN_SYSCALL, .nr = nr, .a = { a, b, c, d, e, f } };

	own_post(o, &q);
	return own_wait(o);
}

/* path: written into the owner's memory first, so that it can open it. */
uint64_t own_mmap(struct owner *o, uint64_t length, int prot, int flags, const char *path)
{
	long fd = -1, r;

	if (path) {
		uint64_t name = own(o, OWN_PLACE, 3, 0, 0, 0);

		CHECK(pwrite(o->mem_fd, path, strlen(path) + 1, name) > 0);
		fd = own_sys(o, SYS_openat, AT_FDCWD, name,
			     prot & PROT_WRITE && flags & MAP_SHARED ? O_RDWR : O_RDONLY, 0, 0, 0);
		CHECK(fd >= 0);
	}
	r = own_sys(o, SYS_mmap, 0, length, prot, flags, fd, 0);
	CHECK(r > 0);
	if (path)
		own_sys(o, SYS_close, fd, 0, 0, 0, 0, 0);
	return r;
}

long own_status(struct owner *o, const char *word)
{
	char name[64], line[256];
	long value = -1;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/status", o->pid);
	f = fopen(name, "r");
	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, word, strlen(word)) && line[strlen(word)] == ':')
			value = atol(line + strlen(word) + 1);
	fclose(f);
	return value;
}

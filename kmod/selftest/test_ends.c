// SPDX-License-Identifier: GPL-2.0
/* test_ends.c - the owner ends or execs, the router ends, and accesses that would wait. */
#include "ft.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define N (64 * PAGE)

static struct owner o;

/* What ends with the owner; end: 0 kill, 1 exec. */
static void owner_ends(int end)
{
	int fd = eventfd(0, EFD_NONBLOCK);
	struct ffmem_event e = { .eventfd = fd };
	struct view v, pinned;
	struct ffmem_stat s;
	uint64_t at, n;
	uint32_t p;

	owner_start(&o);
	at = own_mmap(&o, N, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, NULL);
	own(&o, OWN_FILL, at, N, 1, 0);
	view_make(&v, &o, at, N, FFMEM_WRITE);
	view_make(&pinned, &o, at, N, FFMEM_WRITE | FFMEM_PINNED);
	CHECK(!ft_differ(v.p, N, 1) && !ft_differ(pinned.p, N, 1));
	CHECK(!ioctl(ft_fd, FFMEM_EVENT, &e));
	CHECK(read(fd, &n, sizeof(n)) < 0);
	if (end)
		own_send(&o, OWN_EXEC, 0, 0, 0, 0);
	else
		kill(o.pid, SIGKILL);
	do {
		view_stat(&v, &s);
	} while (!s.dead);
	do {
		view_stat(&pinned, &s);
	} while (!s.dead);
	CHECK(!s.pinned);
	/* Each death is told, after it is so. */
	for (uint64_t told = 0; told < 2; told += n)
		if (read(fd, &n, sizeof(n)) < 0)
			n = 0;
	CHECK(ft_sigbus(v.p, false) && ft_sigbus(v.p, true));
	CHECK(ft_sigbus(pinned.p, false) && ft_sigbus(pinned.p, true));
	EXPECT(ft_populate(ft_fd, v.p, N, 0, NULL), -ESRCH);
	EXPECT(ft_populate(ft_fd, pinned.p, N, 0, NULL), -ESRCH);
	if (end) {
		/* The new program hasn't consented. */
		EXPECT(ft_attach(ft_fd, o.pidfd, o.mem_fd, &p), -ESRCH);
		CHECK(own_status(&o, "VmPin") == 0);
	} else {
		CHECK(waitpid(o.pid, NULL, 0) == o.pid);
		EXPECT(ft_attach(ft_fd, o.pidfd, o.mem_fd, &p), -ESRCH);
	}
	view_end(&pinned);
	view_end(&v);
	e.eventfd = -1;
	CHECK(!ioctl(ft_fd, FFMEM_EVENT, &e));
	close(fd);
	owner_stop(&o);
}

/* A router that is killed in the middle leaves the owner as it was. */
static void router_killed(void)
{
	uint64_t at;
	pid_t pid;
	int ready[2];
	char byte;

	owner_start(&o);
	at = own_mmap(&o, N, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, NULL);
	own(&o, OWN_FILL, at, N, 2, 0);
	for (int turn = 0; turn < 5; turn++) {
		CHECK(!pipe(ready));
		pid = fork();
		if (!pid) {
			struct view v, w;

			ft_fd = ft_open();
			view_make(&v, &o, at, N, FFMEM_WRITE);
			view_make(&w, &o, at, N, FFMEM_WRITE | FFMEM_PINNED);
			ft_fill(v.p, N, 2);
			CHECK(own_status(&o, "VmPin") == (long)(N / 1024) &&
			      write(ready[1], "x", 1) == 1);
			for (;;) {
				ft_fill(v.p, N, 2);
				ft_fill(w.p, N, 2);
			}
		}
		close(ready[1]);
		CHECK(read(ready[0], &byte, 1) == 1);
		close(ready[0]);
		usleep(1000 * turn);
		kill(pid, SIGKILL);
		CHECK(waitpid(pid, NULL, 0) == pid);
		CHECK(own_status(&o, "VmPin") == 0 && !own(&o, OWN_VERIFY, at, N, 2, 0));
	}
	owner_stop(&o);
}

/* Both end at once, and whoever is first. */
static void both_killed(void)
{
	for (int turn = 0; turn < 10; turn++) {
		pid_t pid;
		uint64_t at;
		int ready[2];
		char byte;

		owner_start(&o);
		at = own_mmap(&o, N, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, NULL);
		CHECK(!pipe(ready));
		pid = fork();
		if (!pid) {
			struct view v[16];

			ft_fd = ft_open();
			for (int i = 0; i < 16; i++)
				view_make(&v[i], &o, at, N,
					  FFMEM_WRITE | (i % 2 ? FFMEM_PINNED : 0));
			CHECK(write(ready[1], "x", 1) == 1);
			for (unsigned int i = 0;; i++)
				ft_sigbus(v[i % 16].p + i * PAGE % N, true);
		}
		close(ready[1]);
		CHECK(read(ready[0], &byte, 1) == 1);
		close(ready[0]);
		kill(turn % 2 ? pid : o.pid, SIGKILL);
		kill(turn % 2 ? o.pid : pid, SIGKILL);
		waitpid(pid, NULL, 0);
		owner_stop(&o);
	}
}

void test_ends(void)
{
	owner_ends(0);
	owner_ends(1);
	router_killed();
	both_killed();
}

/* ---- what would wait ----------------------------------------------------------------------------- */

static sigjmp_buf out;

static void on_alarm(int signal)
{
	siglongjmp(out, signal);
}

static void *populate_run(void *arg)
{
	struct view *v = arg;

	EXPECT(ft_populate(ft_fd, v->p, 2 * PAGE, FFMEM_POPULATE_WRITE, NULL), 0);
	return NULL;
}

static void *read_run(void *arg)
{
	struct view *v = arg;

	return (void *)ft_differ(v->p + 2 * PAGE, PAGE, 5);
}

/* A signal's handler runs although an access waits. */
static void wait_signalled(uint64_t at)
{
	struct sigaction a = { .sa_handler = on_alarm, .sa_flags = SA_NODEFER };
	struct view mine;

	ft_fd = ft_open();
	view_make(&mine, &o, at, N, FFMEM_WRITE | FFMEM_WAIT);
	sigaction(SIGALRM, &a, NULL);
	if (sigsetjmp(out, 1))
		_exit(0);
	alarm(1);
	mine.p[8 * PAGE] = 1;
	_exit(1);
}

/* The owner's pages are missing until its userfaultfd's holder, who is silent, brings them. */
void test_waits(void)
{
	struct view v, w;
	pthread_t thread;
	void *bad;
	uint64_t at, done;
	double t;
	pid_t pid;
	int status;

	owner_start(&o);
	at = own_mmap(&o, N, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, NULL);
	EXPECT(own(&o, OWN_UFFD, at, N, 0, 0), 0);
	view_make(&v, &o, at, N, FFMEM_WRITE);
	view_make(&w, &o, at, N, FFMEM_WRITE | FFMEM_WAIT);

	/* An access doesn't wait: SIGBUS, EFAULT; nor does a populate that was told so. */
	t = check_now();
	CHECK(ft_sigbus(v.p, false) && ft_sigbus(v.p, true));
	EXPECT(write(open("/dev/shm/ffmem-out", O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0600), v.p,
		     8),
	       -1);
	CHECK(errno == EFAULT);
	unlink("/dev/shm/ffmem-out");
	EXPECT(ft_populate(ft_fd, v.p, N, FFMEM_POPULATE_NOWAIT, &done), -EAGAIN);
	CHECK(done == 0 && check_now() - t < 20);

	/* A populate that waits: a page that comes ends it, and a fatal signal. */
	CHECK(!pthread_create(&thread, NULL, populate_run, &v));
	usleep(50000);
	EXPECT(own(&o, OWN_COPY, at, 3, 0, 0), 0);
	EXPECT(own(&o, OWN_COPY, at + PAGE, 4, 0, 0), 0);
	pthread_join(thread, NULL);
	CHECK(!ft_differ(v.p, PAGE, 3) && !ft_differ(v.p + PAGE, PAGE, 4));
	EXPECT(ft_populate(ft_fd, v.p, N, FFMEM_POPULATE_NOWAIT, &done), -EAGAIN);
	CHECK(done == 2 * PAGE);
	for (int wait = 0; wait < 2; wait++) {
		pid = fork();
		if (!pid) {
			struct view mine;

			ft_fd = ft_open();
			view_make(&mine, &o, at, N, FFMEM_WRITE | (wait ? FFMEM_WAIT : 0));
			if (wait)
				mine.p[8 * PAGE] = 1;
			else
				ft_populate(ft_fd, mine.p + 8 * PAGE, PAGE, 0, NULL);
			_exit(1);
		}
		usleep(200000);
		CHECK(waitpid(pid, &status, WNOHANG) == 0);
		t = check_now();
		kill(pid, SIGKILL);
		CHECK(waitpid(pid, &status, 0) == pid && WTERMSIG(status) == SIGKILL &&
		      check_now() - t < 30);
	}

	pid = fork();
	if (!pid)
		wait_signalled(at);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);

	/* An access that waits because it was asked to; the router's address space isn't held meanwhile. */
	CHECK(!pthread_create(&thread, NULL, read_run, &w));
	usleep(100000);
	CHECK(pthread_tryjoin_np(thread, &bad) == EBUSY);
	CHECK(!munmap(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), PAGE));
	EXPECT(own(&o, OWN_COPY, at + 2 * PAGE, 5, 0, 0), 0);
	pthread_join(thread, &bad);
	CHECK(!bad);
	view_end(&w);
	view_end(&v);
	owner_stop(&o);
}

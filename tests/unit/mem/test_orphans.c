/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_orphans.c - ffr/mem/orphans.c: pages whose session has ended, or whose router has died. The router
 * that is to die is another process. Not with ThreadSanitizer, which lets no child of a process with
 * threads start one.
 *
 * build: tests/rig/unit/watch_rig.c
 */
#include "tests/rig/unit/watch_rig.h"

#include <dirent.h>
#include <errno.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "ffr/mem/orphans.h"
#define uffd guard_uffd
#include "ffr/mem/guard.c"
#undef uffd

static struct {
	pid_t pid, of;
	int sock;
} orphans;
static int fds[4]; /* the client's */

static unsigned count_in(pid_t pid, const char *what)
{
	char path[64];
	unsigned n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	d = opendir(path);
	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Threads of the process for orphans, but for its first one. */
static unsigned num_watched(void)
{
	return count_in(orphans.pid, "task") - 3; /* and the two dots */
}

static int setup(void **state)
{
	const struct sandbox_conf conf = { .mode = SANDBOX_ON };
	const struct container nobody = { 0 };
	int all[PAGES_NUM_FDS], got;

	(void)state;
	memset(&ses, 0, sizeof(ses));
	ses.mem.node = -1;
	ses.mem.maps_fd = -1;
	ses.cont = &cont;
	cont.id = 1;
	orphans.pid = orphans_start(&conf, NULL, &orphans.sock);
	assert_true(orphans.pid > 0);
	orphans.of = getpid();
	orphans_use(orphans.sock);
	file = sealed_memfd("test", REGIONS_MAX * FF_PAGES_STRIDE);
	assert_true(file >= 0);
	for (unsigned i = 0; i < PAGES_NUM_FDS; i++)
		all[i] = file;
	/* it answers, so it has become what it is to be */
	assert_int_equal(orphans_add(&nobody, all, PAGES_NUM_FDS, &got), -EINVAL);
	WAIT_FOR(num_watched() == 0);
	if (access("/dev/userfaultfd", R_OK | W_OK))
		return 0;
	assert_true(rig_client_start(fds));
	ses.mem.maps_fd = fds[2];
	return 0;
}

/* The process ends by itself, when its client has. */
static int teardown(void **state)
{
	int status;

	(void)state;
	if (orphans.of != getpid()) /* a check has failed in a router */
		_exit(1);
	orphans_use(-1);
	close(orphans.sock);
	if (client.pid)
		for (int i = 0; i < 4; i++)
			close(fds[i]);
	rig_client_stop();
	close(file);
	assert_int_equal(waitpid(orphans.pid, &status, 0), orphans.pid);
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -1;
}

static void session_start(void)
{
	assert_int_equal(quota_charge(&cont, QUOTA_FD, PAGES_FDS), 0);
	assert_int_equal(pages_watch(&ses, fds[0], fds[3], fds[1], file), 0);
}

struct made {
	uint64_t va, off;
};

/* A router with a session of the client, which has 16 pages. `places`: and gets a place for 4, which is at `off`. */
static pid_t router_start(struct made *made, bool places)
{
	int pair[2];
	pid_t pid;

	assert_int_equal(pipe(pair), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		alarm(120);
		close(guard_uffd); /* the test's, for its own memory */
		guard_uffd = -1;
		session_start();
		made->va = region(16 * PG, 6, &made->off);
		if (places)
			made->off = place(4 * PG);
		if (write(pair[1], made, sizeof(*made)) != sizeof(*made))
			_exit(1);
		for (;;)
			pause();
	}
	close(pair[1]);
	assert_int_equal(read(pair[0], made, sizeof(*made)), sizeof(*made));
	close(pair[0]);
	return pid;
}

static void router_kill(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void the_router_dies(void **state)
{
	struct made m;

	(void)state;
	need_client();
	router_kill(router_start(&m, false));
	assert_true(tell(DROP, m.va, 4 * PG, 0));
	assert_true(tell(CHECK, m.va, 4 * PG, 0));
	assert_true(tell(CHECK, m.va + 4 * PG, 12 * PG, 6));
	m.va = tell(MOVE, m.va, 16 * PG, 32 * PG);
	assert_true(tell(CHECK, m.va + 16 * PG, 16 * PG, 0));
	assert_true(tell(DROP, m.va, 32 * PG, 0));
	WAIT_FOR(!pages());
	assert_true(tell(FILL, m.va, 32 * PG, 7));
	assert_true(tell(UNMAP, m.va + 8 * PG, 24 * PG, 0));
	WAIT_FOR(pages() == 8);
	assert_true(tell(CHECK, m.va, 8 * PG, 7));
}

/* At any time: what it had read and not dealt with is dealt with. */
static void the_router_dies_at_any_time(void **state)
{
	struct made m;

	(void)state;
	need_client();
	for (unsigned i = 0; i < 60; i++) {
		pid_t pid = router_start(&m, false);

		order(CHURN, m.va, 16 * PG, 400);
		for (unsigned k = 0; k < i * 20; k++)
			sched_yield();
		router_kill(pid);
		assert_true(answer());
		assert_true(tell(CHURN, m.va, 16 * PG, 20));
		assert_true(tell(UNMAP, m.va, 16 * PG, 0));
		WAIT_FOR(num_watched() == 0); /* the next one has the same file */
	}
}

/* The library got a place from a router that died then, and maps it: it is left alone. */
static void what_was_placed_stays(void **state)
{
	struct made m;
	pid_t pid;
	uint64_t va;

	(void)state;
	need_client();
	pid = router_start(&m, true);
	assert_int_equal(fallocate(file, 0, (off_t)m.off, (off_t)(4 * PG)), 0);
	router_kill(pid);
	assert_true(tell(UNMAP, m.va, 16 * PG, 0));
	WAIT_FOR(pages() == 4); /* it was here, and nothing is mapped */
	va = tell(MAP, 0, 4 * PG, m.off);
	assert_true(tell(FILL, va, 4 * PG, 8));
	va = tell(MOVE, va, 4 * PG, 4 * PG);
	assert_true(tell(CHECK, va, 4 * PG, 8));
	assert_true(tell(UNMAP, va, 4 * PG, 0));
	WAIT_FOR(!pages());
}

/* Is that still the socket of the process for orphans? A thread of it may get the number for another file. */
static bool is_its_sock(const char *path, const char *was)
{
	char now[64] = "";

	return readlink(path, now, sizeof(now) - 1) > 0 && !strcmp(now, was);
}

/* Nobody is there any more who could ask for anything. Programs that run are served on. */
static void the_service_ends(void **state)
{
	char its_sock[32], was[64] = "";
	struct made m;

	(void)state;
	need_client();
	router_kill(router_start(&m, false));
	WAIT_FOR(num_watched() == 1);
	snprintf(its_sock, sizeof(its_sock), "/proc/%d/fd/%d", (int)orphans.pid, STDERR_FILENO + 1);
	assert_true(readlink(its_sock, was, sizeof(was) - 1) > 0);
	shutdown(orphans.sock, SHUT_RDWR); /* the client has a copy of it */
	WAIT_FOR(!is_its_sock(its_sock, was));
	assert_true(tell(DROP, m.va, 4 * PG, 0));
	assert_true(tell(CHECK, m.va, 4 * PG, 0));
	assert_true(tell(CHECK, m.va + 4 * PG, 12 * PG, 6));
}

/* The thread in the router ends, and another one in the other process goes on. */
static void the_session_ends_before(void **state)
{
	uint64_t off, va;
	unsigned here;

	(void)state;
	need_client();
	here = threads();
	session_start();
	va = region(8 * PG, 5, &off);
	assert_int_equal(num_watched(), 0);
	pages_end(&ses);
	WAIT_FOR(threads() == here);
	WAIT_FOR(num_watched() == 1);
	assert_true(tell(DROP, va, 4 * PG, 0));
	assert_true(tell(CHECK, va, 4 * PG, 0));
	assert_true(tell(CHECK, va + 4 * PG, 4 * PG, 5));
	assert_true(tell(UNMAP, va, 7 * PG, 0));
	WAIT_FOR(pages() == 1);
	assert_int_equal(num_watched(), 1);
	/* with the last mapping goes the reason */
	assert_true(tell(UNMAP, va + 7 * PG, PG, 0));
	WAIT_FOR(num_watched() == 0);
	assert_int_equal(pages(), 0);
}

/* A client that makes sessions without end has as many orphans as it has mapped something of. */
static void sessions_without_mappings(void **state)
{
	unsigned fds_before;

	(void)state;
	need_client();
	fds_before = count_in(orphans.pid, "fd");
	for (unsigned i = 0; i < 500; i++) {
		session_start();
		pages_end(&ses);
	}
	WAIT_FOR(count_in(orphans.pid, "fd") == fds_before);
}

/* ---- what another one has read ---------------------------------------------------------------------- */

static struct pages *heir;

static void *inheriting(void *arg)
{
	watch_run(arg);
	pages_unref(arg);
	return NULL;
}

static struct watch_log *log_new(int *fd)
{
	size_t len = (sizeof(struct watch_log) + PG - 1) / PG * PG;
	struct watch_log *log;

	*fd = sealed_memfd("log", len);
	assert_true(*fd >= 0);
	log = mmap(NULL, len, RW, MAP_SHARED, *fd, 0);
	assert_ptr_not_equal(log, MAP_FAILED);
	return log;
}

/* Goes on with that log, on a thread here, from a router that is dead. */
static pthread_t inherit(int log)
{
	int own[PAGES_NUM_FDS] = {
		[PAGES_UFFD] = dup(fds[0]), [PAGES_FILE] = dup(file),
		[PAGES_LOG] = log,	    [PAGES_MEM] = dup(fds[1]),
		[PAGES_MAPS] = dup(fds[2]), [PAGES_PAGEMAP] = dup(fds[3]),
	};
	pthread_t t;

	assert_int_equal(pages_inherit(own, &heir), 0);
	assert_int_equal(pthread_create(&t, NULL, inheriting, heir), 0);
	return t;
}

/* The next event of the userfaultfd, read as that router would have. */
static struct uffd_msg read_event(void)
{
	struct uffd_msg m;

	WAIT_FOR(read(fds[0], &m, sizeof(m)) == sizeof(m));
	return m;
}

static void what_was_read_is_dealt_with(void **state)
{
	struct watch_log *log;
	struct uffd_msg m;
	struct made made;
	pthread_t t;
	int fd;

	(void)state;
	need_client();
	orphans_use(-1); /* nobody takes over but this test */
	router_kill(router_start(&made, false));

	/* an event, and a fault after it */
	log = log_new(&fd);
	order(DROP, made.va, 4 * PG, 0);
	log->now = read_event();
	assert_int_equal(log->now.event, UFFD_EVENT_REMOVE);
	assert_true(answer());
	order(CHECK, made.va, 2 * PG, 0);
	m = read_event();
	assert_int_equal(m.event, UFFD_EVENT_PAGEFAULT);
	log->pending[log->num_pending++] = (struct fault){
		.va = m.arg.pagefault.address & ~(PG - 1),
		.is_minor = true,
	};
	/* and pages that were dropped before */
	log->removed[log->at = 1] = (struct removed_list){
		1, { { .va = made.va + 8 * PG, .len = 2 * PG, .off = made.off + 8 * PG } }
	};
	t = inherit(fd);
	assert_true(answer());
	assert_true(tell(CHECK, made.va + 2 * PG, 2 * PG, 0));
	assert_true(tell(CHECK, made.va + 4 * PG, 12 * PG,
			 6)); /* they have their entries: MADV_FREE's */
	assert_true(tell(UNMAP, made.va, 16 * PG, 0));
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(log->now.event, 0);
	assert_int_equal(log->num_pending, 0);
	munmap(log, sizeof(*log));
}

/* Who wrote it may have been taken over. */
static void false_logs(void **state)
{
	int own[PAGES_NUM_FDS], len = sizeof(struct watch_log) / 2;
	struct watch_log *log;
	struct pages *w;

	(void)state;
	need_client();
	for (unsigned i = 0; i < PAGES_NUM_FDS; i++)
		own[i] = file;
	own[PAGES_UFFD] = fds[0];
	log = log_new(&own[PAGES_LOG]);
	log->num_pending = PAGES_PENDING_MAX + 1;
	assert_int_equal(pages_inherit(own, &w), -EINVAL);
	log->num_pending = 0;
	log->placing = REGIONS_MAX + 1;
	assert_int_equal(pages_inherit(own, &w), -EINVAL);
	log->placing = 0;
	log->at = 3;
	log->removed[1].num = PAGES_REMOVED_MAX + 1;
	assert_int_equal(pages_inherit(own, &w), -EINVAL);
	log->removed[1].num = 0;
	own[PAGES_UFFD] = file;
	assert_int_equal(pages_inherit(own, &w), -EINVAL);
	own[PAGES_UFFD] = fds[0];
	close(own[PAGES_LOG]);
	own[PAGES_LOG] = sealed_memfd("short", (uint64_t)len);
	assert_int_equal(pages_inherit(own, &w), -EINVAL);
	close(own[PAGES_LOG]);
	munmap(log, sizeof(*log));
}

/* ---- how many, and hostile routers ------------------------------------------------------------------- */

#define MAX_HEIRS 200u
static int heirs[MAX_HEIRS];
static unsigned num_heirs;

/* Sessions of the container until there is no place: how many. */
static unsigned fill(const struct container *c)
{
	int all[PAGES_NUM_FDS], err = 0;
	unsigned before = num_heirs;

	for (unsigned i = 0; i < PAGES_NUM_FDS; i++)
		all[i] = file; /* sealed */
	while (num_heirs < MAX_HEIRS) {
		err = orphans_add(c, all, PAGES_NUM_FDS, &heirs[num_heirs]);
		if (err)
			break;
		num_heirs++;
	}
	assert_int_equal(err, -ENOSPC);
	return num_heirs - before;
}

static int setup_few(void **state)
{
	struct rlimit before, less;
	int err;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	less = before;
	less.rlim_cur = 64 + 100 * 8; /* 100 places */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
	err = setup(state);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	return err;
}

static void places_are_shared(void **state)
{
	const struct container a = { .id = 7, .tenant = "t" }, b = { .id = 8, .tenant = "t" },
			       c = { .id = 9 };
	unsigned before = count_in(orphans.pid, "fd");

	(void)state;
	assert_int_equal(fill(&a), SHARE_SMALL);
	assert_int_equal(fill(&a), 0);
	assert_int_equal(fill(&b), 100 - SHARE_SMALL);
	assert_int_equal(fill(&c), 0);
	/* none of them is an orphan's: they are let go at once */
	while (num_heirs)
		close(heirs[--num_heirs]);
	WAIT_FOR(count_in(orphans.pid, "fd") == before);
	assert_int_equal(fill(&c), SHARE_SMALL);
	while (num_heirs)
		close(heirs[--num_heirs]);
}

static void false_requests(void **state)
{
	struct container c = { .id = 7 };
	int all[PAGES_NUM_FDS + 1], sock[2], other, got;
	uint8_t req[4 + CONTAINER_NAME_MAX] = { 7 };
	unsigned before = count_in(orphans.pid, "fd");

	(void)state;
	for (unsigned i = 0; i < PAGES_NUM_FDS; i++)
		all[i] = file;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	/* nothing that asks, too few descriptors, too many, none */
	assert_int_equal(fds_send(orphans.sock, "x", 1, all, 1, 0), 1);
	all[0] = sock[1];
	assert_int_equal(fds_send(orphans.sock, req, sizeof(req), all, 3, 0), sizeof(req));
	assert_int_equal(fds_send(orphans.sock, req, sizeof(req) - 1, all, PAGES_NUM_FDS, 0),
			 sizeof(req) - 1);
	assert_int_equal(send(orphans.sock, req, sizeof(req), 0), sizeof(req));
	close(sock[1]);
	assert_int_equal(recv(sock[0], &got, sizeof(got), 0), 0);
	close(sock[0]);
	/* a log that may be made shorter, and a socket that is none */
	other = memfd_create("other", MFD_CLOEXEC);
	for (unsigned i = 0; i < PAGES_NUM_FDS; i++)
		all[i] = other;
	assert_int_equal(orphans_add(&c, all, PAGES_NUM_FDS, &got), -EINVAL);
	for (unsigned i = 0; i <= PAGES_NUM_FDS; i++)
		all[i] = file;
	assert_int_equal(fds_send(orphans.sock, req, sizeof(req), all, PAGES_NUM_FDS + 1, 0),
			 sizeof(req));
	c.id = 0;
	assert_int_equal(orphans_add(&c, all, PAGES_NUM_FDS, &got), -EINVAL);
	close(other);
	WAIT_FOR(count_in(orphans.pid, "fd") == before);
}

static void nobody_is_there(void **state)
{
	const struct container c = { .id = 7 };
	int all[PAGES_NUM_FDS], pair[2], got;

	(void)state;
	for (unsigned i = 0; i < PAGES_NUM_FDS; i++)
		all[i] = file;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	close(pair[1]);
	orphans_use(pair[0]);
	assert_int_equal(orphans_add(&c, all, PAGES_NUM_FDS, &got), -EPIPE);
	assert_int_equal(got, -1);
	close(pair[0]);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

	return UNIT_RUN(T(the_router_dies), T(the_router_dies_at_any_time),
			T(what_was_placed_stays), T(the_service_ends), T(the_session_ends_before),
			T(sessions_without_mappings), T(what_was_read_is_dealt_with), T(false_logs),
			cmocka_unit_test_setup_teardown(places_are_shared, setup_few, teardown),
			T(false_requests), T(nobody_is_there));
}

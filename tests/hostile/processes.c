/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/vt.c -lpthread */
/* timeout: 300 */
/*
 * processes.c - a client whose process becomes another user's, another program, several, or is stopped, by a
 * signal, a debugger, a frozen cgroup: before HELLO, between two calls, with a call that is not answered.
 * tests/system/raw_process.c has what happens to transfers then.
 */
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/common/hello.h"
#include "tests/rig/verbs/raw.h"

#define BUF    65536u
#define NOBODY 65534

/* What the processes of a case tell each other. */
static struct shared {
	_Atomic int step; /* only grows */
	uint32_t qp_num, rkey, peer_rkey;
	uint64_t addr, peer_addr;
	_Atomic uint32_t peer_qp;
	_Atomic bool parent_is_silent; /* child_speaks */
} * sh;

static void shared_make(void)
{
	sh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(sh != MAP_FAILED);
}

/* Who has no rights can open its own memory only as long as it may be dumped. */
static void unprivileged(void)
{
	CHECK(!setgroups(0, NULL) && !setresgid(NOBODY, NOBODY, NOBODY) &&
	      !setresuid(NOBODY, NOBODY, NOBODY));
	CHECK(!prctl(PR_SET_DUMPABLE, 1));
}

static pid_t client_fork(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		unprivileged();
	}
	return pid;
}

static void client_kill(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	do
		CHECK(waitpid(pid, &status, 0) == pid);
	while (!WIFEXITED(status) && !WIFSIGNALED(status));
}

/* In the client: a QP that peer_connect()'s is to be connected with, whose memory that one may reach. */
static void client_connect(struct raw *r, struct raw_qp *q)
{
	raw_open(r);
	raw_qp_make(r, q, IBV_QPT_RC, BUF);
	sh->qp_num = q->qp_num;
	sh->rkey = q->lkey;
	sh->addr = (uintptr_t)q->buf;
	sh->step = 1;
	WAIT_FOR(sh->peer_qp);
	raw_qp_connect_to(r, q, sh->peer_qp);
	sh->step = 2;
}

static void peer_connect(struct raw *r, struct raw_qp *q)
{
	raw_open(r);
	raw_qp_make(r, q, IBV_QPT_RC, BUF);
	WAIT_FOR(sh->step >= 1);
	raw_qp_connect_to(r, q, sh->qp_num);
	sh->peer_addr = (uintptr_t)q->buf;
	sh->peer_rkey = q->lkey;
	sh->peer_qp = q->qp_num;
	WAIT_FOR(sh->step >= 2);
}

/* 8 bytes to the client's memory: the status. */
static enum ibv_wc_status write_to(struct raw *r, struct raw_qp *q, uint64_t addr, uint32_t rkey)
{
	struct ff_sqe *e = raw_sqe(q);
	struct ff_cqe *c;

	raw_write_wr(q, e, q->sq_tail);
	e->remote_addr = addr;
	e->rkey = rkey;
	raw_publish(r, q);
	WAIT_FOR((c = raw_cqe(q)));
	return c->status;
}

static int query(struct raw *r)
{
	struct ff_query_port_resp port;

	return RAW_TRY(r, QUERY_PORT, (&(struct ff_query_port_req){ .port = 1 }), &port);
}

/* Shared memory at `p`, as if the router could map it. */
static int reg_shared(struct raw *r, uint32_t pd, void *p, size_t len, struct ff_reg_mr_resp *mr)
{
	struct ff_mr_run run = { .va = (uintptr_t)p, .len = len, .kind = FF_RUN_SHARED };
	struct ff_reg_mr_req req = {
		.addr = run.va, .length = len, .iova = run.va, .pd = pd, .access = VT_ACCESS_ALL
	};

	return raw_call_tail(r, FF_MSG_REG_MR, &req, sizeof(req), &run, sizeof(run), 1, mr,
			     sizeof(*mr));
}

/* ---- another user ------------------------------------------------------------------------------- */

/* Between two calls: the session is its process's, whatever that may do by then. */
static void another_user(void)
{
	int none[2] = { open("/dev/null", O_RDWR), open("/dev/null", O_RDONLY) }, status;
	pid_t pid;

	victim_start();
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		struct ff_hello_req hello = { FF_PROTO_VERSION, FF_PROTO_VERSION, "user", { 0 } };
		struct ff_hdr h = { FF_PROTO_MAGIC, FF_MSG_HELLO, 1, 0, 0, 2 };
		uint8_t packet[sizeof(h) + sizeof(hello)], got[512];
		struct raw r, second;
		struct raw_qp q;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		raw_open(&r);
		unprivileged();
		raw_qp_make(&r, &q, IBV_QPT_RC, BUF);
		raw_qp_connect(&r, &q);
		CHECK_EQ(write_to(&r, &q, (uintptr_t)q.buf + 64, q.lkey), IBV_WC_SUCCESS);
		raw_open(&second); /* its own memory is still its own */
		raw_close(&second);
		CHECK(!prctl(PR_SET_DUMPABLE, 0));
		CHECK(open("/proc/self/mem", O_RDWR) < 0);
		raw_connect(&second);
		memcpy(packet, &h, sizeof(h));
		memcpy(packet + sizeof(h), &hello, sizeof(hello));
		CHECK(raw_send_fds(&second, packet, sizeof(packet), none, 2));
		if (raw_recv(&second, got, sizeof(got), NULL, NULL)) {
			memcpy(&h, got, sizeof(h));
			CHECK(h.status < 0);
		}
		raw_close(&second);
		CHECK_EQ(write_to(&r, &q, (uintptr_t)q.buf + 64, q.lkey), IBV_WC_SUCCESS);
		raw_close(&r);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	victim_stop();
	raw_router_serves();
}

/* ---- another program ------------------------------------------------------------------------------ */

/*
 * In a program with rights that the client has not, with its session's socket: memory at the old address,
 * which nobody reaches, and which the session cannot register.
 */
static int after_exec(char **argv)
{
	struct raw r = { .sock = atoi(argv[2]), .async_fd = -1, .bell_fd = -1, .uffd_dev = -1 };
	uint8_t *at = (uint8_t *)strtoull(argv[3], NULL, 16), *p;
	uint32_t pd = (uint32_t)strtoul(argv[4], NULL, 16);
	int told = atoi(argv[5]), go_on = atoi(argv[6]);
	int fd = memfd_create("after", 0);
	struct ff_reg_mr_resp mr;
	char c = 1;
	int st;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fd < 0 || ftruncate(fd, BUF) || geteuid() != 0)
		return 77;
	p = mmap(at, BUF, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
	if (p != at)
		return 77; /* something else is there in this program */
	memset(p, 0, BUF);
	st = query(&r);
	CHECK(st == 0 || st == RAW_CLOSED);
	st = reg_shared(&r, pd, p, BUF, &mr);
	CHECK(st == RAW_CLOSED || st < 0 || !mr.zero_copy);
	if (write(told, &c, 1) != 1 || read(go_on, &c, 1) != 1)
		return 2;
	return vt_all(p, BUF, 0) ? 0 : 1;
}

/* A copy of this program that is root, whoever runs it. */
static void setuid_copy(char path[64])
{
	static char bytes[65536];
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;
	ssize_t n;

	strcpy(path, "/tmp/hostile.XXXXXX");
	to = mkostemp(path, O_CLOEXEC);
	CHECK(from >= 0 && to >= 0);
	while ((n = read(from, bytes, sizeof(bytes))) > 0)
		CHECK(write(to, bytes, (size_t)n) == n);
	CHECK(!fchmod(to, 04755));
	close(from);
	close(to);
}

static void setuid_program(void)
{
	int told[2], go_on[2], status;
	char path[64], c = 1;
	struct raw_qp q;
	struct raw r;
	pid_t pid;

	victim_start();
	shared_make();
	setuid_copy(path);
	CHECK(!pipe(told) && !pipe(go_on));
	pid = client_fork();
	if (!pid) {
		char sock[16], addr[32], pd[16], out[16], in[16];
		struct raw mine;
		struct raw_qp mq;

		close(told[0]);
		close(go_on[1]);
		client_connect(&mine, &mq);
		fcntl(mine.sock, F_SETFD, 0); /* the session outlives the program */
		snprintf(sock, sizeof(sock), "%d", mine.sock);
		snprintf(addr, sizeof(addr), "%lx", (unsigned long)sh->addr);
		snprintf(pd, sizeof(pd), "%x", mq.pd);
		snprintf(out, sizeof(out), "%d", told[1]);
		snprintf(in, sizeof(in), "%d", go_on[0]);
		WAIT_FOR(sh->step >= 3);
		execl(path, "processes", "--after-exec", sock, addr, pd, out, in, NULL);
		_exit(3);
	}
	close(told[1]);
	close(go_on[0]);
	peer_connect(&r, &q);
	CHECK_EQ(write_to(&r, &q, sh->addr + 64, sh->rkey), IBV_WC_SUCCESS);
	sh->step = 3;
	if (read(told[0], &c, 1) == 1) {
		CHECK(write_to(&r, &q, sh->addr + 64, sh->rkey) != IBV_WC_SUCCESS);
		CHECK(write(go_on[1], &c, 1) == 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	unlink(path);
	CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
	raw_close(&r);
	victim_stop();
	if (WEXITSTATUS(status) == 77)
		vt_skip("no program with root's rights, or none at the same address");
	raw_router_serves();
}

/* ---- several --------------------------------------------------------------------------------------- */

#define CALLS 200u /* of each, together fewer than a socket holds answers of */

/* Requests whose answers anybody may read. */
static void speak(struct raw *r, uint32_t seq)
{
	struct {
		struct ff_hdr hdr;
		struct ff_query_port_req req;
	} m = { { FF_PROTO_MAGIC, FF_MSG_QUERY_PORT, seq, 0, 0, 0 }, { .port = 1 } };
	uint8_t answer[512];

	for (unsigned i = 0; i < CALLS; i++) {
		CHECK(raw_send(r, &m, sizeof(m), -1));
		CHECK(raw_recv(r, answer, sizeof(answer), NULL, NULL) > sizeof(m.hdr));
	}
}

static void child_speaks(void)
{
	int status, pair[2];
	struct raw_qp q;
	struct raw r;
	pid_t pid, parent;
	char c;

	victim_start();
	shared_make();
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, BUF);
	parent = client_fork();
	if (!parent) {
		struct ff_reg_mr_resp mr;
		struct raw mine;
		struct raw_qp mq;
		uint8_t *p;

		client_connect(&mine, &mq);
		pid = fork();
		if (pid) { /* both speak at once */
			speak(&mine, 1);
			sh->parent_is_silent = true;
			WAIT_FOR(sh->step >= 5);
			_exit(0);
		}
		speak(&mine, 2);
		WAIT_FOR(sh->parent_is_silent);
		/* of the parent, who has nothing there */
		p = mmap(NULL, BUF, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		memset(p, 0, BUF);
		sh->step = 3;
		CHECK(recv(pair[1], &c, 1, 0) == 1);
		status = reg_shared(&mine, mq.pd, p, BUF, &mr);
		CHECK(status < 0 || (!status && !mr.zero_copy));
		sh->addr = (uintptr_t)p;
		sh->rkey = status ? 0 : mr.rkey;
		sh->step = 4;
		CHECK(recv(pair[1], &c, 1, 0) == 1);
		CHECK(vt_all(p, BUF, 0));
		sh->step = 5;		/* the parent goes */
		raw_want_closed(&mine); /* the session goes with the parent */
		CHECK_EQ(query(&mine), RAW_CLOSED);
		raw_open(&mine); /* its own it may have */
		raw_close(&mine);
		CHECK(write(pair[1], "y", 1) == 1);
		_exit(0);
	}
	peer_connect(&r, &q);
	WAIT_FOR(sh->step >= 3);
	CHECK(write(pair[0], "g", 1) == 1);
	WAIT_FOR(sh->step >= 4);
	if (sh->rkey)
		CHECK(write_to(&r, &q, sh->addr + 64, sh->rkey) != IBV_WC_SUCCESS);
	CHECK(write(pair[0], "g", 1) == 1);
	CHECK(waitpid(parent, &status, 0) == parent);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(vt_readable(pair[0], VT_WAIT_MS * (int)vt_slow()) && read(pair[0], &c, 1) == 1);
	CHECK_EQ(c, 'y');
	raw_close(&r);
	victim_stop();
	raw_router_serves();
}

/* The first thread ends, the others go on: the process lives, though much of /proc says nothing of it. */
static void *goes_on(void *arg)
{
	struct raw *r = arg;
	char state = 0, line[256];
	FILE *f;

	do { /* until the first thread is gone */
		f = fopen("/proc/self/stat", "r");
		CHECK(f && fgets(line, sizeof(line), f));
		fclose(f);
		state = strrchr(line, ')')[2];
	} while (state != 'Z');
	CHECK_EQ(query(r), 0);
	sh->step = 3;
	pause();
	return NULL;
}

static void without_first_thread(void)
{
	struct raw_qp q;
	struct raw r;
	pid_t pid;

	victim_start();
	shared_make();
	pid = client_fork();
	if (!pid) {
		static struct raw mine;
		static struct raw_qp mq;
		pthread_t t;

		client_connect(&mine, &mq);
		CHECK(!pthread_create(&t, NULL, goes_on, &mine));
		pthread_exit(NULL);
	}
	peer_connect(&r, &q);
	WAIT_FOR(sh->step >= 3);
	CHECK_EQ(write_to(&r, &q, sh->addr + 64, sh->rkey), IBV_WC_SUCCESS);
	victim_check();
	client_kill(pid);
	CHECK(write_to(&r, &q, sh->addr + 64, sh->rkey) != IBV_WC_SUCCESS);
	raw_close(&r);
	victim_stop();
	raw_router_serves();
}

/* ---- stopped ---------------------------------------------------------------------------------------- */

static void stop_by_signal(pid_t pid)
{
	int status;

	CHECK(!kill(pid, SIGSTOP));
	CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
}

static void stop_by_debugger(pid_t pid)
{
	int status;

	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL))
		vt_skip("no debugger here: %s", strerror(errno));
	CHECK(!ptrace(PTRACE_INTERRUPT, pid, NULL, NULL));
	CHECK(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status));
}

static int file_open(const char *dir, const char *name, int flags)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return open(path, flags | O_CLOEXEC);
}

static bool file_put(const char *dir, const char *name, const char *text)
{
	int fd = file_open(dir, name, O_WRONLY);
	ssize_t n;

	if (fd < 0)
		return false;
	n = write(fd, text, strlen(text));
	close(fd);
	return n == (ssize_t)strlen(text);
}

static bool file_has(const char *dir, const char *name, const char *text)
{
	int fd = file_open(dir, name, O_RDONLY);
	char all[256];
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, all, sizeof(all) - 1);
	close(fd);
	all[n > 0 ? n : 0] = '\0';
	return strstr(all, text);
}

static char cgroup[128]; /* that of the case */

static void freeze(pid_t pid, const char *top, const char *file, const char *yes,
		   const char *told_in, const char *told)
{
	char number[16];

	if (access(top, W_OK))
		vt_skip("no %s here", top);
	snprintf(cgroup, sizeof(cgroup), "%s/freeflow-hostile", top);
	snprintf(number, sizeof(number), "%d", (int)pid);
	rmdir(cgroup);
	if (mkdir(cgroup, 0755) || !file_put(cgroup, "cgroup.procs", number) ||
	    !file_put(cgroup, file, yes)) {
		kill(pid, SIGKILL);
		rmdir(cgroup);
		vt_skip("no cgroup can be frozen in %s", top);
	}
	WAIT_FOR(file_has(cgroup, told_in, told));
}

static void stop_by_cgroup(pid_t pid)
{
	const char *top = access("/sys/fs/cgroup/cgroup.procs", F_OK) ? "/sys/fs/cgroup/unified" :
									"/sys/fs/cgroup";

	freeze(pid, top, "cgroup.freeze", "1", "cgroup.events", "frozen 1");
}

/* Version 1 does not even let who is killed go. */
static void stop_by_old_cgroup(pid_t pid)
{
	freeze(pid, "/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "freezer.state", "FROZEN");
}

static void stopped_end(pid_t pid)
{
	kill(pid, SIGKILL);
	if (*cgroup)
		file_put(cgroup, "freezer.state", "THAWED");
	client_kill(pid);
	if (*cgroup)
		WAIT_FOR(!rmdir(cgroup) || errno == ENOENT);
}

/* Before HELLO, and with parts of one on their way. */
static void stopped_before_hello(void (*stop)(pid_t pid))
{
	pid_t pid = client_fork();

	if (!pid) {
		struct ff_hdr h = { .magic = FF_PROTO_MAGIC, .type = FF_MSG_HELLO };
		struct raw r[3];

		for (int i = 0; i < 3; i++)
			raw_connect(&r[i]);
		CHECK(raw_hello(&r[1]));
		raw_send(&r[2], &h, sizeof(h), -1);
		sh->step = 1;
		for (;;)
			pause();
	}
	WAIT_FOR(sh->step >= 1);
	stop(pid);
	victim_check();
	raw_router_serves();
	stopped_end(pid);
}

/* Between two calls: WRs on their way to it and from it; then also a call whose answer it does not read. */
static void stopped_in_session(void (*stop)(pid_t pid), bool in_call)
{
	struct raw_qp q;
	struct raw r;
	pid_t pid;

	sh->step = 0;
	sh->peer_qp = 0;
	pid = client_fork();
	if (!pid) {
		struct raw mine;
		struct raw_qp mq;

		client_connect(&mine, &mq);
		if (in_call)
			speak(&mine, 1);
		for (uint64_t i = 0; i < 30; i++) {
			struct ff_sqe *e = raw_sqe(&mq);

			raw_write_wr(&mq, e, i);
			e->remote_addr = sh->peer_addr;
			e->rkey = sh->peer_rkey;
			raw_publish(&mine, &mq);
		}
		for (unsigned i = 0; in_call && i < 16; i++) {
			struct {
				struct ff_hdr hdr;
				struct ff_query_port_req req;
			} m = { { FF_PROTO_MAGIC, FF_MSG_QUERY_PORT, i, 0, 0, 0 }, { .port = 1 } };

			raw_send(&mine, &m, sizeof(m), -1);
		}
		sh->step = 3;
		for (;;)
			pause();
	}
	peer_connect(&r, &q);
	WAIT_FOR(sh->step >= 3);
	stop(pid);
	for (int i = 0; i < 20; i++) /* its memory is where it was */
		CHECK_EQ(write_to(&r, &q, sh->addr + 64, sh->rkey), IBV_WC_SUCCESS);
	victim_check();
	raw_router_serves();
	stopped_end(pid);
	CHECK(write_to(&r, &q, sh->addr + 64, sh->rkey) != IBV_WC_SUCCESS);
	raw_close(&r);
}

static void stopped(void (*stop)(pid_t pid))
{
	victim_start();
	shared_make();
	stopped_before_hello(stop);
	stopped_in_session(stop, false);
	stopped_in_session(stop, true);
	victim_stop();
	raw_router_serves();
}

static void stopped_by_signal(void)
{
	stopped(stop_by_signal);
}

static void stopped_by_debugger(void)
{
	stopped(stop_by_debugger);
}

static void stopped_by_cgroup(void)
{
	stopped(stop_by_cgroup);
}

static void stopped_by_old_cgroup(void)
{
	stopped(stop_by_old_cgroup);
}

/* It has ended, nobody has asked how, and its socket lives on in another process. */
static void ended(void)
{
	struct raw_qp q;
	struct raw r;
	int status;
	pid_t pid;

	victim_start();
	shared_make();
	pid = client_fork();
	if (!pid) {
		struct raw mine;
		struct raw_qp mq;

		client_connect(&mine, &mq);
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, 0);
			raw_want_closed(&mine);
			CHECK_EQ(query(&mine), RAW_CLOSED);
			sh->step = 3;
			_exit(0);
		}
		_exit(0);
	}
	peer_connect(&r, &q);
	WAIT_FOR(sh->step >= 3);
	CHECK(write_to(&r, &q, sh->addr + 64, sh->rkey) != IBV_WC_SUCCESS);
	raw_close(&r);
	victim_check();
	CHECK(waitpid(pid, &status, 0) == pid);
	victim_stop();
	raw_router_serves();
}

static const struct vt_case cases[] = {
	{ "processes_another_user", another_user, 0 },
	{ "processes_setuid_program", setuid_program, 0 },
	{ "processes_child_speaks", child_speaks, 0 },
	{ "processes_without_first_thread", without_first_thread, 0 },
	{ "processes_stopped_by_signal", stopped_by_signal, 0 },
	{ "processes_stopped_by_debugger", stopped_by_debugger, 0 },
	{ "processes_stopped_by_cgroup", stopped_by_cgroup, 0 },
	{ "processes_stopped_by_old_cgroup", stopped_by_old_cgroup, 0 },
	{ "processes_ended", ended, 0 },
};

int main(int argc, char **argv)
{
	if (argc == 7 && !strcmp(argv[1], "--after-exec"))
		return after_exec(argv);
	return vt_main(argc, argv, cases, ARRAY_SIZE(cases));
}

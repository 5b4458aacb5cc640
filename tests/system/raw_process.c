/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/vt.c -lpthread */
/* test: netns */
/* all: docker system-san */
/* timeout: 480 */
/*
 * raw_process.c - what a hostile client does to its own process in the middle of everything: it stops,
 * becomes another program, replaces its memory under a transfer, dies and leaves its number to somebody
 * else. Each must hurt that client alone, and the router must write nothing into what came in its place.
 */
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/verbs/raw.h"

#define BUF 65536u

/* What the processes of a case tell each other. */
static struct shared {
	_Atomic int step, round; /* steps of a round; both only grow */
	uint32_t qp_num, rkey, peer_qp, peer_rkey;
	uint64_t addr, peer_addr;
} * sh;

#define STEPS 10 /* of a round */

static void step_done(int n)
{
	sh->step = sh->round * STEPS + n;
}

static bool is_step(int round, int n)
{
	return sh->step >= round * STEPS + n;
}

static void shared_make(void)
{
	sh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(sh != MAP_FAILED);
}

/* The client that gets into trouble: a QP whose memory the other one may write to. */
static void client_make(struct raw *r, struct raw_qp *q)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	raw_open(r);
	raw_qp_make(r, q, IBV_QPT_RC, BUF);
	sh->qp_num = q->qp_num;
	sh->rkey = q->lkey;
	sh->addr = (uintptr_t)q->buf;
	step_done(1);
	WAIT_FOR(is_step(sh->round, 2));
	raw_qp_connect_to(r, q, sh->peer_qp);
	step_done(3);
}

/* The other one's side of that. */
static void peer_make(struct raw *r, struct raw_qp *q)
{
	raw_open(r);
	raw_qp_make(r, q, IBV_QPT_RC, BUF);
	WAIT_FOR(is_step(sh->round, 1));
	raw_qp_connect_to(r, q, sh->qp_num);
	sh->peer_qp = q->qp_num;
	sh->peer_rkey = q->lkey;
	sh->peer_addr = (uintptr_t)q->buf;
	step_done(2);
	WAIT_FOR(is_step(sh->round, 3));
}

/* 8 bytes to the client's memory: the status. */
static enum ibv_wc_status write_to_client(struct raw *r, struct raw_qp *q, uint64_t id)
{
	struct ff_sqe *e = raw_sqe(q);
	struct ff_cqe *c;

	raw_write_wr(q, e, id);
	e->remote_addr = sh->addr + 128;
	e->rkey = sh->rkey;
	raw_publish(r, q);
	WAIT_FOR((c = raw_cqe(q)));
	CHECK_EQ(c->wr_id, id);
	return c->status;
}

static void client_reap(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
}

/* As fork(), for the client of another round. */
static pid_t next_round(void)
{
	pid_t pid;

	sh->round++;
	pid = fork();
	CHECK(pid >= 0);
	return pid;
}

/* ---- stopped ---------------------------------------------------------------------------------- */

static void stopped(void)
{
	victim_start();
	shared_make();
	for (unsigned round = 0; round < 10; round++) {
		struct raw_qp q;
		struct raw r;
		int status;
		pid_t pid;

		pid = next_round();
		if (!pid) {
			struct raw mine;
			struct raw_qp mq;

			client_make(&mine, &mq);
			for (uint64_t i = 0; i < 30; i++) { /* on its way when it stops */
				struct ff_sqe *e = raw_sqe(&mq);

				raw_write_wr(&mq, e, i);
				e->remote_addr = sh->peer_addr + 1024;
				e->rkey = sh->peer_rkey;
				raw_publish(&mine, &mq);
			}
			raise(SIGSTOP);
			_exit(0);
		}
		peer_make(&r, &q);
		CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
		/* its memory can be reached as before */
		for (uint64_t i = 0; i < 20; i++)
			CHECK_EQ(write_to_client(&r, &q, i), IBV_WC_SUCCESS);
		victim_check();
		kill(pid, round % 2 ? SIGKILL : SIGCONT);
		client_reap(pid);
		CHECK(write_to_client(&r, &q, 99) != IBV_WC_SUCCESS);
		raw_close(&r);
	}
	victim_stop();
	raw_router_serves();
}

/* ---- another program --------------------------------------------------------------------------- */

/* In the new program: memory at the old address, which nobody writes to. */
static int after_exec(char **argv)
{
	uint8_t *at = (uint8_t *)strtoull(argv[2], NULL, 16), *p;
	int told = atoi(argv[3]), go_on = atoi(argv[4]);
	char c = 1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	p = mmap(at, BUF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
		 -1, 0);
	if (p != at)
		return 77; /* something else is there in this program */
	memset(p, 0, BUF);
	if (write(told, &c, 1) != 1 || read(go_on, &c, 1) != 1)
		return 2;
	return vt_all(p, BUF, 0) ? 0 : 1;
}

static void becomes_another_program(void)
{
	unsigned seen = 0;

	victim_start();
	shared_make();
	for (unsigned round = 0; round < 10; round++) {
		int told[2], go_on[2], status;
		struct raw_qp q;
		struct raw r;
		pid_t pid;
		char c = 1;

		sh->round++;
		CHECK(!pipe(told) && !pipe(go_on));
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			char addr[32], out[16], in[16];
			struct raw mine;
			struct raw_qp mq;

			client_make(&mine, &mq);
			fcntl(mine.sock, F_SETFD, 0); /* the session outlives the program */
			close(told[0]);
			close(go_on[1]);
			snprintf(addr, sizeof(addr), "%lx", (unsigned long)sh->addr);
			snprintf(out, sizeof(out), "%d", told[1]);
			snprintf(in, sizeof(in), "%d", go_on[0]);
			WAIT_FOR(is_step(sh->round, 4));
			execl("/proc/self/exe", "raw_process", "--after-exec", addr, out, in, NULL);
			_exit(3);
		}
		close(told[1]);
		close(go_on[0]);
		peer_make(&r, &q);
		CHECK_EQ(write_to_client(&r, &q, 1), IBV_WC_SUCCESS);
		step_done(4);
		if (read(told[0], &c, 1) == 1) {
			CHECK(write_to_client(&r, &q, 2) != IBV_WC_SUCCESS);
			CHECK(write(go_on[1], &c, 1) == 1);
			seen++;
		}
		CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
		CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
		close(told[0]);
		close(go_on[1]);
		raw_close(&r);
		victim_check();
	}
	CHECK(seen);
	victim_stop();
	raw_router_serves();
}

/* ---- other memory ------------------------------------------------------------------------------ */

static _Atomic bool done;
static _Atomic unsigned num_bad;

/*
 * The pages of the buffer are replaced, forbidden and taken away over and over; the router tries for a
 * while, since they might be on their way to another place. Now and then all are gone until it gives up.
 */
static void *replace(void *arg)
{
	const struct raw_qp *q = arg;
	uint32_t rnd = 5;

	for (unsigned n = 1; !done; n++) {
		uint8_t *page = q->buf + (vt_rand(&rnd) % (BUF / FF_PAGE)) * FF_PAGE;
		int prot = (const int[]){ PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE,
					  PROT_WRITE }[vt_rand(&rnd) % 4];

		switch (vt_rand(&rnd) % 4) {
		case 0:
			mprotect(page, FF_PAGE, prot);
			break;
		case 1:
			munmap(page, FF_PAGE);
			break;
		case 2:
			madvise(page, FF_PAGE, MADV_DONTNEED);
			break;
		default:
			mmap(page, FF_PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
			break;
		}
		if (n % 5000 == 0) {
			unsigned before = num_bad;

			munmap(q->buf, BUF);
			while (!done && num_bad == before)
				vt_pause();
			mmap(q->buf, BUF, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		}
	}
	return NULL;
}

static void replaced_memory(void)
{
	unsigned good = 0;
	struct raw_qp q;
	struct raw r;
	uint32_t rnd = 3;
	pthread_t t;

	victim_start();
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, BUF);
	CHECK(!pthread_create(&t, NULL, replace, &q));
	raw_qp_connect(&r, &q);
	for (uint64_t until = vt_deadline(); good < 100 || num_bad < 10;) {
		struct ff_cqe *c;
		struct ff_sqe *e = raw_sqe(&q);

		if (vt_now() > until)
			FAIL("%u WRs succeeded, %u failed", good, num_bad);
		raw_write_wr(&q, e, good + num_bad);
		e->opcode = (good + num_bad) % 2 ? FF_OP_WRITE : FF_OP_READ;
		e->sge[0] = (struct ff_sge){ (uintptr_t)q.buf + vt_rand(&rnd) % (BUF / 2),
					     1 + vt_rand(&rnd) % 2048, q.lkey };
		e->remote_addr = (uintptr_t)q.buf + vt_rand(&rnd) % (BUF / 2);
		e->rkey = q.lkey;
		raw_publish(&r, &q);
		WAIT_FOR((c = raw_cqe(&q)));
		if (c->status == IBV_WC_SUCCESS) {
			good++;
			continue;
		}
		num_bad++;
		raw_qp_connect(&r, &q); /* by way of RESET */
		CHECK(raw_canaries(&q));
	}
	done = true;
	pthread_join(t, NULL);
	CHECK(raw_canaries(&q));
	raw_close(&r);
	victim_stop();
	raw_router_serves();
}

/* ---- the same number ---------------------------------------------------------------------------- */

/* A process with that number, or -1. It ends with 0 if nobody writes to the address. */
static pid_t same_number(pid_t number)
{
	struct clone_args a = {
		.exit_signal = SIGCHLD,
		.set_tid = (uintptr_t)&number,
		.set_tid_size = 1,
	};
	int now = sh->round;
	pid_t pid = (pid_t)syscall(SYS_clone3, &a, sizeof(a));
	uint8_t *p;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	p = mmap((void *)sh->addr, BUF, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (p == MAP_FAILED)
		_exit(2);
	memset(p, 0, BUF);
	step_done(5);
	while (!is_step(now, 6))
		vt_pause();
	_exit(vt_all(p, BUF, 0) ? 0 : 1);
}

static void number_used_again(void)
{
	victim_start();
	shared_make();
	for (unsigned round = 0; round < 5; round++) {
		pid_t pid, keeper, again;
		struct raw_qp q;
		struct raw r;

		pid = next_round();
		if (!pid) {
			struct raw mine;
			struct raw_qp mq;

			client_make(&mine, &mq);
			int now = sh->round;

			keeper = fork(); /* has the session's socket, too */
			if (!keeper) {
				prctl(PR_SET_PDEATHSIG, 0);
				while (!is_step(now, 6))
					vt_pause();
				_exit(0);
			}
			step_done(4);
			pause();
			_exit(0);
		}
		peer_make(&r, &q);
		WAIT_FOR(is_step(sh->round, 4));
		CHECK_EQ(write_to_client(&r, &q, 1), IBV_WC_SUCCESS);
		kill(pid, SIGKILL);
		client_reap(pid);
		again = same_number(pid);
		if (again < 0) {
			step_done(6);
			vt_skip("no process with a number of one's choice: %s", strerror(errno));
		}
		CHECK_EQ(again, pid);
		WAIT_FOR(is_step(sh->round, 5));
		CHECK(write_to_client(&r, &q, 2) != IBV_WC_SUCCESS);
		step_done(6);
		CHECK_EQ(vt_child_status(again), 0);
		raw_close(&r);
		victim_check();
	}
	victim_stop();
	raw_router_serves();
}

/*
 * The same before HELLO: who connected has ended, with HELLO in the queue of a router that accepts nobody
 * for a while, and somebody else has its number by the time that it is read. Its child has the socket.
 */
#define SILENT 64u /* connections without HELLO, after which others wait (ffr/ctl/container.c) */

static void number_used_before_hello(void)
{
	victim_start();
	shared_make();
	for (unsigned round = 0; round < 3; round++) {
		struct raw silent[SILENT];
		pid_t pid, again;
		int pair[2], now;
		struct raw r;
		char c = 0;

		now = ++sh->round;
		CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
		sh->addr = 0x7e0000000000; /* of pages that the heir maps there */
		for (unsigned i = 0; i < SILENT; i++)
			raw_connect(&silent[i]);
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			struct raw mine;

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			raw_connect(&mine);
			CHECK(raw_hello(&mine));
			if (!fork()) { /* the socket's keeper */
				uint8_t answer[512];
				struct ff_hdr h = { 0 };
				int fds[8];
				unsigned n;

				prctl(PR_SET_PDEATHSIG, 0);
				if (raw_recv(&mine, answer, sizeof(answer), fds, &n))
					memcpy(&h, answer, sizeof(h));
				c = h.type == FF_MSG_HELLO && !h.status ? 'y' : 'n';
				CHECK(write(pair[1], &c, 1) == 1);
				_exit(0);
			}
			_exit(0);
		}
		client_reap(pid);
		again = same_number(pid);
		if (again < 0)
			vt_skip("no process with a number of one's choice: %s", strerror(errno));
		WAIT_FOR(is_step(now, 5));
		for (unsigned i = 0; i < SILENT; i++)
			raw_close(&silent[i]);
		CHECK(read(pair[0], &c, 1) == 1);
		CHECK_EQ(c, 'n'); /* it was given no session */
		raw_open(&r);	  /* who comes after it is */
		raw_close(&r);
		step_done(6);
		CHECK_EQ(vt_child_status(again), 0);
		close(pair[0]);
		close(pair[1]);
		victim_check();
	}
	victim_stop();
	raw_router_serves();
}

static const struct vt_case cases[] = {
	{ "process_stopped", stopped, 0 },
	{ "process_becomes_another_program", becomes_another_program, 0 },
	{ "process_replaced_memory", replaced_memory, 0 },
	{ "process_number_used_again", number_used_again, 0 },
	{ "process_number_used_before_hello", number_used_before_hello, 0 },
};

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "--after-exec"))
		return after_exec(argv);
	return vt_main(argc, argv, cases, ARRAY_SIZE(cases));
}

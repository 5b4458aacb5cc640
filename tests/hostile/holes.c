/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/vt.c -lpthread */
/*
 * holes.c - for holes.sh: a client whose processes map a file that the router has mapped as well, each of them very
 * often, and which punches holes in it all the time. While the kernel goes through all these mappings, whoever
 * touches such a page, or maps or unmaps the file, waits.
 *
 *	holes KIND PROCESSES	says "attacks" when all is mapped, and goes on until its standard input ends
 *
 *	burn	no holes: as many threads that use a CPU
 *	rings	the page of segment 0 in which the router looks for doorbells
 *	calls	segments of rings, while CQs in them are made and destroyed
 *	file	a file of the program's own, that is registered, and used
 *	regs	that file, while it is registered and deregistered
 *	shadow	the session's shadow pages, registered, and used
 *	places	these, while more are placed, registered and deregistered
 *
 * A session is a process: when the router ends the session, the next one begins.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/verbs/raw.h"

#define MAPS 65000u
#define PAGE 4096u
#define LEN  (16u * PAGE)

static unsigned processes;
static struct counts {
	_Atomic bool begun;
	_Atomic uint64_t holes, refused, laps, sessions;
} * sum;

/* ---- the mappings ------------------------------------------------------------------------------- */

/* Each is of the same page: none can be merged with its neighbour. */
static void hold(int fd, off_t off, int ready)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned i = 0; i < MAPS; i++)
		if (mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, off) == MAP_FAILED)
			break; /* as many as one may have */
	CHECK(write(ready, "", 1) == 1);
	for (;;)
		pause();
}

static void hold_all(int fd, off_t off)
{
	int ready[2];
	char c;

	CHECK(!pipe(ready));
	for (unsigned i = 0; i < processes; i++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid)
			hold(fd, off, ready[1]);
	}
	for (unsigned i = 0; i < processes; i++)
		CHECK(read(ready[0], &c, 1) == 1);
	close(ready[0]);
	close(ready[1]);
}

/* ---- the holes ---------------------------------------------------------------------------------- */

static struct hole {
	int fd;
	off_t len;
	off_t off;
	uint8_t *map; /* touched again, if not NULL */
} hole;

static void *punch(void *arg)
{
	for (;; sum->holes++) {
		if (fallocate(hole.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, hole.off,
			      hole.len))
			sum->refused++;
		for (off_t at = 0; hole.map && at < hole.len; at += PAGE)
			*(volatile uint8_t *)(hole.map + at) = 1;
	}
	return arg;
}

static void say_begun(void)
{
	if (!atomic_exchange(&sum->begun, true))
		CHECK(write(1, "attacks\n", 8) == 8);
}

static void punch_begin(int fd, off_t off, off_t len, uint8_t *map)
{
	uint64_t had = sum->holes;
	pthread_t t;

	hold_all(fd, off);
	hole = (struct hole){ fd, len, off, map };
	CHECK_EQ(pthread_create(&t, NULL, punch, NULL), 0);
	WAIT_FOR(sum->holes > had);
	say_begun();
}

/* ---- what the router is to touch ------------------------------------------------------------------ */

/* 8 bytes, again and again, to `addr`, or to the QP's own memory, while the session lasts. */
static void transfer(struct raw *r, struct raw_qp *q, uint64_t addr, uint32_t rkey)
{
	for (unsigned n = 0;; n++, sum->laps++) {
		struct ff_sqe *e = raw_sqe(q);
		struct ff_cqe *c;

		memset((uint8_t *)e + sizeof(e->seq), 0, q->q.sq.stride - sizeof(e->seq));
		raw_write_wr(q, e, n);
		if (addr) {
			e->remote_addr = addr + n % (LEN / PAGE) * PAGE;
			e->rkey = rkey;
		}
		raw_publish(r, q);
		while (!(c = raw_cqe(q))) {
			char b;

			raw_kick(r, q->qp); /* the bit may have gone with its page */
			if (!recv(r->sock, &b, 1, MSG_PEEK | MSG_DONTWAIT))
				_exit(0); /* the session has ended */
		}
		if (c->status != IBV_WC_SUCCESS)
			raw_qp_connect(r, q);
	}
}

static int reg(struct raw *r, uint32_t pd, const struct ff_mr_run *run, struct ff_reg_mr_resp *mr)
{
	struct ff_reg_mr_req req = { .addr = run->va,
				     .length = run->len,
				     .iova = run->va,
				     .pd = pd,
				     .access = VT_ACCESS_ALL };

	return raw_call_tail(r, FF_MSG_REG_MR, &req, sizeof(req), run, sizeof(*run), 1, mr,
			     sizeof(*mr));
}

static void rings(bool calls)
{
	struct raw_qp q;
	struct raw r;

	raw_open(&r);
	punch_begin(r.seg[0].fd, 0, PAGE, NULL);
	raw_qp_make(&r, &q, IBV_QPT_RC, PAGE);
	raw_qp_connect(&r, &q);
	if (!calls)
		transfer(&r, &q, 0, 0);
	for (;; sum->laps++) {
		struct ff_create_cq_req req = { .cqe = 4000 };
		struct ff_create_cq_resp cq[8];
		struct ff_destroy_cq_resp none;

		for (unsigned i = 0; i < ARRAY_SIZE(cq); i++)
			RAW_CALL(&r, CREATE_CQ, &req, &cq[i]);
		if (cq[7].ring.seg && !r.seg[cq[7].ring.seg].map) { /* one that is not sealed */
			memset(raw_at(&r, cq[7].ring.seg, cq[7].ring.off), 1, PAGE);
			punch_begin(r.seg[cq[7].ring.seg].fd, 0, PAGE, NULL);
		}
		for (unsigned i = 0; i < ARRAY_SIZE(cq); i++)
			RAW_CALL(&r, DESTROY_CQ, (&(struct ff_destroy_cq_req){ .cq = cq[i].cq }),
				 &none);
	}
}

static void file(bool calls)
{
	int fd = memfd_create("hostile", 0);
	struct ff_mr_run run = { .len = LEN, .kind = FF_RUN_SHARED };
	struct ff_dereg_mr_resp none;
	struct ff_reg_mr_resp mr;
	struct raw_qp q;
	struct raw r;
	uint8_t *p;

	CHECK(fd >= 0 && !ftruncate(fd, LEN));
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	memset(p, 1, LEN);
	run.va = (uintptr_t)p;
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, PAGE);
	raw_qp_connect(&r, &q);
	if (!calls)
		CHECK_EQ(reg(&r, q.pd, &run, &mr), 0);
	punch_begin(fd, 0, LEN, p);
	if (!calls)
		transfer(&r, &q, run.va, mr.rkey);
	for (;; sum->laps++) {
		CHECK_EQ(reg(&r, q.pd, &run, &mr), 0);
		RAW_CALL(&r, DEREG_MR, (&(struct ff_dereg_mr_req){ .mr = mr.mr }), &none);
	}
}

static void shadow(bool calls)
{
	struct ff_mr_run run = { .va = 1ull << 40, .len = LEN, .kind = FF_RUN_SHADOW };
	struct ff_dereg_mr_resp none;
	struct ff_reg_mr_resp mr;
	struct raw_qp q;
	struct raw r;
	uint8_t *p;
	int fd;

	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, PAGE);
	raw_qp_connect(&r, &q);
	CHECK_EQ(raw_watch_pages(&r), 0);
	fd = r.last_fd;
	CHECK_EQ(raw_place_pages(&r, LEN, &run.off), 0);
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)run.off);
	CHECK(p != MAP_FAILED);
	memset(p, 1, LEN);
	if (!calls)
		CHECK_EQ(reg(&r, q.pd, &run, &mr), 0);
	punch_begin(fd, (off_t)run.off, LEN, p);
	if (!calls)
		transfer(&r, &q, run.va, mr.rkey);
	for (;; sum->laps++) {
		uint64_t off;

		raw_place_pages(&r, LEN, &off);
		if (reg(&r, q.pd, &run, &mr) == RAW_CLOSED)
			return;
		RAW_TRY(&r, DEREG_MR, (&(struct ff_dereg_mr_req){ .mr = mr.mr }), &none);
	}
}

static void *spin(void *arg)
{
	for (;;)
		;
	return arg;
}

static void burn(bool calls)
{
	struct raw_qp q;
	struct raw r;
	pthread_t t;

	(void)calls;
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, PAGE);
	raw_qp_connect(&r, &q);
	CHECK_EQ(pthread_create(&t, NULL, spin, NULL), 0);
	say_begun();
	transfer(&r, &q, 0, 0);
}

static const struct kind {
	const char *name;
	void (*run)(bool calls);
	bool calls;
} kinds[] = {
	{ "burn", burn, false },    { "rings", rings, false }, { "calls", rings, true },
	{ "file", file, false },    { "regs", file, true },    { "shadow", shadow, false },
	{ "places", shadow, true },
};

static void *end_with_input(void *arg)
{
	char c;

	while (read(0, &c, 1) > 0)
		;
	printf("%llu holes, %llu refused; %llu laps, %llu sessions\n",
	       (unsigned long long)sum->holes, (unsigned long long)sum->refused,
	       (unsigned long long)sum->laps, (unsigned long long)sum->sessions);
	fflush(stdout);
	_exit(0);
	return arg;
}

int main(int argc, char **argv)
{
	const struct kind *k = kinds;
	pthread_t t;

	CHECK(argc == 3);
	processes = (unsigned)atoi(argv[2]);
	while (k < kinds + ARRAY_SIZE(kinds) && strcmp(k->name, argv[1]))
		k++;
	CHECK(k < kinds + ARRAY_SIZE(kinds));
	sum = mmap(NULL, sizeof(*sum), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(sum != MAP_FAILED);
	CHECK_EQ(pthread_create(&t, NULL, end_with_input, NULL), 0);
	for (;; sum->sessions++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			k->run(k->calls);
			_exit(0);
		}
		CHECK(waitpid(pid, NULL, 0) == pid);
		say_begun();   /* what the container owes from before keeps it from more */
		usleep(10000); /* it is refused for a while */
	}
}

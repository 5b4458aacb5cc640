/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/vt.c tests/rig/verbs/order.c -lpthread */
/*
 * holes.c - for holes.sh: a client whose processes map a file that the router has mapped as well,
 * each of them very often, and which punches holes in it all the time. While the kernel goes
 * through all these mappings, whoever touches such a page, or maps or unmaps the file, waits. A
 * victim in another container ($FF_VICTIM) is served all the same. A probe tells that the file is
 * locked (rig/verbs/order.h): it maps and unmaps the file, or touches its pages.
 *
 *	holes KIND PROCESSES	ends when the victim was served during enough holes. Without
 *				$FF_VICTIM, for make bench, it says "attacks" and goes on until its
 *				standard input ends
 *
 *	rings	the page of segment 0 in which the router would look for doorbells. The client never seals the
 *		segment: the router does not touch it, and closes the connection at the first call
 *	calls	a segment of rings that is not sealed, while calls name a CQ in it, and other CQs are made and destroyed
 *	locks	a segment of rings that is sealed, while CQs in it are made and destroyed. Nobody can punch holes there:
 *		threads hold the file's lock by fallocate() of all its pages, one after the other
 *	file	a file of the program's own, that is registered, and used
 *	regs	that file, while it is registered and deregistered
 *	shadow	the session's shadow pages, registered, and used
 *	places	these, while more are placed, registered and deregistered
 *
 * A session is a process: when the router ends the session, the next one begins. A container whose shadow pages make the
 * router wait gets no more of them, which is what is waited for there.
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

#include "tests/rig/verbs/order.h"
#include "tests/rig/verbs/raw.h"

#define MAPS 65000u
#define PAGE 4096u
#define LEN  (16u * PAGE)

#define HOLES 10u /* during which both are served */
/* Turns of the victim in each hole, which takes 0.1 s; the victim waits for a CPU, too. */
#define TURNS	 2u
#define HALF_CQE 15000u	  /* one such CQ, and no second one, fits into segment 0 */
#define BIG_CQE	 1000000u /* one that has a segment of its own, of 64 MB */
#define LOCKERS	 16u	  /* threads that want the lock: each waits for all others */

static unsigned processes;
static struct counts {
	struct probe probe;
	_Atomic bool in_hole;
	_Atomic bool enough; /* holes */
	_Atomic uint64_t holes, answered, sessions;
	_Atomic uint64_t refused, served; /* what the router must refuse; and it did not */
} * sum;

/* ---- the mappings ---------------------------------------------------------------------------- */

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

/* ---- the holes ------------------------------------------------------------------------------- */

static struct hole {
	int fd;
	off_t len;
	off_t off;
	uint8_t *map; /* touched again, if not NULL */
} hole;

static void *punch(void *arg)
{
	for (;; sum->holes++) {
		sum->in_hole = true;
		(void)fallocate(hole.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, hole.off,
				hole.len);
		sum->in_hole = false;
		for (off_t at = 0; hole.map && at < hole.len; at += PAGE)
			*(volatile uint8_t *)(hole.map + at) = 1;
	}
	return arg;
}

static void map_file(void *arg, uint64_t i)
{
	static void *p;

	(void)arg;
	if (i % 2)
		CHECK(!munmap(p, PAGE));
	else
		CHECK((p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, hole.fd,
				hole.off)) != MAP_FAILED);
}

static void touch_file(void *arg, uint64_t i)
{
	(void)arg;
	*(volatile uint8_t *)(hole.map + i % (uint64_t)(hole.len / PAGE) * PAGE) = 1;
}

/* step: the probe's, or NULL */
static void punch_begin(int fd, off_t off, off_t len, uint8_t *map,
			void (*step)(void *arg, uint64_t i))
{
	uint64_t had = sum->holes;
	pthread_t t;

	hold_all(fd, off);
	hole = (struct hole){ fd, len, off, map };
	if (step)
		probe_start(&sum->probe, step, NULL);
	CHECK_EQ(pthread_create(&t, NULL, punch, NULL), 0);
	WAIT_FOR(sum->holes > had);
}

static void look_for_data(void *arg, uint64_t i)
{
	(void)arg;
	(void)i;
	lseek(hole.fd, 0, SEEK_DATA);
	sum->holes++; /* the lock was held by others from one call to the next */
}

static void *lock(void *arg)
{
	for (;;)
		CHECK(!fallocate(hole.fd, 0, 0, hole.len));
	return arg;
}

static void locks_begin(int fd, off_t len)
{
	pthread_t t;

	hole = (struct hole){ .fd = fd, .len = len };
	probe_start(&sum->probe, look_for_data, NULL);
	sum->in_hole = true;
	for (unsigned i = 0; i < LOCKERS; i++)
		CHECK_EQ(pthread_create(&t, NULL, lock, NULL), 0);
}

/* ---- what the router is to touch ------------------------------------------------------------- */

/* 8 bytes, again and again, to `addr`, while the session lasts. */
static void transfer(struct raw *r, struct raw_qp *q, uint64_t addr, uint32_t rkey)
{
	for (unsigned n = 0;; n++) {
		struct ff_sqe *e = raw_sqe(q);
		struct ff_cqe *c;

		memset((uint8_t *)e + sizeof(e->seq), 0, q->q.sq.stride - sizeof(e->seq));
		raw_write_wr(q, e, n);
		e->remote_addr = addr + n % (LEN / PAGE) * PAGE;
		e->rkey = rkey;
		raw_publish(r, q);
		while (!(c = raw_cqe(q))) {
			char b;

			if (!recv(r->sock, &b, 1, MSG_PEEK | MSG_DONTWAIT))
				_exit(0); /* the session has ended */
		}
		sum->answered++;
		if (c->status != IBV_WC_SUCCESS)
			raw_qp_connect(r, q);
	}
}

/* One request that the victim may wait for. */
static int told(struct raw *r, uint16_t type, const void *req, size_t req_len,
		const struct ff_mr_run *run, void *resp, size_t resp_len)
{
	int st;

	if (!raw_ask(r, type, req, req_len, run, sizeof(*run), run ? 1 : 0))
		return RAW_CLOSED;
	st = raw_answer(r, type, 0, resp, resp_len);
	sum->answered++;
	return st;
}

static int reg(struct raw *r, uint32_t pd, const struct ff_mr_run *run, struct ff_reg_mr_resp *mr)
{
	struct ff_reg_mr_req req = { .addr = run->va,
				     .length = run->len,
				     .iova = run->va,
				     .pd = pd,
				     .access = VT_ACCESS_ALL };

	return told(r, FF_MSG_REG_MR, &req, sizeof(req), run, mr, sizeof(*mr));
}

static int dereg(struct raw *r, uint32_t mr)
{
	const struct ff_dereg_mr_req req = { .mr = mr };
	struct ff_dereg_mr_resp none;

	return told(r, FF_MSG_DEREG_MR, &req, sizeof(req), NULL, &none, sizeof(none));
}

static void must_be_refused(bool is)
{
	if (is)
		sum->refused++;
	else
		sum->served++;
}

/* The client sees to it that the segment can never be sealed. */
static void rings(bool calls)
{
	struct ff_alloc_pd_resp pd;
	uint64_t one = 1;
	struct raw r;

	(void)calls;
	raw_unsealed = true;
	raw_open(&r);
	CHECK(!fcntl(r.seg[0].fd, F_ADD_SEALS, F_SEAL_SEAL));
	punch_begin(r.seg[0].fd, 0, PAGE, r.seg[0].map, touch_file);
	for (; !sum->enough; sum->answered++) {
		CHECK(write(r.bell_fd, &one, sizeof(one)) > 0 || errno == EAGAIN);
		vt_pause();
	}
	must_be_refused(RAW_TRY(&r, ALLOC_PD, &(struct ff_alloc_pd_req){ 0 }, &pd) == RAW_CLOSED);
}

static int cq_new(struct raw *r, uint32_t cqe, struct ff_create_cq_resp *cq)
{
	const struct ff_create_cq_req req = { .cqe = cqe };

	return told(r, FF_MSG_CREATE_CQ, &req, sizeof(req), NULL, cq, sizeof(*cq));
}

static int cq_end(struct raw *r, uint32_t cq)
{
	const struct ff_destroy_cq_req req = { .cq = cq };
	struct ff_destroy_cq_resp none;

	return told(r, FF_MSG_DESTROY_CQ, &req, sizeof(req), NULL, &none, sizeof(none));
}

static void named(bool calls)
{
	struct ff_create_cq_resp cq, other;
	struct raw r;
	uint8_t *map;

	(void)calls;
	raw_open(&r);
	do
		CHECK_EQ(cq_new(&r, HALF_CQE, &cq), 0);
	while (!cq.ring.seg);
	raw_unsealed = true;
	map = raw_at(&r, cq.ring.seg, 0);
	raw_unsealed = false;
	punch_begin(r.seg[cq.ring.seg].fd, 0, PAGE, map, touch_file);
	for (;;) {
		must_be_refused(cq_end(&r, cq.cq) == -EINVAL);
		CHECK_EQ(cq_new(&r, HALF_CQE, &other), 0);
		must_be_refused(other.ring.seg != cq.ring.seg); /* which has room */
		raw_at(&r, other.ring.seg, 0);
		CHECK_EQ(cq_end(&r, other.cq), 0);
	}
}

static void locks(bool calls)
{
	struct ff_create_cq_resp cq;
	uint32_t seg;
	struct raw r;

	(void)calls;
	raw_open(&r);
	CHECK_EQ(cq_new(&r, BIG_CQE, &cq), 0);
	seg = cq.ring.seg;
	raw_at(&r, seg, 0);
	CHECK_EQ(cq_end(&r, cq.cq), 0);
	locks_begin(r.seg[seg].fd, (off_t)r.seg[seg].size);
	for (;;) {
		CHECK_EQ(cq_new(&r, 2 * HALF_CQE, &cq), 0);
		CHECK_EQ(cq.ring.seg, seg);
		CHECK_EQ(cq_end(&r, cq.cq), 0);
	}
}

static void file(bool calls)
{
	int fd = memfd_create("hostile", 0);
	struct ff_mr_run run = { .len = LEN, .kind = FF_RUN_SHARED };
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
	punch_begin(fd, 0, LEN, p, calls ? map_file : touch_file);
	if (!calls)
		transfer(&r, &q, run.va, mr.rkey);
	do {
		if (reg(&r, q.pd, &run, &mr))
			return;
	} while (!dereg(&r, mr.mr));
}

static void shadow(bool calls)
{
	struct ff_mr_run run = { .va = 1ull << 40, .len = LEN, .kind = FF_RUN_SHADOW };
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
	if (raw_place_pages(&r, LEN, &run.off)) {
		sum->refused++;
		return;
	}
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)run.off);
	CHECK(p != MAP_FAILED);
	memset(p, 1, LEN);
	if (!calls)
		CHECK_EQ(reg(&r, q.pd, &run, &mr), 0);
	punch_begin(fd, (off_t)run.off, LEN, p, calls ? map_file : NULL);
	if (!calls)
		transfer(&r, &q, run.va, mr.rkey);
	do {
		uint64_t off;

		raw_place_pages(&r, LEN, &off);
		if (reg(&r, q.pd, &run, &mr) == RAW_CLOSED)
			return;
	} while (dereg(&r, mr.mr) != RAW_CLOSED);
}

/* ---- the victim ------------------------------------------------------------------------------ */

static struct raw victim;
static struct raw_qp victim_qp;

static void victim_call(void)
{
	struct ff_query_port_resp resp;

	RAW_CALL(&victim, QUERY_PORT, (&(struct ff_query_port_req){ .port = 1 }), &resp);
}

static void victim_write(void)
{
	struct ff_sqe *e = raw_sqe(&victim_qp);
	const struct ff_cqe *c;

	memset((uint8_t *)e + sizeof(e->seq), 0, victim_qp.q.sq.stride - sizeof(e->seq));
	raw_write_wr(&victim_qp, e, 0);
	raw_publish(&victim, &victim_qp);
	WAIT_FOR((c = raw_cqe(&victim_qp)));
	CHECK_EQ(c->status, IBV_WC_SUCCESS);
}

static bool goes_on(uint64_t stuck, uint64_t of)
{
	return probe_stuck(&sum->probe) == stuck && sum->in_hole && sum->holes == of;
}

/*
 * Were the victim and the attacker served during one hole? The attacker's requests concern the
 * file, and the router answers them without it.
 */
static bool served_in_hole(void (*serve)(void))
{
	uint64_t stuck = probe_stuck(&sum->probe), of = sum->holes, had = sum->answered;

	if (!stuck)
		return false;
	for (unsigned i = 0; i < TURNS || sum->answered == had; i++) {
		if (!goes_on(stuck, of))
			return false;
		serve();
	}
	return goes_on(stuck, of);
}

static void served_in_holes(void (*serve)(void))
{
	uint64_t until = vt_deadline(), last = UINT64_MAX;
	unsigned seen = 0;

	while (seen < HOLES && vt_now() < until) {
		uint64_t of = sum->holes;

		if (of != last && served_in_hole(serve)) {
			last = of;
			seen++;
		}
		vt_pause();
	}
	printf("served in %u holes; %llu holes, %llu requests, %llu sessions\n", seen,
	       (unsigned long long)sum->holes, (unsigned long long)sum->answered,
	       (unsigned long long)sum->sessions);
	CHECK_EQ(seen, HOLES);
}

/* ---- main ------------------------------------------------------------------------------------ */

static const struct kind {
	const char *name;
	void (*run)(bool calls);
	bool calls; /* the victim makes calls, and no transfers */
	bool waits; /* the router waits at first, and then refuses the attacker more of what it punches */
	bool refused; /* the router refuses something each time */
} kinds[] = {
	{ "rings", rings, false, false, true },	  { "calls", named, true, false, true },
	{ "locks", locks, true, false, false },	  { "file", file, false, false, false },
	{ "regs", file, true, false, false },	  { "shadow", shadow, false, true, false },
	{ "places", shadow, true, false, false },
};

static void attack(const struct kind *k)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;; sum->sessions++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid) { /* which the router may end at any time, and that is no failure */
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			CHECK(freopen("/dev/null", "w", stdout));
			k->run(k->calls);
			_exit(0);
		}
		CHECK(waitpid(pid, NULL, 0) == pid);
		sum->probe.pid = 0;
		if (sum->refused)
			usleep(10000);
	}
}

static void is_served(const struct kind *k)
{
	if (!k->waits)
		served_in_holes(k->calls ? victim_call : victim_write);
	sum->enough = true;
	if (k->waits || k->refused)
		WAIT_FOR(sum->refused);
	CHECK_EQ(sum->served, 0);
	victim_call();
	victim_write();
}

static void until_input_ends(void)
{
	char c;

	WAIT_FOR(sum->holes || sum->refused);
	puts("attacks");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
}

int main(int argc, char **argv)
{
	const struct kind *k = kinds;
	pid_t pid;

	CHECK(argc == 3);
	processes = (unsigned)atoi(argv[2]);
	while (k < kinds + ARRAY_SIZE(kinds) && strcmp(k->name, argv[1]))
		k++;
	CHECK(k < kinds + ARRAY_SIZE(kinds));
	sum = mmap(NULL, sizeof(*sum), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(sum != MAP_FAILED);
	if (getenv("FF_VICTIM")) {
		raw_open_victim(&victim);
		raw_qp_make(&victim, &victim_qp, IBV_QPT_RC, PAGE);
		raw_qp_connect(&victim, &victim_qp);
	}
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		attack(k);
	if (getenv("FF_VICTIM"))
		is_served(k);
	else
		until_input_ends();
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
	return 0;
}

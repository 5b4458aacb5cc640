/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/vt.c -lpthread */
/*
 * stalls.c - for stalls.sh: a client with many sessions and QPs whose memory is not there, does not come,
 * keeps who reaches for it waiting, or goes; or that stands still. And a victim.
 *
 *	stalls victim			reads lines of two numbers: completes so many WRITEs and makes so many
 *					small control calls beside them, then says "done"
 *	stalls KIND SESSIONS QPS	says "attacks" when each QP had a request, and goes on until its
 *					standard input ends
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/verbs/raw.h"

#define MAX_SES 512
#define PAGE	4096u

/* ---- the victim ----------------------------------------------------------------------------- */

struct calls {
	struct raw *r;
	unsigned n;
};

static void *make_calls(void *arg)
{
	const struct calls *c = arg;
	struct ff_query_port_resp resp;

	for (unsigned i = 0; i < c->n; i++)
		RAW_CALL(c->r, QUERY_PORT, (&(struct ff_query_port_req){ .port = 1 }), &resp);
	return NULL;
}

static void get_on(struct vt_end *a, struct raw *r, unsigned requests, unsigned calls)
{
	struct calls c = { r, calls };
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, make_calls, &c), 0);
	while (requests--) {
		vt_rdma(a, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, IBV_SEND_SIGNALED);
		WANT_OK(a->scq, 1);
	}
	CHECK_EQ(pthread_join(thread, NULL), 0);
	puts("done");
	fflush(stdout);
}

static void victim(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	char line[32];
	struct raw r;

	par.len = 2 * PAGE;
	vt_pair(&a, &b, &par);
	raw_open(&r);
	while (fgets(line, sizeof(line), stdin)) {
		unsigned requests, calls;

		CHECK_EQ(sscanf(line, "%u %u", &requests, &calls), 2);
		get_on(&a, &r, requests, calls);
	}
	raw_close(&r);
	vt_pair_close(&a, &b);
}

/* ---- the attack ----------------------------------------------------------------------------- */

static struct client {
	struct raw r;
	struct raw_qp *q;
	uint32_t *bad_key; /* of each QP */
	uint8_t *bad;	   /* a page that the QPs reach for */
} client[MAX_SES];

static void no_page(struct client *c)
{
	munmap(c->bad, PAGE);
}

static void page_that_nobody_brings(struct client *c)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .range = { (uintptr_t)c->bad, PAGE },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd = c->r.uffd_dev < 0 ? -1 : ioctl(c->r.uffd_dev, USERFAULTFD_IOC_NEW, O_CLOEXEC);

	if (fd < 0) {
		printf("no userfaultfd here: %s\n", strerror(errno));
		exit(77);
	}
	madvise(c->bad, PAGE, MADV_DONTNEED);
	CHECK_EQ(ioctl(fd, UFFDIO_API, &api), 0);
	CHECK_EQ(ioctl(fd, UFFDIO_REGISTER, &reg), 0);
}

static void page_of_a_held_map(struct client *c)
{
	(void)c;
	raw_hold_map();
}

static unsigned num_clients;

/* Each page is now here, now elsewhere, now nowhere, without end. */
static void *move_pages(void *arg)
{
	uint8_t *other = arg;

	for (;;)
		for (unsigned i = 0; i < num_clients; i++) {
			uint8_t *page = client[i].bad;

			CHECK(mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, other) ==
			      other);
			CHECK(mremap(other, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page) ==
			      page);
			munmap(page, PAGE);
			CHECK(mmap(page, PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
				   0) == page);
		}
	return NULL;
}

static void page_that_moves(struct client *c)
{
	pthread_t t;

	if (c == &client[num_clients - 1])
		CHECK_EQ(pthread_create(&t, NULL, move_pages, vt_map(PAGE)), 0);
}

/* Each page is now one that may be used, now one that may not, without end. */
static void *protect_pages(void *arg)
{
	for (int prot = PROT_NONE;; prot ^= PROT_READ | PROT_WRITE)
		for (unsigned i = 0; i < num_clients; i++)
			CHECK_EQ(mprotect(client[i].bad, PAGE, prot), 0);
	return arg;
}

static void page_that_is_protected(struct client *c)
{
	pthread_t t;

	if (c == &client[num_clients - 1])
		CHECK_EQ(pthread_create(&t, NULL, protect_pages, NULL), 0);
}

static void good_page(struct client *c)
{
	(void)c;
}

static const struct kind {
	const char *name;
	void (*spoil)(struct client *c);
} kinds[] = {
	{ "unmapped", no_page },
	{ "stalled", page_that_nobody_brings },
	{ "held", page_of_a_held_map },
	{ "moved", page_that_moves },
	{ "protected", page_that_is_protected },
}, good = { "good", good_page };

static void client_make(struct client *c, unsigned qps)
{
	struct ff_reg_mr_resp mr;

	raw_open(&c->r);
	c->q = calloc(qps, sizeof(*c->q));
	c->bad_key = calloc(qps, sizeof(*c->bad_key));
	c->bad = vt_map(PAGE);
	for (unsigned k = 0; k < qps; k++) {
		raw_qp_make(&c->r, &c->q[k], IBV_QPT_RC, PAGE);
		RAW_CALL(&c->r, REG_MR,
			 (&(struct ff_reg_mr_req){ .addr = (uintptr_t)c->bad,
						   .length = PAGE,
						   .iova = (uintptr_t)c->bad,
						   .pd = c->q[k].pd,
						   .access = VT_ACCESS_ALL }),
			 &mr);
		c->bad_key[k] = mr.lkey;
	}
}

static void post(struct client *c, unsigned k, unsigned n)
{
	raw_post_nth(&c->r, &c->q[k], n, (uintptr_t)c->bad, c->bad_key[k]);
}

static void attack(const struct kind *kind, unsigned sessions, unsigned qps)
{
	struct rlimit lim;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &lim), 0);
	lim.rlim_cur = lim.rlim_max;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &lim), 0);
	num_clients = sessions;
	for (unsigned i = 0; i < sessions; i++)
		client_make(&client[i], qps);
	for (unsigned i = 0; i < sessions; i++) {
		kind->spoil(&client[i]);
		for (unsigned k = 0; k < qps; k++) {
			raw_qp_connect(&client[i].r, &client[i].q[k]);
			post(&client[i], k, i + k);
		}
	}
	puts("attacks");
	fflush(stdout);
	for (unsigned n = 0;; n++)
		for (unsigned i = 0; i < sessions; i++)
			for (unsigned k = 0; k < qps; k++) {
				struct raw_qp *q = &client[i].q[k];
				const struct ff_cqe *c = raw_cqe(q);

				if (!c)
					continue;
				if (c->status != IBV_WC_SUCCESS)
					raw_qp_connect(&client[i].r, q);
				post(&client[i], k, i + k + n);
			}
}

/* ---- files that lose their pages ------------------------------------------------------------------ */

/* A session whose zero-copy memory goes while requests reach for it: the router ends it. */
static void lose_pages(bool cut)
{
	static const size_t len = 64 * PAGE;
	int fd = memfd_create("hostile", 0);
	struct ff_mr_run run = { .len = len, .kind = FF_RUN_SHARED };
	struct ff_reg_mr_req req = { .length = len, .access = VT_ACCESS_ALL };
	struct ff_reg_mr_resp mr;
	struct raw_qp q;
	struct raw r;
	void *p;

	CHECK(fd >= 0 && !ftruncate(fd, len));
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	memset(p, 1, len);
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, PAGE);
	req.pd = q.pd;
	req.addr = req.iova = run.va = (uintptr_t)p;
	CHECK_EQ(raw_call_tail(&r, FF_MSG_REG_MR, &req, sizeof(req), &run, sizeof(run), 1, &mr,
			       sizeof(mr)),
		 0);
	raw_qp_connect(&r, &q);
	for (unsigned i = 0; i < 8; i++) {
		struct ff_sqe *e = raw_sqe(&q);

		memset((uint8_t *)e + sizeof(e->seq), 0, q.q.sq.stride - sizeof(e->seq));
		raw_write_wr(&q, e, i);
		e->remote_addr = req.addr + i * PAGE;
		e->rkey = mr.rkey;
		if (i == 1)
			CHECK(!(cut ? ftruncate(fd, 0) :
				      fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
						(off_t)len)));
		raw_publish(&r, &q);
	}
	if (mr.zero_copy)
		raw_want_closed(&r);
	raw_close(&r);
	munmap(q.buf - RAW_CANARY, q.len + 2 * RAW_CANARY);
	munmap(p, len);
	close(fd);
}

static void *lose_for_ever(void *arg)
{
	for (;;)
		lose_pages(arg);
	return NULL;
}

static void files(bool cut, unsigned sessions)
{
	pthread_t t;

	for (unsigned i = 0; i < sessions; i++)
		CHECK_EQ(pthread_create(&t, NULL, lose_for_ever, cut ? "cut" : NULL), 0);
	puts("attacks");
	fflush(stdout);
	pause();
}

/* ---- processes that stand still ------------------------------------------------------------------- */

static pid_t frozen_pid;
static char freezer[128]; /* a cgroup of its own; "": there is none, and signals stop it */
static const char *freezer_file, *freezer_words[2];

static void write_in(const char *folder, const char *file, const char *word)
{
	char path[192];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		CHECK(write(fd, word, strlen(word)) > 0);
		close(fd);
	}
}

static bool freezer_make(const char *top, const char *file, const char *thaw, const char *freeze)
{
	char path[192], pid[16];

	snprintf(freezer, sizeof(freezer), "%s/freeflow-stalls-%d", top, (int)getpid());
	snprintf(path, sizeof(path), "%s/%s", freezer, file);
	if (!mkdir(freezer, 0755) && !access(path, W_OK)) {
		freezer_file = file;
		freezer_words[0] = thaw;
		freezer_words[1] = freeze;
		snprintf(pid, sizeof(pid), "%d", (int)frozen_pid);
		write_in(freezer, "cgroup.procs", pid);
		return true;
	}
	rmdir(freezer);
	*freezer = '\0';
	return false;
}

static void freeze(bool yes)
{
	if (*freezer)
		write_in(freezer, freezer_file, freezer_words[yes]);
	else
		kill(frozen_pid, yes ? SIGSTOP : SIGCONT);
}

static void thaw_and_kill(void)
{
	int status;

	freeze(false);
	kill(frozen_pid, SIGKILL);
	waitpid(frozen_pid, &status, 0);
	if (*freezer)
		rmdir(freezer);
}

static void frozen(unsigned sessions, unsigned qps)
{
	int status;

	frozen_pid = fork();
	CHECK(frozen_pid >= 0);
	if (!frozen_pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		attack(&good, sessions, qps);
	}
	if (!freezer_make("/sys/fs/cgroup/freezer", "freezer.state", "THAWED", "FROZEN") &&
	    !freezer_make("/sys/fs/cgroup", "cgroup.freeze", "0", "1"))
		puts("no cgroup can be made: by signals");
	while (!waitpid(frozen_pid, &status, WNOHANG)) {
		usleep(5000);
		freeze(true);
		usleep(20000);
		freeze(false);
	}
	FAIL("it has ended");
}

static void *end_with_input(void *arg)
{
	char c;

	while (read(0, &c, 1) > 0)
		;
	if (frozen_pid)
		thaw_and_kill();
	_exit(0);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t t;

	if (argc == 2 && !strcmp(argv[1], "victim")) {
		victim();
		return 0;
	}
	CHECK(argc == 4 && atoi(argv[2]) > 0 && atoi(argv[2]) <= MAX_SES);
	CHECK_EQ(pthread_create(&t, NULL, end_with_input, NULL), 0);
	if (!strcmp(argv[1], "cut") || !strcmp(argv[1], "punched"))
		files(!strcmp(argv[1], "cut"), (unsigned)atoi(argv[2]));
	if (!strcmp(argv[1], "frozen"))
		frozen((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]));
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(argv[1], kinds[i].name))
			attack(&kinds[i], (unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]));
	FAIL("no kind %s", argv[1]);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/vt.c -lpthread */
/*
 * stalls.c - for stalls.sh: a client with many sessions and QPs whose memory is not there, does not come,
 * or keeps who reaches for it waiting; and a victim that is measured.
 *
 *	stalls victim			reads lines, and tells of so many ms after each: requests, requests
 *					a second, p50, p99, and the longest, us
 *	stalls KIND SESSIONS QPS	says "attacks" when each QP had a request, and goes on until its
 *					standard input ends
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/rig/verbs/raw.h"

#define MAX_SES 512
#define PAGE	4096u

/* ---- the victim ----------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void measure(struct vt_end *a, uint64_t ms)
{
	static uint64_t took[4000000];
	uint64_t from = vt_now(), now = from, n = 0;

	while (now - from < ms * 1000000 && n < ARRAY_SIZE(took)) {
		uint64_t end;

		vt_rdma(a, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, IBV_SEND_SIGNALED);
		WANT_OK(a->scq, 1);
		end = vt_now();
		took[n++] = end - now;
		now = end;
	}
	qsort(took, n, sizeof(took[0]), by_value);
	printf("%lu %lu %lu %lu %lu\n", (unsigned long)n,
	       (unsigned long)(n * 1000000000 / (now - from)), (unsigned long)took[n / 2] / 1000,
	       (unsigned long)took[n - 1 - n / 100] / 1000, (unsigned long)took[n - 1] / 1000);
	fflush(stdout);
}

static void victim(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	char line[32];

	par.len = 2 * PAGE;
	vt_pair(&a, &b, &par);
	while (fgets(line, sizeof(line), stdin))
		measure(&a, strtoul(line, NULL, 10));
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

static const struct kind {
	const char *name;
	void (*spoil)(struct client *c);
} kinds[] = {
	{ "unmapped", no_page },
	{ "stalled", page_that_nobody_brings },
	{ "held", page_of_a_held_map },
	{ "moved", page_that_moves },
};

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
	struct raw_qp *q = &c->q[k];
	struct ff_sqe *e = raw_sqe(q);

	memset((uint8_t *)e + sizeof(e->seq), 0, q->q.sq.stride - sizeof(e->seq));
	raw_write_wr(q, e, n);
	e->remote_addr = (uintptr_t)c->bad;
	e->rkey = c->bad_key[k];
	if (n % 3 == 1)
		e->opcode = FF_OP_READ;
	if (n % 3 == 2) {
		e->opcode = FF_OP_FETCH_ADD;
		e->atomic.compare_add = 1;
	}
	raw_publish(&c->r, q);
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

static void *end_with_input(void *arg)
{
	char c;

	while (read(0, &c, 1) > 0)
		;
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
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(argv[1], kinds[i].name))
			attack(&kinds[i], (unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]));
	FAIL("no kind %s", argv[1]);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* all: netns */
/* night: netns */
/* timeout: 14400 */
/*
 * verbs_memory_stress.c - the contents of memory, against a model, while threads register and
 * deregister it in overlapping pieces, and others do with it what programs do. Who writes to a byte
 * is the only one who does, so that each finds what it wrote last.
 *
 * A page has words of two CPU writers, of RDMA, and of the kernel. Some pages belong as a whole to
 * a thread that does more with them: lets the kernel forget them, protects them, or has a disk read
 * into them. One thread has memory of its own, which comes and goes, grows and moves, registered or
 * not.
 *
 * A case takes STRESS_SECONDS; by default 5 in CI (FF_BRIEF), and an hour at night.
 */
#include "tests/rig/verbs/vt.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE	   4096u
#define PAGES	   2048u
#define LEN	   ((size_t)PAGES * PAGE)
#define WORDS	   512u /* of a page */
#define SHARE	   128u /* words of each of the four owners of a shared page */
#define HUGE_LEN   ((size_t)2 << 20)
#define NUM_MRS	   16u /* of a thread that registers */
#define NUM_LIVES  8u  /* memories that come and go */
#define LIFE_PAGES 64u

/* Pages with a number that is this, modulo 16, belong to one thread. */
enum whole { OF_DROPPER = 14, OF_DISK = 15, FIRST_WHOLE = OF_DROPPER };
/* Behind the others: pages of the thread that protects them. Registering one may fail. */
#define PROTECTED_PAGES 64u

/*
 * What is known to fail until registered memory is ordinary memory is only done if STRESS_WITH
 * names it: drop, protect, disk, mem (/proc/self/mem), grow; or all.
 */
static bool with(const char *what)
{
	const char *s = getenv("STRESS_WITH");

	return s && (strstr(s, what) || strstr(s, "all"));
}

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static uint64_t (*pages)[WORDS];
static volatile bool over;
static _Atomic unsigned long counts[8];
enum { REGISTERED, BY_CPU, BY_RDMA, BY_KERNEL, FORKED, DROPPED, PROTECTED, LIVED };

static bool shared(unsigned page)
{
	return page % 16 < FIRST_WHOLE;
}

static unsigned any_shared(unsigned *seed)
{
	unsigned p;

	do
		p = (unsigned)rand_r(seed) % PAGES;
	while (!shared(p));
	return p;
}

static unsigned any_whole(unsigned *seed, enum whole who)
{
	return (unsigned)rand_r(seed) % (PAGES / 16) * 16 + who;
}

static void expect(const char *who, unsigned page, unsigned word, uint64_t want)
{
	uint64_t got = ((volatile uint64_t *)pages[page])[word];

	if (got != want)
		FAIL("%s: page %u, word %u is %llx, not %llx", who, page, word,
		     (unsigned long long)got, (unsigned long long)want);
}

/* Of the words that are one's own on a page. */
static void expect_share(const char *who, unsigned page, unsigned first, uint64_t want)
{
	for (unsigned i = 0; i < SHARE; i += 31)
		expect(who, page, first + i, want);
}

/* ---- who writes ------------------------------------------------------------------------------ */

static void *cpu(void *arg)
{
	unsigned first = (unsigned)(uintptr_t)arg, seed = first + 1;
	uint64_t *model = calloc(PAGES, sizeof(*model)), n = 0;

	while (!over) {
		unsigned p = any_shared(&seed);

		expect_share("cpu", p, first, model[p]);
		model[p] = ++n;
		for (unsigned i = 0; i < SHARE; i++)
			pages[p][first + i] = n;
		counts[BY_CPU]++;
	}
	free(model);
	return NULL;
}

/* By a pipe, by process_vm_writev() and by /proc/self/mem. */
static void *kernel(void *arg)
{
	unsigned first = (unsigned)(uintptr_t)arg, seed = 77;
	uint64_t *model = calloc(PAGES, sizeof(*model)), n = 0, buf[SHARE];
	ssize_t len = sizeof(buf), done;
	int ways = with("mem") ? 3 : 2;
	int ends[2], mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	CHECK(mem >= 0 && !pipe(ends));
	while (!over) {
		unsigned p = any_shared(&seed);
		void *to = &pages[p][first];
		struct iovec from = { buf, sizeof(buf) }, at = { to, sizeof(buf) };

		expect_share("kernel", p, first, model[p]);
		model[p] = ++n;
		for (unsigned i = 0; i < SHARE; i++)
			buf[i] = n;
		switch (rand_r(&seed) % ways) {
		case 0:
			CHECK(write(ends[1], buf, sizeof(buf)) == len);
			done = read(ends[0], to, sizeof(buf));
			break;
		case 1:
			done = process_vm_writev(getpid(), &from, 1, &at, 1, 0);
			break;
		default:
			done = pwrite(mem, buf, sizeof(buf), (off_t)(uintptr_t)to);
		}
		if (done != len)
			FAIL("the kernel wrote %zd bytes: %s", done, strerror(errno));
		counts[BY_KERNEL]++;
	}
	free(model);
	close(mem);
	close(ends[0]);
	close(ends[1]);
	return NULL;
}

static struct ibv_cq *cq;
static struct ibv_qp *qp;

/* A request that ends well; the QP is one thread's. */
static void request(enum ibv_wr_opcode op, struct ibv_mr *here, void *local, struct ibv_mr *there,
		    void *remote, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)local, len, here->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = op,
					.send_flags = IBV_SEND_SIGNALED,
					.wr.rdma = { (uintptr_t)remote, there->rkey } };
	struct ibv_wc wc;
	int n;

	CHECK_OK(ibv_post_send(qp, &wr, &bad));
	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		sched_yield();
	CHECK_EQ(n, 1);
	if (wc.status != IBV_WC_SUCCESS)
		FAIL("RDMA ended with %s", ibv_wc_status_str(wc.status));
}

static void connect_to_itself(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 16, 1, 1, 1, 0 } };
	struct vt_param par = VT_PARAM;
	struct vt_addr self = { .psn = 1 };
	struct ibv_port_attr port;

	cq = CHECK_PTR(ibv_create_cq(ctx, 64, NULL, NULL, 0));
	init.send_cq = init.recv_cq = cq;
	qp = CHECK_PTR(ibv_create_qp(pd, &init));
	CHECK_OK(ibv_query_port(ctx, 1, &port));
	vt_gid(ctx, &self.gid);
	self.lid = port.lid;
	self.qpn = qp->qp_num;
	vt_connect_qp(qp, &par, &self, &self);
}

static void *rdma(void *arg)
{
	unsigned first = (unsigned)(uintptr_t)arg, seed = 99;
	uint64_t *model = calloc(PAGES, sizeof(*model)), n = 0, *buf = vt_map(2 * PAGE);
	struct ibv_mr *here = CHECK_PTR(ibv_reg_mr(pd, buf, 2 * PAGE, VT_ACCESS_ALL));
	struct ibv_mr *there = CHECK_PTR(ibv_reg_mr(pd, pages, LEN, VT_ACCESS_ALL));

	while (!over) {
		unsigned p = any_shared(&seed);
		void *at = &pages[p][first];

		expect_share("rdma", p, first, model[p]);
		model[p] = ++n;
		for (unsigned i = 0; i < SHARE; i++)
			buf[i] = n;
		request(IBV_WR_RDMA_WRITE, here, buf, there, at, SHARE * 8);
		request(IBV_WR_RDMA_READ, here, buf + WORDS, there, at, SHARE * 8);
		if (buf[WORDS] != n || buf[WORDS + SHARE - 1] != n)
			FAIL("rdma read %llx, not %llx", (unsigned long long)buf[WORDS],
			     (unsigned long long)n);
		if (rand_r(&seed) % 1000 == 0) {
			int access = VT_ACCESS_ALL;
			struct ibv_mr *next;

			if (rand_r(&seed) % 2) /* large memory is replaced when it is used, then */
				access &= ~IBV_ACCESS_REMOTE_ATOMIC;
			next = CHECK_PTR(ibv_reg_mr(pd, pages, LEN, access));
			CHECK_OK(ibv_dereg_mr(there));
			there = next;
		}
		counts[BY_RDMA]++;
	}
	CHECK_OK(ibv_dereg_mr(there));
	CHECK_OK(ibv_dereg_mr(here));
	free(model);
	return NULL;
}

/* ---- who registers --------------------------------------------------------------------------- */

static void *registrar(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	struct ibv_mr *mr[NUM_MRS] = { NULL };

	while (!over) {
		unsigned i = (unsigned)rand_r(&seed) % NUM_MRS;
		size_t end = LEN + PROTECTED_PAGES * PAGE, at = (size_t)rand_r(&seed) % end, len;

		if (mr[i])
			CHECK_OK(ibv_dereg_mr(mr[i]));
		len = 1 + (size_t)rand_r(&seed) % (rand_r(&seed) % 4 ? 300000 : LEN);
		if (len > end - at)
			len = end - at;
		mr[i] = ibv_reg_mr(pd, (char *)pages + at, len, VT_ACCESS_ALL);
		if (!mr[i] && (errno != EFAULT || at + len <= LEN))
			FAIL("ibv_reg_mr: %s", strerror(errno));
		counts[REGISTERED]++;
	}
	for (unsigned i = 0; i < NUM_MRS; i++)
		if (mr[i])
			CHECK_OK(ibv_dereg_mr(mr[i]));
	return NULL;
}

/* ---- who has whole pages --------------------------------------------------------------------- */

static void *dropper(void *arg)
{
	unsigned seed = 5;
	uint64_t n = 0;

	while (!over) {
		unsigned p = any_whole(&seed, OF_DROPPER);

		for (unsigned i = 0; i < WORDS; i++)
			pages[p][i] = ++n;
		if (rand_r(&seed) % 2)
			CHECK(!madvise(pages[p], PAGE, MADV_DONTNEED));
		else
			CHECK(!syscall(SYS_madvise, pages[p], PAGE, MADV_DONTNEED));
		for (unsigned i = 0; i < WORDS; i += 73)
			expect("dropped", p, i, 0);
		counts[DROPPED]++;
	}
	return arg;
}

static __thread sigjmp_buf *volatile catcher;

static void on_fault(int sig)
{
	if (catcher)
		siglongjmp(*catcher, sig);
	signal(sig, SIG_DFL);
}

static bool faults(volatile uint64_t *word)
{
	sigjmp_buf jump;
	bool fault = true;

	if (!sigsetjmp(jump, 1)) {
		catcher = &jump;
		*word = 1;
		fault = false;
	}
	catcher = NULL;
	return fault;
}

static void *protector(void *arg)
{
	unsigned seed = 6;
	uint64_t n = 0;

	while (!over) {
		unsigned p = PAGES + (unsigned)rand_r(&seed) % PROTECTED_PAGES;

		pages[p][7] = ++n;
		if (rand_r(&seed) % 2)
			CHECK(!mprotect(pages[p], PAGE, PROT_READ));
		else
			CHECK(!syscall(SYS_mprotect, pages[p], PAGE, PROT_READ));
		if (!faults(&pages[p][7]))
			FAIL("a page that was made read-only can be written to");
		CHECK(!mprotect(pages[p], PAGE, PROT_READ | PROT_WRITE));
		expect("protected", p, 7, n);
		counts[PROTECTED]++;
	}
	return arg;
}

/* Reads from a disk into a page, without the page cache. */
static void *disk(void *arg)
{
	static uint64_t block[WORDS] __attribute__((aligned(4096)));
	char path[] = "/tmp/stress.XXXXXX";
	int plain = mkstemp(path), direct = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	unsigned seed = 8;

	CHECK(plain >= 0);
	for (uint64_t n = 1; n <= 16; n++) {
		for (unsigned i = 0; i < WORDS; i++)
			block[i] = n;
		CHECK(pwrite(plain, block, PAGE, (off_t)(n - 1) * PAGE) == (ssize_t)PAGE);
	}
	fsync(plain);
	unlink(path);
	while (!over && direct >= 0) { /* not on every file system */
		unsigned p = any_whole(&seed, OF_DISK), n = (unsigned)rand_r(&seed) % 16;

		CHECK(pread(direct, pages[p], PAGE, (off_t)n * PAGE) == (ssize_t)PAGE);
		for (unsigned i = 0; i < WORDS; i += 73)
			expect("disk", p, i, n + 1);
		memset(pages[p], 0x55, PAGE);
	}
	close(plain);
	return arg;
}

/* ---- memory that comes and goes -------------------------------------------------------------- */

struct life {
	uint64_t *p;
	size_t pages;
	uint64_t n; /* what each word is, together with its page's number */
	struct ibv_mr *mr;
};

static void live_check(const struct life *l)
{
	for (size_t i = 0; i < l->pages; i++)
		for (unsigned w = 0; w < WORDS; w += 97) {
			uint64_t got = ((volatile uint64_t *)l->p)[i * WORDS + w];

			if (got != l->n + i)
				FAIL("own memory: page %zu is %llx, not %llx", i,
				     (unsigned long long)got, (unsigned long long)(l->n + i));
		}
}

static void live_fill(struct life *l, size_t from, uint64_t n)
{
	l->n = n;
	for (size_t i = from; i < l->pages; i++)
		for (unsigned w = 0; w < WORDS; w++)
			l->p[i * WORDS + w] = n + i;
}

/* Twice as much: what is new is zero. */
static void live_grow(struct life *l)
{
	size_t before = l->pages;
	uint64_t *p = mremap(l->p, before * PAGE, 2 * before * PAGE, MREMAP_MAYMOVE);

	CHECK(p != MAP_FAILED);
	l->p = p;
	l->pages = 2 * before;
	for (size_t i = before * WORDS; i < l->pages * WORDS; i += 97)
		if (p[i])
			FAIL("what memory has grown by is %llx", (unsigned long long)p[i]);
	live_fill(l, before, l->n);
	live_check(l);
}

static void *lives(void *arg)
{
	struct life life[NUM_LIVES] = { { 0 } };
	unsigned seed = 11;
	bool grows = with("grow");
	uint64_t n = 1;

	while (!over) {
		struct life *l = &life[(unsigned)rand_r(&seed) % NUM_LIVES];

		n += 1000;
		if (!l->p) {
			l->pages = 1 + (unsigned)rand_r(&seed) % LIFE_PAGES;
			l->p = vt_map(l->pages * PAGE);
			for (size_t i = 0; i < l->pages * WORDS; i += 97)
				if (l->p[i])
					FAIL("new memory is %llx", (unsigned long long)l->p[i]);
			live_fill(l, 0, n);
			continue;
		}
		live_check(l);
		switch (rand_r(&seed) % 6) {
		case 0: /* registered or not */
			CHECK(!munmap(l->p, l->pages * PAGE));
			l->p = NULL;
			if (l->mr)
				CHECK_OK(ibv_dereg_mr(l->mr));
			l->mr = NULL;
			break;
		case 1:
			if (grows && l->pages < LIFE_PAGES)
				live_grow(l);
			break;
		case 2:
			if (l->mr)
				CHECK_OK(ibv_dereg_mr(l->mr));
			l->mr = NULL;
			live_check(l);
			break;
		case 3:
			if (!l->mr)
				l->mr = CHECK_PTR(
					ibv_reg_mr(pd, l->p, l->pages * PAGE, VT_ACCESS_ALL));
			live_check(l);
			break;
		default:
			live_fill(l, 0, n);
		}
		counts[LIVED]++;
	}
	for (unsigned i = 0; i < NUM_LIVES; i++)
		if (life[i].mr)
			CHECK_OK(ibv_dereg_mr(life[i].mr));
	return arg;
}

/* ---- all together ---------------------------------------------------------------------------- */

static void in_child(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		for (unsigned p = 0; p < PAGES; p++)
			if (shared(p))
				for (unsigned w = 0; w < WORDS; w += 3)
					((volatile uint64_t *)pages[p])[w] ^= 1;
		_exit(0);
	}
	CHECK_EQ(vt_child_status(pid), 0);
	counts[FORKED]++;
}

/* What changes no content. */
static void disturb(unsigned *seed)
{
	unsigned p = any_shared(seed);
	char *huge = (char *)pages + (unsigned)rand_r(seed) % (LEN / HUGE_LEN) * HUGE_LEN;
	pid_t pid;

	switch (rand_r(seed) % 6) {
	case 0:
		in_child();
		break;
	case 1:
		pid = vfork();
		if (!pid) {
			execl("/bin/true", "true", NULL);
			_exit(1);
		}
		CHECK_EQ(vt_child_status(pid), 0);
		break;
	case 2:
		madvise(pages[p], PAGE, MADV_MERGEABLE);
		break;
	case 3:
		madvise(huge, HUGE_LEN, 25); /* MADV_COLLAPSE */
		break;
	case 4:
		mlock(pages[p], PAGE);
		munlock(pages[p], PAGE);
		break;
	default:
		madvise(pages[p], PAGE, MADV_PAGEOUT);
	}
}

static unsigned seconds(void)
{
	const char *s = getenv("STRESS_SECONDS");

	return s ? (unsigned)atoi(s) : getenv("FF_BRIEF") ? 5 : 3600;
}

static void stress(bool huge, unsigned registrars)
{
	struct sigaction sa = { .sa_handler = on_fault };
	uint64_t end = vt_now() + seconds() * UINT64_C(1000000000);
	unsigned seed = 1, num = 0;
	pthread_t thread[16];

	alarm((seconds() + 120) * vt_slow());
	sigaction(SIGSEGV, &sa, NULL);
	ctx = vt_open_device();
	pd = CHECK_PTR(ibv_alloc_pd(ctx));
	connect_to_itself();
	pages = aligned_alloc(HUGE_LEN, LEN + HUGE_LEN);
	if (huge)
		madvise(pages, LEN, MADV_HUGEPAGE);
	memset(pages, 0, LEN + HUGE_LEN);
	pthread_create(&thread[num++], NULL, cpu, (void *)(uintptr_t)0);
	pthread_create(&thread[num++], NULL, cpu, (void *)(uintptr_t)SHARE);
	pthread_create(&thread[num++], NULL, rdma, (void *)(uintptr_t)(2 * SHARE));
	pthread_create(&thread[num++], NULL, kernel, (void *)(uintptr_t)(3 * SHARE));
	for (unsigned i = 0; i < registrars; i++)
		pthread_create(&thread[num++], NULL, registrar, (void *)(uintptr_t)(i + 1));
	pthread_create(&thread[num++], NULL, lives, NULL);
	if (with("drop"))
		pthread_create(&thread[num++], NULL, dropper, NULL);
	if (with("protect"))
		pthread_create(&thread[num++], NULL, protector, NULL);
	if (with("disk"))
		pthread_create(&thread[num++], NULL, disk, NULL);
	while (vt_now() < end) {
		disturb(&seed);
		usleep(5000);
	}
	over = true;
	for (unsigned i = 0; i < num; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 0; i <= LIVED; i++) {
		bool runs = i == DROPPED ? with("drop") : i == PROTECTED ? with("protect") : true;

		if (runs && !counts[i])
			FAIL("count %u is 0: a thread did nothing", i);
	}
}

static void small_pages(void)
{
	stress(false, 2);
}

static void huge_pages(void)
{
	stress(true, 1);
}

VT_MAIN({ "small-pages", small_pages, 4000 }, { "huge-pages", huge_pages, 4000 })

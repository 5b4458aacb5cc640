/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* timeout: 300 */
/*
 * verbs_kinds.c - memory as programs have it, small, unaligned, with neighbours, against a peer somewhere else: messages
 * and one-sided operations of both sides, each with checked bytes.
 *
 *	verbs_kinds --peer PORT [paged]		waits for the other one, and does what that says
 *	verbs_kinds --use HOST PORT [nic]	uses all kinds of memory; "nic": but not what the library leaves where it
 *						is (kind.c), which a NIC cannot reach
 *	verbs_kinds --use HOST PORT paged	on-demand memory at a NIC that pages, and what becomes of that
 */
#include "tests/rig/verbs/vt.h"

#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096u
#define BUF  (512u << 10)

/* What one says to the other; answered by a byte when it is done. */
enum order { TAKE, CHECK_IT, SEND_IT, WRITE_IT, READ_IT, ADD_IT, FAIL_IT, AGAIN, END };
struct order_msg {
	uint32_t what, seed, rkey, reserved;
	uint64_t addr, len;
};

static int sock;
/*
 * On-demand memory, which rxe (7.3) reads and writes from the beginning of a page on wherever in it the address of a packet's
 * bytes is: a packet is a page.
 */
static bool by_pages;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct vt_end e;

static void put(const void *p, size_t n)
{
	CHECK_EQ(write(sock, p, n), n);
}

static void get(void *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = read(sock, (char *)p + done, n - done);

		CHECK(r > 0);
		done += (size_t)r;
	}
}

static void device(void)
{
	ctx = vt_open_device();
	pd = CHECK_PTR(ibv_alloc_pd(ctx));
}

static void connect_qp(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_addr peer;

	par.len = BUF;
	if (by_pages) {
		par.mtu = IBV_MTU_4096;
		par.timeout =
			20; /* rxe loses a NAK that crosses a request sent again, and sends that for ever */
	}
	vt_end_open_on(&e, &par, ctx, pd);
	put(&e.self, sizeof(e.self));
	get(&peer, sizeof(peer));
	vt_connect(&e, &peer);
}

/* ---- the peer ------------------------------------------------------------------------------------ */

static void obey(const struct order_msg *o)
{
	e.peer.addr = o->addr;
	e.peer.rkey = o->rkey;
	switch (o->what) {
	case TAKE:
		memset(e.buf, 0, o->len);
		vt_recv(&e, 1, 0, o->len);
		break;
	case CHECK_IT:
		WANT_OK(e.rcq, 1);
		CHECK_PATTERN(e.buf, o->len, o->seed);
		break;
	case SEND_IT:
		vt_pattern(e.buf, o->len, o->seed);
		vt_send(&e, 2, 0, o->len, IBV_SEND_SIGNALED);
		WANT_OK(e.scq, 2);
		break;
	case WRITE_IT:
		vt_pattern(e.buf, o->len, o->seed);
		vt_rdma(&e, IBV_WR_RDMA_WRITE, 3, 0, o->len, 0, IBV_SEND_SIGNALED);
		WANT_OK(e.scq, 3);
		break;
	case READ_IT:
		memset(e.buf, 0, o->len);
		vt_rdma(&e, IBV_WR_RDMA_READ, 4, 0, o->len, 0, IBV_SEND_SIGNALED);
		WANT_OK(e.scq, 4);
		CHECK_PATTERN(e.buf, o->len, o->seed);
		break;
	case ADD_IT:
		vt_atomic(&e, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0, 0, o->seed, 0);
		WANT_OK(e.scq, 5);
		break;
	case FAIL_IT: /* a WRITE that the other side's memory is not there for; afterwards AGAIN */
		vt_rdma(&e, IBV_WR_RDMA_WRITE, 6, 0, o->len, 0, IBV_SEND_SIGNALED);
		WANT(e.scq, 6, IBV_WC_REM_ACCESS_ERR);
		break;
	case AGAIN:
		vt_end_close(&e);
		connect_qp();
		break;
	default:
		FAIL("order %u", o->what);
	}
}

static int be_peer(const char *port)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6,
				   .sin6_port = htons((uint16_t)atoi(port)) };
	int on = 1, fd = socket(AF_INET6, SOCK_STREAM, 0);
	struct order_msg o;

	CHECK(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	CHECK_OK(bind(fd, (void *)&sa, sizeof(sa)));
	CHECK_OK(listen(fd, 1));
	sock = accept(fd, NULL, NULL);
	CHECK(sock >= 0);
	device();
	connect_qp();
	for (get(&o, sizeof(o)); o.what != END; get(&o, sizeof(o))) {
		obey(&o);
		put("", 1);
	}
	vt_end_close(&e);
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
	return 0;
}

/* ---- the one with the memory ----------------------------------------------------------------------- */

static bool by_nic;

static void order(enum order what, uint32_t seed, const void *addr, uint32_t rkey, size_t len)
{
	struct order_msg o = {
		.what = what, .seed = seed, .rkey = rkey, .addr = (uintptr_t)addr, .len = len
	};
	char done;

	put(&o, sizeof(o));
	if (what == AGAIN) {
		vt_end_close(&e);
		connect_qp();
	}
	if (what != END)
		get(&done, 1);
}

/* Two SGEs where there are two bytes: an MR's part is as good as all of it. */
static unsigned sges(const void *p, size_t len, uint32_t lkey, struct ibv_sge sge[2])
{
	size_t first = len / 3;

	sge[0] = (struct ibv_sge){ (uintptr_t)p, (uint32_t)len, lkey };
	if (!first)
		return 1;
	sge[0].length = (uint32_t)first;
	sge[1] = (struct ibv_sge){ (uintptr_t)p + first, (uint32_t)(len - first), lkey };
	return 2;
}

static void run(enum ibv_wr_opcode op, const void *p, size_t len, uint32_t lkey)
{
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = {
		.wr_id = 7,
		.sg_list = sge,
		.num_sge = (int)sges(p, len, lkey, sge),
		.opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = e.peer.addr, .rkey = e.peer.rkey },
	};

	CHECK_OK(vt_post(&e, &wr));
	WANT_OK(e.scq, 7);
}

/* What of the memory leaves: its content is the pattern `seed`. */
static void send_all(const void *p, size_t len, uint32_t seed, const struct ibv_mr *mr)
{
	order(TAKE, 0, NULL, 0, len);
	run(IBV_WR_SEND, p, len, mr->lkey);
	order(CHECK_IT, seed, NULL, 0, len);
	run(IBV_WR_RDMA_WRITE, p, len, mr->lkey);
	order(TAKE, 0, NULL, 0, len); /* the WRITE is there before this is */
	run(IBV_WR_SEND, p, len, mr->lkey);
	order(CHECK_IT, seed, NULL, 0, len);
	order(READ_IT, seed, p, mr->rkey, len);
}

static void take_all(uint8_t *p, size_t len, const struct ibv_mr *mr)
{
	struct ibv_sge sge[2];
	struct ibv_recv_wr wr = { .wr_id = 8,
				  .sg_list = sge,
				  .num_sge = (int)sges(p, len, mr->lkey, sge) };
	size_t at = (8 - (uintptr_t)p % 8) % 8;
	uint64_t was;

	CHECK_OK(vt_post_recv(&e, &wr));
	order(SEND_IT, 21, NULL, 0, len);
	WANT_OK(e.rcq, 8);
	CHECK_PATTERN(p, len, 21);
	memset(p, 0, len);
	run(IBV_WR_RDMA_READ, p, len, mr->lkey); /* what the peer has sent */
	CHECK_PATTERN(p, len, 21);
	order(WRITE_IT, 22, p, mr->rkey, len);
	CHECK_PATTERN(p, len, 22);
	if (at + 8 > len)
		return;
	memcpy(&was, p + at, 8);
	order(ADD_IT, 1000, p + at, mr->rkey, 8);
	was += 1000;
	CHECK(!memcmp(&was, p + at, 8));
}

static void use(const char *name, void *mem, size_t len, bool stays)
{
	uint8_t *p = mem;

	if (stays && by_nic)
		return;
	for (unsigned round = 0; round < 3; round++) {
		struct ibv_mr *mr = vt_reg(&e, p, len, VT_ACCESS_ALL);

		vt_pattern(p, len, 10 + round);
		send_all(p, len, 10 + round, mr);
		take_all(p, len, mr);
		vt_pattern(p, len, 30);
		CHECK_OK(ibv_dereg_mr(mr));
		CHECK_PATTERN(p, len, 30);
	}
	printf("%s: %zu bytes\n", name, len);
}

static void use_read_only(const char *name, const void *p, size_t len, uint32_t seed)
{
	struct ibv_mr *mr = vt_reg(&e, (void *)p, len, IBV_ACCESS_REMOTE_READ);

	send_all(p, len, seed, mr);
	CHECK_OK(ibv_dereg_mr(mr));
	CHECK_PATTERN(p, len, seed);
	printf("%s, read only: %zu bytes\n", name, len);
}

static uint8_t bss_small[100], bss_large[100000], data_small[100] = { 1 },
						  data_large[30000] = { 1 };
static __thread uint8_t local[100];

static void use_heap(void)
{
	static const size_t lens[] = { 1, 8, 100, 4095, 4097, 30001, 300001 };

	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		uint8_t *before = CHECK_PTR(malloc(64)), *p = CHECK_PTR(malloc(lens[i])),
			*after = CHECK_PTR(malloc(64));

		vt_pattern(before, 64, 1);
		vt_pattern(after, 64, 2);
		use("heap", p, lens[i], false);
		CHECK_PATTERN(before, 64, 1);
		CHECK_PATTERN(after, 64, 2);
		free(before);
		free(after);
		free(p);
	}
}

/* Before that the router is not told which file a mapping is of. */
static bool is_before(unsigned major, unsigned minor)
{
	struct utsname u;
	unsigned is_major, is_minor;

	CHECK_OK(uname(&u));
	CHECK_EQ(sscanf(u.release, "%u.%u", &is_major, &is_minor), 2);
	return is_major < major || (is_major == major && is_minor < minor);
}

static void use_mappings(void)
{
	uint8_t *p = vt_map(10 * PAGE), *q;
	char path[] = "/tmp/vt-XXXXXX";
	int fd = mkstemp(path);

	use("private, unaligned", p + 100, 3 * PAGE, false);
	vt_pattern(p, 10 * PAGE, 5);
	CHECK(fd >= 0 && write(fd, p, 10 * PAGE) == 10 * (ssize_t)PAGE);
	unlink(path);
	CHECK_OK(mprotect(p, 10 * PAGE, PROT_READ));
	use_read_only("private", p, 2 * PAGE + 77, 5);
	munmap(p, 10 * PAGE);
	q = mmap(NULL, 10 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(q != MAP_FAILED);
	use_read_only("file", q, 3 * PAGE + 5, 5);
	munmap(q, 10 * PAGE);
	q = mmap(NULL, 10 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK(q != MAP_FAILED);
	use("file, private", q + 33, 3 * PAGE + 5, false);
	munmap(q, 10 * PAGE);
	q = mmap(NULL, 10 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(q != MAP_FAILED);
	use("file, shared", q + 33, 3 * PAGE + 5, true);
	munmap(q, 10 * PAGE);
	close(fd);
	p = mmap(NULL, 10 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	use("shared", p + 33, 3 * PAGE + 5, is_before(6, 11));
	munmap(p, 10 * PAGE);
}

static void *use_stack(void *arg)
{
	uint8_t small[64], large[50000];

	use("stack", small + 3, 60, true);
	use("stack", large + 7, sizeof(large) - 9, true);
	use("thread-local", local, sizeof(local), true);
	return arg;
}

/* ---- on-demand memory --------------------------------------------------------------------------------- */

#define PAGES 16u

static void written(uint8_t *p, size_t len, const struct ibv_mr *mr, uint32_t seed)
{
	order(WRITE_IT, seed, p, mr->rkey, len);
	CHECK_PATTERN(p, len, seed);
	order(READ_IT, seed, p, mr->rkey, len);
}

static void refused(const uint8_t *p, const struct ibv_mr *mr)
{
	order(FAIL_IT, 0, p, mr->rkey, PAGE);
	order(AGAIN, 0, NULL, 0, 0);
}

/* The peer's accesses, and this program's own WRs, meet what is mapped when they come. */
static void use_changing(uint8_t *p, struct ibv_mr *mr)
{
	uint8_t *hole = p + 8 * PAGE;
	const char *seen = getenv("VT_SEEN");
	struct ibv_wc wc;
	pid_t child;

	written(p, PAGES * PAGE, mr, 41);
	child = fork();
	if (!child)
		_exit(0);
	written(p, PAGES * PAGE, mr, 42);
	CHECK_EQ(waitpid(child, NULL, 0), child);

	CHECK_OK(mprotect(p, PAGES * PAGE, PROT_READ));
	refused(p, mr);
	order(READ_IT, 42, p, mr->rkey, PAGES * PAGE);
	CHECK_OK(mprotect(p, PAGES * PAGE, PROT_READ | PROT_WRITE));
	written(p, PAGES * PAGE, mr, 43);
	printf("on demand, read only for a while\n");

	CHECK_OK(munmap(hole, 4 * PAGE));
	refused(hole, mr);
	if (seen) /* somebody has looked at the region's counters */
		WAIT_FOR(!access(seen, F_OK));
	written(p, 8 * PAGE, mr, 44);
	order(TAKE, 0, NULL, 0, PAGE);
	CHECK_OK(vt_post(&e, &(struct ibv_send_wr){ .wr_id = 9,
						    .sg_list = &(struct ibv_sge){ (uintptr_t)hole,
										  PAGE, mr->lkey },
						    .num_sge = 1,
						    .opcode = IBV_WR_SEND,
						    .send_flags = IBV_SEND_SIGNALED }));
	wc = vt_wc(e.scq);
	CHECK(wc.wr_id == 9 && wc.status != IBV_WC_SUCCESS); /* rxe flushes it */
	order(AGAIN, 0, NULL, 0, 0);
	printf("on demand, unmapped\n");

	CHECK(mmap(hole, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		   -1, 0) == hole);
	vt_pattern(hole, 4 * PAGE, 45);
	refused(hole, mr); /* it is other memory, which the NIC does not get by itself */
	CHECK_PATTERN(hole, 4 * PAGE, 45);
	CHECK_OK(ibv_dereg_mr(mr));
	mr = vt_reg(&e, p, PAGES * PAGE, VT_ACCESS_ALL | IBV_ACCESS_ON_DEMAND);
	order(READ_IT, 45, hole, mr->rkey, 4 * PAGE);
	written(p, PAGES * PAGE, mr, 46);
	CHECK_OK(ibv_dereg_mr(mr));
	printf("on demand, mapped again\n");
}

static void use_on_demand(void)
{
	const int access = VT_ACCESS_ALL | IBV_ACCESS_ON_DEMAND;
	const size_t sparse = (size_t)256 << 20;
	uint8_t *p = vt_map(PAGES * PAGE), *middle;
	struct ibv_mr *mr = vt_reg(&e, p + PAGE, 12 * PAGE, access);
	struct ibv_sge sge;

	vt_pattern(p + PAGE, 12 * PAGE, 40);
	send_all(p + PAGE, 12 * PAGE, 40, mr);
	take_all(p + PAGE, 12 * PAGE, mr);
	CHECK_OK(ibv_dereg_mr(mr));
	printf("on demand: %u bytes\n", 12 * PAGE);

	mr = vt_reg(&e, p, PAGES * PAGE, access);
	use_changing(p, mr);
	munmap(p, PAGES * PAGE);

	p = mmap(NULL, sparse, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		 -1, 0);
	CHECK(p != MAP_FAILED);
	mr = vt_reg(&e, p, sparse, access);
	middle = p + sparse / 2;
	sge = (struct ibv_sge){ (uintptr_t)middle, PAGES * PAGE, mr->lkey };
	CHECK_EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH,
			       &sge, 1),
		 0);
	written(middle, PAGES * PAGE, mr, 47);
	written(p, PAGES * PAGE, mr, 48);
	CHECK_OK(ibv_dereg_mr(mr));
	CHECK_PATTERN(p, PAGES * PAGE, 48);
	munmap(p, sparse);
	printf("on demand, sparse: %zu bytes\n", sparse);
}

static void use_kinds(void)
{
	pthread_t t;

	use_heap();
	use("bss", bss_small, sizeof(bss_small), false);
	use("bss", bss_large + 1, sizeof(bss_large) - 3, false);
	use("data", data_small, sizeof(data_small), false);
	use("data", data_large + 1, sizeof(data_large) - 3, false);
	use_mappings();
	use_stack(NULL);
	CHECK_EQ(pthread_create(&t, NULL, use_stack, NULL), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
}

static int use_all(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *ai;

	CHECK_EQ(getaddrinfo(host, port, &hints, &ai), 0);
	sock = socket(ai->ai_family, SOCK_STREAM, 0);
	CHECK(sock >= 0);
	WAIT_FOR(!connect(sock, ai->ai_addr, ai->ai_addrlen));
	freeaddrinfo(ai);
	device();
	connect_qp();
	if (by_pages)
		use_on_demand();
	else
		use_kinds();
	order(END, 0, NULL, 0, 0);
	vt_end_close(&e);
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
	return 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc >= 3 && !strcmp(argv[1], "--peer")) {
		by_pages = argc == 4;
		return be_peer(argv[2]);
	}
	if (argc >= 4 && !strcmp(argv[1], "--use")) {
		by_nic = argc == 5 && !strcmp(argv[4], "nic");
		by_pages = argc == 5 && !strcmp(argv[4], "paged");
		return use_all(argv[2], argv[3]);
	}
	fprintf(stderr, "usage: %s --peer PORT [paged] | --use HOST PORT [nic|paged]\n", argv[0]);
	return 2;
}

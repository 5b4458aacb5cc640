/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/lib/vt.c -lpthread */
/* timeout: 120 */
/*
 * verbs_kinds.c - memory as programs have it, small, unaligned, with neighbours, against a peer somewhere else: messages
 * and one-sided operations of both sides, each with checked bytes.
 *
 *	verbs_kinds --peer PORT			waits for the other one, and does what that says
 *	verbs_kinds --use HOST PORT [nic]	uses all kinds of memory; "nic": but not what the library leaves where it
 *						is (kind.c), which a NIC cannot reach
 */
#include "tests/lib/vt.h"

#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PAGE 4096u
#define BUF  (512u << 10)

/* What one says to the other; answered by a byte when it is done. */
enum order { TAKE, CHECK_IT, SEND_IT, WRITE_IT, READ_IT, ADD_IT, END };
struct order_msg {
	uint32_t what, seed, rkey, reserved;
	uint64_t addr, len;
};

static int sock;
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

static void connect_qp(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_addr peer;

	par.len = BUF;
	vt_end_open(&e, &par);
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
	connect_qp();
	for (get(&o, sizeof(o)); o.what != END; get(&o, sizeof(o))) {
		obey(&o);
		put("", 1);
	}
	vt_end_close(&e);
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

static int use_all(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *ai;
	pthread_t t;

	CHECK_EQ(getaddrinfo(host, port, &hints, &ai), 0);
	sock = socket(ai->ai_family, SOCK_STREAM, 0);
	CHECK(sock >= 0);
	WAIT_FOR(!connect(sock, ai->ai_addr, ai->ai_addrlen));
	freeaddrinfo(ai);
	connect_qp();
	use_heap();
	use("bss", bss_small, sizeof(bss_small), false);
	use("bss", bss_large + 1, sizeof(bss_large) - 3, false);
	use("data", data_small, sizeof(data_small), false);
	use("data", data_large + 1, sizeof(data_large) - 3, false);
	use_mappings();
	use_stack(NULL);
	CHECK_EQ(pthread_create(&t, NULL, use_stack, NULL), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	order(END, 0, NULL, 0, 0);
	vt_end_close(&e);
	return 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && !strcmp(argv[1], "--peer"))
		return be_peer(argv[2]);
	if (argc >= 4 && !strcmp(argv[1], "--use")) {
		by_nic = argc == 5 && !strcmp(argv[4], "nic");
		return use_all(argv[2], argv[3]);
	}
	fprintf(stderr, "usage: %s --peer PORT | --use HOST PORT [local]\n", argv[0]);
	return 2;
}

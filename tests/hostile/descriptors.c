/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/fuse.c tests/rig/verbs/vt.c -lpthread */
/* timeout: 480 */
/*
 * descriptors.c - a hostile client sends descriptors: such as take for ever to close, and such as are
 * of anything but what they should be. A victim beside it moves checked data all the while.
 */
#include "tests/rig/verbs/fuse.h"
#include "tests/rig/common/hello.h"
#include "tests/rig/verbs/raw.h"
#include "tests/rig/common/slow.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ff_hdr header(uint16_t type)
{
	return (struct ff_hdr){ .magic = FF_PROTO_MAGIC, .type = type, .seq = 7 };
}

/* ---- slow to close ------------------------------------------------------------------------------ */

#define LINGER_S 600

/* There must be one. */
static struct slow slow_new(void)
{
	struct slow s;

	CHECK(!slow_open(&s, LINGER_S));
	return s;
}

/*
 * A process that closes the last descriptor of a lingering socket waits, unless the process is ending. The router may
 * close its descriptor before this client does. So a child sends it, and ends.
 */
static void give(struct raw *r, struct slow *s, const void *bytes, size_t len, unsigned copies)
{
	int fd[RAW_MAX_FDS], closed[2], status;
	pid_t child;
	char c;

	for (unsigned i = 0; i < copies; i++)
		fd[i] = s->near;
	CHECK(!pipe(closed));
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		close(closed[1]);
		if (read(closed[0], &c, 1)) /* until the parent has closed its own */
			_exit(1);
		raw_send_fds(r, bytes, len, fd, copies);
		_exit(0);
	}
	close(closed[0]);
	close(s->near);
	close(closed[1]);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(!status);
}

/* With what kind of message, in a session or before it. */
static void give_somehow(struct slow *s, unsigned how)
{
	struct {
		struct ff_hdr hdr;
		struct ff_hello_req req;
	} hello = { .hdr = header(FF_MSG_HELLO),
		    .req = { FF_PROTO_VERSION, FF_PROTO_VERSION, "slow", { 0 } } };
	struct {
		struct ff_hdr hdr;
		struct ff_reg_dmabuf_mr_req req;
	} dmabuf = { .hdr = header(FF_MSG_REG_DMABUF_MR) };
	struct ff_hdr bad = { .magic = 0x1234 };
	struct raw r;

	if (how % 2)
		raw_open(&r);
	else
		raw_connect(&r);
	hello.hdr.n_fds = 2;
	dmabuf.hdr.n_fds = 1;
	switch (how / 2) {
	case 0:
		give(&r, s, &hello, sizeof(hello), 2);
		break;
	case 1:
		give(&r, s, &dmabuf, sizeof(dmabuf), 1);
		break;
	case 2:
		give(&r, s, &bad, sizeof(bad), 1);
		break;
	case 3: /* behind one that ends the session: nobody reads it */
		raw_send(&r, &bad, sizeof(bad), -1);
		give(&r, s, &hello, sizeof(hello), 2);
		break;
	default: /* without a byte, and gone */
		give(&r, s, &bad, 0, 1);
		break;
	}
	raw_close(&r);
}

#define WAYS 10u

static void slow_to_close(void)
{
	struct slow s[2 * WAYS]; /* fewer than its container may have waiting (ffr/ctl/discard.h) */
	struct ff_hdr bad = { .magic = 0x1234 };
	struct slow many;
	struct raw r;

	victim_start();
	for (unsigned i = 0; i < ARRAY_SIZE(s); i++) {
		s[i] = slow_new();
		give_somehow(&s[i], i % WAYS);
		if (i % WAYS == WAYS - 1)
			victim_check();
	}
	raw_router_serves();
	/* as many as go: nobody of this container comes in any more, and the victim, who has, goes on */
	many = slow_new();
	raw_open(&r);
	give(&r, &many, &bad, sizeof(bad), RAW_MAX_FDS);
	raw_want_closed(&r);
	raw_close(&r);
	victim_check();
	close(many.far);
	for (unsigned i = 0; i < ARRAY_SIZE(s); i++)
		close(s[i].far);
	victim_stop();
	raw_router_serves();
}

/* ---- that nobody takes ---------------------------------------------------------------------------- */

/*
 * Answers with descriptors that the client does not read: how many are on their way is counted for the router's user, for
 * all containers together. The session is closed at the second one.
 */
static void not_taken(void)
{
	struct {
		struct ff_hdr hdr;
		struct ff_get_seg_req req;
	} m = { .hdr = header(FF_MSG_GET_SEG) };
	uint8_t answer[FF_MSG_MAX];
	unsigned n, answers = 0;
	struct pollfd p;
	struct raw r;
	int fds[8];

	victim_start();
	raw_open(&r);
	for (int i = 0; i < 40 && raw_send(&r, &m, sizeof(m), -1); i++)
		;
	p = (struct pollfd){ .fd = r.sock, .events = POLLRDHUP };
	CHECK_EQ(poll(&p, 1, VT_WAIT_MS * (int)vt_slow()), 1);
	for (; raw_recv(&r, answer, sizeof(answer), fds, &n); answers++)
		while (n)
			close(fds[--n]);
	CHECK(answers <= 1);
	raw_close(&r);
	victim_stop();
	raw_router_serves();
}

/* ---- of any kind ---------------------------------------------------------------------------------- */

static int io_uring(void)
{
	uint8_t params[120] = { 0 };

	return (int)syscall(SYS_io_uring_setup, 4, params);
}

static int sealed(void)
{
	int fd = memfd_create("mem", MFD_ALLOW_SEALING);

	CHECK(!ftruncate(fd, 4096) &&
	      !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_WRITE));
	return fd;
}

/* The last one is io_uring's. */
static unsigned collect(int fd[32], const struct raw *other)
{
	unsigned n = 0;
	sigset_t none;
	int pair[2];

	sigemptyset(&none);
	CHECK(!pipe(pair));
	fd[n++] = pair[0];
	fd[n++] = pair[1];
	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	fd[n++] = pair[0];
	fd[n++] = dup(other->sock); /* of another session */
	fd[n++] = dup(other->async_fd);
	fd[n++] = dup(other->bell_fd);
	fd[n++] = other->uffd_dev >= 0 ? dup(other->uffd_dev) : eventfd(0, 0);
	fd[n++] = (int)syscall(SYS_pidfd_open, getpid(), 0);
	fd[n++] = memfd_create("mem", 0);
	fd[n++] = sealed();
	fd[n++] = epoll_create1(0);
	fd[n++] = eventfd(0, 0);
	fd[n++] = timerfd_create(CLOCK_MONOTONIC, 0);
	fd[n++] = signalfd(-1, &none, 0);
	fd[n++] = inotify_init1(0);
	fd[n++] = open("/proc/self", O_PATH);
	fd[n++] = open("/proc/self/mem", O_PATH);
	fd[n++] = open("/proc/self/maps", O_PATH);
	fd[n++] = open("/proc/self", O_RDONLY | O_DIRECTORY);
	fd[n++] = open("/proc/self/mem", O_RDONLY);
	fd[n++] = open("/proc/self/mem", O_WRONLY);
	fd[n++] = open("/proc/self/oom_score_adj", O_RDWR);
	fd[n++] = open("/proc/self/coredump_filter", O_RDWR);
	fd[n++] = open("/proc/thread-self/mem", O_RDWR);
	fd[n++] = open("/dev/null", O_RDWR);
	fd[n++] = open("/dev/zero", O_RDWR);
	fd[n++] = io_uring();
	CHECK(n <= 32);
	return n;
}

static int hello_once(struct raw *r, const int fd[2])
{
	struct {
		struct ff_hdr hdr;
		struct ff_hello_req req;
	} m = { .hdr = header(FF_MSG_HELLO),
		.req = { FF_PROTO_VERSION, FF_PROTO_VERSION, "any", { 0 } } };
	uint8_t packet[512];
	struct ff_hdr h = { .status = RAW_CLOSED };
	unsigned n = 0;
	int got[8];

	m.hdr.n_fds = 2;
	memcpy(m.req.nonce, r->nonce, sizeof(r->nonce));
	if (hello_send_fds(r->sock, &m, sizeof(m), fd) != sizeof(m)) {
		CHECK_EQ(errno, EINVAL); /* io_uring's cannot be sent */
		return RAW_CLOSED;
	}
	if (raw_recv(r, packet, sizeof(packet), got, &n))
		memcpy(&h, packet, sizeof(h));
	while (n)
		close(got[--n]);
	return h.status;
}

/* The status of a HELLO with these, in a connection of its own. */
static int hello_with(const int fd[2])
{
	struct ff_challenge_resp answer;
	struct raw r;
	int st;

	raw_connect(&r);
	st = hello_once(&r, fd);
	if (st == -EAGAIN) { /* before Linux 6.5 */
		RAW_CALL(&r, CHALLENGE, &(struct ff_challenge_req){ 0 }, &answer);
		memcpy(r.nonce, answer.nonce, sizeof(r.nonce));
		st = hello_once(&r, fd);
	}
	raw_close(&r);
	return st;
}

/* A file whose server answers nobody outside its container: not where it is looked at, nor closed. */
static void of_fuse(void)
{
	struct ff_hdr bad = { .magic = 0x1234 };
	struct {
		struct ff_hdr hdr;
		struct ff_reg_dmabuf_mr_req req;
	} m = { .hdr = header(FF_MSG_REG_DMABUF_MR) };
	struct ff_query_device_resp dev;
	int fd[RAW_MAX_FDS], own[2];
	struct fuse f;
	struct raw r;

	if (!fuse_start(&f))
		vt_skip("no file system in user space: %s", strerror(errno));
	fd[0] = fuse_file(&f, "file", O_RDWR);
	CHECK(fd[0] >= 0);
	for (unsigned i = 1; i < RAW_MAX_FDS; i++)
		fd[i] = fd[0];
	hello_memory(own);
	victim_start();
	CHECK(hello_with((const int[2]){ fd[0], own[1] }) != 0);
	CHECK(hello_with((const int[2]){ own[0], fd[0] }) != 0);
	victim_check();
	raw_open(&r);
	m.hdr.n_fds = 1;
	m.req.length = 4096;
	for (int i = 0; i < 4; i++) {
		uint8_t packet[512];
		struct ff_hdr h;

		CHECK(raw_send(&r, &m, sizeof(m), fd[0]));
		CHECK(raw_recv(&r, packet, sizeof(packet), NULL, NULL) >= sizeof(h));
		memcpy(&h, packet, sizeof(h));
		CHECK(h.status < 0);
	}
	RAW_CALL(&r, QUERY_DEVICE, &(struct ff_query_device_req){ 0 }, &dev);
	CHECK(raw_send_fds(&r, &bad, sizeof(bad), fd, 20));
	raw_want_closed(&r);
	raw_close(&r);
	victim_stop();
	raw_router_serves();
	close(fd[0]);
	fuse_end(&f);
}

#define POSERS                                                                                     \
	4u /* more keep their container from the device: the router has 8 looked at at a time */

/*
 * Files of such a server that look like this process's own memory: who looks at them, and closes
 * them, waits for ever. Only who has sent them gets no answer.
 */
static void of_a_poser(void)
{
	struct {
		struct ff_hdr hdr;
		struct ff_hello_req req;
	} m = { .hdr = header(FF_MSG_HELLO),
		.req = { FF_PROTO_VERSION, FF_PROTO_VERSION, "poser", { 0 } } };
	struct raw r[POSERS], other;
	struct fuse f;
	int fd[2];

	if (!fuse_start(&f))
		vt_skip("no file system in user space: %s", strerror(errno));
	fd[0] = fuse_file(&f, "mem", O_RDWR);
	fd[1] = fuse_file(&f, "maps", O_RDONLY);
	CHECK(fd[0] >= 0 && fd[1] >= 0);
	m.hdr.n_fds = 2;
	victim_start();
	for (unsigned i = 0; i < POSERS; i++) {
		raw_connect(&r[i]);
		CHECK_EQ(hello_send_fds(r[i].sock, &m, sizeof(m), fd), (ssize_t)sizeof(m));
	}
	victim_check();
	raw_open(&other);
	for (unsigned i = 0; i < POSERS; i++)
		raw_close(&r[i]);
	raw_close(&other);
	victim_stop();
	raw_router_serves();
	close(fd[0]);
	close(fd[1]);
	fuse_end(&f);
}

/* A client's socket, in messages to itself and to others: what is unread in it goes where it goes. */
static void of_sessions(void)
{
	struct ff_hdr bad = { .magic = 0x1234 };
	struct ff_query_device_resp dev;
	struct raw other, r[4];

	victim_start();
	raw_open(&other);
	for (unsigned round = 0; round < 32; round++) {
		for (unsigned i = 0; i < ARRAY_SIZE(r); i++) {
			if (round & 1 && i % 2)
				raw_connect(&r[i]);
			else
				raw_open(&r[i]);
		}
		for (unsigned i = 0; i < ARRAY_SIZE(r); i++) {
			int fd[4] = { r[i].sock, other.sock, r[(i + 1) % ARRAY_SIZE(r)].sock,
				      r[i].sock };

			/* the second one nobody reads: it goes with the socket, and that with it */
			raw_send_fds(&r[i], &bad, sizeof(bad), fd, round % 4 + 1);
			raw_send_fds(&r[i], &bad, sizeof(bad), fd, round % 4 + 1);
		}
		for (unsigned i = 0; i < ARRAY_SIZE(r); i++) {
			if (round & 2)
				raw_want_closed(&r[i]);
			raw_close(&r[i]);
		}
	}
	/* who was passed along, and did nothing wrong, is still there */
	RAW_CALL(&other, QUERY_DEVICE, &(struct ff_query_device_req){ 0 }, &dev);
	CHECK(hello_with((const int[2]){ other.sock, other.sock }) != 0);
	RAW_CALL(&other, QUERY_DEVICE, &(struct ff_query_device_req){ 0 }, &dev);
	raw_close(&other);
	victim_stop();
	raw_router_serves();
}

static void of_any_kind(void)
{
	struct {
		struct ff_hdr hdr;
		struct ff_reg_dmabuf_mr_req req;
	} m = { .hdr = header(FF_MSG_REG_DMABUF_MR) };
	struct ff_alloc_pd_resp pd;
	int fd[32], own[2];
	struct raw other;
	unsigned n;

	victim_start();
	raw_open(&other);
	RAW_CALL(&other, ALLOC_PD, &(struct ff_alloc_pd_req){ 0 }, &pd);
	hello_memory(own);
	n = collect(fd, &other);
	for (unsigned i = 0; i < n; i++) {
		if (fd[i] < 0) /* not to be had here */
			continue;
		CHECK(hello_with((const int[2]){ fd[i], own[1] }) != 0);
		CHECK(hello_with((const int[2]){ own[0], fd[i] }) != 0);
		CHECK(hello_with((const int[2]){ fd[i], fd[i] }) != 0);
		for (unsigned k = 0; k < n; k += 5)
			if (fd[k] >= 0)
				CHECK(hello_with((const int[2]){ fd[i], fd[k] }) != 0);
	}
	CHECK(hello_with((const int[2]){ own[1], own[0] }) != 0);
	CHECK_EQ(hello_with(own), 0);
	victim_check();
	/* as a dma-buf */
	m.hdr.n_fds = 1;
	m.req = (struct ff_reg_dmabuf_mr_req){ .length = 4096,
					       .pd = pd.pd,
					       .access = IBV_ACCESS_LOCAL_WRITE };
	for (unsigned i = 0; i < n; i++) {
		uint8_t packet[512];
		struct ff_hdr h;
		unsigned got = 0;
		int none[8];

		if (fd[i] < 0 || i == n - 1)
			continue;
		CHECK(raw_send(&other, &m, sizeof(m), fd[i]));
		CHECK(raw_recv(&other, packet, sizeof(packet), none, &got) >= sizeof(h));
		memcpy(&h, packet, sizeof(h));
		CHECK(h.status < 0 && !got);
	}
	raw_close(&other);
	victim_stop();
	raw_router_serves();
}

/* ---- somebody else's --------------------------------------------------------------------------------- */

/* A child's memory, which its parent may open, and the parent's, which the child has from before. */
static void of_a_relative(void)
{
	int own[2], of_child[2], status;
	char path[32];
	pid_t pid;

	hello_memory(own);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) /* it has its parent's descriptors, of its parent's address space */
		_exit(hello_with(own) == 0 ? 1 : 0);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		pause();
		_exit(0);
	}
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	of_child[0] = open(path, O_RDWR | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	of_child[1] = open(path, O_RDONLY | O_CLOEXEC);
	if (of_child[0] >= 0 && of_child[1] >= 0) {
		CHECK(hello_with(of_child) != 0);
		CHECK(hello_with((const int[2]){ own[0], of_child[1] }) != 0);
		CHECK(hello_with((const int[2]){ of_child[0], own[1] }) != 0);
	}
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(hello_with(of_child) != 0);
	raw_router_serves();
}

VT_MAIN({ "descriptors_slow_to_close", slow_to_close, 0 },
	{ "descriptors_not_taken", not_taken, 0 }, { "descriptors_of_any_kind", of_any_kind, 0 },
	{ "descriptors_of_fuse", of_fuse, 0 }, { "descriptors_of_a_poser", of_a_poser, 0 },
	{ "descriptors_of_sessions", of_sessions, 0 },
	{ "descriptors_of_a_relative", of_a_relative, 0 })

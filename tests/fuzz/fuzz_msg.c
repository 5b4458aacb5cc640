/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fuzz_msg.c - libFuzzer target: two clients send whatever they like to the control thread.
 * build: tests/rig/unit/ctl_rig.c @lib @keeper @obj @mem @fast ffr/fast/pvm.c ffr/fast/roles.c @peer @dir @wire @soft @remote @nic @rio @ctl @cm ffr/conf.c @ffo_tls ffo/base/limits.c ffo/base/limits_text.c ffo/base/proto.c
 *
 * The input is a list of records. A raw one is a packet as it is, perhaps with descriptors. A
 * formed one gets a right header and length, and words 0xaaXXXXXX of its body become handles that
 * the router has given out, so that the handlers are reached with what they believe in. One of HELLO is a
 * connection of its own, which says it with descriptors of any kind. What must hold: nothing is reported by
 * a sanitizer, a client that is closed takes nothing with it, no descriptor is left behind, and nobody has a
 * session who did not hand over the memory of its own process.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "ffr/cm/cm.h"
#include "ffr/lib/fds.h"
#include "tests/rig/unit/ctl_rig.h"
#include "tests/rig/common/hello.h"

#define NUM_CLIENTS  2
#define MAX_HANDLES  64
#define MAX_RECORDS  64
#define MAX_CHANNELS 4
#define CM_TIME	     10000u /* ms that pass at a time for the connection manager */

static struct ctl_rig rig, *g = &rig;
static int null_fd;

struct input {
	const uint8_t *p;
	size_t left;
};

struct client {
	int sock;
	uint32_t handle[MAX_HANDLES];
	unsigned num_handles;
	int channel[MAX_CHANNELS]; /* descriptors; the others are closed */
	unsigned num_channels;
};

static void take(struct input *in, void *to, size_t n)
{
	size_t have = n < in->left ? n : in->left;

	memset(to, 0, n);
	memcpy(to, in->p, have);
	in->p += have;
	in->left -= have;
}

static void client_open(struct client *c, int container)
{
	int status;

	c->sock = rig_connect(g, container);
	c->num_handles = c->num_channels = 0;
	status = rig_hello(g, c->sock);
	if (!status)
		return;
	fprintf(stderr, "HELLO was answered with %d\n", status);
	abort();
}

static void client_close(struct client *c)
{
	close(c->sock);
	while (c->num_channels)
		close(c->channel[--c->num_channels]);
}

static void take_fd(struct client *c, const struct ff_hdr *h, int fd)
{
	if (h->type == FF_MSG_CREATE_CHANNEL && c->num_channels < MAX_CHANNELS)
		c->channel[c->num_channels++] = fd;
	else
		close(fd);
}

/* Take an event out of each channel. */
static void read_channels(struct client *c)
{
	uint8_t buf[512];

	for (unsigned i = 0; i < c->num_channels; i++)
		if (recv(c->channel[i], buf, sizeof(buf), MSG_DONTWAIT) < 0 && errno != EAGAIN)
			abort();
}

/* Read what the router answered; false: it has closed the connection. */
static bool drain(struct client *c)
{
	int fd[RIG_MAX_FDS];
	uint32_t buf[256];
	unsigned n_fds;
	ssize_t n;

	for (;;) {
		n = fds_recv(c->sock, buf, sizeof(buf), fd, RIG_MAX_FDS, &n_fds, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n <= 0)
			return false;
		for (unsigned i = 0; i < n_fds; i++)
			take_fd(c, (struct ff_hdr *)buf, fd[i]);
		/* What creates something answers with its handle first. */
		if ((size_t)n > sizeof(struct ff_hdr) && ((struct ff_hdr *)buf)->status == 0)
			c->handle[c->num_handles++ % MAX_HANDLES] = buf[sizeof(struct ff_hdr) / 4];
	}
}

static uint32_t handle_of(const struct client *c, uint32_t word)
{
	unsigned n = c->num_handles < MAX_HANDLES ? c->num_handles : MAX_HANDLES;

	return n ? c->handle[word % n] : 0x10000;
}

/* A message of a known type, of right length; the rest is the fuzzer's. */
static size_t form(struct input *in, const struct client *c, uint32_t *buf, size_t size)
{
	struct ff_hdr *h = (struct ff_hdr *)buf;
	const struct ctl_type *t;
	uint8_t type, n_tail;
	size_t len;

	take(in, &type, 1);
	take(in, &n_tail, 1);
	*h = (struct ff_hdr){ .magic = FF_PROTO_MAGIC };
	h->type = (uint16_t)(FF_MSG_GET_SEG + type % (FF_MSG_NUM - FF_MSG_GET_SEG));
	t = ctl_type(h->type);
	if (!t)
		return 0;
	h->n_tail = t->tail_size ? n_tail % 8 : 0;
	h->n_fds = t->req_fds;
	len = sizeof(*h) + t->req_size + (size_t)h->n_tail * t->tail_size;
	if (len > size)
		return 0;
	take(in, h + 1, len - sizeof(*h));
	for (size_t i = sizeof(*h) / 4; i < len / 4; i++)
		if (buf[i] >> 24 == 0xaa)
			buf[i] = handle_of(c, buf[i] & 0xffffff);
	return len;
}

static size_t raw(struct input *in, void *buf, size_t size)
{
	uint16_t len;

	take(in, &len, sizeof(len));
	if (len > size)
		len = (uint16_t)size;
	if (len > in->left)
		len = (uint16_t)in->left;
	take(in, buf, len);
	return len;
}

/* Channels take a few events only, so that the others wait. */
static void channels_shrink(const struct container *c)
{
	const struct obj_table *t;
	const struct session *s;
	int size = 1;

	LIST_FOREACH(s, &c->sessions, entry) {
		t = &s->tab[OBJ_CHANNEL];
		for (uint32_t i = 0; i < t->size; i++)
			if (t->slot[i])
				setsockopt(obj_of(t->slot[i], channel)->fd, SOL_SOCKET, SO_SNDBUF,
					   &size, sizeof(size));
	}
}

/* ---- HELLO with descriptors of any kind ---------------------------------------------------------- */

#define KIND_MEM  0u /* this process's, as HELLO wants them */
#define KIND_MAPS 1u
#define KIND_SELF 2u /* the connection that says it */
#define NUM_KINDS 32u
#define MAX_FDS	  8u

static int kinds[NUM_KINDS];

static int sealed(void)
{
	int fd = memfd_create("sealed", MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, 4096) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_WRITE))
		abort();
	return fd;
}

/* Of a process that does nothing. */
static void kinds_of_another(int *fd)
{
	pid_t pid = fork();
	char path[32];

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd[0] = open(path, O_RDWR | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	fd[1] = open(path, O_RDONLY | O_CLOEXEC);
	fd[2] = (int)syscall(SYS_pidfd_open, pid, 0);
}

static void kinds_open(void)
{
	uint8_t params[120] = { 0 };
	sigset_t none;
	int *k = kinds, pair[2];

	sigemptyset(&none);
	hello_memory(k);
	k[KIND_SELF] = -1;
	k += 3;
	kinds_of_another(k);
	k += 3;
	if (pipe(pair))
		abort();
	*k++ = pair[0];
	*k++ = pair[1];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair))
		abort();
	*k++ = pair[0];
	*k++ = pair[1];
	*k++ = open("/proc/self/mem", O_RDONLY);
	*k++ = open("/proc/self/mem", O_WRONLY);
	*k++ = open("/proc/self/maps", O_PATH);
	*k++ = open("/proc/self/mem", O_PATH);
	*k++ = open("/proc/thread-self/mem", O_RDWR);
	*k++ = open("/proc/self/smaps", O_RDONLY);
	*k++ = open("/proc/self/oom_score_adj", O_RDWR);
	*k++ = open("/proc/self", O_RDONLY | O_DIRECTORY);
	*k++ = (int)syscall(SYS_pidfd_open, getpid(), 0);
	*k++ = memfd_create("mem", 0);
	*k++ = sealed();
	*k++ = eventfd(0, 0);
	*k++ = epoll_create1(0);
	*k++ = timerfd_create(CLOCK_MONOTONIC, 0);
	*k++ = signalfd(-1, &none, 0);
	*k++ = inotify_init1(0);
	*k++ = socket(AF_INET, SOCK_STREAM, 0);
	*k++ = open("/dev/null", O_RDWR);
	*k++ = (int)syscall(SYS_io_uring_setup, 4, params);
	while (k < kinds + NUM_KINDS)
		*k++ = null_fd;
	for (k = kinds; k < kinds + NUM_KINDS; k++)
		if (*k < 0) /* not to be had here */
			*k = null_fd;
}

static void send_fds(int sock, const void *bytes, size_t len, const int *fd, unsigned n)
{
	if (fds_send(sock, bytes, len, fd, n, 0) >= 0)
		return;
	switch (errno) {
	case EPIPE:
	case ECONNRESET:   /* the router has closed it */
	case EAGAIN:	   /* nobody has read what is there already */
	case EINVAL:	   /* io_uring's cannot be sent */
	case ETOOMANYREFS: /* nor a socket in itself in itself in itself */
		return;
	default:
		abort();
	}
}

static uint64_t num_sessions(int container)
{
	return g->c[container]->quota.use.used[QUOTA_SESSION];
}

/* A connection of its own says HELLO, once or more. */
static void hello_record(struct input *in, int container)
{
	struct {
		struct ff_hdr h;
		struct ff_hello_req req;
	} m = { .req = { FF_PROTO_VERSION, FF_PROTO_VERSION, "any", { 0 } } };
	uint64_t before = num_sessions(container);
	uint8_t how, kind[MAX_FDS];
	struct client c = { 0 };
	bool right = false;
	int fd[MAX_FDS];
	unsigned n;

	c.sock = rig_connect(g, container);
	do {
		bool challenge;

		take(in, &how, 1);
		challenge = how & 8;
		n = how % 8 ? how % 8 : 2;
		take(in, kind, n);
		for (unsigned i = 0; i < n; i++) {
			kind[i] %= NUM_KINDS;
			fd[i] = kind[i] == KIND_SELF ? c.sock : kinds[kind[i]];
		}
		right |= !challenge && n == 2 && kind[0] == KIND_MEM && kind[1] == KIND_MAPS;
		m.h = (struct ff_hdr){ FF_PROTO_MAGIC, FF_MSG_HELLO, 1, 0, 0, (uint16_t)n };
		if (challenge)
			m.h.type = FF_MSG_CHALLENGE;
		send_fds(c.sock, &m, challenge ? sizeof(m.h) + sizeof(uint32_t) : sizeof(m), fd, n);
		if (how & 16)
			rig_pump(g);
	} while (how & 32 && in->left);
	rig_pump(g);
	if (num_sessions(container) > before && !right) {
		fprintf(stderr, "a session for the descriptors of kinds %u and %u\n", kind[0],
			kind[1]);
		abort();
	}
	if (how & 64)
		(void)drain(&c);
	client_close(&c);
	rig_pump(g);
}

static void one_record(struct input *in, struct client *clients)
{
	static uint32_t buf[(FF_MSG_MAX + 64) / 4];
	struct client *c;
	unsigned n_fds;
	uint8_t how;
	size_t len;

	take(in, &how, 1);
	if ((how & 0x1c) == 0x10) {
		hello_record(in, how & 1);
		return;
	}
	c = &clients[how & 1];
	len = how & 2 ? raw(in, buf, sizeof(buf)) : form(in, c, buf, sizeof(buf));
	if (!len)
		return;
	n_fds = (how & 0x1c) == 0x1c ? how >> 5 : how & 2 ? 0 : ((struct ff_hdr *)buf)->n_fds;
	rig_send(c->sock, buf, len, null_fd, n_fds);
	rig_pump(g);
	fast_lock(g->ctl.host);
	fast_turn(g->ctl.host->threads[0]);
	fast_unlock(g->ctl.host);
	channels_shrink(g->c[how & 1]);
	if ((how & 0x1c) == 0x18)
		while (!cm_expire(g->ctl.cm, uv_now(&g->loop) + CM_TIME * (how >> 5)))
			;
	if ((how & 0x1c) == 0x14)
		read_channels(c);
	if (!drain(c)) {
		client_close(c);
		client_open(c, how & 1);
	}
}

static void check_empty(unsigned fds)
{
	unsigned now;

	rig_fds(g, fds); /* some are closed by threads (discard.c) */
	now = rig_open_fds();
	if (LIST_EMPTY(&g->c[0]->sessions) && LIST_EMPTY(&g->c[1]->sessions) &&
	    !g->c[0]->keys.used && !g->c[1]->keys.used && !g->c[0]->windows.used &&
	    !g->c[1]->windows.used && !g->c[0]->dm_bytes && !g->c[1]->dm_bytes && !g->c[0]->cm &&
	    !g->c[1]->cm && !g->ctl.host->qps.used && now == fds)
		return;
	fprintf(stderr, "left behind: %u QPs, %d descriptors\n", g->ctl.host->qps.used,
		(int)(now - fds));
	abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	log_level = LOG_LEVEL_ERR;
	ctl_hello_patience = 3600000; /* it may be stopped for a while */
	null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	kinds_open();
	rig_open(g);
	g->ctl.conf.limits.max_ring_mb = 8;
	g->ctl.conf.limits.max_shadow_mb = 8;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct client clients[NUM_CLIENTS];
	unsigned fds = rig_open_fds();

	for (int i = 0; i < NUM_CLIENTS; i++)
		client_open(&clients[i], i);
	for (int n = 0; in.left && n < MAX_RECORDS; n++)
		one_record(&in, clients);
	for (int i = 0; i < NUM_CLIENTS; i++)
		client_close(&clients[i]);
	rig_pump(g);
	check_empty(fds);
	return 0;
}

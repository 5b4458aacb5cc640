/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fuzz_msg.c - libFuzzer target: two clients send whatever they like to the control thread.
 * build: tests/lib/ctl_rig.c @lib @keeper @obj @mem @fast ffr/fast/pvm.c @peer @dir @soft @ctl @cm ffr/backend.c ffr/conf.c @ffo_tls ffo/base/limits.c ffo/base/limits_text.c ffo/base/proto.c
 *
 * The input is a list of records. A raw one is a packet as it is, perhaps with descriptors. A
 * formed one gets a right header and length, and words 0xaaXXXXXX of its body become handles that
 * the router has given out, so that the handlers are reached with what they believe in. What must
 * hold: nothing is reported by a sanitizer, a client that is closed takes nothing with it, and no
 * descriptor is left behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/cm/cm.h"
#include "tests/lib/ctl_rig.h"

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
	union {
		struct cmsghdr h;
		uint8_t buf[CMSG_SPACE(RIG_MAX_FDS * sizeof(int))];
	} cm;
	uint32_t buf[256];
	ssize_t n;

	for (;;) {
		struct iovec iov = { buf, sizeof(buf) };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = cm.buf,
				      .msg_controllen = sizeof(cm) };
		struct cmsghdr *h;
		int fd;

		n = recvmsg(c->sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n <= 0)
			return false;
		h = CMSG_FIRSTHDR(&msg);
		for (size_t at = CMSG_LEN(0); h && at + sizeof(fd) <= h->cmsg_len;
		     at += sizeof(fd)) {
			memcpy(&fd, (uint8_t *)h + at, sizeof(fd));
			take_fd(c, (struct ff_hdr *)buf, fd);
		}
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

static void one_record(struct input *in, struct client *clients)
{
	static uint32_t buf[(FF_MSG_MAX + 64) / 4];
	struct client *c;
	unsigned n_fds;
	uint8_t how;
	size_t len;

	take(in, &how, 1);
	c = &clients[how & 1];
	len = how & 2 ? raw(in, buf, sizeof(buf)) : form(in, c, buf, sizeof(buf));
	if (!len)
		return;
	n_fds = (how & 0x1c) == 0x1c ? how >> 5 : how & 2 ? 0 : ((struct ff_hdr *)buf)->n_fds;
	rig_send(c->sock, buf, len, null_fd, n_fds);
	rig_pump(g);
	fast_lock(g->r.fast);
	fast_turn(g->r.fast);
	fast_unlock(g->r.fast);
	channels_shrink(g->c[how & 1]);
	if ((how & 0x1c) == 0x18)
		cm_expire(g->r.cm, uv_now(&g->r.loop) + CM_TIME * (how >> 5));
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
	    !g->c[1]->cm && !g->r.fast->qp_tab_used && now == fds)
		return;
	fprintf(stderr, "left behind: %u QPs, %d descriptors\n", g->r.fast->qp_tab_used,
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
	rig_open(g);
	g->r.conf.limits.max_ring_mb = 8;
	g->r.conf.limits.max_shadow_mb = 8;
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

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * netlag.c - `netlag IF-A IF-B DELAY-US LOSS-PPM`: a wire between two interfaces that takes its time
 * and loses frames. For `lab delay` where the kernel has no netem. Single thread.
 *
 * What arrives at one interface leaves by the other DELAY-US microseconds later, in its order, or,
 * LOSS-PPM times in a million, never. As with netem, a frame is what the kernel hands over: with
 * segmentation offload several packets are delayed or lost as one. The header of virtio goes along,
 * for checksums and segments that are still to be made (packet(7), PACKET_VNET_HDR).
 *
 * "ready" on standard output tells that it listens; it ends when it is killed or an interface is gone.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FRAME_MAX	 (256 * 1024)
#define WAITING_MAX	 (64 * 1024 * 1024) /* bytes in one direction: what a queue drops beyond */
#define SOCKET_BUF	 (8 * 1024 * 1024)
#define FRAMES_PER_ROUND 64 /* read from one side before the other has its turn */
#define NS_PER_SEC	 1000000000ll

struct frame {
	STAILQ_ENTRY(frame) link;
	int64_t due; /* nanoseconds, CLOCK_MONOTONIC */
	size_t len;
	uint8_t data[]; /* struct virtio_net_hdr, then from the Ethernet header on */
};

struct side {
	const char *name;
	int fd;
	STAILQ_HEAD(, frame) waiting; /* came in here, to go out at the other side */
	size_t bytes;
};

static int64_t delay_ns;
static unsigned int loss_ppm;
static uint8_t buf[FRAME_MAX];

static void __attribute__((noreturn)) die(const char *what)
{
	fprintf(stderr, "netlag: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS_PER_SEC + t.tv_nsec;
}

static void side_open(struct side *s, const char *name)
{
	struct sockaddr_ll addr = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	int one = 1, size = SOCKET_BUF;

	s->name = name;
	STAILQ_INIT(&s->waiting);
	addr.sll_ifindex = (int)if_nametoindex(name);
	/* No protocol until bound, or it would take what all interfaces get. */
	s->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (!addr.sll_ifindex || s->fd < 0 ||
	    setsockopt(s->fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) ||
	    setsockopt(s->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
	    bind(s->fd, (struct sockaddr *)&addr, sizeof(addr)))
		die(name);
	if (setsockopt(s->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		setsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

/* False when nothing more is there. */
static bool take(struct side *s)
{
	ssize_t n = recv(s->fd, buf, sizeof(buf), MSG_DONTWAIT | MSG_TRUNC);
	struct frame *f;

	if (n < 0) {
		if (errno == EAGAIN || errno == EINTR)
			return false;
		if (errno == ENETDOWN) /* told once; it may come up again */
			return true;
		die(s->name);
	}
	if ((size_t)n > sizeof(buf) || s->bytes + (size_t)n > WAITING_MAX ||
	    (unsigned int)(drand48() * 1e6) < loss_ppm)
		return true;
	f = malloc(sizeof(*f) + (size_t)n);
	if (!f)
		return true;
	f->due = now_ns() + delay_ns;
	f->len = (size_t)n;
	memcpy(f->data, buf, f->len);
	STAILQ_INSERT_TAIL(&s->waiting, f, link);
	s->bytes += f->len;
	return true;
}

/* What is due; an interface that does not take a frame loses it. When the next one is due, or -1. */
static int64_t give(struct side *from, const struct side *to)
{
	struct frame *f;

	while ((f = STAILQ_FIRST(&from->waiting))) {
		if (f->due > now_ns())
			return f->due;
		if (send(to->fd, f->data, f->len, 0) < 0 && errno == ENXIO)
			die(to->name);
		STAILQ_REMOVE_HEAD(&from->waiting, link);
		from->bytes -= f->len;
		free(f);
	}
	return -1;
}

static void rest(const struct side side[2], int64_t until)
{
	struct pollfd p[2] = { { .fd = side[0].fd, .events = POLLIN },
			       { .fd = side[1].fd, .events = POLLIN } };
	int64_t ns = until - now_ns();
	struct timespec t;

	if (until >= 0 && ns <= 0)
		return;
	t = (struct timespec){ ns / NS_PER_SEC, ns % NS_PER_SEC };
	if (ppoll(p, 2, until < 0 ? NULL : &t, NULL) < 0 && errno != EINTR)
		die("ppoll");
}

static int64_t sooner(int64_t a, int64_t b)
{
	if (a < 0 || b < 0)
		return a < 0 ? b : a;
	return a < b ? a : b;
}

static long number(const char *s, long max)
{
	char *end;
	long n = strtol(s, &end, 10);

	if (end == s || *end || n < 0 || n > max) {
		fprintf(stderr, "netlag: %s: not a number from 0 to %ld\n", s, max);
		exit(2);
	}
	return n;
}

int main(int argc, char **argv)
{
	struct side side[2];

	if (argc != 5) {
		fprintf(stderr, "usage: netlag IF-A IF-B DELAY-US LOSS-PPM\n");
		return 2;
	}
	delay_ns = number(argv[3], 60000000) * 1000ll;
	loss_ppm = (unsigned int)number(argv[4], 1000000);
	srand48(getpid());
	memset(side, 0, sizeof(side));
	side_open(&side[0], argv[1]);
	side_open(&side[1], argv[2]);
	puts("ready");
	fflush(stdout);
	for (;;) {
		for (int i = 0; i < 2; i++)
			for (int n = 0; n < FRAMES_PER_ROUND && take(&side[i]); n++)
				;
		rest(side, sooner(give(&side[0], &side[1]), give(&side[1], &side[0])));
	}
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * peer_meet.c - what a byte stream would cost if its router copied a message only once the calls of
 * both sides are there, and from the one's buffer to the other's. Two programs and a router, each a
 * process, do what rstream does: 10 messages of 64 KB one way, then as many back. The router is
 * told of messages through shared memory and does nothing else, so this is what the way of copying
 * allows, and more than any real router reaches.
 *
 *   rings   as rsockets do it: from the program to its ring, by the router to the peer's ring, and
 *	     from there to the program. No call waits for the peer's.
 *   meet    both calls wait; the router reads the one process's memory and writes the other's
 *   read    the sender's call waits; the router reads its memory into the receiver's ring
 *   write   the receiver's call waits; the router writes from the sender's ring to its memory
 *   lend    as read, but the sender lends its pages to a pipe that the router reads
 *   mapped  as meet, but the router has both buffers mapped and copies once: what memory that is
 *	     registered anew in each call would allow if that cost nothing
 *   direct  the receiver has the sender's buffer mapped and copies itself, without any router: no
 *	     stream between two cores is faster
 *
 * Who finds nothing to do looks a few times more and then yields: three processes, two cores.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "bench.h"
#include "ffr/abi/ff_ring.h"

#define MSG   (64u << 10)  /* bytes */
#define MSGS  10u	   /* one way */
#define RING  (512u << 10) /* bytes: rstream's */
#define SLOTS (RING / MSG)
#define LOOKS 40 /* before the CPU is given away */

enum way { RINGS, MEET, READ, WRITE, LEND, MAPPED, DIRECT, NUM_WAYS };

static const struct {
	const char *name;
	bool ring_out, ring_in; /* the bytes pass through the sender's, the receiver's ring */
} ways[] = {
	[RINGS] = { "rings", true, true },     [MEET] = { "meet", false, false },
	[READ] = { "read", false, true },      [WRITE] = { "write", true, false },
	[LEND] = { "lend", false, true },      [MAPPED] = { "mapped", false, false },
	[DIRECT] = { "direct", false, false },
};

/* Messages counted since the start, each by one process. */
struct count {
	_Alignas(2 * BENCH_LINE) _Atomic uint64_t n;
};

/* One direction. */
struct flow {
	struct count sent;   /* sender: the message can be fetched */
	struct count wanted; /* receiver: there is a buffer for it */
	struct count moved;  /* router (direct: receiver): it is where it shall be */
	struct count taken;  /* receiver: its place in the ring is free */
	uint8_t *out, *in;   /* the rings */
	int lent[2];	     /* a pipe */
};

static struct shared {
	struct flow flows[2]; /* from program 0, from program 1 */
	pid_t pids[2];
	uint8_t *bufs[2]; /* one message each; at the same address everywhere, but not the same memory */
	_Atomic unsigned ready;
	_Atomic bool stop;
} * all;

static enum way way;
static uint64_t rounds = 1000;

static uint64_t count_of(struct count *c)
{
	return atomic_load_explicit(&c->n, memory_order_acquire);
}

static void count(struct count *c)
{
	/* what the count stands for before the count */
	atomic_store_explicit(&c->n, c->n + 1, memory_order_release);
}

static void pause_or_yield(unsigned *looks)
{
	if (++*looks < LOOKS)
		ff_relax();
	else
		sched_yield();
}

static void wait_for(struct count *c, uint64_t n)
{
	unsigned looks = 0;

	while (count_of(c) < n)
		pause_or_yield(&looks);
}

static uint8_t *slot(uint8_t *ring, uint64_t i)
{
	return ring + i % SLOTS * MSG;
}

/* ---- the programs -------------------------------------------------------------------------------- */

/* The first and the last word of message i: nothing is measured that does not arrive. */
static void stamp(uint8_t *buf, uint64_t i)
{
	memcpy(buf, &i, sizeof(i));
	memcpy(buf + MSG - sizeof(i), &i, sizeof(i));
}

static void check(const uint8_t *buf, uint64_t i)
{
	errno = 0;
	if (memcmp(buf, &i, sizeof(i)) != 0 || memcmp(buf + MSG - sizeof(i), &i, sizeof(i)) != 0)
		bench_die("message %lu did not arrive whole", (unsigned long)i);
}

static void lend(int fd, uint8_t *buf)
{
	struct iovec v = { .iov_base = buf, .iov_len = MSG };

	while (v.iov_len) {
		ssize_t n = vmsplice(fd, &v, 1, 0);

		if (n < 0)
			bench_die("vmsplice");
		v.iov_base = (uint8_t *)v.iov_base + n;
		v.iov_len -= (size_t)n;
	}
}

static void send_msg(struct flow *f, uint8_t *buf)
{
	uint64_t i = f->sent.n;

	stamp(buf, i);
	if (ways[way].ring_out) {
		if (i >= SLOTS)
			wait_for(&f->taken, i - SLOTS + 1);
		memcpy(slot(f->out, i), buf, MSG);
	} else if (way == LEND) {
		lend(f->lent[1], buf);
	}
	count(&f->sent);
	if (!ways[way].ring_out)
		wait_for(&f->moved, i + 1);
}

static void receive_msg(struct flow *f, uint8_t *buf, const uint8_t *from)
{
	uint64_t i = f->taken.n;

	count(&f->wanted);
	if (way == DIRECT) {
		wait_for(&f->sent, i + 1);
		memcpy(buf, from, MSG);
		count(&f->moved);
	} else {
		wait_for(&f->moved, i + 1);
		if (ways[way].ring_in)
			memcpy(buf, slot(f->in, i), MSG);
	}
	count(&f->taken);
	check(buf, i);
}

static void program(unsigned me)
{
	struct flow *out = &all->flows[me], *in = &all->flows[!me];
	uint8_t *buf = all->bufs[me];

	memset(buf, 1, MSG);
	atomic_fetch_add(&all->ready, 1);
	while (atomic_load(&all->ready) < 2)
		sched_yield();
	for (uint64_t r = 0; r < rounds; r++)
		for (unsigned half = 0; half < 2; half++)
			for (unsigned i = 0; i < MSGS; i++)
				if (half == me)
					send_msg(out, buf);
				else
					receive_msg(in, buf, all->bufs[!me]);
}

/* ---- the router ---------------------------------------------------------------------------------- */

static void read_process(unsigned who, uint8_t *dst)
{
	struct iovec to = { .iov_base = dst, .iov_len = MSG };
	struct iovec from = { .iov_base = all->bufs[who], .iov_len = MSG };

	if (process_vm_readv(all->pids[who], &to, 1, &from, 1, 0) != (ssize_t)MSG)
		bench_die("process_vm_readv");
}

static void write_process(unsigned who, uint8_t *src)
{
	struct iovec from = { .iov_base = src, .iov_len = MSG };
	struct iovec to = { .iov_base = all->bufs[who], .iov_len = MSG };

	if (process_vm_writev(all->pids[who], &from, 1, &to, 1, 0) != (ssize_t)MSG)
		bench_die("process_vm_writev");
}

static void read_lent(int fd, uint8_t *dst)
{
	for (size_t done = 0; done < MSG;) {
		ssize_t n = read(fd, dst + done, MSG - done);

		if (n <= 0)
			bench_die("read");
		done += (size_t)n;
	}
}

static void move(struct flow *f, unsigned from, uint64_t i, uint8_t *bounce)
{
	switch (way) {
	case RINGS:
		memcpy(slot(f->in, i), slot(f->out, i), MSG);
		break;
	case MEET:
		read_process(from, bounce);
		write_process(!from, bounce);
		break;
	case READ:
		read_process(from, slot(f->in, i));
		break;
	case WRITE:
		write_process(!from, slot(f->out, i));
		break;
	case LEND:
		read_lent(f->lent[0], slot(f->in, i));
		break;
	case MAPPED:
		memcpy(all->bufs[!from], all->bufs[from], MSG);
		break;
	default:
		break;
	}
}

static bool turn(unsigned from, uint8_t *bounce)
{
	struct flow *f = &all->flows[from];
	uint64_t i = f->moved.n;

	if (count_of(&f->sent) == i)
		return false;
	if (ways[way].ring_in ? i - count_of(&f->taken) >= SLOTS : count_of(&f->wanted) == i)
		return false;
	move(f, from, i, bounce);
	count(&f->moved);
	return true;
}

static void router(unsigned unused)
{
	uint8_t *bounce = bench_alloc(MSG);
	unsigned looks = 0;

	(void)unused;
	while (!atomic_load_explicit(&all->stop, memory_order_relaxed)) {
		bool worked = turn(0, bounce);

		if (turn(1, bounce) || worked)
			looks = 0;
		else
			pause_or_yield(&looks);
	}
	free(bounce);
}

/* ---- all of them --------------------------------------------------------------------------------- */

static pid_t start(void (*main)(unsigned), unsigned arg)
{
	pid_t p = fork();

	if (p < 0)
		bench_die("fork");
	if (p)
		return p;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	main(arg);
	_exit(0);
}

/* Until that many have ended, whichever they are; all end with this one. */
static void join(int n)
{
	int status;

	while (n--) {
		errno = 0;
		if (wait(&status) < 0 || status)
			bench_die("a process failed");
	}
}

static void set_up(void)
{
	all = bench_map(sizeof(*all), MAP_SHARED, 0);
	for (int i = 0; i < 2; i++) {
		struct flow *f = &all->flows[i];

		f->out = bench_map(RING, MAP_SHARED, 0);
		f->in = bench_map(RING, MAP_SHARED, 0);
		if (pipe2(f->lent, O_CLOEXEC) || fcntl(f->lent[1], F_SETPIPE_SZ, 2 * MSG) < 0)
			bench_die("pipe");
		/* a program's memory is its own, and as malloc gives it */
		all->bufs[i] = way == MAPPED || way == DIRECT ?
				       bench_map(MSG, MAP_SHARED, 0) :
				       (uint8_t *)bench_alloc(MSG + 16) + 16;
	}
}

static enum way way_of(const char *name)
{
	for (unsigned w = 0; w < NUM_WAYS; w++)
		if (!strcmp(name, ways[w].name))
			return w;
	errno = 0;
	bench_die("no way is called '%s'", name);
}

int main(int argc, char **argv)
{
	uint64_t ns;
	int opt;

	while ((opt = getopt(argc, argv, "k:n:")) != -1) {
		switch (opt) {
		case 'k':
			way = way_of(optarg);
			break;
		case 'n':
			rounds = (uint64_t)bench_num(optarg, 1, 1000000);
			break;
		default:
			fprintf(stderr, "usage: peer_meet [-k rings|meet|read|write|lend|mapped|"
					"direct] [-n ROUNDS]\n");
			return 2;
		}
	}
	set_up();
	for (unsigned i = 0; i < 2; i++)
		all->pids[i] = start(program, i);
	while (atomic_load(&all->ready) < 2)
		sched_yield();
	ns = bench_now();
	if (way != DIRECT)
		start(router, 0);
	join(2);
	ns = bench_now() - ns;
	atomic_store(&all->stop, true);
	if (way != DIRECT)
		join(1);
	printf("{\"way\": \"%s\", \"bytes_per_s\": %.0f}\n", ways[way].name,
	       (double)rounds * 2 * MSGS * MSG / (double)ns * 1e9);
	return 0;
}

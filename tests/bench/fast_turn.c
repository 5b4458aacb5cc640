/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fast_turn.c - the router's fast path and nothing else: two connected QPs of two containers, their
 * rings in private memory, the soft backend, and fast_turn() called from here.
 *
 * Built twice: as the router is, and as fast_turn_bare without its counters (stats.h).
 *
 * No socket, no bell, no client: what is counted is what the router executes for one operation.
 * `run` toggles callgrind's collection on fast_turn(); without a profiler the time is printed. Both
 * sides' part of the rings (the posting, the consuming) is played by post_*() and consume().
 *
 * One thread does both in turn, so everything is in its cache. With -2 the client is a thread of
 * its own on CPU 0 and fast_turn() runs on CPU 1: what the cache lines' way between two cores adds.
 */
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <stdbool.h>
#include <unistd.h>

#include "bench.h"
#include "ffr/fast/backend.h"
#include "ffr/fast/fast.h"

#define DEPTH	 128u /* WRs of a batch, and of each queue */
#define MAX_SIZE (1u << 20)

/* One container with one session, one PD, MR, CQ and QP. */
struct side {
	struct container cont;
	struct session ses;
	struct pd pd;
	struct mr mr;
	struct mr_run run;
	struct cq cq;
	struct qp qp;
	uint8_t *buf; /* the MR; "application" and router share this process */
	uint32_t sq_tail, rq_tail, ci;
};

static struct side side[2];

static uint32_t op = FF_OP_WRITE, size = 8, signal_every = 1;
static bool use_inline;

static void insert(struct session *s, struct obj *o, enum obj_kind kind)
{
	s->tab[kind].max = 1024;
	o->kind = kind;
	o->ses = s;
	if (obj_insert(&s->tab[kind], o))
		bench_die("handle table");
}

static void make_session(struct fast *f, struct side *d, int i)
{
	struct container *c = &d->cont;
	struct session *s = &d->ses;
	int fd[2];

	snprintf(c->name, sizeof(c->name), "c%d", i);
	c->gid[0].raw[10] = c->gid[0].raw[11] = 0xff; /* ::ffff:10.0.0.1 and .2 */
	c->gid[0].raw[12] = 10;
	c->gid[0].raw[15] = (uint8_t)(i + 1);
	c->num_gids = 1;
	c->lid = (uint16_t)(i + 1);
	c->mode = FF_MODE_ADAPTIVE;
	if (fast_container_add(f->host, c))
		bench_die("a container");
	s->cont = c;
	s->id = (uint32_t)i + 1;
	s->pid = getpid();
	s->hdr = bench_alloc(sizeof(*s->hdr));
	memset(s->hdr, 0, sizeof(*s->hdr));
	s->bell_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (s->bell_fd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd))
		bench_die("descriptors");
	s->async_fd = fd[0];
	errno = -fast_session_add(f, s);
	if (errno)
		bench_die("fast_session_add");
}

static void make_mr(struct side *d)
{
	uint32_t bytes = 2 * (size > 4096 ? size : 4096);
	struct mr *mr = &d->mr;

	insert(&d->ses, &d->pd.o, OBJ_PD);
	insert(&d->ses, &mr->o, OBJ_MR);
	d->buf = bench_alloc(bytes);
	mr->pd = &d->pd;
	mr->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC;
	mr->addr = mr->iova = (uintptr_t)d->buf;
	mr->length = mr->zero_copy = bytes;
	d->run = (struct mr_run){ .va = mr->addr, .len = bytes, .host = d->buf };
	mr->run = &d->run;
	mr->num_runs = 1;
	if (key_insert(&d->cont.keys, mr))
		bench_die("key_insert");
}

static void make_qp(struct fast *f, struct side *d)
{
	uint32_t sq_stride = ff_sqe_stride(1, use_inline ? 64 : 0), rq_stride = ff_rqe_stride(1);
	struct qp *qp = &d->qp;
	struct cq *cq = &d->cq;

	insert(&d->ses, &cq->o, OBJ_CQ);
	cq->hdr = bench_alloc(sizeof(*cq->hdr));
	memset(cq->hdr, 0, sizeof(*cq->hdr));
	cq->depth = 4 * DEPTH;
	cq->cqe = cq->depth;
	cq->ring = bench_alloc(cq->depth * sizeof(*cq->ring));
	memset(cq->ring, 0, cq->depth * sizeof(*cq->ring));

	insert(&d->ses, &qp->o, OBJ_QP);
	qp->hdr = bench_alloc(sizeof(*qp->hdr));
	memset(qp->hdr, 0, sizeof(*qp->hdr));
	qp->sq.ring = bench_alloc((size_t)DEPTH * sq_stride);
	memset(qp->sq.ring, 0, (size_t)DEPTH * sq_stride);
	qp->rq.ring = bench_alloc((size_t)DEPTH * rq_stride);
	memset(qp->rq.ring, 0, (size_t)DEPTH * rq_stride);
	qp->sq.depth = qp->rq.depth = DEPTH;
	qp->sq.stride = sq_stride;
	qp->rq.stride = rq_stride;
	qp->type = IBV_QPT_RC;
	qp->pd = &d->pd;
	qp->scq = qp->rcq = cq;
	qp->wr = send_buf_new();
	if (!qp->wr)
		abort();
	qp->max_send_sge = qp->max_recv_sge = 1;
	qp->max_inline = 64;
	qp->max_send_wr = qp->max_recv_wr = DEPTH;
	errno = -fast_qp_add(f, qp);
	if (errno)
		bench_die("fast_qp_add");
}

static void connect_to(struct fast *f, struct side *d, struct side *peer)
{
	struct ff_qp_attr *a = &d->qp.attr;

	memcpy(a->ah.dgid, peer->cont.gid[0].raw, 16);
	a->ah.dlid = peer->cont.lid;
	a->ah.is_global = 1;
	a->ah.port_num = a->port_num = 1;
	a->dest_qp_num = peer->qp.qp_num;
	a->path_mtu = IBV_MTU_4096;
	a->qp_access_flags = d->mr.access;
	a->max_rd_atomic = a->max_dest_rd_atomic = 16;
	a->min_rnr_timer = 12;
	a->timeout = 14;
	a->retry_cnt = a->rnr_retry = 7;
	fast_qp_set_state(f, &d->qp, IBV_QPS_INIT);
	fast_qp_set_state(f, &d->qp, IBV_QPS_RTR);
	fast_qp_set_state(f, &d->qp, IBV_QPS_RTS);
}

/* Entry i, counted since creation, of a ring of DEPTH. */
static void *entry(uint8_t *ring, uint32_t i, uint32_t stride)
{
	return ring + (size_t)(i & (DEPTH - 1)) * stride;
}

static void post_recv(struct side *d)
{
	struct ff_rqe *e = entry(d->qp.rq.ring, d->rq_tail, d->qp.rq.stride);

	e->num_sge = 1;
	e->sge[0] = (struct ff_sge){ (uintptr_t)d->buf, size, d->mr.lkey };
	atomic_store_explicit(&e->seq, ff_seq(d->rq_tail), memory_order_release);
	d->rq_tail++;
}

static void post_send(struct side *a, const struct side *b)
{
	struct ff_sqe *e = entry(a->qp.sq.ring, a->sq_tail, a->qp.sq.stride);

	e->cpu = 0;
	e->opcode = (uint8_t)op;
	e->flags = use_inline ? FF_SQE_INLINE : 0;
	if ((a->sq_tail + 1) % signal_every == 0)
		e->flags |= FF_SQE_SIGNALED;
	e->wr_id = a->sq_tail;
	e->remote_addr = (uintptr_t)b->buf;
	e->rkey = b->mr.rkey;
	if (use_inline) {
		e->num_sge = (uint16_t)size;
		memcpy(e->inl, a->buf, size);
	} else {
		e->num_sge = 1;
		e->sge[0] = (struct ff_sge){ (uintptr_t)a->buf, size, a->mr.lkey };
	}
	atomic_store_explicit(&e->seq, ff_seq(a->sq_tail), memory_order_release);
	a->sq_tail++;
}

/* Takes what is in the CQ; each must be a success. */
static uint32_t consume(struct side *d)
{
	uint32_t first = d->ci;

	for (;; d->ci++) {
		struct ff_cqe *e = &d->cq.ring[d->ci & (d->cq.depth - 1)];

		if (atomic_load_explicit(&e->phase, memory_order_acquire) !=
		    ff_cqe_phase(d->ci, d->cq.depth))
			break;
		errno = 0;
		if (e->status)
			bench_die("completion with status %d, vendor error %u", e->status,
				  e->vendor_err);
	}
	if (d->ci != first)
		atomic_store_explicit(&d->cq.hdr->ci, d->ci, memory_order_release);
	return d->ci - first;
}

/* Batches in turn: post, fast_turn() until all is done, consume. ns in fast_turn(), by the median batch. */
static uint64_t run_alone(struct fast *f, uint64_t ops)
{
	struct side *a = &side[0], *b = &side[1];
	uint64_t *batch = bench_alloc(ops / DEPTH * sizeof(*batch)), n = 0, ns, t;

	for (uint64_t done = 0; done < ops; done += DEPTH) {
		for (uint32_t i = 0; i < DEPTH; i++) {
			if (op == FF_OP_SEND)
				post_recv(b);
			post_send(a, b);
		}
		fast_qp_activate(f, &a->qp);
		f->now += 1000;
		t = bench_now();
		for (int tries = 0; a->qp.sq.head != a->sq_tail || a->qp.busy; tries++) {
			fast_turn(f);
			errno = 0;
			if (tries > 1000000)
				bench_die("no progress");
		}
		batch[n++] = bench_now() - t;
		errno = 0;
		if (consume(a) != DEPTH / signal_every ||
		    consume(b) != (op == FF_OP_SEND ? DEPTH : 0))
			bench_die("completions are missing");
	}
	bench_sort(batch, n);
	ns = bench_pct(batch, n, 0.5) * n;
	free(batch);
	return ns;
}

#define WINDOW (DEPTH * 4) /* operations that are timed together */

struct client {
	uint64_t ops, *window; /* ns for each WINDOW operations */
	_Atomic uint32_t done;
};

static void *client(void *arg)
{
	struct client *c = arg;
	uint64_t done = 0, posted = 0, n = 0, t = bench_now(), now;

	bench_pin(0);
	while (done < c->ops) {
		for (; posted - done < DEPTH && posted < c->ops; posted++)
			post_send(&side[0], &side[1]);
		done += (uint64_t)consume(&side[0]) * signal_every;
		if (done >= (n + 1) * WINDOW) {
			now = bench_now();
			c->window[n++] = now - t;
			t = now;
		}
	}
	atomic_store(&c->done, 1);
	return NULL;
}

/* Client and router on a core each; ns by the median of the windows. */
static uint64_t run_pair(struct fast *f, uint64_t ops)
{
	uint64_t n = (ops + WINDOW - 1) / WINDOW, ns;
	struct client c = { .ops = n * WINDOW, .window = bench_alloc((n + 1) * sizeof(uint64_t)) };
	pthread_t t;

	bench_pin(1);
	errno = pthread_create(&t, NULL, client, &c);
	if (errno)
		bench_die("pthread_create");
	while (!atomic_load_explicit(&c.done, memory_order_relaxed)) {
		f->now = bench_now();
		fast_qp_activate(f, &side[0].qp);
		fast_turn(f);
	}
	pthread_join(t, NULL);
	bench_sort(c.window, n);
	ns = bench_pct(c.window, n, 0.5) * ops / WINDOW;
	free(c.window);
	return ns;
}

static uint32_t op_of(const char *name)
{
	static const struct {
		const char *name;
		uint32_t op;
	} ops[] = { { "write", FF_OP_WRITE }, { "send", FF_OP_SEND }, { "read", FF_OP_READ } };

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strcmp(ops[i].name, name))
			return ops[i].op;
	errno = 0;
	bench_die("'%s' is not write, send or read", name);
}

int main(int argc, char **argv)
{
	struct fast_conf conf = FAST_CONF_DEFAULT;
	extern const struct carrier wire_carrier; /* remote.h has a struct side, too */
	static const struct carrier_use carriers[] = { { .ops = &wire_carrier }, { 0 } };
	struct backend be = { .ops = &soft_ops, .carriers = carriers };
	uint64_t ops = 1000000, ns;
	bool two = false;
	struct fast_host *host;
	struct fast *f;
	int opt;

	while ((opt = getopt(argc, argv, "2bin:o:s:z:")) != -1) {
		switch (opt) {
		case '2':
			two = true;
			break;
		case 'b':
			conf.latency = false;
			break;
		case 'i':
			use_inline = true;
			break;
		case 'n':
			ops = (uint64_t)bench_num(optarg, 1, 1000000000);
			break;
		case 'o':
			op = op_of(optarg);
			break;
		case 's':
			signal_every = (uint32_t)bench_num(optarg, 1, DEPTH);
			break;
		case 'z':
			size = (uint32_t)bench_num(optarg, 1, MAX_SIZE);
			break;
		default:
			fprintf(stderr,
				"usage: fast_turn [-o write|send|read] [-z BYTES] [-i: inline] "
				"[-s SIGNAL-EVERY] [-n OPERATIONS]\n"
				"                 [-b: counters = basic]\n"
				"                 [-2: client and router on a core each]\n");
			return 2;
		}
	}
	errno = 0;
	if (use_inline && (size > 64 || op == FF_OP_READ))
		bench_die("inline data is up to 64 bytes of a write or a send");
	if (two && op == FF_OP_SEND)
		bench_die("-2 is for write and read");
	if (DEPTH % signal_every)
		bench_die("-s must divide %u", DEPTH);
	ops = (ops + DEPTH - 1) / DEPTH * DEPTH;
	host = fast_create(&conf, &be);
	if (!host)
		bench_die("fast_create");
	f = host->threads[0];
	for (int i = 0; i < 2; i++) {
		make_session(f, &side[i], i);
		make_mr(&side[i]);
		make_qp(f, &side[i]);
	}
	connect_to(f, &side[0], &side[1]);
	connect_to(f, &side[1], &side[0]);

	ns = two ? run_pair(f, ops) : run_alone(f, ops);
	printf("{\"operations\": %lu, \"ns_per_op\": %.2f}\n", ops, (double)ns / (double)ops);
	return 0;
}

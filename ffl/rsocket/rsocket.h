/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rsocket.h - rsockets: what the files of ffl/rsocket/ share. They are a part of librdmacm.so.1
 * and use the rdma_cm and the verbs as any program does.
 *
 *   socket.c         socket, bind, listen, accept, shutdown, close, names
 *   fd.c      descriptor -> rsocket
 *   lock.c    the lock of an rsocket
 *   cm.c      a stream's connection: connection manager events, connecting, accepting
 *   wait.c    polling a CQ, then sleeping on its channel
 *   stream.c  SOCK_STREAM: rings, credits, end of the stream
 *   dgram.c   SOCK_DGRAM: a UD QP, datagrams
 *   peer.c    SOCK_DGRAM: from an address to a QP
 *   io.c      send and receive calls
 *   iomap.c   riomap, riowrite
 *   poll.c    rpoll, rselect
 *   opt.c     options, fcntl, defaults in /etc/rdma/rsocket
 *
 * Threads: one may send while another receives and a third polls. No thread is started: what the
 * connection manager has to say is taken in by the calls that wait, and by all others at intervals.
 * Closing an rsocket while another thread is in a call on it is the program's error.
 *
 * Locks, outermost first: service lock (wait.c) - send_lock, recv_lock - lock. Functions
 * return 0 or -errno; the sockets' convention begins at the exported ones.
 *
 * The room may use cm/ as any program does.
 */
#ifndef FFL_RSOCKET_RSOCKET_H
#define FFL_RSOCKET_RSOCKET_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#define RS_EXPORT      __attribute__((visibility("default")))
#define RS_CM_INTERVAL 1000u /* us between two looks at the CM channel, where nobody waits */
#define RS_SLEEP_MS    500   /* longest sleep between two looks at everything */
#define RS_BUF_MIN     4096u /* bytes of a ring */
#define RS_BUF_MAX     (16u << 20)
#define RS_QP_MIN      16u /* WRs of a queue */
#define RS_QP_MAX      4096u
#define RS_INLINE_MAX  1024u /* bytes */
#define RS_IOMAP_MAX   1024u /* remote mappings of a stream */
#define RS_ACCEPT_MAX  1024u /* accepted connections that wait for raccept() */

#define rs_min(a, b) ((a) < (b) ? (a) : (b))
#define rs_max(a, b) ((a) > (b) ? (a) : (b))

union rs_addr {
	struct sockaddr sa;
	struct sockaddr_in sin;
	struct sockaddr_in6 sin6;
	struct sockaddr_storage ss;
};

enum rs_state {
	RS_INIT,	    /* options, bind, listen, connect */
	RS_BOUND,	    /* listen, connect */
	RS_LISTENING,	    /* accept */
	RS_RESOLVING_ADDR,  /* connecting: nothing but waiting */
	RS_RESOLVING_ROUTE, /* the same */
	RS_CONNECTING,	    /* the same; the QP exists */
	RS_ACCEPTING,	    /* receives; sends when the peer is known to be ready */
	RS_CONNECTED,	    /* sends and receives as far as no side has shut down */
	RS_FAILED,	    /* the connection could not be made */
	RS_OPEN,	    /* datagrams: sends and receives */
	RS_NUM_STATES
};

struct rs_options {
	uint32_t rcvbuf, sndbuf;   /* bytes */
	uint32_t sq_size, rq_size; /* WRs */
	uint32_t inline_size;	   /* bytes */
	uint32_t iomap_size;	   /* mappings that the peer may make */
	bool reuseaddr, keepalive, oobinline, nodelay, v6only, broadcast;
	struct linger linger;
	int keepidle, tos;
	uint64_t rcvtimeo, sndtimeo; /* us, 0: none */
	void *route;		     /* struct ibv_path_data[], or NULL */
	size_t route_len;	     /* bytes */
};

/* ---- a CQ that threads sleep on (wait.c) ------------------------------------------------ */
struct rs_cq {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	bool armed;	   /* asked for an event */
	bool fired;	   /* the event has come, or is bound to come */
	unsigned sleepers; /* threads that count on that event */
	unsigned yields;   /* to let them wake up, in a row */
	unsigned empty;	   /* rounds of polling that found nothing, in a row */
};

/* ---- streams (stream.c) ------------------------------------------------------------------ */
/* Private data of the connection request and of the reply. Both ends are x86_64. */
struct rs_hello {
	uint32_t magic;	  /* RS_MAGIC */
	uint16_t version; /* RS_VERSION */
	uint16_t msgs;	  /* messages that may be outstanding towards the sender of this */
	uint32_t rcvbuf;  /* bytes of the ring at ring_addr */
	uint32_t sndbuf;  /* bytes that its sender is ready to keep in flight */
	uint64_t ring_addr;
	uint64_t iomap_addr;
	uint32_t ring_rkey;
	uint32_t iomap_rkey;
	uint32_t iomap_size; /* entries */
	uint32_t reserved;
};
#define RS_MAGIC   0x6b637372u /* "rsck" */
#define RS_VERSION 1u
_Static_assert(sizeof(struct rs_hello) == 48, "an RDMA_PS_TCP request carries 56 bytes");

/* What an entry of the table that riomap() writes at the peer says. */
struct rs_iomap {
	uint64_t offset, addr;
	uint32_t len, rkey; /* len 0: no mapping */
};

/* A buffer that this side has mapped. */
struct rs_iomap_mr {
	struct rs_iomap_mr *next;
	struct ibv_mr *mr;
	uint64_t offset;
	uint32_t index; /* in the peer's table; UINT32_MAX: local only */
	bool told;	/* the peer's table has it as it is here */
};

struct rs_stream {
	/* receiving; positions count bytes since the connection was made */
	uint8_t *rbuf;
	struct ibv_mr *rmr;
	uint32_t rsize;		 /* bytes, a power of two */
	_Atomic uint64_t rtail;	 /* lock: arrived */
	_Atomic uint64_t rhead;	 /* recv_lock: taken by the program */
	_Atomic uint64_t rgiven; /* lock: taken and told to the peer */
	uint32_t rmsgs;		 /* lock: messages that arrived and were not given back yet */
	uint32_t rmsgs_max;	 /* messages that may be outstanding towards us */
	uint32_t rq_missing;	 /* lock: receives that completed and were not posted again */

	/* sending */
	uint8_t *sbuf;
	struct ibv_mr *smr;
	uint32_t ssize; /* bytes of the ring, a power of two; of sbuf as well */
	uint32_t ring_rkey;
	uint64_t ring_addr;
	_Atomic uint64_t stail;	      /* send_lock: sent */
	_Atomic uint64_t slimit;      /* lock: there is room at the peer up to here */
	_Atomic uint32_t smsgs;	      /* send_lock: messages sent */
	_Atomic uint32_t smsgs_limit; /* lock */
	uint32_t smsgs_max;
	uint32_t inline_max;

	/* the SQ: data under send_lock, control messages under lock, each with its own share */
	uint32_t sq_max, sq_posted, sq_signaled;
	_Atomic uint32_t sq_done; /* lock */
	uint32_t ctl_posted, ctl_done, ctl_signaled;

	/* ends of the stream; set under lock, never taken back */
	_Atomic bool rd_shut, wr_shut; /* here */
	_Atomic bool fin;	       /* the peer sends no more */
	_Atomic bool closed;	       /* and takes no more */
	bool close_sent;	       /* lock: the same was said to the peer */
	_Atomic bool gone;	       /* the connection is no more; err of the rsocket says why */

	/* riomap: what the peer has mapped here for us to write to, and what we have mapped */
	struct rs_iomap *iomap; /* written by the peer: hostile */
	struct ibv_mr *iomap_mr;
	uint64_t peer_iomap_addr;
	uint32_t peer_iomap_rkey, peer_iomap_size;
	struct rs_iomap_mr *maps; /* send_lock */
	bool maps_pending;	  /* send_lock: some mapping is not told yet */
	uint8_t *iobuf;		  /* send_lock: a ring of ssize bytes that riowrite() sends from */
	struct ibv_mr *iomr;
	uint64_t iotail;	 /* send_lock: bytes posted */
	uint64_t io_signaled;	 /* send_lock: those whose completion will tell */
	_Atomic uint64_t iodone; /* lock: bytes executed */
};

/* ---- datagrams (dgram.c, peer.c) ---------------------------------------------------- */
struct rs_peer; /* peer.c */
#define RS_PEER_BUCKETS 256u

/* A datagram that arrived, in its slot. */
struct rs_rx {
	uint32_t slot, len; /* bytes, without headers */
	union rs_addr from;
};

struct rs_dgram {
	struct ibv_pd *pd;
	struct ibv_qp *qp;
	uint32_t mtu, stride; /* bytes: of a packet; of a slot, with the GRH */
	uint16_t port;	      /* ours, network byte order */

	uint8_t *rbuf;
	struct ibv_mr *rmr;
	uint32_t rslots;
	struct rs_rx *rx; /* [rslots], FIFO */
	_Atomic uint32_t rx_head, rx_tail;

	uint8_t *sbuf;
	struct ibv_mr *smr;
	uint32_t sslots;
	uint32_t sposted;
	_Atomic uint32_t sdone;
	uint32_t inline_max;

	struct rs_peer *peers[RS_PEER_BUCKETS]; /* lock */
	unsigned num_peers, num_resolving, hand;
	union rs_addr to; /* connected: the only one; else sa_family is AF_UNSPEC */
};

/*
 * lock.c: zeroed it is free. Recursive: programs use sockets in signal handlers, and leave
 * calls by longjmp(), since sockets allow it. All that this thread had begun is then done but for
 * leaving.
 */
struct rs_lock {
	_Atomic uint32_t word;
	_Atomic uintptr_t owner; /* pthread_self(), 0: none */
	uint32_t depth;		 /* the owner's */
};
void rs_lock(struct rs_lock *l);
bool rs_trylock(struct rs_lock *l); /* false: another thread has it */
void rs_unlock(struct rs_lock *l);

struct rsocket {
	int fd; /* the event channel's */
	int type, domain;
	pid_t pid;		     /* whose it is; a child has a copy that it can only close */
	_Atomic enum rs_state state; /* lock */
	_Atomic int err;	     /* errno for SO_ERROR and the next call */
	int fs_flags, fd_flags;
	struct rs_options opt;
	struct rdma_event_channel *ec; /* O_NONBLOCK */
	struct rdma_cm_id *id;
	uint64_t cm_looked; /* us; lock: when the channel was looked at */
	bool cm_lost;	    /* lock: nothing more comes from it, because the router is gone */

	struct rs_lock send_lock; /* what sends */
	struct rs_lock recv_lock; /* what receives */
	struct rs_lock lock;	  /* CQ, CM events, state */
	struct rs_cq cq;
	uint32_t cm_sleepers; /* lock: threads that sleep on ec, and look at it when they wake up */
	union {
		struct rs_stream s;
		struct rs_dgram d;
	};

	/* listeners: connections that raccept() has not returned yet; lock */
	struct rsocket *accepted, **accepted_end;
	unsigned num_accepted, backlog;
	struct rsocket *next_accepted;

	struct rsocket *next_service; /* service lock */
};

static inline uint64_t rs_now(void) /* us, CLOCK_MONOTONIC */
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static inline bool rs_nonblock(const struct rsocket *rs, int flags)
{
	return rs->fs_flags & O_NONBLOCK || flags & MSG_DONTWAIT;
}

static inline bool rs_opening(enum rs_state s)
{
	return s == RS_RESOLVING_ADDR || s == RS_RESOLVING_ROUTE || s == RS_CONNECTING;
}

static inline bool rs_is_stream(const struct rsocket *rs)
{
	enum rs_state s = rs->state;

	return s == RS_ACCEPTING || s == RS_CONNECTED;
}

/* 0 or -errno to 0 or -1 and errno. */
static inline int rs_ret(int err)
{
	if (err >= 0)
		return err;
	errno = -err;
	return -1;
}

/* What a pending error is, once; 0: none. */
static inline int rs_take_err(struct rsocket *rs)
{
	return rs->err ? atomic_exchange(&rs->err, 0) : 0;
}

/* Where a call is in the program's buffers. */
struct rs_iter {
	const struct iovec *iov;
	int n;	    /* of them left, with the current one */
	size_t off; /* in the current one */
};

/* ---- io.c ------------------------------------------------------------------------------- */
void rs_gather(struct rs_iter *it, void *dst, size_t len); /* from the buffers; they have it */
void rs_scatter(struct rs_iter *it, const void *src, size_t len);
/* The next bytes as they are, if `len` of them lie together; the iterator moves on. NULL: not so. */
const void *rs_contiguous(struct rs_iter *it, size_t len);

/* ---- socket.c ------------------------------------------------------------------------------------ */
/* A new one with its event channel and no id, in the table; NULL: errno. */
struct rsocket *rs_new(int domain, int type);
/* Without any farewell; NULL is allowed. */
void rs_free(struct rsocket *rs);
socklen_t rs_addr_len(const struct sockaddr *sa); /* 0: a family that rsockets do not have */
bool rs_addr_eq(const struct sockaddr *a, const struct sockaddr *b); /* and port */

/* ---- fd.c ----------------------------------------------------------------------------------- */
int rs_fd_put(int fd, struct rsocket *rs);
void rs_fd_del(int fd);
struct rsocket *rs_fd_get(int fd); /* NULL: none */
/* The first at or above *fd, which moves behind it; NULL: there is none. */
struct rsocket *rs_fd_next(int *fd);

/* ---- cm.c: all with lock held, but where said otherwise --------------------------------------- */
int rs_connect_start(struct rsocket *rs, struct sockaddr_storage *dst);
/* Take in what the CM channel has. */
void rs_cm_process(struct rsocket *rs);
/* The same, if it was not done for RS_CM_INTERVAL. */
void rs_cm_look(struct rsocket *rs);
/* The connection is over; err: errno for the program, 0: it was said before. */
void rs_stream_gone(struct rsocket *rs, int err);

/* ---- wait.c -------------------------------------------------------------------------------------- */
extern uint32_t rs_polling_time; /* us; opt.c reads it */
int rs_cq_open(struct rs_cq *q, struct ibv_context *ctx, int cqe);
void rs_cq_close(struct rs_cq *q);
enum rs_arm {
	RS_ARMED,   /* sleep */
	RS_REARMED, /* look once more, then ask again */
	RS_OTHERS   /* other threads have to wake up first: yield and ask again */
};
enum rs_arm rs_cq_arm(struct rs_cq *q); /* rsocket's lock */
/*
 * Wait until ready(rs), which is asked with lock held after everything was taken in. timeout: us,
 * 0 for none. 0, -EAGAIN (nonblock, or the timeout), -EINTR.
 */
int rs_wait(struct rsocket *rs, bool (*ready)(struct rsocket *rs), bool nonblock, uint64_t timeout);
/* Take in CQEs and, at intervals, CM events. Call with lock held. */
void rs_process(struct rsocket *rs);
/*
 * Those that answer requests of peers, listeners and datagram rsockets, are served by whoever
 * waits for an answer itself: a program that talks to itself from one thread gets on.
 */
void rs_service_add(struct rsocket *rs);
void rs_service_del(struct rsocket *rs);
/* Wait until done(rs), asked with lock held; timeout as above. Serves the others meanwhile. */
int rs_wait_served(struct rsocket *rs, bool (*done)(struct rsocket *rs), uint64_t timeout);

/* ---- stream.c: all with lock held, but where said otherwise --------------------------------------- */
/* CQ, QP, ring to receive in. The id has its device. */
int rs_stream_open(struct rsocket *rs);
void rs_stream_hello(struct rsocket *rs, struct rs_hello *h);
/* What the peer said; the buffer to send from. -EPROTO: not an rsocket of ours. */
int rs_stream_pair(struct rsocket *rs, const struct rs_hello *h);
/* Ring for a peer whose hello is known before the ring is there: a listener's side. */
uint32_t rs_ring_size(uint32_t bytes);
void rs_stream_free(struct rsocket *rs); /* all of it; no lock */
void rs_stream_process(struct rsocket *rs);
/* SHUT_*; sends what the peer has to know. Releases lock meanwhile and takes send_lock. */
int rs_stream_shut(struct rsocket *rs, int how);
bool rs_stream_flushed(struct rsocket *rs); /* everything posted has been executed, or gone */
short rs_stream_revents(struct rsocket *rs, short events);
bool rs_stream_writable(struct rsocket *rs);
/* Call with recv_lock held. Bytes, 0 at the end, or -errno. */
ssize_t rs_stream_recv(struct rsocket *rs, struct rs_iter *it, size_t len, int flags);
/* Call with send_lock held. Bytes or -errno. */
ssize_t rs_stream_send(struct rsocket *rs, struct rs_iter *it, size_t len, int flags);
/* Is there an entry of the SQ for data. Call with send_lock held. */
bool rs_stream_sq_room(const struct rs_stream *s);
/*
 * An RDMA WRITE of one SGE; has_imm: the peer is told imm. Call with send_lock held and room in the
 * SQ, and after s->iotail was moved behind what is written.
 */
int rs_stream_write(struct rsocket *rs, const void *buf, uint32_t lkey, uint32_t len, uint64_t addr,
		    uint32_t rkey, bool has_imm, uint32_t imm);
/* 0, or what a sender is told: EPIPE, ECONNRESET. */
int rs_stream_send_err(struct rsocket *rs);
/* imm: kind in the upper 3 bits, a number below */
enum rs_msg {
	RS_MSG_DATA,  /* so many bytes were added to the ring */
	RS_MSG_BYTES, /* so many bytes of the ring are free again */
	RS_MSG_MSGS,  /* so many messages may be sent more */
	RS_MSG_FIN,   /* no more data comes */
	RS_MSG_CLOSE, /* and none is taken */
	RS_MSG_IOMAP  /* an entry of the table was written */
};
#define RS_MSG_SHIFT 29
#define RS_MSG_ARG   ((1u << RS_MSG_SHIFT) - 1)

/* ---- iomap.c ------------------------------------------------------------------------------------------ */
/* Tell the peer of new mappings. Call with send_lock held. 0, or as rs_wait(). */
int rs_iomap_flush(struct rsocket *rs, int flags);
void rs_iomap_free(struct rsocket *rs);

/* ---- dgram.c -------------------------------------------------------------------------------------------- */
int rs_dgram_open(struct rsocket *rs); /* lock: QP, buffers; then it can be found */
int rs_dgram_bind(struct rsocket *rs, const struct sockaddr *sa);
int rs_dgram_connect(struct rsocket *rs, const struct sockaddr *sa);
void rs_dgram_free(struct rsocket *rs);
void rs_dgram_process(struct rsocket *rs); /* lock */
short rs_dgram_revents(struct rsocket *rs, short events);
bool rs_dgram_flushed(struct rsocket *rs);
/* recv_lock. *full: the datagram's length, which may be more than there is room for. */
ssize_t rs_dgram_recv(struct rsocket *rs, struct rs_iter *it, size_t len, int flags,
		      union rs_addr *from, size_t *full);
/* send_lock; to: NULL for the connected one */
ssize_t rs_dgram_send(struct rsocket *rs, struct rs_iter *it, size_t len, int flags,
		      const struct sockaddr *to);
/* Post to a QP whose number is known. -EAGAIN: no room. Call with lock held. */
int rs_dgram_post(struct rsocket *rs, struct ibv_ah *ah, uint32_t qpn, const void *buf,
		  uint32_t len);

/* ---- peer.c: all with lock held ----------------------------------------------------------------------------- */
/* The peer at that address, a new one if need be; NULL: no memory. */
struct rs_peer *rs_peer_get(struct rsocket *rs, const struct sockaddr *sa);
/* It sent from this QP. */
void rs_peer_heard(struct rsocket *rs, const struct sockaddr *sa, const union ibv_gid *gid,
		   uint32_t qpn);
/* Send, or keep until the address is resolved; what cannot be kept is dropped. */
int rs_peer_send(struct rsocket *rs, struct rs_peer *p, const void *buf, uint32_t len);
void rs_peer_event(struct rsocket *rs, struct rdma_cm_event *ev, struct rdma_cm_id **done);
bool rs_peers_resolved(struct rsocket *rs);
void rs_peers_free(struct rsocket *rs);

/* ---- opt.c ----------------------------------------------------------------------------------------------- */
void rs_opt_defaults(struct rs_options *opt); /* reads the files once */
void rs_opt_inherit(struct rs_options *opt, const struct rs_options *from);
void rs_opt_free(struct rs_options *opt);
/* What must be said to the id before it is bound or connected. */
int rs_opt_apply(struct rsocket *rs);
/* The same before it is bound, or -EINVAL: it is no longer to be. */
int rs_opt_bind(struct rsocket *rs);

#endif

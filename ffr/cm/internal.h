/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * internal.h - what the files of the connection manager share. Control thread only: no locks.
 *
 *	calls.c  the messages of clients: handles to objects, arguments, options of ids
 *	id.c     ids: creation, destruction; the timer
 *	addr.c   addresses: sockaddr, GID, which are a container's own, where a peer is
 *	port.c   ports: bind, listen, which listener a request is for
 *	conn.c   connections: REQ, REP, RTU, REJ, DREQ, DREP
 *	sidr.c   the same for UD: SIDR_REQ, SIDR_REP
 *	timewait.c  what is left of a connection whose last word may be lost
 *	msg.c    from one side to the other
 *	wire.c   ... on another host
 *	plain.c  ... without freeflow, by the host's NIC
 *	event.c  channels: what goes up to the clients
 *	mcast.c  multicast groups
 *	qp.c     attributes for the client's QP
 *
 * Ownership: an id belongs to its session's table (OBJ_CM_ID), an event that waits to its id, a
 * membership likewise. struct cm_cont and struct cm_chan live while ids use them. Ids are destroyed
 * by their client (or its end) only, never by a message from a peer, with one exception: a request
 * that the client has not been told of goes with its listener or with its peer. So an id is still
 * there after cm_send() returned, but its state may be another: the peer's answer has been served.
 */
#ifndef FFR_CM_INTERNAL_H
#define FFR_CM_INTERNAL_H

#include <bsd/sys/queue.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "ffr/ctl/ctl.h"
#include "ffr/cm/cm.h"
#include "ffr/dir/dir.h"
#include "ffr/lib/timer.h"
#include "ffr/wire/cm.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Times, ms. The first three are those of the kernel's cma.c: 16 times 4.096 us << 20. */
#define CM_REQ_TIMEOUT	65536u /* connect, with all repetitions */
#define CM_REP_TIMEOUT	65536u /* accept: until the RTU */
#define CM_DREQ_TIMEOUT 65536u
#define CM_RETRY_MAX	4096u /* likewise; what waits for an answer is repeated so often */
#define CM_RETRY_MIN	1u    /* of a request that was not taken; doubled up to that */
#define CM_LISTEN_MS	100u  /* a request waits so long for somebody who listens */
#define CM_LOOK_MS	5u    /* between looks whether somebody has an address now, at least */
#define CM_LOOKS_PER_MS 10u   /* that a container may have made, for all of its ids */
#define CM_TIMEWAIT_MS	512u  /* 4.096 us << CM_ACK_TIMEOUT */

#define CM_PACKET_LIFE 16u /* cma.c's for RoCE */
#define CM_ACK_TIMEOUT (CM_PACKET_LIFE + 1)
#define CM_HOP_LIMIT   64u
#define CM_PKEY	       0xffffu
#define CM_PORT_NUM    1u
#define CM_PATH_MTU    IBV_MTU_4096

#define CM_TURN_NS 1000000u /* of timers, or of messages: then others have their turn */

#define CM_MAX_EVENTS 64u  /* that wait for one id: then what makes more is refused */
#define CM_MAX_MC     256u /* memberships of one id */

/* IBTA 12.6.7.2 and 12.11.2.2: why a REJ, how a SIDR_REP */
enum {
	CM_REJ_TIMEOUT = 4,
	CM_REJ_INVALID_COMM_ID = 6,
	CM_REJ_INVALID_SERVICE_ID = 8,
	CM_REJ_STALE_CONN = 10,
	CM_REJ_CONSUMER = 28,
	CM_REJ_VENDOR_OPTION = 35,
};
enum { CM_SIDR_SUCCESS, CM_SIDR_UNSUPPORTED, CM_SIDR_REJECT };

/* ---- addresses (addr.c) ------------------------------------------------------------------ */

/* A sockaddr of AF_INET (as ::ffff:a.b.c.d), AF_INET6 or AF_IB; the wildcard is all zero. */
struct cm_addr {
	uint16_t family; /* 0: none */
	uint16_t port;	 /* host byte order */
	uint32_t scope;	 /* AF_INET6 */
	union ibv_gid gid;
};

/* 0; -EAFNOSUPPORT; -EPROTONOSUPPORT: an AF_IB service id of another port space than `ps`. */
int cm_addr_parse(struct cm_addr *a, const struct ff_cm_addr *from, uint16_t ps);
void cm_addr_format(struct ff_cm_addr *to, const struct cm_addr *a, uint16_t ps);
bool cm_addr_loopback(const struct cm_addr *a);
/* The wildcard or a loopback address: to who binds it, it is no address of a device. */
bool cm_addr_wild(const struct cm_addr *a);
/* The wildcard alone: all zero. */
bool cm_addr_any(const struct cm_addr *a);
bool cm_addr_linklocal(const struct cm_addr *a); /* of IPv6 */
/* Such a one, but of which link? */
bool cm_addr_scopeless(const struct cm_addr *a);
/* Index of the container's GID that stands for its own address `a` or for loopback, or -1. */
int cm_addr_own(const struct container *c, const struct cm_addr *a);
/* The same, or that of the NIC's GID if it is the NIC's address (plain.c). */
int cm_addr_index(const struct container *c, const struct cm_addr *a);
static inline bool cm_addr_equal(const struct cm_addr *a, const struct cm_addr *b)
{
	return a->family == b->family && !memcmp(&a->gid, &b->gid, sizeof(a->gid));
}

/* ---- messages (msg.c) -------------------------------------------------------------------- */

/*
 * MRA says that a request was taken. A request that meets a full backlog, or comes a moment before
 * somebody listens, is not answered at all, so that its sender repeats it.
 *
 * Between hosts all of them can be lost, with the connection that carries them. Who is to answer
 * does not know of that, so who waits for the answer says it again: a request, a REP, a DREQ, when
 * the connection is another one (cm_conns_changed()) and after CM_RETRY_MAX. Answers are not
 * repeated by themselves, but given again to what is repeated.
 */
enum cm_msg_type {
	CM_MSG_REQ,
	CM_MSG_MRA,
	CM_MSG_REP,
	CM_MSG_RTU,
	CM_MSG_REJ,
	CM_MSG_DREQ,
	CM_MSG_DREP,
	CM_MSG_SIDR_REQ,
	CM_MSG_SIDR_REP,
	CM_MSG_NUM
};

/* Free of pointers. Which fields a type has is said by who fills them in; the rest is 0. */
struct cm_msg {
	uint8_t type; /* enum cm_msg_type */
	uint8_t qp_type, traffic_class, pd_len;
	uint16_t ps;
	uint16_t family;	  /* of src and dst */
	union ibv_gid sgid, dgid; /* the path's, as the sender sees it */
	uint32_t src_comm;	  /* the sender's communication id, 0: it has none */
	uint32_t dst_comm;	  /* the receiver's, 0: a request that nobody has taken yet */
	uint32_t status;	  /* REJ: reason, SIDR_REP: status */
	uint32_t psn;		  /* where the receiver of REQ or REP begins to send */
	uint32_t age;		  /* REQ, SIDR_REQ: ms since it was sent first */
	struct cm_addr src, dst;  /* REQ, SIDR_REQ: what the CMA header says */
	struct ff_cm_param param;
	struct ff_cm_ece ece;
	uint8_t pd[FF_CM_PD_MAX]; /* pd_len bytes of it */
};

/*
 * Bring the message to the other side, which may answer at once: the sender's state is what it
 * must be for that. Nothing comes back where nobody is. The connection of hosts that it is in now,
 * see cm_wire_conn().
 */
uint32_t cm_send(struct cm *cm, const struct container *from, const struct cm_msg *m);
/*
 * The container that sent a message. c: NULL if it is on another host. id: its number, 0 for a plain
 * peer, which is no container of ours.
 */
struct cm_from {
	const struct container *c;
	uint32_t id;
	char tenant[CONTAINER_NAME_MAX], name[CONTAINER_NAME_MAX];
};
/* Give it to its receiver; `to`: of a request, or NULL: nobody is there. */
void cm_deliver(struct cm *cm, const struct cm_from *from, struct container *to,
		const struct cm_msg *m);

/* ---- other hosts (wire.c) ------------------------------------------------------------------ */

void cm_wire_init(struct cm *cm);
void cm_wire_fini(struct cm *cm);
/* Send it to another host, if it is for one, on connection *conn. Else *here is who it is for, or
 * NULL. */
bool cm_wire_send(struct cm *cm, const struct container *from, const struct cm_msg *m,
		  struct container **here, uint32_t *conn);
/*
 * What carries messages to that address: CM_CONN_HERE, for nothing is between; the number of the
 * connection with another host; CM_CONN_NONE. A message is lost if that changes before its answer
 * is there.
 */
#define CM_CONN_HERE UINT32_MAX
#define CM_CONN_NONE 0u
uint32_t cm_wire_conn(struct cm *cm, const struct container *from, const union ibv_gid *gid);
/* Who is at that address, beyond the container's own tenant on this host? */
enum dir_answer cm_wire_look(struct cm *cm, const struct container *from, const union ibv_gid *gid);

/* ---- plain peers (plain.c) ------------------------------------------------------------------ */

struct cm_id;
/* Is what comes from that GID of the container's for a plain peer? */
bool cm_is_plain(const struct container *c, const union ibv_gid *sgid);
/* Send a message to a plain peer. The peer's answer may come at once. */
void cm_plain_send(struct cm *cm, const struct cm_msg *m);
/* Could the id reach that address by the NIC, if somebody is there? */
bool cm_plain_reaches(const struct cm_id *id, const struct cm_addr *dst);
/* No container has id->dst: it is looked for there, once. ADDR_RESOLVED follows, if it is there in time. */
void cm_plain_resolve(struct cm_id *id);
/* The id, which listens, is to be found there as well. 0, or CTL_LATER, or -errno: then it is BOUND. */
int cm_plain_listen(struct ctl_call *c, struct cm_id *id);
/* The NIC knows nothing of the id any more. */
void cm_plain_forget(struct cm_id *id);
void cm_plain_begin(struct cm *cm, struct cm_cont *cont); /* it has just been made */
/* host->cm_wake() has told. True: CM_TURN_NS are over, and there may be more. */
bool cm_plain_events(struct cm *cm);

/* ---- the objects ---------------------------------------------------------------------------- */

struct cm_port; /* port.c */

/* A container's part. */
struct cm_cont {
	struct container *c;
	struct cm_port *ports;			 /* uthash */
	uint16_t next_port;			 /* where the search for a free one goes on */
	uint32_t num_queries;			 /* ids in ADDR_QUERY */
	uint32_t num_plain, num_plain_listeners; /* ids that have a part at the NIC */
	uint32_t plain_changes;			 /* ucma_ops.changes() when that was last seen to */
	struct cm_counts n;
};

/* An event that its channel has not taken yet. */
struct cm_event {
	TAILQ_ENTRY(cm_event) of_chan; /* cm_chan->queue, unless the id is held */
	TAILQ_ENTRY(cm_event) of_id;
	struct cm_id *id;
	struct cm_mc *mc; /* or NULL */
	struct ff_cm_event ev;
	uint8_t pd[]; /* ev.private_data_len */
};
TAILQ_HEAD(cm_event_list, cm_event);

/* A channel's part. Its descriptor is watched while events wait. */
struct cm_chan {
	struct channel *ch;
	uv_poll_t poll;
	bool has_poll, is_polled;
	struct cm_event_list queue;
	TAILQ_HEAD(, cm_id) ids;
};

struct cm_mc {
	TAILQ_ENTRY(cm_mc) entry;
	uint64_t uid;
	uint32_t num;
	uint32_t written; /* packets */
};

/*
 * States; what each allows:
 *	IDLE		bind, listen, resolve_addr, options
 *	BOUND		listen, resolve_addr, join
 *	ADDR_QUERY	nobody has the destination yet; the timer decides
 *	ADDR_RESOLVED	resolve_route, join
 *	ROUTE_RESOLVED	connect
 *	LISTEN		requests make ids
 *	REQ_SENT	a REJ or a REP may come; repeated
 *	REQ_RCVD	accept, reject; QP attributes from here on
 *	REP_SENT	a RTU or a REJ may come; repeated; notify
 *	REP_RCVD	establish, reject
 *	ESTABLISHED	disconnect
 *	DREQ_SENT	a DREP may come; repeated
 *	DREQ_RCVD	disconnect, which answers
 *	TIMEWAIT	the connection has ended, TIMEWAIT_EXIT is to come
 *	CLOSED		destroy only
 *	SIDR_REQ_SENT	UD: a SIDR_REP may come; repeated like a REQ
 *	SIDR_REQ_RCVD	UD: accept, reject
 *	SIDR_DONE	UD: the peer's QP is known, or it knows ours: answered again
 */
enum cm_state {
	CM_IDLE,
	CM_BOUND,
	CM_ADDR_QUERY,
	CM_ADDR_RESOLVED,
	CM_ROUTE_RESOLVED,
	CM_LISTEN,
	CM_REQ_SENT,
	CM_REQ_RCVD,
	CM_REP_SENT,
	CM_REP_RCVD,
	CM_ESTABLISHED,
	CM_DREQ_SENT,
	CM_DREQ_RCVD,
	CM_TIMEWAIT,
	CM_CLOSED,
	CM_SIDR_REQ_SENT,
	CM_SIDR_REQ_RCVD,
	CM_SIDR_DONE,
};

/* The other end of a connection, as the container knows it. */
struct cm_remote {
	const struct cm_cont *cont;
	union ibv_gid gid;
	uint32_t qpn;
	uint32_t reserved; /* 0: all bytes are the key */
};

/* Who a request is from, and whom it was sent to. */
struct cm_peer {
	union ibv_gid sgid, dgid; /* the receiver's is sgid */
	uint64_t comm;
};

struct cm_id {
	struct obj o;
	struct cm *cm;
	struct cm_cont *cont;
	struct cm_chan *chan;
	TAILQ_ENTRY(cm_id) of_chan;
	uint64_t uid;
	uint16_t ps;	 /* enum rdma_port_space */
	uint8_t qp_type; /* enum ibv_qp_type */
	uint8_t state;	 /* enum cm_state */
	bool has_uid;	 /* the client knows this id: events may come */
	bool held;	 /* events wait here, see CM_MIGRATE_ID */
	bool reuse_addr, af_only, af_only_set;
	bool attached; /* to the device: an own address is known */
	bool has_ack_timeout;
	uint8_t ack_timeout; /* as of the IB CM: 4.096 us << ack_timeout */
	uint8_t tos;

	struct cm_event_list events; /* of it that wait */
	uint32_t num_events;
	uint32_t written; /* packets */
	TAILQ_HEAD(, cm_mc) mcs;
	uint32_t num_mcs, last_mc;

	struct cm_addr src, dst;
	union ibv_gid sgid, dgid; /* the path's */
	uint8_t sgid_index;	  /* in the container's table */
	uint8_t device;		  /* whose QPs the client means: CM_DEVICE */
	struct cm_port *port;
	LIST_ENTRY(cm_id) of_port;
	struct timer timer; /* always armed, at UINT64_MAX for never: arming it cannot fail */

	/* a listener */
	uint32_t backlog; /* requests that each peer may have in `pending` */
	uint32_t num_pending;
	LIST_HEAD(, cm_id) pending;

	/* a request */
	struct cm_id *listener; /* whose backlog it takes part of, or NULL */
	uint32_t from; /* the container that it is from, 0: of a plain peer, which has dgid */
	LIST_ENTRY(cm_id) of_listener;
	struct cm_event *request; /* its CONNECT_REQUEST, while that waits */

	/* a connection */
	UT_hash_handle of_comm, of_peer;
	struct cm_peer peer; /* key of of_peer, if has_peer */
	bool has_peer;
	UT_hash_handle of_remote;
	struct cm_remote remote; /* key of of_remote, if has_remote */
	bool has_remote;
	uint32_t comm, peer_comm; /* communication ids; 0: none */
	bool taken;		  /* a request: an MRA has come */
	struct cm_msg *msg; /* what is repeated, or NULL; not a DREQ, which is always the same */
	uint32_t conn;	    /* the connection that msg was last sent on, as cm_wire_conn() */
	uint32_t retry;	    /* ms from then until it is repeated */
	uint64_t deadline;  /* ms: until then */
	uint32_t psn;	    /* the one that the peer begins with */
	uint32_t peer_psn, peer_qpn;
	uint32_t qkey; /* UD; 0: not known yet */
	uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count;
	uint8_t path_mtu; /* enum ibv_mtu; 0: CM_PATH_MTU */

	struct ucma_id *plain; /* its part at the NIC, or NULL */
	bool plain_failed;     /* the address is not there */
};

struct cm {
	struct ctl *ctl;
	uv_timer_t timer;
	uint64_t timer_at; /* ms; UINT64_MAX: stopped */
	uint64_t now;	   /* ms, while timers run; else 0 */
	struct timer_heap timers;
	struct cm_id *by_comm;	 /* uthash */
	struct cm_id *by_peer;	 /* uthash: of those that a request made, until they are CLOSED */
	struct cm_id *by_remote; /* uthash: that know the peer's QP, until they are in TIMEWAIT */
	uint32_t last_comm;
	uint64_t random;   /* state of a xorshift generator */
	uv_async_t frames; /* messages from other hosts have come, or connections with them changed */
	TAILQ_HEAD(, cm_timewait) timewait;			 /* oldest first */
	struct cm_timewait *timewait_by_comm, *timewait_by_peer; /* uthash */
	struct cm_timewait_tenant *timewait_tenants;		 /* uthash */
	uint32_t num_timewait;
	uint32_t conn_changes; /* wire_changes() when that was last seen to */
	struct cm_queue out;   /* messages that wait for a connection; [lock] */
	uint32_t out_changes;  /* wire_changes() when all that could go was sent */
	uint32_t last_plain;   /* communication id of a plain peer */
	unsigned open_handles;
};

/* ---- ids (id.c) -------------------------------------------------------------------------- */

/* A fresh id of that session and channel, or NULL: out of memory, or as many as it may have. */
struct cm_id *cm_id_create(struct session *s, struct channel *ch, uint16_t ps, uint8_t qp_type);
void cm_id_destroy(struct cm_id *id);
/* Of cm_ops, the ends of a session and of a channel. */
bool cm_session_gone(struct session *s, uint32_t *at, uint64_t until);
bool cm_channel_gone(struct channel *ch, uint64_t until);

/* calls.c: what ctl/ calls */
extern const struct ctl_cm_ops cm_ops;
/* Enter a state whose ids are counted, or leave it. */
void cm_id_state(struct cm_id *id, enum cm_state state);
uint64_t cm_now(const struct cm *cm); /* ms */
/* Arm a timer for ms from now. 0 or -ENOMEM (only if it was not armed). */
int cm_timer(struct cm *cm, struct timer *t, uint64_t ms);
/* ms from now; UINT64_MAX: never. */
void cm_id_timer(struct cm_id *id, uint64_t ms);
/* Give it a communication id. 0 or -ENOMEM. */
int cm_id_comm(struct cm_id *id);
struct cm_id *cm_id_by_comm(struct cm *cm, uint32_t comm);
/* The request that made it is known again. 0 or -ENOMEM. */
int cm_id_peer(struct cm_id *id);
struct cm_id *cm_id_by_peer(struct cm *cm, const struct cm_peer *peer);
/*
 * Who of that container is connected, or about to be, with that QP of that peer? A QP has one
 * connection, so whoever says its number again has lost the other (IBTA 12.9.8.3.1).
 */
struct cm_id *cm_id_by_remote(struct cm *cm, const struct cm_cont *cont, const union ibv_gid *gid,
			      uint32_t qpn);
/* This id is, with id->dgid and id->peer_qpn, which nobody was. 0 or -ENOMEM. */
int cm_id_remote(struct cm_id *id);
static inline struct cm_id *cm_id_get(struct session *s, uint32_t handle)
{
	return obj_of(obj_get(&s->tab[OBJ_CM_ID], handle), cm_id);
}

/* ---- events (event.c) --------------------------------------------------------------------- */

/* The channel's part, made when there is none. NULL: out of memory. */
struct cm_chan *cm_chan_get(struct channel *ch);
/* An id goes; the part goes with the last one. */
void cm_chan_put(struct cm_chan *chan);
/*
 * Tell the client: ev, with id, uid and private_data_len filled in here; pd_len bytes of pd, zeros
 * up to pd_size. The event, if it has to wait, or NULL.
 */
struct cm_event *cm_event_send(struct cm_id *id, struct ff_cm_event *ev, const void *pd,
			       uint32_t pd_len, uint32_t pd_size);
/* The index of the id's source address in the table of its device, which is what the client knows. */
uint8_t cm_sgid_index(const struct cm_id *id);
/* What the client may know of the id's addresses and path. */
void cm_id_path(const struct cm_id *id, struct ff_cm_query_resp *path);
/* An event without parameters, but the path where that is the news. */
void cm_event_simple(struct cm_id *id, enum rdma_cm_event_type event, int status);
/* The same of a membership. */
void cm_event_mc(struct cm_id *id, struct cm_mc *mc, struct ff_cm_event *ev);
void cm_event_drop(struct cm_event *e);
/* Have all packets of the channel been read? */
bool cm_chan_is_read(const struct cm_chan *chan);
/* The id's waiting events go to `to`, which may be its own channel, in order; its hold ends. */
void cm_event_move(struct cm_id *id, struct cm_chan *to);
void cm_event_hold(struct cm_id *id);
/* See CM_WRITE_EVENT. 0, -EAGAIN or another -errno of the descriptor. */
int cm_event_write(struct channel *ch, const struct ff_cm_event *ev, const void *pd);

/* ---- ports (port.c) ------------------------------------------------------------------------ */

int cm_bind(struct cm_id *id, const struct cm_addr *a);
int cm_listen(struct cm_id *id, int32_t backlog);
void cm_port_release(struct cm_id *id);
/* The listener that a request to that address and port is for, or NULL. */
struct cm_id *cm_port_listener(const struct cm_cont *cont, uint16_t ps, const struct cm_addr *dst);
void cm_port_each_listener(struct cm_cont *cont, void (*fn)(struct cm_id *l));

/* ---- addresses and routes (addr.c) --------------------------------------------------------- */

int cm_resolve_addr(struct cm_id *id, const struct ff_cm_addr *src, const struct ff_cm_addr *dst,
		    int32_t timeout_ms);
/* The time for it is over. */
void cm_resolve_expired(struct cm_id *id);
int cm_resolve_route(struct cm_id *id);

/* ---- connections (conn.c) and UD (sidr.c) ------------------------------------------------ */

/* What a client says; the private data's length is checked here. */
int cm_connect(struct cm_id *id, const struct ff_cm_connect_req *req, const void *pd, uint32_t len);
int cm_accept(struct cm_id *id, const struct ff_cm_accept_req *req, const void *pd, uint32_t len);
int cm_reject(struct cm_id *id, uint32_t reason, const void *pd, uint32_t len);
/* qp: of the client's, to be moved to RTS before; 0: none */
int cm_establish(struct cm_id *id, uint32_t event, uint32_t qp);
int cm_disconnect(struct cm_id *id);
/* The id is about to be destroyed: tell its peer. */
void cm_abandon(struct cm_id *id);
/* A timer of one of the connection's states. */
void cm_conn_expired(struct cm_id *id);
/* What the id waits for will not come: it is closed, and its client is told so. */
void cm_conn_failed(struct cm_id *id, int err);
/* Connections with other hosts have ended, or there are new ones. */
void cm_conns_changed(struct cm *cm);

/* The header and path of a message of this id to its peer. */
void cm_msg_init(struct cm_msg *m, const struct cm_id *id, enum cm_msg_type type);
void cm_msg_pd(struct cm_msg *m, const void *pd, uint32_t len);
/* Send a request, and again until it is answered or CM_REQ_TIMEOUT is over. */
int cm_request(struct cm_id *id, enum cm_state state, const struct cm_msg *m);
/* A copy of what may have to be sent again. NULL: no memory. */
struct cm_msg *cm_msg_keep(const struct cm_msg *m);
/* Nothing is repeated any more. */
void cm_msg_drop(struct cm_id *id);
/*
 * Is it to be answered now? False: it was before, or a listener may still come. *listener may be NULL:
 * nobody listens.
 */
bool cm_request_new(struct cm *cm, const struct container *to, const struct cm_from *from,
		    const struct cm_msg *m, struct cm_id **listener);
/* A new id for a request to `l`, or NULL: no room. */
struct cm_id *cm_request_id(struct cm_id *l, const struct cm_from *from, const struct cm_msg *m,
			    enum cm_state state);
/* Tell the listener's client. */
void cm_request_event(struct cm_id *l, struct cm_id *id, const struct cm_msg *m, uint32_t pd_size);
/* It no longer takes part of the backlog. */
void cm_request_taken(struct cm_id *id);

/* Messages received: `to` is the container of a request, `id` the receiver of the others. */
void cm_recv_req(struct cm *cm, struct container *to, const struct cm_from *from,
		 const struct cm_msg *m);
void cm_recv_conn(struct cm_id *id, const struct cm_msg *m);
void cm_recv_sidr_req(struct cm *cm, struct container *to, const struct cm_from *from,
		      const struct cm_msg *m);
void cm_recv_sidr_rep(struct cm_id *id, const struct cm_msg *m);

int cm_sidr_connect(struct cm_id *id, const struct ff_cm_connect_req *req, const void *pd,
		    uint32_t len);
int cm_sidr_accept(struct cm_id *id, const struct ff_cm_accept_req *req, const void *pd,
		   uint32_t len);
int cm_sidr_reject(struct cm_id *id, const void *pd, uint32_t len);

/* ---- what is left of connections (timewait.c) ------------------------------------------------- */

/* The id said *m, a REJ or DREQ, as its last word, on that connection (cm_wire_conn()). */
void cm_timewait(struct cm_id *id, const struct cm_msg *m, uint32_t conn);
/* A message that is for no id. True: it has been seen to. */
bool cm_timewait_answer(struct cm *cm, const struct cm_msg *m);
struct cm_timewait *cm_timewait_by_comm(struct cm *cm, uint32_t comm);
void cm_timewait_conns_changed(struct cm *cm);
void cm_timewait_fini(struct cm *cm);

/* ---- the rest ----------------------------------------------------------------------------------- */

/* The Q_Key of a UD id, chosen now if it has none (qkey 0) or else to be this one. 0 or -EINVAL. */
int cm_qkey(struct cm_id *id, uint32_t qkey);
/*
 * What a client that asks is told: as by the kernel's rdma_init_qp_attr(), those of INIT for every
 * state (RESET to ERR) where the id has no connection, and always for UD.
 */
int cm_qp_attr_told(struct cm_id *id, uint32_t qp_state, struct ff_cm_init_qp_attr_resp *resp);
/*
 * Of the session that the client's imports from, QP `handle`: from RESET to the state that it is in
 * before there is a connection, from INIT to RTS. The two numbers replace the id's unless they are
 * RDMA_MAX_*. 0, or -errno with nothing changed.
 */
int cm_qp_ready(struct cm_id *id, uint32_t handle, uint32_t *state);
int cm_qp_connect(struct cm_id *id, uint32_t handle, uint8_t responder_resources,
		  uint8_t initiator_depth);

int cm_join(struct cm_id *id, const struct ff_cm_join_req *req, uint32_t *num);
int cm_leave(struct cm_id *id, uint32_t num, uint32_t *written);
void cm_leave_all(struct cm_id *id);

#endif

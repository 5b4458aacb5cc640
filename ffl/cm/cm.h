/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cm.h - internals of librdmacm.so.1 as freeflow builds it: cm/, and rsocket/ on top of them.
 *
 * There is no kernel rdma_cm: ids, addresses and connections are the router's (ffr/abi/ff_cm.h).
 * The library keeps what programs see: struct rdma_cm_id, event channels, the QP of an id and its
 * way through the states. It uses libibverbs.so.1 of the same build, its verbs and, by the names of
 * the node FREEFLOW_PRIVATE_1, its way to the router (ffl.h).
 *
 * Objects: one cm_session in a process holds the control socket; a line of a channel and a cm_id each
 * hold a reference to the session in which they were made. Ids are found by handle in the session's
 * table. Functions inside return 0 or -errno; the exported ones -1 and errno.
 *
 * A session ends with its router. Channels outlive it, and so do ids that have no device: renew.c
 * makes them again in the session of the next router.
 *
 * Locks, outermost first: renew_lock (renew.c), under which an id that has no device keeps its session
 * and its handle; cm_lock, under which are the tables of ids, the counters of events, and what a channel
 * knows of its sockets and of packets that nobody may see; session.c's own. No request to the router is
 * made under cm_lock.
 *
 * The room ffl/cm/ may use what libibverbs.so.1 exports, and session/'s header.
 */
#ifndef FFL_CM_CM_H
#define FFL_CM_CM_H

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "ffl/session/ffl.h"

/* Of releases newer than the headers that this is built with. */
#define CM_EVENT_ADDRINFO_RESOLVED 16
#define CM_EVENT_ADDRINFO_ERROR	   17
#define CM_EVENT_USER		   18
#define CM_EVENT_INTERNAL	   19
#define CM_RAI_SA		   0x10
#define CM_RAI_DNS		   0x20
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);

extern pthread_mutex_t cm_lock; /* session.c; see above */
extern pthread_cond_t cm_acked; /* an event was acknowledged */

/* ---- session.c: the router's connection manager and the devices ---------------------------------- */

struct cm_device {
	unsigned refs;		   /* ids that are bound to it; they share pd and xrcd */
	struct ibv_context *verbs; /* programs keep it beyond their ids */
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
};

struct cm_session {
	struct ffl_context *ctx; /* control socket and table of ids; not a device */
	unsigned refs;		 /* ids, lines of channels, and lists of devices */
	struct cm_device device[FF_DEVICES_MAX];
	struct cm_session *next; /* in session.c's list */
	/* of each device: */
	int max_qpsize; /* WRs of a queue */
	uint8_t max_initiator_depth, max_responder_resources;
};

/* The session of this process, opened if need be, with a reference for the caller. NULL: errno. */
struct cm_session *cm_session_get(void);
/* Another reference; the caller has one. */
struct cm_session *cm_session_ref(struct cm_session *s);
void cm_session_put(struct cm_session *s);
/* Bind an id to the device that has its address: id.verbs and id.pd. 0 or -errno; once for each id. */
struct cm_id;
int cm_device_get(struct cm_id *id);
void cm_device_put(struct cm_id *id);
/* The XRC domain that the ids of a device share, while one of them is bound. NULL: errno. */
struct ibv_xrcd *cm_device_xrcd(struct cm_id *id);

#define CM_CALL(s, NAME, req, resp) FFL_CALL((s)->ctx, NAME, req, resp)
/* With the request's tail: private data. */
#define CM_CALL_DATA(s, NAME, req, data, len, resp)                                                \
	ffl_call((s)->ctx, FF_MSG_##NAME, req, sizeof(*(req)), data, sizeof(struct ff_cm_byte),    \
		 len, resp, sizeof(*(resp)), NULL, 0, NULL)

/* ---- watch.c: when does a router answer again? ---------------------------------------------------- */

struct cm_watch {
	int fd; /* readable when cm_watch_look() is to be called; -1: nobody watches, or none was left */
	uint8_t kind;	/* enum in watch.c */
	bool has_ended; /* the last question was answered by an end */
};

/* Each of these may change fd. */
void cm_watch_start(struct cm_watch *w);
bool cm_watch_look(struct cm_watch *w); /* true: a router answers, and the watch has ended */
void cm_watch_pause(
	struct cm_watch *w); /* a router answers, but does not take us: look again later */
void cm_watch_stop(struct cm_watch *w);

/* ---- channel.c: event channels and the packets in them ------------------------------------------- */

struct cm_packet {
	struct ff_cm_event ev;
	uint8_t data[FF_CM_PD_MAX];
	struct cm_session *ses; /* of a request: whose id it is, with a reference for its reader */
};

/* A channel's socket to one router. */
struct cm_line {
	struct cm_session *ses;
	uint32_t handle; /* of the channel at that router */
	int fd;		 /* the socket */
	/* under cm_lock: */
	unsigned readers; /* threads that wait for a packet or enter one in the books */
	bool is_left;	  /* the channel has another one: the last reader frees it */
	unsigned num_void, room_void;
	struct cm_void *voids; /* packets in the socket that nobody is to see */
};

struct cm_channel {
	struct rdma_event_channel pub; /* fd: an epoll instance, see channel.c */
	struct cm_id *own;	       /* the synchronous id that it belongs to, or NULL */
	pid_t pid;		       /* whose channel it is */
	/* under renew_lock: */
	bool is_lost; /* the line has ended, and its last event was told */
	struct cm_watch watch;
	/* under cm_lock: */
	struct cm_line *line; /* changed with renew_lock held, too */
	unsigned readers;     /* threads in cm_channel_take() */
	bool closed; /* while there were readers: the last one frees it; changed as line is */
};

struct cm_mc;

static inline struct cm_channel *to_channel(struct rdma_event_channel *c)
{
	return container_of_(c, struct cm_channel, pub);
}

struct cm_channel *cm_channel_new(void); /* NULL: errno */
void cm_channel_free(struct cm_channel *ch);
/* A socket to the router that answers. 0 or -errno. */
int cm_line_new(struct cm_line **line);
void cm_line_free(struct cm_line *line); /* not its part at the router */
void cm_line_end(struct cm_line *line);	 /* that, too, and ids that are still in it there */
/* Has all that the ended line of the channel had to tell been told? */
bool cm_line_is_told(struct cm_channel *ch);
/*
 * The next packet of a live id, which it finds and counts as returned; *mc is the membership that
 * the event is about, or NULL. Blocks unless the descriptor is O_NONBLOCK. 0 or -errno: -EAGAIN,
 * -EINTR, -EIO when the router is gone and the channel is that of a synchronous id that does not listen.
 */
int cm_channel_take(struct cm_channel *ch, struct cm_packet *p, struct cm_id **id,
		    struct cm_mc **mc);
/* A request that nobody will answer: its listener is gone, or there is no memory for its id. */
void cm_channel_refuse(struct cm_session *s, uint32_t handle);
/*
 * Packets of an id that ceased to exist are not to be seen; outstanding of them are in the socket
 * or on the way to a reader. Call after ffl_table_del().
 */
void cm_channel_forget(struct cm_channel *ch, struct cm_session *s, uint32_t handle,
		       uint32_t outstanding);
/* The same for one membership of a live id, which was taken off its list. */
void cm_channel_forget_mc(struct cm_channel *ch, struct cm_id *id, uint32_t mc);
/* Move the id and its events to another channel of the session. 0 or -errno. */
int cm_channel_move(struct cm_channel *from, struct cm_channel *to, struct cm_id *id);

/* ---- id.c -------------------------------------------------------------------------------------- */

/* Events that were given to the program, and that it has acknowledged. Under cm_lock. */
struct cm_acks {
	uint32_t returned, acked;
};

struct cm_mc {
	struct cm_mc *next;
	void *context;
	uint64_t uid;	 /* in its events; never twice in an id */
	uint32_t handle; /* 0: the router has not answered yet */
	uint32_t join_flags;
	struct cm_acks ev;
	union ibv_gid mgid;
	uint16_t mlid;
	struct ff_cm_addr addr;
};

#define CM_NUM_OPTIONS (RDMA_OPTION_ID_ACK_TIMEOUT + 1)

struct cm_id {
	struct rdma_cm_id id;
	struct cm_session *ses;
	struct cm_device *dev; /* that it holds a reference to, or NULL */
	uint32_t handle;
	bool sync;	    /* id.channel is its own; calls wait for their event */
	bool connect_error; /* REJECTED and DISCONNECTED would only repeat it */
	bool is_removed;    /* DEVICE_REMOVAL was made for it; cm_lock */
	bool is_resolving;  /* ADDR_RESOLVED or ADDR_ERROR is to come; cm_lock */
	/* what makes it again at another router, beside path.local: */
	bool is_listening;
	int backlog;
	uint32_t options;		 /* bit n: rdma_set_option() has set option n */
	uint32_t option[CM_NUM_OPTIONS]; /* by enum of RDMA_OPTION_ID_* */
	uint8_t initiator_depth, responder_resources;
	struct ibv_ece local_ece, remote_ece;
	struct ff_cm_query_resp path;		 /* as the router told it last */
	struct ibv_qp_init_attr *listen_qp_attr; /* rdma_create_ep: for the QPs of requests */
	void *connect_data;			 /* rdma_create_ep: precedes the private data */
	size_t connect_len;
	/* under cm_lock: */
	struct cm_acks ev;
	uint32_t known;	 /* packets written for it that the books have */
	uint32_t copies; /* of these: copied to its channel by cm_channel_move(), not taken yet */
	struct cm_mc *mcs;
	uint64_t num_joins;
	bool resolving_ai;
	struct rdma_addrinfo *resolved_ai;
};

static inline struct cm_id *to_id(struct rdma_cm_id *id)
{
	return container_of_(id, struct cm_id, id);
}

/*
 * An id of the library's for a handle of the router's, 0 for none yet; channel NULL: one of its own. s NULL: the id
 * is of the channel's session, and renew_lock is held; else the id takes over the caller's reference, but not on
 * failure.
 */
struct cm_id *cm_id_new(struct cm_channel *ch, struct cm_session *s, void *context,
			enum rdma_port_space ps, enum ibv_qp_type qp_type);
/* Enter it into the table. 0 or -errno. */
int cm_id_insert(struct cm_id *id, uint32_t handle);
/* rdma_create_id() with a QP type. 0 or -errno. */
int cm_id_create(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		 enum rdma_port_space ps, enum ibv_qp_type qp_type);
/* What an event says of its addresses and its path, into id.route; binds to the device. 0 or -errno. */
int cm_id_learn(struct cm_id *id, const struct ff_cm_query_resp *path);
/* id.route.path_rec from what was learned last. 0 or -errno. */
int cm_id_set_path(struct cm_id *id);
int cm_id_migrate(struct cm_id *id, struct rdma_event_channel *channel);
int cm_id_bind(struct cm_id *id, const struct sockaddr *addr);
int cm_id_resolve_addr(struct cm_id *id, const struct sockaddr *src, const struct sockaddr *dst,
		       int timeout_ms);
/* Bytes of a socket address; 0: NULL, or a family that is not known here. */
socklen_t cm_addrlen(const struct sockaddr *addr);
/* Network byte order; 0 for a family without. */
uint16_t cm_addr_port(const struct sockaddr *addr);

/* ---- event.c ----------------------------------------------------------------------------------- */

/* A synchronous id's call ends when its event is there: it becomes id.event. Else 0 at once. */
int cm_complete(struct cm_id *id);
void cm_event_drop(struct cm_id *id); /* acknowledges id.event, if there is one */
/* Wait until all are acknowledged; not in a forked child, where the channel is the parent's. Takes cm_lock. */
void cm_events_drain(const struct cm_id *id, const struct cm_acks *ev);

/* ---- renew.c: what outlives a router ------------------------------------------------------------- */

/*
 * The channel's line has ended and told everything. Listen again if the router is back; else wait, unless the
 * descriptor is O_NONBLOCK. 0: look at the channel again; or -errno as cm_channel_take().
 */
int cm_channel_lost(struct cm_channel *ch);
/* The last event of an ended line is about to be told: nothing makes the descriptor readable any more. */
void cm_channel_told(struct cm_channel *ch);
/* A request about an id that may have no device comes between these two, which take and release renew_lock. */
bool cm_id_enter(struct cm_id *id); /* false: no router has the id, so that the request will fail */
void cm_id_leave(void);
void cm_id_keep(void); /* cm_id_enter() for an id that need not be at a router */
/* Is the channel at a router, or can it be? Call with renew_lock held. */
bool cm_channel_is_live(struct cm_channel *ch);
void cm_renew_forked(void); /* in a child */

/*
 * CM_CALL() for an id that may have no device; renew_lock is held when it is done. A call that finds out that the
 * router has died is made again where the id is made again: the dead router has left nothing of the first call.
 */
#define CM_ID_CALL_KEEP(i, NAME, req, resp)                                                        \
	({                                                                                         \
		bool is_live_;                                                                     \
		int err_;                                                                          \
                                                                                                   \
		for (;;) {                                                                         \
			is_live_ = cm_id_enter(i);                                                 \
			(req)->id = (i)->handle;                                                   \
			err_ = CM_CALL((i)->ses, NAME, req, resp);                                 \
			if (err_ != -EIO || !is_live_ || (i)->dev)                                 \
				break;                                                             \
			cm_id_leave();                                                             \
		}                                                                                  \
		err_;                                                                              \
	})
#define CM_ID_CALL(i, NAME, req, resp)                                                             \
	({                                                                                         \
		int ret_ = CM_ID_CALL_KEEP(i, NAME, req, resp);                                    \
                                                                                                   \
		cm_id_leave();                                                                     \
		ret_;                                                                              \
	})

/* ---- verbs.c: the QP of an id ------------------------------------------------------------------ */

/* CM_ACCEPT, with the id's QP, if it has one, in RTS before the peer hears of it. 0 or -errno. */
int cm_qp_accept(struct cm_id *id, struct ff_cm_accept_req *req, const void *data, uint32_t len);
int cm_qp_error(struct cm_id *id); /* 0 where the id has no QP */
/* The peer's answer: options that both sides have, RTR, RTS. */
int cm_qp_response(struct cm_id *id, const struct ff_cm_ece *ece);

/* Tell the peer that its answer has arrived; the id's QP, if it has one, is in RTS before. */
int cm_establish(struct cm_id *id);

/* ---- edges ------------------------------------------------------------------------------------------ */

/* 0 or -errno to what the CM's functions return: 0, or -1 and errno. */
static inline int cm_ret(int err)
{
	if (!err)
		return 0;
	errno = -err;
	return -1;
}
/* What a verb returned, a positive errno, or -1 with errno set: to 0 or -errno. */
static inline int cm_verb(int ret)
{
	return ret > 0 ? -ret : ret < 0 ? -errno : 0;
}

#endif

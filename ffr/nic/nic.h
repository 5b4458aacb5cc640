/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * nic.h - NICs that the router has opened, as a carrier of the software device's QPs.
 *
 * Theory of operation
 * -------------------
 * What leads to containers of this host, and to hosts by the router's wire, is the software device's (soft/),
 * whose ops are called for each object first. A connected QP of a container is made on the NIC as well, and
 * so is each MR whose pages the router has mapped as a whole: the QP's number and the MR's keys are the
 * NIC's then, so that nothing has to be translated on the way, by whichever of the two it goes. At the
 * change to RTR it is decided for good who carries the QP. The NIC does if its path begins at the NIC's own
 * GID, which is the last of the container's GID table where the operator allows that (nic_direct): the peer
 * is then somebody in the NIC's network, of whom the router knows nothing. It does if the path leads to a
 * container of another host that has a NIC in the same network (nic_network): the first that two routers say
 * to each other on the wire is which NICs they have, so both decide alike. Until it is said the QP is
 * undecided: what is posted waits, as for a peer that does not answer. In all other cases it is the software device's.
 *
 * There may be several NICs (struct nic_dev), of which each container has one from its registration on: nic_of().
 * All of its objects are of that one, each of which knows it, and what happens to a NIC is nothing to the others. The
 * routers ask each other which NIC a container has (remote/remote.c). What is said of the NIC here is said of the container's.
 *
 * A container's objects are in a PD of the NIC for each PD of its own, so a peer reaches by a QP what the
 * same PD has registered and nothing else, as on a NIC that the container has for itself. A WR's lkeys are
 * looked up and checked by the router before; rkeys are the NIC's business.
 *
 * A UD QP is made on the NIC where containers may use the NIC's GID, and each datagram goes by the way of its
 * address handle: what begins at that GID is the NIC's. The NIC's queues have memory of the router's then (ud.c),
 * and address handles of the NIC are made by a thread of their own (ah.c), since the kernel may ask the network for
 * an address first.
 *
 * Receives are moved from the container's ring to the NIC's queue as they are posted, WRs as they are
 * fetched (POST_SENT), each signalled: comp.c brings their completions back. When the QP leaves RTS, what
 * the NIC has copies of ends first, and only then is the rest flushed (qp->flush_waits).
 *
 * An SRQ of which such a QP is, is made on the NIC as well (srq.c).
 * Rates are the router's (rate.h), and where the NIC can, its own as well: pace.c.
 *
 * Calls that go to the kernel and take long (make, modify, destroy, register) are the control thread's,
 * without the lock; posting, polling and arming are the runner's. The NIC is served by one fast thread. What it tells of
 * itself, the runner reads (event.c); it may be removed and come back (gone.c), for which there is a thread (worker.c).
 *
 * The room ffr/nic/ may use remote/, soft/ (what it charges a WR), wire/, dir/, peer/, mem/ and fast/, and is known by
 * nic_carrier.
 */
#ifndef FFR_NIC_NIC_H
#define FFR_NIC_NIC_H

#include "ffr/fast/internal.h"
#include "ffr/mem/view.h"
#include "ffr/nic/lib.h"

struct wire_hdr;

#define NIC_SEND_MAX 512u	/* WRs of a QP that the NIC has at once */
#define NIC_BATCH    16u	/* WRs that are given to it at once */
#define NIC_FILL     256u	/* receives of a QP that it gets in one turn */
#define NIC_POLL     32u	/* completions that are fetched at once */
#define NIC_LONG     (1u << 20) /* bytes of an MR, from which on the worker pins and unpins it */
/* Bytes of an on-demand MR that a NIC has; of a longer one it has nothing. The kernel keeps a part of them, touched or not. */
#define NIC_PAGED_MAX	((uint64_t)1 << 38)
#define NIC_PAGED_PART	512u
#define NIC_PAGED_SHIFT 30 /* SHARE_PAGED's unit */

/* What nic_carrier's open() is given. */
struct nic_conf {
	const char *name; /* of the device, as ibv_devices has it; NULL: the first */
	uint8_t port;
	int gid_index;	 /* -1: the first of RoCE v2 that is no link-local one */
	bool direct;	 /* containers may use the NIC's GID */
	const char *net; /* name of the network that it is in; NULL: there are no other hosts in it */
	bool no_worker; /* tests: what takes long is done at once, by the control thread */
	const struct nic_conf *next; /* another NIC, or NULL */
};

/* What the worker does (worker.c). The giver's memory, as long as it is under way. */
struct nic_job {
	STAILQ_ENTRY(nic_job) next;
	void (*run)(struct nic_job *job);  /* by the worker, without the lock */
	void (*back)(struct nic_job *job); /* then, by the control thread, without the lock */
};

/*
 * A CQ of the NIC, which several QPs of a container have: of one alone, since what a QP leaves there when it is
 * reset may be too much, and then all of them fail.
 */
struct nic_cq {
	LIST_ENTRY(nic_cq) entry;
	struct nic_dev *d;
	const struct container *cont;
	struct ibv_cq *cq;
	_Atomic uint32_t used; /* the runner looks whether there are any */
	uint32_t size;	       /* completions that fit; that its QPs may have outstanding */
	bool armed;	       /* an event will tell of the next completion */
	bool is_broken; /* the NIC has lost completions of it: its QPs are in error. [lock] */
};

/* An address handle of the NIC. ah.c; [lock] but for ib, which is the thread's until it is AH_READY. */
enum nic_ah_state { AH_ASKED, AH_READY, AH_FAILED };
struct nic_ah {
	TAILQ_ENTRY(nic_ah) entry; /* pool->ahs, used last first */
	STAILQ_ENTRY(nic_ah) job;
	struct nic_ud_pool *pool; /* NULL: nobody wants it any more */
	struct ibv_ah_attr attr;
	struct ibv_ah *ib;
	enum nic_ah_state state;
	uint32_t users; /* datagrams that are under way or wait */
	uint64_t until; /* AH_FAILED, ns: then it is tried again */
	LIST_HEAD(, nic_ud) waiting;
};
STAILQ_HEAD(nic_ah_jobs, nic_ah);

/* What the UD QPs of a container share. */
struct nic_ud_pool {
	LIST_ENTRY(nic_ud_pool) entry;
	const struct container *cont;
	uint32_t num_qps; /* [ctl] */
	size_t bytes;	  /* [ctl] of their memory */
	TAILQ_HEAD(nic_ah_list, nic_ah) ahs;
	uint32_t num_ahs, max_ahs;
	struct nic_ah *asking; /* the thread has it; one at a time, so that others have their turn */
};

/* The thread that makes and ends address handles, and what it is given. */
struct nic_ahs {
	bool runs;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t more;
	struct nic_ah_jobs todo, done; /* [mutex] todo: with ib it is to be ended */
	bool busy;		       /* [mutex] it has one in hand */
	bool rests;		       /* [mutex] the NIC is gone: it takes none */
	bool stop;		       /* [mutex] */
	_Atomic bool has_done;	       /* the runner is to look */
	int fd;			       /* eventfd: the same, for one that sleeps */
};

/* A UD QP's part of struct nic_qp; ud.c. [lock] once it is made. */
struct nic_ud {
	struct nic_qp *nq;
	struct nic_ud_pool *pool;
	uint8_t *mem; /* num_recv times recv_size bytes, then num_send times mtu */
	size_t size;
	struct ibv_mr *mr;
	uint32_t num_recv, num_send, mtu, recv_size;
	bool is_up;	/* the NIC's QP sends and receives */
	uint32_t qkey;	/* [ctl] of the NIC's QP */
	uint16_t *free; /* receives that the NIC does not have */
	uint32_t num_free;
	struct nic_ah **sent; /* [num_send] of those between una and tail */
	/* the datagram at hand: */
	bool is_mine; /* it goes by the NIC */
	bool paid;    /* the limits have let it through */
	struct ff_ah_attr path;
	struct nic_ah *ah;
	bool waits; /* `wait` is on ah->waiting */
	LIST_ENTRY(nic_ud) wait;
};

/* The router's own UD QP, for datagrams between containers of two hosts; trunk.c. [lock] once it is made */
struct nic_trunk {
	struct ibv_qp *ib;
	struct nic_cq *cq;
	uint8_t *mem; /* of receives, then of sends: buf_size bytes each */
	size_t size;
	struct ibv_mr *mr;
	uint32_t buf_size;
	struct nic_ud_pool pool; /* handles of other hosts */
	struct nic_ah **sent;	 /* of those between una and tail */
	uint32_t una, tail;
	uint16_t life;
	bool is_up, is_broken; /* is_broken: the control thread is to bring it up again */
};

/* WRs that the NIC gets next, all of one QP: those of one with `ex` are put into its queue as they come. */
struct nic_batch {
	struct nic_qp *nq;
	uint32_t n;
	struct ibv_send_wr wr[NIC_BATCH];
	struct ibv_sge sge[NIC_BATCH][FF_MAX_SGE];
};

/* What epoll tells of beside completions; &dev->ear[...] is what it names. */
enum nic_ear {
	NIC_EAR_ASYNC, /* the NIC's asynchronous events */
	NIC_EAR_NODE,  /* inotify: device files come and go */
	NIC_NUM_EARS
};

/* host->nic[].dev */
struct nic_dev {
	struct fast *f;
	const struct nic_conf *conf;
	struct host_nic *host; /* what others know of it */
	struct nic_lib lib;
	struct ibv_device **list, *device; /* what there is, and which of it this is */
	struct ibv_context *ctx;
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;
	struct ibv_odp_caps odp; /* what it can do with on-demand memory */
	struct ibv_comp_channel *channel;
	union ibv_gid gid;
	uint8_t port, gid_index;
	uint32_t max_inline; /* bytes that a QP of the NIC takes inline */
	bool is_iwarp;	     /* iwarp.c */
	bool is_siw;	     /* ... the kernel's siw */
	bool is_rxe;	     /* the kernel's rxe */
	bool is_quiet;	     /* errors while it is opened are nothing new */
	/* It may be called. Between its removal and its return (gone.c) it may not. [lock] to write */
	_Atomic bool is_there;
	bool is_lost;	  /* ... and is to be taken down by the control thread. [lock] */
	bool port_is_new; /* the control thread is to look at its port and its GIDs. [lock] */
	bool look_now;	  /* ... and whether it is back. [lock] */
	bool is_ending, is_opening; /* [ctl] jobs for that are under way */
	bool is_closing;	    /* [ctl] the router ends */
	struct timer look;	    /* to look whether it is back */
	struct timer end;	    /* for to_end's first one */
	uint64_t ear[NIC_NUM_EARS]; /* what they are is of no meaning, but where */
	int node_fd;		    /* NIC_EAR_NODE; -1: nobody tells */
	struct nic_worker *worker;
	struct nic_ucma
		*ucma; /* rdma_cm in the NIC's network; NULL: containers may not use its GID */
	LIST_HEAD(, nic_cq) cqs;
	uint16_t lives;			      /* of QPs, so far: each RESET begins one. [ctl] */
	TAILQ_HEAD(nic_list, nic_qp) to_fill; /* that have receives which the NIC has not. [lock] */
	TAILQ_HEAD(, nic_qp) undecided;	      /* whose way is not known yet. [lock] */
	TAILQ_HEAD(, nic_qp) to_end; /* QPs that the control thread is to take to ERR. [lock] */
	struct nic_batch batch;	     /* [lock] */
	LIST_HEAD(, nic_srq) srqs;
	TAILQ_HEAD(, nic_srq) srqs_to_fill; /* [lock] */
	uint16_t srq_ids;		    /* [ctl] the last one */
	struct ibv_pd *ud_pd;		    /* [ctl] of all UD QPs; NULL: there are none */
	LIST_HEAD(, nic_ud_pool) ud_pools;  /* [ctl] */
	struct nic_ahs ahs;
	struct nic_trunk trunk;
	/* pace.c: mlx5's tree, or else what packet pacing can do */
	struct mlx5dv_sched_node *pace_root;
	struct ibv_packet_pacing_caps pacing;
	LIST_HEAD(, nic_pace) paces;
	LIST_HEAD(, pace_tenant) pace_tenants;
	uint32_t pace_seen; /* of host->limits_changed */
	bool pace_failed;   /* the log has it */
};

/* A receive of an SRQ that the NIC has, as it was posted. */
struct nic_srq_recv {
	uint64_t wr_id;
	uint32_t at; /* which of the ring */
	uint16_t num_sge;
	struct ff_sge sge[]; /* room for srq->max_sge */
};

/* srq->nic: srq.c, [lock] but where it says so */
struct nic_srq {
	LIST_ENTRY(nic_srq) entry; /* dev->srqs */
	struct nic_dev *d;
	struct srq *srq;
	struct ibv_srq *ib;
	struct nic_cq *cq; /* of its receives */
	uint16_t id;	   /* in wr_ids */
	uint32_t depth, max_sge;
	uint8_t *recv;	/* [depth] struct nic_srq_recv: of those that the NIC has */
	bool *is_given; /* [depth] */
	uint32_t *free; /* places of those that it has not */
	uint32_t num_free;
	uint32_t num_carried; /* QPs that receive from it by the NIC */
	uint32_t num_soft;    /* ... and by the software device, */
	uint32_t num_alone;   /* ... of which the SRQ on the NIC knows nothing */
	bool is_broken;	      /* the NIC takes no more */
	bool is_to_fill;
	TAILQ_ENTRY(nic_srq) fill; /* dev->srqs_to_fill */
};

/* Of a QP with iWARP: iwarp.c */
enum nic_iw { IW_NONE, IW_READY, IW_ASKED, IW_UP, IW_DOWN };

/* qp->nic */
struct nic_qp {
	struct nic_dev *d;
	struct qp *qp;
	struct ibv_qp *ib;
	struct ibv_qp_ex *ex; /* ... for ibv_wr_*(); NULL: it has not got those */
	struct nic_cq *cq;
	bool carried;	  /* the NIC has it, from RTR on. [lock] */
	bool undecided;	  /* from RTR on, with `asks`. [lock] */
	bool asks;	  /* on dev->undecided. [lock] */
	bool waits;	  /* its WR waits for a completion. [lock] */
	bool is_to_fill;  /* on dev->to_fill. [lock] */
	bool is_to_end;	  /* on dev->to_end; not before end_at, host_now()'s time. [lock] */
	bool ends_itself; /* the NIC has said that it goes to ERR. [lock] */
	uint64_t end_at;
	uint16_t life; /* a new one with each RESET: completions of former lives mean nothing */
	uint32_t send_depth, recv_depth;
	struct send_wr *sent; /* [send_depth], without what they point to */
	uint32_t una, tail;   /* the oldest that is under way, the next one */
	uint32_t unposted;    /* the last of these, which the NIC did not take */
	uint64_t *recv_id;    /* [recv_depth] wr_ids of what is posted */
	uint32_t recv_una, recv_tail;
	union ibv_gid to;	/* carried: whom the NIC sends to */
	struct remote *there;	/* ... the container, if that is one; a reference. [lock] */
	struct timer ask_again; /* while it is undecided */
	uint64_t give_up;	/* ... and a WR waits: until then; 0: none does */
	TAILQ_ENTRY(nic_qp) ask;
	struct nic_srq *ns;	       /* NULL: it has receives of its own */
	bool is_srq_user;	       /* counted in ns->num_carried or num_soft, */
	bool is_srq_carried;	       /* ... which of them */
	bool leaves;		       /* the SRQ's: what still comes for it is nobody's */
	struct nic_ud *ud;	       /* a UD QP's, else NULL; it is never `carried` */
	TAILQ_ENTRY(nic_qp) end, fill; /* `end`: also on struct nic_gone's list */
	struct nic_pace *pace;	       /* its container's; NULL: the NIC has no rates. [ctl] */
	uint8_t iw;		       /* enum nic_iw; the control thread writes it, [lock] */
	uint32_t iw_conn;	       /* [ctl] the connection that it was asked for; 0: none */
};

/* mr->backend */
struct nic_mr {
	struct ibv_mr *ib;
	uint64_t base; /* what the NIC calls the MR's first byte, to which its iova is the container's name */
	void *window; /* pages in a row, where the MR's runs are not; NULL: they are */
	size_t size;
	struct view_pages pages;  /* of on-demand memory */
	uint64_t length;	  /* bytes that are registered */
	SLIST_ENTRY(nic_mr) gone; /* struct nic_gone's */
};

/* The network that it shares with other hosts' NICs; NULL: none. With iWARP the routers' QPs can not be connected. */
static inline const char *nic_net_of(const struct nic_dev *d)
{
	return d->is_iwarp ? NULL : d->conf->net;
}
/* The router uses UD QPs of the NIC: containers', or one of its own. */
static inline bool nic_has_ud(const struct nic_dev *d)
{
	return !d->is_iwarp && (d->conf->direct || d->conf->net);
}

/* worker.c; control thread */
struct nic_worker *nic_worker_new(struct fast_host *host); /* without its thread; NULL: no memory */
int nic_worker_start(struct nic_worker *w);		   /* by the runner; 0 or -errno */
void nic_worker_join(
	struct nic_worker *w); /* its thread ends; jobs are done when they are given from now on */
void nic_worker_free(struct nic_worker *w); /* all that was given comes back first; NULL: nothing */
void nic_job_give(struct nic_worker *w, struct nic_job *job);
uint32_t nic_jobs_back(struct nic_worker *w); /* calls `back` of the done ones; how many are not */
void nic_jobs_settle(struct nic_worker *w);   /* waits until all have come back */
/* It has not begun, and does not: it is the giver's again, and does not come back. Else false. */
bool nic_job_cancel(struct nic_worker *w, struct nic_job *job);
/* If that is what the thread is doing, the call that it waits in is interrupted (EINTR); any thread. Is it? */
bool nic_job_interrupt(struct nic_worker *w, const struct nic_job *job);
/* The same, until it is done. It comes back with the others. */
void nic_job_await(struct nic_worker *w, const struct nic_job *job);

/* event.c; runner, [lock] */
void nic_events(struct nic_dev *d);	 /* asynchronous ones are there */
void nic_node_events(struct nic_dev *d); /* device files have come or gone */
/* The NIC is of no use any more: nothing calls it from now on, and the control thread takes it down. */
void nic_lose(struct nic_dev *d);
void nic_tell_port(struct nic_dev *d,
		   enum ibv_event_type type); /* its containers, if they use the port */
/* Control thread, no lock: the port has changed, and maybe its GID. */
void nic_look_at_port(struct nic_dev *d);
/* A QP is in ERR whose completions the NIC does not bring any more: they are made here. */
void nic_qp_flush(struct fast *f, struct nic_qp *nq);

/* gone.c; control thread, no lock */
void nic_gone_work(struct nic_dev *d); /* what is to be done about a NIC that is lost, or is back */
void nic_on_look(struct timer *t);     /* dev->look's; runner, [lock] */
void nic_tell_gid(struct nic_dev *d); /* it is another one: containers and other hosts hear of it */
void nic_tell_net(struct nic_dev *d,
		  const char *net); /* other hosts: it is in that network, "": in none */

/* dev.c */
extern const char *nic_node_dir; /* where device files are; a test has its own */
int nic_open(struct fast *f,
	     const struct nic_conf *conf); /* all; 0 or -errno, with a line in the log */
void nic_close(struct fast *f);
/*
 * Open the NIC and what the runner listens to. Either d->device is known, or it is looked for, and what it is and has
 * found out. By the thread whose doorbells it is to take. 0 or -errno, and nothing is open.
 */
int nic_dev_open(struct nic_dev *d);
void nic_dev_close(struct nic_dev *d); /* what nic_dev_open() has opened, and the list of devices */
void nic_dev_forget(struct nic_dev *d); /* as if it had opened nothing: another has that */
int nic_dev_listen(struct nic_dev *d);	/* epoll tells of it; 0 or -errno */
void nic_dev_deafen(struct nic_dev *d);
int nic_query_port(struct nic_dev *d);			 /* 0 or errno */
int nic_choose_gid(struct nic_dev *d);			 /* likewise */
struct ibv_pd *nic_pd(struct nic_dev *d, struct pd *pd); /* made if it is not there; NULL: errno */
struct nic_cq *nic_cq_get(struct nic_dev *d, const struct container *c,
			  uint32_t n); /* with room for n completions; NULL: errno */
void nic_cq_put(struct nic_cq *cq, uint32_t n);
void nic_heard(struct nic_dev *d); /* events are in dev->channel */

/* qp.c, [lock] */
/* Is it the NIC's? Then what follows from its new state is done. */
bool nic_qp_modify(struct fast *f, struct qp *qp, enum ibv_qp_state old);
void nic_qp_forget(struct fast *f, struct qp *qp); /* no runner uses it any more */
/* The NIC is gone: the QP is the software device's, in ERR if the NIC carried it. Its NIC's part is the caller's. */
struct nic_qp *nic_qp_lose(struct fast *f, struct qp *qp);
/* The control thread is to take it to ERR, in which what the NIC has of it ends. */
void nic_end_later(struct fast *f, struct nic_qp *nq);
void nic_on_end(struct timer *t); /* dev->end's; runner, [lock] */
/* Control thread, no lock. The NIC's QP in INIT, with all receives that are posted. 0 or -errno */
int nic_take_receives(struct fast *f, struct nic_qp *nq, const struct ff_qp_attr *a);
/* What a QP of the NIC cannot change in SQD, nor in RTS. */
bool nic_is_for_sqd(const struct ff_qp_attr *old, const struct ff_qp_attr *a);
/* Control thread, no lock. The NIC is to carry it, to nq->to: it is taken there. 0 or -errno: all is as before. */
int nic_to_rtr(struct fast *f, struct nic_qp *nq, const struct ff_qp_attr *a);
/* ... 0 or an errno */
int nic_to_rts(struct nic_dev *d, struct nic_qp *nq, const struct ff_qp_attr *a);

/* The path *a, to nq->to, as the NIC has it. */
struct ibv_ah_attr nic_path_of(const struct nic_dev *d, const struct nic_qp *nq,
			       const struct ff_ah_attr *a);
/* One whose number fits into the router's table. NULL: errno. */
struct ibv_qp *nic_create_fitting(struct nic_dev *d, const struct qp_table *t, struct ibv_pd *pd,
				  struct ibv_qp_init_attr *attr);
/* pace.c */
void nic_pace_open(struct nic_dev *d); /* what the NIC can do; d->ctx is there */
void nic_pace_close(struct nic_dev *d);
void nic_pace_move(struct nic_dev *to,
		   struct nic_dev *from); /* all that is on that NIC; `from` has none then */
void nic_pace_get(struct nic_dev *d, struct nic_qp *nq); /* its container's, if there is any */
void nic_pace_put(struct nic_dev *d, struct nic_qp *nq);
void nic_pace_begin(struct nic_dev *d, struct nic_qp *nq); /* the NIC's QP is in RTS, or INIT */
void nic_pace_update(struct nic_dev *d);		   /* limits may have changed */

/* way.c, [lock] */
enum nic_way { WAY_SOFT, WAY_NIC, WAY_UNKNOWN };
/* Where a path leads that begins at the QP: *to, and *there, is whom the NIC is to send to. */
enum nic_way nic_way_of(struct fast *f, const struct qp *qp, const struct ff_ah_attr *a,
			union ibv_gid *to, struct remote **there);
void nic_set_there(struct fast *f, struct nic_qp *nq, struct remote *there); /* or NULL */
/* The new state of one that is undecided. Has the software device nothing to do with it? */
bool nic_undecided_modify(struct fast *f, struct nic_qp *nq, enum ibv_qp_state old);
void nic_undecided_end(struct fast *f, struct nic_qp *nq);
void nic_undecided_lose(struct fast *f,
			struct nic_qp *nq); /* ... it is the software device's, then */
/* Control thread, no lock: one whose way is known now goes it. False: there is none. */
bool nic_decide_one(struct nic_dev *d);
void nic_qp_ask(struct fast *f); /* something is known now that a QP's way may depend on */
void nic_policy_changed(struct fast *f);
static inline void nic_wake(struct fast *f) /* nic_work() is to be called */
{
	fast_want_work(f->host);
}
/* A WR or a receive of it has ended: if it was the last one, what waits for that goes on. */
void nic_qp_ended_one(struct fast *f, struct nic_qp *nq);

/* post.c; runner, [lock] */
extern const struct send_ops nic_send;
void nic_batch_post(struct nic_dev *d);
void nic_batch_drop(struct nic_dev *d); /* what is not posted yet the NIC does not get */
/* Give the NIC what is posted. True: that was as much as one turn may, and there is more. */
bool nic_recv_fill(struct fast *f, struct nic_qp *nq);
/* The same; what is left, the next turns do. */
void nic_recv_fill_all(struct fast *f, struct nic_qp *nq);
uint32_t nic_fill_on(struct nic_dev *d); /* a turn's; the number of QPs */

/* A WR's memory as the NIC has it, of MRs of that container and PD; *num entries. FF_VERR_NONE: it may be used so. */
enum ff_vendor_err nic_sges(const struct container *c, const struct pd *pd,
			    const struct ff_sge *sge, uint32_t n, uint32_t access,
			    struct ibv_sge *to, int *num);

/* srq.c */
/* [ctl], no lock. The NIC's of the SRQ, made if it is not there; NULL: errno. */
struct nic_srq *nic_srq_get(struct fast *f, struct srq *srq);
void nic_srq_break(struct fast *f, struct srq *srq);
/* [ctl], no lock: before the NIC's QP is reset or destroyed, what it has received is fetched. */
void nic_srq_leave(struct nic_qp *nq);
/* [lock] How the QP receives from now on: by the NIC, by copy; and not any more. */
void nic_srq_use(struct fast *f, struct nic_qp *nq, bool carried);
void nic_srq_unuse(struct nic_qp *nq);
struct nic_srq_recv *nic_srq_recv(const struct nic_srq *ns, uint32_t place);
/* [lock] A QP that is not on the NIC has changed its state, or goes. */
void nic_srq_count(struct fast *f, struct srq *srq, const struct qp *goes);
/*
 * [ctl], no lock. The NIC is gone, and its QPs are: what it had of the ring is there again, in order. What is left of it
 * is the caller's, for nic_srq_free(), which the worker may call.
 */
void nic_srq_lose(struct fast *f, struct srq *srq);
void nic_srq_free(struct nic_lib *lib, struct nic_srq *ns); /* without its CQ */
/* [lock] The NIC, or its CQ, says that it cannot go on. */
void nic_srq_broken(struct fast *f, struct nic_srq *ns);
/* [lock] Give the NIC what is posted, as much as a turn may; what is left, the next turns do. */
void nic_srq_fill(struct fast *f, struct nic_srq *ns);
uint32_t nic_srq_fill_on(struct nic_dev *d); /* a turn's; the number of SRQs */
/* [lock] A completion of an SRQ's receive; qp: of that number, or NULL. */
void nic_srq_completion(struct nic_dev *d, struct qp *qp, const struct ibv_wc *wc);

/* comp.c; runner, [lock] */
/* A receive with that wr_id has ended so. */
void nic_received(struct fast *f, struct nic_qp *nq, uint64_t id, const struct ibv_wc *wc);
uint32_t nic_poll(struct nic_dev *d); /* number of completions */
int nic_poll_cq(struct nic_cq *cq);   /* ... of that one; or < 0 */
/* The NIC did not take nq->unposted WRs, the last ones: they end when it is their turn. */
void nic_unposted(struct fast *f, struct nic_qp *nq);

/* ah.c */
int nic_ahs_start(struct nic_dev *d); /* runner, before it is confined. 0 or an errno */
void nic_ahs_stop(struct nic_dev *d);
/* [lock] The pool's of that path, for one user more. NULL: it has too many, or there is no memory. */
struct nic_ah *nic_ah_get(struct nic_dev *d, struct nic_ud_pool *pool,
			  const struct ibv_ah_attr *attr);
static inline void nic_ah_put(struct nic_ah *ah)
{
	ah->users--;
}
/* [lock] What the thread has done: who waits for it goes on. The number of handles. */
uint32_t nic_ahs_done(struct nic_dev *d);
void nic_ahs_ready(struct nic_dev *d); /* its descriptor is readable */
/* [lock] Nobody uses the pool any more. */
void nic_ahs_forget(struct nic_dev *d, struct nic_ud_pool *pool);
/* [ctl] The NIC is gone: the thread begins nothing more. False: it has one in hand yet, and wakes the control thread then. */
bool nic_ahs_rest(struct nic_dev *d);
void nic_ahs_go_on(struct nic_dev *d); /* it is back */
/* [ctl] All handles, of which nobody has one any more, and their end, which the worker may bring about. */
void nic_ahs_take(struct nic_dev *d, struct nic_ah_jobs *to);
void nic_ahs_end(struct nic_lib *lib, struct nic_ah_jobs *ahs);

/* trunk.c */
/* Runner, before it is confined, or [ctl], when the NIC is back. 0 or an errno; then it is to be stopped */
int nic_trunk_start(struct nic_dev *d);
void nic_trunk_stop(struct nic_dev *d);
/* [ctl], [lock] The NIC is gone: it is `to`'s, for nic_trunk_free(), which the worker may call. Its CQ is the NIC's. */
void nic_trunk_lose(struct nic_dev *d, struct nic_trunk *to);
void nic_trunk_free(struct nic_lib *lib, struct nic_trunk *t);
/* [lock] The NIC tells of its QP. */
void nic_trunk_failed(struct nic_dev *d);
/* [lock] ... of its CQ: it is of no use until the NIC is another one. */
void nic_trunk_cq_failed(struct nic_dev *d);
void nic_trunk_work(struct nic_dev *d); /* [ctl], no lock */
/* [lock] A datagram of the container to that host, with its GRH. True: the NIC has it; false: it is the wire's. */
bool nic_trunk_send(const struct container *c, struct wire_peer *p, const struct wire_hdr *h,
		    const void *payload);
void nic_trunk_completion(struct nic_dev *d, const struct ibv_wc *wc);

/* What carries the QP where the NIC does not. */
const struct send_ops *nic_other_send(const struct qp *qp);

/* ud.c */
/* A UD QP to the next of its states. 0 or an errno */
int nic_ud_to(struct nic_dev *d, struct ibv_qp *ib, enum ibv_qp_state to, uint32_t qkey);
extern const struct send_ops nic_ud_send;
/* [ctl], no lock. 0, also where it stays the software device's alone, or -errno */
int nic_ud_make(struct nic_qp *nq);
void nic_ud_break(struct nic_qp *nq);
/* [lock] The NIC is gone: its datagram at hand is lost, and so are those that the NIC has. */
void nic_ud_lose(struct fast *f, struct nic_qp *nq);
/* [ctl], no lock. It leaves its container's pool; what else it has is for nic_ud_free(), which the worker may call. */
void nic_ud_leave(struct nic_dev *d, struct nic_ud *u);
void nic_ud_free(struct nic_lib *lib, struct nic_ud *u); /* NULL: nothing */
int nic_ud_prepare(struct fast *f, struct nic_qp *nq, const struct ff_qp_attr *attr,
		   enum ibv_qp_state now, enum ibv_qp_state next);
/* [lock] */
void nic_ud_modify(struct fast *f, struct nic_qp *nq);
void nic_ud_forget(struct nic_qp *nq);
void nic_ud_completion(struct fast *f, struct nic_qp *nq, const struct ibv_wc *wc);
/* ucma.c; control thread, no lock, but where it says so */
struct nic_ucma;
struct ucma_ops;
extern const struct ucma_ops nic_ucma_ops;
int nic_ucma_new(struct nic_dev *d);   /* 0 or -ENOMEM */
int nic_ucma_start(struct nic_dev *d); /* runner, before it is confined. 0 or -errno */
void nic_ucma_stop(struct nic_dev *d); /* its worker ends */
void nic_ucma_free(struct nic_dev *d);
void nic_ucma_heard(struct nic_ucma *u); /* runner, [lock]: events are there */
void nic_ucma_work(struct nic_dev *d);
void nic_ucma_settle(struct nic_dev *d);  /* all that was given has been carried out */
void nic_ucma_changed(struct nic_dev *d); /* the NIC is back, or its GID is another one */

/* Is that the number of a connection which one of the container's ids has to do with? */
bool nic_ucma_knows(struct nic_dev *d, const struct container *c, uint32_t conn);
/* A QP goes that was asked for: what the kernel has not done for that connection it does not do. */
void nic_ucma_qp_goes(struct nic_dev *d, uint32_t conn);

/* iwarp.c; control thread, no lock, but where it says so */
bool nic_iw_is(const struct ibv_device *device);
bool nic_iw_is_siw(const struct nic_dev *d); /* d->is_iwarp and d->attr are known */
/* Also by the worker: the address of the network device that has this GID. 0 or an errno */
int nic_iw_address(const struct ibv_gid_entry *e, union ibv_gid *to);
/* A QP is to go from `now` to `next`. 0 or -errno */
int nic_iw_step(struct fast *f, struct nic_qp *nq, const struct ff_qp_attr *a,
		enum ibv_qp_state now, enum ibv_qp_state next);
/* The kernel is to be asked for connection `conn` with the container's QP of that number, which gets ready. 0 or -errno */
int nic_iw_ask(struct fast *f, const struct container *cont, uint32_t num, uint32_t conn);
void nic_iw_up(struct fast *f, uint32_t num, uint32_t conn); /* it is established */
void nic_iw_down(struct fast *f, uint32_t num,
		 uint32_t conn);      /* it is not any more, or never will be */
void nic_cq_drain(struct nic_cq *cq); /* [lock] all that is there */

/* mr.c */
void nic_mr_free(struct nic_lib *lib, struct nic_mr *nm);

/* What carrier.c calls for the ops of struct carrier. */
void nic_pd_break(struct pd *pd);
int nic_mr_make(struct mr *mr);
void nic_mr_break(struct mr *mr);
void nic_mr_advise(struct mr *mr, const struct ff_advise_mr_req *req);
bool nic_mr_make_later(struct mr *mr, struct carrier_later *l);
bool nic_mr_break_later(struct mr *mr, struct carrier_later *l);
int nic_qp_make(struct fast *f, struct qp *qp);
void nic_qp_break(struct qp *qp);
int nic_qp_prepare(struct fast *f, struct qp *qp, const struct ff_qp_attr *attr,
		   enum ibv_qp_state now, enum ibv_qp_state next);
void nic_work(struct fast *f, bool all);
bool nic_arm(struct fast *f);
int nic_start(struct fast *f);
void nic_stop(struct fast *f);

extern const struct carrier nic_carrier;

static inline bool nic_is_mlx5(const struct nic_dev *d)
{
	return d->lib.mlx5.is_supported && d->lib.mlx5.is_supported(d->device);
}

/* A container's. */
static inline struct nic_dev *nic_of(const struct container *c)
{
	return c->fast->host->nic[c->nic].dev;
}

/* All of the host's, one after the other; NULL: that was the last. */
static inline struct nic_dev *nic_first(const struct fast *f)
{
	return f->host->num_nics ? f->host->nic[0].dev : NULL;
}
static inline struct nic_dev *nic_next(const struct nic_dev *d)
{
	const struct fast_host *h = d->f->host;

	return d->host + 1 < h->nic + h->num_nics ? d->host[1].dev : NULL;
}
static inline uint8_t nic_index(const struct nic_dev *d)
{
	return (uint8_t)(d->host - d->f->host->nic);
}
#define NIC_FOREACH(d, f) for ((d) = nic_first(f); (d); (d) = nic_next(d))

/* A WR or a receive in the NIC's wr_id: life, which queue, place in it. */
#define NIC_ID_RECV  (1ull << 32)
#define NIC_ID_TRUNK (1ull << 34) /* the router's own: the trunk's life */
#define NIC_ID_SRQ   (1ull << 33) /* an SRQ's receive: its id in the place of life */
static inline uint64_t nic_id(const struct nic_qp *nq, uint64_t queue, uint32_t place)
{
	return (uint64_t)nq->life << 48 | queue | place;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * nic.h - NICs that the router has opened, as a carrier of the software device's QPs.
 *
 * Theory of operation
 * -------------------
 * The software device (soft/) carries what leads to containers of this host, and to other hosts by the wire. Its ops
 * are called first for each object. A connected QP of a container is made on the NIC as well, and so is each MR whose
 * pages the router has mapped as a whole. The QP's number and the MR's keys are the NIC's then, so that no rkey, remote
 * address or QP number has to be translated, whoever carries the QP.
 *
 * The change to RTR decides for good who carries the QP:
 *
 *	- The NIC does if the QP's path begins at the NIC's own GID, which is the last one of the container's GID
 *	  table where the operator allows that (nic_direct). The peer is then in the NIC's network, and unknown to the
 *	  router.
 *	- The NIC does if the path leads to a container of another host that has a NIC in the same network
 *	  (nic_network). Two routers first tell each other on the wire which NICs they have, so both decide alike. Until
 *	  then the QP is undecided: its WRs wait, as for a peer that does not answer.
 *	- In all other cases the software device does.
 *
 * There may be several NICs (struct nic_dev). From its registration on, a container has one of them: nic_of(). All
 * objects of the container are on that NIC, and each object knows its NIC. What happens to a NIC does not concern the
 * others. Routers ask each other which NIC a container has (wire/nics.c). Below, "the NIC" is the container's.
 *
 * For each PD of a container there is a PD of the NIC, so a peer reaches by a QP only what the same PD has registered,
 * as on a NIC that the container has for itself. The router looks a WR's lkeys up and checks them; the NIC checks
 * rkeys.
 *
 * A UD QP is made on the NIC where containers may use the NIC's GID. Each datagram goes where its address handle says:
 * the NIC carries datagrams that begin at the NIC's GID. The NIC's queues then have memory of the router's (ud.c). A
 * worker of its own makes the NIC's address handles (ah.c), because the kernel may first ask the network for an
 * address.
 *
 * Receives move from the container's ring to the NIC's queue as they are posted, and WRs as they are fetched
 * (POST_SENT), each of them signalled: comp.c brings the completions back. When the QP leaves RTS, the WRs and receives
 * that the NIC has end first, and only then the rest is flushed (qp->flush_waits).
 *
 * The SRQ of such a QP is made on the NIC as well (srq.c). The router enforces rates (rate.h), and so does the NIC
 * where it can (pace.c).
 *
 * The control thread, without the lock, makes the calls that go to the kernel and take long (make, modify, destroy,
 * register). The runner posts, polls and arms. One fast thread serves the NIC. The runner reads the NIC's events
 * (event.c). A NIC may be removed and come back (unplug.c); a thread (worker.c) makes the calls for that.
 *
 * The room ffr/nic/ may use remote/, soft/ (which charges WRs), wire/, dir/, peer/, mem/ and fast/. Others know only
 * nic_carrier of this room. The room nic/cm/ has what the host's rdma_cm does for the NIC (cm/cm.h).
 */
#ifndef FFR_NIC_NIC_H
#define FFR_NIC_NIC_H

#include "ffr/fast/internal.h"
#include "ffr/mem/view.h"
#include "ffr/nic/lib.h"

struct wire_hdr;

#define NIC_SEND_MAX 512u	/* WRs of a QP that the NIC has at once */
#define NIC_BATCH    16u	/* WRs that the NIC is given at once */
#define NIC_FILL     256u	/* receives of a QP that the NIC is given in one turn */
#define NIC_POLL     32u	/* completions that are fetched at once */
#define NIC_LONG     (1u << 20) /* bytes: the worker pins and unpins MRs that are as long, or longer */
/* The longest on-demand MR that is registered at a NIC, in bytes. */
#define NIC_PAGED_MAX ((uint64_t)1 << 38)
/* The kernel keeps length / NIC_PAGED_PART bytes for an on-demand MR at a NIC, touched or not. */
#define NIC_PAGED_PART	512u
#define NIC_PAGED_SHIFT 30 /* a unit of SHARE_PAGED is 1 << NIC_PAGED_SHIFT bytes of MRs */

/* The configuration of a NIC, for nic_carrier's open(). */
struct nic_conf {
	const char *name; /* the device's name, as ibv_devices shows it; NULL: the first device */
	uint8_t port;
	int gid_index;	 /* -1: the first GID of RoCE v2 that is not link-local */
	bool direct;	 /* containers may use the NIC's GID */
	const char *net; /* name of the NIC's network; NULL: no other host is in this network */
	bool no_worker;	 /* tests: the control thread does the worker's jobs at once */
	const struct nic_conf *next; /* another NIC, or NULL */
};

/* A job for the worker (worker.c). The memory is the giver's, who keeps it until the job has come back. */
struct nic_job {
	STAILQ_ENTRY(nic_job) next;
	void (*run)(struct nic_job *job);  /* called by the worker, without the lock */
	void (*back)(struct nic_job *job); /* called then by the control thread, without the lock */
};
STAILQ_HEAD(nic_jobs, nic_job);

/*
 * A CQ of the NIC, shared by several QPs of one container. Containers do not share CQs, because a QP that is reset may
 * leave so many completions that the CQ overruns, and then all of its QPs fail.
 */
struct nic_cq {
	LIST_ENTRY(nic_cq) entry;
	struct nic_dev *d;
	const struct container *cont;
	struct ibv_cq *cq;
	_Atomic uint32_t
		used;  /* completions that QPs may have outstanding; the runner polls unless 0 */
	uint32_t size; /* completions that fit */
	bool armed;    /* an event will tell of the next completion */
	bool is_broken; /* the NIC has lost completions of this CQ: the CQ's QPs are in error. [lock] */
};

/* An address handle of the NIC. ah.c; [lock], except for `ib`, which is the worker's while its job is given. */
enum nic_ah_state { AH_ASKED, AH_READY, AH_FAILED };
struct nic_ah {
	struct nic_job job;
	TAILQ_ENTRY(nic_ah) entry; /* pool->ahs, used last first */
	struct nic_dev *d;
	struct nic_ud_pool *pool; /* NULL: nobody wants the handle any more */
	struct ibv_ah_attr attr;
	struct ibv_ah *ib;
	enum nic_ah_state state;
	uint32_t users; /* datagrams that are under way or wait */
	uint64_t until; /* AH_FAILED: ns, when making the handle is tried again */
	LIST_HEAD(, nic_ud) waiting;
};

/* What the UD QPs of a container share. */
struct nic_ud_pool {
	LIST_ENTRY(nic_ud_pool) entry;
	const struct container *cont;
	uint32_t num_qps; /* [ctl] */
	size_t bytes;	  /* [ctl] memory of these QPs' queues */
	TAILQ_HEAD(nic_ah_list, nic_ah) ahs;
	uint32_t num_ahs, max_ahs;
	struct nic_ah *
		asking; /* the handle that the worker has; one at a time, so that other pools have their turn */
};

/* A UD QP's part of struct nic_qp; ud.c. [lock] after nic_ud_make(). */
struct nic_ud {
	struct nic_qp *nq;
	struct nic_ud_pool *pool;
	uint8_t *mem; /* buffers: num_recv of recv_size bytes, then num_send of mtu bytes */
	size_t size;
	struct ibv_mr *mr;
	uint32_t num_recv, num_send, mtu, recv_size;
	uint32_t qkey;	/* [ctl] of the NIC's QP */
	uint16_t *free; /* receive buffers that the NIC does not have */
	uint32_t num_free;
	struct nic_ah **sent; /* [num_send] handles of the datagrams between una and tail */
	/* The members from here on are about the datagram at hand. */
	bool is_mine; /* the NIC carries the datagram */
	bool paid;    /* the limits have let the datagram through */
	struct nic_ah *ah;
	bool waits; /* `wait` is on ah->waiting */
	LIST_ENTRY(nic_ud) wait;
};

enum nic_tunnel_state {
	TUNNEL_DOWN,  /* no datagrams: all go by the wire */
	TUNNEL_UP,    /* datagrams are sent and received */
	TUNNEL_BROKEN /* as DOWN; the control thread is to bring the QP up again */
};

/*
 * The router's own UD QP, for datagrams between containers of two hosts; ud_tunnel.c. [lock] after
 * nic_ud_tunnel_start().
 */
struct nic_ud_tunnel {
	struct ibv_qp *ib;
	struct nic_cq *cq;
	uint8_t *mem; /* buffers of buf_size bytes: those of receives, then those of sends */
	size_t size;
	struct ibv_mr *mr;
	uint32_t buf_size;
	struct nic_ud_pool pool; /* handles of other hosts */
	struct nic_ah **sent;	 /* handles of the datagrams between una and tail */
	uint32_t una, tail;
	uint16_t life;
	enum nic_tunnel_state state;
};

/* WRs of one QP that the NIC gets next. A QP with nic_qp.ex gets its WRs as they come, without a batch. */
struct nic_batch {
	struct nic_qp *nq;
	uint32_t n;
	struct ibv_send_wr wr[NIC_BATCH];
	struct ibv_sge sge[NIC_BATCH][FF_MAX_SGE];
};

/* Descriptors in epoll beside that of completions. epoll names one by the address &dev->ear[...]. */
enum nic_ear {
	NIC_EAR_ASYNC, /* the NIC's asynchronous events */
	NIC_EAR_NODE,  /* inotify: device files come and go */
	NIC_NUM_EARS
};

/*
 * The life of a NIC. unplug.c takes a removed NIC from LOST to AWAY, and brings it from AWAY to UP when it is back.
 * Only in UP may anybody call the NIC, except for what a state says.
 */
enum nic_dev_state {
	NIC_CLOSED, /* the router starts or ends: who opens or closes the NIC may call it */
	NIC_UP,	    /* runner, control thread and workers call the NIC */
	NIC_LOST, /* the NIC was removed: the control thread waits for jobs, then takes down what was made on it */
	NIC_ENDING,  /* the worker destroys all that was made on the NIC, and closes it */
	NIC_AWAY,    /* nothing of the NIC is open; the timer dev->look says when to look for it */
	NIC_DUE,     /* nothing is open; the control thread has the worker look for the NIC next */
	NIC_OPENING, /* the worker looks for the NIC and opens it */
	NIC_DEV_NUM_STATES
};

/* host->nic[].dev */
struct nic_dev {
	struct fast *f;
	const struct nic_conf *conf;
	struct host_nic *host; /* what other rooms know of the NIC */
	struct nic_lib lib;
	struct ibv_device **list, *device; /* the list of devices, and the one that is this NIC */
	struct ibv_context *ctx;
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;
	struct ibv_odp_caps odp; /* what the NIC can do with on-demand memory */
	struct ibv_comp_channel *channel;
	union ibv_gid gid;
	uint8_t port, gid_index;
	uint32_t max_inline; /* bytes that a QP of the NIC takes inline */
	bool is_iwarp;	     /* the NIC speaks iWARP: cm/iwarp.c */
	bool is_siw;	     /* the NIC is the kernel's siw, which speaks iWARP */
	bool is_rxe;	     /* the NIC is the kernel's rxe */
	bool is_quiet;	     /* log no errors of opening and closing, because the log has them */
	_Atomic enum nic_dev_state state; /* [lock] to write, by nic_dev_to() */
	bool port_is_new;  /* the control thread is to look at the NIC's port and GIDs. [lock] */
	struct timer look; /* NIC_AWAY: when to look whether the NIC is back */
	struct timer end;  /* for the first QP of to_end */
	uint64_t ear[NIC_NUM_EARS]; /* only their addresses are used: enum nic_ear */
	int node_fd;		    /* NIC_EAR_NODE; -1: inotify cannot be used */
	struct nic_worker *worker;
	struct nic_ucma *
		ucma; /* rdma_cm in the NIC's network; NULL: containers may not use the NIC's GID */
	LIST_HEAD(, nic_cq) cqs;
	uint16_t lives; /* the life begun last; each RESET of a QP begins one. [ctl] */
	TAILQ_HEAD(nic_list, nic_qp) to_fill; /* QPs with receives that the NIC has not. [lock] */
	TAILQ_HEAD(, nic_qp) undecided; /* QPs of which nobody knows yet who carries them. [lock] */
	TAILQ_HEAD(, nic_qp) to_end;	/* QPs that the control thread is to take to ERR. [lock] */
	struct nic_batch batch;		/* [lock] */
	LIST_HEAD(, nic_srq) srqs;
	TAILQ_HEAD(, nic_srq) srqs_to_fill; /* [lock] */
	uint16_t srq_ids;		    /* [ctl] the nic_srq.id given last */
	struct ibv_pd *ud_pd;		    /* [ctl] the PD of all UD QPs; NULL: there are none */
	LIST_HEAD(, nic_ud_pool) ud_pools;  /* [ctl] */
	struct nic_worker *ah_worker;	    /* for address handles; NULL: there are none */
	struct nic_jobs ahs_held; /* [lock] jobs of handles that came while the NIC is not up */
	struct nic_ud_tunnel ud_tunnel;
	/* pace.c: mlx5's scheduling tree; without it, what the NIC's packet pacing can do */
	struct mlx5dv_sched_node *pace_root;
	struct ibv_packet_pacing_caps pacing;
	LIST_HEAD(, nic_pace) paces;
	LIST_HEAD(, pace_tenant) pace_tenants;
	uint32_t pace_seen; /* host->limits_changed when the limits were last applied */
	bool pace_failed;   /* the log has the NIC's failure */
};

/* A receive of an SRQ that the NIC has, as it was posted. */
struct nic_srq_recv {
	uint64_t wr_id;
	uint32_t at; /* the receive's place in the ring */
	uint16_t num_sge;
	struct ff_sge sge[]; /* room for srq->max_sge */
};

/* srq->nic: srq.c, [lock] except for functions that say [ctl] */
struct nic_srq {
	LIST_ENTRY(nic_srq) entry; /* dev->srqs */
	struct nic_dev *d;
	struct srq *srq;
	struct ibv_srq *ib;
	struct nic_cq *cq; /* for completions of the SRQ's receives */
	uint16_t id;	   /* in wr_ids */
	uint32_t depth, max_sge;
	uint8_t *recv;	/* [depth] struct nic_srq_recv: the receives that the NIC has */
	bool *is_given; /* [depth] the NIC has the receive of that place */
	uint32_t *free; /* places in recv[] without a receive */
	uint32_t num_free;
	uint32_t num_carried; /* QPs that the NIC carries and that receive from the SRQ */
	uint32_t num_soft;    /* QPs on the NIC that receive from the SRQ by the software device */
	uint32_t num_alone;   /* QPs that receive from the SRQ and are not on the NIC */
	bool is_broken;	      /* the NIC takes no more receives */
	bool is_to_fill;
	TAILQ_ENTRY(nic_srq) fill; /* dev->srqs_to_fill */
};

/* By what a QP receives from its SRQ. */
enum nic_srq_use {
	SRQ_UNUSED,  /* the QP does not receive from an SRQ */
	SRQ_BY_SOFT, /* the software device serves the QP; it is counted in ns->num_soft */
	SRQ_BY_NIC,  /* the NIC does; the QP is counted in ns->num_carried */
	SRQ_LEAVING /* as BY_NIC, but the QP goes: messages that still come for the QP are dropped */
};

/*
 * What the NIC does with a QP, which is beside the QP's state of InfiniBand. Only from CARRIED to ENDED does the NIC
 * carry the QP: nic_qp_is_carried().
 */
enum nic_qp_state {
	NIC_QP_SOFT, /* the NIC's QP gets nothing: the QP is before RTR, or the software device carries it */
	NIC_QP_UNDECIDED, /* as SOFT; RTR is being prepared, and nobody knows yet who carries the QP */
	NIC_QP_ASKING,	  /* on dev->undecided: WRs wait until path.c knows who carries the QP */
	NIC_QP_CARRIED, /* the NIC gets WRs and receives; its completions are the container's */
	NIC_QP_FAILING, /* as CARRIED; the NIC has said that its QP goes to ERR by itself */
	NIC_QP_ENDING, /* on dev->to_end, to be taken to ERR; gets nothing more; completions still come */
	NIC_QP_ENDED, /* the NIC's QP is in ERR; completions still come */
	NIC_QP_UD,    /* of a UD QP only: the NIC sends and receives datagrams of the NIC's GID */
	NIC_QP_NUM_STATES
};

/* The state of a QP's connection with iWARP: cm/iwarp.c has the table. */
enum nic_iw { IW_NONE, IW_READY, IW_ASKED, IW_UP, IW_DOWN };

/* qp->nic */
struct nic_qp {
	struct nic_dev *d;
	struct qp *qp;
	struct ibv_qp *ib;
	struct ibv_qp_ex *ex; /* `ib` for ibv_wr_*(); NULL: the NIC's driver has no such calls */
	struct nic_cq *cq;
	enum nic_qp_state state; /* [lock] to write, by nic_qp_to() */
	bool waits;		 /* the QP's next WR waits for a completion. [lock] */
	bool is_to_fill;	 /* on dev->to_fill. [lock] */
	uint64_t end_at; /* ENDING: the earliest time when the NIC's QP goes to ERR, by host_now() */
	uint16_t life; /* a new number with each RESET, so that completions of former lives are ignored */
	uint32_t send_depth, recv_depth;
	struct send_wr *sent; /* [send_depth], without the memory that they point to */
	uint32_t una, tail;   /* numbers of the oldest WR under way, and of the next WR */
	uint32_t unposted;    /* how many of the last WRs before `tail` the NIC did not take */
	uint64_t *recv_id;    /* [recv_depth] wr_ids of the posted receives */
	uint32_t recv_una, recv_tail;
	union ibv_gid to;     /* carried: the GID that the NIC sends to */
	struct remote *there; /* carried: the container at that GID, or NULL; a reference. [lock] */
	struct timer ask_again; /* ASKING: when to ask again */
	uint64_t give_up;	/* ASKING: when the waiting WR fails, ns; 0: no WR waits */
	TAILQ_ENTRY(nic_qp) ask;
	struct nic_srq *ns; /* NULL: the QP has receives of its own */
	enum nic_srq_use srq_use;
	struct nic_ud *ud;	       /* a UD QP's part; NULL: no UD QP */
	TAILQ_ENTRY(nic_qp) end, fill; /* `end`: also on struct nic_unplug's list */
	struct nic_pace *pace;	       /* the container's; NULL: the NIC has no rates. [ctl] */
	uint8_t iw;		       /* enum nic_iw; the control thread writes it, [lock] */
	uint32_t iw_conn; /* [ctl] the number of the connection that was asked for; 0: none */
};

/* mr->backend */
struct nic_mr {
	struct ibv_mr *ib;
	uint64_t base; /* the NIC's address of the MR's first byte; the container's address is the iova */
	void *window; /* a mapping of the MR's pages in a row; NULL: the MR's runs are in a row already */
	size_t size;		    /* bytes of `window` */
	struct view_pages pages;    /* of on-demand memory */
	uint64_t length;	    /* bytes that are registered */
	SLIST_ENTRY(nic_mr) unplug; /* on struct nic_unplug's list */
};

/*
 * The network that the NIC shares with other hosts' NICs; NULL: none, as with iWARP, where routers cannot connect QPs.
 */
static inline const char *nic_net_of(const struct nic_dev *d)
{
	return d->is_iwarp ? NULL : d->conf->net;
}
/* Does the router use UD QPs of the NIC: containers', or its own one? */
static inline bool nic_has_ud(const struct nic_dev *d)
{
	return !d->is_iwarp && (d->conf->direct || d->conf->net);
}

/* state.c */
/* [lock] The NIC is in that state from now on. False: the state must not follow, so nothing has changed. */
bool nic_dev_to(struct nic_dev *d, enum nic_dev_state to);
static inline bool nic_is_up(const struct nic_dev *d)
{
	return d->state == NIC_UP;
}

/* [lock] The NIC's part of the QP is in that state from now on. False: the state must not follow, as above. */
bool nic_qp_to(struct nic_qp *nq, enum nic_qp_state to);
static inline bool nic_qp_is_carried(const struct nic_qp *nq)
{
	return nq->state >= NIC_QP_CARRIED && nq->state <= NIC_QP_ENDED;
}
static inline bool nic_qp_is_undecided(const struct nic_qp *nq)
{
	return nq->state == NIC_QP_UNDECIDED || nq->state == NIC_QP_ASKING;
}
/* [lock] The NIC says that its QP fails. */
static inline void nic_qp_fails(struct nic_qp *nq)
{
	if (nq->state == NIC_QP_CARRIED)
		nic_qp_to(nq, NIC_QP_FAILING);
}

/* worker.c; control thread, except where a comment says otherwise */
struct nic_worker *nic_worker_new(struct fast_host *host); /* without a thread; NULL: no memory */
int nic_worker_start(
	struct nic_worker *w); /* called by the runner; starts the thread. 0 or -errno */
/* End the thread. From now on nic_job_give() does the job at once. */
void nic_worker_join(struct nic_worker *w);
/* Take all jobs back, then free the worker. NULL: do nothing. */
void nic_worker_free(struct nic_worker *w);
void nic_job_give(struct nic_worker *w, struct nic_job *job); /* also the runner */
/* Call `back` of the jobs that are done. Returns the number of jobs that have not come back. */
uint32_t nic_jobs_back(struct nic_worker *w);
void nic_jobs_settle(struct nic_worker *w); /* wait until all jobs have come back */
/* True: the thread had not begun the job; the job is the giver's again, and does not come back. False: too late. */
bool nic_job_cancel(struct nic_worker *w, struct nic_job *job);
/* Cancel all jobs that the thread has not begun: move them to *to, in their order. */
void nic_jobs_cancel(struct nic_worker *w, struct nic_jobs *to);
/* Any thread: if the worker is in this job, interrupt the call that the job waits in (EINTR). Is the worker in it? */
bool nic_job_interrupt(struct nic_worker *w, const struct nic_job *job);
/* Interrupt the job again and again until the worker is done with it. The job comes back with the others. */
void nic_job_await(struct nic_worker *w, const struct nic_job *job);

/* event.c; runner, [lock] */
void nic_events(struct nic_dev *d);	 /* asynchronous events are there */
void nic_node_events(struct nic_dev *d); /* device files have come or gone */
/* The NIC can be used no more: nobody calls it from now on, and the control thread takes it down. */
void nic_lose(struct nic_dev *d);
/* Send an event of the port to the NIC's containers, if they use the port. */
void nic_tell_port(struct nic_dev *d, enum ibv_event_type type);
/* Control thread, no lock: the port has changed, and maybe the NIC's GID. */
void nic_look_at_port(struct nic_dev *d);
/* Flush a QP in ERR whose completions the NIC does not bring any more. */
void nic_qp_flush(struct fast *f, struct nic_qp *nq);

/* unplug.c; control thread, no lock */
void nic_unplug_work(
	struct nic_dev *d); /* take a lost NIC down, or a returned one into use, if there is one */
void nic_on_look(struct timer *t); /* dev->look has come; runner, [lock] */
/* Tell containers and other hosts that the NIC's GID has changed. */
void nic_tell_gid(struct nic_dev *d);
/* Tell other hosts that the NIC is in that network; "": in none. */
void nic_tell_net(struct nic_dev *d, const char *net);

/* dev.c */
extern const char *nic_node_dir; /* the folder of device files; tests set another one */
/* Open all NICs. 0 or -errno, with a line in the log. */
int nic_open(struct fast *f, const struct nic_conf *conf);
void nic_close(struct fast *f);
/*
 * Open the NIC and the descriptors that the runner listens to. d->device NULL: look for the device, and find out what
 * it is and has. Called by the thread that will ring the NIC's doorbells. 0; or -errno, and nothing is open.
 */
int nic_dev_open(struct nic_dev *d);
void nic_dev_close(
	struct nic_dev *d); /* close what nic_dev_open() has opened, and free the list of devices */
void nic_dev_forget(
	struct nic_dev *d); /* forget what nic_dev_open() has opened: another nic_dev has it */
int nic_dev_listen(struct nic_dev *d);	/* put the NIC's descriptors into epoll. 0 or -errno */
void nic_dev_deafen(struct nic_dev *d); /* take the NIC's descriptors out of epoll */
/* The NIC's PD for `pd`, made if there is none yet; NULL: errno. */
struct ibv_pd *nic_pd(struct nic_dev *d, struct pd *pd);
/* A CQ of the container with room for n more completions; NULL: errno. */
struct nic_cq *nic_cq_get(struct nic_dev *d, const struct container *c, uint32_t n);
void nic_cq_put(struct nic_cq *cq, uint32_t n);
void nic_heard(struct nic_dev *d); /* events are in dev->channel */

/* gid.c; control thread, or worker. 0 or an errno */
int nic_query_port(struct nic_dev *d);
int nic_choose_gid(struct nic_dev *d); /* set d->gid and d->gid_index */
/* The address of the network device that has this GID. */
int nic_iwarp_address(const struct ibv_gid_entry *e, union ibv_gid *to);

/* qp.c, [lock] */
/* The QP has a new state. True: the NIC has the QP, and has done what follows from the state. */
bool nic_qp_modify(struct fast *f, struct qp *qp, enum ibv_qp_state old);
void nic_qp_forget(struct fast *f, struct qp *qp); /* the QP ends: no runner uses it any more */
/*
 * The NIC is gone: the QP is the software device's from now on, and goes to ERR if the NIC carried it. Returns the
 * NIC's part, which is the caller's.
 */
struct nic_qp *nic_qp_lose(struct fast *f, struct qp *qp);
/* Have the control thread take the NIC's QP to ERR, so that the WRs and receives that the NIC has end. */
void nic_end_later(struct fast *f, struct nic_qp *nq);
void nic_on_end(struct timer *t); /* dev->end has come; runner, [lock] */
/* Control thread, no lock. Give the NIC's QP, which is in INIT, all posted receives. 0 or -errno */
int nic_take_receives(struct fast *f, struct nic_qp *nq, const struct ff_qp_attr *a);
/* Do the attributes change something that a QP of the NIC cannot change in SQD, nor in RTS? */
bool nic_is_for_sqd(const struct ff_qp_attr *old, const struct ff_qp_attr *a);
/* Control thread, no lock. Take the NIC's QP to RTR, to send to nq->to. 0; or -errno: all is as before. */
int nic_to_rtr(struct fast *f, struct nic_qp *nq, const struct ff_qp_attr *a);
/* Control thread, no lock. Take the NIC's QP to RTS. 0 or an errno */
int nic_to_rts(struct nic_dev *d, struct nic_qp *nq, const struct ff_qp_attr *a);

/* The path *a to nq->to, as an attribute for the NIC. */
struct ibv_ah_attr nic_ah_attr(const struct nic_dev *d, const struct nic_qp *nq,
			       const struct ff_ah_attr *a);
/* Create a QP of the NIC whose number fits into the router's table. NULL: errno. */
struct ibv_qp *nic_create_fitting(struct nic_dev *d, const struct qp_table *t, struct ibv_pd *pd,
				  struct ibv_qp_init_attr *attr);
/* pace.c */
void nic_pace_open(struct nic_dev *d); /* find out what the NIC can do; d->ctx is there */
void nic_pace_close(struct nic_dev *d);
/* Move everything that pace.c has on the NIC from one nic_dev to the other. */
void nic_pace_move(struct nic_dev *to, struct nic_dev *from);
void nic_pace_get(struct nic_dev *d,
		  struct nic_qp *nq); /* set nq->pace, if the container has rates */
void nic_pace_put(struct nic_dev *d, struct nic_qp *nq);
void nic_pace_begin(struct nic_dev *d, struct nic_qp *nq); /* the NIC's QP is in RTS, or INIT */
void nic_pace_update(struct nic_dev *d);		   /* limits may have changed: apply them */

/* path.c, [lock] */
/* Which device carries a path? UNKNOWN: the other host has not told yet what it has. */
enum nic_path { PATH_SOFT, PATH_NIC, PATH_UNKNOWN };
/*
 * Does the NIC or the software device carry a path that begins at the QP? PATH_NIC: *to is the peer's GID, *there the
 * peer's container, or NULL.
 */
enum nic_path nic_path_of(struct fast *f, const struct qp *qp, const struct ff_ah_attr *a,
			  union ibv_gid *to, struct remote **there);
void nic_set_there(struct fast *f, struct nic_qp *nq,
		   struct remote *there); /* nq->there, or NULL */
/* An undecided QP has a new state. True: the software device has nothing to do. */
bool nic_undecided_modify(struct fast *f, struct nic_qp *nq, enum ibv_qp_state old);
void nic_undecided_end(struct fast *f, struct nic_qp *nq);
/* The NIC is gone: the software device carries the undecided QP from now on. */
void nic_undecided_lose(struct fast *f, struct nic_qp *nq);
/* Control thread, no lock: take one undecided QP whose carrier is known now to that carrier. False: there is none. */
bool nic_decide_one(struct nic_dev *d);
void nic_qp_ask(struct fast *f); /* the router has learnt something that may decide undecided QPs */
void nic_policy_changed(struct fast *f);
static inline void nic_wake(struct fast *f) /* have the control thread call nic_work() */
{
	fast_want_work(f->host);
}
/* A WR or a receive of the QP has ended at the NIC. After the last one, flushing that waits for that goes on. */
void nic_qp_ended_one(struct fast *f, struct nic_qp *nq);

/* post.c; runner, [lock] */
extern const struct send_ops nic_send;
void nic_batch_post(struct nic_dev *d);
void nic_batch_drop(struct nic_dev *d); /* drop the batch: the NIC does not get its WRs */
/* Give the NIC NIC_FILL posted receives at most. True: there are more. */
bool nic_recv_fill(struct fast *f, struct nic_qp *nq);
/* Give the NIC posted receives, NIC_FILL in this turn and the rest in the next turns. */
void nic_recv_fill_all(struct fast *f, struct nic_qp *nq);
uint32_t
nic_fill_on(struct nic_dev *d); /* in each turn: go on with dev->to_fill. The number of QPs */

/*
 * Translate a WR's SGEs to the NIC's lkeys and addresses: *num entries. Their MRs must be of that container and PD.
 * FF_VERR_NONE: the WR may use that memory.
 */
enum ff_vendor_err nic_sges(const struct container *c, const struct pd *pd,
			    const struct ff_sge *sge, uint32_t n, uint32_t access,
			    struct ibv_sge *to, int *num);

/* srq.c */
/* [ctl], no lock. The NIC's part of the SRQ, made if there is none yet; NULL: errno. */
struct nic_srq *nic_srq_get(struct fast *f, struct srq *srq);
void nic_srq_break(struct fast *f, struct srq *srq);
/* [ctl], no lock: fetch what the NIC's QP has received, before the QP is reset or destroyed. */
void nic_srq_leave(struct nic_qp *nq);
/* [lock] The QP receives from its SRQ from now on: SRQ_BY_NIC or SRQ_BY_SOFT. */
void nic_srq_use(struct fast *f, struct nic_qp *nq, enum nic_srq_use by);
/* [lock] The QP does not receive from its SRQ any more. */
void nic_srq_unuse(struct nic_qp *nq);
struct nic_srq_recv *nic_srq_recv(const struct nic_srq *ns, uint32_t place);
/* [lock] A QP that is not on the NIC has changed its state, or goes: count nic_srq.num_alone anew. */
void nic_srq_count(struct fast *f, struct srq *srq, const struct qp *goes);
/*
 * [ctl], no lock. The NIC and its QPs are gone: put the receives that the NIC had into the ring again, in order. The
 * NIC's part of the SRQ is the caller's, for nic_srq_free(), which the worker may call.
 */
void nic_srq_lose(struct fast *f, struct srq *srq);
void nic_srq_free(struct nic_lib *lib, struct nic_srq *ns); /* without its CQ */
/* [lock] The NIC says that the SRQ, or the SRQ's CQ, has failed. */
void nic_srq_broken(struct fast *f, struct nic_srq *ns);
/* [lock] Give the NIC posted receives, as many as one turn may, and the rest in the next turns. */
void nic_srq_fill(struct fast *f, struct nic_srq *ns);
uint32_t
nic_srq_fill_on(struct nic_dev *d); /* in each turn: go on with srqs_to_fill. The number of SRQs */
/* [lock] A completion of an SRQ's receive; qp: the QP of the completion's number, or NULL. */
void nic_srq_completion(struct nic_dev *d, struct qp *qp, const struct ibv_wc *wc);

/* comp.c; runner, [lock] */
/* The receive with that wr_id has ended, as *wc says. */
void nic_received(struct fast *f, struct nic_qp *nq, uint64_t id, const struct ibv_wc *wc);
uint32_t nic_poll(struct nic_dev *d); /* take completions of all CQs. Their number */
int nic_poll_cq(struct nic_cq *cq);   /* take completions of this CQ. Their number, or < 0 */
void nic_cq_drain(struct nic_cq *cq); /* take all completions that are there */
/* The NIC did not take the last nq->unposted WRs: end them when all WRs before them have ended. */
void nic_unposted(struct fast *f, struct nic_qp *nq);

/* ah.c */
int nic_ahs_start(struct nic_dev *d); /* runner, before its sandbox. 0 or -errno */
void nic_ahs_stop(struct nic_dev *d);
/* [lock] The pool's handle of that path, for one user more. NULL: the pool has too many, or there is no memory. */
struct nic_ah *nic_ah_get(struct nic_dev *d, struct nic_ud_pool *pool,
			  const struct ibv_ah_attr *attr);
static inline void nic_ah_put(struct nic_ah *ah)
{
	ah->users--;
}
/* [lock] Nobody uses the pool any more: end its handles. */
void nic_ahs_forget(struct nic_ud_pool *pool);
/* [ctl], no lock. Take back what the worker has made and ended. Returns the number of jobs that it has yet. */
uint32_t nic_ahs_work(struct nic_dev *d);
/* End the handles of these jobs. The worker may call this. */
void nic_ahs_end(struct nic_lib *lib, struct nic_jobs *jobs);

/* ud_tunnel.c */
/* Runner, before its sandbox, or [ctl] when the NIC is back. 0; or an errno: call nic_ud_tunnel_stop() */
int nic_ud_tunnel_start(struct nic_dev *d);
void nic_ud_tunnel_stop(struct nic_dev *d);
/*
 * [ctl], [lock] The NIC is gone: move the tunnel to *to, for nic_ud_tunnel_free(), which the worker may call. The CQ
 * stays the NIC's.
 */
void nic_ud_tunnel_lose(struct nic_dev *d, struct nic_ud_tunnel *to);
void nic_ud_tunnel_free(struct nic_lib *lib, struct nic_ud_tunnel *t);
/* [lock] The NIC says that the tunnel's QP has failed. */
void nic_ud_tunnel_failed(struct nic_dev *d);
/* [lock] The NIC says that the tunnel's CQ has failed: no tunnel until the NIC is opened anew. */
void nic_ud_tunnel_cq_failed(struct nic_dev *d);
void nic_ud_tunnel_work(struct nic_dev *d); /* [ctl], no lock: bring a broken tunnel up again */
/* [lock] Send a datagram of the container to that host, with its GRH. False: the NIC does not; the wire has to. */
bool nic_ud_tunnel_send(const struct container *c, struct wire_peer *p, const struct wire_hdr *h,
			const void *payload);
void nic_ud_tunnel_completion(struct nic_dev *d, const struct ibv_wc *wc);

/* The software device's operations for a QP that the NIC does not carry. */
const struct send_ops *nic_other_send(const struct qp *qp);

/* ud.c */
/* Take a UD QP of the NIC to the state `to`. 0 or an errno */
int nic_ud_to(struct nic_dev *d, struct ibv_qp *ib, enum ibv_qp_state to, uint32_t qkey);
extern const struct send_ops nic_ud_send;
/* [ctl], no lock. Make the UD part of a QP, unless only the software device is to have the QP. 0 or -errno */
int nic_ud_make(struct nic_qp *nq);
void nic_ud_break(struct nic_qp *nq);
/* [lock] The NIC is gone: drop the QP's datagram at hand, and those that the NIC had. */
void nic_ud_lose(struct fast *f, struct nic_qp *nq);
/* [ctl], no lock. Leave the container's pool. nic_ud_free(), which the worker may call, frees the rest. */
void nic_ud_leave(struct nic_dev *d, struct nic_ud *u);
void nic_ud_free(struct nic_lib *lib, struct nic_ud *u); /* NULL: do nothing */
int nic_ud_prepare(struct fast *f, struct nic_qp *nq, const struct ff_qp_attr *attr,
		   enum ibv_qp_state now, enum ibv_qp_state next);
/* [lock] */
void nic_ud_modify(struct fast *f, struct nic_qp *nq);
void nic_ud_forget(struct nic_qp *nq);
void nic_ud_completion(struct fast *f, struct nic_qp *nq, const struct ibv_wc *wc);
/* mr.c */
void nic_mr_free(struct nic_lib *lib, struct nic_mr *nm);

/* The functions that carrier.c calls for the ops of struct carrier. */
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

/* The container's NIC. */
static inline struct nic_dev *nic_of(const struct container *c)
{
	return c->fast->host->nic[c->nic].dev;
}

/* The host's first NIC; then the next one. NULL: there is none. */
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

/* The NIC's wr_id of a WR or a receive: the QP's life, the queue, the place in the queue. */
#define NIC_ID_RECV   (1ull << 32)
#define NIC_ID_TUNNEL (1ull << 34) /* of the router's own QP; life is the tunnel's */
#define NIC_ID_SRQ    (1ull << 33) /* of an SRQ's receive; nic_srq.id takes the place of life */
static inline uint64_t nic_id(const struct nic_qp *nq, uint64_t queue, uint32_t place)
{
	return (uint64_t)nq->life << 48 | queue | place;
}

#endif

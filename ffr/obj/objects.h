/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * objects.h - what the router keeps about containers, sessions, PDs, MRs, CQs, SRQs, QPs and AHs.
 *
 * Ownership: every object belongs to one session and dies with it. All of it is private to the
 * router; the client sees handles (session-wide), QP numbers (router-wide) and keys
 * (container-wide).
 *
 * Locking: everything here is read and written with the fast lock held (fast.h), that of the thread
 * whose container it is (fast/threads.c). A runner (fast thread) holds it while it runs, the control
 * thread takes those of all threads with fast_lock() for the short time that a change needs. Fields
 * marked [ctl] are the control thread's alone and need no lock.
 *
 * The room ffr/obj/ is these objects, their tables, what they count and what limits them (quota.h, rate.h,
 * cpu.h): state, and the rules that are about nothing else. It may use abi/, lib/ and the orchestrator's
 * limits (ffo/base/), and takes no lock: its caller has it.
 */
#ifndef FFR_OBJ_OBJECTS_H
#define FFR_OBJ_OBJECTS_H

#include <infiniband/verbs.h>
#include <bsd/sys/queue.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "ffr/abi/ff_proto.h"
#include "ffo/base/ffo_limits.h"
#include "ffr/abi/ff_ring.h"
#include "ffr/obj/cpu.h"
#include "ffr/obj/gid.h"
#include "ffr/obj/lat.h"
#include "ffr/obj/odp.h"
#include "ffr/obj/quota.h"
#include "ffr/obj/rate.h"
#include "ffr/obj/stats.h"
#include "ffr/lib/log.h"
#include "ffr/lib/timer.h"

struct fast;
struct fast_host;
struct ctl_conn;
struct send_ops;
struct soft_qp;
struct nic_qp;
struct nic_srq;
struct trace;
struct session;
struct ledger;
struct cm_cont;
struct cm_chan;

/* ---- handle tables (objects.c) ---------------------------------------------------------- */

enum obj_kind {
	OBJ_PD = 1,
	OBJ_MR,
	OBJ_CHANNEL,
	OBJ_CQ,
	OBJ_SRQ,
	OBJ_QP,
	OBJ_AH,
	OBJ_XRCD,
	OBJ_CM_ID,
	OBJ_MW,
	OBJ_DM,
	OBJ_NUM_KINDS
};

/* First member of every object that a client names by a handle. */
struct obj {
	uint32_t handle;
	uint8_t kind;  /* enum obj_kind */
	uint32_t refs; /* objects of the same session that use this one; destroy needs 0 */
	uint32_t slot; /* [ctl] of its record in the session's ledger; 0: none */
	struct session *ses;
};

/* Dense table of one kind; the index is the handle's low 16 bits, the rest its generation. */
struct obj_table {
	struct obj **slot;
	uint16_t *gen;
	uint32_t size, used, next_free;
	uint32_t max;
	uint16_t first_gen; /* of a place that was never used, less 1 */
};

/* 0 and o->handle set, or -ENOMEM when the table is full. */
int obj_insert(struct obj_table *t, struct obj *o);
/* The same with the handle that it has: that of an object of a former router. -EEXIST: there is no such place. */
int obj_insert_at(struct obj_table *t, struct obj *o);
void obj_remove(struct obj_table *t, struct obj *o);
/* The live object of that handle, or NULL: out of range, stale generation, or handle 0. */
static inline struct obj *obj_get(const struct obj_table *t, uint32_t handle)
{
	uint32_t i = FF_HANDLE_INDEX(handle);
	struct obj *o = i < t->size ? t->slot[i] : NULL;

	return o && o->handle == handle ? o : NULL;
}
void obj_table_free(struct obj_table *t);

/* ---- container ---------------------------------------------------------------------------- */

#define CONTAINER_NAME_MAX 64
#define CONTAINER_MAX_GIDS 8

/* Key -> object, for all of a container's sessions: open addressing, keys random (keys.c). */
struct key_table {
	struct key_slot {
		uint32_t key; /* 0: free */
		void *obj;
	} * slot;
	uint32_t size; /* a power of two */
	uint32_t used;
};

/* The containers of one tenant on this host, as far as limits go. fast/rate.c */
struct tenant {
	LIST_ENTRY(tenant) entry; /* host->tenants */
	char name[CONTAINER_NAME_MAX];
	uint32_t num_containers;
	struct ffo_limits limits; /* the orchestrator's; of all its containers here together */
	bool limited;		  /* one of its meters may close */
	struct rate_meter meter[RATE_DIRS];
	uint64_t gather_since; /* ns; its limits wait until its containers are on one thread */
	struct container *any; /* [ctl] fast/threads.c, while it looks for groups */
	struct quota_use use;  /* [ctl] */
	struct cpu_meter cpu;
};

/*
 * What is kept in a container for the file that is named, which has the rules; cont_cpu, cont_rate and
 * cont_quota are in cpu.h, rate.h and quota.h. [lock] but where it says [ctl].
 */

/* fast/loop.c: QPs and SRQs that it says have news, which one turn looks at */
struct cont_news {
	uint64_t turn; /* fast->turn that `left` is of */
	uint32_t left;
};

/* fast/turns.c: its QPs with work, and its share of the thread's turns */
struct cont_turns {
	TAILQ_HEAD(qp_list, qp) active;
	TAILQ_ENTRY(container) entry; /* fast->turns, while there are any */
	uint32_t num_active;
	uint8_t kind;	/* enum turn, while there are any */
	uint32_t round; /* fast->round that `credit` is of */
	int64_t credit; /* bytes that it may move in this round */
	uint64_t load;	/* what it has cost its thread so far */
};

/* fast/threads.c: on which thread it has to be */
struct cont_place {
	bool hold;	 /* it is about to move: none of its QPs is served */
	bool at_first;	 /* it has to stay on the first thread */
	bool near_first; /* it waits to be there */
	struct container
		*near; /* it waits to be on the thread of that container; NULL: it does not */
	/* [ctl] */
	uint64_t load_seen;	 /* of turns.load, when fast_balance() last looked */
	uint64_t load_rate;	 /* so much in the time before */
	struct container *group; /* while it looks for groups */
};

/* fast/mw.c: its windows that were bound or unbound */
struct cont_mw {
	TAILQ_HEAD(mw_list, mw) changed;
	TAILQ_ENTRY(container) entry; /* fast->mw_turns, while there are any */
};

/* fast/trace.c, [ctl] */
struct cont_trace {
	bool on;
	uint32_t qp_num; /* only that QP; 0: all */
};

/* mem/stall.c, [ctl]: for how long a container's files have kept the router waiting */
struct cont_stall {
	uint64_t debt, at; /* ns; at that time */
	uint32_t unmaps;   /* its mappings that wait in unmap.c's list */
};

struct container {
	LIST_ENTRY(container) entry;
	LIST_HEAD(, session) sessions;
	LIST_HEAD(, xrcd) xrcds;  /* XRC domains that its sessions have open */
	uint32_t num_xrcds;	  /* number of XRC domains in xrcds */
	struct key_table keys;	  /* lkeys and rkeys of MRs: struct mr */
	struct key_table windows; /* the upper 24 bits of windows' rkeys: struct mw */
	char name[CONTAINER_NAME_MAX];
	char tenant[CONTAINER_NAME_MAX];
	struct tenant *of; /* its tenant, while it is on fast->containers */
	union ibv_gid
		gid[CONTAINER_MAX_GIDS]; /* addresses; IPv4 as ::ffff:a.b.c.d; its table: gid.h */
	uint8_t num_gids;
	bool has_nic_gid; /* nic_gid is its NIC's */
	uint8_t nic;	  /* which of the host's NICs is its; never changes while it has sessions */
	uint16_t lid;
	union ibv_gid nic_gid;
	uint32_t id, epoch; /* the orchestrator's */
	enum ff_mode mode;
	bool dying;		  /* removed from the host; sessions are being closed */
	bool limited;		  /* one of its meters, or of its tenant's, may close */
	struct ffo_limits limits; /* in force: the orchestrator's, and the host's defaults */
	struct fast *fast;	  /* the thread that serves it; fast/threads.c */
	struct cont_news news;
	struct cont_turns turns;
	struct cont_place place;
	struct cont_cpu cpu;
	struct cont_rate rate;
	struct cont_mw mw;
	uint32_t num_mcast;    /* attachments of its QPs to multicast groups */
	struct pvm_queue *pvm; /* pvm.c; NULL until there is a session */
	struct ff_stats stats; /* sums of closed sessions; see stats.c */
	struct lat lat;	       /* likewise */
	/* [ctl] */
	struct cont_quota quota;
	struct cont_trace trace;
	struct cont_stall stall;
	uint64_t dm_bytes;	 /* device memory that its sessions have */
	struct log_limit log;	 /* of what its clients cause */
	struct log_limit events; /* events.c: of its sessions */
	void *ctl;		 /* listening socket and paths */
	struct cm_cont *cm;	 /* ports of its CM ids, NULL while it has none */
};

LIST_HEAD(container_list, container); /* all that are on this host: host->containers */

/* The container with that address, or link-local one, in that tenant, or NULL: not on this host. */
struct container *container_by_gid(const struct container_list *l, const char *tenant,
				   const union ibv_gid *gid);
struct container *container_by_lid(const struct container_list *l, const char *tenant,
				   uint16_t lid);

/* ---- shared memory (seg.c) ------------------------------------------------------------------ */

enum seg_kind { SEG_RINGS = 1, SEG_DM };

/* A memfd that the router created and its client maps. */
struct seg {
	uint32_t id; /* from 0 in the session; 0 starts with struct ff_ses_hdr */
	enum seg_kind kind;
	int fd;	      /* [ctl] */
	uint8_t *map; /* the router's own mapping, all of it */
	uint64_t size;
	bool sealed;		  /* [ctl] seg_check() has seen the client's seal */
	bool sent;		  /* [ctl] the client has its descriptor */
	int watch;		  /* [ctl] sigbus.c's number */
	struct ring_pages *alloc; /* [ctl] seg.c's page allocator */
	bool is_held;	   /* [ctl] the nursery has it mapped: the next router can reach it */
	uint32_t slot;	   /* [ctl] ctl/record.c: of its record, */
	uint32_t recorded; /* [ctl] which tells of so many pages */
};

/* ---- session ---------------------------------------------------------------------------------- */

/* What is kept in a session, as in a container, for the file or room that is named. */

/* fast/bells.c: how the runner hears of its postings */
struct ses_bells {
	TAILQ_ENTRY(session) entry; /* fast->active_sessions, while is_active */
	bool is_active;		    /* its dirty set is looked at in every turn */
	bool are_mute; /* segment 0 is not sealed yet, and the runner does not touch it */
	bool deaf;     /* fast/cpu.c: its bell is not listened to, since the container is parked */
	uint32_t srq_kick_seen;
	/* slots of the SRQs' table that are to be looked at, from there on */
	uint32_t srq_at, srqs_left;
};

/* fast/decide.h, rule 2: does the runner wait until a client sleeps? */
struct sched_patience {
	uint16_t asleep;  /* so often in a row an event told it of what it got */
	uint16_t need;	  /* how often in a row an event has to tell it; 0: not known yet */
	uint16_t in_time; /* so often in a row its bell was heard in time */
};

/* fast/sched.c: who posts where */
struct ses_sched {
	SLIST_ENTRY(session) entry; /* fast->touched, while is_touched */
	bool is_touched, turn_data; /* in this turn: listed; data was delivered to it */
	bool turn_note;		    /* in this turn: a message without data was delivered to it */
	bool turn_event;	    /* in this turn: an event was delivered to it */
	uint32_t home;		    /* what hdr->home says */
	struct sched_patience patience; /* fast/decide.h, rule 2 */
	bool owed, dialog;		/* got data since its last posting; answered such data */
	uint16_t cpu;			/* CPU of the last posting, 0xffff: none yet */
	uint32_t turn_posts;		/* WRs taken in this turn */
	uint32_t burst;			/* WRs taken since the runner last slept */
	uint32_t at_once;		/* WRs taken at most in one turn */
	uint32_t coal;			/* postings that one bell is to announce, less one */
	uint64_t busy_told;		/* ns: when hdr->busy was last written */
	uint64_t own_at;		/* ns: when data of its own WRs last came to it */
	uint64_t coal_from;		/* ns: no coalescing before ... */
	uint64_t coal_pause;		/* ns: ... for so long */
};

/* mem/: its segments, and what is known of its process's memory. [ctl] */
struct ses_mem {
	struct seg *segs; /* [num_segs] */
	uint32_t num_segs;
	uint32_t num_foreign; /* mappings of its files (shadow.c) */
	struct pages *pages;  /* pages.c: its file of shadow pages, or NULL */
	int node;	      /* NUMA node of its thread, -1: any; its segments come from there */
	int maps_fd;	      /* the client's /proc/self/maps, or -1 */
	bool can_ask;	      /* the kernel answers questions about it (Linux 6.11) */
	uint32_t keeper_id;   /* keeper/keeper.h */
	_Atomic bool gone;    /* any thread: a mapping failed (SIGBUS); it is to be closed */
	/* any thread: for how long those that touched it were kept waiting, at most, ns */
	_Atomic uint64_t gone_ns;
	struct track *track; /* [ctl] track.c: memory that is copied, or NULL */
	bool viewed;	     /* process is ffmem's number for it (view.c) */
	uint32_t process;
	struct heat_ring *hot; /* [lock] heat.h: WATCH_HEAT was asked for; else NULL */
	int status_fd;	       /* its /proc/PID/status, which the keeper has opened, or -1 */
	bool filtered;	       /* the process has other seccomp filters now: hot is over */
	int filters;	       /* seccomp filters that it began with, -1: not known (hot.c) */
	struct mem *later;     /* shadow.h; NULL: all is done at once */
	TAILQ_ENTRY(session) populate; /* populate.c, while populating */
	bool populating;
};

/* ctl/import.c, [ctl] */
struct ses_import {
	uint8_t token[FF_TOKEN_SZ]; /* who has it may import from this session */
	uint32_t of[FF_DEVICES_MAX]; /* ids of the sessions that it imports from, by their device; 0: none */
	LIST_HEAD(, pd) pds; /* handles of imported PDs, also those given back */
};

/* ctl/session.c, [ctl]: how far its end has come */
struct ses_end {
	uint32_t step, at;
};

struct session {
	LIST_ENTRY(session) entry; /* container->sessions */
	struct container *cont;
	struct fast *fast;
	struct ff_ses_hdr *hdr; /* in segment 0; hostile */
	bool mem_gone;	    /* its address space is: it ends soon, or a child keeps its socket */
	uint64_t last_post; /* ns */
	struct ses_bells bells;
	struct ses_sched sched;
	struct obj_table tab[OBJ_NUM_KINDS];
	uint32_t id;
	pid_t pid; /* as the router sees it; from SO_PEERCRED */
	char comm[16];
	int async_fd; /* router's end of the async socket */
	int bell_fd;  /* eventfd that the client writes */
	bool closing;
	uint8_t device;		/* [ctl] which of its container's: gid.h */
	struct pvm_client *pvm; /* pvm.c: its memory */
	struct ff_stats stats;	/* what is of no QP, and sums of closed ones; see stats.h */
	struct lat lat;		/* sums of closed QPs */
	struct ses_mem mem;
	/* [ctl] */
	struct ctl_conn *conn;
	struct ses_import import;
	struct ses_end end;
	struct ledger *ledger; /* what the next router finds; NULL: no router will */
	uint32_t record;       /* its own record there */
	bool is_restored;      /* it is being made again; what the keeper holds of it stays */
};

/* ---- the objects -------------------------------------------------------------------------------- */

struct pd {
	struct obj o;
	/* [ctl] ctl/import.c */
	struct ibv_pd *nic;	     /* the NIC's, or NULL */
	struct pd *of;		     /* imported: the PD that this handle stands for */
	LIST_ENTRY(pd) same_session; /* imported: session->import.pds */
	uint32_t num_imports;	     /* sessions that keep it */
	bool is_gone;		     /* in no table: to be freed with the last of them */
};

struct channel {
	struct obj o;
	int fd;		    /* router's end */
	struct cm_chan *cm; /* [ctl] CM ids and events that wait, NULL while there are none */
};

/* Part of an MR that the router can reach by a pointer. Sorted by va, disjoint. */
struct mr_run {
	uint64_t va, len;	 /* bytes in the application's address space */
	uint8_t *host;		 /* the router's address of va */
	struct foreign *foreign; /* shadow.c: mapping of application-owned shared memory, or */
	struct region *region;	 /* pages.c: of shadow pages, or both are NULL */
};

/* fast/pvm.c: threads that were in calls on a session's memory at a time. */
struct pvm_mark {
	bool runner, worker;
	uint32_t runner_seq, worker_seq;
};

/* What an MR is made of. */
enum mr_kind {
	MR_USER,   /* the application's memory */
	MR_NULL,   /* nothing: reads as zeros, writes vanish; of local use only */
	MR_DM,	   /* device memory */
	MR_DMABUF, /* a dma-buf */
};

enum mr_stage {
	MR_MAPPED, /* nobody can name it; a carrier makes its part */
	MR_USED,   /* it has its keys */
	MR_LEFT, /* it is being deregistered: nobody finds it by a key, and calls end that were under way */
	MR_ENDING, /* a carrier ends its part for a call of the session's: nobody else ends the MR */
};

struct mr {
	struct obj o; /* refs: windows bound to it */
	LIST_HEAD(, mw) windows;
	struct pd *pd;
	uint8_t kind;		     /* enum mr_kind */
	uint8_t why;		     /* [ctl] enum ff_why: for what is copied of it; see mr_why() */
	uint32_t lkey, rkey;	     /* the same number */
	uint32_t access;	     /* IBV_ACCESS_* */
	uint64_t addr, length, iova; /* [iova, iova + length) on the wire is [addr, ...) of pid */
	uint64_t zero_copy;	     /* bytes covered by runs */
	uint32_t num_runs;
	struct mr_run *run;
	uint8_t *view; /* mem/view.c: addr as ffmem shows it, NULL: it does not */
	uint32_t view_object;
	uint32_t pages_object; /* [ctl] ... and as a NIC has it; 0: it does not */
	uint64_t paged; /* [ctl] bytes that the kernel keeps of it for a NIC that pages on demand */
	struct heat *heat;	 /* mem/heat.c; NULL: not counted */
	struct odp *odp;	 /* IBV_ACCESS_ON_DEMAND: its counters, NULL: it is not */
	struct tracked *tracked; /* mem/track.c: where it is in the process; NULL: at addr */
	struct dm *dm;		 /* MR_DM */
	uint8_t *map;		 /* MR_DMABUF: map_len bytes */
	uint64_t map_len;	 /* [ctl] */
	int watch;		 /* [ctl] sigbus.c's number */
	void *backend;		 /* the carrier's part */
	enum mr_stage stage;	 /* [ctl] */
	struct pvm_mark left;
};

/* Device memory: pages of a segment of the session (SEG_DM), which the client maps as well. */
struct dm {
	struct obj o;	 /* refs: MRs */
	uint64_t length; /* bytes asked for */
	uint32_t seg, off;
};

/* A memory window: a part of an MR under an rkey of its own. mw.c */
struct mw {
	struct obj o;
	struct pd *pd;
	uint8_t type;  /* enum ibv_mw_type */
	uint32_t rkey; /* index << 8 | the byte that the last bind gave */
	/* bound to (NULL: to nothing); the part of it: */
	struct mr *mr;
	uint32_t access;       /* IBV_ACCESS_* */
	uint64_t base, length; /* bytes; base is the first one's address on the wire */
	uint64_t va;	       /* the first one's address in the MR, as mr->addr counts */
	struct qp *qp;	       /* type 2: through which QP alone it can be reached */
	LIST_ENTRY(mw) of_qp;  /* qp->windows */
	LIST_ENTRY(mw) of_mr;  /* mr->windows */
	/* orch/map.c publishes it, some time after it was bound or unbound */
	TAILQ_ENTRY(mw) changed; /* container->mw.changed while is_changed */
	bool is_changed;
	uint32_t published; /* the rkey that was, 0: none */
};

struct cq {
	struct obj o;
	struct ff_cq_hdr *hdr; /* shared */
	struct ff_cqe *ring;   /* shared */
	uint32_t depth;	       /* entries, a power of two */
	uint32_t cqe;	       /* entries that the client may count on */
	uint32_t pi;	       /* CQEs ever written; polls pass over those of QPs that are gone */
	uint32_t ci_seen;      /* last value of hdr->ci believed */
	uint32_t flags;	       /* FF_CQ_* */
	bool overrun;
	bool notify_pending;   /* in fast->notify until the batch ends */
	bool notify_solicited; /* a CQE since then was solicited or an error */
	struct channel *channel;
	/* moderation (ibv_modify_cq): in force when both are set */
	uint16_t mod_count;  /* completions that one event is to announce */
	uint16_t mod_period; /* us after which an event that is due is sent anyway */
	bool mod_held;	     /* an event is due and held back; the timer is armed */
	uint32_t mod_pi;     /* pi at the last event */
	struct timer mod_timer;
	STAILQ_ENTRY(cq) notify;
	struct ff_ring_at at; /* [ctl] */
	uint32_t late; /* [ctl] of a former router: the QP of the last CQE, whose index it had not moved; 0: none */
	bool late_recv; /* [ctl] that was a receive's */
};

struct qp;
LIST_HEAD(soft_list, soft_qp);

struct srq {
	struct obj o;
	struct pd *pd;
	struct ff_srq_hdr *hdr;
	uint8_t *ring;
	uint32_t depth, stride, max_wr, max_sge;
	uint32_t head;		      /* RQEs taken since creation */
	uint32_t held;		      /* RQEs of these that a carrier has, for messages to come */
	struct nic_srq *nic;	      /* the NIC's, or NULL */
	uint32_t lost;		      /* of these, without a completion: ff_srq_hdr */
	uint32_t limit;		      /* 0: not armed */
	uint64_t user;		      /* for its receives' CQEs: XRC's. Others': qp->user */
	bool error;		      /* a malformed RQE was met; no more receives */
	LIST_HEAD(, qp) targets;      /* XRC_RECV QPs that deliver to it */
	struct soft_list rnr_waiters; /* soft: requesters that wait for a receive here */
	LIST_HEAD(, remote_qp)
	rnr_owed; /* soft: requesters of other hosts that wait for a receive here */
	/* XRC; xref NULL: not of a domain */
	struct xrcd_ref *xref;
	struct cq *cq;
	uint32_t num; /* 24 bits, unique in the domain */
	LIST_ENTRY(srq) same_bucket;
	struct ff_ring_at at; /* [ctl] */
};

/* An XRC domain of a container; xrc.c. */
#define XRCD_BUCKETS 64u
struct xrcd {
	LIST_ENTRY(xrcd) entry; /* container->xrcds */
	bool has_file;		/* found by dev and ino */
	uint64_t dev, ino;
	uint32_t num_refs; /* handles of it */
	LIST_HEAD(, srq) srqs[XRCD_BUCKETS];
	LIST_HEAD(, qp) targets; /* its XRC_RECV QPs */
};

/* A session's handle of one. */
struct xrcd_ref {
	struct obj o;
	struct xrcd *xrcd;
};

struct ah {
	struct obj o;
	struct pd *pd;
	struct ff_ah_attr attr;
	struct container *cont; /* cache of the last resolution; cleared when a container goes */
	bool mcast;		/* attr.dgid is a multicast group's */
};

/* A work request, copied out of a ring and checked. */
struct send_wr {
	uint64_t wr_id;
	uint64_t remote_addr;
	uint64_t length; /* bytes, all SGEs or the inline data */
	uint64_t at;	 /* f->now of the turn that fetched it */
	union {		 /* as in struct ff_sqe */
		struct {
			uint64_t compare_add, swap;
		};
		struct {
			uint64_t length; /* bytes */
			uint32_t mw, lkey;
		} bind;
		struct {
			uint64_t length; /* bytes */
			uint32_t types, level;
		} flush;
	};
	uint32_t rkey, imm;
	uint32_t remote_qpn, remote_qkey;
	uint32_t remote_srqn; /* XRC */
	struct ah *ah;
	uint8_t opcode, flags;
	uint16_t num_sge;
	struct ff_sge *sge; /* where the copies of its entries are, or of */
	uint8_t *inl;	    /* the copy of its inline data; sge or inl, see flags */
};

/* One with room for all that it may have. */
struct send_buf {
	struct send_wr wr;
	union {
		struct ff_sge sge[FF_MAX_SGE];
		uint8_t inl[FF_MAX_INLINE];
	};
};

/* A buffer for the WR of a QP, to be freed; NULL without memory. */
static inline struct send_wr *send_buf_new(void)
{
	struct send_buf *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->wr.sge = b->sge;
	b->wr.inl = b->inl;
	return &b->wr;
}

struct recv_wr {
	uint64_t wr_id;
	uint64_t length;
	uint32_t num_sge;
	struct ff_sge sge[FF_MAX_SGE];
};

/* The rings of a QP. fast/send.c and recv.c */
struct qp_sq {
	uint8_t *ring; /* shared */
	uint32_t depth, stride;
	uint32_t head; /* entries taken since creation */
	uint32_t cqes; /* CQEs for it since creation or RESET */
};
struct qp_rq {
	uint8_t *ring; /* shared */
	uint32_t depth, stride;
	uint32_t head; /* entries taken since creation */
	uint32_t done; /* of these, whose receives have ended: the next router takes the others once more */
};

/*
 * The compare-and-swap or fetch-and-add under way of a QP whose peer is on this host, for the next router
 * (soft/atomic.c). `at` is written last, and is 0 while the others change.
 */
enum atom_step {
	ATOM_NONE,
	ATOM_TRIED, /* the word was `old`, and is about to become `new`, or is already */
	ATOM_DONE,  /* the WR's answer is `old` */
	ATOM_LOST,  /* a former router left it, and nobody knows whether the word was changed */
};
struct qp_atom {
	uint64_t at;	   /* sq.head << 32 | enum atom_step */
	uint64_t old, new; /* as the host has them */
	uint64_t va;	   /* of the word, as mr->addr counts */
	uint32_t ses, key; /* ids of the session and the MR whose word it is */
};

/* XRC_RECV: fast/xrc.c tells what there is of it twice */
struct qp_xrc {
	/* a session's handle: */
	struct xrcd_ref *ref; /* through which it holds the domain */
	struct qp *target;    /* the QP that it stands for */
	LIST_ENTRY(qp) same_target;
	/* the QP itself: */
	struct xrcd *xrcd;
	LIST_ENTRY(qp) same_xrcd;
	LIST_ENTRY(qp) same_srq;
	uint32_t num_users;
	LIST_HEAD(, qp) users; /* its handles */
};

/*
 * QP states; what each allows (IBTA 10.3.1):
 *	RESET	nothing is posted or sent
 *	INIT	receives may be posted
 *	RTR	incoming requests are served
 *	RTS	... and sends are processed
 *	SQD	sends may be posted and wait; what is under way is finished
 *	SQE	UC, UD: sends are flushed, receives go on
 *	ERR	everything is flushed, in order
 * A send posted in RESET, INIT or RTR is refused by ffl (EINVAL); the router ignores its ring then.
 */
struct qp {
	struct obj o;
	/* ---- fast path first ---- */
	struct ff_qp_hdr *hdr; /* shared */
	struct qp_sq sq;
	struct qp_rq rq;
	uint64_t srq_took; /* (rq.done + 1) << 32 | the index in its SRQ of the receive in `kept` */
	struct qp_atom atom;
	uint64_t took; /* sq.head << 32 | the peer's rq.done, from before a SEND under way is completed there */
	uint64_t user;	    /* for its CQEs; the client's */
	uint32_t in_flight; /* WRs that qp->send has taken a copy of: POST_SENT */
	uint8_t state;	    /* enum ibv_qp_state */
	uint8_t type;	    /* enum ibv_qp_type */
	uint8_t peer_type;  /* of a QP that it can be connected to */
	bool sig_all;
	bool block_self_lb; /* UD: gets no copy of what it sends to a group that it is in */
	bool is_active;	    /* on its container's turns.active; fast/turns.c */
	bool busy;	    /* qp->send has begun qp->wr and not ended it; no other WR is fetched */
	bool more;	    /* busy, but progress() can go on at once: POST_MORE, or activated */
	bool flush_waits;   /* ERR, SQE: nothing is flushed before the WRs in_flight end */
	bool draining;	    /* SQD: event owed when nothing is under way */
	bool torn; /* a flush or a failure is half done: a router that dies now leaves it unsound */
	bool last_wqe_sent;
	bool comm_est_sent;
	uint64_t last_work; /* ns */
	TAILQ_ENTRY(qp) active;
	struct trace *trace; /* NULL: it is not traced */
	struct qp_lat lat;
	struct ff_stats stats;
	struct rate_wait wait; /* for a limit; not active then */
	struct pd *pd;
	struct cq *scq, *rcq;
	struct srq *srq;
	struct recv_wr *kept; /* in the ledger: the receive that it has taken from its SRQ; or NULL */
	uint32_t kept_slot;   /* [ctl] */
	struct send_wr *wr;   /* the WR under way; one buffer for each QP */
	const struct send_ops *send; /* what carries it out: fast/backend.h */
	struct container *dest;	 /* of this host, that its path or its datagram leads to, or NULL */
	struct soft_qp *soft;	 /* the device's own */
	struct pvm_call *settle; /* fast/pvm.c: pvm_settle()'s call; NULL: none */
	struct nic_qp *nic;	 /* the NIC's, or NULL */
	uint32_t qp_num;	 /* 24 bits, */
	uint8_t num_of;		 /* which of the host's NICs qp_num is of: its container's */
	uint32_t max_send_sge, max_recv_sge, max_inline;
	uint32_t max_send_wr, max_recv_wr;
	struct ff_qp_attr attr;		/* as modified; query answers from here */
	uint64_t attr_set;		/* IBV_QP_* ever given since RESET */
	struct ff_ring_at sq_at, rq_at; /* [ctl] */
	LIST_HEAD(, mw) windows;	/* type 2, bound to it */
	struct qp_xrc xrc;
};

/*
 * The store to the first cursor (obj/ledger.h) comes before the one to the second, for the next router if this one is
 * killed in between. The compiler keeps that order; the CPU's does not matter, because the reader comes after the end
 * of this process. No instruction.
 */
#define CURSORS_IN_ORDER(first, second) __asm__ volatile("" : "+m"(first), "+m"(second))

/* How far the atomic under way is. */
static inline enum atom_step qp_atom_step(const struct qp *qp)
{
	return qp->atom.at >> 32 == qp->sq.head ? (enum atom_step)(uint32_t)qp->atom.at : ATOM_NONE;
}
static inline void qp_atom_set(struct qp *qp, enum atom_step step)
{
	CURSORS_IN_ORDER(qp->atom, qp->atom);
	qp->atom.at = step ? (uint64_t)qp->sq.head << 32 | step : 0;
	CURSORS_IN_ORDER(qp->atom, qp->atom);
}

/* Requests are acknowledged, so that an error ends the connection. */
static inline bool qp_is_reliable(const struct qp *qp)
{
	return qp->type == IBV_QPT_RC || qp->type == IBV_QPT_XRC_SEND ||
	       qp->type == IBV_QPT_XRC_RECV;
}

/*
 * Router-wide: QP number -> QP (objects.c). Each NIC numbers its QPs by itself, so a number means something together
 * with the NIC of the QP's container.
 */
#define QP_TAB_NICS 8u
struct qp_table {
	struct qp **slot; /* qpn_slot() */
	uint32_t size;	  /* a power of two */
	uint32_t used;
	uint32_t next; /* where the search for a free number goes on */
	/* Slots of a NIC's numbers: those that count from the same number on begin as far apart as can be. */
	uint32_t from[QP_TAB_NICS];
};
static inline uint32_t qpn_slot(const struct qp_table *t, uint8_t nic, uint32_t qpn)
{
	return (qpn + t->from[nic % QP_TAB_NICS]) & (t->size - 1);
}
static inline struct qp *qp_by_num(const struct qp_table *t, uint8_t nic, uint32_t qpn)
{
	struct qp *qp = t->size ? t->slot[qpn_slot(t, nic, qpn)] : NULL;

	return qp && qp->qp_num == qpn && qp->num_of == nic ? qp : NULL;
}
/* As keys_grown(), before a QP is given a number. */
int qpns_grown(const struct qp_table *t, struct qp_table *n);
/*
 * Give `qp` a number that nobody used lately, or the one that it has already. 0; -ENOMEM; -EEXIST: its place is taken.
 */
int qpn_alloc(struct qp_table *t, struct qp *qp);
/* Is there a place for that number, as far as is known now? */
bool qpn_fits(const struct qp_table *t, uint8_t nic, uint32_t qpn);
/*
 * A number of a former router, whose table may have been larger: numbers that differ there may share a place here. The
 * table grows until they do not, within limits.
 */
void qpn_make_room(struct qp_table *t, uint8_t nic, uint32_t qpn);
void qpn_free(struct qp_table *t, struct qp *qp); /* a QP that has none is left alone */

#define obj_of(o_, type) ((struct type *)(o_)) /* struct obj is the first member */

/* name(): the session's object of that kind with the handle; NULL: there is none. */
#define OBJ_BY_HANDLE(name, type, kind)                                                            \
	static inline struct type *name(struct session *s, uint32_t h)                             \
	{                                                                                          \
		return obj_of(obj_get(&s->tab[OBJ_##kind], h), type);                              \
	}
OBJ_BY_HANDLE(pd_handle_get, pd, PD)
/* The PD: that is another session's if the handle is of an imported one. */
static inline struct pd *pd_get(struct session *s, uint32_t h)
{
	struct pd *pd = pd_handle_get(s, h);

	return pd && pd->of ? pd->of : pd;
}
/*
 * These, and dm_get_unsealed(), are not for handlers of calls: the client may not have sealed the segment of the rings
 * yet. Handlers call cq_get(), srq_get(), qp_get() and dm_get() of ctl/obj.h.
 */
OBJ_BY_HANDLE(cq_get_unsealed, cq, CQ)
OBJ_BY_HANDLE(srq_get_unsealed, srq, SRQ)
OBJ_BY_HANDLE(qp_handle_get, qp, QP)
/* The QP: that is another object than the one with the handle if it is an XRC_RECV one. */
static inline struct qp *qp_get_unsealed(struct session *s, uint32_t h)
{
	struct qp *qp = qp_handle_get(s, h);

	return qp && qp->xrc.target ? qp->xrc.target : qp;
}
OBJ_BY_HANDLE(xrcd_get, xrcd_ref, XRCD)
/* Bytes that it keeps from being paged out, or would with a NIC. */
static inline uint64_t mr_pinned(const struct mr *mr)
{
	return mr->kind == MR_NULL ? 0 : mr->odp ? mr->paged : mr->length;
}

OBJ_BY_HANDLE(mr_handle_get, mr, MR)
/* The MR, unless it is being deregistered. */
static inline struct mr *mr_get(struct session *s, uint32_t h)
{
	struct mr *mr = mr_handle_get(s, h);

	return mr && mr->stage < MR_LEFT ? mr : NULL;
}
/* Has its client deregistered it, without having told so by a call yet? */
static inline bool mr_leaves(const struct mr *mr)
{
	return mr->odp && ff_is_leaving(&mr->o.ses->hdr->leaving, mr->odp->mr);
}
OBJ_BY_HANDLE(mw_get, mw, MW)
OBJ_BY_HANDLE(dm_get_unsealed, dm, DM)
OBJ_BY_HANDLE(ah_get, ah, AH)
OBJ_BY_HANDLE(channel_get, channel, CHANNEL)

/* The slot that holds the key, or the free one where it would go. The table is never full. */
static inline uint32_t key_slot(const struct key_table *t, uint32_t key)
{
	uint32_t i = key & (t->size - 1);

	while (t->slot[i].key && t->slot[i].key != key)
		i = (i + 1) & (t->size - 1);
	return i;
}
/* The MR of that key among a container's, or NULL. Key 0 is never one. */
static inline struct mr *key_lookup(const struct key_table *t, uint32_t key)
{
	return t->used && key ? t->slot[key_slot(t, key)].obj : NULL;
}
/*
 * Control thread, no lock, before a key is entered: a large table grows while runners go on with the
 * old one, which only this thread changes. *n is what is to be put in its place [lock]; its slot is NULL:
 * there is room. 0 or -ENOMEM. fast_keys_room() does all of it.
 */
int keys_grown(const struct key_table *t, struct key_table *n);
/* Give `mr` a fresh random key. 0 or -ENOMEM. */
int key_insert(struct key_table *t, struct mr *mr);
void key_remove(struct key_table *t, struct mr *mr);

/* The window of that rkey, its low byte included, or NULL. */
static inline struct mw *mw_lookup(const struct key_table *windows, uint32_t rkey)
{
	uint32_t index = rkey >> 8;
	struct mw *mw = windows->used && index ? windows->slot[key_slot(windows, index)].obj : NULL;

	return mw && mw->rkey == rkey ? mw : NULL;
}
/* A fresh key that no MR and no window of the container has. 0 or -ENOMEM. */
int mr_key_new(struct container *c, struct mr *mr);	    /* -EEXIST: it has that key already */
bool mr_key_taken(const struct container *c, uint32_t key); /* by an MR or a window */
int mw_key_new(struct container *c, struct mw *mw);
void mw_key_del(struct container *c, struct mw *mw);

#endif

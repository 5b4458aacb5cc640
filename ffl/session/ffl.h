/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ffl.h - internals of libibverbs.so.1 as freeflow builds it. Nothing here is seen by programs.
 *
 * Rules of this library: it depends on libc only, with no symbol newer than GLIBC_2.28; it starts
 * no thread but mem/heat.c's, never exits, never writes to stdout, and leaves no signal handler behind. Inside it
 * functions return 0 or -errno; the verbs' conventions begin at the exported functions.
 *
 * Locks, outermost first: list of sessions (context.c) - region lock (mr.c) - context's call lock
 * (call.c) - table lock; a queue's spin lock is taken with none of them held, but ibv_resize_cq
 * holds the CQ's lock across a call. The first two are held across fork, in this order, and before
 * them librdmacm's (cm/session.c).
 *
 * The room ffl/session/ is the session with the router: requests and their slot, segments, tables, log, what
 * becomes of it in a child that was forked; and, in this file, what all rooms of ffl share. It may use
 * ffr/abi/. Its threads, like those of all rooms of ffl but for one (mem/heat.c), are the program's.
 */
#ifndef FFL_SESSION_FFL_H
#define FFL_SESSION_FFL_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "ffr/abi/ff_proto.h"
#include "ffr/abi/ff_ring.h"
#include "ffl/session/freeflow.h"

#define FFL_EXPORT __attribute__((visibility("default")))
/* Data that librdmacm.so.1 reads, which this library reaches as its own all the same. */
#define FFL_EXPORT_DATA			 __attribute__((visibility("protected")))
#define ARRAY_SIZE(a)			 (sizeof(a) / sizeof((a)[0]))
#define container_of_(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Largest forms of the public structs up to rdma-core v65 (bytes); see exports.c's asserts. */
#define FFL_VERBS_CONTEXT_SZ (696 + FFL_MUTEX_MORE)
#define FFL_QP_EX_SZ	     (360 + FFL_MUTEX_MORE)
#define FFL_CQ_EX_SZ	     (288 + FFL_MUTEX_MORE)
/* Each has one pthread_mutex_t: 48 bytes on arm64. */
#define FFL_MUTEX_MORE (sizeof(pthread_mutex_t) - 40)

/* ---- log.c: FFL_LOG=<level>[:<file>], to stderr or the file, never stdout -------------------- */
enum ffl_level { FFL_ERR = 1, FFL_WARN, FFL_INFO, FFL_DEBUG };
extern int ffl_log_level; /* 0: nothing */
void ffl_log_init(void);
void ffl_log_(enum ffl_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define ffl_log(level, ...)                                                                        \
	do {                                                                                       \
		if (__builtin_expect(ffl_log_level >= (level), 0))                                 \
			ffl_log_(level, __VA_ARGS__);                                              \
	} while (0)

/* ---- spin lock: queues only, never across a system call -------------------------------------- */
struct ffl_spin {
	_Atomic uint32_t v;
	/* nobody takes it: the program has promised to use the queue from one thread at a time (a CQ
	 * created as single-threaded, a thread domain); set at creation */
	bool single;
};
void ffl_spin_wait(struct ffl_spin *l); /* context.c: pauses, then yields */
static inline void ffl_lock(struct ffl_spin *l)
{
	if (!l->single &&
	    __builtin_expect(atomic_exchange_explicit(&l->v, 1, memory_order_acquire), 0))
		ffl_spin_wait(l);
}
static inline void ffl_unlock(struct ffl_spin *l)
{
	atomic_store_explicit(&l->v, 0, memory_order_release);
}

/* ---- handle -> object, for events (table.c) ---------------------------------------------------- */
enum ffl_kind { FFL_CQ, FFL_QP, FFL_SRQ, FFL_CM_ID, FFL_NUM_KINDS };
struct ffl_table {
	struct {
		uint32_t handle; /* 0: free */
		void *obj;
	} * slot; /* by FF_HANDLE_INDEX */
	uint32_t size;
};

/* ---- context --------------------------------------------------------------------------------------- */
struct ffl_seg {
	uint8_t *map; /* NULL: not mapped yet */
	uint64_t size;
};

/* Which file a descriptor was for; zeros: none. */
struct ffl_fd_id {
	uint64_t dev, ino;
};

/*
 * What a program opens, and a session with the router. They are one until the program forks: then the
 * child's context has a session of its own, which is another of these (context.c), and the first
 * one is the session that the parent's objects are of.
 */
struct ffl_context {
	/* ops that are newer than the headers we build with lie below verbs_context; they stay 0 */
	uint8_t newer_ops[FFL_VERBS_CONTEXT_SZ - sizeof(struct verbs_context)];
	struct verbs_context v;

	/* of what the program opened: its session in this process. NULL: this one */
	_Atomic(struct ffl_context *) current;
	struct ffl_context *older; /* of a session in `current`: the one before it */
	/* entry/context.c: a session of this process's own, where `old` is that of its parent. NULL: errno */
	struct ffl_context *(*renew)(struct ffl_context *ctx, struct ffl_context *old);
	/* what the program sees in v.context, as they were made: it may have closed them since */
	struct ffl_fd_id cmd_id, async_id;
	bool imports; /* ibv_import_device() made it: by this token */
	uint8_t import_token[FF_TOKEN_SZ];

	int sock; /* control socket; -1 after the router was found dead */
	int async_fd;
	int bell_fd;
	int uffd_dev;	   /* /dev/userfaultfd as handed over, or -1 */
	_Atomic bool dead; /* the router is gone: calls fail with EIO, polls with -1 */
	bool fatal_sent;   /* IBV_EVENT_DEVICE_FATAL was returned */
	pid_t pid;	   /* whose session it is; 0: a parent's of this process, which forked */
	uint32_t mode;	   /* enum ff_mode */
	bool has_track;	   /* the router: it knows TRACK */
	bool has_nic; /* the router: MRs are a NIC's as well, where their pages are shadow pages */
	bool whole_pages; /* of MRs are replaced, with what others have on them (ffl/mem/kind.c) */
	uint64_t node_guid;	    /* network byte order */
	uint8_t token[FF_TOKEN_SZ]; /* of this session, for those who import from it */
	struct ff_ses_hdr *hdr;
	pthread_mutex_t call_lock; /* one request at a time */
	uint32_t call_seq;
	struct ffl_seg *seg; /* [num_seg], call_lock */
	uint32_t num_seg;
	pthread_mutex_t table_lock; /* tables, and the events' counters of the objects in them */
	struct ffl_table table[FFL_NUM_KINDS];
	/* PDs, CQs, channels, XRC domains, device memory: all other objects are in one of those */
	_Atomic uint32_t objects;
	uint32_t num_devices; /* of the container; 0: the router does not know DEVICE */
	bool is_device;	      /* and not rdma_cm's */
	bool has_tables;      /* from fork's beginning to its end: table_lock is held for it */
	struct ff_query_device_resp dev; /* cached at open */
	/* handle of a QP with postings not announced (event index), 0: none; see bell.c */
	_Atomic uint32_t lazy_qp;
	_Atomic uint64_t alive_ns; /* when ffl_check_alive() last looked, CLOCK_MONOTONIC_COARSE */
	_Atomic bool left_behind;  /* the last wait for posted WRs was in vain (qp.c, posted.c) */
	uint32_t call_timeout;	   /* ms that a request may wait for its answer */
	struct ffl_context *next;  /* list of the open ones; context.c's lock */
	bool has_regions;	   /* [region lock] ffl_regions_remove() is to come */
	struct ffl_context *next_regions; /* [region lock] list of those */
	bool no_pages;			  /* [region lock] there are no shadow pages to be had */
	struct ffl_heat *heat;		  /* mem/heat.c; region lock; NULL: nothing was large yet */
};
static_assert(offsetof(struct ffl_context, v) % 8 == 0, "");

static inline struct ffl_context *to_ctx(struct ibv_context *c)
{
	return container_of_(c, struct ffl_context, v.context);
}

/* context.c */
/*
 * The session in which this process makes objects and asks about the device. Objects keep it: what
 * they are asked to do is for the session that they were made in. In a child that was forked the
 * first call opens a session of the child's own; where that fails it is the parent's, in which
 * every request fails with EIO.
 */
struct ffl_context *ffl_session_of(struct ibv_context *context);
/* Connect to the router, say HELLO and map segment 0. NULL: errno. */
struct ffl_context *ffl_session_new(uint32_t call_timeout /* ms */);
void ffl_session_free(struct ffl_context *ctx);
/* Give back descriptors, segments and tables. Calls fail with EIO afterwards. */
void ffl_session_empty(struct ffl_context *ctx);
/*
 * Sessions that a forked child must let go of. 0 or -errno. The handlers of mem/fork.c must be there
 * before these: others than entry/context.c call ffl_session_track().
 */
int ffl_session_enlist(struct ffl_context *ctx);
void ffl_session_untrack(struct ffl_context *ctx);

/* ---- call.c ------------------------------------------------------------------------------------------- */
/*
 * Send a request, wait for its response. req and resp are the table's structs without the header;
 * tail/n_tail are the request's tail elements (n_tail * tail_size bytes). fds receives up to
 * max_fds descriptors, n_fds how many came. 0 or -errno; -EIO when the router is gone, which also
 * marks the context dead. Interrupted system calls are restarted. Takes call_lock.
 */
int ffl_call(struct ffl_context *ctx, enum ff_msg_type type, const void *req, size_t req_len,
	     const void *tail, size_t tail_size, unsigned n_tail, void *resp, size_t resp_len,
	     int *fds, unsigned max_fds, unsigned *n_fds);
/* The usual case: FFL_CALL(ctx, ALLOC_PD, &req, &resp) checks types and lengths. */
#define FFL_CALL(ctx, NAME, req, resp)                                                             \
	ffl_call(ctx, FF_MSG_##NAME, req, sizeof(*(req)), NULL, 0, 0, resp, sizeof(*(resp)), NULL, \
		 0, NULL)
/* ffl_call() for a request that carries n_send descriptors, which stay the caller's. */
#define FFL_SEND_FDS 2 /* at most */
int ffl_call_fds(struct ffl_context *ctx, enum ff_msg_type type, const void *req, size_t req_len,
		 const int *send, unsigned n_send, void *resp, size_t resp_len, int *fds,
		 unsigned max_fds, unsigned *n_fds);
/*
 * slot.c, call lock held: put a packet into the slot. False: the router does not look there, or it
 * is too long.
 */
struct iovec;
bool ffl_slot_post(struct ffl_context *ctx, const struct iovec *iov, unsigned int n_iov,
		   size_t len);
/* Bytes of the answer, with as many of them in iov as it has room for; 0: take it from the socket. */
size_t ffl_slot_answer(struct ffl_context *ctx, uint32_t seq, const struct iovec *iov,
		       unsigned int n_iov);
int ffl_connect(const char *path); /* a connected SOCK_SEQPACKET socket or -errno */
void ffl_mark_dead(struct ffl_context *ctx);
/* Poll the control socket for the router's death, at most every 10 ms; sets ctx->dead. */
bool ffl_check_alive(struct ffl_context *ctx);
/* The address of `off` in a ring segment, mapping the segment first if need be. NULL: errno. */
void *ffl_seg_at(struct ffl_context *ctx, uint32_t seg, uint64_t off);
/* Map all segments, and seal them. 0 or -errno. */
int ffl_segs_map(struct ffl_context *ctx);
void ffl_segs_free(struct ffl_context *ctx);
/* The same descriptor under a number that programs do not use; takes fd. */
int ffl_fd_high(int fd);

/* ---- table.c ------------------------------------------------------------------------------------------ */
int ffl_table_put(struct ffl_context *ctx, enum ffl_kind kind, uint32_t handle, void *obj);
void ffl_table_del(struct ffl_context *ctx, enum ffl_kind kind, uint32_t handle);
/* Call with table_lock held. NULL: no such live object. */
void *ffl_table_get(struct ffl_context *ctx, enum ffl_kind kind, uint32_t handle);

/* ---- objects --------------------------------------------------------------------------------------------- */
/* Their `ctx` is the session that they were made in: ffl_session_of() of then. */
struct ffl_pd {
	struct ibv_pd ibv;
	struct ffl_context *ctx;
	uint32_t handle; /* of a parent domain: its PD's */
	_Atomic uint32_t refs;
	struct ffl_domain *domain; /* not NULL: it is a parent domain (domain.c) */
	bool imported;		   /* import.c; ibv.handle is the other session's */
};

struct ffl_ah {
	struct ibv_ah ibv;
	struct ffl_context *ctx;
	uint32_t handle;
};

struct ffl_xrcd {
	struct ibv_xrcd ibv;
	struct ffl_context *ctx;
	uint32_t handle;
	_Atomic uint32_t refs; /* SRQs and QPs */
};

/*
 * async.c: events that the program has acknowledged. They are counted where it can read them, in a
 * public field of the object (events_completed and the like), with the public mutex and condition
 * beside it. Those that it was given are counted under table_lock.
 */
void ffl_events_ack(struct ffl_context *ctx, pthread_mutex_t *mutex, pthread_cond_t *cond,
		    uint32_t *completed, uint32_t n);
/* Wait until they are `given`; after ffl_table_del(), with no lock held. */
void ffl_events_drain(struct ffl_context *ctx, pthread_mutex_t *mutex, pthread_cond_t *cond,
		      const uint32_t *completed, uint32_t given);

struct ffl_channel {
	struct ibv_comp_channel ibv;
	struct ffl_context *ctx;
	uint32_t handle;
	/* home.c; threads that wait together may lose a count */
	struct {
		_Atomic uint32_t sleeps; /* that are to be at home, or not to be */
		_Atomic uint32_t pause;	 /* the last time it was not to be: so many */
		_Atomic uint32_t dear;	 /* dear ones elsewhere, in a row */
		_Atomic uint32_t away;	 /* ns: the least of those */
		_Atomic int32_t saved;	 /* ns: by those at home */
		_Atomic bool at_home;
	} home;
};
struct ff_comp_event;
/* A CQ is no longer in the table: its events leave the channel. */
void ffl_channel_forget_gone(struct ffl_channel *ch);
ssize_t ffl_sleep_for_event(struct ffl_channel *ch, struct ff_comp_event *ev);

struct ffl_mw {
	struct ibv_mw ibv;
	struct ffl_context *ctx;
};

struct ffl_cq {
	union {
		struct ibv_cq_ex ex;
		struct ibv_cq cq;
		uint8_t room[FFL_CQ_EX_SZ + 64];
	};
	/* what a poll touches, under `lock` */
	_Alignas(FF_CACHELINE) struct ffl_spin lock;
	struct ff_cq_hdr *hdr;
	struct ff_cqe *ring;
	uint32_t depth;		      /* entries, a power of two */
	uint32_t ci;		      /* CQEs consumed since creation; hdr->ci follows */
	_Atomic uint32_t empty_polls; /* in a row */
	uint32_t handle;
	const struct ff_cqe *cur; /* CQE that the readers read, in place, until end_poll */
	struct ffl_context *ctx;
	_Atomic uint32_t refs;	   /* QPs that complete here; twice if both queues do */
	_Atomic uint64_t no_yield; /* CLOCK_MONOTONIC, ns: no empty poll yields before it */
	struct ibv_pd *mem;	   /* as ffl_obj_alloc() gave it */
	struct ibv_pd *domain;	   /* parent domain that it was created in, or NULL */
	uint32_t comp_events, async_events; /* that the program was given; table_lock */
};

struct ffl_srq {
	struct ibv_srq ibv;
	struct ffl_context *ctx;
	struct ffl_spin lock;
	struct ff_srq_hdr *hdr;
	uint8_t *ring;
	uint32_t depth, stride, max_wr, max_sge;
	uint32_t tail;
	_Atomic uint32_t polled; /* completions of its receives; pollers of several CQs add */
	uint32_t handle, srq_num;
	_Atomic uint32_t refs; /* QPs */
	struct ibv_pd *mem;    /* as ffl_obj_alloc() gave it */
	struct ffl_xrcd *xrcd; /* XRC: its domain, and */
	struct ffl_cq *cq;     /* where its receives complete; else NULL */
	uint32_t async_events; /* that the program was given; table_lock */
};

struct ffl_qp {
	union {
		struct ibv_qp_ex ex; /* .qp_base is the ibv_qp */
		struct ibv_qp qp;
		uint8_t room[FFL_QP_EX_SZ + 64];
	};
	/* what a post to the SQ touches, in one line; tails count postings since creation */
	_Alignas(FF_CACHELINE) struct ffl_spin sq_lock;
	uint32_t sq_tail, sq_limit; /* no room for posting sq_limit: ff_sq_limit() */
	uint32_t sq_depth, sq_stride;
	struct ffl_context *ctx;
	uint8_t *sq;
	struct ff_qp_hdr *hdr;
	struct ff_qp_cap cap; /* as granted */
	uint16_t wr_ops;      /* bit for each ibv_wr_opcode that the type allows, but: rare_ops */
	bool sig_all;
	bool has_ex;		/* created with send_ops_flags: ibv_qp_to_qp_ex works */
	_Atomic bool peer_left; /* rdma_cm told DISCONNECTED: the peer takes no more */
	uint32_t handle;
	/* receives */
	_Alignas(FF_CACHELINE) struct ffl_spin rq_lock;
	uint32_t rq_tail;
	uint32_t rq_depth, rq_stride;
	uint8_t *rq;
	struct ffl_srq *srq;
	/* ibv_wr_start .. ibv_wr_complete: entries built but not yet given to the router */
	uint32_t wr_tail;
	int wr_err;
	uint16_t rare_ops; /* those with a path of their own, likewise */
	struct ff_sqe *wr_cur;
	struct ffl_xrcd *xrcd; /* XRC_RECV, which has neither PD nor CQs; else NULL */
	uint32_t async_events; /* that the program was given; table_lock */
	struct ibv_pd *mem;    /* as ffl_obj_alloc() gave it */
	/* posted.c, table_lock: SQE number vain_at was waited for in vain */
	bool vain;
	uint32_t vain_at;
	/* completions polled, since creation or RESET, and receives completed, since creation or forgotten
	 * by RESET; each is written under its CQ's lock */
	_Alignas(FF_CACHELINE) _Atomic uint32_t sq_polled;
	_Atomic uint32_t rq_polled;
};

static inline struct ffl_qp *to_qp(struct ibv_qp *q)
{
	return (struct ffl_qp *)q;
}
static inline struct ffl_cq *to_cq(struct ibv_cq *c)
{
	return (struct ffl_cq *)c;
}
static inline struct ffl_srq *to_srq(struct ibv_srq *s)
{
	return (struct ffl_srq *)s;
}
static inline struct ffl_pd *to_pd(struct ibv_pd *p)
{
	return (struct ffl_pd *)p;
}
static inline struct ffl_ah *to_ah(struct ibv_ah *a)
{
	return (struct ffl_ah *)a;
}
static inline struct ffl_channel *to_comp_channel(struct ibv_comp_channel *c)
{
	return (struct ffl_channel *)c;
}

/* post.c, cq.c: what the inline verbs of <infiniband/verbs.h> call through context->ops */
int ffl_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int ffl_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int ffl_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int ffl_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int ffl_req_notify_cq(struct ibv_cq *cq, int solicited_only);
/* qp.c: all but rate_limit, which programs built against old headers have no room for */
void ffl_qp_attr_from_ff(struct ibv_qp_attr *to, const struct ff_qp_attr *a);
/* qp.c: give the router a moment to be done with a QP's WRs before `tail`. Takes table_lock. */
void ffl_qp_posted_leave(struct ffl_context *ctx, uint32_t handle, uint32_t tail);
/*
 * posted.c: call this before an object ends. It waits until the router is done with this session's WRs that name the
 * object, for 0.5 s at most. The caller holds no lock.
 */
struct ffl_going {
	enum { FFL_GOING_MR, FFL_GOING_MW, FFL_GOING_AH } kind;
	uint32_t key;		 /* the MR's, or the address handle's number at the router */
	const struct ibv_mw *mw; /* FFL_GOING_MW */
};
void ffl_posted_wait(struct ffl_context *ctx, const struct ffl_going *what);
/* qp.c: set the state that posters look at, the old one is returned. Nobody is inside a post with it
 * afterwards. */
enum ibv_qp_state ffl_qp_set_state(struct ffl_qp *qp, enum ibv_qp_state state);
void ffl_qp_init_wr_ops(struct ffl_qp *qp);   /* post_ex.c: the ibv_wr_* pointers */
void ffl_cq_init_poll_ops(struct ffl_cq *cq); /* cq_ex.c: the ibv_start_poll… pointers */
/* bell.c: wake the router, if it sleeps and asked for that */
void ffl_bell(struct ffl_context *ctx);
/* bell.c: put the QP into the session's dirty set, and wake the router */
void ffl_announce(struct ffl_context *ctx, uint32_t qp_handle);
/* bell.c: announce postings that the event index let go unannounced, if there are any */
void ffl_ring_lazy(struct ffl_context *ctx);
/* cq.c: forget CQEs of a destroyed QP that are still in the CQ */
void ffl_cq_clean(struct ffl_cq *cq, uint32_t qp_handle);

struct ibv_cq_ex *ffl_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr);
struct ibv_qp *ffl_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);
/* Who asks the router for a QP, if not CREATE_QP: 0 or -errno, and the state that it is in. */
struct ffl_qp_maker {
	int (*make)(void *arg, const struct ff_create_qp_req *req, struct ff_create_qp_resp *resp,
		    enum ibv_qp_state *state);
	void *arg;
};
/* ibv_create_qp_ex(); by may be NULL */
struct ibv_qp *ffl_create_qp_by(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr,
				const struct ffl_qp_maker *by);
int ffl_qp_make(struct ffl_context *ctx, const struct ffl_qp_maker *by,
		const struct ff_create_qp_req *req, struct ff_create_qp_resp *resp,
		enum ibv_qp_state *state);
struct ibv_srq *ffl_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr);
int ffl_query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *in,
			struct ibv_device_attr_ex *attr, size_t attr_size);
int ffl_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr, size_t len);
int ffl_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num);
/* xrc.c */
struct ibv_xrcd *ffl_open_xrcd(struct ibv_context *ctx, struct ibv_xrcd_init_attr *attr);
int ffl_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_qp *ffl_open_qp(struct ibv_context *ctx, struct ibv_qp_open_attr *attr);
struct ffl_qp *ffl_create_xrc_recv(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr,
				   const struct ffl_qp_maker *by);
int ffl_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
struct ibv_mw *ffl_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int ffl_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int ffl_dealloc_mw(struct ibv_mw *mw);
struct ibv_dm *ffl_alloc_dm(struct ibv_context *ctx, struct ibv_alloc_dm_attr *attr);
int ffl_free_dm(struct ibv_dm *dm);
struct ibv_mr *ffl_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			     unsigned int access);
struct ibv_mr *ffl_alloc_null_mr(struct ibv_pd *pd);
int ffl_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		  struct ibv_sge *sg, uint32_t num_sge);
int ffl_query_rt_values(struct ibv_context *ctx, struct ibv_values_ex *values);
/* query.c, exported as ibv_query_gid_type: *type is 0 for IB and RoCE v1, 1 for RoCE v2 */
int ffl_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned int index, uint32_t *type);

/* domain.c */
struct ibv_td *ffl_alloc_td(struct ibv_context *ctx, struct ibv_td_init_attr *attr);
int ffl_dealloc_td(struct ibv_td *td);
struct ibv_pd *ffl_alloc_parent_domain(struct ibv_context *ctx,
				       struct ibv_parent_domain_init_attr *attr);
int ffl_domain_free(struct ffl_pd *pd); /* EBUSY or 0 */
/* Has it a thread domain, so that its queues need no lock? pd may be NULL. */
bool ffl_pd_single(struct ibv_pd *pd);
/*
 * Memory for a queue, zeroed and aligned to FF_CACHELINE: from the allocator of pd (which may be
 * NULL) if it is a parent domain that has one, else from libc. *mem is for ffl_obj_free(). NULL:
 * errno.
 */
void *ffl_obj_alloc(struct ibv_pd *pd, size_t size, enum ffl_res res, struct ibv_pd **mem);
void ffl_obj_free(void *obj, enum ffl_res res, struct ibv_pd *mem);

/* mr.c */
struct ffl_mr {
	struct ibv_mr ibv; /* .handle is the router's */
	struct ffl_context *ctx;
	bool foreign; /* not of the program's own memory: null MR, device memory, dma-buf */
	uint64_t iova;
	uint64_t zero_copy; /* bytes that the router reaches by a pointer */
	int access;
	unsigned num_runs;
	struct ff_mr_run *run; /* what apply.c has made ready */
	struct ffl_lazy *lazy; /* region.h: it may claim more; NULL: no */
	bool imported;	       /* import.c: another session's, and nothing here but its keys */
	uint32_t known;	       /* mr.c: where its range is told */
};
/* mr.c: give back what an MR that is deregistered, or not ours, holds in this process */
void ffl_mr_forget(struct ffl_mr *mr);
/* entry/context.c: has both registered */
int ffl_session_track(struct ffl_context *ctx);
/*
 * entry/context.c: let go of all that a device holds whose router is gone. The context stays, because the program
 * may have its address: each call for it fails with EIO. 0 or -EBUSY: the router lives, an object of the device does,
 * or the device is another process's.
 */
int ffl_device_leave(struct ibv_context *context);
/* entry/ops.c: fills v and v.context.ops */
void ffl_context_init_ops(struct ffl_context *ctx);
/* import.c: a sealed memfd that holds the token, or -1 */
int ffl_token_fd(const uint8_t token[FF_TOKEN_SZ]);
int ffl_mr_context_init(struct ffl_context *ctx); /* at open: userfaultfd, fork handlers */
void ffl_mr_context_fini(struct ffl_context *ctx);
/* ndev.c: tell the router which interfaces have the process's addresses. What fails changes nothing. */
void ffl_ndevs_tell(struct ffl_context *ctx);
/* ndev.c: the index of the interface of this process's network that has addr (IPv4: ::ffff:a.b.c.d); 0: none has */
uint32_t ffl_ndev_of(const uint8_t addr[16]);
/* ndev.c: the index of the first interface that is up and no loopback; 0: there is none */
uint32_t ffl_ndev_any(void);
/* device.c: where the device's files are, /sys or the folder that is mounted in any case. */
const char *ffl_sysfs(void);
/* device.c: which device of the container's it is, and the other way around */
uint32_t ffl_device_index(const struct ibv_device *device);
struct ibv_device *ffl_device_at(uint32_t index);
/* fork.c: its handlers, which take the region lock; once for each process. 0 or -errno. */
int ffl_fork_init(void);

/* The verbs' way of failing: errno and NULL, or the positive errno. */
#define ffl_err_ptr(err) (errno = (err), (void *)NULL)
/* The object of the library for what the usual call makes, so many bytes of 0; NULL with errno: there is neither. */
#define FFL_MAKE(size, ctx, NAME, req, resp)                                                       \
	ffl_make(size, ctx, FF_MSG_##NAME, req, sizeof(*(req)), resp, sizeof(*(resp)))
static inline void *ffl_make(size_t size, struct ffl_context *ctx, enum ff_msg_type type,
			     const void *req, size_t req_len, void *resp, size_t resp_len)
{
	void *obj = calloc(1, size);
	int err;

	if (!obj)
		return ffl_err_ptr(ENOMEM);
	err = ffl_call(ctx, type, req, req_len, NULL, 0, 0, resp, resp_len, NULL, 0, NULL);
	if (!err)
		return obj;
	free(obj);
	return ffl_err_ptr(-err);
}

/*
 * 0 or -errno to what most verbs return: 0 or the errno, which is set, too, since rdma-core's is of a
 * system call. Those that its providers do by themselves, posting, polling and access to device
 * memory, leave it alone.
 */
static inline int ffl_ret(int err)
{
	if (err < 0)
		errno = -err;
	return -err;
}

/* ns of a clock of the kernel's. */
static inline uint64_t ffl_clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ucma.h - what the files of the kernel's rdma_cm share: ids, the commands of ids, and events. ucma.c has the theory.
 */
#ifndef FFR_NIC_CM_UCMA_H
#define FFR_NIC_CM_UCMA_H

#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "ffr/fast/ucma.h"
#include "ffr/nic/cm/ucma_abi.h"
#include "ffr/nic/nic.h"

#define UCMA_FETCH 32u /* events that are fetched at once */

/* An event on its way to the connection manager. */
struct ucma_news {
	STAILQ_ENTRY(ucma_news) entry;
	struct ucma_id *id;
	struct ucma_event ev;
};

enum ucma_what {
	UCMA_RESOLVE,
	UCMA_LISTEN,
	UCMA_CONNECT,
	UCMA_ACCEPT,
	UCMA_ESTABLISH,
	UCMA_REJECT,
	UCMA_DISCONNECT,
	UCMA_DESTROY
};

struct ucma_job {
	struct nic_job job;
	struct nic_ucma *u;
	struct ucma_id *id;
	enum ucma_what what;
	int err, fd; /* the worker's results; fd: the kernel's file, for epoll */
	struct ucma_want want;
	union ibv_gid src; /* the NIC's GID */
	uint64_t guid;
	struct carrier_later *later; /* UCMA_LISTEN: the caller who waits, or NULL */
	struct ff_cm_param param;
	uint8_t reason, pd_len;
	uint8_t pd[FF_CM_PD_MAX];
};

struct ucma_id {
	UT_hash_handle hh;
	struct nic_ucma *u;
	uint64_t uid;
	void *user;
	const struct container *cont;
	bool is_dead; /* UCMA_DESTROY was given, or will be */
	bool is_ud;
	bool is_active;
	/* iWARP, up to call_waits */
	UT_hash_handle by_conn;
	uint32_t conn;	 /* number of the id's connection; to the container, the peer's QP number */
	uint32_t qp_num; /* the container's QP that UCMA_CONNECT or UCMA_ACCEPT named */
	bool is_asked;	 /* UCMA_CONNECT or UCMA_ACCEPT was given, once and for all */
	bool is_in_doubt; /* is_asked, and the kernel has not said how the connection came out */
	struct ucma_job *call; /* the job of UCMA_CONNECT or UCMA_ACCEPT, until it comes back */
	bool call_waits;       /* `call` is on u->connects */
	/* The worker's, after the first job was given. */
	bool is_made;
	uint32_t handle;
	/* Allocated with the id, because UCMA_DESTROY and the last event must not fail. */
	struct ucma_job end;
	struct ucma_news lost;
};

/* d->ucma */
struct nic_ucma {
	struct nic_dev *d;
	struct nic_worker *worker;
	int fd;			 /* the kernel's file, which the worker opens */
	bool is_told;		 /* the log says that the file cannot be opened */
	bool is_heard;		 /* fd is in epoll */
	_Atomic bool has_events; /* the runner says that there are events */
	struct ucma_id *ids;	 /* uthash, by uid */
	uint64_t last_uid;
	uint32_t num; /* of ids, with those that are ending */
	uint32_t changes;
	STAILQ_HEAD(, ucma_news) news;
	/* iWARP */
	struct ucma_id *conns; /* uthash, by conn */
	uint32_t last_conn;
	STAILQ_HEAD(, nic_job) connects; /* UCMA_CONNECT jobs that wait for their turn */
	_Atomic(struct ucma_job *) connecting;
	const struct container *last_cont; /* the container of the last connect; may be gone */
	struct timer limit;		   /* CONNECT_NS of `connecting`. [lock] */
	_Atomic bool is_stopping;	   /* give the worker no more connects */
	bool asks_path;			   /* the fetch under way asks for paths */
	/* The job that fetches events; there is one at a time. */
	struct nic_job fetch;
	bool is_fetching;
	uint32_t num_told, num_orphans;
	struct ucma_told told[UCMA_FETCH];
	uint32_t orphan[UCMA_FETCH]; /* requests that nobody takes: the next fetch ends them */
};

/* ucma.c; control thread, no lock */
struct ucma_id *ucma_id_by_uid(struct nic_ucma *u, uint64_t uid); /* also a dead id */
struct ucma_id *ucma_id_by_conn(struct nic_ucma *u, uint32_t conn);
/* NULL: there are too many ids, or there is no memory. */
struct ucma_id *ucma_id_new(struct nic_ucma *u, void *user, const struct container *cont,
			    bool is_ud);
void ucma_id_end(struct nic_ucma *u, struct ucma_id *id); /* have the worker destroy a dead id */
void ucma_id_free(struct nic_ucma *u, struct ucma_id *id);

/* ucma_event.c; control thread, no lock */
/*
 * An event for the connection manager. NULL: there is no memory, so the id's last event is a CONNECT_ERROR that says
 * so.
 */
struct ucma_news *ucma_news_new(struct nic_ucma *u, struct ucma_id *id,
				enum rdma_cm_event_type event, int status);
void ucma_news_free(struct ucma_news *n);
/* The next event of this NIC. False: there is none. */
bool ucma_take_event(struct nic_ucma *u, struct ucma_event *ev);
void ucma_hear(struct nic_ucma *u, int fd); /* put the kernel's file into epoll, once */
void ucma_fetch_run(struct nic_job *job);   /* the worker's: fetch events */
void ucma_fetch_back(struct nic_job *job);

/* ucma_call.c: connect and accept with iWARP; control thread, no lock */
/* Give the kernel the job, a CONNECT or ACCEPT, in its turn. */
void ucma_call_give(struct nic_ucma *u, struct ucma_job *j);
void ucma_call_back(struct nic_ucma *u,
		    struct ucma_job *j); /* the worker has carried the job out */
/* True: the id's CONNECT or ACCEPT is cancelled before the kernel was called. False: too late, or there is none. */
bool ucma_call_cancel(struct nic_ucma *u, struct ucma_id *id);
/* The kernel has said how the connection came out. If the id is dead, its end waited for this. */
void ucma_no_doubt(struct nic_ucma *u, struct ucma_id *id);
/* The event that a client gets for an errno of the kernel. *status: the event's status */
enum rdma_cm_event_type ucma_refused(int err, int *status);
/* Runner, [lock]: the time of the connect under way is over. */
void ucma_on_limit(struct timer *t);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * stats.h - the counters of a QP, a session and a container.
 *
 * One list feeds the struct, `ffctl stats`, the metrics and the man page. What is of a QP is counted
 * there and nowhere else; a session's struct has the rest and the sums of QPs that are gone, a
 * container's has the sums of sessions that are gone. Who wants to know adds up (stats.c).
 *
 * Written with the fast lock held, read by the control thread without it: it alone changes the tables
 * that it goes through, and a counter is one word.
 */
#ifndef FFR_OBJ_STATS_H
#define FFR_OBJ_STATS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "ffr/abi/ff_proto.h"

/*
 * Always true but in the benchmark's fast path without counters, by which it measures what they cost: there
 * nothing is counted, timed, traced or probed of a request that succeeds. What is counted of errors,
 * drops, waits, events and frames between hosts stays.
 */
#ifdef FF_NO_COUNTERS
#define FF_COUNTERS false
#else
#define FF_COUNTERS true
#endif

/* X(name, description) */
#define FF_STATS(X)                                                                                \
	X(send_ops, "SEND requests completed")                                                     \
	X(write_ops, "RDMA WRITE requests completed")                                              \
	X(read_ops, "RDMA READ requests completed")                                                \
	X(atomic_ops, "atomic requests completed, atomic WRITEs among them")                       \
	X(flush_ops, "FLUSH requests completed")                                                   \
	X(mw_ops, "binds and local invalidations of memory windows")                               \
	X(recv_ops, "receives completed")                                                          \
	X(tx_bytes, "bytes sent: SEND and WRITE by this container, READ served by it")             \
	X(rx_bytes, "bytes received: SEND and WRITE to this container, READ by it")                \
	X(pvm_bytes, "bytes copied through /proc/PID/mem")                                         \
	X(view_bytes, "bytes copied by views of ffmem.ko")                                         \
	X(pvm_stalls, "such copies that lasted too long, or failed for now, and got a worker")     \
	X(pvm_held, "such copies that had to wait since too many waited for the same memory")      \
	X(odp_faults, "pages of on-demand memory that were not there when they were used")         \
	X(odp_fault_ns, "time of the copies in which such pages had to come, ns")                  \
	X(odp_invalidations, "pages of on-demand memory that the router unmapped")                 \
	X(odp_prefetched, "pages of on-demand memory that came since they were asked for")         \
	X(odp_prefetch_ns, "time that this took, ns")                                              \
	X(errors, "requests completed with an error, flushes not counted")                         \
	X(flushes, "requests flushed")                                                             \
	X(rnr, "RNR NAKs received")                                                                \
	X(retries, "retransmission time-outs")                                                     \
	X(throttled_ns, "time that QPs waited for a rate limit, ns")                               \
	X(cpu_ns, "CPU time that the router spent on it, ns")                                      \
	X(held_ns, "time that its requests waited, since it had reached max_cpu, ns")              \
	X(stalled_ns, "time that its files kept threads of the router waiting, ns")                \
	X(ud_drops, "datagrams and UC messages dropped")                                           \
	X(cq_overruns, "completion queues that overran")                                           \
	X(bells, "wake-ups of the router by a doorbell")                                           \
	X(comp_events, "completion events sent")                                                   \
	X(async_events, "asynchronous events sent")                                                \
	X(events_lost, "events dropped because the client did not read them")                      \
	X(bad_wqes, "malformed work queue entries")                                                \
	X(cgroup_refused, "programs refused since they are not in the container's cgroup")

/* X(enum ibv_wc_status, name): with which status requests and receives were completed */
#define FF_STATS_STATUS(X)                                                                         \
	X(SUCCESS, success)                                                                        \
	X(LOC_LEN_ERR, local_length)                                                               \
	X(LOC_QP_OP_ERR, local_qp_operation)                                                       \
	X(LOC_EEC_OP_ERR, local_eec_operation)                                                     \
	X(LOC_PROT_ERR, local_protection)                                                          \
	X(WR_FLUSH_ERR, flushed)                                                                   \
	X(MW_BIND_ERR, window_bind)                                                                \
	X(BAD_RESP_ERR, bad_response)                                                              \
	X(LOC_ACCESS_ERR, local_access)                                                            \
	X(REM_INV_REQ_ERR, remote_invalid_request)                                                 \
	X(REM_ACCESS_ERR, remote_access)                                                           \
	X(REM_OP_ERR, remote_operation)                                                            \
	X(RETRY_EXC_ERR, retries_exceeded)                                                         \
	X(RNR_RETRY_EXC_ERR, rnr_retries_exceeded)                                                 \
	X(LOC_RDD_VIOL_ERR, local_rdd_violation)                                                   \
	X(REM_INV_RD_REQ_ERR, remote_invalid_rd_request)                                           \
	X(REM_ABORT_ERR, remote_aborted)                                                           \
	X(INV_EECN_ERR, invalid_eecn)                                                              \
	X(INV_EEC_STATE_ERR, invalid_eec_state)                                                    \
	X(FATAL_ERR, fatal)                                                                        \
	X(RESP_TIMEOUT_ERR, response_timeout)                                                      \
	X(GENERAL_ERR, general)                                                                    \
	X(TM_ERR, tag_matching)                                                                    \
	X(TM_RNDV_INCOMPLETE, tag_matching_incomplete)
#define FF_NUM_STATUS (IBV_WC_TM_RNDV_INCOMPLETE + 1)

struct ff_stats {
#define X(name, help) uint64_t name;
	FF_STATS(X)
#undef X
	uint64_t status[FF_NUM_STATUS]; /* but IBV_WC_SUCCESS, see stats_status() */
};

struct lat;
struct qp;
struct session;
struct container;

/* Data of a request that succeeded. */
static inline void stats_bytes(uint64_t *counter, uint64_t bytes)
{
	if (FF_COUNTERS)
		*counter += bytes;
}

/* Of a counter, or of what else one thread counts up; that one may be at it. */
uint64_t stats_word(const uint64_t *p);
/* to += from */
void stats_add(struct ff_stats *to, const struct ff_stats *from);
/* Completions of that status. A success is known by what was done and needs no count of its own. */
uint64_t stats_status(const struct ff_stats *st, unsigned status);

/*
 * All that a session did so far. An XRC_RECV QP that several sessions have counts for the one whose
 * receives it uses now. Control thread.
 */
struct ff_stats stats_of_session(const struct session *s);
/* Adds a container's, and its histogram unless that is NULL. Control thread. */
void stats_of_container(const struct container *c, struct ff_stats *st, struct lat *lat);
/*
 * The parts of that, for who cannot do all of it in one turn: what is counted outside of QPs, gone ones among it, and
 * what one QP counts, XRC_RECV QPs (xrc.h) beside those of sessions' handles. Control thread.
 */
void stats_beside_qps(const struct container *c, struct ff_stats *st, struct lat *lat);
void stats_of_qp(const struct qp *qp, struct ff_stats *st, struct lat *lat);
/* The QP goes; what it counted is its session's. [lock] */
void stats_fold_qp(struct qp *qp);

struct mr;

/* The objects of sessions. */
struct ff_counts {
	uint32_t sessions, qps, cqs, srqs, mrs, pds;
	uint64_t registered, zero_copy; /* bytes, without on-demand memory */
	uint32_t odp_mrs;
	uint64_t copied[FF_WHY_NUM]; /* bytes that are not reached by a pointer, likewise */
};
/*
 * Control thread. Bytes of an MR of a client's memory, not of on-demand memory, that are copied through its process,
 * and why most of these are; the client's word, but for SECCOMP.
 */
uint64_t mr_copied(const struct mr *mr);
enum ff_why mr_why(const struct mr *mr);
extern const char *const why_name[FF_WHY_NUM];
void counts_add_session(struct ff_counts *n, const struct session *s); /* control thread */

/* What a queue has in it now. Control thread; the client's word, and only good to be shown. */
struct ff_depths {
	uint32_t sq, rq; /* posted and not completed */
	uint32_t cq;	 /* completions that the program has not polled, of both CQs */
};
void stats_depths(const struct qp *qp, struct ff_depths *d);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * stats.h - the counters of a session; a container's are the sums of its sessions'.
 *
 * One list feeds the struct, `ffctl stats` and the man page. Written with the fast lock held.
 */
#ifndef FFR_STATS_H
#define FFR_STATS_H

#include <stdint.h>

/* X(name, description) */
#define FF_STATS(X)                                                                                \
	X(send_ops, "SEND requests completed")                                                     \
	X(write_ops, "RDMA WRITE requests completed")                                              \
	X(read_ops, "RDMA READ requests completed")                                                \
	X(atomic_ops, "atomic requests completed")                                                 \
	X(mw_ops, "binds and local invalidations of memory windows")                               \
	X(recv_ops, "receives completed")                                                          \
	X(tx_bytes, "bytes sent: SEND and WRITE by this container, READ served by it")             \
	X(rx_bytes, "bytes received: SEND and WRITE to this container, READ by it")                \
	X(pvm_bytes, "bytes copied through /proc/PID/mem")                                         \
	X(pvm_stalls, "such copies that lasted too long and were handed to a worker")              \
	X(errors, "requests completed with an error, flushes not counted")                         \
	X(flushes, "requests flushed")                                                             \
	X(rnr, "RNR NAKs received")                                                                \
	X(retries, "retransmission time-outs")                                                     \
	X(throttled_ns, "time that QPs waited for a rate limit, ns")                               \
	X(ud_drops, "datagrams and UC messages dropped")                                           \
	X(cq_overruns, "completion queues that overran")                                           \
	X(bells, "wake-ups of the router by a doorbell")                                           \
	X(comp_events, "completion events sent")                                                   \
	X(async_events, "asynchronous events sent")                                                \
	X(events_lost, "events dropped because the client did not read them")                      \
	X(bad_wqes, "malformed work queue entries")

struct ff_stats {
#define X(name, help) uint64_t name;
	FF_STATS(X)
#undef X
};

/* to += from */
void stats_add(struct ff_stats *to, const struct ff_stats *from);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ffo_limits.h - what a container, or the containers of a tenant on one host together, may use.
 *
 * The orchestrator keeps and tells them, the routers hold them. One list feeds the struct, the
 * messages, the stores, ffctl's options and the man page.
 */
#ifndef FFO_LIMITS_H
#define FFO_LIMITS_H

#include <stdint.h>

/*
 * X(name, kind, max, tenant, what). 0 is "no limit" (of weight and latency: the default), and what
 * every field begins as. kind:
 *	RATE	bytes/s; written and shown as bits/s, "10Gbit"
 *	COUNT	a number; "2M" is 2,000,000
 *	BYTES	a number of bytes; "1MB" is 2^20
 *	CPUS	thousandths of a CPU; "0.5" is 500
 *	FLAG	0 or 1
 * tenant: 1 when it can be set for a tenant as well.
 *
 * Direction is the payload's. tx: what the container's own SENDs and WRITEs carry away. rx: what
 * others' SENDs and WRITEs bring, and its own READs and atomics. serve: what others READ from it,
 * their atomics included.
 */
#define FFO_LIMITS(X)                                                                              \
	X(tx_rate, RATE, 1ull << 40, 1, "sent")                                                    \
	X(rx_rate, RATE, 1ull << 40, 1, "received")                                                \
	X(serve_rate, RATE, 1ull << 40, 1, "read by others")                                       \
	X(tx_ops, COUNT, 1ull << 32, 1, "requests sent per second")                                \
	X(rx_ops, COUNT, 1ull << 32, 1, "requests received per second")                            \
	X(serve_ops, COUNT, 1ull << 32, 1, "requests of others served per second")                 \
	X(burst, BYTES, 1ull << 40, 1, "moved at once before the rates hold")                      \
	X(weight, COUNT, 1000, 0, "share beside other containers; 100 when not set")               \
	X(latency, FLAG, 1, 0, "latency-sensitive: served before others")                          \
	X(max_qp, COUNT, 1ull << 32, 1, "queue pairs")                                             \
	X(max_cq, COUNT, 1ull << 32, 1, "completion queues")                                       \
	X(max_srq, COUNT, 1ull << 32, 1, "shared receive queues")                                  \
	X(max_mr, COUNT, 1ull << 32, 1, "memory regions")                                          \
	X(max_wr, COUNT, 1ull << 40, 1, "entries of all its work queues")                          \
	X(max_registered, BYTES, 1ull << 50, 1, "registered")                                      \
	X(max_pinned, BYTES, 1ull << 50, 1, "kept by the router: shadow pages and rings")          \
	X(max_fd, COUNT, 1ull << 20, 1, "descriptors that the router keeps")                       \
	X(max_session, COUNT, 1ull << 20, 1, "sessions")                                           \
	X(max_calls, COUNT, 1ull << 32, 1, "control calls per second")                             \
	X(max_cpu, CPUS, 1000000, 1, "CPU time that the router spends on it")

struct ffo_limits {
#define X(name, kind, max, tenant, what) uint64_t name;
	FFO_LIMITS(X)
#undef X
};

#define FFO_WEIGHT_DEFAULT 100u

#endif

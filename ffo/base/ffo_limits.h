/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ffo_limits.h - what a container, or the containers of a tenant on one host together, may use.
 *
 * The orchestrator keeps and tells them, the routers hold them. One list feeds the struct, the
 * messages, the stores, ffctl's options and the man page.
 */
#ifndef FFO_BASE_FFO_LIMITS_H
#define FFO_BASE_FFO_LIMITS_H

#include <stdint.h>

/*
 * X(name, kind, max, tenant, what). 0 is what every field begins as: nobody has said anything. For those
 * of FFO_DEFAULTS a container then has its host's default, and FFO_UNLIMITED is no limit; of weight and
 * latency there is one default, and all others have no limit. kind:
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
	X(tx_rate, RATE, 1000000000000, 1, "sent")                                                 \
	X(rx_rate, RATE, 1000000000000, 1, "received")                                             \
	X(serve_rate, RATE, 1000000000000, 1, "read by others")                                    \
	X(tx_ops, COUNT, 1ull << 32, 1, "requests sent per second")                                \
	X(rx_ops, COUNT, 1ull << 32, 1, "requests received per second")                            \
	X(serve_ops, COUNT, 1ull << 32, 1, "requests of others served per second")                 \
	X(burst, BYTES, 1ull << 40, 1, "moved at once before the rates hold")                      \
	X(weight, COUNT, 1000, 0, "share beside other containers; 100 when not set")               \
	X(latency, FLAG, 1, 0, "latency-sensitive: served before others")                          \
	X(no_uffd, FLAG, 1, 1, "not given /dev/userfaultfd: what it registers is copied")          \
	X(max_qp, COUNT, 1ull << 32, 1, "queue pairs")                                             \
	X(max_cq, COUNT, 1ull << 32, 1, "completion queues")                                       \
	X(max_srq, COUNT, 1ull << 32, 1, "shared receive queues")                                  \
	X(max_mr, COUNT, 1ull << 32, 1, "memory regions")                                          \
	X(max_wr, COUNT, 1ull << 40, 1, "entries of all its work queues")                          \
	X(max_registered, BYTES, 1ull << 50, 1, "registered")                                      \
	X(max_pinned, BYTES, 1ull << 50, 1, "kept by the router: shadow pages and rings")          \
	X(max_rings, BYTES, 1ull << 50, 1, "of these, rings: the router's own memory")             \
	X(max_fd, COUNT, 1ull << 20, 1, "descriptors that the router keeps")                       \
	X(max_object, COUNT, 1ull << 32, 1, "other objects, and events that wait")                 \
	X(max_session, COUNT, 1ull << 20, 1, "sessions")                                           \
	X(max_calls, COUNT, 1ull << 32, 1, "control calls per second")                             \
	X(max_cpu, CPUS, 1000000, 1, "CPU time that the router spends on it")

struct ffo_limits {
#define X(name, kind, max, tenant, what) uint64_t name;
	FFO_LIMITS(X)
#undef X
};

#define FFO_WEIGHT_DEFAULT 100u

#define FFO_UNLIMITED (1ull << 62) /* "unlimited" */

#define FFO_GB (1ull << 30)
#define FFO_MB (1ull << 20)

/*
 * X(name, default, untrusted): what a container may use of a host when nobody has said it, if the
 * host's ffr.conf has nothing else, and what `ffctl container set --untrusted` says, beside no_uffd. The defaults are
 * above what large honest programs take: a job of 64 processes with 1,024 QPs each, 256 GB
 * registered. They bound what one container can take away from all others: 512 sessions with 65,535
 * MRs each would be 10 GB of the router's memory.
 */
#define FFO_DEFAULTS(X)                                                                            \
	X(max_qp, 65536, 1024)                                                                     \
	X(max_cq, 65536, 1024)                                                                     \
	X(max_srq, 16384, 256)                                                                     \
	X(max_mr, 262144, 4096)                                                                    \
	X(max_wr, 1u << 25, 1u << 18)                                                              \
	X(max_registered, 1024 * FFO_GB, 4 * FFO_GB)                                               \
	X(max_pinned, 256 * FFO_GB, FFO_GB)                                                        \
	X(max_rings, 8 * FFO_GB, 64 * FFO_MB)                                                      \
	X(max_fd, 16384, 512)                                                                      \
	X(max_object, 1u << 20, 1u << 15)                                                          \
	X(max_session, 512, 24)                                                                    \
	X(max_calls, 100000, 5000)                                                                 \
	X(max_cpu, FFO_UNLIMITED, 500)

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ff_proto.h - the control protocol between ffl (in a container) and ffr: the message table, the
 * structs, the version. Included by both sides; dispatch, length checks, log names and the fuzz
 * target are generated from FF_MSG_TABLE.
 *
 * Transport: a SOCK_SEQPACKET Unix socket, one for each container, connected once for each opened
 * device; beside it, a slot in shared memory (struct ff_call_slot). One packet is one message: struct ff_hdr, then
 * the body. The client sends a request and waits for the response with the same type and seq; the router never speaks
 * first here (events have sockets of their own). A message is of exact length: the body of its table row, plus, where
 * the row names a tail element, `n_tail` elements of that size, as the header says. Descriptors
 * travel only where the row says so: with a response at most that many, with a request exactly
 * that many. The first request is HELLO, or CHALLENGE before it. Whatever breaks these rules closes the
 * session with a line in the log; a request that is well formed but cannot be served is answered
 * with status < 0 (-errno) and its body zeroed.
 *
 * Versions. A new message takes the next number, and FF_PROTO_VERSION stays as it is in all of 1.x. A router that does
 * not know a message answers with the header alone and status -EOPNOTSUPP, and the session goes on. (Before HELLO the
 * connection is closed.) A library that must know beforehand asks once, when it opens the device. A message never
 * changes its length, and a field keeps its meaning: use a `reserved` field, where 0 means what was so far, or a new
 * message. HELLO's answer has no field left.
 *
 * Numbers are in the host's byte order, GIDs and IP addresses in network byte order. Handles are
 * chosen by the router, mean something only within the session, and are never 0. Their low 16
 * bits are an index (for QPs the one of the dirty set), the others a generation.
 *
 * The room ffr/abi/ is the contract between library and router, this file, rings (ff_ring.h), rdma_cm
 * (ff_cm.h), mappings (ff_vma.h): structs and what both sides compute of them, and all of ffr that ffl may
 * use. It uses nothing of ours, and runs on whatever thread calls it.
 */
#ifndef FFR_ABI_FF_PROTO_H
#define FFR_ABI_FF_PROTO_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "ffr/abi/ff_cm.h"

#define FF_PROTO_MAGIC	 0x6666u /* "ff" */
#define FF_PROTO_VERSION 4u
#define FF_MSG_MAX	 32768u /* bytes of the largest message, header included */

#define FF_SOCKET_DEFAULT "/run/freeflow/ffr.sock"
#define FF_DEVICE_NAME	  "ff0"	      /* of the first device, where nobody has chosen another */
#define FF_DEVICE_NODE	  "uverbs_ff" /* and its number: where others have a device file */
#define FF_DEVICE_NAME_SZ 64u	      /* as in struct ibv_device */
#define FF_DEVICES_MAX	  16u

#define FF_HANDLE_INDEX(h) ((h)&0xffffu)

struct ff_hdr {
	uint16_t magic;
	uint16_t type;	 /* enum ff_msg_type */
	uint32_t seq;	 /* chosen by the client, repeated in the response */
	int32_t status;	 /* response: 0 or -errno; request: 0 */
	uint16_t n_tail; /* elements behind the body */
	uint16_t n_fds;	 /* descriptors that travel with this packet */
};
static_assert(sizeof(struct ff_hdr) == 16, "ABI");

/*
 * X(NUMBER, NAME, name, tail element of the request or ff_none, descriptors)
 * Descriptors: of the response at most; FF_WITH_FDS(n) where the request carries n of them.
 * The structs are struct ff_<name>_req and struct ff_<name>_resp. Numbers are never reused; rows are
 * in their order, which FF_MSG_NUM relies on.
 */
#define FF_WITH_FDS(n)	 ((n) << 8)
#define FF_RESP_FDS(fds) ((fds)&0xff)
#define FF_REQ_FDS(fds)	 ((fds) >> 8)
/* The device, the connection manager, and what of the device came later. */
#define FF_DEVICE_MSGS(X)                                                                          \
	X(1, HELLO, hello, ff_none, FF_WITH_FDS(2) | 3)                                            \
	X(2, GET_SEG, get_seg, ff_none, 1)                                                         \
	X(3, QUERY_DEVICE, query_device, ff_none, 0)                                               \
	X(4, QUERY_PORT, query_port, ff_none, 0)                                                   \
	X(5, QUERY_GID, query_gid, ff_none, 0)                                                     \
	X(6, ALLOC_PD, alloc_pd, ff_none, 0)                                                       \
	X(7, DEALLOC_PD, dealloc_pd, ff_none, 0)                                                   \
	X(9, REG_MR, reg_mr, ff_mr_run, 0)                                                         \
	X(10, REREG_MR, rereg_mr, ff_mr_run, 0)                                                    \
	X(11, DEREG_MR, dereg_mr, ff_none, 0)                                                      \
	X(12, CREATE_CHANNEL, create_channel, ff_none, 1)                                          \
	X(13, DESTROY_CHANNEL, destroy_channel, ff_none, 0)                                        \
	X(14, CREATE_CQ, create_cq, ff_none, 0)                                                    \
	X(15, RESIZE_CQ, resize_cq, ff_none, 0)                                                    \
	X(16, DESTROY_CQ, destroy_cq, ff_none, 0)                                                  \
	X(17, CREATE_SRQ, create_srq, ff_none, 0)                                                  \
	X(18, MODIFY_SRQ, modify_srq, ff_none, 0)                                                  \
	X(19, QUERY_SRQ, query_srq, ff_none, 0)                                                    \
	X(20, DESTROY_SRQ, destroy_srq, ff_none, 0)                                                \
	X(21, CREATE_QP, create_qp, ff_none, 0)                                                    \
	X(22, MODIFY_QP, modify_qp, ff_none, 0)                                                    \
	X(23, QUERY_QP, query_qp, ff_none, 0)                                                      \
	X(24, DESTROY_QP, destroy_qp, ff_none, 0)                                                  \
	X(25, CREATE_AH, create_ah, ff_none, 0)                                                    \
	X(26, DESTROY_AH, destroy_ah, ff_none, 0)                                                  \
	X(28, OPEN_XRCD, open_xrcd, ff_none, 0)                                                    \
	X(29, CLOSE_XRCD, close_xrcd, ff_none, 0)                                                  \
	X(30, OPEN_QP, open_qp, ff_none, 0)                                                        \
	X(31, IMPORT_DEVICE, import_device, ff_none, 0)                                            \
	X(32, IMPORT_PD, import_pd, ff_none, 0)                                                    \
	X(33, IMPORT_MR, import_mr, ff_none, 0)                                                    \
	X(34, MODIFY_CQ, modify_cq, ff_none, 0)                                                    \
	X(35, ATTACH_MCAST, attach_mcast, ff_none, 0)                                              \
	X(36, DETACH_MCAST, detach_mcast, ff_none, 0)                                              \
	X(37, REPEAT_EVENT, repeat_event, ff_none, 0)
#define FF_CM_MSGS(X)                                                                              \
	X(40, CM_CREATE_ID, cm_create_id, ff_none, 0)                                              \
	X(41, CM_DESTROY_ID, cm_destroy_id, ff_none, 0)                                            \
	X(42, CM_BIND, cm_bind, ff_none, 0)                                                        \
	X(43, CM_RESOLVE_ADDR, cm_resolve_addr, ff_none, 0)                                        \
	X(44, CM_RESOLVE_ROUTE, cm_resolve_route, ff_none, 0)                                      \
	X(45, CM_QUERY, cm_query, ff_none, 0)                                                      \
	X(46, CM_LISTEN, cm_listen, ff_none, 0)                                                    \
	X(47, CM_CONNECT, cm_connect, ff_cm_byte, 0)                                               \
	X(48, CM_ACCEPT, cm_accept, ff_cm_byte, 0)                                                 \
	X(49, CM_REJECT, cm_reject, ff_cm_byte, 0)                                                 \
	X(50, CM_ESTABLISH, cm_establish, ff_none, 0)                                              \
	X(51, CM_DISCONNECT, cm_disconnect, ff_none, 0)                                            \
	X(52, CM_INIT_QP_ATTR, cm_init_qp_attr, ff_none, 0)                                        \
	X(53, CM_MIGRATE_ID, cm_migrate_id, ff_none, 0)                                            \
	X(54, CM_SET_OPTION, cm_set_option, ff_none, 0)                                            \
	X(55, CM_JOIN, cm_join, ff_none, 0)                                                        \
	X(56, CM_LEAVE, cm_leave, ff_none, 0)                                                      \
	X(57, CM_WRITE_EVENT, cm_write_event, ff_cm_byte, 0)                                       \
	X(58, CM_CREATE_QP, cm_create_qp, ff_none, 0)                                              \
	X(59, CM_DEVICE, cm_device, ff_none, 0)
#define FF_LATER_MSGS(X)                                                                           \
	X(60, ALLOC_MW, alloc_mw, ff_none, 0)                                                      \
	X(61, DEALLOC_MW, dealloc_mw, ff_none, 0)                                                  \
	X(62, ALLOC_NULL_MR, alloc_null_mr, ff_none, 0)                                            \
	X(63, ALLOC_DM, alloc_dm, ff_none, 0)                                                      \
	X(64, FREE_DM, free_dm, ff_none, 0)                                                        \
	X(65, REG_DM_MR, reg_dm_mr, ff_none, 0)                                                    \
	X(66, REG_DMABUF_MR, reg_dmabuf_mr, ff_none, FF_WITH_FDS(1))                               \
	X(67, ADVISE_MR, advise_mr, ff_none, 0)                                                    \
	X(68, CHALLENGE, challenge, ff_none, 0)                                                    \
	X(69, WATCH_HEAT, watch_heat, ff_none, 1)                                                  \
	X(70, MAP_MR, map_mr, ff_mr_run, 0)                                                        \
	X(71, TELL_NDEVS, tell_ndevs, ff_ndev, 0)                                                  \
	X(72, WATCH_PAGES, watch_pages, ff_none, FF_WITH_FDS(2) | 1)                               \
	X(73, PLACE_PAGES, place_pages, ff_none, 1)                                                \
	X(74, HEAT_DONE, heat_done, ff_none, 0)                                                    \
	X(75, DROP_RUNS, drop_runs, ff_none, 0)                                                    \
	X(76, SETTLE_PAGES, settle_pages, ff_none, 0)                                              \
	X(77, TRACK, track, ff_none, FF_WITH_FDS(1))                                               \
	X(78, TRACK_PAGES, track_pages, ff_none, 1)                                                \
	X(79, DEVICE, device, ff_none, 0)
#define FF_MSG_TABLE(X) FF_DEVICE_MSGS(X) FF_CM_MSGS(X) FF_LATER_MSGS(X)

enum ff_msg_type {
#define X(num, NAME, name, tail, fds) FF_MSG_##NAME = num,
	FF_MSG_TABLE(X)
#undef X
		FF_MSG_NUM
};

/* "No tail element": its size counts as 0. A response or request without fields has `reserved`. */
struct ff_none {
	uint32_t reserved;
};

#define FF_TOKEN_SZ 16u

#define FF_NONCE_SZ 16u

/*
 * CHALLENGE: a number to be shown in HELLO. To be asked for when HELLO was answered with -EAGAIN:
 * where the kernel cannot give the router a pidfd of who connected, the message that shows it does.
 */
struct ff_challenge_req {
	uint32_t reserved;
};
struct ff_challenge_resp {
	uint8_t nonce[FF_NONCE_SZ];
};

/*
 * HELLO: agree on a version, learn who one is, hand over one's memory. Descriptors of the request: [0]
 * /proc/self/mem, opened for reading and writing, [1] /proc/self/maps, both opened by the process
 * that connected. -EAGAIN: see CHALLENGE. -EPERM: they, or the process, are not what they should be.
 */
struct ff_hello_req {
	uint32_t version_min, version_max;
	char comm[16];		    /* the program's name, for ffctl and the log */
	uint8_t nonce[FF_NONCE_SZ]; /* CHALLENGE's, or zeros */
};

enum ff_mode { FF_MODE_ADAPTIVE, FF_MODE_SPIN, FF_MODE_SOCKET, FF_MODE_NUM };

/* Descriptors of the answer: [0] async events, [1] doorbell eventfd, [2] /dev/userfaultfd if has_uffd. */
#define FF_UFFD_TRACK 2u /* of has_uffd: the router knows TRACK */
struct ff_hello_resp {
	uint32_t version;
	uint32_t session;   /* number of this session, for the log */
	uint32_t mode;	    /* enum ff_mode */
	uint16_t has_uffd;  /* FF_UFFD_TRACK, or 1: a third descriptor came along; 0: none */
	uint16_t has_nic;   /* 1: an MR is of full use only if runs cover all of it */
	uint32_t seg0_size; /* bytes of segment 0, which starts with struct ff_ses_hdr */
	uint16_t num_ports;
	uint16_t num_devices;	    /* of the container; 0: the router does not know DEVICE */
	uint64_t node_guid;	    /* network byte order */
	uint8_t token[FF_TOKEN_SZ]; /* for IMPORT_DEVICE by whom the client gives it to */
};

/*
 * DEVICE: choose which device of the container the session is of; a new session is of device 0. The devices of a
 * container share all that the container has, and differ in name, GUID and the order of their GIDs. -ENODEV: the
 * container has no device of that index.
 */
#define FF_DEVICE_AS_IS UINT32_MAX /* index: keep the device, only ask about it */
struct ff_device_req {
	uint32_t index;
};
struct ff_device_resp {
	uint64_t node_guid;	      /* network byte order */
	char name[FF_DEVICE_NAME_SZ]; /* ends with 0 */
	uint32_t index, reserved;
};

/*
 * GET_SEG: the descriptor of a segment. The client maps the segment and then seals it with F_SEAL_FUTURE_WRITE,
 * because the router touches no segment in which its client can punch holes. A handle of an object in a segment that
 * is not sealed is not known, and a connection whose segment 0 is not sealed is closed at the next call. RESIZE_CQ,
 * CREATE_SRQ of an XRC SRQ, and CM_CREATE_QP of a UD QP are answered with -EAGAIN where the new ring would be in a
 * segment that is not sealed.
 */
struct ff_get_seg_req {
	uint32_t seg;
	uint32_t reserved;
};
struct ff_get_seg_resp {
	uint64_t size; /* bytes */
};

struct ff_query_device_req {
	uint32_t reserved;
};
/* What verbs' device attributes are made of. Counts are limits for one session. */
struct ff_query_device_resp {
	uint64_t node_guid, sys_image_guid; /* network byte order */
	uint64_t max_mr_size;		    /* bytes */
	uint64_t page_size_cap;
	uint64_t device_cap_flags; /* IBV_DEVICE_*, the 64-bit form */
	uint64_t hca_core_clock;   /* kHz of completion timestamps */
	uint64_t timestamp_mask;
	uint64_t max_dm_size; /* bytes, of the container */
	char fw_ver[64];
	uint32_t vendor_id, vendor_part_id, hw_ver;
	uint32_t max_qp, max_qp_wr, max_sge, max_sge_rd, max_inline;
	uint32_t max_cq, max_cqe, max_mr, max_pd;
	uint32_t max_qp_rd_atom, max_qp_init_rd_atom, max_res_rd_atom;
	uint32_t max_ah, max_srq, max_srq_wr, max_srq_sge;
	uint32_t max_pkeys, local_ca_ack_delay;
	uint32_t atomic_cap; /* enum ibv_atomic_cap */
	uint32_t phys_port_cnt;
	uint32_t num_comp_vectors;
	uint32_t max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach;
	uint32_t max_cq_count, max_cq_period; /* MODIFY_CQ's; the period in us */
	uint32_t max_mw;
	/* on-demand paging: enum ibv_odp_general_caps, and of each transport enum ibv_odp_transport_cap_bits */
	uint32_t odp_general, odp_rc, odp_uc, odp_ud, odp_xrc;
};

struct ff_query_port_req {
	uint32_t port; /* from 1 */
	uint32_t reserved;
};
struct ff_query_port_resp {
	uint32_t state, max_mtu, active_mtu; /* the verbs' enums */
	uint32_t gid_tbl_len, pkey_tbl_len;
	uint32_t port_cap_flags, max_msg_sz;
	uint32_t active_speed; /* 1, 2, 4 … as in ibv_port_attr.active_speed */
	uint16_t lid, sm_lid, port_cap_flags2, pkey0;
	uint8_t active_width, phys_state, link_layer, lmc, max_vl_num, sm_sl, flags, reserved;
};

struct ff_query_gid_req {
	uint32_t port, index;
};
struct ff_query_gid_resp {
	uint8_t gid[16];
	uint32_t gid_type; /* enum ibv_gid_type of <infiniband/verbs.h> */
	uint32_t ndev_ifindex;
};

/*
 * TELL_NDEVS: where the process has its addresses, which the router cannot see. It says so in the files of the
 * container's GIDs (gid_attrs/ndevs), for those that are among them. -EINVAL: a name that no interface has, or too
 * many addresses.
 */
#define FF_NDEVS_MAX	256u /* elements of one request */
#define FF_NDEV_NAME_SZ 16u
struct ff_ndev {
	uint8_t addr[16]; /* IPv4 as ::ffff:a.b.c.d; zero: for a GID that is on no interface */
	char name[FF_NDEV_NAME_SZ]; /* ends with 0 */
};
struct ff_tell_ndevs_req {
	uint32_t reserved;
};
struct ff_tell_ndevs_resp {
	uint32_t reserved;
};

struct ff_alloc_pd_req {
	uint32_t reserved;
};
struct ff_alloc_pd_resp {
	uint32_t pd;
};
struct ff_dealloc_pd_req {
	uint32_t pd;
	uint32_t unimport; /* 1: of an imported PD, this session's handle only */
};
struct ff_dealloc_pd_resp {
	uint32_t reserved;
};

/*
 * WATCH_PAGES: the session's file of shadow pages, once. Descriptors of the request: [0] a userfaultfd of the process,
 * with events of removing, unmapping and moving, of which the client keeps no copy, [1] its /proc/self/pagemap; of the
 * answer: the file.
 */
struct ff_watch_pages_req {
	uint32_t reserved;
};
struct ff_watch_pages_resp {
	uint32_t reserved;
};

/*
 * PLACE_PAGES: `len` bytes of the file are going to be mapped, registered with the userfaultfd that comes with the
 * answer, of which the client keeps no copy, either. Nobody gives them back before they were moved, or the next such
 * call. Regions lie FF_PAGES_STRIDE apart. -ENOSPC, -ENOMEM: too much. With len and span 0: what was placed last is
 * mapped, or is not needed.
 *
 * PLACE_PAGES, REG_MR, and REREG_MR with IBV_REREG_MR_CHANGE_TRANSLATION: -EINPROGRESS: the container's memory has
 * kept the router waiting. The client asks again, until the router maps pages for it.
 */
#define FF_PAGES_STRIDE ((uint64_t)1 << 42) /* bytes */
struct ff_place_pages_req {
	uint64_t len;  /* bytes, whole pages */
	uint64_t span; /* of a region that these are part of, bytes; 0: of one that is there */
	uint64_t off;  /* in the region that is new, or else in the file */
};
struct ff_place_pages_resp {
	uint64_t off; /* in the file */
};

/*
 * A run of an MR: whole pages at [va, va + len) that the router can reach by a mapping of its own.
 * Runs are sorted and disjoint; what no run covers is reached by copies through /proc/PID/mem (pvm.c).
 */
enum ff_run_kind {
	FF_RUN_SHADOW = 1, /* pages of the file of shadow pages from `off` */
	FF_RUN_SHARED = 2, /* a shared mapping of the application; the router finds out which */
};
struct ff_mr_run {
	uint64_t va, len; /* bytes, page-aligned */
	uint64_t off;
	uint32_t reserved;
	uint32_t kind; /* enum ff_run_kind */
};
#define FF_MR_MAX_RUNS 512u

/*
 * Why bytes of an MR of the application's memory have no run, and are copied: X(NAME, its name for operators, in
 * words). An MR has one, that of most of these bytes. The client's word, and only good to be shown; SECCOMP is the
 * router's.
 */
#define FF_WHYS(X)                                                                                 \
	X(OTHER, "other", "it is not known why")                                                   \
	X(UNUSED, "unused",                                                                        \
	  "1 MB and more is shared when it is used, and this was not used enough")                 \
	X(SECCOMP, "seccomp",                                                                      \
	  "the program has installed seccomp filters since it opened the device")                  \
	X(UFFD, "no-userfaultfd",                                                                  \
	  "the host has no /dev/userfaultfd, or the container may not have it")                    \
	X(EDGE, "edge", "other bytes of the program are on the same pages")                        \
	X(FILE, "file", "it is a mapping of a file")                                               \
	X(HUGE, "hugetlb", "it is private memory of hugetlbfs")                                    \
	X(RIGHTS, "rights", "it may be executed, or may not be read and written to")               \
	X(STACK, "stack", "it is a thread's stack, or next to a thread's control block")           \
	X(ATTRIBUTE, "attribute",                                                                  \
	  "shared memory cannot have what was asked of it (MADV_DONTFORK, protection keys ...)")   \
	X(POLICY, "numa-policy", "it has a NUMA policy of its own")                                \
	X(PINNED, "pinned", "a device, or io_uring, has its pages")                                \
	X(MAPPINGS, "mappings", "there is no memory for it, or there are too many mappings")       \
	X(LIMIT, "limit",                                                                          \
	  "max_shadow_mb, max_pinned or the 1,024 pieces of a session are used up")                \
	X(PIECES, "pieces", "the MR has too many pieces")                                          \
	X(CHANGED, "changed", "the program mapped something else there meanwhile")
enum ff_why {
#define X(NAME, name, text) FF_WHY_##NAME,
	FF_WHYS(X)
#undef X
		FF_WHY_NUM
};

/*
 * An MR with IBV_ACCESS_ON_DEMAND has no runs: all of it is what the process has mapped there when it is used.
 * Address 0 and length UINT64_MAX are the whole address space (implicit ODP).
 */
struct ff_reg_mr_req {
	uint64_t addr, length, iova;
	uint32_t pd;
	uint32_t access; /* IBV_ACCESS_*; in place of the optional bits FF_ACCESS_WHY(enum ff_why) */
};
#define FF_ACCESS_WHY(why) ((uint32_t)(why) << 20)
#define FF_ACCESS_WHY_MASK 0x3ff00000u
#define FF_WHY_OF(access)  (((access)&FF_ACCESS_WHY_MASK) >> 20)
/*
 * The MR is tracked (see TRACK). -EAGAIN: its process is just changing mappings that are tracked.
 * Also of REREG_MR with IBV_REREG_MR_CHANGE_TRANSLATION.
 */
#define FF_ACCESS_TRACK (1u << 31)
struct ff_reg_mr_resp {
	uint32_t mr, lkey, rkey;
	uint32_t tracked;   /* 1: FF_TRACK_ALL was said of its pages, and still holds */
	uint64_t zero_copy; /* bytes reached by a pointer */
};
/* REREG_MR: flags are IBV_REREG_MR_*; what they do not name is ignored. Keys change. */
struct ff_rereg_mr_req {
	uint64_t addr, length, iova;
	uint32_t mr, flags, pd, access;
};
struct ff_rereg_mr_resp {
	uint32_t lkey, rkey;
	uint64_t zero_copy;
};
/*
 * DEREG_MR: -EAGAIN: the keys are gone already, but bytes of it are just being copied through the process; to be
 * asked for again. Once it is answered with 0 nothing is read or written there any more.
 */
struct ff_dereg_mr_req {
	uint32_t mr;
	uint32_t imported; /* 1: mr is a handle of the session that this one imports from */
};
struct ff_dereg_mr_resp {
	uint32_t reserved;
};

/*
 * WATCH_HEAT: once for each session; -EOPNOTSUPP: the router has a NIC; -EPERM: the process has other seccomp filters
 * than when the session began, or that cannot be found out. The descriptor is a socket. Packets come out of it, struct
 * ff_heat_event, for each part of an MR registered from then on that is reached by copies through the process and was
 * used: several times as many bytes as it has, where a use counts as 64 KB at least. None comes before the last one was
 * answered by HEAT_DONE, and none once the process has other filters. The socket hangs up when the thread that reads it
 * is to end: when the process has no other threads any more.
 */
struct ff_watch_heat_req {
	uint32_t reserved;
};
struct ff_watch_heat_resp {
	uint32_t reserved;
};
struct ff_heat_event {
	uint32_t mr; /* handle, which may be gone meanwhile */
	uint32_t reserved;
	uint64_t va, len; /* bytes of the MR, at most FF_HEAT_SLICE; whole pages but at its ends */
};
#define FF_HEAT_SLICE ((uint64_t)2 << 20)

/* HEAT_DONE: what the last event of WATCH_HEAT asked for is done. */
struct ff_heat_done_req {
	uint32_t busy; /* 1: some pages must not be replaced now; it may be told of once more */
	uint32_t why; /* enum ff_why: most of what is copied still is for this; UNUSED: nothing is */
};
struct ff_heat_done_resp {
	uint32_t reserved;
};

/*
 * MAP_MR: further runs of an MR of the application's memory, of shadow pages only, where it has none so
 * far. Sorted and disjoint. All or nothing; -ENOSPC: it would have too many; -EAGAIN: the MR is tracked, and its
 * process is just changing its mappings. What is not at its address any more gets no run.
 */
struct ff_map_mr_req {
	uint32_t mr;
	uint32_t open; /* 1: what FF_TRACK_CLOSE closed is open from then on */
};
struct ff_map_mr_resp {
	uint64_t zero_copy; /* as of REG_MR, all in all */
};

/*
 * DROP_RUNS: the client is about to put other memory in place of [va, va + len), which is the file with that inode
 * number from `off` on: of shadow pages, this session's or another's. When all MRs have been gone through, none of the
 * session has a run there any more, and what is at these addresses is reached by copies. -EBUSY: an MR has some of
 * these bytes of the file at another address, or a NIC has them. A call goes through some of the MRs, and the client
 * goes on with `next` until that is 0: first with `check`, which changes nothing.
 */
struct ff_drop_runs_req {
	uint64_t va, len, off; /* whole pages */
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	uint32_t from; /* 0, or the last answer's `next` */
	uint32_t check;
};
struct ff_drop_runs_resp {
	uint32_t next; /* 0: that was all */
};

/*
 * SETTLE_PAGES: how often whoever answers faults of the session's shadow pages has found nothing to do. All faults from
 * before the call have been answered when the number has grown by 2, which it does soon. 0: there are no such pages.
 */
struct ff_settle_pages_req {
	uint32_t reserved;
};
struct ff_settle_pages_resp {
	uint64_t idle;
};

/*
 * TRACK: MRs can be tracked from now on: the router copies their memory to and from where the
 * process has it, also when it was moved, and no other memory in its place. Once for each session.
 * The descriptor is a userfaultfd of the process, with events of unmapping and remapping.
 */
struct ff_track_req {
	uint32_t reserved;
};
struct ff_track_resp {
	uint32_t reserved;
};

/*
 * TRACK_PAGES: about whole pages at [va, va + len) of the process, whichever MR has them. -EAGAIN:
 * it is just changing mappings that are tracked, or, of FF_TRACK_CLOSE, a copy is under way; to be
 * asked for again. FF_TRACK_GET and FF_TRACK_CLOSE give the session's userfaultfd.
 */
enum ff_track_op {
	FF_TRACK_GET, /* they are about to be registered with it */
	FF_TRACK_ALL, /* they are, all of them, since FF_TRACK_GET; -ESTALE: but have changed since */
	FF_TRACK_CLOSE, /* nothing of them is copied, nor is registered soon, until they are opened */
	FF_TRACK_OPEN, /* what is closed, whatever it is; MAP_MR can do it, too */
};
struct ff_track_pages_req {
	uint64_t va, len;
	uint32_t op; /* enum ff_track_op */
	uint32_t reserved;
};
struct ff_track_pages_resp {
	uint32_t reserved;
};

/* ALLOC_NULL_MR: it has an lkey only. */
struct ff_alloc_null_mr_req {
	uint32_t pd;
};
struct ff_alloc_null_mr_resp {
	uint32_t mr, lkey;
};

/*
 * ADVISE_MR: about one part of an MR that is the application's memory. The router prepares at most
 * its first FF_PREFETCH_MAX bytes: others want to be served in between.
 */
#define FF_PREFETCH_MAX (4u << 20)
struct ff_advise_mr_req {
	uint64_t addr; /* as the lkey counts */
	uint32_t length, lkey;
	uint32_t pd;
	uint32_t advice; /* enum ibv_advise_mr_advice */
	uint32_t flags;	 /* IBV_ADVISE_MR_FLAG_* */
	/* of on-demand memory, when it is done: to be counted. 0 pages: it is asked for */
	uint32_t done_pages;
	uint64_t done_ns;
};
struct ff_advise_mr_resp {
	uint64_t va;	    /* the part's address in the application, valid unless foreign */
	uint32_t on_demand; /* 1: the router has nothing to prepare of it */
	uint32_t reserved;
};

/* Device memory: `length` bytes at `off` of `seg`, page-aligned. */
struct ff_alloc_dm_req {
	uint64_t length;
	uint32_t log_align; /* up to 12 */
	uint32_t reserved;
};
struct ff_alloc_dm_resp {
	uint32_t dm, seg, off, reserved;
};
struct ff_free_dm_req {
	uint32_t dm;
};
struct ff_free_dm_resp {
	uint32_t reserved;
};
/* REG_DM_MR: addresses of the MR begin with 0. */
struct ff_reg_dm_mr_req {
	uint64_t offset, length;
	uint32_t pd, dm, access, reserved;
};
struct ff_reg_dm_mr_resp {
	uint32_t mr, lkey, rkey, reserved;
};
/* REG_DMABUF_MR: the dma-buf's descriptor comes with the request. */
struct ff_reg_dmabuf_mr_req {
	uint64_t offset, length, iova;
	uint32_t pd, access;
};
struct ff_reg_dmabuf_mr_resp {
	uint32_t mr, lkey, rkey, reserved;
};

/* ALLOC_MW: a window that is bound to nothing. Binding and invalidating are WRs (ff_ring.h). */
struct ff_alloc_mw_req {
	uint32_t pd;
	uint32_t type; /* enum ibv_mw_type */
};
struct ff_alloc_mw_resp {
	uint32_t mw, rkey;
};
struct ff_dealloc_mw_req {
	uint32_t mw;
};
struct ff_dealloc_mw_resp {
	uint32_t reserved;
};

/* DESTROY_CHANNEL: -EAGAIN when it has very many ids, of which some are gone: to be asked for again. */
struct ff_create_channel_req {
	uint32_t reserved;
};
struct ff_create_channel_resp {
	uint32_t channel;
};
struct ff_destroy_channel_req {
	uint32_t channel;
};
struct ff_destroy_channel_resp {
	uint32_t reserved;
};

/* Where a ring is: `off` is the header's offset in `seg`, `ring_off` the first entry's. */
struct ff_ring_at {
	uint32_t seg, off, ring_off;
	uint32_t depth;	 /* entries, a power of two */
	uint32_t stride; /* bytes */
	uint32_t reserved;
};

#define FF_CQ_TIMESTAMP 0x1 /* flags: fill in ff_cqe.timestamp */

struct ff_create_cq_req {
	uint32_t cqe;	  /* entries wanted */
	uint32_t channel; /* handle or 0 */
	uint32_t comp_vector;
	uint32_t flags;
};
struct ff_create_cq_resp {
	uint32_t cq;
	uint32_t cqe; /* entries that the CQ holds */
	struct ff_ring_at ring;
};
/* RESIZE_CQ: entries not consumed yet are copied to the start of the new ring, oldest first. */
struct ff_resize_cq_req {
	uint32_t cq, cqe;
};
struct ff_resize_cq_resp {
	uint32_t cqe, reserved;
	struct ff_ring_at ring;
};
struct ff_destroy_cq_req {
	uint32_t cq;
};
struct ff_destroy_cq_resp {
	uint32_t reserved;
};

/* An XRC SRQ has a domain, and a CQ for its receives. */
/*
 * MODIFY_CQ: event moderation. An event that is due is held back until `count` completions came
 * since the last event, at most `period` us. One of them 0: events are sent at once.
 */
struct ff_modify_cq_req {
	uint32_t cq;
	uint16_t count, period;
};
struct ff_modify_cq_resp {
	uint32_t reserved;
};
/*
 * REPEAT_EVENT: the CQ's event comes once more. A client that destroys a CQ takes all packets out of its
 * channel, of which a socket has no middle, and has those of other CQs repeated. -EAGAIN: the channel's
 * socket is full.
 */
struct ff_repeat_event_req {
	uint32_t cq;
};
struct ff_repeat_event_resp {
	uint32_t reserved;
};

struct ff_create_srq_req {
	uint32_t pd, max_wr, max_sge, srq_limit;
	uint32_t xrcd, cq; /* handles; both 0: not of XRC */
	uint64_t user;	   /* for ff_cqe.user */
};
struct ff_create_srq_resp {
	uint32_t srq, max_wr, max_sge, srq_num;
	struct ff_ring_at ring;
};
struct ff_modify_srq_req {
	uint32_t srq;
	uint32_t mask; /* IBV_SRQ_* */
	uint32_t max_wr, srq_limit;
};
struct ff_modify_srq_resp {
	uint32_t reserved;
};
struct ff_query_srq_req {
	uint32_t srq;
};
struct ff_query_srq_resp {
	uint32_t max_wr, max_sge, srq_limit, reserved;
};
struct ff_destroy_srq_req {
	uint32_t srq;
};
struct ff_destroy_srq_resp {
	uint32_t reserved;
};

/* A path: struct ibv_ah_attr with fixed widths. */
struct ff_ah_attr {
	uint8_t dgid[16];
	uint32_t flow_label;
	uint16_t dlid;
	uint8_t sgid_index, hop_limit, traffic_class;
	uint8_t sl, src_path_bits, static_rate, is_global, port_num;
	uint8_t reserved[2];
};
static_assert(sizeof(struct ff_ah_attr) == 32, "ABI");

struct ff_qp_cap {
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
};

struct ff_create_qp_req {
	uint32_t pd, send_cq, recv_cq;
	uint32_t srq;  /* handle or 0 */
	uint32_t xrcd; /* XRC_RECV: handle, and pd, send_cq, recv_cq are 0; XRC_SEND: no recv_cq */
	uint32_t qp_type; /* enum ibv_qp_type */
	uint32_t sq_sig_all;
	uint32_t create_flags;
	struct ff_qp_cap cap;
	uint32_t reserved;
	uint64_t user; /* for ff_cqe.user */
};
struct ff_create_qp_resp {
	uint32_t qp, qp_num;
	struct ff_qp_cap cap;
	uint32_t reserved;
	struct ff_ring_at sq; /* off is the ff_qp_hdr's offset */
	struct ff_ring_at rq; /* depth 0: none (an SRQ) */
};

/* struct ibv_qp_attr with fixed widths; enums are the verbs'. */
struct ff_qp_attr {
	struct ff_ah_attr ah, alt_ah;
	struct ff_qp_cap cap;
	uint32_t qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags;
	uint32_t rate_limit;
	uint16_t pkey_index, alt_pkey_index;
	uint8_t qp_state, cur_qp_state, path_mtu, path_mig_state;
	uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic;
	uint8_t min_rnr_timer, port_num, timeout, retry_cnt;
	uint8_t rnr_retry, alt_port_num, alt_timeout, reserved;
};

/* CM_INIT_QP_ATTR (the request is in ff_cm.h): what ibv_modify_qp wants, qp_state included. */
struct ff_cm_init_qp_attr_resp {
	struct ff_qp_attr attr;
	uint32_t mask; /* enum ibv_qp_attr_mask */
};

/* CM_CREATE_QP: CREATE_QP in the session that this one imports from, for an id; see ff_cm.h. */
struct ff_cm_create_qp_req {
	uint32_t id;
	struct ff_create_qp_req qp;
};
struct ff_cm_create_qp_resp {
	struct ff_create_qp_resp qp;
	uint32_t qp_state; /* enum ibv_qp_state */
};

struct ff_modify_qp_req {
	uint32_t qp;
	uint32_t mask; /* enum ibv_qp_attr_mask */
	struct ff_qp_attr attr;
	/* RESET: the index of the next entry that is posted; what was posted before is forgotten */
	uint32_t sq_tail, rq_tail;
};
struct ff_modify_qp_resp {
	uint32_t qp_state;
};
struct ff_query_qp_req {
	uint32_t qp;
};
struct ff_query_qp_resp {
	struct ff_qp_attr attr;
	uint32_t sq_sig_all;
};
struct ff_destroy_qp_req {
	uint32_t qp;
};
struct ff_destroy_qp_resp {
	uint32_t reserved;
};

/*
 * IMPORT_DEVICE: from now on PDs and MRs of that session of the container can be imported here, and
 * its QPs used for connections (ff_cm.h).
 * Handles of the requests are its handles. -ENODEV: it has ended. A session may import one session of each of the
 * container's devices; PDs and MRs are those of the first one.
 */
struct ff_import_device_req {
	uint8_t token[FF_TOKEN_SZ];
};
struct ff_import_device_resp {
	uint32_t session;
};
struct ff_import_pd_req {
	uint32_t pd;
};
struct ff_import_pd_resp {
	uint32_t pd; /* handle of this session */
};
struct ff_import_mr_req {
	uint32_t pd; /* handle of this session: an imported PD, that the MR is in */
	uint32_t mr;
};
struct ff_import_mr_resp {
	uint64_t length, iova;
	uint32_t lkey, rkey;
};

/*
 * OPEN_XRCD: with a file, the container's domain of that file (as the client's fstat tells it); else
 * a new one that nobody else finds. -EAGAIN: there is none and FF_XRCD_CREATE was not given.
 */
#define FF_XRCD_CREATE	  0x1
#define FF_XRCD_EXCLUSIVE 0x2 /* with a file: -EINVAL if there is one */
struct ff_open_xrcd_req {
	uint64_t dev, ino;
	uint32_t has_file;
	uint32_t flags; /* FF_XRCD_* */
};
struct ff_open_xrcd_resp {
	uint32_t xrcd;
};
struct ff_close_xrcd_req {
	uint32_t xrcd;
};
struct ff_close_xrcd_resp {
	uint32_t reserved;
};
/* OPEN_QP: a further handle of an XRC_RECV QP of the domain. */
struct ff_open_qp_req {
	uint32_t xrcd, qp_num;
	uint32_t qp_type; /* enum ibv_qp_type */
};
struct ff_open_qp_resp {
	uint32_t qp;
	uint32_t qp_state; /* enum ibv_qp_state */
};

struct ff_create_ah_req {
	uint32_t pd;
	struct ff_ah_attr attr;
};
struct ff_create_ah_resp {
	uint32_t ah;
};
struct ff_destroy_ah_req {
	uint32_t ah;
};
struct ff_destroy_ah_resp {
	uint32_t reserved;
};

/* The group is a GID; the LID means nothing but to tell attachments apart. */
struct ff_attach_mcast_req {
	uint32_t qp;
	uint16_t lid, reserved;
	uint8_t gid[16];
};
struct ff_attach_mcast_resp {
	uint32_t pending; /* other hosts may not know of it yet; ask again, with the same request */
};
struct ff_detach_mcast_req {
	uint32_t qp;
	uint16_t lid, reserved;
	uint8_t gid[16];
};
struct ff_detach_mcast_resp {
	uint32_t reserved;
};

/* Every struct is free of implicit padding that the compilers of both sides could disagree on. */
#define X(num, NAME, name, tail, fds)                                                              \
	static_assert(sizeof(struct ff_##name##_req) % 4 == 0, #name);                             \
	static_assert(sizeof(struct ff_##name##_resp) % 4 == 0, #name);                            \
	static_assert(sizeof(struct ff_##name##_req) + sizeof(struct ff_hdr) <= FF_MSG_MAX, #name);
FF_MSG_TABLE(X)
#undef X
static_assert(sizeof(struct ff_hello_resp) == 48, "ABI");
static_assert(sizeof(struct ff_ring_at) == 24, "ABI");
static_assert(sizeof(struct ff_mr_run) == 32, "ABI");
static_assert(sizeof(struct ff_reg_mr_req) == 32, "ABI");
static_assert(sizeof(struct ff_qp_attr) == 128, "ABI");
static_assert(sizeof(struct ff_create_qp_resp) == 80, "ABI");
static_assert(sizeof(struct ff_rereg_mr_req) + FF_MR_MAX_RUNS * sizeof(struct ff_mr_run) +
			      sizeof(struct ff_hdr) <=
		      FF_MSG_MAX,
	      "MR_MAX_RUNS");

static_assert(sizeof(struct ff_heat_event) == 24, "ABI");
static_assert(sizeof(struct ff_ndev) == 32, "ABI");

/* What comes out of the async socket: one packet, one event. */
enum ff_async_kind { FF_ASYNC_DEVICE, FF_ASYNC_PORT, FF_ASYNC_QP, FF_ASYNC_CQ, FF_ASYNC_SRQ };
struct ff_async_event {
	uint32_t event_type; /* enum ibv_event_type */
	uint32_t kind;	     /* enum ff_async_kind: what `handle` is */
	uint32_t handle;     /* or the port's number */
	uint32_t reserved;
};

/* What comes out of a completion channel: one packet, one event. */
struct ff_comp_event {
	uint32_t cq;   /* handle */
	uint32_t sent; /* ns, the router's CLOCK_MONOTONIC, modulo 2^32 */
};

/* Why a completion failed or a session was closed, more finely than verbs' status. */
enum ff_vendor_err {
	FF_VERR_NONE,
	FF_VERR_BAD_OPCODE,  /* unknown, or not for this QP type */
	FF_VERR_BAD_SGE,     /* more SGEs or inline bytes than the QP was made for */
	FF_VERR_LKEY,	     /* unknown, revoked, of another PD */
	FF_VERR_LKEY_BOUNDS, /* outside the MR */
	FF_VERR_LKEY_ACCESS, /* the MR lacks the access right */
	FF_VERR_RKEY,
	FF_VERR_RKEY_BOUNDS,
	FF_VERR_RKEY_ACCESS,
	FF_VERR_MSG_SIZE,  /* longer than the device or the path's MTU (UD) allows */
	FF_VERR_NO_AH,	   /* unknown address handle */
	FF_VERR_FAULT,	   /* the application's memory is gone */
	FF_VERR_RD_ATOMIC, /* READ or atomic with no depth for it */
	FF_VERR_ALIGN,	   /* atomic on an unaligned address */
	FF_VERR_FLUSH,
	FF_VERR_MW, /* memory window: unknown, of another PD or QP, of the wrong type, or bound */
	FF_VERR_NUM
};

#endif

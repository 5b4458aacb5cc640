/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fake_nic.h - a host's libibverbs with some NICs, for tests of ffr/nic/: who links fake_nic.c and _wr.c has it in the place
 * of the real one (ffr/nic/lib.c). It keeps the rules of the real one (states, depths, limits: what breaks one is
 * refused), writes down what it gets, and completes what the test says. What is not given back is counted.
 */
#ifndef FAKE_NIC_H
#define FAKE_NIC_H

#include <stdbool.h>

#include "ffr/nic/lib.h"

#define FAKE_NIC_GIDS  8
#define FAKE_NIC_LOG   2048
#define FAKE_NIC_SGE   32
#define FAKE_NIC_NAMES 3
#define FAKE_NIC_PORTS 2	 /* of each; each of them has GIDs of its own, but the first */
#define FAKE_NIC_NODE  "uverbs7" /* the device file of all of them */

/* What can be made to fail: the calls of struct nic_lib, and those that the context has. */
enum fake_nic_call {
#define X(type, name, params) FAKE_##name,
	NIC_LIB(X)
#undef X
		FAKE_query_gid_ex,
	FAKE_load,
	FAKE_query_port,
	FAKE_query_device_ex,
	FAKE_modify_qp_rate_limit,
	FAKE_create_qp_ex,
	FAKE_wr_complete,
	FAKE_post_send,
	FAKE_post_recv,
	FAKE_post_srq_recv,
	FAKE_req_notify_cq,
	FAKE_CALLS
};

/* A WR or a receive that it has got. */
struct fake_nic_wr {
	struct ibv_qp *qp; /* NULL: an SRQ's receive */
	bool is_recv;
	unsigned call; /* of ibv_post_send(), ibv_post_recv() or ibv_post_srq_recv(), counted from 1 */
	uint64_t wr_id;
	struct ibv_send_wr send; /* without its pointers, but for wr.ud.ah */
	int num_sge;
	struct ibv_sge sge[FAKE_NIC_SGE];
	uint8_t data[1024]; /* of one that is inline; of a datagram, as far as it fits */
};

/* What modify_qp() was called with. */
struct fake_nic_modify {
	struct ibv_qp *qp;
	struct ibv_qp_attr attr;
	int mask;
};

struct fake_nic {
	/* what it is; the test may change it before nic_open() */
	const char *name[FAKE_NIC_NAMES]; /* of the devices; NULL ends */
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct ibv_gid_entry gid[FAKE_NIC_GIDS];
	bool has_gid[FAKE_NIC_GIDS];
	uint32_t max_inline;
	enum ibv_transport_type transport;
	struct ibv_packet_pacing_caps pacing;
	struct ibv_odp_caps odp;
	void (*load_more)(struct nic_lib *lib); /* nic_lib_load() calls it: fake_mlx5.h */
	bool has_wr;				/* ibv_wr_*() */
	bool keeps_stale;  /* completions of a QP stay in the CQ when it is reset or destroyed */
	bool flushes_late; /* in ERR nothing ends before fake_nic_flush() */
	/* numbers that the next QPs and MRs get; 0: any */
	uint32_t qpn[256], key[256];
	unsigned qpn_at, key_at;
	/* what it has got */
	unsigned calls[FAKE_CALLS];
	struct fake_nic_wr log[FAKE_NIC_LOG];
	unsigned num_log;
	struct fake_nic_modify modify[64]; /* the last ones */
	unsigned num_modify;
	struct { /* what modify_qp_rate_limit() was called with last */
		struct ibv_qp *qp;
		struct ibv_qp_rate_limit_attr attr;
	} rate;
	struct ibv_qp_init_attr init; /* of the last QP */
	struct ibv_qp *last_qp;	      /* the last QP, which may be gone */
	struct {		      /* the last MR */
		struct ibv_pd *pd;
		void *addr;
		size_t length;
		uint64_t iova;
		unsigned int access;
	} mr;
	struct ibv_ah_attr ah; /* of the last address handle */
	/* what is there now */
	unsigned lists, contexts, pds, mrs, cqs, channels, qps, srqs;
	unsigned ahs; /* another thread's, ffr/nic/ah.c */
};
extern struct fake_nic fake_nic;

/* One device "fake0" with RoCE v2 at GID 1 (3: an IPv4 one), nothing got, nothing there. */
void fake_nic_reset(void);
/* Everything that was taken is given back. */
bool fake_nic_is_clean(void);
/* The nth call from now on, counted from 1, fails with that errno; 0: none does. */
void fake_nic_fail(enum fake_nic_call call, unsigned nth, int err);
/* post_send() takes `takes` WRs of its next call, and no more. */
void fake_nic_take(unsigned takes);

enum ibv_qp_state fake_nic_state(struct ibv_qp *qp);
void fake_nic_iw_connected(struct ibv_qp *qp); /* the kernel's iw_cm takes it from INIT to RTS */
unsigned fake_nic_sends(struct ibv_qp *qp);    /* that it has and has not completed */
unsigned fake_nic_recvs(struct ibv_qp *qp);    /* its own */
unsigned fake_nic_srq_recvs(struct ibv_srq *srq);
/* A handle's attributes. */
const struct ibv_ah_attr *fake_nic_ah(const struct ibv_ah *ah);
/* As long as that is so, create_ah() does not return. */
void fake_nic_hold_ahs(bool hold);
unsigned fake_nic_ahs_waiting(void); /* so many calls of create_ah() have not returned */
/* A UD QP gets a datagram: GRH and data to the memory of its oldest receive, which ends. wc: src_qp, flags, ... */
void fake_nic_datagram(struct ibv_qp *qp, const void *grh_and_data, uint32_t len,
		       const struct ibv_wc *wc);
/* The oldest of a queue ends. */
void fake_nic_sent(struct ibv_qp *qp, enum ibv_wc_status st);
/* wc: what else the completion says, or NULL */
void fake_nic_received(struct ibv_qp *qp, enum ibv_wc_status st, uint32_t len,
		       const struct ibv_wc *wc);
void fake_nic_flush(struct ibv_qp *qp); /* all of both */
/* An asynchronous event, of the newest context; element: the QP, the CQ, NULL: the port 1. */
void fake_nic_event(enum ibv_event_type type, void *element);
/* The same, of that one; port: if it is of a port. */
void fake_nic_event_of(struct ibv_context *ctx, enum ibv_event_type type, void *element,
		       uint8_t port);
/* A completion as it is. */
void fake_nic_push(struct ibv_cq *cq, const struct ibv_wc *wc);
/* The nth WR (from 0) that it has got since the last fake_nic_reset(), sends and receives each; aborts if there are
 * not so many. */
const struct fake_nic_wr *fake_nic_send_at(unsigned n);
const struct fake_nic_wr *fake_nic_recv_at(unsigned n);
unsigned fake_nic_num_sends(void);
unsigned fake_nic_num_recvs(void);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fake_ffl.h - a context of ffl without a router: the test is the router. Calls are answered in
 * process, rings are plain memory, and what the router does to them are functions here.
 */
#ifndef FAKE_FFL_H
#define FAKE_FFL_H

#include "ffl/session/ffl.h"

#define FAKE_SEG_SIZE (4u << 20) /* bytes of the segment that all rings come from */

struct fake {
	struct ffl_context *ctx;
	struct ibv_pd *pd;
	uint8_t *seg;		    /* segment 0; ff_ses_hdr at its start */
	uint32_t seg_used;	    /* bytes */
	uint32_t calls[FF_MSG_NUM]; /* of each type */
	int fail[FF_MSG_NUM];	    /* answer with this -errno */
	int num_mapped;		    /* calls of ffl_segs_map() */
	int fail_seg_at;	    /* the Nth ffl_seg_at from now on fails; 0: none */
	_Atomic uint32_t live;	    /* objects that were created and not destroyed */
	uint32_t yields;	    /* sched_yield() */
	unsigned int yield_us;	    /* that each of them lasts */
	void (*on_yield)(void);	    /* what happens meanwhile; NULL: nothing */
	uint32_t alive_checks;
	int channel_fd;	   /* router's end of the channel created last */
	uint32_t repeated; /* REPEAT_EVENT */
	struct ff_create_cq_req cq_req;
	struct ff_create_srq_req srq_req;
	struct ff_create_qp_req qp_req;
	struct ff_open_xrcd_req xrcd_req;
	struct ff_open_qp_req open_qp_req;
	struct ff_modify_qp_req modify;
	struct ff_modify_srq_req modify_srq;
	struct ff_modify_cq_req modify_cq;
	struct ff_qp_attr qp_attr; /* what QUERY_QP answers */
};
extern struct fake fake;

int fake_setup(void **state);	 /* cmocka's, for each test */
int fake_teardown(void **state); /* fails if an object was left */

/* An event of that CQ in the channel created last. */
void fake_event(uint32_t cq);
struct ffl_cq *fake_cq(int cqe);
/* RC, UC or UD, in RTS; one CQ for both queues */
struct ffl_qp *fake_qp(enum ibv_qp_type type, struct ffl_cq *cq, uint32_t depth, uint32_t sge,
		       uint32_t inl, bool sig_all);
/* The same, made by ibv_create_qp_ex for all operations of its type. */
struct ffl_qp *fake_qp_ex(enum ibv_qp_type type, struct ffl_cq *cq, uint32_t depth, uint32_t sge,
			  uint32_t inl);

void fake_free(struct ffl_qp *qp, struct ffl_cq *cq);
/* ibv_post_send(): 0, or the error that the first of the list has. */
int fake_post(struct ffl_qp *qp, struct ibv_send_wr *wr);

/* Router: SQE (RQE) number i, or NULL: it is not valid. */
const struct ff_sqe *fake_sqe(const struct ffl_qp *qp, uint32_t i);
const struct ff_rqe *fake_rqe(const uint8_t *ring, uint32_t depth, uint32_t stride, uint32_t i);
/* Router: write CQE number i; one of that QP that has nothing but an id, i. */
void fake_cqe(const struct ffl_cq *cq, uint32_t i, const struct ff_cqe *cqe);
void fake_put(const struct ffl_cq *cq, uint32_t i, uint32_t qp);
/* One in which each field has another value. */
extern const struct ff_cqe fake_sample;
/* Router: as many as the program has consumed. */
uint32_t fake_ci(const struct ffl_cq *cq);
/* Router: the QP's bits of the dirty set are set; clears them. */
bool fake_take_dirty(uint32_t qp_handle);
/* Router: the number of bells since the last look. */
uint64_t fake_bells(void);

#endif

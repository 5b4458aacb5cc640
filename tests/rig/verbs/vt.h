/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * vt.h - what the verbs_*.c and raw_*.c programs share: cases, checks, deadlines, connected QPs.
 *
 * A program is a table of cases. Each case runs in a process of its own, forked before any verb is
 * called, so that one that crashes or hangs fails alone and leaves nothing to the next. A case
 * succeeds by returning; a failed check prints why and ends its process, from any thread.
 *
 * Output, one line for each case: "ok NAME", "not ok NAME: reason" or "skip NAME: reason". The exit
 * status is 1 when a case failed, 2 for a bad command line, else 0.
 *
 * Nothing here sleeps for a time that "should be enough": every wait is for a condition, with a
 * deadline that only a failure reaches. Where the absence of something is checked, something that
 * comes after it in order is waited for first.
 *
 * Environment: VT_DEVICE (name of the device, default the first), VT_GID (index of the GID, default
 * 0), VT_SLOW (factor for deadlines, for sanitizers and emulated machines), VT_RXE (set: the
 * device is the kernel's rxe, as a reference for these programs themselves; what it is known not to
 * report is not waited for).
 */
#ifndef VT_H
#define VT_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define VT_ACCESS_ALL                                                                              \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define VT_QKEY	   0x11111111u
#define VT_GRH	   40u	 /* bytes in front of every UD message */
#define VT_WAIT_MS 60000 /* deadline of one wait, before VT_SLOW: what takes longer is hung */

/* ---- cases and checks ----------------------------------------------------------------------- */

struct vt_case {
	const char *name;
	void (*run)(void);
	unsigned seconds; /* time limit; 0: 60 */
};

/*
 * Run the cases whose names contain one of the words on the command line, all without words;
 * `-l` lists them. Returns the exit status.
 */
int vt_main(int argc, char **argv, const struct vt_case *cases, size_t num);

/* The whole of a program's main() that runs these cases: VT_MAIN({ "name", function, 0 }, ...). */
#define VT_MAIN(...)                                                                               \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		static const struct vt_case cases[] = { __VA_ARGS__ };                             \
                                                                                                   \
		return vt_main(argc, argv, cases, ARRAY_SIZE(cases));                              \
	}

/* Of the case that this process runs. */
const char *vt_case_name(void);

void vt_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
void vt_skip(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
#define FAIL(...) vt_fail(__FILE__, __LINE__, __VA_ARGS__)

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			FAIL("%s", #cond);                                                         \
	} while (0)
#define CHECK_EQ(a, b)                                                                             \
	do {                                                                                       \
		long long a_ = (long long)(a), b_ = (long long)(b);                                \
		if (a_ != b_)                                                                      \
			FAIL("%s is %lld, not %s (%lld)", #a, a_, #b, b_);                         \
	} while (0)
/* A verb that returns 0, or -1 and sets errno, or returns the errno: the error it gave, or 0. */
#define VERB_ERRNO(expr)                                                                           \
	({                                                                                         \
		int ret_;                                                                          \
		errno = 0;                                                                         \
		ret_ = (expr);                                                                     \
		ret_ < 0 ? (errno ? errno : -ret_) : ret_;                                         \
	})
#define CHECK_OK(expr) CHECK_ERR(expr, 0)
#define CHECK_ERR(expr, err)                                                                       \
	do {                                                                                       \
		int e_ = VERB_ERRNO(expr);                                                         \
		if (e_ != (err))                                                                   \
			FAIL("%s gave \"%s\", not \"%s\"", #expr, e_ ? strerror(e_) : "no error",  \
			     (err) ? strerror(err) : "no error");                                  \
	} while (0)
/* A verb that returns a pointer: it must be NULL with that errno. */
#define CHECK_NULL(expr, err)                                                                      \
	do {                                                                                       \
		const void *p_;                                                                    \
		errno = 0;                                                                         \
		p_ = (expr);                                                                       \
		if (p_)                                                                            \
			FAIL("%s did not fail", #expr);                                            \
		if (errno != (err))                                                                \
			FAIL("%s failed with \"%s\", not \"%s\"", #expr, strerror(errno),          \
			     strerror(err));                                                       \
	} while (0)
/* A verb that returns a pointer: it must not be NULL. */
#define CHECK_PTR(expr)                                                                            \
	({                                                                                         \
		__typeof__(expr) p_;                                                               \
		errno = 0;                                                                         \
		p_ = (expr);                                                                       \
		if (!p_)                                                                           \
			FAIL("%s failed: %s", #expr, strerror(errno));                             \
		p_;                                                                                \
	})
/* buf[0, len) holds the pattern `seed`, which began `at` bytes before. */
#define CHECK_PATTERN(buf, len, seed) vt_check_pattern(__FILE__, __LINE__, buf, len, seed)

int vt_child_status(pid_t pid); /* waits for its end: the exit status; above 1000 a signal */

/* ---- time ----------------------------------------------------------------------------------- */

uint64_t vt_now(void); /* ns, CLOCK_MONOTONIC */
unsigned vt_slow(void);
uint64_t vt_deadline(void); /* now and VT_WAIT_MS, scaled */
/* Wait until cond holds; the case fails at the deadline. Gives the CPU away between two looks. */
#define WAIT_FOR(cond)                                                                             \
	do {                                                                                       \
		uint64_t until_ = vt_deadline();                                                   \
		while (!(cond)) {                                                                  \
			if (vt_now() > until_)                                                     \
				FAIL("timed out waiting for %s", #cond);                           \
			vt_pause();                                                                \
		}                                                                                  \
	} while (0)
void vt_pause(void);

/* ---- contents ------------------------------------------------------------------------------- */

void vt_pattern(void *buf, size_t len, uint32_t seed);
/* Index of the first byte that differs from the pattern, or -1. */
long vt_mismatch(const void *buf, size_t len, uint32_t seed);
void vt_check_pattern(const char *file, int line, const void *buf, size_t len, uint32_t seed);
bool vt_all(const void *buf, size_t len, uint8_t byte);
uint32_t vt_rand(uint32_t *state); /* xorshift; *state must not be 0 */
void *vt_map(size_t len);	   /* private anonymous memory */

/* ---- one end of a connection ---------------------------------------------------------------- */

struct vt_param {
	enum ibv_qp_type type;
	uint32_t send_wr, recv_wr, send_sge, recv_sge, inline_data;
	int cqe;       /* entries of each CQ */
	size_t len;    /* bytes of the end's buffer */
	int access;    /* of the MR */
	int qp_access; /* qp_access_flags */
	bool sig_all;
	bool srq;	   /* receives through an SRQ of recv_wr, recv_sge */
	bool channel;	   /* both CQs on a completion channel */
	bool one_cq;	   /* rcq is scq */
	uint64_t send_ops; /* IBV_QP_EX_WITH_*: through ibv_create_qp_ex */
	enum ibv_mtu mtu;
	uint8_t timeout, retry_cnt, rnr_retry, rnr_timer; /* as encoded in ibv_qp_attr */
	uint8_t rd_atomic, dest_rd_atomic;
};
/* Fill in with the usual, then change what the case is about. */
#define VT_PARAM                                                                                   \
	((struct vt_param){                                                                        \
		.type = IBV_QPT_RC,                                                                \
		.send_wr = 64,                                                                     \
		.recv_wr = 64,                                                                     \
		.send_sge = 4,                                                                     \
		.recv_sge = 4,                                                                     \
		.cqe = 256,                                                                        \
		.len = 64 * 1024,                                                                  \
		.access = VT_ACCESS_ALL,                                                           \
		.qp_access = VT_ACCESS_ALL,                                                        \
		.mtu = IBV_MTU_1024,                                                               \
		.timeout = 14,                                                                     \
		.retry_cnt = 7,                                                                    \
		.rnr_retry = 7,                                                                    \
		.rnr_timer = 12,                                                                   \
		.rd_atomic = 4,                                                                    \
		.dest_rd_atomic = 4,                                                               \
	})

/* What one end tells the other; host byte order, both ends are on one architecture. */
struct vt_addr {
	union ibv_gid gid;
	uint32_t qpn, psn, rkey;
	uint16_t lid;
	uint64_t addr; /* of the buffer */
	uint64_t len;
};

struct vt_end {
	struct vt_param par;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *scq, *rcq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	uint8_t *buf;
	size_t len;
	struct ibv_mr *mr;
	struct vt_addr self, peer;
	struct ibv_ah *ah; /* UD: of the peer */
	bool borrowed;	   /* ctx and pd are somebody else's */
};

/* A device, opened. Fails the case where there is none. */
struct ibv_context *vt_open_device(void);
void vt_gid(struct ibv_context *ctx, union ibv_gid *gid);
unsigned vt_gid_index(void);

/* Everything for one QP, which stays in RESET. */
void vt_end_open(struct vt_end *e, const struct vt_param *par);
/* As above on a context and PD that exist, which vt_end_close leaves alone. */
void vt_end_open_on(struct vt_end *e, const struct vt_param *par, struct ibv_context *ctx,
		    struct ibv_pd *pd);
void vt_end_close(struct vt_end *e);
/* A further QP with the end's CQs, PD and parameters, in RESET. */
struct ibv_qp *vt_make_qp(struct vt_end *e);
struct ibv_mr *vt_reg(struct vt_end *e, void *addr, size_t len, int access);

/* The address vector of a port. */
struct ibv_ah_attr vt_av(const union ibv_gid *gid, uint16_t lid);
/* Good values of all attributes that a QP connected to itself may have. */
struct ibv_qp_attr vt_good_attr(const struct vt_end *e, enum ibv_qp_state from,
				enum ibv_qp_state to);
/* State changes as the parameters say. 0 or the errno of ibv_modify_qp. */
int vt_to_init(struct ibv_qp *qp, const struct vt_param *par);
int vt_to_rtr(struct ibv_qp *qp, const struct vt_param *par, const struct vt_addr *peer);
int vt_to_rts(struct ibv_qp *qp, const struct vt_param *par, uint32_t psn);
int vt_to_state(struct ibv_qp *qp, enum ibv_qp_state state); /* IBV_QP_STATE alone */
enum ibv_qp_state vt_state(struct ibv_qp *qp);		     /* as ibv_query_qp tells */
/* Bring the end's QP to RTS towards that peer. */
void vt_connect(struct vt_end *e, const struct vt_addr *peer);
/* Bring any QP from RESET to RTS towards that peer. */
void vt_connect_qp(struct ibv_qp *qp, const struct vt_param *par, const struct vt_addr *self,
		   const struct vt_addr *peer);
/* `num` further QPs of each, connected in pairs; their parameters are the ends'. */
void vt_pair_more(struct vt_end *a, struct vt_end *b, struct ibv_qp **of_a, struct ibv_qp **of_b,
		  unsigned num);
void vt_destroy_qps(struct ibv_qp **qp, unsigned num);
/* Two ends, each a session of its own, connected. */
void vt_pair(struct vt_end *a, struct vt_end *b, const struct vt_param *par);
void vt_pair_close(struct vt_end *a, struct vt_end *b);
/* Both QPs through RESET to RTS again; the CQs are emptied. */
void vt_pair_reset(struct vt_end *a, struct vt_end *b);
/* Remote offsets of vt_rdma and vt_atomic are into that region of the peer's from now on. */
void vt_aim(struct vt_end *e, const void *addr, const struct ibv_mr *mr);

/* ---- work requests -------------------------------------------------------------------------- */

/* Offsets are into the end's buffer, remote offsets into its peer's. All must be accepted. */
void vt_recv(struct vt_end *e, uint64_t id, size_t off, size_t len);
void vt_send(struct vt_end *e, uint64_t id, size_t off, size_t len, unsigned flags);
void vt_rdma(struct vt_end *e, enum ibv_wr_opcode op, uint64_t id, size_t off, size_t len,
	     size_t remote_off, unsigned flags);
void vt_atomic(struct vt_end *e, enum ibv_wr_opcode op, uint64_t id, size_t off, size_t remote_off,
	       uint64_t compare_add, uint64_t swap);
/* One WR as given; for UD the address is filled in from the peer. 0 or the errno. */
int vt_post(struct vt_end *e, struct ibv_send_wr *wr);
int vt_post_recv(struct vt_end *e, struct ibv_recv_wr *wr);
/* A WR of one SGE, which stays the caller's; what else the opcode needs is to be filled in. */
struct ibv_send_wr vt_wr(enum ibv_wr_opcode op, uint64_t id, struct ibv_sge *sge, unsigned flags);
/* SENDs of 8 bytes with the numbers first to end - 1, each when the one before has completed on both sides. */
void vt_pass(struct vt_end *a, struct vt_end *b, uint64_t first, uint64_t end);
struct ibv_sge vt_sge(const struct vt_end *e, size_t off, size_t len);
/* A signalled SEND of those bytes over UD. */
struct ibv_send_wr vt_ud_wr(const struct vt_end *e, struct ibv_sge *sge, uint64_t id, size_t off,
			    size_t len, struct ibv_ah *ah, uint32_t qpn);

/* ---- completions and events ----------------------------------------------------------------- */

/* The next completion of the CQ, whatever it is. */
struct ibv_wc vt_wc(struct ibv_cq *cq);
/* The next completion must be this WR's with that status. */
struct ibv_wc vt_want(const char *file, int line, struct ibv_cq *cq, uint64_t id,
		      enum ibv_wc_status status);
#define WANT(cq, id, status) vt_want(__FILE__, __LINE__, cq, id, status)
#define WANT_OK(cq, id)	     WANT(cq, id, IBV_WC_SUCCESS)
/*
 * The completions of WRITEs `first` to `end`, whose memory went meanwhile: success, then REM_ACCESS_ERR and
 * flushed ones. True: one was refused.
 */
bool vt_want_cut(struct ibv_cq *cq, unsigned first, unsigned end);
/* The CQ is empty now. */
#define CHECK_EMPTY(cq)                                                                            \
	do {                                                                                       \
		struct ibv_wc wc_;                                                                 \
		int n_ = ibv_poll_cq(cq, 1, &wc_);                                                 \
		if (n_)                                                                            \
			FAIL("%s is not empty: %d, wr_id %llu, %s", #cq, n_,                       \
			     (unsigned long long)wc_.wr_id,                                        \
			     n_ > 0 ? ibv_wc_status_str(wc_.status) : "error");                    \
	} while (0)

bool vt_readable(int fd, int ms); /* poll(2) for input */
/* The next async event must be of that type; it is acknowledged. */
struct ibv_async_event vt_want_event(const char *file, int line, struct ibv_context *ctx,
				     enum ibv_event_type type);
#define WANT_EVENT(ctx, type) vt_want_event(__FILE__, __LINE__, ctx, type)
/* As above, with the end's QP as the event's element. */
void vt_want_qp_event(const char *file, int line, struct vt_end *e, enum ibv_event_type type);
#define WANT_QP_EVENT(e, type) vt_want_qp_event(__FILE__, __LINE__, e, type)
/* The next completion event must be this CQ's; the caller acknowledges it. */
void vt_want_comp_event(const char *file, int line, struct ibv_comp_channel *ch, struct ibv_cq *cq);
#define WANT_COMP_EVENT(ch, cq) vt_want_comp_event(__FILE__, __LINE__, ch, cq)
/* The connection still carries data: a checked SEND and a checked WRITE from a to b. */
void vt_check_alive(struct vt_end *a, struct vt_end *b);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ff_ring.h - the data path between ffl and ffr: layout of the shared memory and ring inlines.
 *
 * Included by both sides. Everything here lives in sealed memfds that the router created, and is
 * written by a client that may be hostile: the router copies an entry, checks the copy and uses
 * the copy; it never takes an index, a length or an address from shared memory twice.
 *
 * Theory of operation
 * -------------------
 * A QP has a send ring (SQ) and, unless it uses an SRQ, a receive ring (RQ). An entry (SQE, RQE)
 * carries its own sequence number, stored last: entry i (counted from 0 since creation) is valid
 * when its `seq` is (uint16_t)(i + 1). The router looks at the next entry only, so that finding
 * work costs one cache line, the one that holds the work. Depths are powers of two up to
 * FF_MAX_WR, so a sequence number never repeats within one lap. RESET does not begin again at 0:
 * the client says at which index it goes on (struct ff_modify_qp_req), and what it posted before
 * has the numbers of the laps before. So nothing need be cleared.
 *
 * A CQ is a ring of 64-byte CQEs. Entry i is valid when its `phase` equals ff_cqe_phase(i): the
 * lap number's parity. An empty poll reads one cache line and makes no system call. The client
 * publishes how far it has consumed in ff_cq_hdr.ci; the router reads it only when the ring looks
 * full.
 *
 * Doorbell. While the router watches a QP (it did something lately) it polls the next SQE and the
 * client writes nothing but the SQE. When the router stops watching, it publishes
 *	hdr->evt  = index of the entry whose posting must be announced, and then
 *	hdr->need = 1
 * followed by a full fence and another look at the ring. The client, after its SQE and a full
 * fence, reads `need`; if it is set and its posting passed `evt`, it exchanges `need` for 0, sets
 * the QP's bit in the session's dirty set, and, if the session's need_wakeup is set, exchanges
 * that for 0 and writes the session's eventfd; before, if it was FF_WAKEUP_TIMED, the time into
 * rang_at. Both fences are necessary (Dekker's store-load).
 * Of several posters one exchanges `need`, and the others, who find it 0, are done. That is enough: it is armed anew
 * only before another look at the ring, and had that look's fence come before a poster's, that poster would have
 * found it armed; so that look finds what they all have posted.
 * `need`, `evt` and need_wakeup are the router's to trust for nothing: a client that ignores them
 * makes only itself wait.
 */
#ifndef FFR_ABI_FF_RING_H
#define FFR_ABI_FF_RING_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>

/* Between two looks at what another CPU is about to write: the core's other thread gets its turn. */
static inline void ff_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	/* as long as x86's; YIELD does nothing on cores with one thread */
	__asm__ volatile("isb" : : : "memory");
#else
	atomic_signal_fence(memory_order_seq_cst);
#endif
}

#define FF_CACHELINE 64

/*
 * Bytes of a page of this kernel, of which router and containers have the same. Sanitized builds ask for it as other
 * processors do, so that every run of the tests compiles that.
 */
#if defined __x86_64__ && !defined __SANITIZE_ADDRESS__
#define FF_PAGE 4096u
#else
static inline uint32_t ff_page(void)
{
	static _Atomic uint32_t page;
	uint32_t n = atomic_load_explicit(&page, memory_order_relaxed);

	if (!n) {
		n = (uint32_t)getauxval(AT_PAGESZ);
		atomic_store_explicit(&page, n, memory_order_relaxed);
	}
	return n;
}
#define FF_PAGE ff_page()
#endif

/* Limits of the rings. The device attributes that programs see are derived from these. */
#define FF_MAX_WR     16384u /* entries of an SQ, RQ or SRQ */
#define FF_MAX_SGE    32u    /* scatter-gather entries of a WR */
#define FF_MAX_INLINE 1024u  /* bytes of inline data */
#define FF_MAX_CQE    (1u << 20)
#define FF_MAX_QP     32768u	 /* QPs of a session; also the size of the dirty set */
#define FF_MAX_MSG_SZ (1u << 31) /* bytes of a message */

/* Operation codes of an SQE. Zero is not one, so that a zeroed entry is never a valid WR. */
enum ff_opcode {
	FF_OP_SEND = 1,
	FF_OP_SEND_IMM,
	FF_OP_WRITE,
	FF_OP_WRITE_IMM,
	FF_OP_READ,
	FF_OP_CMP_SWAP,
	FF_OP_FETCH_ADD,
	FF_OP_BIND_MW,	    /* local: struct ff_sqe.bind */
	FF_OP_LOCAL_INV,    /* local: invalidate the rkey in imm */
	FF_OP_SEND_INV,	    /* SEND, then invalidate the peer's rkey that is in imm */
	FF_OP_FLUSH,	    /* what was written before is placed: struct ff_sqe.flush */
	FF_OP_ATOMIC_WRITE, /* atomic.compare_add is stored, at once; there are no SGEs */
	FF_OP_NUM
};

/* A message that a receive of the peer takes. */
static inline bool ff_op_sends(uint8_t op)
{
	return op == FF_OP_SEND || op == FF_OP_SEND_IMM || op == FF_OP_SEND_INV;
}

/* READ and the atomics: data comes back. */
static inline bool ff_op_fetches(uint8_t op)
{
	return op >= FF_OP_READ && op <= FF_OP_FETCH_ADD;
}

/* Those that reach 8 aligned bytes of the peer's. */
static inline bool ff_op_is_word(uint8_t op)
{
	return op == FF_OP_CMP_SWAP || op == FF_OP_FETCH_ADD || op == FF_OP_ATOMIC_WRITE;
}

/* Of XRC: the number of the SRQ is in imm, since the union is taken. */
static inline bool ff_op_srqn_in_imm(uint8_t op)
{
	return ff_op_is_word(op) || op == FF_OP_FLUSH;
}

/* Flags of an SQE */
#define FF_SQE_SIGNALED	 0x01
#define FF_SQE_SOLICITED 0x02
#define FF_SQE_FENCE	 0x04
#define FF_SQE_INLINE	 0x08 /* num_sge is the length of the data behind the header */

struct ff_sge {
	uint64_t addr;
	uint32_t length; /* bytes; 0 is an empty entry */
	uint32_t lkey;
};

/* A send work queue entry. The header fills 48 bytes, so that a WR of one SGE is one cache line. */
struct ff_sqe {
	_Atomic uint16_t seq; /* stored last, with release */
	uint16_t cpu;	      /* CPU that the poster ran on */
	uint8_t opcode;	      /* enum ff_opcode */
	uint8_t flags;	      /* FF_SQE_* */
	uint16_t num_sge;     /* entries in sge[], or bytes in inl[] with FF_SQE_INLINE */
	uint64_t wr_id;
	uint64_t remote_addr;
	uint32_t rkey;
	uint32_t imm; /* as given by the application (network byte order); the rkey to invalidate */
	union {
		struct {
			uint64_t compare_add;
			uint64_t swap;
		} atomic;
		/* a part of an MR becomes a window's: it begins at remote_addr (as the MR's keys
		 * count), imm is its IBV_ACCESS_*, the low byte of rkey that of its new rkey */
		struct {
			uint64_t length; /* bytes; 0: it becomes nothing's */
			uint32_t mw;	 /* handle */
			uint32_t lkey;	 /* of the MR */
		} bind;
		struct {
			uint64_t length; /* bytes from remote_addr on */
			uint32_t types;	 /* FF_FLUSH_GLOBAL, _PERSISTENT: one at least */
			uint32_t level;	 /* FF_FLUSH_RANGE or _MR */
		} flush;
		struct {
			uint32_t ah; /* handle */
			uint32_t remote_qpn;
			uint32_t remote_qkey;
			uint32_t reserved;
		} ud;
		uint32_t remote_srqn; /* XRC; ff_op_srqn_in_imm() have it there */
	};
	union {
		struct ff_sge sge[1]; /* really num_sge */
		uint8_t inl[16];      /* really num_sge bytes */
	};
};
static_assert(sizeof(struct ff_sqe) == 64 && offsetof(struct ff_sqe, sge) == 48, "ABI");

/* A receive work queue entry, of RQ and SRQ alike */
struct ff_rqe {
	_Atomic uint16_t seq; /* stored last, with release */
	uint16_t num_sge;
	uint32_t reserved;
	uint64_t wr_id;
	struct ff_sge sge[1]; /* really num_sge */
};
static_assert(sizeof(struct ff_rqe) == 32 && offsetof(struct ff_rqe, sge) == 16, "ABI");

/* Flags of a CQE */
#define FF_CQE_GRH	 0x01
#define FF_CQE_IMM	 0x02
#define FF_CQE_INV	 0x04 /* imm is the invalidated rkey */
#define FF_CQE_SOLICITED 0x08

/* A completion. status and opcode are the verbs' own numbers (enum ibv_wc_status, ibv_wc_opcode). */
struct ff_cqe {
	uint64_t wr_id;
	uint64_t timestamp; /* ns, the router's CLOCK_MONOTONIC */
	uint32_t qp; /* session's handle of the QP; XRC receives: FF_CQE_OF_SRQ | the SRQ's */
	uint32_t qp_num;
	uint32_t src_qp;
	uint32_t byte_len;
	uint32_t imm;
	uint32_t vendor_err; /* enum ff_vendor_err: why, for ffl's log */
	uint8_t status;
	uint8_t opcode; /* ibv_wc_opcode & 0x7f, with bit 7 for IBV_WC_RECV's group */
	uint8_t flags;	/* FF_CQE_* */
	uint8_t sl;	/* of a datagram: what is before the data, as mlx5 has it (soft/ud.c) */
	uint16_t slid;
	uint16_t pkey_index;
	uint64_t user; /* of the same QP or SRQ: what its creator gave */
	uint8_t dlid_path_bits;
	uint8_t reserved[6];
	_Atomic uint8_t phase; /* stored last, with release */
};
static_assert(sizeof(struct ff_cqe) == 64 && offsetof(struct ff_cqe, phase) == 63, "ABI");

#define FF_CQE_OF_SRQ 0x8000u /* in ff_cqe.qp, of whose indices none is so high */

#define FF_CQE_RECV 0x80 /* in ff_cqe.opcode: IBV_WC_RECV and its kind (verbs: 1 << 7) */

/* Written by the router, read at every post; the client only exchanges need and rq_need for 0. */
struct ff_qp_hdr {
	_Alignas(FF_CACHELINE) _Atomic uint32_t need; /* 1: announce a posting that passes evt */
	_Atomic uint32_t evt; /* index, counted as postings are, without wrapping at depth */
	/* 1: announce a receive: a sender waits for one, or the QP is in error and flushes it */
	_Atomic uint32_t rq_need;
	/* Written by the router after each batch, read by the client when a ring looks full. */
	_Alignas(FF_CACHELINE) _Atomic uint64_t sq_done; /* ff_done() */
};
static_assert(sizeof(struct ff_qp_hdr) == 128, "ABI");

struct ff_srq_hdr {
	_Alignas(FF_CACHELINE) _Atomic uint32_t need; /* 1: announce a receive: a sender waits */
	/* RQEs that went with a QP that was reset or destroyed: no CQE tells of them */
	_Alignas(FF_CACHELINE) _Atomic uint32_t lost;
};
static_assert(sizeof(struct ff_srq_hdr) == 128, "ABI");

/*
 * Room in a queue. A WR occupies its place until its CQE was polled (IBTA 10.8.5.1), so that a
 * program that posts until ENOMEM never overruns a CQ of the queues' size. An unsignalled one leaves
 * when it was carried out; IBTA lets it wait for the next CQE.
 *
 * Every RQE ends with a CQE, so the client's count of those that it polled tells all. For the SQ
 * the router says, in one word, how many SQEs it is done with, since creation, and how many CQEs it
 * wrote for them, since creation or RESET; both modulo 2^32.
 */
static inline uint64_t ff_done(uint32_t sqes, uint32_t cqes)
{
	return (uint64_t)cqes << 32 | sqes;
}

/*
 * Number of the first SQE that there is no room for. Holds until a later look finds more. `polled`
 * may be ahead of the CQEs in `done`, when the client saw one of them sooner than `done`.
 */
static inline uint32_t ff_sq_limit(uint64_t done, uint32_t polled, uint32_t depth)
{
	return (uint32_t)done + depth - ((uint32_t)(done >> 32) - polled);
}

/* How a CQ is armed: ff_cq_hdr.arm. The router exchanges it for 0 when it sends the event. */
enum { FF_CQ_DISARMED = 0, FF_CQ_ARM_SOLICITED = 1, FF_CQ_ARM_ANY = 2 };

struct ff_cq_hdr {
	_Alignas(FF_CACHELINE) _Atomic uint32_t ci; /* client: CQEs consumed since creation */
	_Alignas(FF_CACHELINE) _Atomic uint32_t arm;
};
static_assert(sizeof(struct ff_cq_hdr) == 128, "ABI");

/*
 * A request without descriptors need not go through the socket. While the control thread looks here
 * (awake), the client writes the same packet to the slot and makes the state FF_CALL_POSTED; the
 * router takes it (FF_CALL_TAKEN), and the answer stands in its place when the state is
 * FF_CALL_ANSWERED. Neither side waits for the other without an end:
 *	- The router stops looking by awake = 0, a full fence and one more look. The client, after its
 *	  posting and a full fence, reads awake; if it is 0 and the client can take the posting back
 *	  (FF_CALL_FREE), it uses the socket.
 *	- The client stops looking by wait = the request's seq, a full fence and one more look, and then
 *	  waits for a packet of the socket. The router, after its answer and a full fence, looks whether
 *	  wait is that seq; if so, and it can exchange that for 0, the answer comes through the socket as
 *	  well. A client that finds the answer in its last look exchanges wait for 0 itself; if it was 0
 *	  already, it has to take that packet. (A router that is slow to look may see the wait of a later
 *	  request, which has another seq.)
 * There is one request at a time, on either way; the seq of one in the slot is not 0.
 */
enum { FF_CALL_FREE, FF_CALL_POSTED, FF_CALL_TAKEN, FF_CALL_ANSWERED };
#define FF_CALL_MAX 1008u /* bytes of a packet in the slot */
struct ff_call_slot {
	_Alignas(FF_CACHELINE) _Atomic uint32_t awake; /* router: while it looks, 1 + its CPU */
	_Alignas(FF_CACHELINE) _Atomic uint32_t state; /* FF_CALL_* */
	_Atomic uint32_t wait; /* client: seq of the request that it waits for at the socket */
	_Atomic uint32_t len;  /* bytes of packet[] */
	_Atomic uint32_t cpu;  /* client: where it posted from */
	_Alignas(8) uint8_t packet[FF_CALL_MAX];
};
static_assert(sizeof(struct ff_call_slot) == 64 + 16 + FF_CALL_MAX, "ABI");

/* The router is awake; write the eventfd; tell the time, and write it. */
enum { FF_WAKEUP_NONE, FF_WAKEUP, FF_WAKEUP_TIMED };

/*
 * On-demand memory regions that leave without a call. The client puts the handle into a free place, a fence, and
 * looks at `busy`: 0, and no copy of the session's on-demand memory is under way, and none of that MR's will be. Else
 * it takes the handle back, if it is still there, and makes the call. The router counts a copy in `busy`, a fence,
 * and looks for the handle before it begins; it clears a place when the MR is gone, in one of the session's next calls.
 */
#define FF_LEAVING 64u
struct ff_leaving {
	_Alignas(FF_CACHELINE) _Atomic uint32_t
		busy; /* router: copies submitted that have not ended */
	_Alignas(FF_CACHELINE) _Atomic uint32_t mr[FF_LEAVING]; /* client, router: handles; 0: free */
};

/* After the copy has been counted: is the MR leaving? */
static inline bool ff_is_leaving(const struct ff_leaving *l, uint32_t mr)
{
	for (unsigned i = 0; mr && i < FF_LEAVING; i++)
		if (atomic_load(&l->mr[i]) == mr)
			return true;
	return false;
}

/*
 * The session's own page, at the start of segment 0. The dirty set has a bit for each QP (by the
 * index part of its handle) and a summary bit for each 64 of them; the client sets the bit, then
 * the summary bit; the router exchanges the summary word for 0, then the words it names.
 */
struct ff_ses_hdr {
	_Alignas(FF_CACHELINE) _Atomic uint32_t need_wakeup; /* FF_WAKEUP_*: write the eventfd? */
	_Atomic uint32_t yield_polls; /* router: empty polls of a CQ before the poller yields */
	/* router: ff_busy() of the CPU that it moves bulk data on; a poller that finds nothing there
	 * had better poll elsewhere. Stale after FF_BUSY_US. */
	_Atomic uint64_t busy;
	/* router: 1 + the CPU on which it sent the last event, 0: on none yet */
	_Atomic uint32_t home;
	/* client: the same of the CPU on which it sleeps for an event, and on no other; 0: on any */
	_Atomic uint32_t at_home;
	_Atomic uint64_t rang_at; /* client: ns of CLOCK_MONOTONIC; the router exchanges it for 0 */
	_Alignas(FF_CACHELINE) _Atomic uint64_t dirty_sum[FF_MAX_QP / 64 / 64];
	_Alignas(FF_CACHELINE) _Atomic uint64_t dirty[FF_MAX_QP / 64];
	/* client: counts postings to SRQs on which `need` was seen */
	_Alignas(FF_CACHELINE) _Atomic uint32_t srq_kick;
	struct ff_call_slot call;
	struct ff_leaving leaving;
};
static_assert(offsetof(struct ff_ses_hdr, busy) == 8, "ABI");
static_assert(offsetof(struct ff_ses_hdr, dirty_sum) == 64, "ABI");
static_assert(offsetof(struct ff_ses_hdr, dirty) == 128, "ABI");
static_assert(offsetof(struct ff_ses_hdr, call) == 128 + FF_MAX_QP / 8 + 64, "ABI");
static_assert(sizeof(struct ff_leaving) == 64 + 4 * FF_LEAVING, "ABI");

#define FF_BUSY_US 2000u

/* ff_ses_hdr.busy: microseconds of CLOCK_MONOTONIC, 48 bits, and a CPU. */
static inline uint64_t ff_busy(uint64_t ns, uint16_t cpu)
{
	return ns / 1000 << 16 | cpu;
}

/* Was the CPU announced as busy within the last FF_BUSY_US before `ns`? */
static inline bool ff_is_busy(uint64_t busy, uint64_t ns, uint16_t cpu)
{
	return (uint16_t)busy == cpu &&
	       ((ns / 1000 << 16) - (busy & ~0xffffull)) >> 16 <= FF_BUSY_US;
}

/* Bytes of an SQ entry for WRs of up to max_sge entries and max_inline bytes of inline data. */
static inline uint32_t ff_sqe_stride(uint32_t max_sge, uint32_t max_inline)
{
	uint32_t tail = max_sge * (uint32_t)sizeof(struct ff_sge);

	if (max_inline > tail)
		tail = max_inline;
	return (uint32_t)(offsetof(struct ff_sqe, sge) + tail + 63) & ~63u;
}

/* Bytes of an RQ or SRQ entry for WRs of up to max_sge entries. */
static inline uint32_t ff_rqe_stride(uint32_t max_sge)
{
	return (uint32_t)(offsetof(struct ff_rqe, sge) + max_sge * sizeof(struct ff_sge) + 31) &
	       ~31u;
}

/* The sequence number that makes entry i (counted since creation) valid. */
static inline uint16_t ff_seq(uint32_t i)
{
	return (uint16_t)(i + 1);
}

/* The phase that makes CQE i (counted since creation) valid; depth is a power of two. */
static inline uint8_t ff_cqe_phase(uint32_t i, uint32_t depth)
{
	return (i & depth) ? 2 : 1;
}

/*
 * Did posting the entries old..new-1 pass the announced index evt? (virtio's vring_need_event:
 * evt itself is one of the entries posted.)
 */
static inline bool ff_need_event(uint32_t evt, uint32_t new_idx, uint32_t old_idx)
{
	return new_idx - evt - 1 < new_idx - old_idx;
}

#endif

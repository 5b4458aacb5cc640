/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * raw.h - a client that speaks ff_proto.h and ff_ring.h itself and keeps no rule, and a victim
 * beside it: a process with checked verbs traffic in sessions of its own. For raw_*.c.
 *
 * One thread uses a struct raw. Requests that the router must serve go through RAW_CALL; what may
 * be refused, or end the session, through raw_call and raw_send.
 */
#ifndef RAW_H
#define RAW_H

#include "ffr/abi/ff_proto.h"
#include "ffr/abi/ff_ring.h"
#include "tests/rig/verbs/vt.h"

#define RAW_MAX_SEGS 64
#define RAW_MAX_FDS  253 /* of one packet: the kernel's SCM_MAX_FD */
#define RAW_CLOSED   1	 /* raw_call: the router closed the session */

/* Never sleep: a client that waits in a loop. To be set before the first connection. */
extern bool raw_spin;
/* raw_at() does not seal the segments that it maps: raw_seal() does. */
extern bool raw_unsealed;

struct raw {
	int sock;
	int async_fd, bell_fd, uffd_dev; /* -1: none */
	int last_fd; /* that came with the last answer, the caller's; -1: none */
	uint32_t seq;
	uint8_t nonce[FF_NONCE_SZ]; /* for HELLO, where the router has asked for one */
	struct ff_hello_resp hello;
	struct raw_seg {
		uint8_t *map; /* NULL: not asked for yet */
		uint64_t size;
		int fd;
	} seg[RAW_MAX_SEGS];
};

/* A connection without HELLO, and one with it. */
void raw_connect(struct raw *r);
void raw_open(struct raw *r);
/* 0, or the status with which HELLO is refused. */
int raw_try_open(struct raw *r);
/* A session of another container: both sockets are named, by $FFL_SOCKET and $FF_VICTIM. */
void raw_open_victim(struct raw *r);
void raw_close(struct raw *r);
/* Say HELLO on a connection of its own, and hear whether it is served, which does not matter. */
void raw_knock(void);
/* Say HELLO and wait for nothing. False when the router has closed. */
bool raw_hello(struct raw *r);

/* One packet, as it is, with a descriptor if fd >= 0. False when the router has closed. */
bool raw_send(struct raw *r, const void *packet, size_t len, int fd);
/* False: the router has closed it, or the kernel lets this user have no more descriptors on their way. */
bool raw_send_fds(struct raw *r, const void *packet, size_t len, const int *fds, unsigned n_fds);
/* The next packet within the deadline: its bytes, 0 at the end of the session. Descriptors in fds. */
size_t raw_recv(struct raw *r, void *packet, size_t size, int fds[8], unsigned *n_fds);
/* The session must end, whatever answers still come. */
void raw_want_closed(struct raw *r);

/* Request and response bodies; tail elements behind the request. 0, -errno, or RAW_CLOSED. */
int raw_call_tail(struct raw *r, uint16_t type, const void *req, size_t req_len, const void *tail,
		  size_t tail_size, uint16_t n_tail, void *resp, size_t resp_len);
/* raw_call() with descriptors in the request. */
int raw_call_fd(struct raw *r, uint16_t type, const void *req, size_t req_len, const int *fd,
		unsigned n_fds, void *resp, size_t resp_len);
/*
 * A call in two halves, so that other clients can call between them. raw_ask() is false if the router has closed the
 * connection. raw_answer() reads the answer to the request that was sent `behind` requests before the last one.
 */
bool raw_ask(struct raw *r, uint16_t type, const void *req, size_t req_len, const void *tail,
	     size_t tail_size, uint16_t n_tail);
int raw_answer(struct raw *r, uint16_t type, unsigned behind, void *resp, size_t resp_len);
/* `n` shared mappings of one page each in a row, none of which the kernel can join with the next. Skips without room. */
char *raw_mappings(unsigned n);
/* Private memory of `n` pages that are read-only and writable by turns: as many mappings. */
void raw_split_memory(unsigned n);
/* WATCH_PAGES with a userfaultfd of this process: 0, and last_fd is the session's file, or -errno. */
int raw_watch_pages(struct raw *r);
/* PLACE_PAGES of a region of so many bytes; nothing is mapped. */
int raw_place_pages(struct raw *r, uint64_t span, uint64_t *off);
#define RAW_TRY(r, NAME, req, resp)                                                                \
	raw_call_tail(r, FF_MSG_##NAME, req, sizeof(*(req)), NULL, 0, 0, resp, sizeof(*(resp)))
#define RAW_CALL(r, NAME, req, resp)                                                               \
	do {                                                                                       \
		int st_ = RAW_TRY(r, NAME, req, resp);                                             \
		if (st_)                                                                           \
			FAIL("%s: status %d", #NAME, st_);                                         \
	} while (0)

/* All requests that there are. */
struct raw_msg {
	const char *name;
	uint16_t type;
	size_t req, resp;
	bool has_tail;
};
extern const struct raw_msg raw_msgs[];
extern const unsigned raw_num_msgs;
struct ff_hdr raw_header(uint16_t type);

/* Where a segment's offset is mapped here; asks for the segment the first time. */
void *raw_at(struct raw *r, uint32_t seg, uint64_t off);
/* Seal that segment: the router touches it then. */
void raw_seal(struct raw *r, uint32_t seg);

/* A QP with all that it needs, connected to itself, and its rings. */
struct raw_qp {
	uint32_t pd, cq, mr, qp, ah; /* handles; ah for UD only */
	uint32_t lkey, qp_num;
	enum ibv_qp_type type;
	struct ff_create_qp_resp q;
	struct ff_create_cq_resp c;
	struct ff_qp_hdr *hdr;
	uint8_t *sq, *rq;
	struct ff_cq_hdr *cq_hdr;
	struct ff_cqe *cqe;
	uint8_t *buf; /* registered, reached by process_vm_*; guarded by canaries on both sides */
	size_t len;
	uint32_t sq_tail, rq_tail, ci;
	uint8_t rnr_retry; /* when it is connected */
};
#define RAW_CANARY 4096u /* bytes before and behind buf */

void raw_qp_make(struct raw *r, struct raw_qp *q, enum ibv_qp_type type, size_t len);
/* RESET to RTS, as made: peer of itself. */
void raw_qp_connect(struct raw *r, struct raw_qp *q);
/* The same with another QP of the container as its peer. */
void raw_qp_connect_to(struct raw *r, struct raw_qp *q, uint32_t dest_qp_num);
int raw_qp_state(struct raw *r, struct raw_qp *q, enum ibv_qp_state state, uint32_t mask,
		 const struct ff_qp_attr *attr);
bool raw_canaries(const struct raw_qp *q);
/* The entry that the next posting fills; valid until raw_publish. */
struct ff_sqe *raw_sqe(struct raw_qp *q);
void raw_publish(struct raw *r, struct raw_qp *q);
/* Posts a WRITE, a READ or a FETCH_ADD of 1, in turns by `n`, to that address of the peer's. */
void raw_post_nth(struct raw *r, struct raw_qp *q, unsigned n, uint64_t addr, uint32_t rkey);
/* A good WRITE of 8 bytes inside buf; on UD a SEND. */
void raw_write_wr(struct raw_qp *q, struct ff_sqe *e, uint64_t id);
/* Set the QP's dirty bit and wake the router, asked for or not. */
void raw_kick(struct raw *r, uint32_t handle);
/* The next CQE by its phase, or NULL. */
struct ff_cqe *raw_cqe(struct raw_qp *q);

/* The victim: started before anything hostile, in a process of its own. */
void victim_start(void);
/* It has made progress since this call, and found nothing wrong. */
void victim_check(void);
void victim_stop(void);
/* A new session is served. */
void raw_router_serves(void);

/* This process's lock of its address space is held by changes of it, one after the other, from now on. */
void raw_hold_map(void);
/* This thread, and those that it starts, have a mount namespace of their own, with n mounts more. False, and errno: not here. */
bool raw_mounts(unsigned n);

#endif

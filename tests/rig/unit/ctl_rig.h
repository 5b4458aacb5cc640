/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ctl_rig.h - the router's control thread in a test: containers with their directories, clients
 * over real SEQPACKET sockets, the soft device without its thread, no orchestrator.
 */
#ifndef CTL_RIG_H
#define CTL_RIG_H

#include "ffr/ctl/container.h"
#include "ffr/ctl/ctl.h"
#include "ffr/fast/backend.h"

#define RIG_CLOSED  (-1000) /* the router has closed the connection */
#define RIG_MAX_FDS 4

struct ctl_rig {
	struct ctl ctl;
	uv_loop_t loop;
	struct backend backend;
	struct container *c[2]; /* "a" and "b" of one tenant, LIDs 1 and 2 */
	char dir[32];
	bool unsealed; /* clients do not seal their segments by themselves */
};

/* The carriers of rigs to come; at first the wire. */
extern const struct carrier_use *ctl_rig_carriers;

void rig_open(struct ctl_rig *g);
void rig_close(struct ctl_rig *g); /* with all connections: nothing is charged any more */
/* Let the control thread do what it has to do now. */
void rig_pump(struct ctl_rig *g);

/* A client of container 0 or 1: its socket. */
int rig_connect(struct ctl_rig *g, int container);
/* Send one packet as it is, with n_fds copies of fd; a closed connection is not an error here. */
void rig_send(int sock, const void *bytes, size_t len, int fd, unsigned n_fds);
bool rig_is_closed(struct ctl_rig *g, int sock);
uint32_t rig_conns(const struct container_ctl *ct); /* its connections, with and without sessions */

/* A request and its response: the status, or RIG_CLOSED. fds may be NULL. */
int rig_call(struct ctl_rig *g, int sock, uint16_t type, const void *req, size_t req_len,
	     const void *tail, size_t tail_len, unsigned n_tail, void *resp, size_t resp_len,
	     int *fds, unsigned *n_fds);
#define RIG_CALL(g, sock, NAME, req, resp)                                                         \
	rig_call(g, sock, FF_MSG_##NAME, req, sizeof(*(req)), NULL, 0, 0, resp, sizeof(*(resp)),   \
		 NULL, NULL)
/* The same without a tail, and with descriptors; *fd: the one of the answer. */
int rig_call_fd(struct ctl_rig *g, int sock, uint16_t type, const void *req, size_t req_len,
		const int *send, unsigned n_send, void *resp, size_t resp_len, int *fd);
/* Its two parts: the answer, -EAGAIN if there is none yet. */
void rig_ask(int sock, uint16_t type, const void *req, size_t req_len, const void *tail,
	     size_t tail_len, unsigned n_tail);
int rig_answer(struct ctl_rig *g, int sock, uint16_t type, void *resp, size_t resp_len);
/* HELLO, with all that comes with it closed again. */
int rig_hello(struct ctl_rig *g, int sock);
/* HELLO with that request, answer and these descriptors instead of this process's memory. */
int rig_hello_with(struct ctl_rig *g, int sock, const struct ff_hello_req *req,
		   struct ff_hello_resp *resp, const int send[2], int *fds, unsigned *n_fds);

unsigned rig_open_fds(void); /* descriptors that this process has open */
/* It has no more than that again: threads close some (discard.c), also of a test before. Aborts after some seconds. */
void rig_fds(struct ctl_rig *g, unsigned want);

#endif

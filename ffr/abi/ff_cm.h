/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ff_cm.h - connection management between ffl's librdmacm and ffr: the structs of the CM_ rows of
 * FF_MSG_TABLE, and the events. Included by ff_proto.h.
 *
 * Theory of operation
 * -------------------
 * There is no kernel rdma_cm: the router is the CM of its containers. A process that uses rdma_cm
 * has one session for it, apart from the sessions of the devices that it opens; a CM id belongs to
 * that session and dies with it (its peer then sees what a dead host's peer would see). What the
 * client says about its QP (number, PSN) goes to the peer and is believed for nothing else: pairing
 * is checked again when the QP is modified and at each packet.
 *
 * QPs are the device session's. A program may move its own through their states, with the attributes
 * that CM_INIT_QP_ATTR gives. For those that rdma_create_qp() makes the router does it, so that a
 * call of the program's is one message: the CM's session imports from the device's (IMPORT_DEVICE),
 * and the requests that name a QP mean one of that session, by its handle there. CM_CREATE_QP makes
 * one and moves it to INIT (UD: to RTS), CM_ACCEPT and CM_ESTABLISH move it from INIT to RTS before
 * the peer hears of it. Where they fail its state is what it was. Where a container has several devices,
 * CM_DEVICE says which one an id is on; the CM's session then imports from a session of that device.
 *
 * Events come out of a channel's descriptor, the one that CREATE_CHANNEL gave: one packet is one
 * struct ff_cm_event followed by `private_data_len` bytes. The router keeps what a channel does not
 * take at once, in order, and drops nothing that it has promised; how much may wait is bounded by
 * each listener's backlog and the number of ids. The events are those that ucma gives to user space:
 *	- The active side of a connection gets CONNECT_RESPONSE when the other side has accepted. The
 *	  library moves the QP, says CM_ESTABLISH (which sends the RTU) and shows ESTABLISHED, or shows
 *	  CONNECT_RESPONSE where the id has no QP. The passive side gets ESTABLISHED with the RTU; an
 *	  accepted UD id gets nothing.
 *	- CM_DISCONNECT brings DISCONNECTED to the other side at once, and to its own when the other side
 *	  has said CM_DISCONNECT or destroyed its id, or with -ETIMEDOUT after a minute. TIMEWAIT_EXIT
 *	  follows where CM_DISCONNECT was said.
 *	- Private data has the length of the message's field, zeros behind what the peer has given:
 *	  FF_CM_PD_REQ (CONNECT_REQUEST), _REP (CONNECT_RESPONSE), _REJ (REJECTED), _SIDR_*.
 *	- Until CM_ACCEPT has told its uid, a passive id has no events; CM_ACCEPT then answers -EINVAL
 *	  where the peer has gone.
 *	- param is said from the receiver's point of view: responder_resources is what the peer called
 *	  its initiator_depth.
 * An id that is destroyed takes with it the events that wait in the router; for a listener these are
 * also the ids of requests that were not written. A CONNECT_REQUEST that lies in the descriptor when
 * its listener is destroyed names a live id, which is the library's to destroy. DESTROY_CHANNEL
 * destroys the ids of the channel.
 *
 * Addresses are struct sockaddr_in, _in6 or _ib as in <rdma/...>, in a struct ff_cm_addr; ports are
 * in network byte order there. A port space has its own ports in each container.
 */
#ifndef FFR_ABI_FF_CM_H
#define FFR_ABI_FF_CM_H

#include <assert.h>
#include <stdint.h>

/* Bytes of private data that an event can carry; the limits of each message are the IB CM's, less
 * the CMA header of 36 bytes, which a REQ and a SIDR_REQ have but between AF_IB addresses. More is
 * -EINVAL. */
#define FF_CM_PD_MAX	     256u
#define FF_CM_PD_REQ	     56u  /* connect */
#define FF_CM_PD_REQ_IB	     92u  /* AF_IB */
#define FF_CM_PD_REP	     196u /* accept */
#define FF_CM_PD_REJ	     148u
#define FF_CM_PD_SIDR_REQ    180u /* UD: connect */
#define FF_CM_PD_SIDR_REQ_IB 216u
#define FF_CM_PD_SIDR_REP    136u
#define FF_CM_MAX_BACKLOG    1024u	 /* of one listener; also for backlog <= 0 */
#define FF_CM_MAX_IDS	     65535u	 /* of one session */
#define FF_CM_MULTICAST_QKEY 0x01234567u /* RDMA_UDP_QKEY */

struct ff_cm_addr {
	uint8_t sa[48]; /* struct sockaddr_storage's first bytes; all zero: none */
};

/* struct rdma_conn_param (RDMA_PS_TCP, IB) and what a UD one has. The tail of the request is
 * struct ff_cm_byte: the private data. */
struct ff_cm_byte {
	uint8_t b;
};
struct ff_cm_param {
	uint32_t qp_num;
	uint32_t qkey; /* UD */
	uint8_t responder_resources, initiator_depth, flow_control, retry_count;
	uint8_t rnr_retry_count, srq, has_qp, qp_type;
};
/* struct ibv_ece */
struct ff_cm_ece {
	uint32_t vendor_id, options, comp_mask;
};

/* CM_CREATE_ID: ps is enum rdma_port_space, qp_type enum ibv_qp_type. uid comes back in events. */
struct ff_cm_create_id_req {
	uint64_t uid;
	uint32_t channel;
	uint16_t ps;
	uint8_t qp_type, reserved;
};
struct ff_cm_create_id_resp {
	uint32_t id;
};
/* CM_DESTROY_ID: a connected one is disconnected first, a pending request rejected. */
struct ff_cm_destroy_id_req {
	uint32_t id;
};
struct ff_cm_destroy_id_resp {
	uint32_t events_reported; /* packets ever written for this id; the others are dropped */
};
/* CM_BIND: port 0 is chosen. -EADDRINUSE (another id has this address and port), -EADDRNOTAVAIL (it
 * has the port, and one of the two the wildcard; or not this container's address), -EINVAL (bound). */
struct ff_cm_bind_req {
	uint32_t id;
	uint32_t reserved;
	struct ff_cm_addr addr;
};
struct ff_cm_bind_resp {
	struct ff_cm_addr addr;
};
/* CM_RESOLVE_ADDR: src may be all zero. ADDR_RESOLVED or ADDR_ERROR follows, at once for a container
 * that is there, a loopback or multicast address. */
struct ff_cm_resolve_addr_req {
	uint32_t id;
	int32_t timeout_ms;
	struct ff_cm_addr src, dst;
};
struct ff_cm_resolve_addr_resp {
	uint32_t reserved;
};
/* CM_RESOLVE_ROUTE: ROUTE_RESOLVED or ROUTE_ERROR follows. */
struct ff_cm_resolve_route_req {
	uint32_t id;
	int32_t timeout_ms;
};
struct ff_cm_resolve_route_resp {
	uint32_t reserved;
};
/* CM_QUERY: what rdma_get_local_addr and id->route show. Events that change it tell it, too. */
struct ff_cm_query_req {
	uint32_t id;
};
struct ff_cm_query_resp {
	struct ff_cm_addr local, remote;
	uint8_t sgid[16], dgid[16];
	uint16_t pkey;	  /* host byte order */
	uint8_t port_num; /* 0: not bound to a device */
	uint8_t sl, mtu /* enum ibv_mtu */, packet_life_time, traffic_class, hop_limit;
	uint32_t flow_label, qkey;
};
/*
 * CM_DEVICE: which of the container's devices the id is on: the first one whose first GID is the id's source
 * address, or device 0. From now on the QPs that the id's requests name are those of the session of that
 * device from which this one imports, and the GID indices that the id's events and attributes have are that
 * device's. Until then the id is on device 0. -EINVAL: the id has no source address yet.
 */
struct ff_cm_device_req {
	uint32_t id;
};
struct ff_cm_device_resp {
	uint32_t device;
};
/* CM_LISTEN: an unbound id is bound to a port of the router's choice on the wildcard address. */
struct ff_cm_listen_req {
	uint32_t id;
	int32_t backlog;
};
struct ff_cm_listen_resp {
	uint32_t reserved;
};
/* CM_CONNECT, CM_ACCEPT: tail is the private data. */
struct ff_cm_connect_req {
	uint32_t id;
	struct ff_cm_param param;
	struct ff_cm_ece ece;
};
struct ff_cm_connect_resp {
	uint32_t reserved;
};
struct ff_cm_accept_req {
	uint32_t id;
	struct ff_cm_param param;
	struct ff_cm_ece ece;
	uint64_t uid; /* of the id from now on: the program's, for a passive one */
	uint32_t qp;  /* to be moved to RTS, or 0 */
	uint32_t reserved;
};
struct ff_cm_accept_resp {
	uint32_t reserved;
};
/* CM_REJECT: reason 0 is the IB CM's 28, consumer defined. Tail: private data. */
struct ff_cm_reject_req {
	uint32_t id;
	uint32_t reason;
};
struct ff_cm_reject_resp {
	uint32_t reserved;
};
/* CM_ESTABLISH: rdma_establish(), and rdma_notify() of COMM_EST (the RTU was late or lost). */
struct ff_cm_establish_req {
	uint32_t id;
	uint32_t event; /* enum ibv_event_type for rdma_notify, UINT32_MAX for rdma_establish */
	uint32_t qp;	/* rdma_establish: to be moved to RTS before, or 0 */
};
struct ff_cm_establish_resp {
	uint32_t reserved;
};
struct ff_cm_disconnect_req {
	uint32_t id;
};
struct ff_cm_disconnect_resp {
	uint32_t reserved;
};
/* CM_INIT_QP_ATTR: what ibv_modify_qp wants for the transition to qp_state (INIT, RTR, RTS). */
struct ff_cm_init_qp_attr_req {
	uint32_t id;
	uint32_t qp_state; /* enum ibv_qp_state */
};
/*
 * CM_MIGRATE_ID: taken is how many of the id's packets the client knows of: those that it took from
 * the channel, and those that it has seen waiting there and copied with CM_WRITE_EVENT. When these
 * are all that were ever written for the id, the id moves: events that wait, and later ones, go to
 * the new channel. Else nothing moves, and from now on the id's events wait in the router until a
 * CM_MIGRATE_ID that knows of all (or one that names the channel where the id is). Either way the
 * answer is 0 with events_reported: moved if it equals taken. A client that takes packets under the
 * same lock under which it sends this misses none and sees none twice.
 */
struct ff_cm_migrate_id_req {
	uint32_t id;
	uint32_t channel;
	uint32_t taken;
};
struct ff_cm_migrate_id_resp {
	uint32_t events_reported; /* packets ever written for this id */
};
/* CM_SET_OPTION: level and option are enum rdma_option_...; value as given (at most 4 bytes).
 * RDMA_OPTION_IB_PATH: value 0, the router's own path is used; ROUTE_RESOLVED follows. */
struct ff_cm_set_option_req {
	uint32_t id;
	uint32_t level, option, value;
};
struct ff_cm_set_option_resp {
	uint32_t reserved;
};
/* CM_JOIN: MULTICAST_JOIN or MULTICAST_ERROR follows. join_flags as RDMA_MC_JOIN_FLAG_*. */
struct ff_cm_join_req {
	uint64_t uid; /* comes back in the event */
	uint32_t id;
	uint32_t join_flags;
	struct ff_cm_addr addr;
};
struct ff_cm_join_resp {
	uint32_t mc; /* number of the membership within the id, for CM_LEAVE */
};
struct ff_cm_leave_req {
	uint32_t id;
	uint32_t mc;
};
struct ff_cm_leave_resp {
	uint32_t events_reported; /* packets ever written for this membership */
};

/* One packet of a CM channel; private data follows. */
struct ff_cm_event {
	uint64_t uid; /* of the id (CONNECT_REQUEST: of the listener), or of the membership */
	uint32_t id; /* handle; CONNECT_REQUEST: of the new id, which is in the listener's channel */
	uint32_t listener; /* CONNECT_REQUEST: handle of the listener, else 0 */
	uint32_t event;	   /* enum rdma_cm_event_type */
	int32_t status;
	uint32_t private_data_len;
	uint32_t mc; /* MULTICAST_*: number of the membership, else 0 */
	uint32_t num; /* of all packets written for the id (the listener's, if there is one), from 1 */
	uint32_t reserved;
	struct ff_cm_param param;
	struct ff_cm_ece ece;
	uint32_t ps; /* CONNECT_REQUEST: port space of the new id */
	/* UD: ESTABLISHED and MULTICAST_JOIN */
	uint8_t dgid[16];
	uint32_t ud_qp_num, ud_qkey, ud_flow_label;
	uint16_t ud_dlid;
	uint8_t ud_sl, ud_hop_limit, ud_traffic_class, ud_sgid_index, reserved2[2];
	/* ADDR_RESOLVED, ROUTE_RESOLVED, CONNECT_REQUEST: of the id, as CM_QUERY would answer */
	struct ff_cm_query_resp path;
};
/*
 * CM_WRITE_EVENT: the packet as given (tail: its private data, FF_CM_PD_MAX bytes at most) goes into
 * a channel of the session: rdma_write_cm_event(), and copies of packets that migrate with their id.
 * Checked are only id (the packet counts as one written for it), channel and length. It is written
 * at once, also while the id's own events wait; -EAGAIN if the channel's socket is full.
 */
struct ff_cm_write_event_req {
	uint32_t id;
	uint32_t channel;
	struct ff_cm_event event;
};
struct ff_cm_write_event_resp {
	uint32_t events_reported; /* packets ever written for this id */
};
static_assert(sizeof(struct ff_cm_addr) == 48, "ABI");
static_assert(sizeof(struct ff_cm_param) == 16, "ABI");
static_assert(sizeof(struct ff_cm_query_resp) == 144, "ABI");
static_assert(sizeof(struct ff_cm_event) % 8 == 0, "ABI");

#endif

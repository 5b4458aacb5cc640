/* SPDX-License-Identifier: GPL-2.0 */
/*
 * vmport_int.h - what vmport's files share. The module is RapidIO without hardware: master ports of
 * this kernel, the switch that joins them, and links to the switches of other kernels over UDP.
 *
 *	main.c     parameters, load and unload
 *	port.c     a master port: its rio_ops, and its thread, which plays the interrupts
 *	regs.c     configuration space of endpoints and of the switch
 *	fabric.c   the switch: routes, link states, who answers a request
 *	send.c     doorbells and messages on their way out: time, order, retry
 *	receive.c  doorbells, messages and port-writes on their way in
 *	window.c   inbound windows, and memory by RapidIO address
 *	outbound.c outbound windows
 *	dma.c      the DMA channels
 *	uplink.c   a link to another kernel's switch: frames over UDP, none lost, in order
 *	wire.c     packets as they are in a frame
 *	sysfs.c    settings, fault injection and statistics
 *
 * Locks, outer to inner: mport.lock (the kernel's), send_lock, receive_lock; dma lock, window lock;
 * uplink lock. No lock but mport.lock and callback_lock is held while a client's callback runs.
 */
#ifndef VMPORT_INT_H
#define VMPORT_INT_H

#include <linux/completion.h>
#include <linux/dmaengine.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/platform_device.h>
#include <linux/random.h>
#include <linux/rio.h>
#include <linux/rio_drv.h>
#include <linux/skbuff.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#define VMPORT_PORTS	     RIO_MAX_MPORTS
#define VMPORT_UPLINKS	     4
#define VMPORT_SWITCH_PORTS  (VMPORT_PORTS + VMPORT_UPLINKS)
#define VMPORT_NO_PORT	     0xff
#define VMPORT_HOPS	     8	  /* switches on a path */
#define VMPORT_PACKET	     256  /* bytes of data in a RapidIO packet */
#define VMPORT_FRAME_DATA    1024 /* bytes of memory in a frame between kernels */
#define VMPORT_DOORBELLS_OUT 256
#define VMPORT_DOORBELLS_IN  1024
#define VMPORT_PORT_WRITES   16
#define VMPORT_WINDOWS	     16
#define VMPORT_OUT_WINDOWS   8
#define VMPORT_CHANNELS	     16
#define VMPORT_REQUESTS	     8

/* ---- a packet ------------------------------------------------------------------------------------ */

enum vmport_type {
	VMPORT_MAINT_READ = 1,
	VMPORT_MAINT_WRITE,
	VMPORT_PORT_WRITE,
	VMPORT_NREAD,
	VMPORT_NWRITE, /* no response */
	VMPORT_NWRITE_R,
	VMPORT_SWRITE, /* no response */
	VMPORT_DOORBELL,
	VMPORT_MESSAGE,
	VMPORT_RESPONSE,
	VMPORT_TYPES,
};

/* What became of a request. */
enum vmport_status {
	VMPORT_DONE,
	VMPORT_RETRY,	/* the receiver has no room now */
	VMPORT_ERROR,	/* the receiver refuses */
	VMPORT_LOST,	/* no way there, or no answer */
	VMPORT_PENDING, /* went to another kernel, which answers by tag */
};

/*
 * Who waits for a response that comes from another kernel: a kind, an index and a generation, by
 * which a late answer is told from that to the next request.
 */
enum vmport_tag_kind {
	VMPORT_TAG_REQUEST = 1,
	VMPORT_TAG_POSTED, /* nobody: a failure is counted */
	VMPORT_TAG_SEND,
	VMPORT_TAG_MESSAGE,
	VMPORT_TAG_DMA,
};

#define VMPORT_TAG(kind, index, gen) ((u32)(kind) << 28 | ((u32)(index)&0xfff) << 16 | (u16)(gen))
#define VMPORT_TAG_KIND(tag)	     ((tag) >> 28)
#define VMPORT_TAG_INDEX(tag)	     ((tag) >> 16 & 0xfff)
#define VMPORT_TAG_GEN(tag)	     ((u16)(tag))

struct vmport_packet {
	u8 type;
	u8 status; /* of a response */
	u8 hop;	   /* maintenance: switches still to pass */
	u8 mbox;
	u8 first; /* doorbell: none of its sender's before it is unanswered; see receive.c */
	u8 hops;  /* ports of switches by which the packet came in, for the way back */
	u8 path[VMPORT_HOPS];
	u16 source, target;
	u16 info;
	u32 tag;
	u32 length;
	u64 address; /* memory, or offset in configuration space */
	void *data;
};

/* ---- a master port ------------------------------------------------------------------------------- */

/* One list feeds the counters and their files in sysfs. Packets and bytes are of data transfers. */
#define VMPORT_STATS(X)                                                                            \
	X(maint_reads)                                                                             \
	X(maint_writes)                                                                            \
	X(maint_errors)                                                                            \
	X(doorbells_sent)                                                                          \
	X(doorbells_received)                                                                      \
	X(doorbells_retried)                                                                       \
	X(doorbells_failed)                                                                        \
	X(doorbells_refused) /* dsend() had no room */                                             \
	X(doorbells_unclaimed)                                                                     \
	X(doorbells_lost_injected)                                                                 \
	X(doorbells_doubled_injected)                                                              \
	X(messages_sent)                                                                           \
	X(messages_received)                                                                       \
	X(messages_retried)                                                                        \
	X(messages_failed)                                                                         \
	X(port_writes_received)                                                                    \
	X(port_writes_dropped)                                                                     \
	X(nread_packets)                                                                           \
	X(nwrite_packets)                                                                          \
	X(nwrite_r_packets)                                                                        \
	X(swrite_packets)                                                                          \
	X(bytes_sent)                                                                              \
	X(bytes_received)                                                                          \
	X(window_misses) /* requests to no inbound window */                                       \
	X(dma_transfers)                                                                           \
	X(dma_errors)                                                                              \
	X(dma_aborted)                                                                             \
	X(errors_injected)                                                                         \
	X(resets)

#define VMPORT_STAT_ENUM(name) VMPORT_STAT_##name,
enum vmport_stat { VMPORT_STATS(VMPORT_STAT_ENUM) VMPORT_STAT_COUNT };

/* RDW_ALL_NWRITE as SWRITE: never, where address and length are multiples of 8, or only so. */
enum vmport_swrite { VMPORT_SWRITE_NEVER, VMPORT_SWRITE_AUTO, VMPORT_SWRITE_ONLY };

/* Settings in sysfs; each may change at any time. */
struct vmport_settings {
	u32 latency;		/* ns one way, of each packet or transfer */
	u32 error_rate;		/* per million transactions: end in an error */
	u32 doorbell_loss;	/* per million: gone, and the sender is not told */
	u32 doorbell_duplicate; /* per million: delivered twice */
	u32 dma_error_rate;	/* per million transfers */
	u32 doorbell_limit;	/* doorbells that wait for their handler, at most */
	bool doorbell_hold;	/* no doorbell is handled, as with an interrupt masked */
	enum vmport_swrite swrite;
	u64 bandwidth; /* bytes per second each way, 0: unlimited */
};

struct vmport_window {
	bool used;
	u64 start; /* RapidIO address */
	u64 size;
	dma_addr_t local;
};

struct vmport_out_window {
	bool used;
	u16 target;
	u64 start; /* RapidIO address */
	u32 size, gen;
	u32 first, pages; /* of the aperture */
};

struct vmport_doorbell {
	u16 source, info;
};

enum vmport_send_state { VMPORT_SEND_IDLE, VMPORT_SEND_QUEUED, VMPORT_SEND_SENT };

/* A doorbell or a message on its way out. */
struct vmport_send {
	struct list_head node;
	enum vmport_send_state state;
	bool message;
	u8 mbox;
	u16 index; /* doorbell: of the pool; message: its slot */
	u16 gen;
	u16 target;
	u16 info;
	u16 length;
	bool first;    /* none to the same receiver is before it */
	bool again;    /* the receiver had no room */
	bool finished; /* message: its slot may be reused once all before it are */
	ktime_t since; /* of the call */
	ktime_t due;   /* at the receiver; SENT: until when an answer counts */
	void *data;
};

struct vmport_outbox {
	bool open;
	bool moved; /* slots were finished: the client must be called */
	void *dev_id;
	u32 entries, head, tail, used; /* head: next to fill; tail: next to finish */
	struct vmport_send *slots;
	void **buffers; /* of RIO_MAX_MSG_SIZE each */
};

struct vmport_inbox {
	bool open;
	bool arrived;
	void *dev_id;
	u32 entries;
	u32 put, filled, get; /* counts: buffers given, filled, fetched */
	void **buffers;
};

/* A request of this port to which it waits for the answer. */
struct vmport_request {
	bool used, done;
	u8 status;
	u16 gen;
	u32 length;
	u8 data[VMPORT_FRAME_DATA];
};

struct vmport_channel;

struct vmport_port {
	struct rio_mport mport;
	struct platform_device *pdev;
	struct vmport_channel *channels;
	struct completion released;
	u8 index; /* of this module, and port of the switch */
	bool registered;
	bool taken; /* it was registered before, and is not now or anew */
	bool dma_registered;
	bool link;	 /* to the switch; fabric.c */
	bool link_then;	 /* what it was when the port was taken from the kernel */
	bool port_write; /* enabled */
	struct vmport_settings set;
	atomic64_t stats[VMPORT_STAT_COUNT];

	spinlock_t regs_lock;
	u32 did, host_lock, tag, control, pell;

	struct task_struct *thread;
	bool kicked; /* there may be something to do */

	spinlock_t send_lock;
	struct list_head sends;
	struct list_head free_doorbells;
	struct vmport_send doorbells[VMPORT_DOORBELLS_OUT];
	struct vmport_outbox outbox[RIO_MAX_MBOX];

	spinlock_t receive_lock;
	struct vmport_doorbell received[VMPORT_DOORBELLS_IN];
	u32 received_head, received_tail;
	DECLARE_BITMAP(retried, 1 << 16); /* by source: its oldest doorbell was told RETRY */
	struct vmport_inbox inbox[RIO_MAX_MBOX];
	union rio_pw_msg port_writes[VMPORT_PORT_WRITES];
	u32 port_writes_head, port_writes_tail;
	struct work_struct port_write_work;
	struct mutex callback_lock; /* a mailbox's callback runs: closing waits */

	rwlock_t window_lock;
	struct vmport_window windows[VMPORT_WINDOWS];

	spinlock_t out_lock;
	struct vmport_out_window out_windows[VMPORT_OUT_WINDOWS];
	u32 out_gen;
	struct page *aperture;
	u8 *shadow;
	struct delayed_work out_work;

	spinlock_t request_lock;
	struct vmport_request requests[VMPORT_REQUESTS];

	ktime_t tx_free, rx_free; /* when the link is; port.c's time_lock */
	ktime_t send_free;	  /* when the last doorbell or message has left; the same */
	atomic_t transfers;	  /* of DMA, submitted and not over */
};

extern struct vmport_port *vmport_ports[VMPORT_PORTS];
extern unsigned int vmport_count; /* of ports */
extern unsigned int vmport_retry_us, vmport_retry_ms, vmport_timeout_ms, vmport_channel_count;
extern unsigned int vmport_descriptor_count, vmport_aperture_pages;
extern unsigned int vmport_sys_size, vmport_hdid_count;
extern int vmport_hdid[VMPORT_PORTS];

static inline void vmport_add(struct vmport_port *p, enum vmport_stat s, u64 n)
{
	atomic64_add(n, &p->stats[s]);
}

#define vmport_stat(p, name)	    vmport_add(p, VMPORT_STAT_##name, 1)
#define vmport_stat_add(p, name, n) vmport_add(p, VMPORT_STAT_##name, n)

/* Whether something of this rate, per million, happens now. */
static inline bool vmport_chance(u32 rate)
{
	return rate && get_random_u32() % 1000000 < rate;
}

/* port.c */
struct vmport_port *vmport_port_new(unsigned int index);
void vmport_port_free(struct vmport_port *p);
int vmport_port_register(struct vmport_port *p);
void vmport_port_unregister(struct vmport_port *p);
void vmport_port_stop(struct vmport_port *p);
void vmport_port_reset(struct vmport_port *p, bool hard);
void vmport_wake(struct vmport_port *p);
void vmport_sleep_until(ktime_t t); /* or until woken; KTIME_MAX: only then */
ktime_t vmport_reserve(struct vmport_port *from, struct vmport_port *to, u32 bytes,
		       ktime_t earliest);
ktime_t vmport_reserve_send(struct vmport_port *p, u32 bytes, ktime_t now);

/* regs.c */
u32 vmport_endpoint_read(struct vmport_port *p, u32 offset);
void vmport_endpoint_write(struct vmport_port *p, u32 offset, u32 value);
void vmport_endpoint_clear(struct vmport_port *p);
u16 vmport_device_id(struct vmport_port *p);
u32 vmport_switch_read(u8 ingress, u32 offset);
void vmport_switch_write(u8 ingress, u32 offset, u32 value);
int vmport_switch_init(void);
void vmport_switch_exit(void);
u8 vmport_route(u16 target);
bool vmport_port_locked(u8 port);
void vmport_switch_link_changed(u8 port, bool up);

/* fabric.c */
bool vmport_link_up(u8 port);
void vmport_link_set(struct vmport_port *p, bool up);
enum vmport_status vmport_request(struct vmport_port *from, struct vmport_packet *packet);
void vmport_arrived(u8 ingress, struct vmport_packet *packet, void *scratch);
void vmport_send_port_write(u8 port, u32 detect, u32 comptag, u16 target);
enum vmport_status vmport_way(struct vmport_port *from, u16 target, struct vmport_port **to,
			      u8 *out);
enum vmport_status vmport_ask(struct vmport_port *p, struct vmport_packet *packet, bool spin);
void vmport_request_answered(struct vmport_port *p, struct vmport_packet *packet);
int vmport_maint_read(struct rio_mport *mport, int index, u16 destid, u8 hop, u32 offset, int len,
		      u32 *data);
int vmport_maint_write(struct rio_mport *mport, int index, u16 destid, u8 hop, u32 offset, int len,
		       u32 data);

/* send.c */
int vmport_send_init(struct vmport_port *p);
int vmport_doorbell(struct rio_mport *mport, int index, u16 target, u16 info);
int vmport_open_outbox(struct rio_mport *mport, void *dev_id, int mbox, int entries);
void vmport_close_outbox(struct rio_mport *mport, int mbox);
int vmport_add_message(struct rio_mport *mport, struct rio_dev *rdev, int mbox, void *buffer,
		       size_t length);
ktime_t vmport_send_run(struct vmport_port *p); /* when to come back */
void vmport_send_answered(struct vmport_port *p, struct vmport_packet *packet);
void vmport_send_drop(struct vmport_port *p);

/* receive.c */
enum vmport_status vmport_receive_doorbell(struct vmport_port *p, u16 source, u16 info, bool first);
enum vmport_status vmport_receive_message(struct vmport_port *p, int mbox, const void *data,
					  u32 length);
void vmport_receive_port_write(struct vmport_port *p, const union rio_pw_msg *msg);
int vmport_open_inbox(struct rio_mport *mport, void *dev_id, int mbox, int entries);
void vmport_close_inbox(struct rio_mport *mport, int mbox);
int vmport_add_buffer(struct rio_mport *mport, int mbox, void *buffer);
void *vmport_get_message(struct rio_mport *mport, int mbox);
void vmport_receive_run(struct vmport_port *p);
bool vmport_receive_pending(struct vmport_port *p);
void vmport_receive_drop(struct vmport_port *p);
void vmport_receive_init(struct vmport_port *p);

/* window.c */
int vmport_map_inbound(struct rio_mport *mport, dma_addr_t local, u64 start, u64 size, u32 flags);
void vmport_unmap_inbound(struct rio_mport *mport, dma_addr_t local);
void vmport_windows_clear(struct vmport_port *p);
int vmport_memory(struct vmport_port *p, u64 address, void *data, u32 length, bool write);
int vmport_memory_dma(struct vmport_port *p, u64 address, struct device *dev, dma_addr_t local,
		      u32 length, bool write);
int vmport_copy_dma(struct device *dev, dma_addr_t local, void *data, u32 length, bool write);

/* outbound.c */
int vmport_outbound_init(struct vmport_port *p);
void vmport_outbound_stop(struct vmport_port *p);
void vmport_outbound_exit(struct vmport_port *p);
int vmport_map_outbound(struct rio_mport *mport, u16 target, u64 start, u32 size, u32 flags,
			dma_addr_t *local);
void vmport_unmap_outbound(struct rio_mport *mport, u16 target, u64 start);

/* dma.c */
int vmport_dma_init(struct vmport_port *p);
void vmport_dma_exit(struct vmport_port *p);
int vmport_dma_register(struct vmport_port *p);
void vmport_dma_unregister(struct vmport_port *p);
void vmport_dma_abort(struct vmport_port *p);
void vmport_dma_answered(struct vmport_port *p, struct vmport_packet *packet);
void vmport_count_packets(struct vmport_port *p, enum vmport_type type, u64 address, u32 length);

/* uplink.c */
extern unsigned int vmport_uplink_count;
int vmport_uplink_new(unsigned int index, const char *addresses);
void vmport_uplink_free(unsigned int index);
bool vmport_uplink_up(unsigned int index);
int vmport_uplink_send(unsigned int index, const struct vmport_packet *packet);

/* wire.c */
u32 vmport_wire_size(const struct vmport_packet *packet);
void vmport_wire_put(void *to, const struct vmport_packet *packet);
int vmport_wire_get(struct vmport_packet *packet, void *from, u32 length);

/* sysfs.c */
extern const struct attribute_group *vmport_port_groups[];

#endif

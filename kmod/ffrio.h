/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ffrio.h - the calls of /dev/ffrio, which programs include and the module ffrio.ko answers. Messages
 * between endpoints of RapidIO nodes, by contiguous buffers of the kernel's and DMA; one-sided access to
 * windows. docs/internals/ffrio.md tells what goes over the link.
 *
 *	node		a master port of this machine, or one that is reached through it: its destination ID
 *	endpoint	0 to 63 of a node; a file is bound to one by FFRIO_BIND, and receives what is
 *			sent there
 *	message		any number of bytes, 0 as well, in blocks of at most ffrio_bind.block. Messages
 *			from one node to one endpoint arrive in order, each whole, or not to its end
 *	block		a send buffer (SMB) here, moved to a receive buffer (RMB) there
 *
 * Two ways to send and to receive, for the same messages: FFRIO_SEND and FFRIO_RECV copy; FFRIO_TAKE,
 * FFRIO_POST and FFRIO_REAP work on buffers that the program has mapped. The node is 0600: who may open it
 * may see all buffers of the ports.
 *
 * O_NONBLOCK: a call does what it can at once, or says EAGAIN. poll(): IN there is something to be
 * received, OUT a send buffer is free, ERR an earlier FFRIO_SEND failed (FFRIO_FLUSH says of what),
 * PRI FFRIO_REAP has something.
 *
 * Errors of what goes to a node: EHOSTUNREACH it does not answer; ECONNREFUSED nobody is at that
 * endpoint; ECONNRESET it has begun anew; ECONNABORTED it has given the message up; ETIMEDOUT it, or
 * this side's data, took too long; EIO transfers failed again and again, or arrived wrong; ENODEV the port is gone;
 * ESHUTDOWN it was under way when the port went, which then waits for its files to be closed. Any call: EFAULT,
 * EINVAL, EINTR, ENOTCONN before FFRIO_BIND.
 */
#ifndef FFRIO_H
#define FFRIO_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define FFRIO_VERSION	      1
#define FFRIO_ENDPOINTS	      64
#define FFRIO_BUFFERS	      256 /* of each kind, at most */
#define FFRIO_BLOCK_MAX_SHIFT 20

/* Times of the protocol that both sides must agree on, ms. */
#define FFRIO_GRANT_MS	 5000 /* a granted buffer that is not used */
#define FFRIO_MESSAGE_MS 2000 /* a message that stops while others wait */

/* Flags of a block. */
#define FFRIO_FIRST 1 /* of its message */
#define FFRIO_LAST  2

/*
 * FFRIO_BIND. Once for each file. The port is the kernel's number of it (/sys/class/rapidio_port/rapidioN).
 * EADDRINUSE, ENOBUFS: as many endpoints as receive buffers are bound. ENODEV: there is no such port, or ffrio
 * found no DMA there; ENOMEM: no memory for its buffers. /sys/class/rapidio_port/rapidioN/ffrio says `ready`, or
 * why ffrio has not that port.
 */
struct ffrio_bind {
	__u32 version; /* FFRIO_VERSION; out: the module's, also with EPROTO */
	__u32 port;
	__s32 endpoint;	  /* -1: any; out: which */
	__u32 destid;	  /* out: this node's */
	__u32 block;	  /* out: bytes of data in a buffer */
	__u32 stride;	  /* out: bytes from one buffer to the next */
	__u32 header;	  /* out: bytes before the data in each */
	__u32 smbs, rmbs; /* out: how many */
	__u32 reserved;	  /* 0 */
	__u64 smb_offset; /* out: for mmap(), of the whole pool; read and write */
	__u64 rmb_offset; /* out: for mmap(), read only */
	__u64 smb_length; /* out: bytes, for mmap() */
	__u64 rmb_length; /* out */
};

enum ffrio_send_flags {
	FFRIO_MORE = 1,	  /* the message goes on with the next call, to the same place */
	FFRIO_SYNC = 2,	  /* returns when the receiver has all of it */
	FFRIO_PINNED = 4, /* from the program's own pages; as FFRIO_SYNC, not with O_NONBLOCK */
	FFRIO_COPY = 8,	  /* by send buffers */
};

/*
 * FFRIO_SEND. Returns when the data is in send buffers; FFRIO_FLUSH tells whether it arrived. done is
 * less than length with O_NONBLOCK, or with an error, which is then the next call's: the message goes
 * on with the rest in the next call. A message that failed ends: the next call begins another.
 *
 * Without FFRIO_PINNED and FFRIO_COPY the module's parameter zero_copy says from which length on a call
 * that may wait sends from the program's pages, which are pinned while DMA reads them. Such a call has
 * FFRIO_SYNC as well. When it returns, also with an error, nobody reads the pages any more; so a signal
 * gives up a message of which the receiver has not all yet. A program that changes the data meanwhile
 * sends a mixture of both contents, or hears EIO of it. Memory that can't be pinned, such as a device's,
 * is copied.
 */
struct ffrio_send {
	__u64 address, length; /* bytes */
	__u32 destid;
	__u32 endpoint;
	__u32 flags;
	__u32 reserved;
	__u64 done; /* out: bytes */
};

/*
 * FFRIO_RECV. Waits for the whole of a message or until length is filled; with O_NONBLOCK what is there.
 * What does not fit comes with the next call. ECONNRESET: the message, of which there was a part
 * before, will not go on; destid says whose.
 */
struct ffrio_recv {
	__u64 address, length;
	__u32 destid, endpoint; /* out: whose */
	__u32 flags; /* out: FFRIO_FIRST, FFRIO_LAST: this has its first, its last byte */
	__u32 reserved;
	__u64 done; /* out: bytes */
};

/*
 * Without a copy. FFRIO_ALLOC gives a send buffer (EAGAIN), whose data is at buffer * stride + header of
 * the mapping; FFRIO_POST sends it as one block of a message; FFRIO_REAP gives it back with the result.
 * FFRIO_FREE. A program holds at most a quarter of the send buffers (ENOBUFS), all of them half.
 */
struct ffrio_buf {
	__u32 buffer;
	__u32 reserved;
};

struct ffrio_post {
	__u32 buffer;
	__u32 length; /* bytes of data */
	__u32 destid, endpoint;
	__u32 flags; /* FFRIO_FIRST, FFRIO_LAST */
	__u32 reserved;
	__u64 cookie;
};

struct ffrio_reap { /* all: out */
	__u64 cookie;
	__u32 buffer;
	__s32 result; /* 0 or -errno */
};

/* FFRIO_TAKE: the next block where it is, until FFRIO_GIVE_BACK. Not in the middle of FFRIO_RECV. */
struct ffrio_take { /* all: out */
	__u32 buffer;
	__u32 length;
	__u32 destid, endpoint;
	__u32 flags;
	__u32 reserved;
};

/* FFRIO_WINDOW: memory of this node that others may read and write. It ends with the file. */
struct ffrio_window {
	__u64 length; /* bytes, a power of two from 4096 to 4 MB */
	__u64 rio;    /* out: its RapidIO address */
	__u64 offset; /* out: for mmap() */
	__u32 window; /* out: for FFRIO_WINDOW_END */
	__u32 reserved;
};

enum ffrio_transfer_flags {
	FFRIO_READ = 1,	    /* NREAD; otherwise a write */
	FFRIO_RESPONSE = 2, /* each packet of the write is answered (NWRITE_R) */
	FFRIO_POSTED = 4,   /* none is (NWRITE, SWRITE): what is lost is not told */
};

/*
 * FFRIO_TRANSFER: between the program's memory and any RapidIO address; by default the last packet of a
 * write is answered. Returns when it has ended. Any alignment. done counts what surely went.
 */
struct ffrio_transfer {
	__u64 address, length;
	__u64 rio;
	__u32 destid;
	__u32 flags;
	__u64 done; /* out */
};

/* Of a port, since the module was loaded. One list for struct, names and papers. */
#define FFRIO_STATS(X)                                                                             \
	X(blocks_sent) /* and acknowledged */                                                      \
	X(blocks_failed)                                                                           \
	X(blocks_repeated) /* transferred again: the receiver found them wrong */                  \
	X(blocks_received)                                                                         \
	X(bytes_sent)                                                                              \
	X(bytes_received)                                                                          \
	X(bad_blocks) /* with a wrong header or checksum */                                        \
	X(doorbells_sent)                                                                          \
	X(doorbells_failed) /* the port did not take them */                                       \
	X(doorbells_received)                                                                      \
	X(doorbells_again)    /* said again, unanswered */                                         \
	X(doorbells_repeated) /* heard again, or too late */                                       \
	X(protocol_errors)                                                                         \
	X(dma_errors)                                                                              \
	X(dma_waits) /* transfers that found the channels full */                                  \
	X(smb_waits) /* blocks that found no send buffer */                                        \
	X(parked)    /* requests that found no receive buffer at the peer */                       \
	X(rejects_sent)                                                                            \
	X(rejects_received)                                                                        \
	X(cancels_received)                                                                        \
	X(stale_grants)                                                                            \
	X(grants_revoked)                                                                          \
	X(messages_broken)  /* of which a reader has had a part */                                 \
	X(messages_stalled) /* given up, since others waited */                                    \
	X(quarantined)	    /* buffers whose sender was gone */                                    \
	X(hellos_sent)                                                                             \
	X(bad_hellos)                                                                              \
	X(strangers) /* doorbells of peers that are not up */                                      \
	X(closes_received)                                                                         \
	X(peers_up)                                                                                \
	X(peers_lost)                                                                              \
	X(peers_refused) /* the table was full */                                                  \
	X(transfers)	 /* one-sided */                                                           \
	X(transfer_errors)                                                                         \
	X(blocks_pinned) /* of blocks_sent, from a program's pages */

#define FFRIO_STAT_ENUM(name) FFRIO_STAT_##name,
enum ffrio_stat { FFRIO_STATS(FFRIO_STAT_ENUM) FFRIO_STAT_COUNT };

struct ffrio_stats {
	__u64 values; /* address of count __u64, in the list's order */
	__u32 count;  /* out: how many the module has */
	__u32 port;   /* of the machine; the file need not be bound */
	__u32 rmbs_free, smbs_free, peers, endpoints; /* out: now */
};

#define FFRIO_IOC	 0xf8
#define FFRIO_BIND	 _IOWR(FFRIO_IOC, 0, struct ffrio_bind)
#define FFRIO_SEND	 _IOWR(FFRIO_IOC, 1, struct ffrio_send)
#define FFRIO_RECV	 _IOWR(FFRIO_IOC, 2, struct ffrio_recv)
#define FFRIO_FLUSH	 _IO(FFRIO_IOC, 3) /* waits for all that was sent; the first error since */
#define FFRIO_ALLOC	 _IOR(FFRIO_IOC, 4, struct ffrio_buf)
#define FFRIO_FREE	 _IOW(FFRIO_IOC, 5, struct ffrio_buf)
#define FFRIO_POST	 _IOW(FFRIO_IOC, 6, struct ffrio_post)
#define FFRIO_REAP	 _IOR(FFRIO_IOC, 7, struct ffrio_reap)
#define FFRIO_TAKE	 _IOR(FFRIO_IOC, 8, struct ffrio_take)
#define FFRIO_GIVE_BACK	 _IOW(FFRIO_IOC, 9, struct ffrio_buf)
#define FFRIO_WINDOW	 _IOWR(FFRIO_IOC, 10, struct ffrio_window)
#define FFRIO_WINDOW_END _IOW(FFRIO_IOC, 11, struct ffrio_buf)
#define FFRIO_TRANSFER	 _IOWR(FFRIO_IOC, 12, struct ffrio_transfer)
#define FFRIO_GET_STATS	 _IOWR(FFRIO_IOC, 13, struct ffrio_stats)

#endif

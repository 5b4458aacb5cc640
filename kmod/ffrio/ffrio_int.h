/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ffrio_int.h - what the files of ffrio.ko share. The protocol itself is proto.h's.
 *
 *	main.c	parameters; master ports come and go	port.c	a port: pools, doorbells, the protocol's ops
 *	dma.c	transfers, and the queue for channels	file.c	/dev/ffrio: open, calls, poll, mmap, close
 *	block.c	blocks on their way out, send buffers	send.c	sending
 *	post.c	sending without a copy, close		recv.c	receiving
 *	pin.c	a block that is in a program's pages
 *	window.c	memory for others, and access to that of others
 *
 * Locks, outermost first:
 *	file->tx_mutex, file->rx_mutex	one call at a time that sends, that receives; held while one sleeps
 *	mport->lock	the kernel's; held by some drivers while they call our doorbell handler
 *	port->lock	the protocol, send buffers, channels, and what files have under way. Taken with
 *			softirqs off, in callbacks of DMA as well; nothing sleeps under it
 * Callbacks of the protocol (struct ffrio_ops) run with port->lock held.
 */
#ifndef FFRIO_INT_H
#define FFRIO_INT_H

#include <linux/bitmap.h>
#include <linux/completion.h>
#include <linux/dmaengine.h>
#include <linux/fs.h>
#include <linux/kfifo.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/random.h>
#include <linux/rio.h>
#include <linux/rio_drv.h>
#include <linux/scatterlist.h>
#include <linux/semaphore.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "proto.h"

#define FFRIO_CHANNELS	8
#define FFRIO_DOORBELLS 1024 /* that wait for the work queue */
#define FFRIO_NO_BUFFER (-1)

/* ---- transfers (dma.c) --------------------------------------------------------------------------- */

struct ffrio_port;

struct ffrio_job {
	struct list_head node; /* of those that wait, or that ended */
	struct ffrio_port *port;
	struct ffrio_channel *channel;
	struct scatterlist *list; /* NULL: local is all */
	unsigned int entries;	  /* of list, as DMA has them */
	struct scatterlist sg;
	dma_addr_t local;
	u64 rio;
	u32 length;
	u16 destid;
	bool read;
	bool aborted;
	enum rio_write_type type;
	dma_cookie_t cookie;
	int error;
	unsigned long since; /* jiffies: of the submission */
	/* With port->lock held. The job may be freed. */
	void (*done)(struct ffrio_job *job, int error);
};

struct ffrio_channel {
	struct dma_chan *chan;
	struct list_head jobs; /* under way */
	unsigned int count;
	bool stop;	  /* one of them has taken too long */
	bool terminating; /* callbacks only say that they were called */
};

/* ---- a port (port.c) ----------------------------------------------------------------------------- */

struct ffrio_pool {
	void *memory;
	dma_addr_t dma;
	size_t size;
};

struct ffrio_file;

struct ffrio_port {
	struct kref ref;
	struct completion *freed; /* of who waits for that, or NULL */
	struct rio_mport *mport;
	struct device *dev; /* the one that does the DMA */
	u32 id;
	u16 destid; /* as it was when something was said */
	bool gone;  /* lock */

	spinlock_t lock;
	struct ffrio_proto proto;
	struct ffrio_pool smb, rmb;
	u32 stride;
	bool mapped, doorbells; /* what is to be given back */

	u16 smbs, smb_free;
	u16 smb_ungranted; /* held by blocks that have no grant */
	u16 smb_owned;	   /* by programs */
	u16 smb_stack[FFRIO_BUFFERS];
	wait_queue_head_t smb_wait;
	wait_queue_head_t flow_wait;

	unsigned int channels;
	struct ffrio_channel channel[FFRIO_CHANNELS];
	struct list_head jobs;	/* that wait for a channel */
	struct list_head ended; /* jobs for the work queue */

	struct list_head files;
	struct ffrio_file *endpoint[FFRIO_ENDPOINTS];
	struct list_head blocks; /* all that the protocol has */

	struct timer_list timer;
	struct work_struct work;
	DECLARE_KFIFO(fifo, u32, FFRIO_DOORBELLS);
};

extern unsigned int ffrio_block_size, ffrio_smb_count, ffrio_rmb_count, ffrio_quota;
extern unsigned int ffrio_channel_count, ffrio_ahead, ffrio_zero_copy, ffrio_retry_ms,
	ffrio_dead_ms;
extern bool ffrio_early_request, ffrio_top_half, ffrio_use_semaphore, ffrio_checksum;

/* A port, or an ERR_PTR() with why in words. */
#define FFRIO_WHY_SIZE 128
struct ffrio_port *ffrio_port_new(struct rio_mport *mport, char *why);
void ffrio_port_end(struct ffrio_port *port);
struct ffrio_port *ffrio_port_get(u32 id); /* main.c */
void ffrio_port_put(struct ffrio_port *port);
void ffrio_enter(struct ffrio_port *port) __acquires(&port->lock);
void ffrio_leave(struct ffrio_port *port) __releases(&port->lock);

/* dma.c */
int ffrio_dma_open(struct ffrio_port *port, char *why);
void ffrio_dma_close(struct ffrio_port *port);
void ffrio_dma_start(struct ffrio_port *port, struct ffrio_job *job);
void ffrio_dma_tick(struct ffrio_port *port);
void ffrio_dma_work(struct ffrio_port *port);
bool ffrio_dma_busy(const struct ffrio_port *port);

/* ---- a program's pages (pin.c) ------------------------------------------------------------------- */

struct ffrio_pin {
	struct scatterlist *list; /* header, pages, the last bytes of data with what rounding adds */
	unsigned int length, mapped; /* entries of it, here and as DMA has them */
	struct page **pages;
	unsigned int pinned;
	u8 *header; /* FFRIO_HEADER_SIZE, then the last bytes */
};

struct ffrio_pin *ffrio_pin_new(struct ffrio_port *port, const void __user *from, u32 length);
void ffrio_pin_free(struct ffrio_port *port, struct ffrio_pin *pin);
u32 ffrio_pin_crc(struct ffrio_pin *pin, u32 crc);
void ffrio_pin_sync(struct ffrio_port *port, struct ffrio_pin *pin);

/* ---- blocks and files ---------------------------------------------------------------------------- */

/* What a process waits with: the kernel's completion, or a semaphore as before the paper's change. */
struct ffrio_signal {
	struct completion completion;
	struct semaphore semaphore;
};

/* A block on its way out. */
struct ffrio_block {
	struct ffrio_tx tx;
	struct list_head node;	 /* of the port's */
	struct list_head mine;	 /* of those that a sender has asked for, or of file->reaped */
	struct ffrio_file *file; /* NULL: closed */
	struct ffrio_job job;
	struct ffrio_signal signal; /* granted, or over */
	struct ffrio_pin *pin;	    /* lock: where the data is, if not in the send buffer */
	int smb;
	u32 length, crc;
	u32 message;  /* of the file's */
	bool watched; /* the sender frees it */
	bool posted;  /* the send buffer stays the program's */
	bool checksum;
	bool granted, over, ungranted;
	int result;
	u64 cookie;
};

struct ffrio_file {
	struct ffrio_port *port; /* set once */
	struct list_head node;	 /* of the port's */
	u8 endpoint;
	wait_queue_head_t wait;

	struct mutex tx_mutex;
	/* lock: the message that is open, which no other file may come between */
	bool open, failed;
	u16 destid;
	u8 target;
	u32 message, told; /* the latest; the latest whose failure was told */
	u32 pending;	   /* blocks under way, not posted ones */
	u32 posted;
	u32 pins;  /* blocks that have one */
	int error; /* the first since the last flush */
	struct list_head reaped;
	DECLARE_BITMAP(owned, FFRIO_BUFFERS); /* send buffers of FFRIO_ALLOC */
	DECLARE_BITMAP(busy, FFRIO_BUFFERS);
	unsigned int owned_count;

	struct mutex rx_mutex;
	int rx_buffer; /* being read */
	u32 rx_offset;
	DECLARE_BITMAP(taken, FFRIO_BUFFERS);

	struct mutex windows_mutex;
	struct list_head windows;
};

/* Whether the file has a port; others may set it at the same time. */
static inline struct ffrio_port *ffrio_file_port(struct ffrio_file *file)
{
	return smp_load_acquire(&file->port); /* with what BIND wrote before it */
}

static inline bool ffrio_nonblock(const struct file *filp)
{
	return filp->f_flags & O_NONBLOCK;
}

static inline void *ffrio_smb_memory(const struct ffrio_port *port, u16 buffer)
{
	return port->smb.memory + (size_t)buffer * port->stride;
}

static inline void *ffrio_rmb_memory(const struct ffrio_port *port, u16 buffer)
{
	return port->rmb.memory + (size_t)buffer * port->stride;
}

/* block.c */
int ffrio_signal_wait(struct ffrio_signal *s); /* 0, or a signal came */
int ffrio_smb_take(struct ffrio_port *port);   /* lock held; FFRIO_NO_BUFFER */
int ffrio_smb_get(struct ffrio_port *port, bool wait);
void ffrio_smb_put(struct ffrio_port *port, int buffer); /* lock held */
struct ffrio_block *ffrio_block_new(struct ffrio_file *file, u32 length);
int ffrio_block_add(struct ffrio_port *port, struct ffrio_file *file,
		    struct ffrio_block *b);				      /* lock held */
void ffrio_block_unpin(struct ffrio_port *port, struct ffrio_block *b);	      /* lock held */
void ffrio_block_granted_now(struct ffrio_port *port, struct ffrio_block *b); /* lock held */
void ffrio_block_granted(struct ffrio_block *b);
void ffrio_block_move(struct ffrio_block *b);
void ffrio_block_sent(struct ffrio_block *b, int result);
int ffrio_way_begin(struct ffrio_file *file, u32 destid, u32 endpoint,
		    bool wait);					      /* tx_mutex held */
void ffrio_way_end(struct ffrio_port *port, struct ffrio_file *file); /* lock held */
void ffrio_message_end(struct ffrio_port *port, struct ffrio_file *file, int error); /* lock held */

/* send.c, post.c */
long ffrio_send(struct file *filp, struct ffrio_send *s);
long ffrio_flush(struct file *filp);
long ffrio_alloc(struct file *filp, struct ffrio_buf *b);
long ffrio_free(struct file *filp, const struct ffrio_buf *b);
long ffrio_post(struct file *filp, const struct ffrio_post *post);
long ffrio_reap(struct file *filp, struct ffrio_reap *r);
void ffrio_send_close(struct ffrio_file *file);

/* recv.c */
long ffrio_recv(struct file *filp, struct ffrio_recv *r);
long ffrio_take(struct file *filp, struct ffrio_take *t);
long ffrio_give_back(struct file *filp, const struct ffrio_buf *b);
void ffrio_recv_close(struct ffrio_file *file);
int ffrio_check_block(struct ffrio_port *port, u16 buffer, u32 number);

/* window.c */
long ffrio_window(struct file *filp, struct ffrio_window *w);
long ffrio_window_end(struct file *filp, const struct ffrio_buf *b);
void ffrio_windows_close(struct ffrio_file *file);
int ffrio_window_mmap(struct ffrio_file *file, struct vm_area_struct *vma);
long ffrio_transfer(struct file *filp, struct ffrio_transfer *t);

/* file.c */
extern const struct file_operations ffrio_fops;

/* Where the parts of a file are for mmap(). */
#define FFRIO_MMAP_SMB	   0ULL
#define FFRIO_MMAP_RMB	   (1ULL << 32)
#define FFRIO_MMAP_WINDOWS (1ULL << 33)

#endif

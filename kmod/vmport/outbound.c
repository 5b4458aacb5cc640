// SPDX-License-Identifier: GPL-2.0
/*
 * outbound.c - outbound windows: processor loads and stores that go to another port's memory. No
 * hardware is there to take a single load or store, so a window is memory of this module (pages of
 * the port's aperture) that is kept equal to the target's: a worker compares it, every tick while
 * there is a window, with what it was, sends changed bytes by NWRITE and takes over what changed at
 * the target. So a store arrives within a tick or two, and a load sees what the target had so long
 * ago; the memory of another client is never mapped, and errors, links and other kernels are as for
 * any transfer. A window holds the module, since a process may have it in its address space.
 *
 * Tests: vm/vmport.sh
 */
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "vmport_int.h"

int vmport_map_outbound(struct rio_mport *mport, u16 target, u64 start, u32 size, u32 flags,
			dma_addr_t *local)
{
	struct vmport_port *p = mport->priv;
	u32 pages = DIV_ROUND_UP((u64)size, PAGE_SIZE), first = 0, i;
	struct vmport_out_window *w = NULL;
	unsigned long irq;
	int ret = -EBUSY;

	if (!size || start & 7 || start + size - 1 < start)
		return -EINVAL;
	if (pages > vmport_aperture_pages)
		return -ENOMEM;
	spin_lock_irqsave(&p->out_lock, irq);
	for (i = 0; i < VMPORT_OUT_WINDOWS; i++) {
		struct vmport_out_window *o = &p->out_windows[i];

		if (!o->used)
			w = w ?: o;
		else if (o->target == target && o->start == start)
			goto out;
	}
	/* The first pages of the aperture that no window has. */
	for (i = 0; i < VMPORT_OUT_WINDOWS; i++) {
		struct vmport_out_window *o = &p->out_windows[i];

		if (o->used && o->first < first + pages && first < o->first + o->pages) {
			first = o->first + o->pages;
			i = -1;
		}
	}
	if (!w || first + pages > vmport_aperture_pages || !try_module_get(THIS_MODULE))
		goto out;
	memset(page_address(p->aperture) + first * PAGE_SIZE, 0, pages * PAGE_SIZE);
	memset(p->shadow + first * PAGE_SIZE, 0, pages * PAGE_SIZE);
	*w = (struct vmport_out_window){ .used = true,
					 .target = target,
					 .start = start,
					 .first = first,
					 .pages = pages,
					 .size = size,
					 .gen = ++p->out_gen };
	*local = page_to_phys(p->aperture) + first * PAGE_SIZE;
	schedule_delayed_work(&p->out_work, 0);
	ret = 0;
out:
	spin_unlock_irqrestore(&p->out_lock, irq);
	return ret;
}

void vmport_unmap_outbound(struct rio_mport *mport, u16 target, u64 start)
{
	struct vmport_port *p = mport->priv;
	unsigned long irq;
	u32 i;

	spin_lock_irqsave(&p->out_lock, irq);
	for (i = 0; i < VMPORT_OUT_WINDOWS; i++)
		if (p->out_windows[i].used && p->out_windows[i].target == target &&
		    p->out_windows[i].start == start) {
			p->out_windows[i].used = false;
			module_put(THIS_MODULE);
		}
	spin_unlock_irqrestore(&p->out_lock, irq);
}

static enum vmport_status transfer(struct vmport_port *p, u16 target, u64 address, void *data,
				   u32 length, bool write)
{
	struct vmport_packet packet = {
		.type = write ? VMPORT_NWRITE : VMPORT_NREAD,
		.target = target,
		.address = address,
		.data = data,
		.length = length,
	};

	vmport_count_packets(p, packet.type, address, length);
	return write ? vmport_request(p, &packet) : vmport_ask(p, &packet, false);
}

/* Sends the bytes of here that are not those of before, and notes them. */
static void send_changed(struct vmport_port *p, u16 target, u64 address, const u8 *here, u8 *before,
			 u32 length)
{
	u8 run[VMPORT_PACKET];
	u32 i = 0, n;

	while (i < length) {
		for (n = 0; n < sizeof(run) && i + n < length; n++) {
			u8 now = READ_ONCE(here[i + n]);

			if (now == before[i + n])
				break;
			run[n] = now;
		}
		if (n && transfer(p, target, address + i, run, n, true) == VMPORT_DONE)
			memcpy(before + i, run, n);
		i += n ?: 1;
	}
}

/* Takes over what the target has, in words whose owner here has not written since. */
static void take_changed(u64 *here, u64 *before, const u64 *there, u32 words)
{
	u32 i;

	for (i = 0; i < words; i++) {
		if (there[i] == before[i])
			continue;
		if (cmpxchg64(&here[i], before[i], there[i]) == before[i])
			before[i] = there[i];
	}
}

/* Whether the window is still what the worker took it for; its pages may be another's since. */
static bool unchanged(const struct vmport_out_window *now, const struct vmport_out_window *w)
{
	return now->used && now->gen == w->gen;
}

static void refresh(struct vmport_port *p, u32 index, const struct vmport_out_window *w, u8 *there)
{
	const struct vmport_out_window *now = &p->out_windows[index];
	u8 *here = page_address(p->aperture) + w->first * PAGE_SIZE;
	u8 *before = p->shadow + w->first * PAGE_SIZE;
	u32 offset, n;

	for (offset = 0; offset < w->size; offset += n) {
		n = min_t(u32, w->size - offset, VMPORT_FRAME_DATA);
		if (!unchanged(now, w))
			return;
		send_changed(p, w->target, w->start + offset, here + offset, before + offset, n);
		memcpy(there, before + offset, ALIGN(n, 8));
		if (transfer(p, w->target, w->start + offset, there, n, false) == VMPORT_DONE) {
			spin_lock_irq(&p->out_lock);
			if (unchanged(now, w))
				take_changed((u64 *)(here + offset), (u64 *)(before + offset),
					     (u64 *)there, DIV_ROUND_UP(n, 8));
			spin_unlock_irq(&p->out_lock);
		}
		cond_resched();
	}
}

static void out_work(struct work_struct *work)
{
	struct vmport_port *p = container_of(to_delayed_work(work), struct vmport_port, out_work);
	u8 *there = kmalloc(VMPORT_FRAME_DATA, GFP_KERNEL);
	struct vmport_out_window w;
	bool any = false;
	u32 i;

	for (i = 0; there && i < VMPORT_OUT_WINDOWS; i++) {
		spin_lock_irq(&p->out_lock);
		w = p->out_windows[i];
		spin_unlock_irq(&p->out_lock);
		if (w.used)
			refresh(p, i, &w, there);
		any |= w.used;
	}
	kfree(there);
	if (any || !there)
		schedule_delayed_work(&p->out_work, 1);
}

int vmport_outbound_init(struct vmport_port *p)
{
	size_t size = (size_t)vmport_aperture_pages * PAGE_SIZE;
	void *aperture = alloc_pages_exact(size, GFP_KERNEL | __GFP_ZERO);

	spin_lock_init(&p->out_lock);
	INIT_DELAYED_WORK(&p->out_work, out_work);
	p->shadow = vzalloc(size);
	if (!aperture || !p->shadow) {
		if (aperture)
			free_pages_exact(aperture, size);
		vfree(p->shadow);
		return -ENOMEM;
	}
	p->aperture = virt_to_page(aperture);
	return 0;
}

/* Windows that a client has still, as a process that has one mapped, stay; nothing comes and goes by them. */
void vmport_outbound_stop(struct vmport_port *p)
{
	cancel_delayed_work_sync(&p->out_work);
}

void vmport_outbound_exit(struct vmport_port *p)
{
	if (p->aperture)
		free_pages_exact(page_address(p->aperture),
				 (size_t)vmport_aperture_pages * PAGE_SIZE);
	vfree(p->shadow);
	p->aperture = NULL;
	p->shadow = NULL;
}

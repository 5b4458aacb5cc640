// SPDX-License-Identifier: GPL-2.0
/*
 * window.c - inbound windows: from RapidIO addresses of a port to its memory, and copies to and from
 * there. Memory is named by DMA addresses, as hardware has it; pages are found from those, so that
 * bounce buffers and offsets of an architecture's DMA are right. A copy holds window_lock, so that
 * when unmap_inb() returns nobody touches the memory any more. Process or softirq context; the map
 * calls come with interrupts off.
 *
 * Tests: vm/vmport.sh
 */
#include <linux/dma-direct.h>
#include <linux/highmem.h>
#include <linux/log2.h>
#include <linux/module.h>

#include "vmport_int.h"

/* One page's part of memory at a DMA address; NULL if it is not memory. kunmap_local() ends it. */
static void *map_page(struct device *dev, dma_addr_t local, u32 *length)
{
	phys_addr_t at = dma_to_phys(dev, local);

	if (!pfn_valid(PHYS_PFN(at)))
		return NULL;
	*length = min_t(u32, *length, PAGE_SIZE - offset_in_page(at));
	return kmap_local_page(pfn_to_page(PHYS_PFN(at))) + offset_in_page(at);
}

/* write: from data to the memory. */
int vmport_copy_dma(struct device *dev, dma_addr_t local, void *data, u32 length, bool write)
{
	while (length) {
		u32 n = length;
		void *at = map_page(dev, local, &n);

		if (!at)
			return -EFAULT;
		if (write)
			memcpy(at, data, n);
		else
			memcpy(data, at, n);
		kunmap_local(at);
		local += n;
		data += n;
		length -= n;
	}
	return 0;
}

/* Call with window_lock held. The window that has address, and how much of length is in it. */
static struct vmport_window *find(struct vmport_port *p, u64 address, u32 *length)
{
	struct vmport_window *w;

	for (w = p->windows; w < p->windows + VMPORT_WINDOWS; w++)
		if (w->used && address >= w->start && address - w->start < w->size) {
			*length = min_t(u64, *length, w->size - (address - w->start));
			return w;
		}
	return NULL;
}

/*
 * Between a port's memory by RapidIO address and data. -ENXIO: not all of it is in windows; what is
 * before that was copied, as packets of a longer transfer are.
 */
int vmport_memory(struct vmport_port *p, u64 address, void *data, u32 length, bool write)
{
	int ret = 0;

	read_lock_bh(&p->window_lock);
	while (length && !ret) {
		u32 n = length;
		struct vmport_window *w = find(p, address, &n);

		ret = w ? vmport_copy_dma(&p->pdev->dev, w->local + (address - w->start), data, n,
					  write) :
			  -ENXIO;
		address += n;
		data += n;
		length -= n;
	}
	read_unlock_bh(&p->window_lock);
	if (ret)
		vmport_stat(p, window_misses);
	return ret;
}

/* The same with memory of another port's client instead of data. write: from there to p's memory. */
int vmport_memory_dma(struct vmport_port *p, u64 address, struct device *dev, dma_addr_t local,
		      u32 length, bool write)
{
	int ret = 0;

	read_lock_bh(&p->window_lock);
	while (length && !ret) {
		u32 n = length;
		void *here = map_page(dev, local, &n);
		struct vmport_window *w;

		if (!here) {
			ret = -EFAULT;
			break;
		}
		w = find(p, address, &n);
		ret = w ? vmport_copy_dma(&p->pdev->dev, w->local + (address - w->start), here, n,
					  write) :
			  -ENXIO;
		kunmap_local(here);
		address += n;
		local += n;
		length -= n;
	}
	read_unlock_bh(&p->window_lock);
	if (ret == -ENXIO)
		vmport_stat(p, window_misses);
	return ret;
}

/*
 * As strict as the Tsi721: an address of one's own must be a power of two, aligned to it, and no
 * window may overlap another. A window holds the module: rio_mport_cdev's files would outlive it.
 */
int vmport_map_inbound(struct rio_mport *mport, dma_addr_t local, u64 start, u64 size, u32 flags)
{
	struct vmport_port *p = mport->priv;
	struct vmport_window *w, *unused = NULL;
	unsigned long irq;
	int ret = 0;

	if (!size || start + size - 1 < start)
		return -EINVAL;
	if (local != start &&
	    (!is_power_of_2(size) || size < 0x1000 || local & (size - 1) || start & (size - 1)))
		return -EINVAL;
	write_lock_irqsave(&p->window_lock, irq);
	for (w = p->windows; w < p->windows + VMPORT_WINDOWS; w++) {
		if (!w->used)
			unused = unused ?: w;
		else if (start <= w->start + (w->size - 1) && w->start <= start + (size - 1))
			ret = -EFAULT;
	}
	if (!ret && (!unused || !try_module_get(THIS_MODULE)))
		ret = -EBUSY;
	if (!ret)
		*unused = (struct vmport_window){
			.used = true, .start = start, .size = size, .local = local
		};
	write_unlock_irqrestore(&p->window_lock, irq);
	return ret;
}

void vmport_unmap_inbound(struct rio_mport *mport, dma_addr_t local)
{
	struct vmport_port *p = mport->priv;
	struct vmport_window *w;
	unsigned long irq;

	write_lock_irqsave(&p->window_lock, irq);
	for (w = p->windows; w < p->windows + VMPORT_WINDOWS; w++)
		if (w->used && w->local == local) {
			w->used = false;
			module_put(THIS_MODULE);
			break;
		}
	write_unlock_irqrestore(&p->window_lock, irq);
}

void vmport_windows_clear(struct vmport_port *p)
{
	struct vmport_window *w;
	unsigned long irq;

	write_lock_irqsave(&p->window_lock, irq);
	for (w = p->windows; w < p->windows + VMPORT_WINDOWS; w++)
		if (w->used) {
			w->used = false;
			module_put(THIS_MODULE);
		}
	write_unlock_irqrestore(&p->window_lock, irq);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * pin.c - a block whose data is in a program's pages: they are pinned, and one transfer takes the header from a
 * small buffer and the data from where it is. Called by send.c and block.c.
 *
 * A transfer's length is a multiple of 8. The data's last bytes, up to 7 of them, are copied behind the
 * header with zeros after them, so that nothing of the page goes that is not the message's.
 *
 * The pages stay the program's, which may change them or unmap them at any time: what is read of them
 * is data only, and the header, with all lengths, is in memory of our own.
 */
#include <linux/crc32c.h>
#include <linux/dma-mapping.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "ffrio_int.h"

#define REST 8 /* bytes behind the header */

/* The header, which DMA reads, is in no cache line with what the processor writes meanwhile. */
static struct ffrio_pin *pin_alloc(unsigned int pages)
{
	struct ffrio_pin *pin;

	pin = kzalloc(sizeof(*pin) + (pages + 2) * sizeof(*pin->list) + pages * sizeof(*pin->pages),
		      GFP_KERNEL);
	if (!pin)
		return NULL;
	pin->list = (struct scatterlist *)(pin + 1);
	pin->pages = (struct page **)(pin->list + pages + 2);
	pin->header = kzalloc(FFRIO_HEADER_SIZE + REST, GFP_KERNEL);
	if (pin->header)
		return pin;
	kfree(pin);
	return NULL;
}

/* Neighbours, as those of a huge page are, which the kernel has as one piece: they make one entry. */
static bool joins(struct page *before, struct page *page)
{
	return !PageHighMem(before) && !PageHighMem(page) &&
	       page_to_pfn(page) == page_to_pfn(before) + 1;
}

/* most: bytes of an entry. length: of the data in the pages, a multiple of 8; behind it the rest if there is one. */
static void fill_list(struct ffrio_pin *pin, size_t most, unsigned int offset, u32 length,
		      bool rest)
{
	struct scatterlist *sg = pin->list;
	unsigned int i;

	sg_init_table(sg, pin->pinned + 2);
	sg_set_buf(sg, pin->header, FFRIO_HEADER_SIZE);
	for (i = 0; i < pin->pinned; i++) {
		u32 n = min_t(u32, length, PAGE_SIZE - offset);

		if (i && joins(pin->pages[i - 1], pin->pages[i]) && sg->length + n <= most)
			sg->length += n;
		else
			sg_set_page(++sg, pin->pages[i], n, offset);
		length -= n;
		offset = 0;
	}
	if (rest)
		sg_set_buf(++sg, pin->header + FFRIO_HEADER_SIZE, REST);
	sg_mark_end(sg);
	pin->length = sg + 1 - pin->list;
}

/*
 * Pins and maps. May sleep. An error is no word on the memory: a device's can be read, but not pinned, and
 * less than 8 bytes are not worth it.
 */
struct ffrio_pin *ffrio_pin_new(struct ffrio_port *port, const void __user *from, u32 length)
{
	u32 whole = round_down(length, 8), offset = offset_in_page(from);
	unsigned int pages = DIV_ROUND_UP(offset + whole, PAGE_SIZE);
	size_t most =
		min_t(size_t, dma_get_max_seg_size(port->dev), dma_max_mapping_size(port->dev));
	struct ffrio_pin *pin;
	int n;

	if (!whole)
		return ERR_PTR(-EINVAL);
	pin = pin_alloc(pages);
	if (!pin)
		return ERR_PTR(-ENOMEM);
	n = pin_user_pages_fast((unsigned long)from, pages, 0, pin->pages);
	pin->pinned = max(n, 0);
	if (n != pages ||
	    copy_from_user(pin->header + FFRIO_HEADER_SIZE, from + whole, length - whole))
		goto err;
	fill_list(pin, most, offset, whole, whole < length);
	pin->mapped = dma_map_sg(port->dev, pin->list, pin->length, DMA_TO_DEVICE);
	if (pin->mapped) {
		/* An IOMMU may have joined entries, and the Tsi721's driver goes by the mark. */
		sg_mark_end(&pin->list[pin->mapped - 1]);
		return pin;
	}
err:
	ffrio_pin_free(port, pin);
	return ERR_PTR(-EFAULT);
}

/* No transfer reads it any more. Any context but hard interrupts. */
void ffrio_pin_free(struct ffrio_port *port, struct ffrio_pin *pin)
{
	if (pin->mapped) {
		if (pin->mapped < pin->length)
			sg_unmark_end(&pin->list[pin->mapped - 1]);
		dma_unmap_sg(port->dev, pin->list, pin->length, DMA_TO_DEVICE);
	}
	unpin_user_pages(pin->pages, pin->pinned);
	kfree(pin->header);
	kfree(pin);
}

/* Of the data with what rounding adds. */
u32 ffrio_pin_crc(struct ffrio_pin *pin, u32 crc)
{
	unsigned int i;

	for (i = 1; i < pin->length; i++) {
		struct scatterlist *sg = &pin->list[i];
		void *page;

		if (PageHighMem(sg_page(sg))) {
			page = kmap_local_page(sg_page(sg));
			crc = crc32c(crc, page + sg->offset, sg->length);
			kunmap_local(page);
		} else {
			crc = crc32c(crc, sg_virt(sg), sg->length);
		}
	}
	return crc;
}

/* The header was written: DMA may read it. */
void ffrio_pin_sync(struct ffrio_port *port, struct ffrio_pin *pin)
{
	dma_sync_single_for_device(port->dev, sg_dma_address(pin->list), FFRIO_HEADER_SIZE,
				   DMA_TO_DEVICE);
}

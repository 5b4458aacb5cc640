/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * view.h - clients' pages in the router's address space by ffmem.ko, where it is loaded. See view.c, and
 * docs/internals/ffmem.md.
 * Control thread, no lock, but for view_at() and what uses its address: [lock].
 */
#ifndef FFR_MEM_VIEW_H
#define FFR_MEM_VIEW_H

#include "ffr/obj/objects.h"
#include "kmod/ffmem.h"

/* Once: is the module there, and of this version? Without it nothing else here does anything. */
void view_init(void);
bool view_is_there(void);
/* Likewise with that /dev/ffmem, which it takes. 0 or -errno. */
int view_use(int fd);
void view_fini(void);

/*
 * The process behind a session: its pidfd, or -1, and the /proc/self/mem that it opened and handed over. Both stay the
 * caller's.
 */
void view_session_add(struct session *s, int pidfd, int mem);
/* After the session's MRs. */
void view_session_del(struct session *s);

/*
 * Sets mr->view, if it can be had, for the bytes that no run reaches. mr->o.ses, addr, length and access are set. An
 * MR that is as large as an address space (implicit on-demand paging) has none.
 */
void view_map(struct mr *mr);
/* Is memory with these IBV_ACCESS_* written to? A view is made anew for those that another one has not. */
static inline bool view_writes(uint32_t access)
{
	return access &
	       (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
}
void view_unmap(struct mr *mr);

/*
 * Pages of an MR that has a view, once more, as the kernel can take them for a NIC that pages on demand: what of the
 * MR is shared memory, as shadow memory is, and no other. Like the view it follows the process's page tables.
 */
struct view_pages {
	uint8_t *base; /* the page of the MR's first byte; NULL: there are none */
	uint64_t size;
	uint32_t object;
};
/* at: where the first page is to be, if nothing is there; NULL: anywhere. 0 or -errno */
int view_pages_map(const struct mr *mr, void *at, struct view_pages *pages);
/* What is to be seen there ends, and with it what holds the session's process; before view_session_del(). */
void view_pages_end(struct view_pages *pages);
/*
 * Any thread after view_pages_end(). After the NIC has given them up: what comes to lie at these addresses would be
 * its as well. in_use: it has not, and nothing may ever lie there. Afterwards *pages is empty.
 */
void view_pages_unmap(struct view_pages *pages, bool in_use);

/* What ffmem counted of both; zeros without a view. */
struct ffmem_stat view_stat(const struct mr *mr);

/*
 * Where va of the application, inside of the MR, is: NULL without a view. There may be nothing, at any time: it is
 * touched by fallible_copy() only.
 */
static inline uint8_t *view_at(const struct mr *mr, uint64_t va)
{
	return mr->view ? mr->view + (va - mr->addr) : NULL;
}

#endif

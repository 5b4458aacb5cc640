/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * table.c - from the handles that the router puts into events to the objects of this process.
 * Any thread; called by the files of the objects (cq.c, qp.c, srq.c) and of the events (async.c,
 * channel.c).
 *
 * The slot is the index part of the handle, so that a lookup is one compare with the handle kept
 * there: an event of a destroyed object whose slot was given away again has another generation
 * and is not found.
 */
#include <stdlib.h>
#include <string.h>

#include "ffl/session/ffl.h"

/* Enter a live object. 0 or -ENOMEM. */
FFL_EXPORT int ffl_table_put(struct ffl_context *ctx, enum ffl_kind kind, uint32_t handle,
			     void *obj)
{
	struct ffl_table *t = &ctx->table[kind];
	uint32_t i = FF_HANDLE_INDEX(handle), size = t->size;
	void *slot, *old;
	int ret = 0;

	pthread_mutex_lock(&ctx->table_lock);
	if (i >= t->size) {
		for (size = t->size ? t->size : 16; size <= i;)
			size *= 2;
		slot = calloc(size, sizeof(*t->slot));
		if (!slot) {
			ret = -ENOMEM;
			goto out;
		}
		old = t->slot;
		if (old)
			memcpy(slot, old, t->size * sizeof(*t->slot));
		/* in this order: a signal handler of this thread may fork (context.c) */
		t->slot = slot;
		atomic_signal_fence(memory_order_seq_cst);
		t->size = size;
		atomic_signal_fence(memory_order_seq_cst);
		free(old);
	}
	t->slot[i].handle = handle;
	t->slot[i].obj = obj;
out:
	pthread_mutex_unlock(&ctx->table_lock);
	return ret;
}

/* Once this returns no event is counted for the object any more. */
FFL_EXPORT void ffl_table_del(struct ffl_context *ctx, enum ffl_kind kind, uint32_t handle)
{
	struct ffl_table *t = &ctx->table[kind];
	uint32_t i = FF_HANDLE_INDEX(handle);

	pthread_mutex_lock(&ctx->table_lock);
	if (i < t->size && t->slot[i].handle == handle) {
		t->slot[i].handle = 0;
		t->slot[i].obj = NULL;
	}
	pthread_mutex_unlock(&ctx->table_lock);
}

FFL_EXPORT void *ffl_table_get(struct ffl_context *ctx, enum ffl_kind kind, uint32_t handle)
{
	struct ffl_table *t = &ctx->table[kind];
	uint32_t i = FF_HANDLE_INDEX(handle);

	return handle && i < t->size && t->slot[i].handle == handle ? t->slot[i].obj : NULL;
}

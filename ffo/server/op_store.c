/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * op_store.c - a copy of the store, which a client reads piece by piece. Called by request.c; the
 * orchestrator's loop only.
 *
 * An answer holds at most FFO_LINE_MAX bytes, and the store changes between two answers. So the
 * first request makes a copy in memory, and the others read it. There is one copy at most. A reader
 * that does not come back leaves its copy to the timer.
 */
#include "ffo/server/server.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define PIECE	  (3u << 16) /* bytes; in base64 half of FFO_LINE_MAX */
#define COPY_KEPT 10000u     /* ms from one piece to the next */

static void copy_drop(struct ffo *f)
{
	free(f->copy.data);
	f->copy.data = NULL;
	f->copy.size = 0;
	uv_timer_stop(&f->copy.timer);
}

static void expired(uv_timer_t *t)
{
	copy_drop(t->data);
}

/* Answer with the piece at that offset. The copy goes with its last one. */
static int give_piece(struct request *r, size_t offset)
{
	struct ffo *f = r->ffo;
	size_t n = f->copy.size - offset < PIECE ? f->copy.size - offset : PIECE;
	char *text = malloc(n / 3 * 4 + 5);
	int err;

	if (!text)
		return -ENOMEM;
	EVP_EncodeBlock((unsigned char *)text, f->copy.data + offset, (int)n);
	err = request_reply(r, "piece", json_string(text));
	free(text);
	if (!err)
		err = request_reply(r, "copy", json_integer(f->copy.number));
	if (!err)
		err = request_reply(r, "size", json_integer((json_int_t)f->copy.size));
	if (offset + n == f->copy.size)
		copy_drop(f);
	else
		uv_timer_start(&f->copy.timer, expired, COPY_KEPT, 0);
	return err;
}

static void copied(void *arg, int err, const char *why, const void *data, size_t size)
{
	struct request *r = arg;
	struct ffo *f = r->ffo;

	if (err) {
		request_end(r, request_failed(r, err, why));
		return;
	}
	copy_drop(f);
	f->copy.data = size <= UINT32_MAX ? malloc(size) : NULL;
	if (!f->copy.data) {
		request_end(r, -ENOMEM);
		return;
	}
	memcpy(f->copy.data, data, size);
	f->copy.size = size;
	f->copy.number++;
	request_end(r, give_piece(r, 0));
}

int op_store_backup(struct request *r)
{
	const struct ffo_req_store_backup *arg = &r->arg.store_backup;
	struct ffo *f = r->ffo;

	if (!arg->copy) {
		f->store->ops->backup(f->store, copied, r);
		return REQUEST_LATER;
	}
	if (!f->copy.data || arg->copy != f->copy.number)
		return request_fail(
			r, -ESTALE,
			"another copy of the store was made meanwhile, or nobody asked for this one for 10 s: try again");
	if (arg->offset >= f->copy.size)
		return request_fail(r, -EINVAL, "\"offset\" is behind the end of the copy");
	return give_piece(r, arg->offset);
}

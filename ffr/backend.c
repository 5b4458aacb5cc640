/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * backend.c - the list of backends. Names are those of ffr.conf's `backend`.
 */
#include "ffr/fast/backend.h"
#include "ffr/rio/rio.h"

#include <string.h>

const struct backend_ops *backend_find(const char *name)
{
	if (!strcmp(name, "soft"))
		return &soft_ops;
	if (!strcmp(name, "rio"))
		return rio_ops();
	return strcmp(name, "verbs") ? NULL : verbs_ops();
}

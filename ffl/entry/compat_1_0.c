/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * compat_1_0.c - the names of the 2006 ABI, IBVERBS_1.0, that today's ABI has under IBVERBS_1.1.
 * Any thread; neighbours: symver.h, libibverbs.map.
 *
 * The structs of that ABI were others. rdma-core still wraps each object for programs linked
 * before 2007; here such a program loads and finds no device, which is the one answer that is
 * both true of every call and safe, for no other call can be reached without a device. The calls
 * are refused all the same, should one arrive, and their arguments are not looked at.
 *
 * A reference without a version binds to IBVERBS_1.0 too, as with rdma-core's library.
 */
#include <stdlib.h>

#include "ffl/session/ffl.h"
#include "ffl/session/symver.h"

FFL_EXPORT void *compat_get_device_list(int *num)
{
	if (num)
		*num = 0;
	return calloc(1, sizeof(void *));
}

FFL_EXPORT void compat_free_device_list(void *list)
{
	free(list);
}

FFL_EXPORT int compat_unsupported(void)
{
	return EOPNOTSUPP;
}

FFL_EXPORT int compat_fails(void)
{
	errno = EOPNOTSUPP;
	return -1;
}

FFL_EXPORT void *compat_null(void)
{
	return ffl_err_ptr(EOPNOTSUPP);
}

FFL_EXPORT uint64_t compat_no_guid(void)
{
	return 0;
}

FFL_EXPORT void compat_nothing(void)
{
}

#define COMPAT(def, name) FFL_SYMVER(def, name, "@IBVERBS_1.0")

COMPAT(compat_get_device_list, ibv_get_device_list);
COMPAT(compat_free_device_list, ibv_free_device_list);
COMPAT(compat_null, ibv_get_device_name);
COMPAT(compat_no_guid, ibv_get_device_guid);
COMPAT(compat_null, ibv_open_device);
COMPAT(compat_fails, ibv_close_device);
COMPAT(compat_fails, ibv_get_async_event);
COMPAT(compat_nothing, ibv_ack_async_event);
COMPAT(compat_unsupported, ibv_query_device);
COMPAT(compat_unsupported, ibv_query_port);
COMPAT(compat_fails, ibv_query_gid);
COMPAT(compat_fails, ibv_query_pkey);
COMPAT(compat_null, ibv_alloc_pd);
COMPAT(compat_unsupported, ibv_dealloc_pd);
COMPAT(compat_null, ibv_reg_mr);
COMPAT(compat_unsupported, ibv_dereg_mr);
COMPAT(compat_null, ibv_create_cq);
COMPAT(compat_unsupported, ibv_resize_cq);
COMPAT(compat_unsupported, ibv_destroy_cq);
COMPAT(compat_fails, ibv_get_cq_event);
COMPAT(compat_nothing, ibv_ack_cq_events);
COMPAT(compat_null, ibv_create_srq);
COMPAT(compat_unsupported, ibv_modify_srq);
COMPAT(compat_unsupported, ibv_query_srq);
COMPAT(compat_unsupported, ibv_destroy_srq);
COMPAT(compat_null, ibv_create_qp);
COMPAT(compat_unsupported, ibv_query_qp);
COMPAT(compat_unsupported, ibv_modify_qp);
COMPAT(compat_unsupported, ibv_destroy_qp);
COMPAT(compat_null, ibv_create_ah);
COMPAT(compat_unsupported, ibv_destroy_ah);
COMPAT(compat_unsupported, ibv_attach_mcast);
COMPAT(compat_unsupported, ibv_detach_mcast);

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * exports_private.c - the names that rdma-core keeps for its own providers (IBVERBS_PRIVATE_NN).
 * Called by providers of an image only, on any thread; neighbours: symver.h, libibverbs.map.
 *
 * Programs are linked BIND_NOW, and some of them link providers directly (perftest: libmlx5 and
 * libefa), so each of these names must resolve in each node that ever had it. Providers never get
 * a device from this library: registering a driver does nothing, what would command the kernel is
 * refused without a look at its arguments, and what returns nothing does nothing. The names that
 * answer are ibv_query_gid_type (query.c) and ibv_wr_opcode_str (enum.c).
 *
 * One function serves all names of a return type; on x86-64 and arm64 a callee may ignore
 * arguments that it does not know of.
 *
 * Tests: conformance/calls.c
 */
#include "ffl/session/ffl.h"
#include "ffl/session/symver.h"

FFL_EXPORT int private_unsupported(void)
{
	return EOPNOTSUPP;
}

FFL_EXPORT int private_fails(void)
{
	errno = EOPNOTSUPP;
	return -1;
}

FFL_EXPORT void *private_null(void)
{
	return ffl_err_ptr(EOPNOTSUPP);
}

FFL_EXPORT void private_nothing(void)
{
}

/* The attributes that linked command buffers add: none are built here. */
FFL_EXPORT unsigned int private_num_attrs(unsigned int num_attrs)
{
	return num_attrs;
}

/* Providers read it; false: a destroy that fails because the device is gone is reported. */
FFL_EXPORT bool private_allow_disassociate_destroy;

FFL_PRIVATE_15(private_nothing, verbs_init_cq);
FFL_PRIVATE_17(private_nothing, verbs_set_ops);
FFL_PRIVATE_17(private_nothing, verbs_uninit_context);
FFL_PRIVATE_34(private_nothing, __verbs_log);
FFL_PRIVATE_64(private_nothing, ibv_dmabuf_heap_destroy);
FFL_PRIVATE_64(private_nothing, ibv_dmabuf_heap_free);

FFL_PRIVATE_17(private_null, _verbs_init_and_alloc_context);
FFL_PRIVATE_21(private_null, verbs_open_device);
FFL_PRIVATE_64(private_null, ibv_dmabuf_heap_alloc);
FFL_PRIVATE_64(private_null, ibv_dmabuf_heap_cc_shared_init);

FFL_PRIVATE_25(private_fails, ibv_read_ibdev_sysfs_file);
FFL_PRIVATE_59(private_fails, ibv_cmd_export_dmabuf_fd);
FFL_SYMVER(private_fails, ibv_get_fw_ver, "@@IBVERBS_PRIVATE_25");

FFL_PRIVATE_18(private_num_attrs, __ioctl_final_num_attrs);
FFL_PRIVATE_20(private_allow_disassociate_destroy, verbs_allow_disassociate_destroy);

FFL_PRIVATE_15(private_unsupported, ibv_cmd_alloc_mw);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_alloc_pd);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_attach_mcast);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_close_xrcd);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_create_ah);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_create_cq);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_create_cq_ex);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_create_flow);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_create_qp);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_create_qp_ex);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_create_qp_ex2);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_create_rwq_ind_table);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_create_srq);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_create_srq_ex);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_create_wq);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_dealloc_mw);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_dealloc_pd);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_dereg_mr);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_destroy_ah);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_destroy_cq);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_destroy_flow);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_destroy_qp);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_destroy_rwq_ind_table);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_destroy_srq);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_destroy_wq);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_detach_mcast);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_get_context);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_modify_qp);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_modify_qp_ex);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_modify_srq);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_modify_wq);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_open_qp);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_open_xrcd);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_poll_cq);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_post_recv);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_post_send);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_post_srq_recv);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_query_port);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_query_qp);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_query_srq);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_reg_mr);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_req_notify_cq);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_rereg_mr);
FFL_PRIVATE_15(private_unsupported, ibv_cmd_resize_cq);
FFL_PRIVATE_16(private_unsupported, ibv_cmd_modify_cq);
FFL_PRIVATE_18(private_unsupported, ibv_cmd_alloc_dm);
FFL_PRIVATE_18(private_unsupported, ibv_cmd_create_flow_action_esp);
FFL_PRIVATE_18(private_unsupported, ibv_cmd_destroy_flow_action);
FFL_PRIVATE_18(private_unsupported, ibv_cmd_free_dm);
FFL_PRIVATE_18(private_unsupported, ibv_cmd_modify_flow_action_esp);
FFL_PRIVATE_18(private_unsupported, ibv_cmd_reg_dm_mr);
FFL_PRIVATE_19(private_unsupported, ibv_cmd_create_counters);
FFL_PRIVATE_19(private_unsupported, ibv_cmd_destroy_counters);
FFL_PRIVATE_19(private_unsupported, ibv_cmd_read_counters);
FFL_PRIVATE_20(private_unsupported, execute_ioctl);
FFL_PRIVATE_22(private_unsupported, ibv_cmd_advise_mr);
FFL_PRIVATE_25(private_unsupported, ibv_cmd_query_context);
FFL_PRIVATE_25(private_unsupported, ibv_cmd_query_mr);
FFL_PRIVATE_33(private_unsupported, ibv_cmd_query_device_any);
FFL_PRIVATE_34(private_unsupported, ibv_cmd_create_cq_ex2);
FFL_PRIVATE_34(private_unsupported, ibv_cmd_reg_dmabuf_mr);
FFL_PRIVATE_59(private_unsupported, ibv_cmd_alloc_dmah);
FFL_PRIVATE_59(private_unsupported, ibv_cmd_free_dmah);
FFL_PRIVATE_59(private_unsupported, ibv_cmd_query_port_speed);
FFL_PRIVATE_59(private_unsupported, ibv_cmd_reg_mr_ex);
FFL_PRIVATE_65(private_unsupported, ibv_cmd_create_comp_cntr);
FFL_PRIVATE_65(private_unsupported, ibv_cmd_destroy_comp_cntr);
FFL_PRIVATE_65(private_unsupported, ibv_cmd_inc_comp_cntr);
FFL_PRIVATE_65(private_unsupported, ibv_cmd_inc_err_comp_cntr);
FFL_PRIVATE_65(private_unsupported, ibv_cmd_qp_attach_comp_cntr);
FFL_PRIVATE_65(private_unsupported, ibv_cmd_query_comp_cntr_caps);
FFL_PRIVATE_65(private_unsupported, ibv_cmd_read_comp_cntr);
FFL_PRIVATE_65(private_unsupported, ibv_cmd_read_err_comp_cntr);
FFL_PRIVATE_65(private_unsupported, ibv_cmd_set_comp_cntr);
FFL_PRIVATE_65(private_unsupported, ibv_cmd_set_err_comp_cntr);

/* Names that went away again, and the one that carries its node's number. */
#define REMOVED(name, nn) FFL_PRIVATE(private_unsupported, name, nn)
REMOVED(ibv_cmd_query_device_ex, 15);
REMOVED(ibv_cmd_query_device_ex, 16);
REMOVED(ibv_cmd_query_device_ex, 17);
REMOVED(ibv_cmd_query_device_ex, 18);
REMOVED(ibv_cmd_query_device_ex, 19);
REMOVED(ibv_cmd_query_device_ex, 20);
REMOVED(ibv_cmd_query_device_ex, 21);
REMOVED(ibv_cmd_query_device_ex, 22);
REMOVED(ibv_cmd_query_device_ex, 25);
REMOVED(ibv_cmd_query_device, 15);
REMOVED(ibv_cmd_query_device, 16);
REMOVED(ibv_cmd_query_device, 17);
REMOVED(ibv_cmd_query_device, 18);
REMOVED(ibv_cmd_query_device, 19);
REMOVED(ibv_cmd_query_device, 20);
REMOVED(ibv_cmd_query_device, 21);
REMOVED(ibv_cmd_query_device, 22);
REMOVED(ibv_cmd_query_device, 25);
REMOVED(ibv_cmd_query_device, 33);
REMOVED(ibv_cmd_query_device, 34);

FFL_PRIVATE(private_nothing, ibv_register_driver, 15);
FFL_PRIVATE(private_nothing, ibv_register_driver, 16);
FFL_PRIVATE(private_nothing, ibv_register_driver, 17);
FFL_PRIVATE(private_nothing, ibv_register_driver, 18);
FFL_PRIVATE(private_nothing, ibv_register_driver, 19);
FFL_PRIVATE(private_nothing, ibv_register_driver, 20);
FFL_SYMVER(private_nothing, ibv_register_driver, "@@IBVERBS_1.1");

#define REGISTER(nn)                                                                               \
	FFL_SYMVER(private_nothing, verbs_register_driver_##nn, "@@IBVERBS_PRIVATE_" #nn)
REGISTER(15);
REGISTER(16);
REGISTER(17);
REGISTER(18);
REGISTER(19);
REGISTER(20);
REGISTER(21);
REGISTER(22);
REGISTER(25);
REGISTER(33);
REGISTER(34);
REGISTER(57);
REGISTER(59);
REGISTER(64);
REGISTER(65);

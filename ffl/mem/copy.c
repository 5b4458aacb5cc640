/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * copy.c - between the kernel's forms of attributes (<rdma/ib_user_verbs.h>, ib_user_sa.h) and the
 * verbs'. An image's librdmacm calls these; nothing else does. Any thread.
 */
#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>

#include "ffl/session/ffl.h"

/* Exported by rdma-core for its own libraries, declared in no public header. */
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);

#define COPY(field) dst->field = src->field

FFL_EXPORT void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src)
{
	memcpy(dst->grh.dgid.raw, src->grh.dgid, sizeof(dst->grh.dgid.raw));
	COPY(grh.flow_label);
	COPY(grh.sgid_index);
	COPY(grh.hop_limit);
	COPY(grh.traffic_class);
	COPY(dlid);
	COPY(sl);
	COPY(src_path_bits);
	COPY(static_rate);
	COPY(is_global);
	COPY(port_num);
}

/* All but qp_state, which is the caller's. */
FFL_EXPORT void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src)
{
	COPY(cur_qp_state);
	COPY(path_mtu);
	COPY(path_mig_state);
	COPY(qkey);
	COPY(rq_psn);
	COPY(sq_psn);
	COPY(dest_qp_num);
	COPY(qp_access_flags);
	dst->cap.max_send_wr = src->max_send_wr;
	dst->cap.max_recv_wr = src->max_recv_wr;
	dst->cap.max_send_sge = src->max_send_sge;
	dst->cap.max_recv_sge = src->max_recv_sge;
	dst->cap.max_inline_data = src->max_inline_data;
	ibv_copy_ah_attr_from_kern(&dst->ah_attr, &src->ah_attr);
	ibv_copy_ah_attr_from_kern(&dst->alt_ah_attr, &src->alt_ah_attr);
	COPY(pkey_index);
	COPY(alt_pkey_index);
	COPY(en_sqd_async_notify);
	COPY(sq_draining);
	COPY(max_rd_atomic);
	COPY(max_dest_rd_atomic);
	COPY(min_rnr_timer);
	COPY(port_num);
	COPY(timeout);
	COPY(retry_cnt);
	COPY(rnr_retry);
	COPY(alt_port_num);
	COPY(alt_timeout);
}

/* The fields of a path record that have the same name and meaning in both forms. */
#define COPY_PATH_REC()                                                                            \
	do {                                                                                       \
		memcpy(&dst->dgid, &src->dgid, sizeof(dst->dgid));                                 \
		memcpy(&dst->sgid, &src->sgid, sizeof(dst->sgid));                                 \
		COPY(dlid);                                                                        \
		COPY(slid);                                                                        \
		COPY(raw_traffic);                                                                 \
		COPY(flow_label);                                                                  \
		COPY(hop_limit);                                                                   \
		COPY(traffic_class);                                                               \
		COPY(reversible);                                                                  \
		COPY(numb_path);                                                                   \
		COPY(pkey);                                                                        \
		COPY(sl);                                                                          \
		COPY(mtu_selector);                                                                \
		COPY(mtu);                                                                         \
		COPY(rate_selector);                                                               \
		COPY(rate);                                                                        \
		COPY(packet_life_time_selector);                                                   \
		COPY(packet_life_time);                                                            \
		COPY(preference);                                                                  \
	} while (0)

FFL_EXPORT void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst,
					    struct ib_user_path_rec *src)
{
	COPY_PATH_REC();
}

FFL_EXPORT void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src)
{
	COPY_PATH_REC();
}

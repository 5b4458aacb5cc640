/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * calls.c - what the names answer that no verbs program of today reaches: private nodes, the 2006
 * ABI, verbs that are not supported, sysfs. `calls LIBRARY`, run by calls.sh; without a router.
 *
 * The functions are found by name and version, as programs of other releases find them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *lib;
static int failures;

static void check(bool good, const char *name)
{
	printf("%s %s\n", good ? "ok" : "not ok", name);
	failures += !good;
}

static void *sym(const char *name, const char *version)
{
	void *p = version ? dlvsym(lib, name, version) : dlsym(lib, name);

	if (!p)
		printf("not ok %s@%s is there\n", name, version ? version : "");
	return p ? p : (void *)abort;
}

/* Arguments that would crash whoever looked at them. */
#define BAD ((void *)16)
typedef int int_fn(void *, void *, void *, void *);
typedef void *ptr_fn(void *, void *, void *, void *);

static const char *const nodes[] = { "15", "16", "17", "18", "19", "20", "21", "22",
				     "25", "33", "34", "57", "59", "64", "65" };

static void private_nodes(void)
{
	bool refused = true, registers = true;
	char node[32], name[64];
	unsigned int i;

	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		snprintf(node, sizeof(node), "IBVERBS_PRIVATE_%s", nodes[i]);
		snprintf(name, sizeof(name), "verbs_register_driver_%s", nodes[i]);
		refused &= ((int_fn *)sym("ibv_cmd_alloc_pd", node))(BAD, BAD, BAD, BAD) ==
			   EOPNOTSUPP;
		refused &= ((int_fn *)sym("ibv_cmd_create_qp_ex2", node))(BAD, BAD, BAD, BAD) ==
			   EOPNOTSUPP;
		((int_fn *)sym(name, node))(BAD, BAD, BAD, BAD);
		((int_fn *)sym("verbs_init_cq", node))(BAD, BAD, BAD, BAD);
		registers &= sym("ibv_query_gid_type", node) == sym("ibv_query_gid_type", NULL);
	}
	check(refused, "commands are refused in every private node");
	check(registers, "drivers register, ibv_query_gid_type is one function");
	errno = 0;
	check(!((ptr_fn *)sym("verbs_open_device", "IBVERBS_PRIVATE_34"))(BAD, BAD, BAD, BAD) &&
		      errno == EOPNOTSUPP,
	      "verbs_open_device");
	check(((int_fn *)sym("ibv_read_ibdev_sysfs_file", "IBVERBS_PRIVATE_34"))(BAD, BAD, BAD,
										 BAD) == -1,
	      "ibv_read_ibdev_sysfs_file");
	check(!*(bool *)sym("verbs_allow_disassociate_destroy", "IBVERBS_PRIVATE_34"),
	      "verbs_allow_disassociate_destroy");
	check(!strcmp(((const char *(*)(int))sym("ibv_wr_opcode_str", "IBVERBS_PRIVATE_34"))(
			      IBV_WR_RDMA_READ),
		      "rdma-read"),
	      "ibv_wr_opcode_str");
}

static void abi_1_0(void)
{
	void **(*get)(int *) = sym("ibv_get_device_list", "IBVERBS_1.0");
	void (*put)(void **) = sym("ibv_free_device_list", "IBVERBS_1.0");
	void **list;
	int n = 1;

	list = get(&n);
	check(list && !list[0] && !n, "IBVERBS_1.0: no device");
	put(list);
	errno = 0;
	check(!((ptr_fn *)sym("ibv_open_device", "IBVERBS_1.0"))(BAD, BAD, BAD, BAD) &&
		      errno == EOPNOTSUPP,
	      "IBVERBS_1.0: open");
	check(((int_fn *)sym("ibv_modify_qp", "IBVERBS_1.0"))(BAD, BAD, BAD, BAD) == EOPNOTSUPP,
	      "IBVERBS_1.0: modify_qp");
	check(sym("ibv_reg_mr", "IBVERBS_1.0") != sym("ibv_reg_mr", "IBVERBS_1.1") &&
		      sym("ibv_reg_mr", NULL) == sym("ibv_reg_mr", "IBVERBS_1.1"),
	      "IBVERBS_1.0 is not what dlsym finds");
}

static void unsupported(void)
{
	static const struct {
		const char *name, *version;
	} ints[] = {
		{ "ibv_query_ece", "IBVERBS_1.10" },
		{ "ibv_set_ece", "IBVERBS_1.10" },	     { "ibv_dealloc_dmah", "IBVERBS_1.15" },
		{ "ibv_destroy_comp_cntr", "IBVERBS_1.18" },
		{ "ibv_set_comp_cntr", "IBVERBS_1.18" },     { "ibv_set_err_comp_cntr", "IBVERBS_1.18" },
		{ "ibv_inc_comp_cntr", "IBVERBS_1.18" },     { "ibv_inc_err_comp_cntr", "IBVERBS_1.18" },
		{ "ibv_read_comp_cntr", "IBVERBS_1.18" },    { "ibv_read_err_comp_cntr", "IBVERBS_1.18" },
		{ "ibv_qp_attach_comp_cntr", "IBVERBS_1.18" },
	}, ptrs[] = {
		{ "ibv_import_dm", "IBVERBS_1.13" },
		{ "ibv_alloc_dmah", "IBVERBS_1.15" },
		{ "ibv_create_comp_cntr", "IBVERBS_1.18" },
	};
	unsigned int i;

	for (i = 0; i < sizeof(ints) / sizeof(ints[0]); i++)
		check(((int_fn *)sym(ints[i].name, ints[i].version))(BAD, BAD, BAD, BAD) ==
			      EOPNOTSUPP,
		      ints[i].name);
	for (i = 0; i < sizeof(ptrs) / sizeof(ptrs[0]); i++) {
		errno = 0;
		check(!((ptr_fn *)sym(ptrs[i].name, ptrs[i].version))(BAD, BAD, BAD, BAD) &&
			      errno == EOPNOTSUPP,
		      ptrs[i].name);
	}
	check(((int_fn *)sym("ibv_fork_init", "IBVERBS_1.1"))(0, 0, 0, 0) == 0, "ibv_fork_init");
	check(((int_fn *)sym("ibv_is_fork_initialized", "IBVERBS_1.13"))(0, 0, 0, 0) ==
		      IBV_FORK_UNNEEDED,
	      "ibv_is_fork_initialized");
}

static void sysfs(const char *dir)
{
	int (*rd)(const char *, const char *, char *, size_t) =
		sym("ibv_read_sysfs_file", "IBVERBS_1.0");
	char path[256], buf[8];
	FILE *f;

	setenv("SYSFS_PATH", "/some/where//", 1);
	check(!strcmp(((const char *(*)(void))sym("ibv_get_sysfs_path", "IBVERBS_1.0"))(),
		      "/some/where"),
	      "ibv_get_sysfs_path");
	snprintf(path, sizeof(path), "%s/attr", dir);
	f = fopen(path, "w");
	if (!f) {
		check(false, path);
		return;
	}
	fputs("0x1234\n", f);
	fclose(f);
	check(rd(dir, "attr", buf, sizeof(buf)) == 6 && !strcmp(buf, "0x1234"),
	      "ibv_read_sysfs_file");
	check(rd(dir, "attr", buf, 6) == -1, "ibv_read_sysfs_file: no room");
	errno = 0;
	check(rd(dir, "nothing", buf, sizeof(buf)) == -1 && errno == ENOENT,
	      "ibv_read_sysfs_file: no file");
}

static void kernel_forms(void)
{
	struct ib_uverbs_qp_attr kern;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	struct ib_user_path_rec a, b = { 0 };
	struct ibv_sa_path_rec rec;
	struct ibv_ah_attr ah;
	unsigned int i;

	for (i = 0; i < sizeof(kern); i++)
		((uint8_t *)&kern)[i] = i * 7;
	((void (*)(void *, void *))sym("ibv_copy_qp_attr_from_kern", "IBVERBS_1.0"))(&attr, &kern);
	check(attr.qkey == kern.qkey &&
		      attr.ah_attr.grh.flow_label == kern.ah_attr.grh.flow_label &&
		      attr.alt_ah_attr.port_num == kern.alt_ah_attr.port_num &&
		      attr.cap.max_inline_data == kern.max_inline_data &&
		      attr.alt_timeout == kern.alt_timeout && attr.qp_state == IBV_QPS_RTR,
	      "ibv_copy_qp_attr_from_kern");
	((void (*)(void *, void *))sym("ibv_copy_ah_attr_from_kern",
				       "IBVERBS_1.1"))(&ah, &kern.alt_ah_attr);
	check(ah.port_num == kern.alt_ah_attr.port_num && ah.dlid == kern.alt_ah_attr.dlid &&
		      ah.grh.hop_limit == kern.alt_ah_attr.grh.hop_limit,
	      "ibv_copy_ah_attr_from_kern");
	for (i = 0; i < sizeof(a); i++)
		((uint8_t *)&a)[i] = i * 5;
	a.mtu &= 0xff; /* eight bits of it are the verbs' */
	((void (*)(void *, void *))sym("ibv_copy_path_rec_from_kern", "IBVERBS_1.0"))(&rec, &a);
	((void (*)(void *, void *))sym("ibv_copy_path_rec_to_kern", "IBVERBS_1.0"))(&b, &rec);
	check(!memcmp(&a, &b, sizeof(a)), "ibv_copy_path_rec there and back");
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: calls LIBRARY SCRATCH-FOLDER\n");
		return 2;
	}
	lib = dlopen(argv[1], RTLD_NOW);
	if (!lib) {
		printf("not ok dlopen: %s\n", dlerror());
		return 1;
	}
	private_nodes();
	abi_1_0();
	unsupported();
	sysfs(argv[2]);
	kernel_forms();
	return failures != 0;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/device_rig.c tests/rig/fakes/fake_router.c ffl/verbs/ah.c ffl/verbs/async.c ffl/session/call.c ffl/session/slot.c ffl/session/context.c ffl/entry/context.c ffl/entry/device.c ffl/verbs/domain.c ffl/entry/enum.c ffl/entry/ops.c ffl/session/log.c ffl/verbs/pd.c ffl/verbs/query.c ffl/session/table.c ffl/entry/import.c ffl/verbs/xrc.c */
/*
 * test_import.c - contexts and PDs by a descriptor of another process.
 */
#include <fcntl.h>
#include <netinet/ip.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/rig/unit/device_rig.h"
#include "tests/rig/unit/unit.h"

/* What a context's descriptor is good for, and what is no such descriptor. */
static void test_import(void **state)
{
	static const char wrong[64] = "freeflow sessioN";
	struct ibv_context *imported;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	int fd = memfd_create("wrong", 0), mine = dup(device_ctx->cmd_fd);

	(void)state;
	assert_true(fd >= 0 && mine >= 0);
	errno = 0;
	assert_null(ibv_import_device(-1));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_import_device(fd)); /* empty */
	assert_int_equal(errno, EINVAL);
	assert_int_equal(write(fd, wrong, sizeof(wrong)), sizeof(wrong));
	assert_null(ibv_import_device(fd));
	assert_int_equal(errno, EINVAL);
	close(fd);
	/* nobody can change what it says */
	assert_int_equal(pwrite(mine, wrong, 1, 0), -1);
	assert_int_equal(ftruncate(mine, 0), -1);

	device_router.fault_type = FF_MSG_IMPORT_DEVICE;
	device_router.fault = FAULT_STATUS;
	assert_null(ibv_import_device(mine));
	assert_int_equal(errno, EMFILE);
	assert_true(fcntl(mine, F_GETFD) >= 0);
	device_router.fault = FAULT_NONE;
	imported = ibv_import_device(mine);
	assert_non_null(imported);
	assert_int_equal(imported->cmd_fd, mine);
	pd = ibv_import_pd(imported, 0x1234);
	assert_non_null(pd);
	assert_int_equal(pd->handle, 0x1234);
	mr = ibv_import_mr(pd, 0x5678);
	assert_non_null(mr);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY); /* for the MR in it */
	ibv_unimport_mr(mr);
	assert_int_equal(device_router.calls[FF_MSG_DEALLOC_PD], 0);
	ibv_unimport_pd(pd);
	assert_int_equal(device_router.calls[FF_MSG_DEALLOC_PD], 1);
	assert_int_equal(ibv_close_device(imported), 0);
	assert_int_equal(fcntl(mine, F_GETFD), -1);
}

int main(void)
{
	signal(SIGPIPE, SIG_DFL);
	return UNIT_RUN(DEVICE_TEST(test_import));
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/vt_mem.c -lpthread */
/*
 * copied.c - for copied.sh, in a container: registers memory that is copied, of some kinds, each for another reason and
 * of another size, and what is shared. Then a line "ready", until a line comes.
 */
#include "tests/rig/verbs/vt.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE   4096u
#define MB     ((size_t)1 << 20)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

int main(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	uint8_t *p;
	char line[8];

	vt_pair(&a, &b, &par);
	p = vt_map(16 * PAGE);
	memset(p, 1, 16 * PAGE);
	vt_reg(&a, p, 16 * PAGE, ACCESS); /* shared */
	p = vt_map(32 * PAGE);
	CHECK_OK(madvise(p, 32 * PAGE, MADV_DONTFORK));
	vt_reg(&a, p, 32 * PAGE, ACCESS);
	p = vt_map(8 * PAGE);
	CHECK_OK(mprotect(p, 8 * PAGE, PROT_READ));
	vt_reg(&a, p, 8 * PAGE, 0);
	p = vt_map(4 * MB);
	memset(p, 1, 4 * MB);
	vt_reg(&a, p, 4 * MB, ACCESS);
	printf("ready\n");
	fflush(stdout);
	return !fgets(line, sizeof(line), stdin);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * syscall.c - syscall() in place of libc's, so that mem/filter.c hears of seccomp(2). All other calls are made as libc
 * makes them. Any thread, at any time.
 *
 * It is assembly, as libc's is, because a child that a call makes may have another stack. The symbol has the version of
 * libc's, because the dynamic linker compares versions by name. It is not the default one, so that no program that is
 * linked with this library says that it wants this one.
 *
 * Tests: test_syscall.c
 */
#include <stdint.h>

#include "ffl/mem/region.h"
#include "ffl/session/symver.h"

/* clang-format off */
#ifdef __x86_64__
#define LIBC_BASE "GLIBC_2.2.5"
__asm__(".text\n"
	".globl ffl_syscall\n"
	".type ffl_syscall, @function\n"
	"ffl_syscall:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	cmpq	$317, %rdi\n" /* SYS_seccomp */
	"	je	ffl_filter_seccomp\n"
	"	movq	%rdi, %rax\n"
	"	movq	%rsi, %rdi\n"
	"	movq	%rdx, %rsi\n"
	"	movq	%rcx, %rdx\n"
	"	movq	%r8, %r10\n"
	"	movq	%r9, %r8\n"
	"	movq	8(%rsp), %r9\n"
	"	syscall\n"
	"	cmpq	$-4095, %rax\n"
	"	jae	1f\n"
	"	ret\n"
	"1:	movq	%rax, %rdi\n"
	"	jmp	ffl_filter_failed\n"
	"	.cfi_endproc\n"
	".size ffl_syscall, . - ffl_syscall\n");
#else
#define LIBC_BASE "GLIBC_2.17"
__asm__(".text\n"
	".globl ffl_syscall\n"
	".type ffl_syscall, %function\n"
	"ffl_syscall:\n"
	"	.cfi_startproc\n"
	"	hint	#34\n" /* bti c */
	"	cmp	x0, #277\n" /* SYS_seccomp */
	"	b.eq	1f\n"
	"	mov	x8, x0\n"
	"	mov	x0, x1\n"
	"	mov	x1, x2\n"
	"	mov	x2, x3\n"
	"	mov	x3, x4\n"
	"	mov	x4, x5\n"
	"	mov	x5, x6\n"
	"	svc	#0\n"
	"	cmn	x0, #4095\n"
	"	b.cs	2f\n"
	"	ret\n"
	"1:	b	ffl_filter_seccomp\n"
	"2:	b	ffl_filter_failed\n"
	"	.cfi_endproc\n"
	".size ffl_syscall, . - ffl_syscall\n");
#endif
/* clang-format on */

/* musl knows no versions, and does not see what is not the default one. */
#ifdef __GLIBC__
FFL_SYMVER(ffl_syscall, syscall, "@" LIBC_BASE);
#else
FFL_SYMVER(ffl_syscall, syscall, "@@FREEFLOW_1.0");
#endif

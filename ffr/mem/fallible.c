/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fallible.c - a copy whose instructions a signal handler knows: a fault at one of them is answered by going on
 * behind the last one, with the number of bytes that are left in the register of the result. So a copy that does
 * not fail costs nothing more, which a sigsetjmp() before each would.
 */
#include "ffr/mem/fallible.h"

/* In the text below: the first instruction that may fault, and the first one behind the last. */
extern const char fallible_begin[], fallible_end[];

#if defined(__x86_64__)
/* AVX2, with stores where the destination is aligned: half the instructions, and none of them crosses a cache line. */
__attribute__((visibility("hidden"))) bool fallible_wide;

__attribute__((constructor)) static void find_wide(void)
{
	fallible_wide = __builtin_cpu_supports("avx2");
}

__asm__(".text\n"
	".balign 16\n"
	".globl fallible_bytes\n"
	".hidden fallible_bytes\n"
	".type fallible_bytes, @function\n"
	"fallible_bytes:\n" /* %rdi, %rsi, %rdx */
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	mov	%rdx, %rax\n"
	"	cmp	$256, %rax\n"
	"	jb	11f\n"
	"	cmpb	$0, fallible_wide(%rip)\n"
	"	je	11f\n"
	"	mov	%rdi, %rcx\n"
	"	neg	%rcx\n"
	"	and	$31, %rcx\n"
	".hidden fallible_begin\n"
	".globl fallible_begin\n"
	"fallible_begin:\n"
	"7:	cmp	$8, %rcx\n"
	"	jb	8f\n"
	"	mov	(%rsi), %rdx\n"
	"	mov	%rdx, (%rdi)\n"
	"	add	$8, %rsi\n"
	"	add	$8, %rdi\n"
	"	sub	$8, %rax\n"
	"	sub	$8, %rcx\n"
	"	jmp	7b\n"
	"8:	test	%rcx, %rcx\n"
	"	jz	10f\n"
	"9:	mov	(%rsi), %dl\n"
	"	mov	%dl, (%rdi)\n"
	"	inc	%rsi\n"
	"	inc	%rdi\n"
	"	dec	%rax\n"
	"	dec	%rcx\n"
	"	jnz	9b\n"
	".balign 16\n"
	"10:	vmovdqu	(%rsi), %ymm0\n"
	"	vmovdqu	32(%rsi), %ymm1\n"
	"	vmovdqu	64(%rsi), %ymm2\n"
	"	vmovdqu	96(%rsi), %ymm3\n"
	"	vmovdqa	%ymm0, (%rdi)\n"
	"	vmovdqa	%ymm1, 32(%rdi)\n"
	"	vmovdqa	%ymm2, 64(%rdi)\n"
	"	vmovdqa	%ymm3, 96(%rdi)\n"
	"	sub	$-128, %rsi\n"
	"	sub	$-128, %rdi\n"
	"	add	$-128, %rax\n"
	"	cmp	$128, %rax\n"
	"	jae	10b\n"
	"	vzeroupper\n"
	"11:	cmp	$64, %rax\n"
	"	jb	2f\n"
	".balign 16\n"
	"1:	movdqu	(%rsi), %xmm0\n"
	"	movdqu	16(%rsi), %xmm1\n"
	"	movdqu	32(%rsi), %xmm2\n"
	"	movdqu	48(%rsi), %xmm3\n"
	"	movdqu	%xmm0, (%rdi)\n"
	"	movdqu	%xmm1, 16(%rdi)\n"
	"	movdqu	%xmm2, 32(%rdi)\n"
	"	movdqu	%xmm3, 48(%rdi)\n"
	"	add	$64, %rsi\n"
	"	add	$64, %rdi\n"
	"	sub	$64, %rax\n"
	"	cmp	$64, %rax\n"
	"	jae	1b\n"
	"2:	cmp	$8, %rax\n"
	"	jb	4f\n"
	"3:	mov	(%rsi), %rdx\n"
	"	mov	%rdx, (%rdi)\n"
	"	add	$8, %rsi\n"
	"	add	$8, %rdi\n"
	"	sub	$8, %rax\n"
	"	cmp	$8, %rax\n"
	"	jae	3b\n"
	"4:	test	%rax, %rax\n"
	"	jz	6f\n"
	"5:	mov	(%rsi), %dl\n"
	"	mov	%dl, (%rdi)\n"
	"	inc	%rsi\n"
	"	inc	%rdi\n"
	"	dec	%rax\n"
	"	jnz	5b\n"
	".hidden fallible_end\n"
	".globl fallible_end\n"
	"fallible_end:\n"
	"6:	ret\n"
	"	.cfi_endproc\n"
	".size fallible_bytes, . - fallible_bytes\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".balign 16\n"
	".globl fallible_bytes\n"
	".hidden fallible_bytes\n"
	".type fallible_bytes, @function\n"
	"fallible_bytes:\n" /* x0, x1, x2; x0 is what is left */
	"	.cfi_startproc\n"
	"	bti	c\n"
	"	mov	x3, x0\n"
	"	mov	x0, x2\n"
	".hidden fallible_begin\n"
	".globl fallible_begin\n"
	"fallible_begin:\n"
	"	cmp	x0, #32\n"
	"	b.lo	2f\n"
	"1:	ldp	x4, x5, [x1]\n"
	"	ldp	x6, x7, [x1, #16]\n"
	"	stp	x4, x5, [x3]\n"
	"	stp	x6, x7, [x3, #16]\n"
	"	add	x1, x1, #32\n"
	"	add	x3, x3, #32\n"
	"	sub	x0, x0, #32\n"
	"	cmp	x0, #32\n"
	"	b.hs	1b\n"
	"2:	cmp	x0, #8\n"
	"	b.lo	4f\n"
	"3:	ldr	x4, [x1], #8\n"
	"	str	x4, [x3], #8\n"
	"	sub	x0, x0, #8\n"
	"	b	2b\n"
	"4:	cbz	x0, 6f\n"
	"5:	ldrb	w4, [x1], #1\n"
	"	strb	w4, [x3], #1\n"
	"	sub	x0, x0, #1\n"
	"	cbnz	x0, 5b\n"
	".hidden fallible_end\n"
	".globl fallible_end\n"
	"fallible_end:\n"
	"6:	ret\n"
	"	.cfi_endproc\n"
	".size fallible_bytes, . - fallible_bytes\n");
#else
#error "a copy for this architecture"
#endif

bool fallible_fault(void *ucontext)
{
	uintptr_t *pc = fault_pc(ucontext);

	if (*pc < (uintptr_t)fallible_begin || *pc >= (uintptr_t)fallible_end)
		return false;
	*pc = (uintptr_t)fallible_end;
	return true;
}

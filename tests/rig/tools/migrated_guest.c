/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * migrated_guest.c - a guest for QEMU that knows what its memory must hold, whichever host it is on.
 * Freestanding 32-bit code that QEMU's -kernel loads by the multiboot header below; it talks on the first
 * serial port only.
 *
 *	gcc -m32 -ffreestanding -nostdlib -static -fno-pic -no-pie -fno-stack-protector -mgeneral-regs-only \
 *		-fno-asynchronous-unwind-tables -fcf-protection=none -Wl,-Ttext=0x100000 -Wl,--build-id=none \
 *		-O2 -o guest migrated_guest.c
 *
 * Memory from STILL to END is written once: each word holds a number made of its address. The words from
 * BUSY to STILL all hold one number, which goes up by one after each MB of the other has been looked at, so
 * a page that was copied while it changed, and not copied again, shows. A pass over all of it prints a
 * line, "pass N good" or "pass N bad at ADDRESS".
 */

#include <stdint.h>

#define MB    (1024 * 1024u)
#define BUSY  (2 * MB)
#define STILL (3 * MB)
#define END   (1016 * MB) /* the last pages of 1 GB are the firmware's */

#define MULTIBOOT_MAGIC 0x1badb002u
#define COM1		0x3f8

__attribute__((section(".text.header"), used, aligned(4))) static const uint32_t multiboot[] = {
	MULTIBOOT_MAGIC, 0, -MULTIBOOT_MAGIC
};

static uint8_t stack[4096] __attribute__((aligned(16), used));

__asm__(".globl _start\n"
	"_start:\n"
	"	mov $stack + 4096, %esp\n"
	"	call guest\n");

static void out(uint16_t port, uint8_t byte)
{
	__asm__ volatile("outb %0, %1" : : "a"(byte), "Nd"(port));
}

static uint8_t in(uint16_t port)
{
	uint8_t byte;

	__asm__ volatile("inb %1, %0" : "=a"(byte) : "Nd"(port));
	return byte;
}

static void print(const char *text)
{
	for (; *text; text++) {
		while (!(in(COM1 + 5) & 0x20))
			;
		out(COM1, *text);
	}
}

static void print_number(uint32_t n, uint32_t base)
{
	char text[12], *p = text + sizeof(text) - 1;

	*p = 0;
	do
		*--p = "0123456789abcdef"[n % base];
	while (n /= base);
	print(p);
}

static uint32_t number_of(uint32_t address)
{
	return address * 2654435761u + 1;
}

/* The first address of that MB that does not hold what it must; 0 if all do. */
static uint32_t still_wrong(uint32_t mb)
{
	for (uint32_t at = mb; at < mb + MB; at += 4)
		if (*(volatile uint32_t *)at != number_of(at))
			return at;
	return 0;
}

/* The same for the words that change, which go up by one. */
static uint32_t busy_wrong(uint32_t round)
{
	for (uint32_t at = BUSY; at < STILL; at += 4) {
		if (*(volatile uint32_t *)at != round)
			return at;
		*(volatile uint32_t *)at = round + 1;
	}
	return 0;
}

__attribute__((used, noreturn)) static void guest(void)
{
	uint32_t round = 1, wrong = 0;

	for (uint32_t at = BUSY; at < STILL; at += 4)
		*(volatile uint32_t *)at = round;
	for (uint32_t at = STILL; at < END; at += 4)
		*(volatile uint32_t *)at = number_of(at);
	print("filled\n");

	for (uint32_t pass = 1; !wrong; pass++) {
		for (uint32_t mb = STILL; mb < END && !wrong; mb += MB) {
			wrong = still_wrong(mb);
			if (!wrong)
				wrong = busy_wrong(round++);
		}
		print("pass ");
		print_number(pass, 10);
		print(wrong ? " bad at " : " good");
		if (wrong)
			print_number(wrong, 16);
		print("\n");
	}
	for (;;)
		__asm__ volatile("hlt");
}

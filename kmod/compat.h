/* SPDX-License-Identifier: GPL-2.0 */
/*
 * compat.h - what the kernel calls otherwise, or has otherwise, since 6.1. Whoever needs one of these includes it: the
 * modules' other files don't ask for the kernel's version.
 */
#ifndef KMOD_COMPAT_H
#define KMOD_COMPAT_H

#include <linux/mm.h>
#include <linux/platform_device.h>
#include <linux/timer.h>
#include <linux/version.h>

/* A class_interface's functions have the interface as an argument no more. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
#define KMOD_CLASS_DEV(dev) struct device *dev
#else
#define KMOD_CLASS_DEV(dev) struct device *dev, struct class_interface *interface
#endif

/* vm_flags are changed by functions, which take the lock that they need. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_clear(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags &= ~flags;
}
#endif

/* Their former names went with 6.15. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define timer_delete(timer)	 del_timer(timer)
#define timer_delete_sync(timer) del_timer_sync(timer)
#endif

/* A platform driver's remove() returns nothing: kmod_platform_remove() is f() as this kernel has it. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
#define KMOD_PLATFORM_REMOVE(f)                                                                    \
	static void kmod_platform_remove(struct platform_device *pdev)                             \
	{                                                                                          \
		f(pdev);                                                                           \
	}
#else
#define KMOD_PLATFORM_REMOVE(f)                                                                    \
	static int kmod_platform_remove(struct platform_device *pdev)                              \
	{                                                                                          \
		f(pdev);                                                                           \
		return 0;                                                                          \
	}
#endif

#endif

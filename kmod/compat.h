/* SPDX-License-Identifier: GPL-2.0 */
/*
 * compat.h - what the kernel calls otherwise, or has otherwise, since 6.1. Whoever needs one of these includes it: the
 * modules' other files don't ask for the kernel's version.
 */
#ifndef KMOD_COMPAT_H
#define KMOD_COMPAT_H

#include <linux/capability.h>
#include <linux/mm.h>
#include <linux/platform_device.h>
#include <linux/sched.h>
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

/* CAP_SYS_PTRACE over the task, whose address space mm is; by 7.3 its user namespace is the task's, and not mm's. */
#ifdef __has_include /* sparse has none */
#if __has_include(<linux/sched/exec_state.h>)
#define KMOD_EXEC_STATE
#endif
#endif
#ifdef KMOD_EXEC_STATE
#include <linux/sched/exec_state.h>
static inline bool kmod_may_ptrace(struct task_struct *task, struct mm_struct *mm)
{
	const struct task_exec_state *state;
	struct user_namespace *ns = NULL;
	bool may;

	rcu_read_lock();
	state = rcu_dereference(task->exec_state);
	if (state)
		ns = get_user_ns(state->user_ns);
	rcu_read_unlock();
	may = ns && ns_capable(ns, CAP_SYS_PTRACE);
	if (ns)
		put_user_ns(ns);
	return may;
}
#else
static inline bool kmod_may_ptrace(struct task_struct *task, struct mm_struct *mm)
{
	return ns_capable(mm->user_ns, CAP_SYS_PTRACE);
}
#endif

#endif

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Switching: boot parameter abis=, /sys/kernel/mm/abis/.
 *
 * Tracking must be complete before the first elision, and a static key reaches
 * one site after another. So: tracking on everywhere; whoever still holds a PTE
 * lock with the old code lets go; a new epoch voids what was stamped meanwhile;
 * then eliding on. And the reverse to switch off.
 *
 * full, full-hw (insert.c, insert_machine.c): inserting on last, off first. From then on
 * no SPTE becomes private, but those that are stay so, and are believed until eliding
 * is off: so CPUs look at what they owe (owed.c) from before eliding is on until
 * it is off, whoever decided by it has let its lock go, and everything is flushed
 * everywhere. Modes are reached by way of off, so what is true of one does not
 * depend on the last.
 */

#define pr_fmt(fmt) "abis: " fmt

#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include <asm/cpu_device_id.h>
#include <asm/cpufeature.h>
#include <asm/intel-family.h>

#include "abis.h"

enum abis_mode { MODE_OFF, MODE_IDLE, MODE_FULL, MODE_FULL_HW, MODES };

static const char * const mode_names[MODES] = {
	[MODE_OFF]	= "off",
	[MODE_IDLE]	= "idle",
	[MODE_FULL]	= "full",
	[MODE_FULL_HW]	= "full-hw",
};

static DEFINE_MUTEX(mode_lock);
static enum abis_mode mode;
static enum abis_mode boot_mode __initdata;

static bool inserts(enum abis_mode wanted)
{
	return wanted == MODE_FULL || wanted == MODE_FULL_HW;
}

/* Return: why this machine cannot do without the flushes, or NULL. */
static const char *refusal(void)
{
#ifdef CONFIG_PARAVIRT
	if (pv_ops.mmu.flush_tlb_multi != native_flush_tlb_multi)
		return "the hypervisor flushes on its own terms (paravirtualised TLB flushes)";
#endif
	if (boot_cpu_has(X86_FEATURE_PTI))
		return "page-table isolation keeps a second set of translations (see nopti)";
	/* They set the accessed bits of entries that are not present: _PAGE_KNL_ERRATUM_MASK. */
	if (boot_cpu_data.x86_vfm == INTEL_XEON_PHI_KNL ||
	    boot_cpu_data.x86_vfm == INTEL_XEON_PHI_KNM)
		return "this processor sets accessed bits that it should not";
	return NULL;
}

static void switch_off(void)
{
	abis_inserting_end();
	static_branch_disable(&abis_eliding_key);
	/* A decision under way finds its tables kept, and pays or leaves its debts. */
	synchronize_rcu();
	static_branch_disable(&abis_tracking_key);
	abis_owing_end();
}

static void switch_on(enum abis_mode wanted)
{
	static_branch_enable(&abis_tracking_key);
	/*
	 * For good. Before the first grace period: zap stamps only if this is on. Gathers
	 * count themselves by it, and flush_tlb_page() knows huge pages.
	 */
	static_branch_enable(&abis_used_key);
	/* PTE locks are held with preemption off or in an RCU read section. */
	synchronize_rcu();
	WRITE_ONCE(abis_epoch, abis_epoch + 1);
	/* Whoever has the old epoch in a register stamps into a void table. */
	synchronize_rcu();
	if (inserts(wanted)) {
		abis_insert_choose(wanted == MODE_FULL_HW);
		abis_owing_begin();
	}
	static_branch_enable(&abis_eliding_key);
	if (inserts(wanted))
		abis_inserting_begin();
}

static int set_mode(enum abis_mode wanted)
{
	const char *why = wanted == MODE_OFF ? NULL : refusal();
	int err = 0;

	mutex_lock(&mode_lock);
	if (wanted == mode)
		goto out;
	if (inserts(wanted) && !why)
		why = abis_insert_prepare(wanted == MODE_FULL_HW);
	if (why) {
		pr_warn("stays %s, not %s: %s\n", mode_names[mode], mode_names[wanted], why);
		err = -EOPNOTSUPP;
		goto out;
	}
	if (mode != MODE_OFF)
		switch_off();
	if (wanted != MODE_OFF)
		switch_on(wanted);
	WRITE_ONCE(mode, wanted);
	pr_info("%s\n", mode_names[mode]);
out:
	mutex_unlock(&mode_lock);
	return err;
}

static ssize_t mode_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", mode_names[READ_ONCE(mode)]);
}

static ssize_t mode_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	int wanted = sysfs_match_string(mode_names, buf);

	if (wanted >= 0)
		wanted = set_mode(wanted);
	return wanted < 0 ? wanted : count;
}

static ssize_t round_every_show(struct kobject *kobj, struct kobj_attribute *attr,
				char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(abis_round_every));
}

static ssize_t round_every_store(struct kobject *kobj, struct kobj_attribute *attr,
				 const char *buf, size_t count)
{
	u32 every;
	int err = kstrtou32(buf, 0, &every);

	if (err)
		return err;
	WRITE_ONCE(abis_round_every, every);
	return count;
}

#ifdef CONFIG_ABIS_FULL

static bool boot_adaptive __initdata = true;

static void set_adaptive(bool wanted)
{
	WRITE_ONCE(abis_points_floor, wanted ? 0 : INT_MIN);
}

static ssize_t adaptive_show(struct kobject *kobj, struct kobj_attribute *attr,
			     char *buf)
{
	return sysfs_emit(buf, "%d\n", abis_is_adaptive());
}

static ssize_t adaptive_store(struct kobject *kobj, struct kobj_attribute *attr,
			      const char *buf, size_t count)
{
	bool wanted;
	int err = kstrtobool(buf, &wanted);

	if (err)
		return err;
	set_adaptive(wanted);
	return count;
}

static struct kobj_attribute adaptive_attr = __ATTR_RW(adaptive);

static int __init abis_adaptive_setup(char *arg)
{
	int err = arg ? kstrtobool(arg, &boot_adaptive) : -EINVAL;

	if (err)
		pr_err("abis_adaptive=%s is neither 0 nor 1; stays 1\n", arg ?: "");
	return err;
}
early_param("abis_adaptive", abis_adaptive_setup);

#endif /* CONFIG_ABIS_FULL */

static struct kobj_attribute mode_attr = __ATTR_RW(mode);
static struct kobj_attribute round_every_attr = __ATTR_RW(round_every);

static struct attribute *abis_attrs[] = {
#ifdef CONFIG_ABIS_FULL
	&adaptive_attr.attr,
#endif
	&mode_attr.attr,
	&round_every_attr.attr,
	NULL,
};

static const struct attribute_group abis_group = {
	.name = "abis",
	.attrs = abis_attrs,
};

static int __init abis_setup(char *arg)
{
	int wanted = arg ? match_string(mode_names, MODES, arg) : -EINVAL;

	if (wanted < 0) {
		pr_err("abis=%s is none of: off, idle, full, full-hw; stays off\n", arg ?: "");
		return wanted;
	}
	boot_mode = wanted;
	return 0;
}
early_param("abis", abis_setup);

static int __init abis_init(void)
{
	int err = abis_cache_init();

	if (!err)
		err = sysfs_create_group(mm_kobj, &abis_group);
	if (!err)
		err = abis_stat_init();
	if (err) {
		pr_err("stays off: %pe\n", ERR_PTR(err));
		return err;
	}
#ifdef CONFIG_ABIS_FULL
	set_adaptive(boot_adaptive);
#endif
	if (boot_mode != MODE_OFF)
		set_mode(boot_mode);
	return 0;
}
late_initcall(abis_init);

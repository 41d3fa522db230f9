// SPDX-License-Identifier: GPL-2.0-only
/*
 * Boot parameter numapte=, /sys/kernel/mm/numapte/, /sys/kernel/debug/numapte/.
 *
 * A process has the mode that was on when its address space began, at fork() or exec(). What
 * has trees keeps them until it ends, so the keys stay on once they were: after the first
 * process that got trees, all others pay a look at each page table that they change.
 */

#define pr_fmt(fmt) "numapte: " fmt

#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include <asm/cpufeature.h>
#include <asm/hypervisor.h>

#include "numapte.h"

static_assert(NUMAPTE_PRESENT == _PAGE_PRESENT && NUMAPTE_RW == _PAGE_RW);
static_assert(NUMAPTE_ACCESSED == _PAGE_ACCESSED && NUMAPTE_DIRTY == _PAGE_DIRTY);
/* PR_SET_NUMAPTE is inherited. */
static_assert(MMF_INIT_MASK & (1UL << MMF_NUMAPTE_REFUSED));
static_assert(NUMAPTE_PSE == _PAGE_PSE && NUMAPTE_SAVED_DIRTY == _PAGE_SAVED_DIRTY);

#define SLICE_SHIFT	40

DEFINE_PER_CPU(struct numapte_stat, numapte_stat);
DEFINE_STATIC_KEY_FALSE(numapte_offered_key);
DEFINE_STATIC_KEY_FALSE(numapte_key);
EXPORT_SYMBOL(numapte_key);

atomic_long_t numapte_pages[NUMAPTE_LEVELS][NUMAPTE_NODES];
enum numapte_mode numapte_mode;
u64 numapte_forced;
unsigned int numapte_order = 9;

static const char * const mode_names[] = { "off", "on", "eager" };
static const char * const level_names[NUMAPTE_LEVELS] = { "pte", "pmd", "pud", "p4d", "root" };
static const char * const site_names[NUMAPTE_SITES] = {
	"zap", "advise", "protect", "clear", "move", "batch", "tables",
};
static DEFINE_MUTEX(mode_lock);
static enum numapte_mode boot_mode __initdata;
static bool boot_key __initdata;

/* Whoever else flushes by mm->pgd, or has a second root beside it. */
static const char *refusal(void)
{
	if (boot_cpu_has(X86_FEATURE_PTI))
		return "page-table isolation is on (pti=off)";
	if (hypervisor_is_type(X86_HYPER_MS_HYPERV))
		return "Hyper-V flushes by the root of the page tables";
	if (nr_node_ids > NUMAPTE_NODES)
		return "there are more than 64 nodes";
	return NULL;
}

static int set_mode(enum numapte_mode wanted)
{
	const char *why = wanted == MODE_OFF ? NULL : refusal();

	if (why) {
		pr_warn("stays off: %s\n", why);
		return -EOPNOTSUPP;
	}
	mutex_lock(&mode_lock);
	if (wanted != numapte_mode) {
		if (wanted != MODE_OFF)
			static_branch_enable(&numapte_offered_key);
		WRITE_ONCE(numapte_mode, wanted);
		pr_info("%s\n", mode_names[wanted]);
	}
	mutex_unlock(&mode_lock);
	return 0;
}

static ssize_t mode_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", mode_names[READ_ONCE(numapte_mode)]);
}

static ssize_t mode_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	int wanted = sysfs_match_string(mode_names, buf);

	return wanted < 0 ? wanted : set_mode(wanted) ?: count;
}

static ssize_t order_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(numapte_order));
}

static ssize_t order_store(struct kobject *kobj, struct kobj_attribute *attr,
			   const char *buf, size_t count)
{
	unsigned int order;
	int err = kstrtouint(buf, 10, &order);

	if (err)
		return err;
	if (order > 9)
		return -EINVAL;
	WRITE_ONCE(numapte_order, order);
	return count;
}

/* Whose mappings share no page tables. */
enum { SHARE, NODES_APART, MAPPINGS_APART };
static unsigned int segregate;

static ssize_t segregate_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(segregate));
}

static int segregate_set(const char *text)
{
	unsigned int wanted;
	int err = kstrtouint(text, 0, &wanted);

	if (err || wanted > MAPPINGS_APART)
		return -EINVAL;
	WRITE_ONCE(segregate, wanted);
	return 0;
}

static ssize_t segregate_store(struct kobject *kobj, struct kobj_attribute *attr,
			       const char *buf, size_t count)
{
	return segregate_set(buf) ?: count;
}

static int __init numapte_segregate_setup(char *arg)
{
	return segregate_set(arg ?: "");
}
early_param("numapte_segregate", numapte_segregate_setup);

/*
 * Nodes that map in slices of their own, 1 TiB each, share no page tables, but for what one maps
 * and another uses. Whoever finds a slice full goes on below it, in another node's. A mapping
 * that begins where a page table does has its tables for itself, and takes them along when it
 * goes: who used what was mapped there before does not count.
 */
void __numapte_unmapped_area(struct vm_unmapped_area_info *info)
{
	unsigned long below = (unsigned long)numa_node_id() << SLICE_SHIFT;
	unsigned int how = READ_ONCE(segregate);

	if (how == SHARE || !current->mm->context.numapte.eligible)
		return;
	if (below < info->high_limit / 2)
		info->high_limit -= below;
	if (how == MAPPINGS_APART) {
		info->align_mask = PAGE_MASK & (PMD_SIZE - 1);
		info->align_offset = 0;
	}
}

static ssize_t filter_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(numapte_filter));
}

static ssize_t filter_store(struct kobject *kobj, struct kobj_attribute *attr,
			    const char *buf, size_t count)
{
	return kstrtobool(buf, &numapte_filter) ?: count;
}

static int __init numapte_filter_setup(char *arg)
{
	return kstrtobool(arg ?: "", &numapte_filter);
}
early_param("numapte_filter", numapte_filter_setup);

static struct kobj_attribute mode_attr = __ATTR_RW(mode);
static struct kobj_attribute order_attr = __ATTR_RW(order);
static struct kobj_attribute segregate_attr = __ATTR_RW(segregate);
static struct kobj_attribute filter_attr = __ATTR_RW(filter);
static struct attribute *numapte_attrs[] = {
	&mode_attr.attr, &order_attr.attr, &segregate_attr.attr, &filter_attr.attr, NULL
};
static const struct attribute_group numapte_group = { .name = "numapte", .attrs = numapte_attrs };

static int __init numapte_setup(char *arg)
{
	int wanted = match_string(mode_names, ARRAY_SIZE(mode_names), arg ?: "");

	if (wanted < 0) {
		pr_err("numapte=%s is none of: off, on, eager; stays off\n", arg ?: "");
		return wanted;
	}
	boot_mode = wanted;
	return 0;
}
early_param("numapte", numapte_setup);

static int __init numapte_forced_setup(char *arg)
{
	return kstrtou64(arg ?: "", 0, &numapte_forced);
}
early_param("numapte_forced", numapte_forced_setup);

/* For measurements: the keys are on from the start, as after the first process with trees. */
static int __init numapte_key_setup(char *arg)
{
	return kstrtobool(arg ?: "", &boot_key);
}
early_param("numapte_key", numapte_key_setup);

static int counters_show(struct seq_file *file, void *unused)
{
	struct numapte_stat sum = { };
	int cpu, level, node, site;

	for_each_possible_cpu(cpu) {
		const u64 *from = (const u64 *)per_cpu_ptr(&numapte_stat, cpu);
		u64 *to = (u64 *)&sum;
		unsigned int i;

		for (i = 0; i < sizeof(sum) / sizeof(u64); i++)
			to[i] += READ_ONCE(from[i]);
	}
	seq_printf(file, "begun %llu\n", sum.begun);
	seq_printf(file, "refused %llu\n", sum.refused);
	seq_printf(file, "linked %llu\n", sum.linked);
	seq_printf(file, "replicated %llu\n", sum.replicated);
	seq_printf(file, "copy_faults %llu\n", sum.copy_faults);
	seq_printf(file, "copied %llu\n", sum.copied);
	seq_printf(file, "propagated %llu\n", sum.propagated);
	seq_printf(file, "fallbacks %llu\n", sum.fallbacks);
	seq_printf(file, "dropped %llu\n", sum.dropped);
	seq_printf(file, "reclaimed %llu\n", sum.reclaimed);
	for (level = 0; level < NUMAPTE_LEVELS; level++) {
		long pages = 0;

		for (node = 0; node < nr_node_ids; node++)
			pages += atomic_long_read(&numapte_pages[level][node]);
		seq_printf(file, "pages_%s %ld\n", level_names[level], pages);
	}
	for_each_online_node(node) {
		long pages = 0;

		for (level = 0; level < NUMAPTE_LEVELS; level++)
			pages += atomic_long_read(&numapte_pages[level][node]);
		seq_printf(file, "pages_node%d %ld\n", node, pages);
	}
	seq_printf(file, "flushed_all %llu\n", sum.flushed_all);
	seq_printf(file, "flushed_some %llu\n", sum.flushed_some);
	if (IS_ENABLED(CONFIG_NUMAPTE_DEBUG)) {
		seq_printf(file, "audits %llu\n", sum.audits);
		seq_printf(file, "audit_failures %llu\n", sum.audit_failures);
		seq_printf(file, "root_audits %llu\n", sum.root_audits);
		seq_printf(file, "root_failures %llu\n", sum.root_failures);
		for (site = 0; site < NUMAPTE_SITES; site++)
			seq_printf(file, "let_off_%s %llu\n", site_names[site], sum.let_off[site]);
		seq_printf(file, "let_off_failures %llu\n", sum.let_off_failures);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counters);

static int __init numapte_init(void)
{
	struct dentry *dir;

	/* No counter has a place for more, and no mode but off is to be had. */
	if (nr_node_ids <= NUMAPTE_NODES) {
		dir = debugfs_create_dir("numapte", NULL);
		debugfs_create_file("counters", 0444, dir, NULL, &counters_fops);
		debugfs_create_x64("forced", 0644, dir, &numapte_forced);
		numapte_debug_init(dir);
		numapte_reclaim_init();
	}
	if (boot_key && !refusal()) {
		static_branch_enable(&numapte_offered_key);
		static_branch_enable(&numapte_key);
	}
	set_mode(boot_mode);
	return sysfs_create_group(mm_kobj, &numapte_group);
}
late_initcall(numapte_init);

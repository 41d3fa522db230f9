// SPDX-License-Identifier: GPL-2.0-only
/* Is there an entry of an id that is free? And breaks things on purpose. */

#define pr_fmt(fmt) "lazyctx: " fmt

#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#define LAZYCTX_MUTANT_NAMES
#include "lazyctx.h"

#define USER_SEGMENTS	(TASK_SIZE >> 28)
#define SR_VSID		0xffffff
#define SEGMENTS	16
#define SEGMENT_PAGES	65536

enum lazyctx_mutant lazyctx_mutant;

static bool is_asking;		/* the machine; else the hash table alone is looked at */
static u32 id_space = LAZYCTX_IDS;
static struct {
	u64 ids, ids_wrong;		/* taken; with an entry */
	u64 spaces, spaces_wrong;	/* renewed; the new id has an entry, or segment registers another */
	u64 gone, gone_wrong;		/* address spaces that ended; whose id has an entry */
	u64 pages, pages_wrong;		/* flushed alone; with an entry */
	u64 marks, marks_wrong;		/* ranges flushed by a new id, or in a run; with HASHPTE left */
	u64 young, young_wrong;		/* access bits cleared; by a new id */
	u64 failed;			/* address spaces gone that owed a new id */
} checks;

static u32 vsids[SEGMENTS];

static u32 count_in_table(u32 nvsids)
{
	u32 *entry = lazyctx_table(), count = 0, i, j;

	for (i = 0; i < lazyctx_groups() * 8; i++, entry += 2) {
		for (j = 0; j < nvsids && *entry & LAZYCTX_VALID; j++)
			count += (*entry >> LAZYCTX_VSID_SHIFT & SR_VSID) == vsids[j];
	}
	return count;
}

static u32 count_entries(u32 id)
{
	unsigned int i;

	for (i = 0; i < SEGMENTS; i++)
		vsids[i] = lazyctx_vsid(id, i);
	return is_asking ? oracle_count(vsids, SEGMENTS, 0, SEGMENT_PAGES) : count_in_table(SEGMENTS);
}

/* @id was free, and is about to be an address space's. */
void lazyctx_check_id(u32 id)
{
	u32 count = count_entries(id);

	checks.ids++;
	if (count) {
		checks.ids_wrong++;
		pr_warn_ratelimited("id %u is used again and has %u entries\n", id, count);
	}
}

/* @mm has just got a new id, or all of its entries were taken out. */
void lazyctx_check_space(struct mm_struct *mm)
{
	u32 count = count_entries(mm->context.id), others = 0, i;

	for (i = 0; i < USER_SEGMENTS && mm == current->active_mm; i++) {
		if ((mfsr(i << 28) & SR_VSID) != lazyctx_vsid(mm->context.id, i))
			others++;
	}
	checks.spaces++;
	if (count || others)
		checks.spaces_wrong++;
	if (count)
		pr_warn_ratelimited("new id is not empty: %lu has %u entries\n", mm->context.id, count);
	if (others)
		pr_warn_ratelimited("new id %lu: %u segment registers are another's\n", mm->context.id, others);
}

/* All of @mm was unmapped and flushed, and nobody can use it any more. */
void lazyctx_check_gone(struct mm_struct *mm)
{
	u32 count = count_entries(mm->context.id);

	checks.gone++;
	if (count) {
		checks.gone_wrong++;
		pr_warn_ratelimited("an address space is gone, and its id %lu has %u entries\n",
				    mm->context.id, count);
	}
}

/* @page of @mm was flushed. */
void lazyctx_check_page(struct mm_struct *mm, u32 page)
{
	u32 count;

	if (!is_asking)
		return;
	vsids[0] = lazyctx_vsid(mm->context.id, page / SEGMENT_PAGES);
	count = oracle_count(vsids, 1, page % SEGMENT_PAGES, 1);
	checks.pages++;
	if (count) {
		checks.pages_wrong++;
		pr_warn_ratelimited("page %x was flushed and has %u entries\n", page, count);
	}
}

void lazyctx_check_marked(bool is_marked)
{
	checks.marks++;
	if (is_marked) {
		checks.marks_wrong++;
		pr_warn_ratelimited("what was flushed by a new id has HASHPTE\n");
	}
}

void lazyctx_check_failed(void)
{
	checks.failed++;
}

void lazyctx_check_young(struct mm_struct *mm, unsigned long id)
{
	checks.young++;
	if (mm->context.id != id) {
		checks.young_wrong++;
		pr_warn_ratelimited("clearing an access bit gave a new id\n");
	}
}

void lazyctx_debug_show(struct seq_file *seq)
{
	seq_printf(seq, "checked_ids %llu\nwrong_ids %llu\n", checks.ids, checks.ids_wrong);
	seq_printf(seq, "checked_spaces %llu\nwrong_spaces %llu\n", checks.spaces, checks.spaces_wrong);
	seq_printf(seq, "checked_gone %llu\nwrong_gone %llu\n", checks.gone, checks.gone_wrong);
	seq_printf(seq, "checked_pages %llu\nwrong_pages %llu\n", checks.pages, checks.pages_wrong);
	seq_printf(seq, "checked_marks %llu\nwrong_marks %llu\n", checks.marks, checks.marks_wrong);
	seq_printf(seq, "checked_young %llu\nwrong_young %llu\n", checks.young, checks.young_wrong);
	seq_printf(seq, "gone_owing %llu\noracle %u\n", checks.failed, is_asking);
}

static int mutant_show(struct seq_file *seq, void *unused)
{
	seq_printf(seq, "%s\n", lazyctx_mutant_names[lazyctx_mutant]);
	return 0;
}

static void break_on_purpose(enum lazyctx_mutant wanted)
{
	lazyctx_mutant = wanted;
	if (wanted)
		pr_warn("broken on purpose: %s\n", lazyctx_mutant_names[wanted]);
}

static ssize_t mutant_write(struct file *file, const char __user *from, size_t size, loff_t *offset)
{
	char text[32] = "";
	int wanted;

	if (size >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, size))
		return -EFAULT;
	wanted = sysfs_match_string(lazyctx_mutant_names, text);
	if (wanted < 0)
		return wanted;
	break_on_purpose(wanted);
	return size;
}

static int mutant_open(struct inode *inode, struct file *file)
{
	return single_open(file, mutant_show, NULL);
}

static const struct file_operations mutant_fops = {
	.open		= mutant_open,
	.read		= seq_read,
	.write		= mutant_write,
	.llseek		= seq_lseek,
	.release	= single_release,
};

static int id_space_get(void *data, u64 *value)
{
	*value = id_space;
	return 0;
}

/* Ids below this one alone are taken: so that they run out. */
static int id_space_set(void *data, u64 value)
{
	if (value < 2 || value > LAZYCTX_IDS)
		return -EINVAL;
	id_space = value;
	lazyctx_set_id_space(value);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(id_space_fops, id_space_get, id_space_set, "%llu\n");

static int __init mutant_setup(char *arg)
{
	int wanted = match_string(lazyctx_mutant_names, LAZYCTX_MUTANTS, arg ?: "");

	if (wanted < 0) {
		pr_err("there is no mutant '%s'\n", arg ?: "");
		return wanted;
	}
	break_on_purpose(wanted);
	return 0;
}
early_param("lazyctx_mutant", mutant_setup);

static int __init id_space_setup(char *arg)
{
	return kstrtouint(arg ?: "", 0, &id_space);
}
early_param("lazyctx_ids", id_space_setup);

void __init lazyctx_debug_init(struct dentry *dir)
{
	if (id_space_set(NULL, id_space)) {
		pr_err("%u ids are too few or too many: all are used\n", id_space);
		id_space = LAZYCTX_IDS;
	}
	is_asking = oracle_is_there();
	debugfs_create_file("mutant", 0600, dir, NULL, &mutant_fops);
	debugfs_create_file_unsafe("id_space", 0600, dir, NULL, &id_space_fops);
}

// SPDX-License-Identifier: GPL-2.0-only
/* What all CPUs hold before and after a broadcast. */
#include "crowd.h"

struct crowd crowd;

void crowd_begin(void)
{
	crowd.root = space();
	crowd.count = 0;
}

static struct page *find(uint64_t address)
{
	for (unsigned int i = 0; i < crowd.count; i++)
		if (crowd.slots[i].page.address == address)
			return &crowd.slots[i].page;
	return NULL;
}

static void add(struct page page, uint64_t pcid)
{
	CHECK(crowd.count < SLOTS, "too many slots");
	crowd.slots[crowd.count].page = page;
	crowd.slots[crowd.count].pcid = pcid;
	crowd.count++;
}

uint64_t crowd_add(uint64_t address, uint64_t flags, uint64_t pcid)
{
	const struct page *same = find(address);

	add(same ? *same : page_make(crowd.root, address, PAGE_FLAGS | flags), pcid);
	return address;
}

uint64_t crowd_add_large(uint64_t address, uint64_t flags, uint64_t pcid)
{
	struct page page = { .address = address, .pte = entry(crowd.root, address, 2),
			     .flags = P | PS | PAGE_FLAGS | flags, .old = frame_alloc_2m(OLD),
			     .new = frame_alloc_2m(NEW) };

	page_restore(&page);
	add(page, pcid);
	return address;
}

static void read_under(uint64_t pcid, bool keep)
{
	unsigned int id = this_cpu()->id;

	if (!has_pcid())
		cr3_write(crowd.root);
	else if (keep)
		load_keep(crowd.root, pcid);
	else
		load_flush(crowd.root, pcid);
	for (unsigned int i = 0; i < crowd.count; i++)
		if (crowd.slots[i].pcid == pcid)
			crowd.slots[i].saw[id] = load(crowd.slots[i].page.address);
}

void crowd_fill_job(void *argument)
{
	(void)argument;
	/* Nothing of before is left: no global page, and nothing pending. */
	cpu_settle();
	pcid_switch(true);
	read_under(PCID_TOO, false);
	read_under(PCID_MINE, false);
	for (unsigned int i = 0; i < crowd.count; i++)
		CHECK(crowd.slots[i].saw[this_cpu()->id] == OLD, "slot %u was not filled", i);
}

void crowd_look_job(void *argument)
{
	(void)argument;
	read_under(PCID_MINE, true);
	read_under(PCID_TOO, true);
	load_keep(crowd.root, PCID_MINE);
}

void crowd_repoint(void)
{
	for (unsigned int i = 0; i < crowd.count; i++)
		page_repoint(&crowd.slots[i].page);
}

void crowd_fill(void)
{
	on_all(crowd_fill_job, NULL);
	crowd_repoint();
}

void crowd_compare(unsigned int id, const char *expected, int line)
{
	for (unsigned int i = 0; i < crowd.count; i++) {
		uint64_t saw = crowd.slots[i].saw[id];

		if (expected[i] == '-')
			continue;
		CHECK(saw == (expected[i] == 'n' ? NEW : OLD), "line %d: CPU %u reads %s in slot %u", line, id,
		      saw == OLD ? "the old frame" : saw == NEW ? "the new frame" : "something else", i);
	}
}

void crowd_expect(const char *expected, int line)
{
	on_all(crowd_look_job, NULL);
	for (unsigned int id = 0; id < cpu_count; id++)
		crowd_compare(id, expected, line);
}

void crowd_usual(void)
{
	crowd_begin();
	crowd_add(CROWD_PAGE, 0, PCID_MINE);
	crowd_add(CROWD_PAGE + PAGE_BYTES, 0, PCID_MINE);
	crowd_add(CROWD_PAGE, 0, PCID_TOO);
	crowd_add(CROWD_PAGE + PAGE_BYTES, 0, PCID_TOO);
	crowd_add(CROWD_GLOBAL, G, PCID_MINE);
	crowd_fill();
}

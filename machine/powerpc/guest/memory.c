// SPDX-License-Identifier: GPL-2.0-only
/* The hash table, the segments and the BATs. */
#include "guest.h"

static uint32_t base = 0x1000, table_bytes, frame_next;

static inline void synchronize(void)
{
	asm volatile("sync; isync" : : : "memory");
}

void vsid_base(uint32_t value)
{
	base = value;
}

uint32_t vsid(unsigned int segment)
{
	return (base + segment * 0x111) & 0xffffff;
}

uint32_t segment_read(unsigned int segment)
{
	uint32_t value;

	asm volatile("mfsrin %0, %1" : "=r"(value) : "r"(segment << 28));
	return value;
}

void segment_write(unsigned int segment, uint32_t value)
{
	asm volatile("isync; mtsrin %0, %1; isync" : : "r"(value), "r"(segment << 28) : "memory");
}

/* IBAT0 or DBAT0, the lower half first; the upper one is written only if it changes. */
void bat_write(bool is_data, uint32_t upper, uint32_t lower)
{
	if (is_data)
		asm volatile("mtspr 537, %1; mtspr 536, %0; isync" : : "r"(upper), "r"(lower) : "memory");
	else
		asm volatile("mtspr 529, %1; mtspr 528, %0; isync" : : "r"(upper), "r"(lower) : "memory");
}

void bats_clear(void)
{
	asm volatile("mtspr 528, %0; mtspr 530, %0; mtspr 532, %0; mtspr 534, %0;"
		     "mtspr 536, %0; mtspr 538, %0; mtspr 540, %0; mtspr 542, %0; isync" : : "r"(0) : "memory");
}

void tlbie(uint32_t address)
{
	asm volatile("sync; tlbie %0; sync; isync" : : "r"(address) : "memory");
}

void tlbs_empty(void)
{
	for (uint32_t set = 0; set < 64; set++)
		tlbie(set * PAGE_BYTES);
}

void sdr1_write(uint32_t value)
{
	synchronize();
	asm volatile("mtspr 25, %0" : : "r"(value) : "memory");
	synchronize();
}

void hash_table_size(uint32_t bytes)
{
	table_bytes = bytes;
	for (uint32_t *word = (uint32_t *)HASH_TABLE; word < (uint32_t *)(HASH_TABLE + bytes); word++)
		*word = 0;
	sdr1_write(HASH_TABLE | (bytes - 1) >> 16);
}

void memory_reset(void)
{
	hash_table_size(0x10000);
	bats_clear();
	frame_next = FRAMES;
	for (unsigned int segment = 0; segment < 16; segment++)
		segment_write(segment, vsid(segment) | SR_KP);
	tlbs_empty();
}

uint32_t frame_alloc(uint32_t canary)
{
	uint32_t frame = frame_next;
	uint32_t *words = (uint32_t *)frame;

	if (frame >= FRAMES_END)
		give_up("no frame is left");
	frame_next += PAGE_BYTES;
	for (uint32_t i = 0; i < PAGE_BYTES / 4; i++)
		words[i] = canary;
	/* lis r3, canary@h; ori r3, r3, canary@l; sc */
	words[CODE_OFFSET / 4] = 0x3c600000 | canary >> 16;
	words[CODE_OFFSET / 4 + 1] = 0x60630000 | (canary & 0xffff);
	words[CODE_OFFSET / 4 + 2] = 0x44000002;
	asm volatile("dcbst 0, %0; sync; icbi 0, %0; sync; isync" : : "r"(frame + CODE_OFFSET) : "memory");
	return frame;
}

struct pte *group_of(uint32_t vsid, uint32_t page, bool is_secondary)
{
	uint32_t hash = (vsid & 0x7ffff) ^ page;

	if (is_secondary)
		hash = ~hash;
	return (struct pte *)(HASH_TABLE + (hash & (table_bytes / 64 - 1)) * 64);
}

struct pte *pte_at(struct pte *place, uint32_t vsid, uint32_t page, bool is_secondary, uint32_t second)
{
	place->v = 0;
	place->r = second;
	asm volatile("eieio" : : : "memory");
	place->v = PTE_V | vsid << 7 | (is_secondary ? PTE_H : 0) | page >> 10;
	synchronize();
	return place;
}

struct pte *pte_make(uint32_t vsid, uint32_t page, uint32_t second)
{
	for (unsigned int hash = 0; hash < 2; hash++) {
		struct pte *group = group_of(vsid, page, hash);

		for (unsigned int i = 0; i < 8; i++)
			if (!(group[i].v & PTE_V))
				return pte_at(&group[i], vsid, page, hash, second);
	}
	give_up("both groups of page %x are full", page);
}

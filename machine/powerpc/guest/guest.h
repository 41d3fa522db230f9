/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A guest without an operating system that tries the TLBs of a 604, rule by rule. It runs in real mode; code and data
 * behind the TLBs are reached by a journey: an rfi there, and the next exception back. console.c speaks, journey.c
 * travels, memory.c has the hash table, oracle.c asks, options.c reads the words that the machine was given; rules/
 * holds the rules, fuzz.c a model of its own to compare with, main.c chooses.
 */
#ifndef GUEST_H
#define GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"

#define PAGE_BYTES 4096u
#define SEGMENT_BYTES 0x10000000u

enum vector { VECTOR_DSI = 0x300, VECTOR_ISI = 0x400, VECTOR_PROGRAM = 0x700, VECTOR_SC = 0xc00 };

/* console.c */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A string in a buffer that the next call overwrites. */
const char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));
void text_clear(void);
const char *text_now(void);
void console_init(void);
void power_off(void) __attribute__((noreturn));
/* Memory stays; the guest begins anew. */
void reset_all(void) __attribute__((noreturn));
/* What both TLBs had when it began; NOT_COUNTED without an oracle. */
extern uint32_t entries_at_start;

/* journey.c */
struct journey {
	uint32_t pc, msr, address, value;
	/* How it ended: SC as it should, or what exception else. */
	uint32_t vector, srr0, srr1, dar, dsisr, cr;
};
_Static_assert(offsetof(struct journey, cr) == JOURNEY_CR, "layout.h");

void journey_go(struct journey *journey);
extern struct journey *journey_now;
/* The last one. */
extern struct journey journey;

enum mode { SUPERVISOR, USER };
/* Return: VECTOR_SC, or the exception. */
uint32_t load_try(enum mode mode, uint32_t address, uint32_t *value);
uint32_t store_try(enum mode mode, uint32_t address, uint32_t value);
/* Executes the page's code, which is frame_alloc()'s and gives its canary. */
uint32_t execute_try(enum mode mode, uint32_t address, uint32_t *value);
/* Goes to any address behind the instruction TLB; r3 is the value. */
uint32_t jump_try(enum mode mode, uint32_t address, uint32_t *value);
/* One of boot.S's stubs. */
uint32_t stub_try(void (*stub)(void), uint32_t msr, uint32_t address, uint32_t value);
void stub_load(void), stub_store(void), stub_dcbz(void), stub_stwcx(void), stub_stwcx_lost(void), stub_tlbie(void),
	stub_tlbia(void), stub_oracle(void), stub_load_twice(void), stub_dcbi(void), stub_dcbf(void), stub_dcbst(void),
	stub_icbi(void), stub_dcbt(void), stub_dcbtst(void), stub_lmw(void), stub_stmw(void), stub_stwcx_dropped(void),
	stub_stwcx_unmapped(void);

/* Ends the rule with a sentence. */
void give_up(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Return: NULL, or why `what` gave up. */
const char *attempt(void (*what)(void));

/* memory.c */
/* The words of a PTE. */
#define PTE_V 0x80000000u
#define PTE_H 0x40u
#define PTE_R 0x100u
#define PTE_C 0x80u
#define PTE_WIMG 0x78u
#define PTE_PP 0x3u
#define PTE_FRAME 0xfffff000u
/* PP with key 1: none, read, read and write; with key 0 all three are for reading and writing. */
enum pp { PP_NONE, PP_READ, PP_WRITE, PP_READ_ONLY };

#define SR_T 0x80000000u
#define SR_KS 0x40000000u
#define SR_KP 0x20000000u
#define SR_N 0x10000000u

struct pte {
	volatile uint32_t v, r;
};

/* The hash table empty, of 64 KiB or 128 KiB; no BAT; the TLBs empty; segment N has vsid(N), and Kp. */
void memory_reset(void);
void hash_table_size(uint32_t bytes);
void sdr1_write(uint32_t value);
void vsid_base(uint32_t base);
uint32_t vsid(unsigned int segment);
uint32_t segment_read(unsigned int segment);
void segment_write(unsigned int segment, uint32_t value);
void bat_write(bool is_data, uint32_t upper, uint32_t lower);
void bats_clear(void);
void tlbie(uint32_t address);
void tlbs_empty(void);
/* A frame whose words are `canary`, with code at its end that gives it. */
uint32_t frame_alloc(uint32_t canary);
/* The group of a page. */
struct pte *group_of(uint32_t vsid, uint32_t page, bool is_secondary);
/* In a place of its group; the next free one is pte_make()'s. */
struct pte *pte_at(struct pte *place, uint32_t vsid, uint32_t page, bool is_secondary, uint32_t second);
struct pte *pte_make(uint32_t vsid, uint32_t page, uint32_t second);

/* Where the code of frame_alloc() begins in its page. */
#define CODE_OFFSET 0xf00

/* options.c: words in the machine's fw_cfg file opt/words */
void options_init(void);
bool option(const char *name);
uint32_t option_number(const char *name, uint32_t otherwise);
/* Is the number in the word's list, as in "name=1,20-39"? */
bool option_lists(const char *name, uint32_t number);

/* fuzz.c */
void fuzz(uint32_t rounds, uint32_t seed);

#endif

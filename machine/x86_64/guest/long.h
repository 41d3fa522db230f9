/* SPDX-License-Identifier: GPL-2.0-only */
/* The tests that are not rules. */
#ifndef GUEST_LONG_H
#define GUEST_LONG_H

#include <stdint.h>

/* Asks the oracle before each of many reads, and compares. */
void canary(uint64_t questions, uint64_t seed);
/* Throws random values at control registers, INVPCID and MSRs. */
void fuzz(uint64_t steps, uint64_t seed);
/* Asks the oracle, and nothing else. */
void price(uint64_t questions);

#endif

// SPDX-License-Identifier: GPL-2.0-only
#include "long.h"
void canary(uint64_t questions, uint64_t seed) { (void)questions; (void)seed; }
void fuzz(uint64_t questions, uint64_t seed) { (void)questions; (void)seed; }

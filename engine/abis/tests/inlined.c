// SPDX-License-Identifier: GPL-2.0-only
/* What engine.h has inline, as functions: compiled alone, to see whether they need a library. */
#include "engine.h"

u64 (*const stamp_version)(u64, bool) = abis_stamp_version;
spte_t (*const shared)(u64) = spte_shared;
spte_t (*const private)(u32, u64) = spte_private;
spte_t (*const cleared)(spte_t, bool, u64) = spte_cleared;
struct abis_verdict (*const decide)(spte_t, bool, u64) = abis_decide;

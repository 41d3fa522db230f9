// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* All of engine.h is compiled, so that its needs show. */
#include "engine.h"

enum lazyctx_mutant lazyctx_mutant;

u32 use_ids(struct lazyctx_ids *ids, u32 id);
bool use_policy(const struct lazyctx_policy *policy, u32 pages, bool is_active);

u32 use_ids(struct lazyctx_ids *ids, u32 id)
{
	if (lazyctx_begin_pass(ids)) {
		lazyctx_scanned(ids);
		return lazyctx_end_pass(ids);
	}
	lazyctx_retire(ids, id);
	return lazyctx_is_free(ids, id) ? lazyctx_take(ids) : lazyctx_entry_id(lazyctx_vsid(id, 0));
}

bool use_policy(const struct lazyctx_policy *policy, u32 pages, bool is_active)
{
	return lazyctx_pays(policy, pages) && lazyctx_must_load(is_active, true);
}

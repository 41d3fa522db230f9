// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Every input of the engine's small questions, against what they mean. */

#include <stdio.h>
#include <string.h>

#include "engine.h"

enum lazyctx_mutant lazyctx_mutant;

#define EXPECT(what) do {						\
	if (!(what)) {							\
		printf("rules: FAILED, line %d: %s\n", __LINE__, #what);	\
		return false;						\
	}								\
	checks++;							\
} while (0)

static u64 checks;

/* A VSID leads back to its id, for every id and segment that there can be; and it is Linux's CTX_TO_VSID. */
static bool vsids(void)
{
	u32 id, segment;

	for (id = 0; id < LAZYCTX_IDS_MAX; id++) {
		for (segment = 0; segment < 16; segment++) {
			u32 vsid = lazyctx_vsid(id, segment);

			EXPECT(vsid == (((u64)id * (897 * 16) + segment * 0x111) & 0xffffff));
			EXPECT(lazyctx_id_of(vsid) == id);
			EXPECT(lazyctx_entry_id(LAZYCTX_VALID | vsid << LAZYCTX_VSID_SHIFT | 0x7f) == id);
		}
	}
	return true;
}

static bool policies(void)
{
	u32 pages, cutoff;

	for (cutoff = 0; cutoff < 100; cutoff++) {
		struct lazyctx_policy renews = { .renews = true, .cutoff = cutoff };
		struct lazyctx_policy none = { .cutoff = cutoff };

		for (pages = 0; pages < 200; pages++) {
			EXPECT(lazyctx_pays(&renews, pages) == (pages > cutoff));
			EXPECT(!lazyctx_pays(&none, pages));
		}
		EXPECT(lazyctx_pays(&renews, ~0u));
	}
	return true;
}

#define WORDS 3u

/* Every number of ids: each is given away once, none beyond the end, and again after a pass. */
static bool ids(void)
{
	u32 end, i, id, bit;

	for (end = 2; end <= WORDS * 32; end++) {
		u32 used[WORDS] = { 1 }, live[WORDS] = { 1 }, leaving[WORDS] = { 0 }, worn[WORDS] = { 0 };
		struct lazyctx_ids set = { used, live, leaving, worn, WORDS, end, 1, 0, 0, LAZYCTX_NO_PASS };
		u32 seen[WORDS] = { 1 };

		for (i = 1; i < end; i++) {
			id = lazyctx_take(&set);
			EXPECT(id && id < end);
			EXPECT(!lazyctx_bit(seen, id) && lazyctx_is_live(&set, id) && !lazyctx_is_free(&set, id));
			seen[id / 32] |= 1u << id % 32;
		}
		EXPECT(lazyctx_take(&set) == LAZYCTX_NONE);
		EXPECT(!lazyctx_begin_pass(&set));
		for (bit = 1; bit < end; bit += 2)
			lazyctx_retire(&set, bit);
		EXPECT(lazyctx_take(&set) == LAZYCTX_NONE);
		EXPECT(lazyctx_begin_pass(&set));
		EXPECT(!lazyctx_end_pass(&set) && lazyctx_take(&set) == LAZYCTX_NONE);
		/* One more while the pass is under way. */
		if (end > 2)
			lazyctx_retire(&set, 2);
		lazyctx_scanned(&set);
		EXPECT(lazyctx_end_pass(&set) == end / 2);
		for (i = 0; i < end / 2; i++) {
			id = lazyctx_take(&set);
			EXPECT(id % 2 && id < end);
		}
		EXPECT(lazyctx_take(&set) == LAZYCTX_NONE);
		EXPECT(lazyctx_begin_pass(&set) == (end > 2));
	}
	return true;
}

int main(void)
{
	if (!vsids() || !policies() || !ids())
		return 1;
	printf("rules: ok, %llu checks\n", (unsigned long long)checks);
	return 0;
}

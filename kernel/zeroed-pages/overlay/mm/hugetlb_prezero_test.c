// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a test of prezero_test.c asks of pools. Part of hugetlb_prezero.c, whose
 * counts it looks at.
 */

/*
 * Return: how much is wrong with the pools of a node: pages that are not zeroed
 * before others that are, zeroed ones that are still being cleared, or counted
 * wrongly.
 */
unsigned long hugetlb_prezero_wrong(int nid)
{
	struct hugetlb_zeroing *zeroing = prezero_hugetlb(nid);
	unsigned long wrong = 0;
	struct hstate *h;

	guard(spinlock_irq)(&hugetlb_lock);
	for_each_hstate(h) {
		unsigned long zeroed = 0;
		bool others = false;
		struct folio *folio;

		list_for_each_entry(folio, &h->hugepage_freelists[nid], lru) {
			if (!folio_test_hugetlb_zeroed(folio)) {
				others = true;
				continue;
			}
			zeroed++;
			wrong += others || (zeroing && zeroing->folio == folio);
		}
		wrong += abs_diff(zeroed, hugetlb_nr_zeroed[hstate_index(h)][nid]);
	}
	return wrong;
}

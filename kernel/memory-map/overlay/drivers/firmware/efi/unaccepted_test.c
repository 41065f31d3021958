// SPDX-License-Identifier: GPL-2.0
/*
 * Pretend that memory has to be accepted, as that of confidential guests has, and
 * watch how it is: unaccepted_test=SIZE@START on the command line.
 *
 * The memory has to read as zeroes when the kernel starts, as that of a new virtual
 * machine does: whatever is not zero when it is accepted was used before.
 */
#define pr_fmt(fmt) "unaccepted_test: " fmt

#include <linux/bitmap.h>
#include <linux/debugfs.h>
#include <linux/efi.h>
#include <linux/init.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <asm/unaccepted_memory.h>

#define UNIT_SIZE	SZ_2M
#define MOST_UNITS	16384

/* A struct efi_unaccepted_memory with its bitmap. */
static unsigned long table[sizeof(struct efi_unaccepted_memory) / sizeof(long) +
			   BITS_TO_LONGS(MOST_UNITS)];
static DECLARE_BITMAP(accepted, MOST_UNITS);
/* Accepted so early that nobody could look at them. */
static atomic_t nr_unseen;

static __no_sanitize_address bool all_zero(const unsigned long *word)
{
	const unsigned long *end = word + UNIT_SIZE / sizeof(*word);

	while (word < end && !*word)
		word++;
	return word == end;
}

/**
 * unaccepted_test_accept - accept memory of which the test pretends that it has to be
 * @start: where it begins, a multiple of the unit that the table tells
 * @end: where it ends
 *
 * Context: any but NMI; interrupts are off.
 */
void unaccepted_test_accept(phys_addr_t start, phys_addr_t end)
{
	const struct efi_unaccepted_memory *memory = (void *)table;

	for (; start < end; start += UNIT_SIZE) {
		unsigned long pfn = PHYS_PFN(start);

		WARN(test_and_set_bit((start - memory->phys_base) / UNIT_SIZE, accepted),
		     "%pa is accepted twice\n", &start);
		if (!pfn_range_is_mapped(pfn, pfn + PHYS_PFN(UNIT_SIZE)))
			atomic_inc(&nr_unseen);
		else
			WARN(!all_zero(__va(start)), "%pa was used before that\n", &start);
	}
}

static int __init unaccepted_test_setup(char *arg)
{
	struct efi_unaccepted_memory *memory = (void *)table;
	u64 size = memparse(arg, &arg), start = 0;

	if (*arg == '@')
		start = memparse(arg + 1, &arg);
	/* Whole bytes of the bitmap. */
	if (*arg || !start || !size || !IS_ALIGNED(size, UNIT_SIZE * BITS_PER_BYTE) ||
	    !IS_ALIGNED(start, UNIT_SIZE) || size > (u64)MOST_UNITS * UNIT_SIZE) {
		pr_err("no memory that can be had: unaccepted_test=SIZE@START, in units of 16 MiB\n");
		return -EINVAL;
	}
	memory->version = 1;
	memory->unit_size = UNIT_SIZE;
	memory->phys_base = start;
	memory->size = size / UNIT_SIZE / BITS_PER_BYTE;
	bitmap_set(memory->bitmap, 0, size / UNIT_SIZE);
	efi.unaccepted = __pa_symbol(table);
	return 0;
}
early_param("unaccepted_test", unaccepted_test_setup);

static int unaccepted_test_show(struct seq_file *m, void *unused)
{
	const struct efi_unaccepted_memory *memory = (void *)table;
	unsigned int nr = memory->size * BITS_PER_BYTE;

	seq_printf(m, "units %u\naccepted %u\nunseen %d\n", nr, bitmap_weight(accepted, nr),
		   atomic_read(&nr_unseen));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(unaccepted_test);

static int __init unaccepted_test_debugfs(void)
{
	debugfs_create_file("unaccepted_test", 0444, NULL, NULL, &unaccepted_test_fops);
	return 0;
}
late_initcall(unaccepted_test_debugfs);

// SPDX-License-Identifier: GPL-2.0
/*
 * Deferred memory: what mem= keeps from boot is added behind it
 *
 * Boot sets up the memory that mem= leaves it. The architecture tells of what it
 * hides (deferred_mem_hide()). Once the first process runs, that is added by memory
 * hotplug: whole memory blocks, normal memory below movable memory on each node. An
 * agent in user space may do it; a thread does what no agent did, and is the last to
 * look whether all is there. See Documentation/admin-guide/mm/deferred_mem.rst.
 *
 * deferred_mem_lock is held while a step of memory is added, or a block removed. It is
 * taken before device_hotplug_lock.
 */
#define pr_fmt(fmt) "deferred_mem: " fmt

#include <linux/cc_platform.h>
#include <linux/cleanup.h>
#include <linux/ctype.h>
#include <linux/deferred_mem.h>
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/kobject.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/memblock.h>
#include <linux/memory.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/numa.h>
#include <linux/oom.h>
#include <linux/pid.h>
#include <linux/range.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/sort.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/suspend.h>
#include <linux/sysfs.h>
#include <linux/wait.h>

#define CREATE_TRACE_POINTS
#include <trace/events/deferred_mem.h>

#define DEFERRED_MEM_NAME	"System RAM (deferred_mem)"
#define DEFERRED_MEM_RANGES	128
/* Two addresses, a node and a zone */
#define DEFERRED_MEM_PLAN_LINE	64
/*
 * Added at a time: readers of the hotplug lock wait for as long. An entry of the direct map
 * must not map more than a memory block (which may be larger), so that it can be removed:
 * architectures do not split entries of 1 GiB for that.
 */
#define DEFERRED_MEM_STEP	SZ_512M
/* How long an agent may take to do it all, and, with mode=auto, to say it is there. */
#define DEFERRED_MEM_TIMEOUT_S	30
#define DEFERRED_MEM_ANNOUNCE_S	3
/* How long those who need memory wait for the first of it: a slow machine takes a second. */
#define DEFERRED_MEM_SHORT_S	5
/* What cannot be added is tried so often, with seconds in between. */
#define DEFERRED_MEM_TRIES	4

enum deferred_mem_mode {
	DEFERRED_MEM_OFF,
	DEFERRED_MEM_KERNEL,
	DEFERRED_MEM_USER,
	DEFERRED_MEM_AUTO,
};

static const char * const deferred_mem_modes[] = {
	[DEFERRED_MEM_OFF] = "off",
	[DEFERRED_MEM_KERNEL] = "kernel",
	[DEFERRED_MEM_USER] = "user",
	[DEFERRED_MEM_AUTO] = "auto",
};

/* It only ever goes forward. */
enum deferred_mem_state {
	DEFERRED_MEM_WAITING,
	DEFERRED_MEM_AGENT,
	DEFERRED_MEM_DONE,
	DEFERRED_MEM_ADDING,
	DEFERRED_MEM_COMPLETE,
	DEFERRED_MEM_INCOMPLETE,
};

static const char * const deferred_mem_states[] = {
	[DEFERRED_MEM_WAITING] = "waiting",
	[DEFERRED_MEM_AGENT] = "user",
	[DEFERRED_MEM_DONE] = "done",
	[DEFERRED_MEM_ADDING] = "adding",
	[DEFERRED_MEM_COMPLETE] = "complete",
	[DEFERRED_MEM_INCOMPLETE] = "incomplete",
};

/* Memory that boot did not get: [start, movable) is to be normal, the rest movable. */
struct deferred_mem_range {
	u64 start;
	u64 movable;
	u64 end;
	int nid;
};

/* As asked for: bytes, or, if @percent, hundredths of what is deferred. */
struct deferred_mem_share {
	u64	value;
	bool	percent;
	bool	given;
};

static enum deferred_mem_mode deferred_mem_mode __ro_after_init;
static unsigned int deferred_mem_timeout_s __ro_after_init = DEFERRED_MEM_TIMEOUT_S;
static DEFINE_MUTEX(deferred_mem_lock);
/* Changes with the lock held. */
static enum deferred_mem_state deferred_mem_state;
static struct pid *deferred_mem_agent;
static struct task_struct *deferred_mem_task;
static struct kobject *deferred_mem_kobj __ro_after_init;
/* Room for what the first memory block needs, for when there is none left. */
static LIST_HEAD(deferred_mem_spare);
static DEFINE_SPINLOCK(deferred_mem_spare_lock);
/* Who adds memory, with the lock held. */
static struct task_struct *deferred_mem_adder;
/* The thread waits here for its turn, and allocations for the thread. */
static DECLARE_WAIT_QUEUE_HEAD(deferred_mem_waitq);
static bool deferred_mem_urgent;
/* Since when somebody waits and nothing was added, in jiffies; 0: nobody does. */
static unsigned long deferred_mem_asked;
/* Up to there what is planned as movable memory becomes normal; the thread's. */
static u64 deferred_mem_normal_till;
/* How often memory was added, and when it was last, in jiffies. */
static atomic_long_t deferred_mem_steps = ATOMIC_LONG_INIT(0);
static unsigned long deferred_mem_last_step;
static struct deferred_mem_share deferred_mem_kernelcore __initdata;
static struct deferred_mem_share deferred_mem_movablecore __initdata;
static struct deferred_mem_range deferred_mem_ranges[DEFERRED_MEM_RANGES] __ro_after_init;
static unsigned int deferred_mem_nr_ranges __ro_after_init;
/* Bytes that are hidden and never added */
static u64 deferred_mem_refused __ro_after_init;
static phys_addr_t deferred_mem_boot_end __ro_after_init;

static struct deferred_mem_range *deferred_mem_end(void)
{
	return deferred_mem_ranges + deferred_mem_nr_ranges;
}

/* Returns -EINVAL if it is no mode */
static int __init deferred_mem_mode_parse(const char *str)
{
	return str ? match_string(deferred_mem_modes, ARRAY_SIZE(deferred_mem_modes), str)
		   : -EINVAL;
}

static int __init deferred_mem_mode_param(char *str)
{
	int mode = deferred_mem_mode_parse(str);

	if (mode < 0) {
		pr_err("deferred_mem.mode=%s: none of off, kernel, user and auto\n", str);
		return mode;
	}
	deferred_mem_mode = mode;
	return 0;
}
early_param("deferred_mem.mode", deferred_mem_mode_param);

static int __init deferred_mem_timeout_param(char *str)
{
	int ret = str ? kstrtouint(str, 0, &deferred_mem_timeout_s) : -EINVAL;

	if (ret)
		pr_err("deferred_mem.timeout=%s: no number of seconds\n", str);
	return ret;
}
early_param("deferred_mem.timeout", deferred_mem_timeout_param);

/* Returns -EINVAL, and leaves @share alone, if it is neither a size nor 0% to 100% */
static int __init deferred_mem_share_parse(const char *str, struct deferred_mem_share *share)
{
	bool percent;
	char *end;
	u64 value;

	/* memparse() takes a suffix alone for nothing of it. */
	if (!str || !isdigit(*str))
		return -EINVAL;
	value = memparse(str, &end);
	percent = *end == '%' && isdigit(end[-1]);
	if (end[percent] || (percent && value > 100))
		return -EINVAL;
	share->value = value;
	share->percent = percent;
	share->given = true;
	return 0;
}

static int __init deferred_mem_share_param(const char *name, char *str,
					   struct deferred_mem_share *share)
{
	int ret = deferred_mem_share_parse(str, share);

	if (ret)
		pr_err("deferred_mem.%s=%s: neither a size nor 0%% to 100%%\n", name, str);
	return ret;
}

static int __init deferred_mem_kernelcore_param(char *str)
{
	return deferred_mem_share_param("kernelcore", str, &deferred_mem_kernelcore);
}
early_param("deferred_mem.kernelcore", deferred_mem_kernelcore_param);

static int __init deferred_mem_movablecore_param(char *str)
{
	return deferred_mem_share_param("movablecore", str, &deferred_mem_movablecore);
}
early_param("deferred_mem.movablecore", deferred_mem_movablecore_param);

/**
 * deferred_mem_wanted - is memory that mem= hides to be added behind boot?
 *
 * Context: boot, after early parameters.
 * Return: true if it is.
 */
bool __init deferred_mem_wanted(void)
{
	return deferred_mem_mode != DEFERRED_MEM_OFF;
}

static void __init deferred_mem_lost(u64 start, u64 end)
{
	if (start < end)
		pr_warn("[mem %#010llx-%#010llx] is no whole memory block: left out\n",
			start, end - 1);
}

/**
 * deferred_mem_hide - tell of memory that boot does not get
 * @start: its first byte
 * @end: the byte behind it
 *
 * What of it memblock has, in use or reserved, is left out later.
 *
 * Context: early boot, with deferred_mem_wanted().
 */
void __init deferred_mem_hide(phys_addr_t start, phys_addr_t end)
{
	struct deferred_mem_range *range = deferred_mem_end();

	/* What holds no memory block need not be remembered. */
	if (round_up(start, MIN_MEMORY_BLOCK_SIZE) >= round_down(end, MIN_MEMORY_BLOCK_SIZE)) {
		deferred_mem_lost(start, end);
		return;
	}
	if (deferred_mem_nr_ranges == DEFERRED_MEM_RANGES) {
		pr_err("[mem %#010llx-%#010llx] is lost: more than %d ranges\n",
		       (u64)start, (u64)end - 1, DEFERRED_MEM_RANGES);
		deferred_mem_refused += end - start;
		return;
	}
	range->start = start;
	range->end = end;
	deferred_mem_nr_ranges++;
}

/**
 * deferred_mem_refuse - tell of memory that is hidden and cannot be added
 * @bytes: how much
 * @why: why not, for the log
 *
 * Context: early boot, with deferred_mem_wanted().
 */
void __init deferred_mem_refuse(u64 bytes, const char *why)
{
	if (bytes)
		pr_warn("%llu MiB stay hidden: %s\n", bytes / SZ_1M, why);
	deferred_mem_refused += bytes;
}

/**
 * deferred_mem_decline - leave all memory to boot, whatever mem= says
 * @why: what does not go with memory that is added behind boot, for the log
 *
 * Context: early boot, after early parameters, with deferred_mem_wanted(), before
 * anything is hidden.
 */
void __init deferred_mem_decline(const char *why)
{
	pr_warn("%s: boot gets all memory\n", why);
	deferred_mem_mode = DEFERRED_MEM_OFF;
}

/**
 * deferred_mem_end_pfn - where memory will end
 *
 * For what boot decides by the address of the last page, such as bounce buffers.
 *
 * Context: any, when all memory was told of that is hidden.
 * Return: the page frame number behind the last page that is or was hidden, or 0.
 */
unsigned long deferred_mem_end_pfn(void)
{
	struct deferred_mem_range *range;
	u64 end = 0;

	for (range = deferred_mem_ranges; range < deferred_mem_end(); range++)
		end = max(end, range->end);
	return PHYS_PFN(end);
}

/**
 * deferred_mem_limit - take what lies behind a limit from memblock's memory
 * @limit: how many bytes boot is to have
 * @decline: why boot has to have all, NULL if it need not
 *
 * For architectures whose memblock has all memory before mem= is applied; they apply
 * it to what is returned.
 *
 * Context: early boot, after early parameters.
 * Return: @limit, or a little more, so that no section is cut.
 */
phys_addr_t __init deferred_mem_limit(phys_addr_t limit, const char *decline)
{
	/* Boot gets a memory block at least. */
	phys_addr_t start, end, cut = 0, left = max_t(phys_addr_t, limit, 1);
	struct memblock_region *region;
	u64 i;

	if (!deferred_mem_wanted())
		return limit;
	if (decline) {
		deferred_mem_decline(decline);
		return PHYS_ADDR_MAX;
	}

	/* As memblock_mem_limit_remove_map() counts, memory without a map included. */
	for_each_mem_region(region) {
		if (left <= region->size) {
			cut = round_up(region->base + left, MIN_MEMORY_BLOCK_SIZE);
			break;
		}
		left -= region->size;
	}
	if (!cut)
		return limit;

	for_each_free_mem_range(i, NUMA_NO_NODE, MEMBLOCK_HOTPLUG, &start, &end, NULL) {
		if (end > cut)
			deferred_mem_hide(max(start, cut), end);
	}

	limit = 0;
	for_each_mem_region(region) {
		if (region->base < cut)
			limit += min(region->base + region->size, cut) - region->base;
	}
	return limit;
}

/**
 * deferred_mem_keep - tell of memory that is not to be added
 * @start: its first byte
 * @end: the byte behind it
 *
 * Context: boot, up to early_initcall.
 */
void __init deferred_mem_keep(phys_addr_t start, phys_addr_t end)
{
	unsigned int i, nr = deferred_mem_nr_ranges;

	for (i = 0; i < nr; i++) {
		struct deferred_mem_range *range = deferred_mem_ranges + i;

		if (end <= range->start || range->end <= start)
			continue;
		if (end < range->end)
			deferred_mem_hide(end, range->end);
		range->end = max_t(u64, range->start, start);
	}
}

static int __init deferred_mem_compare(const void *a, const void *b)
{
	const struct deferred_mem_range *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

/* The node of a memory block, which boot did not see. */
static int __init deferred_mem_nid(u64 start)
{
	int nid = phys_to_target_node(start);

	return nid == NUMA_NO_NODE ? first_online_node : nid;
}

static void __init deferred_mem_add_blocks(u64 start, u64 end)
{
	struct deferred_mem_range *range = NULL;

	for (; start < end; start += memory_block_size_bytes()) {
		int nid = deferred_mem_nid(start);

		if (range && range->nid == nid) {
			range->end += memory_block_size_bytes();
			continue;
		}
		range = deferred_mem_end();
		/* If there is no room for it, all of the rest is lost, and that is said. */
		deferred_mem_hide(start, end);
		if (range == deferred_mem_end())
			return;
		range->end = start + memory_block_size_bytes();
		range->nid = nid;
	}
}

/* From ranges of bytes make ranges of memory blocks that each lie on one node. */
static void __init deferred_mem_round(void)
{
	static struct deferred_mem_range hidden[DEFERRED_MEM_RANGES] __initdata;
	unsigned int i, nr_hidden = deferred_mem_nr_ranges;

	sort(deferred_mem_ranges, nr_hidden, sizeof(*hidden), deferred_mem_compare, NULL);
	memcpy(hidden, deferred_mem_ranges, sizeof(hidden));
	deferred_mem_nr_ranges = 0;
	for (i = 0; i < nr_hidden; i++) {
		u64 start = round_up(hidden[i].start, memory_block_size_bytes());
		u64 end = round_down(hidden[i].end, memory_block_size_bytes());

		if (start >= end) {
			deferred_mem_lost(hidden[i].start, hidden[i].end);
			continue;
		}
		deferred_mem_lost(hidden[i].start, start);
		deferred_mem_lost(end, hidden[i].end);
		deferred_mem_add_blocks(start, end);
	}
}

/* Bytes on @nid, or on all nodes. */
static u64 __init deferred_mem_size(int nid)
{
	struct deferred_mem_range *range;
	u64 size = 0;

	for (range = deferred_mem_ranges; range < deferred_mem_end(); range++) {
		if (nid == NUMA_NO_NODE || nid == range->nid)
			size += range->end - range->start;
	}
	return size;
}

static u64 __init deferred_mem_share_bytes(const struct deferred_mem_share *share, u64 size)
{
	return share->percent ? mult_frac(size, share->value, 100) : share->value;
}

/*
 * Normal memory that @bytes of added memory take: their struct pages, what KASAN keeps of
 * each byte, and something for page tables and the extensions of struct pages.
 */
static u64 deferred_mem_room(u64 bytes)
{
	u64 map = PHYS_PFN(bytes) * sizeof(struct page);

	if (IS_ENABLED(CONFIG_KASAN_GENERIC))
		map += bytes >> 3;
	return map + map / 4;
}

/* Boot shall not spend more than half of what it has on movable memory. */
static u64 __init deferred_mem_room_needed(u64 size)
{
	u64 room = deferred_mem_room(size), free = PFN_PHYS(nr_free_pages()) / 2;

	return room > free ? min(size, room - free) : 0;
}

/* How much of @size bytes is to be normal memory. */
static u64 __init deferred_mem_kernel_bytes(u64 size)
{
	u64 kernel = deferred_mem_share_bytes(&deferred_mem_kernelcore, size);
	u64 movable = deferred_mem_share_bytes(&deferred_mem_movablecore, size);

	if (kernel > size || movable > size || kernel + movable > size)
		pr_warn("kernelcore and movablecore ask for %llu of %llu MiB: kernelcore comes first\n",
			(kernel + movable) / SZ_1M, size / SZ_1M);
	kernel = min(kernel, size);
	movable = min(movable, size);
	/* What nobody asks for is movable if only kernelcore is given, else normal. */
	if (!deferred_mem_kernelcore.given || deferred_mem_movablecore.given)
		kernel = max(kernel, size - movable);
	return min(size, round_up(kernel, memory_block_size_bytes()));
}

/* Where the normal memory of a node ends that is there already. */
static u64 deferred_mem_normal_end(int nid)
{
	struct zone *zones = NODE_DATA(nid)->node_zones;
	unsigned long end_pfn = 0;

	for (int i = 0; i < ZONE_MOVABLE; i++) {
		if (populated_zone(zones + i))
			end_pfn = max(end_pfn, zone_end_pfn(zones + i));
	}
	return PFN_PHYS(end_pfn);
}

/* Deferred bytes of a node below some address. */
static u64 __init deferred_mem_below(int nid, u64 address)
{
	struct deferred_mem_range *range;
	u64 bytes = 0;

	for (range = deferred_mem_ranges; range < deferred_mem_end(); range++) {
		if (range->nid == nid && range->start < address)
			bytes += min(range->end, address) - range->start;
	}
	return bytes;
}

/* Make the lowest @kernel bytes of a node normal memory. */
static void __init deferred_mem_split(int nid, u64 kernel)
{
	struct deferred_mem_range *range;
	u64 below = deferred_mem_below(nid, round_up(deferred_mem_normal_end(nid),
						     memory_block_size_bytes()));

	if (kernel < below) {
		pr_warn("node %d: movable memory cannot lie below normal memory, so %llu MiB become normal\n",
			nid, below / SZ_1M);
		kernel = below;
	}
	if (kernel && populated_zone(&NODE_DATA(nid)->node_zones[ZONE_MOVABLE])) {
		pr_warn("node %d: normal memory cannot lie behind ZONE_MOVABLE, all becomes movable: use deferred_mem.movablecore=100%%\n",
			nid);
		kernel = 0;
	}
	for (range = deferred_mem_ranges; range < deferred_mem_end(); range++) {
		if (range->nid != nid)
			continue;
		range->movable = min(range->start + kernel, range->end);
		kernel -= range->movable - range->start;
	}
}

/* Each node gets its part of the normal memory, in whole blocks. */
static void __init deferred_mem_share_out(u64 kernel)
{
	const u64 block = memory_block_size_bytes();
	u64 size = deferred_mem_size(NUMA_NO_NODE);
	int nid;

	for_each_node_state(nid, N_POSSIBLE) {
		u64 here = deferred_mem_size(nid);
		u64 part;

		if (!here)
			continue;
		/* Of what is left to share out, so that the last node gets the rest. */
		part = min(here, round_up(mul_u64_u64_div_u64(kernel, here, size), block));
		deferred_mem_split(nid, part);
		kernel -= part;
		size -= here;
	}
}

static void __init deferred_mem_plan(void)
{
	u64 size = deferred_mem_size(NUMA_NO_NODE);
	u64 kernel = deferred_mem_kernel_bytes(size);
	u64 needed = min(size, round_up(deferred_mem_room_needed(size),
					memory_block_size_bytes()));

	if (kernel < needed) {
		pr_warn("%llu MiB become normal: the rest needs room for its struct pages\n",
			needed / SZ_1M);
		kernel = needed;
	}
	deferred_mem_share_out(kernel);
}

/**
 * deferred_mem_allows - may memory behind mem= be added while the kernel boots?
 * @start: its first byte
 * @size: its size in bytes
 *
 * A memory device that firmware tells of once, and that is not in its memory map, would
 * be lost otherwise. What is hidden has to wait, and where hidden memory stays hidden,
 * so does this.
 *
 * Context: process context.
 * Return: true if so.
 */
bool deferred_mem_allows(u64 start, u64 size)
{
	struct deferred_mem_range *range;

	for (range = deferred_mem_ranges; range < deferred_mem_end(); range++) {
		if (start < range->end && range->start < start + size)
			return false;
	}
	return deferred_mem_mode != DEFERRED_MEM_OFF && !deferred_mem_refused;
}

/* Called before memblock goes. */
static int __init deferred_mem_find(void)
{
	phys_addr_t start, end;
	u64 i;

	if (!deferred_mem_wanted())
		return 0;
	/* Some find out only after mem= was applied. */
	if (cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT)) {
		deferred_mem_refuse(deferred_mem_size(NUMA_NO_NODE), "confidential guest");
		deferred_mem_nr_ranges = 0;
	}
	for_each_mem_range(i, &start, &end)
		deferred_mem_keep(start, end);
	for_each_reserved_mem_range(i, &start, &end)
		deferred_mem_keep(start, end);
	deferred_mem_boot_end = memblock_end_of_DRAM();
	return 0;
}
early_initcall(deferred_mem_find);

/* Bytes that are to be normal memory, or movable. */
static u64 deferred_mem_bytes(bool kernel)
{
	struct deferred_mem_range *range;
	u64 bytes = 0;

	for (range = deferred_mem_ranges; range < deferred_mem_end(); range++)
		bytes += kernel ? range->movable - range->start : range->end - range->movable;
	return bytes;
}

/* Bytes of [start, end) that are not online; with device_hotplug_lock. */
static u64 deferred_mem_count_missing(u64 start, u64 end)
{
	u64 missing = 0;

	for (; start < end; start += memory_block_size_bytes()) {
		struct memory_block *mem = memory_block_get(phys_to_block_id(start));

		if (!mem || mem->state != MEM_ONLINE)
			missing += memory_block_size_bytes();
		if (mem)
			memory_block_put(mem);
	}
	return missing;
}

static u64 deferred_mem_missing(u64 start, u64 end)
{
	u64 missing;

	lock_device_hotplug();
	missing = deferred_mem_count_missing(start, end);
	unlock_device_hotplug();
	return missing;
}

static bool deferred_mem_block_online(u64 start)
{
	return !deferred_mem_missing(start, start + memory_block_size_bytes());
}

static bool deferred_mem_block_added(u64 start)
{
	struct memory_block *mem;

	lock_device_hotplug();
	mem = memory_block_get(phys_to_block_id(start));
	if (mem)
		memory_block_put(mem);
	unlock_device_hotplug();
	return mem;
}

/* Somebody else may have added the block and not brought it online. */
static int deferred_mem_online_block(u64 start, enum mmop type)
{
	struct memory_block *mem;
	int ret = -ENOENT;

	lock_device_hotplug();
	mem = memory_block_get(phys_to_block_id(start));
	if (mem) {
		ret = 0;
		/* What is online keeps no type for the next time. */
		if (mem->state != MEM_ONLINE) {
			mem->online_type = type;
			ret = device_online(&mem->dev);
		}
		memory_block_put(mem);
	}
	unlock_device_hotplug();
	return ret;
}

static int deferred_mem_add(int nid, u64 start, u64 size, enum mmop type)
{
	return __add_memory_driver_managed(nid, start, size, DEFERRED_MEM_NAME,
					   MHP_MERGE_RESOURCE, type);
}

static int deferred_mem_add_block(int nid, u64 start, enum mmop type)
{
	int ret = deferred_mem_add(nid, start, memory_block_size_bytes(), type);
	int online;

	if (ret && ret != -EEXIST)
		return ret;
	online = deferred_mem_online_block(start, type);
	/* Something that is no memory block has its addresses. */
	if (ret && online == -ENOENT)
		return ret;
	return min(online, 0);
}

/* Whether normal memory that ends there would lie behind movable memory of its node. */
static bool deferred_mem_behind_movable(int nid, u64 end)
{
	struct zone *zone = &NODE_DATA(nid)->node_zones[ZONE_MOVABLE];

	return populated_zone(zone) && zone->zone_start_pfn < PHYS_PFN(end);
}

/*
 * What [start, end) can become so that its node has its normal memory below its
 * movable memory: @wanted, if that is possible.
 */
static enum mmop deferred_mem_possible(int nid, u64 start, u64 end, enum mmop wanted)
{
	if (deferred_mem_behind_movable(nid, end))
		return MMOP_ONLINE_MOVABLE;
	return deferred_mem_normal_end(nid) > start ? MMOP_ONLINE_KERNEL : wanted;
}

static unsigned long deferred_mem_begin_adding(void)
{
	lockdep_assert_held(&deferred_mem_lock);
	WRITE_ONCE(deferred_mem_adder, current);
	return current->flags;
}

/* With what deferred_mem_begin_adding() returned: deferred_mem_short() may have changed it. */
static void deferred_mem_end_adding(unsigned long flags)
{
	WRITE_ONCE(deferred_mem_adder, NULL);
	current_restore_flags(flags, PF_MEMALLOC);
}

/* Add what is missing of [start, end), and return how many bytes still are. */
static u64 deferred_mem_add_step(int nid, u64 start, u64 end, enum mmop planned, bool last)
{
	const u64 block = memory_block_size_bytes();
	u64 at, missing = 0;
	unsigned long flags;
	int ret;

	guard(mutex)(&deferred_mem_lock);
	flags = deferred_mem_begin_adding();
	/* An agent may have had other plans: then look at each block. */
	if (deferred_mem_possible(nid, start, end, planned) == planned)
		deferred_mem_add(nid, start, end - start, planned);
	for (at = start; at < end; at += block) {
		if (deferred_mem_block_online(at))
			continue;
		ret = deferred_mem_add_block(nid, at,
					     deferred_mem_possible(nid, at, at + block, planned));
		if (!ret)
			continue;
		missing += block;
		if (last)
			pr_err("[mem %#010llx-%#010llx] cannot be added: %pe\n",
			       at, at + block - 1, ERR_PTR(ret));
	}
	deferred_mem_end_adding(flags);
	trace_deferred_mem_step(nid, start, end - start, planned == MMOP_ONLINE_MOVABLE, missing);
	return missing;
}

static unsigned int deferred_mem_spare_order(void)
{
	return min(get_order(PHYS_PFN(memory_block_size_bytes()) * sizeof(struct page)),
		   MAX_PAGE_ORDER);
}

/* As much again as the struct pages of the first memory block: it lies below the rest. */
static void __init deferred_mem_alloc_spare(void)
{
	u64 bytes = deferred_mem_room(2 * memory_block_size_bytes()), got;
	unsigned int order = deferred_mem_spare_order();
	struct page *page;

	for (got = 0; got < bytes; got += PAGE_SIZE << order) {
		page = alloc_pages(GFP_KERNEL | __GFP_NOWARN, order);
		if (!page)
			break;
		list_add(&page->lru, &deferred_mem_spare);
	}
}

/* Return: was there any? */
static bool deferred_mem_free_spare(void)
{
	struct page *page, *next;
	LIST_HEAD(spare);

	scoped_guard(spinlock, &deferred_mem_spare_lock)
		list_splice_init(&deferred_mem_spare, &spare);
	if (list_empty(&spare))
		return false;
	list_for_each_entry_safe(page, next, &spare, lru)
		__free_pages(page, deferred_mem_spare_order());
	return true;
}

/* Memory was added: who waits for that looks for some. */
static void deferred_mem_stepped(void)
{
	WRITE_ONCE(deferred_mem_last_step, jiffies);
	WRITE_ONCE(deferred_mem_asked, 0);
	atomic_long_inc(&deferred_mem_steps);
	wake_up_all(&deferred_mem_waitq);
}

/*
 * Movable memory has no room for the struct pages of what is added after it. If memory is
 * short before there is any, as much as they need is better normal, from @start on; again,
 * if others took that.
 */
static void deferred_mem_more_normal(const struct deferred_mem_range *range, u64 start)
{
	const struct deferred_mem_range *behind;
	u64 rest = range->end - start, till;

	if (start < deferred_mem_normal_till ||
	    populated_zone(&NODE_DATA(range->nid)->node_zones[ZONE_MOVABLE]))
		return;
	for (behind = range + 1; behind < deferred_mem_end(); behind++)
		rest += behind->end - behind->movable;
	till = start + round_up(deferred_mem_room(rest), memory_block_size_bytes());
	deferred_mem_normal_till = min(till, range->end);
	pr_info("[mem %#010llx-%#010llx] becomes normal: the rest needs room for its struct pages\n",
		start, deferred_mem_normal_till - 1);
}

static u64 deferred_mem_add_range(const struct deferred_mem_range *range, u64 start, u64 end,
				  enum mmop planned, bool last)
{
	const u64 block = memory_block_size_bytes();
	u64 next, found, still, missing = 0;
	unsigned int flags;

	for (; start < end; start = next) {
		bool urgent = xchg(&deferred_mem_urgent, false);
		enum mmop type = planned;

		next = min(start + (urgent ? block : max_t(u64, block, DEFERRED_MEM_STEP)), end);
		/* Those who wait want a little soon, and have left nothing for its map. */
		if (urgent) {
			flags = memalloc_noreclaim_save();
			/* Not only when an attempt has failed: KASAN warns of that. */
			deferred_mem_free_spare();
			if (planned == MMOP_ONLINE_MOVABLE && !deferred_mem_block_online(start))
				deferred_mem_more_normal(range, start);
		}
		if (start < deferred_mem_normal_till && deferred_mem_normal_till <= range->end) {
			next = min(next, deferred_mem_normal_till);
			type = MMOP_ONLINE_KERNEL;
		}
		found = deferred_mem_missing(start, next);
		still = found ? deferred_mem_add_step(range->nid, start, next, type, last) : 0;
		if (urgent)
			memalloc_noreclaim_restore(flags);
		missing += still;
		/* Nothing was added for those who wait: the request stands. */
		if (urgent && still >= found)
			WRITE_ONCE(deferred_mem_urgent, true);
		if (still < found)
			deferred_mem_stepped();
		/*
		 * A task that woke up meanwhile gets its turn now: a kernel that is preempted
		 * lazily would let it wait for the next tick, and has no cond_resched().
		 */
		schedule();
	}
	return missing;
}

/* Normal memory first: the struct pages of the rest need room. */
static u64 deferred_mem_add_all(bool last)
{
	struct deferred_mem_range *range;
	u64 missing = 0;

	for (range = deferred_mem_ranges; range < deferred_mem_end(); range++)
		missing += deferred_mem_add_range(range, range->start, range->movable,
						  MMOP_ONLINE_KERNEL, last);
	for (range = deferred_mem_ranges; range < deferred_mem_end(); range++)
		missing += deferred_mem_add_range(range, range->movable, range->end,
						  MMOP_ONLINE_MOVABLE, last);
	return missing;
}

/* Bytes of all ranges that are not online; with device_hotplug_lock. */
static u64 deferred_mem_count_all_missing(void)
{
	struct deferred_mem_range *range;
	u64 missing = 0;

	for (range = deferred_mem_ranges; range < deferred_mem_end(); range++)
		missing += deferred_mem_count_missing(range->start, range->end);
	return missing;
}

static bool deferred_mem_agent_gone(void)
{
	struct task_struct *task;

	guard(rcu)();
	task = pid_task(READ_ONCE(deferred_mem_agent), PIDTYPE_TGID);
	/* It may be dead and still there, if nobody waits for it. */
	return !task || !atomic_read(&task->signal->live);
}

/* Why the agent has to leave it to the kernel; NULL as long as it has not. */
static const char *deferred_mem_agent_over(unsigned long began)
{
	/* Pairs with deferred_mem_set_state(): the agent is known by then. */
	enum deferred_mem_state state = smp_load_acquire(&deferred_mem_state);

	if (READ_ONCE(deferred_mem_urgent))
		return "memory is short";
	if (state == DEFERRED_MEM_DONE)
		return "it is said to be done";
	if (state == DEFERRED_MEM_AGENT && deferred_mem_agent_gone())
		return "the agent is gone";
	if (time_after_eq(jiffies, began + (unsigned long)deferred_mem_timeout_s * HZ))
		return "the time is over";
	if (state == DEFERRED_MEM_WAITING && deferred_mem_mode == DEFERRED_MEM_AUTO &&
	    time_after_eq(jiffies, began + DEFERRED_MEM_ANNOUNCE_S * HZ))
		return "there is no agent";
	return NULL;
}

/* Wait for the thread's turn; returns what made it so, or NULL. */
static const char *deferred_mem_wait(void)
{
	const char *why = NULL;
	unsigned long began;

	/* Until then memory behind mem= is refused, and /init shall not wait. */
	while (system_state < SYSTEM_RUNNING && !READ_ONCE(deferred_mem_urgent))
		wait_event_idle_timeout(deferred_mem_waitq, READ_ONCE(deferred_mem_urgent), 1);
	if (system_state < SYSTEM_RUNNING)
		max_mem_size = U64_MAX;
	began = jiffies;
	while (deferred_mem_mode != DEFERRED_MEM_KERNEL && !why) {
		why = deferred_mem_agent_over(began);
		if (!why)
			wait_event_idle_timeout(deferred_mem_waitq,
						deferred_mem_agent_over(began), HZ / 10);
	}
	return why;
}

static void deferred_mem_set_state(enum deferred_mem_state state)
{
	lockdep_assert_held(&deferred_mem_lock);
	/* Pairs with deferred_mem_agent_over(). */
	smp_store_release(&deferred_mem_state, state);
	wake_up_all(&deferred_mem_waitq);
	if (deferred_mem_kobj)
		sysfs_notify(deferred_mem_kobj, NULL, "state");
}

static int deferred_mem_thread(void *unused)
{
	const char *why = deferred_mem_wait();
	ktime_t began = ktime_get();
	u64 found, missing;
	unsigned int try;
	bool urgent;

	lock_device_hotplug();
	found = deferred_mem_count_all_missing();
	unlock_device_hotplug();
	scoped_guard(mutex, &deferred_mem_lock)
		deferred_mem_set_state(DEFERRED_MEM_ADDING);
	put_pid(deferred_mem_agent);
	if (why && found)
		pr_info("%s: adding the %llu MiB that are missing\n", why, found / SZ_1M);
	for (try = 1;; try++) {
		missing = deferred_mem_add_all(try == DEFERRED_MEM_TRIES);
		if (!missing || try == DEFERRED_MEM_TRIES)
			break;
		/*
		 * For lack of memory, it may be: others give some back. Who finds now that
		 * memory is short does not wait for that.
		 */
		urgent = READ_ONCE(deferred_mem_urgent);
		wait_event_idle_timeout(deferred_mem_waitq,
					!urgent && READ_ONCE(deferred_mem_urgent), try * HZ);
	}
	scoped_guard(mutex, &deferred_mem_lock)
		deferred_mem_set_state(missing || deferred_mem_refused ?
				       DEFERRED_MEM_INCOMPLETE : DEFERRED_MEM_COMPLETE);
	deferred_mem_free_spare();
	if (found)
		pr_info("%llu MiB added in %lld ms, %llu MiB are missing\n",
			(found - min(found, missing)) / SZ_1M, ktime_ms_delta(ktime_get(), began),
			missing / SZ_1M);
	return 0;
}

/* Would nobody be killed for this allocation? As in __alloc_pages_may_oom(). */
static bool deferred_mem_may_fail(gfp_t gfp, unsigned int order, enum zone_type highest)
{
	return order > PAGE_ALLOC_COSTLY_ORDER || (gfp & (__GFP_RETRY_MAYFAIL | __GFP_THISNODE)) ||
	       highest < ZONE_NORMAL || (current->flags & PF_DUMPCORE) || pm_suspended_storage();
}

/* Until when who needs memory waits for the first of it, from the first who did. */
static unsigned long deferred_mem_deadline(void)
{
	unsigned long now = jiffies ?: 1, asked = cmpxchg(&deferred_mem_asked, 0, now);

	return (asked ?: now) + DEFERRED_MEM_SHORT_S * HZ;
}

/* Have all of it added at once, and wait for some; returns false if that is no use. */
static bool deferred_mem_wait_for_some(unsigned long timeout)
{
	long steps = atomic_long_read(&deferred_mem_steps);

	/* Who makes memory free waits for nobody. */
	if (current == deferred_mem_task || (current->flags & PF_MEMALLOC) ||
	    tsk_is_oom_victim(current) || time_after_eq(jiffies, deferred_mem_deadline()))
		return false;

	if (!READ_ONCE(deferred_mem_urgent)) {
		WRITE_ONCE(deferred_mem_urgent, true);
		wake_up_all(&deferred_mem_waitq);
	}
	wait_event_killable_timeout(deferred_mem_waitq,
				    atomic_long_read(&deferred_mem_steps) != steps ||
				    READ_ONCE(deferred_mem_state) >= DEFERRED_MEM_COMPLETE,
				    timeout);
	return !fatal_signal_pending(current);
}

/**
 * deferred_mem_pressure - have deferred memory added before any is reclaimed
 * @gfp: of the allocation that finds none
 * @order: its order
 * @highest: the highest zone that it may use
 *
 * Who watches for pressure from user space, and kills for it, sees little of it then.
 * Not for those who would rather have none than wait, or make do with smaller pages.
 *
 * Context: that of an allocation that may reclaim. It may hold what adding memory needs,
 * and its reclaim would give that back, so it waits for a second at most.
 * Return: true if some was added: it is worth another try.
 */
bool deferred_mem_pressure(gfp_t gfp, unsigned int order, enum zone_type highest)
{
	long steps = atomic_long_read(&deferred_mem_steps);

	if (!deferred_mem_task || highest < ZONE_NORMAL || pm_suspended_storage() ||
	    READ_ONCE(deferred_mem_state) >= DEFERRED_MEM_COMPLETE)
		return false;
	if ((gfp & __GFP_NORETRY) ||
	    (order > PAGE_ALLOC_COSTLY_ORDER && !(gfp & __GFP_RETRY_MAYFAIL)))
		return false;
	/* Who adds memory, and who helps, does not wait for it. */
	if (current == READ_ONCE(deferred_mem_adder) || (current->flags & PF_WQ_WORKER))
		return false;
	return deferred_mem_wait_for_some(HZ) && atomic_long_read(&deferred_mem_steps) != steps;
}

/**
 * deferred_mem_short - have deferred memory added because memory is short
 * @gfp: of the allocation that finds none
 * @order: its order
 * @highest: the highest zone that it may use
 *
 * Called before somebody is killed for memory. Waits a little at a time, so that the
 * caller looks whether others freed some: who adds memory may wait for the caller.
 *
 * Context: process context, may sleep. Not with oom_lock held: who adds memory fails
 * allocations only if it gets that.
 * Return: true if it is worth another try.
 */
bool deferred_mem_short(gfp_t gfp, unsigned int order, enum zone_type highest)
{
	long steps = atomic_long_read(&deferred_mem_steps);

	if (!deferred_mem_task || deferred_mem_may_fail(gfp, order, highest))
		return false;
	/* Who looked for memory before the last of it was there looks once more. */
	if (READ_ONCE(deferred_mem_state) >= DEFERRED_MEM_COMPLETE)
		return steps && time_before(jiffies, READ_ONCE(deferred_mem_last_step) + HZ / 10);
	/*
	 * Who adds memory cannot wait for it, and needs little: that was kept. Others may have
	 * taken it, and the reserves are for those who make memory free.
	 */
	if (current == READ_ONCE(deferred_mem_adder)) {
		if (!deferred_mem_free_spare())
			current->flags |= PF_MEMALLOC;
		return true;
	}
	return deferred_mem_wait_for_some(HZ / 10);
}

static ssize_t memblock_end_of_dram_show(struct kobject *kobj, struct kobj_attribute *attr,
					 char *buf)
{
	return sysfs_emit(buf, "%#llx\n", (u64)deferred_mem_boot_end);
}

static struct kobj_attribute memblock_end_attr = __ATTR_RO(memblock_end_of_dram);

static ssize_t bootmem_end_of_dram_show(struct kobject *kobj, struct kobj_attribute *attr,
					char *buf)
{
	u64 end = deferred_mem_boot_end;

	if (deferred_mem_nr_ranges)
		end = max(end, deferred_mem_ranges[deferred_mem_nr_ranges - 1].end);
	return sysfs_emit(buf, "%#llx\n", end);
}

static struct kobj_attribute bootmem_end_attr = __ATTR_RO(bootmem_end_of_dram);

static ssize_t deferred_kernelcore_show(struct kobject *kobj, struct kobj_attribute *attr,
					char *buf)
{
	return sysfs_emit(buf, "%llu\n", deferred_mem_bytes(true));
}

static struct kobj_attribute kernelcore_attr = __ATTR_RO(deferred_kernelcore);

static ssize_t deferred_movablecore_show(struct kobject *kobj, struct kobj_attribute *attr,
					 char *buf)
{
	return sysfs_emit(buf, "%llu\n", deferred_mem_bytes(false));
}

static struct kobj_attribute movablecore_attr = __ATTR_RO(deferred_movablecore);

static ssize_t missing_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	u64 missing;
	int ret;

	/* Whoever waits for that lock can be interrupted: see there. */
	ret = lock_device_hotplug_sysfs();
	if (ret)
		return ret;
	missing = deferred_mem_refused + deferred_mem_count_all_missing();
	unlock_device_hotplug();
	return sysfs_emit(buf, "%llu\n", missing);
}

/* Not for all: it takes the lock. */
static struct kobj_attribute missing_attr = __ATTR_RO_MODE(missing, 0400);

static ssize_t state_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", deferred_mem_states[READ_ONCE(deferred_mem_state)]);
}

static ssize_t state_store(struct kobject *kobj, struct kobj_attribute *attr,
			   const char *buf, size_t count)
{
	ACQUIRE(mutex_intr, lock)(&deferred_mem_lock);
	int ret = ACQUIRE_ERR(mutex_intr, &lock);

	if (ret)
		return ret;
	if (deferred_mem_mode == DEFERRED_MEM_KERNEL)
		return -EPERM;
	if (deferred_mem_state > DEFERRED_MEM_AGENT)
		return -EALREADY;
	if (sysfs_streq(buf, "user")) {
		if (deferred_mem_state == DEFERRED_MEM_AGENT)
			return -EBUSY;
		WRITE_ONCE(deferred_mem_agent, get_task_pid(current, PIDTYPE_TGID));
		deferred_mem_set_state(DEFERRED_MEM_AGENT);
	} else if (sysfs_streq(buf, "done")) {
		deferred_mem_set_state(DEFERRED_MEM_DONE);
	} else {
		return -EINVAL;
	}
	return count;
}

static struct kobj_attribute state_attr = __ATTR_RW(state);

static struct deferred_mem_range *deferred_mem_find_range(u64 start)
{
	struct deferred_mem_range *range;

	for (range = deferred_mem_ranges; range < deferred_mem_end(); range++) {
		if (range->start <= start && start < range->end)
			return range;
	}
	return NULL;
}

/* The range that @start is a memory block of. */
static struct deferred_mem_range *deferred_mem_find_block(u64 start)
{
	return IS_ALIGNED(start, memory_block_size_bytes()) ? deferred_mem_find_range(start) : NULL;
}

/* The kernel is about to add what is missing, or does so. */
static bool deferred_mem_taking_over(void)
{
	lockdep_assert_held(&deferred_mem_lock);
	return deferred_mem_state == DEFERRED_MEM_DONE || deferred_mem_state == DEFERRED_MEM_ADDING;
}

/* "ADDRESS [kernel|movable]"; without a zone, the one that is planned. */
static ssize_t add_store(struct kobject *kobj, struct kobj_attribute *attr,
			 const char *buf, size_t count)
{
	struct deferred_mem_range *range;
	char zone[8] = "";
	enum mmop type, possible;
	unsigned long flags;
	u64 start, end;
	int ret;

	if (sscanf(buf, "%lli %7s", &start, zone) < 1)
		return -EINVAL;
	range = deferred_mem_find_block(start);
	if (!range)
		return -EINVAL;
	if (!strcmp(zone, "kernel"))
		type = MMOP_ONLINE_KERNEL;
	else if (!strcmp(zone, "movable"))
		type = MMOP_ONLINE_MOVABLE;
	else if (!*zone)
		type = start < range->movable ? MMOP_ONLINE_KERNEL : MMOP_ONLINE_MOVABLE;
	else
		return -EINVAL;

	ACQUIRE(mutex_intr, lock)(&deferred_mem_lock);
	ret = ACQUIRE_ERR(mutex_intr, &lock);
	if (ret)
		return ret;
	if (deferred_mem_taking_over())
		return -EALREADY;
	if (deferred_mem_block_online(start))
		return -EEXIST;
	end = start + memory_block_size_bytes();
	possible = deferred_mem_possible(range->nid, start, end, type);
	if (possible != type) {
		bool movable = possible == MMOP_ONLINE_MOVABLE;

		pr_warn("[mem %#010llx-%#010llx] lies %s memory of node %d: only %s would be accepted\n",
			start, end - 1, movable ? "behind movable" : "below normal", range->nid,
			movable ? "movable" : "kernel");
		return -EINVAL;
	}
	flags = deferred_mem_begin_adding();
	ret = deferred_mem_add_block(range->nid, start, type);
	deferred_mem_end_adding(flags);
	if (ret)
		return ret;
	deferred_mem_stepped();
	return count;
}

static struct kobj_attribute add_attr = __ATTR_WO(add);

/* "ADDRESS" */
static ssize_t remove_store(struct kobject *kobj, struct kobj_attribute *attr,
			    const char *buf, size_t count)
{
	struct range range;
	u64 start;
	int ret;

	if (!IS_ENABLED(CONFIG_MEMORY_HOTREMOVE))
		return -EOPNOTSUPP;
	ret = kstrtou64(buf, 0, &start);
	if (ret)
		return ret;
	if (!deferred_mem_find_block(start))
		return -EINVAL;

	ACQUIRE(mutex_intr, lock)(&deferred_mem_lock);
	ret = ACQUIRE_ERR(mutex_intr, &lock);
	if (ret)
		return ret;
	/* Before that the kernel would add it again. */
	if (deferred_mem_state < DEFERRED_MEM_COMPLETE)
		return -EBUSY;
	if (!deferred_mem_block_added(start))
		return -ENOENT;
	range.start = start;
	range.end = start + memory_block_size_bytes() - 1;
	ret = offline_and_remove_memory_ranges(&range, 1);
	return ret ?: count;
}

static struct kobj_attribute remove_attr = __ATTR_WO(remove);

/* A line a range that becomes one zone: addresses, node, zone. */
static size_t deferred_mem_plan_line(char *buf, size_t size, u64 start, u64 end, int nid,
				     const char *zone)
{
	return start < end ? scnprintf(buf, size, "%#llx-%#llx %d %s\n", start, end - 1, nid,
				       zone) : 0;
}

/* It may be longer than a page, which files with a show() cannot be. */
static ssize_t plan_read(struct file *file, struct kobject *kobj,
			 const struct bin_attribute *attr, char *buf, loff_t off, size_t count)
{
	const size_t size = 2 * DEFERRED_MEM_PLAN_LINE * deferred_mem_nr_ranges + 1;
	struct deferred_mem_range *range;
	ssize_t at = 0;
	char *text;

	text = kvmalloc(size, GFP_KERNEL);
	if (!text)
		return -ENOMEM;
	for (range = deferred_mem_ranges; range < deferred_mem_end(); range++) {
		at += deferred_mem_plan_line(text + at, size - at, range->start, range->movable,
					     range->nid, "kernel");
		at += deferred_mem_plan_line(text + at, size - at, range->movable, range->end,
					     range->nid, "movable");
	}
	at = memory_read_from_buffer(buf, count, &off, text, at);
	kvfree(text);
	return at;
}

static const BIN_ATTR_RO(plan, 0);

static struct attribute *deferred_mem_attrs[] = {
	&memblock_end_attr.attr,
	&bootmem_end_attr.attr,
	&kernelcore_attr.attr,
	&movablecore_attr.attr,
	&missing_attr.attr,
	&state_attr.attr,
	&add_attr.attr,
	&remove_attr.attr,
	NULL,
};

static const struct attribute_group deferred_mem_attr_group = {
	.attrs = deferred_mem_attrs,
};

#ifdef CONFIG_HIBERNATION
/* A kernel that resumes looks for as much memory as the image has, before it adds any. */
static int deferred_mem_pm_notify(struct notifier_block *nb, unsigned long action,
				  void *data)
{
	if (action != PM_HIBERNATION_PREPARE || !deferred_mem_nr_ranges)
		return NOTIFY_OK;
	pr_warn("no hibernation: an image with memory that mem= hides could not be resumed\n");
	return notifier_from_errno(-EBUSY);
}
#endif

/* Memory blocks can be registered by now, and what takes memory comes after. */
static int __init deferred_mem_init(void)
{
	struct task_struct *task;

	if (!deferred_mem_wanted())
		return 0;

	deferred_mem_round();
	deferred_mem_plan();
	deferred_mem_kobj = kobject_create_and_add("deferred_mem_init", kernel_kobj);
	if (!deferred_mem_kobj ||
	    sysfs_create_group(deferred_mem_kobj, &deferred_mem_attr_group) ||
	    sysfs_create_bin_file(deferred_mem_kobj, &bin_attr_plan))
		pr_warn("no files in sysfs\n");

#ifdef CONFIG_HIBERNATION
	pm_notifier(deferred_mem_pm_notify, 0);
#endif
	if (deferred_mem_nr_ranges)
		deferred_mem_alloc_spare();
	task = kthread_run(deferred_mem_thread, NULL, "deferred_mem");
	if (IS_ERR(task)) {
		pr_err("no thread, so the memory behind mem= is lost: %pe\n", task);
		return PTR_ERR(task);
	}
	WRITE_ONCE(deferred_mem_task, task);
	return 0;
}
subsys_initcall(deferred_mem_init);

#ifdef CONFIG_DEFERRED_MEM_KUNIT_TEST
#include "deferred_mem_test.c"
#endif

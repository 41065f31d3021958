// SPDX-License-Identifier: GPL-2.0
/*
 * A TCG plugin of QEMU: what the functions cost that chosen functions call, up
 * to the guest's first user process.
 *
 * Each instruction is charged to the task that runs it, on whichever CPU. So a
 * call's own instructions are known although it sleeps, and although other CPUs
 * have their turns meanwhile; what all CPUs ran from its beginning to its end
 * is known as well. Instructions between two rounds of a loop with a "pause"
 * in it are spinning.
 *
 * Arguments: out=PATH, the file to write; entry=ADDRESS, the first instruction
 * of /init; switch=BEGIN-END, the function that switches tasks;
 * caller=BEGIN-END, a function whose callees are measured, may be given several
 * times.
 *
 * When the block at the entry is first translated, the counts are written:
 *
 *	all COUNT			instructions of all CPUs
 *	low COUNT			those outside the kernel's half
 *	rest WORK SPIN			those of the kernel in no call
 *	CALLER CALLEE CALLS TOTAL WORK SPIN SELF_WORK SELF_SPIN OPEN
 *
 * a line each caller and callee: addresses in hexadecimal; TOTAL of all CPUs,
 * from call to return; WORK of the task itself, of which SPIN; the latter two
 * without the measured calls within; how many calls have not returned, which
 * are not in TOTAL, WORK and SPIN.
 *
 * A call is seen when the block that it ends is followed by another on this
 * CPU, and its end when its task comes to the instruction behind it. A task is
 * told by the address at which the switching function first loads, which is in
 * its task_struct. An interrupt is charged to the task and call that it
 * interrupts.
 *
 * On the exact clock one thread runs all CPUs: nothing here is locked.
 */
#include "qemu_plugin.h"
#include "until.h"

#define MAX_CPUS 4096
#define MAX_CALLERS 128
/* A loop that waits comes back to its pause within so many instructions. */
#define MAX_ROUND 1000

struct range {
	uint64_t begin, end;
};

/* What calls of a function by a caller cost together. */
struct sum {
	struct sum *next;
	uint64_t caller, callee;
	uint64_t calls, open;
	uint64_t total, work, spin, self_work, self_spin;
};

/* A call that has not returned. */
struct call {
	struct call *outer;
	struct sum *sum;
	uint64_t back;
	uint64_t total, work, spin;
	uint64_t inner_work, inner_spin;
};

struct task {
	struct task *next;
	uint64_t id;
	uint64_t work, spin;
	uint64_t inner_work, inner_spin;
	struct call *top;
};

struct block {
	uint64_t address;
	/* Of a block that ends in a call by a caller; else 0. */
	uint64_t caller, back;
};

static struct cpu {
	struct task *task;
	struct task first;
	uint64_t caller, back;
	bool switches;
	struct task *pause_task;
	uint64_t pause_at, pause_work;
} cpus[MAX_CPUS];

static struct sum *sums[1 << 12];
static struct task *tasks[1 << 12];
static struct range callers[MAX_CALLERS], switching;
static int caller_count;
static uint64_t all, low;
static unsigned int slot(uint64_t address)
{
	return (address * 0x9e3779b97f4a7c15) >> 52;
}

static struct sum *sum_of(uint64_t caller, uint64_t callee)
{
	struct sum **at = &sums[slot(caller ^ (callee << 1))];
	struct sum *sum;

	for (sum = *at; sum; sum = sum->next)
		if (sum->caller == caller && sum->callee == callee)
			return sum;
	sum = zeroed(1, sizeof(*sum));
	sum->caller = caller;
	sum->callee = callee;
	sum->next = *at;
	*at = sum;
	return sum;
}

static struct task *task_of(uint64_t id)
{
	struct task **at = &tasks[slot(id)];
	struct task *task;

	for (task = *at; task; task = task->next)
		if (task->id == id)
			return task;
	task = zeroed(1, sizeof(*task));
	task->id = id;
	task->next = *at;
	*at = task;
	return task;
}

static void begin(struct task *task, uint64_t caller, uint64_t callee,
		  uint64_t back)
{
	struct call *call = zeroed(1, sizeof(*call));

	call->outer = task->top;
	call->sum = sum_of(caller, callee);
	call->back = back;
	call->total = all;
	call->work = task->work;
	call->spin = task->spin;
	task->top = call;
}

static void end(struct task *task, bool returns)
{
	struct call *call = task->top;
	struct call *outer = call->outer;
	struct sum *sum = call->sum;
	uint64_t work = task->work - call->work;
	uint64_t spin = task->spin - call->spin;

	sum->calls++;
	sum->self_work += work - call->inner_work;
	sum->self_spin += spin - call->inner_spin;
	if (returns) {
		sum->total += all - call->total;
		sum->work += work;
		sum->spin += spin;
	} else {
		sum->open++;
	}
	if (outer) {
		outer->inner_work += work;
		outer->inner_spin += spin;
	} else {
		task->inner_work += work;
		task->inner_spin += spin;
	}
	task->top = outer;
	free(call);
}

static void end_all(struct task *task, uint64_t *work, uint64_t *spin)
{
	while (task->top)
		end(task, false);
	*work += task->work - task->inner_work;
	*spin += task->spin - task->inner_spin;
}

#define TAIL "%llu %llu %llu %llu\n"

static void write_sums(void)
{
	FILE *file = opened();
	uint64_t work = 0, spin = 0;

	for (size_t i = 0; i < MAX_CPUS; i++)
		end_all(&cpus[i].first, &work, &spin);
	for (size_t i = 0; i < sizeof(tasks) / sizeof(*tasks); i++)
		for (struct task *task = tasks[i]; task; task = task->next)
			end_all(task, &work, &spin);
	fprintf(file, "all %llu\nlow %llu\nrest %llu %llu\n",
		(unsigned long long)all, (unsigned long long)low,
		(unsigned long long)work, (unsigned long long)spin);
	for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++)
		for (const struct sum *sum = sums[i]; sum; sum = sum->next)
			fprintf(file, "%llx %llx %llu %llu %llu " TAIL,
				(unsigned long long)sum->caller,
				(unsigned long long)sum->callee,
				(unsigned long long)sum->calls,
				(unsigned long long)sum->total,
				(unsigned long long)sum->work,
				(unsigned long long)sum->spin,
				(unsigned long long)sum->self_work,
				(unsigned long long)sum->self_spin,
				(unsigned long long)sum->open);
	closed(file);
}

static struct cpu *cpu_of(unsigned int index)
{
	struct cpu *cpu = &cpus[index % MAX_CPUS];

	if (!cpu->task)
		cpu->task = &cpu->first;
	return cpu;
}

static void runs_low(unsigned int index, void *data)
{
	(void)index;
	(void)data;
	all++;
	low++;
}

static void runs(unsigned int index, void *data)
{
	(void)data;
	all++;
	cpu_of(index)->task->work++;
}

static void pauses(unsigned int index, void *data)
{
	struct cpu *cpu = cpu_of(index);
	struct task *task = cpu->task;
	uint64_t at = (uintptr_t)data;

	if (cpu->pause_task == task && cpu->pause_at == at &&
	    task->work - cpu->pause_work <= MAX_ROUND)
		task->spin += task->work - cpu->pause_work;
	cpu->pause_task = task;
	cpu->pause_at = at;
	cpu->pause_work = task->work;
}

static void loads(unsigned int index, uint32_t info, uint64_t address,
		  void *data)
{
	struct cpu *cpu = cpu_of(index);

	(void)data;
	if (!cpu->switches || qemu_plugin_mem_is_store(info))
		return;
	cpu->switches = false;
	cpu->task = task_of(address);
}

static void block_runs(unsigned int index, void *data)
{
	const struct block *block = data;
	struct cpu *cpu = cpu_of(index);
	struct task *task = cpu->task;

	if (cpu->caller) {
		begin(task, cpu->caller, block->address, cpu->back);
		cpu->pause_task = NULL;
	} else {
		while (task->top && task->top->back == block->address) {
			end(task, true);
			cpu->pause_task = NULL;
		}
	}
	cpu->caller = block->caller;
	cpu->back = block->back;
	if (block->address == switching.begin)
		cpu->switches = true;
}

static bool in(const struct range *range, uint64_t address)
{
	return range->begin <= address && address < range->end;
}

static const unsigned char *bytes_of(const struct qemu_plugin_insn *insn,
				     unsigned char *room, size_t length)
{
	uintptr_t got = qemu_plugin_insn_data(insn, room, length);

	return got > length ? (const unsigned char *)got : room;
}

#define ROOM 16

static bool is_call(const struct qemu_plugin_insn *insn)
{
	unsigned char room[ROOM];
	const unsigned char *bytes = bytes_of(insn, room, sizeof(room));
	const unsigned char *last = bytes + qemu_plugin_insn_size(insn) - 1;

	/* Prefixes: CS, as padding, and REX. */
	while (bytes < last && (*bytes == 0x2e || (*bytes & 0xf0) == 0x40))
		bytes++;
	return *bytes == 0xe8 ||
	       (bytes < last && *bytes == 0xff && (bytes[1] >> 3 & 7) == 2);
}

static bool is_pause(const struct qemu_plugin_insn *insn)
{
	unsigned char room[ROOM];
	const unsigned char *bytes = bytes_of(insn, room, sizeof(room));

	return qemu_plugin_insn_size(insn) == 2 && bytes[0] == 0xf3 &&
	       bytes[1] == 0x90;
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	size_t length = qemu_plugin_tb_n_insns(tb);
	struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, length - 1);
	uint64_t at = qemu_plugin_insn_vaddr(last);
	bool high = qemu_plugin_tb_vaddr(tb) >> 63;
	struct block *block;

	(void)id;
	if (done)
		return;
	if (ends_at(qemu_plugin_tb_vaddr(tb))) {
		write_sums();
		done = true;
		return;
	}
	block = zeroed(1, sizeof(*block));
	block->address = qemu_plugin_tb_vaddr(tb);
	for (int i = 0; i < caller_count; i++) {
		if (in(&callers[i], at) && is_call(last)) {
			block->caller = callers[i].begin;
			block->back = at + qemu_plugin_insn_size(last);
		}
	}
	qemu_plugin_register_vcpu_tb_exec_cb(tb, block_runs, NO_REGISTERS,
					     block);
	for (size_t i = 0; i < length; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t address = qemu_plugin_insn_vaddr(insn);

		qemu_plugin_register_vcpu_insn_exec_cb(
			insn, high ? runs : runs_low, NO_REGISTERS, NULL);
		if (is_pause(insn))
			qemu_plugin_register_vcpu_insn_exec_cb(
				insn, pauses, NO_REGISTERS,
				(void *)(uintptr_t)address);
		if (in(&switching, address))
			qemu_plugin_register_vcpu_mem_cb(
				insn, loads, NO_REGISTERS, BOTH_WAYS, NULL);
	}
}

static struct range range_of(const char *text)
{
	struct range range = { 0, 0 };
	char *rest;

	range.begin = strtoull(text, &rest, 0);
	if (*rest == '-')
		range.end = strtoull(rest + 1, NULL, 0);
	return range;
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++) {
		if (takes(argv[i]))
			continue;
		if (!strncmp(argv[i], "switch=", 7))
			switching = range_of(argv[i] + 7);
		else if (!strncmp(argv[i], "caller=", 7) &&
			 caller_count < MAX_CALLERS)
			callers[caller_count++] = range_of(argv[i] + 7);
	}
	if (!out || !entry || !switching.end || !caller_count) {
		fprintf(stderr, "spans: an argument is missing\n");
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Pin fresh memory for a device, as a virtual machine monitor does that passes
 * one through to a guest, or for io_uring.
 *
 *	pin KEY 4k|thp MIB vfio DEVICE
 *	pin KEY 4k|thp MIB iommufd DEVICE
 *	pin KEY 4k|thp MIB io_uring
 *
 * MIB of memory that was never touched, of pages of that size, are pinned by
 * one call: VFIO_IOMMU_MAP_DMA, IOMMU_IOAS_MAP, or IORING_REGISTER_BUFFERS.
 * DEVICE is a PCI device by its address, such as 0000:00:04.0, which no driver
 * has. It is given to vfio-pci.
 *
 * Results, times in ticks of the raw counter:
 *	KEY.ticks	the call
 *	KEY.pages	how many pages there were, of the base size
 *	KEY.bad_words	words of them that were not zero; none is afterwards
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/vfio.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "files.h"
#include "guest.h"

enum { PAGE = 4096, HUGE = 2 << 20 };

/* Where the area begins for the device. */
#define IOVA (1ULL << 32)

/* What linux/iommufd.h and linux/vfio.h have, of kernels after the C library's.
 */
struct ioas_alloc {
	uint32_t size, flags, out_ioas_id;
};

struct ioas_map {
	uint32_t size, flags, ioas_id, reserved;
	uint64_t user_va, length, iova;
};

struct bind_iommufd {
	uint32_t argsz, flags;
	int32_t iommufd;
	uint32_t out_devid;
	uint64_t token_uuid_ptr;
};

struct attach_iommufd_pt {
	uint32_t argsz, flags, pt_id, pasid;
};

#define IOAS_ALLOC _IO(';', 0x81)
#define IOAS_MAP _IO(';', 0x85)
#define BIND_IOMMUFD _IO(VFIO_TYPE, VFIO_BASE + 18)
#define ATTACH_IOMMUFD_PT _IO(VFIO_TYPE, VFIO_BASE + 19)
enum { FIXED_IOVA = 1, WRITEABLE = 2, READABLE = 4 };

/* The most that io_uring takes as one buffer. */
#define MOST_BUFFER (1UL << 30)
enum { MOST_BUFFERS = 64 };

/* What pins, after all that comes before it. */
struct pin {
	int fd, id;
	struct iovec buffers[MOST_BUFFERS];
};

/* Give a device to vfio-pci. */
static void take(const char *device)
{
	unsigned int vendor, id;
	char path[128], ids[32];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/vendor", device);
	vendor = (unsigned int)strtoul(text_of(path), NULL, 16);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/device", device);
	id = (unsigned int)strtoul(text_of(path), NULL, 16);
	snprintf(ids, sizeof(ids), "%x %x", vendor, id);
	put("/sys/bus/pci/drivers/vfio-pci/new_id", ids);
}

static int open_or_fail(const char *path)
{
	int fd = open(path, O_RDWR);

	if (fd < 0)
		fail(path);
	return fd;
}

static void begin_vfio(struct pin *pin, const char *device)
{
	char path[128], link[256];
	ssize_t length;
	int group;

	take(device);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/iommu_group",
		 device);
	length = readlink(path, link, sizeof(link) - 1);
	if (length < 0)
		fail(path);
	link[length] = '\0';
	snprintf(path, sizeof(path), "/dev/vfio/%s", strrchr(link, '/') + 1);
	group = open_or_fail(path);
	pin->fd = open_or_fail("/dev/vfio/vfio");
	if (ioctl(group, VFIO_GROUP_SET_CONTAINER, &pin->fd) ||
	    ioctl(pin->fd, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU))
		fail("pin: the container");
}

static int pin_vfio(struct pin *pin, char *at, size_t size)
{
	struct vfio_iommu_type1_dma_map dma = {
		.argsz = sizeof(dma),
		.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
		.vaddr = (uintptr_t)at,
		.iova = IOVA,
		.size = size
	};

	return ioctl(pin->fd, VFIO_IOMMU_MAP_DMA, &dma);
}

/* The file of a device that vfio-pci has, by the only entry of its folder. */
static int open_device(const char *device)
{
	struct dirent *entry;
	char path[320];
	DIR *folder;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/vfio-dev",
		 device);
	folder = opendir(path);
	if (!folder)
		fail(path);
	while ((entry = readdir(folder)) && entry->d_name[0] == '.')
		;
	if (!entry)
		fail(path);
	snprintf(path, sizeof(path), "/dev/vfio/devices/%s", entry->d_name);
	closedir(folder);
	return open_or_fail(path);
}

static void begin_iommufd(struct pin *pin, const char *device)
{
	struct ioas_alloc alloc = { .size = sizeof(alloc) };
	struct bind_iommufd bind = { .argsz = sizeof(bind) };
	struct attach_iommufd_pt attach = { .argsz = sizeof(attach) };
	int file;

	take(device);
	pin->fd = open_or_fail("/dev/iommu");
	file = open_device(device);
	bind.iommufd = pin->fd;
	if (ioctl(pin->fd, IOAS_ALLOC, &alloc) ||
	    ioctl(file, BIND_IOMMUFD, &bind))
		fail("pin: iommufd");
	attach.pt_id = alloc.out_ioas_id;
	if (ioctl(file, ATTACH_IOMMUFD_PT, &attach))
		fail("pin: VFIO_DEVICE_ATTACH_IOMMUFD_PT");
	pin->id = (int)alloc.out_ioas_id;
}

static int pin_iommufd(struct pin *pin, char *at, size_t size)
{
	struct ioas_map map = { .size = sizeof(map),
				.flags = FIXED_IOVA | WRITEABLE | READABLE,
				.ioas_id = (uint32_t)pin->id,
				.user_va = (uintptr_t)at,
				.length = size,
				.iova = IOVA };

	return ioctl(pin->fd, IOAS_MAP, &map);
}

static void begin_io_uring(struct pin *pin, const char *device)
{
	struct io_uring_params params = { 0 };

	(void)device;
	pin->fd = (int)syscall(SYS_io_uring_setup, 1, &params);
	if (pin->fd < 0)
		fail("pin: io_uring_setup");
}

static int pin_io_uring(struct pin *pin, char *at, size_t size)
{
	unsigned int buffers = 0;

	for (; size && buffers < MOST_BUFFERS; buffers++) {
		size_t part = size < MOST_BUFFER ? size : MOST_BUFFER;

		pin->buffers[buffers] = (struct iovec){ at, part };
		at += part;
		size -= part;
	}
	return size ? -1
		    : (int)syscall(SYS_io_uring_register, pin->fd,
				   IORING_REGISTER_BUFFERS, pin->buffers,
				   buffers);
}

static const struct {
	const char *name;
	int arguments;
	void (*begin)(struct pin *pin, const char *device);
	int (*pin)(struct pin *pin, char *at, size_t size);
} ways[] = {
	{ "vfio", 6, begin_vfio, pin_vfio },
	{ "iommufd", 6, begin_iommufd, pin_iommufd },
	{ "io_uring", 5, begin_io_uring, pin_io_uring },
};

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* An aligned area of fresh memory, of huge pages or of none. */
static char *area(size_t size, int advice)
{
	char *at = mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		fail("pin: mmap");
	at = (char *)(((uintptr_t)at + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
	if (madvise(at, size, advice))
		fail("pin: madvise");
	return at;
}

int main(int argc, char **argv)
{
	unsigned long bad = 0;
	struct pin pin = { 0 };
	uint64_t ticks, *words;
	size_t size, way = 0;
	char *at;

	while (argc > 4 && way < WAYS && strcmp(ways[way].name, argv[4]))
		way++;
	if (argc < 5 || way == WAYS || argc != ways[way].arguments) {
		fprintf(stderr, "pin: see the comment at the top of pin.c\n");
		return 2;
	}
	ways[way].begin(&pin, argv[5]);
	size = (size_t)atol(argv[3]) << 20;
	at = area(size,
		  strcmp(argv[2], "thp") ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	ticks = counter();
	if (ways[way].pin(&pin, at, size))
		fail("pin: the memory");
	ticks = counter() - ticks;

	words = (uint64_t *)(void *)at;
	for (size_t i = 0; i < size / 8; i++) {
		bad += words[i] != 0;
		words[i] = (i + 1) * 0x9e3779b97f4a7c15;
	}
	printf(RESULT "%s.ticks=%llu\n", argv[1], (unsigned long long)ticks);
	printf(RESULT "%s.pages=%zu\n", argv[1], size / PAGE);
	printf(RESULT "%s.bad_words=%lu\n", argv[1], bad);
	return 0;
}

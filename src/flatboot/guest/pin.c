// SPDX-License-Identifier: GPL-2.0
/*
 * Pin fresh memory for a device, as a virtual machine monitor does that passes
 * one through to a guest.
 *
 *	pin KEY 4k|thp MIB DEVICE
 *
 * DEVICE is a PCI device by its address, such as 0000:00:04.0, which no driver
 * has. It is given to vfio-pci, and MIB of memory that was never touched, of
 * pages of that size, are mapped for it by one call of VFIO_IOMMU_MAP_DMA.
 *
 * Results, times in ticks of the raw counter:
 *	KEY.ticks	the call
 *	KEY.pages	how many pages there were, of the base size
 *	KEY.bad_words	words of them that were not zero; none is afterwards
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/vfio.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "files.h"
#include "guest.h"

enum { PAGE = 4096, HUGE = 2 << 20 };

/* Where the area begins for the device. */
#define IOVA (1ULL << 32)

/* Give a device to vfio-pci; return its group. */
static int group_of(const char *device)
{
	unsigned int vendor, id;
	char path[128], link[256];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/vendor", device);
	vendor = (unsigned int)strtoul(text_of(path), NULL, 16);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/device", device);
	id = (unsigned int)strtoul(text_of(path), NULL, 16);
	snprintf(link, sizeof(link), "%x %x", vendor, id);
	put("/sys/bus/pci/drivers/vfio-pci/new_id", link);

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/iommu_group",
		 device);
	length = readlink(path, link, sizeof(link) - 1);
	if (length < 0)
		fail(path);
	link[length] = '\0';
	snprintf(path, sizeof(path), "/dev/vfio/%s", strrchr(link, '/') + 1);
	fd = open(path, O_RDWR);
	if (fd < 0)
		fail(path);
	return fd;
}

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
	struct vfio_iommu_type1_dma_map dma = { .argsz = sizeof(dma),
						.iova = IOVA };
	int advice, container, group;
	unsigned long bad = 0;
	uint64_t ticks, *words;

	if (argc != 5) {
		fprintf(stderr, "pin: see the comment at the top of pin.c\n");
		return 2;
	}
	advice = strcmp(argv[2], "thp") ? MADV_NOHUGEPAGE : MADV_HUGEPAGE;
	group = group_of(argv[4]);
	container = open("/dev/vfio/vfio", O_RDWR);
	if (container < 0 ||
	    ioctl(group, VFIO_GROUP_SET_CONTAINER, &container) ||
	    ioctl(container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU))
		fail("pin: the container");

	dma.size = (uint64_t)atol(argv[3]) << 20;
	dma.vaddr = (uintptr_t)area(dma.size, advice);
	dma.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE;
	ticks = counter();
	if (ioctl(container, VFIO_IOMMU_MAP_DMA, &dma))
		fail("pin: VFIO_IOMMU_MAP_DMA");
	ticks = counter() - ticks;

	words = (uint64_t *)(uintptr_t)dma.vaddr;
	for (size_t i = 0; i < dma.size / 8; i++) {
		bad += words[i] != 0;
		words[i] = (i + 1) * 0x9e3779b97f4a7c15;
	}
	printf(RESULT "%s.ticks=%llu\n", argv[1], (unsigned long long)ticks);
	printf(RESULT "%s.pages=%llu\n", argv[1],
	       (unsigned long long)dma.size / PAGE);
	printf(RESULT "%s.bad_words=%lu\n", argv[1], bad);
	return 0;
}

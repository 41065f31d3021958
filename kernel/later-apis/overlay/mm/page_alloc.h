/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __MM_PAGE_ALLOC_H
#define __MM_PAGE_ALLOC_H

#include "internal.h"

#endif /* __MM_PAGE_ALLOC_H */

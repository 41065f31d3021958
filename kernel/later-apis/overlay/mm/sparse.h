/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __MM_SPARSE_H
#define __MM_SPARSE_H

#include "internal.h"

#endif /* __MM_SPARSE_H */

/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __MM_MM_INIT_H
#define __MM_MM_INIT_H

#include "internal.h"

#endif /* __MM_MM_INIT_H */

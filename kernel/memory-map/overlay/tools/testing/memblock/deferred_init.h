/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __MM_DEFERRED_INIT_H
#define __MM_DEFERRED_INIT_H

static inline void deferred_init_setup(void)
{
}

static inline void deferred_init_decline(const char *reason)
{
}
#endif /* __MM_DEFERRED_INIT_H */

/* SPDX-License-Identifier: Apache-2.0
 * What the stand-in card offers beyond CUDA's functions, for libraries that find it by name with
 * dlsym: the tests' true values run kernels through it. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Device memory that work reads or writes. */
typedef struct {
  const void* address;
  size_t bytes;
} StandInAccess;

/* Enqueues `work(argument)`, which touches of the card's memory `accesses` alone, or keeps it for
 * the graph that the stream captures: then it is done as often as the graph is launched. Refuses,
 * as a cudaError_t, what touches memory that is not mapped. `drop(argument)` is called once, in
 * every case, when nothing needs it any more. */
int stand_in_launch(void* stream, const StandInAccess* accesses, size_t count,
                    void (*work)(void* argument), void (*drop)(void* argument), void* argument);

/* How far behind a device address lies the memory that work reads and writes for it. */
ptrdiff_t stand_in_distance(void);

/* How many cards there are. */
unsigned stand_in_cards(void);

/* The bytes of the first card's memory that are given out for itself, and the most that ever were
 * for both. */
size_t stand_in_used_bytes(void);
size_t stand_in_peak_bytes(void);

/* The card is lost, as one is after a fault in a kernel: all later calls say why. */
void stand_in_lose(const char* why);

/* The `nth` call of Spillway's, from 1, of a function by cuGetProcAddress's name ends with `code`, a
 * CUresult, and does nothing; with `and_later` all after it, too. PyTorch's own calls go on. `nth` 0
 * changes nothing. Returns how many have failed by now, or -1 where it is not one of Spillway's. */
int stand_in_fail(const char* name, unsigned nth, int code, int and_later);

#ifdef __cplusplus
}
#endif

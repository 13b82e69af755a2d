/*
 * Inputs that are broken as people and programs break them, by their
 * structure: numbers become the ends of their ranges, lines and blocks are
 * repeated by the thousand, brackets nest, names grow.
 */
#ifndef TESTS_FUZZ_MUTATE_H
#define TESTS_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Changes data[0..size), which has place for `most` bytes, in one to three
 * places; returns the new size.  The same seed makes the same changes.
 */
size_t fuzz_mutate(uint8_t *data, size_t size, size_t most, uint64_t seed);

#endif

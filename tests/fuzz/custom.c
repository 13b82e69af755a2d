/*
 * libFuzzer's changes, which know nothing, and those that know the structure,
 * in turn.
 */
#include "tests/fuzz/mutate.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most,
			       unsigned seed);

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most,
			unsigned seed)
{
	if (size == 0 || seed % 2) {
		return LLVMFuzzerMutate(data, size, most);
	}
	return fuzz_mutate(data, size, most, seed);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flip.c - a process that changes words of a session's memory as fast as it can
 *
 * usage: flip FD OFFSET BYTES: of the memory at descriptor FD, words in the BYTES at OFFSET get one of a few values,
 * again and again, until it is killed. It writes "flipping" when it begins.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	static const uint32_t values[] = { 0, 1, 2, 0x00010001, 0x00020005, 0xffffffff, 0x80000000, 0x00010016 };
	size_t offset = argc == 4 ? strtoul(argv[2], NULL, 10) : 0, bytes = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	volatile uint32_t *words;
	uint64_t random = 88172645463325252u;
	void *p;

	if (bytes < sizeof(*words)) {
		fprintf(stderr, "usage: flip FD OFFSET BYTES\n");
		return 2;
	}
	p = mmap(NULL, offset + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, (int)strtol(argv[1], NULL, 10), 0);
	if (p == MAP_FAILED) {
		perror("flip");
		return 1;
	}
	words = (volatile uint32_t *)(void *)((char *)p + offset);
	puts("flipping");
	fflush(stdout);
	for (;;) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		words[random % (bytes / sizeof(*words))] = values[random >> 32 & 7];
	}
}

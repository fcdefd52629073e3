/* SPDX-License-Identifier: Apache-2.0 */
/* attention_matrix.cuh - matrix instructions on 16-bit numbers, and floats as sums of such */
#ifndef SWAKV_ATTENTION_MATRIX_CUH
#define SWAKV_ATTENTION_MATRIX_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* c[16][8] += a[16][16] b[16][8] */
template <bool BF16>
static __device__ __forceinline__ void multiply_add(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
	if (BF16)
		asm volatile(
			"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
			"{%0,%1,%2,%3};"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
			: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
	else
		asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
			     "{%0,%1,%2,%3};"
			     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
			     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four 8 x 8 matrices; lane i names row i % 8 of matrix i / 8. */
static __device__ __forceinline__ void load_matrices(uint32_t r[4], const uint16_t *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"((uint32_t)__cvta_generic_to_shared(row))
		     : "memory");
}

/* Two of them: rows 0 to 7 of a; its rows 8 to 15 are zero. */
static __device__ __forceinline__ void load_upper(uint32_t r[4], const uint16_t *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
		     : "=r"(r[0]), "=r"(r[2])
		     : "r"((uint32_t)__cvta_generic_to_shared(row))
		     : "memory");
	r[1] = r[3] = 0;
}

static __device__ __forceinline__ void load_transposed(uint32_t r[4], const uint16_t *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"((uint32_t)__cvta_generic_to_shared(row))
		     : "memory");
}

/* Rounds both to 16 bits, @a in the lower half, and leaves what is lost. */
template <bool BF16> static __device__ __forceinline__ uint32_t next_part(float *a, float *b)
{
	uint32_t pair;

	if (BF16) {
		__nv_bfloat162 x = __floats2bfloat162_rn(*a, *b);

		*a -= __low2float(x);
		*b -= __high2float(x);
		pair = *(uint32_t *)&x;
	} else {
		__half2 x = __floats2half2_rn(*a, *b);

		*a -= __low2float(x);
		*b -= __high2float(x);
		pair = *(uint32_t *)&x;
	}
	return pair;
}

#endif

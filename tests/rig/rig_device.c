/* SPDX-License-Identifier: Apache-2.0 */
#include "rig_device.h"

int rig_device_init(struct rig_device *v, struct driver *d, struct rig *r)
{
	int rc;

	*v = (struct rig_device){ .d = d, .r = r };
	if ((rc = driver_stream_create(d, &v->stream)) || (rc = driver_alloc(d, r->arrays_bytes, &v->at.arrays)) ||
	    (rc = driver_alloc(d, r->pool_bytes, &v->at.pool)))
		return rc;
	return rig_device_upload(v);
}

int rig_device_deinit(struct rig_device *v)
{
	int rc;

	if ((rc = driver_stream_destroy(v->d, v->stream)) || (rc = driver_free(v->d, v->at.arrays)))
		return rc;
	return driver_free(v->d, v->at.pool);
}

int rig_device_upload(struct rig_device *v)
{
	int rc = driver_copy_to_device(v->d, v->stream, v->at.arrays, v->r->arrays, v->r->arrays_bytes);

	return rc ? rc : driver_stream_synchronize(v->d, v->stream);
}

int rig_device_fill(struct rig_device *v, uint16_t pattern)
{
	struct kernel_fill fill = rig_fill(v->r, v->at, pattern);
	int rc = driver_run_fill(v->d, v->stream, &fill);

	for (int32_t layer = 0; layer < v->r->shape.layers && rc == 0; layer++) {
		struct kernel_kv_write w = rig_kv_write(v->r, v->at, layer);

		rc = driver_run_kv_write(v->d, v->stream, &w);
	}
	return rc ? rc : driver_stream_synchronize(v->d, v->stream);
}

int rig_device_attend(struct rig_device *v, int32_t layer, float *out)
{
	const struct rig_shape *s = &v->r->shape;
	struct kernel_attention a = rig_attention(v->r, v->at, layer);
	size_t bytes = (size_t)s->n_rows * (size_t)s->q_heads * (size_t)s->v_dim * sizeof(float);
	uint64_t workspace = kernel_attention_plan(&a);
	int rc;

	if (v->n_splits) {
		a.n_splits = v->n_splits;
		workspace = (uint64_t)s->n_rows * (uint64_t)s->q_heads * (uint64_t)a.n_splits *
			    ((uint64_t)s->v_dim + 2) * sizeof(float);
	}
	if (workspace && (rc = driver_alloc(v->d, workspace, &a.workspace)))
		return rc;
	/* Junk first: a row that the kernel leaves out must show. */
	if ((rc = driver_fill32(v->d, v->stream, a.out, 0x7fc12345, bytes / 4)) ||
	    (rc = driver_run_attention(v->d, v->stream, &a)) ||
	    (rc = driver_copy_to_host(v->d, v->stream, out, a.out, bytes)) ||
	    (rc = driver_stream_synchronize(v->d, v->stream)))
		return rc;
	return workspace ? driver_free(v->d, a.workspace) : 0;
}

int rig_device_read_pool(struct rig_device *v, void *to, uint64_t offset, uint64_t bytes)
{
	int rc = driver_copy_to_host(v->d, v->stream, to, v->at.pool + offset, bytes);

	return rc ? rc : driver_stream_synchronize(v->d, v->stream);
}

int rig_device_read_arrays(struct rig_device *v, void *to, uint64_t offset, uint64_t bytes)
{
	int rc = driver_copy_to_host(v->d, v->stream, to, v->at.arrays + offset, bytes);

	return rc ? rc : driver_stream_synchronize(v->d, v->stream);
}

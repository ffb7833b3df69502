// Optimisers over all parameters in one launch: a block takes a chunk of the flat arrays, which lies within one tensor.

enum { CHUNK = 4096 };

// The chunk of this block.
struct Chunk {
  i32 tensor;
  i64 start, end;
};

__device__ inline Chunk chunk_of(const i32 *chunk_tensor, const i64 *chunk_start, const i64 *tensor_end) {
  const i32 tensor = chunk_tensor[blockIdx.x];
  const i64 start = chunk_start[blockIdx.x];
  return Chunk{tensor, start, min(start + CHUNK, tensor_end[tensor])};
}

// Calls step(place, count) for all values of the chunk: four at a time where places are multiples of four, else one.
template <class Step>
__device__ inline void walk(Chunk chunk, bool wide, Step step) {
  const i64 head = wide ? min(chunk.end, (chunk.start + 3) / 4 * 4) : chunk.end, packs = (chunk.end - head) / 4;
  for (i64 at = chunk.start + threadIdx.x; at < head; at += THREADS) step(at, 1);
  for (i64 pack = threadIdx.x; pack < packs; pack += THREADS) step(head + 4 * pack, 4);
  for (i64 at = head + 4 * packs + threadIdx.x; at < chunk.end; at += THREADS) step(at, 1);
}

// How rounded copies of parameters are rounded. They are stored as f32, because that is what operations take kernels in.
enum Mirror { NEAREST = 1, STOCHASTIC = 2 };

// As optim::mirror::stochastic: cut off after adding random bits below the last kept one; one hash serves four places.
__device__ inline f32 stochastic(f32 value, i64 at, u64 key) {
  if (!finite(value)) return widen(narrow<bf16>(value));
  const u64 random = mixed(key + (u64)at / 4 + 0x9e3779b97f4a7c15ull);
  return __uint_as_float((__float_as_uint(value) + (u32)(random >> (16 * (at % 4)) & 0xffff)) & 0xffff0000u);
}

// Four values or one, the others 0.
template <class T>
__device__ inline void get(f32 (&to)[4], const T *from, i32 count) {
  if (count == 4) {
    load(to, from);
  } else {
    to[0] = widen(*from);
    to[1] = to[2] = to[3] = 0.0f;
  }
}
template <class T>
__device__ inline void put(T *to, const f32 (&from)[4], i32 count) {
  if (count == 4)
    store(to, from);
  else
    *to = narrow<T>(from[0]);
}

__device__ inline void reflect(f32 *mirror, i32 kind, u64 key, i64 at, const f32 (&values)[4], i32 count) {
  f32 rounded[4];
  for (i32 k = 0; k < 4; k++) rounded[k] = kind == STOCHASTIC ? stochastic(values[k], at + k, key) : widen(narrow<bf16>(values[k]));
  put(mirror + at, rounded, count);
}

__device__ inline f64 squared(const f32 (&values)[4], i32 count) {
  f64 sum = 0.0;
  for (i32 k = 0; k < 4; k++)
    if (k < count) sum += (f64)values[k] * (f64)values[k];
  return sum;
}

#define CHUNKS const i32 *chunk_tensor, const i64 *chunk_start, const i64 *tensor_end

GLOBAL squares_by_chunk(f64 *partial, const f32 *x, CHUNKS) {
  const Chunk chunk = chunk_of(chunk_tensor, chunk_start, tensor_end);
  f64 sum = 0.0;
  walk(chunk, aligned(x), [&](i64 at, i32 count) {
    f32 values[4];
    get(values, x + at, count);
    sum += squared(values, count);
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
EXPORT_KERNEL_WITH_BARRIERS(squares_by_chunk)

// The sum over the chunks of the tensor of this block of one of `per` sums of each.
__device__ inline f64 tensor_sum(const f64 *partial, const i32 *tensor_first, i32 per, i32 which) {
  f64 sum = 0.0;
  for (i32 chunk = tensor_first[blockIdx.x] + threadIdx.x; chunk < tensor_first[blockIdx.x + 1]; chunk += THREADS) sum += partial[(i64)chunk * per + which];
  return block_sum(sum);
}

GLOBAL sums_by_tensor(f64 *out, const f64 *partial, const i32 *tensor_first, i32 tensors) {
  if ((i32)blockIdx.x >= tensors) return;
  const f64 sum = tensor_sum(partial, tensor_first, 1, 0);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
EXPORT_KERNEL_WITH_BARRIERS(sums_by_tensor)

GLOBAL step_factors(f32 *factor, f32 *own_decay, f64 *norm, u32 *skip, const f64 *gradient_squares, const f64 *weight_squares,
                    const f32 *decay, i32 tensors, f32 gradient_scale, f32 clip_norm, f32 eta, f32 epsilon, i32 clip, i32 decoupled, f32 rate,
                    const f32 *rate_factor) {
  f64 sum = 0.0;
  for (i32 i = threadIdx.x; i < tensors; i += THREADS) sum += gradient_squares[i];
  const f64 whole = sqrt(block_sum(sum)) * (f64)gradient_scale;
  if (threadIdx.x == 0) {
    norm[0] = whole;
    // False of what is infinite or no number.
    skip[0] = whole <= 1.7e308 ? 0 : 1;
  }
  f32 scale = gradient_scale;
  if (clip_norm > 0.0f && whole > (f64)clip_norm) scale *= (f32)((f64)clip_norm / whole);
  for (i32 i = threadIdx.x; i < tensors; i += THREADS) {
    f32 by = scale, of_decay = 1.0f;
    if (weight_squares) {
      // LARC: optim::larc. Decay that is a part of the step is scaled as the gradient is.
      const f64 w = sqrt(weight_squares[i]), g = sqrt(gradient_squares[i]) * (f64)scale;
      const f64 of_step = g + (decoupled ? 0.0 : (f64)decay[i] * w);
      f32 local = w > 0.0 && g > 0.0 ? fminf(eta * (f32)(w / of_step), 3.4028234e38f) : epsilon;
      const f32 own_rate = rate * rate_factor[i];
      if (clip) local = own_rate > 0.0f ? fminf(local, own_rate) / own_rate : 0.0f;
      by *= local;
      if (!decoupled) of_decay = local;
    }
    factor[i] = by;
    own_decay[i] = of_decay * decay[i];
  }
}
EXPORT_KERNEL_WITH_BARRIERS(step_factors)

GLOBAL sgd_step(f32 *values, const f32 *gradient, f32 *first, CHUNKS, const f32 *decay, const f32 *factor, f32 momentum, i32 nesterov, f32 rate,
                const f32 *rate_factor, const u32 *skip, f32 *mirror, i32 mirror_kind, u64 key, f64 *squares) {
  if (skip && *skip) return;
  const Chunk chunk = chunk_of(chunk_tensor, chunk_start, tensor_end);
  const f32 shrink = decay[chunk.tensor], by = factor[chunk.tensor], own_rate = rate * rate_factor[chunk.tensor];
  f64 sum = 0.0;
  walk(chunk, aligned(values, gradient, first, mirror), [&](i64 at, i32 count) {
    f32 value[4], g[4], v[4];
    get(value, values + at, count);
    get(g, gradient + at, count);
    get(v, first + at, count);
    for (i32 k = 0; k < 4; k++) {
      const f32 slope = by * g[k] + shrink * value[k];
      v[k] = momentum * v[k] + slope;
      value[k] -= own_rate * (nesterov ? slope + momentum * v[k] : v[k]);
    }
    put(values + at, value, count);
    put(first + at, v, count);
    if (mirror) reflect(mirror, mirror_kind, key, at, value, count);
    sum += squared(value, count);
  });
  if (!squares) return;
  sum = block_sum(sum);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}
EXPORT_KERNEL_WITH_BARRIERS(sgd_step)

GLOBAL adam_step(f32 *values, const f32 *gradient, f32 *first, f32 *second, CHUNKS, const f32 *decay, const f32 *factor, f32 beta1, f32 beta2,
                 f32 epsilon, f32 unbias1, f32 unbias2, f32 rate, const f32 *rate_factor, i32 decoupled, const u32 *skip, f32 *mirror, i32 mirror_kind,
                 u64 key, f64 *squares) {
  if (skip && *skip) return;
  const Chunk chunk = chunk_of(chunk_tensor, chunk_start, tensor_end);
  const f32 own_rate = rate * rate_factor[chunk.tensor];
  const f32 by = factor[chunk.tensor], step_size = own_rate * unbias1, root = sqrtf(unbias2);
  const f32 l2 = decoupled ? 0.0f : decay[chunk.tensor], shrink = decoupled ? 1.0f - own_rate * decay[chunk.tensor] : 1.0f;
  f64 sum = 0.0;
  walk(chunk, aligned(values, gradient, first, second) && aligned(mirror), [&](i64 at, i32 count) {
    f32 value[4], g[4], m[4], v[4];
    get(value, values + at, count);
    get(g, gradient + at, count);
    get(m, first + at, count);
    get(v, second + at, count);
    for (i32 k = 0; k < 4; k++) {
      const f32 slope = by * g[k] + l2 * value[k];
      m[k] = beta1 * m[k] + (1.0f - beta1) * slope;
      v[k] = beta2 * v[k] + (1.0f - beta2) * slope * slope;
      value[k] = shrink * value[k] - step_size * m[k] / (sqrtf(v[k]) * root + epsilon);
    }
    put(values + at, value, count);
    put(first + at, m, count);
    put(second + at, v, count);
    if (mirror) reflect(mirror, mirror_kind, key, at, value, count);
    sum += squared(value, count);
  });
  if (!squares) return;
  sum = block_sum(sum);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}
EXPORT_KERNEL_WITH_BARRIERS(adam_step)

GLOBAL lamb_moments(f32 *direction, f64 *partial, const f32 *values, const f32 *gradient, f32 *first, f32 *second, CHUNKS, const f32 *decay,
                    const f32 *factor, f32 beta1, f32 beta2, f32 beta3, f32 epsilon, f32 unbias1, f32 unbias2, const u32 *skip) {
  if (skip && *skip) return;
  const Chunk chunk = chunk_of(chunk_tensor, chunk_start, tensor_end);
  const f32 by = factor[chunk.tensor], shrink = decay[chunk.tensor];
  f64 of_values = 0.0, of_direction = 0.0;
  walk(chunk, aligned(values, gradient, first, second) && aligned(direction), [&](i64 at, i32 count) {
    f32 value[4], g[4], m[4], v[4], u[4];
    get(value, values + at, count);
    get(g, gradient + at, count);
    get(m, first + at, count);
    get(v, second + at, count);
    for (i32 k = 0; k < 4; k++) {
      const f32 slope = by * g[k];
      m[k] = beta1 * m[k] + beta3 * slope;
      v[k] = beta2 * v[k] + (1.0f - beta2) * slope * slope;
      u[k] = m[k] * unbias1 / (sqrtf(v[k] * unbias2) + epsilon) + shrink * value[k];
    }
    put(first + at, m, count);
    put(second + at, v, count);
    put(direction + at, u, count);
    of_values += squared(value, count);
    of_direction += squared(u, count);
  });
  of_values = block_sum(of_values);
  of_direction = block_sum(of_direction);
  if (threadIdx.x == 0) {
    partial[2 * (i64)blockIdx.x] = of_values;
    partial[2 * (i64)blockIdx.x + 1] = of_direction;
  }
}
EXPORT_KERNEL_WITH_BARRIERS(lamb_moments)

GLOBAL lamb_rates(f32 *rates, const f64 *partial, const i32 *tensor_first, const f32 *decay, f32 rate, const f32 *rate_factor,
                  i32 tensors) {
  if ((i32)blockIdx.x >= tensors) return;
  const f64 of_values = tensor_sum(partial, tensor_first, 2, 0), of_direction = tensor_sum(partial, tensor_first, 2, 1);
  const bool trusts = decay[blockIdx.x] != 0.0f && of_values > 0.0 && of_direction > 0.0;
  if (threadIdx.x == 0) rates[blockIdx.x] = rate * rate_factor[blockIdx.x] * (trusts ? (f32)(sqrt(of_values) / sqrt(of_direction)) : 1.0f);
}
EXPORT_KERNEL_WITH_BARRIERS(lamb_rates)

GLOBAL lamb_apply(f32 *values, const f32 *direction, CHUNKS, const f32 *rates, const u32 *skip, f32 *mirror, i32 mirror_kind, u64 key) {
  if (skip && *skip) return;
  const Chunk chunk = chunk_of(chunk_tensor, chunk_start, tensor_end);
  const f32 rate = rates[chunk.tensor];
  walk(chunk, aligned(values, direction, mirror), [&](i64 at, i32 count) {
    f32 value[4], u[4];
    get(value, values + at, count);
    get(u, direction + at, count);
    for (i32 k = 0; k < 4; k++) value[k] -= rate * u[k];
    put(values + at, value, count);
    if (mirror) reflect(mirror, mirror_kind, key, at, value, count);
  });
}
EXPORT_KERNEL(lamb_apply)

GLOBAL mirror_fill(f32 *mirror, const f32 *values, i64 n, i32 mirror_kind, u64 key) {
  const i64 packs = aligned(mirror, values) ? n / 4 : 0;
  f32 rounded[4];
  FOR_EACH(i, packs) {
    get(rounded, values + 4 * i, 4);
    reflect(mirror, mirror_kind, key, 4 * i, rounded, 4);
  }
  FOR_EACH(i, n - 4 * packs) {
    get(rounded, values + 4 * packs + i, 1);
    reflect(mirror, mirror_kind, key, 4 * packs + i, rounded, 1);
  }
}
EXPORT_KERNEL(mirror_fill)

// optim::average: a share of the way from averages to values.
GLOBAL average_step(f32 *average, const f32 *values, i64 n, f32 share) {
  zip(average, average, values, n, [share](f32 mean, f32 value) { return mean + share * (value - mean); });
}
EXPORT_KERNEL(average_step)

GLOBAL exchange_values(f32 *a, f32 *b, i64 n) {
  const i64 packs = aligned(a, b) ? n / 4 : 0;
  FOR_EACH(i, packs) {
    f32 of_a[4], of_b[4];
    load(of_a, a + 4 * i);
    load(of_b, b + 4 * i);
    store(a + 4 * i, of_b);
    store(b + 4 * i, of_a);
  }
  FOR_EACH(i, n - 4 * packs) {
    const i64 at = 4 * packs + i;
    const f32 of_a = a[at];
    a[at] = b[at];
    b[at] = of_a;
  }
}
EXPORT_KERNEL(exchange_values)

// Channels of pixels: side by side, continued, with a factor each, summed.

// A copy of part of the channels as words of any width: bits as they are. y and x are already at their first.
template <class Word>
__device__ inline void copy_words(void *y, i64 y_c, const void *x, i64 x_c, i64 count, i64 pixels) {
  FOR_EACH(i, pixels * count) {
    i64 at;
    const i64 pixel = divided(i, count, at);
    ((Word *)y)[pixel * y_c + at] = ((const Word *)x)[pixel * x_c + at];
  }
}

// Extents in bytes; the widest words that fit all of them and both addresses.
__device__ inline void copy_channels(void *y, i64 y_c, const void *x, i64 x_c, i64 count, i64 pixels) {
  const u64 all = (u64)y | (u64)x | (u64)(y_c | x_c | count);
  if (all % 16 == 0)
    copy_words<uint4>(y, y_c / 16, x, x_c / 16, count / 16, pixels);
  else if (all % 8 == 0)
    copy_words<uint2>(y, y_c / 8, x, x_c / 8, count / 8, pixels);
  else if (all % 4 == 0)
    copy_words<u32>(y, y_c / 4, x, x_c / 4, count / 4, pixels);
  else
    copy_words<u16>(y, y_c / 2, x, x_c / 2, count / 2, pixels);
}

__device__ inline i32 wrapped(i32 at, i32 extent) {
  const i32 rest = at % extent;
  return rest < 0 ? rest + extent : rest;
}

struct Margins {
  i32 b, h, w, c, top, bottom, left, right, wrap_h, wrap_w;
  __device__ i32 tall() const { return top + h + bottom; }
  __device__ i32 wide() const { return left + w + right; }
};

template <i32 V, class T>
__device__ inline void pad(T *y, const T *x, Margins m) {
  const i32 tall = m.tall(), wide = m.wide(), lanes = m.c / V;
  FOR_EACH(i, (i64)m.b * tall * wide * lanes) {
    i32 lane, column, row;
    const i64 pixel = divided(i, lanes, lane), line = divided(pixel, wide, column), sample = divided(line, tall, row);
    i32 at_h = row - m.top, at_w = column - m.left;
    if (m.wrap_h) at_h = wrapped(at_h, m.h);
    if (m.wrap_w) at_w = wrapped(at_w, m.w);
    f32 values[V] = {};
    if (at_h >= 0 && at_h < m.h && at_w >= 0 && at_w < m.w)
      load(values, x + ((sample * m.h + at_h) * m.w + at_w) * m.c + lane * V);
    store(y + i * V, values);
  }
}

// The first position of the continued axis that shows position `at`, and the step to the next.
__device__ inline i32 first_shown(i32 at, i32 before, i32 extent, bool wraps) {
  return wraps ? wrapped(at + before, extent) : at + before;
}

template <i32 V, class T>
__device__ inline void pad_backward(T *dx, const T *dy, Margins m) {
  const i32 tall = m.tall(), wide = m.wide(), lanes = m.c / V;
  FOR_EACH(i, (i64)m.b * m.h * m.w * lanes) {
    i32 lane, column, row;
    const i64 pixel = divided(i, lanes, lane), line = divided(pixel, m.w, column), sample = divided(line, m.h, row);
    f32 sum[V] = {};
    for (i32 p = first_shown(row, m.top, m.h, m.wrap_h); p < tall; p += m.wrap_h ? m.h : tall) {
      for (i32 q = first_shown(column, m.left, m.w, m.wrap_w); q < wide; q += m.wrap_w ? m.w : wide) {
        f32 grad[V];
        load(grad, dy + ((sample * tall + p) * wide + q) * m.c + lane * V);
        for (i32 k = 0; k < V; k++) sum[k] += grad[k];
      }
    }
    store(dx + i * V, sum);
  }
}

template <i32 V, class T>
__device__ inline void prelu(T *y, const T *x, const f32 *slope, i64 pixels, i32 c) {
  f32 factor[V];
  each_pixel<V, 4, Pack<T, V>>(
      pixels, c, [&](i32 channel) { load(factor, slope + channel); }, [&](Pack<T, V> &v, i64 at) { v.fetch(x + at); },
      [&](const Pack<T, V> &v, i64 at) {
        f32 values[V];
        v.widen_to(values);
        for (i32 k = 0; k < V; k++)
          if (!(values[k] > 0.0f)) values[k] *= factor[k];
        store(y + at, values);
      });
}

// Writes dx on the way.
template <class T, i32 V>
struct PreluTerm {
  T *dx;
  const T *dy, *x;
  const f32 *slope;
  i32 c;
  f32 factor[V];
  __device__ void begin(i32 channel, i64) { load(factor, slope + channel); }
  enum { BATCH = 4 };
  struct Values {
    f32 grad[V], value[V];
  };
  __device__ void read(Values &v, i64 pixel, i32 channel) {
    load(v.grad, dy + pixel * c + channel);
    load(v.value, x + pixel * c + channel);
  }
  __device__ void add(Values &v, i64 pixel, i32 channel, f32 (&part)[1][V]) {
    for (i32 k = 0; k < V; k++) {
      if (!(v.value[k] > 0.0f)) {
        part[0][k] += v.grad[k] * v.value[k];
        v.grad[k] *= factor[k];
      }
    }
    store(dx + pixel * c + channel, v.grad);
  }
  __device__ void end(f64 (&)[1][V], i64) {}
};

template <i32 V, class T>
__device__ inline void gate(T *y, const T *x, const T *z, i32 b, i64 pixels, i32 c) {
  const i64 sample_values = pixels * (c / V);
  FOR_EACH(i, b * sample_values) {
    i32 lane;
    i64 place;
    divided(i, c / V, lane);
    const i64 sample = divided(i, sample_values, place);
    f32 values[V], gates[V];
    load(values, x + i * V);
    load(gates, z + sample * c + lane * V);
    for (i32 k = 0; k < V; k++) values[k] *= sigmoid(gates[k]);
    store(y + i * V, values);
  }
}

template <class T, i32 V>
struct ProductTerm {
  const T *a, *b;
  i32 c;
  __device__ void begin(i32, i64) {}
  enum { BATCH = 4 };
  struct Values {
    f32 left[V], right[V];
  };
  __device__ void read(Values &v, i64 pixel, i32 channel) {
    load(v.left, a + pixel * c + channel);
    load(v.right, b + pixel * c + channel);
  }
  __device__ void add(const Values &v, i64, i32, f32 (&part)[1][V]) {
    for (i32 k = 0; k < V; k++) part[0][k] += v.left[k] * v.right[k];
  }
  __device__ void end(f64 (&)[1][V], i64) {}
};

template <class T, i32 V>
struct ValueTerm {
  const T *x;
  i32 c;
  __device__ void begin(i32, i64) {}
  enum { BATCH = 4 };
  struct Values {
    f32 value[V];
  };
  __device__ void read(Values &v, i64 pixel, i32 channel) { load(v.value, x + pixel * c + channel); }
  __device__ void add(const Values &v, i64, i32, f32 (&part)[1][V]) {
    for (i32 k = 0; k < V; k++) part[0][k] += v.value[k];
  }
  __device__ void end(f64 (&)[1][V], i64) {}
};

template <i32 V, class T>
__device__ inline void spread(T *dx, const T *dy, i32 b, i64 pixels, i32 c, f32 factor) {
  const i64 sample_values = pixels * (c / V);
  FOR_EACH(i, b * sample_values) {
    i32 lane;
    i64 place;
    divided(i, c / V, lane);
    f32 values[V];
    load(values, dy + divided(i, sample_values, place) * c + lane * V);
    for (i32 k = 0; k < V; k++) values[k] *= factor;
    store(dx + i * V, values);
  }
}

#define KERNELS(S, T)                                                                                                  \
  GLOBAL copy_channels_##S(T *y, i64 y_c, i64 y_first, const T *x, i64 x_c, i64 x_first,           \
                                               i64 count, i64 pixels) {                                                \
    const i64 size = sizeof(T);                                                                                        \
    copy_channels(y + y_first, y_c * size, x + x_first, x_c * size, count * size, pixels);                             \
  }                                                                                                                    \
  EXPORT_KERNEL(copy_channels_##S)                                                                                     \
  GLOBAL pad_##S(T *y, const T *x, i32 b, i32 h, i32 w, i32 c, i32 top, i32 bottom, i32 left,      \
                                     i32 right, i32 wrap_h, i32 wrap_w) {                                              \
    const i32 V = Wide<T>::VALUES;                                                                                     \
    const Margins m = {b, h, w, c, top, bottom, left, right, wrap_h, wrap_w};                                          \
    if (c % V == 0 && aligned(y, x))                                                                                   \
      pad<V>(y, x, m);                                                                                                 \
    else                                                                                                               \
      pad<1>(y, x, m);                                                                                                 \
  }                                                                                                                    \
  EXPORT_KERNEL(pad_##S)                                                                                               \
  GLOBAL pad_backward_##S(T *dx, const T *dy, i32 b, i32 h, i32 w, i32 c, i32 top, i32 bottom,     \
                                              i32 left, i32 right, i32 wrap_h, i32 wrap_w) {                           \
    const i32 V = Wide<T>::VALUES;                                                                                     \
    const Margins m = {b, h, w, c, top, bottom, left, right, wrap_h, wrap_w};                                          \
    if (c % V == 0 && aligned(dx, dy))                                                                                 \
      pad_backward<V>(dx, dy, m);                                                                                      \
    else                                                                                                               \
      pad_backward<1>(dx, dy, m);                                                                                      \
  }                                                                                                                    \
  EXPORT_KERNEL(pad_backward_##S)                                                                                      \
  GLOBAL prelu_##S(T *y, const T *x, const f32 *slope, i64 pixels, i32 c) {                        \
    const i32 V = Wide<T>::VALUES;                                                                                     \
    if (c % V == 0 && aligned(y, x, slope))                                                                            \
      prelu<V>(y, x, slope, pixels, c);                                                                                \
    else                                                                                                               \
      prelu<1>(y, x, slope, pixels, c);                                                                                \
  }                                                                                                                    \
  EXPORT_KERNEL(prelu_##S)                                                                                             \
  SUMMING                                                                    \
      prelu_backward_##S(T *dx, f64 *partial, const T *dy, const T *x, const f32 *slope, i64 pixels, i32 c) {          \
    const i32 V = Wide<T>::VALUES;                                                                                     \
    if (c % V == 0 && aligned(dx, dy, x, slope))                                                                       \
      sum_channels<V, 1>(partial, pixels, c, PreluTerm<T, V>{dx, dy, x, slope, c});                                    \
    else                                                                                                               \
      sum_channels<1, 1>(partial, pixels, c, PreluTerm<T, 1>{dx, dy, x, slope, c});                                    \
  }                                                                                                                    \
  EXPORT_KERNEL_WITH_BARRIERS(prelu_backward_##S)                                                                      \
  GLOBAL gate_##S(T *y, const T *x, const T *z, i32 b, i64 pixels, i32 c) {                        \
    const i32 V = Wide<T>::VALUES;                                                                                     \
    if (c % V == 0 && aligned(y, x, z))                                                                                \
      gate<V>(y, x, z, b, pixels, c);                                                                                  \
    else                                                                                                               \
      gate<1>(y, x, z, b, pixels, c);                                                                                  \
  }                                                                                                                    \
  EXPORT_KERNEL(gate_##S)                                                                                              \
  SUMMING                                                                    \
      gate_sums_##S(f64 *partial, const T *dy, const T *x, i64 pixels, i32 c) {                                        \
    const i32 V = Wide<T>::VALUES;                                                                                     \
    dy += blockIdx.z * pixels * c, x += blockIdx.z * pixels * c;                                                       \
    if (c % V == 0 && aligned(dy, x))                                                                                  \
      sum_channels<V, 1>(partial, pixels, c, ProductTerm<T, V>{dy, x, c});                                             \
    else                                                                                                               \
      sum_channels<1, 1>(partial, pixels, c, ProductTerm<T, 1>{dy, x, c});                                             \
  }                                                                                                                    \
  EXPORT_KERNEL_WITH_BARRIERS(gate_sums_##S)                                                                           \
  GLOBAL gate_finish_##S(T *dz, const f64 *partial, const T *z, i32 chunks, i32 c) {               \
    f64 sums[1];                                                                                                       \
    i32 channel;                                                                                                       \
    if (add_chunks(sums, partial, chunks, c, channel)) {                                                               \
      const i64 at = (i64)blockIdx.y * c + channel;                                                                    \
      const f32 open = sigmoid(widen(z[at]));                                                                          \
      dz[at] = narrow<T>((f32)(sums[0] * (f64)(open * (1.0f - open))));                                                \
    }                                                                                                                  \
  }                                                                                                                    \
  EXPORT_KERNEL_WITH_BARRIERS(gate_finish_##S)                                                                         \
  SUMMING                                                                    \
      channel_sums_##S(f64 *partial, const T *x, i64 pixels, i32 c) {                                                  \
    const i32 V = Wide<T>::VALUES;                                                                                     \
    x += blockIdx.z * pixels * c;                                                                                      \
    if (c % V == 0 && aligned(x))                                                                                      \
      sum_channels<V, 1>(partial, pixels, c, ValueTerm<T, V>{x, c});                                                   \
    else                                                                                                               \
      sum_channels<1, 1>(partial, pixels, c, ValueTerm<T, 1>{x, c});                                                   \
  }                                                                                                                    \
  EXPORT_KERNEL_WITH_BARRIERS(channel_sums_##S)                                                                        \
  GLOBAL sums_finish_##S(T *out, const f64 *partial, i32 chunks, i32 c, f32 factor,                \
                                             i32 accumulate) {                                                         \
    f64 sums[1];                                                                                                       \
    i32 channel;                                                                                                       \
    if (add_chunks(sums, partial, chunks, c, channel)) {                                                               \
      const i64 at = (i64)blockIdx.y * c + channel;                                                                    \
      const f32 sum = (f32)(sums[0] * (f64)factor);                                                                    \
      out[at] = narrow<T>(accumulate ? widen(out[at]) + sum : sum);                                                    \
    }                                                                                                                  \
  }                                                                                                                    \
  EXPORT_KERNEL_WITH_BARRIERS(sums_finish_##S)                                                                         \
  GLOBAL spread_##S(T *dx, const T *dy, i32 b, i64 pixels, i32 c, f32 factor) {                    \
    const i32 V = Wide<T>::VALUES;                                                                                     \
    if (c % V == 0 && aligned(dx, dy))                                                                                 \
      spread<V>(dx, dy, b, pixels, c, factor);                                                                         \
    else                                                                                                               \
      spread<1>(dx, dy, b, pixels, c, factor);                                                                         \
  }                                                                                                                    \
  EXPORT_KERNEL(spread_##S)
EACH_STORAGE(KERNELS)

// Convolutions with one kernel per channel. A block holds the weights of its channels in shared memory and walks over pixels.

// Channels of a block at once, and the largest kernel (7x7) that its shared memory holds.
enum { TILE = 64, TAPS = 49 };

// How the threads of a block share a tile of channels: `across` of them, V channels each, and `down` pixels at once.
template <i32 V>
struct Tile {
  i32 across, down, lane, row, lanes;
  __device__ explicit Tile(i32 c) {
    const i32 most = V == 1 ? 32 : TILE / V, thread = threadIdx.x;
    lanes = c / V;
    across = 1;
    while (across < lanes && across < most) across *= 2;
    down = THREADS / across;
    lane = thread % across;
    row = thread / across;
  }
};

// Weights of one tile as [tap][channel of the tile].
struct Weights {
  const f32 *values;
  const f32 *shared;
  i32 taps, first;
  template <i32 V>
  __device__ void read(f32 (&to)[V], i32 tap, i32 channel) const {
    if (taps <= TAPS)
      load(to, shared + tap * TILE + channel - first);
    else
      for (i32 k = 0; k < V; k++) to[k] = values[(i64)(channel + k) * taps + tap];
  }
};

__device__ inline Weights of_tile(const f32 *weights, i32 taps, i32 first, i32 count, i32 c) {
  __shared__ __align__(16) f32 shared[TAPS * TILE];
  __syncthreads();
  if (taps <= TAPS)
    for (i32 i = threadIdx.x; i < taps * count; i += THREADS)
      if (first + i / taps < c) shared[i % taps * TILE + i / taps] = weights[(i64)first * taps + i];
  __syncthreads();
  return Weights{weights, shared, taps, first};
}

template <i32 V, class T>
__device__ inline void forward(T *y, const T *x, const f32 *weights, const f32 *bias, bool relu, Geometry g) {
  const Tile<V> tile(g.c);
  const i32 kh = g.kh, kw = g.kw;
  const i64 pixels = (i64)g.b * g.p * g.q;
  for (i32 first = blockIdx.x * tile.across; first < tile.lanes; first += gridDim.x * tile.across) {
    const Weights w = of_tile(weights, kh * kw, first * V, tile.across * V, g.c);
    if (first + tile.lane >= tile.lanes) continue;
    const i32 channel = (first + tile.lane) * V;
    f32 start[V] = {};
    if (bias)
      for (i32 k = 0; k < V; k++) start[k] = bias[channel + k];
    for (i64 pixel = (i64)blockIdx.y * tile.down + tile.row; pixel < pixels; pixel += (i64)gridDim.y * tile.down) {
      i32 q, p;
      const i64 line = divided(pixel, g.q, q), sample = divided(line, g.p, p);
      f32 sum[V];
      for (i32 k = 0; k < V; k++) sum[k] = start[k];
      for (i32 r = 0; r < kh; r++) {
        const i32 at_h = g.row(p, r);
        if (at_h < 0) continue;
        for (i32 s = 0; s < kw; s++) {
          const i32 at_w = g.column(q, s);
          if (at_w < 0) continue;
          f32 values[V], factors[V];
          load(values, x + ((sample * g.h + at_h) * g.w + at_w) * g.c + channel);
          w.read(factors, r * kw + s, channel);
          for (i32 k = 0; k < V; k++) sum[k] += values[k] * factors[k];
        }
      }
      if (relu)
        for (i32 k = 0; k < V; k++) sum[k] = rectified(sum[k]);
      store(y + pixel * g.c + channel, sum);
    }
  }
}

template <i32 V, class T>
__device__ inline void backward_data(T *dx, const T *dy, const f32 *weights, Geometry g) {
  const Tile<V> tile(g.c);
  const i32 kh = g.kh, kw = g.kw;
  const i64 pixels = (i64)g.b * g.h * g.w;
  for (i32 first = blockIdx.x * tile.across; first < tile.lanes; first += gridDim.x * tile.across) {
    const Weights w = of_tile(weights, kh * kw, first * V, tile.across * V, g.c);
    if (first + tile.lane >= tile.lanes) continue;
    const i32 channel = (first + tile.lane) * V;
    for (i64 pixel = (i64)blockIdx.y * tile.down + tile.row; pixel < pixels; pixel += (i64)gridDim.y * tile.down) {
      i32 column, row;
      const i64 line = divided(pixel, g.w, column), sample = divided(line, g.h, row);
      f32 sum[V] = {};
      for (i32 r = 0; r < kh; r++) {
        g.rows_reading(row, r, [&](i32 p) {
          for (i32 s = 0; s < kw; s++) {
            g.columns_reading(column, s, [&](i32 q) {
              f32 grad[V], factors[V];
              load(grad, dy + ((sample * g.p + p) * g.q + q) * g.c + channel);
              w.read(factors, r * kw + s, channel);
              for (i32 k = 0; k < V; k++) sum[k] += grad[k] * factors[k];
            });
          }
        });
      }
      store(dx + pixel * g.c + channel, sum);
    }
  }
}

// Taps s .. s + S of kernel row r, summed over the pixels of this block's chunk (block y).
template <i32 V, i32 S, class T>
__device__ inline void filter_taps(f64 *partial, const T *x, const T *dy, i32 r, i32 s, Geometry g) {
  f64 *shared = scratch();
  const Tile<V> tile(g.c);
  const i32 thread = threadIdx.x;
  const i64 pixels = (i64)g.b * g.p * g.q;
  const i64 start = pixels * blockIdx.y / gridDim.y, end = pixels * (blockIdx.y + 1) / gridDim.y;
  for (i32 first = blockIdx.x * tile.across; first < tile.lanes; first += gridDim.x * tile.across) {
    const bool real = first + tile.lane < tile.lanes;
    const i32 channel = (first + tile.lane) * V;
    f32 sum[S][V] = {};
    for (i64 pixel = start + tile.row; real && pixel < end; pixel += tile.down) {
      i32 q, p;
      const i64 line = divided(pixel, g.q, q), sample = divided(line, g.p, p);
      const i32 at_h = g.row(p, r);
      if (at_h < 0) continue;
      f32 grad[V];
      load(grad, dy + pixel * g.c + channel);
#pragma unroll
      for (i32 t = 0; t < S; t++) {
        const i32 at_w = g.column(q, s + t);
        if (at_w < 0) continue;
        f32 values[V];
        load(values, x + ((sample * g.h + at_h) * g.w + at_w) * g.c + channel);
        for (i32 k = 0; k < V; k++) sum[t][k] += values[k] * grad[k];
      }
    }
#pragma unroll
    for (i32 t = 0; t < S; t++) {
      __syncthreads();
      for (i32 k = 0; k < V; k++) shared[k * THREADS + thread] = sum[t][k];
      for (i32 half = tile.down / 2; half > 0; half /= 2) {
        __syncthreads();
        if (tile.row < half)
          for (i32 k = 0; k < V; k++) shared[k * THREADS + thread] += shared[k * THREADS + thread + half * tile.across];
      }
      const i64 tap = (i64)blockIdx.y * g.kh * g.kw + r * g.kw + s + t;
      if (tile.row == 0 && real)
        for (i32 k = 0; k < V; k++) partial[tap * g.c + channel + k] = shared[k * THREADS + thread];
    }
  }
}

template <i32 V, class T>
__device__ inline void backward_filter(f64 *partial, const T *x, const T *dy, Geometry g) {
  for (i32 r = blockIdx.z; r < g.kh; r += gridDim.z) {
    if (g.kw == 3)
      filter_taps<V, 3>(partial, x, dy, r, 0, g);
    else if (g.kw == 5)
      filter_taps<V, 5>(partial, x, dy, r, 0, g);
    else
      for (i32 s = 0; s < g.kw; s++) filter_taps<V, 1>(partial, x, dy, r, s, g);
  }
}

#define KERNELS(S, T)                                                                                      \
  GLOBAL depthwise_##S(T *y, const T *x, const f32 *weights, const f32 *bias, GEOMETRY, i32 relu) {            \
    const i32 V = Wide<T>::VALUES;                                                                         \
    const Geometry g = {b, h, w, c, p, q, kh, kw, stride, dilation, pad_h, pad_w, periodic};               \
    if (c % V == 0 && aligned(y, x))                                                                       \
      forward<V>(y, x, weights, bias, relu, g);                                                            \
    else                                                                                                   \
      forward<1>(y, x, weights, bias, relu, g);                                                            \
  }                                                                                                        \
  EXPORT_KERNEL_WITH_BARRIERS(depthwise_##S)                                                               \
  GLOBAL depthwise_backward_data_##S(T *dx, const T *dy, const f32 *weights, GEOMETRY) {                   \
    const i32 V = Wide<T>::VALUES;                                                                         \
    const Geometry g = {b, h, w, c, p, q, kh, kw, stride, dilation, pad_h, pad_w, periodic};               \
    if (c % V == 0 && aligned(dx, dy))                                                                     \
      backward_data<V>(dx, dy, weights, g);                                                                \
    else                                                                                                   \
      backward_data<1>(dx, dy, weights, g);                                                                \
  }                                                                                                        \
  EXPORT_KERNEL_WITH_BARRIERS(depthwise_backward_data_##S)                                                 \
  SUMMING depthwise_backward_filter_##S(f64 *partial, const T *x, const T *dy, GEOMETRY) {                 \
    const i32 V = Wide<T>::VALUES;                                                                         \
    const Geometry g = {b, h, w, c, p, q, kh, kw, stride, dilation, pad_h, pad_w, periodic};               \
    if (c % V == 0 && aligned(x, dy))                                                                      \
      backward_filter<V>(partial, x, dy, g);                                                               \
    else                                                                                                   \
      backward_filter<1>(partial, x, dy, g);                                                               \
  }                                                                                                        \
  EXPORT_KERNEL_WITH_BARRIERS(depthwise_backward_filter_##S)
EACH_STORAGE(KERNELS)

GLOBAL depthwise_filter_finish(f32 *dw, const f64 *partial, i32 chunks, i32 c, i32 taps) {
  f64 sums[1];
  i32 at;
  // A chunk's sums lie as (tap, channel).
  if (add_chunks(sums, partial, chunks, c * taps, at)) dw[(i64)(at % c) * taps + at / c] += (f32)sums[0];
}
EXPORT_KERNEL_WITH_BARRIERS(depthwise_filter_finish)

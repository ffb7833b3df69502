// Convolutions with one kernel per channel. A block holds the weights of its channels in shared memory and walks over pixels.

struct Geometry {
  i32 b, h, w, c, p, q, kh, kw, stride, dilation, pad_h, pad_w, periodic;
  __device__ i32 row(i32 output, i32 r) const { return source(output, stride, r * dilation, pad_h, h, false); }
  __device__ i32 column(i32 output, i32 s) const { return source(output, stride, s * dilation, pad_w, w, periodic); }
  template <class Visit>
  __device__ void rows_reading(i32 at, i32 r, Visit visit) const {
    readers(at, stride, r * dilation, pad_h, h, p, false, visit);
  }
  template <class Visit>
  __device__ void columns_reading(i32 at, i32 s, Visit visit) const {
    readers(at, stride, s * dilation, pad_w, w, q, periodic, visit);
  }
};

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

// 3 x 3 kernels of stride 1 and 2, which is what networks have. A thread keeps to four channels of one column and walks down its rows: where it reads is
// computed once for a column, a row is read once for the three outputs that see it, and the next row is on its way meanwhile.
enum { FOUR = 4, LANES = TILE / FOUR, COLUMNS = THREADS / LANES, RUN = 12 };

// Whether the functions below are for it; accesses are of 8 or 16 bytes.
__device__ inline bool walked(const Geometry &g) {
  return g.kh == 3 && g.kw == 3 && g.stride <= 2 && g.c % FOUR == 0 && (!g.periodic || (g.q - 1) * g.stride < g.w);
}

template <class T>
using Four = Pack<T, FOUR>;

// One walk: rows `first`, `first` + step, ... of one column of one sample, `count` of them. The threads of a block with the same lane have columns
// side by side and the same rows. What the walks of a block together are is a unit.
struct Walk {
  i32 sample, column, first, step, count;
  __device__ static i32 units(i32 samples, i32 rows, i32 columns, i32 step) {
    const i32 runs = ((rows + step - 1) / step + RUN - 1) / RUN;
    return (samples * columns + COLUMNS - 1) / COLUMNS * step * runs;
  }
  // False if the thread has none in it.
  __device__ bool start(i32 unit, i32 samples, i32 rows, i32 columns, i32 by) {
    const i32 sides = (samples * columns + COLUMNS - 1) / COLUMNS;
    const i32 at = unit % sides * COLUMNS + (i32)threadIdx.x / LANES, part = unit / sides;
    sample = at / columns;
    column = at % columns;
    step = by;
    first = part % by + part / by * by * RUN;
    count = min((i32)RUN, (rows - first + by - 1) / by);
    return sample < samples && count > 0;
  }
};

// Reads three columns of any row: where they lie in a row, or that they lie outside.
template <class T>
struct Columns {
  const T *from;
  i64 line;
  i32 rows, places[3];
  __device__ void read(Four<T> (&to)[3], i32 row) const {
    const bool inside = row >= 0 && row < rows;
    const T *at = from + row * line;
#pragma unroll
    for (i32 s = 0; s < 3; s++)
      if (inside && places[s] >= 0)
        to[s].fetch(at + places[s]);
      else
        to[s].clear();
  }
};

// What the outputs of a column read.
template <class T>
__device__ inline Columns<T> columns_of(const T *x, const Geometry &g, const Walk &walk, i32 channel) {
  Columns<T> columns = {x + (i64)walk.sample * g.h * g.w * g.c + channel, (i64)g.w * g.c, g.h, {}};
#pragma unroll
  for (i32 s = 0; s < 3; s++) {
    const i32 at = g.column(walk.column, s);
    columns.places[s] = at < 0 ? -1 : at * g.c;
  }
  return columns;
}

// Adds a row of a 3 x 3 kernel.
__device__ inline void add_row(f32 (&sum)[FOUR], const f32 (&values)[3][FOUR], const f32 (&weights)[9][FOUR], i32 r) {
#pragma unroll
  for (i32 s = 0; s < 3; s++)
    for (i32 k = 0; k < FOUR; k++) sum[k] += values[s][k] * weights[3 * r + s][k];
}

template <class T>
__device__ inline void widen_row(f32 (&values)[3][FOUR], const Four<T> (&raw)[3]) {
#pragma unroll
  for (i32 s = 0; s < 3; s++) raw[s].widen_to(values[s]);
}

template <class T>
__device__ inline void finish(T *to, f32 (&sum)[FOUR], bool relu) {
  if (relu)
    for (i32 k = 0; k < FOUR; k++) sum[k] = rectified(sum[k]);
  store(to, sum);
}

// Stride 1: the row that comes in is the last of one output, the middle of the next and the first of the one after.
template <class T>
__device__ inline void slide(
    T *y, const T *x, const f32 (&weights)[9][FOUR], const f32 (&start)[FOUR], bool relu, const Geometry &g, const Walk &walk,
    i32 channel
) {
  const Columns<T> columns = columns_of(x, g, walk, channel);
  const i64 line = (i64)g.q * g.c;
  T *to = y + (((i64)walk.sample * g.p + walk.first) * g.q + walk.column) * g.c + channel;
  Four<T> ahead[3], after[3];
  i32 row = walk.first - g.pad_h;
  columns.read(ahead, row);
  columns.read(after, row += g.dilation);
  f32 last[FOUR], middle[FOUR];
  for (i32 k = 0; k < FOUR; k++) last[k] = middle[k] = start[k];
#pragma unroll 2
  for (i32 at = -2; at < walk.count; at++) {
    f32 values[3][FOUR], next[FOUR];
    widen_row(values, ahead);
#pragma unroll
    for (i32 s = 0; s < 3; s++) ahead[s] = after[s];
    if (at + 2 < walk.count) columns.read(after, row += g.dilation);
    add_row(last, values, weights, 2);
    add_row(middle, values, weights, 1);
    for (i32 k = 0; k < FOUR; k++) next[k] = start[k];
    add_row(next, values, weights, 0);
    if (at >= 0) {
      finish(to, last, relu);
      to += line * walk.step;
    }
    for (i32 k = 0; k < FOUR; k++) last[k] = middle[k], middle[k] = next[k];
  }
}

// Any stride: nine reads for an output.
template <class T>
__device__ inline void leap(
    T *y, const T *x, const f32 (&weights)[9][FOUR], const f32 (&start)[FOUR], bool relu, const Geometry &g, const Walk &walk,
    i32 channel
) {
  const Columns<T> columns = columns_of(x, g, walk, channel);
  for (i32 at = 0; at < walk.count; at++) {
    const i32 p = walk.first + at * walk.step;
    Four<T> raw[3][3];
#pragma unroll
    for (i32 r = 0; r < 3; r++) columns.read(raw[r], p * g.stride - g.pad_h + r * g.dilation);
    f32 sum[FOUR];
    for (i32 k = 0; k < FOUR; k++) sum[k] = start[k];
#pragma unroll
    for (i32 r = 0; r < 3; r++) {
      f32 values[3][FOUR];
      widen_row(values, raw[r]);
      add_row(sum, values, weights, r);
    }
    finish(y + (((i64)walk.sample * g.p + p) * g.q + walk.column) * g.c + channel, sum, relu);
  }
}

// The rows of outputs that stand `dilation` apart share what they read; with a stride all rows are one walk's.
__device__ inline i32 stepping(const Geometry &g) { return g.stride == 1 ? g.dilation : 1; }

// Calls visit(weights, channel) for each tile of channels of this block. `turned` weights are those of the gradient.
template <class Visit>
__device__ inline void each_tile(const f32 *weights, const Geometry &g, bool turned, Visit visit) {
  const i32 lane = (i32)threadIdx.x % LANES;
  for (i32 first = blockIdx.x * TILE; first < g.c; first += gridDim.x * TILE) {
    const Weights shared = of_tile(weights, 9, first, TILE, g.c);
    const i32 channel = first + lane * FOUR;
    if (channel >= g.c) continue;
    f32 own[9][FOUR];
#pragma unroll
    for (i32 tap = 0; tap < 9; tap++) shared.read(own[tap], turned ? 8 - tap : tap, channel);
    visit(own, channel);
  }
}

template <class T>
__device__ inline void walk_forward(T *y, const T *x, const f32 *weights, const f32 *bias, bool relu, bool turned, const Geometry &g) {
  const i32 step = stepping(g), units = Walk::units(g.b, g.p, g.q, step);
  each_tile(weights, g, turned, [&](const f32 (&own)[9][FOUR], i32 channel) {
    f32 start[FOUR] = {};
    if (bias)
      for (i32 k = 0; k < FOUR; k++) start[k] = bias[channel + k];
    Walk walk;
    for (i32 unit = blockIdx.y; unit < units; unit += gridDim.y)
      if (walk.start(unit, g.b, g.p, g.q, step)) {
        if (g.stride == 1)
          slide(y, x, own, start, relu, g, walk, channel);
        else
          leap(y, x, own, start, relu, g, walk, channel);
      }
  });
}

// With stride 1 the gradient of the input is a convolution with the kernel turned by half a circle.
__device__ inline Geometry turned(const Geometry &g) {
  return {g.b, g.p, g.q, g.c, g.h, g.w, g.kh, g.kw, 1, g.dilation, 2 * g.dilation - g.pad_h, 2 * g.dilation - g.pad_w, g.periodic};
}

// Stride 2: a position is read by one, two or four outputs.
template <class T>
__device__ inline void walk_backward(T *dx, const T *dy, const f32 *weights, const Geometry &g) {
  const i32 units = Walk::units(g.b, g.h, g.w, 1);
  each_tile(weights, g, false, [&](const f32 (&own)[9][FOUR], i32 channel) {
    Walk walk;
    for (i32 unit = blockIdx.y; unit < units; unit += gridDim.y) {
      if (!walk.start(unit, g.b, g.h, g.w, 1)) continue;
      Columns<T> columns = {dy + (i64)walk.sample * g.p * g.q * g.c + channel, (i64)g.q * g.c, g.p, {-1, -1, -1}};
#pragma unroll
      for (i32 s = 0; s < 3; s++) g.columns_reading(walk.column, s, [&](i32 q) { columns.places[s] = q * g.c; });
      for (i32 at = 0; at < walk.count; at++) {
        const i32 row = walk.first + at;
        f32 sum[FOUR] = {};
#pragma unroll
        for (i32 r = 0; r < 3; r++) {
          g.rows_reading(row, r, [&](i32 p) {
            Four<T> raw[3];
            f32 values[3][FOUR];
            columns.read(raw, p);
            widen_row(values, raw);
            add_row(sum, values, own, r);
          });
        }
        store(dx + (((i64)walk.sample * g.h + row) * g.w + walk.column) * g.c + channel, sum);
      }
    }
  });
}

// All taps at once; a block's chunk are its units.
template <class T>
__device__ inline void walk_filter(f64 *partial, const T *x, const T *dy, const Geometry &g) {
  f32 *shared = (f32 *)scratch();
  const i32 step = stepping(g), units = Walk::units(g.b, g.p, g.q, step);
  const i32 thread = threadIdx.x, lane = thread % LANES;
  for (i32 first = blockIdx.x * TILE; first < g.c; first += gridDim.x * TILE) {
    const i32 channel = first + lane * FOUR;
    f32 sums[9][FOUR] = {};
    Walk walk;
    for (i32 unit = blockIdx.y; unit < units && channel < g.c; unit += gridDim.y) {
      if (!walk.start(unit, g.b, g.p, g.q, step)) continue;
      const Columns<T> columns = columns_of(x, g, walk, channel);
      const i64 line = (i64)g.q * g.c * walk.step;
      const T *from = dy + (((i64)walk.sample * g.p + walk.first) * g.q + walk.column) * g.c + channel;
      if (g.stride == 1) {
        // The row that comes in is seen by the first row of taps of this output, and by the others of the two before.
        Four<T> ahead[3], grad_ahead;
        f32 grad[3][FOUR] = {};
        i32 row = walk.first - g.pad_h;
        columns.read(ahead, row);
        grad_ahead.fetch(from);
#pragma unroll 3
        for (i32 at = 0; at < walk.count + 2; at++) {
          f32 values[3][FOUR];
          widen_row(values, ahead);
          for (i32 k = 0; k < FOUR; k++) grad[2][k] = grad[1][k], grad[1][k] = grad[0][k];
          grad_ahead.widen_to(grad[0]);
          row += g.dilation;
          if (at < walk.count + 1) columns.read(ahead, row);
          from += line;
          if (at + 1 < walk.count)
            grad_ahead.fetch(from);
          else
            grad_ahead.clear();
#pragma unroll
          for (i32 tap = 0; tap < 9; tap++)
            for (i32 k = 0; k < FOUR; k++) sums[tap][k] += grad[tap / 3][k] * values[tap % 3][k];
        }
      } else {
        for (i32 at = 0; at < walk.count; at++, from += line) {
          Four<T> raw[3][3], raw_grad;
          raw_grad.fetch(from);
#pragma unroll
          for (i32 r = 0; r < 3; r++)
            columns.read(raw[r], (walk.first + at * walk.step) * g.stride - g.pad_h + r * g.dilation);
          f32 grad[FOUR];
          raw_grad.widen_to(grad);
#pragma unroll
          for (i32 r = 0; r < 3; r++) {
            f32 values[3][FOUR];
            widen_row(values, raw[r]);
#pragma unroll
            for (i32 s = 0; s < 3; s++)
              for (i32 k = 0; k < FOUR; k++) sums[3 * r + s][k] += grad[k] * values[s][k];
          }
        }
      }
    }
    // A row of taps at a time: [tap][column][channel of the tile].
#pragma unroll
    for (i32 r = 0; r < 3; r++) {
      __syncthreads();
#pragma unroll
      for (i32 s = 0; s < 3; s++) store(shared + (s * COLUMNS + thread / LANES) * TILE + lane * FOUR, sums[3 * r + s]);
      __syncthreads();
      if (thread < 3 * TILE && first + thread % TILE < g.c) {
        f64 sum = 0.0;
        for (i32 column = 0; column < COLUMNS; column++) sum += shared[(thread / TILE * COLUMNS + column) * TILE + thread % TILE];
        partial[((i64)blockIdx.y * 9 + 3 * r + thread / TILE) * g.c + first + thread % TILE] = sum;
      }
    }
  }
}

#define GEOMETRY                                                                                                 \
  i32 b, i32 h, i32 w, i32 c, i32 p, i32 q, i32 kh, i32 kw, i32 stride, i32 dilation, i32 pad_h, i32 pad_w, \
      i32 periodic

// f32 takes more registers than three blocks leave.
#define WALKING(T) RESIDENT(Wide<T>::VALUES == 8 ? 3 : 2)

#define KERNELS(S, T)                                                                                                         \
  WALKING(T) depthwise_##S(T *y, const T *x, const f32 *weights, const f32 *bias, GEOMETRY, i32 relu) {                           \
    const i32 V = Wide<T>::VALUES;                                                                                            \
    const Geometry g = {b, h, w, c, p, q, kh, kw, stride, dilation, pad_h, pad_w, periodic};                                  \
    if (walked(g) && aligned(y, x))                                                                                           \
      walk_forward(y, x, weights, bias, relu, false, g);                                                                      \
    else if (c % V == 0 && aligned(y, x))                                                                                     \
      forward<V>(y, x, weights, bias, relu, g);                                                                               \
    else                                                                                                                      \
      forward<1>(y, x, weights, bias, relu, g);                                                                               \
  }                                                                                                                           \
  EXPORT_KERNEL_WITH_BARRIERS(depthwise_##S)                                                                                  \
  WALKING(T) depthwise_backward_data_##S(T *dx, const T *dy, const f32 *weights, GEOMETRY) {                                      \
    const i32 V = Wide<T>::VALUES;                                                                                            \
    const Geometry g = {b, h, w, c, p, q, kh, kw, stride, dilation, pad_h, pad_w, periodic};                                  \
    if (walked(g) && aligned(dx, dy) && stride == 1 && (!periodic || q == w))                                                 \
      walk_forward(dx, dy, weights, (const f32 *)0, false, true, turned(g));                                                  \
    else if (walked(g) && aligned(dx, dy))                                                                                    \
      walk_backward(dx, dy, weights, g);                                                                                      \
    else if (c % V == 0 && aligned(dx, dy))                                                                                   \
      backward_data<V>(dx, dy, weights, g);                                                                                   \
    else                                                                                                                      \
      backward_data<1>(dx, dy, weights, g);                                                                                   \
  }                                                                                                                           \
  EXPORT_KERNEL_WITH_BARRIERS(depthwise_backward_data_##S)                                                                    \
  SUMMING depthwise_backward_filter_##S(f64 *partial, const T *x, const T *dy, GEOMETRY) {                                    \
    const i32 V = Wide<T>::VALUES;                                                                                            \
    const Geometry g = {b, h, w, c, p, q, kh, kw, stride, dilation, pad_h, pad_w, periodic};                                  \
    if (walked(g) && aligned(x, dy)) {                                                                                        \
      if (blockIdx.z == 0) walk_filter(partial, x, dy, g);                                                                    \
    } else if (c % V == 0 && aligned(x, dy))                                                                                  \
      backward_filter<V>(partial, x, dy, g);                                                                                  \
    else                                                                                                                      \
      backward_filter<1>(partial, x, dy, g);                                                                                  \
  }                                                                                                                           \
  EXPORT_KERNEL_WITH_BARRIERS(depthwise_backward_filter_##S)
EACH_STORAGE(KERNELS)

GLOBAL depthwise_filter_finish(f32 *dw, const f64 *partial, i32 chunks, i32 c, i32 taps) {
  f64 sums[1];
  i32 at;
  // A chunk's sums lie as (tap, channel).
  if (add_chunks(sums, partial, chunks, c * taps, at)) dw[(i64)(at % c) * taps + at / c] += (f32)sums[0];
}
EXPORT_KERNEL_WITH_BARRIERS(depthwise_filter_finish)

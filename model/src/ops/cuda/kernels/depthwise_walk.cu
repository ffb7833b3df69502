// Convolutions with one kernel of 3 x 3 per channel and strides of 1 and 2, channels in fours, which is what networks have; depthwise.cu is for all others. A thread
// keeps to four channels of a column or of two and walks down its rows: where it reads is computed once, a row is read once for the three outputs that see it (and a
// column once for both outputs), and the next rows are on their way meanwhile.

// Channels of a block, and of a thread; columns side by side; rows of a walk.
enum { TILE = 64, FOUR = 4, LANES = TILE / FOUR, COLUMNS = THREADS / LANES, LONGEST = 48, SHORTEST = 6 };

// Columns of a thread, and rows that are on their way at once: as many as two blocks of a multiprocessor have registers for.
enum { WIDTH = 2 };
template <class T>
struct Ahead {
  enum { ROWS = sizeof(T) == 4 ? 2 : 4, FILTER_ROWS = sizeof(T) == 4 ? 1 : 3 };
};

template <class T>
using Four = Pack<T, FOUR>;

// Fields as walks divide them: rows that stand `step` apart share what they read.
struct Ground {
  i32 samples, rows, columns, step, run;
  // Walks across, of N columns.
  template <i32 N>
  __device__ i32 across() const {
    return N == 1 ? columns : (columns + N * step - 1) / (N * step) * step;
  }
  template <i32 N>
  __device__ i32 sides() const {
    return (samples * across<N>() + COLUMNS - 1) / COLUMNS;
  }
  template <i32 N>
  __device__ i32 units() const {
    return sides<N>() * step * (((rows + step - 1) / step + run - 1) / run);
  }
  // The longest runs that leave work for most of the blocks: the rows at both ends of a run are read twice.
  template <i32 N>
  __device__ void divide() {
    for (run = LONGEST; run > SHORTEST && 4 * (i64)units<N>() < 3 * (i64)gridDim.y;) run /= 2;
  }
};

// One walk: rows `first`, `first` + step, ... of columns `column`, `column` + step, ... (N) of one sample, `count` of them. The threads of a block with the
// same lane have columns side by side and the same rows. What the walks of a block together are is a unit.
template <i32 N>
struct Walk {
  i32 sample, column, first, step, count;
  // False if the thread has none in it.
  __device__ bool start(i32 unit, const Ground &ground) {
    const i32 sides = ground.sides<N>(), across = ground.across<N>();
    const i32 at = unit % sides * COLUMNS + (i32)threadIdx.x / LANES, part = unit / sides;
    step = ground.step;
    sample = at / across;
    column = at % across;
    if (N > 1) column = column / step * step * N + column % step;
    first = part % step + part / step * step * ground.run;
    count = min(ground.run, (ground.rows - first + step - 1) / step);
    return sample < ground.samples && column < ground.columns && count > 0;
  }
};

// Reads N columns, row after row: where they lie in a row, or that they lie outside.
template <class T, i32 N>
struct Columns {
  const T *at;
  i64 step;
  i32 row, rows, by, places[N];
  // From row `first` of a sample on, every `by`-th.
  __device__ void start(const T *sample, const Geometry &g, i32 height, i32 width, i32 first, i32 apart) {
    by = apart;
    row = first;
    rows = height;
    step = (i64)width * g.c;
    at = sample + first * step;
    step *= by;
  }
  // What the outputs of `column` and of those `dilation` apart read.
  __device__ void seen_by(const Geometry &g, i32 column) {
#pragma unroll
    for (i32 s = 0; s < N; s++) {
      const i32 place = g.column(column, s);
      places[s] = place < 0 ? -1 : place * g.c;
    }
  }
  __device__ void read(Four<T> (&to)[N]) {
    const bool inside = row >= 0 && row < rows;
#pragma unroll
    for (i32 s = 0; s < N; s++)
      if (inside && places[s] >= 0)
        to[s].fetch(at + places[s]);
      else
        to[s].clear();
    row += by;
    at += step;
  }
};

// Adds a row of a 3 x 3 kernel.
template <i32 N>
__device__ inline void add_row(f32 (&sum)[N][FOUR], const f32 (&values)[N + 2][FOUR], const f32 (&weights)[9][FOUR], i32 r) {
#pragma unroll
  for (i32 s = 0; s < 3; s++)
#pragma unroll
    for (i32 n = 0; n < N; n++)
      for (i32 k = 0; k < FOUR; k++) sum[n][k] += values[n + s][k] * weights[3 * r + s][k];
}

template <class T, i32 N>
__device__ inline void widen_row(f32 (&values)[N][FOUR], const Four<T> (&raw)[N]) {
#pragma unroll
  for (i32 s = 0; s < N; s++) raw[s].widen_to(values[s]);
}

template <class T>
__device__ inline void finish(T *to, f32 (&sum)[FOUR], bool relu) {
  if (relu)
    for (i32 k = 0; k < FOUR; k++) sum[k] = rectified(sum[k]);
  store(to, sum);
}

// Stride 1: the row that comes in is the last of one output, the middle of the next and the first of the one after.
template <i32 N, class T>
__device__ inline void slide(
    T *y, const T *x, const f32 (&weights)[9][FOUR], const f32 (&start)[FOUR], bool relu, const Geometry &g, const Walk<N> &walk,
    i32 channel
) {
  Columns<T, N + 2> columns;
  columns.start(x + (i64)walk.sample * g.h * g.w * g.c + channel, g, g.h, g.w, walk.first - g.pad_h, g.dilation);
  columns.seen_by(g, walk.column);
  const i64 line = (i64)g.q * g.c * walk.step;
  T *to = y + (((i64)walk.sample * g.p + walk.first) * g.q + walk.column) * g.c + channel;
  const i32 AHEAD = Ahead<T>::ROWS;
  Four<T> ahead[AHEAD][N + 2];
#pragma unroll
  for (i32 j = 0; j < AHEAD; j++) columns.read(ahead[j]);
  f32 last[N][FOUR], middle[N][FOUR];
  for (i32 n = 0; n < N; n++)
    for (i32 k = 0; k < FOUR; k++) last[n][k] = middle[n][k] = start[k];
  for (i32 base = -2; base < walk.count; base += AHEAD) {
#pragma unroll
    for (i32 j = 0; j < AHEAD; j++) {
      const i32 at = base + j;
      if (at >= walk.count) break;
      f32 values[N + 2][FOUR], next[N][FOUR];
      widen_row(values, ahead[j]);
      if (at + AHEAD < walk.count) columns.read(ahead[j]);
      add_row(last, values, weights, 2);
      add_row(middle, values, weights, 1);
      for (i32 n = 0; n < N; n++)
        for (i32 k = 0; k < FOUR; k++) next[n][k] = start[k];
      add_row(next, values, weights, 0);
      if (at >= 0) {
#pragma unroll
        for (i32 n = 0; n < N; n++)
          if (n == 0 || walk.column + n * walk.step < g.q) finish(to + n * walk.step * g.c, last[n], relu);
        to += line;
      }
      for (i32 n = 0; n < N; n++)
        for (i32 k = 0; k < FOUR; k++) last[n][k] = middle[n][k], middle[n][k] = next[n][k];
    }
  }
}

// Any stride: nine reads for an output.
template <class T>
__device__ inline void leap(
    T *y, const T *x, const f32 (&weights)[9][FOUR], const f32 (&start)[FOUR], bool relu, const Geometry &g, const Walk<1> &walk,
    i32 channel
) {
  Columns<T, 3> columns;
  columns.seen_by(g, walk.column);
  const T *sample = x + (i64)walk.sample * g.h * g.w * g.c + channel;
  for (i32 at = 0; at < walk.count; at++) {
    const i32 p = walk.first + at * walk.step;
    Four<T> raw[3][3];
    columns.start(sample, g, g.h, g.w, p * g.stride - g.pad_h, g.dilation);
#pragma unroll
    for (i32 r = 0; r < 3; r++) columns.read(raw[r]);
    f32 sum[1][FOUR];
    for (i32 k = 0; k < FOUR; k++) sum[0][k] = start[k];
#pragma unroll
    for (i32 r = 0; r < 3; r++) {
      f32 values[3][FOUR];
      widen_row(values, raw[r]);
      add_row(sum, values, weights, r);
    }
    finish(y + (((i64)walk.sample * g.p + p) * g.q + walk.column) * g.c + channel, sum[0], relu);
  }
}

// The rows of outputs that stand `dilation` apart share what they read; with a stride all rows are one walk's.
__device__ inline i32 stepping(const Geometry &g) { return g.stride == 1 ? g.dilation : 1; }

// Calls visit(weights, channel) for the channels of this thread. TURNED weights are those of the gradient.
template <bool TURNED, class Visit>
__device__ inline void each_tile(const f32 *weights, i32 c, Visit visit) {
  const i32 lane = (i32)threadIdx.x % LANES;
  for (i32 first = blockIdx.x * TILE; first < c; first += gridDim.x * TILE) {
    const i32 channel = first + lane * FOUR;
    if (channel >= c) continue;
    // Four channels' nine weights, one after the other.
    f32 own[9][FOUR];
#pragma unroll
    for (i32 i = 0; i < 9; i++) {
      f32 four[FOUR];
      load(four, weights + channel * 9 + i * FOUR);
      for (i32 k = 0; k < FOUR; k++) {
        const i32 tap = (i * FOUR + k) % 9;
        own[TURNED ? 8 - tap : tap][(i * FOUR + k) / 9] = four[k];
      }
    }
    visit(own, channel);
  }
}

// Calls visit(walk) for each walk of this thread.
template <i32 N, class Visit>
__device__ inline void each_walk(i32 samples, i32 rows, i32 columns, i32 step, Visit visit) {
  Ground ground = {samples, rows, columns, step};
  ground.divide<N>();
  const i32 units = ground.units<N>();
  Walk<N> walk;
  for (i32 unit = blockIdx.y; unit < units; unit += gridDim.y)
    if (walk.start(unit, ground)) visit(walk);
}

template <bool TURNED, class T>
__device__ inline void walk_forward(T *y, const T *x, const f32 *weights, const f32 *bias, bool relu, const Geometry &g) {
  const i32 step = stepping(g);
  each_tile<TURNED>(weights, g.c, [&](const f32 (&own)[9][FOUR], i32 channel) {
    f32 start[FOUR] = {};
    if (bias)
      for (i32 k = 0; k < FOUR; k++) start[k] = bias[channel + k];
    if (g.stride == 1)
      each_walk<WIDTH>(g.b, g.p, g.q, step, [&](const Walk<WIDTH> &walk) { slide<WIDTH>(y, x, own, start, relu, g, walk, channel); });
    else
      each_walk<1>(g.b, g.p, g.q, step, [&](const Walk<1> &walk) { leap(y, x, own, start, relu, g, walk, channel); });
  });
}

// With stride 1 the gradient of the input is a convolution with the kernel turned by half a circle.
__device__ inline Geometry turned(const Geometry &g) {
  return {g.b, g.p, g.q, g.c, g.h, g.w, g.kh, g.kw, 1, g.dilation, 2 * g.dilation - g.pad_h, 2 * g.dilation - g.pad_w, g.periodic};
}

// Stride 2: positions come in squares of 2 x 2. The first of a square is read by the outputs (m, n), (m, n - 1), (m - 1, n) and (m - 1, n - 1), its right
// neighbour by (m, n) and (m - 1, n), the one below it by (m, n) and (m, n - 1), the last by (m, n). (Around an odd number of columns it is not so.) A thread goes down the squares of one n.
struct Squares {
  i32 first, count;
  __device__ Squares(i32 extent, i32 padding) : first(padding / 2), count((extent - 1 + padding) / 2 - padding / 2 + 1) {}
};

template <class T>
__device__ inline void slide_squares(T *dx, const T *dy, const f32 (&weights)[9][FOUR], const Geometry &g, const Walk<1> &walk, i32 channel) {
  const i32 m = Squares(g.h, g.pad_h).first + walk.first, n = Squares(g.w, g.pad_w).first + walk.column;
  const i32 left = 2 * n - g.pad_w, right = left + 1;
  Columns<T, 2> columns;
  columns.start(dy + (i64)walk.sample * g.p * g.q * g.c + channel, g, g.p, g.q, m - 1, 1);
  columns.places[0] = columns.places[1] = -1;
  if (left >= 0) {
    g.columns_reading(left, 2, [&](i32 q) { columns.places[0] = q * g.c; });
    g.columns_reading(left, 0, [&](i32 q) { columns.places[1] = q * g.c; });
  } else {
    g.columns_reading(right, 1, [&](i32 q) { columns.places[1] = q * g.c; });
  }
  const i32 AHEAD = Ahead<T>::ROWS;
  Four<T> ahead[AHEAD][2];
#pragma unroll
  for (i32 j = 0; j < AHEAD; j++) columns.read(ahead[j]);
  f32 before[2][FOUR], now[2][FOUR];
  T *sample = dx + (i64)walk.sample * g.h * g.w * g.c + channel;
  for (i32 base = -1; base < walk.count; base += AHEAD) {
#pragma unroll
    for (i32 j = 0; j < AHEAD; j++) {
      const i32 at = base + j;
      if (at >= walk.count) break;
      widen_row(now, ahead[j]);
      if (at + AHEAD < walk.count) columns.read(ahead[j]);
      if (at >= 0) {
        f32 square[2][2][FOUR];
        for (i32 k = 0; k < FOUR; k++) {
          square[0][0][k] = now[1][k] * weights[0][k] + now[0][k] * weights[2][k] + before[1][k] * weights[6][k] + before[0][k] * weights[8][k];
          square[0][1][k] = now[1][k] * weights[1][k] + before[1][k] * weights[7][k];
          square[1][0][k] = now[1][k] * weights[3][k] + now[0][k] * weights[5][k];
          square[1][1][k] = now[1][k] * weights[4][k];
        }
        const i32 top = 2 * (m + at) - g.pad_h;
#pragma unroll
        for (i32 down = 0; down < 2; down++) {
          if (top + down < 0 || top + down >= g.h) continue;
          T *line = sample + (i64)(top + down) * g.w * g.c;
          if (left >= 0) store(line + (i64)left * g.c, square[down][0]);
          if (right < g.w) store(line + (i64)right * g.c, square[down][1]);
        }
      }
      for (i32 s = 0; s < 2; s++)
        for (i32 k = 0; k < FOUR; k++) before[s][k] = now[s][k];
    }
  }
}

template <class T>
__device__ inline void walk_squares(T *dx, const T *dy, const f32 *weights, const Geometry &g) {
  const Squares down(g.h, g.pad_h), across(g.w, g.pad_w);
  each_tile<false>(weights, g.c, [&](const f32 (&own)[9][FOUR], i32 channel) {
    each_walk<1>(g.b, down.count, across.count, 1, [&](const Walk<1> &walk) { slide_squares(dx, dy, own, g, walk, channel); });
  });
}

// Stride 1: the row that comes in is seen by the first row of taps of this output, and by the others of the two before.
template <i32 N, class T>
__device__ inline void slide_filter(f32 (&sums)[9][FOUR], const T *x, const T *dy, const Geometry &g, const Walk<N> &walk, i32 channel) {
  Columns<T, N + 2> columns;
  columns.start(x + (i64)walk.sample * g.h * g.w * g.c + channel, g, g.h, g.w, walk.first - g.pad_h, g.dilation);
  columns.seen_by(g, walk.column);
  // The gradients of the walk's own rows, and none of others.
  Columns<T, N> grads;
  grads.start(dy + (i64)walk.sample * g.p * g.q * g.c + channel, g, min(g.p, walk.first + walk.count * walk.step), g.q, walk.first, walk.step);
#pragma unroll
  for (i32 n = 0; n < N; n++) {
    const i32 column = walk.column + n * walk.step;
    grads.places[n] = column < g.q ? column * g.c : -1;
  }
  const i32 AHEAD = Ahead<T>::FILTER_ROWS;
  Four<T> ahead[AHEAD][N + 2], grads_ahead[AHEAD][N];
#pragma unroll
  for (i32 j = 0; j < AHEAD; j++) {
    columns.read(ahead[j]);
    grads.read(grads_ahead[j]);
  }
  f32 grad[3][N][FOUR] = {};
  for (i32 base = 0; base < walk.count + 2; base += AHEAD) {
#pragma unroll
    for (i32 j = 0; j < AHEAD; j++) {
      const i32 at = base + j;
      if (at >= walk.count + 2) break;
      f32 values[N + 2][FOUR];
      widen_row(values, ahead[j]);
      for (i32 n = 0; n < N; n++)
        for (i32 k = 0; k < FOUR; k++) grad[2][n][k] = grad[1][n][k], grad[1][n][k] = grad[0][n][k];
      widen_row(grad[0], grads_ahead[j]);
      if (at + AHEAD < walk.count + 2) {
        columns.read(ahead[j]);
        grads.read(grads_ahead[j]);
      }
#pragma unroll
      for (i32 tap = 0; tap < 9; tap++)
#pragma unroll
        for (i32 n = 0; n < N; n++)
          for (i32 k = 0; k < FOUR; k++) sums[tap][k] += grad[tap / 3][n][k] * values[n + tap % 3][k];
    }
  }
}

// Any stride: nine reads for a gradient.
template <class T>
__device__ inline void leap_filter(f32 (&sums)[9][FOUR], const T *x, const T *dy, const Geometry &g, const Walk<1> &walk, i32 channel) {
  Columns<T, 3> columns;
  columns.seen_by(g, walk.column);
  const T *sample = x + (i64)walk.sample * g.h * g.w * g.c + channel;
  for (i32 at = 0; at < walk.count; at++) {
    const i32 p = walk.first + at * walk.step;
    Four<T> raw[3][3], raw_grad;
    raw_grad.fetch(dy + (((i64)walk.sample * g.p + p) * g.q + walk.column) * g.c + channel);
    columns.start(sample, g, g.h, g.w, p * g.stride - g.pad_h, g.dilation);
#pragma unroll
    for (i32 r = 0; r < 3; r++) columns.read(raw[r]);
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

// All taps at once; a block's chunk are its units.
template <class T>
__device__ inline void walk_filter(f64 *partial, const T *x, const T *dy, const Geometry &g) {
  f32 *shared = (f32 *)scratch();
  const i32 step = stepping(g);
  const i32 thread = threadIdx.x, lane = thread % LANES;
  for (i32 first = blockIdx.x * TILE; first < g.c; first += gridDim.x * TILE) {
    const i32 channel = first + lane * FOUR;
    f32 sums[9][FOUR] = {};
    if (channel >= g.c) {
    } else if (g.stride == 1)
      each_walk<WIDTH>(g.b, g.p, g.q, step, [&](const Walk<WIDTH> &walk) { slide_filter<WIDTH>(sums, x, dy, g, walk, channel); });
    else
      each_walk<1>(g.b, g.p, g.q, step, [&](const Walk<1> &walk) { leap_filter(sums, x, dy, g, walk, channel); });
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

#define KERNELS(S, T)                                                                                      \
  SUMMING depthwise_walk_##S(T *y, const T *x, const f32 *weights, const f32 *bias, GEOMETRY, i32 relu) {   \
    const Geometry g = {b, h, w, c, p, q, kh, kw, stride, dilation, pad_h, pad_w, periodic};               \
    walk_forward<false>(y, x, weights, bias, relu, g);                                                     \
  }                                                                                                        \
  EXPORT_KERNEL(depthwise_walk_##S)                                                                        \
  SUMMING depthwise_walk_backward_data_##S(T *dx, const T *dy, const f32 *weights, GEOMETRY) {             \
    const Geometry g = {b, h, w, c, p, q, kh, kw, stride, dilation, pad_h, pad_w, periodic};               \
    if (stride == 1)                                                                                       \
      walk_forward<true>(dx, dy, weights, (const f32 *)0, false, turned(g));                               \
    else                                                                                                   \
      walk_squares(dx, dy, weights, g);                                                                    \
  }                                                                                                        \
  EXPORT_KERNEL(depthwise_walk_backward_data_##S)                                                          \
  SUMMING depthwise_walk_backward_filter_##S(f64 *partial, const T *x, const T *dy, GEOMETRY) {            \
    const Geometry g = {b, h, w, c, p, q, kh, kw, stride, dilation, pad_h, pad_w, periodic};               \
    walk_filter(partial, x, dy, g);                                                                        \
  }                                                                                                        \
  EXPORT_KERNEL_WITH_BARRIERS(depthwise_walk_backward_filter_##S)
EACH_STORAGE(KERNELS)

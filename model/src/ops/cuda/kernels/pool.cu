// Largest and mean value of every window, and their gradients, gathered.

struct Pool {
  i32 b, h, w, c, p, q, kernel, stride, padding, periodic;
  __device__ i32 row(i32 output, i32 r) const { return source(output, stride, r, padding, h, false); }
  __device__ i32 column(i32 output, i32 s) const { return source(output, stride, s, padding, w, periodic); }
  // Cells of the window of an output in one axis.
  __device__ i32 rows(i32 output) const {
    i32 count = 0;
    for (i32 r = 0; r < kernel; r++) count += row(output, r) >= 0;
    return count;
  }
  __device__ i32 columns(i32 output) const {
    i32 count = 0;
    for (i32 s = 0; s < kernel; s++) count += column(output, s) >= 0;
    return count;
  }
};

template <i32 V, class T>
__device__ inline void max_pool(T *y, u8 *winner, const T *x, Pool s) {
  const i32 lanes = s.c / V;
  FOR_EACH(i, (i64)s.b * s.p * s.q * lanes) {
    i32 lane, column, row;
    const i64 pixel = divided(i, lanes, lane), line = divided(pixel, s.q, column), sample = divided(line, s.p, row);
    f32 best[V];
    u32 cell[V];
    for (i32 k = 0; k < V; k++) best[k] = __uint_as_float(0xff800000u), cell[k] = 0;
    for (i32 at = 0; at < s.kernel * s.kernel; at++) {
      const i32 h = s.row(row, at / s.kernel), w = s.column(column, at % s.kernel);
      if (h < 0 || w < 0) continue;
      f32 values[V];
      load(values, x + ((sample * s.h + h) * s.w + w) * s.c + lane * V);
      for (i32 k = 0; k < V; k++) {
        // The first value that is no number wins.
        if (values[k] > best[k] || (values[k] != values[k] && best[k] == best[k])) best[k] = values[k], cell[k] = at;
      }
    }
    store(y + i * V, best);
    Access<V>::store(winner + i * V, cell);
  }
}

template <i32 V, class T>
__device__ inline void max_pool_backward(T *dx, const T *dy, const u8 *winner, Pool s) {
  const i32 lanes = s.c / V;
  FOR_EACH(i, (i64)s.b * s.h * s.w * lanes) {
    i32 lane, column, row;
    const i64 pixel = divided(i, lanes, lane), line = divided(pixel, s.w, column), sample = divided(line, s.h, row);
    f32 sum[V] = {};
    for (i32 at = 0; at < s.kernel * s.kernel; at++) {
      readers(row, s.stride, at / s.kernel, s.padding, s.h, s.p, false, [&](i32 p) {
        readers(column, s.stride, at % s.kernel, s.padding, s.w, s.q, s.periodic, [&](i32 q) {
          const i64 from = ((sample * s.p + p) * s.q + q) * s.c + lane * V;
          f32 grad[V];
          u32 cell[V];
          load(grad, dy + from);
          Access<V>::load(cell, winner + from);
          for (i32 k = 0; k < V; k++) sum[k] += (i32)cell[k] == at ? grad[k] : 0.0f;
        });
      });
    }
    store(dx + i * V, sum);
  }
}

template <i32 V, class T>
__device__ inline void avg_pool(T *y, const T *x, Pool s) {
  const i32 lanes = s.c / V;
  FOR_EACH(i, (i64)s.b * s.p * s.q * lanes) {
    i32 lane, column, row;
    const i64 pixel = divided(i, lanes, lane), line = divided(pixel, s.q, column), sample = divided(line, s.p, row);
    f32 sum[V] = {};
    for (i32 at = 0; at < s.kernel * s.kernel; at++) {
      const i32 h = s.row(row, at / s.kernel), w = s.column(column, at % s.kernel);
      if (h < 0 || w < 0) continue;
      f32 values[V];
      load(values, x + ((sample * s.h + h) * s.w + w) * s.c + lane * V);
      for (i32 k = 0; k < V; k++) sum[k] += values[k];
    }
    const f32 share = 1.0f / (f32)(s.rows(row) * s.columns(column));
    for (i32 k = 0; k < V; k++) sum[k] *= share;
    store(y + i * V, sum);
  }
}

template <i32 V, class T>
__device__ inline void avg_pool_backward(T *dx, const T *dy, Pool s) {
  const i32 lanes = s.c / V;
  FOR_EACH(i, (i64)s.b * s.h * s.w * lanes) {
    i32 lane, column, row;
    const i64 pixel = divided(i, lanes, lane), line = divided(pixel, s.w, column), sample = divided(line, s.h, row);
    f32 sum[V] = {};
    for (i32 at = 0; at < s.kernel * s.kernel; at++) {
      readers(row, s.stride, at / s.kernel, s.padding, s.h, s.p, false, [&](i32 p) {
        readers(column, s.stride, at % s.kernel, s.padding, s.w, s.q, s.periodic, [&](i32 q) {
          const f32 share = 1.0f / (f32)(s.rows(p) * s.columns(q));
          f32 grad[V];
          load(grad, dy + ((sample * s.p + p) * s.q + q) * s.c + lane * V);
          for (i32 k = 0; k < V; k++) sum[k] += share * grad[k];
        });
      });
    }
    store(dx + i * V, sum);
  }
}

#define POOL i32 b, i32 h, i32 w, i32 c, i32 p, i32 q, i32 kernel, i32 stride, i32 padding, i32 periodic

#define KERNELS(S, T)                                                                       \
  GLOBAL max_pool_##S(T *y, u8 *winner, const T *x, POOL) {                                 \
    const i32 V = Wide<T>::VALUES;                                                          \
    const Pool s = {b, h, w, c, p, q, kernel, stride, padding, periodic};                   \
    if (c % V == 0 && aligned(y, winner, x))                                                \
      max_pool<V>(y, winner, x, s);                                                         \
    else                                                                                    \
      max_pool<1>(y, winner, x, s);                                                         \
  }                                                                                         \
  EXPORT_KERNEL(max_pool_##S)                                                               \
  GLOBAL max_pool_backward_##S(T *dx, const T *dy, const u8 *winner, POOL) {                \
    const i32 V = Wide<T>::VALUES;                                                          \
    const Pool s = {b, h, w, c, p, q, kernel, stride, padding, periodic};                   \
    if (c % V == 0 && aligned(dx, dy, winner))                                              \
      max_pool_backward<V>(dx, dy, winner, s);                                              \
    else                                                                                    \
      max_pool_backward<1>(dx, dy, winner, s);                                              \
  }                                                                                         \
  EXPORT_KERNEL(max_pool_backward_##S)                                                      \
  GLOBAL avg_pool_##S(T *y, const T *x, POOL) {                                             \
    const i32 V = Wide<T>::VALUES;                                                          \
    const Pool s = {b, h, w, c, p, q, kernel, stride, padding, periodic};                   \
    if (c % V == 0 && aligned(y, x))                                                        \
      avg_pool<V>(y, x, s);                                                                 \
    else                                                                                    \
      avg_pool<1>(y, x, s);                                                                 \
  }                                                                                         \
  EXPORT_KERNEL(avg_pool_##S)                                                               \
  GLOBAL avg_pool_backward_##S(T *dx, const T *dy, POOL) {                                  \
    const i32 V = Wide<T>::VALUES;                                                          \
    const Pool s = {b, h, w, c, p, q, kernel, stride, padding, periodic};                   \
    if (c % V == 0 && aligned(dx, dy))                                                      \
      avg_pool_backward<V>(dx, dy, s);                                                      \
    else                                                                                    \
      avg_pool_backward<1>(dx, dy, s);                                                      \
  }                                                                                         \
  EXPORT_KERNEL(avg_pool_backward_##S)
EACH_STORAGE(KERNELS)

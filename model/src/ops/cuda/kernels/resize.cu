// Bilinear resizing with half-pixel centres, as ops::resample::Axis: weights are computed in f64 and have the same bits.

// Output p reads below and below + 1 of an unlimited axis, the second with weight `fraction`.
struct Blend {
  i32 below;
  f32 fraction;
};

// One axis. The division by the number of outputs is a multiplication by its inverse and one correction, which gives the same bits (Markstein 1990).
struct Axis {
  f64 input, output, inverse;
  __device__ Axis(i32 in, i32 out) : input(in), output(out), inverse(1.0 / (f64)out) {}
  __device__ Blend blend(i32 p) const {
    const f64 scaled = ((f64)p + 0.5) * input, near = scaled * inverse;
    const f64 position = fma(fma(-near, output, scaled), inverse, near) - 0.5, below = floor(position);
    return Blend{(i32)below, (f32)(position - below)};
  }
};

// The place on the axis: it wraps, or holds its last value.
__device__ inline i32 placed(i32 at, i32 extent, bool wraps) {
  if (at < 0) return wraps ? at + extent : 0;
  if (at >= extent) return wraps ? at - extent : extent - 1;
  return at;
}

template <i32 V, class T>
__device__ inline void resize(T *y, const T *x, i32 b, i32 h, i32 w, i32 c, i32 p, i32 q, i32 first, i32 rows, bool periodic) {
  const i32 lanes = c / V;
  const Axis latitude(h, p), longitude(w, q);
  FOR_EACH(i, (i64)b * rows * q * lanes) {
    i32 lane, column, row;
    const i64 pixel = divided(i, lanes, lane), line = divided(pixel, q, column), sample = divided(line, rows, row);
    const Blend down = latitude.blend(first + row), right = longitude.blend(column);
    f32 sum[V] = {};
    for (i32 corner = 0; corner < 4; corner++) {
      const i32 south = corner / 2, east = corner % 2;
      const i32 at_h = placed(down.below + south, h, false), at_w = placed(right.below + east, w, periodic);
      const f32 weight = (south ? down.fraction : 1.0f - down.fraction) * (east ? right.fraction : 1.0f - right.fraction);
      f32 values[V];
      load(values, x + ((sample * h + at_h) * w + at_w) * c + lane * V);
      for (i32 k = 0; k < V; k++) sum[k] += weight * values[k];
    }
    store(y + i * V, sum);
  }
}

// Adds weight · dy of every output that reads place `at` of the axis; dy begins at output 0 and has `step` values from one to the next.
template <i32 V, class T>
__device__ inline void gather(f32 (&sum)[V], const T *dy, i64 step, i32 at, i32 input, i32 output, bool wraps, const Axis &axis) {
  const f64 ratio = (f64)output / (f64)input;
  // Places of the unlimited axis that are this one: at most three.
  for (i32 far = -1; far <= 1; far++) {
    i32 place = at;
    if (far < 0) {
      if (wraps ? at != input - 1 : at != 0) continue;
      place = -1;
    } else if (far > 0) {
      if (wraps ? at != 0 : at != input - 1) continue;
      place = input;
    }
    // Positions grow with the output: those between place − 1 and place + 1, and one more at each end for rounding.
    const i32 from = max((i32)floor(((f64)place - 0.5) * ratio - 0.5), 0);
    const i32 to = min((i32)ceil(((f64)place + 1.5) * ratio - 0.5), output - 1);
    for (i32 p = from; p <= to; p++) {
      const Blend reads = axis.blend(p);
      f32 weight;
      if (reads.below == place)
        weight = 1.0f - reads.fraction;
      else if (reads.below == place - 1)
        weight = reads.fraction;
      else
        continue;
      f32 grad[V];
      load(grad, dy + p * step);
      for (i32 k = 0; k < V; k++) sum[k] += weight * grad[k];
    }
  }
}

template <i32 V, class T>
__device__ inline void columns_backward(f32 *t, const T *dy, i64 rows, i32 w, i32 q, i32 c, bool periodic) {
  const i32 lanes = c / V;
  const Axis longitude(w, q);
  FOR_EACH(i, rows * w * lanes) {
    i32 lane, column;
    const i64 pixel = divided(i, lanes, lane), row = divided(pixel, w, column);
    f32 sum[V] = {};
    gather(sum, dy + row * q * c + lane * V, c, column, w, q, periodic, longitude);
    store(t + i * V, sum);
  }
}

template <i32 V, class T>
__device__ inline void rows_backward(T *dx, const f32 *t, i32 b, i32 h, i32 p, i64 inner) {
  const i64 lanes = inner / V;
  const Axis latitude(h, p);
  FOR_EACH(i, (i64)b * h * lanes) {
    i64 lane;
    i32 row;
    const i64 line = divided(i, lanes, lane), sample = divided(line, h, row);
    f32 sum[V] = {};
    gather(sum, t + sample * p * inner + lane * V, inner, row, h, p, false, latitude);
    store(dx + i * V, sum);
  }
}

#define KERNELS(S, T)                                                                                                   \
  GLOBAL resize_##S(T *y, const T *x, i32 b, i32 h, i32 w, i32 c, i32 p, i32 q, i32 first, i32 rows, i32 periodic) {    \
    const i32 V = Wide<T>::VALUES;                                                                                      \
    if (c % V == 0 && aligned(y, x))                                                                                    \
      resize<V>(y, x, b, h, w, c, p, q, first, rows, periodic);                                                         \
    else                                                                                                                \
      resize<1>(y, x, b, h, w, c, p, q, first, rows, periodic);                                                         \
  }                                                                                                                     \
  EXPORT_KERNEL(resize_##S)                                                                                             \
  GLOBAL resize_columns_backward_##S(f32 *t, const T *dy, i64 rows, i32 w, i32 q, i32 c, i32 periodic) {                \
    if (c % 4 == 0 && aligned(t, dy))                                                                                   \
      columns_backward<4>(t, dy, rows, w, q, c, periodic);                                                              \
    else                                                                                                                \
      columns_backward<1>(t, dy, rows, w, q, c, periodic);                                                              \
  }                                                                                                                     \
  EXPORT_KERNEL(resize_columns_backward_##S)                                                                            \
  GLOBAL resize_rows_backward_##S(T *dx, const f32 *t, i32 b, i32 h, i32 p, i64 inner) {                                \
    if (inner % 4 == 0 && aligned(dx, t))                                                                               \
      rows_backward<4>(dx, t, b, h, p, inner);                                                                          \
    else                                                                                                                \
      rows_backward<1>(dx, t, b, h, p, inner);                                                                          \
  }                                                                                                                     \
  EXPORT_KERNEL(resize_rows_backward_##S)
EACH_STORAGE(KERNELS)

// Softmax, weighted cross entropy and focal loss with their gradient, argmax. f32 inside, whatever logits are stored as.

template <class T>
__device__ inline f32 largest(const T *logits, i32 k) {
  f32 top = widen(logits[0]);
  for (i32 i = 1; i < k; i++) top = fmaxf(top, widen(logits[i]));
  return top;
}

template <class T>
__device__ inline void softmax(f32 *y, const T *logits, i64 pixels, i32 k) {
  FOR_EACH(pixel, pixels) {
    const T *from = logits + pixel * k;
    f32 *to = y + pixel * k;
    const f32 top = largest(from, k);
    f32 sum = 0.0f;
    for (i32 i = 0; i < k; i++) {
      to[i] = expf(widen(from[i]) - top);
      sum += to[i];
    }
    for (i32 i = 0; i < k; i++) to[i] /= sum;
  }
}

// −w α (1 − p)^γ ln p of a pixel's own class; its gradient times `factor`.
template <class T>
__device__ inline f32 pixel_loss(f32 *gradient, const T *logits, i32 label, const f32 *class_weights, f32 alpha, f32 gamma, f32 factor, i32 k) {
  const f32 top = largest(logits, k);
  f32 others = 0.0f;
  for (i32 i = 0; i < k; i++) {
    gradient[i] = expf(widen(logits[i]) - top);
    if (i != label) others += gradient[i];
  }
  const f32 own = gradient[label], sum = own + others, p = own / sum;
  // Not 1 − p and not ln of a sum near 1, which have lost what is left of nearly 1.
  const f32 rest = others / sum;
  const f32 log_p = own == 1.0f ? -log1pf(others) : widen(logits[label]) - top - logf(sum);
  const f32 weight = class_weights[label] * alpha;
  const f32 focus = gamma == 0.0f ? 1.0f : powf(rest, gamma);
  // d/dz_k of −(1 − p)^γ ln p is ((1 − p)^γ − γ (1 − p)^(γ−1) p ln p) (p_k − δ_k); the second term has the limit 0.
  const f32 slope = gamma == 0.0f || rest == 0.0f ? 0.0f : gamma * powf(rest, gamma - 1.0f) * p * log_p;
  const f32 common = factor * weight * (focus - slope);
  for (i32 i = 0; i < k; i++) gradient[i] = common * (i == label ? -rest : gradient[i] / sum);
  return -weight * focus * log_p;
}

template <class T>
__device__ inline void segmentation_loss(f64 *partial, f32 *gradient, const T *logits, const u8 *labels, const f32 *class_weights, f32 alpha, f32 gamma,
                                         f32 factor, i64 pixels, i32 k) {
  f64 sum = 0.0;
  FOR_EACH(pixel, pixels) {
    const i32 label = labels[pixel];
    f32 *to = gradient + pixel * k;
    // 255 does not count; other labels were checked by the caller.
    if (label >= k) {
      for (i32 i = 0; i < k; i++) to[i] = 0.0f;
    } else {
      sum += (f64)pixel_loss(to, logits + pixel * k, label, class_weights, alpha, gamma, factor, k);
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// (made − fields)², with the gradient of its sum times `slope` / 2. Channels of `made` beyond those of the fields do not count.
template <class T>
__device__ inline void squared_error(f64 *partial, f32 *gradient, const T *made, const T *fields, f32 slope, i64 pixels, i32 wide, i32 channels) {
  f64 sum = 0.0;
  FOR_EACH(i, pixels * wide) {
    i32 channel;
    const i64 pixel = divided(i, wide, channel);
    f32 off = 0.0f;
    if (channel < channels) off = widen(made[i]) - widen(fields[pixel * channels + channel]);
    gradient[i] = slope * off;
    sum += (f64)off * (f64)off;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class T>
__device__ inline void argmax(u8 *y, const T *logits, i64 pixels, i32 k) {
  FOR_EACH(pixel, pixels) {
    const T *from = logits + pixel * k;
    i32 best = 0;
    f32 top = widen(from[0]);
    // False of NaN, too.
    bool is_finite = fabsf(top) <= 3.402823466e38f;
    for (i32 i = 1; i < k; i++) {
      const f32 value = widen(from[i]);
      is_finite &= fabsf(value) <= 3.402823466e38f;
      if (value > top) best = i, top = value;
    }
    // 255 is no class.
    y[pixel] = is_finite ? (u8)best : 255;
  }
}

#define KERNELS(S, T)                                                                                                \
  GLOBAL softmax_##S(f32 *y, const T *logits, i64 pixels, i32 k) { softmax(y, logits, pixels, k); }                  \
  EXPORT_KERNEL(softmax_##S)                                                                                         \
  GLOBAL segmentation_loss_##S(f64 *partial, f32 *gradient, const T *logits, const u8 *labels,                       \
                               const f32 *class_weights, f32 alpha, f32 gamma, f32 factor, i64 pixels, i32 k) {      \
    segmentation_loss(partial, gradient, logits, labels, class_weights, alpha, gamma, factor, pixels, k);            \
  }                                                                                                                  \
  EXPORT_KERNEL_WITH_BARRIERS(segmentation_loss_##S)                                                                 \
  GLOBAL squared_error_##S(f64 *partial, f32 *gradient, const T *made, const T *fields, f32 slope, i64 pixels, i32 wide, \
                           i32 channels) {                                                                           \
    squared_error(partial, gradient, made, fields, slope, pixels, wide, channels);                                   \
  }                                                                                                                  \
  EXPORT_KERNEL_WITH_BARRIERS(squared_error_##S)                                                                     \
  GLOBAL argmax_##S(u8 *y, const T *logits, i64 pixels, i32 k) { argmax(y, logits, pixels, k); }                     \
  EXPORT_KERNEL(argmax_##S)
EACH_STORAGE(KERNELS)

GLOBAL sum_partials(f64 *out, const f64 *partial, i32 count) {
  f64 sum = 0.0;
  for (i32 i = threadIdx.x; i < count; i += THREADS) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) out[0] = sum;
}
EXPORT_KERNEL_WITH_BARRIERS(sum_partials)

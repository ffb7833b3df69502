//! Convolutions by oneDNN: the one safe wrapper of `squall-onednn-sys`.
//!
//! Activations are f32, or bf16 where the processor multiplies bf16 ([`computes_bf16`]): products of bf16 values are exact in
//! f32, in which oneDNN sums. Primitives are built once per geometry and thread. Longitude that wraps is a field padded with
//! zeros, whose edges are then computed again ([`seam`]); fields so narrow that the edges are most of them are copied with
//! more columns in front and behind. Backward-weights of atrous and 1x1 kernels is a sum of matrix
//! products, one per tap over the pixels that the tap really sees: oneDNN's own is up to ten times slower there, and
//! falls to reference code at the published rates. Which path runs is a function of the geometry alone, so that two
//! runs of one recipe give the same bits.

mod narrow;
mod packing;
mod plain;
mod seam;
mod strips;
mod tapped;
mod taps;
#[cfg(test)]
mod tests;
mod trimmed;
mod turned;

pub use packing::{Packings, Source};

use super::conv::Pass;
use super::finish::Finish;
use super::value::Value;
use super::winograd::Direction;
use crate::error::{ModelError, Result};
use candle_core::DType;
use half::bf16;
use packing::Packed;
use rayon::prelude::*;
use seam::Seam;
use squall_onednn_sys as sys;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::sync::LazyLock;
use trimmed::Trimmed;

/// A primitive of the shim, destroyed with its owner.
struct Primitive(*mut sys::Conv);

impl Primitive {
    /// What oneDNN calls the code that runs.
    fn implementation(&self) -> String {
        // SAFETY: the primitive exists and its name is a C string inside it.
        let name = unsafe { CStr::from_ptr(sys::squall_conv_implementation(self.0)) };
        name.to_string_lossy().into_owned()
    }
}

impl Drop for Primitive {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `squall_conv_create` and nobody else frees it.
        unsafe { sys::squall_conv_destroy(self.0) }
    }
}

thread_local! {
    /// Memory objects inside a primitive are set before each run, so a primitive belongs to one thread.
    static PRIMITIVES: RefCell<HashMap<sys::ConvDesc, Primitive>> = RefCell::new(HashMap::new());
}

fn error(op: &'static str, status: i32, desc: &sys::ConvDesc) -> ModelError {
    ModelError::OneDnn {
        op,
        status,
        detail: format!("{desc:?}"),
    }
}

/// Operands of one run; which of them is written depends on `ConvDesc::kind`.
struct Operands {
    src: *mut c_void,
    weights: *mut c_void,
    packed: bool,
    bias: *mut c_void,
    dst: *mut c_void,
}

/// What `work` makes of the primitive of `desc`, which is built if it is new to this thread.
fn with_primitive<T>(
    op: &'static str,
    desc: sys::ConvDesc,
    work: impl FnOnce(&Primitive) -> Result<T>,
) -> Result<T> {
    PRIMITIVES.with_borrow_mut(|primitives| {
        let primitive = match primitives.entry(desc) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let mut conv = std::ptr::null_mut();
                // SAFETY: both pointers are valid for the call; the shim writes `conv` only.
                let status = unsafe { sys::squall_conv_create(&raw mut conv, &raw const desc) };
                if status != 0 {
                    return Err(error(op, status, &desc));
                }
                let primitive = Primitive(conv);
                let name = primitive.implementation();
                if name.starts_with("ref") {
                    tracing::warn!(
                        "oneDNN runs {op} by reference code ({name}), which is slow: {desc:?}"
                    );
                } else {
                    tracing::debug!("oneDNN: {op}: {name}");
                }
                entry.insert(primitive)
            }
        };
        work(primitive)
    })
}

/// Runs the primitive of `desc`.
///
/// # Safety
/// Every operand must point to as many values, of the type that `desc` says, or be null if `desc` has no bias; the written one
/// must be writable and overlap no other; `packed` weights must come from [`Source::packed`] for the same `desc`.
unsafe fn run(op: &'static str, desc: sys::ConvDesc, operands: &Operands) -> Result<()> {
    with_primitive(op, desc, |primitive| {
        // SAFETY: the caller vouches for the operands; the primitive is this thread's own.
        let status = unsafe {
            let Operands {
                src,
                weights,
                packed,
                bias,
                dst,
            } = *operands;
            sys::squall_conv_execute(
                primitive.0,
                desc.kind,
                src,
                weights,
                packed.into(),
                bias,
                dst,
            )
        };
        if status == 0 {
            Ok(())
        } else {
            Err(error(op, status, &desc))
        }
    })
}

/// Columns to copy in front of and behind a field that wraps.
fn wrapped_columns(pass: &Pass<'_>) -> usize {
    if pass.spec.periodic {
        pass.spec.padding.1
    } else {
        0
    }
}

/// The geometry after `wrapped_columns` have been copied.
fn descriptor<V: Value>(kind: i64, pass: &Pass<'_>) -> sys::ConvDesc {
    let ([batch, height, width, channels], [_, out_h, out_w, out]) = (pass.x_shape, pass.y_shape);
    let spec = pass.spec;
    let extra = wrapped_columns(pass);
    let (width, pad_w) = (width + 2 * extra, spec.padding.1 - extra);
    // oneDNN wants the padding that the last window really uses, which stride can make less than was asked for.
    let reach =
        |out: usize, kernel: usize| (out - 1) * spec.stride + (kernel - 1) * spec.dilation + 1;
    let high = |out, kernel, extent: usize, low: usize| {
        (reach(out, kernel) as i64) - (extent + low) as i64
    };
    sys::ConvDesc {
        kind,
        batch: batch as i64,
        channels_in: channels as i64,
        height_in: height as i64,
        width_in: width as i64,
        channels_out: out as i64,
        height_out: out_h as i64,
        width_out: out_w as i64,
        kernel_h: spec.kernel.0 as i64,
        kernel_w: spec.kernel.1 as i64,
        stride: spec.stride as i64,
        dilation: spec.dilation as i64,
        groups: spec.groups as i64,
        pad_top: spec.padding.0 as i64,
        pad_bottom: high(out_h, spec.kernel.0, height, spec.padding.0),
        pad_left: pad_w as i64,
        pad_right: high(out_w, spec.kernel.1, width, pad_w),
        bias: 0,
        sum: 0,
        relu: 0,
        bf16: (V::DTYPE == DType::BF16).into(),
    }
}

/// x with `extra` columns of the other side in front and behind; borrowed if there are none.
fn wrap<V: Value>(x: &[V], shape: [usize; 4], extra: usize) -> std::borrow::Cow<'_, [V]> {
    if extra == 0 {
        return x.into();
    }
    let [_, _, width, channels] = shape;
    let mut wide = Vec::with_capacity(x.len() / width * (width + 2 * extra));
    for row in x.chunks_exact(width * channels) {
        let columns = (0..width + 2 * extra).map(|column| (column + extra * (width - 1)) % width);
        if extra <= width {
            wide.extend_from_slice(&row[(width - extra) * channels..]);
            wide.extend_from_slice(row);
            wide.extend_from_slice(&row[..extra * channels]);
        } else {
            columns
                .for_each(|column| wide.extend_from_slice(&row[column * channels..][..channels]));
        }
    }
    wide.into()
}

/// The transpose of [`wrap`]: gradients of copied columns are added to the columns they were copied from.
fn unwrap_columns<V: Value>(wide: &[V], shape: [usize; 4], extra: usize) -> Vec<V> {
    let [_, _, width, channels] = shape;
    let total = width + 2 * extra;
    let mut x = Vec::with_capacity(wide.len() / total * width);
    for row in wide.chunks_exact(total * channels) {
        let start = x.len();
        x.extend_from_slice(&row[extra * channels..][..width * channels]);
        let copied = (0..extra).chain(extra + width..total);
        for column in copied {
            let target = start + (column + extra * (width - 1)) % width * channels;
            let source = &row[column * channels..][..channels];
            x[target..target + channels]
                .iter_mut()
                .zip(source)
                .for_each(|(x, g)| *x = V::narrow(x.widen() + g.widen()));
        }
    }
    x
}

/// Instructions by which oneDNN multiplies bf16, in the bits that it gives them.
const AVX512_CORE_BF16: u32 = 0xe7;
const AVX512_CORE_AMX: u32 = 0x2e7;

fn has(instructions: u32) -> bool {
    // SAFETY: only reads what the library knows of the processor.
    static ISA: LazyLock<u32> = LazyLock::new(|| unsafe { sys::squall_dnnl_isa() });
    *ISA & instructions == instructions
}

/// Whether the processor multiplies bf16. Where it does not, oneDNN's bf16 is slower than its f32, or missing.
pub fn computes_bf16() -> bool {
    has(AVX512_CORE_BF16)
}

/// Whether it multiplies tiles of bf16, many times as fast as vectors of f32.
pub fn multiplies_tiles() -> bool {
    has(AVX512_CORE_AMX)
}

/// Whether activations so stored are multiplied in tiles.
fn in_tiles<V: Value>() -> bool {
    V::DTYPE == DType::BF16 && multiplies_tiles()
}

/// Where a primitive reads its kernels.
fn pointer(weights: &Source<'_>, packed: Option<&Packed>) -> *mut c_void {
    packed.map_or(weights.plain.as_ptr().cast(), Packed::as_ptr) as *mut c_void
}

/// The output of a convolution, + bias, + residual, ReLU.
pub fn forward<V: Value>(
    pass: &Pass<'_>,
    x: &[V],
    weights: Source<'_>,
    finish: Finish<'_, V>,
) -> Result<Vec<V>> {
    if plain::is_needed(pass) {
        return Ok(plain::forward(pass, x, weights, finish));
    }
    if tapped::is_faster(pass, in_tiles::<V>()) {
        return tapped::forward(pass, x, weights, finish);
    }
    if let Some((trimmed, spec)) = Trimmed::of(pass) {
        let pass = pass.with(&spec);
        let kernels = weights.trimmed(&trimmed);
        let weights = Source {
            plain: &kernels,
            ..weights
        };
        return forward_open_or_wrapped(&pass, x, weights, finish);
    }
    forward_open_or_wrapped(pass, x, weights, finish)
}

fn forward_open_or_wrapped<V: Value>(
    pass: &Pass<'_>,
    x: &[V],
    weights: Source<'_>,
    finish: Finish<'_, V>,
) -> Result<Vec<V>> {
    let Some(seam) = Seam::of(pass) else {
        return forward_whole(pass, x, weights, finish);
    };
    let open = seam.open();
    let mut y = forward_whole(&pass.with(&open), x, weights, finish)?;
    let (x_shape, y_shape, spec) = seam.geometry();
    let residual = finish.residual.map(|residual| seam.outputs(residual));
    let finish = Finish {
        residual: residual.as_deref(),
        ..finish
    };
    let edges = Pass {
        x_shape,
        y_shape,
        spec: &spec,
    };
    seam.put(
        &forward_whole(&edges, &seam.inputs(x), weights, finish)?,
        &mut y,
    );
    Ok(y)
}

fn forward_whole<V: Value>(
    pass: &Pass<'_>,
    x: &[V],
    weights: Source<'_>,
    finish: Finish<'_, V>,
) -> Result<Vec<V>> {
    let Finish {
        bias,
        residual,
        relu,
    } = finish;
    let mut desc = descriptor::<V>(sys::FORWARD, pass);
    (desc.bias, desc.sum, desc.relu) = (
        bias.is_some().into(),
        residual.is_some().into(),
        relu.into(),
    );
    let packed = weights.packed("conv2d", desc)?;
    let wide = wrap(x, pass.x_shape, wrapped_columns(pass));
    let length = pass.y_shape.iter().product();
    let mut y = Vec::with_capacity(length);
    y.extend_from_slice(residual.unwrap_or(&[]));
    let operands = Operands {
        src: wide.as_ptr() as *mut c_void,
        weights: pointer(&weights, packed.as_deref()),
        packed: packed.is_some(),
        bias: bias.map_or(std::ptr::null_mut(), |bias| bias.as_ptr() as *mut c_void),
        dst: y.as_mut_ptr() as *mut c_void,
    };
    // SAFETY: sizes were checked against the spec in `conv.rs`; oneDNN reads src, weights and bias and writes every
    // value of dst, which has room for `length` (and holds the residual where `sum` makes oneDNN read it first).
    unsafe {
        run("conv2d", desc, &operands)?;
        y.set_len(length);
    }
    Ok(y)
}

/// The gradient of the input.
pub fn backward_data<V: Value>(pass: &Pass<'_>, dy: &[V], weights: Source<'_>) -> Result<Vec<V>> {
    if plain::is_needed(pass) {
        return Ok(plain::backward_data(pass, dy, weights));
    }
    if narrow::is_needed::<V>(pass) {
        return Ok(narrow::backward_data(pass, dy, weights.plain));
    }
    if let Some(spec) = turned::turned::<V>(pass) {
        return turned::backward_data(pass, &spec, dy, weights);
    }
    let Some(seam) = Seam::of(pass) else {
        return backward_data_whole(pass, dy, weights);
    };
    let open = seam.open();
    let mut dx = backward_data_whole(&pass.with(&open), dy, weights)?;
    let (x_shape, y_shape, spec) = seam.geometry();
    let edges = Pass {
        x_shape,
        y_shape,
        spec: &spec,
    };
    let mut wrapped = backward_data_whole(&edges, &seam.outputs(dy), weights)?;
    seam.add_wrapped(&mut wrapped, &mut dx);
    Ok(dx)
}

fn backward_data_whole<V: Value>(pass: &Pass<'_>, dy: &[V], weights: Source<'_>) -> Result<Vec<V>> {
    if plain::must_widen::<V>(Direction::BackwardData, pass) {
        let dx = backward_data_whole(pass, &plain::widened(dy), weights.plain.into())?;
        return Ok(plain::narrowed(dx));
    }
    let extra = wrapped_columns(pass);
    let desc = descriptor::<V>(sys::BACKWARD_DATA, pass);
    let packed = weights.packed("conv2d_backward_data", desc)?;
    let [batch, height, width, channels] = pass.x_shape;
    let length = batch * height * (width + 2 * extra) * channels;
    let mut dx = Vec::with_capacity(length);
    let operands = Operands {
        src: dx.as_mut_ptr() as *mut c_void,
        weights: pointer(&weights, packed.as_deref()),
        packed: packed.is_some(),
        bias: std::ptr::null_mut(),
        dst: dy.as_ptr() as *mut c_void,
    };
    // SAFETY: sizes were checked against the spec in `conv.rs`; oneDNN reads dst and weights and writes every value of
    // src, which has room for `length`.
    unsafe {
        run("conv2d_backward_data", desc, &operands)?;
        dx.set_len(length);
    }
    Ok(if extra == 0 {
        dx
    } else {
        unwrap_columns(&dx, pass.x_shape, extra)
    })
}

/// Adds the gradient of the weights to `dw`.
pub fn backward_weights<V: Value>(
    pass: &Pass<'_>,
    x: &[V],
    dy: &[V],
    dw: &mut [f32],
) -> Result<()> {
    if plain::is_needed(pass) {
        plain::backward_weights(pass, x, dy, dw);
        return Ok(());
    }
    let tiles = in_tiles::<V>();
    if taps::are_faster(pass, tiles) {
        return taps::backward_weights(pass, x, dy, dw);
    }
    if let Some(strips) = strips::Strips::of(pass, size_of::<V>(), tiles) {
        let (mut x_of, mut dy_of) = (Vec::new(), Vec::new());
        return strips.groups::<V>().try_for_each(|group| {
            strips.inputs(x, &group, &mut x_of);
            strips.outputs(dy, &group, &mut dy_of);
            let (x_shape, y_shape, spec) = strips.geometry(group.len());
            let pass = Pass {
                x_shape,
                y_shape,
                spec: &spec,
            };
            backward_weights_whole(&pass, &x_of, &dy_of, dw)
        });
    }
    let Some(seam) = Seam::of(pass) else {
        return backward_weights_whole(pass, x, dy, dw);
    };
    let open = seam.open();
    backward_weights_whole(&pass.with(&open), x, dy, dw)?;
    let (x_shape, y_shape, spec) = seam.geometry();
    let edges = Pass {
        x_shape,
        y_shape,
        spec: &spec,
    };
    backward_weights_whole(&edges, &seam.wrapped_inputs(x), &seam.outputs(dy), dw)
}

fn backward_weights_whole<V: Value>(
    pass: &Pass<'_>,
    x: &[V],
    dy: &[V],
    dw: &mut [f32],
) -> Result<()> {
    if plain::must_widen::<V>(Direction::BackwardWeights, pass) {
        return backward_weights_whole(pass, &plain::widened(x), &plain::widened(dy), dw);
    }
    let wide = wrap(x, pass.x_shape, wrapped_columns(pass));
    let mut fresh = Vec::with_capacity(dw.len());
    let operands = Operands {
        src: wide.as_ptr() as *mut c_void,
        weights: fresh.as_mut_ptr() as *mut c_void,
        packed: false,
        bias: std::ptr::null_mut(),
        dst: dy.as_ptr() as *mut c_void,
    };
    let desc = descriptor::<V>(sys::BACKWARD_WEIGHTS, pass);
    // SAFETY: sizes were checked against the spec in `conv.rs`; oneDNN reads src and dst and the shim writes every
    // value of the plain weights, for which there is room.
    unsafe {
        run("conv2d_backward_weights", desc, &operands)?;
        fresh.set_len(dw.len());
    }
    (dw.par_iter_mut().zip(fresh))
        .with_min_len(1 << 14)
        .for_each(|(dw, g): (&mut f32, f32)| *dw += g);
    Ok(())
}

/// C (m × n) (+)= Aᵀ B with A (k × m), B (k × n), all row-major and dense.
fn gemm_transposed<V: Value>(
    (m, n, k): (usize, usize, usize),
    a: &[V],
    b: &[V],
    add: bool,
    c: &mut [f32],
) -> Result<()> {
    assert!(
        a.len() >= k * m && b.len() >= k * n && c.len() >= m * n,
        "matrix product over the end of a slice"
    );
    let (a, b, c) = (
        a.as_ptr() as *mut c_void,
        b.as_ptr() as *mut c_void,
        c.as_mut_ptr(),
    );
    let [m, n, k] = [m as i64, n as i64, k as i64];
    // SAFETY: the assertion above holds the sizes, A and B are only read and hold what their type says; the slices cannot
    // overlap because `c` is borrowed mutably.
    let status = unsafe {
        if V::DTYPE == DType::BF16 {
            sys::squall_gemm_bf16(1, 0, m, n, k, a, b, add.into(), c)
        } else {
            let (a, b) = (a as *const f32, b as *const f32);
            sys::squall_gemm(1, m, n, k, a, m, b, n, f32::from(u8::from(add)), c, n)
        }
    };
    if status == 0 {
        Ok(())
    } else {
        Err(ModelError::OneDnn {
            op: "gemm",
            status,
            detail: format!("{m} x {n} x {k}"),
        })
    }
}

/// C (m × n) (+)= A B with A (m × k) and C row-major and dense, B (k × n) by columns that lie `column` apart; activations stored in
/// bf16.
fn gemm_of_bf16<V: Value>(
    (m, n, k): (usize, usize, usize),
    a: &[V],
    (b, column): (&[bf16], usize),
    add: bool,
    c: &mut [f32],
) -> Result<()> {
    assert_eq!(V::DTYPE, DType::BF16, "values of another type as bf16");
    assert!(
        a.len() >= m * k && b.len() >= (n - 1) * column + k && c.len() >= m * n,
        "matrix product over the end of a slice"
    );
    let (a, b, c) = (
        a.as_ptr() as *mut c_void,
        b.as_ptr() as *mut c_void,
        c.as_mut_ptr(),
    );
    let [m, n, k] = [m as i64, n as i64, k as i64];
    // SAFETY: the assertions above hold the sizes and the type, A and B are only read; the slices cannot overlap because `c` is
    // borrowed mutably.
    let status = unsafe { sys::squall_gemm_bf16(0, column as i64, m, n, k, a, b, add.into(), c) };
    if status == 0 {
        return Ok(());
    }
    Err(ModelError::OneDnn {
        op: "gemm",
        status,
        detail: format!("{m} x {n} x {k}"),
    })
}

/// Library, version and instruction set in words.
pub fn describe() -> String {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {threads} threads", kind())
}

/// The library and the instructions that it uses here.
pub fn kind() -> String {
    // SAFETY: only reads a constant of the library.
    let version = unsafe { sys::squall_dnnl_version() };
    let isa = if multiplies_tiles() {
        "AMX"
    } else if computes_bf16() {
        "AVX-512 with bf16"
    } else if has(0x27) {
        "AVX-512"
    } else if version < 20_700 && has(0xf) {
        // Later versions use AVX2 there, and give the bit to AVX2 with VNNI.
        "AVX-512 of Knights Landing"
    } else if has(0x7) {
        "AVX2"
    } else {
        "below AVX2"
    };
    format!(
        "oneDNN {}.{}.{}, {isa}",
        version / 10_000,
        version / 100 % 100,
        version % 100
    )
}

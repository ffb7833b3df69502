//! oneDNN's matrix products.

use crate::error::{ModelError, Result};
use crate::ops::value::Value;
use candle_core::DType;
use half::bf16;
use squall_onednn_sys as sys;
use std::ffi::c_void;

/// C (m × n) (+)= Aᵀ B with A (k × m), B (k × n), all row-major and dense.
pub(super) fn gemm_transposed<V: Value>(
    (m, n, k): (usize, usize, usize),
    a: &[V],
    b: &[V],
    add: bool,
    c: &mut [f32],
) -> Result<()> {
    assert!(
        matches!(V::DTYPE, DType::F32 | DType::BF16),
        "values of another type as f32"
    );
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
    // SAFETY: the assertions above hold the sizes and the type, A and B are only read; the slices cannot overlap
    // because `c` is borrowed mutably.
    let status = unsafe {
        if V::DTYPE == DType::BF16 {
            sys::squall_gemm_bf16(1, 0, m, n, k, a, b, add.into(), c)
        } else {
            let (a, b) = (a as *const f32, b as *const f32);
            sys::squall_gemm(1, m, n, k, a, m, b, n, f32::from(u8::from(add)), c, n)
        }
    };
    checked(status, [m, n, k])
}

/// C (m × n) (+)= A B with A (m × k) and C row-major and dense, and B (k × n) column-major with column stride `column`,
/// for activations stored in bf16.
pub(super) fn gemm_of_bf16<V: Value>(
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
    // SAFETY: the assertions above hold the sizes and the type, A and B are only read; the slices cannot overlap
    // because `c` is borrowed mutably.
    let status = unsafe { sys::squall_gemm_bf16(0, column as i64, m, n, k, a, b, add.into(), c) };
    checked(status, [m, n, k])
}

fn checked(status: i32, [m, n, k]: [i64; 3]) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    Err(ModelError::OneDnn {
        op: "gemm",
        status,
        detail: format!("{m} x {n} x {k}"),
    })
}

//! The interface of `candle-kernels` 0.11.1 without its kernels.
//!
//! Squall's operations are kernels of its own (`model/src/ops/cuda/kernels`) and cuDNN's; of candle it takes tensors
//! and the memory under them. The real crate compiles some hundred kernels with nvcc, a quarter of an hour and a CUDA
//! toolkit that nobody needs otherwise. An operation of candle that would need one of them fails here with an error: a
//! module without code does not load.
//!
//! # Source
//! Names and signatures are those of huggingface/candle (MIT or Apache-2.0).

pub mod ffi;

/// Which of candle's modules.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Id {
    Affine,
    Binary,
    Cast,
    Conv,
    Fill,
    Indexing,
    Quantized,
    Reduce,
    Sort,
    Ternary,
    Unary,
}

/// All modules, in the order of their places.
pub const ALL_IDS: [Id; 11] = [
    Id::Affine,
    Id::Binary,
    Id::Cast,
    Id::Conv,
    Id::Fill,
    Id::Indexing,
    Id::Quantized,
    Id::Reduce,
    Id::Sort,
    Id::Ternary,
    Id::Unary,
];

/// A module without code.
#[derive(Debug)]
pub struct Module {
    index: usize,
}

impl Module {
    /// Its place in [`ALL_IDS`].
    pub fn index(&self) -> usize {
        self.index
    }

    /// Nothing, which the driver refuses to load.
    pub fn ptx(&self) -> &'static str {
        ""
    }
}

macro_rules! modules {
    ($($name:ident $id:ident),*) => {
        $(
            #[allow(missing_docs)]
            pub const $name: Module = Module { index: Id::$id as usize };
        )*
    };
}

modules!(
    AFFINE Affine, BINARY Binary, CAST Cast, CONV Conv, FILL Fill, INDEXING Indexing, QUANTIZED Quantized, REDUCE Reduce,
    SORT Sort, TERNARY Ternary, UNARY Unary
);

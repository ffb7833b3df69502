//! The three decoders: back to the input's resolution.
//!
//! # Source
//! ClimDeepLearn `deeplab_model.py`. As published, layers at full resolution have a bias and neither normalisation nor
//! activation; with batch normalisation on, they are units like all others.

mod strips;

use super::{NetworkConfig, NetworkName};
use crate::error::Result;
use crate::gradients::Gradients;
use crate::layers::conv::{Conv, Upsample};
use crate::layers::norm::Norm;
use crate::layers::resize::{resize, resize_backward};
use crate::layers::unit::Unit;
use crate::layers::{Joining, JoiningParts, Layer, Style};
use crate::ops::ConvSpec;
use crate::parameters::{ParameterId, Parameters};
use crate::pass::Pass;
use crate::trace::{Flow, Trace};
use candle_core::Tensor;

/// A doubling of the resolution, followed by normalisation and ReLU where batch normalisation is on.
#[derive(Debug)]
pub(super) struct Double {
    conv: Upsample,
    norm: Option<Norm>,
}

impl Double {
    pub(super) fn new(
        parameters: &mut Parameters,
        name: &str,
        channels: (usize, usize),
        style: Style,
    ) -> Result<Self> {
        let conv = Upsample::new(
            parameters,
            name,
            style.periodic,
            channels,
            !style.batch_norm,
        )?;
        let norm = (style.batch_norm)
            .then(|| Norm::new(parameters, &format!("{name}.norm"), channels.1, style))
            .transpose()?;
        Ok(Self { conv, norm })
    }

    pub(super) fn forward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        x: &Tensor,
        size: (usize, usize),
    ) -> Result<Tensor> {
        if let Some(norm) = self.norm.as_ref().filter(|_| !pass.is_training()) {
            let (conv, channels) = (&self.conv, self.conv.channels_out);
            let fold = || norm.folded(parameters, channels);
            let after = norm.dtype_after(pass, conv.dtype(pass));
            return conv.forward_folded(parameters, pass, x, size, fold, after);
        }
        let y = self.conv.forward(parameters, pass, x, size)?;
        match &self.norm {
            Some(norm) => norm.forward(parameters, pass, &y),
            None => Ok(y),
        }
    }

    pub(super) fn backward(
        &self,
        parameters: &Parameters,
        pass: &mut Pass,
        mut dy: Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        if let Some(norm) = &self.norm {
            dy = norm.backward(parameters, pass, dy, gradients)?;
        }
        self.conv.backward(parameters, pass, dy, gradients)
    }

    pub(super) fn trace(&self, x: Flow, size: (usize, usize), trace: &mut Trace) -> Result<Flow> {
        let y = self.conv.trace(x, size, trace);
        let Some(norm) = &self.norm else {
            return Ok(y);
        };
        let normed = norm.trace(y, trace)?;
        trace.folds(y, normed);
        Ok(normed)
    }
}

/// A 3x3 convolution at full resolution.
#[derive(Debug)]
enum Full {
    Unit(Unit),
    Plain(Conv),
}

impl Full {
    fn new(
        parameters: &mut Parameters,
        name: &str,
        channels: (usize, usize),
        style: Style,
    ) -> Result<Self> {
        let spec = ConvSpec::same(3);
        Ok(if style.batch_norm {
            Self::Unit(Unit::new(parameters, name, spec, channels, style)?)
        } else {
            let spec = spec.periodic(style.periodic);
            Self::Plain(Conv::new(parameters, name, spec, channels, true)?)
        })
    }

    fn layer(&self) -> &dyn Layer {
        match self {
            Self::Unit(unit) => unit,
            Self::Plain(conv) => conv,
        }
    }

    fn joining(&self) -> &dyn Joining {
        match self {
            Self::Unit(unit) => unit,
            Self::Plain(conv) => conv,
        }
    }
}

/// From half the resolution of the low-level features to the input's, by two doublings.
#[derive(Debug)]
struct Deconv {
    first: Double,
    second: Double,
    third: Double,
    beside: Option<Beside>,
}

impl Deconv {
    /// Features of a quarter of the input's resolution, brought to the whole.
    fn enlarge(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        y: &Tensor,
        (h, w): (usize, usize),
    ) -> Result<Tensor> {
        let half = (h.div_ceil(2), w.div_ceil(2));
        let y = self.second.forward(p, pass, y, half)?;
        self.third.forward(p, pass, &y, (h, w))
    }
}

/// The `deconv1x` part: the input itself, two convolutions deep, beside the decoded features, then two more.
#[derive(Debug)]
struct Beside {
    skip: [Full; 2],
    full: [Full; 2],
}

impl Beside {
    fn skip(&self, p: &Parameters, pass: &mut Pass, x: &Tensor) -> Result<Tensor> {
        let skip = self.skip[0].layer().forward(p, pass, x)?;
        self.skip[1].layer().forward(p, pass, &skip)
    }

    fn join(&self, p: &Parameters, pass: &mut Pass, parts: [Tensor; 2]) -> Result<Tensor> {
        let y = (self.full[0].joining()).forward_joined(p, pass, &{ parts })?;
        self.full[1].layer().forward(p, pass, &y)
    }

    /// The gradient of the decoded features; `counts` are the channels of these and of the skip.
    fn backward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dy: Tensor,
        counts: [usize; 2],
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let ([skip1, skip2], [full1, full2]) = (&self.skip, &self.full);
        pass.replay(|pass, inputs| self.join(p, pass, inputs))?;
        let dy = full2.layer().backward(p, pass, dy, gradients)?;
        let joining = full1.joining();
        let [dy, dskip] = joining.backward_parts(p, pass, dy, counts, gradients)?;
        pass.replay(|pass, [x]| self.skip(p, pass, &x))?;
        let dskip = skip2.layer().backward(p, pass, dskip, gradients)?;
        // Its result, the gradient of the network's input, has no use.
        skip1.layer().backward(p, pass, dskip, gradients)?;
        Ok(dy)
    }
}

#[derive(Debug)]
enum Kind {
    Bilinear,
    Deconv(Box<Deconv>),
}

/// Pyramid features, low-level features and the input to logits.
#[derive(Debug)]
pub(super) struct Decoder {
    low: Unit,
    refine: [Unit; 2],
    kind: Kind,
    classify: Conv,
    channels: usize,
    low_channels: usize,
    skip_channels: usize,
    periodic: bool,
}

impl Decoder {
    pub(super) fn new(
        parameters: &mut Parameters,
        config: &NetworkConfig,
        low_level: usize,
        style: Style,
    ) -> Result<Self> {
        let channels = config.decoder_channels(256);
        let (low_channels, point) = (config.decoder_channels(48), ConvSpec::same(1));
        let skip = [config.decoder_channels(64), config.decoder_channels(128)];
        let name = "decoder.low_level";
        let low = Unit::new(parameters, name, point, (low_level, low_channels), style)?;
        let double = |parameters: &mut Parameters, name: &str| {
            Double::new(
                parameters,
                &format!("decoder.{name}"),
                (channels, channels),
                style,
            )
        };
        let first = match config.name {
            NetworkName::DeepLabV3PlusBilinear => None,
            _ => Some(double(parameters, "up1")?),
        };
        let unit = |parameters: &mut Parameters, name: &str, channels_in: usize| {
            let name = format!("decoder.{name}");
            let spec = ConvSpec::same(3);
            Unit::new(parameters, &name, spec, (channels_in, channels), style)
        };
        let refine = [
            unit(parameters, "refine1", channels + low_channels)?,
            unit(parameters, "refine2", channels)?,
        ];
        let kind = match first {
            None => Kind::Bilinear,
            Some(first) => {
                let second = double(parameters, "up2")?;
                let third = double(parameters, "up3")?;
                let full = |parameters: &mut Parameters, name: &str, channels: (usize, usize)| {
                    Full::new(parameters, &format!("decoder.{name}"), channels, style)
                };
                let beside = match config.name {
                    NetworkName::DeepLabV3Plus => Some(Beside {
                        skip: [
                            full(parameters, "skip1", (config.inputs(), skip[0]))?,
                            full(parameters, "skip2", (skip[0], skip[1]))?,
                        ],
                        full: [
                            full(parameters, "full1", (channels + skip[1], channels))?,
                            full(parameters, "full2", (channels, channels))?,
                        ],
                    }),
                    _ => None,
                };
                Kind::Deconv(Box::new(Deconv {
                    first,
                    second,
                    third,
                    beside,
                }))
            }
        };
        let ends = (channels, config.classes);
        Ok(Self {
            low,
            refine,
            kind,
            classify: Conv::new(parameters, "decoder.classify", point, ends, true)?,
            channels,
            low_channels,
            skip_channels: skip[1],
            periodic: style.periodic,
        })
    }

    /// The kernel that gives the logits.
    pub(super) fn output(&self) -> ParameterId {
        self.classify.kernel()
    }

    /// Pyramid and low-level features at the latter's resolution, refined.
    fn join(&self, p: &Parameters, pass: &mut Pass, [deep, low]: [Tensor; 2]) -> Result<Tensor> {
        let (_, h, w, _) = low.dims4()?;
        let low = self.low.forward(p, pass, &low)?;
        let deep = match &self.kind {
            Kind::Bilinear => resize(pass, &deep, (h, w), self.periodic)?,
            Kind::Deconv(deconv) => deconv.first.forward(p, pass, &deep, (h, w))?,
        };
        let y = self.refine[0].forward_joined(p, pass, &{ [deep, low] })?;
        self.refine[1].forward(p, pass, &y)
    }

    /// The logits at the resolution of `x`.
    pub(super) fn forward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        inputs: [Tensor; 2],
        x: &Tensor,
    ) -> Result<Tensor> {
        let (_, h, w, _) = x.dims4()?;
        let mut y = pass.block(inputs, |pass, inputs| self.join(p, pass, inputs))?;
        let deconv = match &self.kind {
            Kind::Bilinear => {
                let logits = self.classify.forward(p, pass, &y)?;
                return resize(pass, &logits, (h, w), self.periodic);
            }
            Kind::Deconv(deconv) => deconv,
        };
        y = pass.block([y], |pass, [y]| deconv.enlarge(p, pass, &y, (h, w)))?;
        if let Some(beside) = &deconv.beside {
            let skip = pass.block([x.clone()], |pass, [x]| beside.skip(p, pass, &x))?;
            y = pass.block([y, skip], |pass, inputs| beside.join(p, pass, inputs))?;
        }
        self.classify.forward(p, pass, &y)
    }

    /// The gradients of the pyramid's features and of the low-level features.
    pub(super) fn backward(
        &self,
        p: &Parameters,
        pass: &mut Pass,
        dlogits: Tensor,
        gradients: &mut Gradients,
    ) -> Result<(Tensor, Tensor)> {
        let (_, h, w, _) = dlogits.dims4()?;
        let mut dy = match &self.kind {
            Kind::Bilinear => {
                let dlogits = resize_backward(pass, &dlogits, self.periodic)?;
                self.classify.backward(p, pass, dlogits, gradients)?
            }
            Kind::Deconv(deconv) => {
                let mut dy = self.classify.backward(p, pass, dlogits, gradients)?;
                if let Some(beside) = &deconv.beside {
                    let counts = [self.channels, self.skip_channels];
                    dy = beside.backward(p, pass, dy, counts, gradients)?;
                }
                pass.replay(|pass, [y]| deconv.enlarge(p, pass, &y, (h, w)))?;
                dy = deconv.third.backward(p, pass, dy, gradients)?;
                deconv.second.backward(p, pass, dy, gradients)?
            }
        };
        pass.replay(|pass, inputs| self.join(p, pass, inputs))?;
        dy = self.refine[1].backward(p, pass, dy, gradients)?;
        let counts = [self.channels, self.low_channels];
        let [ddeep, dlow] = self.refine[0].backward_parts(p, pass, dy, counts, gradients)?;
        let ddeep = match &self.kind {
            Kind::Bilinear => resize_backward(pass, &ddeep, self.periodic)?,
            Kind::Deconv(deconv) => deconv.first.backward(p, pass, ddeep, gradients)?,
        };
        let dlow = self.low.backward(p, pass, dlow, gradients)?;
        Ok((ddeep, dlow))
    }

    pub(super) fn trace(&self, deep: Flow, low: Flow, x: Flow, trace: &mut Trace) -> Result<()> {
        let [b, h, w, _] = x.shape;
        let mut y = trace.block_taking(&[deep, low], |trace| {
            let [_, low_h, low_w, _] = low.shape;
            let low = self.low.trace(low, trace)?;
            let deep = match &self.kind {
                Kind::Bilinear => trace.op(&[deep], [b, low_h, low_w, deep.shape[3]]),
                Kind::Deconv(deconv) => deconv.first.trace(deep, (low_h, low_w), trace)?,
            };
            let y = self.refine[0].trace_joined(&[deep, low], trace)?;
            self.refine[1].trace(y, trace)
        })?;
        trace.begin_last();
        if let Kind::Deconv(deconv) = &self.kind {
            y = trace.block(&[y], |trace| {
                let y = (deconv.second).trace(y, (h.div_ceil(2), w.div_ceil(2)), trace)?;
                deconv.third.trace(y, (h, w), trace)
            })?;
            if let Some(Beside { skip, full }) = &deconv.beside {
                let skip = trace.block(&[x], |trace| {
                    let inner = skip[0].layer().trace(x, trace)?;
                    skip[1].layer().trace(inner, trace)
                })?;
                y = trace.block_taking(&[y, skip], |trace| {
                    let y = full[0].joining().trace_joined(&[y, skip], trace)?;
                    full[1].layer().trace(y, trace)
                })?;
            }
        }
        self.classify.trace(y, trace)?;
        Ok(())
    }
}

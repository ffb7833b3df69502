//! An ONNX graph under construction: nodes in order, and their constant tensors.
//!
//! # Source
//! `onnx/onnx.proto` (field numbers), ONNX operator set 18.

use super::wire::Message;

/// The operator set version; supported by ONNX Runtime since 1.14.
const OPERATOR_SET: i64 = 18;
/// The corresponding version of the file format.
const IR_VERSION: i64 = 8;

/// `TensorProto.DataType`.
#[derive(Debug, Clone, Copy)]
pub(super) enum DataType {
    Float = 1,
    Uint8 = 2,
    Int64 = 7,
}

/// An attribute of a node.
#[derive(Debug, Clone, Copy)]
pub(super) enum Attribute<'a> {
    Int(i64),
    Ints(&'a [i64]),
    Text(&'a str),
}

/// One extent of an input or output.
#[derive(Debug, Clone)]
pub(super) enum Extent {
    Any(&'static str),
    Fixed(usize),
}

/// Name, type and shape of an input or output.
pub(super) type Port = (&'static str, DataType, Vec<Extent>);

/// Nodes and constants.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Vec<Message>,
    constants: Vec<Message>,
    fresh: usize,
}

impl Graph {
    /// A new value name that is readable in viewers.
    fn fresh(&mut self, what: &str) -> String {
        self.fresh += 1;
        format!("{what}_{}", self.fresh)
    }

    /// Adds a node with one output; returns the output's name.
    pub fn node(
        &mut self,
        op: &str,
        inputs: &[&str],
        attributes: &[(&str, Attribute<'_>)],
    ) -> String {
        let output = self.fresh(&op.to_lowercase());
        self.node_to(op, inputs, attributes, &output);
        output
    }

    /// Adds a node with the given output name.
    pub fn node_to(
        &mut self,
        op: &str,
        inputs: &[&str],
        attributes: &[(&str, Attribute<'_>)],
        output: &str,
    ) {
        let node = Message::default()
            .each(inputs, |node, input| node.text(1, input))
            .text(2, output)
            .text(3, &format!("{op}:{output}"))
            .text(4, op);
        let node = node.each(attributes, |node, (name, value)| {
            let attribute = Message::default().text(1, name);
            let attribute = match value {
                Attribute::Int(value) => attribute.int(3, *value).int(20, 2),
                Attribute::Text(value) => attribute.text(4, value).int(20, 3),
                Attribute::Ints(values) => attribute.each(*values, |a, &v| a.int(8, v)).int(20, 7),
            };
            node.message(5, attribute)
        });
        self.nodes.push(node);
    }

    /// Adds a constant; returns its name.
    pub fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) -> String {
        let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.constant(name, DataType::Float, shape, &raw)
    }

    /// Adds a constant list of integers; returns its name.
    pub fn ints(&mut self, name: &str, values: &[i64]) -> String {
        let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let name = self.fresh(name);
        self.constant(&name, DataType::Int64, &[values.len()], &raw)
    }

    fn constant(&mut self, name: &str, data_type: DataType, shape: &[usize], raw: &[u8]) -> String {
        let tensor = Message::default()
            .each(shape, |tensor, &extent| tensor.int(1, extent as i64))
            .int(2, data_type as i64)
            .text(8, name)
            .bytes(9, raw);
        self.constants.push(tensor);
        name.to_string()
    }

    /// Encodes the whole model file.
    pub fn into_model(
        self,
        input: Port,
        outputs: Vec<Port>,
        doc: &str,
        facts: &[(String, String)],
    ) -> Vec<u8> {
        let graph = Message::default()
            .each(self.nodes, |graph, node| graph.message(1, node))
            .text(2, "squall")
            .each(self.constants, |graph, tensor| graph.message(5, tensor))
            .text(10, doc)
            .message(11, port(input))
            .each(outputs, |graph, output| graph.message(12, port(output)));
        Message::default()
            .int(1, IR_VERSION)
            .text(2, "squall")
            .text(3, env!("CARGO_PKG_VERSION"))
            .message(7, graph)
            .message(8, Message::default().text(1, "").int(2, OPERATOR_SET))
            .each(facts, |model, (key, value)| {
                model.message(14, Message::default().text(1, key).text(2, value))
            })
            .into_bytes()
    }
}

/// `ValueInfoProto` of an input or output.
fn port((name, data_type, extents): Port) -> Message {
    let shape = Message::default().each(extents, |shape, extent| {
        let dimension = match extent {
            Extent::Fixed(extent) => Message::default().int(1, extent as i64),
            Extent::Any(name) => Message::default().text(2, name),
        };
        shape.message(1, dimension)
    });
    let tensor = Message::default()
        .int(1, data_type as i64)
        .message(2, shape);
    let kind = Message::default().message(1, tensor);
    Message::default().text(1, name).message(2, kind)
}

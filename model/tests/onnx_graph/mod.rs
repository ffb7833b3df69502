//! An ONNX file read back: nodes, constants and the shapes that it promises.

pub mod run;

use std::collections::BTreeMap;

/// A constant or a value on its way through the graph; whole numbers are held as floats.
#[derive(Debug, Clone, PartialEq)]
pub struct Values {
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
}

/// One operation.
#[derive(Debug)]
pub struct Node {
    pub op: String,
    pub name: String,
    pub inputs: Vec<String>,
    pub output: String,
    ints: BTreeMap<String, Vec<i64>>,
    texts: BTreeMap<String, String>,
}

impl Node {
    /// An attribute of whole numbers; `default` where the node has none.
    pub fn ints(&self, name: &str, default: &[i64]) -> Vec<i64> {
        self.ints.get(name).map_or(default, Vec::as_slice).to_vec()
    }

    pub fn text(&self, name: &str) -> &str {
        self.texts.get(name).map_or("", String::as_str)
    }
}

/// What an ONNX file holds.
#[derive(Debug)]
pub struct Graph {
    pub nodes: Vec<Node>,
    /// In the file's order, so that two of one name show.
    pub constants: Vec<(String, Values)>,
    /// Name and extents of every output; 0 where any extent is allowed.
    pub outputs: Vec<(String, Vec<usize>)>,
}

impl Graph {
    pub fn read(file: &[u8]) -> Self {
        let model = fields(file);
        let content = bytes(&model, 7).next().expect("a graph");
        let graph = fields(content);
        Self {
            nodes: bytes(&graph, 1).map(node).collect(),
            constants: bytes(&graph, 5).map(constant).collect(),
            outputs: bytes(&graph, 12).map(port).collect(),
        }
    }
}

fn node(content: &[u8]) -> Node {
    let parts = fields(content);
    let texts = |number| bytes(&parts, number).map(text);
    let (mut ints, mut words) = (BTreeMap::new(), BTreeMap::new());
    for attribute in bytes(&parts, 5) {
        let attribute = fields(attribute);
        let name = bytes(&attribute, 1).map(text).next().expect("a name");
        // 3 is one number, 8 a list, 4 a text.
        let numbers: Vec<i64> = [3, 8]
            .into_iter()
            .flat_map(|number| numbers(&attribute, number))
            .collect();
        match bytes(&attribute, 4).next() {
            Some(word) => words.insert(name, text(word)).map(drop),
            None => ints.insert(name, numbers).map(drop),
        };
    }
    Node {
        op: texts(4).next().expect("an operation"),
        name: texts(3).next().expect("a name"),
        inputs: texts(1).collect(),
        output: texts(2).next().expect("an output"),
        ints,
        texts: words,
    }
}

fn constant(content: &[u8]) -> (String, Values) {
    let parts = fields(content);
    let raw = bytes(&parts, 9).next().expect("values");
    let values = match numbers(&parts, 2).next() {
        Some(1) => (raw.chunks_exact(4))
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect(),
        Some(7) => (raw.chunks_exact(8))
            .map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f32)
            .collect(),
        other => panic!("data type {other:?}"),
    };
    let shape: Vec<usize> = numbers(&parts, 1).map(|n| n as usize).collect();
    let name = bytes(&parts, 8).map(text).next().expect("a name");
    (name, Values { shape, values })
}

fn port(content: &[u8]) -> (String, Vec<usize>) {
    let inner = |content: &[u8], number| -> Vec<u8> {
        let parts = fields(content);
        bytes(&parts, number).next().expect("a part").to_vec()
    };
    let parts = fields(content);
    let name = bytes(&parts, 1).map(text).next().expect("a name");
    let shape = inner(&inner(&inner(content, 2), 1), 2);
    let extent = |dimension: &[u8]| numbers(&fields(dimension), 1).next().unwrap_or(0) as usize;
    (name, bytes(&fields(&shape), 1).map(extent).collect())
}

/// A field of a Protocol Buffers message.
enum Field<'a> {
    Number(i64),
    Bytes(&'a [u8]),
}

fn bytes<'a>(parts: &[(u64, Field<'a>)], number: u64) -> impl Iterator<Item = &'a [u8]> {
    parts.iter().filter_map(move |part| match part {
        (found, Field::Bytes(content)) if *found == number => Some(*content),
        _ => None,
    })
}

fn numbers(parts: &[(u64, Field<'_>)], number: u64) -> impl Iterator<Item = i64> {
    parts.iter().filter_map(move |part| match part {
        (found, Field::Number(value)) if *found == number => Some(*value),
        _ => None,
    })
}

fn text(content: &[u8]) -> String {
    String::from_utf8(content.to_vec()).expect("text")
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().expect("a whole varint");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn fields(mut content: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while !content.is_empty() {
        let tag = varint(&mut content);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut content) as i64),
            2 => {
                let length = varint(&mut content) as usize;
                let (inside, rest) = content.split_at(length);
                content = rest;
                Field::Bytes(inside)
            }
            other => panic!("wire type {other}"),
        };
        found.push((tag >> 3, field));
    }
    found
}

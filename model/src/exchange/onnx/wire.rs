//! The part of Protocol Buffers' wire format that ONNX needs.
//!
//! # Source
//! <https://protobuf.dev/programming-guides/encoding/>

/// A message under construction.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// The encoded message.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }

    /// Appends an integer field. Negative numbers take ten bytes, as their 64-bit two's complement.
    #[must_use]
    pub fn int(mut self, field: u32, value: i64) -> Self {
        self.tag(field, 0);
        self.varint(value as u64);
        self
    }

    /// Appends a field of bytes.
    #[must_use]
    pub fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        self.tag(field, 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// Appends a string field.
    #[must_use]
    pub fn text(self, field: u32, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    /// Appends a nested message.
    #[must_use]
    pub fn message(self, field: u32, value: Self) -> Self {
        self.bytes(field, &value.0)
    }

    /// Calls `add` for every item: repeated fields.
    #[must_use]
    pub fn each<T>(
        self,
        items: impl IntoIterator<Item = T>,
        add: impl Fn(Self, T) -> Self,
    ) -> Self {
        items.into_iter().fold(self, add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_encoded_as_the_specification_shows() {
        // The examples of the encoding guide: 150 in field 1 is 08 96 01, "testing" in field 2 is 12 07 74 ...
        let check = |message: Message, expected: &[u8]| assert_eq!(message.into_bytes(), expected);
        check(Message::default().int(1, 150), &[0x08, 0x96, 0x01]);
        check(
            Message::default().text(2, "testing"),
            &[0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67],
        );
        let inner = Message::default().int(1, 150);
        check(
            Message::default().message(3, inner),
            &[0x1a, 0x03, 0x08, 0x96, 0x01],
        );
        check(
            Message::default().int(1, -2),
            &[
                0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
            ],
        );
        check(
            Message::default().each([1, 2], |m, v| m.int(20, v)),
            &[0xa0, 0x01, 1, 0xa0, 0x01, 2],
        );
    }
}

//! Writes a model file without assembling it in memory first: tensors are borrowed and written one by one.

use crate::checksum::{CHECKSUM, Checksum};
use crate::error::Result;
use crate::model_file::{ModelFile, bad, little_endian, write_whole};
use crate::parameters::Parameter;
use crate::tensors::{Tensors, expect_count};
use safetensors::tensor::{Dtype, View, serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;

/// The contents of a model file to be written: named f32 tensors, borrowed from their owners, and named facts.
#[derive(Debug, Default)]
pub struct FileContents<'a> {
    /// Shape and values by name.
    tensors: BTreeMap<String, (Vec<usize>, TensorValues<'a>)>,
    /// The facts, as in [`ModelFile`].
    pub facts: BTreeMap<String, String>,
}

/// The values of a tensor.
#[derive(Debug)]
enum TensorValues<'a> {
    Memory(Cow<'a, [f32]>),
    /// A parameter, which may lie on a GPU; read when it is written.
    Parameter(&'a Parameter),
}

impl TensorValues<'_> {
    fn values(&self) -> Result<Cow<'_, [f32]>> {
        match self {
            Self::Memory(values) => Ok(Cow::Borrowed(&values[..])),
            Self::Parameter(parameter) => Ok(Cow::Owned(parameter.values()?)),
        }
    }
}

impl<'a> FileContents<'a> {
    /// Adds a tensor.
    pub fn lend(
        &mut self,
        name: impl Into<String>,
        shape: &[usize],
        values: impl Into<Cow<'a, [f32]>>,
    ) {
        let source = TensorValues::Memory(values.into());
        self.tensors.insert(name.into(), (shape.into(), source));
    }

    /// Adds a parameter with this shape.
    pub(crate) fn lend_parameter(&mut self, shape: &[usize], parameter: &'a Parameter) {
        let source = TensorValues::Parameter(parameter);
        (self.tensors).insert(parameter.name.clone(), (shape.into(), source));
    }

    /// Adds the whole contents of a file.
    pub fn take(&mut self, file: ModelFile) {
        for (name, (shape, values)) in file.tensors {
            self.lend(name, &shape, values);
        }
        self.facts.extend(file.facts);
    }

    /// Copies everything into a file in memory.
    ///
    /// # Errors
    /// [`crate::ModelError::Candle`] or [`crate::ModelError::Gpu`] if a parameter cannot be read.
    pub fn copy_into(&self, file: &mut ModelFile) -> Result<()> {
        for (name, (shape, source)) in &self.tensors {
            let values = source.values()?.into_owned();
            file.tensors.insert(name.clone(), (shape.clone(), values));
        }
        file.facts.extend(self.facts.clone());
        Ok(())
    }

    /// Writes the file under a temporary name, syncs it and renames it, so that a crash leaves either the old file or
    /// the new one. Values are written from where they lie; at most one tensor is copied at a time.
    ///
    /// # Errors
    /// [`crate::ModelError::Io`] naming the file, [`crate::ModelError::File`] if a tensor's shape and values disagree;
    /// otherwise as [`Self::copy_into`].
    pub fn write(&self, path: &Path) -> Result<()> {
        let header = self.header(path)?;
        write_whole(path, |file| {
            file.write_all(&header)?;
            // safetensors orders tensors of one type by name, which is the order of this map.
            for (_, source) in self.tensors.values() {
                let values = source.values().map_err(std::io::Error::other)?;
                file.write_all(&little_endian(&values))?;
            }
            Ok(())
        })
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// [`crate::ModelError::File`] naming the file if a tensor's shape and values disagree; otherwise as
    /// [`Self::copy_into`].
    pub fn encode(&self, path: &Path) -> Result<Vec<u8>> {
        // The header is allocated with room for the values.
        let mut bytes = self.header(path)?;
        for (_, source) in self.tensors.values() {
            bytes.extend_from_slice(&little_endian(&source.values()?));
        }
        Ok(bytes)
    }

    /// The bytes that precede the values.
    fn header(&self, path: &Path) -> Result<Vec<u8>> {
        let mut outlines = Vec::with_capacity(self.tensors.len());
        for (name, (shape, source)) in &self.tensors {
            let expected = shape.iter().product::<usize>();
            let found = match source {
                TensorValues::Memory(values) => values.len(),
                TensorValues::Parameter(parameter) => parameter.range.len(),
            };
            if expected != found {
                let reason =
                    format!("tensor `{name}`: {shape:?} is {expected} values, found {found}");
                return Err(bad(path, reason));
            }
            outlines.push((name, Outline { shape }));
        }
        // safetensors takes a hash map, whose order varies from run to run. A single JSON string keeps files
        // byte-identical.
        let mut facts = self.facts.clone();
        facts.insert(CHECKSUM.into(), self.checksum()?);
        let facts = serde_json::to_string(&facts).map_err(|e| bad(path, e.to_string()))?;
        let metadata = HashMap::from([("squall".to_string(), facts)]);
        serialize(outlines, Some(metadata)).map_err(|error| bad(path, error.to_string()))
    }

    /// The checksum of these contents.
    fn checksum(&self) -> Result<String> {
        let mut checksum = Checksum::of_facts(&self.facts);
        for (name, (shape, source)) in &self.tensors {
            checksum.begin(name, shape);
            checksum.add(&little_endian(&source.values()?));
        }
        Ok(checksum.text())
    }
}

impl Tensors for FileContents<'_> {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|(shape, _)| &shape[..])
    }

    fn read_into(&self, name: &str, values: &mut [f32]) -> Result<()> {
        let found = self.tensors.get(name);
        let found = found.map(|(_, source)| source.values()).transpose()?;
        let found = found.unwrap_or_default();
        expect_count(values.len(), found.len())?;
        values.copy_from_slice(&found);
        Ok(())
    }
}

/// A tensor without values, as safetensors needs it to build the header.
struct Outline<'a> {
    shape: &'a [usize],
}

impl View for Outline<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&[])
    }

    fn data_len(&self) -> usize {
        self.shape.iter().product::<usize>() * size_of::<f32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Backend;
    use crate::{Network, NetworkConfig};
    use safetensors::tensor::TensorView;

    /// What lies in a network is written as the file in memory that holds copies of it is.
    #[test]
    fn lent_tensors_are_written_as_copied_ones() {
        let folder = tempfile::tempdir().unwrap();
        let [lent, copied] = ["lent", "copied"].map(|name| folder.path().join(name));
        let config = NetworkConfig {
            width: 0.1,
            blocks: vec![1, 1],
            ..NetworkConfig::of("deeplabv3plus".parse().unwrap())
        };
        let network = Network::build(&config, Backend::Reference, 1).unwrap();
        let parameters = network.parameters();
        let mut file = ModelFile {
            tensors: parameters.to_named().unwrap(),
            ..ModelFile::default()
        };
        file.facts.insert("step".into(), "3".into());
        file.write(&copied).unwrap();
        let mut contents = parameters.lend();
        contents.facts.insert("step".into(), "3".into());
        contents.write(&lent).unwrap();
        let bytes = std::fs::read(&lent).unwrap();
        assert!(bytes == std::fs::read(&copied).unwrap());
        assert!(bytes == contents.encode(&lent).unwrap());
        let back = ModelFile::read(&lent).unwrap();
        assert_eq!(back.tensors, file.tensors);
        assert_eq!(back.facts, file.facts);
        // Another network loads them directly from the borrowed contents.
        let mut other = Network::build(&config, Backend::Reference, 2).unwrap();
        other.parameters_mut().load(&lent, &contents).unwrap();
        assert!(other.parameters().to_named().unwrap() == file.tensors);
    }

    /// The file is the one that safetensors itself would write.
    #[test]
    fn the_bytes_are_those_of_safetensors() {
        let path = Path::new("here");
        let [a, b] = [vec![1.5f32, -0.0, 3.0], vec![7.0]];
        let mut contents = FileContents::default();
        contents.lend("b", &[1], &b[..]);
        contents.lend("a.weight", &[3, 1], &a[..]);
        contents.facts.insert("fact".into(), "\"quoted\"\n".into());
        let bytes = contents.encode(path).unwrap();
        let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
        let [data_a, data_b] = [&a, &b].map(|values| little_endian(values).into_owned());
        let view = |shape: Vec<usize>, data| TensorView::new(Dtype::F32, shape, data).unwrap();
        let views = [
            ("a.weight", view(vec![3, 1], &data_a[..])),
            ("b", view(vec![1], &data_b[..])),
        ];
        assert!(bytes == serialize(views, header.metadata().clone()).unwrap());
        contents.lend("b", &[2], &b[..]);
        let error = contents.encode(path).unwrap_err().to_string();
        assert!(
            error.contains("tensor `b`: [2] is 2 values, found 1"),
            "{error}"
        );
    }
}

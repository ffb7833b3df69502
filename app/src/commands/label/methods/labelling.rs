//! Both passes over the fields: the first collects information from all times, the second draws the masks.

use super::reader::Reader;
use crate::commands::label::against::Against;
use crate::commands::label::climate;
use crate::commands::label::masks::Masks;
use crate::commands::label::rules::Rules;
use crate::progress::Progress;
use crate::saving::Saving;
use squall_climate::ClimateError;
use squall_climate::detect::{
    Agreement, Conclusions, FirstPass, Method, MethodLabels, MethodsFolder, SecondPass,
};
use squall_climate::label::{Pass, SeriesSummary};

/// A labelling in progress: its input and output.
pub struct Labelling<'a> {
    pub rules: &'a Rules,
    pub reader: &'a Reader<'a>,
    pub against: &'a Against,
    pub folder: MethodsFolder,
    pub masks: Vec<Masks<'a>>,
    pub agreement: Agreement,
    pub saving: Saving,
    pub progress: Progress,
}

impl Labelling<'_> {
    /// Runs both passes to their end and returns what each method found.
    pub fn label(
        &mut self,
        first: FirstPass,
        second: &mut SecondPass,
    ) -> Result<Vec<SeriesSummary>, ClimateError> {
        let conclusions = self.first_pass(first, second.done() == 0)?;
        self.second_pass(second, &conclusions)?;
        Ok(second.summaries(&conclusions))
    }

    /// Runs the first pass over all times. With `is_new`, saves the state at its end, because the second pass has not
    /// started and no saved state includes it.
    fn first_pass(
        &mut self,
        mut first: FirstPass,
        is_new: bool,
    ) -> Result<Conclusions, ClimateError> {
        let (rules, reader) = (self.rules, self.reader);
        let read = |index: usize, pass: Pass| reader.read(index, pass);
        let which = in_words(rules.passes(), Pass::First);
        self.progress.start(reader.times(), first.seen());
        first.run(&rules.detectors, reader.times(), &read, |pass| {
            self.progress.set(pass.seen(), which.into());
            if self.saving.is_due() {
                self.saving.save(|| self.folder.save_first(pass))
            } else {
                Ok(())
            }
        })?;
        if is_new && first.is_needed() {
            self.saving.save(|| self.folder.save_first(&first))?;
        }
        let conclusions = first.conclude(&rules.detectors)?;
        self.keep_climate(&conclusions)?;
        Ok(conclusions)
    }

    /// Saves the percentile thresholds next to their masks, and records the climate in the masks' attributes.
    fn keep_climate(&mut self, conclusions: &Conclusions) -> Result<(), ClimateError> {
        let Some(usual) = conclusions.percentiles() else {
            return Ok(());
        };
        let Reader {
            archive,
            transport,
            moisture,
            ..
        } = self.reader;
        let made_of = (*transport, moisture.as_ref());
        let climatology = climate::in_force(self.rules, archive, made_of, usual)?;
        let mut masks = self.masks.iter_mut();
        let own = masks.find(|masks| masks.method() == Method::Percentile);
        own.map_or(Ok(()), |masks| climate::keep(&climatology, masks))
    }

    /// Draws the masks of all times.
    fn second_pass(
        &mut self,
        second: &mut SecondPass,
        conclusions: &Conclusions,
    ) -> Result<(), ClimateError> {
        let (rules, reader) = (self.rules, self.reader);
        let read = |index: usize, pass: Pass| reader.read(index, pass);
        let (detectors, times) = (&rules.detectors, reader.times());
        let which = in_words(rules.passes(), Pass::Second);
        self.progress.start(times, second.done());
        second.run(
            detectors,
            conclusions,
            times,
            &read,
            |pass, index, labels| {
                self.write(index, labels.as_deref())?;
                self.progress.set(index + 1, which.into());
                // Only between files: an incomplete mask file is started again.
                if self.saving.is_due() && self.masks.iter().all(|masks| masks.ends_at(index)) {
                    self.masks.iter_mut().try_for_each(Masks::close)?;
                    let (folder, agreement) = (&mut self.folder, &self.agreement);
                    self.saving.save(|| folder.save_second(pass, agreement))?;
                }
                Ok(())
            },
        )
    }

    /// Compares and writes the labels of the next time; without labels that time is skipped.
    fn write(&mut self, index: usize, labels: Option<&[MethodLabels]>) -> Result<(), ClimateError> {
        if let Some(labels) = labels {
            let other = self.against.read(self.reader.archive, index)?;
            let drawn = labels.iter().map(|label| Some(&label.labelled.mask));
            let mut compared: Vec<_> = drawn.collect();
            if self.against.is_given() {
                compared.push(other.as_ref());
            }
            self.agreement.add(&compared, self.reader.archive.grid())?;
            self.folder.write(labels)?;
        }
        for (method, masks) in self.masks.iter_mut().enumerate() {
            let of_method = labels.map(|labels| &labels[method].labelled);
            masks.write(index, of_method)?;
        }
        Ok(())
    }
}

/// Which of these passes it is, for the progress; nothing where there is only one.
fn in_words(passes: &[Pass], pass: Pass) -> &'static str {
    match (passes.len(), pass) {
        (1, _) => "",
        (_, Pass::First) => "pass 1 of 2",
        (_, Pass::Second) => "pass 2 of 2",
    }
}

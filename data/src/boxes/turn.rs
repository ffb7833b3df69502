//! Boxes turned as the fields of their sample are.

use super::PixelBox;
use crate::store::View;

impl View {
    /// The box as it lies in a field of this shape that was turned so.
    #[must_use]
    pub fn turn_box(self, found: PixelBox, (rows, columns): (usize, usize)) -> PixelBox {
        let (rows, columns) = (rows as f64, columns as f64);
        let x_min = (found.x_min + self.roll as f64).rem_euclid(columns);
        let (y_min, y_max) = match self.mirror {
            true => (rows - found.y_max, rows - found.y_min),
            false => (found.y_min, found.y_max),
        };
        PixelBox {
            x_min,
            x_max: x_min + (found.x_max - found.x_min),
            y_min,
            y_max,
            ..found
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BoxClass;
    use proptest::prelude::*;

    proptest! {
        /// The pixels of a turned box are the turned pixels of the box.
        #[test]
        fn boxes_turn_as_labels_do(
            x in 0usize..12, width in 1usize..12, y in 0usize..7, height in 1usize..8, roll in 0usize..12, mirror: bool,
        ) {
            let (rows, columns) = (8, 12);
            let found = PixelBox {
                class: BoxClass::TropicalCyclone,
                y_min: y as f64,
                x_min: x as f64,
                y_max: (y + height).min(rows) as f64,
                x_max: (x + width) as f64,
                confidence: None,
            };
            let paint = |found: PixelBox| {
                let mut labels = vec![0u8; rows * columns];
                for j in found.y_min as usize..found.y_max as usize {
                    (found.x_min as usize..found.x_max as usize).for_each(|i| labels[j * columns + i % columns] = 1);
                }
                labels
            };
            let view = View { roll, mirror };
            let mut labels = paint(found);
            view.turn_labels(&mut labels, columns);
            prop_assert_eq!(labels, paint(view.turn_box(found, (rows, columns))));
        }
    }
}

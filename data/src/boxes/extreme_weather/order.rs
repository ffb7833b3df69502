//! Determines the column order of rows and the first class number.
//!
//! Letters: y row (latitude), x column (longitude), as everywhere here; the converter's x is our y.

use super::super::{BoxClass, PixelBox};
use super::BoxFault;
use crate::LatLonGrid;
use crate::error::Result;
use std::path::Path;

/// Numbers per row: four edges and a class.
pub(super) const COORDINATES: usize = 5;
/// The value of unused rows.
pub(super) const UNUSED: i32 = -1;

type Row = [i32; COORDINATES];

/// Whether a row holds a box.
pub(super) fn is_used(row: &Row) -> bool {
    row.iter().any(|&value| value != UNUSED)
}

/// An order of the edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// ymin, xmin, ymax, xmax: the documented one.
    Documented,
    /// Rows of the grid (which it calls x) from and to, then columns from and to: the data set's converter.
    Converter,
    /// Columns from and to, then rows from and to: xmin, xmax, ymin, ymax with x along the longitudes.
    Columns,
}

impl Order {
    /// All orders, in the sequence in which they are tried.
    const ALL: [Self; 3] = [Self::Documented, Self::Converter, Self::Columns];

    /// `[y_min, x_min, y_max, x_max]` of a row.
    fn edges(self, [a, b, c, d, _]: Row) -> [i32; 4] {
        match self {
            Self::Documented => [a, b, c, d],
            Self::Converter => [a, c, b, d],
            Self::Columns => [c, a, d, b],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Documented => "ymin, xmin, ymax, xmax",
            Self::Converter => "xmin, xmax, ymin, ymax with x along the latitudes",
            Self::Columns => "xmin, xmax, ymin, ymax with x along the longitudes",
        }
    }

    /// Whether a row is a box of the grid in this order.
    fn fits(self, row: Row, grid: &LatLonGrid) -> bool {
        let (rows, columns) = (grid.shape().0 as i32, grid.shape().1 as i32);
        let [y_min, x_min, y_max, x_max] = self.edges(row);
        let wrap = if grid.is_periodic() { columns } else { 0 };
        (0..y_max).contains(&y_min)
            && y_max <= rows
            && (0..x_max).contains(&x_min)
            && x_min < columns
            && x_max <= columns + wrap
            && x_max - x_min <= columns
    }
}

/// How to interpret a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    order: Order,
    /// Whether another order fits as well.
    ambiguous: bool,
    /// The code of the first class.
    first_class: i32,
}

impl Reading {
    /// Finds the first column order and class numbering for which all boxes of a file are boxes of the grid.
    ///
    /// # Errors
    /// [`crate::DataError::BadBox`].
    pub(super) fn of(path: &Path, values: &[i32], slots: usize, grid: &LatLonGrid) -> Result<Self> {
        let (all, _) = values.as_chunks::<COORDINATES>();
        let used = || all.iter().enumerate().filter(|(_, row)| is_used(row));
        let place = |at: usize| format!("time {}, box {}", at / slots, at % slots);
        for (at, row) in used() {
            // Boxes without extent are invalid in every order: a specific error is more helpful than that no order
            // fits.
            let [a, b, c, d, _] = *row;
            let (one, other) = (a < c && b < d, a < b && c < d);
            if !one && !other {
                let expected = "edges that ascend";
                return Err(BoxFault::NoExtent.at(path, place(at), expected, format!("{row:?}")));
            }
        }
        let misfit = |order: Order| used().find(|(_, row)| !order.fits(**row, grid));
        let fitting: Vec<Order> = Order::ALL
            .into_iter()
            .filter(|order| misfit(*order).is_none())
            .collect();
        let Some(&order) = fitting.first() else {
            let (rows, columns) = grid.shape();
            let found: Vec<String> = Order::ALL
                .into_iter()
                .filter_map(|order| misfit(order).map(|(at, row)| (order, at, row)))
                .map(|(order, at, row)| format!("{row:?} ({}) against {}", place(at), order.name()))
                .collect();
            let expected = format!("boxes of a grid of {rows} x {columns} in one order");
            return Err(BoxFault::NoOrder.at(path, "all times", expected, found.join("; ")));
        };
        let class = |wanted: i32| used().find(|(_, row)| row[4] == wanted);
        let unknown = used().find(|(_, row)| !(0..=4).contains(&row[4]));
        let both = class(0).zip(class(4)).map(|(_, four)| four);
        if let Some((at, row)) = unknown.or(both) {
            let expected = "classes 0 to 3, or categories 1 to 4";
            let found = match unknown {
                Some(_) => row[4].to_string(),
                None => "both 0 and 4".into(),
            };
            return Err(BoxFault::UnknownClass.at(path, place(at), expected, found));
        }
        let from_one = match (class(0), class(4)) {
            (Some(_), _) => false,
            (None, Some(_)) => true,
            // Neither number occurs: use the numbering that belongs to the order.
            (None, None) => order != Order::Documented,
        };
        Ok(Self {
            order,
            ambiguous: fitting.len() > 1 && used().next().is_some(),
            first_class: i32::from(from_one),
        })
    }

    /// The box of a row of the file.
    pub(super) fn pixels(&self, row: &Row) -> PixelBox {
        let [y_min, x_min, y_max, x_max] = self.order.edges(*row).map(f64::from);
        // Checked for all rows when this order was chosen.
        let code = u8::try_from(row[4] - self.first_class).unwrap_or(0);
        PixelBox {
            class: BoxClass::from_code(code).unwrap_or(BoxClass::TropicalDepression),
            y_min,
            x_min,
            y_max,
            x_max,
            confidence: None,
        }
    }

    /// Describes the decision for users.
    pub(super) fn describe(&self) -> String {
        let sure = if self.ambiguous {
            " (another order fits as well)"
        } else {
            ""
        };
        let order = self.order.name();
        format!("order {order}{sure}, classes from {}", self.first_class)
    }
}

//! The elements of values.

use std::fmt;
use std::str::FromStr;

use warpkeep::Table;

use super::{Dtype, ELEMENTS, text};
use crate::failure::Failure;

/// More dimensions no array has.
const MAX_DIMENSIONS: usize = 31;

/// The elements of values, and the layout of a file of them: `<f4[8]`, `>i2[2,3] fortran`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elements {
    pub(crate) dtype: Dtype,
    /// The lengths of a row's dimensions; none if each value is one element.
    pub(crate) shape: Vec<u64>,
    /// A file has the first elements of all rows before the second ones.
    pub(crate) fortran: bool,
}

impl Elements {
    /// A row of one dimension.
    pub(crate) fn row(dtype: Dtype, columns: u64) -> Elements {
        Elements { dtype, shape: vec![columns], fortran: false }
    }

    /// Elements in a row, if they can be counted.
    pub(crate) fn count(&self) -> Option<u64> {
        self.shape.iter().try_fold(1_u64, |count, len| count.checked_mul(*len))
    }

    /// Bytes in a row, if they can be counted.
    pub(crate) fn row_bytes(&self) -> Option<u64> {
        self.count()?.checked_mul(self.dtype.bytes())
    }

    /// Whether rows of both hold the same numbers in the same places, however files are laid out.
    pub(crate) fn same_rows(&self, other: &Elements) -> bool {
        self.dtype.same_numbers(&other.dtype) && self.shape == other.shape
    }

    /// The positions of a row's elements in a file that is laid out column by column: each element stands for a run
    /// of as many elements as there are rows, and this is the number of the run.
    pub(crate) fn runs(&self) -> Vec<u64> {
        let count = self.count().unwrap_or(0);
        (0..count)
            .map(|element| {
                // The last dimension moves fastest in a row, and slowest in such a file.
                let mut rest = element;
                let places: Vec<u64> = self
                    .shape
                    .iter()
                    .rev()
                    .map(|len| {
                        let place = rest % len;
                        rest /= len;
                        place
                    })
                    .collect();
                self.shape
                    .iter()
                    .zip(places.iter().rev())
                    .rev()
                    .fold(0, |run, (len, place)| run * len + place)
            })
            .collect()
    }

    /// A row with elements of another type.
    pub(crate) fn convert(&self, row: &[u8], to: &Elements) -> Result<Vec<u8>, String> {
        let mut converted = Vec::with_capacity(to.row_bytes().unwrap_or(0) as usize);
        for element in row.chunks_exact(self.dtype.bytes() as usize) {
            let number = super::number::Number::read(&self.dtype, element)
                .ok_or_else(|| format!("elements of type {} cannot be converted", self.dtype))?;
            converted.extend(number.write(&to.dtype)?);
        }
        Ok(converted)
    }

    /// Whether rows of these can become rows of others.
    pub(crate) fn can_become(&self, to: &Elements) -> bool {
        self.dtype.is_number() && to.dtype.is_number() && self.count() == to.count()
    }

    /// The text of each element of a row.
    pub(crate) fn show(&self, row: &[u8]) -> Result<Vec<String>, String> {
        row.chunks_exact(self.dtype.bytes() as usize)
            .map(|element| text::show(&self.dtype, element))
            .collect()
    }

    /// The row whose elements these texts are.
    pub(crate) fn parse<'a>(&self, texts: impl ExactSizeIterator<Item = &'a str>) -> Result<Vec<u8>, String> {
        let (found, wanted) = (texts.len() as u64, self.count().unwrap_or(0));
        if found != wanted {
            return Err(format!("it has {found} numbers, and rows of {self} have {wanted}"));
        }
        let mut row = Vec::with_capacity(self.row_bytes().unwrap_or(0) as usize);
        for (number, cell) in texts.enumerate() {
            row.extend(
                text::parse(&self.dtype, cell).map_err(|why| format!("number {}: {why}", number + 1))?,
            );
        }
        Ok(row)
    }
}

impl fmt::Display for Elements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dtype)?;
        if !self.shape.is_empty() {
            let lengths: Vec<String> = self.shape.iter().map(u64::to_string).collect();
            write!(f, "[{}]", lengths.join(","))?;
        }
        f.write_str(if self.fortran { " fortran" } else { "" })
    }
}

impl FromStr for Elements {
    type Err = String;

    fn from_str(text: &str) -> Result<Elements, String> {
        let wrong = || format!("'{text}' does not say what elements are");
        let (rest, fortran) = text.strip_suffix(" fortran").map_or((text, false), |rest| (rest, true));
        let (dtype, shape) = match rest.split_once('[') {
            None => (rest, Vec::new()),
            Some((dtype, lengths)) => {
                let lengths = lengths.strip_suffix(']').ok_or_else(wrong)?.split(',');
                (dtype, lengths.map(|len| len.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?)
            }
        };
        if shape.len() > MAX_DIMENSIONS {
            return Err(wrong());
        }
        Ok(Elements { dtype: dtype.parse().map_err(|_| wrong())?, shape, fortran })
    }
}

/// The elements of a table's values, if it records them. They count only if they match the length of its values.
pub(crate) fn elements_of(table: &Table) -> Option<Elements> {
    let elements: Elements = table.attribute(ELEMENTS)?.parse().ok()?;
    let len = table.value_spec().fixed_len()? as u64;
    (elements.row_bytes() == Some(len)).then_some(elements)
}

/// Records the elements of a table's values, if they match their length.
pub(crate) fn remember(table: &Table, elements: &Elements) -> Result<(), Failure> {
    let len = table.value_spec().fixed_len().map(|len| len as u64);
    match len.is_some() && len == elements.row_bytes() {
        true => Ok(table.set_attribute(ELEMENTS, Some(&elements.to_string()))?),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        for text in ["<f4[8]", ">i2[2,3] fortran", "|b1", "<c16[1]", "<u8 fortran"] {
            let elements: Elements = text.parse().expect("elements");
            assert_eq!(elements.to_string(), text);
        }
        for wrong in ["", "<f4[", "<f4[]", "<f4[1,]", "f4[2]", "<f4[2] c", "<f4[-1]"] {
            assert!(wrong.parse::<Elements>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn columns_of_rows_of_rows() {
        let runs =
            |shape: &[u64]| Elements { dtype: Dtype::f32(), shape: shape.to_vec(), fortran: true }.runs();
        assert_eq!(runs(&[]), [0]);
        assert_eq!(runs(&[4]), [0, 1, 2, 3]);
        // Element [i][j] of two by three lies in run i + 2 j.
        assert_eq!(runs(&[2, 3]), [0, 2, 4, 1, 3, 5]);
        assert_eq!(runs(&[2, 2, 2]), [0, 4, 2, 6, 1, 5, 3, 7]);
    }

    #[test]
    fn a_row_has_as_many_numbers_as_it_says() {
        let elements = Elements::row(Dtype::f32(), 2);
        assert_eq!(
            elements.parse(["1", "2.5"].into_iter()).map(|row| elements.show(&row)),
            Ok(Ok(vec!["1".to_owned(), "2.5".to_owned()]))
        );
        assert!(elements.parse(["1"].into_iter()).is_err());
        let wrong = elements.parse(["1", "x"].into_iter());
        assert!(wrong.is_err_and(|why| why.contains("number 2")), "the second");
    }
}

//! One number out of several runs.

use whatif_types::experiment::Measured;

/// The median with the least and the most; none if there is no number.
#[must_use]
pub fn measured(values: &[f64]) -> Option<Measured> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (*sorted.first()?, *sorted.last()?);
    let middle = sorted.len() / 2;
    let value = if sorted.len().is_multiple_of(2) { mean(sorted[middle - 1], sorted[middle]) } else { sorted[middle] };
    Some(Measured { value, low, high, runs: u32::try_from(sorted.len()).unwrap_or(u32::MAX) })
}

/// The sum of two large numbers may be too large, their halves are not.
fn mean(one: f64, other: f64) -> f64 {
    let sum = one + other;
    if sum.is_finite() { sum / 2.0 } else { one / 2.0 + other / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[f64]) -> Option<(f64, f64, f64, u32)> {
        measured(values).map(|m| (m.value, m.low, m.high, m.runs))
    }

    #[test]
    fn the_median_stands_for_all() {
        assert_eq!(of(&[3.0]), Some((3.0, 3.0, 3.0, 1)));
        assert_eq!(of(&[3.0, 100.0, 1.0]), Some((3.0, 1.0, 100.0, 3)));
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), Some((2.5, 1.0, 4.0, 4)));
        assert_eq!(of(&[f64::MAX, f64::MAX]), Some((f64::MAX, f64::MAX, f64::MAX, 2)));
    }

    #[test]
    fn what_is_no_number_does_not_count() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]), None);
        assert_eq!(of(&[f64::NAN, 2.0]), Some((2.0, 2.0, 2.0, 1)));
    }

    proptest! {
        #[test]
        fn the_median_is_within_the_spread(values: Vec<f64>) {
            if let Some(all) = measured(&values) {
                prop_assert!(all.low <= all.value && all.value <= all.high && all.value.is_finite());
            }
        }
    }
}

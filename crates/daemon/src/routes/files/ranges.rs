//! `Range`: one part of a file. Several at once are answered with all of it, as the standard allows.

/// What of a file is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Whole,
    /// From the first byte to before the second.
    Part {
        start: u64,
        end: u64,
    },
    /// The part begins after the end of the file.
    Nothing,
}

impl Wanted {
    /// From the first byte to before the second.
    #[must_use]
    pub fn bounds(self, size: u64) -> (u64, u64) {
        match self {
            Self::Whole => (0, size),
            Self::Part { start, end } => (start, end),
            Self::Nothing => (0, 0),
        }
    }
}

/// A header that cannot be understood does not count.
#[must_use]
pub fn wanted(range: Option<&str>, size: u64) -> Wanted {
    let part = range.and_then(|range| range.strip_prefix("bytes=")).and_then(|range| range.split_once('-'));
    let Some((from, to)) = part else { return Wanted::Whole };
    let (start, end) = match (number(from), number(to)) {
        (Some(from), Some(to)) if from <= to => (from, to.saturating_add(1).min(size)),
        (Some(from), None) if to.is_empty() => (from, size),
        // The last so many bytes.
        (None, Some(last)) if from.is_empty() => (if last == 0 { size } else { size.saturating_sub(last) }, size),
        _ => return Wanted::Whole,
    };
    if start >= size { Wanted::Nothing } else { Wanted::Part { start, end } }
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_part_of_a_file_is_understood() {
        let part = |start, end| Wanted::Part { start, end };
        for (range, expected) in [
            ("bytes=0-0", part(0, 1)),
            ("bytes=2-", part(2, 10)),
            ("bytes=2-99", part(2, 10)),
            ("bytes=-3", part(7, 10)),
            ("bytes=-99", part(0, 10)),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=5-2", Wanted::Whole),
            ("bytes=0-1,4-5", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("lines=1-2", Wanted::Whole),
            ("bytes=18446744073709551615-18446744073709551615", Wanted::Nothing),
        ] {
            assert_eq!(wanted(Some(range), 10), expected, "{range}");
        }
        assert_eq!((wanted(None, 10), wanted(Some("bytes=0-"), 0)), (Wanted::Whole, Wanted::Nothing));
    }
}

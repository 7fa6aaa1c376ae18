//! One thing in a layer, as it is archived.

use crate::attributes::Attributes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// `<layer id>` or `<layer id>/a/b`.
    pub path: Vec<u8>,
    pub kind: Kind,
    pub about: About,
    pub attributes: Attributes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    File {
        size: u64,
    },
    Link {
        to: Vec<u8>,
    },
    /// Another name of an earlier file of the same layer. It has nothing else of its own.
    HardLink {
        to: Vec<u8>,
    },
    Pipe,
    /// A character device 0:0: what lies below is gone.
    Whiteout,
}

impl Kind {
    /// Bytes of content that follow.
    pub(crate) fn size(&self) -> u64 {
        if let Self::File { size } = self { *size } else { 0 }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct About {
    /// Permission bits, including set-id and sticky ones.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub mtime: Time,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Time {
    pub seconds: i64,
    pub nanoseconds: u32,
}

const SECOND: u32 = 1_000_000_000;

impl Time {
    /// As pax has it: a decimal number of seconds. Before 1970 the fraction counts backwards, too.
    pub(crate) fn to_text(self) -> String {
        match self {
            Self { seconds, nanoseconds: 0 } => seconds.to_string(),
            Self { seconds, nanoseconds } if seconds >= 0 => format!("{seconds}.{nanoseconds:09}"),
            Self { seconds, nanoseconds } => format!("-{}.{:09}", (seconds + 1).unsigned_abs(), SECOND - nanoseconds),
        }
    }

    pub(crate) fn from_text(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (text, is_negative) = text.strip_prefix('-').map_or((text, false), |t| (t, true));
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "000000000"));
        let is_number = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        if !is_number(whole) || !is_number(fraction) || fraction.len() != 9 {
            return None;
        }
        let (whole, fraction): (i128, u32) = (whole.parse().ok()?, fraction.parse().ok()?);
        let (seconds, nanoseconds) = match (is_negative, fraction) {
            (false, _) => (whole, fraction),
            (true, 0) => (-whole, 0),
            (true, _) => (-whole - 1, SECOND - fraction),
        };
        Some(Self { seconds: seconds.try_into().ok()?, nanoseconds })
    }
}

#[cfg(test)]
mod tests {
    use super::Time;

    #[test]
    fn times_survive() {
        for seconds in [i64::MIN, i64::MIN + 1, -2, -1, 0, 1, 1_700_000_000, i64::MAX] {
            for nanoseconds in [0, 1, 500_000_000, 999_999_999] {
                let time = Time { seconds, nanoseconds };
                assert_eq!(Time::from_text(time.to_text().as_bytes()), Some(time), "{}", time.to_text());
            }
        }
        assert_eq!(Time { seconds: -2, nanoseconds: 500_000_000 }.to_text(), "-1.500000000");
        for bad in [
            "",
            "-",
            ".",
            "1.",
            "1.5",
            "+1",
            "1e3",
            "99999999999999999999",
            "99999999999999999999999999999999999999999",
            "--1",
            "1.-00000001",
        ] {
            assert_eq!(Time::from_text(bad.as_bytes()), None, "{bad}");
        }
    }
}

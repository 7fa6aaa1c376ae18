//! Pax records: `<length> <keyword>=<value>\n`, the length being that of the whole record.

/// Of one entry. Attributes are 64 KiB each at most, and hardly a file system takes more than a few of that size. Those of
/// directories within directories are held in memory all at once.
pub(crate) const LONGEST: usize = 256 << 10;

pub(crate) fn push(records: &mut Vec<u8>, keyword: &[u8], value: &[u8]) {
    // Space, equals sign, newline.
    let rest = keyword.len() + value.len() + 3;
    let mut length = rest + 1;
    // The length counts its own digits.
    while rest + digits(length) != length {
        length = rest + digits(length);
    }
    records.extend(length.to_string().into_bytes());
    records.push(b' ');
    records.extend(keyword);
    records.push(b'=');
    records.extend(value);
    records.push(b'\n');
}

fn digits(number: usize) -> usize {
    number.to_string().len()
}

/// Keyword and value.
type Record<'r> = (&'r [u8], &'r [u8]);

/// All records, in their order.
pub(crate) fn split(mut records: &[u8]) -> Result<Vec<Record<'_>>, &'static str> {
    const BROKEN: &str = "has broken pax records";
    let mut found = Vec::new();
    while !records.is_empty() {
        let space = records.iter().take(8).position(|b| *b == b' ').ok_or(BROKEN)?;
        let number = records[..space].iter().all(u8::is_ascii_digit).then_some(&records[..space]).ok_or(BROKEN)?;
        let length: usize = std::str::from_utf8(number).ok().and_then(|t| t.parse().ok()).ok_or(BROKEN)?;
        if length > records.len() || length < space + 2 {
            return Err(BROKEN);
        }
        let (record, rest) = records.split_at(length);
        let record = record[space + 1..].strip_suffix(b"\n").ok_or(BROKEN)?;
        let equals = record.iter().position(|b| *b == b'=').ok_or(BROKEN)?;
        found.push((&record[..equals], &record[equals + 1..]));
        records = rest;
    }
    Ok(found)
}

/// Attribute names may have an equals sign, keywords not. Other programs write it the same way.
pub(crate) fn escape(name: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(name.len());
    for byte in name {
        match byte {
            b'%' => escaped.extend(b"%25"),
            b'=' => escaped.extend(b"%3D"),
            other => escaped.push(*other),
        }
    }
    escaped
}

pub(crate) fn unescape(name: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, after @ ..] = rest {
        let (byte, after) = match (first, after) {
            (b'%', [b'2', b'5', after @ ..]) => (b'%', after),
            (b'%', [b'3', b'D', after @ ..]) => (b'=', after),
            (b'%', _) => return None,
            (other, after) => (*other, after),
        };
        plain.push(byte);
        rest = after;
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::{escape, push, split, unescape};

    #[test]
    fn records_of_every_length_survive() {
        for length in (0..1200).chain([9_980, 9_990, 99_980, 99_990]) {
            let value = vec![b'\n'; length];
            let mut records = Vec::new();
            push(&mut records, b"key", &value);
            push(&mut records, b"other", b"a=b");
            assert_eq!(split(&records), Ok(vec![(&b"key"[..], &value[..]), (&b"other"[..], &b"a=b"[..])]), "{length}");
        }
    }

    #[test]
    fn broken_records_are_refused() {
        for bad in ["x", "5", "0 a=b\n", "7 a=b\n", "5 a=b\n", "6 abc\n", " a=b\n", "2 \n", "3 \n", "99999999 a=b\n", "6 a=bc"] {
            assert!(split(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn attribute_names_survive() {
        for name in ["user.a", "user.a=b", "user.%3D", "user.%", "user.=="] {
            assert_eq!(unescape(&escape(name.as_bytes())).as_deref(), Some(name.as_bytes()));
        }
        assert_eq!(unescape(b"user.%41"), None);
    }
}

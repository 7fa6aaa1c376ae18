//! Parts that lines of reports are made of.

/// `3 passed`: a number, and what there are so many of.
pub fn counted(text: &str) -> Option<(u64, &str)> {
    let (number, what) = text.split_once(' ')?;
    Some((whole(number)?, what))
}

/// Digits only: `+3` is a number for a parser, but nobody counts like that.
pub fn whole(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// `0.12`.
pub fn is_decimal(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('.').map_or_else(|| digits(text), |(whole, fraction)| digits(whole) && digits(fraction))
}

/// `0.12s`, `3ms`, `2m`.
pub fn is_time(text: &str) -> bool {
    ["ms", "s", "m", "h", "d"].iter().any(|unit| text.strip_suffix(unit).is_some_and(is_decimal))
}

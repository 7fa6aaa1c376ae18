//! Bytes that nobody can guess, from the kernel.

use std::fmt::Write;
use std::io;

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// # Errors
/// If the system has no random bytes.
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// So many of them, as hexadecimal digits.
///
/// # Errors
/// If the system has no random bytes.
pub fn word<const BYTES: usize>() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    fill(&mut bytes)?;
    Ok(bytes.iter().fold(String::with_capacity(2 * BYTES), |mut word, byte| {
        let _ = write!(word, "{byte:02x}");
        word
    }))
}

#[cfg(test)]
mod tests {
    use super::{fill, word};

    #[test]
    fn all_of_it_is_filled_each_time_anew() {
        let (mut one, mut other) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        fill(&mut one).unwrap();
        fill(&mut other).unwrap();
        assert_ne!(one, other);
        assert!(one[one.len() - 64..].iter().any(|byte| *byte != 0));
        let word = word::<8>().unwrap();
        assert!(word.len() == 16 && word.bytes().all(|digit| digit.is_ascii_hexdigit()), "{word}");
    }
}

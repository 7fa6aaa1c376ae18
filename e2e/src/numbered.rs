//! The stream in which at each multiple of 1024 there is its own number and a filling, so that nothing can be missing, doubled or out
//! of place without showing.

/// A part of it.
#[must_use]
pub fn stream(from: u64, length: usize) -> Vec<u8> {
    let first = from - from % 1024;
    let end = from + length as u64;
    let mut whole = Vec::with_capacity(length + 2048);
    for number in (first..end).step_by(1024) {
        whole.extend_from_slice(format!("{number:015}").as_bytes());
        whole.resize(whole.len() + 1008, b'.');
        whole.push(b'\n');
    }
    whole[(from - first) as usize..][..length].to_vec()
}

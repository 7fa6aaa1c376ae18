//! Files that the kernel writes while they are read, as those in `/proc`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Most tables are smaller.
const USUAL_SIZE: usize = 8 << 10;

/// Reads all of it. Such files do not tell their size, so the usual way to read begins with a few bytes and doubles that, and the
/// kernel looks up its place in the table each time.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(USUAL_SIZE);
    File::open(path)?.read_to_end(&mut text)?;
    Ok(text)
}

//! The two zstd frames of an archive. One after the other and nothing else: no third, none that is skipped.

use std::io::{self, BufRead, Read, Write};

use zstd::stream::{read::Decoder, write::Encoder};

use crate::error::ArchiveError;

/// Where zstd's curve bends: faster than most disks, and the next levels save little.
const LEVEL: i32 = 3;
/// What a reader has to provide at most, as a power of two: 8 MiB. Level 3 asks for 2.
const LARGEST_WINDOW: u32 = 23;

pub(crate) fn encoder<W: Write>(out: W) -> io::Result<Encoder<'static, W>> {
    let mut encoder = Encoder::new(out, LEVEL)?;
    encoder.include_checksum(true)?;
    Ok(encoder)
}

/// Reads one frame; what is behind it stays where it is.
pub(crate) fn decoder<R: BufRead>(input: R) -> Result<Decoder<'static, R>, ArchiveError> {
    let mut decoder = Decoder::with_buffer(input).map_err(ArchiveError::Input)?.single_frame();
    decoder.window_log_max(LARGEST_WINDOW).map_err(ArchiveError::Input)?;
    Ok(decoder)
}

/// The frame has to end here. What follows it is given back.
pub(crate) fn finish<R: BufRead>(mut decoder: Decoder<'static, R>) -> Result<R, ArchiveError> {
    match decoder.read(&mut [0]) {
        Ok(0) => Ok(decoder.finish()),
        Ok(_) => Err(ArchiveError::Trailing),
        Err(error) => Err(failed(error)),
    }
}

/// What a failed read of a frame means. Only errors of the system have a number; the others are zstd's opinion.
pub(crate) fn failed(error: io::Error) -> ArchiveError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ArchiveError::Truncated,
        _ if error.raw_os_error().is_some() => ArchiveError::Input(error),
        _ => ArchiveError::Damaged { why: error.to_string().to_lowercase() },
    }
}

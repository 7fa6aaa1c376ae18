//! The other side: reads while the keeper writes, and knows what it has missed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::{HEADER_LENGTH, Header};

#[derive(Debug)]
pub struct Reader {
    files: Vec<File>,
    /// Up to where in the stream the caller knows everything.
    position: u64,
    /// Not further than this.
    until: Option<u64>,
}

/// What comes next in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// So many bytes are in the buffer.
    Output(usize),
    /// So many bytes are gone.
    Dropped(u64),
}

impl Reader {
    /// From the beginning of the stream. The order of the files does not matter, and one of them may be missing.
    #[must_use]
    pub fn new(files: Vec<File>) -> Self {
        Self { files, position: 0, until: None }
    }

    /// Goes on here, whatever was read before.
    pub fn go_to(&mut self, position: u64) {
        self.position = position;
    }

    /// Up to where everything was read, or told to be gone.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Not further than this, even if there is more.
    pub fn end_at(&mut self, until: u64) {
        self.until = Some(until);
    }

    /// Where the stream ends now.
    pub fn end(&self) -> io::Result<u64> {
        Ok(self.pieces()?.iter().map(|p| p.end() + p.dropped).max().unwrap_or(0))
    }

    /// From here on there is no more than there is now; or there is again, `as_it_grows`.
    pub fn bound(&mut self, as_it_grows: bool) -> io::Result<()> {
        self.until = if as_it_grows { None } else { Some(self.end()?) };
        Ok(())
    }

    /// The next part, or `None` if there is nothing more yet.
    pub fn next(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        let until = self.until.unwrap_or(u64::MAX);
        loop {
            if self.position >= until {
                return Ok(None);
            }
            let pieces = self.pieces()?;
            let Some(piece) = pieces.iter().find(|p| p.start <= self.position && self.position < p.end()) else {
                return Ok(self.skip_to(&pieces));
            };
            let offset = self.position - piece.start;
            let left = (piece.length - offset).min(until - self.position);
            let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let file = &self.files[piece.file];
            let length = file.read_at(&mut buffer[..wanted], piece.content_at + offset)?;
            // A file that had its turn meanwhile has another beginning, and what was read may be of either.
            if length > 0 && start_of(file)? == Some(piece.start) {
                self.position += length as u64;
                return Ok(Some(Part::Output(length)));
            }
        }
    }

    fn skip_to(&mut self, pieces: &[Piece]) -> Option<Part> {
        let later = pieces.iter().map(|p| p.start).filter(|start| *start > self.position).min();
        let to = later.or_else(|| pieces.iter().map(|p| p.end() + p.dropped).max())?;
        let missing = to.checked_sub(self.position).filter(|n| *n > 0)?;
        self.position = to;
        Some(Part::Dropped(missing))
    }

    /// What all files hold, as of one moment: a file that began anew while another was looked at is looked at again.
    fn pieces(&self) -> io::Result<Vec<Piece>> {
        loop {
            let mut pieces = Vec::new();
            let mut starts = Vec::new();
            for (index, file) in self.files.iter().enumerate() {
                let piece = Piece::of(index, file)?;
                starts.push(piece.as_ref().map(|p| p.start));
                pieces.extend(piece);
            }
            if self.files.iter().map(start_of).collect::<io::Result<Vec<_>>>()? == starts {
                return Ok(pieces);
            }
        }
    }
}

/// What one file holds of the stream.
struct Piece {
    file: usize,
    start: u64,
    length: u64,
    dropped: u64,
    content_at: u64,
}

impl Piece {
    fn of(index: usize, file: &File) -> io::Result<Option<Self>> {
        let Some(header) = header_of(file)? else { return Ok(None) };
        let size = file.metadata()?.len();
        let (header, content_at) = match header {
            Some(header) => (header, HEADER_LENGTH as u64),
            None => (Header { start: 0, dropped: 0 }, 0),
        };
        let length = size.saturating_sub(content_at);
        Ok(Some(Self { file: index, start: header.start, length, dropped: header.dropped, content_at }))
    }

    fn end(&self) -> u64 {
        self.start + self.length
    }
}

/// Nothing for a file that is empty; nothing within for one that is all content, as keepers of earlier versions wrote it.
fn header_of(file: &File) -> io::Result<Option<Option<Header>>> {
    let mut line = [0; HEADER_LENGTH];
    let length = file.read_at(&mut line, 0)?;
    Ok((length > 0).then(|| Header::parse(&line[..length])))
}

fn start_of(file: &File) -> io::Result<Option<u64>> {
    Ok(header_of(file)?.map(|header| header.map_or(0, |h| h.start)))
}

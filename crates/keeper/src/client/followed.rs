//! Follows a command whose output the keeper keeps itself.
//!
//! One connection is attached: while it is there, nothing that was not taken is given up, and it tells when there is more. The other
//! one reads. A client that comes back goes on at any offset that is kept.

use whatif_types::CommandId;

use super::{Attached, Client, ClientError, Heard, Piece};
use crate::protocol::Finished;

#[derive(Debug)]
pub struct Followed {
    pub id: CommandId,
    pub attached: Attached,
    /// Signals, sizes and the end of the input are sent with this one.
    pub news: Client,
    reads: Client,
    /// Everything before it was handed out.
    position: u64,
    finished: Option<Finished>,
}

impl Followed {
    /// Over two connections to the same keeper. `None` if it knows no such command.
    pub fn new(mut news: Client, reads: Client, id: CommandId, from: u64) -> Result<Option<Self>, ClientError> {
        let attached = news.attach(id, from)?;
        Ok(attached.map(|attached| Self { id, attached, news, reads, position: from, finished: None }))
    }

    /// Where in the output we are.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next part of the output; waits for it. `None` after the last. What was handed out before counts as taken.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, ClientError> {
        loop {
            if let Some(piece) = self.read()? {
                return Ok(Some(piece));
            }
            if self.finished.is_some() {
                return Ok(None);
            }
            self.news.taken(self.position)?;
            match self.news.hear() {
                Ok(Heard::Finished(finished)) => self.finished = Some(*finished),
                // One that says nothing for long is waited for.
                Ok(Heard::Output | Heard::InputClosed) | Err(ClientError::NoAnswer) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// How it ended, once all of its output was handed out.
    #[must_use]
    pub fn finished(&self) -> Option<&Finished> {
        self.finished.as_ref()
    }

    fn read(&mut self) -> Result<Option<Piece>, ClientError> {
        let end = self.finished.as_ref().map_or(u64::MAX, |finished| finished.output);
        if self.position >= end {
            return Ok(None);
        }
        let mut piece = self.reads.read_output(self.id, self.position)?;
        // What it left running may have written more.
        piece.bytes.truncate(usize::try_from(end.saturating_sub(piece.start)).unwrap_or(usize::MAX));
        if piece.bytes.is_empty() {
            return Ok(None);
        }
        self.position = piece.start + piece.bytes.len() as u64;
        Ok(Some(piece))
    }
}

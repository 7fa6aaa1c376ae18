//! Whether reality still has the bytes that its times say it has.
//!
//! A store through a shared mapping moves no time of a file that was written to before: not until the next write-back, and in memory
//! never. Databases write like that. So before anything is replaced, what was kept is compared.

use whatif_overlay::Format;

use super::{Bases, writer};
use crate::change::{Base, Change, State};
use crate::content;
use crate::node::Kind;
use crate::unreadable::Unreadable;

impl Bases {
    /// Finds the changes of files that reality changed without a trace in their times. Reads every file of which something is kept.
    pub fn compare_closely(&self, changes: &mut [Change]) -> Result<(), Unreadable> {
        for change in changes.iter_mut().filter(|c| c.base == Base::Reality) {
            if let Some((before, base)) = self.found_otherwise(change)? {
                (change.before, change.base) = (Some(before), base);
            }
        }
        Ok(())
    }

    fn found_otherwise(&self, change: &Change) -> Result<Option<(State, Base)>, Unreadable> {
        let Some(reality) = change.reality.as_ref().filter(|r| r.kind == Kind::File) else { return Ok(None) };
        let is_of_reality = |r: &&super::Placed| !r.record.reconciled && !r.record.absent && r.record.node.size == reality.size;
        let Some(placed) = self.find(&change.path).filter(is_of_reality) else { return Ok(None) };
        let now = State::new(reality.clone(), change.path.clone(), Format::None);
        let kept = self.kept(placed);
        let unreadable = |error| Unreadable::of(&change.path, &error);
        let is_same = match (&kept, placed.record.hash) {
            (Some(kept), _) => content::is_same(&now.at, &kept.at, reality.size).map_err(unreadable)?,
            (None, Some(hash)) => writer::hash(&now, u64::MAX).map_err(unreadable)? == Some(hash),
            (None, None) => true,
        };
        Ok(match (is_same, kept) {
            (true, _) => None,
            (false, Some(kept)) => Some((kept, Base::Kept)),
            (false, None) => Some((now, Base::Lost)),
        })
    }
}

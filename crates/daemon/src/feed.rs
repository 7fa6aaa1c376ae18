//! Tells those who follow events that there are more. One task looks for all of them, and only while somebody follows.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::app::Shared;

/// How often it is looked.
const PAUSE: Duration = Duration::from_millis(100);
/// After so many looks it counts as changed, whatever is seen.
const LOOKS: u32 = 30;

/// What followers wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Grows when there may be more.
    Number(u64),
    /// The daemon ends.
    Over,
}

#[derive(Debug)]
pub struct Feed(Arc<watch::Sender<Turn>>);

impl Default for Feed {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Turn::Number(0))))
    }
}

impl Feed {
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<Turn> {
        self.0.subscribe()
    }

    /// Every stream comes to its end.
    pub fn close(&self) {
        self.0.send_replace(Turn::Over);
    }

    fn is_over(&self) -> bool {
        *self.0.borrow() == Turn::Over
    }

    fn advance(&self) {
        self.0.send_modify(|turn| {
            if let Turn::Number(number) = turn {
                *number += 1;
            }
        });
    }
}

/// Looks until the daemon ends.
pub async fn watch(app: Shared) {
    let (mut seen, mut looks) = (None, 0);
    while !app.feed.is_over() {
        tokio::time::sleep(PAUSE).await;
        if app.feed.0.receiver_count() == 0 {
            continue;
        }
        let mark = app.events_mark().await;
        looks += 1;
        if mark.is_none() || mark != seen || looks >= LOOKS {
            (seen, looks) = (mark, 0);
            app.feed.advance();
        }
    }
}

//! Notices when reality moves during a race: attempts that begin afterwards do not start from the same as those before.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use whatif_types::experiment::{Event, Experiment};
use whatif_types::text::Text;

use super::run::Tell;
use crate::races::Races;

/// Looking takes longer in a large project, and is done less often there.
const SMALLEST_SHARE: u32 = 50;
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Moves {
    project: PathBuf,
    since: u64,
    told: BTreeSet<PathBuf>,
    next: Instant,
}

impl Moves {
    pub fn new(experiment: &Experiment) -> Self {
        let (project, since) = (experiment.project.clone(), experiment.details.began_at);
        Self { project, since, told: BTreeSet::new(), next: Instant::now() + SHORTEST_PAUSE }
    }

    /// Before an attempt begins.
    pub fn look(&mut self, races: &Races, tell: &mut Tell<'_>) {
        if Instant::now() >= self.next {
            self.look_once_more(races, tell);
        }
    }

    pub fn look_once_more(&mut self, races: &Races, tell: &mut Tell<'_>) {
        let began = Instant::now();
        let moved = races.changes.moved_in(&self.project, self.since);
        self.next = Instant::now() + SHORTEST_PAUSE.max(began.elapsed() * SMALLEST_SHARE);
        // A notice only: each apply looks for itself, and insists. The next look may succeed.
        let Ok(moved) = moved else { return };
        let news: Vec<PathBuf> = moved.into_iter().filter(|path| self.told.insert(path.clone())).collect();
        if !news.is_empty() {
            let name = |path: &PathBuf| Text::from(path.strip_prefix(&self.project).unwrap_or(path));
            tell(Some(&Event::RealityMoved { paths: news.iter().map(name).collect() }));
        }
    }
}

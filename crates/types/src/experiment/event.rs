//! What happens in a race, as it happens. With `--json` each is a line.

use serde::{Deserialize, Serialize};

use super::{Ended, Outcome, Ranking, TestCounts};
use crate::text::Text;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    Began {
        race: String,
        attempts: Vec<String>,
        checks: Vec<String>,
        jobs: u32,
        resumed: bool,
    },
    SetupBegan,
    SetupEnded {
        ended: Ended,
    },
    AttemptBegan {
        attempt: String,
        sandbox: String,
    },
    /// `run` counts from 1.
    CheckBegan {
        attempt: String,
        check: String,
        run: u32,
    },
    CheckEnded {
        attempt: String,
        check: String,
        run: u32,
        ended: Ended,
        tests: Option<TestCounts>,
    },
    AttemptEnded {
        attempt: String,
        outcome: Box<Outcome>,
    },
    /// Attempts that begin from now on do not start from the same as those before.
    RealityMoved {
        paths: Vec<Text>,
    },
    JudgeBegan {
        among: Vec<String>,
    },
    /// `interrupted`: it can be resumed.
    Ended {
        race: String,
        ranking: Ranking,
        spent_ms: u64,
        interrupted: bool,
    },
}

//! Reports in the Test Anything Protocol.

use super::compare::{Outcome, Outcomes};

/// A line `script NAME` says whose tests follow.
pub(super) fn read(report: &str) -> Outcomes {
    let mut script = "";
    let mut outcomes = Outcomes::new();
    for line in report.lines() {
        if let Some(name) = line.strip_prefix("script ") {
            script = name;
            continue;
        }
        // A whole script that does not apply here.
        if line.starts_with("1..0 # ") {
            outcomes.insert(script.to_owned(), Outcome::Skipped);
        }
        let (test, passed) = match (line.strip_prefix("ok "), line.strip_prefix("not ok ")) {
            (Some(test), _) => (test, true),
            (_, Some(test)) => (test, false),
            _ => continue,
        };
        let outcome = match passed {
            _ if test.contains("# skip") || test.contains("# SKIP") => Outcome::Skipped,
            // Known to be broken where the test comes from.
            _ if test.contains("# TODO") => Outcome::Skipped,
            true => Outcome::Passed,
            false => Outcome::Failed,
        };
        let name = test.split(" # ").next().unwrap_or(test);
        outcomes.insert(format!("{script} {name}").trim().replace(": ", " "), outcome);
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_is_skipped_has_run() {
        assert_eq!(read("script t3435.sh\n1..0 # SKIP no gpg\n"), [("t3435.sh".to_owned(), Outcome::Skipped)].into());
    }

    #[test]
    fn what_a_script_prints_is_read() {
        let outcomes = read("script t0000.sh\nok 1 - it: works\nnot ok 2 - it does not\nok 3 # skip no cvs\n1..3\n");
        let expected = [
            ("t0000.sh 1 - it works", Outcome::Passed),
            ("t0000.sh 2 - it does not", Outcome::Failed),
            ("t0000.sh 3", Outcome::Skipped),
        ];
        assert_eq!(outcomes, expected.map(|(name, outcome)| (name.to_owned(), outcome)).into());
    }
}

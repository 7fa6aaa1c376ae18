//! A race that is over, and what it said about itself.

use serde_json::Value;

/// A race that is over, by what `--json` says.
#[derive(Clone, Debug)]
pub struct Race {
    pub code: i32,
    pub events: Vec<Value>,
    pub stderr: String,
}

impl Race {
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "exit code of the race\n{}\n{:#?}", self.stderr, self.events);
        self
    }

    /// Those of one kind.
    #[must_use]
    pub fn all(&self, kind: &str) -> Vec<&Value> {
        self.events.iter().filter(|e| e["event"] == kind).collect()
    }

    /// The only one of its kind.
    #[must_use]
    #[track_caller]
    pub fn only(&self, kind: &str) -> &Value {
        let all = self.all(kind);
        assert_eq!(all.len(), 1, "{kind}: {:#?}\n{}", self.events, self.stderr);
        all[0]
    }

    #[must_use]
    #[track_caller]
    pub fn ranking(&self) -> &Value {
        &self.only("ended")["ranking"]
    }

    #[must_use]
    #[track_caller]
    pub fn winner(&self) -> Option<&str> {
        self.ranking()["winner"].as_str()
    }

    /// The attempts, the best first.
    #[must_use]
    #[track_caller]
    pub fn order(&self) -> Vec<&str> {
        self.places().iter().map(|place| place["attempt"].as_str().expect("an attempt has a name")).collect()
    }

    /// Who stands where, and why.
    #[must_use]
    #[track_caller]
    pub fn places(&self) -> &[Value] {
        self.ranking()["places"].as_array().expect("a ranking has places")
    }

    /// Where an attempt stands: its place, its score, and why.
    #[must_use]
    #[track_caller]
    pub fn standing(&self, attempt: &str) -> &Value {
        let found = self.places().iter().find(|place| place["attempt"] == attempt);
        found.unwrap_or_else(|| panic!("'{attempt}' has no place: {:#}", self.ranking()))
    }

    #[must_use]
    #[track_caller]
    pub fn why(&self, attempt: &str) -> &str {
        self.standing(attempt)["why"].as_str().expect("there is a reason")
    }

    /// What came of an attempt.
    #[must_use]
    #[track_caller]
    pub fn outcome(&self, attempt: &str) -> &Value {
        let ended = self.all("attempt_ended").into_iter().find(|e| e["attempt"] == attempt);
        &ended.unwrap_or_else(|| panic!("'{attempt}' did not end: {:#?}\n{}", self.events, self.stderr))["outcome"]
    }

    #[must_use]
    #[track_caller]
    pub fn verdict(&self, attempt: &str) -> &str {
        self.outcome(attempt)["verdict"]["is"].as_str().expect("a verdict is a word")
    }

    /// How a check of an attempt went, of all its runs.
    #[must_use]
    #[track_caller]
    pub fn check(&self, attempt: &str, check: &str) -> &Value {
        let checks = self.outcome(attempt)["checks"].as_array().expect("checks are a list");
        let found = checks.iter().find(|c| c["name"] == check);
        found.unwrap_or_else(|| panic!("'{check}' is not among the checks: {checks:#?}"))
    }

    /// The paths an attempt changed, in their order.
    #[must_use]
    #[track_caller]
    pub fn changed(&self, attempt: &str) -> Vec<&str> {
        let list = self.outcome(attempt)["changes"]["list"].as_array().expect("changes are a list");
        list.iter().map(|file| file["path"].as_str().expect("a plain path")).collect()
    }

    /// It begins once and ends once, as does every attempt and every check, in an order that makes sense.
    #[track_caller]
    pub fn assert_makes_sense(&self) {
        let events = &self.events;
        let say = || format!("{events:#?}\n{}", self.stderr);
        assert_eq!(events.first().map(|e| &e["event"]), Some(&"began".into()), "{}", say());
        assert_eq!(events.last().map(|e| &e["event"]), Some(&"ended".into()), "{}", say());
        let times: Vec<u64> = events.iter().map(|e| e["at_ms"].as_u64().unwrap_or_else(|| panic!("no time: {e}"))).collect();
        assert!(times.is_sorted(), "{}", say());
        let position = |kind: &str, attempt: &str| -> Vec<usize> {
            let fits = |e: &Value| e["event"] == kind && e["attempt"] == attempt;
            (0..events.len()).filter(|n| fits(&events[*n])).collect()
        };
        for attempt in self.only("began")["attempts"].as_array().expect("attempts are a list") {
            let name = attempt.as_str().expect("an attempt has a name");
            let (began, ended) = (position("attempt_began", name), position("attempt_ended", name));
            assert!(began.len() <= 1 && ended.len() <= 1 && began.len() <= ended.len(), "'{name}': {}", say());
            let (checks, checked) = (position("check_began", name), position("check_ended", name));
            // Whoever is cancelled is stopped in the middle of one.
            let is_cancelled = ended.first().is_some_and(|n| events[*n]["outcome"]["verdict"]["is"] == "cancelled");
            assert!(checks.len() == checked.len() || is_cancelled && checks.len() == checked.len() + 1, "'{name}': {}", say());
            assert!(checks.iter().zip(&checked).all(|(begin, end)| begin < end), "'{name}': {}", say());
            if let ([begin], [end]) = (began.as_slice(), ended.as_slice()) {
                assert!(begin < end && checks.iter().chain(&checked).all(|n| begin < n && n < end), "'{name}': {}", say());
            }
        }
    }
}

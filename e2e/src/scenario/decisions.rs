//! The `decisions` of a scenario: which parts are approved, and what must come of it. `scenarios/README.md` has the format.

/// One step, and what must come of it.
#[derive(Debug)]
pub(super) struct Decision {
    pub step: Step,
    pub expected: Expected,
    /// Texts that must be said, on either stream.
    pub says: Vec<String>,
}

#[derive(Debug)]
pub(super) enum Step {
    /// `whatif apply NAME --yes` with these arguments.
    Apply(String),
    /// `whatif undo --yes` with these arguments.
    Undo(String),
    /// A shell command in the project, outside.
    InReality(String),
    /// A further shell command in the sandbox.
    InSandbox(String),
}

#[derive(Debug)]
pub(super) enum Expected {
    Success,
    /// Nothing is written, exit code 1, and each of these paths is named.
    Conflict(Vec<String>),
    /// Nothing is written, and it is no success.
    Refusal,
}

/// Which tree the project must equal when the scenario has no `expected/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Sandbox,
    Reality,
}

#[derive(Debug)]
pub(super) struct Decisions {
    pub all: Vec<Decision>,
    pub outcome: Outcome,
    /// Whether changed files are replaced by new ones inside, rather than written in place.
    pub replaces: bool,
}

impl Decisions {
    pub fn parse(text: &str) -> Self {
        let mut decisions = Self { all: Vec::new(), outcome: Outcome::Sandbox, replaces: false };
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.for_each(|line| decisions.take(line));
        decisions.last();
        if decisions.all.iter().all(|d| !matches!(d.expected, Expected::Success)) {
            decisions.outcome = Outcome::Reality;
        }
        decisions
    }

    fn take(&mut self, line: &str) {
        if line == "apply" {
            return self.step(Step::Apply(String::new()));
        }
        if line.starts_with("--") {
            return self.step(Step::Apply(line.to_owned()));
        }
        let (word, rest) = line.split_once(':').unwrap_or_else(|| panic!("no decision: {line}"));
        let rest = rest.trim();
        match word {
            "then" if rest.starts_with("undo") => self.step(Step::Undo(rest["undo".len()..].trim().to_owned())),
            "exec-reality" => self.step(Step::InReality(rest.to_owned())),
            "exec-sandbox" => self.step(Step::InSandbox(rest.to_owned())),
            "expect" => self.last().expected = Expected::parse(rest),
            "says" => self.last().says.push(rest.to_owned()),
            "expected" if rest == "reality" => self.outcome = Outcome::Reality,
            "expected" if rest == "sandbox" => self.outcome = Outcome::Sandbox,
            "writes" if rest == "by replacing" => self.replaces = true,
            _ => panic!("no decision: {line}"),
        }
    }

    fn step(&mut self, step: Step) {
        self.all.push(Decision { step, expected: Expected::Success, says: Vec::new() });
    }

    /// The step spoken of. Without any, everything is applied.
    fn last(&mut self) -> &mut Decision {
        if self.all.is_empty() {
            self.step(Step::Apply(String::new()));
        }
        self.all.last_mut().expect("there is one now")
    }
}

impl Expected {
    fn parse(text: &str) -> Self {
        match text.split_once(' ').unwrap_or((text, "")) {
            ("ok", "") => Self::Success,
            ("refused", "") => Self::Refusal,
            ("conflict", paths) if !paths.is_empty() => Self::Conflict(paths.split(',').map(|p| p.trim().to_owned()).collect()),
            _ => panic!("nothing to expect: {text}"),
        }
    }
}

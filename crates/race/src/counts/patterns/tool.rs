//! What an entry of the table says about a tool. All lines are patterns, see `language.rs`.

#[derive(Debug)]
pub struct Tool {
    pub name: &'static str,
    /// What `{counts}` stands for in the summary.
    pub counts: List,
    /// The lines that count the tests, in their order. Only empty lines may stand between them.
    pub summary: &'static [Step],
    pub names_stand: Where,
    /// What lines there mean; the first pattern that fits decides.
    pub names: &'static [(&'static str, Meaning)],
}

/// One or more of these, in any order.
#[derive(Debug)]
pub struct List {
    pub between: &'static str,
    pub items: &'static [&'static str],
}

impl List {
    pub const NONE: Self = Self { between: "", items: &[] };
}

/// A line of a summary, and the forms it can have.
#[derive(Debug)]
pub enum Step {
    Tests(&'static [&'static str]),
    /// As `Tests`, but the line may be missing.
    Perhaps(&'static [&'static str]),
    /// Counts files. A file that cannot be loaded has no tests that could fail, so where no test failed, the files count.
    Files(&'static [&'static str]),
}

impl Step {
    pub fn forms(&self) -> &'static [&'static str] {
        match self {
            Self::Tests(forms) | Self::Perhaps(forms) | Self::Files(forms) => forms,
        }
    }

    pub fn is_optional(&self) -> bool {
        matches!(self, Self::Perhaps(_))
    }
}

/// Where the tool names the tests that failed.
#[derive(Debug)]
pub enum Where {
    Anywhere,
    /// Everywhere after this line.
    After(&'static str),
    /// Only in the line below this one.
    RightAfter(&'static str),
    /// After a summary that counts failures.
    AfterSummary,
}

#[derive(Debug)]
pub enum Meaning {
    /// `{name}` is a test that failed.
    Test,
    /// `{name}` begins the title of one. Deeper lines continue it, and the last one ends with a colon.
    Title,
    /// `{name}` is the file that the lines below are about.
    File,
    /// That file could not be run. It counts as a failure, since the summary counts none of its tests.
    BrokenFile,
    /// It only looks like a name.
    Nothing,
}

//! Why something of a sandbox's would damage a database of reality's. Nobody can choose that.

pub(crate) const IN_USE: &str =
    "reality has the database open, or a journal of it is left: close it first (the version of the sandbox would damage it)";
pub(crate) const WITHOUT_JOURNAL: &str =
    "what the sandbox wrote to the database last is in a journal that is not applied with it: take both, or neither";
pub(crate) const WITHOUT_DATABASE: &str = "it is the journal of a database that is not applied with it: take both, or neither";
pub(crate) const OTHER_DATABASE: &str =
    "it is the journal of a database that reality changed since: close the database inside, then choose one of the two";
pub(crate) const RUNS: &str =
    "a PostgreSQL server runs on this directory in reality: stop it first (the version of the sandbox would damage it)";
pub(crate) const MIXED: &str = "a PostgreSQL server worked on this directory in reality since, and the two cannot be mixed: take the data out of the sandbox with pg_dump, or leave all of the directory out";

const ALL: [&str; 6] = [IN_USE, WITHOUT_JOURNAL, WITHOUT_DATABASE, OTHER_DATABASE, RUNS, MIXED];

/// Whether a conflict is for such a reason.
pub(crate) fn says(why: &str) -> bool {
    ALL.contains(&why)
}

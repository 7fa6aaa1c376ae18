//! One plan of several, as far as they agree.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use whatif_apply::{Attributes, Change as Act, Identity, Operation, Plan, Source};
use whatif_diff::content;
use whatif_patch::{Merge, Region, merge};
use whatif_sys::absence::OrAbsent;
use whatif_types::text::Text;

use crate::races::{Clash, RaceError};

/// What one attempt makes of reality.
pub(super) struct Contribution<'a> {
    /// None: what was set up for all of them, which everybody may have changed.
    pub attempt: Option<&'a str>,
    pub plan: &'a Plan,
}

/// Where a path is in the whole, and whose it is.
#[derive(Clone, Copy)]
struct Owned<'a> {
    place: usize,
    by: Option<&'a str>,
}

struct Whole<'a> {
    plan: Plan,
    owners: HashMap<PathBuf, Owned<'a>>,
}

/// `project`: what paths are shown relative to.
pub(super) fn compose(contributions: &[Contribution<'_>], project: &Path) -> Result<Plan, RaceError> {
    let plan = Plan { roots: Vec::new(), operations: Vec::new(), about: serde_json::Value::Null };
    let mut whole = Whole { plan, owners: HashMap::new() };
    for contribution in contributions {
        whole.add(contribution, project)?;
    }
    whole.check_directories(project)?;
    whole.settle_further_names();
    Ok(whole.plan)
}

impl<'a> Whole<'a> {
    fn add(&mut self, contribution: &Contribution<'a>, project: &Path) -> Result<(), RaceError> {
        let (plan, attempt) = (contribution.plan, contribution.attempt);
        // Where each operation of this part is in the whole.
        let mut places = Vec::with_capacity(plan.operations.len());
        let mut clashes: Vec<(&str, Clash)> = Vec::new();
        for operation in &plan.operations {
            let path = operation.absolute(&plan.roots);
            let Some(owned) = self.owners.get(&path).copied() else {
                places.push(self.append(path, operation, plan, attempt));
                continue;
            };
            places.push(owned.place);
            match (owned.by, both(&path, &self.plan.operations[owned.place], operation)) {
                (None, _) => self.plan.operations[owned.place].change = self.carried(&operation.change, plan),
                (_, Ok(merged)) => self.plan.operations[owned.place].change = merged,
                (Some(by), Err(Disagreement { why, regions })) => {
                    clashes.push((by, Clash { path: shown(&path, project), why, regions }));
                }
            }
            self.owners.insert(path, Owned { place: owned.place, by: owned.by.or(attempt) });
        }
        self.refuse(clashes, attempt)?;
        self.relink(plan, &places);
        Ok(())
    }

    fn append(&mut self, path: PathBuf, operation: &Operation, part: &Plan, by: Option<&'a str>) -> usize {
        let root = self.root(&part.roots[operation.root]);
        let change = self.carried(&operation.change, part);
        let place = self.plan.operations.len();
        self.owners.insert(path, Owned { place, by });
        self.plan.operations.push(Operation { root, change, ..operation.clone() });
        place
    }

    /// The number of a root in the whole.
    fn root(&mut self, root: &Path) -> usize {
        self.plan.roots.iter().position(|known| known == root).unwrap_or_else(|| {
            self.plan.roots.push(root.to_owned());
            self.plan.roots.len() - 1
        })
    }

    /// A change of a part as the whole says it.
    fn carried(&mut self, change: &Act, part: &Plan) -> Act {
        let mut change = change.clone();
        if let Act::Put { source: Source::Existing(existing), .. } = &mut change {
            existing.root = self.root(&part.roots[existing.root]);
        }
        change
    }

    /// What one gives a further name to may be what another changes: then it is a name of what that one puts. Of what goes, or only
    /// gets other attributes, it is a copy.
    fn settle_further_names(&mut self) {
        for n in 0..self.plan.operations.len() {
            let Act::Put { source: Source::Existing(existing), .. } = &self.plan.operations[n].change else { continue };
            let first = existing.absolute(&self.plan.roots);
            let Some(owned) = self.owners.get(&first) else { continue };
            let is_put = match &self.plan.operations[owned.place].change {
                Act::Put { source, .. } => !matches!(source, Source::Directory | Source::Link(_)),
                Act::Remove | Act::Set { .. } => false,
            };
            let new = if is_put { Source::HardLink(owned.place) } else { Source::File(first) };
            if let Act::Put { source, .. } = &mut self.plan.operations[n].change {
                *source = new;
            }
        }
    }

    fn refuse(&self, clashes: Vec<(&str, Clash)>, other: Option<&str>) -> Result<(), RaceError> {
        let Some(one) = clashes.first().map(|(by, _)| (*by).to_owned()) else { return Ok(()) };
        let clashes = clashes.into_iter().filter(|(by, _)| *by == one).map(|(_, clash)| clash).collect();
        Err(RaceError::Clash { one, other: other.unwrap_or_default().to_owned(), clashes })
    }

    /// Links of a part lead to operations of that part.
    fn relink(&mut self, part: &Plan, places: &[usize]) {
        for (operation, place) in part.operations.iter().zip(places) {
            if let Act::Put { source: Source::HardLink(other), .. } = &operation.change
                && let Some(target) = places.get(*other)
                && let Act::Put { source, .. } = &mut self.plan.operations[*place].change
            {
                *source = Source::HardLink(*target);
            }
        }
    }

    /// What one puts into a directory that another one takes away would be gone without a word.
    fn check_directories(&self, project: &Path) -> Result<(), RaceError> {
        let mut paths: Vec<&PathBuf> = self.owners.keys().collect();
        paths.sort();
        for path in paths {
            let owned = self.owners[path];
            let Act::Put { .. } = &self.plan.operations[owned.place].change else { continue };
            let above =
                path.ancestors().skip(1).find_map(|above| Some((above, *self.owners.get(above)?)).filter(|(_, o)| self.ends(o)));
            let Some((_, over)) = above.filter(|(_, over)| over.by != owned.by) else { continue };
            let clash = Clash {
                path: shown(path, project),
                why: "one removed the directory, the other changed something in it",
                regions: Vec::new(),
            };
            let name = |by: Option<&str>| by.unwrap_or("the set-up").to_owned();
            return Err(RaceError::Clash { one: name(over.by), other: name(owned.by), clashes: vec![clash] });
        }
        Ok(())
    }

    /// Whether no directory is left at a path.
    fn ends(&self, owned: &Owned<'_>) -> bool {
        match &self.plan.operations[owned.place].change {
            Act::Remove => true,
            Act::Put { source, .. } => *source != Source::Directory,
            Act::Set { .. } => false,
        }
    }
}

fn shown(path: &Path, project: &Path) -> Text {
    Text::from(path.strip_prefix(project).unwrap_or(path))
}

/// Why somebody has to decide.
struct Disagreement {
    why: &'static str,
    regions: Vec<Region>,
}

/// What becomes of a path that two changed.
fn both(path: &Path, one: &Operation, other: &Operation) -> Result<Act, Disagreement> {
    let disagree = |why| Disagreement { why, regions: Vec::new() };
    match (&one.change, &other.change) {
        (a, b) if a == b => Ok(a.clone()),
        (Act::Put { source: Source::Directory, .. }, Act::Put { source: Source::Directory, .. }) => Ok(one.change.clone()),
        (Act::Put { source: a, attributes }, Act::Put { source: b, attributes: others }) => {
            let (ours, theirs) = bytes(a).zip(bytes(b)).ok_or_else(|| disagree("it is not a file in both"))?;
            let same_mode = attributes.mode == others.mode;
            let attributes = if same_mode { Some(attributes.clone()) } else { mode_of(path, attributes, others) };
            let attributes = attributes.ok_or_else(|| disagree("each set a different mode"))?;
            if ours == theirs {
                return Ok(Act::Put { source: a.clone(), attributes });
            }
            let base = content::read(path).or_absent().map_err(|_| disagree("what both started from cannot be read"))?;
            let base = base.unwrap_or_default();
            if [&base, &ours, &theirs].iter().any(|text| text.contains(&0)) {
                return Err(disagree("it is not text"));
            }
            match merge(&base, &ours, &theirs) {
                Merge::Clean(merged) => Ok(Act::Put { source: Source::Bytes(merged), attributes }),
                Merge::Conflicted(found) => Err(Disagreement { why: "both changed the same lines", regions: found.regions }),
            }
        }
        (Act::Remove, _) | (_, Act::Remove) => Err(disagree("one removed it, the other changed it")),
        _ => Err(disagree("each changed it differently")),
    }
}

/// What cannot be read cannot be merged either; that is told as a disagreement, and nothing is written.
fn bytes(source: &Source) -> Option<Vec<u8>> {
    match source {
        Source::File(path) | Source::Original(path) => content::read(path).ok(),
        Source::Approved(approved) => approved.read(content::LONGEST_TEXT).ok(),
        Source::Bytes(bytes) => Some(bytes.clone()),
        Source::Link(_) | Source::Directory | Source::HardLink(_) | Source::Existing(_) => None,
    }
}

/// The attributes of whoever changed the mode; `None` if both did.
fn mode_of(path: &Path, one: &Attributes, other: &Attributes) -> Option<Attributes> {
    let real = Identity::of(path).ok()?.mode;
    match (one.mode == real, other.mode == real) {
        (true, _) => Some(other.clone()),
        (_, true) => Some(one.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use whatif_apply::Expected;

    use super::*;

    fn put(path: &str, text: &str) -> Operation {
        let source = Source::Bytes(text.as_bytes().to_vec());
        let attributes = Attributes { mode: 0o644, ..Attributes::default() };
        Operation { root: 0, path: path.into(), expected: Expected::Absent, change: Act::Put { source, attributes } }
    }

    fn remove(path: &str) -> Operation {
        Operation { change: Act::Remove, ..put(path, "") }
    }

    fn plan(root: &Path, operations: &[Operation]) -> Plan {
        Plan { roots: vec![root.to_owned()], operations: operations.to_vec(), about: serde_json::Value::Null }
    }

    /// The whole, as `path=content`, or what clashes and why.
    fn composed(name: &str, parts: &[(Option<&str>, &[Operation])]) -> Result<Vec<String>, String> {
        let root = std::env::temp_dir().join(format!("whatif-compose-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        std::fs::write(root.join("text"), "1\n2\n3\n4\n5\n").unwrap();
        let plans: Vec<Plan> = parts.iter().map(|(_, operations)| plan(&root, operations)).collect();
        let contributions: Vec<Contribution> =
            parts.iter().zip(&plans).map(|((attempt, _), plan)| Contribution { attempt: *attempt, plan }).collect();
        let composed = compose(&contributions, &root);
        std::fs::remove_dir_all(&root).unwrap();
        let told = |operation: &Operation| match &operation.change {
            Act::Put { source: Source::Bytes(bytes), .. } => {
                format!("{}={}", operation.path.display(), String::from_utf8_lossy(bytes).replace('\n', ","))
            }
            _ => format!("{}-", operation.path.display()),
        };
        match composed {
            Ok(plan) => Ok(plan.operations.iter().map(told).collect()),
            Err(RaceError::Clash { one, other, clashes }) => Err(format!("{one}/{other}: {}", clashes[0].why)),
            Err(other) => Err(other.to_string()),
        }
    }

    #[test]
    fn what_one_changed_is_taken_and_what_both_did_is_taken_once() {
        let parts: &[(Option<&str>, &[Operation])] =
            &[(Some("a"), &[put("x", "1"), put("both", "same")]), (Some("b"), &[put("y", "2"), put("both", "same")])];
        assert_eq!(composed("apart", parts).unwrap(), ["x=1", "both=same", "y=2"]);
    }

    #[test]
    fn different_lines_of_a_text_are_merged_and_the_same_ones_clash() {
        let parts: &[(Option<&str>, &[Operation])] =
            &[(Some("a"), &[put("text", "one\n2\n3\n4\n5\n")]), (Some("b"), &[put("text", "1\n2\n3\n4\nfive\n")])];
        assert_eq!(composed("merged", parts).unwrap(), ["text=one,2,3,4,five,"]);
        let parts: &[(Option<&str>, &[Operation])] =
            &[(Some("a"), &[put("text", "one\n2\n3\n4\n5\n")]), (Some("b"), &[put("text", "uno\n2\n3\n4\n5\n")])];
        assert_eq!(composed("clash", parts).unwrap_err(), "a/b: both changed the same lines");
        let parts: &[(Option<&str>, &[Operation])] = &[(Some("a"), &[remove("text")]), (Some("b"), &[put("text", "uno\n")])];
        assert_eq!(composed("removed", parts).unwrap_err(), "a/b: one removed it, the other changed it");
    }

    #[test]
    fn nothing_is_lost_with_a_directory_that_another_one_removed() {
        let gone: &[Operation] = &[remove("d"), remove("d/x")];
        let why = "one removed the directory, the other changed something in it";
        let parts: &[(Option<&str>, &[Operation])] = &[(Some("a"), &[put("d/y", "new")]), (Some("b"), gone)];
        assert_eq!(composed("below", parts).unwrap_err(), format!("b/a: {why}"));
        let parts: &[(Option<&str>, &[Operation])] = &[(Some("b"), gone), (Some("a"), &[put("d/y", "new")])];
        assert_eq!(composed("below-too", parts).unwrap_err(), format!("b/a: {why}"));
        // A file in the place of a directory is no directory either.
        let parts: &[(Option<&str>, &[Operation])] = &[(Some("a"), &[put("d/y", "new")]), (Some("b"), &[put("d", "file")])];
        assert_eq!(composed("file", parts).unwrap_err(), format!("b/a: {why}"));
    }

    #[test]
    fn what_was_set_up_belongs_to_everybody() {
        let parts: &[(Option<&str>, &[Operation])] = &[
            (None, &[put("prepared", "1"), put("kept", "1")]),
            (Some("a"), &[put("prepared", "2")]),
            (Some("b"), &[put("y", "3")]),
        ];
        assert_eq!(composed("set-up", parts).unwrap(), ["prepared=2", "kept=1", "y=3"]);
    }
}

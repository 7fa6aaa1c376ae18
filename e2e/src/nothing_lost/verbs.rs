//! What is done to sandboxes, and which laws hold for it.

use std::collections::BTreeSet;

use super::fate::Fate;
use super::laws::{self, Work};
use super::life::{Backend, Done, Life, Sandbox};
use super::survey::Survey;
use crate::{Outcome, Terminal};

/// With the first of them what was rejected stays out; the others take everything, or what they say.
const CHOICES: [&str; 10] = [
    "--risky",
    "--all",
    "--all",
    "--all",
    "--commit",
    "--files=d0/**",
    "--skip=d1/**",
    "--exclude=**/f1",
    "--ours=**",
    "--theirs=**",
];

impl Life<'_> {
    pub(super) fn make(&mut self) {
        let name = self.fresh_name("s");
        let backend = self.backend.word();
        self.quiet(&["new", &name, "--backend", backend]);
        self.sandboxes.insert(name, Sandbox::default());
    }

    pub(super) fn squash(&mut self, name: &str) {
        // Which fuse-overlayfs cannot read.
        if self.backend != Backend::Fuse {
            self.quiet(&["squash", name]);
        }
    }

    /// A command that must work and must not touch reality.
    #[track_caller]
    pub(super) fn quiet(&mut self, arguments: &[&str]) {
        let real = self.reality();
        let outcome = self.whatif(arguments);
        self.must_work(&outcome);
        self.expect_untouched(&real);
    }

    pub(super) fn apply(&mut self, name: &str) {
        let choice = *self.random.pick(&CHOICES);
        let mut arguments = vec!["--json", "apply", name, "--yes", choice];
        if !["--files=d0/**", "--risky"].contains(&choice) {
            arguments.push("--all");
        }
        arguments.dedup();
        let before = self.reality();
        let commit = self.commit();
        let work = self.work_of(name);
        let (outcome, fate) = self.try_out(&arguments);
        let after = self.reality();
        self.take_copies(&before, &after);
        // One that changed what nobody sees, such as times, is in the history all the same.
        let is_recorded = outcome.as_ref().is_some_and(|o| o.code == 0 && o.json()["apply"]["id"].is_string());
        if before == after && fate != Fate::Undisturbed && !is_recorded {
            // Reality's version may have been settled on, which shows nowhere: before it was killed, or in spite of the error, which
            // it may never have met or could do without.
            if choice == "--ours=**"
                && let Some(sandbox) = self.sandboxes.get_mut(name)
            {
                sandbox.work.pending.clear();
            }
            return;
        }
        match &outcome {
            // Nothing fits the pattern, a conflict, a failure: nothing was written.
            Some(outcome) if outcome.code != 0 && before == after => return,
            Some(outcome) if outcome.code != 0 && !outcome.stderr.contains("\"applied\"") => {
                self.expect(laws::untouched(&before, &after));
            }
            _ => {}
        }
        if choice == "--commit" && outcome.as_ref().is_some_and(|o| o.code == 0) {
            self.expect_committed(&before, &after);
        } else if outcome.is_some() && choice != "--commit" {
            assert_eq!(self.commit(), commit, "only --commit commits");
        }
        if choice == "--risky" {
            self.expect_rejected_stay(name, &before, &after);
        }
        // A person who says --theirs gives up what reality has there.
        if choice != "--theirs=**" {
            self.expect(laws::of_apply(&before, &after, &work));
        }
        let is_whole = outcome.as_ref().is_some_and(|o| o.code == 0 && takes_all(o)) && choice == "--all";
        if is_whole {
            self.expect(laws::of_whole_apply(&after, &work));
        }
        if let Some(sandbox) = self.sandboxes.get_mut(name) {
            // What was taken in spite of a rejection is decided; the next change there is another question.
            sandbox.rejected.retain(|path| choice != "--ours=**" && before.get(path) == after.get(path));
        }
        let was_real = before.tokens();
        if before != after || is_recorded {
            self.done.push(Done { before, after: after.clone(), work });
        }
        let real = after.tokens();
        if let Some(sandbox) = self.sandboxes.get_mut(name) {
            // What reality's version replaced is settled, too.
            if choice == "--ours=**" {
                sandbox.work.pending.clear();
            }
            // What it moved is in its view alone now. By saying --theirs a person gives up what reality had elsewhere.
            if choice != "--theirs=**" {
                let (lost, moved) = (was_real.difference(&real).cloned(), &sandbox.work.moved);
                sandbox.work.pending.extend(lost.filter(|token| moved.contains(token) && !sandbox.work.removed.contains(token)));
            }
            sandbox.work.pending.retain(|token| !real.contains(token));
            if is_whole {
                sandbox.work.settle_attributes();
            }
        }
    }

    /// Only root's overlayfs renames directories without copying them.
    fn shows_through(&self) -> bool {
        self.backend == Backend::Overlay && self.w.is_root()
    }

    fn take_copies(&mut self, before: &Survey, after: &Survey) {
        if !self.shows_through() {
            return;
        }
        for sandbox in self.sandboxes.values_mut() {
            for work in sandbox.labels.values_mut().chain([&mut sandbox.work]) {
                work.take_copies(before, after);
            }
        }
    }

    /// The commit that reality stands at; nothing without a repository.
    fn commit(&self) -> String {
        self.w.program("/usr/bin/git").args(["-c", "safe.directory=*", "rev-parse", "HEAD"]).cwd(&self.project).go().stdout
    }

    /// Every line that an apply brought is in the commit it made.
    fn expect_committed(&self, before: &Survey, after: &Survey) {
        let grep = ["-c", "safe.directory=*", "grep", "-haoE", "\\bt[0-9]+\\b", "HEAD"];
        let committed = self.w.program("/usr/bin/git").args(grep).cwd(&self.project).go().stdout;
        let committed: BTreeSet<&str> = committed.lines().collect();
        let (old, new) = (before.tokens(), after.tokens());
        let missing = new.difference(&old).filter(|t| t.starts_with('t') && !committed.contains(t.as_str()));
        self.expect(missing.map(|t| format!("{t} was applied and not committed")).collect());
    }

    fn expect_rejected_stay(&self, name: &str, before: &Survey, after: &Survey) {
        let Some(sandbox) = self.sandboxes.get(name) else { return };
        let taken = sandbox.rejected.iter().filter(|path| before.get(path) != after.get(path));
        self.expect(taken.map(|path| format!("{path} was rejected and applied")).collect());
    }

    /// A person looks through the changes and does not want the first one.
    pub(super) fn reject(&mut self, name: &str) {
        let changes = self.whatif(&["diff", name, "--name-only"]);
        if changes.stdout.is_empty() {
            return;
        }
        self.note(format!("review {name}: reject the first change"));
        let mut terminal = Terminal::with_whatif(self.w, &["review", name]);
        terminal.expect("undecided");
        terminal.type_in("xq");
        terminal.expect("rejected");
        assert_eq!(terminal.ends(), 0);
        let decided = self.w.whatif(["--json", "review", name]).cwd(&self.project).go().ok().json();
        let decided = decided["decisions"].as_array().cloned().unwrap_or_default();
        let rejected = decided.iter().filter(|d| d["verdict"] == "rejected").filter_map(|d| d["path"].as_str());
        let plain = rejected.filter(|path| path.bytes().all(|b| b.is_ascii_graphic()));
        let paths: Vec<String> = plain.map(|path| format!("b'./{path}'")).collect();
        if let Some(sandbox) = self.sandboxes.get_mut(name) {
            sandbox.rejected.extend(paths);
        }
    }

    pub(super) fn undo(&mut self) {
        let Some(done) = self.done.last().cloned() else { return };
        let before = self.reality();
        let (outcome, fate) = self.try_out(&["--json", "undo", "--yes"]);
        let after = self.reality();
        self.take_copies(&before, &after);
        if before == after {
            let worked = outcome.as_ref().is_some_and(|o| o.code == 0);
            if worked && fate == Fate::Undisturbed {
                if done.before != done.after {
                    self.expect(vec![format!("an undo did nothing: {}", outcome.map(|o| o.stdout).unwrap_or_default())]);
                }
                self.done.pop();
            }
            return;
        }
        if let Some(outcome) = &outcome
            && outcome.code != 0
            && !outcome.stderr.contains("\"applied\"")
        {
            self.expect(laws::untouched(&before, &after));
        }
        self.expect(laws::of_undo((&done.before, &done.after), &before, &after));
        // The next one takes back the apply before.
        self.done.pop();
        // Its changes are to come again, in what was made of it meanwhile too; and what it brought back is real.
        let real = after.tokens();
        for sandbox in self.sandboxes.values_mut() {
            for work in sandbox.labels.values_mut().chain([&mut sandbox.work]) {
                work.regain_attributes(&done.work);
                work.pending.retain(|token| !real.contains(token));
            }
        }
    }

    pub(super) fn snapshot(&mut self, name: &str) {
        let label = self.fresh_name("l");
        let real = self.reality();
        let (outcome, _) = self.try_out(&["--json", "snapshot", name, &label]);
        self.expect_untouched(&real);
        let work = self.work_of(name);
        if outcome.is_some_and(|o| o.code == 0)
            && let Some(sandbox) = self.sandboxes.get_mut(name)
        {
            sandbox.labels.insert(label, work);
        }
        self.look(name);
    }

    pub(super) fn roll_back(&mut self, name: &str) {
        let Some((label, work)) = self.label(name) else { return };
        let real = self.reality();
        let (outcome, fate) = self.try_out(&["--json", "rollback", name, &label]);
        self.expect_untouched(&real);
        let now = match outcome {
            Some(outcome) if outcome.code == 0 => work,
            Some(_) if fate == Fate::Undisturbed => return self.look(name),
            _ => self.work_of(name).or(&work),
        };
        let real = real.tokens();
        if let Some(sandbox) = self.sandboxes.get_mut(name) {
            sandbox.work = now;
            sandbox.work.pending.retain(|token| !real.contains(token));
        }
        self.look(name);
    }

    pub(super) fn fork(&mut self, name: &str) {
        let new = self.fresh_name("fork");
        let (source, work) = match self.label(name) {
            Some((label, work)) if self.random.once_in(2) => (format!("{name}@{label}"), work),
            _ => (name.to_owned(), self.work_of(name)),
        };
        let real = self.reality();
        let (outcome, _) = self.try_out(&["--json", "fork", &source, &new]);
        self.expect_untouched(&real);
        if outcome.is_some_and(|o| o.code == 0) {
            self.adopt(new, work);
        } else {
            self.w.whatif(["rm", &new]).cwd(&self.project).go();
        }
        self.look(name);
    }

    pub(super) fn rebase(&mut self, name: &str) {
        let real = self.reality();
        let (outcome, fate) = self.try_out(&["--json", "rebase", name]);
        let is_refused = outcome.as_ref().is_some_and(|o| fate == Fate::Undisturbed && o.code == 125);
        if let Some(outcome) = outcome.filter(|_| fate == Fate::Undisturbed) {
            // Something may run in it, which it says.
            assert!([0, 1, 125].contains(&outcome.code), "{}", outcome.stderr);
        }
        self.expect_untouched(&real);
        // What was real is what it starts from now: what an undo of another sandbox's apply takes back is reality's decision.
        let real = real.tokens();
        if let Some(sandbox) = self.sandboxes.get_mut(name).filter(|_| !is_refused) {
            sandbox.work.pending.retain(|token| !real.contains(token));
        }
        self.look(name);
    }

    /// Written to a file and read back as another sandbox.
    pub(super) fn carry(&mut self, name: &str) {
        let (new, file) = (self.fresh_name("import"), self.w.dir.join("carried.whatif"));
        let file = file.to_string_lossy().into_owned();
        let work = self.work_of(name);
        self.quiet(&["export", "--force", name, "-o", &file]);
        self.quiet(&["import", &file, "--name", &new, "--backend", self.backend.word()]);
        let _ = std::fs::remove_file(file);
        self.adopt(new, work);
    }

    fn adopt(&mut self, name: String, work: Work) {
        let real = self.reality().tokens();
        let mut sandbox = Sandbox { work, ..Sandbox::default() };
        sandbox.work.pending.retain(|token| !real.contains(token));
        self.sandboxes.insert(name.clone(), sandbox);
        self.look(&name);
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.quiet(&["rm", name]);
        self.sandboxes.remove(name);
    }

    pub(super) fn lose_the_keeper(&mut self, name: &str) {
        self.note(format!("kill -9 the keeper of {name}"));
        self.w.kill_keeper(name);
    }

    /// From now on something lives in it.
    pub(super) fn occupy(&mut self, name: &str) {
        self.start(name);
        self.quiet(&["exec", name, "-d", "--", "/bin/sleep", "1000"]);
        if let Some(sandbox) = self.sandboxes.get_mut(name) {
            sandbox.is_occupied = true;
        }
    }

    /// What it reads now it may see for long.
    pub(super) fn read(&mut self, name: &str) {
        let real = self.reality();
        self.exec(name, &["/bin/sh", "-c", "find . -type f -exec cat {} + > /dev/null"]);
        self.expect_untouched(&real);
    }

    pub(super) fn start(&mut self, name: &str) {
        self.quiet(&["start", name]);
    }

    /// What it wrote is there.
    #[track_caller]
    pub(super) fn look(&mut self, name: &str) {
        let mut view = self.view(name);
        if !laws::of_view(&view, &self.work_of(name)).is_empty() {
            // A live view may hide what lies below a directory that reality replaced; a fresh one does not.
            self.quiet(&["stop", name]);
            view = self.view(name);
        }
        self.expect(laws::of_view(&view, &self.work_of(name)));
    }

    fn label(&mut self, name: &str) -> Option<(String, Work)> {
        let labels: Vec<_> = self.sandboxes.get(name)?.labels.clone().into_iter().collect();
        (!labels.is_empty()).then(|| self.random.pick(&labels).clone())
    }
}

/// Whether nothing was left out.
fn takes_all(outcome: &Outcome) -> bool {
    let document = outcome.json();
    let left_out = &document["left_out"];
    left_out.is_null()
        || left_out.as_array().is_some_and(Vec::is_empty)
        || left_out.as_object().is_some_and(serde_json::Map::is_empty)
}

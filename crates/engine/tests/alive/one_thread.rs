//! What one of the threads does, and what must come of it.

use std::fs;
use std::io::Read as _;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use whatif_engine::changes::apply::{ApplyRequest, Progress};
use whatif_engine::changes::checks::CheckResult;
use whatif_engine::changes::diff::Subject;
use whatif_engine::changes::gate::{ApplyWish, Approver, Follower, Made, Question};
use whatif_engine::{ChangeKind, CommandSpec, Depth, Engine, Exited, Keep, NewSandbox, News, Running, Stdio};

/// What every sandbox finds in the project.
pub const SHARED: &str = "for all\n";
/// More than a pipe holds.
const MUCH: usize = 100_000;
/// How long the output of a command may stay open after everything else has ended.
const PATIENCE: Duration = Duration::from_secs(60);

const LOOK_AROUND: &str = "umask; cat /proc/self/limits";

/// What commands get from whoever starts them, where nothing else goes on.
#[derive(Debug)]
pub struct Usual {
    in_a_run: String,
    in_an_exec: String,
}

impl Usual {
    pub fn look(engine: &Engine) -> Self {
        let new = NewSandbox { name: Some("alone".to_owned()), ..NewSandbox::default() };
        let (_, in_a_run) = run(engine, &new, LOOK_AROUND).expect("a command can be run");
        let (_, in_an_exec) = execute(engine, "alone", LOOK_AROUND).expect("a command can be run");
        engine.lifecycle.remove(&"alone".into(), false).expect("it can be removed");
        Self { in_a_run, in_an_exec }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Thread(usize);

impl Thread {
    pub fn new(number: usize) -> Self {
        Self(number)
    }

    /// Whether what it made becomes real.
    pub fn applies(&self) -> bool {
        self.0.is_multiple_of(5)
    }

    /// Whether its first command comes with its sandbox, which then rests.
    fn runs(&self) -> bool {
        self.0 % 4 == 1
    }

    pub fn own_file(&self) -> String {
        format!("own-{}", self.0)
    }

    fn sandbox(&self) -> String {
        format!("thread-{}", self.0)
    }

    pub fn live(self, engine: &Engine, usual: &Usual) -> Result<(), String> {
        let (name, own) = (self.sandbox(), self.own_file());
        let mut caller = engine.caller().clone();
        caller.environment.push(("CALLER".to_owned(), name.clone()));
        let engine = &engine.asked_by(caller);
        let code = self.0 as i32 % 100;
        let first = format!("cat shared; echo {own} >{own}; {LOOK_AROUND}; exit {code}");
        let second = format!("cat {own}; echo $CALLER; echo more >>{own}; echo x >>shared; mkdir made; head -c {MUCH} /dev/zero");

        let new = NewSandbox { name: Some(name.clone()), ..NewSandbox::default() };
        let (said, usual) = if self.runs() {
            (self.step("run", run(engine, &new, &first))?, &usual.in_a_run)
        } else {
            self.step("create", engine.lifecycle.create(&new).map_err(told))?;
            (self.step("first command", execute(engine, &name, &first))?, &usual.in_an_exec)
        };
        self.expect("first command", &said, &(code, format!("{SHARED}{usual}")))?;
        let said = self.step("second command", execute(engine, &name, &second))?;
        self.expect("second command", &said, &(0, format!("{own}\n{name}\n{}", "\0".repeat(MUCH))))?;

        let changes = self.step("diff", changes(engine, &name))?;
        let expected =
            [(ChangeKind::Add, "made".to_owned()), (ChangeKind::Add, own.clone()), (ChangeKind::Modify, "shared".to_owned())];
        self.expect("diff", &changes, &expected.to_vec())?;

        if self.applies() {
            let project = self.step("apply", apply(engine, &name, &own))?;
            let real = fs::read_to_string(project.join(&own)).map_err(|e| e.to_string());
            self.expect("apply", &self.step("look at what was applied", real)?, &format!("{own}\nmore\n"))?;
        }
        self.step("remove", engine.lifecycle.remove(&name.as_str().into(), false).map_err(told))?;
        Ok(())
    }

    fn step<T>(&self, what: &str, outcome: Result<T, String>) -> Result<T, String> {
        outcome.map_err(|error| format!("{}: {what}: {error}", self.0))
    }

    fn expect<T: PartialEq + std::fmt::Debug>(&self, what: &str, found: &T, expected: &T) -> Result<(), String> {
        let shown = |value: &T| format!("{value:?}").chars().take(4000).collect::<String>();
        if found == expected { Ok(()) } else { Err(format!("{}: {what}: {} is not {}", self.0, shown(found), shown(expected))) }
    }
}

/// An error with its causes.
fn told(error: whatif_engine::EngineError) -> String {
    whatif_types::explain::whole_message(&error)
}

/// The exit code and the output of a script in a new sandbox, which stays.
fn run(engine: &Engine, new: &NewSandbox, script: &str) -> Result<(i32, String), String> {
    let (mut reader, writer) = pipe_with(PipeFlags::CLOEXEC).map(|(r, w)| (fs::File::from(r), w)).map_err(|e| e.to_string())?;
    let mut run = engine.lifecycle.run(new, &shell(script), &[writer.as_fd(), writer.as_fd()]).map_err(told)?;
    drop(writer);
    let said = read_to_end(&mut reader)?;
    let exited = wait(engine, &mut run.running)?;
    let finished = engine.lifecycle.finish(run, &exited, Keep::Always).map_err(told)?;
    if finished.kept { Ok((exited.code, said)) } else { Err("it was not kept".to_owned()) }
}

/// The same in a sandbox that is there.
fn execute(engine: &Engine, name: &str, script: &str) -> Result<(i32, String), String> {
    let (mut reader, writer) = pipe_with(PipeFlags::CLOEXEC).map(|(r, w)| (fs::File::from(r), w)).map_err(|e| e.to_string())?;
    let entered = engine.lifecycle.enter(&name.into()).map_err(told)?;
    let mut running = engine.lifecycle.exec(entered, &shell(script), &[writer.as_fd(), writer.as_fd()]).map_err(told)?;
    drop(writer);
    let said = read_to_end(&mut reader)?;
    Ok((wait(engine, &mut running)?.code, said))
}

fn shell(script: &str) -> CommandSpec {
    CommandSpec {
        arguments: ["/bin/sh", "-c", script].map(Into::into).to_vec(),
        env: Vec::new(),
        cwd: None,
        stdio: [Stdio::Null, Stdio::Passed, Stdio::Passed],
        terminal: None,
        timeout: None,
        called: None,
    }
}

/// To the very end: nobody but the command may hold it open.
fn read_to_end(reader: &mut fs::File) -> Result<String, String> {
    let deadline = Instant::now() + PATIENCE;
    let (mut said, mut piece) = (Vec::new(), [0; 32 << 10]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        if poll(&mut [PollFd::new(reader, PollFlags::IN)], Some(&left)).map_err(|e| e.to_string())? == 0 {
            return Err(format!("the output is still open after {PATIENCE:?} and {} bytes", said.len()));
        }
        match reader.read(&mut piece).map_err(|e| e.to_string())? {
            0 => return String::from_utf8(said).map_err(|e| e.to_string()),
            length => said.extend_from_slice(&piece[..length]),
        }
    }
}

fn wait(engine: &Engine, running: &mut Running) -> Result<Exited, String> {
    loop {
        if let News::Exited(exited) = engine.lifecycle.news(running).map_err(told)? {
            return Ok(*exited);
        }
    }
}

fn changes(engine: &Engine, name: &str) -> Result<Vec<(ChangeKind, String)>, String> {
    let diff = engine.changes.diff(&Subject::Sandbox(name.into()), Depth::Review).map_err(told)?;
    if let Some(unreadable) = diff.set.unreadable.first() {
        return Err(format!("{unreadable:?}"));
    }
    let shown = |path: &std::path::Path| path.strip_prefix(&diff.sandbox.project).unwrap_or(path).display().to_string();
    let mut changes: Vec<_> = diff.set.changes.iter().map(|change| (change.kind, shown(&change.path))).collect();
    changes.sort_by(|one, other| one.1.cmp(&other.1));
    Ok(changes)
}

/// Makes one file real, and says in which project.
fn apply(engine: &Engine, name: &str, file: &str) -> Result<PathBuf, String> {
    let request = ApplyRequest { files: vec![file.to_owned()], ..ApplyRequest::of(name.into()) };
    let wish = ApplyWish { request, is_approved: true, is_checked: false, commit: None };
    match engine.changes.make_real(&wish, &mut Nobody, &mut Nobody).map_err(told)? {
        Made::Applied(made) => Ok(made.applied.sandbox.project),
        other => Err(format!("{other:?}")),
    }
}

/// Everything was approved beforehand, and nobody looks.
struct Nobody;

impl Approver for Nobody {
    fn answer(&mut self, _: Question<'_>) -> Option<bool> {
        None
    }

    fn note(&mut self, _: &str) {}

    fn checked(&mut self, _: &CheckResult) {}
}

impl Follower for Nobody {
    fn progress(&mut self, _: Progress) {}

    fn pauses(&mut self) {}

    fn commences(&mut self) {}

    fn is_cancelled(&mut self) -> bool {
        false
    }
}

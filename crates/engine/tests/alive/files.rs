//! The files of a sandbox by way of an `Engine`.

use std::path::Path;

use whatif_engine::history::snapshot::Take;
use whatif_engine::lifecycle::copy::Replace;
use whatif_engine::lifecycle::files::{Condition, EntryKind, Files, Text, What};
use whatif_engine::lifecycle::shift::Live;
use whatif_engine::lifecycle::{FileProblem, LifecycleError};
use whatif_engine::{CommandSpec, DEFAULT_GRACE, Engine, EngineError, NewSandbox, Sandbox, Stdio};
use whatif_types::{Explain, MadeBy};

use crate::world::open;

pub fn live(directory: &Path) {
    let (engine, project) = (&open(directory), &directory.join("home/project"));
    std::fs::write(project.join("real"), "reality").expect("it is ours");
    let sandbox = create(engine);
    what_is_done_is_seen_inside_and_not_outside(engine, &sandbox, project);
    errors_have_codes(engine, &sandbox);
    what_happens_is_told(engine, &sandbox);
    a_snapshot_ends_a_write_and_leaves_nothing_of_it(engine, &sandbox);
    one_that_was_stopped_is_not_started(engine, &sandbox);
    engine.lifecycle.remove(&(&sandbox).into(), false).expect("it can be removed");
    let left: Vec<_> = std::fs::read_dir(project).expect("it is ours").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["real"], "reality has none of it");
}

fn files(engine: &Engine, sandbox: &Sandbox) -> Files {
    engine.lifecycle.files(&sandbox.into()).expect("it can be reached")
}

fn what_is_done_is_seen_inside_and_not_outside(engine: &Engine, sandbox: &Sandbox, project: &Path) {
    let mut files = files(engine, sandbox);
    let stat = files.stat("real".as_ref()).expect("it shows through");
    assert_eq!((stat.kind, stat.size), (EntryKind::File, 7));
    let changed = files.write("real".as_ref(), None, Condition::IsVersion(stat.version), &mut &b"changed"[..]);
    changed.expect("nobody else changed it");
    files.append("real".as_ref(), None, None, &mut &b" inside"[..]).expect("it is a file");
    assert_eq!(run(engine, sandbox, "test \"$(cat real)\" = 'changed inside'"), 0);
    assert_eq!(std::fs::read_to_string(project.join("real")).expect("it is ours"), "reality");
    let mut text = Vec::new();
    assert_eq!(files.read_into(&project.join("real"), 8, u64::MAX, &mut text).expect("it is a file"), 6);
    assert_eq!(text, b"inside");
    files.make_directories("a/b".as_ref(), 0o755).expect("they can be made");
    files.write("a/b/new".as_ref(), Some(0o755), Condition::IsAbsent, &mut &b"#!/bin/sh\nexit 7\n"[..]).expect("there is none");
    assert_eq!(run(engine, sandbox, "./a/b/new"), 7);
    files.move_to("a/b/new".as_ref(), "moved".as_ref(), Replace::Never).expect("there is none");
    let page = files.list("".as_ref(), None, 2).expect("it is a directory");
    assert_eq!(page.entries.iter().map(|entry| entry.name.clone()).collect::<Vec<_>>(), ["a", "moved"].map(Text::from));
    let rest = files.list("".as_ref(), page.next.as_ref(), 100).expect("it is a directory");
    assert_eq!(rest.entries.iter().map(|entry| entry.name.clone()).collect::<Vec<_>>(), ["real"].map(Text::from));
    assert!(rest.next.is_none());
    files.delete_tree("a".as_ref(), None).expect("it is there");
    files.delete("moved".as_ref(), None).expect("it is there");
}

fn errors_have_codes(engine: &Engine, sandbox: &Sandbox) {
    let mut files = files(engine, sandbox);
    let is = |error: EngineError, problem: FileProblem, code: &str| {
        assert_eq!(error.code(), code, "{error}");
        assert!(matches!(&error, EngineError::Lifecycle(LifecycleError::File(file)) if file.problem == problem), "{error:?}");
    };
    is(files.stat("none".as_ref()).expect_err("there is none"), FileProblem::NotFound, "file_not_found");
    is(files.read("".as_ref(), 0, 1, None).expect_err("it is none"), FileProblem::IsDirectory, "is_a_directory");
    is(files.read("/dev/null".as_ref(), 0, 1, None).expect_err("it is none"), FileProblem::NotAFile, "not_a_file");
    is(files.delete("real".as_ref(), Some("1-2-3")).expect_err("it has another"), FileProblem::Changed, "file_changed");
    let twice = files.write("real".as_ref(), None, Condition::IsAbsent, &mut &b""[..]);
    is(twice.expect_err("it is there"), FileProblem::Exists, "file_exists");
    is(files.stat("real/x".as_ref()).expect_err("it is a file"), FileProblem::NotDirectory, "not_a_directory");
    let error = engine.lifecycle.files(&"nobody".into()).expect_err("there is none");
    assert_eq!(error.code(), "not_found");
}

fn what_happens_is_told(engine: &Engine, sandbox: &Sandbox) {
    let mut watching = files(engine, sandbox).watch(&["".as_ref()]).expect("it can be watched");
    assert_eq!(run(engine, sandbox, "echo x > seen; rm seen"), 0);
    let mut all = Vec::new();
    while !all.iter().any(|(name, what)| *name == Some(Text::from("seen")) && *what == What::Deleted) {
        all.extend(watching.happened().expect("it is told").into_iter().map(|happening| (happening.name, happening.what)));
    }
    assert!(all.contains(&(Some(Text::from("seen")), What::Created)), "{all:?}");
}

/// The partial file belongs to the head that becomes a layer.
fn a_snapshot_ends_a_write_and_leaves_nothing_of_it(engine: &Engine, sandbox: &Sandbox) {
    struct Snapshots<'a>(&'a Engine, &'a Sandbox, u32);
    impl std::io::Read for Snapshots<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.2 += 1;
            if self.2 == 20 {
                snapshot(self.0, self.1);
            }
            buffer.fill(7);
            Ok(if self.2 < 40 { buffer.len() } else { 0 })
        }
    }
    let mut files = files(engine, sandbox);
    let error = files.write("half".as_ref(), None, Condition::Always, &mut Snapshots(engine, sandbox, 0)).expect_err("it is over");
    assert_eq!(error.code(), "layers_changed", "{error}");
    assert!(error.retryable());
    let names = files.list("".as_ref(), None, 100).expect("it goes on").entries;
    assert_eq!(names.iter().map(|entry| entry.name.clone()).collect::<Vec<_>>(), ["real"].map(Text::from));
    files.write("half".as_ref(), None, Condition::Always, &mut &b"whole"[..]).expect("it can be written now");
    let mut watching = files.watch(&["".as_ref()]).expect("it can be watched");
    snapshot(engine, sandbox);
    let told = watching.happened().expect("it is told");
    assert!(told.iter().all(|happening| happening.what == What::Overflow), "{told:?}");
    assert_eq!(run(engine, sandbox, "rm half"), 0);
    let told = watching.happened().expect("it goes on");
    assert!(told.iter().any(|happening| happening.what == What::Deleted), "{told:?}");
}

fn one_that_was_stopped_is_not_started(engine: &Engine, sandbox: &Sandbox) {
    let mut watching = files(engine, sandbox).watch(&["".as_ref()]).expect("it can be watched");
    engine.lifecycle.stop(&sandbox.into(), DEFAULT_GRACE).expect("it can be stopped");
    let error = watching.happened().expect_err("nobody is there to tell");
    assert_eq!(error.code(), "ended_meanwhile", "{error:?}");
    assert_eq!(engine.lifecycle.files(&sandbox.into()).expect_err("somebody meant it to be down").code(), "stopped");
}

fn create(engine: &Engine) -> Sandbox {
    engine.lifecycle.create(&NewSandbox { name: Some("files".to_owned()), ..NewSandbox::default() }).expect("it can be made")
}

fn snapshot(engine: &Engine, sandbox: &Sandbox) {
    engine.history.snapshot(&sandbox.into(), &Take::automatic(MadeBy::Request, Live::Refuse)).expect("it can be taken");
}

/// Its exit code.
fn run(engine: &Engine, sandbox: &Sandbox, script: &str) -> i32 {
    let spec = CommandSpec {
        arguments: ["/bin/sh", "-c", script].map(Into::into).to_vec(),
        env: Vec::new(),
        cwd: None,
        stdio: [Stdio::Null; 3],
        terminal: None,
        timeout: None,
        called: None,
    };
    let entered = engine.lifecycle.enter(&sandbox.name.as_str().into()).expect("it can be reached");
    let mut running = engine.lifecycle.exec(entered, &spec, &[]).expect("it starts");
    loop {
        if let whatif_engine::News::Exited(exited) = engine.lifecycle.news(&mut running).expect("it ends") {
            return exited.code;
        }
    }
}

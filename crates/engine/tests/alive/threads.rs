//! One `Engine` for 200 threads that create, execute, compare, apply and remove at once: nothing is lost, and nothing is left.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Barrier};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use whatif_engine::ground::GroundError;
use whatif_engine::{Engine, EngineError};

use crate::left_over::{Descriptors, children, entries};
use crate::one_thread::{SHARED, Thread, Usual};
use crate::world::open;

const THREADS: usize = 200;

/// Everything that the threads do, and a count of what they leave in this process.
pub fn live(directory: &Path) {
    raise_descriptor_limit();
    let descriptors = Descriptors::now();
    let project = directory.join("home/project");
    fs::write(project.join("shared"), SHARED).expect("it is ours");
    let engine = Arc::new(open(directory));
    assert!(engine.upkeep.recover().expect("there is nothing to repair").is_empty());
    let usual = Usual::look(&engine);
    what_an_earlier_call_was_about_explains_no_error(&engine);
    let start = Barrier::new(THREADS);
    let threads: Vec<Thread> = (0..THREADS).map(Thread::new).collect();
    let results: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let (engine, start, usual) = (&engine, &start, &usual);
        let begin = |thread: &Thread| {
            let thread = *thread;
            scope.spawn(move || {
                start.wait();
                thread.live(engine, usual)
            })
        };
        let running: Vec<_> = threads.iter().map(begin).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("it panicked".to_owned()))).collect()
    });
    let failed: Vec<&String> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(failed.is_empty(), "{} of {THREADS} threads: {failed:#?}", failed.len());

    assert_eq!(engine.lifecycle.list().expect("the records can be read").len(), 0);
    for part in ["sandboxes", "transient", "names", "layers", "pool"] {
        assert_eq!(entries(&directory.join("state").join(part)), Vec::<String>::new(), "in {part}/");
    }
    let mut real: Vec<String> = threads.iter().filter(|thread| thread.applies()).map(Thread::own_file).collect();
    assert_eq!(entries(&directory.join("state/applies")).len(), real.len());
    real.push("shared".to_owned());
    real.sort();
    assert_eq!(entries(&project), real);
    assert_eq!(fs::read_to_string(project.join("shared")).expect("it is ours"), SHARED);
    assert_eq!(children(), Vec::<String>::new(), "nobody else collects them");
    drop(Arc::into_inner(engine).expect("no thread has it any more"));
    assert_eq!(Descriptors::now(), descriptors);
}

/// A thread that serves one client after the other is not to tell one of them what became of the sandbox of another.
fn what_an_earlier_call_was_about_explains_no_error(engine: &Engine) {
    let unrelated = || EngineError::io("read", "something", ErrorKind::NotFound.into());
    let told = engine.ground.call(|| Err::<(), _>(unrelated()));
    assert!(matches!(told, Err(EngineError::Ground(GroundError::Io { .. }))), "{told:?}");
}

/// Each thread has a handful.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(8192, |hard| hard.min(8192));
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit }).expect("it is within what we may have");
}

//! How long it takes, against `cp -a` and `sync` of the same files. Not run by default: figures want a quiet machine and
//! `cargo test --release -p whatif-apply --test speed -- --ignored --nocapture`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "figures are its result")]

mod support;

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use support::Scene;
use whatif_apply::{Operation, Source, apply, undo_plan};

const FILES: usize = 10_000;

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> (T, Duration) {
    Command::new("sync").status().unwrap();
    let start = Instant::now();
    let result = work();
    let elapsed = start.elapsed();
    println!("{what:40} {:8.1} ms", elapsed.as_secs_f64() * 1000.0);
    (result, elapsed)
}

#[test]
#[ignore = "measures"]
fn ten_thousand_small_files() {
    let scene = Scene::new();
    let sources = scene.base.join("new/tree");
    for n in 0..FILES {
        let directory = sources.join(format!("d{}", n % 100));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("file-{n}")), format!("content {n}\n").repeat(60)).unwrap();
    }
    let copy = |to: &str| {
        assert!(Command::new("cp").arg("-a").arg(&sources).arg(scene.base.join(to)).status().unwrap().success());
        assert!(Command::new("sync").status().unwrap().success());
    };
    timed("cp -a and sync (warm-up)", || copy("copy-0"));
    let ((), reference) = timed("cp -a and sync", || copy("copy-1"));

    let path = |n: usize| format!("tree/d{}/file-{n}", n % 100);
    let source = |n: usize| Source::File(sources.join(format!("d{}/file-{n}", n % 100)));
    let mut operations: Vec<Operation> = vec![scene.put("tree", Source::Directory, 0o755)];
    operations.extend((0..100).map(|n| scene.put(&format!("tree/d{n}"), Source::Directory, 0o755)));
    operations.extend((0..FILES).map(|n| scene.put(&path(n), source(n), 0o644)));
    let plan = scene.plan(operations);
    let directory = scene.directory();
    let (_, new) = timed("new tree", || apply(&plan, &directory, &mut |_| {}).unwrap());

    let plan = scene.plan((0..FILES).map(|n| scene.put(&path(n), source(n), 0o644)).collect());
    let changed = scene.directory();
    let (_, over) = timed("all replaced", || apply(&plan, &changed, &mut |_| {}).unwrap());

    let undo = timed("plan of the undo", || undo_plan(&changed).unwrap()).0.plan;
    let (_, undone) = timed("undone", || apply(&undo, &scene.directory(), &mut |_| {}).unwrap());

    let mut plan = scene.plan((0..FILES).map(|n| scene.remove(&path(n))).collect());
    plan.operations.extend((0..100).map(|n| scene.remove(&format!("tree/d{n}"))));
    plan.operations.push(scene.remove("tree"));
    let (_, removed) = timed("all removed", || apply(&plan, &scene.directory(), &mut |_| {}).unwrap());
    for (what, time) in [("new", new), ("replaced", over), ("undone", undone), ("removed", removed)] {
        println!("{what:20} {:.2} x", time.as_secs_f64() / reference.as_secs_f64());
    }
}

#[test]
#[ignore = "measures"]
fn one_small_file() {
    let scene = Scene::new();
    for n in 0..5 {
        scene.file("file", b"before");
        let plan = scene.plan(vec![scene.put("file", Source::Bytes(b"after".to_vec()), 0o644)]);
        let directory = scene.directory();
        timed(&format!("one file, {n}"), || apply(&plan, &directory, &mut |_| {}).unwrap());
    }
}

//! Databases consist of several files: what is applied is all of one, as it was written to the one that reality has.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};

use whatif_e2e::{Outcome, World, as_root_and_user, eventually, needs, skip};

as_root_and_user!(
    a_journal_is_not_applied_to_another_database,
    a_database_is_not_applied_without_its_journal,
    a_journal_is_not_applied_without_its_database,
    one_that_somebody_has_open_is_not_exchanged,
    one_whose_journal_is_applied_again_and_again_is_no_conflict,
    a_rebase_puts_no_other_database_under_a_journal,
    nothing_is_put_under_a_running_server,
    two_clusters_are_not_mixed,
);

const CREATE: &str = "import sqlite3; db = sqlite3.connect('db'); db.execute('CREATE TABLE t (x, y)')";
const CREATE_WAL: &str = "import sqlite3; db = sqlite3.connect('db'); db.execute('PRAGMA journal_mode=wal'); \
                          db.execute('CREATE TABLE t (x, y)'); db.execute('INSERT INTO t VALUES (0, 0)'); db.commit()";
/// Ends without closing, so that what was written stays in the log.
const LEAVE_LOG: &str = "import os, sqlite3; db = sqlite3.connect('db'); \
                         db.executemany('INSERT INTO t VALUES (?, ?)', [(n, 'x' * 400) for n in range(50)]); db.commit(); os._exit(0)";
const ADD_MANY: &str = "import sqlite3; db = sqlite3.connect('db'); \
                        db.executemany('INSERT INTO t VALUES (?, ?)', [(n, 'y' * 400) for n in range(300)]); db.commit()";
/// Ends in the middle of a transaction that has written to the database itself.
const LEAVE_JOURNAL: &str = "import os, sqlite3; db = sqlite3.connect('db'); db.execute('PRAGMA cache_size=5'); \
                             db.execute('UPDATE t SET y = y || y'); os._exit(0)";

fn outside(w: &World, program: &str) -> Outcome {
    w.program("/usr/bin/python3").args(["-c", program]).cwd(&w.project).go().ok()
}

fn inside(w: &World, sandbox: &str, program: &str) {
    w.whatif(["exec", sandbox, "--", "/usr/bin/python3", "-c", program]).go().ok();
}

#[track_caller]
fn has_rows(w: &World, rows: u32) {
    let look = "import sqlite3; db = sqlite3.connect('db'); \
                print(*db.execute('SELECT count(*) FROM t').fetchone(), *db.execute('PRAGMA integrity_check').fetchone())";
    assert_eq!(outside(w, look).text(), format!("{rows} ok"));
}

fn a_journal_is_not_applied_to_another_database(w: &World) {
    needs!(w, "python3");
    outside(w, CREATE_WAL);
    w.new_sandbox("s");
    inside(w, "s", LEAVE_LOG);
    outside(w, ADD_MANY);
    w.apply(&["s", "--all"]).exits(1).says("db-wal").says("reality changed since");
    has_rows(w, 301);
    // Reality's version can be chosen.
    w.apply(&["s", "--all", "--skip", "db-*"]).exits(0);
    has_rows(w, 301);
}

fn a_database_is_not_applied_without_its_journal(w: &World) {
    needs!(w, "python3");
    w.write(".gitignore", "*-wal\n*-shm\n*-journal\n");
    outside(w, CREATE);
    outside(w, &ADD_MANY.replace("300", "3000"));
    w.sandbox_with("s", "true");
    w.whatif(["start", "s"]).go().ok();
    inside(w, "s", LEAVE_JOURNAL);
    w.exec("s", "test -s db-journal").ok();
    w.apply(&["s"]).exits(1).says("journal that is not applied with it");
    has_rows(w, 3000);
    w.apply(&["s", "--ignored"]).ok();
    has_rows(w, 3000);
}

fn a_journal_is_not_applied_without_its_database(w: &World) {
    needs!(w, "python3");
    outside(w, CREATE);
    outside(w, &ADD_MANY.replace("300", "3000"));
    w.new_sandbox("s");
    inside(w, "s", LEAVE_JOURNAL);
    w.apply(&["s", "--all", "--exclude", "db"]).exits(1).says("db-journal");
    w.apply(&["s", "--all", "--exclude", "db", "--theirs", "db-journal"]).exits(1).says("take both, or neither");
    has_rows(w, 3000);
}

/// Says that it has the database open, and closes it when its input ends.
fn holder(w: &World) -> Child {
    let program = "import sqlite3, sys; db = sqlite3.connect('db'); db.execute('SELECT * FROM t').fetchall(); \
                   db.execute('PRAGMA wal_checkpoint(TRUNCATE)'); print('open', flush=True); sys.stdin.read()";
    let call = w.program("/usr/bin/python3").args(["-c", program]).cwd(&w.project);
    let mut holder = call.streams(Stdio::piped(), Stdio::piped(), Stdio::null()).spawn();
    let mut word = String::new();
    BufReader::new(holder.stdout.as_mut().expect("it is piped")).read_line(&mut word).expect("it speaks");
    holder
}

fn one_that_somebody_has_open_is_not_exchanged(w: &World) {
    needs!(w, "python3");
    outside(w, CREATE_WAL);
    w.new_sandbox("s");
    inside(w, "s", ADD_MANY);
    let mut holder = holder(w);
    w.apply(&["s", "--all"]).exits(1).says("has the database open");
    w.apply(&["s", "--all", "--theirs", "db"]).exits(1).says("close it first");
    holder.stdin.take().expect("it is piped").flush().expect("it reads");
    holder.wait().expect("it is our child");
    w.apply(&["s", "--all"]).ok();
    has_rows(w, 301);
}

fn one_whose_journal_is_applied_again_and_again_is_no_conflict(w: &World) {
    needs!(w, "python3");
    w.new_sandbox("s");
    inside(w, "s", CREATE_WAL);
    let server = "import sqlite3, time, os; db = sqlite3.connect('db'); db.execute('PRAGMA wal_autocheckpoint=0')\n\
                  while True:\n  db.execute('INSERT INTO t VALUES (1, 2)'); db.commit()\n  open('did', 'w')\n\
                  \x20 while os.path.exists('did'): time.sleep(0.01)";
    w.whatif(["exec", "-d", "s", "--", "/usr/bin/python3", "-c", server]).go().ok();
    for _ in 0..3 {
        w.exec("s", "until [ -e did ]; do sleep 0.05; done").ok();
        w.apply(&["s", "--all"]).ok();
        w.exec("s", "rm did").ok();
    }
}

fn a_rebase_puts_no_other_database_under_a_journal(w: &World) {
    needs!(w, "python3");
    for backend in ["overlay", "copy"] {
        w.outside("rm -f db*").ok();
        outside(w, CREATE_WAL);
        w.whatif(["new", backend, "--backend", backend]).go().ok();
        inside(w, backend, LEAVE_LOG);
        outside(w, ADD_MANY);
        let open = w.whatif(["rebase", backend]).go().exits(1).stdout;
        assert!(open.contains("db: reality changed the database"), "{open}");
        w.apply(&[backend, "--all"]).exits(1).says("reality changed since");
        has_rows(w, 301);
        let look = "import sqlite3; print(*sqlite3.connect('db').execute('SELECT count(*) FROM t').fetchone())";
        assert_eq!(w.whatif(["exec", backend, "--", "/usr/bin/python3", "-c", look]).go().ok().text(), "51", "{backend}");
    }
}

/// A program of PostgreSQL. Debian keeps them out of the search path, and they refuse to run as root.
fn postgres(w: &World, program: &str) -> String {
    let as_nobody = if w.is_root() { " --reuid=65534 --regid=65534 --clear-groups" } else { "" };
    // It ends with who started it.
    format!("setpriv --pdeathsig=KILL{as_nobody} $(ls -d /usr/lib/postgresql/*/bin | tail -n 1)/{program}")
}

/// One that is ready.
fn server(w: &World) -> Child {
    let start = format!("exec {} -D data -h '' -k . 2>&1", postgres(w, "postgres"));
    let call = w.program("/bin/sh").args(["-c", &start]).cwd(&w.project);
    let server = call.streams(Stdio::null(), Stdio::null(), Stdio::null()).spawn();
    eventually("the server is ready", || w.outside("grep -q ready data/postmaster.pid 2>/dev/null").code == 0);
    server
}

/// A directory for a server, or false if there is none to be had.
fn has_cluster(w: &World) -> bool {
    if !Path::new("/usr/lib/postgresql").exists() {
        skip("PostgreSQL is not installed");
        return false;
    }
    w.outside("mkdir -m 700 data").ok();
    if w.is_root() {
        w.outside("chown 65534:65534 data").ok();
    }
    w.outside(&format!("{} --no-sync -A trust -U suite -D data", postgres(w, "initdb"))).ok();
    true
}

/// Lets a server do one thing.
fn single(w: &World, statement: &str) -> String {
    format!("echo '{statement};' | {} --single -D data postgres", postgres(w, "postgres"))
}

fn nothing_is_put_under_a_running_server(w: &World) {
    if !has_cluster(w) {
        return;
    }
    w.new_sandbox("s");
    let inside = single(w, "CREATE TABLE t (x int)");
    w.exec("s", &format!("{inside} && echo '# inside' >> data/pg_hba.conf && echo x > x")).ok();

    let mut server = server(w);
    w.apply(&["s", "--all"]).exits(1).says("a PostgreSQL server runs");
    w.apply(&["s", "--files", "data/base/**"]).exits(1).says("a PostgreSQL server runs");
    w.apply(&["s", "--all", "--theirs", "data"]).exits(1).says("stop it first");
    w.apply(&["s", "--skip", "data"]).ok();
    assert!(!w.read("data/pg_hba.conf").contains("inside") && w.read("x") == "x\n");

    server.kill().expect("it is our child");
    server.wait().expect("it is our child");
    assert!(w.project.join("data/postmaster.pid").exists(), "the file of one that was killed stays, and does not matter");
    // Nor does that of one inside, which has numbers of its own.
    w.outside("echo 2 > data/postmaster.pid").ok();
    w.apply(&["s", "--files", "data/pg_hba.conf"]).ok();
    assert!(w.read("data/pg_hba.conf").contains("inside"));
}

fn two_clusters_are_not_mixed(w: &World) {
    if !has_cluster(w) {
        return;
    }
    w.new_sandbox("s");
    w.exec("s", &format!("{} && echo x > x", single(w, "CREATE TABLE t (x int)"))).ok();
    w.outside(&single(w, "CREATE TABLE u (x int)")).ok();

    let said = w.apply(&["s", "--all"]).exits(1).says("the two cannot be mixed").stderr;
    assert!(!said.contains("--theirs"), "it is of no use: {said}");
    w.apply(&["s", "--all", "--theirs", "data"]).exits(1).says("the two cannot be mixed");
    w.apply(&["s", "--files", "data/base/**"]).exits(1).says("the two cannot be mixed");
    w.apply(&["s", "--all", "--ours", "data"]).ok();
    assert_eq!(w.read("x"), "x\n");
    // Reality's is as it was, and goes on: the very next statement finds its table.
    w.outside(&format!("{} | grep -qv ERROR", single(w, "DROP TABLE u"))).ok();
}

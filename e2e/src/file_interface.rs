//! What the keeper's file interface must do, whatever carries it: each check is made over a unix socket and over a stream of bytes.

mod hostile;
mod plain;
mod watched;

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use whatif_keeper::Client;
use whatif_keeper::client::ClientError;
use whatif_keeper::protocol::{Condition, Exec, Failed, FileRequest, Listed, Request, Text};

use crate::empty_root::{EmptyRoot, pipe};
use crate::{World, wait_for};

/// A keeper, and a directory inside that belongs to the check.
#[derive(Clone, Debug)]
pub struct Inside {
    /// Where its socket is.
    pub directory: PathBuf,
    pub base: PathBuf,
    /// Its path there.
    pub busybox: PathBuf,
}

pub type Check = fn(&Inside);

/// All of them, by name.
pub const CHECKS: &[(&str, Check)] = &[
    ("a_file_is_written_read_and_changed", plain::a_file_is_written_read_and_changed),
    ("conditions_are_kept", plain::conditions_are_kept),
    ("directories_are_made_moved_and_deleted", plain::directories_are_made_moved_and_deleted),
    ("a_directory_is_listed_in_pages", plain::a_directory_is_listed_in_pages),
    ("large_files_pass_through", plain::large_files_pass_through),
    ("nothing_is_waited_for", hostile::nothing_is_waited_for),
    ("links_lead_nowhere_else", hostile::links_lead_nowhere_else),
    ("nonsense_is_refused", hostile::nonsense_is_refused),
    ("deep_and_wide_trees_are_deleted_beside_other_work", hostile::deep_and_wide_trees_are_deleted_beside_other_work),
    ("a_writer_that_leaves_changes_nothing", hostile::a_writer_that_leaves_changes_nothing),
    ("nothing_is_written_while_it_is_held_still", hostile::nothing_is_written_while_it_is_held_still),
    ("what_has_no_room_is_reported", hostile::what_has_no_room_is_reported),
    ("what_happens_is_told", watched::what_happens_is_told),
    ("what_is_too_much_to_tell_is_said", watched::what_is_too_much_to_tell_is_said),
    ("watching_goes_on_after_the_layers_changed", watched::watching_goes_on_after_the_layers_changed),
];

/// Makes a check in an empty root, over a stream.
pub fn over_a_stream(w: &World, check: &str) {
    let root = EmptyRoot::start(w);
    let inside = Inside { directory: root.directory.clone(), base: "/checked".into(), busybox: "/busybox".into() };
    run(&inside, check);
}

/// Makes a check in a sandbox, over its socket. Only processes of the user who started it are let in.
pub fn over_a_socket(w: &World, program: &Path, check: &str) {
    let options: &[&str] = if check == "what_has_no_room_is_reported" { &["--disk", "16M"] } else { &[] };
    let made = w.json([&["new", "files"], options].concat());
    let name = made["name"].as_str().expect("a sandbox has a name").to_owned();
    let shown = w.json(["show", &name]);
    let directory = shown["directory"].as_str().expect("it has one").to_owned();
    // The user may not be let in to where it was built.
    let copy = w.dir.join("files-check");
    let copied = Command::new("/usr/bin/install").args(["-m", "755"]).arg(program).arg(&copy).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let base = w.project.join("checked");
    let arguments = [check, &directory, base.to_str().expect("it is text"), "/usr/bin/busybox"];
    let mut call = w.program(&copy).args(arguments);
    if let Ok(entries) = std::env::var("WHATIF_ENTRIES") {
        call = call.env("WHATIF_ENTRIES", entries);
    }
    call.go().ok();
}

/// Makes a check where a keeper is there already.
pub fn run(inside: &Inside, check: &str) {
    let (_, check) = CHECKS.iter().find(|(name, _)| *name == check).expect("there is such a check");
    inside.connect().make_directories(&inside.base, 0o755).expect("it can be made");
    check(inside);
}

impl Inside {
    fn connect(&self) -> Client {
        Client::connect(&self.directory).expect("it lets us in")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    fn write(&self, name: &str, content: &[u8]) {
        let written = self.connect().write_file(&self.at(name), None, Condition::Always, &mut &*content);
        written.expect("it can be written");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        read_all(&mut self.connect(), &self.at(name)).expect("it can be read")
    }

    /// Runs a script with `$B` as busybox; it must succeed.
    fn sh(&self, script: &str) {
        let mut client = self.connect();
        client.exec(self.command(script), &[]).expect("it starts");
        assert_eq!(client.exited().expect("it ends").code, 0, "{script}");
    }

    /// Runs it until the client is dropped.
    fn sh_meanwhile(&self, script: &str) -> Client {
        let mut client = self.connect();
        client.exec(self.command(script), &[]).expect("it starts");
        client
    }

    fn command(&self, script: &str) -> Exec {
        let arguments: Vec<_> = [self.busybox.as_os_str(), "sh".as_ref(), "-c".as_ref(), script.as_ref()].map(Text::from).to_vec();
        serde_json::from_value(serde_json::json!({
            "arguments": arguments, "environment": [["B", Text::from(&self.busybox)]], "directory": Text::from(&self.base),
            "stdio": ["null", "null", "null"], "terminal": null, "detached": false, "timeout_ms": null,
        }))
        .expect("it is a command")
    }

    fn list(&self, path: &Path) -> Vec<Listed> {
        let (mut client, mut all, mut after) = (self.connect(), Vec::new(), None);
        loop {
            let (entries, next) = client.list_page(path, after.as_ref(), u32::MAX).expect("it can be listed");
            all.extend(entries);
            match next {
                Some(next) => after = Some(next),
                None => return all,
            }
        }
    }

    fn names(&self) -> Vec<String> {
        self.list(&self.base).iter().map(|listed| listed.name.to_os().to_string_lossy().into_owned()).collect()
    }

    /// A write that has got so far; the rest is the caller's to send.
    fn half_written(&self, name: &str) -> (Client, File) {
        let mut client = self.connect();
        let (given, ours) = pipe();
        let request = FileRequest::Write { path: Text::from(&self.at(name)), mode: None, condition: Condition::Always };
        client.send(&Request::Files(request), &[given.as_fd()]).expect("it is sent");
        client.reply().expect("it is ready");
        let mut ours = File::from(ours);
        ours.write_all(&[7; 30_000]).expect("it takes it");
        (client, ours)
    }

    /// Whether others are served at once.
    fn is_responsive(&self) -> bool {
        let began = std::time::Instant::now();
        self.connect().stat(&self.base, false).expect("it answers");
        began.elapsed() < Duration::from_secs(1)
    }

    fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
        let found = wait_for(Duration::from_secs(120), || is_so().then_some(()));
        assert!(found.is_some(), "it never happened: {what}");
    }
}

fn read_all(client: &mut Client, path: &Path) -> Result<Vec<u8>, ClientError> {
    let (mut all, mut version) = (Vec::new(), None);
    loop {
        let range = client.read_range(path, all.len() as u64, u64::MAX, version.as_deref())?;
        if range.bytes.is_empty() {
            return Ok(all);
        }
        all.extend(range.bytes);
        version = Some(range.stat.version);
    }
}

fn failed<T: std::fmt::Debug>(result: Result<T, ClientError>) -> Failed {
    match result {
        Err(ClientError::Failed(failed)) => failed,
        other => panic!("it should have been refused: {other:?}"),
    }
}

fn errno<T: std::fmt::Debug>(result: Result<T, ClientError>) -> rustix::io::Errno {
    rustix::io::Errno::from_raw_os_error(failed(result).errno)
}

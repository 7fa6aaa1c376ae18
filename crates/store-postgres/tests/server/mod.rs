//! A PostgreSQL server for these tests alone.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use postgres::{Client, NoTls};

/// The server refuses to run as root; this is nobody's.
const UNPRIVILEGED: u32 = 65534;

pub struct Server {
    directory: PathBuf,
}

impl Server {
    pub fn start() -> Self {
        let directory = std::env::temp_dir().join(format!("whatif-pg-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let server = Self { directory };
        if server.user() == UNPRIVILEGED {
            std::os::unix::fs::chown(&server.directory, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).unwrap();
        }
        let data = server.directory.join("data");
        let made = server.command("initdb").args(["-A", "trust", "-U", "suite", "--no-sync", "-D"]).arg(&data).status().unwrap();
        assert!(made.success(), "initdb failed");
        let mut command = server.command("postgres");
        // It ends with the program that started it, also when that is killed: a shell waits for the end of its input.
        command.arg("-D").arg(&data).args(["-h", "", "-c", "fsync=on", "-c", "max_connections=200", "-k"]).arg(&server.directory);
        let postgres = shell_line(&command);
        let mut guard = server.command("sh");
        guard.args(["-c", &format!("{postgres} & read -r _; kill -QUIT $!; wait; rm -rf \"$0\"")]).arg(&server.directory);
        // What is written to its input never comes; it ends when we do.
        let guard = guard.stdin(Stdio::piped()).spawn().unwrap();
        std::mem::forget(guard);
        server.wait();
        server
    }

    pub fn address(&self, database: &str) -> String {
        format!("host={} user=suite dbname={database}", self.directory.display())
    }

    pub fn tell(&self, sql: &str) {
        Client::connect(&self.address("postgres"), NoTls).unwrap().batch_execute(sql).unwrap();
    }

    fn wait(&self) {
        for _ in 0..600 {
            if Client::connect(&self.address("postgres"), NoTls).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the server did not answer within 30 s");
    }

    fn user(&self) -> u32 {
        match std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) {
            0 => UNPRIVILEGED,
            own => own,
        }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(find(program));
        command.current_dir(&self.directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if self.user() == UNPRIVILEGED {
            command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        }
        command
    }
}

/// Debian keeps the server's programs out of the search path, a directory for each version.
fn find(program: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = versions.chain(std::env::split_paths(&path)).map(|directory| directory.join(program)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{program} is missing: install postgresql"))
}

fn shell_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| format!("'{}'", Path::new(word).display())).collect::<Vec<_>>().join(" ")
}

//! Long output on a terminal goes through the user's pager.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use whatif_sys::programs::{Programs, USUAL};

/// Where output for people goes: a pager on a terminal, else standard output.
#[derive(Debug)]
pub struct Pager {
    child: Option<Child>,
}

impl Pager {
    /// `$WHATIF_PAGER`, `$PAGER`, else `less`; none if it is `cat`, empty, or cannot be started.
    #[must_use]
    pub fn start(wanted: bool, project: &Path) -> Self {
        if !wanted {
            return Self { child: None };
        }
        let chosen = ["WHATIF_PAGER", "PAGER"].iter().find_map(|v| std::env::var(v).ok()).unwrap_or_else(|| "less".to_owned());
        if chosen.trim().is_empty() || chosen == "cat" {
            return Self { child: None };
        }
        let variable = |name: &str, otherwise: &str| std::env::var_os(name).unwrap_or_else(|| otherwise.into());
        let programs = Programs::new(&variable("PATH", USUAL), Path::new(&variable("HOME", "/")), project);
        let mut command = Command::new("/bin/sh");
        // One that cannot be started has read nothing: the shell says why, and the text is shown without it.
        let or_plainly = format!("{chosen}\ncase $? in 126 | 127) exec cat ;; esac");
        // It is looked for where the project cannot put one.
        command.args(["-c", &or_plainly]).env("PATH", programs.search_path()).stdin(Stdio::piped());
        // Colours pass, a short text stays on the screen and ends the pager.
        if std::env::var_os("LESS").is_none() {
            command.env("LESS", "FRX");
        }
        Self { child: command.spawn().ok() }
    }

    /// Waits until the reader has seen enough.
    pub fn finish(mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.child.as_mut().and_then(|c| c.stdin.as_mut()) {
            Some(stdin) => stdin.write(bytes),
            None => io::stdout().lock().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.child.as_mut().and_then(|c| c.stdin.as_mut()) {
            Some(stdin) => stdin.flush(),
            None => io::stdout().lock().flush(),
        }
    }
}

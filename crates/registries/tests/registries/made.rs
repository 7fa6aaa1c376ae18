//! A home, a project and tools, made for one test.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use whatif_registries::{Asker, Found};

pub struct Made {
    pub dir: PathBuf,
    pub home: PathBuf,
    pub project: PathBuf,
    /// Where tools can leave what a test wants to know: they can write to devices only.
    told: PathBuf,
    pub environment: Vec<(String, String)>,
    pub path: OsString,
}

impl Made {
    /// With no tools at all.
    pub fn bare() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("whatif-registries-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let (dir, told) = (std::env::temp_dir().join(&name), Path::new("/dev/shm").join(&name));
        let (home, project, bin) = (dir.join("home"), dir.join("home/project"), dir.join("bin"));
        for directory in [&home, &project, &bin, &told] {
            fs::create_dir_all(directory).unwrap();
        }
        Self { path: bin.into(), dir, home, project, told, environment: Vec::new() }
    }

    /// With one of the tools of this machine, and what those are made of.
    pub fn with_tool(tool: &str) -> Option<Self> {
        let mut made = Self::bare();
        made.wrap_tool(tool, &which(tool)?);
        if tool == "pip3" {
            made.wrap_tool("python3", &which("python3")?);
        }
        // For what stands in for cargo and only knows the user's home.
        if let Some(home) =
            std::env::var_os("RUSTUP_HOME").or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".rustup").into()))
        {
            made.set("RUSTUP_HOME", home.to_str()?);
        }
        Some(made)
    }

    fn wrap_tool(&self, tool: &str, real: &Path) {
        self.fake(tool, &format!("PATH=$PATH:/usr/local/bin:/usr/bin:/bin exec '{}' \"$@\"", real.display()));
    }

    /// A tool that is a shell script.
    pub fn fake(&self, tool: &str, script: &str) {
        let draft = self.write(&format!("../{tool}.draft"), &format!("#!/bin/sh\n{script}\n"));
        install(&draft, &self.dir.join("bin").join(tool));
    }

    /// A file that a tool can write to; its name as a script has it.
    pub fn record(&self, name: &str) -> String {
        let path = self.told.join(name);
        fs::write(&path, "").unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub fn recorded(&self, name: &str) -> String {
        fs::read_to_string(self.told.join(name)).unwrap()
    }

    /// A file below the home.
    pub fn write(&self, path: &str, content: &str) -> PathBuf {
        let path = self.home.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    pub fn asker(&self) -> Asker<'_> {
        Asker { home: &self.home, project: &self.project, environment: &self.environment, path: &self.path }
    }

    pub fn find(&self) -> Found {
        whatif_registries::find(&self.asker())
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.told);
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Where this machine has a tool, as tests find it.
pub fn which(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|directory| directory.join(tool)).find(|path| path.is_file());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{tool} is needed and missing");
        eprintln!("SKIPPED: {tool} is not installed");
    }
    found
}

/// `host:port` of everything that was found, sorted.
pub fn places(found: &Found) -> Vec<String> {
    let mut places: Vec<_> = found.sources.iter().map(|source| source.place.clone()).collect();
    places.sort();
    places.dedup();
    let rules: std::collections::BTreeSet<_> = found.rules.iter().map(ToString::to_string).collect();
    assert_eq!(rules.iter().cloned().collect::<Vec<_>>(), places, "each place has its rule, with its port");
    places
}

/// Copies a program to where it is started from. Another process does it: had this one ever written there, a child that
/// another test is about to start could still hold the file open, and it could not be started ("Text file busy").
fn install(program: &Path, to: &Path) {
    let installed = Command::new("install").args(["-m", "755"]).args([program, to]).status().unwrap();
    assert!(installed.success(), "{}", to.display());
}

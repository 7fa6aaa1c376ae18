//! `doctor --fix`: lets ordinary users have the namespaces that a sandbox consists of, where the machine's settings forbid it.
//!
//! Everything is planned first, for a person to read. Each step says how to take it back, and one that is done already is not
//! planned again.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use whatif_provider::is_container;
use whatif_sys::absence::{self, OrAbsent};
use whatif_sys::run_to_end::run_to_end;
use whatif_sys::trial;

use crate::{EngineError, private_file};

/// Settings of the kernel that forbid user namespaces, and what allows them. Both values are what distributions ship.
const SETTINGS: [(&str, &str); 2] = [("user.max_user_namespaces", "15000"), ("kernel.unprivileged_userns_clone", "1")];
/// Is 1 where AppArmor takes the rights from those that a program without a profile makes.
const RESTRICTS: &str = "kernel.apparmor_restrict_unprivileged_userns";

const SETTINGS_FILE: &str = "etc/sysctl.d/60-whatif.conf";
const PROFILE_FILE: &str = "etc/apparmor.d/whatif";
const MARK: &str = "# Written by 'whatif doctor --fix'";
const PARSERS: [&str; 2] = ["usr/sbin/apparmor_parser", "sbin/apparmor_parser"];
/// The profiles that the kernel has. Only root may read it.
const LOADED: &str = "sys/kernel/security/apparmor/profiles";

/// A machine, by its root directory.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
}

/// One thing that would be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A setting of the kernel, now and whenever the machine starts.
    Setting { name: &'static str, was: String, value: &'static str },
    /// A profile that lets one program make user namespaces, and restricts nothing.
    Profile { program: PathBuf },
}

/// Why there can be no plan.
#[derive(Debug)]
pub enum NoPlan {
    /// The settings are the host's.
    InContainer,
    /// To AppArmor, some characters mean more than themselves.
    OddPath(PathBuf),
    /// It may be needed for something else.
    OthersProfile(PathBuf),
    NoParser,
    Failed(EngineError),
}

impl From<EngineError> for NoPlan {
    fn from(error: EngineError) -> Self {
        Self::Failed(error)
    }
}

impl NoPlan {
    /// What is to be done instead.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::InContainer => "run it on the host; 'whatif doctor' says which options the container needs".to_owned(),
            Self::OddPath(_) => "install whatif in a directory with a plain name, such as /usr/local/bin, and run that".to_owned(),
            Self::OthersProfile(file) => {
                format!("look at it, move it away if nothing needs it, and try again: sudo mv {0} {0}.old", file.display())
            }
            Self::NoParser => "install AppArmor's tools and try again: sudo apt-get install apparmor".to_owned(),
            Self::Failed(_) => String::new(),
        }
    }
}

impl fmt::Display for NoPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InContainer => write!(f, "this is a container: what it may do is set by the host"),
            Self::OddPath(path) => write!(f, "AppArmor has no plain way to name the program {}", path.display()),
            Self::OthersProfile(file) => write!(f, "{} is there already and was not written by whatif", file.display()),
            Self::NoParser => write!(f, "AppArmor restricts this machine, but apparmor_parser, which loads profiles, is missing"),
            Self::Failed(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl Step {
    /// What it changes.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::Setting { name, was, value } => {
                format!("set {name} from {was} to {value}, now and in /{SETTINGS_FILE}: any program may make user namespaces then")
            }
            Self::Profile { program } => {
                format!("write /{PROFILE_FILE} and load it: {} may make user namespaces then", program.display())
            }
        }
    }

    /// The command that takes it back.
    #[must_use]
    pub fn taken_back(&self) -> String {
        match self {
            Self::Setting { name, was, .. } => format!("sudo rm -f /{SETTINGS_FILE} && sudo sysctl -w {name}={was}"),
            Self::Profile { .. } => format!("sudo apparmor_parser -R /{PROFILE_FILE} && sudo rm /{PROFILE_FILE}"),
        }
    }
}

impl Machine {
    /// The one this runs on.
    #[must_use]
    pub fn this() -> Self {
        Self { root: PathBuf::from("/") }
    }

    /// The same for somebody. Who can make namespaces already needs nothing; root always can.
    pub fn plan_for(&self, is_root: bool, program: &Path) -> Result<Vec<Step>, NoPlan> {
        if !is_root && trial::of_namespaces().is_ok() { Ok(Vec::new()) } else { self.plan(program) }
    }

    /// What would let ordinary users run this program; nothing if they can already.
    pub fn plan(&self, program: &Path) -> Result<Vec<Step>, NoPlan> {
        let mut steps = Vec::new();
        for (name, value) in SETTINGS {
            if let Some(was) = self.setting(name)?.filter(|was| was == "0") {
                steps.push(Step::Setting { name, was, value });
            }
        }
        if self.setting(RESTRICTS)?.as_deref() == Some("1") && !self.has_profile(program)? {
            if self.parser()?.is_none() {
                return Err(NoPlan::NoParser);
            }
            steps.push(Step::Profile { program: program.to_owned() });
        }
        if !steps.is_empty() && is_container(&self.root) {
            return Err(NoPlan::InContainer);
        }
        Ok(steps)
    }

    pub fn perform(&self, step: &Step) -> Result<(), EngineError> {
        match step {
            Step::Setting { name, value, .. } => self.set(name, value),
            Step::Profile { program } => self.load_profile(program),
        }
    }

    /// `None` where the kernel has no such setting.
    fn setting(&self, name: &str) -> Result<Option<String>, EngineError> {
        let path = self.setting_file(name);
        let text = fs::read_to_string(&path).or_absent().map_err(|e| EngineError::io("read", &path, e))?;
        Ok(text.map(|text| text.trim().to_owned()))
    }

    fn setting_file(&self, name: &str) -> PathBuf {
        self.root.join("proc/sys").join(name.replace('.', "/"))
    }

    fn set(&self, name: &str, value: &str) -> Result<(), EngineError> {
        let now = self.setting_file(name);
        fs::write(&now, value).map_err(|e| EngineError::io("write", &now, e))?;
        let file = self.root.join(SETTINGS_FILE);
        let known = read(&file)?.unwrap_or_else(|| format!("{MARK}.\n"));
        let others = known.lines().filter(|line| line.split('=').next().map(str::trim) != Some(name));
        let text: String = others.map(|line| format!("{line}\n")).chain([format!("{name} = {value}\n")]).collect();
        write(&file, &text)
    }

    /// Whether the kernel has a profile for this program that whatif or its package wrote, or somebody by the README.
    fn has_profile(&self, program: &Path) -> Result<bool, NoPlan> {
        let file = self.root.join(PROFILE_FILE);
        let text = profile_text(program)?;
        let is_written = match read(&file)? {
            None => false,
            Some(known) if known == text || attaches_to(&known, program) => true,
            Some(known) if known.starts_with(MARK) => false,
            Some(_) => return Err(NoPlan::OthersProfile(file)),
        };
        let loaded = self.root.join(LOADED);
        // Whoever may not look is told what is left to do, and root then finds that nothing is.
        let loaded = fs::read_to_string(loaded).unwrap_or_default();
        Ok(is_written && loaded.lines().any(|line| line.starts_with("whatif (")))
    }

    fn load_profile(&self, program: &Path) -> Result<(), EngineError> {
        let file = self.root.join(PROFILE_FILE);
        let before = read(&file)?;
        let failed = |source| EngineError::io("load", &file, source);
        if !before.as_deref().is_some_and(|known| attaches_to(known, program)) {
            let text = profile_text(program).map_err(|error| failed(io::Error::other(error.to_string())))?;
            write(&file, &text)?;
        }
        let parser = self.parser()?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let outcome = run_to_end(Command::new(parser).arg("-r").arg(&file).stdin(Stdio::null())).map_err(failed)?;
        if outcome.status.success() {
            return Ok(());
        }
        // What cannot be loaded must not be there when the machine starts.
        let _ = match before {
            Some(before) => fs::write(&file, before),
            None => fs::remove_file(&file),
        };
        Err(failed(io::Error::other(String::from_utf8_lossy(&outcome.stderr).trim().to_owned())))
    }

    fn parser(&self) -> Result<Option<PathBuf>, EngineError> {
        for parser in PARSERS.map(|parser| self.root.join(parser)) {
            if absence::leads_somewhere(&parser).map_err(|e| EngineError::io("look at", &parser, e))? {
                return Ok(Some(parser));
            }
        }
        Ok(None)
    }
}

/// `flags=(unconfined)` restricts nothing; `userns` is what programs without a profile lack. What whatif starts has the same label.
fn profile_text(program: &Path) -> Result<String, NoPlan> {
    let odd = || NoPlan::OddPath(program.to_owned());
    let path = program.to_str().ok_or_else(odd)?;
    if !path.starts_with('/') || !path.chars().all(|c| c.is_alphanumeric() || "/._+- ".contains(c)) {
        return Err(odd());
    }
    Ok(format!(
        "{MARK}. It lets whatif make user namespaces, and restricts nothing.\n\
         abi <abi/4.0>,\ninclude <tunables/global>\n\n\
         profile whatif \"{path}\" flags=(unconfined) {{\n  userns,\n\n  include if exists <local/whatif>\n}}\n"
    ))
}

/// Whether a profile that is called `whatif` lets this program make user namespaces.
fn attaches_to(profile: &str, program: &Path) -> bool {
    let words: Vec<&str> =
        profile.split(|c: char| c.is_whitespace() || "\",{}".contains(c)).filter(|word| !word.is_empty()).collect();
    let is_named = words.windows(3).any(|w| w[0] == "profile" && w[1] == "whatif" && Path::new(w[2]) == program);
    is_named && words.contains(&"userns")
}

fn read(path: &Path) -> Result<Option<String>, EngineError> {
    fs::read_to_string(path).or_absent().map_err(|e| EngineError::io("read", path, e))
}

/// For everybody to read, as all settings of a machine.
fn write(path: &Path, text: &str) -> Result<(), EngineError> {
    private_file::replace_for_all(path, text.as_bytes()).map_err(|e| EngineError::io("write", path, e))
}

#[cfg(test)]
#[path = "fix/tests.rs"]
mod tests;

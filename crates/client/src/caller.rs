//! Reads from the process what the engine must know: the one place that looks at the environment.

use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use whatif_engine::caller::LOST;
use whatif_engine::config_file::ConfigError;
use whatif_engine::ground::GroundError;
use whatif_engine::{Caller, EngineError, StatePlace, config_file};
use whatif_sys::absence::{MeansAbsent, OrAbsent};
use whatif_types::Principal;
use whatif_types::config::UserConfig;

use crate::user_names;

pub fn from_process() -> Result<Caller, EngineError> {
    let uid = rustix::process::geteuid().as_raw();
    let home = home(uid)?;
    // Commands that are about no directory need none.
    let cwd = match env::current_dir() {
        Err(error) if error.means_absent() => lost_directory(),
        other => other.map_err(|source| GroundError::NoCurrentDirectory { source })?,
    };
    let config = config(&home)?;
    Ok(Caller {
        principal: principal(uid),
        via: "cli",
        uid,
        gid: rustix::process::getegid().as_raw(),
        runtime_dir: path_in("XDG_RUNTIME_DIR"),
        // A name or value that is not UTF-8 cannot be judged by the filter, so it stays outside.
        environment: env::vars_os().filter_map(|(n, v)| Some((n.into_string().ok()?, v.into_string().ok()?))).collect(),
        home,
        cwd,
        config,
    })
}

/// What the kernel calls a directory that was deleted: no path leads there.
fn lost_directory() -> PathBuf {
    std::fs::read_link("/proc/self/cwd").unwrap_or_else(|_| PathBuf::from(format!("/{LOST}")))
}

/// A job of cron and a container have no `$USER`.
fn principal(uid: u32) -> Principal {
    let named = env::var("USER").ok().filter(|name| !name.is_empty());
    Principal::User { uid, name: named.or_else(|| user_names::of(uid)) }
}

fn home(uid: u32) -> Result<PathBuf, EngineError> {
    let home = match path_in("HOME") {
        Some(home) => home,
        None => home_from_passwd(uid)?.unwrap_or_else(|| PathBuf::from("/")),
    };
    // Mounts and what is masked are compared with real paths. What is closed to us is so inside, too.
    match std::fs::canonicalize(&home) {
        Ok(real) => Ok(real),
        Err(error) if error.means_absent() || error.kind() == ErrorKind::PermissionDenied => Ok(home),
        Err(source) => Err(EngineError::io("examine", home, source)),
    }
}

fn home_from_passwd(uid: u32) -> Result<Option<PathBuf>, EngineError> {
    const USERS: &str = "/etc/passwd";
    let text = std::fs::read(USERS).or_absent();
    let text = text.map_err(|source| EngineError::io("read", USERS, source))?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find(|l| l.split(':').nth(2) == Some(&uid.to_string()));
    Ok(line.and_then(|line| line.split(':').nth(5)).map(PathBuf::from))
}

/// Why there is no place for sandboxes.
#[derive(Debug)]
pub enum NoPlace {
    /// From another directory it would be another one, and the sandboxes of this one would seem to be gone.
    Relative {
        named: PathBuf,
        meant: PathBuf,
    },
    Engine(EngineError),
}

impl From<EngineError> for NoPlace {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// Where sandboxes of this caller are kept.
pub fn state_place(caller: &Caller) -> Result<StatePlace, NoPlace> {
    if let Some(named) = env::var_os("WHATIF_HOME").filter(|home| !home.is_empty()).map(PathBuf::from) {
        if !named.is_absolute() {
            return Err(NoPlace::Relative { meant: caller.cwd.join(&named), named });
        }
        return Ok(StatePlace::given(real(named)?));
    }
    let usual = path_in("XDG_STATE_HOME").map(|p| p.join("whatif")).unwrap_or_else(|| {
        if caller.is_root() { PathBuf::from("/var/lib/whatif") } else { caller.home.join(".local/state/whatif") }
    });
    Ok(StatePlace::usual(real(usual)?, &caller.home)?)
}

fn real(chosen: PathBuf) -> Result<PathBuf, EngineError> {
    // The directory may not exist yet; what exists of its path is made real. What is closed to us is told when it is used.
    for existing in chosen.ancestors() {
        match (std::fs::canonicalize(existing), chosen.strip_prefix(existing)) {
            (Ok(real), Ok(rest)) if rest.as_os_str().is_empty() => return Ok(real),
            (Ok(real), Ok(rest)) => return Ok(real.join(rest)),
            (Err(error), _) if error.means_absent() || error.kind() == ErrorKind::PermissionDenied => {}
            (Err(source), _) => return Err(EngineError::io("examine", existing, source)),
            (Ok(_), Err(_)) => {}
        }
    }
    Ok(chosen)
}

fn config(home: &Path) -> Result<UserConfig, EngineError> {
    let path = path_in("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")).join("whatif/config.toml");
    match config_file::read(&path) {
        Err(source) => Err(EngineError::io("read", path, source)),
        Ok(None) => Ok(UserConfig::default()),
        Ok(Some(text)) => config_file::of_user(&text).map_err(|message| ConfigError { path, message }.into()),
    }
}

/// An absolute path in a variable; empty and relative ones count as unset, as the XDG rules say.
fn path_in(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|p| p.is_absolute())
}

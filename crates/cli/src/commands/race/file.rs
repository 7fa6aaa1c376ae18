//! `experiment.toml`: found or named, read, and trusted accordingly.

use std::io::Read;
use std::path::{Path, PathBuf};

use whatif_engine::races::ExperimentPlan;
use whatif_engine::races::file::File;
use whatif_engine::{Caller, Engine, EngineError};
use whatif_sys::absence;
use whatif_types::experiment::Kind;
use whatif_types::network::NetChoice;
use whatif_types::text::Text;
use whatif_types::{Explain, Limits};

use crate::failure::Failure;

/// Used when no attempt is named on the command line.
const NAME: &str = "experiment.toml";
const LARGEST_FILE: u64 = 1 << 20;
/// Patches are read as a whole.
const LARGEST_PATCH: u64 = 8 << 20;

/// A file to race by.
pub struct ExperimentFile {
    pub path: PathBuf,
    pub trust: Trust,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Somebody said to use it.
    Named,
    /// It was only there. Whatever ran in the project may have written it.
    Found,
}

/// What a file says besides the plan.
#[derive(Default)]
pub struct FromFile {
    pub name: Option<String>,
    pub net: Vec<NetChoice>,
    pub limits: Limits,
    /// The same file means the same wherever one stands.
    pub cwd: Option<PathBuf>,
}

impl ExperimentFile {
    /// Where one stands, or at the project's top.
    pub fn find(caller: &Caller) -> Result<Option<Self>, Failure> {
        for place in [caller.cwd.clone(), caller.project_of(&caller.cwd)?] {
            let path = place.join(NAME);
            match absence::is_file(&path) {
                Ok(true) => return Ok(Some(Self { path, trust: Trust::Found })),
                Ok(false) => {}
                Err(source) => return Err(EngineError::io("examine", path, source).into()),
            }
        }
        Ok(None)
    }

    /// `says_net`: the command line says which network it is, so the file does not.
    pub fn read(&self, engine: &Engine, says_net: bool) -> Result<(ExperimentPlan, FromFile), Failure> {
        let file = read_file(&self.path)?;
        let mut besides = FromFile::of(&file, &self.path, engine.caller())?;
        if says_net {
            besides.net.clear();
        }
        match self.trust {
            Trust::Named => Ok((plan_of(file, &self.path)?, besides)),
            Trust::Found => {
                besides.trust_little(&self.path, engine.caller())?;
                Ok((plan_read_inside(file, &self.path)?, besides))
            }
        }
    }
}

impl FromFile {
    fn of(file: &File, path: &Path, caller: &Caller) -> Result<Self, Failure> {
        let mut limits = file.limits.clone();
        limits.timeout = limits.timeout.or(file.timeout);
        let net = file.net.iter().map(|choice| parse_net(choice)).collect::<Result<_, _>>()?;
        let place = std::fs::canonicalize(path).ok().and_then(|path| path.parent().map(Path::to_owned));
        let project = caller.project_of(&caller.cwd)?;
        Ok(Self { name: file.name.clone(), net, limits, cwd: place.filter(|place| place.starts_with(&project)) })
    }

    /// One that was only found can take away, and give nothing.
    fn trust_little(&mut self, path: &Path, caller: &Caller) -> Result<(), Failure> {
        let usual = caller.config.network.mode.clone().unwrap_or(NetChoice::Registries);
        if let Some(more) = self.net.iter().find(|choice| **choice != NetChoice::None && **choice != usual) {
            let message = format!("{} asks for the network '{more}', which you did not allow", path.display());
            return Err(Failure::usage(
                "not_allowed",
                message,
                format!("to allow it: --net {more}, or name the file: -f {}", path.display()),
            ));
        }
        self.limits = std::mem::take(&mut self.limits).at_most(&caller.config.limits);
        Ok(())
    }
}

fn read_file(path: &Path) -> Result<File, Failure> {
    let wrong = |why: &str| cannot_read(&path.display().to_string(), why);
    let bytes = read_at_most(path, LARGEST_FILE).map_err(|why| wrong(&why))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is not text"))?;
    File::parse(&text).map_err(|error| in_file(path, error))
}

fn plan_of(file: File, path: &Path) -> Result<ExperimentPlan, Failure> {
    let beside = path.parent().unwrap_or(Path::new("."));
    file.into_plan(&mut |name| read_patch(&beside.join(name))).map_err(|error| in_file(path, error))
}

/// A file that nobody named must not have anything read for it that its attempts could not read themselves.
fn plan_read_inside(file: File, path: &Path) -> Result<ExperimentPlan, Failure> {
    let mut named = Vec::new();
    let mut plan = file
        .into_plan(&mut |name| {
            named.push(name.to_owned());
            Ok(Text::Plain("read inside".to_owned()))
        })
        .map_err(|error| in_file(path, error))?;
    let patches = plan.attempts.iter_mut().filter(|attempt| attempt.kind == Kind::Patch);
    for (attempt, name) in patches.zip(named) {
        let script = std::mem::take(&mut attempt.arguments);
        let around = ["/bin/sh", "-c", "exec \"$@\" < \"$0\""].map(Text::from);
        attempt.arguments = around.into_iter().chain([Text::from(&name)]).chain(script).collect();
        attempt.input = None;
    }
    Ok(plan)
}

pub fn read_patch(path: &Path) -> Result<Text, String> {
    let bytes = read_at_most(path, LARGEST_PATCH)?;
    Ok(String::from_utf8(bytes).map_or_else(|error| Text::Bytes(error.into_bytes()), Text::Plain))
}

fn read_at_most(path: &Path, longest: u64) -> Result<Vec<u8>, String> {
    // Opening a pipe would wait for somebody at its other end.
    if !std::fs::metadata(path).map_err(|error| plain(&error))?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let read = || {
        let file = std::fs::File::open(path)?;
        let mut bytes = Vec::new();
        file.take(longest + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error: std::io::Error| plain(&error))?;
    if bytes.len() as u64 > longest { Err(format!("it is larger than {} MiB", longest >> 20)) } else { Ok(bytes) }
}

/// Without the number of the system's error.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

fn parse_net(choice: &str) -> Result<NetChoice, Failure> {
    choice
        .parse()
        .map_err(|why: String| Failure::usage("invalid_value", why, "as with --net: none, registries, local, host, allow=RULE"))
}

pub fn cannot_read(path: &str, why: &str) -> Failure {
    Failure::usage("no_such_path", format!("cannot read '{}': {why}", path.escape_debug()), "name a file that is there")
}

fn in_file(path: &Path, error: impl Explain) -> Failure {
    let remedy = error.remedies().into_iter().next().unwrap_or_else(|| "see 'experiment.toml' in docs/race.md".into());
    Failure::usage("invalid_value", format!("{}: {error}", path.display()), remedy)
}

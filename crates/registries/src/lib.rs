//! Which hosts the user's own tools are set up for.
//!
//! Nothing here knows a registry by name. Each package manager is asked how it is set up, or for what it would do by itself,
//! and so a mirror in a company's network is found like the public default.
//!
//! What runs in a project must not be able to open the network for itself. So
//! - nothing in the project is believed: tools are asked far away from it, without variables that lead into it, and a tool
//!   that lies in it is not run at all (it would run outside of any sandbox);
//! - the project's git remotes are believed, because `.git/config` is not part of what is checked out. It is read as a file,
//!   by a git that is told of no repository, since much in a repository's configuration names programs to run;
//! - what a tool says is hostile until it is read as a plain URL. Credentials in it are dropped at once.
//!
//! Nothing leaves the machine. Asking takes about as long as the slowest tool, so it is done when the first connection is
//! made, and remembered: [`find_cached`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod answers;
mod apt;
mod ask;
mod beside;
mod cache;
mod cargo;
mod files;
mod fingerprint;
mod git;
mod go;
mod npm;
mod pip;
mod place;
mod proxy;
mod rewrite;
mod rustup;
mod surroundings;
mod uv;
mod variables;

use std::ffi::OsStr;
use std::path::Path;

use serde::{Deserialize, Serialize};
use whatif_netpolicy::Rule;

use answers::Answers;
use beside::Beside;
use surroundings::Surroundings;

/// Whose tools are asked, and where.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    pub home: &'a Path,
    pub project: &'a Path,
    /// The user's. Only what tools of this kind go by is passed on to them.
    pub environment: &'a [(String, String)],
    /// Where tools are looked for.
    pub path: &'a OsStr,
}

/// What came of asking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// One for each host and port, each with its port.
    pub rules: Vec<Rule>,
    pub sources: Vec<Source>,
    /// What could not be found out, in words for a person. No tool's own words are in it.
    pub troubles: Vec<String>,
}

/// Who named a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    pub tool: String,
    /// `host:port`.
    pub place: String,
    /// Where it was said.
    pub said: String,
}

/// Asks every tool that there is, all at once. Takes a few seconds at most, whatever they do.
#[must_use]
pub fn find(asker: &Asker<'_>) -> Found {
    let surroundings = Surroundings::new(asker);
    let (mut tools, project) = std::thread::scope(|scope| {
        let project = Beside::start(scope, || git::ask(&surroundings));
        (ask_tools(&surroundings), project.end())
    });
    tools.add(project);
    tools.into_found()
}

/// The same, but tools are only asked again if what they go by has changed, or after a day.
///
/// A cache that cannot be read or written makes this slower, nothing else.
#[must_use]
pub fn find_cached(asker: &Asker<'_>, cache_file: &Path) -> Found {
    let surroundings = Surroundings::new(asker);
    let marks = [fingerprint::of_tools(&surroundings), fingerprint::of_project(&surroundings)];
    let mut cache = cache::Cache::read(cache_file);
    let [known_tools, known_project] = marks.each_ref().map(|mark| cache.get(mark));
    let is_known = known_tools.is_some() && known_project.is_some();
    let (mut tools, project) = std::thread::scope(|scope| {
        let project = known_project.is_none().then(|| Beside::start(scope, || git::ask(&surroundings)));
        let tools = known_tools.unwrap_or_else(|| ask_tools(&surroundings));
        let asked = project.map(Beside::end);
        (tools, known_project.or(asked).unwrap_or_default())
    });
    if !is_known {
        let [tools_mark, project_mark] = marks;
        cache.put(tools_mark, &tools);
        cache.put(project_mark, &project);
        cache.write(cache_file);
    }
    tools.add(project);
    tools.into_found()
}

fn ask_tools(surroundings: &Surroundings<'_>) -> Answers {
    let ways = [apt::ask, npm::ask, npm::ask_relatives, pip::ask, uv::ask, cargo::ask, rustup::ask, go::ask, variables::ask];
    std::thread::scope(|scope| {
        let threads = ways.map(|way| Beside::start(scope, move || way(surroundings)));
        threads.into_iter().fold(Answers::default(), |mut all, thread| {
            all.add(thread.end());
            all
        })
    })
}

//! Short ways to snapshots, and to what a sandbox holds at a moment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::{Canary, World, canary, eventually, kill_wholly};

/// A python program that lists its working directory.
pub const LISTING: &str = include_str!("../tests/snapshots/listing.py");

/// What a project is, seen from inside: path to kind, mode, content, link target, attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing(BTreeMap<String, String>);

impl Listing {
    /// What the program has printed.
    #[must_use]
    pub fn parse(document: Value) -> Self {
        Self(serde_json::from_value(document).expect("a listing maps paths to words"))
    }

    /// What another one has instead, path by path. Empty if they are the same.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let paths = self.0.keys().chain(other.0.keys().filter(|path| !self.0.contains_key(*path)));
        let shown = |listing: &Self, path: &String| listing.0.get(path).map_or("nothing", String::as_str).to_owned();
        paths
            .filter(|path| self.0.get(*path) != other.0.get(*path))
            .map(|path| format!("{path}\n    is {}\n    not {}", shown(self, path), shown(other, path)))
            .collect()
    }

    #[track_caller]
    pub fn assert_is(&self, expected: &Self, context: &str) {
        let differences = self.differences(expected);
        assert!(differences.is_empty(), "{context}:\n  {}", differences.join("\n  "));
    }
}

impl World {
    /// `whatif snapshot NAME LABEL`.
    #[track_caller]
    pub fn snapshot(&self, sandbox: &str, label: &str) -> Value {
        self.json(["snapshot", sandbox, label])
    }

    /// `whatif rollback NAME LABEL`.
    #[track_caller]
    pub fn rollback(&self, sandbox: &str, label: &str) -> Value {
        self.json(["rollback", sandbox, label])
    }

    /// `whatif fork SOURCE NAME`, and the name.
    #[track_caller]
    pub fn fork(&self, source: &str, name: &str) -> String {
        let made = self.json(["fork", source, name]);
        made["sandboxes"][0]["name"].as_str().unwrap_or_else(|| panic!("a fork has a name: {made}")).to_owned()
    }

    /// What the project is to a living sandbox.
    #[track_caller]
    #[must_use]
    pub fn listing(&self, sandbox: &str) -> Listing {
        Listing::parse(self.whatif(["exec", sandbox, "--", "/usr/bin/python3", "-ISc", LISTING]).go().ok().json())
    }

    /// What the project is in reality.
    #[track_caller]
    #[must_use]
    pub fn real_listing(&self) -> Listing {
        Listing::parse(self.program("/usr/bin/python3").args(["-ISc", LISTING]).go().ok().json())
    }

    /// What a snapshot holds: a sandbox is made from it, looked at, and removed.
    #[track_caller]
    #[must_use]
    pub fn listing_of(&self, snapshot: &str) -> Listing {
        let fork = self.fork(snapshot, "looked-at");
        let listing = self.listing(&fork);
        self.whatif(["rm", &fork]).go().ok();
        listing
    }

    /// Where frozen layers are.
    #[must_use]
    pub fn layers(&self) -> PathBuf {
        self.state.join("layers")
    }

    /// Every frozen layer in every detail.
    #[must_use]
    pub fn frozen(&self) -> Canary {
        canary(&[&self.layers()])
    }

    /// The labels of a sandbox's snapshots, as they are listed.
    #[track_caller]
    #[must_use]
    pub fn labels(&self, sandbox: &str) -> Vec<String> {
        let listed = self.json(["snapshots", sandbox]);
        let all = listed.as_array().unwrap_or_else(|| panic!("snapshots are a list: {listed}"));
        all.iter().map(|s| s["label"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Kills a sandbox's keeper, as a full memory might, and waits until that is noticed. Whether there was one.
    #[track_caller]
    pub fn kill_keeper(&self, sandbox: &str) -> bool {
        let pid = self.json(["show", sandbox])["keeper_pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        let Some(pid) = pid else { return false };
        kill_wholly(&[pid]);
        eventually("a lost keeper is noticed", || {
            // While it dies it can be reached but does not answer.
            let shown = self.whatif(["--json", "show", sandbox]).go();
            shown.code == 0 && shown.json()["status"] == "stopped"
        });
        true
    }
}

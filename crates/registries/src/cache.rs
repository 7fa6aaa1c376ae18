//! Answers that are still good, in a file of the user's own.
//!
//! Hosts in it were read as such before they were written and are read so again. Somebody who can write the file could as
//! well change what the tools go by.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::Source;
use crate::answers::Answers;
use crate::place::Place;

const VERSION: u32 = 1;
const SECONDS_GOOD: u64 = 24 * 3600;
/// For an answer with a gap: the tool that was late is asked again, but not each time.
const SECONDS_GOOD_IN_PART: u64 = 600;
const MOST_ENTRIES: usize = 64;
const LARGEST: u64 = 1 << 20;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Cache {
    version: u32,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    fingerprint: String,
    /// In seconds since 1970.
    asked: u64,
    is_partial: bool,
    sources: Vec<Source>,
    troubles: Vec<String>,
}

impl Cache {
    /// Empty if there is none that is good.
    pub(crate) fn read(path: &Path) -> Self {
        let read = || {
            let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
            let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
            let metadata = file.metadata().ok()?;
            let is_ours =
                metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0;
            let mut content = Vec::new();
            file.take(LARGEST).read_to_end(&mut content).ok().filter(|_| is_ours)?;
            serde_json::from_slice::<Self>(&content).ok().filter(|cache| cache.version == VERSION)
        };
        read().unwrap_or_default()
    }

    pub(crate) fn get(&self, fingerprint: &str) -> Option<Answers> {
        let entry = self.entries.iter().find(|entry| entry.fingerprint == fingerprint)?;
        let age = now().checked_sub(entry.asked)?;
        let is_good = age < if entry.is_partial { SECONDS_GOOD_IN_PART } else { SECONDS_GOOD };
        let is_plain = entry.sources.iter().all(|source| Place::of_host(&source.place).is_ok());
        let answers = || Answers { sources: entry.sources.clone(), troubles: entry.troubles.clone(), is_partial: entry.is_partial };
        (is_good && is_plain).then(answers)
    }

    pub(crate) fn put(&mut self, fingerprint: String, answers: &Answers) {
        // What was known stays as old as it is.
        if self.get(&fingerprint).is_some() {
            return;
        }
        self.entries.retain(|entry| entry.fingerprint != fingerprint);
        self.entries.insert(
            0,
            Entry {
                fingerprint,
                asked: now(),
                is_partial: answers.is_partial,
                sources: answers.sources.clone(),
                troubles: answers.troubles.clone(),
            },
        );
        self.entries.truncate(MOST_ENTRIES);
    }

    /// In one piece or not at all.
    pub(crate) fn write(&mut self, path: &Path) {
        self.version = VERSION;
        let Ok(text) = serde_json::to_vec(self) else { return };
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        let scratch = Path::new(&name);
        // Left by another process of that number, which has ended.
        let _ = std::fs::remove_file(scratch);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(scratch);
        let written = file.and_then(|mut file| file.write_all(&text)).and_then(|()| std::fs::rename(scratch, path));
        if written.is_err() {
            let _ = std::fs::remove_file(scratch);
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

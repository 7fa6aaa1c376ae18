//! rustup: the server it is told to use, else the one its toolchains came from.

use crate::answers::Answers;
use crate::files;
use crate::surroundings::Surroundings;

const TOOL: &str = "rustup";
const MANIFEST: &str = "lib/rustlib/multirust-channel-manifest.toml";

pub(crate) fn ask(surroundings: &Surroundings<'_>) -> Answers {
    let mut answers = Answers::default();
    for name in ["RUSTUP_DIST_SERVER", "RUSTUP_UPDATE_ROOT"] {
        surroundings.variable(name).into_iter().for_each(|url| answers.url(TOOL, url, name));
    }
    if surroundings.variable("RUSTUP_DIST_SERVER").is_some() || surroundings.program("rustup").is_none() {
        return answers;
    }
    for toolchain in files::list(&surroundings.directory("RUSTUP_HOME", ".rustup").join("toolchains")) {
        let path = toolchain.join(MANIFEST);
        // The list of all packages is long, and each came from the same place.
        let text = files::text(&path, surroundings).unwrap_or_default();
        let url = text.lines().find_map(|line| line.strip_prefix("url = \"")?.strip_suffix('"'));
        url.into_iter().for_each(|url| answers.url(TOOL, url, &files::shown(&path, surroundings.home)));
    }
    answers
}

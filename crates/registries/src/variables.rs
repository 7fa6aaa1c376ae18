//! Variables that name a registry. They count even where their tool is not found: a project can bring its own pip.

use crate::answers::Answers;
use crate::go;
use crate::surroundings::Surroundings;

const VARIABLES: [(&str, &str); 14] = [
    ("pip", "PIP_INDEX_URL"),
    ("pip", "PIP_EXTRA_INDEX_URL"),
    ("pip", "PIP_FIND_LINKS"),
    ("uv", "UV_DEFAULT_INDEX"),
    ("uv", "UV_INDEX"),
    ("uv", "UV_INDEX_URL"),
    ("uv", "UV_EXTRA_INDEX_URL"),
    ("uv", "UV_FIND_LINKS"),
    ("npm", "NPM_CONFIG_REGISTRY"),
    ("npm", "npm_config_registry"),
    ("yarn", "YARN_REGISTRY"),
    ("yarn", "YARN_NPM_REGISTRY_SERVER"),
    ("rustup", "RUSTUP_DIST_SERVER"),
    ("rustup", "RUSTUP_UPDATE_ROOT"),
];

pub(crate) fn ask(surroundings: &Surroundings<'_>) -> Answers {
    let mut answers = Answers::default();
    for (tool, name) in VARIABLES {
        for word in surroundings.variable(name).unwrap_or_default().split([' ', '\n', '\t']).filter(|word| !word.is_empty()) {
            // uv writes `name=url`.
            let url = match word.split_once('=') {
                Some((label, url)) if tool == "uv" && !label.contains([':', '/']) => url,
                _ => word,
            };
            answers.url(tool, url, name);
        }
    }
    go::proxies(surroundings.variable("GOPROXY").unwrap_or_default(), "GOPROXY", &mut answers);
    answers
}

//! `url.<base>.insteadOf`: what the user has git write in place of the beginning of a URL.

#[derive(Debug, Default)]
pub(crate) struct Rewrites {
    /// The beginning, and what replaces it.
    fetch: Vec<(String, String)>,
    push: Vec<(String, String)>,
}

impl Rewrites {
    /// A line of configuration, if it is one of these.
    pub(crate) fn learn(&mut self, key: &str, value: &str) {
        // The section and the name are in lower case; what is between them is as it was written.
        let Some((base, name)) = key.strip_prefix("url.").and_then(|rest| rest.rsplit_once('.')) else { return };
        let list = match name {
            "insteadof" => &mut self.fetch,
            "pushinsteadof" => &mut self.push,
            _ => return,
        };
        if !value.is_empty() {
            list.push((value.to_owned(), base.to_owned()));
        }
    }

    pub(crate) fn for_fetching(&self, url: &str) -> String {
        rewrite(&self.fetch, url).unwrap_or_else(|| url.to_owned())
    }

    /// Where it differs from fetching.
    pub(crate) fn for_pushing(&self, url: &str) -> Option<String> {
        rewrite(&self.push, url)
    }
}

/// The longest beginning wins.
fn rewrite(list: &[(String, String)], url: &str) -> Option<String> {
    let fitting = list.iter().filter_map(|(start, base)| Some((start.len(), base, url.strip_prefix(start.as_str())?)));
    fitting.max_by_key(|(length, ..)| *length).map(|(_, base, rest)| format!("{base}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_wins() {
        let mut rewrites = Rewrites::default();
        rewrites.learn("url.https://a.example/.insteadof", "short:");
        rewrites.learn("url.https://b.example/.insteadof", "short:deep/");
        rewrites.learn("url.ssh://git@a.example/.pushinsteadof", "https://a.example/");
        rewrites.learn("url.x.other", "short:");
        assert_eq!(rewrites.for_fetching("short:x"), "https://a.example/x");
        assert_eq!(rewrites.for_fetching("short:deep/x"), "https://b.example/x");
        assert_eq!(rewrites.for_fetching("https://c.example/"), "https://c.example/");
        assert_eq!(rewrites.for_pushing("https://a.example/x").as_deref(), Some("ssh://git@a.example/x"));
        assert_eq!(rewrites.for_pushing("https://c.example/x"), None);
    }
}

//! Which backend the sandboxes of a world have: the default, the one a test is made for, or the one in `WHATIF_TEST_BACKEND`.

use crate::{Who, World, skip};

/// Every test that does not choose a backend itself runs on this one.
pub(crate) const VARIABLE: &str = "WHATIF_TEST_BACKEND";

impl World {
    /// Runs a test in a fresh world, if we can be that identity.
    pub fn with(who: Who, test: fn(&World)) {
        let Some(mut world) = Self::of(who) else { return };
        if wanted().is_none_or(|backend| world.use_backend(&backend)) {
            test(&world);
        }
    }

    /// Runs a test in a fresh world with this backend, if that one works here.
    pub fn with_backend(who: Who, backend: &str, test: fn(&World)) {
        let Some(mut world) = Self::of(who) else { return };
        if world.use_backend(backend) {
            test(&world);
        }
    }

    /// Whether this identity can have the fuse backend: often only root may open the device.
    #[must_use]
    pub fn can_use_fuse(&self) -> bool {
        self.has("fuse-overlayfs") && self.outside("exec 3<>/dev/fuse").code == 0
    }

    /// Replaces the user's configuration. A world with a backend keeps it, unless the text chooses one.
    pub fn configure(&self, text: impl AsRef<str>) {
        let text = text.as_ref();
        let layers = match &self.backend {
            Some(backend) if !text.contains("[layers]") => format!("\n[layers]\nbackend = \"{backend}\"\n"),
            _ => String::new(),
        };
        self.write(self.home.join(".config/whatif/config.toml"), format!("{text}{layers}"));
    }

    /// What a sandbox of this world gets if nothing else is said.
    #[must_use]
    pub fn backend(&self) -> &str {
        self.backend.as_deref().unwrap_or("overlay")
    }

    /// False, with a named skip, if this identity cannot have it.
    fn use_backend(&mut self, backend: &str) -> bool {
        if backend == "fuse" && !self.can_use_fuse() {
            skip(
                "this user cannot have the fuse backend; `cargo xtask test` and `cargo xtask backend fuse` open the device for all",
            );
            return false;
        }
        self.backend = Some(backend.to_owned());
        self.configure("");
        true
    }

    fn of(who: Who) -> Option<Self> {
        if who == Who::Root && !rustix::process::geteuid().is_root() {
            skip("the root half needs root");
            return None;
        }
        Some(Self::new(who))
    }
}

fn wanted() -> Option<String> {
    let backend = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty())?;
    assert!(["overlay", "fuse", "copy"].contains(&backend.as_str()), "{VARIABLE}={backend} is no backend");
    Some(backend)
}

/// Ends the test with a named skip on these backends: for what only another one can or should do.
#[macro_export]
macro_rules! not_on {
    ($world:expr, $backends:pat, $why:expr) => {
        if matches!($world.backend(), $backends) {
            $crate::skip(&format!("not on {}: {}", $world.backend(), $why));
            return;
        }
    };
}

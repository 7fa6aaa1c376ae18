//! Brings up a real sandbox with each backend and takes it away again: the only proof that it works.

use whatif_layers::remove;
use whatif_types::config::UserConfig;
use whatif_types::{Backend, Identity, NetMode};

use super::Probe;
use crate::choice::Choice;
use crate::ground::limits::Lease;
use crate::ids::new_id;
use crate::lifecycle::boot::Wish;
use crate::secrets::{Lazy, Secrets};
use crate::{Engine, EngineError};

pub(super) fn probes(engine: &Engine) -> Vec<Probe> {
    let attempt = |engine: &Engine, backend, same_ids| attempt(engine, backend, same_ids, NetMode::None);
    let overlay = attempt(engine, Backend::Overlay, false);
    let mapped = overlay.is_ok();
    let overlay = overlay.or_else(|first| attempt(engine, Backend::Overlay, true).map_err(|_| first));
    let mut probes = Vec::new();
    match &overlay {
        Ok(identity) => {
            probes.push(Probe::ok("sandbox", "one was set up and taken away: namespaces, mounts, filter and network work"));
            probes.push(Probe::ok("backend overlay", "works in the state directory"));
            probes.extend(remembered(engine));
            if *identity == Identity::Same || (engine.caller().is_root() && !mapped) {
                probes.push(Probe::warn(
                    "identity",
                    "owners cannot be mapped here: root inside is root outside",
                    "use a kernel of 5.19 or newer and a state directory on ext4, xfs or btrfs",
                ));
            } else if engine.caller().is_root() {
                probes.push(Probe::ok("identity", "root inside is nobody outside"));
            }
        }
        Err(error) => {
            probes.push(Probe::warn(
                "backend overlay",
                error.clone(),
                "set WHATIF_HOME to a directory on ext4, xfs, btrfs or tmpfs (inside a container: a volume, or /dev/shm)",
            ));
        }
    }
    match attempt(engine, Backend::Fuse, engine.caller().is_root()) {
        Ok(_) => probes.push(Probe::ok("backend fuse", "works")),
        Err(error) if overlay.is_ok() => probes.push(Probe::ok("backend fuse", format!("not usable, and not needed ({error})"))),
        Err(error) => probes.push(Probe::warn("backend fuse", error, "install fuse-overlayfs and allow /dev/fuse")),
    }
    match attempt(engine, Backend::Copy, false).or_else(|_| attempt(engine, Backend::Copy, true)) {
        Ok(_) => probes.push(Probe::ok("backend copy", "works")),
        Err(error) => probes.push(Probe::fail(
            "backend copy",
            error,
            "no sandbox can be set up: are user namespaces allowed, and is /proc whole? (in a container: --security-opt seccomp=unconfined, systempaths=unconfined)",
        )),
    }
    probes
}

/// A command that fell back a moment ago, and with it those that follow for a while.
fn remembered(engine: &Engine) -> Option<Probe> {
    let choice = Choice::load(engine.ground.state.root());
    let reason = choice.reason.filter(|_| choice.backend != Backend::Overlay)?;
    let detail =
        format!("sandboxes use the '{}' backend for now, because of a failure a few minutes ago: {reason}", choice.backend);
    Some(Probe::warn("fallback", detail, "it is tried again after five minutes; at once with: --backend overlay"))
}

/// Whether the network can have rules. `backend` works.
pub(super) fn network(engine: &Engine) -> Probe {
    let choice = Choice::load(engine.ground.state.root());
    match attempt(engine, choice.backend, choice.same_ids, NetMode::Filtered) {
        Ok(_) => Probe::ok("network rules", "connections of a sandbox can be redirected"),
        Err(error) => Probe::warn(
            "network rules",
            error,
            "the kernel needs nf_tables with NAT: modprobe nf_tables nft_chain_nat nft_redir nft_ct (in a container, on the host); until then: --net none or --net host",
        ),
    }
}

/// A whole sandbox of the state directory itself, which is small and always there.
fn attempt(engine: &Engine, backend: Backend, same_ids: bool, net: NetMode) -> Result<Identity, String> {
    let inner = || -> Result<Identity, EngineError> {
        let id = new_id()?;
        let (directory, _lock) = engine.ground.state.create(&id)?;
        let project = directory.join("project");
        std::fs::create_dir(&project).map_err(|e| EngineError::io("create", &project, e))?;
        let provider = whatif_provider::usual();
        let secrets = Lazy::new(|| Ok(Secrets::default()));
        let wish = Wish {
            id: &id,
            directory: &directory,
            project: &project,
            // As if it had been up before: nothing else is tried.
            known_trees: Some(&[]),
            mounted_before: None,
            beneath: None,
            stack: &[],
            veiled: &[],
            fill: None,
            net,
            reach: &[],
            environment: &[],
            provider,
            backend: Some(backend),
            config: &UserConfig::default(),
            secrets: &secrets,
            lease: Lease::unlimited(),
        };
        let booted = engine
            .lifecycle
            .begin_boot(&wish, Choice { backend, same_ids, ..Choice::default() })
            .and_then(|booting| engine.lifecycle.finish_boot(&wish, booting, None));
        let result = booted.map(|booting| {
            booting.end();
            booting.identity
        });
        remove::tree(&directory)?;
        result
    };
    inner().map_err(|error| whatif_types::explain::whole_message(&error))
}

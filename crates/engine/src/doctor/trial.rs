//! Brings up a real sandbox with each backend and takes it away again: the only proof that it works.

use std::path::Path;

use whatif_layers::remove;
use whatif_layers::state_place::is_on_overlay;
use whatif_types::boot::Protection;
use whatif_types::config::UserConfig;
use whatif_types::grants::Grants;
use whatif_types::{Backend, Identity, NetMode};

use super::{Probe, storage};
use crate::choice::Choice;
use crate::ground::limits::Lease;
use crate::ids::new_id;
use crate::lifecycle::boot::Wish;
use crate::secrets::{Lazy, Secrets};
use crate::{Engine, EngineError};

/// Also says which backend works, and whether with the same ids inside and outside.
pub(super) fn probes(engine: &Engine) -> (Vec<Probe>, Option<(Backend, bool)>) {
    let attempt = |engine: &Engine, backend, same_ids| attempt(engine, backend, same_ids, NetMode::None);
    let overlay = attempt(engine, Backend::Overlay, false);
    let mapped = overlay.is_ok();
    let overlay = overlay.or_else(|first| attempt(engine, Backend::Overlay, true).map_err(|_| first));
    let mut probes = Vec::new();
    match &overlay {
        Ok(Stood { identity, .. }) => {
            probes.push(Probe::ok("sandbox", "one was set up and taken away: namespaces, mounts, filter and network work"));
            probes.push(Probe::ok("backend overlay", "works in the state directory"));
            probes.extend(remembered(engine));
            if *identity == Identity::Same || (engine.caller().works_as_root() && !mapped) {
                let (why, fix) = if is_on_overlay(Path::new("/")) {
                    ("on an overlay file system, as the root directory of a container is", "be an ordinary user of the container")
                } else {
                    ("here", "use a kernel of 5.19 or newer and a state directory on ext4, xfs or btrfs")
                };
                probes.push(Probe::warn("identity", format!("owners cannot be mapped {why}: root inside is root outside"), fix));
            } else if engine.caller().works_as_root() {
                probes.push(Probe::ok("identity", "root inside is nobody outside"));
            }
        }
        Err(_) if is_on_overlay(engine.ground.state.root()) => {
            probes.push(Probe::warn("backend overlay", "the state directory cannot hold it (see above)", storage::NEEDED));
        }
        Err(error) => {
            probes.push(Probe::warn("backend overlay", error.clone(), storage::NEEDED));
        }
    }
    let fuse = attempt(engine, Backend::Fuse, engine.caller().works_as_root());
    match &fuse {
        Ok(_) => probes.push(Probe::ok("backend fuse", "works")),
        Err(error) if overlay.is_ok() => {
            probes.push(Probe::ok("backend fuse", format!("not needed, as 'backend overlay' works; it would not ({error})")))
        }
        Err(error) => probes.push(Probe::warn("backend fuse", error.clone(), "install fuse-overlayfs and allow /dev/fuse")),
    }
    let copy = attempt(engine, Backend::Copy, false).or_else(|_| attempt(engine, Backend::Copy, true));
    match &copy {
        Ok(_) => probes.push(Probe::ok("backend copy", "works")),
        Err(error) => probes.push(Probe::fail(
            "backend copy",
            error.clone(),
            "no sandbox can be set up: are user namespaces allowed, and is /proc whole? (in a container: --security-opt seccomp=unconfined, systempaths=unconfined)",
        )),
    }
    probes.extend(kernel_views(overlay.as_ref().or(copy.as_ref()).ok()));
    if engine.caller().is_root() && !engine.caller().works_as_root() {
        probes.push(Probe::ok(
            "identity",
            "root lacks rights here, as in most containers, so its sandboxes are an ordinary user's: \
             files of other users cannot be changed in them",
        ));
    }
    let works = [(Backend::Overlay, &overlay), (Backend::Fuse, &fuse), (Backend::Copy, &copy)];
    let way = works.into_iter().find_map(|(backend, tried)| Some((backend, tried.as_ref().ok()?.identity == Identity::Same)));
    (probes, way)
}

/// Where the kernel gives no new `/proc`, there is another one to be seen.
fn kernel_views(stood: Option<&Stood>) -> Option<Probe> {
    let borrowed = &stood?.protection.borrowed;
    let (_, why) = borrowed.iter().find(|(view, _)| view == Path::new("/proc"))?;
    let detail = format!(
        "sandboxes have the container's, read-only: it lists the container's other processes, \
         and numbers processes differently ({why})"
    );
    Some(Probe::warn("/proc", detail, "start the container with --security-opt systempaths=unconfined (podman: unmask=all)"))
}

/// A sandbox that stood, and was taken away.
struct Stood {
    identity: Identity,
    protection: Protection,
}

/// A command that fell back a moment ago, and with it those that follow for a while.
fn remembered(engine: &Engine) -> Option<Probe> {
    let choice = Choice::load(engine.ground.state.root());
    let reason = choice.reason.filter(|_| choice.backend != Backend::Overlay)?;
    let detail =
        format!("sandboxes use the '{}' backend for now, because of a failure a few minutes ago: {reason}", choice.backend);
    Some(Probe::warn("fallback", detail, "it is tried again after five minutes; at once with: --backend overlay"))
}

/// Whether the network can have rules, in a sandbox made in a way that works.
pub(super) fn network(engine: &Engine, way: Option<(Backend, bool)>) -> Option<Probe> {
    let (backend, same_ids) = way?;
    Some(match attempt(engine, backend, same_ids, NetMode::Filtered) {
        Ok(_) => Probe::ok("network rules", "connections of a sandbox can be redirected"),
        Err(error) => Probe::warn(
            "network rules",
            error,
            "the kernel needs nf_tables with NAT: modprobe nf_tables nft_chain_nat nft_redir nft_ct (in a container, on the host); until then: --net none or --net host",
        ),
    })
}

/// A whole sandbox of the state directory itself, which is small and always there.
fn attempt(engine: &Engine, backend: Backend, same_ids: bool, net: NetMode) -> Result<Stood, String> {
    let inner = || -> Result<Stood, EngineError> {
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
            grants: &Grants::default(),
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
            Stood { identity: booting.identity, protection: booting.protection }
        });
        remove::tree(&directory)?;
        result
    };
    inner().map_err(|error| whatif_types::explain::whole_message(&error))
}

//! Limits by control groups, and where there are none by what the keeper can do.

use std::path::Path;

use rustix::process::Pid;
use whatif_cgroup::{Found, Group, Version, Wanted};
use whatif_types::limits::{DefaultLimits, Means, Resource, Sizes};
use whatif_types::{Enforced, Identity, Limits, SandboxId};

use super::{groups, guarding};
use crate::{BindError, Binding, Bound, Enforcement, Remains, Scope, Weak};

pub(super) fn enforcement(limits: &Limits, identity: Identity) -> Enforcement {
    let found = Found::look();
    let weak = limits.resources().find_map(|(resource, _)| {
        let by = means(&found, resource, identity);
        let why = match resource {
            Resource::Memory => found.memory().err(),
            _ => found.cpu().err(),
        };
        let (why, fix) = (why.map(|why| why.reason.clone()).unwrap_or_default(), why.and_then(|why| why.fix.clone()));
        by.is_weak_for(resource).then_some(Weak { resource, by, why, fix })
    });
    Enforcement { weak, scope: needed_scope(&found, limits).cloned() }
}

pub(super) fn bind(binding: &Binding<'_>) -> Result<Bound, BindError> {
    let (limits, found) = (binding.limits, Found::look());
    if let Some(scope) = needed_scope(&found, limits).filter(|_| binding.can_move) {
        return Err(BindError::ScopeNeeded { scope: scope.clone() });
    }
    let mut bound = Bound::default();
    for (resource, _) in limits.resources() {
        let by = means(&found, resource, binding.identity);
        bound.enforced.push(Enforced { resource, by });
        match (resource, by) {
            (Resource::Memory, Means::Watcher) => bound.keeper.memory = limits.memory.map(|m| m.0),
            (Resource::Pids, Means::Rlimit) => bound.keeper.pids = limits.pids,
            (Resource::Cpus, Means::Affinity) => bound.keeper.processors = limits.cpus.map(|c| c.rounded_up()),
            _ => {}
        }
    }
    let keep = binding.keep_memory;
    let defaults = binding.guards.then(|| guarding::planned(&found, limits, binding.identity, keep)).flatten();
    let wanted = guarding::wanted_of(&found, limits);
    if wanted != Wanted::default() {
        bind_alone(&mut bound, binding, (&found, &wanted), defaults)?;
    } else if let Some(defaults) = defaults {
        guarding::guard(&mut bound, &found, i32::try_from(binding.keeper.number()).ok().and_then(Pid::from_raw), defaults);
    }
    Ok(bound)
}

/// With a group of its own, which holds its part of the default limits too.
fn bind_alone(
    bound: &mut Bound,
    binding: &Binding<'_>,
    (found, wanted): (&Found, &Wanted),
    defaults: Option<(DefaultLimits, Sizes)>,
) -> Result<(), BindError> {
    let name = groups::name(binding.state, binding.id).map_err(|source| not_examined(binding.state, source))?;
    // One of before may have been left behind.
    let make = |wanted: &Wanted| {
        Group::make(found, &name, wanted).or_else(|_| {
            whatif_cgroup::remove(found, &name)?;
            Group::make(found, &name, wanted)
        })
    };
    let Some((mut planned, sizes)) = defaults else {
        bound.group = Some(make(wanted)?);
        return Ok(());
    };
    let mut with_defaults = *wanted;
    guarding::add_to_own(&mut with_defaults, &planned, &sizes, found);
    let group = match make(&with_defaults) {
        // What was asked for does not depend on what was not.
        Err(error) => {
            guarding::without_group(&mut planned, &sizes, &whatif_types::explain::whole_message(&error));
            make(wanted)?
        }
        Ok(group) => group,
    };
    bound.group = Some(group);
    guarding::leave_to_keeper(&mut bound.keeper, &planned, &sizes);
    bound.defaults = Some(planned);
    Ok(())
}

pub(super) fn remains(state: &Path) -> Result<Vec<Remains>, BindError> {
    let prefix = groups::prefix(state).map_err(|source| not_examined(state, source))?;
    let names = whatif_cgroup::list(&Found::look(), &prefix)?.into_iter();
    Ok(names.map(|name| Remains { id: SandboxId::parse(&name[prefix.len()..]), name }).collect())
}

/// Where an ordinary user can have the groups that are missing here.
fn needed_scope<'a>(found: &'a Found, limits: &Limits) -> Option<&'a Scope> {
    let missing = [
        limits.memory.is_some() && found.memory().is_err(),
        limits.pids.is_some() && found.pids().is_err(),
        limits.cpus.is_some() && found.cpu().is_err(),
    ];
    found.scope().filter(|_| missing.contains(&true))
}

/// The strictest way there is here.
fn means(found: &Found, resource: Resource, identity: Identity) -> Means {
    let group = match resource {
        Resource::Memory => found.memory(),
        Resource::Pids => found.pids(),
        Resource::Cpus => found.cpu(),
        Resource::Disk | Resource::Inodes => return Means::Watcher,
    };
    match (group, resource) {
        (Ok(Version::V2), _) => Means::Cgroup2,
        (Ok(Version::V1), _) => Means::Cgroup1,
        (Err(_), Resource::Memory) => Means::Watcher,
        // The kernel does not count the processes of its own root.
        (Err(_), Resource::Pids) if identity != Identity::Same => Means::Rlimit,
        (Err(_), _) => Means::Affinity,
    }
}

fn not_examined(state: &Path, source: std::io::Error) -> BindError {
    BindError::State { path: state.to_owned(), source }
}

//! Records to work with.

use std::path::PathBuf;

use whatif_store::Store;
use whatif_types::boot::Protection;
use whatif_types::experiment::{Attempt, AttemptPlan, ExperimentDetails, ExperimentPlan, Kind};
use whatif_types::sandbox::{Details, Position};
use whatif_types::text::Text;
use whatif_types::{
    Backend, Experiment, ExperimentId, Identity, LayerId, Limits, MadeBy, NetMode, Sandbox, SandboxId, Snapshot, SnapshotDetails,
    SnapshotId, Status,
};

#[must_use]
pub fn sandbox(number: u8, name: &str) -> Sandbox {
    Sandbox {
        id: SandboxId::from_random([number; 12]),
        name: name.to_owned(),
        status: Status::Creating,
        version: 1,
        created_at: 1000 + u64::from(number),
        updated_at: 1000,
        project: PathBuf::from("/p"),
        provider: "native".to_owned(),
        owner: Some("somebody".to_owned()),
        node: None,
        details: Details {
            cwd: PathBuf::from("/p"),
            labels: [("team".to_owned(), "a".to_owned())].into(),
            net: NetMode::None,
            network: Default::default(),
            backend: Backend::Overlay,
            backend_reason: None,
            identity: Identity::Own { uid: 1, gid: 1 },
            reserved_ids: None,
            trees: vec![PathBuf::from("/p")],
            copied_trees: Vec::new(),
            mounted_trees: Vec::new(),
            masked: Vec::new(),
            exposed: Vec::new(),
            grants: Default::default(),
            veiled: Vec::new(),
            dropped_env: Vec::new(),
            carried_env: Vec::new(),
            set_env: Vec::new(),
            handle: None,
            keeper_version: 0,
            protection: Protection::default(),
            stop_reason: None,
            error: None,
            command: Vec::new(),
            exit_code: None,
            changed_files: 0,
            size_bytes: 0,
            based_at: None,
            position: Position::default(),
            limits: Limits::none(),
            enforced: Vec::new(),
            default_limits: None,
            expiry: None,
            usage: None,
            auto_snapshot: false,
            transient: false,
            disposable: false,
        },
    }
}

#[must_use]
pub fn experiment(number: u8, name: &str, attempts: usize) -> Experiment {
    let plan = |number: usize| AttemptPlan {
        name: number.to_string(),
        kind: Kind::Command,
        about: "true".to_owned(),
        arguments: vec![Text::Bytes(vec![b'a', 0xff])],
        input: None,
        parameters: [("V".to_owned(), "1".to_owned())].into(),
    };
    let plan = ExperimentPlan { attempts: (1..=attempts).map(plan).collect(), repeats: 1, ..ExperimentPlan::default() };
    Experiment {
        id: ExperimentId::from_random([number; 12]),
        name: name.to_owned(),
        version: 1,
        created_at: 1000 + u64::from(number),
        project: PathBuf::from("/p"),
        details: ExperimentDetails {
            plan,
            began_at: 5,
            ended_at: None,
            spent_ms: 0,
            cwd: PathBuf::from("/p"),
            sandbox: serde_json::json!({ "env": ["A=1"] }),
            set_env: Vec::new(),
            start: None,
            judged: Vec::new(),
            applied: Vec::new(),
        },
        records: vec![Attempt::waiting(); attempts],
    }
}

#[must_use]
pub fn layer(number: u8) -> LayerId {
    LayerId::from_random([number; 12])
}

#[must_use]
pub fn snapshot(number: u8, of: &Sandbox, label: &str, stack: &[u8]) -> Snapshot {
    Snapshot {
        id: SnapshotId::from_random([number; 12]),
        sandbox: of.id.clone(),
        label: label.to_owned(),
        created_at: 2000 + u64::from(number),
        details: SnapshotDetails {
            made_by: MadeBy::Request,
            message: Some("why".to_owned()),
            parent: None,
            stack: stack.iter().map(|n| layer(*n)).collect(),
            durable: false,
        },
    }
}

/// The layers that records need and know, and then some that are deleted.
#[must_use]
pub fn needed_and_known(store: &dyn Store, gone: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let numbers = |set: &std::collections::HashSet<LayerId>| (1..=9).filter(|n| set.contains(&layer(*n))).collect();
    let mut seen = (Vec::new(), Vec::new());
    store
        .with_layers(&mut |layers| {
            seen = (numbers(&layers.needed), numbers(&layers.known));
            gone.iter().map(|n| layer(*n)).collect()
        })
        .unwrap();
    seen
}

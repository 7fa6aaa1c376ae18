-- Records as a whatif of format 1 wrote them.
CREATE TABLE sandboxes (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    project BLOB NOT NULL,
    provider TEXT NOT NULL,
    idempotency_key TEXT UNIQUE,
    details TEXT NOT NULL
) WITHOUT ROWID;
PRAGMA user_version = 1;
INSERT INTO sandboxes (id, name, status, version, created_at, updated_at, project, provider, idempotency_key, details) VALUES ('4ndeb72n64ce', 'otter', 'stopped', 6, 1794936963260, 1794936963960, X'2f70726f6a656374', 'native', NULL, '{"cwd":"/project","labels":{},"net":"filtered","network":{"registries":true,"local":false,"allow":[],"deny":[],"reach":[],"publish":[],"secrets":[],"by_default":true},"backend":"overlay","backend_reason":null,"identity":{"kind":"mapped","base":1879048192,"count":251658240},"trees":["/","/project"],"copied_trees":[],"masked":[],"exposed":[],"dropped_env":[],"carried_env":[],"set_env":[],"keeper_pid":null,"keeper_version":7,"protection":{"landlock_abi":7,"read_only":[]},"stop_reason":"requested","error":null,"command":[],"exit_code":null,"changed_files":2,"size_bytes":0,"based_at":null,"position":{"stack":["2d70k21mfxq1","vg8g5j8ta5eg"],"mounted":["2d70k21mfxq1","vg8g5j8ta5eg"],"heads":[0,1],"work":2,"at":"cgq5n8njaatm","taken":2,"began_at":null,"made_from":null,"viewed":{"at":[1794936963,869228305],"tick":[1794936963,861834281],"project":[65024,8790053]}},"auto_snapshot":false,"limits":{"preset":null,"require":false,"cpus":null,"memory":null,"pids":null,"disk":null,"inodes":null,"timeout":null,"ttl":null,"idle":null},"enforced":[],"expiry":null,"usage":null,"transient":false,"disposable":false}');

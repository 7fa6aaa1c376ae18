//! The tools of this machine, in homes made for them. None of these tests sends anything: the tools are only asked.

use crate::made::{Made, places};

#[test]
fn npm_says_its_default_and_what_the_user_changed() {
    let Some(made) = Made::with_tool("npm") else { return };
    let default = made.find();
    assert_eq!(places(&default).len(), 1, "{default:?}");
    assert!(default.troubles.is_empty(), "{:?}", default.troubles);
    made.write(
        ".npmrc",
        "registry=https://user:hunter2@npm.example/all/\n@team:registry=http://team.example:4873/\n\
         //npm.example/:_authToken=hunter2\n@local:registry=http://localhost:4873/\n",
    );
    let found = made.find();
    assert_eq!(places(&found), ["npm.example:443", "team.example:4873"]);
    assert_eq!(found.troubles.len(), 1, "the one of this machine is not opened: {:?}", found.troubles);
    assert!(found.troubles[0].contains("--reach localhost:4873"), "{:?}", found.troubles);
    assert!(!format!("{found:?}").contains("hunter2"));
    assert!(!made.home.join(".npm/_logs").exists(), "asking leaves nothing behind");
}

#[test]
fn a_variable_changes_the_registry() {
    let Some(mut made) = Made::with_tool("npm") else { return };
    made.set("npm_config_registry", "https://variable.example/");
    assert_eq!(places(&made.find()), ["variable.example:443"]);
}

#[test]
fn files_in_the_project_are_not_believed() {
    for tool in ["npm", "pip3", "cargo", "go"] {
        let Some(mut made) = Made::with_tool(tool) else { continue };
        let before = places(&made.find());
        for (path, content) in [
            (".npmrc", "registry=https://evil.example/\n"),
            (".yarnrc", "registry \"https://evil.example/\"\n"),
            ("pip.conf", "[global]\nindex-url = https://evil.example/\n"),
            ("pyproject.toml", "[[tool.uv.index]]\nurl = \"https://evil.example/\"\ndefault = true\n"),
            ("uv.toml", "index-url = \"https://evil.example/\"\n"),
            (".cargo/config.toml", "[registries.evil]\nindex = \"sparse+https://evil.example/\"\n"),
            ("go.env", "GOPROXY=https://evil.example\n"),
            ("config", "GOPROXY=https://evil.example\n"),
        ] {
            made.write(&format!("project/{path}"), content);
        }
        for (name, file) in [
            ("NPM_CONFIG_USERCONFIG", ".npmrc"),
            ("npm_config_globalconfig", ".npmrc"),
            ("PIP_CONFIG_FILE", "pip.conf"),
            ("UV_CONFIG_FILE", "uv.toml"),
            ("CARGO_HOME", ".cargo"),
            ("GOENV", "go.env"),
        ] {
            let value = made.project.join(file);
            made.set(name, value.to_str().unwrap());
        }
        assert_eq!(places(&made.find()), before, "{tool}");
    }
}

#[test]
fn pip_says_its_default_and_what_the_user_changed() {
    let Some(mut made) = Made::with_tool("pip3") else { return };
    let default = made.find();
    assert_eq!(places(&default).len(), 2, "an index, and where its files are: {default:?}");
    made.write(
        ".config/pip/pip.conf",
        "[global]\nextra-index-url =\n  https://a.example/simple\n  http://u:hunter2@b.example:3141/x\n",
    );
    let more = made.find();
    assert_eq!(places(&more).len(), 4, "those are used beside the default: {more:?}");
    made.write(".config/pip/pip.conf", "[global]\nindex-url = https://only.example/simple\nfind-links = /srv/wheels\n");
    made.set("PIP_EXTRA_INDEX_URL", "https://c.example/simple https://d.example/simple");
    let found = made.find();
    assert_eq!(places(&found), ["c.example:443", "d.example:443", "only.example:443"]);
    assert!(!format!("{more:?}").contains("hunter2"));
}

#[test]
fn cargo_says_its_default_without_sending_anything() {
    let Some(made) = Made::with_tool("cargo") else { return };
    let found = made.find();
    let of_cargo: Vec<_> = found.sources.iter().filter(|source| source.tool == "cargo").collect();
    assert_eq!(of_cargo.len(), 1, "{found:?}");
    assert_eq!(of_cargo[0].said, "cargo itself");
    assert!(of_cargo[0].place.ends_with(":443"), "{of_cargo:?}");
    assert!(found.troubles.iter().any(|trouble| trouble.contains("cargo fetch")), "{:?}", found.troubles);
    // Where the index keeps its crates is known once cargo has a copy of it.
    let host = of_cargo[0].place.strip_suffix(":443").unwrap();
    made.write(&format!(".cargo/registry/index/{host}-0123456789abcdef/config.json"), r#"{"dl":"https://crates.example/dl"}"#);
    made.write(".cargo/registry/index/evil.example-0123456789abcdef/config.json", r#"{"dl":"https://evil.example/dl"}"#);
    let found = made.find();
    let of_cargo: Vec<_> =
        found.sources.iter().filter(|source| source.tool == "cargo").map(|source| source.place.as_str()).collect();
    assert_eq!(of_cargo, [&format!("{host}:443"), "crates.example:443"]);
    assert!(found.troubles.is_empty(), "{:?}", found.troubles);
}

#[test]
fn a_replaced_default_is_not_asked_for() {
    let Some(mut made) = Made::with_tool("cargo") else { return };
    made.write(
        ".cargo/config.toml",
        "[source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\nregistry = \"sparse+https://mirror.example/index/\"\n\
         [source.vendored]\ndirectory = \"vendor\"\n[registries.ours]\nindex = \"ssh://git@git.example:7999/index.git\"\n",
    );
    made.write(".cargo/registry/index/mirror.example-00/config.json", r#"{"dl":"https://dl.example/{crate}/{version}"}"#);
    made.set("CARGO_REGISTRIES_OTHER_INDEX", "https://other.example/index");
    assert_eq!(places(&made.find()), ["dl.example:443", "git.example:7999", "mirror.example:443", "other.example:443"]);
}

#[test]
fn go_says_its_default_and_what_the_user_changed() {
    let Some(mut made) = Made::with_tool("go") else { return };
    let default = made.find();
    assert_eq!(places(&default).len(), 2, "a proxy and a database of checksums: {default:?}");
    made.write(".config/go/env", "GOPROXY=https://proxy.example|http://second.example:8081,direct\nGOSUMDB=off\n");
    assert_eq!(places(&made.find()), ["proxy.example:443", "second.example:8081"]);
    made.set("GOPROXY", "https://variable.example,off");
    assert_eq!(places(&made.find()), ["variable.example:443"]);
}

#[test]
fn apt_says_where_its_lists_are() {
    let Some(mut made) = Made::with_tool("apt-config") else { return };
    let etc = made.dir.join("etc");
    made.write(
        "../apt.conf",
        &format!(
            "Dir::Etc::sourcelist \"{0}/sources.list\";\nDir::Etc::sourceparts \"{0}/parts\";\nAcquire::http::Proxy \"http://u:hunter2@proxy.example:3142\";\n",
            etc.display()
        ),
    );
    made.set("APT_CONFIG", made.dir.join("apt.conf").to_str().unwrap().to_owned().as_str());
    made.write(
        "../etc/sources.list",
        "deb [trusted=yes] http://a.example/debian stable main\n# deb http://off.example/ x y\ndeb cdrom:[Disc]/ x\n",
    );
    made.write("../etc/parts/b.sources", "Types: deb\nURIs: https://b.example/debian\n  mirror+file:///nowhere\nSuites: x\n\nEnabled: no\nURIs: http://off.example\n");
    made.write("../etc/parts/ignored.txt", "deb http://off.example/ x\n");
    let mirrors =
        made.write("../etc/mirrors", "http://c.example/debian priority:1\n# http://off.example/\nhttps://d.example/debian\n");
    made.write("../etc/parts/m.list", &format!("deb mirror+file:{} stable main\n", mirrors.display()));
    let found = made.find();
    assert_eq!(places(&found), ["a.example:80", "b.example:443", "c.example:80", "d.example:443", "proxy.example:3142"]);
    assert!(!format!("{found:?}").contains("hunter2"));
}

#[test]
fn remotes_of_the_project_are_found_and_rewritten_as_the_user_wants() {
    let Some(made) = Made::with_tool("git") else { return };
    made.write(".gitconfig", "[url \"https://mirror.example/\"]\n\tinsteadOf = short:\n");
    made.write(
        "project/.git/config",
        "[core]\n\tfsmonitor = \"touch ../ran\"\n\thooksPath = hooks\n\tpager = touch ran\n[alias]\n\tconfig = !touch ran\n\
         [include]\n\tpath = ../included\n\
         [remote \"origin\"]\n\turl = https://user:hunter2@git.example/x.git\n\tpushurl = git@push.example:x.git\n\
         [remote \"b\"]\n\turl = short:x\n[remote \"c\"]\n\turl = ../elsewhere\n[remote \"d\"]\n\turl = git://old.example/x\n\
         [remote \"e\"]\n\turl = ext::sh -c touch% ran\n[submodule \"s\"]\n\turl = https://sub.example/s\n\
         [remote \"https://u:hunter2@x.example/\"]\n\turl = https://x.example:8443/\n",
    );
    made.write("project/included", "[remote \"evil\"]\n\turl = https://evil.example/\n");
    made.write("project/.gitmodules", "[submodule \"evil\"]\n\turl = https://evil.example/\n");
    let found = made.find();
    let expected =
        ["git.example:443", "mirror.example:443", "old.example:9418", "push.example:22", "sub.example:443", "x.example:8443"];
    assert_eq!(places(&found), expected);
    assert_eq!(found.troubles.len(), 1, "{:?}", found.troubles);
    assert!(!format!("{found:?}").contains("hunter2"), "{found:?}");
    for directory in [&made.home, &made.project, &made.dir] {
        assert!(!directory.join("ran").exists(), "nothing of the repository was run");
    }
}

#[test]
fn a_work_tree_has_the_remotes_of_its_repository() {
    let Some(mut made) = Made::with_tool("git") else { return };
    made.write("repository/.git/config", "[remote \"origin\"]\n\turl = ssh://git.example/x\n");
    made.write("repository/.git/worktrees/w/commondir", "../..\n");
    made.write("project/.git", "gitdir: ../repository/.git/worktrees/w\n");
    assert_eq!(places(&made.find()), ["git.example:22"]);
    // From a directory in it, too.
    made.write("project/deep/file", "");
    made.project = made.home.join("project/deep");
    assert_eq!(places(&made.find()), ["git.example:22"]);
}

#[test]
fn a_pipe_in_place_of_the_configuration_is_not_waited_for() {
    let Some(made) = Made::with_tool("git") else { return };
    std::fs::create_dir(made.project.join(".git")).unwrap();
    let made_pipe = std::process::Command::new("mkfifo").arg(made.project.join(".git/config")).status();
    assert!(made_pipe.unwrap().success());
    let begin = std::time::Instant::now();
    assert!(made.find().sources.is_empty());
    assert!(begin.elapsed() < std::time::Duration::from_secs(4));
}

//! What a package manager installed is taken as a whole, or not at all.

use whatif_e2e::{World, as_root_and_user, needs};

as_root_and_user!(
    a_dependency_tree_is_taken_whole_or_not_at_all,
    a_virtual_environment_is_taken_whole_or_not_at_all,
    a_mark_in_a_directory_of_the_project_makes_no_tree_of_it,
);

const NODE_MODULES: &str = "mkdir -p node_modules/.bin node_modules/tool; cd node_modules; echo 'module.exports = 1' > tool/index.js; \
    echo '{\"name\": \"tool\", \"scripts\": {\"postinstall\": \"node index.js\"}}' > tool/package.json; ln -s ../tool/index.js .bin/tool; \
    echo read > tool/README";

fn left_out(document: &serde_json::Value) -> Vec<(String, String)> {
    let list = document["left_out"].as_array().expect("a list").iter();
    list.map(|l| (l["path"].as_str().unwrap_or_default().to_owned(), l["reason"].as_str().unwrap_or_default().to_owned())).collect()
}

fn files(w: &World, directory: &str) -> usize {
    w.outside(&format!("find {directory} ! -type d 2>/dev/null | wc -l")).ok().text().parse().expect("a number")
}

fn a_dependency_tree_is_taken_whole_or_not_at_all(w: &World) {
    w.outside("git init -q .; echo node_modules/ > .gitignore; mkdir web; echo 1 > web/page").ok();
    w.sandbox_with("s", &format!("cd web; echo 2 > page; {NODE_MODULES}"));
    let document = w.apply(&["s", "--ignored", "--json"]).ok().json();
    let left = left_out(&document);
    assert!(left.contains(&("web/node_modules/tool/README".to_owned(), "dependency_tree".to_owned())), "{document}");
    assert!(left.contains(&("web/node_modules/tool/package.json".to_owned(), "risky".to_owned())), "{document}");
    assert_eq!((files(w, "web/node_modules"), w.read("web/page")), (0, "2\n".to_owned()));
    // Without the other option it is only ignored.
    let document = w.apply(&["s", "--risky", "--json"]).ok().json();
    assert!(left_out(&document).iter().all(|(_, reason)| reason == "ignored"), "{document}");
    assert_eq!(files(w, "web/node_modules"), 0);
    let said = w.apply(&["s", "--ignored"]).stderr;
    assert!(said.contains("in a dependency tree"), "{said}");
    w.apply(&["s", "--ignored", "--risky"]).ok();
    assert_eq!(files(w, "web/node_modules"), 4);
    assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().stdout, "");
}

fn a_virtual_environment_is_taken_whole_or_not_at_all(w: &World) {
    needs!(w, "python3");
    w.outside("git init -q .; echo tools/ > .gitignore").ok();
    w.sandbox_with("s", "python3 -m venv --without-pip tools");
    let made = w.exec("s", "find tools ! -type d | wc -l").ok().text().parse::<usize>().expect("a number");
    w.apply(&["s", "--ignored"]).ok();
    assert_eq!(files(w, "tools"), 0);
    w.apply(&["s", "--ignored", "--risky"]).ok();
    assert_eq!(files(w, "tools"), made);
    w.outside("tools/bin/python3 -c 'import sys; assert sys.prefix != sys.base_prefix'").ok();
    // What comes later belongs to it, too.
    w.exec("s", "cd tools/lib/python3*/site-packages; echo 'import os' > one.py; echo 'import one' > one.pth").ok();
    w.apply(&["s", "--ignored"]).ok();
    assert_eq!(files(w, "tools"), made);
}

fn a_mark_in_a_directory_of_the_project_makes_no_tree_of_it(w: &World) {
    w.outside("git init -q .; mkdir src; echo 1 > src/main").ok();
    w.sandbox_with("s", "echo 2 > src/main; echo home > src/pyvenv.cfg; mkdir src/.vscode; echo {} > src/.vscode/tasks.json");
    w.apply(&["s"]).ok();
    assert_eq!(w.read("src/main"), "2\n");
    assert!(!w.project.join("src/.vscode/tasks.json").exists());
}

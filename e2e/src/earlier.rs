//! What an earlier version did in a sandbox.

use std::path::Path;

use crate::World;

impl World {
    /// Runs a script in the project as a sandbox shows it, mounted as earlier versions did for root: a directory of reality could
    /// be renamed, and a redirect said where it was before. The sandbox is at rest.
    #[track_caller]
    pub fn exec_with_redirects(&self, sandbox: &str, script: &str) {
        let shown = self.show(sandbox);
        let trees = shown["details"]["trees"].as_array().expect("it has trees");
        let trees = trees.iter().map(|tree| Path::new(tree.as_str().expect("a path"))).enumerate();
        let (number, tree) = trees
            .filter(|(_, tree)| self.project.starts_with(tree))
            .max_by_key(|(_, tree)| tree.as_os_str().len())
            .expect("the project is in one");
        let head = self.directory(sandbox).join("head").join(number.to_string());
        let layers = shown["details"]["position"]["stack"].as_array().expect("it stands on layers, or none");
        let layers = layers.iter().rev().map(|layer| self.layers().join(layer.as_str().expect("an id")).join(number.to_string()));
        let lowers: String = layers.map(|layer| format!("{}:", layer.display())).collect();
        let [work, view, inner, empty] = ["work", "view", "inner", "empty"].map(|name| self.dir.join(format!("earlier.{name}")));
        let made = [&work, &view, &inner, &empty, &head];
        made.into_iter().filter(|directory| !directory.exists()).for_each(|directory| self.mkdir(directory));
        let project = view.join(self.project.strip_prefix(tree).expect("it lies in there"));
        // Layers lie within reality, which the kernel takes from one overlay only by way of another.
        let script = format!(
            "mount -t tmpfs empty {empty}; mount -t overlay inner -o lowerdir={empty}:{},redirect_dir=follow {inner}; \
             mount -t overlay earlier -o lowerdir={lowers}{inner},upperdir={},workdir={},redirect_dir=on,index=off,metacopy=off {}; \
             cd {}; {script}",
            tree.display(),
            head.display(),
            work.display(),
            view.display(),
            project.display(),
            empty = empty.display(),
            inner = inner.display(),
        );
        self.program("/usr/bin/unshare").args(["--mount", "/bin/sh", "-euc", &script]).go().ok();
        std::fs::remove_dir_all(&work).expect("nothing is mounted any more");
    }
}

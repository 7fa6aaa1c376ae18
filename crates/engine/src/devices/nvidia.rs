//! What a program needs to use a card of NVIDIA: the nodes in `/dev`, and libraries that belong to the driver. The libraries lie in
//! `/usr`, which a sandbox sees anyway, and so does what the driver says in `/proc/driver/nvidia`.

use std::fs;
use std::path::{Path, PathBuf};

use whatif_sys::absence;
use whatif_types::grants::Gpu;

use super::DeviceError;

const CONTROL: &str = "nvidiactl";
/// Needed to compute, debug or display; a driver may lack any of them.
const SHARED: [&str; 3] = ["nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"];
/// A node for each part of a card, or for each channel between machines.
const DIRECTORIES: [&str; 2] = ["nvidia-caps", "nvidia-caps-imex-channels"];
/// The library that every program loads.
const LIBRARY: &str = "libcuda.so.1";
const LIBRARY_DIRECTORIES: [&str; 8] = [
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/nvidia/lib64",
    "usr/local/cuda/compat",
    "usr/lib/wsl/lib",
    "usr/lib/x86_64-linux-gnu/nvidia/current",
];

/// The nodes for these cards.
pub(super) fn nodes(dev: &Path, gpu: &Gpu) -> Result<Vec<PathBuf>, DeviceError> {
    let names = names(dev);
    let card = |name: &str| name.strip_prefix("nvidia")?.parse::<u32>().ok();
    let mut found: Vec<u32> = names.iter().filter_map(|name| card(name)).collect();
    found.sort_unstable();
    let has = |name: &str| names.iter().any(|other| other == name);
    if found.is_empty() || !has(CONTROL) {
        return Err(no_driver(dev, has(CONTROL)));
    }
    let wanted = match gpu {
        Gpu::All => found,
        Gpu::Some(numbers) => match numbers.iter().find(|number| !found.contains(number)) {
            Some(number) => return Err(DeviceError::NoCard { number: *number, found }),
            None => numbers.clone(),
        },
    };
    let mut nodes: Vec<PathBuf> = wanted.iter().map(|number| dev.join(format!("nvidia{number}"))).collect();
    nodes.push(dev.join(CONTROL));
    nodes.extend(SHARED.iter().filter(|name| has(name)).map(|name| dev.join(name)));
    for directory in DIRECTORIES.map(|name| dev.join(name)) {
        nodes.extend(self::names(&directory).into_iter().map(|name| directory.join(name)));
    }
    Ok(nodes)
}

/// What cannot be looked at may as well be there.
fn is_there(path: &Path) -> bool {
    absence::exists(path).unwrap_or(true)
}

/// Whether nothing works without it.
pub(super) fn is_needed(node: &Path) -> bool {
    !DIRECTORIES.iter().any(|directory| node.parent().is_some_and(|parent| parent.ends_with(directory)))
}

/// Sorted, without those that are no text.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn no_driver(dev: &Path, has_control: bool) -> DeviceError {
    let is_loaded = is_there(Path::new("/proc/driver/nvidia/version"));
    let missing = if has_control { "" } else { " and /dev/nvidiactl" };
    let hint = is_loaded.then(|| {
        "; the driver is loaded (/proc/driver/nvidia/version), so its devices are made when nvidia-smi first runs outside"
            .to_owned()
    });
    let looked_for = format!("{}/nvidia0, nvidia1, …{missing}", dev.display());
    DeviceError::NoDriver { looked_for, hint }
}

/// What is not there although the cards are, in words.
pub(super) fn missing(root: &Path) -> Vec<String> {
    let mut missing = Vec::new();
    if !is_there(&root.join("dev/nvidia-uvm")) {
        missing
            .push("/dev/nvidia-uvm is missing, without which CUDA fails; 'nvidia-modprobe -u -c 0' makes it, outside".to_owned());
    }
    let has_library = LIBRARY_DIRECTORIES.iter().any(|directory| is_there(&root.join(directory).join(LIBRARY)));
    if !has_library {
        let places = LIBRARY_DIRECTORIES.map(|directory| format!("/{directory}")).join(", ");
        missing.push(format!("{LIBRARY}, the driver's library for programs, is in none of {places}"));
    }
    missing
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Gone when it is dropped.
    struct Tree(PathBuf);

    impl Tree {
        fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn tree(names: &[&str]) -> Tree {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = Tree(std::env::temp_dir().join(format!("whatif-nvidia-{}-{number}", std::process::id())));
        fs::create_dir_all(root.path()).unwrap();
        for name in names {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    fn names_for(dev: &Path, gpu: &Gpu) -> Vec<String> {
        let nodes = nodes(dev, gpu).unwrap();
        nodes.iter().map(|node| node.strip_prefix(dev).unwrap().to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_card_comes_with_what_all_cards_need() {
        let root = tree(&[
            "null",
            "nvidia0",
            "nvidia1",
            "nvidia10",
            "nvidiactl",
            "nvidia-uvm",
            "nvidia-uvm-tools",
            "nvidia-caps/nvidia-cap1",
            "nvidia-caps/nvidia-cap2",
            "nvidia-nvswitch0",
        ]);
        let all = names_for(root.path(), &Gpu::All);
        let shared = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-caps/nvidia-cap1", "nvidia-caps/nvidia-cap2"];
        assert_eq!(all, [&["nvidia0", "nvidia1", "nvidia10"][..], &shared].concat());
        assert_eq!(names_for(root.path(), &Gpu::Some(vec![1])), [&["nvidia1"][..], &shared].concat());
        let Err(DeviceError::NoCard { number: 2, found }) = nodes(root.path(), &Gpu::Some(vec![0, 2])) else { panic!() };
        assert_eq!(found, [0, 1, 10]);
    }

    #[test]
    fn without_a_driver_it_is_said_what_was_looked_for() {
        for names in [&["null"][..], &["nvidiactl"], &["nvidia0"]] {
            let root = tree(names);
            let error = nodes(root.path(), &Gpu::All).unwrap_err().to_string();
            assert!(error.contains("nvidia0") && error.contains("no NVIDIA driver"), "{error}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let root = tree(&["dev/nvidia-uvm", "usr/lib64/libcuda.so.1"]);
        assert_eq!(missing(root.path()), Vec::<String>::new());
        let root = tree(&["dev/nvidia0"]);
        assert_eq!(missing(root.path()).len(), 2);
    }
}

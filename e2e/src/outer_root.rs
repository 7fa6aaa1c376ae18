//! A throw-away copy of the whole machine's file system, so that a bug in a destructive test harms nothing.

use crate::{Outcome, World};

/// A plain overlay of `/` in a mount namespace of its own, everything written in memory, entered with `pivot_root`
/// (not `chroot`, in which no user namespace can be made).
#[derive(Debug)]
pub struct OuterRoot<'a> {
    world: &'a World,
}

const ENTER: &str = r#"
set -e
mount -t tmpfs -o mode=755 outer "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
mkdir -p old-root
pivot_root . old-root
cd /
mount -t proc proc /proc
mount --rbind /old-root/dev /dev
mount --rbind /old-root/sys /sys
mount --make-rprivate /
umount -l /old-root
rmdir /old-root
mount -t tmpfs -o mode=755 state "$3"
export WHATIF_HOME="$3"
exec /bin/sh -c "$2"
"#;

impl<'a> OuterRoot<'a> {
    #[must_use]
    pub fn of(world: &'a World) -> Self {
        assert!(world.is_root(), "only root can make an outer root");
        Self { world }
    }

    /// Runs a script in it. `$WHATIF_HOME` is on a tmpfs; the binary is at its usual path.
    #[track_caller]
    pub fn script(&self, script: &str) -> Outcome {
        let mount_point = self.world.dir.join("outer");
        self.world.mkdir(&mount_point);
        let enter = ["--mount", "--propagation", "private", "/bin/sh", "-c", ENTER, "outer-root"];
        self.world.program("/usr/bin/unshare").args(enter).args([&mount_point]).args([script]).args([&self.world.state]).go()
    }
}

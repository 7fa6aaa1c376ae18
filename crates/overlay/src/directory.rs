//! What a directory of a layer says about itself, in as few calls as possible.

use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::attribute::Names;
use crate::format::Format;
use crate::mark::Mark;
use crate::redirect::Redirect;

/// Where the layers below a directory's own go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// At the same name.
    Down,
    /// Nowhere: nothing shows through.
    Opaque,
    /// Where the directory was before it was renamed.
    Redirect(Redirect),
}

/// Everything that a directory says.
#[derive(Clone, Debug)]
pub struct Said {
    pub way: Way,
    /// There was something below it when it was made.
    pub is_copied_up: bool,
    /// Of all its attributes, so that nobody needs to list them again.
    pub attributes: Names,
}

impl Format {
    /// Of a directory in a layer.
    pub fn read(self, directory: &impl AsFd) -> Result<Said, Errno> {
        let attributes = Names::of(directory)?;
        let has = |mark| self.is_among(&attributes, mark);
        let is_opaque = has(Mark::Opaque) && self.is_opaque(directory)?;
        let way = match () {
            // Whatever else it says, like the kernel.
            () if is_opaque => Way::Opaque,
            () if has(Mark::Redirect) => self.redirect(directory)?.map_or(Way::Down, Way::Redirect),
            () => Way::Down,
        };
        // fuse-overlayfs marks only files as copied up; a directory that it makes where nothing was is opaque.
        let is_copied_up = if self == Self::Fuse { !is_opaque } else { has(Mark::Origin) };
        Ok(Said { way, is_copied_up, attributes })
    }

    /// Of the directory that a layer begins with. The kernel looks at none of its marks.
    pub fn read_root(self, directory: &impl AsFd) -> Result<Said, Errno> {
        match self {
            Self::Fuse | Self::None => self.read(directory),
            Self::Trusted | Self::User => {
                let attributes = Names::of(directory)?;
                Ok(Said { way: Way::Down, is_copied_up: self.is_among(&attributes, Mark::Origin), attributes })
            }
        }
    }

    /// Makes a new directory of a layer say where those below go on.
    pub fn write(self, directory: &impl AsFd, way: &Way) -> Result<(), Errno> {
        match way {
            Way::Down => Ok(()),
            Way::Opaque => self.make_opaque(directory),
            Way::Redirect(redirect) => self.set_redirect(directory, redirect),
        }
    }
}

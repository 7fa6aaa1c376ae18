//! Which parts a frozen layer has: a directory for each tree that its head had, and one for what its files started from.
//!
//! Not every tree is in every layer, because mounts come and go. So a part that is not there may never have been; the layer says
//! so itself, twice: in an attribute and in a file, both written when it is frozen. Attributes get lost when a state directory is
//! copied or restored, files when something cleans up. Layers of earlier versions have the attribute alone, or say nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use whatif_sys::absence::OrAbsent;

use crate::{PathError, on};

const PARTS: &str = "user.whatif.parts";
/// The file that says which parts there are.
pub const FILE: &str = "parts";
/// The part with what the files of a layer started from.
pub const BASE: &str = "base";
/// Enough for the numbers of a thousand trees.
const LONGEST: usize = 8192;

/// Writes down which parts a layer has.
pub fn seal(layer: &Path) -> Result<(), PathError> {
    let names = present(layer)?;
    let text = names.into_iter().collect::<Vec<_>>().join(",");
    let file = layer.join(FILE);
    fs::write(&file, format!("{text}\n")).map_err(on("write", &file))?;
    match rustix::fs::setxattr(layer, PARTS, text.as_bytes(), XattrFlags::empty()) {
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(on("describe", layer)(errno)),
    }
}

/// The parts that a layer was frozen with, by all that says so; `None` if nothing does.
pub fn sealed(layer: &Path) -> Result<Option<BTreeSet<String>>, PathError> {
    let mut text = vec![0; LONGEST];
    let attribute = match rustix::fs::getxattr(layer, PARTS, &mut text[..]) {
        Ok(length) => names(&text[..length]),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => BTreeSet::new(),
        Err(errno) => return Err(on("examine", layer)(errno)),
    };
    let path = layer.join(FILE);
    let file = fs::read(&path).or_absent().map_err(on("read", &path))?.unwrap_or_default();
    let parts: BTreeSet<String> = attribute.union(&names(whole(&file))).cloned().collect();
    // No layer is frozen without parts: such a note was damaged, and says nothing.
    Ok((!parts.is_empty()).then_some(parts))
}

/// What the file says, if its bytes are there: nothing waits for them to reach the disk, so after a power cut it may have its
/// length and nothing but zeros. The attribute is as durable as the layer's own name.
fn whole(file: &[u8]) -> &[u8] {
    if file.ends_with(b"\n") && !file.contains(&0) { file } else { &[] }
}

fn names(text: &[u8]) -> BTreeSet<String> {
    String::from_utf8_lossy(text).trim_end().split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The parts that are there.
pub fn present(layer: &Path) -> Result<BTreeSet<String>, PathError> {
    let names = fs::read_dir(layer).map_err(on("list", layer))?.map(|entry| {
        let entry = entry?;
        Ok(entry.file_type()?.is_dir().then(|| entry.file_name().to_string_lossy().into_owned()))
    });
    names.filter_map(Result::transpose).collect::<io::Result<_>>().map_err(on("list", layer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_note_tells_which_parts_there_were() {
        let layer = &std::env::temp_dir().join(format!("whatif-parts-{}", std::process::id()));
        let _ = fs::remove_dir_all(layer);
        fs::create_dir(layer).unwrap();
        assert_eq!(sealed(layer).unwrap(), None);
        for part in ["0", "base"] {
            fs::create_dir(layer.join(part)).unwrap();
        }
        let all = Some(BTreeSet::from(["0".to_owned(), "base".to_owned()]));
        seal(layer).unwrap();
        assert_eq!(sealed(layer).unwrap(), all);
        fs::remove_file(layer.join(FILE)).unwrap();
        assert_eq!(sealed(layer).unwrap(), all, "by the attribute");
        seal(layer).unwrap();
        rustix::fs::removexattr(layer, PARTS).unwrap();
        assert_eq!(sealed(layer).unwrap(), all, "by the file");
        fs::write(layer.join(FILE), [0; 7]).unwrap();
        assert_eq!(sealed(layer).unwrap(), None, "its bytes never reached the disk");
        fs::remove_dir_all(layer).unwrap();
    }
}

//! The token that clients send: made at the first start, kept in a file that only its owner can read, known here by its hash.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest, Sha256};

/// Bytes of chance in a token that we make.
const LENGTH: usize = 32;
/// Characters that one must have that somebody else made.
const SHORTEST: usize = 32;
const LONGEST: usize = 4096;

/// What is known of a token.
#[derive(Clone, Debug)]
pub struct Token {
    /// As whom records name those who have it.
    pub name: &'static str,
    hash: [u8; 32],
}

impl Token {
    fn new(text: &str) -> Self {
        Self { name: "main", hash: Sha256::digest(text.as_bytes()).into() }
    }

    /// Takes as long whatever is presented: what is compared are hashes, all bytes of them.
    #[must_use]
    pub fn is(&self, presented: &str) -> bool {
        let presented: [u8; 32] = Sha256::digest(presented.as_bytes()).into();
        let differing = self.hash.iter().zip(presented).fold(0, |all, (one, other)| all | (one ^ other));
        std::hint::black_box(differing) == 0
    }
}

#[derive(Debug)]
pub enum TokenError {
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// Others could have read it.
    Open {
        path: PathBuf,
        mode: u32,
    },
    NotOurs {
        path: PathBuf,
        uid: u32,
    },
    NotAFile {
        path: PathBuf,
    },
    Weak {
        path: PathBuf,
    },
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { action, path, source } => write!(f, "cannot {action} the token file {}: {source}", path.display()),
            Self::Open { path, mode } => {
                let path = path.display();
                write!(f, "others may read the token file {path} (mode {mode:04o}); delete it, and the next start makes a new one")
            }
            Self::NotOurs { path, uid } => write!(f, "the token file {} belongs to uid {uid}; name another one", path.display()),
            Self::NotAFile { path } => write!(f, "{} is no regular file; name another token file", path.display()),
            Self::Weak { path } => {
                let path = path.display();
                write!(f, "{path} holds no token of at least {SHORTEST} characters; delete it, and the next start makes one")
            }
        }
    }
}

/// The token in a file, which is made if it is not there.
pub fn at(path: &Path) -> Result<Token, TokenError> {
    let failed = |action| move |source| TokenError::Io { action, path: path.to_owned(), source };
    let made = File::options().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Ok(mut file) => {
            let text = random().map_err(failed("make"))?;
            file.write_all(format!("{text}\n").as_bytes()).and_then(|()| file.sync_all()).map_err(failed("write"))?;
            Ok(Token::new(&text))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(path),
        Err(error) => Err(failed("make")(error)),
    }
}

fn read(path: &Path) -> Result<Token, TokenError> {
    let failed = |source| TokenError::Io { action: "read", path: path.to_owned(), source };
    // A pipe in its place must not hold us up, and a link may lead to what is not ours.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(TokenError::NotAFile { path: path.to_owned() });
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(TokenError::NotOurs { path: path.to_owned(), uid: found.uid() });
    }
    if found.mode() & 0o077 != 0 {
        return Err(TokenError::Open { path: path.to_owned(), mode: found.mode() & 0o7777 });
    }
    let mut text = String::new();
    file.take(LONGEST as u64).read_to_string(&mut text).map_err(failed)?;
    let text = text.trim();
    match text.len() >= SHORTEST && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(Token::new(text)),
        false => Err(TokenError::Weak { path: path.to_owned() }),
    }
}

fn random() -> io::Result<String> {
    let mut bytes = [0; LENGTH];
    let mut done = 0;
    while done < LENGTH {
        done += getrandom(&mut bytes[done..], GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("whatifd-token-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn one_is_made_once_for_its_owner_alone() {
        let place = Place::new("made");
        let file = place.0.join("token");
        let made = at(&file).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(made.is(text.trim()) && at(&file).unwrap().is(text.trim()));
        assert!(!made.is("") && !made.is(&text) && !made.is(&text.trim()[1..]) && !made.is(&format!("{}0", text.trim())));
    }

    #[test]
    fn what_others_could_have_read_or_guessed_is_refused() {
        let place = Place::new("refused");
        let file = place.0.join("token");
        fs::write(&file, "x".repeat(64)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(at(&file), Err(TokenError::Open { mode: 0o640, .. })));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(at(&file).is_ok());
        for weak in ["", "short", &"a b".repeat(30), &"é".repeat(40)] {
            fs::write(&file, weak).unwrap();
            assert!(matches!(at(&file), Err(TokenError::Weak { .. })), "{weak}");
        }
        let link = place.0.join("link");
        symlink(&file, &link).unwrap();
        assert!(matches!(at(&link), Err(TokenError::Io { .. })));
        fs::create_dir(place.0.join("directory")).unwrap();
        assert!(matches!(at(&place.0.join("directory")), Err(TokenError::NotAFile { .. })));
    }
}

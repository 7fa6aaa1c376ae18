//! Whom this machine trusts.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::trust;

/// The authorities that a real host's certificate may come from.
#[derive(Clone)]
pub struct Roots(Arc<RootCertStore>);

#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    #[error("cannot read the certificates this machine trusts in {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error(
        "found no certificates that this machine trusts in {}; install its package of CA certificates (ca-certificates)",
        list(searched)
    )]
    None { searched: Vec<PathBuf> },
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl Roots {
    /// Those of the system.
    ///
    /// # Errors
    /// If none are found or none can be read.
    pub fn system() -> Result<Self, RootsError> {
        let searched = || trust::SYSTEM_BUNDLES.iter().map(PathBuf::from).collect();
        let Some(path) = trust::system_bundle() else { return Err(RootsError::None { searched: searched() }) };
        Self::from_pem_files(&[path])
    }

    /// Those of some files, as where the user's own programs are told to look.
    ///
    /// # Errors
    /// If a file cannot be read, or all of them together hold no certificate.
    pub fn from_pem_files<P: AsRef<Path>>(paths: &[P]) -> Result<Self, RootsError> {
        let mut store = RootCertStore::empty();
        for path in paths {
            let path = path.as_ref();
            let text = std::fs::read(path).map_err(|source| RootsError::Read { path: path.to_owned(), source })?;
            add(&mut store, &text);
        }
        Self::of(store).ok_or_else(|| RootsError::None { searched: paths.iter().map(|path| path.as_ref().to_owned()).collect() })
    }

    /// Those of one text.
    ///
    /// # Errors
    /// If it holds no certificate.
    pub fn from_pem(text: &[u8]) -> Result<Self, RootsError> {
        let mut store = RootCertStore::empty();
        add(&mut store, text);
        Self::of(store).ok_or(RootsError::None { searched: Vec::new() })
    }

    fn of(store: RootCertStore) -> Option<Self> {
        (!store.is_empty()).then(|| Self(Arc::new(store)))
    }

    pub(crate) fn store(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.0)
    }
}

/// Bundles of distributions hold a few certificates that a strict reader does not take; the others are still good.
fn add(store: &mut RootCertStore, text: &[u8]) {
    store.add_parsable_certificates(CertificateDer::pem_slice_iter(text).filter_map(Result::ok));
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Roots").field(&self.0.len()).finish()
    }
}

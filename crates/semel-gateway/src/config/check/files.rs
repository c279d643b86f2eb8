//! Files and folders that the configuration names: can they be used?

use std::{fs, io, path::Path};

use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

use super::super::{Config, ReplayAuth, StoreUrl, problem::ProblemKind, read::Reading};
use crate::{
    bounded::{self, PEM_MAX},
    stores,
};

pub(super) fn all(config: &Config, reading: &mut Reading<'_>) {
    let mut note = |path: &str, checked: Result<(), String>| {
        if let Err(message) = checked {
            reading.problem(ProblemKind::Environment, path, message);
        }
    };
    if let Some(tls) = &config.tls {
        note("tls.certificate", certificates(&tls.certificate));
        note("tls.key", private_key(&tls.key));
    }
    for (index, upstream) in config.upstream.iter().enumerate() {
        if let Some(ca) = &upstream.ca {
            note(&format!("upstream[{index}].ca"), certificates(ca));
        }
    }
    for (index, destination) in config.destination.iter().enumerate() {
        if let Some(ca) = &destination.ca {
            note(&format!("destination[{index}].ca"), certificates(ca));
        }
    }
    if let Some(ReplayAuth::Ask(ask)) = &config.replay_auth
        && let Some(ca) = &ask.ca
    {
        note("replay_auth.ca", certificates(ca));
    }
    let ca = config.postgres.as_ref().and_then(|postgres| postgres.ca.as_ref());
    match ca.map(|ca| certificates(ca)) {
        Some(Err(message)) => note("postgres.ca", Err(message)),
        _ => note("store", stores::check(&config.stored()).map_err(|error| error.to_string())),
    }
    if let StoreUrl::Sqlite(path) = &config.store {
        note("store", store(path));
    }
}

fn certificates(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let pem =
        bounded::read(path, PEM_MAX).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let mut certificates = 0;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        certificate.map_err(|error| format!("{shown} is not PEM: {error}"))?;
        certificates += 1;
    }
    if certificates == 0 {
        return Err(format!("{shown} holds no certificate in PEM"));
    }
    Ok(())
}

fn private_key(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let pem =
        bounded::read(path, PEM_MAX).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    PrivateKeyDer::from_pem_slice(&pem)
        .map(drop)
        .map_err(|error| format!("{shown} holds no private key in PEM: {error}"))
}

/// A store's file can be written, or made in its folder. Nothing is left behind.
fn store(path: &Path) -> Result<(), String> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let opened = match fs::OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        opened => opened.map(drop),
    };
    // Beside its file the store writes a log and an index.
    let made = opened.and_then(|()| tempfile::tempfile_in(folder).map(drop));
    made.map_err(|error| {
        let reason = match error.kind() {
            io::ErrorKind::NotFound => format!("the folder {} does not exist", folder.display()),
            _ => error.to_string(),
        };
        format!("the store {} cannot be written: {reason}", path.display())
    })
}

//! TLS: the server's certificate, and the clients' certificates it requires.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::ServerError;

/// The files that TLS needs, all of them PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by those that lead to a root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Roots: if given, clients must show a certificate that one of them has signed.
    pub client_roots: Option<PathBuf>,
}

impl TlsFiles {
    /// Reads them, and sees whether they go together.
    pub(crate) fn load(&self) -> Result<Arc<ServerConfig>, ServerError> {
        let certificates = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| wrong(&self.key, error_text(&error, "private key")))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&self.certificate, error.to_string()))?;
        let builder = match &self.client_roots {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for root in self::certificates(path)? {
                    roots.add(root).map_err(|error| wrong(path, error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .build()
                    .map_err(|error| wrong(path, error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder.with_single_cert(certificates, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => wrong(
                &self.key,
                format!("this is not the key of the certificate in {}", self.certificate.display()),
            ),
            error => wrong(&self.certificate, error.to_string()),
        })?;
        Ok(Arc::new(config))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServerError> {
    let failed = |error: PemError| wrong(path, error_text(&error, "certificate"));
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(failed)?.collect();
    let found = found.map_err(failed)?;
    match found.is_empty() {
        true => Err(wrong(path, "there is no certificate in it".to_owned())),
        false => Ok(found),
    }
}

/// Describes the fault of a PEM file.
fn error_text(error: &PemError, what: &str) -> String {
    match error {
        PemError::Io(error) => error.to_string(),
        PemError::NoItemsFound => format!("there is no {what} in it"),
        error => format!("it is no PEM file: {error:?}"),
    }
}

fn wrong(path: &Path, what: String) -> ServerError {
    ServerError::Tls { path: path.to_owned(), what }
}

//! TLS: clients that speak it, that do not, that stop in the middle; renewed and invalid certificates.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;
use warpkeep_server::{Access, Server, ServerError, Settings, TlsFiles};

use crate::harness::{Running, command, command_of, settings};

/// A certificate for `localhost` that has signed itself, with its key, in files of these names.
fn write_pair(home: &Path, name: &str) -> TlsFiles {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let files = TlsFiles {
        certificate: home.join(format!("{name}.pem")),
        key: home.join(format!("{name}.key")),
        client_roots: None,
    };
    std::fs::write(&files.certificate, certificate.pem()).unwrap();
    std::fs::write(&files.key, key.serialize_pem()).unwrap();
    files
}

fn secure_settings(files: &TlsFiles) -> Settings {
    Settings { listen_tls: vec![([127, 0, 0, 1], 0).into()], tls: Some(files.clone()), ..settings() }
}

/// A server with a certificate, and where it listens for TLS.
pub(crate) fn start(more: impl FnOnce(&mut Settings)) -> (TempDir, TlsFiles, Running) {
    let home = tempfile::tempdir().unwrap();
    let files = write_pair(home.path(), "server");
    let mut settings = secure_settings(&files);
    more(&mut settings);
    let server = Running::start(settings);
    (home, files, server)
}

fn roots(certificate: &Path) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
    roots
}

fn trusting(certificate: &Path) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots(certificate))
}

type Secure = StreamOwned<ClientConnection, TcpStream>;

fn connect(address: SocketAddr, config: ClientConfig) -> Secure {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    StreamOwned::new(client, stream)
}

/// A client that trusts this certificate and no other.
fn client(server: &Running, files: &TlsFiles) -> Secure {
    connect(server.tls(), trusting(&files.certificate).with_no_client_auth())
}

fn expect(stream: &mut impl Read, expected: &[u8]) {
    let mut answer = vec![0; expected.len()];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer == expected, "{:?}", String::from_utf8_lossy(&answer[..answer.len().min(200)]));
}

#[test]
fn both_protocols_work_over_tls() {
    let (_home, files, server) = start(|_| {});
    let mut memcached = client(&server, &files);
    memcached.write_all(b"set a 5 0 5\r\nhello\r\nget a\r\n").unwrap();
    expect(&mut memcached, b"STORED\r\nVALUE a 5 5\r\nhello\r\nEND\r\n");
    let mut redis = client(&server, &files);
    redis.write_all(&command(&["GET", "a"])).unwrap();
    expect(&mut redis, b"$5\r\nhello\r\n");
    // The port without TLS has the same items.
    assert_eq!(server.resp().call(&["GET", "a"]), "$5\r\nhello\r\n");
    // A client that closes properly gets a proper close: the answer is known to be complete.
    memcached.write_all(b"quit\r\n").unwrap();
    assert_eq!(memcached.read(&mut [0; 10]).unwrap(), 0);
}

#[test]
fn large_values_and_deep_pipelines_come_whole() {
    let (_home, files, server) = start(|settings| settings.unread = 64 << 10);
    let mut client = client(&server, &files);
    let value = vec![b'x'; 900_000];
    client.write_all(&command_of(&[b"SET", b"big", &value])).unwrap();
    expect(&mut client, b"+OK\r\n");
    let times = 30;
    let pipeline: Vec<u8> = (0..times).flat_map(|_| command(&["GET", "big"])).collect();
    client.write_all(&pipeline).unwrap();
    // It reads late: the server stops reading from it, and continues when it takes its answers.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(server.resp().call(&["STRLEN", "big"]), ":900000\r\n");
    for _ in 0..times {
        expect(&mut client, b"$900000\r\n");
        expect(&mut client, &value);
        expect(&mut client, b"\r\n");
    }
}

#[test]
fn what_is_no_tls_is_refused_and_others_are_served() {
    let (_home, files, server) = start(|_| {});
    for plain in
        [&b"get a\r\n"[..], b"*1\r\n$4\r\nPING\r\n", b"GET / HTTP/1.1\r\n\r\n", &[0x16, 3, 1, 0xff, 0xff]]
    {
        let mut stream = TcpStream::connect(server.tls()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(plain).unwrap();
        let mut answer = Vec::new();
        let ended = stream.read_to_end(&mut answer);
        assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
        // An alert at most, and nothing of the items.
        assert!(answer.first().is_none_or(|&byte| byte == 0x15), "{answer:?}");
    }
    // And the other way round: a TLS client on the plain port gets an error at once.
    let mut confused = connect(server.address, trusting(&files.certificate).with_no_client_auth());
    let error = confused.write_all(b"get a\r\n").and_then(|()| confused.flush()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::ConnectionReset), "{error}");
    let mut client = client(&server, &files);
    client.write_all(b"get a\r\n").unwrap();
    expect(&mut client, b"END\r\n");
}

#[test]
fn a_handshake_that_stops_halfway_is_given_up() {
    let (_home, files, server) = start(|settings| settings.handshake = Duration::from_secs(1));
    // The first bytes of a client, recorded.
    let config = Arc::new(trusting(&files.certificate).with_no_client_auth());
    let mut hello = Vec::new();
    let mut speaker = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
    speaker.write_tls(&mut hello).unwrap();
    let halves = [0, 3, 5, hello.len() / 2, hello.len() - 1, hello.len()].map(|end| {
        let mut stream = TcpStream::connect(server.tls()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(&hello[..end]).unwrap();
        (end, stream)
    });
    // Other clients are served meanwhile.
    assert_eq!(server.resp().call(&["PING"]), "+PONG\r\n");
    for (end, mut stream) in halves {
        let mut answer = Vec::new();
        // It is closed by the server.
        let ended = stream.read_to_end(&mut answer);
        assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
        assert!(!answer.is_empty() || end < hello.len());
    }
    // In pieces it is a handshake all the same, and one that is done is not given up.
    let mut stream = client(&server, &files);
    stream.sock.set_nodelay(true).unwrap();
    stream.write_all(b"get a\r\n").unwrap();
    expect(&mut stream, b"END\r\n");
    std::thread::sleep(Duration::from_millis(1500));
    stream.write_all(b"get a\r\n").unwrap();
    expect(&mut stream, b"END\r\n");
}

#[test]
fn a_certificate_is_renewed_while_the_server_runs() {
    let home = tempfile::tempdir().unwrap();
    let files = write_pair(home.path(), "server");
    let settings = secure_settings(&files);
    let server = Server::bind(settings.clone()).unwrap();
    let control = server.control();
    let server = Running::of(server);
    let mut old = client(&server, &files);
    old.write_all(b"get a\r\n").unwrap();
    expect(&mut old, b"END\r\n");
    let before = roots(&files.certificate);

    write_pair(home.path(), "server");
    assert!(control.reload(&settings).unwrap().is_empty());
    // A client that trusts only the old certificate refuses the new one; one that trusts the new one accepts it.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(before)
        .with_no_client_auth();
    let mut strict = connect(server.tls(), config);
    assert!(strict.write_all(b"get a\r\n").is_err());
    let mut new = client(&server, &files);
    new.write_all(b"get a\r\n").unwrap();
    expect(&mut new, b"END\r\n");
    // The open connection continues.
    old.write_all(b"get b\r\n").unwrap();
    expect(&mut old, b"END\r\n");

    // A broken file changes nothing.
    std::fs::write(&files.certificate, "nothing").unwrap();
    assert!(matches!(control.reload(&settings), Err(ServerError::Tls { .. })));
    let other = write_pair(home.path(), "other");
    std::fs::copy(&other.certificate, &files.certificate).unwrap();
    assert!(control.reload(&settings).unwrap_err().to_string().contains("not the key of the certificate"));
    let mut last = connect(server.tls(), {
        let mut config = trusting(&other.certificate).with_no_client_auth();
        config.dangerous().set_certificate_verifier(Arc::new(Anyone));
        config
    });
    last.write_all(b"get a\r\n").unwrap();
    expect(&mut last, b"END\r\n");
}

/// Trusts any certificate, for tests that are not about trust.
#[derive(Debug)]
struct Anyone;

impl rustls::client::danger::ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let home = tempfile::tempdir().unwrap();
    let (good, other) = (write_pair(home.path(), "good"), write_pair(home.path(), "other"));
    let text = home.path().join("text");
    std::fs::write(&text, "no certificate at all").unwrap();
    let missing = home.path().join("missing");
    for (certificate, key, named, told) in [
        (&missing, &good.key, "missing", "No such file"),
        (&text, &good.key, "text", "there is no certificate in it"),
        (&good.key, &good.key, "good.key", "there is no certificate in it"),
        (&good.certificate, &missing, "missing", "No such file"),
        (&good.certificate, &good.certificate, "good.pem", "there is no private key in it"),
        (&good.certificate, &other.key, "other.key", "not the key of the certificate"),
    ] {
        let files = TlsFiles { certificate: certificate.clone(), key: key.clone(), client_roots: None };
        let error = Server::bind(secure_settings(&files)).unwrap_err().to_string();
        assert!(
            error.contains(named) && error.contains(told) && error.contains("name the right file"),
            "{error}"
        );
    }
    let public =
        |access| Settings { listen_tls: vec![([0, 0, 0, 0], 0).into()], access, ..secure_settings(&good) };
    let error = Server::bind(public(Access::default())).unwrap_err().to_string();
    assert!(error.contains("there is no password"), "{error}");
    assert!(Server::bind(public(Access { password: Some("secret".into()) })).is_ok());
    let without = Settings { tls: None, ..secure_settings(&good) };
    assert!(Server::bind(without).unwrap_err().to_string().contains("TLS needs a certificate"));
    let nowhere = Settings { listen_tls: Vec::new(), ..secure_settings(&good) };
    assert!(Server::bind(nowhere).unwrap_err().to_string().contains("no address to listen on for TLS"));
}

#[test]
fn clients_show_a_certificate_if_they_must() {
    let home = tempfile::tempdir().unwrap();
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let root_file = home.path().join("root.pem");
    std::fs::write(&root_file, root.pem()).unwrap();
    let files = TlsFiles { client_roots: Some(root_file), ..write_pair(home.path(), "server") };
    let server = Running::start(secure_settings(&files));

    let key = KeyPair::generate().unwrap();
    let known = CertificateParams::new(vec!["client".to_owned()]).unwrap().signed_by(&key, &root).unwrap();
    let stranger_key = KeyPair::generate().unwrap();
    let stranger =
        CertificateParams::new(vec!["client".to_owned()]).unwrap().self_signed(&stranger_key).unwrap();
    let ask = |config| {
        let mut client = connect(server.tls(), config);
        client.write_all(b"get a\r\n")?;
        let mut answer = [0; 5];
        client.read_exact(&mut answer).map(|()| answer)
    };
    let with = |certificate: &rcgen::Certificate, key: &KeyPair| {
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        trusting(&files.certificate).with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
    };
    assert_eq!(&ask(with(&known, &key)).unwrap(), b"END\r\n");
    assert!(ask(with(&stranger, &stranger_key)).is_err());
    assert!(ask(trusting(&files.certificate).with_no_client_auth()).is_err());
}

//! The server's metrics and reports.

use std::io::{Read, Write};
use std::net::TcpStream;

use warpkeep_server::Settings;

use crate::harness::{Running, io, settings};

fn get(server: &Running, path: &str) -> String {
    let mut stream = TcpStream::connect(server.http.unwrap()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_count_what_is_done() {
    let server = Running::start(Settings { http: Some(([127, 0, 0, 1], 0).into()), ..settings() });
    // Once a client is answered, the server is ready.
    server.memcached().say("set a 0 0 1\r\nx\r\nget a b\r\n");
    assert!(get(&server, "/readyz").starts_with("HTTP/1.1 200"));
    assert!(get(&server, "/healthz").starts_with("HTTP/1.1 200"));
    assert!(get(&server, "/nothing").starts_with("HTTP/1.1 404"));
    let metrics = get(&server, "/metrics");
    let told = format!("warpkeep_server_io{{backend=\"{}\"}} 1", io());
    for line in [told.as_str(), "warpkeep_server_get_hits_total 1", "warpkeep_server_writes_total 1"] {
        assert!(metrics.contains(line), "{metrics}");
    }
    let (stats, info) = (server.memcached().say("stats\r\n"), server.resp().call(&["INFO"]));
    assert!(stats.contains(&format!("STAT io {}\r\n", io())), "{stats}");
    assert!(info.contains(&format!("multiplexing_api:{}\r\n", io())), "{info}");
    // There is no device, so no report mentions one.
    assert!(!stats.contains("device") && !info.contains("evice"), "{stats}{info}");
}

//! The crates `memcache` and `redis`, as programs in Rust use them.

use std::time::Duration;

use redis::{Commands as _, ExistenceCheck, SetExpiry, SetOptions, Value};
use warpkeep_server::{Access, Settings};

use crate::harness::{Running, settings};

#[test]
fn the_memcache_crate_finds_what_it_expects() {
    let server = Running::start(settings());
    let url = format!("memcache://{}?protocol=ascii&timeout=20", server.address);
    let client = memcache::connect(url).unwrap();
    client.flush().unwrap();
    assert_eq!(client.version().unwrap().len(), 1);
    client.set("a", "text", 100).unwrap();
    assert_eq!(client.get::<String>("a").unwrap().as_deref(), Some("text"));
    client.add("a", "other", 0).unwrap();
    assert_eq!(client.get::<String>("a").unwrap().as_deref(), Some("text"));
    client.add("b", 5, 0).unwrap();
    assert_eq!((client.increment("b", 10).unwrap(), client.decrement("b", 3).unwrap()), (15, 12));
    client.replace("a", "more ", 0).unwrap();
    client.append("a", "text").unwrap();
    client.prepend("a", "even ").unwrap();
    let found = client.gets::<(Vec<u8>, u32, Option<u64>)>(&["a", "b", "nothing"]).unwrap();
    assert_eq!((found.len(), &found["a"].0[..]), (2, &b"even more text"[..]));
    let token = found["a"].2.unwrap();
    assert!(client.cas("a", "new", 0, token).unwrap());
    assert!(!client.cas("a", "newer", 0, token).unwrap());
    assert!(client.touch("a", 10).unwrap() && client.delete("a").unwrap() && !client.delete("a").unwrap());
}

#[test]
fn the_redis_crate_finds_what_it_expects() {
    let access = Access { password: Some("sesame".into()) };
    let server = Running::start(Settings { access, ..settings() });
    let stranger = redis::Client::open(format!("redis://{}", server.address)).unwrap();
    let refused = stranger.get_connection().and_then(|mut stranger| stranger.get::<_, Option<i64>>("a"));
    assert!(refused.is_err_and(|error| error.to_string().contains("NOAUTH")));
    for protocol in ["resp2", "resp3"] {
        let url = format!("redis://:sesame@{}?protocol={protocol}", server.address);
        let client = redis::Client::open(url).unwrap();
        let mut client = client.get_connection_with_timeout(Duration::from_secs(20)).unwrap();
        let _: () = redis::cmd("FLUSHALL").query(&mut client).unwrap();
        let _: () = client.set("a", 41).unwrap();
        assert_eq!(client.incr::<_, _, i64>("a", 1).unwrap(), 42);
        let options =
            SetOptions::default().conditional_set(ExistenceCheck::NX).with_expiration(SetExpiry::EX(100));
        assert_eq!(client.set_options::<_, _, Option<String>>("a", 1, options).unwrap(), None);
        let (first, second): (i64, Vec<Option<i64>>) = redis::pipe()
            .cmd("INCRBY")
            .arg("a")
            .arg(8)
            .cmd("MGET")
            .arg(&["a", "nothing"])
            .query(&mut client)
            .unwrap();
        assert_eq!((first, second), (50, vec![Some(50), None]));
        assert!(client.expire::<_, bool>("a", 100).unwrap());
        assert!((1..=100).contains(&client.ttl::<_, i64>("a").unwrap()));
        let _: () = client.mset(&[("x", "1"), ("y", "2")]).unwrap();
        let mut keys: Vec<String> = client.scan::<String>().unwrap().collect();
        keys.sort();
        assert_eq!(keys, ["a", "x", "y"]);
        assert_eq!(client.get_del::<_, Value>("nothing").unwrap(), Value::Nil);
        assert_eq!(client.del::<_, i64>(&["a", "x", "y"]).unwrap(), 3);
    }
    // It ends the server, in order: no answer, and the connection is closed.
    let client = redis::Client::open(format!("redis://:sesame@{}", server.address)).unwrap();
    let mut client = client.get_connection().unwrap();
    assert!(redis::cmd("SHUTDOWN").query::<()>(&mut client).is_err());
    server.stop();
}

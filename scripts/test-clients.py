"""What pymemcache and redis-py expect of a server. Started by scripts/test-clients."""

import sys


def pymemcache(port):
    from pymemcache.client.base import Client

    client = Client(("127.0.0.1", port))
    client.flush_all()
    assert client.set("a", b"1") and client.get("a") == b"1"
    assert client.set_many({f"k{n}": str(n) for n in range(100)}) == []
    assert client.get_many([f"k{n}" for n in range(100)]) == {f"k{n}": str(n).encode() for n in range(100)}
    assert client.incr("a", 41) == 42 and client.decr("a", 2) == 40
    assert client.add("a", b"x", noreply=False) is False
    assert client.replace("a", b"y", noreply=False) is True
    assert client.append("a", b"z", noreply=False) and client.prepend("a", b"x", noreply=False)
    value, token = client.gets("a")
    assert value == b"xyz"
    assert client.cas("a", b"new", token) is True and client.cas("a", b"newer", token) is False
    assert client.touch("a", 100, noreply=False) is True
    assert client.delete("a", noreply=False) is True and client.get("a") is None
    assert b"version" in client.stats()
    client.quit()


def redis(port):
    import redis

    for protocol in (2, 3):
        client = redis.Redis(port=port, protocol=protocol)
        client.flushall()
        assert client.ping()
        assert client.set("a", 1, ex=100) and client.get("a") == b"1"
        assert 90 < client.ttl("a") <= 100
        assert client.set("a", 2, nx=True) is None
        assert client.set("a", 3, get=True) == b"1"
        assert client.incr("a") == 4 and client.incrbyfloat("a", 0.5) == 4.5
        assert client.mset({"x": 1, "y": 2}) and client.mget("x", "y", "z") == [b"1", b"2", None]
        assert client.exists("x", "y", "z") == 2 and client.delete("x", "y", "z") == 2
        with client.pipeline(transaction=False) as pipe:
            for number in range(1000):
                pipe.incr("n")
            assert pipe.execute() == list(range(1, 1001))
        assert client.append("s", "abc") == 3 and client.getrange("s", 0, 1) == b"ab" and client.strlen("s") == 3
        assert client.getdel("s") == b"abc" and client.get("s") is None
        client.mset({f"k{n}": n for n in range(500)})
        assert len(set(client.scan_iter("k*"))) == 500
        assert client.dbsize() == 502
        assert client.type("a") == b"string" and client.expire("a", 5) and client.persist("a")
        assert "redis_version" in client.info() and client.config_get("databases") == {"databases": "1"}
        try:
            client.execute_command("NOSUCH")
            raise AssertionError("an unknown command was taken")
        except redis.ResponseError:
            pass
        client.close()


if __name__ == "__main__":
    {"pymemcache": pymemcache, "redis": redis}[sys.argv[1]](int(sys.argv[2]))
    print(f"{sys.argv[1]}: all as expected")

"""What pymemcache, pylibmc, redis-py and Django expect of a server. Started by scripts/test-clients."""

import sys
import time


def pymemcache(port):
    from pymemcache.client.base import Client

    client = Client(("127.0.0.1", port))
    client.flush_all()
    assert client.version().startswith(b"1.6.")
    assert client.set("a", b"1") and client.get("a") == b"1"
    assert client.set_many({f"k{n}": str(n) for n in range(100)}) == []
    assert client.get_many([f"k{n}" for n in range(100)]) == {f"k{n}": str(n).encode() for n in range(100)}
    assert client.incr("a", 41) == 42 and client.decr("a", 2) == 40
    assert client.add("a", b"x", noreply=False) is False
    assert client.add("a", b"x", noreply=True) is True and client.get("a") == b"40"
    assert client.replace("a", b"y", noreply=False) is True
    assert client.append("a", b"z", noreply=False) and client.prepend("a", b"x", noreply=False)
    value, token = client.gets("a")
    assert value == b"xyz"
    assert client.cas("a", b"new", token) is True and client.cas("a", b"newer", token) is False
    assert client.touch("a", 100, noreply=False) is True
    # Commands that the client has no method for.
    assert client.raw_command("gat 100 a", b"END\r\n") == b"VALUE a 0 3\r\nnew\r\n"
    token = client.raw_command("gats 100 a", b"END\r\n").split(b"\r\n")[0].split(b" ")[-1]
    assert client.cas("a", b"last", token) is True
    assert client.delete("a", noreply=False) is True and client.get("a") is None
    assert b"version" in client.stats()
    assert client.raw_command("verbosity 1") == b"OK"
    # Meta commands, which it has no methods for, either.
    assert client.raw_command("ms m 2 T100\r\nhi") == b"HD"
    assert client.raw_command("mg m s f") == b"HD s2 f0"
    assert client.raw_command("mg m v", b"hi\r\n") == b"VA 2\r\n"
    assert client.raw_command("ma n N0 J5") == b"HD" and client.raw_command("ma n D5 v", b"10\r\n") == b"VA 2\r\n"
    assert client.raw_command("ms Zm9v 3 b k\r\nbar") == b"HD kZm9v b"
    assert client.get("foo") == b"bar" and client.raw_command("md Zm9v b") == b"HD"
    assert client.raw_command("me m").startswith(b"ME m exp=") and client.raw_command("mn") == b"MN"
    client.flush_all(noreply=False)
    assert client.get("m") is None
    client.quit()


def pylibmc(port):
    import pylibmc

    client = pylibmc.Client([f"127.0.0.1:{port}"], binary=False, behaviors={"cas": True, "tcp_nodelay": True})
    client.flush_all()
    assert client.set("a", "text") and client.get("a") == "text"
    assert client.set("n", 5) and client.incr("n", 3) == 8 and client.decr("n") == 7
    assert not client.add("a", "other") and client.replace("a", "other")
    assert client.set("bytes", b"\x00\r\n\xff" * 1000) and client.get("bytes") == b"\x00\r\n\xff" * 1000
    value, token = client.gets("a")
    assert value == "other" and client.cas("a", "third", token)
    assert client.set_multi({f"k{n}": n for n in range(200)}) == []
    assert client.get_multi([f"k{n}" for n in range(300)]) == {f"k{n}": n for n in range(200)}
    assert client.append("s", "x") is False and client.set("s", "b") and client.append("s", "c") and client.prepend("s", "a")
    assert client.get("s") == "abc"
    assert client.touch("a", 100) and client.delete("a") and client.get("a") is None
    assert client.delete_multi([f"k{n}" for n in range(200)])
    assert client.get_stats()[0][1]["version"]
    large = "x" * 900_000
    assert client.set("large", large) and client.get("large") == large
    # No wait for the answer; the order is kept all the same.
    client.behaviors["_noreply"] = True
    for number in range(100):
        client.set("quiet", number)
    client.behaviors["_noreply"] = False
    assert client.get("quiet") == 99
    client.disconnect_all()


def redis(port):
    import redis

    for protocol in (2, 3):
        client = redis.Redis(port=port, protocol=protocol)
        check_redis(client)
        client.close()


def databases(port):
    import redis

    clients = [redis.Redis(port=port, db=number) for number in (0, 1, 15)]
    clients[0].flushall()
    for number, client in enumerate(clients):
        assert client.set("a", number) and client.mget("a", "b") == [str(number).encode(), None]
    assert clients[1].move("a", 2) and clients[1].dbsize() == 0 and clients[2].keys() == [b"a"]
    assert clients[2].flushdb() and clients[2].dbsize() == 0 and clients[0].get("a") == b"0"
    clients[0].flushall()


def django(port):
    import os

    os.environ["DJANGO_SETTINGS_MODULE"] = ""
    from django.conf import settings

    location = [f"redis://127.0.0.1:{port}/1"]
    backend = "django.core.cache.backends.redis.RedisCache"
    settings.configure(
        CACHES={
            "default": {"BACKEND": backend, "LOCATION": location, "KEY_PREFIX": "site", "TIMEOUT": 300},
            "memcached": {
                "BACKEND": "django.core.cache.backends.memcached.PyMemcacheCache",
                "LOCATION": f"127.0.0.1:{port}",
            },
        },
        SESSION_ENGINE="django.contrib.sessions.backends.cache",
    )
    from django.core.cache import caches

    for name in ("default", "memcached"):
        cache = caches[name]
        cache.clear()
        assert cache.get("a") is None and cache.get("a", "default") == "default"
        cache.set("a", {"x": [1, 2, None]}, 100)
        assert cache.get("a") == {"x": [1, 2, None]} and "a" in cache and cache.has_key("a")
        assert cache.add("a", 1) is False and cache.add("b", 5) is True
        assert cache.incr("b") == 6 and cache.decr("b", 2) == 4
        try:
            cache.incr("nothing")
            raise AssertionError("what is not there was counted up")
        except ValueError:
            pass
        # It sends these as a transaction.
        assert cache.set_many({f"k{n}": n for n in range(50)}, 60) == []
        assert cache.get_many([f"k{n}" for n in range(60)]) == {f"k{n}": n for n in range(50)}
        cache.delete_many([f"k{n}" for n in range(50)])
        assert cache.get_many(["k1", "k2"]) == {}
        assert cache.touch("a", 5) is True and cache.touch("nothing", 5) is False
        assert cache.get_or_set("c", lambda: "made", 100) == "made" and cache.get("c") == "made"
        assert cache.delete("a") is True and cache.delete("a") is False
        cache.set("version", 1, version=2)
        assert cache.get("version") is None and cache.get("version", version=2) == 1
        assert cache.incr_version("version", version=2) == 3 and cache.get("version", version=3) == 1
        cache.clear()
        assert cache.get("c") is None
    from django.contrib.sessions.backends.cache import SessionStore

    session = SessionStore()
    session["user"] = 7
    session.save()
    assert SessionStore(session.session_key)["user"] == 7
    session.delete()


def redis_tls(port, certificate):
    import redis

    for protocol in (2, 3):
        client = redis.Redis(host="localhost", port=port, protocol=protocol, ssl=True, ssl_ca_certs=certificate)
        check_redis(client)
        client.close()
    stranger = redis.Redis(host="localhost", port=port, ssl=True)
    try:
        stranger.ping()
        raise AssertionError("a certificate that no authority has signed was trusted")
    except redis.ConnectionError:
        pass


def check_redis(client):
    import redis

    client.flushall()
    assert client.ping() and client.echo("x") == b"x"
    assert client.set("a", 1, ex=100) and client.get("a") == b"1"
    assert 90 < client.ttl("a") <= 100 and 90_000 < client.pttl("a") <= 100_000
    assert client.set("a", 2, nx=True) is None and client.set("none", 2, xx=True) is None
    assert client.set("a", 3, get=True) == b"1"
    assert client.set("a", 3, px=5000) and client.set("a", 3, keepttl=True) and client.pttl("a") > 0
    assert client.set("a", 3, exat=4102444800) and client.expiretime("a") == 4102444800
    assert client.set("a", 3, pxat=4102444800123) and client.execute_command("PEXPIRETIME", "a") == 4102444800123
    assert client.incr("a") == 4 and client.incrbyfloat("a", 0.5) == 4.5
    assert client.incr("i", 10) == 10 and client.decr("i", 3) == 7 and client.decr("i") == 6
    assert client.mset({"x": 1, "y": 2}) and client.mget("x", "y", "z") == [b"1", b"2", None]
    assert client.exists("x", "y", "z") == 2 and client.delete("x", "y", "z") == 2
    with client.pipeline(transaction=False) as pipe:
        for number in range(1000):
            pipe.incr("n")
        assert pipe.execute() == list(range(1, 1001))
    # By default pipeline() is a transaction.
    with client.pipeline() as pipe:
        answers = pipe.set("t1", 1).incr("t1").get("t1").mget("t1", "nothing").delete("t1").execute()
        assert answers == [True, 2, b"2", [b"2", None], 1]
        pipe.set("word", "x").incr("word").set("after", "y")
        try:
            pipe.execute()
            raise AssertionError("a word was counted up")
        except redis.ResponseError:
            pass
    assert client.get("after") == b"y" and client.delete("word", "after") == 2
    with client.pipeline() as pipe:
        pipe.watch("w")
        assert pipe.get("w") is None
        client.set("w", "other")
        pipe.multi()
        pipe.set("w", "mine")
        try:
            pipe.execute()
            raise AssertionError("a key that was watched has changed")
        except redis.WatchError:
            pass
    assert client.transaction(lambda pipe: (pipe.multi(), pipe.append("w", "!")), "w") == [6]
    assert client.get("w") == b"other!" and client.delete("w") == 1
    assert client.msetnx({"m1": 1, "m2": 2}) and not client.msetnx({"m2": 1, "m3": 2})
    assert client.rename("m1", "m3") and not client.renamenx("m2", "m3") and client.copy("m2", "m4")
    assert client.setbit("bits", 7, 1) == 0 and client.getbit("bits", 7) == 1 and client.get("bits") == b"\x01"
    assert client.delete("m2", "m3", "m4", "bits") == 4
    assert client.command_getkeys("MSET", "a", 1, "b", 2) in (["a", "b"], [b"a", b"b"]) and "get" in client.command()
    assert client.append("s", "abc") == 3 and client.getrange("s", 0, 1) == b"ab" and client.strlen("s") == 3
    assert client.setrange("s", 1, "XYZ") == 4 and client.get("s") == b"aXYZ"
    assert client.getset("s", "abc") == b"aXYZ" and client.setnx("s", "no") is False and client.setnx("t", "yes") is True
    assert client.getex("s", ex=50) == b"abc" and 0 < client.ttl("s") <= 50
    assert client.getdel("s") == b"abc" and client.get("s") is None
    assert client.execute_command("SETEX", "s", 10, "v") and client.execute_command("PSETEX", "s", 10_000, "v")
    assert client.unlink("s", "t") == 2
    assert client.expire("a", 5, gt=True) is False and client.expire("a", 5) and client.persist("a") and client.ttl("a") == -1
    assert client.pexpire("a", 5000, nx=True) and client.expireat("a", 4102444800) and client.pexpireat("a", 4102444800123)
    client.mset({f"k{n}": n for n in range(500)})
    assert len(set(client.scan_iter("k*"))) == 500 and len(client.keys("k1?")) == 10
    assert client.dbsize() == 503 and client.randomkey() is not None
    assert client.type("a") == b"string" and client.touch("a", "nothing") == 1
    assert "redis_version" in client.info() and client.config_get("databases") == {"databases": "16"}
    assert client.client_setname("me") and client.client_getname() in (b"me", "me") and client.client_id() > 0
    assert client.command_count() > 50 and client.select(0)
    assert client.execute_command("HELLO") is not None
    before = client.lastsave()
    assert client.save() and client.lastsave() >= before and client.bgsave()
    assert abs(client.time()[0] - time.time()) < 60
    try:
        client.execute_command("NOSUCH")
        raise AssertionError("an unknown command was taken")
    except redis.ResponseError:
        pass
    assert client.flushdb() and client.dbsize() == 0


if __name__ == "__main__":
    name = sys.argv[1]
    clients = {"pymemcache": pymemcache, "pylibmc": pylibmc, "redis": redis, "redis-tls": redis_tls}
    clients |= {"databases": databases, "django": django}
    clients[name](int(sys.argv[2]), *sys.argv[3:])
    print(f"{name}: all as expected")

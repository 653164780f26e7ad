"""Arrays that do not go with the table: each is refused with the fix in the message, and nothing is done."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import warpkeep as wk

IDS = np.arange(4, dtype=np.uint64)
ROWS = np.ones((4, 4), np.float32)
READ_ONLY = np.ones((4, 4), np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.arange(4, dtype=np.int32), "int32.*astype\\('uint64'\\)"),
        (np.arange(4, dtype=np.float64), "float64.*astype\\('uint64'\\)"),
        (np.arange(4, dtype=np.dtype(">u8")), "byte order.*astype"),
        (IDS.reshape(2, 2), "shape \\[2, 2\\].*one-dimensional"),
        (np.arange(8, dtype=np.uint64)[::2], "ascontiguousarray"),
        (np.uint64(3), "no array.*numpy.asarray"),
        ([1, 2, 3], "list is no array.*numpy.asarray"),
        (None, "no array"),
        ("ids", "no array"),
        (np.array(["a"], object), "O8"),
    ],
)
def test_bad_ids(rows: wk.Table, ids: object, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        rows.lookup(ids)
    with pytest.raises((TypeError, ValueError), match=message):
        rows.delete(ids)
    with pytest.raises((TypeError, ValueError), match=message):
        rows.put(ids, ROWS)
    assert len(rows) == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones((4, 4)), "float64.*astype\\('float32'\\)"),
        (np.ones((4, 5), np.float32), "shape \\(n, 4\\)"),
        (np.ones(16, np.float32), "shape \\(n, 4\\)"),
        (np.ones((3, 4), np.float32), "3 values for 4 ids"),
        (np.ones((4, 8), np.float32)[:, ::2], "ascontiguousarray"),
        (np.asfortranarray(np.random.random((4, 4)).astype(np.float32)), "ascontiguousarray"),
        ([[1, 2, 3, 4]] * 4, "no array"),
    ],
)
def test_bad_values(rows: wk.Table, values: object, message: str) -> None:
    for write in (rows.put, rows.insert, rows.update, rows.add, rows.merge):
        with pytest.raises((TypeError, ValueError), match=message):
            write(IDS, values)
    assert len(rows) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"out": np.ones((4, 4))}, "out.*float64"),
        ({"out": np.ones((3, 4), np.float32)}, "3 rows for 4 ids"),
        ({"out": READ_ONLY}, "out.*read-only"),
        ({"out": np.ones((4, 8), np.float32)[:, ::2]}, "out.*ascontiguousarray"),
        ({"found": np.ones(4, np.float32)}, "found.*float32.*bool"),
        ({"found": np.ones(3, bool)}, "found.*\\[3\\].*\\[4\\]"),
        ({"found": np.ones(8, bool)[::2]}, "found.*ascontiguousarray"),
        ({"versions": np.ones(4, np.int32)}, "versions.*int32.*uint64"),
        ({"fill": "x"}, "could not convert"),
        ({"durability": "never"}, "durability"),
    ],
)
def test_bad_answers(rows: wk.Table, arguments: dict[str, object], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        rows.lookup(IDS, **arguments)


def test_arrays_that_share_memory(rows: wk.Table) -> None:
    memory = np.zeros(64, np.uint64)
    out = memory[:8].view(np.float32).reshape(4, 4)
    with pytest.raises(ValueError, match="out and ids share memory"):
        rows.lookup(memory[4:8], out=out)
    with pytest.raises(ValueError, match="out and found share memory"):
        rows.lookup(IDS, out=out, found=memory[:1].view(bool)[:4])
    rows.lookup(memory[8:12], out=out, found=memory[12:13].view(bool)[:4], versions=memory[16:20])


def test_a_table_without_a_rule(store: wk.Store) -> None:
    plain = store.table("plain", value=wk.row("f32", 4))
    for write in (plain.add, plain.merge):
        with pytest.raises(TypeError, match="merge='add'"):
            write(IDS, ROWS)
    counts = store.table("counts", value=wk.row("u64", 2), merge="max")
    with pytest.raises(TypeError, match="max-u64"):
        counts.add(IDS, np.ones((4, 2), np.uint64))
    with pytest.raises(TypeError, match="8-byte"):
        plain.fetch_add(IDS, IDS)
    with pytest.raises(wk.Error, match="f32, f64"):
        store.table("bad", value=wk.row("f16", 4), merge="add")
    with pytest.raises(wk.Error, match="add-u64"):
        store.table("bad", value=wk.row("f32", 4), merge="average")
    with pytest.raises(TypeError, match="cannot be keys"):
        store.table("bad", key=wk.f32, value=wk.f32)
    with pytest.raises(wk.SpecError, match="1 to"):
        store.table("bad", key=wk.fixed(1000), value=wk.f32)
    assert "bad" not in store


def test_arrays_of_other_memory(rows: wk.Table) -> None:
    class Elsewhere:
        """An array that says it is on a device of another kind."""

        def __init__(self, kind: int) -> None:
            self.kind = kind

        def __dlpack_device__(self) -> tuple[int, int]:
            return (self.kind, 0)

        def __dlpack__(self, **_: object) -> object:
            return IDS.__dlpack__()

    with pytest.raises(TypeError, match="cuda:0"):
        rows.lookup(Elsewhere(2))
    with pytest.raises(TypeError, match="kind 10"):
        rows.lookup(Elsewhere(10))
    got, found = rows.lookup(Elsewhere(1))
    assert got.shape == (4, 4) and not found.any()


def test_dlpack(rows: wk.Table) -> None:
    class Tensor:
        """An array that is known by its capsule alone."""

        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

        def __dlpack__(self) -> object:
            return self.array.__dlpack__()

    class Used(Tensor):
        """One whose capsule was taken by another library."""

        def __dlpack__(self) -> object:
            class Once:
                def __dlpack__(once, **_: object) -> object:
                    return capsule

                def __dlpack_device__(once) -> tuple[int, int]:
                    return (1, 0)

            capsule = self.array.__dlpack__()
            np.from_dlpack(Once())
            return capsule

    rows.put(Tensor(IDS), Tensor(ROWS))
    out = np.zeros((4, 4), np.float32)
    rows.lookup(Tensor(IDS.view(np.int64)), out=Tensor(out))
    assert (out == 1).all()
    with pytest.raises(ValueError, match="do not lie one behind the other"):
        rows.lookup(Tensor(np.arange(8, dtype=np.uint64)[::2]))
    with pytest.raises(TypeError, match="float64"):
        rows.lookup(Tensor(np.zeros(4)))
    with pytest.raises(TypeError, match="not known"):
        rows.lookup(Tensor(np.zeros(4, np.complex64)))
    with pytest.raises(BufferError, match="again"):
        rows.lookup(Used(IDS))


def test_capsules_are_given_back(rows: wk.Table) -> None:
    import gc
    import weakref

    class Owner(np.ndarray):
        """An array that a weak reference can watch."""

    def owner() -> Owner:
        return np.arange(4, dtype=np.uint64).view(Owner)

    class Tensor:
        def __init__(self, array: Owner) -> None:
            self.array = array
            self.__dlpack_device__ = array.__dlpack_device__

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self) -> object:
            return self.array.__dlpack__()

    def fail(ids: object) -> None:
        with pytest.raises(ValueError, match="3 values"):
            rows.put(ids, ROWS[:3])

    use: Callable[[object], object]
    for use in (rows.lookup, fail):
        array = owner()
        watch = weakref.ref(array)
        use(Tensor(array))
        del array
        gc.collect()
        assert watch() is None


class Versioned:
    """An array that is known by a capsule with a version, as the newer libraries make them."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: object) -> object:
        assert options == {"max_version": (1, 0)}
        return self.array.__dlpack__(max_version=(1, 0))


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="SKIPPED: NumPy before 2.1 has no capsules with versions")
def test_read_only_arrays_of_other_libraries(rows: wk.Table) -> None:
    ids, values = IDS.copy(), ROWS.copy()
    for array in (ids, values):
        array.flags.writeable = False
    # To be read, they are as good as others.
    rows.put(Versioned(ids), Versioned(values))
    out, found = np.zeros((4, 4), np.float32), np.zeros(4, np.uint8)
    rows.lookup(Versioned(ids), out=Versioned(out), found=Versioned(found))
    assert (out == 1).all() and found.tolist() == [1] * 4
    out.flags.writeable = found.flags.writeable = False
    rows.delete(ids)
    for name, answers in (("out", {"out": Versioned(out)}), ("found", {"found": Versioned(found)})):
        with pytest.raises(ValueError, match=f"{name}: is read-only; give a copy"):
            rows.lookup(ids, **answers)
    assert (out == 1).all() and found.tolist() == [1] * 4


def test_libraries_whose_arrays_never_change(rows: wk.Table) -> None:
    """JAX gives capsules that look as if its arrays could be written to."""

    class ArrayImpl:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, **_: object) -> object:
            return self.array.__dlpack__()

    ArrayImpl.__module__ = "jaxlib._jax"
    assert rows.put(ArrayImpl(IDS), ArrayImpl(ROWS)).tolist() == [wk.Status.CREATED] * 4
    out = np.zeros((4, 4), np.float32)
    with pytest.raises(ValueError, match="out: a ArrayImpl never changes; give a NumPy array"):
        rows.lookup(ArrayImpl(IDS), out=ArrayImpl(out))
    assert (out == 0).all()
    got, found = rows.lookup(ArrayImpl(IDS))
    assert isinstance(got, np.ndarray) and isinstance(found, np.ndarray) and (got == 1).all()


def test_arrays_of_jax(rows: wk.Table) -> None:
    jax = pytest.importorskip("jax", reason="SKIPPED: no JAX")
    jax.config.update("jax_enable_x64", True)
    cpu = jax.devices("cpu")[0]
    ids, values = jax.device_put(IDS, cpu), jax.device_put(2 * ROWS, cpu)
    assert (rows.put(ids, values) == wk.Status.CREATED).all()
    got, found = rows.lookup(ids)
    # NumPy arrays, which JAX takes.
    assert isinstance(got, np.ndarray) and found.all() and bool((jax.numpy.asarray(got) == values).all())
    with pytest.raises(ValueError, match="never changes"):
        rows.lookup(ids, out=jax.numpy.zeros((4, 4), jax.numpy.float32))
    out = np.zeros((4, 4), np.float32)
    assert rows.lookup(ids, out=out)[0] is out and (out == 2).all()

"""Rows under ids, in arrays: write, read, add, look at a single one, open again.

    python quick_start.py [DIRECTORY]
"""

import sys
import tempfile

import numpy as np

import warpkeep as wk


def main(directory: str) -> None:
    with wk.open(directory) as store:
        items = store.table("items", key=wk.u64, value=wk.row("f32", 64), merge="add", capacity=10_000)

        ids = np.arange(10_000, dtype=np.uint64)
        rows = np.random.default_rng(1).standard_normal((10_000, 64)).astype(np.float32)
        # Survives the process when it returns; with durability="power", the machine.
        items.put(ids, rows)

        wanted = np.array([3, 5_000, 123_456], np.uint64)
        got, found = items.lookup(wanted)
        assert found.tolist() == [True, True, False]
        assert np.array_equal(got[0], rows[3]) and not got[2].any()

        # Into memory that the program has already.
        out, mask = np.empty((3, 64), np.float32), np.empty(3, bool)
        items.lookup(wanted, out=out, found=mask)

        # Gradients: all rows or none after a power cut, and no read before the write.
        items.add(wanted[:2], np.full((2, 64), 0.5, np.float32), durability="power")
        assert np.allclose(items[3], rows[3] + 0.5)

        # A mapping, for single keys.
        items[7] = np.zeros(64, np.float32)
        del items[8]
        print(len(items), "rows,", 8 in items, items.get(8))

    # Again, as after a restart: the table knows what it holds.
    with wk.open(directory) as store:
        items = store["items"]
        total = sum(len(keys) for keys, _ in items.scan(batch=4096))
        print(items, "scanned", total)
        assert total == 9_999


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as directory:
            main(directory)

#!/usr/bin/env python3
"""Fifty threads share five connections to an SQLite file without errors.

usage: sqlite_threads.py [ORDERS_PER_THREAD]
"""

import os
import sqlite3
import sys
import tempfile
import threading
import time

import cenote

THREADS, CONNECTIONS = 50, 5


def work(pool, orders, problems):
    for i in range(orders):
        try:
            with pool.acquire(timeout=60) as db, db:
                db.execute("insert into orders (who, what) values (?, ?)",
                           (threading.get_ident(), i))
        except Exception as error:  # printed at the end
            problems.append(error)


def main():
    orders = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "orders.db")
        with sqlite3.connect(path) as first:
            first.execute("pragma journal_mode = wal")
            first.execute("create table orders (who integer, what integer)")

        def connect():
            return sqlite3.connect(path, timeout=60, check_same_thread=False)

        pool = cenote.Pool(connect, close=lambda db: db.close(),
                           probe=lambda db: db.execute("select 1").fetchone() == (1,),
                           reset=lambda db: db.rollback(),
                           name=b"orders", max=CONNECTIONS)
        problems = []
        threads = [threading.Thread(target=work, args=(pool, orders, problems))
                   for _ in range(THREADS)]
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - begin
        opened, waited = pool.count("opened"), pool.count("waited")
        with pool.acquire() as db:
            kept, = db.execute("select count(*) from orders").fetchone()
        left = pool.close()
        print(f"{THREADS} threads, {opened} connections: {kept} orders in {took:.2f} s, "
              f"{waited} waits, {len(problems)} errors")
        for problem in problems[:5]:
            print(f"  {type(problem).__name__}: {problem}")
        return 0 if (kept == THREADS * orders and opened <= CONNECTIONS and left == 0
                     and not problems) else 1


if __name__ == "__main__":
    sys.exit(main())

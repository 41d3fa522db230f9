# SPDX-License-Identifier: GPL-2.0-only
# Two threads that make many objects and drop them. objects.py ROUNDS; prints each thread's sum of each round.
import sys
import threading

ROUNDS = int(sys.argv[1])
sums = {}


def work(own):
    for number in range(ROUNDS):
        rows = [(own + number + i, str(i), float(i)) for i in range(60_000)]
        sums[own, number] = sum(row[0] + len(row[1]) for row in rows)
        del rows


threads = [threading.Thread(target=work, args=(own,)) for own in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for key in sorted(sums):
    print("round", *key, sums[key])

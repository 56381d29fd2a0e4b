#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rank 0 owns the weights of a linear model; the others train it, each with data of its own.

A worker gets the weights when it likes, and puts its gradient into its own slot of the server,
which applies what has arrived. The server sleeps in drain() until a gradient or a loss is told.

nixlrun -np 4 --on-failure continue python3 parameter_server.py
"""

import numpy as np

import nixlrun

FEATURES, STEPS, RATE = 64, 200, 0.05
GRADIENT, APPLIED = 1, 2  # tags


def serve(job, weights, slots):
    """Apply gradients until each worker has left or died."""
    model = np.frombuffer(weights, np.float64)
    gradients = np.frombuffer(slots, np.float64).reshape(job.size, FEATURES)
    working, applied = set(range(1, job.size)), 0
    left = dict.fromkeys(working, STEPS)
    while working:
        drained = job.drain(timeout=60)
        for note in drained.notes:
            model -= RATE * gradients[note.rank] / (job.size - 1)
            applied += 1
            left[note.rank] -= 1
            job.notify(note.rank, APPLIED)
            if left[note.rank] == 0:
                working.discard(note.rank)
        for event in drained.events:
            working.discard(event.rank)
    return applied, model.copy()


def work(job, weights, slots, truth):
    """Compute gradients of the squared error on data that only this rank has."""
    random = np.random.default_rng(job.rank)
    model = np.zeros(FEATURES)
    for _ in range(STEPS):
        inputs = random.normal(size=(32, FEATURES))
        weights.get(0, model)
        gradient = inputs.T @ (inputs @ model - inputs @ truth) / len(inputs)
        slots.put(0, gradient, job.rank * FEATURES * 8, tag=GRADIENT)
        job.recv(0, APPLIED)


def main():
    truth = np.random.default_rng(0).normal(size=FEATURES)
    with nixlrun.Job() as job:
        if job.size < 2:
            raise SystemExit("needs at least 2 ranks: nixlrun -np 3 python3 parameter_server.py")
        if job.rank == 0:
            weights = job.region("weights", FEATURES * 8, no_put=True)
            slots = job.region("slots", job.size * FEATURES * 8)
            applied, model = serve(job, weights, slots)
            error = np.abs(model - truth).max()
            print(f"{applied} gradients of {job.size - 1} workers; error {error:.2g}")
        else:
            work(job, job.open("weights"), job.open("slots"), truth)


if __name__ == "__main__":
    main()

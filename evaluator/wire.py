"""The wire between referee and workers: the only module that both sides import.

Transport: one `AF_UNIX` stream socket per process. A frame is a 4-byte big-endian length and that
many bytes of UTF-8 JSON, an object; at most `MAX_FRAME_BYTES`. Nothing is ever pickled. Tensors
never travel in frames: they lie in shared memory files (memfd), whose descriptors are handed over
once, at spawn.

Shared memory of a session (one problem on one referee):
    inputs      written by the reference worker; mapped private by candidate workers (sealed
                against new writers, so that a candidate's write reaches only its own copy)
    state       parameters and buffers, likewise
    expected    written by the reference worker, never handed to a candidate: its float32
                outputs and the float64 outputs
    outputs     one per candidate worker, written by it, read by the referee
An *input set* is one value for each tensor input, laid out by `layout`; a *base* is the offset of
a set in `inputs`, a multiple of `ALIGNMENT_BYTES`.

Every request {"op": NAME, ...} has one reply: {"ok": true, ...} or {"ok": false, "status": STATUS,
"reason": CODE, "log": TEXT}. Nothing a candidate worker replies is trusted: shapes, bytes and the
referee's own clock decide.

Zygote (referee -> zygote)
    spawn   role ("reference" | "candidate" | "trace"), cpus, threads, memory_bytes, scratch (a
            private folder, its working and build folder), memory (names of the memfds passed, in
            order) + descriptors [channel, memfds...]   -> pid (as the referee sees it), isolation
    reap    pid, timeout_s                              -> exit (code, or negative signal) | null
Reference worker
    open    source, precision, seed    -> inputs, init, state, outputs (lists of value specs)
    draw    base, seed, variant        -> fills a set from get_inputs() and a hidden variation
    stock   seed, sets                 -> prepares a reservoir of own-distribution values
    mix     bases, seed                -> fills sets with contents never seen before, fast
    weights seed (null: as constructed) -> sets and publishes parameters and buffers in `state`
    expect  base, at                   -> float64 outputs at offset `at` of `expected`
    call    base, at                   -> own-precision outputs at offset `at` of `expected`
Candidate worker
    open    index, source, init, inputs, state, seed -> builds, imports and constructs ModelNew
    weights index                      -> loads `state`; loaded (false: names differ)
    call    index, base, poison        -> outputs in `outputs` (specs with offset)
    census  index, base, calls         -> facts about kernels
Both
    leg     index, bases               -> one call per base, outputs kept (empty: a round trip)
    ship    call, at                   -> writes the outputs of that call of the last leg
Trace worker
    trace   source, precision          -> graph
"""

from __future__ import annotations

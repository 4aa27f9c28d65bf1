"""Times of calls on a GPU, for the peers in PyTorch."""
import json
import sys

import torch


def arguments():
    """Of the command line: what follows each --mode, and the other words."""
    modes, words, given = [], [], sys.argv[1:]
    while given:
        a = given.pop(0)
        (modes if a == "--mode" else words).append(given.pop(0) if a == "--mode" else a)
    return modes, words


def captured(fn, calls):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            fn()
    return graph


def elapsed(fn):
    begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
    begin.record()
    fn()
    end.record()
    return begin, end


def stepped(step, n=30):
    """Median seconds of a training step, timed by events."""
    for _ in range(8):
        step()
    times = [elapsed(step) for _ in range(n)]
    torch.cuda.synchronize()
    return sorted(a.elapsed_time(b) for a, b in times)[n // 2] / 1e3


def graphed(fn, n=25, fill=5):
    """Median seconds of a call: n replays of a CUDA graph of as many calls as fill so many ms, timed by events."""
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for _ in range(3):
            fn()
    torch.cuda.current_stream().wait_stream(s)
    torch.cuda.synchronize()
    few = captured(fn, 4)  # a single call would be timed with its launch from the host
    few.replay()
    begin, end = elapsed(few.replay)
    torch.cuda.synchronize()
    inner = max(2, min(200, int(fill * 4 / max(begin.elapsed_time(end), 1e-3))))
    graph = captured(fn, inner)
    for _ in range(3):
        graph.replay()
    times = [elapsed(graph.replay) for _ in range(n)]
    torch.cuda.synchronize()
    return sorted(a.elapsed_time(b) for a, b in times)[n // 2] / inner / 1e3


def report(name, mode, measure, rates):
    """Prints measure() seconds as one JSON object; rates: from seconds, further fields."""
    try:
        seconds = measure()
    except Exception as e:  # a peer that fails is left out, with its reason
        print(f"{name} {mode}: {str(e)[:200]}", file=sys.stderr)
        torch.cuda.synchronize()
        return
    print(json.dumps({"name": name, "mode": mode, "seconds": seconds, **rates(seconds),
                      "peer": "torch", "version": torch.__version__}), flush=True)

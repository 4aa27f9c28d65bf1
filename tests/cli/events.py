"""Reads an event file by itself, checksums and all, and holds it to the log of the same training.
events.py FOLDER LOG WATCHED ELEMENTS"""
import glob, json, struct, sys, zlib

folder, log, watched, elements = sys.argv[1:]
TABLE = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
    TABLE.append(i)


def masked(data):
    crc = 0xFFFFFFFF
    for b in data:
        crc = crc >> 8 ^ TABLE[(crc ^ b) & 255]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(data, at):
    v = shift = 0
    while True:
        v |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return v, at


def fields(data):
    """A message as {field: [values]}."""
    out, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            v, at = varint(data, at)
        elif kind == 2:
            n, at = varint(data, at)
            v, at = data[at:at + n], at + n
            assert len(v) == n
        else:
            n = 8 if kind == 1 else 4
            v, at = struct.unpack("<d" if n == 8 else "<f", data[at:at + n])[0], at + n
        out.setdefault(key >> 3, []).append(v)
    return out


def records(path):
    data, at = open(path, "rb").read(), 0
    while at < len(data):
        head = data[at:at + 8]
        n, = struct.unpack("<Q", head)
        assert struct.unpack("<I", data[at + 8:at + 12])[0] == masked(head), "the length's checksum"
        body = data[at + 12:at + 12 + n]
        assert struct.unpack("<I", data[at + 12 + n:at + 16 + n])[0] == masked(body), "the data's checksum"
        at += 16 + n
        yield fields(body)


scalars, histograms, images, texts, nodes = {}, [], [], [], []
for path in sorted(glob.glob(folder + "/events.out.tfevents.*")):
    events = list(records(path))
    assert events[0][3] == [b"brain.Event:2"], events[0]
    for event in events[1:]:
        step = event[2][0]
        if 4 in event:
            nodes = [fields(x) for x in fields(event[4][0])[1]]
        for value in fields(event[5][0]).get(1, []) if 5 in event else []:
            value = fields(value)
            tag = value[1][0].decode()
            if 2 in value:
                scalars[step, tag] = value[2][0]
            if 5 in value:
                histograms.append((step, tag, fields(value[5][0])))
            if 4 in value:
                images.append((step, tag, fields(value[4][0])))
            if 8 in value:
                texts.append((tag, fields(value[8][0])[8][0].decode()))

lines, n = [json.loads(x) for x in open(log)], 0
for line in lines:
    for name, v in line.items():
        if name in ("step", "epoch", "seconds") or v is None:
            continue
        tag = "eval/" + name[5:] if name.startswith("eval_") else "train/" + name
        assert abs(scalars[line["step"], tag] - v) <= 1e-6 * abs(v), (line["step"], tag)
        n += 1
table = [x.rstrip("\n").split(",") for x in open(folder + "/scalars.csv")]
assert table[0] == ["step", "epoch", "seconds", "name", "value"] and len(table) == len(scalars) + 1, len(table)
for step, _, _, tag, v in table[1:]:
    assert abs(float(v) - scalars[int(step), tag]) <= 1e-6 * abs(float(v)), (step, tag)
assert n > 20

reports = {line["step"]: line for line in lines if watched + ".mean" in line}
assert {(s, t) for s, t, _ in histograms} == {(s, watched) for s in reports}
for step, _, h in histograms:
    limits, counts = (struct.unpack(f"<{len(h[f][0]) // 8}d", h[f][0]) for f in (6, 7))
    assert h[3] == [float(elements)] == [sum(counts)] and list(limits) == sorted(limits) and limits[-1] == h[2][0]
    assert abs(h[1][0] - reports[step][watched + ".min"]) < 1e-6 and abs(h[2][0] - reports[step][watched + ".max"]) < 1e-6
    assert abs(h[4][0] / h[3][0] - reports[step][watched + ".mean"]) < 1e-6

assert {t for _, t, _ in images} == {f"seen/image/{i}" for i in range(4)}
for _, _, im in images:
    png = im[4][0]
    assert im[1] == [8] and im[2] == [8] and im[3] == [3] and png[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed = 8, b""
    while at < len(png):
        size, = struct.unpack(">I", png[at:at + 4])
        assert zlib.crc32(png[at + 4:at + 8 + size]) == struct.unpack(">I", png[at + 8 + size:at + 12 + size])[0]
        packed += png[at + 8:at + 8 + size] if png[at + 4:at + 8] == b"IDAT" else b""
        at += 12 + size
    rows = zlib.decompress(packed)
    assert len(rows) == 8 * 25 and not any(rows[::25])
    assert rows[1] > 0 and len(set(rows)) > 20

names = {x[1][0] for x in nodes}
assert len(names) == len(nodes) > 20 and b"fc1/weight" in names and b"x" in names
assert all(i in names for x in nodes for i in x.get(3, []))
assert dict(texts)["configuration"].startswith("```\n+--") and "parameters" in dict(texts)["configuration"]
try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    print("no tensorboard here")
    sys.exit(0)
a = EventAccumulator(folder, size_guidance={"images": 0, "histograms": 0, "scalars": 0, "tensors": 0})
a.Reload()
for tag in a.Tags()["scalars"]:
    for event in a.Scalars(tag):
        assert scalars[event.step, tag] == event.value
assert len(a.Tags()["scalars"]) == len({t for _, t in scalars}) and len(a.Graph().node) == len(nodes)
assert len(a.Histograms(watched)) == len(histograms) and len(a.Images("seen/image/0")) == len(images) // 4
print("read by tensorboard, too")

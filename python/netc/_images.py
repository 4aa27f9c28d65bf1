"""Sets of images, and what of a dict of data the library reads by itself."""

import os


class Images:
    """A folder of PNG and JPEG images, a folder a class, or WebDataset's .tar archives, as data:
    m.train({"image": netc.Images("train/", resize=True), "label": netc.Images("train/")}).

    part: "images", "labels", or "stream" (images that stay in their files); None: by what the input
        wants. resize: images are scaled and cut to the input's size. skip_bad: those that cannot be
        decoded are left out, with a note. Both hold for all images of the dict.
    """

    def __init__(self, path, part=None, *, resize=False, skip_bad=False):
        self.path, self.part, self.resize, self.skip_bad = os.fspath(path), part, resize, skip_bad

    def __repr__(self):
        return f"<netc.Images {self.path}>"


def files(data):
    """The dict with paths as the extension takes them."""
    def one(v):
        if isinstance(v, Images):
            return v.path, v.part, v.resize, v.skip_bad
        if isinstance(v, tuple):
            return list(v)
        return os.fspath(v) if isinstance(v, os.PathLike) else v
    return {k: one(v) for k, v in data.items()} if isinstance(data, dict) else data

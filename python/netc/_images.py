"""Sets of images, and which values of a dict of data the library reads from files itself."""

import os

from ._path import encoded


class Images:
    """A folder of PNG and JPEG images with one subfolder per class, or WebDataset's .tar archives, as data:
    m.train({"image": netc.Images("train/", resize=True), "label": netc.Images("train/")}).

    part: "images", "labels", or "stream" (images are decoded when they are needed); None: what the input
        needs. resize: scale and crop images to the input's size. skip_bad: skip images that cannot be
        decoded, with a note. Both apply to all images of the dict.
    """

    def __init__(self, path, part=None, *, resize=False, skip_bad=False):
        self.path, self.part, self.resize, self.skip_bad = os.fspath(path), part, resize, skip_bad

    def __repr__(self):
        return f"<netc.Images {self.path}>"


def files(data):
    """The dict with its paths in the form that the extension takes."""
    def one(v):
        if isinstance(v, Images):
            return encoded(v.path), v.part, v.resize, v.skip_bad
        if isinstance(v, tuple):
            return list(v)
        return (encoded(v),) if isinstance(v, (str, os.PathLike)) else v
    return {k: one(v) for k, v in data.items()} if isinstance(data, dict) else data

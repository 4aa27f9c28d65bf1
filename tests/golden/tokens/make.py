"""Makes the texts, the small tokenizers and the expected tokens of this folder.

    pip install tokenizers==0.23.3 tiktoken==0.14.0 regex && python tests/golden/tokens/make.py

Tokenizers are trained on netc's own documents. Expected tokens are Hugging Face's (tokenizer.json, vocab.json)
and tiktoken's (ranks). Both take text only; of bytes that are not UTF-8 the pieces are those of the same pattern
over Python's "surrogateescape", and each piece's tokens tiktoken's own (Hugging Face's model gives the same).
"""
import base64
import json
import os
import random

import regex
import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""

MIXED = """“Don't,” she SAID—I'LL go; we've 1234567 reasons, ½ of them Ⅷ, ٣٤٥ or 五百.
Ünïcödé: naïve façade, Ελληνικά, Русский язык, עִבְרִית, العَرَبِيَّة, हिन्दी में लिखा, ไทยไม่มีช่องว่าง.
日本語の文章です。「カタカナ」と漢字、한국어 문장입니다. 中文没有空格,标点也不同!
e\u0301 is not é, nor n\u0303 ñ; a\u0300\u0301\u0302\u0303 is a tower. \u200bzero\u200dwidth\ufeff
👩‍👩‍👧‍👦 👍🏽 🇩🇪🏳️‍🌈 🤷‍♀️ ✨\u3000wide\u00a0hard\u2028line\u2029paragraph\u0085next
\t\ttabs  and   runs    of     spaces\r\nCRLF\r\n\r\n\n\n  trailing   
<|endoftext|>special<|pad|> <|endoftext|><|endoftext|>'ſ 'S 'Ll 𝒜𝓁𝑔 𐐷𐑌 ǅungla ʼn ß İstanbul \x00\x7f
""" + " " * 40 + "a" * 300 + "\n" + "=" * 200 + "\n   \n "


def texts():
    code = open(os.path.join(ROOT, "lib", "generate", "draw.c"), "rb").read() + open(os.path.join(ROOT, "samples", "shakespeare", "gpt.net"), "rb").read()
    rng = random.Random(7)
    whole, broken = MIXED.encode(), bytearray()
    while len(broken) < 4000:
        k = rng.random()
        at = rng.randrange(len(whole))
        if k < 0.5:  # cut anywhere
            broken += whole[at : at + rng.randrange(1, 40)]
        elif k < 0.7:
            broken += bytes(rng.randrange(256) for _ in range(rng.randrange(1, 6)))
        elif k < 0.8:  # overlong, surrogates, beyond the end, lone continuations
            broken += rng.choice([b"\xc0\xaf", b"\xe0\x80\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"\x80\x80", b"\xff\xfe", b"\xe2\x82", b"\xf0\x9f\x98"])
        else:
            broken += rng.choice([b" the ", b"\n\n  ", b" 12345 ", b"'s ", b"    x", b"\t"])
    return {"code.txt": code, "mixed.txt": MIXED.encode(), "broken.txt": bytes(broken)}


def corpus():
    for name in sorted(os.listdir(os.path.join(ROOT, "docs"))):
        if name.endswith(".md") and name != "status.md":
            yield open(os.path.join(ROOT, "docs", name)).read()
    for _ in range(3):
        yield MIXED


def train(cut, size):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = cut
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def level():
    alphabet = [*range(33, 127), *range(161, 173), *range(174, 256)]
    chars = alphabet + [b for b in range(256) if b not in alphabet]
    return {b: chr(b if b in alphabet else 256 + i - len(alphabet)) for i, b in enumerate(chars)}


def to_bytes(token, back):
    return bytes(back[c] for c in token)


def write(name, ids):
    with open(os.path.join(HERE, name), "w") as f:
        f.write(" ".join(map(str, ids)) + "\n")


def encoder(pattern, ranks, special):
    return tiktoken.Encoding("small", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)


def of_bytes(text, pattern, enc, shift=lambda i: i, special=None):
    """Tokens of any bytes: pieces over surrogateescape, each piece by tiktoken's merges."""
    special = special or {}
    parts = regex.split("(" + "|".join(map(regex.escape, special)) + ")", text.decode("utf-8", "surrogateescape")) if special else [text.decode("utf-8", "surrogateescape")]
    out = []
    for part in parts:
        if part in special:
            out.append(special[part])
            continue
        for m in regex.finditer(pattern, part):
            out += [shift(i) for i in enc._encode_single_piece(m.group().encode("utf-8", "surrogateescape"))]
    return out


def main():
    files = texts()
    for name, text in files.items():
        open(os.path.join(HERE, name), "wb").write(text)
    chars = level()
    back = {c: b for b, c in chars.items()}

    # GPT-2's files, and the same as a tokenizer.json, whose specials stand behind the vocabulary.
    t = train(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True), 700)
    t.model.save(HERE)
    vocab = t.get_vocab()
    special = {"<|endoftext|>": len(vocab), "<|pad|>": len(vocab) + 1}
    t.add_special_tokens(["<|endoftext|>"])
    t.add_tokens([AddedToken("<|pad|>", normalized=True)])
    t.save(os.path.join(HERE, "gpt2.json"))
    ranks = {to_bytes(k, back): i for k, i in vocab.items()}
    enc = encoder(GPT2, ranks, {})
    for name, text in files.items():
        if name == "broken.txt":
            write("broken.vocab.ids", of_bytes(text, GPT2, enc))
            write("broken.gpt2.ids", of_bytes(text, GPT2, enc, special=special))
            for m in list(regex.finditer(GPT2, text.decode("utf-8", "surrogateescape")))[:400]:
                piece = m.group().encode("utf-8", "surrogateescape")
                hugging = [k.id for k in t.model.tokenize("".join(chars[b] for b in piece))]
                assert hugging == enc._encode_single_piece(piece), piece
        else:
            s = text.decode()
            ids = t.encode(s, add_special_tokens=False).ids
            assert ids == of_bytes(text, GPT2, enc, special=special) and t.decode(ids, skip_special_tokens=False) == s
            write(name[:-4] + ".gpt2.ids", ids)
            plain = enc.encode_ordinary(s)
            assert plain == of_bytes(text, GPT2, enc)
            write(name[:-4] + ".vocab.ids", plain)

    # As Llama 3 has it: a Split by a pattern, then bytes; whole pieces before merges.
    t = train(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA), behavior="isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), 900)
    vocab = t.get_vocab()
    ranks = {to_bytes(k, back): i for k, i in vocab.items()}
    t.model.ignore_merges = True
    t.add_special_tokens(["<|endoftext|>"])
    t.save(os.path.join(HERE, "llama3.json"))
    with open(os.path.join(HERE, "small.tiktoken"), "w") as f:
        for token, i in sorted(ranks.items(), key=lambda x: x[1]):
            f.write(f"{base64.b64encode(token).decode()} {i}\n")
    special = {"<|endoftext|>": len(vocab)}
    cl100k = r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
    enc, enc2 = encoder(LLAMA, ranks, {}), encoder(cl100k, ranks, {})
    for name, text in files.items():
        if name == "broken.txt":
            write("broken.llama3.ids", of_bytes(text, LLAMA, enc, special=special))
            write("broken.ranks.ids", of_bytes(text, cl100k.replace("$", r"\Z"), enc2))
        else:
            s = text.decode()
            ids = t.encode(s, add_special_tokens=False).ids
            assert t.decode(ids, skip_special_tokens=False) == s
            write(name[:-4] + ".llama3.ids", ids)
            write(name[:-4] + ".ranks.ids", enc2.encode_ordinary(s))


main()

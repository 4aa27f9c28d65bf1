"""Pygments lexer of netc's .net files: pygmentize -x -l netc_lexer.py:NetcLexer mlp.net"""
from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Whitespace

__all__ = ["NetcLexer"]

CONTROL = ("if", "else", "then", "for", "in", "as", "reuse", "return")
WORD_OPERATORS = ("and", "or", "not")
CONSTANTS = ("true", "false", "inf", "nan")
HEADS = ("fn", "extern", "model", "train", "use", "const", "dim", "setting", "entry", "cell", "module",
         "param", "state", "scratch", "loop", "emit", "tap", "assert", "minimize", "clip", "update",
         "evaluate", "recompute", "out", "launch", "reference", "cpu", "accumulate")
CLAUSES = ("with", "over", "carry", "while", "from", "cuda", "grad", "frozen")
TYPES = ("bool", "u8", "i32", "u32", "i64", "bf16", "f16", "f32", "f64")
NO_OPERAND = r"(?!(?:in|as|reuse|and|or|then|else|with|over|carry|while|frozen|for|from|if)\b)"


class NetcLexer(RegexLexer):
    name = "netc"
    aliases = ["netc"]
    filenames = ["*.net"]
    tokens = {
        "root": [
            (r"\s+", Whitespace),
            (r"#[^\n]*", Comment.Single),
            (r'"(?:[^"\\\n]|\\[^\n])*"', String.Double),
            (r"'(?:[^'\\\n]|\\[^\n])*'", String.Single),
            (r"(fn|model)(\s+)([A-Za-z_]\w*)", bygroups(Keyword.Declaration, Whitespace, Name.Function)),
            (r"(\.)([A-Za-z_]\w*)", bygroups(Punctuation, Name.Attribute)),
            (words(HEADS, prefix=r"\b", suffix=r"\b(?=\s+" + NO_OPERAND + r"[\w\"'])"), Keyword),
            (r"(?:tap|assert|minimize|accumulate)\b(?=\s*[({-])", Keyword),
            (r"reference\b(?=\s*\{)", Keyword),
            (r"frozen\b(?=\s*(?:[#;}]|$))", Keyword),
            (words(CLAUSES, prefix=r"\b", suffix=r"\b(?=\s+[\w\"'])"), Keyword),
            (r"(\})(\s*)(grad)(?=\s*\()", bygroups(Punctuation, Whitespace, Keyword)),
            (words(CONSTANTS + ("none",), prefix=r"\b", suffix=r"\b"), Keyword.Constant),
            (words(WORD_OPERATORS, prefix=r"\b", suffix=r"\b"), Operator.Word),
            (words(CONTROL, prefix=r"\b", suffix=r"\b"), Keyword),
            (words(TYPES, prefix=r"\b", suffix=r"\b"), Keyword.Type),
            (r"0[xX][0-9a-fA-F_]+", Number.Hex),
            (r"\d(?:_?\d)*(?:\.\d(?:_?\d)*(?:[eE][+-]?\d+)?|[eE][+-]?\d+)", Number.Float),
            (r"\d(?:_?\d)*", Number.Integer),
            (r"[A-Za-z_]\w*(?=\()", Name.Function),
            (r"[A-Za-z_]\w*", Name),
            (r"<-|->|\.\.\.|\.\.|[=!<>]=|//|\*\*|[-+*/%=<>]", Operator),
            (r"@\{|[(){}\[\],;:.]", Punctuation),
        ],
    }
